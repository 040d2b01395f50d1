// SPDX-License-Identifier: Apache-2.0
// ldmatrix, stmatrix, mma.sync. PTX ISA, "Warp-level Matrix Instructions": fragment layouts.
#include <algorithm>
#include <cstring>

#include "exec/effects.hpp"
#include "exec/memory_access.hpp"
#include "numerics/float_format.hpp"

namespace faultline::simulator {
namespace {

// Row r of matrix k lies at the address that lane 8k + r gives.
struct MatrixRows {
  std::uint8_t* row[32];
};

MatrixRows find_rows(Warp& warp, const Instruction& i, AccessKind kind) {
  MatrixRows rows{};
  std::uint64_t addresses[kLanes] = {};
  const std::uint32_t lanes = i.vector == 4 ? kAllLanes : (1u << (8 * i.vector)) - 1;
  gather_addresses(warp, i, kAllLanes, addresses);
  check_alignment(warp, i, lanes, addresses, 16);
  const bool dense = is_dense(lanes, addresses, 16);
  for_each_object(warp, i, lanes, addresses, 16, [&](const Object& object, std::uint32_t inside) {
    if (warp.cta->machine->observed()) {
      notify_access(warp, i, object, inside, addresses, 16, kind, dense && inside == kAllLanes);
    }
    for (std::uint32_t r = inside; r != 0; r &= r - 1) {
      const int lane = __builtin_ctz(r);
      rows.row[lane] = object.bytes + (addresses[lane] - object.base);
    }
  });
  return rows;
}

void require_whole_warp(Warp& warp, const Instruction& i, std::uint32_t mask) {
  if (mask != kAllLanes) {
    warp.cta->machine->fault(warp, i, static_cast<std::uint32_t>(__builtin_ctz(mask)),
                             "a matrix instruction needs all 32 lanes of the warp");
  }
}

std::uint16_t element(const std::uint8_t* row, int column) {
  std::uint16_t value;
  std::memcpy(&value, row + 2 * column, sizeof value);
  return value;
}

void load_matrix_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  require_whole_warp(warp, i, mask);
  const MatrixRows rows = find_rows(warp, i, AccessKind::read);
  std::uint32_t result[4][kLanes];
  const int count = std::min<int>(i.vector, 4);
  for (int k = 0; k < count; ++k) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      const std::uint8_t* const* matrix = rows.row + 8 * k;
      const std::uint16_t low =
          i.sign_extend ? element(matrix[column], row) : element(matrix[row], column);
      const std::uint16_t high =
          i.sign_extend ? element(matrix[column + 1], row) : element(matrix[row], column + 1);
      result[k][lane] = static_cast<std::uint32_t>(high) << 16 | low;
    }
  }
  for (int k = 0; k < count; ++k) {
    std::memcpy(warp.registers + i.d[static_cast<std::size_t>(k)], result[k], sizeof result[k]);
  }
}

void store_matrix_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  require_whole_warp(warp, i, mask);
  const MatrixRows rows = find_rows(warp, i, AccessKind::write);
  for (int k = 0; k < i.vector; ++k) {
    const auto* values = warp.lane_values<std::uint32_t>(
        warp.cta->machine->program().extra[i.extra + static_cast<std::uint32_t>(k)]);
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      for (int half = 0; half < 2; ++half) {
        const auto value = static_cast<std::uint16_t>(values[lane] >> (16 * half));
        std::uint8_t* at = i.sign_extend ? rows.row[8 * k + column + half] + 2 * row
                                         : rows.row[8 * k + row] + 2 * (column + half);
        std::memcpy(at, &value, sizeof value);
      }
    }
  }
  warp.cta->machine->made_progress();
}

float widen(MmaType type, std::uint16_t bits) {
  return type == MmaType::f16 ? from_half(bits) : from_bfloat16(bits);
}

// D = A B + C. Sums run over k in ascending order in f32: the hardware's order is not specified, so
// results are to be compared with a bound.
void multiply_matrix_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  require_whole_warp(warp, i, mask);
  const auto type = static_cast<MmaType>(i.variant & 0xff);
  const int depth = static_cast<int>((i.variant >> 8) & 0xff);
  const bool half_accumulators = (i.variant >> 16) != 0;
  const RegisterOffset* list = warp.cta->machine->program().extra.data() + i.extra;
  const int c_count = half_accumulators ? 2 : 4;
  const int a_count = (type == MmaType::tf32 ? 2 : 1) * depth / 4;
  const RegisterOffset* const d_regs = list;
  const RegisterOffset* const a_regs = d_regs + c_count;
  const RegisterOffset* const b_regs = a_regs + a_count;
  const RegisterOffset* const c_regs = b_regs + a_count / 2;
  float a[16][16], b[16][8], c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    if (type == MmaType::tf32) {
      for (int r = 0; r < a_count; ++r) {
        a[group + (r & 1) * 8][member + (r >> 1) * 4] =
            float_from_bits(warp.lane_values<std::uint32_t>(a_regs[r])[lane] & 0xffffe000u);
      }
      for (int r = 0; r < a_count / 2; ++r) {
        b[member + r * 4][group] =
            float_from_bits(warp.lane_values<std::uint32_t>(b_regs[r])[lane] & 0xffffe000u);
      }
    } else {
      for (int e = 0; e < 2 * a_count; ++e) {
        const std::uint32_t bits =
            warp.lane_values<std::uint32_t>(a_regs[e / 2])[lane] >> (16 * (e & 1));
        a[group + ((e / 2) & 1) * 8][member * 2 + (e & 1) + (e / 4) * 8] =
            widen(type, static_cast<std::uint16_t>(bits));
      }
      for (int e = 0; e < a_count; ++e) {
        const std::uint32_t bits =
            warp.lane_values<std::uint32_t>(b_regs[e / 2])[lane] >> (16 * (e & 1));
        b[member * 2 + (e & 1) + (e / 2) * 8][group] =
            widen(type, static_cast<std::uint16_t>(bits));
      }
    }
    for (int e = 0; e < 4; ++e) {
      float& at = c[group + (e / 2) * 8][member * 2 + (e & 1)];
      if (half_accumulators) {
        at = from_half(static_cast<std::uint16_t>(
            warp.lane_values<std::uint32_t>(c_regs[e / 2])[lane] >> (16 * (e & 1))));
      } else {
        at = warp.lane_values<float>(c_regs[e])[lane];
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < depth; ++k) {
      for (int column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, member = lane % 4;
    if (half_accumulators) {
      for (int r = 0; r < 2; ++r) {
        const float* at = &c[group + r * 8][member * 2];
        warp.lane_values<std::uint32_t>(d_regs[r])[lane] =
            static_cast<std::uint32_t>(to_half(at[1])) << 16 | to_half(at[0]);
      }
    } else {
      for (int e = 0; e < 4; ++e) {
        const float value = c[group + (e / 2) * 8][member * 2 + (e & 1)];
        warp.lane_values<float>(d_regs[e])[lane] =
            value == value ? value : float_from_bits(0x7fffffffu);
      }
    }
  }
}

}  // namespace

namespace effects {

EffectHandler load_matrix() { return load_matrix_effect; }
EffectHandler store_matrix() { return store_matrix_effect; }
EffectHandler multiply_matrix() { return multiply_matrix_effect; }

}  // namespace effects
}  // namespace faultline::simulator
