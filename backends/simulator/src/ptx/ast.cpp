// SPDX-License-Identifier: Apache-2.0
#include "ptx/ast.hpp"

#include <array>
#include <utility>

namespace faultline::simulator::ptx {
namespace {

struct ScalarInfo {
  std::string_view name;
  int bytes;
};

constexpr std::array<ScalarInfo, 21> kScalars = {{
    {"pred", 0},  {"b8", 1},     {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2},
    {"f16", 2},   {"bf16", 2},   {"b32", 4}, {"u32", 4}, {"s32", 4}, {"f32", 4}, {"tf32", 4},
    {"f16x2", 4}, {"bf16x2", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}, {"b128", 16},
}};

}  // namespace

std::optional<Scalar> parse_scalar(std::string_view text) {
  for (std::size_t i = 0; i < kScalars.size(); ++i) {
    if (kScalars[i].name == text) return static_cast<Scalar>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Scalar type) { return kScalars[static_cast<std::size_t>(type)].name; }

int bytes_of(Scalar type) { return kScalars[static_cast<std::size_t>(type)].bytes; }

bool is_signed(Scalar type) {
  return type == Scalar::s8 || type == Scalar::s16 || type == Scalar::s32 || type == Scalar::s64;
}

bool is_float(Scalar type) {
  switch (type) {
  case Scalar::f16:
  case Scalar::bf16:
  case Scalar::f32:
  case Scalar::tf32:
  case Scalar::f16x2:
  case Scalar::bf16x2:
  case Scalar::f64: return true;
  default: return false;
  }
}

}  // namespace faultline::simulator::ptx
