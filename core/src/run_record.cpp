// SPDX-License-Identifier: Apache-2.0
// The run record as JSON. describe() names the fields of each type once, in order; the writer and
// the reader below both walk it, so that neither can know a field that the other does not.
#include "faultline/core/run_record.hpp"

#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "enum_names.hpp"
#include "faultline/core/errors.hpp"
#include "json_text.hpp"
#include "text.hpp"

namespace faultline::core {

namespace {

using detail::Json;

/// X is T or const T: one description serves the writer and the reader.
template <class X, class T>
concept Is = std::same_as<std::remove_const_t<X>, T>;

/// Timings of arms and configs: provenance, kept apart from the results they belong to.
struct Elapsed {
  std::vector<std::uint64_t> arms, configs;
  std::vector<double> mutants_s;  ///< of the cells of the kill matrix, row by row
};

/// Provenance as it is written: with the timings taken out of the evidence.
struct FullProvenance {
  Provenance provenance;
  Elapsed elapsed;
};

template <class A, Is<SourceLocation> T>
void describe(A& a, T& x) {
  a("file", x.file);
  a("line", x.line);
  a("function", x.function);
}

template <class A, Is<AccessSite> T>
void describe(A& a, T& x) {
  a("kernel", x.kernel);
  a("instruction", x.instruction);
  a("where", x.where);
  a("actor", x.actor);
  a("is_write", x.is_write);
  a("async_proxy", x.async_proxy);
}

template <class A, Is<RaceReport> T>
void describe(A& a, T& x) {
  a("kind", x.kind);
  a("space", x.space);
  a("buffer", x.buffer);
  a("byte_begin", x.byte_begin);
  a("byte_end", x.byte_end);
  a("first", x.first);
  a("second", x.second);
  a("cross_cta", x.cross_cta);
  a("cross_launch", x.cross_launch);
  a("cross_device", x.cross_device);
  a("missing_proxy_fence", x.missing_proxy_fence);
  a("note_only", x.note_only);
  a("count", x.count);
  a("missing_edge", x.missing_edge);
}

template <class A, Is<AccessStatistics> T>
void describe(A& a, T& x) {
  a("where", x.where);
  a("instruction", x.instruction);
  a("space", x.space);
  a("is_write", x.is_write);
  a("requests", x.requests);
  a("sectors", x.sectors);
  a("ideal_sectors", x.ideal_sectors);
  a("lane_stride_bytes", x.lane_stride_bytes);
  a("lanes", x.lanes);
  a("distinct_addresses", x.distinct_addresses);
}

template <class A, Is<TileGeometry> T>
void describe(A& a, T& x) {
  a("rows", x.rows);
  a("cols", x.cols);
  a("tile_rows", x.tile_rows);
  a("tile_cols", x.tile_cols);
  a("tiles_per_group", x.tiles_per_group);
  a("pipeline_depth", x.pipeline_depth);
  a("tile_axis", x.tile_axis);
}

template <class A, Is<TileTotals> T>
void describe(A& a, T& x) {
  a("bad_trials", x.bad_trials);
  a("bad_elements", x.bad_elements);
  a("not_finite", x.not_finite);
  a("poison", x.poison);
  a("no_reference", x.no_reference);
  a("worst_ratio", x.worst_ratio);
  a("worst_ulps", x.worst_ulps);
  a("first_bad_index", x.first_bad_index);
}

template <class A, Is<OutputTotals> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("dtype", x.dtype);
  a("geometry", x.geometry);
  a("compared_elements", x.compared_elements);
  a("bad_trials", x.bad_trials);
  a("bad_elements", x.bad_elements);
  a("not_finite", x.not_finite);
  a("poison", x.poison);
  a("no_reference", x.no_reference);
  a("worst_ratio", x.worst_ratio);
  a("worst_ulps", x.worst_ulps);
  a("worst_error", x.worst_error);
  a("worst_rounded_error", x.worst_rounded_error);
  a("worst_error_expected", x.worst_error_expected);
  a("sum_squared_error", x.sum_squared_error);
  a("sum_squared_expected", x.sum_squared_expected);
  a.unless_empty("ratio_bins", x.ratio_bins);
  a.unless_empty("ulp_bins", x.ulp_bins);
  a.unless_default("bins_every", x.bins_every, 1);
  a("tiles", x.tiles);
}

template <class A, Is<Capture> T>
void describe(A& a, T& x) {
  a("trial", x.trial);
  a("input_seed", x.input_seed);
  a("poison", x.poison);
  a("outputs", x.outputs);
}

template <class A, Is<WrongTile> T>
void describe(A& a, T& x) {
  a("output", x.output);
  a("tile", x.tile);
  a("bad_elements", x.bad_elements);
  a("worst_ratio", x.worst_ratio);
}

template <class A, Is<FailedTrial> T>
void describe(A& a, T& x) {
  a("trial", x.trial);
  a("input_seed", x.input_seed);
  a("status", x.status);
  a("bad_elements", x.bad_elements);
  a("raced", x.raced);
  a("bad_outputs", x.bad_outputs);
  a("changed_inputs", x.changed_inputs);
  a.unless_empty("wrong_tiles", x.wrong_tiles);
}

template <class A, Is<ChangedInput> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("trials", x.trials);
  a("elements", x.elements);
  a("first_element", x.first_element);
}

