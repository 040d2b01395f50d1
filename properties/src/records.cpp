// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/records.hpp"

#include <ostream>
#include <type_traits>
#include <utility>

#include "faultline/properties/floats.hpp"
#include "faultline/properties/perturbations.hpp"
#include "texts.hpp"

namespace faultline::properties {
namespace {

using detail::draw_number;
using detail::draw_text;

class RecordDraw {
 public:
  explicit RecordDraw(Source& source) : source_(source) {}

  core::RunRecord record() {
    core::RunRecord r;
    r.command = text();
    r.subject = text();
    r.variant = text();
    r.problem = text();
    r.config = text();
    r.seed = number();
    r.analysis_plan = text();
    r.module_hashes = some(2, [&] { return std::pair(text(), text()); });
    r.evidence = evidence();
    r.verdict.outcome = static_cast<core::Outcome>(source_.below(5));
    r.verdict.summary = text();
    r.verdict.findings = some(2, [&] { return finding(); });
    r.replay_lines = some(2, [&] { return text(); });
    r.excerpts = some(1, [&] {
      return core::SourceExcerpt{text(), small(), some(3, [&] { return text(); }), small()};
    });
    r.bench = some(2, [&] { return bench_row(); });
    r.provenance.faultline_version = text();
    r.provenance.started_at = text();
    r.provenance.duration_s = real();
    r.provenance.host = text();
    r.provenance.command_line = text();
    r.provenance.backend.name = text();
    r.provenance.backend.device = text();
    r.provenance.backend.multiprocessors = small();
    r.provenance.backend.l2_bytes = number();
    r.provenance.backend.is_model = flag();
    return r;
  }

 private:
  std::string text() { return draw_text(source_); }
  std::uint64_t number() { return draw_number(source_); }
  bool flag() { return source_.once_in(2); }
  int small() { return static_cast<int>(source_.below(4096)); }
  std::int64_t index() { return static_cast<std::int64_t>(source_.below(1 << 20)) - 1; }
  std::int64_t extent() { return 1 + static_cast<std::int64_t>(source_.below(3)); }
  double real() {
    static const rc::Gen<ElementBits> kDoubles = elements({core::Dtype::f64}).generator;
    return source_.draw(kDoubles).value();
  }
  /// Up to `most` values of draw().
  template <typename Draw>
  std::vector<std::invoke_result_t<Draw>> some(std::uint64_t most, Draw draw) {
    std::vector<std::invoke_result_t<Draw>> values;
    const std::uint64_t count = source_.below(most + 1);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(draw());
    return values;
  }

