// SPDX-License-Identifier: Apache-2.0
// A DeltaNet kernel in software, written apart from the simulation that makes the bounds: Eigen's
// products in slices of 16 (as tensor cores sum), rounding to nearest where values are stored, and
// the defects that real kernels had.
#pragma once

#include <faultline/core/dtype.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/exponential.hpp>

#include <Eigen/Dense>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace faultline::reference::test {

enum class Defect : std::uint8_t {
  none,
  drop_a_inv,
  drop_dh_coefficient,
  drop_dw_cross,
  drop_du_corr,
  drop_dk_corr,
  strict_tril,
  gamma_twice,
  w_scaled_outside,
  no_reverse_cumsum,
  bf16_state,
};
inline constexpr std::size_t kDefectCount = 11;
inline std::string_view name_of(Defect defect) {
  constexpr std::string_view names[kDefectCount] = {
      "none",        "A_inv",       "dh_coefficient",   "dw_cross",          "du_corr",   "dk_corr",
      "strict_tril", "gamma_twice", "w_scaled_outside", "no_reverse_cumsum", "bf16_state"};
  return names[static_cast<std::size_t>(defect)];
}

struct Emulation {
  core::Dtype dtype = core::Dtype::f16;
  std::int64_t chunk = 64;
  bool x_in_f32 = false;        ///< X is not rounded
  bool inverse_scaled = false;  ///< beta and e^G multiply the columns of X, which is then rounded
  bool decay_on_v_new = false;  ///< e^(G_n - G) multiplies V~, not K
  bool serial_sums = false;     ///< products in one sum, not in slices
  Defect defect = Defect::none;
};

/// All outputs of a backward kernel before they are stored.
class EmulatedKernel {
 public:
  explicit EmulatedKernel(const Emulation& how) : how_(how) {}

  DeltaOutputs operator()(const DeltaInputs& in) const {
    DeltaOutputs out;
    const DeltaShape& s = in.shape;
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    out.o.resize(size(s.heads() * s.t * s.dv));
    out.dv.resize(out.o.size());
    out.dq.resize(size(s.heads() * s.t * s.dk));
    out.dk.resize(out.dq.size());
    out.dbeta.resize(size(s.heads() * s.t));
    out.dg.resize(in.gated() ? out.dbeta.size() : 0);
    out.hT.resize(size(s.heads() * s.dk * s.dv));
    out.dh0.resize(out.hT.size());
    for (std::int64_t head = 0; head < s.heads(); ++head) one_head(in, head, out);
    return out;
  }

 private:
  using M = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using V = Eigen::VectorXf;

  struct Chunk {
    std::int64_t first, n;
    M ratio, kk, mask, x, w, u, v_new, p, k_hat, h;
    V in, out, beta;
    float gamma;
  };

  M stored(M m) const { return stored(std::move(m), how_.dtype); }
  static M stored(M m, core::Dtype dtype) {
    if (dtype == core::Dtype::f32) return m;
    for (Eigen::Index i = 0; i < m.size(); ++i) {
      m.data()[i] = static_cast<float>(core::round_to(dtype, static_cast<double>(m.data()[i])));
    }
    return m;
  }
  /// A B, from left to right over slices of the inner index.
  M times(const M& a, const M& b) const {
    const Eigen::Index step = how_.serial_sums ? std::max<Eigen::Index>(a.cols(), 1) : 16;
    M sum = M::Zero(a.rows(), b.cols());
    for (Eigen::Index k = a.cols(); k > 0;) {  // last slice first: not the order of the bounds
      const Eigen::Index n = std::min(step, k);
      k -= n;
      M slice = a.middleCols(k, n) * b.middleRows(k, n);
      sum += slice;
    }
    return sum;
  }
  static M lower(M m, int diagonal) {
    for (Eigen::Index i = 0; i < m.rows(); ++i) {
      for (Eigen::Index j = i + diagonal + 1; j < m.cols(); ++j) m(i, j) = 0.0f;
    }
    return m;
  }
  static M part(const std::vector<double>& all, std::int64_t head, std::int64_t rows,
                std::int64_t columns) {
    if (all.empty()) return M::Zero(rows, columns);
    return Eigen::Map<const Eigen::Matrix<double, -1, -1, Eigen::RowMajor>>(
               all.data() + head * rows * columns, rows, columns)
        .cast<float>();
  }
  static void put(const M& m, std::vector<double>& all, std::int64_t first) {
    for (Eigen::Index i = 0; i < m.size(); ++i) {
      all[static_cast<std::size_t>(first + i)] = static_cast<double>(m.data()[i]);
    }
  }
  bool has(Defect defect) const { return how_.defect == defect; }