template <class A, Is<OutputHashes> T>
void describe(A& a, T& x) {
  a("input_seed", x.input_seed);
  a("hashes", x.hashes);
}

template <class A, Is<TrialResult> T>
void describe(A& a, T& x) {
  a("trials", x.trials);
  a("failed", x.failed);
  a("wrong_values", x.wrong_values);
  a("raced", x.raced);
  a("abnormal", x.abnormal);
  a("outputs", x.outputs);
  a("races", x.races);
  a("accesses", x.accesses);
  a("changed_inputs", x.changed_inputs);
  a("inputs_checked", x.inputs_checked);
  a("failures", x.failures);
  a("captures", x.captures);
  a("input_sets", x.input_sets);
  a("distinct_outputs", x.distinct_outputs);
  a("output_hashes", x.output_hashes);
  a("gate_samples", x.gate_samples);
  a("gate_worst", x.gate_worst);
  a("status", x.status);
  a("message", x.message);
  a("details", x.details);
  a.or_null("first_failed_trial", x.first_failed_trial, ~std::uint64_t{0});
  a("batch", x.batch);
  a("overlap_proven", x.overlap_proven);
  a.unless_default("held_sms", x.held_sms, 0);
  a.unless_default("ran_ahead", x.ran_ahead, 0);
  a.unless_default("ran_ahead_of", x.ran_ahead_of, 0);
  a("note", x.note);
  a("skipped", x.skipped);
  a("thread_instructions", x.thread_instructions);
}

template <class A, Is<Perturbation> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("sync_each", x.sync_each);
  a("wait", x.wait);
  a("wait_ns", x.wait_ns);
  a("reload_module", x.reload_module);
  a("pool_bytes", x.pool_bytes);
  a("flush_l2", x.flush_l2);
  a("co_resident", x.co_resident);
  a("graph_trials", x.graph_trials);
  a("batch", x.batch);
  a("ctas_per_sm", x.ctas_per_sm);
  a("fresh_inputs", x.fresh_inputs);
  a.unless_default("blocker_ns", x.blocker_ns, 0);
  a.unless_default("free_sms", x.free_sms, 0);
  a.unless_default("dirty_shared", x.dirty_shared, false);
  a.unless_default("offset_bytes", x.offset_bytes, 0);
  a.unless_default("calls", x.calls, 1);
  a("policy", x.policy);
  a("lateness", x.lateness);
  a("one_stream", x.one_stream);
  a("eager", x.eager);
  a("delay_sites", x.delay_sites);
  a("delay_site", x.delay_site);
  a("delay_ns", x.delay_ns);
  a("delay_seed", x.delay_seed);
}

template <class A, Is<Interval> T>
void describe(A& a, T& x) {
  a("low", x.low);
  a("high", x.high);
}

template <class A, Is<ArmEvidence> T>
void describe(A& a, T& x) {
  a("perturbation", x.perturbation);
  a("result", x.result);
  a("wilson95", x.wilson95);
  a("upper95", x.upper95);
  a("token", x.token);
  a("failed_here_only", x.failed_here_only);
  a("failed_there_only", x.failed_there_only);
  a("log_e", x.log_e);
}

