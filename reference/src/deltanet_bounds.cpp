// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_bounds.hpp>

#include "delta_simulation.hpp"

#include <faultline/core/acceptance.hpp>
#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

namespace faultline::reference {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kTile = 16;

/// Runs are shared out in groups whose sums are added in order: the result does not depend on which
/// thread did what.
constexpr int kGroups = 4;
constexpr int kRunsPerGroup = kBoundRuns / kGroups;
constexpr int kItemsPerHead = kGroups + 1;  // the groups, then the twin

/// One head's part of an output or intermediate: `slabs` matrices of rows x columns back to back.
struct Layout {
  std::int64_t slabs = 1, rows = 1, columns = 1;
  std::int64_t tile_rows = kTile, tile_columns = kTile;  // what shares a floor
  std::int64_t row_length = 1;                           // elements of the fp32 floor's row
  std::int64_t elements() const { return slabs * rows * columns; }

  static Layout matrix(std::int64_t rows, std::int64_t columns) { return states(1, rows, columns); }
  static Layout states(std::int64_t slabs, std::int64_t rows, std::int64_t columns) {
    return {.slabs = slabs, .rows = rows, .columns = columns, .row_length = columns};
  }
  static Layout vector(std::int64_t length) {
    return {.columns = length, .tile_rows = 1, .row_length = kTile};
  }
};

/// A tensor being bounded: an output, or an intermediate.
struct Target {
  bool is_output = true;
  std::size_t index = 0;  // DeltaOutput or Intermediate
  Layout layout{};
  core::Dtype dtype = core::Dtype::f32;
  NamedReference* reference = nullptr;
  BoundFigures* figures = nullptr;

  const FloatMatrix& of(const SimulatedOutputs& run) const {
    return is_output ? run.outputs[index] : run.intermediates[index];
  }
};

/// sums[i] += (y_i - expected_i)^2
void add_squared_errors(const FloatMatrix& y, const double* expected, double* sums) {
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    const float* row = y.row(i);
    for (std::int64_t j = 0; j < y.columns(); ++j) {
      const double error = static_cast<double>(row[j]) - expected[i * y.columns() + j];
      sums[i * y.columns() + j] += error * error;
    }
  }
}

/// Calls body(first, count) for every run of consecutive elements of each tile, tile by tile, and
/// done() after each tile.
template <typename Body, typename Done>
void for_tiles(const Layout& layout, Body&& body, Done&& done) {
  for (std::int64_t slab = 0; slab < layout.slabs; ++slab) {
    for (std::int64_t i = 0; i < layout.rows; i += layout.tile_rows) {
      const std::int64_t last = std::min(i + layout.tile_rows, layout.rows);
      for (std::int64_t j = 0; j < layout.columns; j += layout.tile_columns) {
        const std::int64_t count = std::min(layout.tile_columns, layout.columns - j);
        for (std::int64_t row = i; row < last; ++row) {
          body((slab * layout.rows + row) * layout.columns + j, count);
        }
        done();
      }
    }
  }
}

/// Mean of each tile, at each of its elements.
std::vector<double> tile_means(const Layout& layout, const std::vector<double>& values) {
  std::vector<double> means(values.size());
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  double sum = 0.0;
  std::int64_t elements = 0;
  for_tiles(
      layout,
      [&](std::int64_t first, std::int64_t count) {
        parts.emplace_back(first, count);
        elements += count;
        for (std::int64_t i = first; i < first + count; ++i) {
          sum += values[static_cast<std::size_t>(i)];
        }
      },
      [&] {
        for (const auto& [first, count] : parts) {
          std::fill_n(means.begin() + first, count, sum / static_cast<double>(elements));
        }
        parts.clear();
        sum = 0.0;
        elements = 0;
      });
  return means;
}

/// What one head adds to a tensor's figures.
struct HeadFigures {
  double scale_squares = 0.0, reference_squares = 0.0, twin_ratio = 0.0;
  std::int64_t twin_index = -1, not_finite = 0;
};

/// max(a, b), NaN if either is.
double larger(double a, double b) { return a > b || a != a ? a : b; }

