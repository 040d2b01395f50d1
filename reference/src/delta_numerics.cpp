// SPDX-License-Identifier: Apache-2.0
// The numeric plan as data: names, defaults, one line of text.
#include <faultline/reference/deltanet_bounds.hpp>

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <iterator>

namespace faultline::reference {

std::string_view name_of(RoundingPoint point) {
  constexpr std::array<std::string_view, kRoundingPointCount> names{
      "gate",     "decay",      "m",
      "x_sum",    "x",          "b_w",
      "b_v",      "b_k",        "w",
      "u",        "h",          "v_new",
      "p",        "k_hat",      "q_hat_o",
      "q_hat_dh", "dp",         "du_partial",
      "dh",       "du",         "dw",
      "r",        "e",          "dk_piece",
      "dq_piece", "transition", "transition_product",
      "carry",    "state",      "output",
      "row_sum"};
  return names[static_cast<std::size_t>(point)];
}

std::string_view name_of(Grid grid) {
  constexpr std::array<std::string_view, 5> names{"none", "f16", "bf16", "tf32", "f32"};
  return names[static_cast<std::size_t>(grid)];
}

Grid grid_of(core::Dtype dtype) {
  switch (dtype) {
  case core::Dtype::f16: return Grid::f16;
  case core::Dtype::bf16: return Grid::bf16;
  case core::Dtype::f32: return Grid::f32;
  case core::Dtype::f64: break;
  }
  throw core::UsageError("DeltaNet kernels are bounded in f16, bf16 or f32; got f64");
}

DeltaNumerics DeltaNumerics::stored_in(core::Dtype dtype, int chunk) {
  DeltaNumerics numerics{.dtype = dtype, .chunk = chunk};
  const Grid grid = grid_of(dtype);
  numerics.points.fill(grid);
  if (grid != Grid::f32) {
    for (const RoundingPoint point :
         {RoundingPoint::gate, RoundingPoint::decay, RoundingPoint::q_hat_o,
          RoundingPoint::dk_piece, RoundingPoint::dq_piece, RoundingPoint::carry,
          RoundingPoint::state, RoundingPoint::output, RoundingPoint::row_sum}) {
      numerics.set(point, Grid::none);
    }
  }
  return numerics;
}

std::string to_string(const DeltaNumerics& numerics) {
  std::string text = fmt::format("{} C={}", core::name_of(numerics.dtype), numerics.chunk);
  const auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < kRoundingPointCount; ++i) {
    if (numerics.points[i] != Grid::none) {
      fmt::format_to(out, " {}:{}", name_of(static_cast<RoundingPoint>(i)),
                     name_of(numerics.points[i]));
    }
  }
  const auto number = [&](std::string_view name, int value) {
    if (value != 0) {
      fmt::format_to(out, " {}={}", name, value);
    }
  };
  const auto flag = [&](std::string_view name, bool value) {
    if (value) {
      fmt::format_to(out, " {}", name);
    }
  };
  number("inverse_block", numerics.inverse_block);
  number("segment_chunks", numerics.segment_chunks);
  number("backward_segment_chunks", numerics.backward_segment_chunks);
  flag("inverse_scaled", numerics.inverse_scaled);
  flag("fused_v_new", numerics.fused_v_new);
  flag("decay_on_v_new", numerics.decay_on_v_new);
  flag("scale_in_query", numerics.scale_in_query);
  flag("decay_on_gradient", numerics.decay_on_gradient);
  flag("beta_on_e", numerics.beta_on_e);
  flag("dw_in_pieces", numerics.dw_in_pieces);
  flag("r_w_from_r_v", numerics.r_w_from_r_v);
  flag("sums_from_operands", numerics.sums_from_operands);
  return text;
}

}  // namespace faultline::reference
