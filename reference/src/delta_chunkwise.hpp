// SPDX-License-Identifier: Apache-2.0
// The chunkwise (WY) form of the delta rule and its adjoint, path by path, for one head over any
// scalar type that Eigen multiplies. Notation and formulas: deltanet.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <Eigen/Dense>

#include <faultline/reference/deltanet.hpp>

#include "delta_recurrence.hpp"

namespace faultline::reference {

/// Where one head's intermediates go, as in DeltaIntermediates; null: not wanted.
template <typename Scalar>
struct DeltaHeadIntermediates {
  Scalar* G = nullptr;           // [t]
  Scalar* x = nullptr;           // [t, C]
  Scalar* w = nullptr;           // [t, dk]
  Scalar* u = nullptr;           // [t, dv]
  Scalar* h = nullptr;           // [N, dk, dv]
  Scalar* v_new = nullptr;       // [t, dv]
  Scalar* p = nullptr;           // [t, C]
  Scalar* dp = nullptr;          // [t, C]
  Scalar* dh = nullptr;          // [N, dk, dv]
  Scalar* du = nullptr;          // [t, dv]
  Scalar* dw = nullptr;          // [t, dk]
  Scalar* r_v = nullptr;         // [t, dv]
  Scalar* r_w = nullptr;         // [t, dk]
  Scalar* dm = nullptr;          // [t, C]
  Scalar* du_partial = nullptr;  // [t, dv]
};

/// The chunkwise form of one head. forward() first, then, if wanted, backward().
template <typename Scalar>
class ChunkwiseHead {
 public:
  using Index = Eigen::Index;
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

  ChunkwiseHead(const DeltaHead<Scalar>& head, std::int64_t chunk, DeltaTermSet dropped,
                DeltaWrongForm wrong, const DeltaHeadOutputs<Scalar>& outputs,
                const DeltaHeadIntermediates<Scalar>& intermediates)
      : head_(head),
        chunk_(chunk),
        dropped_(dropped),
        wrong_(wrong),
        out_(outputs),
        kept_(intermediates) {}

  void forward() {
    Matrix h = state_or_zero(head_.h0);  // [dk, dv]
    for (Index first = 0; first < head_.t; first += chunk_) {
      states_.push_back(h);
      const Chunk c = prepare(first, h);
      Matrix output = c.e_G.asDiagonal() * (c.q * h);  // [n, dv]
      output.noalias() += c.p * c.v_new;
      rows(out_.o, first, c.n, head_.dv) = head_.scale * output;
      keep_forward(c, h);
      const Scalar decay =
          wrong_ == DeltaWrongForm::gamma_twice ? Scalar(c.gamma * c.gamma) : c.gamma;
      h = decay * h;
      h.noalias() += c.k_hat.transpose() * c.v_new;
    }
    MatrixMap(out_.hT, head_.dk, head_.dv) = h;
  }

  void backward() {
    Matrix dh = state_or_zero(head_.dhT);  // [dk, dv], gradient of the state after the chunk
    for (std::size_t i = states_.size(); i-- > 0;) {
      const Matrix& h = states_[i];
      dh = chunk_backward(prepare(static_cast<Index>(i) * chunk_, h), h, dh);
    }
    MatrixMap(out_.dh0, head_.dk, head_.dv) = dh;
  }

 private:
  using ConstMap = Eigen::Map<const Matrix>;
  using MatrixMap = Eigen::Map<Matrix>;

  /// What depends on a chunk's rows and its incoming state.
  struct Chunk {
    Index first = 0, n = 0;
    ConstMap q, k, v;         // [n, dk], [n, dk], [n, dv]
    Vector beta, G;           // [n]
    Vector e_G, e_rest;       // [n] e^G, e^(G_n - G)
    Scalar gamma;             // e^(G_n)
    Matrix decay;             // [n, n] Gamma; empty when ungated
    Matrix kk;                // [n, n] K K^T
    Matrix m;                 // [n, n]
    Matrix x;                 // [n, n]
    Matrix b_w, w, u, v_new;  // [n, dk], [n, dk], [n, dv], [n, dv]
    Matrix p;                 // [n, n]
    Matrix k_hat;             // [n, dk]
  };

