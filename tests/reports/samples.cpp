// SPDX-License-Identifier: Apache-2.0
#include "samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace faultline::reports::samples {
namespace {

using namespace core;

constexpr const char* kKernelFile = "kernels/gla_decode/gla_decode_kernels.cuh";
constexpr const char* kAsyncFile = "kernels/gla_decode/async_copy.cuh";

Interval wilson(std::uint64_t failed, std::uint64_t trials) {
  const double z = 1.959963984540054, n = static_cast<double>(trials),
               p = static_cast<double>(failed) / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {failed == 0 ? 0.0 : centre - half, failed == trials ? 1.0 : centre + half};
}

ArmEvidence arm(std::string name, std::uint64_t failed, std::uint64_t trials) {
  ArmEvidence arm;
  arm.perturbation.name = std::move(name);
  arm.result.trials = trials;
  arm.result.failed = arm.result.wrong_values = failed;
  arm.wilson95 = wilson(failed, trials);
  arm.upper95 = 1.0 - std::pow(0.05, 1.0 / static_cast<double>(trials));
  if (failed > 0) {
    arm.token = "fl1.eyJiIjoic2ltdWxhdG9yIiwicyI6ImdsYV9kZWNvZGUiLCJ2Ijoic2hhcmVkX2J1ZmZlciJ9.k3Qf";
    arm.result.first_failed_trial = 3;
  }
  return arm;
}

OutputTotals output(std::string name, Dtype dtype, TileGeometry geometry, std::uint64_t trials,
                    double ratio) {
  OutputTotals totals;
  totals.name = std::move(name);
  totals.dtype = dtype;
  totals.geometry = std::move(geometry);
  totals.compared_elements =
      trials * static_cast<std::uint64_t>(totals.geometry.rows * totals.geometry.cols);
  totals.worst_ratio = ratio;
  totals.worst_ulps = 2.1 * ratio;
  totals.worst_error = 0.0156 * ratio;
  totals.tiles.resize(static_cast<std::size_t>(totals.geometry.tile_count()));
  for (auto& tile : totals.tiles) {
    tile.worst_ratio = 0.9 * ratio;
  }
  return totals;
}

void spoil(OutputTotals& totals, std::int64_t tile, std::uint64_t bad_trials,
           std::uint64_t elements, double ratio, std::int64_t first) {
  TileTotals& t = totals.tiles[static_cast<std::size_t>(tile)];
  t.bad_trials += bad_trials;
  t.bad_elements += elements;
  t.worst_ratio = std::max(t.worst_ratio, ratio);
  t.worst_ulps = std::max(t.worst_ulps, 3 * ratio);
  t.first_bad_index = first;
  totals.bad_trials = std::max(totals.bad_trials, bad_trials);
  totals.bad_elements += elements;
  totals.worst_ratio = std::max(totals.worst_ratio, ratio);
  totals.worst_ulps = std::max(totals.worst_ulps, 3 * ratio);
  totals.worst_error = std::max(totals.worst_error, 0.0156 * ratio);
}

/// Errors of all elements but `bad` fall off from the bound by powers of two; the bad ones lie
/// above it. On a device, of every 32nd trial.
void add_bins(OutputTotals& totals, std::uint64_t bad, std::uint32_t every = 1) {
  std::vector<std::uint64_t> ratio(bad > 0 ? 17 : 10), ulps(bad > 0 ? 19 : 11);
  totals.bins_every = every;
  std::uint64_t left = totals.compared_elements / every - bad;
  ratio[0] = ulps[0] = left / 3;
  left -= left / 3;
  for (std::size_t bin = 9; bin > 0; --bin) {
    const std::uint64_t part = bin > 1 ? left / 2 : left;
    ratio[bin] = ulps[bin + 1] = part;
    left -= part;
  }
  if (bad > 0) {
    ratio[13] = ulps[15] = bad / 4;
    ratio[16] = ulps[18] = bad - bad / 4;
  }
  totals.ratio_bins = ratio;
  totals.ulp_bins = ulps;
}

void add_failing_trial(TrialResult& result, std::uint64_t trial, bool in_o, bool in_state) {
  FailedTrial failure;
  failure.trial = trial;
  failure.raced = true;
  if (in_o) {
    for (std::int64_t tile = static_cast<std::int64_t>(trial % 3); tile < 4; ++tile) {
      failure.wrong_tiles.push_back({0, tile, 16, 9.2});
    }
  }
  if (in_state) {
    failure.wrong_tiles.push_back({1, 1, 640, 41.3});
    if (trial % 5 == 0) failure.wrong_tiles.push_back({1, 0, 9, 1.7});
  }
  for (const WrongTile& wrong : failure.wrong_tiles) failure.bad_elements += wrong.bad_elements;
  add_failure(result, std::move(failure));
}

const TileGeometry kStateTiles{64, 64, 16, 64, 4, 2, "16 rows of dk"};
const TileGeometry kOutTiles{1, 64, 1, 16, 0, 0, "16 columns of dv"};

SourceExcerpt excerpt(std::string file, int first, int marked, std::vector<std::string> lines) {
  return {std::move(file), first, std::move(lines), marked};
}

RunRecord on_simulator(std::string command, std::string subject, std::string variant,
                       std::string problem) {
  RunRecord record;
  record.command = std::move(command);
  record.subject = std::move(subject);
  record.variant = std::move(variant);
  record.problem = std::move(problem);
  record.seed = 1;
  record.evidence.subject = record.subject;
  record.evidence.variant = record.variant;
  record.evidence.problem = record.problem;
  record.evidence.backend = "simulator";
  record.evidence.backend_is_model = true;
  record.evidence.mode = record.command;
  record.provenance = {"0.1.0",
                       "2026-11-30T09:12:44Z",
                       8.21,
                       "buildhost",
                       "faultline " + record.command + " " + record.subject,
                       {"simulator", "PTX simulator (model of sm_90a)", "", "", 0, 0, true}};
  return record;
}

RunRecord on_h200(std::string command, std::string subject, std::string variant,
                  std::string problem) {
  RunRecord record =
      on_simulator(std::move(command), std::move(subject), std::move(variant), std::move(problem));
  record.evidence.backend = "cuda";
  record.evidence.backend_is_model = false;
  record.provenance.backend = {"cuda", "NVIDIA H200", "580.159.04", "13.0", 132, 62914560, false};
  record.provenance.host = "gpu7";
  return record;
}

void add_shared_buffer_races(RunRecord& record) {
  AccessSite read;
  read.kernel = "gla_decode_bf16_bulk_shared_buffer";
  read.instruction = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16";
  read.where = {{kAsyncFile, 61, "load_matrix_x4_transposed"},
                {kKernelFile, 214, "accumulate_output"}};
  read.actor = "cta 0 warp 3 lane 4";
  AccessSite refill;
  refill.kernel = read.kernel;
  refill.instruction = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
  refill.where = {{kAsyncFile, 38, "copy_bulk"}, {kKernelFile, 171, "stream_state"}};
  refill.actor = "bulk copy completing on mbarrier full_again[1]";
  refill.is_write = refill.async_proxy = true;
  AccessSite load = refill;
  load.where = {{kAsyncFile, 38, "copy_bulk"}, {kKernelFile, 152, "stream_state"}};
  load.actor = "bulk copy completing on mbarrier full[1]";
  RaceReport late;
  late.kind = RaceKind::write_after_read;
  late.buffer = "state_tiles";
  late.byte_begin = 2048;
  late.byte_end = 4096;
  late.first = read;
  late.second = refill;
  late.count = 1024;
  late.missing_edge = "pass 2's first wait on empty_again[1] (phase 1) returns at once, so nothing "
                      "orders the refill after the "
                      "arrivals on empty[1] with which pass 1's consumers release the slot.";
  RaceReport overlap = late;
  overlap.kind = RaceKind::write_after_write;
  overlap.first = load;
  overlap.count = 512;
  overlap.missing_edge =
      "two bulk copies into the same slot are in flight: nothing waits for full[1] in between.";
  record.evidence.races = {late, overlap};
  record.excerpts = {
      excerpt(
          kAsyncFile, 59, 61,
          {"// 4 8x8 matrices, transposed, from rows addressed by the 32 lanes.",
           "__device__ __forceinline__ void load_matrix_x4_transposed(uint32_t (&d)[4], uint32_t "
           "row) {",
           "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\"",
           "               : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3]) : \"r\"(row) : "
           "\"memory\");"}),
      excerpt(kAsyncFile, 36, 38,
              {"__device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t "
               "bytes,",
               "                                          uint32_t barrier) {",
               "  asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], "
               "%2, [%3];\"",
               "               :: \"r\"(to), \"l\"(from), \"r\"(bytes), \"r\"(barrier) : "
               "\"memory\");"}),
      excerpt(
          kKernelFile, 212, 214,
          {"    wait(full[slot], phase);                       // writer: the bulk copy of tile t",
           "    uint32_t state[4];",
           "    load_matrix_x4_transposed(state, address_of(state_tiles[slot], lane));",
           "    multiply_accumulate(output, query[t], state);  // [16, 16] x [16, 8]",
           "    arrive(empty[slot]);                           // reader done: the producer may "
           "refill"}),
      excerpt(kKernelFile, 169, 171,
              {"    wait(empty_again[slot], phase ^ 1);  // fresh barriers: the first round "
               "returns at once",
               "    expect(full_again[slot], kTileBytes);",
               "    copy_bulk(state_tiles[slot], state + t * kTileElements, kTileBytes, "
               "full_again[slot]);",
               "    arrive(full_again[slot]);", "  }"}),
      excerpt(
          kKernelFile, 150, 152,
          {"    wait(empty[slot], phase ^ 1);", "    expect(full[slot], kTileBytes);",
           "    copy_bulk(state_tiles[slot], state + t * kTileElements, kTileBytes, full[slot]);",
           "    arrive(full[slot]);", "  }"})};
}

}  // namespace