/// B of one head's part of a tensor. `mean` = m, `twin` = (y* - ref)^2.
HeadFigures bound_of(const Layout& layout, const double* expected, const std::vector<double>& mean,
                     const std::vector<double>& twin, double* bound) {
  HeadFigures figures;
  const std::vector<double> tile = tile_means(layout, mean);
  const std::vector<double> twin_tile = tile_means(layout, twin);
  const std::int64_t elements = layout.elements();
  for (std::int64_t row = 0; row < elements;) {
    // Rows of a matrix end with it; a vector's are cut every 16 elements.
    const std::int64_t row_end =
        std::min({row + layout.row_length, elements, (row / layout.columns + 1) * layout.columns});
    double squares = 0.0;
    for (std::int64_t i = row; i < row_end; ++i) {
      squares += expected[i] * expected[i];
    }
    const double floor = core::exp2_int(-44) * squares /
                         static_cast<double>(std::max<std::int64_t>(row_end - row, 1));
    for (std::int64_t i = row; i < row_end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double without_twin = larger(mean[at], tile[at]);
      const double square = larger(without_twin, twin_tile[at]) + floor;
      const double twin_error = std::sqrt(twin[at]);
      const double allowed = kBoundLambda * std::sqrt(without_twin + floor);
      const double ratio = twin_error == 0.0 ? 0.0 : twin_error / allowed;
      if (!(ratio <= figures.twin_ratio)) {
        figures.twin_ratio = std::isfinite(ratio) ? ratio : kInfinity;
        figures.twin_index = i;
      }
      if (std::isfinite(square)) {
        figures.scale_squares += square;
      } else {
        ++figures.not_finite;
      }
      bound[i] = kBoundLambda * std::sqrt(square);
    }
    figures.reference_squares += squares;
    row = row_end;
  }
  return figures;
}

/// Would this value be accepted where `expected` +- `bound` is?
bool accepts(core::Dtype dtype, double value, double expected, double bound) {
  return !core::is_failure(
      core::check_element(dtype, core::encode(dtype, value), expected, bound, ~std::uint64_t{0})
          .kind);
}

/// The null outputs: zeros, and the reference moved by one element.
void check_null_outputs(const Target& target) {
  const std::vector<double>& expected = target.reference->values.expected;
  const std::vector<double>& bound = target.reference->values.bound;
  BoundFigures& figures = *target.figures;
  figures.zero_reference =
      std::all_of(expected.begin(), expected.end(), [](double x) { return x == 0.0; });
  if (figures.zero_reference) {
    return;
  }
  std::int64_t zero_wrong = 0, zero_rejected = 0, moved_wrong = 0, moved_rejected = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i]) || !std::isfinite(bound[i])) {
      continue;
    }
    const auto right = core::encode(target.dtype, expected[i]);
    const auto judge = [&](double null, std::int64_t& wrong, std::int64_t& rejected) {
      if (core::encode(target.dtype, null) == right) {
        return;
      }
      ++wrong;
      rejected += !accepts(target.dtype, null, expected[i], bound[i]);
    };
    judge(0.0, zero_wrong, zero_rejected);
    judge(expected[i + 1 < expected.size() ? i + 1 : 0], moved_wrong, moved_rejected);
  }
  const auto share = [](std::int64_t rejected, std::int64_t wrong) {
    return wrong > 0 ? static_cast<double>(rejected) / static_cast<double>(wrong) : 1.0;
  };
  figures.rejects_zero = share(zero_rejected, zero_wrong);
  figures.rejects_shuffled = share(moved_rejected, moved_wrong);
}

/// max |recurrent - chunkwise| over the larger of max |recurrent| and `size`.
double forms_difference(const std::vector<double>& recurrent, const std::vector<double>& chunkwise,
                        double size) {
  double difference = 0.0, largest = size;
  for (std::size_t i = 0; i < recurrent.size(); ++i) {
    difference = larger(std::abs(recurrent[i] - chunkwise[i]), difference);
    largest = larger(std::abs(recurrent[i]), largest);
  }
  return largest > 0.0 ? difference / largest : difference;
}

