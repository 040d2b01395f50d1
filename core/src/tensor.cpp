// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/tensor.hpp"

#include <fmt/format.h>

#include "fast_convert.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/stop.hpp"

namespace faultline::core {

std::int64_t element_count(const Shape& shape) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      throw UsageError(fmt::format("shape {} has a negative extent", to_string(shape)));
    }
    empty = empty || extent == 0;
  }
  if (empty) {
    return 0;
  }
  for (const std::int64_t extent : shape) {
    if (count > kLimit / extent) {
      throw UsageError(fmt::format("shape {} has more than 2^62 elements", to_string(shape)));
    }
    count *= extent;
  }
  return count;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Tensor::Tensor(Dtype element, Shape extents) : dtype(element), shape(std::move(extents)) {
  bytes.resize(static_cast<std::size_t>(element_count(shape)) * size_of(dtype));
}

namespace {

template <Dtype D>
void decode_all(const Tensor& tensor, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = detail::fast_decode<D>(detail::load<D>(tensor.bytes.data(), i));
  }
}

/// As draw_in_row(), bit for bit, with the norms of a row computed once.
template <Dtype D>
void generate_rows(const InputSpec& spec, std::uint64_t key, std::byte* out, std::size_t count) {
  const auto row = static_cast<std::size_t>(spec.row);
  const auto group = static_cast<std::size_t>(spec.group);
  const std::uint64_t shared_key = group_key(key);
  const double a = static_cast<double>(spec.a), b = static_cast<double>(spec.b);
  std::vector<double> own(row), shared(row), values(row);
  const auto normals = [&](std::uint64_t row_key, std::size_t first, std::vector<double>& x) {
    for (std::size_t j = 0; j < row; ++j) {
      x[j] = unit_normal(element_bits(row_key, first + j));
    }
  };
  const auto norm_of = [](const std::vector<double>& x) {
    double sum = 0.0;
    for (const double v : x) {
      sum += mul_rn(v, v);
    }
    return sqrt_rn(sum);
  };
  const auto normalise = [&](std::vector<double>& x) {
    const double norm = norm_of(x);
    for (double& v : x) {
      v = over_norm(v, norm);
    }
  };
  std::size_t loaded = ~std::size_t{0};
  for (std::size_t first = 0; first < count; first += row) {
    throw_if_stopped();
    const std::size_t shared_first = first / row / group * row;
    if (spec.distribution != Distribution::unit_row && shared_first != loaded) {
      normals(shared_key, shared_first, shared);
      if (spec.distribution != Distribution::repeated_row) {
        normalise(shared);
      }
      loaded = shared_first;
    }
    if (spec.distribution == Distribution::unit_row ||
        spec.distribution == Distribution::common_row) {
      normals(key, first, own);
      normalise(own);
    }
    switch (spec.distribution) {
    case Distribution::unit_row: values = own; break;
    case Distribution::common_row:
      for (std::size_t j = 0; j < row; ++j) {
        values[j] = own[j] + shared[j];
      }
      normalise(values);
      break;
    default: values = shared; break;
    }
    for (std::size_t j = 0; j < row && first + j < count; ++j) {
      const double x = spec.distribution == Distribution::repeated_row ? mul_rn(values[j], b) + a
                                                                       : mul_rn(b, values[j]);
      detail::store<D>(out, first + j, detail::fast_encode<D>(x));
    }
  }
}

constexpr std::size_t kElementsBetweenLooks = std::size_t{1} << 16;  // about a millisecond

template <Dtype D>
void generate(const InputSpec& spec, std::uint64_t key, std::byte* out, std::size_t count) {
  // One loop per distribution: with the specification's kind fixed, draw() inlines to straight-line
  // code.
  const auto fill = [&](auto kind) {
    InputSpec fixed = spec;
    fixed.distribution = kind();
    for (std::size_t begin = 0; begin < count; begin += kElementsBetweenLooks) {
      throw_if_stopped();
      const std::size_t end = std::min(count, begin + kElementsBetweenLooks);
      for (std::size_t i = begin; i < end; ++i) {
        detail::store<D>(out, i, detail::fast_encode<D>(draw(fixed, key, i)));
      }
    }
  };
  switch (spec.distribution) {
  case Distribution::normal: return fill([] { return Distribution::normal; });
  case Distribution::uniform: return fill([] { return Distribution::uniform; });
  case Distribution::small_int: return fill([] { return Distribution::small_int; });
  case Distribution::index: return fill([] { return Distribution::index; });
  case Distribution::coin: return fill([] { return Distribution::coin; });
  case Distribution::digits: return fill([] { return Distribution::digits; });
  case Distribution::wide: return fill([] { return Distribution::wide; });
  case Distribution::edge: return fill([] { return Distribution::edge; });
  case Distribution::unit_row:
  case Distribution::common_row:
  case Distribution::identical_row:
  case Distribution::repeated_row: return generate_rows<D>(spec, key, out, count);
  case Distribution::epoch:
  case Distribution::constant: {
    const auto bits = detail::fast_encode<D>(draw(spec, key, 0));
    for (std::size_t i = 0; i < count; ++i) {
      detail::store<D>(out, i, bits);
    }
    return;
  }
  }
}

}  // namespace

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(size()));
  switch (dtype) {
  case Dtype::f16: decode_all<Dtype::f16>(*this, values); break;
  case Dtype::bf16: decode_all<Dtype::bf16>(*this, values); break;
  case Dtype::f32: decode_all<Dtype::f32>(*this, values); break;
  case Dtype::f64: decode_all<Dtype::f64>(*this, values); break;
  }
  return values;
}

void generate_input(const InputSpec& spec, std::uint64_t seed, std::uint32_t tensor_index,
                    Tensor& out) {
  const std::uint64_t key = tensor_key(seed, tensor_index);
  const auto count = static_cast<std::size_t>(out.size());
  if (out.bytes.size() != count * size_of(out.dtype)) {
    throw UsageError(fmt::format("a tensor of {} {} elements holds {} bytes: make it with "
                                 "Tensor(dtype, shape)",
                                 count, name_of(out.dtype), out.bytes.size()));
  }
  if (is_row_distribution(spec.distribution) && (spec.row < 1 || spec.group < 1)) {
    throw UsageError(fmt::format("rows of {} elements in groups of {}: both must be at least 1",
                                 spec.row, spec.group));
  }
  if (spec.distribution == Distribution::digits &&
      (spec.row < 1 || spec.group < 1 || !(spec.a >= 1.0f))) {
    throw UsageError(fmt::format("digits along an axis of extent {} and stride {} in slices of {}: "
                                 "all must be at least 1",
                                 spec.group, spec.row, spec.a));
  }
  std::byte* data = out.bytes.data();
  switch (out.dtype) {
  case Dtype::f16: return generate<Dtype::f16>(spec, key, data, count);
  case Dtype::bf16: return generate<Dtype::bf16>(spec, key, data, count);
  case Dtype::f32: return generate<Dtype::f32>(spec, key, data, count);
  case Dtype::f64: return generate<Dtype::f64>(spec, key, data, count);
  }
}

}  // namespace faultline::core