RunRecord stress_shared_buffer() {
  RunRecord record = on_simulator("stress", "gla_decode", "shared_buffer",
                                  "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16 scale=0.125");
  record.config = "stages=2 copy=bulk";
  record.analysis_plan = "4 arms in this order, 500 trials each, fixed before the run; rates with "
                         "Wilson 95 % intervals";
  record.module_hashes = {{"gla_decode_shared_buffer", "9f2c41d07be3a815"}};
  add_shared_buffer_races(record);
  struct {
    const char* name;
    std::uint64_t wrong, o_bad, state_bad;
  } arms[] = {{"round-robin, eager copies", 0, 0, 0},
              {"round-robin, lazy copies", 500, 0, 500},
              {"random schedule, random copies", 391, 322, 187},
              {"pct schedule, random copies", 455, 401, 96}};
  for (const auto& [name, wrong, o_bad, state_bad] : arms) {
    ArmEvidence a = arm(name, 500, 500);
    a.result.wrong_values = wrong;
    a.result.raced = 500;
    OutputTotals o = output("o", Dtype::bf16, kOutTiles, 500, 0.31);
    OutputTotals state = output("new_state", Dtype::bf16, kStateTiles, 500, 0.22);
    if (o_bad > 0) {
      for (int tile = 0; tile < 4; ++tile) {
        spoil(o, tile, o_bad - 20u * static_cast<unsigned>(tile), 16 * o_bad, 18.4, 16 * tile);
      }
    }
    if (state_bad > 0) {
      spoil(state, 1, state_bad, 640 * state_bad, 41.3, 1024);
      if (state_bad < 200) {
        spoil(state, 0, 7, 7 * 512, 39.0, 0);
      }
    }
    add_bins(o, o_bad > 0 ? 16 * o_bad : 0);
    add_bins(state, state_bad > 0 ? 640 * state_bad : 0);
    a.result.outputs = {o, state};
    for (std::uint64_t n = 0; n < std::min<std::uint64_t>(wrong, 40); ++n) {
      add_failing_trial(a.result, 3 * n, o_bad > 0, state_bad > 0);
    }
    record.evidence.arms.push_back(a);
  }
  record.evidence.provenance = {{1, "new_state", 1, 3, 501120, 499116, 2},
                                {1, "new_state", 0, 2, 7168, 7168, 2}};
  record.evidence.error_shape = ErrorShapeEvidence{508288, 112, 0, 0.1172, 0.5928, 0};
  FootprintEvidence outputs, tiles;
  outputs.output = "o";
  outputs.kind = FootprintEvidence::Kind::everywhere;
  outputs.wrong = outputs.compared = 64;
  tiles.output = "new_state";
  tiles.kind = FootprintEvidence::Kind::tile;
  tiles.block_rows = 16;
  tiles.block_cols = 64;
  tiles.trials = 16;
  tiles.patterns = 3;
  tiles.wrong = 2448;
  tiles.compared = 12288;
  tiles.hit = 2;
  tiles.blocks = 4;
  tiles.hit_blocks = {1};
  tiles.density = 0.9961;
  tiles.runner_up = FootprintEvidence::Kind::strip;
  tiles.runner_up_rows = 8;
  tiles.runner_up_cols = 64;
  tiles.log10_ratio = 4.3;
  record.evidence.footprints = {outputs, tiles};
  record.evidence.templates = {
      {TemplateEvidence::Kind::tile_input, "o", -1, 3, 1, 0, 0, 64, 0.43},
      {TemplateEvidence::Kind::zero, "o", -1, 0, 0, 0, 0, 64, 0.0},
      {TemplateEvidence::Kind::tile_input, "new_state", 1, 1, 3, 0, 0, 1024, 0.9987},
      {TemplateEvidence::Kind::other_tile, "new_state", 1, 0, 3, 4, 9, 1024, 0.31}};
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(race.async): pass 2 refills a buffer that pass 1 still reads";
  Finding race;
  race.finding = FindingClass::race_async;
  race.headline = "A bulk copy refills state_tiles[1] while pass 1's consumers still read it: "
                  "nothing orders the "
                  "copy after the reads.";
  race.evidence = {"2 race reports, both on state_tiles, in 2,000 of 2,000 trials; 654 of these "
                   "trials had right values.",
                   "Wrong values concentrate in new_state tile 1 (783 of 2,000 trials), which the "
                   "pipeline keeps in buffer 1.",
                   "99.6 % of the 501,120 wrong elements in tile 1 equal the value computed from "
                   "tile 3's data, the last "
                   "user of that buffer in pass 1.",
                   "The rate depends on when copies complete: 0 of 500 trials had wrong values "
                   "with eager copies, 500 of 500 "
                   "with lazy ones."};
  race.runner_up = FindingClass::race_shared;
  race.runner_up_reason = "one side of each report is the async proxy, so a missing block barrier "
                          "alone does not explain it";
  race.advice = "Give pass 2 its own buffers, or let its producer wait for empty[slot] of pass 1 "
                "before the first copy.";
  record.verdict.findings = {race};
  record.replay_lines = {
      "faultline replay " + record.evidence.arms[0].token,
      "faultline race gla_decode@shared_buffer b=1 h=1 dk=64 dv=64 dtype=bf16 --config "
      "stages=2,copy=bulk --seed 1"};
  return record;
}

