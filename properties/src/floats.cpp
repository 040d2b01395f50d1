// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/floats.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <ostream>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"

namespace faultline::properties {
namespace {

using core::Dtype;

int width(Dtype dtype) { return 8 * static_cast<int>(core::size_of(dtype)); }
int exponent_bits(Dtype dtype) { return width(dtype) - 1 - core::mantissa_bits(dtype); }
std::uint64_t bias(Dtype dtype) { return (1ull << (exponent_bits(dtype) - 1)) - 1; }
std::uint64_t top_exponent(Dtype dtype) { return (1ull << exponent_bits(dtype)) - 1; }

/// The three fields of an element.
struct Fields {
  std::uint64_t sign = 0, exponent = 0, mantissa = 0;
};

Fields fields_of(const ElementBits& e) {
  const int m = core::mantissa_bits(e.dtype);
  return {e.bits >> (width(e.dtype) - 1) & 1, e.bits >> m & top_exponent(e.dtype),
          e.bits & ((1ull << m) - 1)};
}

ElementBits element_of(Dtype dtype, const Fields& f) {
  const int m = core::mantissa_bits(dtype);
  return {dtype, f.sign << (width(dtype) - 1) | f.exponent << m | f.mantissa};
}

/// Steps of the exponent away from that of 1; zeros and subnormals come next, then infinity and
/// NaN.
std::uint64_t exponent_rank(Dtype dtype, std::uint64_t exponent) {
  const std::uint64_t b = bias(dtype);
  if (exponent == 0) return 2 * b + 1;
  if (exponent == top_exponent(dtype)) return 2 * b + 2;
  return exponent >= b ? exponent - b : b - exponent;
}

bool is_finite(const ElementBits& e) { return fields_of(e).exponent != top_exponent(e.dtype); }

ElementBits draw_element(Source& source, const std::vector<Dtype>& dtypes) {
  const Dtype dtype = source.pick(dtypes);
  const int m = core::mantissa_bits(dtype);
  const std::uint64_t all = (1ull << m) - 1, top = top_exponent(dtype), b = bias(dtype);
  const std::uint64_t sign = source.below(2);
  switch (source.below(8)) {
  case 0:
  case 1: {
    const Fields specials[] = {
        {sign, 0, 0},                  // zero
        {sign, top, 0},                // infinity
        {sign, top, 1ull << (m - 1)},  // quiet NaN
        {sign, top, 1},                // signalling NaN
        {sign, top, all},              // the NaN of all ones, also a poison
        {sign, top - 1, all},          // largest finite
        {sign, 1, 0},                  // smallest normal
        {sign, 0, all},                // largest subnormal
        {sign, 0, 1},                  // smallest subnormal
        {sign, b, 0},                  // one
    };
    return element_of(dtype, source.pick(specials));
  }
  case 2: return element_of(dtype, {sign, 0, source.bits() & all});
  case 3: return element_of(dtype, {sign, top, source.bits() & all});
  case 4: {  // a power of two or its neighbour
    const std::uint64_t power = (1 + source.below(top - 1)) << m;
    const std::uint64_t bits = power + source.below(3) - 1;
    return {dtype, bits | sign << (width(dtype) - 1)};
  }
  case 5: {
    const double integer = static_cast<double>(source.below(257));
    return {dtype, core::encode(dtype, sign ? -integer : integer)};
  }
  default: return element_of(dtype, {sign, source.below(top), source.bits() & all});
  }
}

std::vector<ElementBits> smaller_elements(const ElementBits& e, const std::vector<Dtype>& dtypes,
                                          FloatKind kind) {
  std::vector<ElementBits> smaller;
  const Fields f = fields_of(e);
  const std::uint64_t b = bias(e.dtype);
  for (const Dtype dtype : dtypes) {
    if (dtype == e.dtype) break;
    smaller.push_back({dtype, core::encode(dtype, 1.0)});
    smaller.push_back({dtype, core::encode(dtype, e.value())});
  }
  const auto add = [&](const Fields& fields) { smaller.push_back(element_of(e.dtype, fields)); };
  if (f.exponent != b) {
    add({f.sign, b, f.mantissa});
    if (f.exponent != 0 && f.exponent != top_exponent(e.dtype)) {
      // Half way to the exponent of 1, and one step.
      add({f.sign, f.exponent > b ? b + (f.exponent - b) / 2 : b - (b - f.exponent) / 2,
           f.mantissa});
      add({f.sign, f.exponent > b ? f.exponent - 1 : f.exponent + 1, f.mantissa});
    } else {
      add({f.sign, 1, f.mantissa});
      if (f.exponent != 0) add({f.sign, f.exponent - 1, f.mantissa});
    }
  }
  if (f.mantissa != 0) {
    add({f.sign, f.exponent, 0});
    add({f.sign, f.exponent, f.mantissa & (f.mantissa - 1)});  // lowest set bit cleared
    add({f.sign, f.exponent, f.mantissa >> 1});
  }
  if (f.sign != 0) add({0, f.exponent, f.mantissa});
  if (kind == FloatKind::finite)
    std::erase_if(smaller, [](const auto& x) { return !is_finite(x); });
  return smaller;
}

Dtype dtype_named(const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  if (!dtype) throw core::UsageError(fmt::format("'{}' is not a dtype", name));
  return *dtype;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ElementBits& element) {
  return out << fmt::format("{}:{:#x}", core::name_of(element.dtype), element.bits);
}

ValueDomain<ElementBits> elements(std::vector<Dtype> dtypes, FloatKind kind) {
  if (dtypes.empty()) dtypes = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64};
  const auto position = [dtypes](Dtype dtype) {
    return static_cast<std::uint64_t>(std::find(dtypes.begin(), dtypes.end(), dtype) -
                                      dtypes.begin());
  };
  const auto shrink = [dtypes, kind](const ElementBits& e) {
    return smaller_elements(e, dtypes, kind);
  };
  return {
      .name = kind == FloatKind::finite ? "finite elements" : "elements",
      .generator = make_generator(
          [dtypes, kind](Source& source) {
            ElementBits e = draw_element(source, dtypes);
            while (kind == FloatKind::finite && !is_finite(e)) e = draw_element(source, dtypes);
            return e;
          },
          shrink),
      .complaint = [position, dtypes, kind](const ElementBits& e) -> std::string {
        if (position(e.dtype) == dtypes.size()) return "its dtype is not among those drawn";
        if (width(e.dtype) < 64 && e.bits >> width(e.dtype) != 0) return "more bits than the dtype";
        if (kind == FloatKind::finite && !is_finite(e)) return "not finite";
        return {};
      },
      .show = [](const ElementBits& e) { return rc::toString(e); },
      .parse =
          [](const std::string& text) {
            const std::size_t colon = text.find(":0x");
            ElementBits e;
            if (colon == std::string::npos) {
              throw core::UsageError(fmt::format("'{}' is not of the form DTYPE:0xBITS", text));
            }
            e.dtype = dtype_named(text.substr(0, colon));
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data() + colon + 3, end, e.bits, 16);
            if (error != std::errc{} || stop != end) {
              throw core::UsageError(fmt::format("'{}' has no hexadecimal bits", text));
            }
            return e;
          },
      .measure =
          [position](const ElementBits& e) {
            const Fields f = fields_of(e);
            return std::vector<std::uint64_t>{position(e.dtype), exponent_rank(e.dtype, f.exponent),
                                              f.mantissa, f.sign};
          },
      .smaller = shrink,
  };
}

}  // namespace faultline::properties
