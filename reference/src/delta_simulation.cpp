// SPDX-License-Identifier: Apache-2.0
#include "delta_simulation.hpp"

#include <faultline/reference/exponential.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace faultline::reference {

namespace {

float norm(const float* x, std::int64_t n) { return std::sqrt(dot(x, x, n)); }

std::vector<float> row_norms(FloatView rows) {
  std::vector<float> norms(static_cast<std::size_t>(rows.rows));
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    norms[static_cast<std::size_t>(i)] = norm(rows.row(i), rows.width());
  }
  return norms;
}

float exponential_f32(float x) { return static_cast<float>(exponential(static_cast<double>(x))); }

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

/// to = diag(factor) from
void scale_rows(FloatView to, const float* factor, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    const float* source = from.row(i);
    float* destination = to.row(i);
    const float x = factor[i];
    for (std::int64_t j = 0; j < to.width(); ++j) {
      destination[j] = x * source[j];
    }
  }
}

void scale(FloatView values, float factor) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    float* row = values.row(i);
    for (std::int64_t j = 0; j < values.width(); ++j) {
      row[j] *= factor;
    }
  }
}

/// to += from
void add(FloatView to, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    float* destination = to.row(i);
    const float* source = from.row(i);
    for (std::int64_t j = 0; j < to.width(); ++j) {
      destination[j] += source[j];
    }
  }
}

void clear(FloatView values) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    std::fill_n(values.row(i), values.width(), 0.0f);
  }
}

void negate(FloatView values) { scale(values, -1.0f); }

void copy(FloatView to, FloatView from) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    std::copy_n(from.row(i), to.width(), to.row(i));
  }
}

/// Zeros at j > i + diagonal, padding included.
void keep_lower(FloatView values, std::int64_t diagonal) {
  for (std::int64_t i = 0; i < values.rows; ++i) {
    const std::int64_t first = std::clamp<std::int64_t>(i + diagonal + 1, 0, values.width());
    std::fill(values.row(i) + first, values.row(i) + values.width(), 0.0f);
  }
}

/// to = values . factor, elementwise over the lower triangle with its diagonal, zero above.
void multiply_lower(FloatView to, FloatView values, FloatView factor) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      to.row(i)[j] = values.row(i)[j] * factor.row(i)[j];
    }
  }
  keep_lower(to, 0);
}

/// to = values diag(factors), over the lower triangle with its diagonal, zero above.
void scale_columns(FloatView to, FloatView values, const float* factors) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      to.row(i)[j] = values.row(i)[j] * factors[j];
    }
  }
  keep_lower(to, 0);
}

/// X of (I + M) X = I, rows in order; both square at `m` and `x`.
void substitute(FloatView x, FloatView m) {
  for (std::int64_t i = 0; i < m.rows; ++i) {
    float* row = x.row(i);
    std::fill_n(row, x.width(), 0.0f);
    row[i] = 1.0f;
    for (std::int64_t j = 0; j < i; ++j) {
      const float factor = m.row(i)[j];
      const float* other = x.row(j);
      for (std::int64_t l = 0; l <= j; ++l) {
        row[l] -= factor * other[l];
      }
    }
  }
}