RunRecord stress_clean() {
  RunRecord record = on_simulator("stress", "gla_decode", "clean",
                                  "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16 scale=0.125");
  record.config = "stages=2 copy=bulk";
  record.analysis_plan = "4 arms in this order, 500 trials each, fixed before the run";
  record.module_hashes = {{"gla_decode_clean", "07be3a8159f2c41d"}};
  for (const char* name : {"round-robin, eager copies", "round-robin, lazy copies",
                           "random schedule, random copies", "pct schedule, random copies"}) {
    ArmEvidence a = arm(name, 0, 500);
    a.result.outputs = {output("o", Dtype::bf16, kOutTiles, 500, 0.31),
                        output("new_state", Dtype::bf16, kStateTiles, 500, 0.22)};
    for (OutputTotals& totals : a.result.outputs) add_bins(totals, 0);
    record.evidence.arms.push_back(a);
  }
  record.evidence.repeat = RepeatEvidence{100, 1};
  record.verdict.outcome = Outcome::pass;
  record.verdict.summary = "pass: no failure and no race in 2,000 race-checked trials";
  record.replay_lines = {
      "faultline stress gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16 --trials 2000 --seed 1"};
  return record;
}

namespace {

ConfigEvidence gemv_cell(std::string problem, std::string config, std::int64_t rows, double ratio,
                         std::int64_t tile_rows = 8) {
  ConfigEvidence cell;
  cell.problem = std::move(problem);
  cell.config = std::move(config);
  cell.result.trials = 3;
  cell.result.outputs = {output(
      "y", Dtype::f16, {rows, 1, tile_rows, 1, 0, 0, fmt::format("{} rows", tile_rows)}, 3, ratio)};
  cell.result.outputs[0].worst_rounded_error = 0.125;
  cell.rows = rows;
  cell.tile_rows = tile_rows;
  cell.reduction = 3000;
  cell.tile_k = 256;
  return cell;
}

RunRecord gemv_sweep(std::string variant, int dtypes) {
  RunRecord record =
      on_simulator("verify", "gemv", std::move(variant), "gemv n=1024 k=1024 dtype=f16");
  record.analysis_plan = "every config x every shape x every dtype, 3 input seeds each";
  record.module_hashes = {{"gemv_f16", "1d07be3a8159f2c4"},
                          {"gemv_bf16", "59f2c41d07be3a81"},
                          {"gemv_f32", "e3a8159f2c41d07b"}};
  const char* dtype_names[] = {"f16", "bf16", "f32"};
  const char* configs[] = {"path=register rows=1",    "path=register rows=4",
                           "path=shared rows=8",      "path=pipelined stages=1",
                           "path=pipelined stages=2", "path=pipelined stages=3"};
  int i = 0;
  for (int d = 0; d < dtypes; ++d) {
    for (const auto& [n, k] : {std::pair{1024, 1024}, {3001, 3000}, {256, 4099}}) {
      for (const char* config : configs) {
        ConfigEvidence cell = gemv_cell(fmt::format("n={} k={} dtype={}", n, k, dtype_names[d]),
                                        config, n, 0.05 + 0.013 * (i++ * 7 % 17));
        record.evidence.configs.push_back(cell);
      }
    }
  }
  return record;
}

}  // namespace