template <class A, Is<ConfigEvidence> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("result", x.result);
  a("failed", x.failed);
  a("error_sample", x.error_sample);
  a("token", x.token);
  a("tile_k", x.tile_k);
  a("reduction", x.reduction);
  a("tile_rows", x.tile_rows);
  a("rows", x.rows);
}

template <class A, Is<ProvenanceEvidence> T>
void describe(A& a, T& x) {
  a("output", x.output);
  a("output_name", x.output_name);
  a("destination", x.destination);
  a("source", x.source);
  a("wrong", x.wrong);
  a("matched", x.matched);
  a("pipeline_depth", x.pipeline_depth);
}

template <class A, Is<AlternativeEvidence> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("finding", x.finding);
  a("output", x.output);
  a("wrong", x.wrong);
  a("matched", x.matched);
}

template <class A, Is<RepeatEvidence> T>
void describe(A& a, T& x) {
  a("repeats", x.repeats);
  a("distinct", x.distinct);
}

template <class A, Is<ErrorShapeEvidence> T>
void describe(A& a, T& x) {
  a("wrong_elements", x.wrong_elements);
  a("power_of_two_errors", x.power_of_two_errors);
  a("equal_poison", x.equal_poison);
  a("median_error", x.median_error);
  a("largest_error", x.largest_error);
  a("rounding_explained", x.rounding_explained);
  a("same_poison_pairs", x.same_poison_pairs);
  a("same_poison_differing", x.same_poison_differing);
  a("other_poison_pairs", x.other_poison_pairs);
  a("other_poison_differing", x.other_poison_differing);
  a("smaller", x.smaller);
  a("overwritten", x.overwritten);
  a("guarded", x.guarded);
  a("displaced", x.displaced);
}

template <class A, Is<ErrorReading> T>
void describe(A& a, T& x) {
  a("kind", x.kind);
  a("output", x.output);
  a("wrong", x.wrong);
  a("matched", x.matched);
  a("tiles", x.tiles);
  a("detail", x.detail);
  a("other", x.other);
  a("value", x.value);
  a.unless_default("source", x.source, std::string());
}

template <class A, Is<FootprintEvidence> T>
void describe(A& a, T& x) {
  a("output", x.output);
  a("kind", x.kind);
  a("block_rows", x.block_rows);
  a("block_cols", x.block_cols);
  a("trials", x.trials);
  a("patterns", x.patterns);
  a("wrong", x.wrong);
  a("compared", x.compared);
  a("hit", x.hit);
  a("blocks", x.blocks);
  a("hit_blocks", x.hit_blocks);
  a("density", x.density);
  a("runner_up", x.runner_up);
  a("runner_up_rows", x.runner_up_rows);
  a("runner_up_cols", x.runner_up_cols);
  a("log10_ratio", x.log10_ratio);
}

template <class A, Is<TemplateEvidence> T>
void describe(A& a, T& x) {
  a("kind", x.kind);
  a("output", x.output);
  a("tile", x.tile);
  a("detail", x.detail);
  a("other", x.other);
  a("first_row", x.first_row);
  a("rows", x.rows);
  a("elements", x.elements);
  a("r_squared", x.r_squared);
}

template <class A, Is<ExperimentEvidence> T>
void describe(A& a, T& x) {
  a("kind", x.kind);
  a("change", x.change);
  a("baseline", x.baseline);
  a("before_trials", x.before_trials);
  a("before_wrong", x.before_wrong);
  a("after_trials", x.after_trials);
  a("after_wrong", x.after_wrong);
  a("token", x.token);
  a("place", x.place);
  a("left_out", x.left_out);
}

template <class A, Is<TermOutputEvidence> T>
void describe(A& a, T& x) {
  a("output", x.output);
  a("visibility", x.visibility);
  a("wrong", x.wrong);
  a("coefficient", x.coefficient);
  a("r_squared", x.r_squared);
}

