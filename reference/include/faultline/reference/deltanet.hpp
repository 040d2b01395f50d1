// SPDX-License-Identifier: Apache-2.0
// The delta rule, gated and not, in double: the recurrence that defines it, its adjoint, and the
// chunkwise (WY) form with an adjoint whose every path is a term with a name.
//
// Per (batch, head), t = 1..T, alpha_t = e^g_t (ungated: 1), scale s, state S [DK, DV], S_0 = h0:
//
//   S~_t = alpha_t S_t-1             decay first,
//   e_t  = v_t - S~_t^T k_t          then the error against the decayed state,
//   u_t  = beta_t e_t
//   S_t  = S~_t + k_t u_t^T          hT = S_T
//   o_t  = s S_t^T q_t
//
// Gradients are those of L = <o, do> + <hT, dhT>. Everything is independent over (b, h). The step
// contracts iff 0 <= beta |k|^2 <= 2. Derivations, and the terms in a table: docs/reference.md.
//
// All arrays are row-major doubles, head first:
//
//   q, k, dq, dk   [B, H, T, DK]      v, o, do, dv, ... [B, H, T, DV]
//   beta, g, dbeta, dg  [B, H, T]     h0, hT, dh0, dhT  [B, H, DK, DV]
//
// Functions are pure and deterministic: heads are shared out among up to hardware_concurrency
// threads, and no result depends on how many. They throw UsageError when sizes do not fit.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>

namespace faultline::reference {

/// Extents of a problem.
struct DeltaShape {
  std::int64_t b = 1, h = 1, t = 1, dk = 1, dv = 1;

  std::int64_t heads() const { return b * h; }
  std::int64_t chunks(std::int64_t chunk) const { return (t + chunk - 1) / chunk; }
  friend bool operator==(const DeltaShape&, const DeltaShape&) = default;
};

/// Inputs of a forward or a backward. An empty array means: g ungated; h0, dhT zero; d_o absent (a
/// forward does not read it; a backward refuses).
struct DeltaInputs {
  DeltaShape shape{};
  double scale = 1.0;
  std::vector<double> q{}, k{}, v{}, beta{}, g{}, h0{};
  std::vector<double> d_o{}, dhT{};  ///< gradients of o and hT

  bool gated() const { return !g.empty(); }
};

/// The same inputs as tensors of any dtype; null: absent. Views: the tensors must outlive the call.
struct DeltaTensors {
  const core::Tensor* q = nullptr;
  const core::Tensor* k = nullptr;
  const core::Tensor* v = nullptr;
  const core::Tensor* beta = nullptr;
  const core::Tensor* g = nullptr;
  const core::Tensor* h0 = nullptr;
  const core::Tensor* d_o = nullptr;
  const core::Tensor* dhT = nullptr;
};
/// Decoded exactly; shapes from q [B, H, T, DK] and v [B, H, T, DV], the others checked against
/// them.
DeltaInputs delta_inputs(const DeltaTensors& tensors, double scale);

enum class DeltaOutput : std::uint8_t { o, hT, dq, dk, dv, dbeta, dg, dh0 };
inline constexpr std::size_t kDeltaOutputCount = 8;
std::string_view name_of(DeltaOutput output);
std::optional<DeltaOutput> parse_delta_output(std::string_view name);

/// What a function did not compute is empty: a forward has no gradients, ungated no dg.
struct DeltaOutputs {
  std::vector<double> o{}, hT{};
  std::vector<double> dq{}, dk{}, dv{}, dbeta{}, dg{}, dh0{};