/// The same block seen from column `first` on.
FloatView from_column(FloatView view, std::int64_t first, std::int64_t columns) {
  return {view.data + first, view.rows, columns, view.stride};
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

void DeltaSimulation::find_factors(const Rounding& rounding) {
  const auto rounded = [&](RoundingPoint point, float* values, std::int64_t count) {
    rounding(point, numerics_.at(point), values, values, count);
  };
  std::vector<float> sums(static_cast<std::size_t>(numerics_.chunk));
  for (std::int64_t index = 0; index < chunks_; ++index) {
    const Chunk c = chunk(index);
    float* decay_in = factors_.decay_in.data() + c.first;
    float* decay_out = factors_.decay_out.data() + c.first;
    float& gamma = factors_.gamma[static_cast<std::size_t>(index)];
    std::fill_n(decay_in, c.rows, 1.0f);
    std::fill_n(decay_out, c.rows, 1.0f);
    gamma = 1.0f;
    if (in_.gated) {
      float sum = 0.0f;
      for (std::int64_t i = 0; i < c.rows; ++i) {
        sum += in_.g[static_cast<std::size_t>(c.first + i)];
        sums[static_cast<std::size_t>(i)] = sum;
      }
      rounded(RoundingPoint::gate, sums.data(), c.rows);
      const float total = sums[static_cast<std::size_t>(c.rows - 1)];
      for (std::int64_t i = 0; i < c.rows; ++i) {
        const float here = sums[static_cast<std::size_t>(i)];
        decay_in[i] = exponential_f32(here);
        decay_out[i] = exponential_f32(total - here);
        float* ratio = factors_.ratio.row(c.first + i);
        for (std::int64_t j = 0; j <= i; ++j) {
          ratio[j] = exponential_f32(here - sums[static_cast<std::size_t>(j)]);
        }
        rounded(RoundingPoint::decay, ratio, i + 1);
      }
      gamma = exponential_f32(total);
      rounded(RoundingPoint::decay, decay_in, c.rows);
      rounded(RoundingPoint::decay, decay_out, c.rows);
      rounded(RoundingPoint::decay, &gamma, 1);
    }

    const FloatView q = in_.q.middle(c.first, c.rows), k = in_.k.middle(c.first, c.rows);
    const auto square = [&](FloatMatrix& matrix) { return matrix.block(c.first, c.rows, c.rows); };
    const FloatView kk = square(factors_.kk), m = square(factors_.m), p = square(factors_.p);
    multiply_bt(kk, k, k, scratch_, Update::set, Triangle::c_lower);
    keep_lower(kk, 0);
    multiply_bt(p, q, k, scratch_, Update::set, Triangle::c_lower);
    keep_lower(p, 0);
    scale_rows(m, in_.beta.data() + c.first, kk);
    if (in_.gated) {
      const FloatView ratio = square(factors_.ratio);
      multiply_lower(m, m, ratio);
      multiply_lower(p, p, ratio);
    }
    keep_lower(m, -1);
    if (numerics_.inverse_block == 0) {
      substitute(square(factors_.x), m);
    }
  }
}

/// X_ij = -X_ii sum_k M_ik X_kj over block rows; the diagonal blocks by substitution.
void DeltaSimulation::invert_in_blocks(const Chunk& c) {
  const std::int64_t block = numerics_.inverse_block;
  const FloatView m = factors_.m.block(c.first, c.rows, c.rows);
  for (std::int64_t i = 0; i < c.rows; i += block) {
    const std::int64_t rows = std::min(block, c.rows - i);
    const FloatView exact = factors_.x.block(c.first + i, rows, c.rows);
    const FloatView stored = x_.block(c.first + i, rows, c.rows);
    const FloatView m_rows{m.row(i), rows, c.rows, m.stride};
    substitute(from_column(exact, i, rows), from_column(m_rows, i, rows));
    round(RoundingPoint::x, from_column(exact, i, rows), from_column(stored, i, rows));
    if (i > 0) {
      const FloatView left = square_[0].block(0, rows, i), sums = square_[1].block(0, rows, i);
      round(RoundingPoint::m, from_column(m_rows, 0, i), left);
      multiply(sums, left, x_.block(c.first, i, i));
      round(RoundingPoint::x_sum, sums);
      const FloatView below = from_column(exact, 0, i);
      multiply(below, from_column(stored, i, rows), sums, Update::set, Triangle::a_lower);
      negate(below);
      round(RoundingPoint::x, below, from_column(stored, 0, i));
    }
  }
}

void DeltaSimulation::invert(const Chunk& c) {
  const FloatView exact = factors_.x.block(c.first, c.rows, c.rows);
  if (numerics_.inverse_block > 0) {
    invert_in_blocks(c);
  } else {
    round(RoundingPoint::x, exact, x_.block(c.first, c.rows, c.rows));
  }
  keep(Intermediate::x, c.first, exact);
}

/// X, W = X B_w, U = X B_v, K^ and P, as stored.
void DeltaSimulation::find_wy(const Chunk& c) {
  invert(c);
  const FloatView x = x_.block(c.first, c.rows, c.rows);
  const FloatView k = in_.k.middle(c.first, c.rows), v = in_.v.middle(c.first, c.rows);
  const float* beta = in_.beta.data() + c.first;
  const float* decay_in = factors_.decay_in.data() + c.first;

  std::vector<float>& factor = scratch_;
  factor.resize(std::max(factor.size(), static_cast<std::size_t>(c.rows)));
  std::transform(beta, beta + c.rows, decay_in, factor.begin(), std::multiplies<>());
  const FloatView w = w_.middle(c.first, c.rows), u = u_.middle(c.first, c.rows);
  if (numerics_.inverse_scaled) {
    const FloatView exact = factors_.x.block(c.first, c.rows, c.rows);
    const FloatView scaled = square_[0].block(0, c.rows, c.rows);
    scale_columns(scaled, exact, factor.data());
    round(RoundingPoint::b_w, scaled);
    multiply(w, scaled, k, Update::set, Triangle::a_lower);
    scale_columns(scaled, exact, beta);
    round(RoundingPoint::b_v, scaled);
    multiply(u, scaled, v, Update::set, Triangle::a_lower);
  } else {
    const FloatView b_w = by_key_[0].middle(0, c.rows), b_v = by_value_[0].middle(0, c.rows);
    scale_rows(b_w, factor.data(), k);
    round(RoundingPoint::b_w, b_w);
    scale_rows(b_v, beta, v);
    round(RoundingPoint::b_v, b_v);
    multiply(w, x, b_w, Update::set, Triangle::a_lower);
    multiply(u, x, b_v, Update::set, Triangle::a_lower);
  }
  keep(Intermediate::w, c.first, w);
  round(RoundingPoint::w, w);
  keep(Intermediate::u, c.first, u);
  round(RoundingPoint::u, u);

  const FloatView k_hat = k_hat_.middle(c.first, c.rows);
  scale_rows(k_hat, factors_.decay_out.data() + c.first, k);
  if (!numerics_.decay_on_v_new) {
    round(RoundingPoint::k_hat, k_hat);
  }
  const FloatView p = factors_.p.block(c.first, c.rows, c.rows);
  keep(Intermediate::p, c.first, p);
  round(RoundingPoint::p, p, p_.block(c.first, c.rows, c.rows));
}

/// V~ = U - W h for a state that is already rounded.
void DeltaSimulation::find_v_new(const Chunk& c, FloatView state) {
  const FloatView v_new = v_new_.middle(c.first, c.rows);
  if (numerics_.fused_v_new) {
    const FloatView residual = by_value_[0].middle(0, c.rows);
    const FloatView read = by_value_[1].middle(0, c.rows);
    multiply(read, in_.k.middle(c.first, c.rows), state);
    scale_rows(read, factors_.decay_in.data() + c.first, read);
    copy(residual, in_.v.middle(c.first, c.rows));
    negate(read);
    add(residual, read);
    scale_rows(residual, in_.beta.data() + c.first, residual);
    round(RoundingPoint::b_v, residual);
    multiply(v_new, x_.block(c.first, c.rows, c.rows), residual, Update::set, Triangle::a_lower);
  } else {
    copy(v_new, u_.middle(c.first, c.rows));
    multiply(v_new, w_.middle(c.first, c.rows), state, Update::subtract);
  }
}

/// state = gamma state +- K^^T values, where the values are [rows, columns of the state].
void DeltaSimulation::advance_state(const Chunk& c, FloatView state, FloatView values,
                                    bool subtract) {
  scale(state, factors_.gamma[static_cast<std::size_t>(c.index)]);
  const Update update = subtract ? Update::subtract : Update::add;
  if (numerics_.decay_on_v_new) {
    FloatMatrix& matrix = state.columns == in_.dv ? by_value_[2] : by_key_[2];
    const FloatView decayed = matrix.middle(0, c.rows);
    scale_rows(decayed, factors_.decay_out.data() + c.first, values);
    round(RoundingPoint::k_hat, decayed);
    multiply_at(state, in_.k.middle(c.first, c.rows), decayed, update);
  } else {
    multiply_at(state, k_hat_.middle(c.first, c.rows), values, update);
  }
}

/// The state at the start of every segment: each segment's transition and its state from zero, then
/// the scan h = transition h + local.
void DeltaSimulation::scan_forward() {
  const std::int64_t last_segment = segment_of(chunks_ - 1);
  FloatView local = state_.view();
  FloatView start = next_.view();
  copy(start, in_.h0.view());
  for (std::int64_t s = 0; s <= last_segment; ++s) {
    copy(segment_states_[static_cast<std::size_t>(s)].view(), start);
    const FloatView transition = transitions_[static_cast<std::size_t>(s)].view();
    clear(transition);
    for (std::int64_t i = 0; i < in_.dk; ++i) {
      transition.row(i)[i] = 1.0f;
    }
    clear(local);
    const std::int64_t end = std::min(chunks_, (s + 1) * numerics_.segment_chunks);
    for (std::int64_t i = s * numerics_.segment_chunks; i < end; ++i) {
      const Chunk c = chunk(i);
      round(RoundingPoint::h, local, operand_.view());
      find_v_new(c, operand_.view());
      const FloatView v_new = v_new_.middle(c.first, c.rows);
      round(RoundingPoint::v_new, v_new);
      advance_state(c, local, v_new, false);
      round(RoundingPoint::transition, transition, transition_operand_.view());
      const FloatView product = by_key_[0].middle(0, c.rows);
      multiply(product, w_.middle(c.first, c.rows), transition_operand_.view());
      round(RoundingPoint::transition_product, product);
      advance_state(c, transition, product, true);
    }
    round(RoundingPoint::carry, transition);
    round(RoundingPoint::carry, start, operand_.view());
    multiply(start, transition, operand_.view());
    add(start, local);
  }
}

/// V~, O and the next state.
void DeltaSimulation::forward_chunk(const Chunk& c) {
  if (numerics_.segment_chunks > 0 && c.index % numerics_.segment_chunks == 0) {
    copy(state_.view(), segment_states_[static_cast<std::size_t>(segment_of(c.index))].view());
  }
  const FloatView state = state_.view(), h = h_.middle(c.index * in_.dk, in_.dk);
  keep(Intermediate::h, c.index * in_.dk, state);
  round(RoundingPoint::h, state, h);
  find_v_new(c, h);
  const FloatView v_new = v_new_.middle(c.first, c.rows);
  keep(Intermediate::v_new, c.first, v_new);
  round(RoundingPoint::v_new, v_new);

  const FloatView o =
      out_.outputs[static_cast<std::size_t>(DeltaOutput::o)].middle(c.first, c.rows);
  const FloatView q = in_.q.middle(c.first, c.rows);
  const float* decay_in = factors_.decay_in.data() + c.first;
  if (numerics_.at(RoundingPoint::q_hat_o) != Grid::none) {
    const FloatView q_hat = by_key_[0].middle(0, c.rows);
    scale_rows(q_hat, decay_in, q);
    if (numerics_.scale_in_query) {
      scale(q_hat, in_.scale);
    }
    round(RoundingPoint::q_hat_o, q_hat);
    multiply(o, q_hat, h);
    if (numerics_.scale_in_query && in_.scale != 0.0f) {
      scale(o, 1.0f / in_.scale);
    }
  } else {
    multiply(o, q, h);
    scale_rows(o, decay_in, o);
  }
  multiply(o, p_.block(c.first, c.rows, c.rows), v_new, Update::add, Triangle::a_lower);
  scale(o, in_.scale);

  advance_state(c, state, v_new, false);
  round(RoundingPoint::state, state);
}

/// dU (as stored, in by_value_[4]) and du_corr (in fp32, in by_value_[5]) for dh' = gradient, which
/// is left rounded in operand_.
void DeltaSimulation::find_du(const Chunk& c, FloatView gradient) {
  const FloatView du = by_value_[4].middle(0, c.rows), du_corr = by_value_[5].middle(0, c.rows);
  round(RoundingPoint::dh, gradient, operand_.view());
  multiply(du_corr, k_hat_.middle(c.first, c.rows), operand_.view());
  copy(du, du_partial_.middle(c.first, c.rows));
  add(du, du_corr);
}

/// dh = gamma dh' + s Q^^T dO - W^T dU
void DeltaSimulation::retreat_gradient(const Chunk& c, FloatView gradient) {
  const FloatView q = in_.q.middle(c.first, c.rows), d_o = in_.d_o.middle(c.first, c.rows);
  const float* decay_in = factors_.decay_in.data() + c.first;
  const FloatView product = next_.view();
  if (numerics_.decay_on_gradient) {
    const FloatView d_o_hat = by_value_[5].middle(0, c.rows);
    scale_rows(d_o_hat, decay_in, d_o);
    scale(d_o_hat, in_.scale);
    round(RoundingPoint::q_hat_dh, d_o_hat);
    multiply_at(product, q, d_o_hat);
  } else {
    const FloatView q_hat = by_key_[0].middle(0, c.rows);
    scale_rows(q_hat, decay_in, q);
    if (numerics_.scale_in_query) {
      scale(q_hat, in_.scale);
    }
    round(RoundingPoint::q_hat_dh, q_hat);
    multiply_at(product, q_hat, d_o);
    if (!numerics_.scale_in_query) {
      scale(product, in_.scale);
    }
  }
  scale(gradient, factors_.gamma[static_cast<std::size_t>(c.index)]);
  add(gradient, product);
  multiply_at(gradient, w_.middle(c.first, c.rows), by_value_[4].middle(0, c.rows),
              Update::subtract);
}

/// The gradient of the state at the end of every segment: each segment's transition N + gamma I and
/// its gradient from zero (the last segment's from dhT), then the scan
/// dh = gamma dh' + N dh' + local.
void DeltaSimulation::scan_backward() {
  const std::int64_t length = numerics_.backward_segment_chunks;
  const std::int64_t last_segment = (chunks_ - 1) / length;
  const FloatView local = state_.view();
  FloatMatrix end_matrix(in_.dk, in_.dv), transition_matrix(in_.dk, in_.dk);
  const FloatView end = end_matrix.view(), transition = transition_matrix.view();
  copy(end, in_.dhT.view());
  for (std::int64_t i = 0; i < chunks_; ++i) {
    const Chunk c = chunk(i);
    const FloatView du_partial = du_partial_.middle(c.first, c.rows);
    multiply_at(du_partial, p_.block(c.first, c.rows, c.rows), in_.d_o.middle(c.first, c.rows),
                Update::set, Triangle::a_upper);
    scale(du_partial, in_.scale);
    round(RoundingPoint::du_partial, du_partial);
  }
  for (std::int64_t s = last_segment; s >= 0; --s) {
    copy(gradient_states_[static_cast<std::size_t>(s)].view(), end);
    const bool last = s == last_segment;
    if (last) {
      copy(local, end);
    } else {
      clear(local);
    }
    clear(transition);
    for (std::int64_t i = 0; i < in_.dk; ++i) {
      transition.row(i)[i] = 1.0f;
    }
    float factor = 1.0f;
    for (std::int64_t i = std::min(chunks_, (s + 1) * length); i-- > s * length;) {
      const Chunk c = chunk(i);
      find_du(c, local);
      round(RoundingPoint::du, by_value_[4].middle(0, c.rows));
      retreat_gradient(c, local);
      if (!last) {
        const float gamma = factors_.gamma[static_cast<std::size_t>(c.index)];
        round(RoundingPoint::transition, transition, transition_operand_.view());
        const FloatView product = by_key_[0].middle(0, c.rows);
        multiply(product, k_hat_.middle(c.first, c.rows), transition_operand_.view());
        round(RoundingPoint::transition_product, product);
        scale(transition, gamma);
        multiply_at(transition, w_.middle(c.first, c.rows), product, Update::subtract);
        factor *= gamma;
      }
    }
    if (last) {
      copy(end, local);
      continue;
    }
    for (std::int64_t i = 0; i < in_.dk; ++i) {
      transition.row(i)[i] -= factor;
    }
    round(RoundingPoint::carry, transition);
    round(RoundingPoint::carry, end, operand_.view());
    scale(end, factor);
    multiply(end, transition, operand_.view(), Update::add);
    add(end, local);
  }
}

/// All gradients of a chunk, then dh.
void DeltaSimulation::backward_chunk(const Chunk& c) {
  const std::int64_t segment = numerics_.backward_segment_chunks;
  if (segment > 0 && ((c.index + 1) % segment == 0 || c.index + 1 == chunks_)) {
    copy(state_.view(), gradient_states_[static_cast<std::size_t>(c.index / segment)].view());
  }
  const auto output = [&](DeltaOutput which) {
    return out_.outputs[static_cast<std::size_t>(which)].middle(c.first, c.rows);
  };
  const FloatView gradient = state_.view();  // dh'
  const FloatView q = in_.q.middle(c.first, c.rows), k = in_.k.middle(c.first, c.rows),
                  v = in_.v.middle(c.first, c.rows), d_o = in_.d_o.middle(c.first, c.rows);
  const FloatView h = h_.middle(c.index * in_.dk, in_.dk);
  const FloatView v_new = v_new_.middle(c.first, c.rows);
  const FloatView x = x_.block(c.first, c.rows, c.rows), p = p_.block(c.first, c.rows, c.rows);
  const float* beta = in_.beta.data() + c.first;
  const float* decay_in = factors_.decay_in.data() + c.first;
  const float* decay_out = factors_.decay_out.data() + c.first;

  // Output block: dP, dQ.
  const FloatView dp = square_[0].block(0, c.rows, c.rows);          // s tril(dO V~^T)
  const FloatView dp_decayed = square_[1].block(0, c.rows, c.rows);  // dP . Gamma
  multiply_bt(dp, d_o, v_new, scratch_, Update::set, Triangle::c_lower);
  keep_lower(dp, 0);
  scale(dp, in_.scale);
  if (in_.gated) {
    multiply_lower(dp_decayed, dp, factors_.ratio.block(c.first, c.rows, c.rows));
  } else {
    copy(dp_decayed, dp);
  }
  keep(Intermediate::dp, c.first, dp_decayed);
  round(RoundingPoint::dp, dp_decayed);
  const FloatView dq_state = by_key_[1].middle(0, c.rows);  // s dO h^T
  multiply_bt(dq_state, d_o, h, scratch_);
  scale(dq_state, in_.scale);
  const FloatView dq = output(DeltaOutput::dq), key_scratch = by_key_[0].middle(0, c.rows);
  scale_rows(dq, decay_in, dq_state);
  round(RoundingPoint::dq_piece, dq);
  multiply(key_scratch, dp_decayed, k, Update::set, Triangle::a_lower);
  round(RoundingPoint::dq_piece, key_scratch);
  add(dq, key_scratch);

  // Carry block: dU, dW.
  const FloatView du_partial = du_partial_.middle(c.first, c.rows);
  multiply_at(du_partial, p, d_o, Update::set, Triangle::a_upper);
  scale(du_partial, in_.scale);
  keep(Intermediate::du_partial, c.first, du_partial);
  round(RoundingPoint::du_partial, du_partial);
  keep(Intermediate::dh, c.index * in_.dk, gradient);
  find_du(c, gradient);
  const FloatView du = by_value_[4].middle(0, c.rows), du_corr = by_value_[5].middle(0, c.rows);
  keep(Intermediate::du, c.first, du);
  round(RoundingPoint::du, du);
  const FloatView dk_state = by_key_[2].middle(0, c.rows);  // V~ dh'^T
  multiply_bt(dk_state, v_new, operand_.view(), scratch_);
  const FloatView dw = by_key_[3].middle(0, c.rows);
  if (numerics_.dw_in_pieces) {
    round(RoundingPoint::du, du_corr);
    multiply_bt(dw, du_partial, h, scratch_);
    multiply_bt(key_scratch, du_corr, h, scratch_);
    round(RoundingPoint::dw, dw);
    round(RoundingPoint::dw, key_scratch);
    add(dw, key_scratch);
  } else {
    multiply_bt(dw, du, h, scratch_);
  }
  negate(dw);
  keep(Intermediate::dw, c.first, dw);
  round(RoundingPoint::dw, dw);

  // WY block: R_w, R_v, dV; then dM.
  const FloatView r_w = by_key_[4].middle(0, c.rows), r_v = by_value_[0].middle(0, c.rows);
  const FloatView r_v_rounded = by_value_[1].middle(0, c.rows);
  multiply_at(r_v, x, du, Update::set, Triangle::a_upper);
  round(RoundingPoint::r, r_v, r_v_rounded);
  if (numerics_.r_w_from_r_v) {
    multiply_bt(r_w, r_v_rounded, h, scratch_);
    negate(r_w);
  } else {
    multiply_at(r_w, x, dw, Update::set, Triangle::a_upper);
  }
  keep(Intermediate::r_w, c.first, r_w);
  keep(Intermediate::r_v, c.first, r_v);
  scale_rows(output(DeltaOutput::dv), beta, r_v);
  const FloatView dm = square_[2].block(0, c.rows, c.rows);
  round(RoundingPoint::r, r_w, key_scratch);
  multiply_bt(dm, key_scratch, w_.middle(c.first, c.rows), scratch_, Update::set,
              Triangle::c_lower);
  multiply_bt(dm, r_v_rounded, u_.middle(c.first, c.rows), scratch_, Update::add,
              Triangle::c_lower);
  keep_lower(dm, -1);
  negate(dm);
  keep(Intermediate::dm, c.first, dm);
  const FloatView e = square_[3].block(0, c.rows, c.rows);  // dM . Gamma in fp32
  if (in_.gated) {
    multiply_lower(e, dm, factors_.ratio.block(c.first, c.rows, c.rows));
  } else {
    copy(e, dm);
  }
  const FloatView e_rounded = square_[4].block(0, c.rows, c.rows);
  round(RoundingPoint::e, e, e_rounded);

  // dK = (dk_partial + dk_corr) + dk_wu + dk_A
  const FloatView dk = output(DeltaOutput::dk), term = by_key_[5].middle(0, c.rows);
  multiply_at(dk, dp_decayed, q, Update::set, Triangle::a_upper);
  scale_rows(term, decay_out, dk_state);
  add(dk, term);
  round(RoundingPoint::dk_piece, dk);
  scale_rows(term, decay_in, r_w);
  scale_rows(term, beta, term);
  round(RoundingPoint::dk_piece, term);
  add(dk, term);
  multiply(term, e_rounded, k, Update::set, Triangle::a_lower);
  scale_rows(term, beta, term);
  if (numerics_.beta_on_e) {
    const FloatView beta_e = square_[5].block(0, c.rows, c.rows);
    scale_rows(beta_e, beta, e);
    round(RoundingPoint::b_k, beta_e);
    multiply_at(term, beta_e, k, Update::add, Triangle::a_upper);
  } else {
    scale_rows(key_scratch, beta, k);
    round(RoundingPoint::b_k, key_scratch);
    multiply_at(term, e_rounded, key_scratch, Update::add, Triangle::a_upper);
  }
  round(RoundingPoint::dk_piece, term);
  add(dk, term);

  // dbeta and, for gates, dg.
  float* dbeta = out_.outputs[static_cast<std::size_t>(DeltaOutput::dbeta)].row(0) + c.first;
  const FloatView kk = factors_.kk.block(c.first, c.rows, c.rows);
  const FloatView e_of_sums = numerics_.sums_from_operands ? e_rounded : e;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    dbeta[i] = decay_in[i] * dot(r_w.row(i), k.row(i), k.width()) +
               dot(r_v.row(i), v.row(i), v.width()) + dot(e_of_sums.row(i), kk.row(i), kk.width());
  }
  if (numerics_.at(RoundingPoint::row_sum) != Grid::none) {
    std::vector<float> summed(static_cast<std::size_t>(padded(c.rows)));
    const std::vector<float> k_norm = row_norms(k);
    for (std::int64_t i = 0; i < c.rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      float& sum = summed[row];
      sum = decay_in[i] * norm(r_w.row(i), k.width()) * k_norm[row] +
            norm(r_v.row(i), v.width()) * norm(v.row(i), v.width());
      for (std::int64_t j = 0; j < i; ++j) {
        sum += std::abs(e_of_sums.row(i)[j]) * k_norm[row] * k_norm[static_cast<std::size_t>(j)];
      }
    }
    perturb_by_rounding_of(summed, dbeta, c.rows);
  }
  if (in_.gated) {
    find_gate_gradient(c, e_rounded);
  }

  retreat_gradient(c, gradient);
  round(RoundingPoint::state, gradient);
}