template <class A, Is<TermEvidence> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("name", x.name);
  a("terms", x.terms);
  a("kind", x.kind);
  a("visibility", x.visibility);
  a("elements", x.elements);
  a("excluded", x.excluded);
  a("coefficient", x.coefficient);
  a("r_squared", x.r_squared);
  a("standard_error", x.standard_error);
  a("first_row_coefficient", x.first_row_coefficient);
  a("first_row_r_squared", x.first_row_r_squared);
  a("last_row_coefficient", x.last_row_coefficient);
  a("last_row_r_squared", x.last_row_r_squared);
  a("size_ratio", x.size_ratio);
  a("size_explained", x.size_explained);
  a("outputs", x.outputs);
  a("left_out", x.left_out);
}

template <class A, Is<TermCombinationEvidence> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("names", x.names);
  a("coefficients", x.coefficients);
  a("r_squared", x.r_squared);
}

template <class A, Is<GrowthEvidence> T>
void describe(A& a, T& x) {
  a("output", x.output);
  a("config", x.config);
  a("others", x.others);
  a("length", x.length);
  a("chunks", x.chunks);
  a("relative_l2", x.relative_l2);
  a("worst_ratio", x.worst_ratio);
  a("wrong", x.wrong);
}

template <class A, Is<IntermediateEvidence> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("name", x.name);
  a("is_output", x.is_output);
  a("compared", x.compared);
  a("wrong", x.wrong);
  a("worst_ratio", x.worst_ratio);
  a("first_tile", x.first_tile);
  a("last_tile", x.last_tile);
  a("tiles", x.tiles);
  a("tile_axis", x.tile_axis);
}

template <class A, Is<ReferenceNoteEvidence> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("output", x.output);
  a("kind", x.kind);
  a("text", x.text);
}

template <class A, Is<Evidence> T>
void describe(A& a, T& x) {
  a("subject", x.subject);
  a("variant", x.variant);
  a("problem", x.problem);
  a("backend", x.backend);
  a("backend_is_model", x.backend_is_model);
  a("declared_deterministic", x.declared_deterministic);
  a("mode", x.mode);
  a("interrupted", x.interrupted);
  a("null_outputs_accepted", x.null_outputs_accepted);
  a("reference_notes", x.reference_notes);
  a("asynchronous_instructions", x.asynchronous_instructions);
  a("contract_violations", x.contract_violations);
  a("alternatives", x.alternatives);
  a("reloading_launches", x.reloading_launches);
  a("launches", x.launches);
  a("streams", x.streams);
  a("shared_memory", x.shared_memory);
  a("repeat", x.repeat);
  a("error_shape", x.error_shape);
  a("provenance", x.provenance);
  a("hypothesis", x.hypothesis);
  a("declared_weakness", x.declared_weakness);
  a("not_examined", x.not_examined);
  a("terms", x.terms);
  a("term_combinations", x.term_combinations);
  a("growth", x.growth);
  a("intermediates", x.intermediates);
  a("readings", x.readings);
  a.unless_empty("footprints", x.footprints);
  a.unless_empty("templates", x.templates);
  a("experiments", x.experiments);
  a("races", x.races);
  a("accesses", x.accesses);
  a("arms", x.arms);
  a("configs", x.configs);
}

template <class A, Is<Finding> T>
void describe(A& a, T& x) {
  a("class", x.finding);
  a("severity", x.severity);
  a("headline", x.headline);
  a("evidence", x.evidence);
  a("runner_up", x.runner_up);
  a("runner_up_reason", x.runner_up_reason);
  a("confidence", x.confidence);
  a("advice", x.advice);
}

template <class A, Is<Verdict> T>
void describe(A& a, T& x) {
  a("outcome", x.outcome);
  a("summary", x.summary);
  a("findings", x.findings);
}

template <class A, Is<SourceExcerpt> T>
void describe(A& a, T& x) {
  a("file", x.file);
  a("first_line", x.first_line);
  a("marked_line", x.marked_line);
  a("lines", x.lines);
}

