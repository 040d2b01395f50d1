// SPDX-License-Identifier: Apache-2.0
// faultline_cuda_smoke DIRECTORY [SECTION...]
//
// Runs the CUDA backend through what it is for and prints figures; the same figures go to
// DIRECTORY/cuda_smoke.json, rewritten after every section, so that nothing is lost when a later
// one fails. Sections: probe, compare, execute, programs, gate, arms, kernels, rates, bandwidth,
// gemv, gemm, fault (last: it costs the process its device). Exit code 0 when every check held, 1
// when one did not, 77 without a device.
#include <faultline/core/comparison.hpp>
#include <faultline/core/errors.hpp>
#include <faultline/cuda/baselines.hpp>
#include <faultline/cuda/cuda_backend.hpp>
#include <faultline/kernels/subject.hpp>

#include "comparator.hpp"
#include "prepare.hpp"
#include "prepared_program.hpp"
#include "timing.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

namespace {

using namespace faultline;
using Json = nlohmann::ordered_json;

struct Context {
  std::unique_ptr<core::Backend> backend;
  kernels::SubjectRegistry registry;
  Json report;
  int failures = 0;

  void check(bool held, const std::string& what) {
    if (!held) {
      ++failures;
      report["failed_checks"].push_back(what);
      fmt::print("  CHECK FAILED: {}\n", what);
    }
  }
};

core::TrialPlan plan_of(Context& context, const std::string& subject, const std::string& problem,
                        const std::string& config) {
  return kernels::resolve(context.registry, subject, core::parse_assignments(problem),
                          core::parse_assignments(config))
      .plan;
}

std::string status_of(const core::TrialResult& r) {
  return r.status == core::ExecutionStatus::completed
             ? std::string("completed")
             : fmt::format("{}: {}", core::name_of(r.status), r.message);
}

Json to_json(const core::TrialResult& r) {
  Json j;
  j["trials"] = r.trials;
  j["failed"] = r.failed;
  j["status"] = status_of(r);
  j["batch"] = r.batch;
  j["note"] = r.note;
  j["overlap_proven"] = r.overlap_proven;
  j["distinct_outputs"] = r.distinct_outputs;
  j["gate_samples"] = r.gate_samples;
  j["gate_worst"] = r.gate_worst;
  j["elapsed_ns"] = r.elapsed_ns;
  for (const core::OutputTotals& o : r.outputs) {
    Json output{{"name", o.name},
                {"compared", o.compared_elements},
                {"bad_trials", o.bad_trials},
                {"bad_elements", o.bad_elements},
                {"not_finite", o.not_finite},
                {"poison", o.poison},
                {"no_reference", o.no_reference},
                {"worst_ratio", o.worst_ratio},
                {"worst_ulps", o.worst_ulps},
                {"worst_error", o.worst_error}};
    // By position inside a group: which tile of a head fails.
    std::map<std::int64_t, std::uint64_t> by_position;
    for (std::size_t t = 0; t < o.tiles.size(); ++t) {
      if (o.tiles[t].bad_trials > 0) {
        by_position[o.geometry.position_of(static_cast<std::int64_t>(t))] += o.tiles[t].bad_trials;
      }
    }
    if (o.geometry.tiles_per_group > 0) {
      for (const auto& [position, trials] : by_position) {
        output["bad_tile_positions"][fmt::format("{}", position)] = trials;
      }
    }
    j["outputs"].push_back(std::move(output));
  }
  return j;
}

double microseconds_per_trial(const core::TrialResult& r) {
  return r.trials == 0 ? 0.0
                       : static_cast<double>(r.elapsed_ns) * 1e-3 / static_cast<double>(r.trials);
}

// ----------------------------------------------------------------------------------------------
// probe
void probe(Context& context) {
  const cuda::CudaProbe found = cuda::probe_cuda();
  const core::BackendInfo& info = context.backend->info();
  fmt::print("  {} | {} SMs | L2 {} MiB | driver {} | runtime {} | usable {} {}\n", info.device,
             info.multiprocessors, info.l2_bytes >> 20, info.driver, info.runtime, found.usable,
             found.why_not);
  context.report["device"] = {{"name", info.device},
                              {"driver", info.driver},
                              {"runtime", info.runtime},
                              {"multiprocessors", info.multiprocessors},
                              {"l2_bytes", info.l2_bytes}};
  context.check(found.usable, "probe_cuda() says that the device is usable");
}

// --------------------------------------------------------------------------------------------
// compare
/// Same outputs, same reference, compared on the device and on the host: every figure must agree.
void compare_one(Context& context, core::Dtype dtype, const core::TileGeometry& geometry,
                 bool plant) {
  const cuda::DeviceFacts facts = cuda::open_device();
  cuda::ModuleCache modules(facts);
  cuda::DeviceKernels kernels(modules);
  core::BufferSpec spec;
  spec.name = fmt::format("{} {}x{} in {}x{}", core::name_of(dtype), geometry.rows, geometry.cols,
                          geometry.tile_rows, geometry.tile_cols);
  spec.dtype = dtype;
  spec.shape = {geometry.rows, geometry.cols};
  spec.role = core::BufferRole::output;
  spec.tiles = geometry;
  const auto count = static_cast<std::size_t>(spec.elements());
  constexpr std::uint32_t kBatch = 3;
  constexpr std::uint64_t kFirst = 41;

  std::vector<std::byte> got(kBatch * spec.bytes());
  std::vector<double> expected(kBatch * count), bound(kBatch * count);
  core::OutputTotals host = core::make_output_totals(spec);
  const core::Poison laid{dtype, 0, 999'999, true};  // behind many other tiles
  std::uint64_t host_failed = 0;
  const double infinity = std::numeric_limits<double>::infinity();
  for (std::uint32_t s = 0; s < kBatch; ++s) {
    const std::uint64_t trial = kFirst + s;
    core::Poison poison = laid;
    poison.word = core::poison_word(trial);
    core::ReferenceTensor reference;
    const std::span<std::byte> slice(got.data() + s * spec.bytes(), spec.bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t r = core::mix64(trial * 1000003 + i);
      const double scale = core::exp2_int(static_cast<int>(r >> 50 & 31) - 20);
      double want = scale * (static_cast<double>(r & 0xffff) / 65536.0 - 0.5);
      double limit = scale * 1e-4 * static_cast<double>(r >> 20 & 7);
      double value = want + limit * (static_cast<double>(r >> 30 & 0xff) / 128.0 - 1.0);
      std::uint64_t bits = core::encode(dtype, value);
      if (plant && s != 1 && r % 97 == 0) {
        const auto tile =
            static_cast<std::uint64_t>(geometry.tile_of(static_cast<std::int64_t>(i)));
        switch (r / 97 % 8) {
        case 0: bits = poison.bits(tile); break;
        case 7: bits = poison.bits(tile + 1); break;  // of another tile
        case 1: bits = core::encode(dtype, std::nan("")); break;
        case 2: bits = core::encode(dtype, infinity); break;
        case 3: bits = core::encode(dtype, want + 3.0 * limit + scale); break;
        case 4: want = std::nan(""); break;
        case 5: limit = -1.0; break;
        case 6:
          bits = core::encode(dtype, -infinity);
          want = -infinity;
          break;
        }
      }
      core::store_bits(slice.data(), i, dtype, bits);
      reference.expected.push_back(want);
      reference.bound.push_back(limit);
      expected[s * count + i] = want;
      bound[s * count + i] = limit;
    }
    host_failed += core::compare_output(slice, dtype, reference, geometry, poison, host) > 0;
  }

  const cuda::Stream stream;
  const cuda::DeviceMemory d_got(got.size(), "outputs"),
      d_expected(expected.size() * 8, "expected"), d_bound(bound.size() * 8, "bounds");
  cuda::copy_to_device(d_got.data(), got, stream.get());
  cuda::copy_to_device(d_expected.data(), std::as_bytes(std::span(expected)), stream.get());
  cuda::copy_to_device(d_bound.data(), std::as_bytes(std::span(bound)), stream.get());
  cuda::Comparator comparator({spec}, {&laid, 1}, kBatch, 4, true, 1, kernels);
  comparator.reset(stream.get());
  cuda::abi::TrialRange range;
  range.first = kFirst;
  range.batch = kBatch;
  const std::vector<cuda::ComparedOutput> outputs{
      {d_got.data(), d_expected.as<double>(), d_bound.as<double>()}};
  comparator.compare(range, outputs, false, stream.get());
  core::TrialResult result;
  core::TrialRequest request;
  comparator.collect(request, false, result, stream.get());
  const core::OutputTotals& device = result.outputs.at(0);

  const auto same = [&](const char* what, auto a, auto b) {
    context.check(a == b, fmt::format("{}: {} device {} host {}", spec.name, what, a, b));
  };
  same("trials", result.trials, std::uint64_t{kBatch});
  same("failed", result.failed, host_failed);
  same("compared", device.compared_elements, host.compared_elements);
  same("bad_trials", device.bad_trials, host.bad_trials);
  same("bad_elements", device.bad_elements, host.bad_elements);
  same("not_finite", device.not_finite, host.not_finite);
  same("poison", device.poison, host.poison);
  same("no_reference", device.no_reference, host.no_reference);
  context.check(device.ratio_bins == host.ratio_bins && device.ulp_bins == host.ulp_bins,
                fmt::format("{}: errors by size, device and host", spec.name));
  same("worst_ratio", device.worst_ratio, host.worst_ratio);
  same("worst_ulps", device.worst_ulps, host.worst_ulps);
  same("worst_error", device.worst_error, host.worst_error);
  same("worst_rounded_error", device.worst_rounded_error, host.worst_rounded_error);
  const auto close = [&](const char* what, double a, double b) {  // sums in another order
    const bool equal = a == b || std::fabs(a - b) <= 1e-6 * std::fabs(b);
    context.check(equal, fmt::format("{}: {} device {} host {}", spec.name, what, a, b));
  };
  close("sum_squared_error", device.sum_squared_error, host.sum_squared_error);
  close("sum_squared_expected", device.sum_squared_expected, host.sum_squared_expected);
  std::size_t different_tiles = 0;
  for (std::size_t t = 0; t < host.tiles.size(); ++t) {
    different_tiles += !(device.tiles[t] == host.tiles[t]);
  }
  same("different tiles", different_tiles, std::size_t{0});
  std::vector<std::uint64_t> hashes;
  for (std::uint32_t s = 0; s < kBatch; ++s) {
    hashes.push_back(core::combine_output_hash(
        0, core::output_hash(std::span(got).subspan(s * spec.bytes(), spec.bytes()), dtype)));
  }
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  same("distinct outputs", result.distinct_outputs, hashes.size());
  for (const core::Capture& capture : result.captures) {
    const std::size_t s = capture.trial - kFirst;
    context.check(std::memcmp(capture.outputs.at(0).bytes.data(), got.data() + s * spec.bytes(),
                              spec.bytes()) == 0,
                  fmt::format("{}: capture of trial {}", spec.name, capture.trial));
  }
  same("captures", std::uint64_t{result.captures.size()}, host_failed);
  fmt::print("  {:<28} planted {} bad {} of {} ratio {:.3g}\n", spec.name, plant,
             device.bad_elements, device.compared_elements, device.worst_ratio);
}

void compare(Context& context) {
  for (const core::Dtype dtype :
       {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32, core::Dtype::f64}) {
    for (const bool plant : {false, true}) {
      core::TileGeometry square;
      square.rows = 130;
      square.cols = 70;
      square.tile_rows = 16;
      square.tile_cols = 32;
      compare_one(context, dtype, square, plant);
      core::TileGeometry column;
      column.rows = 3001;
      column.tile_rows = 4;
      compare_one(context, dtype, column, plant);
    }
  }
}

// --------------------------------------------------------------------------------------------
// execute
/// Every kind of operation, on a module that comes as PTX text alone.
void execute(Context& context) {
  auto module = std::make_shared<core::Module>();
  module->name = "add_constant";
  module->ptx = ".version 7.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry add_constant(.param .u64 data, .param .u32 value) {\n"
                ".reg .u64 %a; .reg .u64 %o; .reg .u32 %t; .reg .u32 %v; .reg .u32 %x;\n"
                "ld.param.u64 %a, [data]; ld.param.u32 %v, [value]; cvta.to.global.u64 %a, %a;\n"
                "mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o;\n"
                "ld.global.u32 %x, [%a]; add.u32 %x, %x, %v; st.global.u32 [%a], %x; ret;\n}\n";
  const auto add = [&](std::uint32_t buffer, std::int32_t value) {
    core::LaunchOperation launch;
    launch.module = module;
    launch.entry = "add_constant";
    launch.block[0] = 32;
    launch.arguments = {core::BufferArgument{buffer, 0}, core::scalar(value)};
    return launch;
  };
  core::Program program;
  program.name = "all operations";
  int host_steps = 0;
  program.add(core::FillOperation{{0, 0}, 128, 100});
  program.add(add(0, 1));  // 101
  program.add(core::EventRecordOperation{7});
  program.add(core::EventWaitOperation{7}, 1);
  program.add(core::CopyOperation{{1, 0}, {0, 0}, 128}, 1);  // buffer 1: 101
  program.add(core::HostStepOperation{"count", [&] { ++host_steps; }});
  program.add(core::CaptureBeginOperation{3}, 1);
  const core::OperationId captured = program.add(add(1, 10), 1);
  program.add(core::CaptureEndOperation{3}, 1);
  program.add(core::ReplayOperation{3, {}}, 1);  // 111
  program.add(
      core::ReplayOperation{
          3, {{captured, {core::BufferArgument{1, 0}, core::scalar(std::int32_t{500})}}}},
      1);  // 611
  const core::BufferHandle a = context.backend->allocate("a", 128);
  const core::BufferHandle b = context.backend->allocate("b", 128);
  const std::vector<core::BufferHandle> bindings{a, b};
  for (const bool sync : {false, true}) {
    core::Perturbation perturbation;
    perturbation.sync_each = sync;
    perturbation.reload_module = sync;
    perturbation.flush_l2 = sync;
    const core::ExecutionReport report =
        context.backend->execute(program, bindings, perturbation, 0, core::RaceMode::off);
    context.check(report.status == core::ExecutionStatus::completed, "execute: " + report.message);
    if (report.status != core::ExecutionStatus::completed) {
      return;
    }
    std::vector<std::uint32_t> in_a(32), in_b(32);
    context.backend->download(a, std::as_writable_bytes(std::span(in_a)));
    context.backend->download(b, std::as_writable_bytes(std::span(in_b)));
    const auto all_are = [](const std::vector<std::uint32_t>& v, std::uint32_t x) {
      return std::all_of(v.begin(), v.end(), [&](std::uint32_t y) { return x == y; });
    };
    context.check(all_are(in_a, 101), fmt::format("buffer a holds {}, expected 101", in_a[0]));
    context.check(all_are(in_b, 611), fmt::format("buffer b holds {}, expected 611", in_b[0]));
  }
  context.check(host_steps == 2, "the host step ran once each time");
  context.backend->release(a);
  context.backend->release(b);
  fmt::print(
      "  fill, launch, events, copy, host step, capture, replay with changed arguments: done\n");
}

// -----------------------------------------------------------------------------------------------
// gate
struct Case {
  const char *subject, *problem, *config;
};

void gate(Context& context) {
  const std::vector<Case> cases{
      {"gla_decode", "b=2 h=4 dk=64 dv=64 dtype=bf16", ""},
      {"gla_decode", "b=1 h=3 dk=80 dv=128 dtype=f16", "copy=tensor"},
      {"gla_decode", "b=1 h=2 dk=32 dv=64 dtype=f32", ""},
      {"gla_decode@serial", "b=1 h=1 dk=64 dv=64 dtype=bf16", ""},
      {"gla_decode@scalar", "b=1 h=1 dk=64 dv=64 dtype=bf16", ""},
      {"gemv", "n=1024 k=1024 dtype=f16", ""},
      {"gemv", "n=3001 k=3000 dtype=bf16", ""},
      {"gemv", "n=515 k=777 dtype=f32", ""},
  };
  for (const Case& c : cases) {
    core::TrialRequest request;
    request.count = 200;
    request.gate_samples = 3;
    request.perturbation.fresh_inputs = true;
    const core::TrialResult r =
        context.backend->run_trials(plan_of(context, c.subject, c.problem, c.config), request);
    double ratio = 0.0;
    for (const core::OutputTotals& o : r.outputs) {
      ratio = std::max(ratio, o.worst_ratio);
    }
    fmt::print(
        "  {:<18} {:<34} {:<12} gate {:.2e} ({}) trials {} failed {} worst {:.3f} of bound {}\n",
        c.subject, c.problem, c.config, r.gate_worst, r.gate_samples, r.trials, r.failed, ratio,
        status_of(r));
    context.check(r.status == core::ExecutionStatus::completed && r.gate_samples == 3,
                  fmt::format("gate of {} {}", c.subject, c.problem));
    context.check(r.failed == 0, fmt::format("{} {} is clean", c.subject, c.problem));
    Json j = to_json(r);
    j["case"] = fmt::format("{} {} {}", c.subject, c.problem, c.config);
    context.report["gate"].push_back(std::move(j));
  }
}

// -----------------------------------------------------------------------------------------------
// arms
std::vector<core::Perturbation> all_arms() {
  std::vector<core::Perturbation> arms;
  const auto add = [&](const char* name, auto change) {
    core::Perturbation p;
    p.name = name;
    change(p);
    arms.push_back(p);
  };
  constexpr std::uint64_t kPool = std::uint64_t{512} << 20;
  add("tight", [](auto&) {});
  add("tight fresh", [](auto& p) { p.fresh_inputs = true; });
  add("sync", [](auto& p) { p.sync_each = true; });
  add("spin 100 us", [](auto& p) {
    p.sync_each = true;
    p.wait = core::HostWait::spin;
    p.wait_ns = 100'000;
  });
  add("sleep 1 ms", [](auto& p) {
    p.sync_each = true;
    p.wait = core::HostWait::sleep;
    p.wait_ns = 1'000'000;
  });
  add("reload module", [](auto& p) { p.reload_module = true; });
  add("cold pool", [](auto& p) { p.pool_bytes = kPool; });
  add("cold pool fresh", [](auto& p) {
    p.pool_bytes = kPool;
    p.fresh_inputs = true;
  });
  add("flush L2", [](auto& p) { p.flush_l2 = true; });
  add("memory stress", [](auto& p) { p.co_resident = core::CoResident::memory_stress; });
  add("memory stress fresh", [](auto& p) {
    p.co_resident = core::CoResident::memory_stress;
    p.fresh_inputs = true;
  });
  add("compute stress", [](auto& p) { p.co_resident = core::CoResident::compute_stress; });
  add("3 CTAs per SM", [](auto& p) { p.ctas_per_sm = 3.0; });
  add("3 CTAs cold", [](auto& p) {
    p.ctas_per_sm = 3.0;
    p.pool_bytes = kPool;
  });
  add("graph", [](auto& p) { p.graph_trials = 500; });
  add("graph fresh", [](auto& p) {
    p.graph_trials = 500;
    p.fresh_inputs = true;
  });
  add("graph cold", [](auto& p) {
    p.graph_trials = 500;
    p.pool_bytes = kPool;
  });
  add("graph reload", [](auto& p) {
    p.graph_trials = 500;
    p.reload_module = true;
  });
  add("blocker 50 us", [](auto& p) { p.blocker_ns = 50'000; });
  add("1 SM", [](auto& p) { p.free_sms = 1; });
  add("8 SMs", [](auto& p) { p.free_sms = 8; });
  add("dirty shared", [](auto& p) { p.dirty_shared = true; });
  add("dirty shared, graph", [](auto& p) {
    p.dirty_shared = true;
    p.graph_trials = 500;
  });
  add("dirty shared, 8 SMs", [](auto& p) {
    p.dirty_shared = true;
    p.free_sms = 8;
  });
  add("offset, cold pool", [](auto& p) {
    p.offset_bytes = 16;
    p.pool_bytes = kPool;
  });
  add("batch 64 fresh", [](auto& p) {
    p.batch = 64;
    p.fresh_inputs = true;
  });
  return arms;
}

void arms(Context& context) {
  const std::string problem = "b=2 h=4 dk=64 dv=64 dtype=bf16";
  const std::vector<Case> cases{
      {"gla_decode@pipelined", "", "copy=tensor,producer=warpgroup"},
      {"gla_decode@pipelined", "", "copy=bulk,producer=thread"},
      {"gla_decode@shared_buffer", "", "copy=tensor,producer=warpgroup"},
      {"gla_decode@shared_buffer", "", "copy=bulk,producer=warpgroup"},
      {"gla_decode@early_release", "", "copy=tensor,producer=thread"},
  };
  for (const Case& c : cases) {
    const core::TrialPlan plan = plan_of(context, c.subject, problem, c.config);
    fmt::print("  {} {}\n", c.subject, c.config);
    std::uint64_t failed = 0;
    for (const core::Perturbation& arm : all_arms()) {
      core::TrialRequest request;
      request.count = 2000;
      request.perturbation = arm;
      const core::TrialResult r = context.backend->run_trials(plan, request);
      failed += r.failed;
      std::string where;
      for (const core::OutputTotals& o : r.outputs) {
        where += fmt::format(" {} {}", o.name, o.bad_trials);
        std::map<std::int64_t, std::uint64_t> tiles;
        for (std::size_t t = 0; t < o.tiles.size() && o.geometry.tiles_per_group > 0; ++t) {
          tiles[o.geometry.position_of(static_cast<std::int64_t>(t))] += o.tiles[t].bad_trials;
        }
        for (const auto& [position, trials] : tiles) {
          where += fmt::format("{}{}", position == 0 ? " [" : ",", trials);
        }
        where += tiles.empty() ? "" : "]";
      }
      fmt::print("    {:<20} failed {:>5} of {} ({:.2f} us){} distinct {} batch {} {} {}{}\n",
                 arm.name, r.failed, r.trials, microseconds_per_trial(r), where, r.distinct_outputs,
                 r.batch, status_of(r), r.note, r.overlap_proven ? "" : " NO OVERLAP");
      std::fflush(stdout);
      context.check(r.status == core::ExecutionStatus::completed && r.trials == 2000,
                    fmt::format("{} {} {} completes", c.subject, c.config, arm.name));
      context.check(r.overlap_proven, fmt::format("{} {}: overlap", c.subject, arm.name));
      context.check(!arm.dirty_shared || r.note.find("did not see") == std::string::npos,
                    fmt::format("{} {}: all shared memory was dirtied", c.subject, arm.name));
      Json j = to_json(r);
      j["subject"] = c.subject;
      j["config"] = c.config;
      j["arm"] = core::to_text(arm);
      context.report["arms"].push_back(std::move(j));
    }
    const std::string name = c.subject;
    if (name == "gla_decode@pipelined") {
      context.check(failed == 0, fmt::format("{} {} is clean", name, c.config));
    } else if (name == "gla_decode@shared_buffer") {
      context.check(failed > 0, fmt::format("{} {} is found", name, c.config));
    }
  }
}

// ----------------------------------------------------------------------------------------------
// kernels
/// What each kernel of a trial costs: replays of a graph that holds it many times, then of whole
/// trials. Everything fresh, as in the section `rates`.
void kernels_alone(Context& context) {
  const core::TrialPlan plan = plan_of(context, "gla_decode", "b=2 h=4 dk=64 dv=64 dtype=bf16",
                                       "copy=tensor,producer=warpgroup");
  cuda::ModuleCache modules(cuda::open_device());
  cuda::DeviceKernels kernels(modules);
  const cuda::Stream stream;
  const cuda::FillWords fill = [&](std::byte* data, std::uint64_t bytes, std::uint32_t word,
                                   cudaStream_t s) { kernels.fill(data, bytes, word, s); };
  constexpr unsigned kSamples = 9;
  for (const std::uint32_t batch : {1u, 16u, 64u, 256u, 1024u}) {
    std::vector<cuda::DeviceMemory> memory;
    std::vector<cuda::BoundBuffer> buffers, oracle_bindings;
    std::vector<cuda::ComparedOutput> compared;
    std::vector<core::BufferSpec> outputs;
    std::vector<core::Poison> output_poison;
    const auto allocate = [&](std::size_t bytes, const std::string& name) {
      memory.emplace_back(bytes, name);
      return cuda::BoundBuffer{memory.back().data(), bytes};
    };
    for (const core::BufferSpec& buffer : plan.buffers) {
      buffers.push_back(allocate(buffer.bytes() * batch, buffer.name));
    }
    oracle_bindings = buffers;
    for (const std::uint32_t index : plan.output_indices()) {
      const core::BufferSpec& output = plan.buffers[index];
      const std::size_t bytes =
          sizeof(double) * static_cast<std::size_t>(output.elements()) * batch;
      cuda::ComparedOutput c;
      c.data = buffers[index].data;
      oracle_bindings.push_back(allocate(bytes, output.name));
      c.expected = reinterpret_cast<const double*>(oracle_bindings.back().data);
      oracle_bindings.push_back(allocate(bytes, output.name));
      c.bound = reinterpret_cast<const double*>(oracle_bindings.back().data);
      compared.push_back(c);
      outputs.push_back(output);
      output_poison.push_back(core::PoisonMap(plan.buffers).of(index, 0));
    }
    cuda::Comparator comparator(outputs, output_poison, batch, 4, false, 0, kernels);
    cuda::Comparator counting(outputs, output_poison, batch, 4, false, 1, kernels);
    comparator.reset(stream.get());
    counting.reset(stream.get());
    const int carveout = cuda::KernelOptions{}.carveout_percent;
    cuda::PreparedProgram subject(plan.program(batch), buffers, modules, carveout, fill);
    cuda::PreparedProgram oracle(plan.device_oracle(batch), oracle_bindings, modules, carveout,
                                 fill);
    cuda::abi::TrialRange range;
    range.batch = batch;
    const std::vector<cuda::abi::PoisonSlot> poison = cuda::poison_slots(plan);
    const auto prepare = [&](cudaStream_t s) {
      cuda::prepare_buffers(plan, core::DataMode::normal, buffers, range, true, poison, kernels, s);
    };
    const cuda::DeviceMemory meetings(subject.launches() * sizeof(cuda::abi::SharedMeeting),
                                      "the counters of shared memory");
    cuda::check(cudaMemsetAsync(meetings.data(), 0, meetings.bytes(), stream.get()),
                "cannot clear the counters");
    const auto dirty = [&](std::size_t place, cudaStream_t s) {
      kernels.dirty_shared(range, static_cast<std::uint32_t>(kernels.multiprocessors()),
                           meetings.as<cuda::abi::SharedMeeting>() + place, s);
    };
    const auto whole = [&](std::uint64_t, cudaStream_t s) {
      prepare(s);
      oracle.issue(s);
      subject.issue(s);
      comparator.compare(range, compared, false, s);
    };
    const std::pair<const char*, cuda::IssueOnSet> parts[] = {
        {"prepare", [&](std::uint64_t, cudaStream_t s) { prepare(s); }},
        {"oracle", [&](std::uint64_t, cudaStream_t s) { oracle.issue(s); }},
        {"subject", [&](std::uint64_t, cudaStream_t s) { subject.issue(s); }},
        {"subject, shared memory dirtied",
         [&](std::uint64_t, cudaStream_t s) { subject.issue(s, {}, {}, dirty); }},
        {"compare",
         [&](std::uint64_t, cudaStream_t s) { comparator.compare(range, compared, false, s); }},
        {"compare, every error counted",
         [&](std::uint64_t, cudaStream_t s) { counting.compare(range, compared, false, s); }},
        {"all", whole}};
    whole(0, stream.get());
    cuda::wait_for(stream.get(), std::chrono::seconds(10));
    std::string line;
    for (const auto& [name, issue] : parts) {
      const std::uint64_t launches = batch >= 256 ? 10 : 100;
      const core::Backend::Timing t =
          cuda::time_executions(issue, 1, launches, kSamples, true, false, stream.get());
      const double us = cuda::median(t.graph_ns) * 1e-3;
      line += fmt::format("  {} {:.2f} ({:.4f})", name, us, us / batch);
      context.report["kernels"].push_back(
          {{"batch", batch}, {"kernel", name}, {"us_per_launch", us}});
    }
    fmt::print("  batch {:>4}, us per launch (per trial):{}\n", batch, line);
    std::fflush(stdout);
  }
}

// ----------------------------------------------------------------------------------------------
// rates
void rates(Context& context) {
  const core::TrialPlan plan = plan_of(context, "gla_decode", "b=2 h=4 dk=64 dv=64 dtype=bf16",
                                       "copy=tensor,producer=warpgroup");
  const auto measure = [&](const std::string& name, std::uint64_t count, double wanted, auto change,
                           std::uint32_t histogram_every = 32) {
    core::TrialRequest request;
    request.histogram_every = histogram_every;
    request.perturbation.fresh_inputs = true;
    change(request.perturbation);
    request.gate_samples = 0;
    core::TrialResult best;
    for (int repeat = 0; repeat < 3; ++repeat) {
      request.count = repeat == 0 ? count / 10 : count;
      core::TrialResult r = context.backend->run_trials(plan, request);
      if (repeat > 0 && (best.trials == 0 || r.elapsed_ns < best.elapsed_ns)) {
        best = std::move(r);
      }
    }
    const double us = microseconds_per_trial(best);
    const double rate = us > 0.0 ? 1e6 / us : 0.0;
    fmt::print("  {:<26} {:>9.3f} us/trial {:>12.0f} trials/s (wanted {:.0f}) failed {} {} {}\n",
               name, us, rate, wanted, best.failed, status_of(best), best.note);
    context.check(rate >= wanted, fmt::format("{}: {:.0f} trials/s", name, rate));
    context.check(best.failed == 0, fmt::format("{}: clean", name));
    context.report["rates"].push_back(
        {{"name", name}, {"us_per_trial", us}, {"failed", best.failed}});
  };
  measure("synchronised", 20000, 25e3, [](auto& p) { p.sync_each = true; });
  measure("stream", 20000, 0, [](auto&) {});
  measure("serial graph", 40000, 50e3, [](auto& p) { p.graph_trials = 500; });
  // What the error bins cost: in turns, so that what drifts meets all.
  for (int turn = 0; turn < 2; ++turn) {
    for (const std::uint32_t every : {0u, 32u, 1u}) {
      const auto graph = [](auto& p) { p.graph_trials = 500; };
      const auto batch = [](auto& p) { p.batch = 256; };
      measure(fmt::format("serial graph, bins {}", every), 20000, 0, graph, every);
      measure(fmt::format("batch 256, bins {}", every), 200000, 0, batch, every);
    }
  }
  for (const std::uint32_t batch : {16u, 64u, 128u, 256u, 1024u}) {
    measure(fmt::format("batched {}", batch).c_str(), 1'000'000, batch == 1024 ? 1.5e6 : 0,
            [&](auto& p) { p.batch = batch; });
  }
  measure("serial graph, shared memory dirtied", 20000, 0, [](auto& p) {
    p.graph_trials = 500;
    p.dirty_shared = true;
  });
  measure("fixed inputs, stream", 20000, 0, [](auto& p) { p.fresh_inputs = false; });
  measure("fixed inputs, graph", 40000, 0, [](auto& p) {
    p.fresh_inputs = false;
    p.graph_trials = 500;
  });
}

// ------------------------------------------------------------------------------------ bandwidth,
// gemv
double g_read_bandwidth = 0.0;

void bandwidth(Context& context) {
  const cuda::Bandwidth b = cuda::measure_bandwidth();
  g_read_bandwidth = b.read;
  fmt::print("  read {:.3f} TB/s, copy {:.3f} TB/s, memcpy {:.3f} TB/s\n", b.read * 1e-12,
             b.copy * 1e-12, b.memcpy_copy * 1e-12);
  context.report["bandwidth"] = {{"read", b.read}, {"copy", b.copy}, {"memcpy", b.memcpy_copy}};
  context.check(b.read > 1e12, "more than 1 TB/s are read");
}

double relative_spread(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0.0 : (v[v.size() * 3 / 4] - v[v.size() / 4]) / v[v.size() / 2];
}

void gemv(Context& context) {
  constexpr unsigned kSamples = 11;
  std::unique_ptr<cuda::CublasBaseline> cublas;
  try {
    cublas = cuda::CublasBaseline::load();
    fmt::print("  cuBLAS {}\n", cublas->version());
  } catch (const core::Error& error) {
    fmt::print("  {}\n", error.what());
    context.check(false, error.what());
  }
  if (cublas) {  // second oracle: cuBLAS against the reference
    const core::TrialPlan plan = plan_of(context, "gemv", "n=3001 k=3000 dtype=f16", "");
    core::Tensor a(core::Dtype::f16, {3001, 3000}), x(core::Dtype::f16, {3000});
    core::generate_input(plan.buffers[0].input, 5, 0, a);
    core::generate_input(plan.buffers[1].input, 5, 1, x);
    const core::Tensor y = cublas->gemv(a, x);
    core::OutputTotals totals = core::make_output_totals(plan.buffers[2]);
    const auto reference = plan.reference({a, x});
    const std::uint64_t bad =
        core::compare_output(y, reference.at(0), plan.buffers[2].tiles,
                             core::Poison::plain(y.dtype, 0xffffffffu), totals);
    fmt::print("  cuBLAS as second oracle: {} of {} out of bound, worst {:.3f} of bound\n", bad,
               totals.compared_elements, totals.worst_ratio);
    context.check(bad == 0, "cuBLAS agrees with the reference");
  }
  const std::pair<int, int> shapes[] = {
      {7168, 16384}, {18432, 7168}, {28672, 8192}, {57344, 7168}, {1024, 1024}};
  for (const auto& [n, k] : shapes) {
    for (const char* dtype : {"f16", "bf16"}) {
      const std::string problem = fmt::format("n={} k={} dtype={}", n, k, dtype);
      const double bytes = 2.0 * n * k;
      const auto print = [&](const std::string& name, const std::vector<double>& graph,
                             const std::vector<double>& event) {
        const double g = cuda::median(graph), e = cuda::median(event);
        fmt::print("    {:<44} graph {:>8.2f} us {:.3f} TB/s ({:.1f} % of read) spread {:.1f} % "
                   "event {:>8.2f} us\n",
                   name, g * 1e-3, bytes / g * 1e-3,
                   g_read_bandwidth > 0 ? 100.0 * bytes / g * 1e9 / g_read_bandwidth : 0.0,
                   100.0 * relative_spread(graph), e * 1e-3);
        std::fflush(stdout);
        context.report["gemv"].push_back(
            {{"problem", problem}, {"what", name}, {"graph_ns", graph}, {"event_ns", event}});
        return g;
      };
      fmt::print("  {}\n", problem);
      double best_cublas = 0.0;
      if (cublas) {
        const auto type = *core::parse_dtype(dtype);
        for (const cuda::BaselineTiming& t : cublas->time_gemv({n, k, type}, {kSamples})) {
          const double g = print(t.method, t.graph_ns, t.event_ns);
          best_cublas = best_cublas == 0.0 ? g : std::min(best_cublas, g);
        }
      }
      double best = 0.0;
      std::string best_config;
      const kernels::Subject& subject = context.registry.get("gemv");
      const auto resolved =
          kernels::resolve(context.registry, "gemv", core::parse_assignments(problem), {});
      for (const core::Config& config : subject.configs(resolved.problem, resolved.variant->name)) {
        const core::TrialPlan plan = subject.plan(resolved.problem, resolved.variant->name, config);
        const core::Backend::Timing t = context.backend->time_program(plan, {kSamples});
        const double g =
            print(resolved.variant->name + " " + config.line(), t.graph_ns, t.event_ns);
        if (best == 0.0 || g < best) {
          best = g;
          best_config = config.line();
        }
      }
      fmt::print("    best own [{}] {:.2f} us, cuBLAS / own {:.3f}\n", best_config, best * 1e-3,
                 best > 0 ? best_cublas / best : 0.0);
    }
  }
}

// ----------------------------------------------------------------------------------------------
// gemm
/// cuBLAS as second oracle of the reference; times are `faultline bench gemm`'s.
void gemm(Context& context) {
  const std::unique_ptr<cuda::CublasBaseline> cublas = cuda::CublasBaseline::load();
  fmt::print("  cuBLAS {}\n", cublas->version());
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    const std::string problem =
        fmt::format("m=515 n=333 k=777 dtype={} alpha=0.25 epilogue=none", dtype);
    const core::TrialPlan plan = plan_of(context, "gemm", problem, "");
    std::vector<core::Tensor> inputs;
    for (const std::uint32_t i : plan.input_indices()) {
      inputs.emplace_back(plan.buffers[i].dtype, plan.buffers[i].shape);
      core::generate_input(plan.buffers[i].input, 5, i, inputs.back());
    }
    const core::Tensor c = cublas->gemm(inputs[0], inputs[1], 0.25f);
    core::OutputTotals totals = core::make_output_totals(plan.buffers[2]);
    const std::uint64_t bad =
        core::compare_output(c, plan.reference(inputs).at(0), plan.buffers[2].tiles,
                             core::Poison::plain(c.dtype, 0xffffffffu), totals);
    fmt::print("  {}: {} of {} out of bound, worst {:.3f} of bound\n", problem, bad,
               totals.compared_elements, totals.worst_ratio);
    context.check(bad == 0, "cuBLAS agrees with the reference");
  }
}

// ----------------------------------------------------------------------------------------------
// programs
/// out[i] = in[i] + 1, by way of the last KiB of `shared` bytes of dynamic shared memory.
core::ModuleRef increment_module() {
  auto module = std::make_shared<core::Module>();
  module->name = "increment";
  module->ptx =
      ".version 7.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
      ".visible .entry increment(.param .u64 in, .param .u64 out, .param .u32 shared) {\n"
      ".reg .u64 %a; .reg .u64 %b; .reg .u64 %o; .reg .u32 %t; .reg .u32 %c; .reg .u32 %i;\n"
      ".reg .u32 %s; .reg .u32 %m; .reg .f32 %x;\n"
      "ld.param.u64 %a, [in]; ld.param.u64 %b, [out]; ld.param.u32 %s, [shared];\n"
      "cvta.to.global.u64 %a, %a; cvta.to.global.u64 %b, %b;\n"
      "mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %i, %c, 256, %t;\n"
      "mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o;\n"
      "mov.u32 %m, dynamic; add.u32 %m, %m, %s; sub.u32 %m, %m, 1024;\n"
      "shl.b32 %t, %t, 2; add.u32 %m, %m, %t;\n"
      "ld.global.f32 %x, [%a]; st.shared.f32 [%m], %x; bar.sync 0;\n"
      "ld.shared.f32 %x, [%m]; add.f32 %x, %x, 0f3F800000; st.global.f32 [%b], %x; ret;\n}\n";
  return module;
}

/// What many-kernel subjects without a device oracle are made of: x, y, `workspaces` workspaces,
/// the last of `large` elements, and a program of ten launches y = x + 10 through the workspaces
/// with up to 227 KiB of dynamic shared memory.
core::TrialPlan ten_launches(std::uint32_t workspaces, std::int64_t large, std::uint64_t& calls) {
  constexpr std::int64_t kElements = 1 << 16;
  static constexpr std::uint32_t kShared[] = {1024, 48 * 1024, 64 * 1024, 101 * 1024, 227 * 1024};
  core::TrialPlan plan;
  plan.subject = "ten_launches";
  plan.buffers.resize(2 + workspaces);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    core::BufferSpec& buffer = plan.buffers[i];
    buffer.name = i == 0 ? "x" : i == 1 ? "y" : fmt::format("w{}", i - 2);
    buffer.shape = {i + 1 == plan.buffers.size() ? large : kElements};
    buffer.role = i == 0   ? core::BufferRole::input
                  : i == 1 ? core::BufferRole::output
                           : core::BufferRole::workspace;
  }
  plan.buffers[0].pooled = true;
  plan.buffers[1].tiles.rows = kElements;
  plan.program = [module = increment_module()](std::uint32_t) {
    core::Program program;
    for (std::uint32_t i = 0; i < 10; ++i) {
      core::LaunchOperation launch;
      launch.module = module;
      launch.entry = "increment";
      launch.grid[0] = kElements / 256;
      launch.block[0] = 256;
      launch.dynamic_shared_bytes = kShared[i % std::size(kShared)];
      launch.arguments = {core::BufferArgument{i == 0 ? 0 : 1 + i, 0},
                          core::BufferArgument{i == 9 ? 1 : 2 + i, 0},
                          core::scalar(static_cast<std::int32_t>(launch.dynamic_shared_bytes))};
      program.add(launch);
    }
    return program;
  };
  plan.reference = [&calls](const std::vector<core::Tensor>& inputs) {
    ++calls;
    core::ReferenceTensor y;
    for (const double x : inputs.at(0).to_doubles()) {
      y.expected.push_back(x + 10.0);
      y.bound.push_back(1e-4);
    }
    return std::vector<core::ReferenceTensor>{y};
  };
  return plan;
}

void programs(Context& context) {
  std::uint64_t calls = 0;
  const core::TrialPlan plan = core::with_kept_reference(ten_launches(20, 1 << 16, calls));
  const auto run = [&](const core::TrialPlan& of, const char* name, std::uint64_t count,
                       auto change) {
    core::TrialRequest request;
    request.count = count;
    change(request.perturbation);
    core::TrialResult r = context.backend->run_trials(of, request);
    fmt::print("  {:<34} failed {} of {} ({:.2f} us), reference called {} times, {} {}\n", name,
               r.failed, r.trials, microseconds_per_trial(r), calls, status_of(r), r.note);
    context.check(r.trials == count && r.status == core::ExecutionStatus::completed,
                  fmt::format("programs: {} completes", name));
    context.report["programs"].push_back({{"name", name}, {"calls", calls}, {"is", to_json(r)}});
    return r;
  };
  const auto none = [](core::Perturbation&) {};
  const auto graph = [](core::Perturbation& p) { p.graph_trials = 100; };
  context.check(run(plan, "tight", 1000, none).failed == 0, "programs: tight is clean");
  context.check(run(plan, "graph", 1000, graph).failed == 0, "programs: graph is clean");
  const auto pool = [](core::Perturbation& p) { p.pool_bytes = std::uint64_t{64} << 20; };
  context.check(run(plan, "cold pool", 1000, pool).failed == 0, "programs: pool is clean");
  context.check(calls == 1, "the reference of fixed inputs is made once");
  const auto fresh = [](core::Perturbation& p) { p.fresh_inputs = true; };
  const core::TrialResult each = run(plan, "fresh inputs", 50, fresh);
  context.check(each.failed == 0 && calls == 50, "programs: a reference for each fresh input");
  context.check(each.note.find("host computes") != std::string::npos, "fresh inputs say so");

  // Reads a workspace that nothing writes: zeros would make it right, poison must not.
  core::TrialPlan zeroed = plan;
  zeroed.program = [clean = plan.program](std::uint32_t batch) {
    core::Program program = clean(batch);
    std::get<core::LaunchOperation>(program.operations[0].what).arguments[0] =
        core::BufferArgument{21, 0};
    return program;
  };
  zeroed.reference = [](const std::vector<core::Tensor>& inputs) {
    core::ReferenceTensor y;
    y.expected.assign(static_cast<std::size_t>(inputs.at(0).size()), 10.0);
    y.bound.assign(y.expected.size(), 1e-4);
    return std::vector<core::ReferenceTensor>{y};
  };
  // Reads what the trial before left: right from the second trial on, but for the poison.
  core::TrialPlan left_over = plan;
  left_over.program = [broken = zeroed.program](std::uint32_t batch) {
    core::Program program = broken(batch);
    program.add(core::CopyOperation{{21, 0}, {0, 0}, 4 << 16});
    return program;
  };
  for (const bool in_graph : {false, true}) {
    const auto change = [&](core::Perturbation& p) { p.graph_trials = in_graph ? 100 : 0; };
    const core::TrialResult a = run(zeroed, "needs a zeroed workspace", 300, change);
    const core::TrialResult b = run(left_over, "needs the last trial's workspace", 300, change);
    context.check(a.failed == 300 && b.failed == 300, "unwritten workspaces are found");
  }
  const core::TrialResult large =
      run(ten_launches(20, std::int64_t{64} << 20, calls), "256 MiB of workspace", 300, none);
  context.check(microseconds_per_trial(large) < 400.0, "poison of 256 MiB takes below 400 us");

  core::Backend::TimingRequest request;
  for (const bool cold : {true, false}) {
    request.cold = cold;
    request.graph_launches = cold ? 0 : 256;
    const core::Backend::Timing t = context.backend->time_program(plan, request);
    fmt::print("  {}: {:.2f} us a program of ten launches ({} in a graph, {} input sets), "
               "{:.2f} us between events\n",
               cold ? "cold" : "hot", cuda::median(t.graph_ns) * 1e-3, t.graph_launches,
               t.input_sets, cuda::median(t.event_ns) * 1e-3);
    context.check(t.graph_ns.size() == request.samples && cuda::median(t.graph_ns) > 5e3,
                  "a program is timed as a whole");
    context.check(cold ? t.input_sets > 3 : t.input_sets == 1 && t.graph_launches == 256,
                  "input sets of the timing");
  }
}

// ----------------------------------------------------------------------------------------------
// fault
void fault(Context& context) {
  auto module = std::make_shared<core::Module>();
  module->name = "crash";
  module->ptx = ".version 7.0\n.target sm_80\n.address_size 64\n"
                ".visible .entry crash() {\ntrap;\nret;\n}\n";
  core::LaunchOperation launch;
  launch.module = module;
  launch.entry = "crash";
  core::Program program;
  program.name = "crash";
  program.add(launch);
  const core::ExecutionReport report =
      context.backend->execute(program, {}, {}, 0, core::RaceMode::off);
  fmt::print("  {}: {}\n", core::name_of(report.status), report.message);
  context.check(report.status == core::ExecutionStatus::fault, "a trap is reported as a fault");
  try {
    context.backend->allocate("after the fault", 16);
    context.check(false, "the backend refuses work after a fault");
  } catch (const core::EnvironmentError& error) {
    fmt::print("  afterwards: {}\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: faultline_cuda_smoke DIRECTORY [SECTION...]\n");
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  std::filesystem::create_directories(directory);

  Context context;
  try {
    context.backend = cuda::make_cuda_backend();
  } catch (const core::Error& error) {
    fmt::print("{}\n", error.what());
    return 77;
  }
  kernels::register_builtin_subjects(context.registry);

  const std::pair<const char*, void (*)(Context&)> sections[] = {{"probe", probe},
                                                                 {"compare", compare},
                                                                 {"execute", execute},
                                                                 {"programs", programs},
                                                                 {"gate", gate},
                                                                 {"arms", arms},
                                                                 {"kernels", kernels_alone},
                                                                 {"rates", rates},
                                                                 {"bandwidth", bandwidth},
                                                                 {"gemv", gemv},
                                                                 {"gemm", gemm},
                                                                 {"fault", fault}};
  for (const auto& [name, section] : sections) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) {
      continue;
    }
    fmt::print("== {}\n", name);
    const auto begin = std::chrono::steady_clock::now();
    try {
      section(context);
    } catch (const std::exception& error) {
      context.check(false, fmt::format("section {} threw: {}", name, error.what()));
    }
    fmt::print("   {:.1f} s\n",
               std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
    std::ofstream(directory / "cuda_smoke.json") << context.report.dump(1) << '\n';
  }
  fmt::print("{}\n", context.failures == 0 ? "all checks held"
                                           : fmt::format("{} checks FAILED", context.failures));
  return context.failures == 0 ? 0 : 1;
}