  void one_head(const DeltaInputs& in, std::int64_t head, DeltaOutputs& out) const {
    const DeltaShape& sh = in.shape;
    const std::int64_t t = sh.t, dk = sh.dk, dv = sh.dv, count = sh.chunks(how_.chunk);
    const M all_q = part(in.q, head, t, dk), all_k = part(in.k, head, t, dk),
            all_v = part(in.v, head, t, dv), all_do = part(in.d_o, head, t, dv),
            all_beta = part(in.beta, head, t, 1), all_g = part(in.g, head, t, 1);
    const float s = static_cast<float>(in.scale);
    std::vector<Chunk> chunks;
    M h = part(in.h0, head, dk, dv);
    for (std::int64_t index = 0; index < count; ++index) {
      Chunk c;
      c.first = index * how_.chunk;
      c.n = std::min(how_.chunk, t - c.first);
      const M q = all_q.middleRows(c.first, c.n), k = all_k.middleRows(c.first, c.n),
              v = all_v.middleRows(c.first, c.n);
      c.beta = all_beta.middleRows(c.first, c.n);
      V sum(c.n);
      // The gates are summed as a scan of pairs would, not one by one.
      for (std::int64_t i = 0; i < c.n; ++i) sum(i) = all_g(c.first + i, 0);
      for (std::int64_t step = 1; step < c.n; step *= 2) {
        for (std::int64_t i = c.n - 1; i >= step; --i) sum(i) += sum(i - step);
      }
      const auto exp = [](float x) { return static_cast<float>(exponential(x)); };
      c.in = sum.unaryExpr(exp);
      c.out = (sum(c.n - 1) - sum.array()).matrix().unaryExpr(exp);
      c.gamma = exp(sum(c.n - 1));
      c.ratio = M::Zero(c.n, c.n);
      for (std::int64_t i = 0; i < c.n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) c.ratio(i, j) = exp(sum(i) - sum(j));
      }
      c.kk = times(k, k.transpose());
      c.mask = lower(c.kk.cwiseProduct(c.ratio), -1);
      c.mask = c.beta.asDiagonal() * c.mask;
      M a = c.mask + M::Identity(c.n, c.n);
      c.x = a.triangularView<Eigen::UnitLower>().solve(M(M::Identity(c.n, c.n)));
      V factor = c.beta;
      if (!has(Defect::w_scaled_outside)) factor = c.in.cwiseProduct(c.beta);
      if (how_.inverse_scaled) {
        c.w = times(stored(c.x * factor.asDiagonal()), k);
        c.u = times(stored(c.x * c.beta.asDiagonal()), v);
      }
      if (!how_.x_in_f32) c.x = stored(c.x);
      if (!how_.inverse_scaled) {
        c.w = times(c.x, stored(factor.asDiagonal() * k));
        c.u = times(c.x, stored(c.beta.asDiagonal() * v));
      }
      if (has(Defect::w_scaled_outside)) c.w = c.in.asDiagonal() * c.w;
      c.w = stored(c.w);
      c.u = stored(c.u);
      if (has(Defect::bf16_state)) h = stored(h, core::Dtype::bf16);
      c.h = stored(h);
      c.v_new = stored(c.u - times(c.w, c.h));
      c.p = stored(
          lower(times(q, k.transpose()).cwiseProduct(c.ratio), has(Defect::strict_tril) ? -1 : 0));
      M o = c.in.asDiagonal() * times(q, c.h);
      o += times(c.p, c.v_new);
      put(s * o, out.o, (head * t + c.first) * dv);
      c.k_hat = how_.decay_on_v_new ? M(c.out.asDiagonal() * k) : stored(c.out.asDiagonal() * k);
      h *= has(Defect::gamma_twice) ? c.gamma * c.gamma : c.gamma;
      h += how_.decay_on_v_new ? times(k.transpose(), stored(c.out.asDiagonal() * c.v_new))
                               : times(c.k_hat.transpose(), c.v_new);
      chunks.push_back(std::move(c));
    }
    if (has(Defect::bf16_state)) h = stored(h, core::Dtype::bf16);
    put(h, out.hT, head * dk * dv);