RunRecord verify_gemv() {
  RunRecord record = gemv_sweep("clean", 3);
  record.evidence.error_shape = ErrorShapeEvidence{0, 0, 0, 0.0, 0.0, 1284};
  record.verdict.outcome = Outcome::pass;
  record.verdict.summary = "pass: 54 of 54 configurations within 0.26 of the bound";
  Finding rounding;
  rounding.finding = FindingClass::output_rounding;
  rounding.severity = Severity::note;
  rounding.headline = "The largest error against the rounded reference is 0.125, exactly one fp16 "
                      "step at that magnitude.";
  rounding.evidence = {"1,284 accepted elements differ from the rounded reference by a power of "
                       "two; all lie within the "
                       "rounding interval of the unrounded one."};
  rounding.runner_up = FindingClass::systematic_offset;
  rounding.runner_up_reason = "the error does not persist in fp32 outputs of the same kernel";
  record.verdict.findings = {rounding};
  record.replay_lines = {"faultline verify gemv --seed 1"};
  return record;
}

RunRecord verify_stage_sentinel() {
  RunRecord record = gemv_sweep("stage_sentinel", 1);
  for (auto& cell : record.evidence.configs) {
    cell.failed = true;
    auto& y = cell.result.outputs[0];
    for (std::int64_t tile = 0; tile < std::ssize(y.tiles); ++tile) {
      spoil(y, tile, 3, 24, 38251.0 + static_cast<double>(tile % 5), 8 * tile);
    }
    cell.result.failed = cell.result.wrong_values = 3;
    cell.token = "fl1.eyJzIjoiZ2VtdiJ9.Z0aQ";
  }
  record.evidence.error_shape = ErrorShapeEvidence{4321, 2, 0, 11.83, 57.21, 0};
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(systematic_offset): the same error in all 18 configurations";
  Finding offset;
  offset.finding = FindingClass::systematic_offset;
  offset.headline = "The same error in all 18 configurations: the design is wrong, not one config.";
  offset.evidence = {
      "Error vectors of all 18 configurations agree to 0.02 of the bound; correlation 1.0000.",
      "The worst error is 416 times the bound, so output rounding does not explain it.",
      "The error equals the sum over the first 256 elements of k, counted twice."};
  offset.runner_up = FindingClass::config;
  offset.runner_up_reason = "no configuration is right";
  record.verdict.findings = {offset};
  record.replay_lines = {"faultline verify gemv@stage_sentinel n=1024 k=1024 dtype=f16 --seed 1"};
  return record;
}

RunRecord verify_dropped_tail() {
  RunRecord record = gemv_sweep("dropped_tail", 1);
  for (auto& cell : record.evidence.configs) {
    if (cell.problem.find("k=1024") != std::string::npos) {
      continue;
    }
    cell.failed = true;
    auto& y = cell.result.outputs[0];
    for (std::int64_t tile = 0; tile < std::ssize(y.tiles); ++tile) {
      if (tile % 7 != 3) {
        spoil(y, tile, 1 + static_cast<std::uint64_t>(tile % 3), 24,
              12.0 + static_cast<double>(tile % 5), 8 * tile);
      }
    }
    cell.result.failed = cell.result.wrong_values = 3;
    FailedTrial failure;
    failure.wrong_tiles = {{0, 1, 24, 13.0}, {0, 2, 24, 14.0}};
    add_failure(cell.result, std::move(failure));
  }
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(tail): wrong only where k is not a multiple of 256";
  Finding tail;
  tail.finding = FindingClass::tail;
  tail.headline = "Wrong only where k is not a multiple of the reduction tile (256).";
  tail.evidence = {"12 of 12 configurations with k mod 256 != 0 fail, 0 of 6 with k mod 256 = 0."};
  record.verdict.findings = {tail};
  record.replay_lines = {"faultline verify gemv@dropped_tail n=3001 k=3000 dtype=f16 --seed 1"};
  return record;
}

