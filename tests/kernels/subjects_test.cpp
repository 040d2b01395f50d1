// SPDX-License-Identifier: Apache-2.0
// One suite that every subject passes: its plans are complete and fit the kernels they name.
#include <faultline/core/acceptance.hpp>
#include <faultline/core/errors.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/kernels/subject.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    register_builtin_subjects(all);
    return all;
  }();
  return subjects;
}

/// A small subject of the catalogue: one dtype, and nothing to time.
bool is_specimen(const Subject& subject) { return !subject.problem_domain.find("dtype"); }

/// What the PTX text says of one kernel.
struct EntryText {
  std::vector<std::uint32_t> parameter_bytes;
  std::uint32_t max_threads = 0;  // 0: not stated
};

std::uint32_t bytes_of(const std::string& type) {
  return static_cast<std::uint32_t>(std::stoi(type.substr(1))) / 8;
}

/// Parameters of each `.entry NAME(...)`: `.param [.align N] .TYPE [.ptr ...] name[SIZE]`.
std::map<std::string, EntryText> entries_of(const core::Module& module) {
  std::map<std::string, EntryText> entries;
  const std::string& ptx = module.ptx;
  const std::string marker = ".entry ";
  for (std::size_t at = ptx.find(marker); at != std::string::npos; at = ptx.find(marker, at + 1)) {
    const std::size_t open = ptx.find('(', at), close = ptx.find(')', open);
    const std::size_t body = ptx.find('{', close);
    EntryText entry;
    std::string parameters = ptx.substr(open + 1, close - open - 1);
    std::size_t begin = 0;
    while ((begin = parameters.find(".param", begin)) != std::string::npos) {
      const std::size_t end = std::min(parameters.find(".param", begin + 1), parameters.size());
      const std::string line = parameters.substr(begin, end - begin);
      const std::size_t bracket = line.find('[');
      if (bracket != std::string::npos) {
        entry.parameter_bytes.push_back(
            static_cast<std::uint32_t>(std::stoul(line.substr(bracket + 1))));
      } else {
        const std::size_t type = line.find('.', 1);
        entry.parameter_bytes.push_back(bytes_of(line.substr(type + 1)));
      }
      begin = end;
    }
    const std::string directives = ptx.substr(close, body - close);
    if (const std::size_t ntid = directives.find(".maxntid "); ntid != std::string::npos) {
      entry.max_threads = static_cast<std::uint32_t>(std::stoul(directives.substr(ntid + 9)));
    }
    std::string name = ptx.substr(at + marker.size(), open - at - marker.size());
    entries[name] = entry;
  }
  return entries;
}

const std::map<std::string, EntryText>& cached_entries(const core::ModuleRef& module) {
  static std::map<std::string, std::map<std::string, EntryText>> cache;
  auto found = cache.find(module->hash);
  if (found == cache.end()) {
    found = cache.emplace(module->hash, entries_of(*module)).first;
  }
  return found->second;
}

void check_program(const core::Program& program, std::size_t bindings) {
  ASSERT_FALSE(program.operations.empty());
  for (const core::Operation& operation : program.operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (launch == nullptr) continue;
    ASSERT_NE(launch->module, nullptr);
    EXPECT_FALSE(launch->module->cubin.empty());
    const auto& entries = cached_entries(launch->module);
    const auto entry = entries.find(launch->entry);
    ASSERT_NE(entry, entries.end())
        << launch->entry << " is not in module " << launch->module->name;
    const std::uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    EXPECT_GE(threads, 1u);
    if (entry->second.max_threads != 0) {
      EXPECT_LE(threads, entry->second.max_threads) << launch->entry;
    }
    ASSERT_EQ(launch->arguments.size(), entry->second.parameter_bytes.size()) << launch->entry;
    for (std::size_t i = 0; i < launch->arguments.size(); ++i) {
      const std::uint32_t bytes = std::visit(
          [&]<typename Argument>(const Argument& argument) -> std::uint32_t {
            if constexpr (std::is_same_v<Argument, core::ScalarArgument>) {
              return argument.size;
            } else {
              EXPECT_LT(argument.buffer, bindings);
              return std::is_same_v<Argument, core::BufferArgument> ? 8 : 128;
            }
          },
          launch->arguments[i]);
      EXPECT_EQ(bytes, entry->second.parameter_bytes[i]) << launch->entry << " argument " << i;
    }
  }
}