void check_request(const DeltaInputs& inputs, const DeltaNumerics& numerics,
                   const BoundRequest& request) {
  if (numerics.dtype == core::Dtype::f64 || numerics.chunk < 1 || numerics.inverse_block < 0 ||
      numerics.inverse_block % kFloatPad != 0 || numerics.segment_chunks < 0 ||
      numerics.backward_segment_chunks < 0) {
    throw core::UsageError(fmt::format(
        "a numeric plan needs a dtype of f16, bf16 or f32, chunk >= 1, inverse_block a multiple of "
        "{} (0: none) and both segment_chunks >= 0; got {} with chunk {}, inverse_block {}, "
        "segment_chunks {} and {}",
        kFloatPad, core::name_of(numerics.dtype), numerics.chunk, numerics.inverse_block,
        numerics.segment_chunks, numerics.backward_segment_chunks));
  }
  if (request.backward && inputs.d_o.empty()) {
    throw core::UsageError(
        "bounds of a backward need do, the gradient of o, among the inputs; it is absent");
  }
}

/// Items 0 .. count - 1 on `threads` threads, in order of start. Rethrows the first exception.
template <typename Work>
void run_items(std::int64_t count, int threads, Work&& work) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto worker = [&] {
    try {
      for (std::int64_t item; (item = next.fetch_add(1)) < count;) {
        work(item);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) {
        error = std::current_exception();
      }
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, count); ++i) {
      others.emplace_back(worker);
    }
    worker();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

/// Squared errors of the targets of one head, by group of runs and then the twin.
struct HeadSums {
  std::array<std::vector<std::vector<double>>, kItemsPerHead> items;  // [item][target][element]
  std::atomic<int> unfinished{kItemsPerHead};
};

std::vector<Target> targets_of(const DeltaInputs& inputs, const DeltaNumerics& numerics,
                               const BoundRequest& request) {
  const std::int64_t t = inputs.shape.t, dk = inputs.shape.dk, dv = inputs.shape.dv;
  const std::int64_t c = numerics.chunk, chunks = inputs.shape.chunks(c);
  std::vector<Target> targets;
  const auto output = [&](DeltaOutput which, const Layout& layout, core::Dtype dtype) {
    targets.push_back({.index = static_cast<std::size_t>(which), .layout = layout, .dtype = dtype});
  };
  output(DeltaOutput::o, Layout::matrix(t, dv), numerics.dtype);
  output(DeltaOutput::hT, Layout::matrix(dk, dv), core::Dtype::f32);
  if (request.backward) {
    output(DeltaOutput::dq, Layout::matrix(t, dk), numerics.dtype);
    output(DeltaOutput::dk, Layout::matrix(t, dk), numerics.dtype);
    output(DeltaOutput::dv, Layout::matrix(t, dv), numerics.dtype);
    output(DeltaOutput::dbeta, Layout::vector(t), core::Dtype::f32);
    if (inputs.gated()) {
      output(DeltaOutput::dg, Layout::vector(t), core::Dtype::f32);
    }
    output(DeltaOutput::dh0, Layout::matrix(dk, dv), core::Dtype::f32);
  }
  if (request.intermediates) {
    const std::size_t count = request.backward ? kIntermediateCount : kForwardIntermediateCount;
    for (std::size_t i = 0; i < count; ++i) {
      Layout layout = Layout::matrix(t, dk);
      switch (static_cast<Intermediate>(i)) {
      case Intermediate::x:
      case Intermediate::p:
      case Intermediate::dp:
      case Intermediate::dm: layout = Layout::matrix(t, c); break;
      case Intermediate::h:
      case Intermediate::dh: layout = Layout::states(chunks, dk, dv); break;
      case Intermediate::u:
      case Intermediate::v_new:
      case Intermediate::du_partial:
      case Intermediate::du:
      case Intermediate::r_v: layout = Layout::matrix(t, dv); break;
      case Intermediate::w:
      case Intermediate::dw:
      case Intermediate::r_w: break;
      }
      targets.push_back({.is_output = false, .index = i, .layout = layout});
    }
  }
  return targets;
}

}  // namespace

