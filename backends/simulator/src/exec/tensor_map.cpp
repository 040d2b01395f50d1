// SPDX-License-Identifier: Apache-2.0
#include "faultline/simulator/tensor_map.hpp"

#include <cstring>
#include <string>

#include "faultline/core/errors.hpp"

namespace faultline::simulator {
namespace {

struct Encoded {
  std::uint64_t magic;
  std::uint64_t address;
  std::uint32_t dims_minus_one[5];
  std::uint32_t box[5];
  std::uint64_t strides[4];
  std::uint32_t element_bytes;
  std::uint16_t rank;
  std::uint16_t swizzle;
};
static_assert(sizeof(Encoded) <= 128);
constexpr std::uint64_t kMagic = 0x31504d5453464c46ull;  // "FLFSTMP1"

void require(bool ok, const std::string& rule) {
  if (!ok) throw core::UsageError("tensor map: " + rule);
}

}  // namespace

TensorMapBytes encode_tensor_map(const TensorMapSpec& s) {
  require(s.address % 16 == 0, "the address must be 16-byte aligned");
  require(s.rank >= 1 && s.rank <= 5, "the rank must be 1 to 5, got " + std::to_string(s.rank));
  require(s.element_bytes == 1 || s.element_bytes == 2 || s.element_bytes == 4 ||
              s.element_bytes == 8,
          "elements of " + std::to_string(s.element_bytes) + " bytes do not exist");
  Encoded e{};
  e.magic = kMagic;
  e.address = s.address;
  e.element_bytes = s.element_bytes;
  e.rank = static_cast<std::uint16_t>(s.rank);
  e.swizzle = static_cast<std::uint16_t>(s.swizzle);
  for (std::uint32_t k = 0; k < s.rank; ++k) {
    const std::string which = " of dimension " + std::to_string(k);
    require(s.dims[k] >= 1 && s.dims[k] <= (std::uint64_t{1} << 32),
            "the extent" + which + " must be 1 to 2^32, got " + std::to_string(s.dims[k]));
    require(s.box[k] >= 1 && s.box[k] <= 256,
            "the box" + which + " must be 1 to 256, got " + std::to_string(s.box[k]));
    e.dims_minus_one[k] = static_cast<std::uint32_t>(s.dims[k] - 1);
    e.box[k] = s.box[k];
    if (k == 0) continue;
    const std::uint64_t stride = s.strides_bytes[k - 1];
    require(stride % 16 == 0 && stride < (std::uint64_t{1} << 40),
            "the stride" + which + " must be a multiple of 16 below 2^40, got " +
                std::to_string(stride));
    e.strides[k - 1] = stride;
  }
  const std::uint64_t inner = static_cast<std::uint64_t>(s.box[0]) * s.element_bytes;
  require(inner % 16 == 0,
          "the inner box of " + std::to_string(inner) + " bytes must be a multiple of 16");
  const std::uint64_t span = s.swizzle == TensorMapSpec::Swizzle::none
                                 ? ~std::uint64_t{0}
                                 : std::uint64_t{16} << static_cast<int>(s.swizzle);
  require(inner <= span, "the inner box of " + std::to_string(inner) +
                             " bytes exceeds the swizzle span of " + std::to_string(span));
  TensorMapBytes bytes{};
  std::memcpy(bytes.data(), &e, sizeof e);
  return bytes;
}

bool decode_tensor_map(const void* bytes, TensorMapSpec& s) {
  Encoded e;
  std::memcpy(&e, bytes, sizeof e);
  if (e.magic != kMagic || e.rank < 1 || e.rank > 5 || e.swizzle > 3) return false;
  s.address = e.address;
  s.element_bytes = e.element_bytes;
  s.rank = e.rank;
  s.swizzle = static_cast<TensorMapSpec::Swizzle>(e.swizzle);
  for (std::uint32_t k = 0; k < 5; ++k) {
    s.dims[k] = std::uint64_t{e.dims_minus_one[k]} + 1;
    s.box[k] = e.box[k];
    if (k < 4) s.strides_bytes[k] = e.strides[k];
  }
  return true;
}

}  // namespace faultline::simulator
