// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "fast_convert.hpp"
#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::core {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Elements of one output in one trial by the size of their error.
struct Bins {
  std::array<std::uint64_t, kErrorBins> ratio{}, ulps{};

  void count(double error_over_bound, double error_in_ulps) {
    ++ratio[error_bin(error_over_bound)];
    ++ulps[error_bin(error_in_ulps)];
  }
};

/// What one tile of one trial adds up to.
struct Tally {
  std::uint64_t bad = 0, not_finite = 0, poison = 0, no_reference = 0;
  double ratio = 0.0, ulps = 0.0, error = 0.0, rounded_error = 0.0, error_expected = 0.0;
  double squared_error = 0.0, squared_expected = 0.0;
  std::int64_t first_bad = -1;

  void worst(double new_ratio, double new_ulps, double new_error, double new_rounded_error,
             double expected) {
    ratio = new_ratio > ratio ? new_ratio : ratio;
    ulps = new_ulps > ulps ? new_ulps : ulps;
    rounded_error = new_rounded_error > rounded_error ? new_rounded_error : rounded_error;
    if (new_error > error) {
      error = new_error;
      error_expected = expected;
    }
  }
};

/// The rule itself, for whatever the quick path below does not decide.
void tally_element(Dtype dtype, std::uint64_t got, double expected, double bound,
                   std::uint64_t poison, std::int64_t index, Tally& tally, Bins& bins) {
  const ElementCheck check = check_element(dtype, got, expected, bound, poison);
  const double value = decode(dtype, got), nearest = round_to(dtype, expected);
  double rounded_error = kInfinity;
  if (stays_untouched(bound)) {
    rounded_error = 0.0;
  } else if (check.kind != ElementClass::no_reference && !is_nan(value)) {
    rounded_error = value == nearest ? 0.0 : std::fabs(value - nearest);
  }
  tally.worst(check.ratio, check.ulps, check.error, rounded_error, expected);
  if (!stays_untouched(bound)) {
    bins.count(check.ratio, check.ulps);
  }
  if (std::isfinite(check.error) && !stays_untouched(bound)) {
    tally.squared_error += check.error * check.error;
    tally.squared_expected += expected * expected;
  }
  if (is_failure(check.kind)) {
    ++tally.bad;
    tally.not_finite +=
        check.kind == ElementClass::not_a_number || check.kind == ElementClass::infinite;
    tally.poison += check.kind == ElementClass::poison;
    tally.no_reference += check.kind == ElementClass::no_reference;
    if (tally.first_bad < 0 || index < tally.first_bad) {
      tally.first_bad = index;
    }
  }
}

/// 1 / ulp_at(D, x) for a finite number of D's grid. Exact, so multiplying by it equals the
/// division.
template <Dtype D>
inline std::uint64_t biased_exponent(double x) {
  constexpr std::uint64_t kLowest = static_cast<std::uint64_t>(detail::kMinExponent<D> + 1023);
  const std::uint64_t exponent = bits_of(x) >> 52 & 0x7ff;
  return exponent < kLowest ? kLowest : exponent;
}
template <Dtype D>
inline double inverse_ulp(double x) {
  return double_of((2046 + detail::kMantissaBits<D> - biased_exponent<D>(x)) << 52);
}
template <Dtype D>
inline double half_ulp(double x) {
  return double_of((biased_exponent<D>(x) - detail::kMantissaBits<D> - 1) << 52);
}

template <Dtype D>
void tally_range(const std::byte* got, const double* expected, const double* bounds,
                 std::uint64_t poison, std::size_t begin, std::size_t end, Tally& tally,
                 Bins& bins) {
  // Accepted elements, nearly all there are, touch only this copy: its address is not taken, so it
  // stays in registers.
  double ratio = 0.0, ulps = 0.0, error = 0.0, rounded_error = 0.0, error_expected = 0.0;
  double squared_error = 0.0, squared_expected = 0.0;
  const auto raise = [](double& worst, double value) { worst = value > worst ? value : worst; };
  for (std::size_t i = begin; i < end; ++i) {
    const auto bits = detail::load<D>(got, i);
    const double want = expected[i], bound = bounds[i];
    const double value = detail::fast_decode<D>(bits), nearest = detail::fast_round<D>(want);
    // Written so that NaN and infinite operands fail it.
    const bool ordinary = bound >= 0.0 && bound < kInfinity && std::fabs(value) < kInfinity &&
                          std::fabs(nearest) < kInfinity;
    if (ordinary && value == nearest) {  // rounding is monotonic: RN(want) lies in the interval
      const double difference = std::fabs(value - want);
      double in_ulps = 0.0;
      if constexpr (D != Dtype::f64) {
        in_ulps = difference * inverse_ulp<D>(nearest);
        raise(ulps, in_ulps);
      }
      bins.count(0.0, in_ulps);
      error_expected = difference > error ? want : error_expected;
      raise(error, difference);
      squared_error += difference * difference;
      squared_expected += want * want;
      continue;
    }
    if constexpr (D != Dtype::f64) {
      if (ordinary && bound > 0.0 && value >= detail::fast_round<D>(want - bound) &&
          value <= detail::fast_round<D>(want + bound)) {
        const double difference = std::fabs(value - want), half = half_ulp<D>(value);
        const double beyond = difference > half ? difference - half : 0.0;
        const double over_bound = beyond < bound ? beyond / bound : 1.0;
        const double in_ulps = difference * inverse_ulp<D>(nearest);
        raise(ratio, over_bound);
        raise(ulps, in_ulps);
        bins.count(over_bound, in_ulps);
        raise(rounded_error, std::fabs(value - nearest));
        error_expected = difference > error ? want : error_expected;
        raise(error, difference);
        squared_error += difference * difference;
        squared_expected += want * want;
        continue;
      }
    }
    tally_element(D, bits, want, bound, poison, static_cast<std::int64_t>(i), tally, bins);
  }
  tally.worst(ratio, ulps, error, rounded_error, error_expected);
  tally.squared_error += squared_error;
  tally.squared_expected += squared_expected;
}