  bool gated() const { return head_.g != nullptr; }
  bool has(DeltaTerm term) const { return !dropped_.contains(term); }

  Matrix state_or_zero(const Scalar* state) const {
    if (state == nullptr) return Matrix::Zero(head_.dk, head_.dv);
    return ConstMap(state, head_.dk, head_.dv);
  }
  static ConstMap rows(const Scalar* data, Index first, Index n, Index width) {
    return ConstMap(data + first * width, n, width);
  }
  static MatrixMap rows(Scalar* data, Index first, Index n, Index width) {
    return MatrixMap(data + first * width, n, width);
  }
  static void keep(Scalar* data, Index first, const Matrix& value, Index width) {
    if (data == nullptr) return;
    MatrixMap(data + first * width, value.rows(), width).leftCols(value.cols()) = value;
  }
  static Matrix lower(const Matrix& a) { return a.template triangularView<Eigen::Lower>(); }
  static Matrix strictly_lower(const Matrix& a) {
    return a.template triangularView<Eigen::StrictlyLower>();
  }
  /// a . Gamma
  Matrix decayed(const Chunk& c, Matrix a) const {
    if (gated()) a = a.cwiseProduct(c.decay);
    return a;
  }

  void gates(Chunk& c) const {
    c.G = Vector::Zero(c.n);
    c.e_G = c.e_rest = Vector::Ones(c.n);
    c.gamma = Scalar(1);
    if (!gated()) return;
    Scalar sum(0);
    for (Index i = 0; i < c.n; ++i) {
      sum += head_.g[c.first + i];
      c.G(i) = sum;
    }
    c.decay = Matrix::Zero(c.n, c.n);
    for (Index i = 0; i < c.n; ++i) {
      c.e_G(i) = exponential_of(c.G(i));
      c.e_rest(i) = exponential_of(Scalar(c.G(c.n - 1) - c.G(i)));
      // The difference first: e^G_i may underflow and e^-G_j overflow where their ratio is 1.
      for (Index j = 0; j <= i; ++j) c.decay(i, j) = exponential_of(Scalar(c.G(i) - c.G(j)));
    }
    c.gamma = c.e_G(c.n - 1);
  }

  Chunk prepare(Index first, const Matrix& h) const {
    const Index n = std::min<Index>(chunk_, head_.t - first);
    Chunk c{.first = first,
            .n = n,
            .q = rows(head_.q, first, n, head_.dk),
            .k = rows(head_.k, first, n, head_.dk),
            .v = rows(head_.v, first, n, head_.dv),
            .beta = Eigen::Map<const Vector>(head_.beta + first, n),
            .G = {},
            .e_G = {},
            .e_rest = {},
            .gamma = Scalar(1),
            .decay = {},
            .kk = {},
            .m = {},
            .x = {},
            .b_w = {},
            .w = {},
            .u = {},
            .v_new = {},
            .p = {},
            .k_hat = {}};
    gates(c);
    c.kk.noalias() = c.k * c.k.transpose();
    c.m = strictly_lower(decayed(c, c.beta.asDiagonal() * c.kk));
    // X = (I + M)^-1 by forward substitution; the unit diagonal is implied.
    c.x = c.m.template triangularView<Eigen::UnitLower>().solve(Matrix::Identity(n, n));

    const bool outside = wrong_ == DeltaWrongForm::w_scaled_outside ||
                         wrong_ == DeltaWrongForm::w_scaled_outside_total;
    const Vector inside = outside ? c.beta : Vector(c.beta.cwiseProduct(c.e_G));
    c.b_w = inside.asDiagonal() * c.k;
    c.w.noalias() = c.x * c.b_w;
    if (wrong_ == DeltaWrongForm::w_scaled_outside) c.w = Matrix(c.e_G.asDiagonal() * c.w);
    if (wrong_ == DeltaWrongForm::w_scaled_outside_total) {
      c.w = Matrix((c.gamma * c.e_G).asDiagonal() * c.w);
    }
    c.u.noalias() = c.x * Matrix(c.beta.asDiagonal() * c.v);
    c.v_new = c.u;
    c.v_new.noalias() -= c.w * h;

    c.p.noalias() = c.q * c.k.transpose();
    c.p = lower(decayed(c, std::move(c.p)));
    if (wrong_ == DeltaWrongForm::strict_tril) c.p.diagonal().setZero();
    c.k_hat = c.e_rest.asDiagonal() * c.k;
    return c;
  }

