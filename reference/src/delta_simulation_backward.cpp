// SPDX-License-Identifier: Apache-2.0
// The backward of a simulated head, last chunk to first.
#include "delta_simulation.hpp"

#include "matrix_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace faultline::reference {

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
/// V~ dh'^T in by_key_[2], R_w in by_key_[4], dP in square_[0], dM in square_[2],
/// diag(beta) E in square_[5], dh' as an operand.
void DeltaSimulation::find_gate_gradient(const Chunk& c, FloatView e_rounded) {
  float* dg = out_.outputs[static_cast<std::size_t>(DeltaOutput::dg)].row(0) + c.first;
  const FloatView q = in_.q.middle(c.first, c.rows), k = in_.k.middle(c.first, c.rows);
  const FloatView dp = square_[0].block(0, c.rows, c.rows), p = p_.block(c.first, c.rows, c.rows);
  const FloatView dp_rounded = square_[1].block(0, c.rows, c.rows);  // dP . Gamma at its point
  const FloatView dm = square_[2].block(0, c.rows, c.rows),
                  m = factors_.m.block(c.first, c.rows, c.rows),
                  kk = factors_.kk.block(c.first, c.rows, c.rows);
  const FloatView beta_e = square_[5].block(0, c.rows, c.rows);  // with beta_on_e, at its point
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
      // rowsum(K . E^T diag(beta) K) of an operand that was rounded apart: what a row adds and what
      // a column takes cancel up to that rounding only.
      const float leaving_inverse = numerics_.sums_from_operands && numerics_.beta_on_e
                                        ? beta_e.row(i)[j] * kk.row(i)[j]
                                        : through_inverse;
      const float through_output = numerics_.sums_from_operands
                                       ? dp_rounded.row(i)[j] * dot(q.row(i), k.row(j), q.width())
                                       : dp.row(i)[j] * p.row(i)[j];
      row += through_output + through_inverse;
      dg[j] -= through_output + leaving_inverse;
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