RunRecord verify_missing_term() {
  RunRecord record = on_simulator("verify", "deltanet_bwd", "drop_dw_cross",
                                  "deltanet_bwd b=1 h=1 t=128 dk=64 dv=64 dtype=f16");
  record.analysis_plan = "3 problems x one config, 3 trials each";
  Evidence& evidence = record.evidence;
  evidence.hypothesis = "dw_cross";
  const TileGeometry rows{128, 64, 32, 64, 4, 0, "one chunk"};
  const double errors[][3] = {{0.00041, 0.063, 0.094}, {0.00038, 0.00040, 0.00043}};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t length = std::int64_t{32} << i;
    ConfigEvidence cell;
    cell.problem = fmt::format("b=1 h=1 t={} dk=64 dv=64 dtype=f16", length);
    cell.config = "chunk=32";
    cell.result.trials = 3;
    cell.result.outputs = {output("dk", Dtype::f16, rows, 3, i == 0 ? 0.31 : 9.4),
                           output("dv", Dtype::f16, rows, 3, 0.28)};
    cell.reduction = length;
    cell.tile_k = 32;
    for (int o = 0; o < 2; ++o) {
      OutputTotals& totals = cell.result.outputs[static_cast<std::size_t>(o)];
      totals.sum_squared_expected = 100.0;
      totals.sum_squared_error = 100.0 * errors[o][i] * errors[o][i];
      evidence.growth.push_back({totals.name, cell.config, "b=1 h=1 dk=64 dv=64 dtype=f16", length,
                                 length / 32, errors[o][i], totals.worst_ratio, o == 0 && i > 0});
    }
    if (i > 0) {
      cell.failed = true;
      cell.result.failed = cell.result.wrong_values = 3;
      spoil(cell.result.outputs[0], 1, 3, 412, 9.4, 2048);
      cell.token = "fl1.eyJzIjoiZGVsdGFuZXQifQ.Qx3b";
    }
    evidence.configs.push_back(cell);
  }
  const std::string problem = "b=1 h=1 t=128 dk=64 dv=64 dtype=f16";
  const auto term = [&](std::string name, std::string terms, ErrorHypothesis::Kind kind,
                        double coefficient, double r_squared, double on_dk, double on_dv) {
    TermEvidence t;
    t.problem = problem;
    t.config = "chunk=32";
    t.name = std::move(name);
    t.terms = std::move(terms);
    t.kind = kind;
    t.visibility = std::max(on_dk, on_dv);
    t.elements = 16384;
    t.coefficient = coefficient;
    t.r_squared = r_squared;
    t.standard_error = 0.0004;
    t.outputs = {{"dk", on_dk, 824, coefficient, r_squared}, {"dv", on_dv, 0, 0.0, 0.0}};
    evidence.terms.push_back(std::move(t));
  };
  using Kind = ErrorHypothesis::Kind;
  term("A_inv", "dk_A, dbeta_A", Kind::term, -0.117, 0.021, 24.1, 0.0);
  term("dh_coefficient", "dh_coefficient", Kind::term, -0.402, 0.283, 11.9, 8.2);
  term("dw_cross", "dw_cross", Kind::term, -0.999, 0.99871, 9.3, 0.0);
  term("dk_corr", "dk_corr", Kind::term, 0.031, 0.004, 0.4, 0.0);
  term("strict_tril", "P = tril(Q K^T Gamma)", Kind::wrong_form, 0.012, 0.0003, 31.0, 40.7);
  evidence.term_combinations = {
      {problem, "chunk=32", {"dw_cross", "dk_corr"}, {-0.999, 0.004}, 0.99872}};
  const auto stage = [&](std::string name, bool is_output, std::uint64_t wrong, double ratio,
                         std::int64_t first, std::int64_t last) {
    evidence.intermediates.push_back({problem, "chunk=32", std::move(name), is_output, 24576, wrong,
                                      ratio, first, last, 4, "one chunk"});
  };
  stage("x", false, 0, 0.21, -1, -1);
  stage("dh", false, 0, 0.34, -1, -1);
  stage("dw", false, 1302, 14.2, 1, 2);
  stage("dk", true, 824, 9.4, 1, 2);
  stage("dv", true, 0, 0.28, -1, -1);
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(missing_term): deltanet_bwd@drop_dw_cross lacks the term dw_cross";
  Finding missing;
  missing.finding = FindingClass::missing_term;
  missing.headline = "deltanet_bwd@drop_dw_cross lacks the term dw_cross";
  missing.evidence = {"first divergence: dw in tiles 1 to 2 (of 4, a tile being one chunk), 14.2 "
                      "times the bound; x "
                      "and dh before it are right",
                      "got - expected is -0.999 times the effect of dw_cross: R^2 = 0.99871 over "
                      "16,384 elements of "
                      "the wrong outputs",
                      "only dk is wrong (dv right), as the data flow of dw_cross predicts"};
  missing.runner_up = FindingClass::systematic_offset;
  missing.runner_up_reason = "the next best reading, dh_coefficient, explains R^2 = 0.283";
  missing.advice = "Compare the code that should compute dw_cross with its formula.";
  Finding unseen;
  unseen.finding = FindingClass::bound_vacuous;
  unseen.severity = Severity::note;
  unseen.headline = "terms not visible with these inputs: dk_corr (0.4 of the bound)";
  unseen.runner_up = FindingClass::vacuous;
  record.verdict.findings = {missing, unseen};
  record.replay_lines = {"faultline verify deltanet_bwd@drop_dw_cross t=128 --config chunk=32"};
  return record;
}

RunRecord verify_uncoalesced() {
  RunRecord record = gemv_sweep("uncoalesced", 1);
  record.evidence.configs.resize(6);
  record.evidence.accesses = {{{"kernels/gemv/gemv_kernels.cuh", 88, "load_row"},
                               "ld.global.nc.b16",
                               MemorySpace::global,
                               false,
                               4096,
                               131072,
                               8192,
                               2048},
                              {{"kernels/gemv/gemv_kernels.cuh", 91, "load_x"},
                               "ld.global.nc.v4.b32",
                               MemorySpace::global,
                               false,
                               512,
                               8192,
                               8192,
                               16}};
  record.verdict.outcome = Outcome::pass;
  record.verdict.summary = "pass: values are right, with 1 warning";
  Finding slow;
  slow.finding = FindingClass::slow_uncoalesced;
  slow.severity = Severity::warning;
  slow.headline =
      "Loads at gemv_kernels.cuh:88 touch 16 times the sectors that a dense layout needs.";
  slow.evidence = {
      "Neighbouring lanes are 2,048 bytes apart: each 2-byte load costs a 32-byte sector."};
  slow.advice = "Let lanes walk along k, the contiguous dimension.";
  record.verdict.findings = {slow};
  record.replay_lines = {"faultline verify gemv@uncoalesced n=1024 k=1024 dtype=f16 --seed 1"};
  return record;
}