  core::SourceLocation location() { return {text(), small(), text()}; }
  core::AccessSite site() {
    return {text(), text(), some(2, [&] { return location(); }), text(), flag(), flag()};
  }
  core::RaceReport race() {
    core::RaceReport r;
    r.kind = static_cast<core::RaceKind>(source_.below(3));
    r.space = static_cast<core::MemorySpace>(source_.below(2));
    r.buffer = text();
    r.byte_begin = number();
    r.byte_end = number();
    r.first = site();
    r.second = site();
    r.cross_cta = flag();
    r.cross_launch = flag();
    r.cross_device = flag();
    r.missing_proxy_fence = flag();
    r.note_only = flag();
    r.count = number();
    r.missing_edge = text();
    return r;
  }
  core::AccessStatistics access() {
    return {location(), text(),   static_cast<core::MemorySpace>(source_.below(2)),
            flag(),     number(), number(),
            number(),   index(),  number(),
            number()};
  }
  core::OutputTotals output() {
    core::OutputTotals o;
    o.name = text();
    o.dtype = static_cast<core::Dtype>(source_.below(4));
    o.geometry = {extent(), extent(), extent(), extent(), extent(), small(), text()};
    o.compared_elements = number();
    o.bad_trials = number();
    o.bad_elements = number();
    o.not_finite = number();
    o.poison = number();
    o.no_reference = number();
    o.worst_ratio = real();
    o.worst_ulps = real();
    o.worst_error = real();
    o.worst_rounded_error = real();
    o.worst_error_expected = real();
    o.ratio_bins = some(2, [&] { return number(); });
    o.ulp_bins = some(2, [&] { return number(); });
    o.bins_every = static_cast<std::uint32_t>(number());
    // A record has all tiles of an output, or none.
    if (flag()) o.tiles.resize(static_cast<std::size_t>(o.geometry.tile_count()));
    for (core::TileTotals& tile : o.tiles) {
      tile = {number(), number(), number(), number(), number(), real(), real(), index()};
    }
    return o;
  }
  core::Capture capture() {
    core::Capture c;
    c.trial = number();
    c.input_seed = number();
    c.poison = static_cast<std::uint32_t>(number());
    const auto dtype = static_cast<core::Dtype>(source_.below(4));
    core::Tensor tensor(dtype, {static_cast<std::int64_t>(source_.below(3)), 2});
    for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(source_.below(256));
    c.outputs = {tensor};
    return c;
  }
  core::TrialResult result() {
    core::TrialResult r;
    r.trials = number();
    r.failed = number();
    r.wrong_values = number();
    r.raced = number();
    r.abnormal = number();
    r.outputs = some(2, [&] { return output(); });
    r.races = some(1, [&] { return race(); });
    r.accesses = some(1, [&] { return access(); });
    r.failures = some(2, [&] {
      return core::FailedTrial{
          number(),
          number(),
          static_cast<core::ExecutionStatus>(source_.below(6)),
          number(),
          flag(),
          {static_cast<std::uint32_t>(small())},
          flag(),
          some(2, [&] {
            return core::WrongTile{static_cast<std::uint32_t>(small()), index(), number(), real()};
          })};
    });
    r.changed_inputs = some(1, [&] {
      return core::ChangedInput{text(), number(), number(), index()};
    });
    r.inputs_checked = number();
    r.captures = some(1, [&] { return capture(); });
    r.input_sets = number();
    r.distinct_outputs = number();
    r.output_hashes = some(1, [&] {
      return core::OutputHashes{number(), some(2, [&] { return number(); })};
    });
    r.gate_samples = number();
    r.gate_worst = real();
    r.status = static_cast<core::ExecutionStatus>(source_.below(6));
    r.message = text();
    r.details = some(2, [&] { return text(); });
    r.first_failed_trial = number();
    r.batch = number();
    r.overlap_proven = flag();
    r.held_sms = number();
    r.ran_ahead = number();
    r.ran_ahead_of = number();
    r.note = text();
    r.skipped = flag();
    r.elapsed_ns = number();
    r.thread_instructions = number();
    return r;
  }
  core::ArmEvidence arm() {
    static const rc::Gen<core::Perturbation> kPerturbations = perturbations().generator;
    core::ArmEvidence a;
    a.perturbation = source_.draw(kPerturbations);
    a.result = result();
    a.wilson95 = {real(), real()};
    a.upper95 = real();
    a.token = text();
    a.failed_here_only = number();
    a.failed_there_only = number();
    a.log_e = real();
    return a;
  }
  core::ConfigEvidence config() {
    core::ConfigEvidence c;
    c.problem = text();
    c.config = text();
    c.result = result();
    c.failed = flag();
    c.error_sample = some(3, [&] { return real(); });
    c.token = text();
    c.tile_k = index();
    c.reduction = index();
    c.tile_rows = index();
    c.rows = index();
    return c;
  }
  core::Evidence evidence() {
    core::Evidence e;
    e.subject = text();
    e.variant = text();
    e.problem = text();
    e.backend = text();
    e.backend_is_model = flag();
    e.declared_deterministic = flag();
    e.mode = text();
    e.arms = some(2, [&] { return arm(); });
    e.configs = some(2, [&] { return config(); });
    e.provenance = some(1, [&] {
      return core::ProvenanceEvidence{static_cast<std::uint32_t>(small()),
                                      text(),
                                      index(),
                                      index(),
                                      number(),
                                      number(),
                                      small()};
    });
    e.races = some(1, [&] { return race(); });
    e.accesses = some(1, [&] { return access(); });
    if (flag()) e.repeat = core::RepeatEvidence{number(), number()};
    if (flag()) {
      e.error_shape = core::ErrorShapeEvidence{number(), number(), number(), real(),   real(),
                                               number(), number(), number(), number(), number(),
                                               number(), number(), number(), number()};
    }
    e.alternatives = some(1, [&] {
      return core::AlternativeEvidence{text(), core::FindingClass::graph, text(), number(),
                                       number()};
    });
    e.contract_violations = some(1, [&] { return text(); });
    e.reloading_launches = number();
    e.launches = number();
    e.streams = number();
    e.shared_memory = flag();
    e.null_outputs_accepted = some(2, [&] { return text(); });
    e.readings = some(1, [&] {
      return core::ErrorReading{static_cast<core::ErrorReading::Kind>(source_.below(9)),
                                text(),
                                number(),
                                number(),
                                number(),
                                index(),
                                index(),
                                real()};
    });
    e.footprints = some(1, [&] {
      using Kind = core::FootprintEvidence::Kind;
      return core::FootprintEvidence{text(),
                                     static_cast<Kind>(source_.below(12)),
                                     index(),
                                     index(),
                                     number(),
                                     number(),
                                     number(),
                                     number(),
                                     number(),
                                     number(),
                                     some(2, [&] { return index(); }),
                                     real(),
                                     static_cast<Kind>(source_.below(12)),
                                     index(),
                                     index(),
                                     real()};
    });
    e.templates = some(1, [&] {
      return core::TemplateEvidence{static_cast<core::TemplateEvidence::Kind>(source_.below(10)),
                                    text(),
                                    index(),
                                    index(),
                                    index(),
                                    index(),
                                    index(),
                                    number(),
                                    real()};
    });
    e.experiments = some(1, [&] {
      return core::ExperimentEvidence{
          static_cast<core::ExperimentEvidence::Kind>(source_.below(11)),
          text(),
          text(),
          number(),
          number(),
          number(),
          number(),
          text(),
          text(),
          text()};
    });
    e.interrupted = flag();
    return e;
  }
  core::Finding finding() {
    constexpr auto kClasses = static_cast<std::uint64_t>(core::FindingClass::unknown) + 1;
    core::Finding f;
    f.finding = static_cast<core::FindingClass>(source_.below(kClasses));
    f.severity = static_cast<core::Severity>(source_.below(3));
    f.headline = text();
    f.evidence = some(2, [&] { return text(); });
    if (flag()) f.runner_up = static_cast<core::FindingClass>(source_.below(kClasses));
    f.runner_up_reason = text();
    f.confidence = static_cast<double>(source_.below(1025)) / 1024.0;
    f.advice = text();
    return f;
  }
  core::BenchRow bench_row() {
    return {text(), text(), text(), real(), real(), real(), real(),
            real(), real(), real(), real(), flag(), text()};
  }