std::string case_name(const Variant& variant, const core::Problem& problem,
                      const core::Config& config) {
  return fmt::format("{} @{} {}", problem.line(), variant.name, config.line());
}

/// Calls `check` for every built (variant, problem, config) of a subject. Mutants need not be built
/// for everything, but the refusal says so.
void for_each_plan(const Subject& subject, const std::vector<core::Problem>& problems,
                   const std::function<void(const Variant&, const core::Problem&,
                                            const core::Config&, const core::TrialPlan&)>& check) {
  for (const Variant& variant : subject.variants) {
    std::size_t built = 0;
    for (const core::Problem& problem : problems) {
      for (const core::Config& config : subject.configs(problem, variant.name)) {
        SCOPED_TRACE(case_name(variant, problem, config));
        core::TrialPlan plan;
        try {
          plan = subject.plan(problem, variant.name, config);
        } catch (const core::UsageError& error) {
          EXPECT_TRUE(variant.is_mutant) << error.what();
          EXPECT_THAT(error.what(), AnyOf(HasSubstr("is not built"), HasSubstr("is built")));
          continue;
        }
        ++built;
        check(variant, problem, config, plan);
        if (::testing::Test::HasFailure()) {
          return;
        }
      }
    }
    EXPECT_GT(built, 0u) << subject.name << "@" << variant.name;
  }
}

TEST(Subjects, AreRegistered) {
  std::vector<std::string> names;
  for (const auto& subject : registry().all()) {
    names.push_back(subject->name);
  }
  // And those of the catalogue.
  EXPECT_THAT(names, IsSupersetOf({"gemv", "gemm", "gla_decode", "deltanet_fwd",
                                   "gated_deltanet_fwd", "deltanet_bwd", "gated_deltanet_bwd",
                                   "deltanet_decode", "gated_deltanet_decode", "sgemm"}));
  EXPECT_EQ(registry().get("deltanet_decode").variants.size(), 3u);
  EXPECT_EQ(registry().get("gated_deltanet_decode").variants.size(), 3u);
  EXPECT_EQ(registry().get("gemv").variants.size(), 9u);
  EXPECT_EQ(registry().get("gemm").variants.size(), 4u);
  EXPECT_EQ(registry().get("gla_decode").variants.size(), 6u);
}

TEST(Subjects, ConfigsLieInTheirDomainAndTheDefaultIsFirst) {
  for (const auto& subject : registry().all()) {
    for (const Variant& variant : subject->variants) {
      for (const core::Problem& problem : subject->verify_problems(true)) {
        const std::vector<core::Config> configs = subject->configs(problem, variant.name);
        ASSERT_FALSE(configs.empty());
        std::set<std::string> lines;
        for (const core::Config& config : configs) {
          EXPECT_EQ(core::complete(subject->config_domain(variant.name), config.values(), "config"),
                    config);
          EXPECT_TRUE(lines.insert(config.line()).second) << "twice: " << config.line();
        }
      }
    }
  }
}

TEST(Subjects, VerifyProblemsAreValidDistinctAndSmallWhereAsked) {
  for (const auto& subject : registry().all()) {
    std::set<std::string> lines;
    for (const core::Problem& problem : subject->verify_problems(false)) {
      EXPECT_EQ(core::complete(subject->problem_domain, problem.values.values(), "problem"),
                problem.values);
      EXPECT_TRUE(lines.insert(problem.line()).second) << "twice: " << problem.line();
    }
    for (const core::Problem& problem : subject->verify_problems(true)) {
      EXPECT_TRUE(lines.contains(problem.line())) << problem.line();
      EXPECT_LE(subject->traffic_bytes(problem), 1.1e6) << problem.line();
      EXPECT_TRUE(subject->traffic_bytes(problem) > 0.0 || is_specimen(*subject));
    }
  }
}

