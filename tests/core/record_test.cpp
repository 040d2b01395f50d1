// SPDX-License-Identifier: Apache-2.0
// The run record as JSON: nothing is lost, nothing depends on the machine, and the schema describes
// it.
#include "faultline/core/run_record.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "faultline/core/errors.hpp"

namespace faultline::core {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const double kInf = std::numeric_limits<double>::infinity();

RaceReport race() {
  RaceReport report;
  report.kind = RaceKind::write_after_write;
  report.space = MemorySpace::global;
  report.buffer = "state_tiles";
  report.byte_begin = 2048;
  report.byte_end = 4096;
  report.first = {"gla_decode",
                  "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                  {{"kernels/gla_decode/gla_decode.cuh", 120, "consume"}, {"a.cu", 3, ""}},
                  "cta 0 warp 4 lane 0",
                  false,
                  false};
  report.second = {"gla_decode", "cp.async.bulk", {}, "bulk copy on full[1]", true, true};
  report.cross_cta = report.cross_launch = report.cross_device = true;
  report.missing_proxy_fence = report.note_only = true;
  report.count = 512;
  report.missing_edge = "nothing orders the read \"before\" the copy";
  return report;
}

AccessStatistics access() {
  return {{"gemv.cuh", 9, "load"},
          "ld.global.v4",
          MemorySpace::shared,
          true,
          32,
          1024,
          128,
          -4096,
          1024,
          256};
}

TrialResult result() {
  TrialResult r;
  r.trials = 2000;
  r.failed = 31;
  r.wrong_values = 30;
  r.raced = 29;
  r.abnormal = 1;
  OutputTotals output;
  output.name = "o";
  output.dtype = Dtype::bf16;
  output.geometry = {64, 64, 16, 64, 4, 2, "16 rows of dk"};
  output.compared_elements = 8192000;
  output.bad_trials = 30;
  output.bad_elements = 1 << 20;
  output.not_finite = 3;
  output.poison = 4;
  output.no_reference = 5;
  output.worst_ratio = kInf;
  output.worst_ulps = 0.1 + 0.2;
  output.worst_error = 5e-324;
  output.worst_rounded_error = -0.0;
  output.worst_error_expected = 1.7976931348623157e308;
  output.sum_squared_error = 0.3;
  output.sum_squared_expected = 3e9;
  output.ratio_bins = {8000000, 0, 192000};
  output.ulp_bins = {1, 8191999};
  output.bins_every = 32;
  output.tiles = {{1, 2, 3, 4, 8, 5.5, 6.25, 7}, {}, {0, 0, 0, 0, 0, kInf, kInf, -1}, {}};
  r.outputs = {output, {}};
  r.races = {race()};
  r.accesses = {access()};
  r.failures = {{7, ~0ull, ExecutionStatus::deadlock, 12, true, {0, 1}, true, {{1, 3, 12, kInf}}}};
  r.changed_inputs = {{"h0", 3, 4096, 17}};
  r.inputs_checked = 12;
  Capture capture;
  capture.trial = 7;
  capture.input_seed = 0xfedcba9876543210ull;
  capture.poison = 0xffffffffu;
  Tensor tensor(Dtype::bf16, {2, 3});
  for (std::int64_t i = 0; i < 6; ++i) tensor.set(i, 0.1 * static_cast<double>(i) - 0.2);
  tensor.set(5, kInf);
  capture.outputs = {tensor, Tensor(Dtype::f64, {0})};
  r.captures = {capture};
  r.input_sets = 1;
  r.distinct_outputs = 17;
  r.output_hashes = {{3, {5, ~0ull}}};
  r.gate_samples = 2;
  r.gate_worst = 1.5e-16;
  r.status = ExecutionStatus::fault;
  r.message = "illegal address at kernel.cu:5";
  r.details = {"warp 0 waits", "warp 1 waits"};
  r.first_failed_trial = 7;
  r.batch = 396;
  r.overlap_proven = false;
  r.held_sms = 131;
  r.ran_ahead = 7;
  r.ran_ahead_of = 9;
  r.note = "a note";
  r.skipped = true;
  r.elapsed_ns = 123456789;
  r.thread_instructions = (1ull << 60) + 1;
  return r;
}

/// A record in which every field differs from its default.
RunRecord full_record() {
  RunRecord record;
  record.command = "stress";
  record.subject = "gla_decode";
  record.variant = "shared_buffer";
  record.problem = "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16";
  record.config = "stages=2";
  record.seed = ~0ull - 5;
  record.analysis_plan = "2 arms of 2000 trials";
  record.module_hashes = {{"gla_decode_bf16", "0123456789abcdef"}};

  Evidence& e = record.evidence;
  e.subject = "gla_decode";
  e.variant = "shared_buffer";
  e.problem = "b=1 h=1 dk=64 dv=64 dtype=bf16";
  e.backend = "simulator";
  e.backend_is_model = true;
  e.declared_deterministic = false;
  e.mode = "stress";
  ArmEvidence arm;
  arm.perturbation = {"all",
                      true,
                      HostWait::spin,
                      1000,
                      true,
                      1 << 20,
                      true,
                      CoResident::memory_stress,
                      16,
                      8,
                      3.5,
                      true,
                      50'000,
                      8,
                      true,
                      SchedulePolicy::pct,
                      CopyLateness::lazy,
                      32,
                      true,
                      2,
                      true,
                      5,
                      3,
                      4096,
                      77};
  arm.result = result();
  arm.wilson95 = {0.0108, 0.0219};
  arm.upper95 = 0.25;
  arm.failed_here_only = 30;
  arm.failed_there_only = 2;
  arm.log_e = 7.25;
  arm.token = "fl1.AAAA";
  e.arms = {arm, {}};
  ConfigEvidence config;
  config.problem = "n=3001 k=3000 dtype=f16";
  config.config = "stages=3";
  config.result = result();
  config.result.elapsed_ns = 5;
  config.failed = true;
  config.error_sample = {0.0, -0.5, kInf, -kInf, 1e-300};
  config.token = "fl1.BBBB";
  config.tile_k = 256;
  config.reduction = 3000;
  config.tile_rows = 8;
  config.rows = 3001;
  e.configs = {config};
  e.provenance = {{1, "new_state", 1, 3, 1024, 1000, 2}};
  e.races = {race()};
  e.accesses = {access()};
  e.repeat = RepeatEvidence{100, 3};
  e.error_shape = ErrorShapeEvidence{10, 5, 2, 0.25, 8.0, 77, 16, 4, 9, 3, 6, 2, 40, 1};
  e.alternatives = {{"the scale of capture time", FindingClass::graph, "y", 64, 60}};
  e.contract_violations = {"gate above 0"};
  e.reloading_launches = 2;
  e.launches = 3;
  e.streams = 2;
  e.shared_memory = false;
  e.null_outputs_accepted = {"zeros"};
  e.reference_notes = {{"t=64", "chunk=32", "dg", ReferenceNote::Kind::unusable, "unsound"}};
  e.asynchronous_instructions = {"cp.async.bulk"};
  e.hypothesis = "A_inv";
  e.declared_weakness = "weak at keys=identical";
  e.not_examined = {"null outputs at t=65536"};
  TermEvidence term;
  term.problem = "b=1 t=64";
  term.config = "chunk=32";
  term.name = "no_reverse_cumsum";
  term.terms = "dG";
  term.kind = ErrorHypothesis::Kind::wrong_form;
  term.visibility = kInf;
  term.elements = 4096;
  term.excluded = 3;
  term.coefficient = -0.9375;
  term.r_squared = 0.998;
  term.standard_error = 1e-4;
  term.first_row_coefficient = -0.5;
  term.first_row_r_squared = 0.25;
  term.last_row_coefficient = -0.125;
  term.last_row_r_squared = 0.0625;
  term.size_ratio = 0.75;
  term.size_explained = 0.995;
  term.outputs = {{"dk", 24.5, 100, -0.9, 0.99}, {"dv", 0.0, 0, 0.0, 0.0}};
  term.left_out = "moves what A_inv moves";
  e.terms = {term, {}};
  e.term_combinations = {{"b=1 t=64", "chunk=32", {"A_inv", "dw_cross"}, {-1.0, 1.0}, 0.97}};
  e.growth = {{"dk", "chunk=32", "b=1", 128, 4, 0.13, 7.5, true}};
  e.intermediates = {
      {"b=1 t=64", "chunk=32", "w", true, 4096, 17, 2.5, 1, 2, 4, "chunk of 32 rows"}};
  e.readings = {{ErrorReading::Kind::slice_stale, "y", 64, 60, 3, 2, 5, 0.5}};
  e.footprints = {{"y",
                   FootprintEvidence::Kind::strip,
                   8,
                   16,
                   12,
                   3,
                   96,
                   4096,
                   6,
                   64,
                   {1, 7},
                   0.75,
                   FootprintEvidence::Kind::rows,
                   1,
                   64,
                   11.25}};
  e.templates = {{TemplateEvidence::Kind::tile_input, "y", 1, 2, 3, 4, 5, 128, 0.875}};
  e.experiments = {{ExperimentEvidence::Kind::one_block, "one block: n=16", "memory_stress", 200,
                    31, 300, 2, "fl1.CCCC", "gemv.cu:12", "not enough time"}};
  e.interrupted = true;

  Finding finding;
  finding.finding = FindingClass::race_async;
  finding.severity = Severity::warning;
  finding.headline = "two passes share a buffer";
  finding.evidence = {"tile 1 holds tile 3's data in 1000 of 1024 elements"};
  finding.runner_up = FindingClass::uninitialised;
  finding.runner_up_reason = "the values do not follow the poison";
  finding.confidence = 0.98;
  finding.advice = "give pass 2 a buffer of its own";
  record.verdict = {Outcome::fail, "fail(race.async): two passes share a buffer", {finding, {}}};

  record.replay_lines = {"faultline replay fl1.AAAA"};
  record.excerpts = {{"kernels/gla_decode/gla_decode.cuh", 118, {"  a", "\tb \\ \"c\" \x01"}, 120}};
  BenchRow row{"n=1 k=1", "rows=4", "gemv@register", 1.25, 0.01, 2.5, 0.02, 1e9, 4.1, 0.97,
               1.05,      true,     "note"};
  record.bench = {row};
  KillCell cell{Detector::stress,
                true,
                "a note",
                Outcome::fail,
                {FindingClass::race_async},
                true,
                true,
                48,
                3,
                7,
                0.25};
  record.mutants.rows = {{"gla_decode",
                          "shared_buffer",
                          "pipelined",
                          true,
                          FindingClass::race_async,
                          "b=1",
                          "stages=2",
                          {cell},
                          true,
                          true,
                          true}};
  record.provenance = {
      "0.1.0",
      "2026-01-01T00:00:00Z",
      12.5,
      "host",
      "faultline stress gla_decode",
      {"simulator", "PTX simulator (model of sm_90a)", "580.1", "13.0", 132, 1ull << 40, true}};
  return record;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Record, JsonRoundTripsEveryField) {
  const RunRecord record = full_record();
  const std::string text = to_json(record);
  const RunRecord again = record_from_json(text);
  EXPECT_EQ(to_json(again), text);

  // The two texts agree; that the fields arrived is asked of the parts that can be compared.
  EXPECT_EQ(again.seed, record.seed);
  EXPECT_EQ(again.module_hashes, record.module_hashes);
  EXPECT_EQ(again.verdict, record.verdict);
  EXPECT_EQ(again.evidence.provenance, record.evidence.provenance);
  EXPECT_EQ(again.evidence.races, record.evidence.races);
  EXPECT_EQ(again.evidence.accesses, record.evidence.accesses);
  EXPECT_EQ(again.evidence.repeat, record.evidence.repeat);
  EXPECT_EQ(again.evidence.error_shape, record.evidence.error_shape);
  EXPECT_EQ(again.evidence.terms, record.evidence.terms);
  EXPECT_EQ(again.evidence.term_combinations, record.evidence.term_combinations);
  EXPECT_EQ(again.evidence.growth, record.evidence.growth);
  EXPECT_EQ(again.evidence.intermediates, record.evidence.intermediates);
  EXPECT_EQ(again.evidence.hypothesis, "A_inv");
  ASSERT_EQ(again.evidence.arms.size(), 2u);
  EXPECT_EQ(again.evidence.arms[0].perturbation, record.evidence.arms[0].perturbation);
  const TrialResult& got = again.evidence.arms[0].result;
  const TrialResult& want = record.evidence.arms[0].result;
  EXPECT_EQ(got.outputs[0].tiles, want.outputs[0].tiles);
  EXPECT_EQ(got.outputs[0].geometry, want.outputs[0].geometry);
  EXPECT_EQ(bits_of(got.outputs[0].worst_rounded_error), bits_of(-0.0));
  EXPECT_EQ(got.outputs[0].worst_error, 5e-324);
  EXPECT_EQ(got.outputs[0].worst_ulps, 0.1 + 0.2);
  EXPECT_EQ(got.captures[0].outputs[0].bytes, want.captures[0].outputs[0].bytes);
  EXPECT_EQ(got.failures[0].input_seed, ~0ull);
  EXPECT_EQ(got.failures[0].wrong_tiles, want.failures[0].wrong_tiles);
  EXPECT_EQ(got.outputs[0].ratio_bins, want.outputs[0].ratio_bins);
  EXPECT_EQ(got.outputs[0].ulp_bins, want.outputs[0].ulp_bins);
  EXPECT_EQ(got.outputs[0].bins_every, 32u);
  EXPECT_EQ(got.outputs[1].bins_every, 1u);
  EXPECT_EQ(got.held_sms, 131u);
  EXPECT_EQ(got.ran_ahead, 7u);
  EXPECT_EQ(got.ran_ahead_of, 9u);
  EXPECT_EQ(got.elapsed_ns, want.elapsed_ns);
  EXPECT_EQ(got.thread_instructions, want.thread_instructions);
  EXPECT_EQ(again.evidence.arms[1].result.first_failed_trial, ~0ull);
  EXPECT_EQ(again.evidence.configs[0].error_sample, record.evidence.configs[0].error_sample);
  EXPECT_EQ(again.excerpts[0].lines, record.excerpts[0].lines);
  EXPECT_EQ(again.provenance.backend.l2_bytes, 1ull << 40);
}

/// Leaves of a document by pointer.
json leaves_of(const std::string& text) { return json::parse(text).flatten(); }

TEST(Record, EveryFieldIsWritten) {
  // A field that to_json() forgot would be absent from both texts above. Here each leaf of a full
  // record that an empty one has too must differ from it, so a leaf that is not wired to its field
  // shows.
  const json full = leaves_of(to_json(full_record()));
  RunRecord empty;
  empty.evidence.arms.resize(1);
  empty.evidence.configs.resize(1);
  empty.evidence.terms.resize(1);
  empty.evidence.term_combinations.resize(1);
  empty.evidence.growth.resize(1);
  empty.evidence.intermediates.resize(1);
  empty.evidence.readings.resize(1);
  empty.evidence.footprints.resize(1);
  empty.evidence.templates.resize(1);
  empty.evidence.experiments.resize(1);
  const json blank = leaves_of(to_json(empty));
  std::set<std::string> allowed = {"/schema_version"};
  for (const auto& [pointer, value] : blank.items()) {
    if (full.contains(pointer) && !allowed.count(pointer)) {
      EXPECT_NE(full[pointer], value) << pointer;
    }
  }
  EXPECT_GT(full.size(), 400u);
}

TEST(Record, NanSurvives) {
  RunRecord record;
  ConfigEvidence config;
  config.error_sample = {std::numeric_limits<double>::quiet_NaN()};
  record.evidence.configs = {config};
  const RunRecord again = record_from_json(to_json(record));
  EXPECT_TRUE(is_nan(again.evidence.configs[0].error_sample[0]));
}

TEST(Record, WithoutProvenanceNothingOfTheRunRemains) {
  RunRecord a = full_record(), b = full_record();
  b.provenance = {};
  b.evidence.arms[0].result.elapsed_ns = 1;
  b.evidence.configs[0].result.elapsed_ns = 2;
  EXPECT_EQ(to_json(a, false), to_json(b, false));
  EXPECT_NE(to_json(a), to_json(b));
  const std::string text = to_json(a, false);
  EXPECT_EQ(text.find("elapsed"), std::string::npos);
  EXPECT_EQ(text.find("12.5"), std::string::npos);
  EXPECT_EQ(to_json(record_from_json(text), false), text);
}

TEST(Record, KeysKeepTheirOrderAndBytesTheirPlace) {
  const std::string text = to_json(full_record());
  EXPECT_LT(text.find("\"schema_version\""), text.find("\"command\""));
  EXPECT_LT(text.find("\"verdict\""), text.find("\"evidence\": {"));
  EXPECT_LT(text.find("\"evidence\": {"), text.find("\"faultline_version\""));
  EXPECT_EQ(text.back(), '\n');
  RunRecord bad_text;
  bad_text.command = "\xff\xfe";
  EXPECT_NO_THROW(record_from_json(to_json(bad_text))) << "bytes that are not UTF-8 are replaced";
}

TEST(Record, WrongJsonNamesThePlace) {
  const std::string good = to_json(full_record());
  const auto message = [](const std::string& text) -> std::string {
    try {
      record_from_json(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto changed = [&](const char* pointer, const json& value) {
    json document = json::parse(good);
    document[json::json_pointer(pointer)] = value;
    return message(document.dump());
  };
  EXPECT_THAT(message(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("an object"));
  EXPECT_THAT(message("{}"), HasSubstr("the key 'schema_version' is missing"));
  EXPECT_THAT(message(good.substr(0, good.size() / 2)), HasSubstr("not valid JSON"));
  EXPECT_THAT(changed("/schema_version", 3), HasSubstr("schema_version is 3"));
  EXPECT_THAT(changed("/schema_version", 0), HasSubstr("schema_version is 0"));
  EXPECT_THAT(changed("/schema_version", "1"), HasSubstr("schema_version is"));
  EXPECT_THAT(changed("/evidence/arms/0/result/trials", "many"),
              HasSubstr("/evidence/arms/0/result/trials"));
  EXPECT_THAT(changed("/evidence/arms/0/result/trials", -1), HasSubstr("whole number"));
  EXPECT_THAT(changed("/evidence/arms/0/result/trials", 1.5), HasSubstr("whole number"));
  EXPECT_THAT(changed("/evidence/arms/0/perturbation/batch", 1ull << 40), HasSubstr("4294967295"));
  EXPECT_THAT(changed("/evidence/arms/0/perturbation/calls", 0),
              HasSubstr("/evidence/arms/0/perturbation/calls there is 0; a trial calls"));
  EXPECT_THAT(changed("/verdict/outcome", "green"), HasSubstr("one of pass, fail"));
  EXPECT_THAT(changed("/verdict/findings/0/class", "race"), HasSubstr("/verdict/findings/0/class"));
  EXPECT_THAT(changed("/verdict/extra", 1), HasSubstr("/verdict/extra"));
  EXPECT_THAT(changed("/evidence/races", 3), HasSubstr("an array"));
  EXPECT_THAT(changed("/evidence/arms/0/result/captures/0/outputs/0/base64url", "AA"),
              HasSubstr("does not decode to 12 bytes"));
  EXPECT_THAT(changed("/evidence/arms/0/result/captures/0/outputs/0/shape", {-1}),
              HasSubstr("negative extent"));
  EXPECT_THAT(changed("/provenance/elapsed_ns/arms", json::array()), HasSubstr("as many times"));
  // Reports draw a square for each tile.
  const std::string output = "/evidence/arms/0/result/outputs/0";
  for (const char* extent : {"rows", "cols", "tile_rows", "tile_cols"}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62}) {
      EXPECT_THAT(changed((output + "/geometry/" + extent).c_str(), value),
                  HasSubstr(output + "/geometry/" + extent));
    }
  }
  json many = json::parse(good)[json::json_pointer(output + "/tiles")];
  ASSERT_FALSE(many.empty());
  many.push_back(many[0]);
  EXPECT_THAT(changed((output + "/tiles").c_str(), many), HasSubstr("the geometry has"));
  json huge = json::parse(good)[json::json_pointer(output + "/geometry")];
  huge["rows"] = huge["cols"] = std::int64_t{1} << 40;
  huge["tile_rows"] = huge["tile_cols"] = 1;
  EXPECT_THAT(changed((output + "/geometry").c_str(), huge), HasSubstr("more than 2^31 tiles"));
}

TEST(Record, OfAnEarlierVersionMayLackKeys) {
  json document = json::parse(to_json(full_record()));
  document["evidence"].erase("streams");
  document["evidence"].erase("experiments");
  document["evidence"]["arms"][0]["perturbation"].erase("delay_ns");
  EXPECT_THROW(record_from_json(document.dump()), UsageError) << "today's version has them all";
  document["schema_version"] = 1;
  const RunRecord read = record_from_json(document.dump());
  EXPECT_EQ(read.evidence.streams, 1u);
  EXPECT_TRUE(read.evidence.experiments.empty());
  EXPECT_EQ(read.evidence.arms[0].perturbation.delay_ns, 0u);
  EXPECT_EQ(read.evidence.launches, 3u);
  document["evidence"]["surprise"] = 1;
  EXPECT_THROW(record_from_json(document.dump()), UsageError);
  document["evidence"].erase("surprise");
  for (const char* counted : {"failed", "trials", "abnormal"}) {
    json lacking = document;
    lacking["evidence"]["arms"][0]["result"].erase(counted);
    EXPECT_THROW(record_from_json(lacking.dump()), UsageError) << counted << " is no later key";
  }
}

TEST(Record, KeysThatItsOwnVersionDidNotAlwaysHaveMayBeMissing) {
  json document = json::parse(to_json(full_record()));
  ASSERT_EQ(document["schema_version"], 2);
  json& evidence = document["evidence"];
  for (const char* key : {"footprints", "templates"}) ASSERT_EQ(evidence.erase(key), 1u) << key;
  json& arm = evidence["arms"][0];
  for (const char* key : {"held_sms", "ran_ahead", "ran_ahead_of"}) arm["result"].erase(key);
  for (const char* key : {"blocker_ns", "free_sms"}) arm["perturbation"].erase(key);
  arm["result"]["outputs"][0].erase("bins_every");
  const RunRecord read = record_from_json(document.dump());
  EXPECT_TRUE(read.evidence.footprints.empty() && read.evidence.templates.empty());
  EXPECT_EQ(read.evidence.arms[0].result.outputs[0].bins_every, 1u);
  EXPECT_EQ(json::parse(to_json(read)), document);
  const json schema = json::parse(read_file(FAULTLINE_SCHEMA));
  for (const auto& key : schema["$defs"]["evidence"]["required"]) {
    EXPECT_TRUE(evidence.contains(key)) << key;
  }
}

/// Keys that the schema requires, looked up without a validator.
void check_required(const json& schema, const json& node, const json& value,
                    const std::string& where) {
  if (node.contains("$ref")) {
    const std::string reference = node["$ref"];
    ASSERT_EQ(reference.substr(0, 8), "#/$defs/") << where;
    return check_required(schema, schema["$defs"].at(reference.substr(8)), value, where);
  }
  if (node.contains("anyOf") && !value.is_null()) {
    return check_required(schema, node["anyOf"][0], value, where);
  }
  if (value.is_object()) {
    for (const auto& key : node.value("required", json::array())) {
      EXPECT_TRUE(value.contains(key)) << where << " lacks " << key;
    }
    for (const auto& [key, member] : value.items()) {
      ASSERT_TRUE(node.contains("properties") && node["properties"].contains(key))
          << "the schema does not describe " << where << "/" << key;
      check_required(schema, node["properties"][key], member, where + "/" + key);
    }
  } else if (value.is_array()) {
    ASSERT_TRUE(node.contains("items")) << where;
    for (const auto& element : value) check_required(schema, node["items"], element, where + "/*");
  }
}

TEST(Schema, DescribesEveryKeyOfARecord) {
  const json schema = json::parse(read_file(FAULTLINE_SCHEMA));
  check_required(schema, schema, json::parse(to_json(full_record())), "");
  check_required(schema, schema, json::parse(to_json(full_record(), false)), "");
  check_required(schema, schema, json::parse(to_json(RunRecord{})), "");
}

TEST(Schema, ValidatesRecords) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("faultline-schema-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  // Files named good* must be valid, files named bad* must not.
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  write("good_full", to_json(full_record()));
  write("good_reproducible", to_json(full_record(), false));
  write("good_blank", to_json(RunRecord{}));
  json wrong = json::parse(to_json(full_record()));
  wrong["verdict"]["outcome"] = "green";
  write("bad_outcome", wrong.dump());
  wrong = json::parse(to_json(full_record()));
  wrong["evidence"]["surprise"] = 1;
  write("bad_key", wrong.dump());
  wrong = json::parse(to_json(full_record()));
  wrong["evidence"]["arms"][0]["result"]["trials"] = -1;
  write("bad_count", wrong.dump());
  std::ofstream(folder / "validate.py") << R"(
import json, pathlib, sys
try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(77)
schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
Draft202012Validator.check_schema(schema)
wrong = 0
for path in sorted(pathlib.Path(sys.argv[2]).glob("[gb]*d_*")):
    errors = list(Draft202012Validator(schema).iter_errors(json.loads(path.read_text())))
    if bool(errors) != path.name.startswith("bad"):
        wrong = 1
        print(path.name, "is valid" if not errors else errors[0].message[:300])
sys.exit(wrong)
)";
  const std::string command = "python3 -W ignore '" + (folder / "validate.py").string() + "' '" +
                              FAULTLINE_SCHEMA + "' '" + folder.string() + "'";
  const int status = std::system(command.c_str());
  std::filesystem::remove_all(folder);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127) {
    GTEST_SKIP() << "python3 with the package jsonschema is not here: the schema's types were not "
                    "checked, only its keys (Schema.DescribesEveryKeyOfARecord)";
  }
  EXPECT_EQ(code, 0);
}

TEST(Verdict, ExitCodes) {
  const auto code = [](Outcome outcome, std::vector<Severity> severities, bool strict = false) {
    Verdict verdict;
    verdict.outcome = outcome;
    for (const Severity severity : severities) {
      verdict.findings.emplace_back().severity = severity;
    }
    return exit_code(verdict, strict);
  };
  EXPECT_EQ(code(Outcome::pass, {}), ExitCode::pass);
  EXPECT_EQ(code(Outcome::pass, {Severity::warning}), ExitCode::pass);
  EXPECT_EQ(code(Outcome::pass, {Severity::note}, true), ExitCode::pass);
  EXPECT_EQ(code(Outcome::pass, {Severity::note, Severity::warning}, true), ExitCode::fail);
  EXPECT_EQ(code(Outcome::pass, {Severity::error}), ExitCode::fail) << "an error never passes";
  EXPECT_EQ(code(Outcome::fail, {}), ExitCode::fail);
  EXPECT_EQ(code(Outcome::inconclusive, {Severity::warning}, true), ExitCode::inconclusive);
  EXPECT_EQ(code(Outcome::skipped, {}), ExitCode::skipped);
  EXPECT_EQ(code(Outcome::error, {}), ExitCode::error);
}

TEST(Verdict, FindingNamesRoundTrip) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(FindingClass::unknown); ++i) {
    const auto finding = static_cast<FindingClass>(i);
    EXPECT_EQ(parse_finding_class(name_of(finding)), finding);
    names.insert(name_of(finding));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(FindingClass::unknown) + 1);
  EXPECT_EQ(name_of(FindingClass::race_async), "race.async");
  EXPECT_EQ(name_of(FindingClass::nondeterminism_benign), "nondeterminism.benign");
  EXPECT_EQ(name_of(FindingClass::slow_lane_folded), "slow.lane_folded");
  EXPECT_EQ(name_of(FindingClass::timing_contaminated), "timing.contaminated");
  EXPECT_EQ(name_of(FindingClass::unknown), "unknown");
  EXPECT_FALSE(parse_finding_class("race"));
}

}  // namespace
}  // namespace faultline::core