RunRecord cuda_stress() {
  RunRecord record = on_h200("stress", "gla_decode", "early_release",
                             "gla_decode b=2 h=4 dk=64 dv=64 dtype=bf16 scale=0.125");
  record.config = "stages=2 copy=tensor";
  record.analysis_plan = "18 arms interleaved in blocks of 250 trials, order drawn from the seed, "
                         "fixed before the run";
  record.module_hashes = {{"gla_decode_early_release", "d07be3a8159f2c41"}};
  record.provenance.duration_s = 754.0;
  struct {
    const char* name;
    std::uint64_t failed, trials;
  } arms[] = {{"none", 0, 5000},
              {"sync after each launch", 0, 5000},
              {"host spin 1 us", 0, 5000},
              {"host spin 10 us", 0, 5000},
              {"host spin 100 us", 0, 5000},
              {"host sleep 1 ms", 0, 5000},
              {"host sleep 5 ms", 0, 1500},
              {"fresh module per trial", 0, 3000},
              {"cold pool 20 MB", 0, 5000},
              {"cold pool 512 MB", 0, 5000},
              {"L2 flushed", 1, 5000},
              {"memory stress", 111, 60000},
              {"memory stress, cold pool 512 MB", 96, 60000},
              {"compute stress", 0, 2000},
              {"3 CTAs per SM", 2, 5000},
              {"graph of 64 trials", 0, 100000},
              {"256 trials in one grid", 14, 1000000},
              {"sm_limit_1", 0, 500},
              {"blocker_50us", 0, 5000},
              {"random schedule", 0, 0}};
  for (const auto& [name, failed, trials] : arms) {
    ArmEvidence a = arm(name, failed, std::max<std::uint64_t>(trials, 1));
    a.result.trials = trials;
    OutputTotals o =
        output("o", Dtype::bf16, {8, 64, 1, 16, 4, 0, "16 columns of dv"}, trials, 0.33);
    OutputTotals state =
        output("new_state", Dtype::bf16, {512, 64, 16, 64, 4, 2, "16 rows of dk"}, trials, 0.24);
    if (failed > 0) {
      for (int tile = 0; tile < 32; ++tile) {
        spoil(o, tile, std::max<std::uint64_t>(1, failed / (2 + static_cast<unsigned>(tile % 4))),
              16 * failed, 9.7, 16 * tile);
      }
      o.bad_trials = failed;
    }
    add_bins(o, failed, 32);
    add_bins(state, 0, 32);
    a.result.outputs = {o, state};
    record.evidence.arms.push_back(a);
  }
  record.evidence.arms[13].result.overlap_proven = false;
  record.evidence.arms[17].result.held_sms = 131;
  record.evidence.arms[18].result.ran_ahead = 4893;
  record.evidence.arms[18].result.ran_ahead_of = 5000;
  auto& skipped = record.evidence.arms[19].result;
  skipped.skipped = true;
  skipped.note = "schedule policies exist on the simulator only";
  skipped.outputs.clear();
  auto& batch = record.evidence.arms[16].result;
  batch.gate_samples = 100;
  batch.gate_worst = 3.1e-16;
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary =
      "fail(race.async): o is wrong in 224 of 1,276,500 trials, mostly under memory stress";
  Finding race;
  race.finding = FindingClass::race_async;
  race.headline =
      "o is wrong in 224 of 1,276,500 trials, mostly under memory stress; repeats differ.";
  race.evidence = {"The failure rate depends on memory stress: 111 of 60,000 against 0 of 5,000 (E "
                   "= 4.1e+05, alpha = 0.01).",
                   "Wrong elements are whole groups of 16 columns: one warp's share of o."};
  race.runner_up = FindingClass::race_shared;
  race.runner_up_reason =
      "a generic-proxy race would not vanish with a proxy fence; run `faultline race` to tell";
  race.confidence = 0.7;
  Finding timing;
  timing.finding = FindingClass::nondeterminism_benign;
  timing.severity = Severity::note;
  timing.headline = "Right outputs of one input set differ in no bit.";
  record.verdict.findings = {race, timing};
  record.replay_lines = {"faultline replay " + record.evidence.arms[11].token + " --backend cuda"};
  return record;
}

RunRecord bench_gemv() {
  RunRecord record = on_h200("bench", "gemv", "clean", "gemv n=7168 k=16384 dtype=f16");
  record.provenance.duration_s = 41.7;
  record.verdict.outcome = Outcome::pass;
  record.verdict.summary =
      "pass: gemv@register is 1.03 to 1.92 times as fast as the best cuBLAS at 3 shapes";
  record.analysis_plan =
      "200 samples of 20 launches, L2-cold (3 rotating buffers), methods interleaved";
  struct {
    const char* problem;
    double own, event, lt, ex, bytes;
  } shapes[] = {{"gemv n=7168 k=16384 dtype=f16", 53.51, 57.93, 59.18, 59.24, 234.9e6},
                {"gemv n=28672 k=8192 dtype=bf16", 104.02, 108.61, 107.94, 108.72, 469.8e6},
                {"gemv n=1024 k=1024 dtype=f16", 2.11, 6.63, 4.06, 7.21, 2.1e6}};
  for (const auto& [problem, own, event, lt, ex, bytes] : shapes) {
    const auto row = [&](const char* name, const char* config, double us, double event_us,
                         double spread) {
      BenchRow r;
      r.problem = problem;
      r.name = name;
      r.config = config;
      r.median_graph_us = us;
      r.spread_graph = spread;
      r.median_event_us = event_us;
      r.spread_event = 2 * spread;
      r.bytes = bytes;
      r.tb_per_s = bytes / us * 1e-6;
      r.fraction_of_ceiling = r.tb_per_s / 4.53;
      r.ratio_to_baseline = std::min(lt, ex) / us;
      r.contaminated = spread > 0.1;
      return r;
    };
    record.bench.push_back(row("gemv@register", "rows=1 loads=4", own, event, 0.012));
    record.bench.push_back(
        row("gemv@pipelined", "stages=3", own * 1.04, event * 1.03, own < 3 ? 0.134 : 0.019));
    record.bench.push_back(row("cublasLtMatmul", "best of 8", lt, lt + 7.1, 0.008));
    record.bench.push_back(row("cublasGemmEx", "", ex, ex + 7.3, 0.009));
  }
  record.replay_lines = {"faultline bench gemv --backend cuda --seed 1"};
  return record;
}