TEST(Subjects, ProgramsFitTheKernelsTheyName) {
  for (const auto& subject : registry().all()) {
    for_each_plan(
        *subject, subject->verify_problems(false),
        [](const Variant&, const core::Problem&, const core::Config&, const core::TrialPlan& plan) {
          const std::size_t buffers = plan.buffers.size(), outputs = plan.output_indices().size();
          ASSERT_GE(plan.max_batch, 1u);
          check_program(plan.program(1), buffers);
          if (plan.device_oracle) {
            check_program(plan.device_oracle(1), buffers + 2 * outputs);
          }
          if (plan.max_batch >= 16) {
            const core::Program one = plan.program(1), many = plan.program(16);
            EXPECT_EQ(std::get<core::LaunchOperation>(one.operations[0].what).grid[0] * 16,
                      std::get<core::LaunchOperation>(many.operations[0].what).grid[0]);
          }
        });
  }
}

TEST(Subjects, BuffersAndTilesCoverTheOutputs) {
  for (const auto& subject : registry().all()) {
    for_each_plan(*subject, subject->verify_problems(false),
                  [&](const Variant& variant, const core::Problem& problem,
                      const core::Config& config, const core::TrialPlan& plan) {
                    EXPECT_EQ(plan.subject, subject->name);
                    EXPECT_EQ(plan.variant, variant.name);
                    EXPECT_EQ(plan.problem, problem);
                    EXPECT_EQ(plan.config, config);
                    EXPECT_FALSE(plan.input_indices().empty());
                    ASSERT_FALSE(plan.output_indices().empty());
                    double bytes = 0.0;
                    for (const core::BufferSpec& buffer : plan.buffers) {
                      if (buffer.role != core::BufferRole::workspace) {
                        bytes += static_cast<double>(buffer.bytes());
                      }
                      // States and gates may be fp32 beside 16-bit vectors.
                      EXPECT_TRUE(is_specimen(*subject) || buffer.dtype == core::Dtype::f32 ||
                                  buffer.dtype == problem.values.dtype())
                          << buffer.name;
                      if (buffer.role == core::BufferRole::output) {
                        const core::TileGeometry& tiles = buffer.tiles;
                        EXPECT_EQ(tiles.rows * tiles.cols, buffer.elements()) << buffer.name;
                        EXPECT_EQ(tiles.tile_of(buffer.elements() - 1), tiles.tile_count() - 1)
                            << buffer.name;
                        EXPECT_FALSE(tiles.tile_axis.empty());
                      }
                    }
                    if (!is_specimen(*subject)) {
                      EXPECT_EQ(bytes, subject->traffic_bytes(problem));
                    }
                  });
  }
}

