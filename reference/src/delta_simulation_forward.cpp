// SPDX-License-Identifier: Apache-2.0
// The forward of a simulated head, chunk by chunk.
#include "delta_simulation.hpp"

#include "matrix_arithmetic.hpp"

#include <faultline/reference/exponential.hpp>

#include <algorithm>
#include <functional>
#include <vector>

namespace faultline::reference {

namespace {

float exponential_f32(float x) { return static_cast<float>(exponential(static_cast<double>(x))); }

}  // namespace

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
  if (numerics_.at(RoundingPoint::p) == Grid::f32) {
    perturb_products(c);
  }
}

/// Adds to P, which stays in fp32, what rounding its sums may move it by: more than an ulp of P
/// where q . k cancels. Where P is rounded to 16 bits that is nothing.
void DeltaSimulation::perturb_products(const Chunk& c) {
  const FloatView p = p_.block(c.first, c.rows, c.rows);
  const std::vector<float> q_norm = row_norms(in_.q.middle(c.first, c.rows)),
                           k_norm = row_norms(in_.k.middle(c.first, c.rows));
  std::vector<float> summed(static_cast<std::size_t>(padded(c.rows)));
  for (std::int64_t i = 0; i < c.rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    for (std::size_t j = 0; j <= row; ++j) {
      const float decay = in_.gated ? factors_.ratio.row(c.first + i)[j] : 1.0f;
      summed[j] = decay * q_norm[row] * k_norm[j];
    }
    perturb_by_rounding_of(summed, p.row(i), i + 1);
  }
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

}  // namespace faultline::reference