template <class A, Is<BenchRow> T>
void describe(A& a, T& x) {
  a("problem", x.problem);
  a("config", x.config);
  a("name", x.name);
  a("median_graph_us", x.median_graph_us);
  a("spread_graph", x.spread_graph);
  a("median_event_us", x.median_event_us);
  a("spread_event", x.spread_event);
  a("bytes", x.bytes);
  a("tb_per_s", x.tb_per_s);
  a("fraction_of_ceiling", x.fraction_of_ceiling);
  a("ratio_to_baseline", x.ratio_to_baseline);
  a("contaminated", x.contaminated);
  a("note", x.note);
}

template <class A, Is<KillCell> T>
void describe(A& a, T& x) {
  a("detector", x.detector);
  a("ran", x.ran);
  a("note", x.note);
  a("outcome", x.outcome);
  a("classes", x.classes);
  a("killed", x.killed);
  a("right", x.right);
  a("trials", x.trials);
  a("failed", x.failed);
  a("trials_to_kill", x.trials_to_kill);
}

template <class A, Is<KillRow> T>
void describe(A& a, T& x) {
  a("subject", x.subject);
  a("variant", x.variant);
  a("clean_twin", x.clean_twin);
  a("is_mutant", x.is_mutant);
  a("required", x.required);
  a("problem", x.problem);
  a("config", x.config);
  a("cells", x.cells);
  a("killed", x.killed);
  a("no_evidence", x.no_evidence);
  a("right", x.right);
}

template <class A, Is<BackendInfo> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("device", x.device);
  a("driver", x.driver);
  a("runtime", x.runtime);
  a("multiprocessors", x.multiprocessors);
  a("l2_bytes", x.l2_bytes);
  a("is_model", x.is_model);
}

template <class A, Is<Elapsed> T>
void describe(A& a, T& x) {
  a("arms", x.arms);
  a("configs", x.configs);
  a("mutants_s", x.mutants_s);
}

template <class A, Is<FullProvenance> T>
void describe(A& a, T& x) {
  a("faultline_version", x.provenance.faultline_version);
  a("started_at", x.provenance.started_at);
  a("duration_s", x.provenance.duration_s);
  a("host", x.provenance.host);
  a("command_line", x.provenance.command_line);
  a("backend", x.provenance.backend);
  a("elapsed_ns", x.elapsed);
}

struct ModuleHash {
  std::string name, hash;
};

template <class A, Is<ModuleHash> T>
void describe(A& a, T& x) {
  a("name", x.name);
  a("hash", x.hash);
}

template <class A, Is<RunRecord> T>
void describe(A& a, T& x) {
  int version = RunRecord::kSchemaVersion;
  a("schema_version", version);
  a("command", x.command);
  a("subject", x.subject);
  a("variant", x.variant);
  a("problem", x.problem);
  a("config", x.config);
  a("seed", x.seed);
  a("analysis_plan", x.analysis_plan);
  a("module_hashes", x.module_hashes);
  a("verdict", x.verdict);
  a("replay_lines", x.replay_lines);
  a("excerpts", x.excerpts);
  a("bench", x.bench);
  a("mutants", x.mutants.rows);
  a("evidence", x.evidence);
}

// ------------------------------------------------------------------------------------------
// Writing

/// Largest integer that readers with doubles for numbers keep exact; beyond it integers are written
/// as text.
constexpr std::uint64_t kExactInteger = std::uint64_t{1} << 53;