using TallyRange = void (*)(const std::byte*, const double*, const double*, std::uint64_t,
                            std::size_t, std::size_t, Tally&, Bins&);

TallyRange tally_range_of(Dtype dtype) {
  switch (dtype) {
  case Dtype::f16: return tally_range<Dtype::f16>;
  case Dtype::bf16: return tally_range<Dtype::bf16>;
  case Dtype::f32: return tally_range<Dtype::f32>;
  case Dtype::f64: return tally_range<Dtype::f64>;
  }
  throw UsageError(fmt::format("there is no dtype number {}", static_cast<int>(dtype)));
}

void check_sizes(std::size_t got_bytes, Dtype dtype, const ReferenceTensor& reference,
                 const TileGeometry& geometry, const OutputTotals& totals) {
  const std::size_t count = reference.expected.size();
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("output '{}' cannot be compared: {}", totals.name, why));
  };
  if (count == 0) {
    refuse("the reference is empty, so nothing would be compared");
  }
  if (reference.bound.size() != count) {
    refuse(fmt::format("the reference has {} values and {} bounds", count, reference.bound.size()));
  }
  if (got_bytes != count * size_of(dtype)) {
    refuse(fmt::format("it holds {} bytes, and {} elements of {} need {}", got_bytes, count,
                       name_of(dtype), count * size_of(dtype)));
  }
  if (dtype != totals.dtype) {
    refuse(fmt::format("it is {}, and the figures so far are of {}", name_of(dtype),
                       name_of(totals.dtype)));
  }
  if (geometry.rows < 1 || geometry.cols < 1 || geometry.tile_rows < 1 || geometry.tile_cols < 1 ||
      static_cast<std::uint64_t>(geometry.rows) > count || count % geometry.rows != 0 ||
      static_cast<std::uint64_t>(geometry.cols) != count / geometry.rows) {
    refuse(fmt::format("its geometry of {} x {} in tiles of {} x {} does not cover {} elements",
                       geometry.rows, geometry.cols, geometry.tile_rows, geometry.tile_cols,
                       count));
  }
  if (!(totals.geometry == geometry) ||
      totals.tiles.size() != static_cast<std::size_t>(geometry.tile_count())) {
    refuse(fmt::format("the figures so far are of {} tiles of another geometry, not of {}",
                       totals.tiles.size(), geometry.tile_count()));
  }
}

}  // namespace

double error_bin_limit(std::size_t bin) {
  return bin == 0               ? 0.0
         : bin < kErrorBins - 2 ? std::ldexp(1.0, kLowestErrorExponent + static_cast<int>(bin) - 1)
                                : kInfinity;
}

void add_bins(std::vector<std::uint64_t>& into, std::span<const std::uint64_t> bins) {
  std::size_t used = bins.size();
  while (used > 0 && bins[used - 1] == 0) --used;
  if (into.size() < used) into.resize(used);
  for (std::size_t i = 0; i < used; ++i) into[i] += bins[i];
}

OutputTotals make_output_totals(const BufferSpec& output) {
  OutputTotals totals;
  totals.name = output.name;
  totals.dtype = output.dtype;
  totals.geometry = output.tiles;
  totals.tiles.resize(static_cast<std::size_t>(output.tiles.tile_count()));
  return totals;
}