TEST(Subjects, ReferencesGiveOneFiniteValueAndBoundPerElement) {
  for (const auto& subject : registry().all()) {
    for_each_plan(
        *subject, subject->verify_problems(true),
        [&](const Variant&, const core::Problem& problem, const core::Config& config,
            const core::TrialPlan& plan) {
          // One config a variant: bounds differ little between them.
          if (config != subject->configs(problem, plan.variant).front()) {
            return;
          }
          std::vector<core::Tensor> inputs;
          for (const std::uint32_t i : plan.input_indices()) {
            inputs.emplace_back(plan.buffers[i].dtype, plan.buffers[i].shape);
            core::generate_input(plan.buffers[i].input, 1, i, inputs.back());
          }
          const std::vector<core::ReferenceTensor> outputs = plan.reference(inputs);
          const std::vector<std::uint32_t> indices = plan.output_indices();
          ASSERT_EQ(outputs.size(), indices.size());
          for (std::size_t o = 0; o < outputs.size(); ++o) {
            const auto elements = static_cast<std::size_t>(plan.buffers[indices[o]].elements());
            ASSERT_EQ(outputs[o].expected.size(), elements);
            ASSERT_EQ(outputs[o].bound.size(), elements);
            for (std::size_t i = 0; i < elements; ++i) {
              ASSERT_TRUE(std::isfinite(outputs[o].expected[i]));
              // Specimens that copy, or add small integers, are exact; some leave elements alone.
              if (is_specimen(*subject) && core::stays_untouched(outputs[o].bound[i])) {
                continue;
              }
              // An exact zero (a gradient times beta = 0) may have no error at all.
              ASSERT_TRUE(std::isfinite(outputs[o].bound[i]));
              ASSERT_TRUE(outputs[o].bound[i] > 0.0 ||
                          (outputs[o].bound[i] == 0.0 &&
                           (outputs[o].expected[i] == 0.0 || is_specimen(*subject))));
            }
          }
          if (plan.hypotheses) {
            for (const core::TileHypothesis& hypothesis : plan.hypotheses(inputs)) {
              ASSERT_LT(hypothesis.output, outputs.size());
              ASSERT_EQ(hypothesis.values.size(), outputs[hypothesis.output].expected.size());
            }
          }
        });
  }
}

TEST(Subjects, MutantsShowAtValuesOfTheirDomains) {
  for (const auto& subject : registry().all()) {
    for (const Variant& variant : subject->variants) {
      if (!variant.is_mutant) {
        EXPECT_FALSE(variant.required_finding.has_value());
        continue;
      }
      SCOPED_TRACE(variant.name);
      EXPECT_FALSE(variant.description.empty());
      EXPECT_FALSE(subject->find_variant(variant.clean_twin)->is_mutant);
      std::vector<core::Assignment::Value> problem, config;
      const core::Domain config_domain = subject->config_domain(variant.name);
      for (const auto& value : variant.shows_at) {
        const bool of_problem = subject->problem_domain.find(value.first) != nullptr;
        EXPECT_TRUE(of_problem || config_domain.find(value.first)) << value.first;
        (of_problem ? problem : config).push_back(value);
      }
      EXPECT_NO_THROW(resolve(registry(), subject->name + "@" + variant.name, problem, config));
    }
  }
}

TEST(Subjects, NumericPlansEndInTheDtypeOfAnOutput) {
  for (const auto& subject : registry().all()) {
    const std::string& variant = subject->variants.front().name;
    for (const core::Problem& problem : subject->verify_problems(true)) {
      const std::vector<RoundingPoint> points = subject->numeric_plan(problem);
      ASSERT_FALSE(points.empty());
      const core::TrialPlan plan =
          subject->plan(problem, variant, subject->configs(problem, variant).front());
      const std::vector<std::uint32_t> outputs = plan.output_indices();
      EXPECT_TRUE(std::any_of(outputs.begin(), outputs.end(), [&](std::uint32_t o) {
        return plan.buffers[o].dtype == points.back().stored;
      })) << problem.line();
    }
  }
}

std::string usage_error(const std::function<void()>& act) {
  try {
    act();
  } catch (const core::UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

TEST(Gemv, RefusesWhatDoesNotExist) {
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gemv@pipelined", {}, {{"stages", "0"}});
              }),
              HasSubstr("[1, 3]"));
  const std::string unbuilt = usage_error([] {
    resolve(registry(), "gemv@pipelined", {}, {{"rows", "4"}, {"threads", "128"}});
  });
  EXPECT_THAT(unbuilt, HasSubstr("is not built for config"));
  EXPECT_THAT(unbuilt, HasSubstr("stages=1 rows=4 threads=32 tile_k=512"));
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gemv", {{"dtype", "f64"}}, {});
              }),
              HasSubstr("f16, bf16, f32"));
  const core::TrialPlan plan = resolve(registry(), "gemv", {}, {}).plan;
  EXPECT_THROW(plan.program(2), core::UsageError);
}

