// SPDX-License-Identifier: Apache-2.0
// What a simulated head holds, and the order of a run; its chunks are in
// delta_simulation_forward.cpp and delta_simulation_backward.cpp.
#include "delta_simulation.hpp"

#include "matrix_arithmetic.hpp"

#include <algorithm>

namespace faultline::reference {

namespace {

void copy_rows(const double* source, std::int64_t rows, std::int64_t columns, FloatMatrix& to) {
  to.resize(rows, columns);
  if (source == nullptr) {
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    std::transform(source + i * columns, source + (i + 1) * columns, to.row(i),
                   [](double x) { return static_cast<float>(x); });
  }
}

}  // namespace

std::string_view name_of(Intermediate intermediate) {
  constexpr std::array<std::string_view, kIntermediateCount> names{
      "x", "w", "u", "h", "v_new", "p", "dp", "du_partial", "dh", "du", "dw", "r_w", "r_v", "dm"};
  return names[static_cast<std::size_t>(intermediate)];
}

std::vector<double>& array_of(DeltaIntermediates& all, Intermediate intermediate) {
  switch (intermediate) {
  case Intermediate::x: return all.x;
  case Intermediate::w: return all.w;
  case Intermediate::u: return all.u;
  case Intermediate::h: return all.h;
  case Intermediate::v_new: return all.v_new;
  case Intermediate::p: return all.p;
  case Intermediate::dp: return all.dp;
  case Intermediate::du_partial: return all.du_partial;
  case Intermediate::dh: return all.dh;
  case Intermediate::du: return all.du;
  case Intermediate::dw: return all.dw;
  case Intermediate::r_w: return all.r_w;
  case Intermediate::r_v: return all.r_v;
  case Intermediate::dm: break;
  }
  return all.dm;
}

SimulatedInputs::SimulatedInputs(const DeltaInputs& inputs, std::int64_t head, bool backward_)
    : t(inputs.shape.t),
      dk(inputs.shape.dk),
      dv(inputs.shape.dv),
      scale(static_cast<float>(inputs.scale)),
      gated(inputs.gated()),
      backward(backward_) {
  const auto part = [&](const std::vector<double>& values, std::int64_t elements) {
    return values.empty() ? nullptr : values.data() + head * elements;
  };
  copy_rows(part(inputs.q, t * dk), t, dk, q);
  copy_rows(part(inputs.k, t * dk), t, dk, k);
  copy_rows(part(inputs.v, t * dv), t, dv, v);
  copy_rows(part(inputs.h0, dk * dv), dk, dv, h0);
  if (backward) {
    copy_rows(part(inputs.d_o, t * dv), t, dv, d_o);
    copy_rows(part(inputs.dhT, dk * dv), dk, dv, dhT);
  }
  const double* beta_of_head = part(inputs.beta, t);
  beta.assign(beta_of_head, beta_of_head + t);
  if (gated) {
    const double* gate_of_head = part(inputs.g, t);
    g.assign(gate_of_head, gate_of_head + t);
  }
}

DeltaSimulation::DeltaSimulation(SimulatedInputs& inputs, const DeltaNumerics& numerics,
                                 bool intermediates)
    : in_(inputs),
      numerics_(numerics),
      keep_intermediates_(intermediates),
      chunks_((inputs.t + numerics.chunk - 1) / numerics.chunk),
      factors_vary_(inputs.gated && (numerics.at(RoundingPoint::gate) != Grid::none ||
                                     numerics.at(RoundingPoint::decay) != Grid::none)) {
  const std::int64_t t = in_.t, dk = in_.dk, dv = in_.dv, c = numerics_.chunk;
  factors_.decay_in.resize(static_cast<std::size_t>(t));
  factors_.decay_out.resize(static_cast<std::size_t>(t));
  factors_.gamma.resize(static_cast<std::size_t>(chunks_));
  for (FloatMatrix* matrix : {&factors_.kk, &factors_.m, &factors_.x, &factors_.p, &x_, &p_}) {
    matrix->resize(t, c);
  }
  if (in_.gated) {
    factors_.ratio.resize(t, c);
  }
  for (FloatMatrix* matrix : {&w_, &k_hat_}) matrix->resize(t, dk);
  for (FloatMatrix* matrix : {&u_, &v_new_, &du_partial_}) matrix->resize(t, dv);
  h_.resize(chunks_ * dk, dv);
  for (FloatMatrix* matrix : {&state_, &next_, &operand_}) matrix->resize(dk, dv);
  for (FloatMatrix& matrix : by_key_) matrix.resize(c, dk);
  for (FloatMatrix& matrix : by_value_) matrix.resize(c, dv);
  for (FloatMatrix& matrix : square_) matrix.resize(c, c);
  if (numerics_.segment_chunks > 0) {
    transition_operand_.resize(dk, dk);
    const std::int64_t segments = segment_of(chunks_ - 1) + 1;
    segment_states_.assign(static_cast<std::size_t>(segments), FloatMatrix(dk, dv));
    transitions_.assign(static_cast<std::size_t>(segments), FloatMatrix(dk, dk));
  }
  if (in_.backward && numerics_.backward_segment_chunks > 0) {
    transition_operand_.resize(dk, dk);
    const std::int64_t segments = (chunks_ - 1) / numerics_.backward_segment_chunks + 1;
    gradient_states_.assign(static_cast<std::size_t>(segments), FloatMatrix(dk, dv));
  }

  const auto output = [&](DeltaOutput which) -> FloatMatrix& {
    return out_.outputs[static_cast<std::size_t>(which)];
  };
  const auto kept = [&](Intermediate which, std::int64_t rows, std::int64_t columns) {
    if (keep_intermediates_) {
      out_.intermediates[static_cast<std::size_t>(which)].resize(rows, columns);
    }
  };
  output(DeltaOutput::o).resize(t, dv);
  output(DeltaOutput::hT).resize(dk, dv);
  kept(Intermediate::x, t, c);
  kept(Intermediate::w, t, dk);
  kept(Intermediate::u, t, dv);
  kept(Intermediate::h, chunks_ * dk, dv);
  kept(Intermediate::v_new, t, dv);
  kept(Intermediate::p, t, c);
  if (in_.backward) {
    output(DeltaOutput::dq).resize(t, dk);
    output(DeltaOutput::dk).resize(t, dk);
    output(DeltaOutput::dv).resize(t, dv);
    output(DeltaOutput::dbeta).resize(1, t);
    if (in_.gated) {
      output(DeltaOutput::dg).resize(1, t);
    }
    output(DeltaOutput::dh0).resize(dk, dv);
    kept(Intermediate::dp, t, c);
    kept(Intermediate::du_partial, t, dv);
    kept(Intermediate::dh, chunks_ * dk, dv);
    kept(Intermediate::du, t, dv);
    kept(Intermediate::dw, t, dk);
    kept(Intermediate::r_w, t, dk);
    kept(Intermediate::r_v, t, dv);
    kept(Intermediate::dm, t, c);
  }
}

DeltaSimulation::Chunk DeltaSimulation::chunk(std::int64_t index) const {
  const std::int64_t first = index * numerics_.chunk;
  return {.index = index,
          .first = first,
          .rows = std::min<std::int64_t>(numerics_.chunk, in_.t - first)};
}

void DeltaSimulation::round(RoundingPoint point, FloatView source, FloatView destination) const {
  const Grid grid = numerics_.at(point);
  for (std::int64_t i = 0; i < source.rows; ++i) {
    (*rounding_)(point, grid, source.row(i), destination.row(i), source.width());
  }
}

void DeltaSimulation::keep(Intermediate which, std::int64_t first_row, FloatView values) {
  if (keep_intermediates_) {
    copy(out_.intermediates[static_cast<std::size_t>(which)].block(first_row, values.rows,
                                                                   values.columns),
         values);
  }
}

SimulatedOutputs& DeltaSimulation::run(const Rounding& rounding) {
  rounding_ = &rounding;
  if (!factors_found_ || factors_vary_) {
    find_factors(rounding);
    factors_found_ = true;
  }
  for (std::int64_t i = 0; i < chunks_; ++i) {
    find_wy(chunk(i));
  }
  if (numerics_.segment_chunks > 0) {
    scan_forward();
  }
  copy(state_.view(), in_.h0.view());
  for (std::int64_t i = 0; i < chunks_; ++i) {
    forward_chunk(chunk(i));
  }
  const auto output = [&](DeltaOutput which) -> FloatMatrix& {
    return out_.outputs[static_cast<std::size_t>(which)];
  };
  copy(output(DeltaOutput::hT).view(), state_.view());
  if (in_.backward) {
    if (numerics_.backward_segment_chunks > 0) {
      scan_backward();
    }
    copy(state_.view(), in_.dhT.view());
    for (std::int64_t i = chunks_; i-- > 0;) {
      backward_chunk(chunk(i));
    }
    copy(output(DeltaOutput::dh0).view(), state_.view());
  }
  for (FloatMatrix& matrix : out_.outputs) {
    if (!matrix.empty()) {
      round(RoundingPoint::output, matrix.view());
    }
  }
  return out_;
}

}  // namespace faultline::reference