std::uint64_t compare_output(std::span<const std::byte> got, Dtype dtype,
                             const ReferenceTensor& reference, const TileGeometry& geometry,
                             const Poison& poison, OutputTotals& totals,
                             std::vector<WrongTile>* wrong_tiles) {
  const TallyRange tally_elements = tally_range_of(dtype);
  check_sizes(got.size(), dtype, reference, geometry, totals);

  std::uint64_t bad = 0;
  Bins bins;
  const std::int64_t across = geometry.tiles_across();
  for (std::size_t t = 0; t < totals.tiles.size(); ++t) {
    const auto tile_number = static_cast<std::int64_t>(t);
    const std::int64_t row_begin = tile_number / across * geometry.tile_rows;
    const std::int64_t row_end = std::min(row_begin + geometry.tile_rows, geometry.rows);
    const std::int64_t col_begin = tile_number % across * geometry.tile_cols;
    const std::int64_t col_end = std::min(col_begin + geometry.tile_cols, geometry.cols);
    const std::uint64_t unwritten = poison.bits(t);
    Tally tally;
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      const auto base = static_cast<std::size_t>(row * geometry.cols);
      tally_elements(got.data(), reference.expected.data(), reference.bound.data(), unwritten,
                     base + static_cast<std::size_t>(col_begin),
                     base + static_cast<std::size_t>(col_end), tally, bins);
    }
    if (wrong_tiles && tally.bad > 0) {
      wrong_tiles->push_back(
          {.tile = tile_number, .bad_elements = tally.bad, .worst_ratio = tally.ratio});
    }

    TileTotals& tile = totals.tiles[t];
    tile.bad_trials += tally.bad > 0;
    tile.bad_elements += tally.bad;
    tile.not_finite += tally.not_finite;
    tile.poison += tally.poison;
    tile.no_reference += tally.no_reference;
    tile.worst_ratio = std::fmax(tile.worst_ratio, tally.ratio);
    tile.worst_ulps = std::fmax(tile.worst_ulps, tally.ulps);
    if (tally.first_bad >= 0 &&
        (tile.first_bad_index < 0 || tally.first_bad < tile.first_bad_index)) {
      tile.first_bad_index = tally.first_bad;
    }

    bad += tally.bad;
    totals.not_finite += tally.not_finite;
    totals.poison += tally.poison;
    totals.no_reference += tally.no_reference;
    totals.sum_squared_error += tally.squared_error;
    totals.sum_squared_expected += tally.squared_expected;
    totals.worst_ratio = std::fmax(totals.worst_ratio, tally.ratio);
    totals.worst_ulps = std::fmax(totals.worst_ulps, tally.ulps);
    totals.worst_rounded_error = std::fmax(totals.worst_rounded_error, tally.rounded_error);
    if (tally.error > totals.worst_error) {
      totals.worst_error = tally.error;
      totals.worst_error_expected = tally.error_expected;
    }
  }
  add_bins(totals.ratio_bins, bins.ratio);
  add_bins(totals.ulp_bins, bins.ulps);
  totals.bad_trials += bad > 0;
  totals.bad_elements += bad;
  totals.compared_elements += reference.expected.size();
  return bad;
}

std::uint64_t compare_output(const Tensor& got, const ReferenceTensor& reference,
                             const TileGeometry& geometry, const Poison& poison,
                             OutputTotals& totals, const Shape& shape,
                             std::vector<WrongTile>* wrong_tiles) {
  if (!shape.empty() && got.shape != shape) {
    throw UsageError(fmt::format("output '{}' cannot be compared: its shape is {}, expected {}",
                                 totals.name, to_string(got.shape), to_string(shape)));
  }
  if (static_cast<std::size_t>(got.size()) != reference.expected.size()) {
    throw UsageError(fmt::format(
        "output '{}' cannot be compared: its shape {} has {} elements, the reference {}",
        totals.name, to_string(got.shape), got.size(), reference.expected.size()));
  }
  return compare_output(got.bytes, got.dtype, reference, geometry, poison, totals, wrong_tiles);
}

namespace {

template <Dtype D>
std::uint64_t hash_elements(const std::byte* data, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += output_hash_term(detail::load<D>(data, i), i);
  }
  return sum;
}

}  // namespace

std::uint64_t output_hash(std::span<const std::byte> elements, Dtype dtype) {
  const std::size_t count = elements.size() / size_of(dtype);
  switch (dtype) {
  case Dtype::f16: return hash_elements<Dtype::f16>(elements.data(), count);
  case Dtype::bf16: return hash_elements<Dtype::bf16>(elements.data(), count);
  case Dtype::f32: return hash_elements<Dtype::f32>(elements.data(), count);
  case Dtype::f64: return hash_elements<Dtype::f64>(elements.data(), count);
  }
  return 0;
}

std::uint64_t output_hash(const Tensor& tensor) { return output_hash(tensor.bytes, tensor.dtype); }

std::uint64_t output_hash(const Tensor& tensor, const ReferenceTensor& reference) {
  std::uint64_t sum = output_hash(tensor);
  for (std::size_t i = 0; i < reference.bound.size(); ++i) {
    if (!stays_untouched(reference.bound[i])) continue;
    sum -= output_hash_term(tensor.bits(static_cast<std::int64_t>(i)), i);
  }
  return sum;
}

}  // namespace faultline::core