  void keep_forward(const Chunk& c, const Matrix& h) const {
    keep(kept_.G, c.first, c.G, 1);
    keep(kept_.x, c.first, c.x, chunk_);
    keep(kept_.w, c.first, c.w, head_.dk);
    keep(kept_.u, c.first, c.u, head_.dv);
    keep(kept_.h, c.first / chunk_ * head_.dk, h, head_.dv);
    keep(kept_.v_new, c.first, c.v_new, head_.dv);
    keep(kept_.p, c.first, c.p, chunk_);
  }

  /// Adjoint of one chunk: dh' -> dh.
  Matrix chunk_backward(const Chunk& c, const Matrix& h, const Matrix& dh) {
    const ConstMap d_o = rows(head_.d_o, c.first, c.n, head_.dv);  // [n, dv]

    // Output block.
    const Matrix dp = lower(head_.scale * (d_o * c.v_new.transpose()));  // [n, n]
    const Matrix dp_decayed = decayed(c, dp);
    const Matrix dq_state = head_.scale * (d_o * h.transpose());  // [n, dk], without e^G
    Matrix dq = c.e_G.asDiagonal() * dq_state;
    dq.noalias() += dp_decayed * c.k;
    rows(out_.dq, c.first, c.n, head_.dk) = dq;
    const Matrix du_partial = has(DeltaTerm::du_partial)
                                  ? Matrix(head_.scale * (c.p.transpose() * d_o))
                                  : Matrix::Zero(c.n, head_.dv);

    // Carry block.
    const Matrix du_corr =
        has(DeltaTerm::du_corr) ? Matrix(c.k_hat * dh) : Matrix::Zero(c.n, head_.dv);
    const Matrix dk_hat = c.v_new * dh.transpose();  // [n, dk], gradient of K^
    const Matrix du = du_partial + du_corr;
    Matrix dw = Matrix::Zero(c.n, head_.dk);
    if (has(DeltaTerm::dw_local)) dw.noalias() -= du_partial * h.transpose();
    if (has(DeltaTerm::dw_cross)) dw.noalias() -= du_corr * h.transpose();

    // WY block.
    const Matrix r_w = c.x.transpose() * dw;  // [n, dk]
    const Matrix r_v = c.x.transpose() * du;  // [n, dv]
    rows(out_.dv, c.first, c.n, head_.dv) = c.beta.asDiagonal() * r_v;

    // A_inv path: dM = -slt(X^T dX X^T) with dX = dW B_w^T + dU B_v^T.
    Matrix dm = -(r_w * c.w.transpose());
    dm.noalias() -= r_v * c.u.transpose();
    dm = strictly_lower(dm);
    const Matrix e = decayed(c, dm);

    Matrix dk = Matrix::Zero(c.n, head_.dk);
    if (has(DeltaTerm::dk_partial)) dk.noalias() += dp_decayed.transpose() * c.q;
    if (has(DeltaTerm::dk_corr)) dk += c.e_rest.asDiagonal() * dk_hat;
    if (has(DeltaTerm::dk_wu)) dk += c.beta.cwiseProduct(c.e_G).asDiagonal() * r_w;
    if (has(DeltaTerm::dk_A)) {
      dk += c.beta.asDiagonal() * Matrix(e * c.k);
      dk.noalias() += e.transpose() * Matrix(c.beta.asDiagonal() * c.k);
    }
    rows(out_.dk, c.first, c.n, head_.dk) = dk;

    Vector dbeta = Vector::Zero(c.n);
    if (has(DeltaTerm::dbeta_wu)) {
      dbeta += c.e_G.cwiseProduct(r_w.cwiseProduct(c.k).rowwise().sum());
      dbeta += r_v.cwiseProduct(c.v).rowwise().sum();
    }
    if (has(DeltaTerm::dbeta_A)) dbeta += e.cwiseProduct(c.kk).rowwise().sum();
    Eigen::Map<Vector>(out_.dbeta + c.first, c.n) = dbeta;

    if (gated()) gate_gradient(c, h, dh, dp, dq_state, dk_hat, r_w, dm);
    keep(kept_.dp, c.first, dp_decayed, chunk_);
    keep(kept_.dh, c.first / chunk_ * head_.dk, dh, head_.dv);
    keep(kept_.du, c.first, du, head_.dv);
    keep(kept_.dw, c.first, dw, head_.dk);
    keep(kept_.r_v, c.first, r_v, head_.dv);
    keep(kept_.r_w, c.first, r_w, head_.dk);
    keep(kept_.dm, c.first, dm, chunk_);
    keep(kept_.du_partial, c.first, du_partial, head_.dv);

    // State gradient.
    Matrix before = c.gamma * dh;
    if (has(DeltaTerm::dh_local)) {
      before.noalias() += Matrix((head_.scale * c.e_G).asDiagonal() * c.q).transpose() * d_o;
      before.noalias() -= c.w.transpose() * du_partial;
    }
    if (has(DeltaTerm::dh_coefficient)) before.noalias() -= c.w.transpose() * du_corr;
    return before;
  }