DeltaBounds delta_bounds(const DeltaInputs& inputs, const DeltaNumerics& numerics,
                         const BoundRequest& request) {
  check_request(inputs, numerics, request);

  // The reference, and its second form.
  DeltaOutputs recurrent =
      request.backward ? recurrent_backward(inputs) : recurrent_forward(inputs);
  const ChunkwiseOptions options{.chunk = numerics.chunk, .intermediates = request.intermediates};
  ChunkwiseResult chunkwise =
      request.backward ? chunkwise_backward(inputs, options) : chunkwise_forward(inputs, options);

  double largest_dbeta = 0.0;
  for (const double x : recurrent.dbeta) {
    largest_dbeta = larger(std::abs(x), largest_dbeta);
  }

  DeltaBounds result;
  std::vector<Target> targets = targets_of(inputs, numerics, request);
  const auto outputs = static_cast<std::size_t>(
      std::count_if(targets.begin(), targets.end(), [](const Target& t) { return t.is_output; }));
  result.outputs.resize(outputs);
  result.intermediates.resize(targets.size() - outputs);
  result.report.outputs.resize(outputs);
  result.report.intermediates.resize(targets.size() - outputs);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Target& target = targets[i];
    const bool is_output = target.is_output;
    target.reference = is_output ? &result.outputs[i] : &result.intermediates[i - outputs];
    target.figures =
        is_output ? &result.report.outputs[i] : &result.report.intermediates[i - outputs];
    std::vector<double>& expected =
        is_output ? recurrent[static_cast<DeltaOutput>(target.index)]
                  : array_of(chunkwise.intermediates, static_cast<Intermediate>(target.index));
    if (is_output) {
      const auto which = static_cast<DeltaOutput>(target.index);
      // The chunkwise dg is a difference of sums as large as those of dbeta; behind strong gates
      // the rest is far smaller than they are.
      target.figures->forms_difference = forms_difference(
          expected, chunkwise.outputs[which], which == DeltaOutput::dg ? largest_dbeta : 0.0);
      result.report.forms_difference =
          larger(target.figures->forms_difference, result.report.forms_difference);
    }
    const std::string_view name = is_output ? name_of(static_cast<DeltaOutput>(target.index))
                                            : name_of(static_cast<Intermediate>(target.index));
    target.reference->name = target.figures->name = name;
    target.reference->values.expected = std::move(expected);
    target.reference->values.bound.resize(target.reference->values.expected.size());
    target.figures->elements = static_cast<std::int64_t>(target.reference->values.expected.size());
  }

  // The runs.
  const std::int64_t heads = inputs.shape.heads();
  std::vector<std::unique_ptr<HeadSums>> sums(static_cast<std::size_t>(heads));
  for (std::unique_ptr<HeadSums>& head : sums) {
    head = std::make_unique<HeadSums>();
  }
  std::vector<std::vector<HeadFigures>> head_figures(static_cast<std::size_t>(heads),
                                                     std::vector<HeadFigures>(targets.size()));
  const auto expected_of = [](const Target& target, std::int64_t head) {
    return target.reference->values.expected.data() + head * target.layout.elements();
  };
  const auto finish_head = [&](std::int64_t head) {
    std::unique_ptr<HeadSums> all = std::move(sums[static_cast<std::size_t>(head)]);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const Target& target = targets[i];
      std::vector<double> mean = std::move(all->items[0][i]);
      for (int group = 1; group < kGroups; ++group) {
        const std::vector<double>& more = all->items[static_cast<std::size_t>(group)][i];
        for (std::size_t element = 0; element < mean.size(); ++element) {
          mean[element] += more[element];
        }
      }
      for (double& x : mean) {
        x *= 1.0 / kBoundRuns;
      }
      head_figures[static_cast<std::size_t>(head)][i] =
          bound_of(target.layout, expected_of(target, head), mean, all->items[kGroups][i],
                   target.reference->values.bound.data() + head * target.layout.elements());
    }
  };
  const int threads = request.threads > 0
                          ? request.threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  run_items(heads * kItemsPerHead, threads, [&](std::int64_t item) {
    const std::int64_t head = item / kItemsPerHead, part = item % kItemsPerHead;
    HeadSums& of_head = *sums[static_cast<std::size_t>(head)];
    SimulatedInputs head_inputs(inputs, head, request.backward);
    DeltaSimulation simulation(head_inputs, numerics, request.intermediates);
    std::vector<std::vector<double>>& squares = of_head.items[static_cast<std::size_t>(part)];
    for (const Target& target : targets) {
      squares.emplace_back(static_cast<std::size_t>(target.layout.elements()), 0.0);
    }
    const bool twin = part == kGroups;
    for (int run = 0; run < (twin ? 1 : kRunsPerGroup); ++run) {
      const std::uint64_t number = static_cast<std::uint64_t>(part * kRunsPerGroup + run);
      const SimulatedOutputs& y =
          simulation.run(twin ? Rounding::nearest()
                              : Rounding::stochastic(core::trial_seed(request.seed, number)));
      for (std::size_t i = 0; i < targets.size(); ++i) {
        add_squared_errors(targets[i].of(y), expected_of(targets[i], head), squares[i].data());
      }
    }
    if (of_head.unfinished.fetch_sub(1) == 1) {
      finish_head(head);
    }
  });

  // Figures and self-checks.
  const bool forms_agree = result.report.forms_difference <= kFormsAgree;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    BoundFigures& figures = *targets[i].figures;
    double scale_squares = 0.0, reference_squares = 0.0;
    for (std::int64_t head = 0; head < heads; ++head) {
      const HeadFigures& part = head_figures[static_cast<std::size_t>(head)][i];
      scale_squares += part.scale_squares;
      reference_squares += part.reference_squares;
      figures.not_finite += part.not_finite;
      if (part.twin_ratio > figures.twin_ratio) {
        figures.twin_ratio = part.twin_ratio;
        figures.twin_index = head * targets[i].layout.elements() + part.twin_index;
      }
    }
    if (reference_squares > 0.0) {
      figures.relative_scale = std::sqrt(scale_squares / reference_squares);
    }
    check_null_outputs(targets[i]);
    if (figures.unsound() || figures.not_finite > 0 || !forms_agree) {
      std::fill(targets[i].reference->values.bound.begin(),
                targets[i].reference->values.bound.end(), kInfinity);
    }
  }
  return result;
}