/// dg of a chunk, from the matrices that backward_chunk() left in scratch: s dO h^T in by_key_[1],
/// V~ dh'^T in by_key_[2], R_w in by_key_[4], dP in square_[0], dM in square_[2], dh' as an
/// operand.
void DeltaSimulation::find_gate_gradient(const Chunk& c, FloatView e_rounded) {
  float* dg = out_.outputs[static_cast<std::size_t>(DeltaOutput::dg)].row(0) + c.first;
  const FloatView q = in_.q.middle(c.first, c.rows), k = in_.k.middle(c.first, c.rows);
  const FloatView dp = square_[0].block(0, c.rows, c.rows), p = p_.block(c.first, c.rows, c.rows);
  const FloatView dp_rounded = square_[1].block(0, c.rows, c.rows);  // dP . Gamma at its point
  const FloatView dm = square_[2].block(0, c.rows, c.rows),
                  m = factors_.m.block(c.first, c.rows, c.rows),
                  kk = factors_.kk.block(c.first, c.rows, c.rows);
  const FloatView k_hat = k_hat_.middle(c.first, c.rows);
  const float* beta = in_.beta.data() + c.first;
  const float* decay_in = factors_.decay_in.data() + c.first;
  float rho_sum = 0.0f;
  std::fill_n(dg, c.rows, 0.0f);
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const float rho = dot(k_hat.row(i), by_key_[2].row(i), k_hat.width());
    rho_sum += rho;
    float row = decay_in[i] * dot(q.row(i), by_key_[1].row(i), q.width()) - rho +
                beta[i] * decay_in[i] * dot(by_key_[4].row(i), k.row(i), k.width());
    for (std::int64_t j = 0; j <= i; ++j) {
      const float through_inverse = numerics_.sums_from_operands
                                        ? e_rounded.row(i)[j] * beta[i] * kk.row(i)[j]
                                        : dm.row(i)[j] * m.row(i)[j];
      const float through_output = numerics_.sums_from_operands
                                       ? dp_rounded.row(i)[j] * dot(q.row(i), k.row(j), q.width())
                                       : dp.row(i)[j] * p.row(i)[j];
      const float both = through_output + through_inverse;
      row += both;
      dg[j] -= both;
    }
    dg[i] += row;
  }
  const FloatView gradient = numerics_.sums_from_operands ? operand_.view() : state_.view(),
                  h = h_.middle(c.index * in_.dk, in_.dk);
  float inner = 0.0f;
  for (std::int64_t i = 0; i < in_.dk; ++i) {
    inner += dot(gradient.row(i), h.row(i), h.width());
  }
  dg[c.rows - 1] += rho_sum + factors_.gamma[static_cast<std::size_t>(c.index)] * inner;
  for (std::int64_t i = c.rows - 1; i-- > 0;) {
    dg[i] += dg[i + 1];
  }
  if (numerics_.at(RoundingPoint::row_sum) != Grid::none) {
    perturb_gate_sums(c, e_rounded, gradient, dg);
  }
}