RunRecord unsupported() {
  RunRecord record = on_simulator("race", "kernels/theirs.ptx", "", "");
  ArmEvidence a = arm("round-robin, eager copies", 0, 1);
  a.result.trials = 0;
  a.result.status = ExecutionStatus::unsupported;
  a.result.message = "theirs.ptx:118: the simulator does not know "
                     "'wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16'; "
                     "run on a GPU with --backend cuda, or leave that kernel out";
  record.evidence.arms = {a};
  record.verdict.outcome = Outcome::inconclusive;
  record.verdict.summary = "inconclusive: an instruction that the simulator cannot judge";
  record.replay_lines = {"faultline race kernels/theirs.ptx --seed 1"};
  return record;
}

RunRecord interrupted() {
  RunRecord record = stress_clean();
  record.evidence.interrupted = true;
  record.evidence.arms.resize(2);
  record.evidence.arms[1] = arm("round-robin, lazy copies", 0, 137);
  record.verdict.outcome = Outcome::inconclusive;
  record.verdict.summary =
      "inconclusive: interrupted after 637 of 2,000 trials, none of which failed";
  return record;
}

RunRecord deadlock() {
  RunRecord record = on_simulator("stress", "gla_decode", "lost_arrival",
                                  "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16");
  ArmEvidence a = arm("random schedule, lazy copies", 500, 500);
  a.result.abnormal = 500;
  a.result.wrong_values = 0;
  a.result.status = ExecutionStatus::deadlock;
  a.result.message = "deadlock after 18,204 steps: 8 warps wait and nothing can wake them";
  for (int warp = 0; warp < 8; ++warp) {
    a.result.details.push_back(fmt::format(
        "warp {} waits on mbarrier {}[0] phase {} (pending 1 of 128) at {}:{}", warp,
        warp < 4 ? "full" : "empty", warp < 4 ? 1 : 0, kKernelFile, warp < 4 ? 212 : 150));
  }
  record.evidence.arms = {a};
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(hang): deadlock in 500 of 500 trials";
  Finding hang;
  hang.finding = FindingClass::hang;
  hang.headline = "Deadlock: consumers wait for full[0], which lacks one arrival, while the "
                  "producer waits for empty[0].";
  hang.evidence = {"8 of 8 warps blocked; 1 arrival missing on full[0] phase 1."};
  record.verdict.findings = {hang};
  record.replay_lines = {"faultline replay " + a.token};
  return record;
}

RunRecord mutants_gemv() {
  RunRecord record = on_simulator("mutants", "gemv", "", "");
  record.analysis_plan = "each mutant where it shows, and each clean variant at the same problem";
  const auto row = [&](const char* variant, std::optional<FindingClass> required) -> KillRow& {
    KillRow& row = record.mutants.rows.emplace_back();
    row.subject = "gemv";
    row.variant = variant;
    row.clean_twin = required ? "register" : "";
    row.is_mutant = required.has_value();
    row.required = required;
    row.problem = "n=64 k=1024 dtype=f16 inputs=any";
    row.config = "rows=1 threads=128";
    row.right = !required;
    return row;
  };
  const auto said = [](KillRow& row, Detector detector, std::optional<FindingClass> said,
                       std::uint64_t trials, std::uint64_t failed) {
    KillCell& cell = row.cells.emplace_back();
    cell.detector = detector;
    cell.ran = true;
    cell.outcome = said ? Outcome::fail : Outcome::pass;
    if (said) cell.classes = {*said};
    cell.killed = said.has_value();
    cell.right = said && said == row.required;
    cell.trials = trials;
    cell.failed = failed;
    cell.trials_to_kill = failed > 0 ? 1 + trials / (failed + 1) : 0;
    cell.seconds = 0.4;
    row.killed = row.killed || cell.killed;
    row.right = row.right || cell.right;
  };
  using enum Detector;
  KillRow& clean = row("register", std::nullopt);
  for (const Detector detector : {tight_loop, verify, stress, happens_before}) {
    said(clean, detector, std::nullopt, 50, 0);
  }
  KillRow& barrier = row("missing_barrier", FindingClass::race_shared);
  said(barrier, tight_loop, FindingClass::unknown, 50, 50);
  said(barrier, verify, FindingClass::race_shared, 24, 7);
  said(barrier, stress, FindingClass::race_shared, 48, 3);
  said(barrier, happens_before, FindingClass::race_shared, 4, 4);
  KillRow& tail = row("dropped_tail", FindingClass::tail);
  said(tail, tight_loop, FindingClass::unknown, 50, 50);
  said(tail, verify, FindingClass::systematic_offset, 24, 24);
  said(tail, stress, FindingClass::unknown, 48, 48);
  said(tail, happens_before, std::nullopt, 4, 0);
  KillRow& survivor = row("missed_rows", FindingClass::missed_write);
  for (const Detector detector : {tight_loop, verify, stress, happens_before}) {
    said(survivor, detector, std::nullopt, 50, 0);
  }
  survivor.cells.push_back({.detector = sanitizer, .note = "compute-sanitizer is not installed"});
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary =
      "fail: 2 of 3 mutants killed, 1 under the right name; 0 of 1 clean variants blamed";
  record.replay_lines = {"faultline mutants gemv --seed 1"};
  return record;
}