  /// Gradient of the gates summed within the chunk, then of the gates.
  void gate_gradient(const Chunk& c, const Matrix& h, const Matrix& dh, const Matrix& dp,
                     const Matrix& dq_state, const Matrix& dk_hat, const Matrix& r_w,
                     const Matrix& dm) {
    const auto rows_less_columns = [](const Matrix& a) {
      return Vector(a.rowwise().sum() - a.colwise().sum().transpose());
    };
    Vector dg = Vector::Zero(c.n);
    if (has(DeltaTerm::dG_out)) {
      dg += c.e_G.cwiseProduct(dq_state.cwiseProduct(c.q).rowwise().sum());
      dg += rows_less_columns(dp.cwiseProduct(c.p));
    }
    if (has(DeltaTerm::dG_state)) {
      const Vector rho = c.k_hat.cwiseProduct(dk_hat).rowwise().sum();
      dg -= rho;
      dg(c.n - 1) += rho.sum() + c.gamma * dh.cwiseProduct(h).sum();
    }
    if (has(DeltaTerm::dG_wu)) dg += r_w.cwiseProduct(c.b_w).rowwise().sum();
    if (has(DeltaTerm::dG_A)) dg += rows_less_columns(dm.cwiseProduct(c.m));
    if (wrong_ != DeltaWrongForm::no_reverse_cumsum) {
      for (Index i = c.n - 1; i > 0; --i) dg(i - 1) += dg(i);
    }
    Eigen::Map<Vector>(out_.dg + c.first, c.n) = dg;
  }

  DeltaHead<Scalar> head_;
  Index chunk_;
  DeltaTermSet dropped_;
  DeltaWrongForm wrong_;
  DeltaHeadOutputs<Scalar> out_;
  DeltaHeadIntermediates<Scalar> kept_;
  std::vector<Matrix> states_;  // [N] of [dk, dv]: before each chunk
};

}  // namespace faultline::reference