    M gradient = part(in.dhT, head, dk, dv);
    for (std::int64_t index = count; index-- > 0;) {
      const Chunk& c = chunks[static_cast<std::size_t>(index)];
      const M q = all_q.middleRows(c.first, c.n), k = all_k.middleRows(c.first, c.n),
              v = all_v.middleRows(c.first, c.n), d_o = all_do.middleRows(c.first, c.n);
      const M dp = lower(s * times(d_o, c.v_new.transpose()), 0);
      const M dp_stored = stored(dp.cwiseProduct(c.ratio));
      const M dq_state = s * times(d_o, c.h.transpose());
      put(c.in.asDiagonal() * dq_state + times(dp_stored, k), out.dq, (head * t + c.first) * dk);

      const M du_partial = stored(s * times(c.p.transpose(), d_o)), dh = stored(gradient);
      M du_corr = how_.decay_on_v_new ? M(c.out.asDiagonal() * times(k, dh)) : times(c.k_hat, dh);
      if (has(Defect::drop_du_corr)) du_corr.setZero();
      const M du = stored(du_partial + du_corr);
      const M dw = stored(-times(has(Defect::drop_dw_cross) ? du_partial : du, c.h.transpose()));
      const M r_w = times(c.x.transpose(), dw), r_v = times(c.x.transpose(), du);
      M dm = -lower(times(stored(r_w), c.w.transpose()) + times(stored(r_v), c.u.transpose()), -1);
      if (has(Defect::drop_a_inv)) dm.setZero();
      const M e = dm.cwiseProduct(c.ratio), e_stored = stored(e);
      const M dk_state = times(c.v_new, dh.transpose());

      M dk_all = times(dp_stored.transpose(), q);
      if (!has(Defect::drop_dk_corr)) dk_all += c.out.asDiagonal() * dk_state;
      dk_all += c.beta.cwiseProduct(c.in).asDiagonal() * r_w;
      dk_all += c.beta.asDiagonal() * times(e_stored, k);
      dk_all += times(e_stored.transpose(), stored(c.beta.asDiagonal() * k));
      put(dk_all, out.dk, (head * t + c.first) * dk);
      put(c.beta.asDiagonal() * r_v, out.dv, (head * t + c.first) * dv);
      const M dbeta = r_w.cwiseProduct(c.in.asDiagonal() * k).rowwise().sum() +
                      r_v.cwiseProduct(v).rowwise().sum() + e.cwiseProduct(c.kk).rowwise().sum();
      put(dbeta, out.dbeta, head * t + c.first);
      if (in.gated()) {
        M dg = (c.in.asDiagonal() * q).cwiseProduct(dq_state).rowwise().sum();
        const M both = dp.cwiseProduct(c.p) + dm.cwiseProduct(c.mask);
        const M rho = c.k_hat.cwiseProduct(dk_state).rowwise().sum();
        dg += both.rowwise().sum() - M(both.colwise().sum().transpose()) - rho;
        dg += c.beta.cwiseProduct(c.in).asDiagonal() * r_w.cwiseProduct(k).rowwise().sum();
        dg(c.n - 1, 0) += rho.sum() + c.gamma * gradient.cwiseProduct(c.h).sum();
        for (std::int64_t i = c.n - 1; i-- > 0 && !has(Defect::no_reverse_cumsum);) {
          dg(i, 0) += dg(i + 1, 0);
        }
        put(dg, out.dg, head * t + c.first);
      }
      M next = c.gamma * gradient;
      next += s * times(stored(c.in.asDiagonal() * q).transpose(), d_o);
      next -= times(c.w.transpose(), has(Defect::drop_dh_coefficient) ? du_partial : du);
      gradient = next;
    }
    put(gradient, out.dh0, head * dk * dv);
  }

  Emulation how_;
};

/// The inputs as a kernel gets them: q, k, v, beta and do in `dtype`, the others in f32.
inline DeltaInputs stored_inputs(DeltaInputs in, core::Dtype dtype) {
  for (std::vector<double>* values : {&in.q, &in.k, &in.v, &in.beta, &in.d_o}) {
    for (double& x : *values) x = core::round_to(dtype, x);
  }
  for (std::vector<double>* values : {&in.g, &in.h0, &in.dhT}) {
    for (double& x : *values) x = core::round_to(core::Dtype::f32, x);
  }
  return in;
}

}  // namespace faultline::reference::test