TEST(Gemv, PrefersSevenLoadsInFlightWhereTheyDivideTheRow) {
  EXPECT_EQ(resolve(registry(), "gemv", {{"k", "7168"}}, {}).config.text("in_flight"), "7");
  EXPECT_EQ(resolve(registry(), "gemv", {{"k", "8192"}}, {}).config.text("in_flight"), "4");
}

TEST(Gemv, TheLongerTheChainTheLargerTheBound) {
  const auto bound = [](const char* threads, const char* inputs) {
    const core::TrialPlan plan =
        resolve(registry(), "gemv", {{"n", "1"}, {"k", "4096"}, {"inputs", inputs}},
                {{"rows", "1"}, {"threads", threads}})
            .plan;
    std::vector<core::Tensor> inputs_of_plan;
    for (const std::uint32_t i : plan.input_indices()) {
      inputs_of_plan.emplace_back(plan.buffers[i].dtype, plan.buffers[i].shape);
      core::generate_input(plan.buffers[i].input, 1, i, inputs_of_plan.back());
    }
    return plan.reference(inputs_of_plan)[0].bound[0];
  };
  EXPECT_GT(bound("32", "any"), bound("128", "any"));
  EXPECT_GT(bound("32", "any"), bound("32", "mean_zero"));
}

TEST(GlaDecode, RefusesWhatDoesNotExist) {
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gla_decode", {{"dk", "40"}}, {});
              }),
              HasSubstr("multiple of 16"));
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gla_decode@early_release", {{"dtype", "f32"}}, {});
              }),
              HasSubstr("ldmatrix"));
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gla_decode@serial", {}, {{"copy", "bulk"}});
              }),
              HasSubstr("copy"));
  EXPECT_THAT(
      usage_error([] {
        resolve(registry(), "gla_decode", {{"b", "65535"}, {"h", "1024"}, {"dk", "256"}}, {});
      }),
      HasSubstr("32 bits"));
  EXPECT_THAT(usage_error([] {
                resolve(registry(), "gla_decode", {{"scale", "big"}}, {});
              }),
              HasSubstr("or auto"));
}

TEST(GlaDecode, ProblemLinesKeepTheScale) {
  EXPECT_EQ(resolve(registry(), "gla_decode", {}, {}).problem.line(),
            "gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16 scale=auto");
  EXPECT_EQ(resolve(registry(), "gla_decode", {{"scale", "0.50"}}, {}).problem.values.text("scale"),
            "0.5");
}

TEST(GlaDecode, TheTensorMapDescribesTheWholeBatchOfStates) {
  const core::TrialPlan plan =
      resolve(registry(), "gla_decode", {{"b", "2"}, {"h", "3"}, {"dv", "128"}, {"dtype", "f32"}},
              {{"copy", "tensor"}})
          .plan;
  const core::Program program = plan.program(4);
  const auto& launch = std::get<core::LaunchOperation>(program.operations[0].what);
  const auto& map = std::get<core::TensorMapArgument>(launch.arguments.back());
  EXPECT_EQ(map.buffer, 4u);
  EXPECT_EQ(map.dims[0], 128u);
  EXPECT_EQ(map.dims[1], 4u * 2 * 3 * 64);
  EXPECT_EQ(map.strides_bytes[0], 512u);
  EXPECT_EQ(map.box[0], 32u);
  EXPECT_EQ(map.box[1], 16u);
  EXPECT_EQ(map.swizzle, core::TensorMapArgument::Swizzle::bytes_128);
}

TEST(GlaDecode, NewStateTilesAreThePipelinesTiles) {
  const core::TrialPlan plan = resolve(registry(), "gla_decode", {{"h", "2"}}, {}).plan;
  const core::TileGeometry& tiles = plan.buffers[6].tiles;
  EXPECT_EQ(tiles.tile_count(), 8);
  EXPECT_EQ(tiles.position_of(tiles.tile_of(64 * 64)), 0);
  EXPECT_EQ(tiles.position_of(tiles.tile_of(64 * 64 + 17 * 64)), 1);
  EXPECT_EQ(tiles.pipeline_depth, 2);
}

}  // namespace
}  // namespace faultline::kernels