class Writer {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    object_[key] = of(value);
  }
  template <class T>
  void or_null(const char* key, const T& value, T sentinel) {
    object_[key] = value == sentinel ? Json(nullptr) : of(value);
  }
  template <class T>
  void unless_empty(const char* key, const std::vector<T>& values) {
    if (!values.empty()) {
      object_[key] = of(values);
    }
  }
  template <class T>
  void unless_default(const char* key, const T& value, std::type_identity_t<T> usual) {
    if (value != usual) {
      object_[key] = of(value);
    }
  }
  Json take() && { return std::move(object_); }

  template <class T>
  static Json of(const T& value) {
    Writer writer;
    describe(writer, value);
    return std::move(writer).take();
  }
  static Json of(const bool& value) { return value; }
  static Json of(const std::string& value) { return value; }
  static Json of(const double& value) {
    if (std::isfinite(value)) {
      return value;
    }
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  template <class T>
  requires(std::is_enum_v<T>) static Json of(const T& value) {
    return std::string(detail::enum_name(value));
  }
  template <class T>
  requires(std::is_integral_v<T>) static Json of(const T& value) {
    const std::uint64_t magnitude = value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                                              : static_cast<std::uint64_t>(value);
    return magnitude <= kExactInteger ? Json(value) : Json(std::to_string(value));
  }
  template <class T>
  static Json of(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) {
      array.push_back(of(value));
    }
    return array;
  }
  template <class T>
  static Json of(const std::optional<T>& value) {
    return value ? of(*value) : Json(nullptr);
  }
  static Json of(const std::pair<std::string, std::string>& value) {
    const ModuleHash named{value.first, value.second};
    return of(named);
  }
  static Json of(const Tensor& value) {
    Json object;
    object["dtype"] = of(value.dtype);
    object["shape"] = of(value.shape);
    object["base64url"] =
        detail::base64url({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
    return object;
  }

 private:
  Json object_ = Json::object();
};

// ------------------------------------------------------------------------------------------
// Reading

/// Where in the document, for messages.
struct Place {
  const Place* parent = nullptr;
  std::string_view key;
  std::size_t index = 0;
  bool earlier_version = false;  ///< of the top: keys may be missing

  bool may_lack_keys() const { return parent ? parent->may_lack_keys() : earlier_version; }
  std::string pointer() const {
    if (!parent) {
      return {};
    }
    std::string text = parent->pointer() + "/";
    if (key.data() == nullptr) {
      return text + std::to_string(index);
    }
    for (const char c : key) {  // RFC 6901
      text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    return text;
  }
};

[[noreturn]] void refuse(const Place& place, const std::string& why) {
  const std::string pointer = place.pointer();
  throw UsageError(fmt::format("not a run record of faultline: at {} {}",
                               pointer.empty() ? "the top level" : pointer, why));
}

[[noreturn]] void refuse_type(const Place& place, const Json& value, std::string_view expected) {
  std::string found = value.is_structured()
                          ? std::string(value.type_name())
                          : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (found.size() > 60) {
    found = found.substr(0, 60) + "...";
  }
  refuse(place, fmt::format("there is {} instead of {}", found, expected));
}

/// Keys that records of version 1 may lack. Any other that is missing would be read as a zero.
bool is_of_version_2(std::string_view key) {
  static constexpr std::string_view kKeys[] = {
      "output_hashes", "one_stream", "eager",       "delay_sites", "delay_site", "delay_ns",
      "delay_seed",    "readings",   "experiments", "no_evidence", "streams",    "shared_memory"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

/// What a record must hold to be used: reports draw a square for each tile.
template <class T>
void check(const T& /*value*/, const Place& /*place*/) {}

void check(const TileGeometry& geometry, const Place& place) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40, kMostTiles = std::int64_t{1} << 31;
  const std::pair<const char*, std::int64_t> extents[] = {{"rows", geometry.rows},
                                                          {"cols", geometry.cols},
                                                          {"tile_rows", geometry.tile_rows},
                                                          {"tile_cols", geometry.tile_cols}};
  for (const auto& [key, value] : extents) {
    if (value >= 1 && value <= kMost) continue;
    const Place here{&place, key};
    refuse(here, fmt::format("there is {}; an extent is 1 to 2^40", value));
  }
  if (geometry.tiles_down() > kMostTiles / geometry.tiles_across()) {
    refuse(place, fmt::format("{} x {} in tiles of {} x {} are more than 2^31 tiles", geometry.rows,
                              geometry.cols, geometry.tile_rows, geometry.tile_cols));
  }
  if (geometry.tiles_per_group < 0 || geometry.pipeline_depth < 0) {
    refuse(place, "there is a negative tiles_per_group or pipeline_depth");
  }
}

void check(const OutputTotals& totals, const Place& place) {
  const auto tiles = static_cast<std::size_t>(totals.geometry.tile_count());
  if (totals.tiles.empty() || totals.tiles.size() == tiles) return;
  const Place here{&place, "tiles"};
  refuse(here, fmt::format("there are {} tiles; the geometry has {}", totals.tiles.size(), tiles));
}

void check(const Perturbation& perturbation, const Place& place) {
  if (perturbation.calls > 0) return;
  const Place here{&place, "calls"};
  refuse(here, "there is 0; a trial calls its subject at least once");
}

class Reader {
 public:
  Reader(const Json& object, const Place& place) : object_(object), place_(place) {
    if (!object.is_object()) {
      refuse_type(place, object, "an object");
    }
  }

  template <class T>
  void operator()(const char* key, T& value) {
    const Place place{&place_, key};
    if (const Json* found = member(key)) of(*found, value, place);
  }
  template <class T>
  void or_null(const char* key, T& value, T sentinel) {
    const Json* found = member(key);
    value = sentinel;
    if (found && !found->is_null()) {
      const Place place{&place_, key};
      of(*found, value, place);
    }
  }
  template <class T>
  void unless_empty(const char* key, std::vector<T>& values) {
    values.clear();
    asked_.push_back(key);
    const auto found = object_.find(key);
    if (found != object_.end()) {
      const Place place{&place_, key};
      of(*found, values, place);
    }
  }
  template <class T>
  void unless_default(const char* key, T& value, std::type_identity_t<T> usual) {
    value = usual;
    asked_.push_back(key);
    const auto found = object_.find(key);
    if (found != object_.end()) {
      const Place place{&place_, key};
      of(*found, value, place);
    }
  }
  /// Refuses what describe() did not ask for.
  void finish(std::string_view allowed = {}) const {
    for (const auto& item : object_.items()) {
      bool known = item.key() == allowed;
      for (const char* key : asked_) {
        known = known || item.key() == key;
      }
      if (!known) {
        const Place place{&place_, item.key()};
        refuse(place, "there is a key that this version does not know");
      }
    }
  }

  template <class T>
  static void of(const Json& json, T& value, const Place& place) {
    Reader reader(json, place);
    describe(reader, value);
    reader.finish();
    check(value, place);
  }
  static void of(const Json& json, bool& value, const Place& place) {
    if (!json.is_boolean()) {
      refuse_type(place, json, "true or false");
    }
    value = json.get<bool>();
  }
  static void of(const Json& json, std::string& value, const Place& place) {
    if (!json.is_string()) {
      refuse_type(place, json, "a string");
    }
    value = json.get<std::string>();
  }
  static void of(const Json& json, double& value, const Place& place) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (json.is_number()) {
      value = json.get<double>();
    } else if (json == "inf" || json == "-inf") {
      value = json == "inf" ? kInfinity : -kInfinity;
    } else if (json == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else {
      refuse_type(place, json, "a number, \"inf\", \"-inf\" or \"nan\"");
    }
  }
  template <class T>
  requires(std::is_enum_v<T>) static void of(const Json& json, T& value, const Place& place) {
    const auto parsed =
        json.is_string() ? detail::parse_enum<T>(json.get_ref<const std::string&>()) : std::nullopt;
    if (!parsed) {
      refuse_type(place, json, "one of " + detail::enum_choices<T>());
    }
    value = *parsed;
  }
  template <class T>
  requires(std::is_integral_v<T>) static void of(const Json& json, T& value, const Place& place) {
    std::optional<T> parsed;
    if (json.is_number_integer()) {
      parsed = detail::parse_number<T>(json.dump());
    } else if (json.is_string()) {
      parsed = detail::parse_number<T>(json.get_ref<const std::string&>());
    }
    if (!parsed) {
      refuse_type(place, json,
                  fmt::format("a whole number in [{}, {}]", std::numeric_limits<T>::min(),
                              std::numeric_limits<T>::max()));
    }
    value = *parsed;
  }
  template <class T>
  static void of(const Json& json, std::vector<T>& values, const Place& place) {
    if (!json.is_array()) {
      refuse_type(place, json, "an array");
    }
    values.assign(json.size(), T{});
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Place element{&place, {}, i};
      of(json[i], values[i], element);
    }
  }
  template <class T>
  static void of(const Json& json, std::optional<T>& value, const Place& place) {
    value.reset();
    if (!json.is_null()) {
      of(json, value.emplace(), place);
    }
  }
  static void of(const Json& json, std::pair<std::string, std::string>& value, const Place& place) {
    ModuleHash named;
    of(json, named, place);
    value = {std::move(named.name), std::move(named.hash)};
  }
  static void of(const Json& json, Tensor& value, const Place& place) {
    std::string text;
    Reader reader(json, place);
    reader("dtype", value.dtype);
    reader("shape", value.shape);
    reader("base64url", text);
    reader.finish();
    const auto bytes = detail::from_base64url(text);
    std::size_t expected = 0;
    try {
      expected = static_cast<std::size_t>(element_count(value.shape)) * size_of(value.dtype);
    } catch (const UsageError& error) {
      refuse(place, error.what());
    }
    if (!bytes || bytes->size() != expected) {
      refuse(place, fmt::format("the text of 'base64url' does not decode to {} bytes", expected));
    }
    const auto raw = std::as_bytes(std::span(*bytes));
    value.bytes.assign(raw.begin(), raw.end());
  }

 private:
  /// nullptr: an earlier version did not write it.
  const Json* member(const char* key) {
    asked_.push_back(key);
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    if (place_.may_lack_keys() && is_of_version_2(key)) return nullptr;
    refuse(place_, fmt::format("the key '{}' is missing", key));
  }

  const Json& object_;
  const Place& place_;
  std::vector<const char*> asked_;
};

}  // namespace

std::string to_json(const RunRecord& record, bool with_provenance) {
  Json document = Writer::of(record);
  if (with_provenance) {
    FullProvenance full{record.provenance, {}};
    for (const ArmEvidence& arm : record.evidence.arms) {
      full.elapsed.arms.push_back(arm.result.elapsed_ns);
    }
    for (const ConfigEvidence& config : record.evidence.configs) {
      full.elapsed.configs.push_back(config.result.elapsed_ns);
    }
    for (const KillRow& row : record.mutants.rows) {
      for (const KillCell& cell : row.cells) full.elapsed.mutants_s.push_back(cell.seconds);
    }
    document["provenance"] = Writer::of(full);
  }
  return detail::json_text(document);
}

RunRecord record_from_json(std::string_view text) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& error) {
    throw UsageError(
        fmt::format("not a run record of faultline: not valid JSON ({})", error.what()));
  }
  Place top;
  Reader reader(document, top);
  const auto version = document.find("schema_version");
  if (version != document.end() && *version != RunRecord::kSchemaVersion) {
    const bool earlier =
        version->is_number_integer() && *version >= 1 && *version < RunRecord::kSchemaVersion;
    if (!earlier) {
      refuse(top, fmt::format("schema_version is {}; this version of faultline reads 1 to {}",
                              version->dump(), RunRecord::kSchemaVersion));
    }
    top.earlier_version = true;
  }
  RunRecord record;
  describe(reader, record);
  reader.finish("provenance");

  if (const auto found = document.find("provenance"); found != document.end()) {
    const Place place{&top, "provenance"};
    FullProvenance full;
    Reader::of(*found, full, place);
    record.provenance = std::move(full.provenance);
    if (full.elapsed.arms.size() != record.evidence.arms.size() ||
        full.elapsed.configs.size() != record.evidence.configs.size()) {
      const Place elapsed{&place, "elapsed_ns"};
      refuse(elapsed, "there are not as many times as arms and configs in the evidence");
    }
    std::size_t cells = 0;
    for (KillRow& row : record.mutants.rows) {
      for (KillCell& cell : row.cells) {
        if (cells < full.elapsed.mutants_s.size()) cell.seconds = full.elapsed.mutants_s[cells];
        ++cells;
      }
    }
    if (full.elapsed.mutants_s.size() != cells) {
      const Place elapsed{&place, "elapsed_ns"};
      refuse(elapsed, "there are not as many times as cells in the kill matrix");
    }
    for (std::size_t i = 0; i < full.elapsed.arms.size(); ++i) {
      record.evidence.arms[i].result.elapsed_ns = full.elapsed.arms[i];
    }
    for (std::size_t i = 0; i < full.elapsed.configs.size(); ++i) {
      record.evidence.configs[i].result.elapsed_ns = full.elapsed.configs[i];
    }
  }
  return record;
}

}  // namespace faultline::core