const core::ReferenceTensor& DeltaBounds::at(std::string_view name) const {
  for (const std::vector<NamedReference>* all : {&outputs, &intermediates}) {
    for (const NamedReference& reference : *all) {
      if (reference.name == name) {
        return reference.values;
      }
    }
  }
  throw core::UsageError(fmt::format(
      "no bound of '{}' was made: ask for it with BoundRequest::backward or ::intermediates",
      name));
}

bool BoundReport::usable() const {
  const auto bad = [](const BoundFigures& f) { return f.unsound() || f.not_finite > 0; };
  const auto sees = [](const BoundFigures& f) { return !f.zero_reference && !f.blind(); };
  return forms_difference <= kFormsAgree && std::none_of(outputs.begin(), outputs.end(), bad) &&
         std::none_of(intermediates.begin(), intermediates.end(), bad) &&
         std::any_of(outputs.begin(), outputs.end(), sees);
}

std::vector<std::string> BoundReport::sentences() const {
  std::vector<std::string> sentences;
  if (!(forms_difference <= kFormsAgree)) {
    sentences.push_back(fmt::format(
        "the recurrence and the chunkwise form differ by {:.1e} of the largest element; "
        "they must agree to {:.0e} before anything is compared with them",
        forms_difference, kFormsAgree));
  }
  for (const std::vector<BoundFigures>* all : {&outputs, &intermediates}) {
    for (const BoundFigures& f : *all) {
      if (f.not_finite > 0) {
        sentences.push_back(fmt::format("bound_vacuous: {} of {} elements of {} have no finite "
                                        "bound: the numeric plan overflows "
                                        "or divides by zero on these inputs",
                                        f.not_finite, f.elements, f.name));
      } else if (f.unsound()) {
        sentences.push_back(fmt::format(
            "bound_unsound: rounded to nearest, the plan is off by {:.2f} of the bound of {} at "
            "element {} (limit {}): its roundings do not average out there; widen only by "
            "declaring "
            "where the kernel rounds",
            f.twin_ratio, f.name, f.twin_index, kTwinLimit));
      } else if (f.blind()) {
        sentences.push_back(fmt::format(
            "bound_vacuous: {} would pass where {} is expected, but for {:.1f} % of the elements: "
            "it "
            "is below rounding here, and its agreement says nothing",
            f.rejects_zero < kSeenShare ? "all zeros" : "the expected values moved by one element",
            f.name, 100.0 * std::min(f.rejects_zero, f.rejects_shuffled)));
      }
      if (f.wide()) {
        sentences.push_back(fmt::format("the error expected of {} is {:.1f} % of its size", f.name,
                                        100.0 * f.relative_scale));
      }
    }
  }
  return sentences;
}

}  // namespace faultline::reference