RunRecord hostile() {
  const std::string attack = "<script>document.title='owned'</script>\"'><img src=x "
                             "onerror=alert(1)>&amp;\x1b[31m\a\xe2\x80\xae"
                             "\xff</pre></style></title>"
                             " | `x``y` ]]> $z$ \n# \"q\", " +
                             std::string(1, '\0');
  RunRecord record = stress_shared_buffer();
  const auto spoil_text = [&](std::string& text) { text += attack; };
  for (std::string* text :
       {&record.command, &record.subject, &record.variant, &record.problem, &record.config,
        &record.analysis_plan, &record.module_hashes[0].first, &record.module_hashes[0].second,
        &record.verdict.summary, &record.provenance.host, &record.provenance.started_at,
        &record.provenance.command_line, &record.provenance.faultline_version,
        &record.provenance.backend.device, &record.provenance.backend.driver}) {
    spoil_text(*text);
  }
  for (auto& finding : record.verdict.findings) {
    spoil_text(finding.headline);
    spoil_text(finding.runner_up_reason);
    spoil_text(finding.advice);
    for (auto& sentence : finding.evidence) {
      spoil_text(sentence);
    }
  }
  for (auto& race : record.evidence.races) {
    spoil_text(race.buffer);
    spoil_text(race.missing_edge);
    for (AccessSite* site : {&race.first, &race.second}) {
      spoil_text(site->instruction);
      spoil_text(site->actor);
      spoil_text(site->kernel);
      for (auto& where : site->where) {
        spoil_text(where.file);
        spoil_text(where.function);
      }
    }
  }
  for (auto& e : record.excerpts) {
    spoil_text(e.file);
    for (auto& line : e.lines) {
      spoil_text(line);
    }
  }
  for (auto& a : record.evidence.arms) {
    spoil_text(a.perturbation.name);
    spoil_text(a.token);
    spoil_text(a.result.note);
    spoil_text(a.result.message);
    for (auto& o : a.result.outputs) {
      spoil_text(o.name);
      spoil_text(o.geometry.tile_axis);
    }
  }
  for (auto& p : record.evidence.provenance) {
    spoil_text(p.output_name);
  }
  record.evidence.configs = {
      gemv_cell("n=8" + attack, "c=1" + attack, 8, std::numeric_limits<double>::infinity())};
  record.evidence.configs[0].failed = true;
  spoil(record.evidence.configs[0].result.outputs[0], 0, 3, 24,
        std::numeric_limits<double>::quiet_NaN(), 0);
  record.evidence.null_outputs_accepted = {"zeros" + attack};
  record.evidence.accesses = {
      {{"f" + attack, 1, "g" + attack}, "ld" + attack, MemorySpace::global, false, 1, 32, 1, 64}};
  record.bench = {{"p" + attack, "c" + attack, "n" + attack, 1, 0.2, 1, 0.1, 1, 1, 1, 1, true,
                   "note" + attack}};
  KillRow row;
  row.subject = "s" + attack;
  row.variant = "v" + attack;
  row.is_mutant = true;
  row.cells = {{.ran = true, .note = "n" + attack, .outcome = Outcome::fail}};
  record.mutants.rows = {row};
  for (auto& line : record.replay_lines) {
    spoil_text(line);
  }
  return record;
}

RunRecord empty() { return {}; }

RunRecord stress_large() {
  RunRecord record = on_h200("stress", "deltanet_bwd", "early_release",
                             "deltanet_bwd b=8 h=16 t=4096 dk=64 dv=64");
  record.analysis_plan = "20 arms of 5,000 trials, fixed before the run";
  constexpr std::uint64_t kArms = 20, kTrials = 5000;
  for (std::uint64_t n = 0; n < kArms; ++n) {
    const std::uint64_t failed = n % 4 == 0 ? 0 : 1 + 97 * n;
    ArmEvidence a = arm(fmt::format("arm {}", n), failed, kTrials);
    for (std::uint64_t o = 0; o < 9; ++o) {
      OutputTotals totals = output(fmt::format("d{}", o), Dtype::bf16,
                                   {65536, 64, 64, 64, 0, 0, "one chunk"}, kTrials, 0.4);
      const std::int64_t step = 1 + static_cast<std::int64_t>(o);
      for (std::int64_t tile = static_cast<std::int64_t>(n); failed > 0 && tile < 1024;
           tile += step) {
        spoil(totals, tile, 1 + failed / 3, 41 * failed, 3.0 + static_cast<double>(tile % 7),
              64 * tile);
      }
      add_bins(totals, totals.bad_elements);
      a.result.outputs.push_back(std::move(totals));
    }
    for (std::uint64_t trial = 0; trial < failed; ++trial) {
      FailedTrial failure;
      failure.trial = 2 * trial;
      for (std::uint32_t o = 0; o < 9; ++o) {
        for (std::int64_t tile = 0; tile < 24; ++tile) {
          failure.wrong_tiles.push_back(
              {o, (static_cast<std::int64_t>(trial) * 37 + 41 * tile) % 1024, 41, 3.5});
        }
      }
      add_failure(a.result, std::move(failure));
    }
    record.evidence.arms.push_back(std::move(a));
  }
  add_shared_buffer_races(record);
  const std::vector<RaceReport> some = record.evidence.races;
  for (int n = 0; n < 500; ++n) {
    for (RaceReport race : some) {
      race.byte_begin = 32 * n;
      race.byte_end = race.byte_begin + 32;
      record.evidence.races.push_back(race);
    }
  }
  record.verdict.outcome = Outcome::fail;
  record.verdict.summary = "fail(race.async): wrong in many of 100,000 trials";
  Finding race;
  race.finding = FindingClass::race_async;
  race.headline = "Wrong in many of 100,000 trials, mostly in late arms.";
  record.verdict.findings = {race};
  record.replay_lines.assign(40, "faultline replay " + record.evidence.arms[1].token);
  return record;
}

std::vector<Named> all() {
  return {{"stress_shared_buffer", stress_shared_buffer()},
          {"stress_clean", stress_clean()},
          {"verify_gemv", verify_gemv()},
          {"verify_stage_sentinel", verify_stage_sentinel()},
          {"verify_dropped_tail", verify_dropped_tail()},
          {"verify_missing_term", verify_missing_term()},
          {"verify_uncoalesced", verify_uncoalesced()},
          {"cuda_stress", cuda_stress()},
          {"bench_gemv", bench_gemv()},
          {"unsupported", unsupported()},
          {"interrupted", interrupted()},
          {"deadlock", deadlock()},
          {"mutants_gemv", mutants_gemv()},
          {"hostile", hostile()},
          {"empty", empty()}};
}

}  // namespace faultline::reports::samples