  Source& source_;
};

/// Calls visit(member) for each list of the record that a shrink may shorten.
template <class Record, class Visit>
void visit_lists(Record& r, Visit&& visit) {
  visit(r.evidence.arms);
  visit(r.evidence.configs);
  visit(r.evidence.provenance);
  visit(r.evidence.races);
  visit(r.evidence.accesses);
  visit(r.evidence.null_outputs_accepted);
  visit(r.verdict.findings);
  visit(r.module_hashes);
  visit(r.replay_lines);
  visit(r.excerpts);
  visit(r.bench);
}

std::vector<std::uint64_t> record_measure(const core::RunRecord& r) {
  std::vector<std::uint64_t> sizes;
  visit_lists(r, [&](const auto& list) { sizes.push_back(list.size()); });
  sizes.push_back(r.evidence.repeat ? 1 : 0);
  sizes.push_back(r.evidence.error_shape ? 1 : 0);
  return sizes;
}

std::vector<core::RunRecord> smaller_records(const core::RunRecord& r) {
  std::vector<core::RunRecord> smaller;
  const std::size_t lists = record_measure(r).size();
  for (std::size_t place = 0; place < lists; ++place) {
    for (const bool all : {true, false}) {
      core::RunRecord candidate = r;
      std::size_t i = 0;
      visit_lists(candidate, [&](auto& list) {
        if (i++ != place || list.empty()) return;
        if (all) {
          list.clear();
        } else {
          list.pop_back();
        }
      });
      if (place + 2 == lists) candidate.evidence.repeat.reset();
      if (place + 1 == lists) candidate.evidence.error_shape.reset();
      if (record_measure(candidate) < record_measure(r)) smaller.push_back(std::move(candidate));
    }
  }
  return smaller;
}

}  // namespace

ValueDomain<core::RunRecord> run_records() {
  return {
      .name = "run records",
      .generator = make_generator([](Source& source) { return RecordDraw(source).record(); },
                                  smaller_records),
      .complaint = [](const core::RunRecord&) { return std::string(); },
      .show = [](const core::RunRecord& r) { return core::to_json(r); },
      .parse = [](const std::string& text) { return core::record_from_json(text); },
      .measure = record_measure,
      .smaller = smaller_records,
  };
}

}  // namespace faultline::properties

void faultline::core::showValue(const RunRecord& record, std::ostream& out) {
  out << to_json(record);
}