  std::vector<double>& operator[](DeltaOutput output);
  const std::vector<double>& operator[](DeltaOutput output) const;
};

/// o and hT by the definition above. THE reference: the oracle of every subject of this family.
DeltaOutputs recurrent_forward(const DeltaInputs& inputs);

/// All outputs. With D = dhT, for t = T..1:
///
///   D += s q_t do_t^T                    dq_t    = s S_t do_t
///   delta_t = D^T k_t                    dv_t    = beta_t delta_t
///   dk_t = D u_t - beta_t S~_t delta_t   dbeta_t = <delta_t, e_t>
///   D~ = D - beta_t k_t delta_t^T        dg_t    = <D~, S~_t>
///   D = alpha_t D~                       and dh0 = D after t = 1
///
/// States are recomputed from checkpoints: O(T DK DV) time, O(DK DV sqrt(T)) memory a thread.
DeltaOutputs recurrent_backward(const DeltaInputs& inputs);

/// Paths of the chunkwise adjoint. G: gates summed within the chunk, gamma = e^G_n, Gamma_ij =
/// e^(G_i - G_j), K^ = diag(e^(G_n - G)) K; h and h' the states before and after the chunk, dh' the
/// gradient of h'; dP = s tril(do v_new^T).
enum class DeltaTerm : std::uint8_t {
  dk_partial,      ///< (dP . Gamma)^T Q                                 in dK
  dk_corr,         ///< diag(e^(G_n - G)) v_new dh'^T                    in dK
  dk_wu,           ///< diag(beta . e^G) R_w                             in dK
  dk_A,            ///< diag(beta) E K + E^T diag(beta) K                in dK
  du_partial,      ///< s P^T do                                         in dU, and in what dU feeds
  du_corr,         ///< K^ dh'                                           in dU, and in what dU feeds
  dw_local,        ///< -du_partial h^T                                  in dW
  dw_cross,        ///< -du_corr h^T                                     in dW
  dh_local,        ///< s (diag(e^G) Q)^T do - W^T du_partial            in dh
  dh_coefficient,  ///< -W^T du_corr = -W^T K^ dh'                       in dh, beside gamma dh'
  dbeta_wu,        ///< rowsum(R_w . diag(e^G) K) + rowsum(R_v . V)      in dbeta
  dbeta_A,         ///< rowsum(E . K K^T)                                in dbeta
  dG_out,          ///< rowsum(diag(e^G) Q . s do h^T) + rowsum(dP . P) - colsum(dP . P)     in dG
  dG_state,        ///< -rho, rho = rowsum(K^ . v_new dh'^T); at n: + sum rho + gamma <dh', h>
  dG_wu,           ///< rowsum(R_w . B_w)                                in dG
  dG_A,            ///< rowsum(dM . M) - colsum(dM . M)                  in dG
};
inline constexpr std::size_t kDeltaTermCount = 16;
std::string_view name_of(DeltaTerm term);
std::optional<DeltaTerm> parse_delta_term(std::string_view name);

/// A set of terms.
class DeltaTermSet {
 public:
  constexpr DeltaTermSet() = default;
  constexpr DeltaTermSet(std::initializer_list<DeltaTerm> terms) {
    for (const DeltaTerm term : terms) bits_ |= bit(term);
  }
  constexpr bool contains(DeltaTerm term) const { return (bits_ & bit(term)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr DeltaTermSet operator|(DeltaTermSet other) const {
    DeltaTermSet both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }
  friend constexpr bool operator==(DeltaTermSet, DeltaTermSet) = default;

 private:
  static constexpr std::uint32_t bit(DeltaTerm term) {
    return std::uint32_t{1} << static_cast<std::uint32_t>(term);
  }
  std::uint32_t bits_ = 0;
};
/// "dk_A, dbeta_A, dG_A"
std::string to_string(DeltaTermSet terms);

/// A path that a kernel can lose as a whole, and the terms that vanish with it.
struct DeltaPath {
  std::string_view name;
  DeltaTermSet terms;
};
/// A_inv {dk_A, dbeta_A, dG_A}, dh_coefficient, dw_cross, du_corr, dk_corr; then the combinations
/// of the first three, named "A_inv+dh_coefficient", ..., "A_inv+dh_coefficient+dw_cross".
std::span<const DeltaPath> delta_paths();

/// The terms that a text names: a term, a path, or several of either joined by '+' or ','.
/// UsageError with the list of names otherwise.
DeltaTermSet parse_delta_terms(std::string_view text);

/// Formulas that are wrong in the way real kernels were.
enum class DeltaWrongForm : std::uint8_t {
  none,
  w_scaled_outside,        ///< W = diag(e^G) X diag(beta) K: e^G outside the (decayed) inverse
  w_scaled_outside_total,  ///< W = diag(e^(G + G_n)) X diag(beta) K
  no_reverse_cumsum,       ///< dg = dG
  gamma_twice,             ///< h' = gamma^2 h + K^^T v_new
  strict_tril,             ///< P without its diagonal
};
inline constexpr std::size_t kDeltaWrongFormCount = 6;
std::string_view name_of(DeltaWrongForm form);
std::optional<DeltaWrongForm> parse_delta_wrong_form(std::string_view name);

struct ChunkwiseOptions {
  std::int64_t chunk = 64;  ///< C >= 1; the last chunk may be shorter
  DeltaTermSet dropped{};   ///< terms left out of the adjoint
  DeltaWrongForm wrong = DeltaWrongForm::none;
  bool intermediates = false;  ///< keep them
};

/// What the algorithm computes on its way. N chunks of C rows; a row of a C-wide array is the
/// position in its own chunk, zero where the (shorter) chunk has no such column.
struct DeltaIntermediates {
  std::vector<double> G;           ///< [B, H, T] gates summed within the chunk
  std::vector<double> x;           ///< [B, H, T, C] rows of X = A^-1, A = I + M
  std::vector<double> w, u;        ///< [B, H, T, DK], [B, H, T, DV]
  std::vector<double> h;           ///< [B, H, N, DK, DV] state before each chunk
  std::vector<double> v_new;       ///< [B, H, T, DV] U - W h, equal to u_t of the recurrence
  std::vector<double> p;           ///< [B, H, T, C] rows of P = tril(Q K^T . Gamma)
  std::vector<double> dp;          ///< [B, H, T, C] rows of dP . Gamma
  std::vector<double> dh;          ///< [B, H, N, DK, DV] dh', gradient of the state after each
  std::vector<double> du, dw;      ///< [B, H, T, DV], [B, H, T, DK] dU, dW, all terms
  std::vector<double> r_v, r_w;    ///< [B, H, T, DV], [B, H, T, DK] X^T dU, X^T dW
  std::vector<double> dm;          ///< [B, H, T, C] rows of dM
  std::vector<double> du_partial;  ///< [B, H, T, DV]
};

struct ChunkwiseResult {
  DeltaOutputs outputs{};
  DeltaIntermediates intermediates{};  ///< empty arrays unless asked for; a forward: up to p
};

/// The chunkwise form. Of a chunk's rows (n <= C) and the incoming state h:
///
///   G_i = sum_{j<=i} g_j,  gamma = e^G_n,  Gamma_ij = e^(G_i - G_j) for i >= j (difference first)
///   M = slt(diag(beta) (K K^T . Gamma)),  A = I + M,  X = A^-1 by forward substitution
///   B_w = diag(beta . e^G) K,  B_v = diag(beta) V,  W = X B_w,  U = X B_v
///   v_new = U - W h,  P = tril(Q K^T . Gamma),  O = s (diag(e^G) Q h + P v_new)
///   K^ = diag(e^(G_n - G)) K,  h' = gamma h + K^^T v_new
ChunkwiseResult chunkwise_forward(const DeltaInputs& inputs, const ChunkwiseOptions& options);

/// Forward and adjoint, chunks last to first from dh' = dhT, with the terms above:
///
///   dU = du_partial + du_corr,  dW = dw_local + dw_cross,  R_w = X^T dW,  R_v = X^T dU
///   dh = dh_local + gamma dh' + dh_coefficient
///   dQ = s diag(e^G) do h^T + (dP . Gamma) K,  dV = diag(beta) R_v
///   dM = -slt(R_w W^T + R_v U^T),  E = dM . Gamma
///   dK, dbeta, dG: the sums of their terms;  dg_i = sum_{j >= i in the chunk} dG_j
ChunkwiseResult chunkwise_backward(const DeltaInputs& inputs, const ChunkwiseOptions& options);

/// What each missing path or term and each wrong form would do to `outputs`, in order. Effects:
/// terms expected - ablated, wrong forms wrong - expected; empty where exactly zero. Order:
/// delta_paths(), wrong forms, single terms. Without an effect and with the reason in `left_out`:
/// what has the same effect as one before it (with one chunk and no states, "A_inv+dw_cross" is
/// "A_inv"); all from the first on that would bring the values above `value_limit`. When `outputs`
/// holds no gradient only the forward is run, and there are no terms. Cost: one chunkwise run each.
std::vector<core::ErrorHypothesis> delta_hypotheses(const DeltaInputs& inputs, std::int64_t chunk,
                                                    std::span<const DeltaOutput> outputs,
                                                    std::int64_t value_limit = 1 << 25);

}  // namespace faultline::reference