/// Adds to each value what rounding a sum of such parts may move it by: `summed`, padded, holds the
/// sums of the absolute values.
void DeltaSimulation::perturb_by_rounding_of(const std::vector<float>& summed, float* values,
                                             std::int64_t count) const {
  std::vector<float> perturbed(summed.size());
  (*rounding_)(RoundingPoint::row_sum, numerics_.at(RoundingPoint::row_sum), summed.data(),
               perturbed.data(), static_cast<std::int64_t>(summed.size()));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    values[i] += perturbed[at] - summed[at];
  }
}

/// Kernels form dg from sums whose largest parts cancel: a product on the diagonal enters rowsum(Q
/// . dQ) and leaves with rowsum(K . dK), and what is summed over the chunk enters at its end and
/// leaves row by row. The rounding of a sum is a part of the absolute values summed, of which this
/// takes the bound |x . y| <= |x| |y|.
void DeltaSimulation::perturb_gate_sums(const Chunk& c, FloatView e_rounded, FloatView gradient,
                                        float* dg) {
  const FloatView q = in_.q.middle(c.first, c.rows), k = in_.k.middle(c.first, c.rows);
  const FloatView k_hat = k_hat_.middle(c.first, c.rows), h = h_.middle(c.index * in_.dk, in_.dk);
  const FloatView dp = square_[0].block(0, c.rows, c.rows);
  const FloatView ratio = factors_.ratio.block(c.first, c.rows, c.rows);
  const float* beta = in_.beta.data() + c.first;
  const float* decay_in = factors_.decay_in.data() + c.first;
  const auto rows = static_cast<std::size_t>(c.rows);
  const std::vector<float> q_norm = row_norms(q), k_norm = row_norms(k);
  std::vector<float> summed(static_cast<std::size_t>(padded(c.rows)));
  float rho_sum = 0.0f, gradient_squares = 0.0f, h_squares = 0.0f;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const float rho = norm(k_hat.row(i), k_hat.width()) * norm(by_key_[2].row(i), q.width());
    rho_sum += rho;
    summed[row] += rho + decay_in[i] * q_norm[row] * norm(by_key_[1].row(i), q.width()) +
                   beta[i] * decay_in[i] * k_norm[row] * norm(by_key_[4].row(i), q.width());
    for (std::int64_t j = 0; j <= i; ++j) {
      const auto column = static_cast<std::size_t>(j);
      const float both = k_norm[column] * (std::abs(dp.row(i)[j]) * ratio.row(i)[j] * q_norm[row] +
                                           std::abs(e_rounded.row(i)[j]) * beta[i] * k_norm[row]);
      summed[row] += both;
      summed[column] += both;
    }
  }
  for (std::int64_t i = 0; i < in_.dk; ++i) {
    gradient_squares += dot(gradient.row(i), gradient.row(i), gradient.width());
    h_squares += dot(h.row(i), h.row(i), h.width());
  }
  summed[rows - 1] += rho_sum + factors_.gamma[static_cast<std::size_t>(c.index)] *
                                    std::sqrt(gradient_squares * h_squares);
  for (std::size_t i = rows - 1; i-- > 0;) {
    summed[i] += summed[i + 1];
  }
  perturb_by_rounding_of(summed, dg, c.rows);
}

}  // namespace faultline::reference
