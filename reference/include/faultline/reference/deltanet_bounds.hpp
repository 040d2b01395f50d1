// SPDX-License-Identifier: Apache-2.0
// Per-element error bounds of the DeltaNet family: Monte Carlo arithmetic over a declared numeric
// plan, and the checks that the bounds have to pass before anybody may rely on them.
//
// A magnitude shadow pass is vacuous here: the recurrence cancels. So the chunkwise algorithm runs
// kBoundRuns times in fp32, rounding at the points where the kernel stores a value in a narrower
// dtype, up or down at random; equal values round alike within a run, as they do on the device.
// Against ref, the recurrence in double, and the twin y*, the same plan rounded to nearest:
//   m   = mean_r (y_r - ref)^2
//   s^2 = max(m, mean_tile m, mean_tile (y* - ref)^2) + (2^-22 RMS_row ref)^2
//   B   = 7 s
// tile = 16 x 16 elements, aligned (16 of a vector); row = one t (16 of a vector). `got` is
// accepted when it lies in [RN(ref - B), RN(ref + B)] (core/acceptance.hpp). Derivation and
// measurements: docs/tolerances.md, "DeltaNet".
//
// Bounds are equal bit for bit on every x86-64 machine, for any number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <faultline/core/dtype.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/deltanet.hpp>

namespace faultline::reference {

/// Where a DeltaNet kernel may round: a value that it stores, or feeds to a tensor core, in a dtype
/// narrower than the fp32 it was computed in. Symbols as in the chunkwise form: A = I + M,
/// X = A^-1, W = X B_w, U = X B_v, V~ = U - W h, P = tril(Q K^T . Gamma), O = s(Q^ h + P V~),
/// h' = gamma h + K^^T V~.
enum class RoundingPoint : std::uint8_t {
  gate,        ///< G, the sum of the gates inside a chunk
  decay,       ///< e^(G_i - G_j), e^G, e^(G_n - G), e^(G_n)
  m,           ///< M where a blocked inverse multiplies by it (inverse_block > 0)
  x_sum,       ///< the inner sums of a blocked inverse, sum_k M_ik X_kj
  x,           ///< X
  b_w,         ///< B_w = diag(beta e^G) K, or X diag(beta e^G) with inverse_scaled
  b_v,         ///< B_v = diag(beta) V, or X diag(beta) with inverse_scaled, or the residual
               ///< diag(beta)(V - e^G K h) with fused_v_new
  b_k,         ///< diag(beta) K, of dk_A; diag(beta) E with beta_on_e
  w,           ///< W
  u,           ///< U
  h,           ///< the chunk state as an operand
  v_new,       ///< V~
  p,           ///< P
  k_hat,       ///< K^ = diag(e^(G_n - G)) K, or diag(e^(G_n - G)) V~ with decay_on_v_new
  q_hat_o,     ///< Q^ = diag(e^G) Q as an operand of O; none: e^G scales the fp32 product Q h
  q_hat_dh,    ///< Q^ as an operand of dh_local; times the scale with scale_in_query;
               ///< diag(s e^G) dO, the product's other operand, with decay_on_gradient
  dp,          ///< dP . Gamma
  du_partial,  ///< s P^T dO
  dh,          ///< the gradient of the outgoing state as an operand
  du,          ///< dU = du_partial + du_corr
  dw,          ///< dW, or each of dW_local and dw_cross with dw_in_pieces
  r,           ///< R_w = X^T dW and R_v = X^T dU as operands of dM
  e,           ///< E = dM . Gamma
  dk_piece,    ///< dk_partial + dk_corr, dk_wu and dk_A, where each is stored before their sum
  dq_piece,    ///< s e^G dO h^T and (dP . Gamma) K, where each is stored before their sum
  transition,  ///< the transition of a segment of chunks as an operand (segment_chunks > 0)
  transition_product,  ///< W times the transition, as an operand
  carry,               ///< the states of the segments' ends, as operands of the scan over segments
  state,               ///< the running h and dh between chunks; none: fp32 registers
  output,   ///< the sums that become outputs; their storage is part of acceptance, not of this
  row_sum,  ///< dbeta and dg: sums in fp32 whose parts may nearly cancel, as rowsum(Q . dQ) -
            ///< rowsum(K . dK) does; f32 perturbs them by the rounding of what was summed
};
inline constexpr std::size_t kRoundingPointCount = 31;
std::string_view name_of(RoundingPoint point);

/// The grid that a point rounds to.
enum class Grid : std::uint8_t {
  none,  ///< stays in fp32, where it was computed
  f16,
  bf16,
  tf32,
  f32,  ///< stored in fp32 too, but the kernel's order of summation is not ours: a random
        ///< perturbation as large as the rounding of a sum of 64 products
};
std::string_view name_of(Grid grid);
Grid grid_of(core::Dtype dtype);  ///< f16, bf16, f32; UsageError for f64

/// The numeric plan of one kernel: where it rounds. Plain data; kernels declare theirs beside their
/// launch code, starting from stored_in().
struct DeltaNumerics {
  core::Dtype dtype = core::Dtype::f16;  ///< of q, k, v, beta, do and of o, dq, dk, dv
  int chunk = 64;                        ///< C
  std::array<Grid, kRoundingPointCount> points{};

  /// Rows of the diagonal blocks of the inverse that are solved in fp32; the blocks below them are
  /// X_ij = -X_ii sum_k M_ik X_kj with operands rounded at m, x and x_sum. 0: all of X by fp32
  /// substitution.
  int inverse_block = 0;
  /// W = (X diag(beta e^G)) K, U = (X diag(beta)) V from X in fp32: it is rounded with its factors,
  /// at b_w and b_v, and at x for the backward alone. Not with fused_v_new.
  bool inverse_scaled = false;
  bool fused_v_new = false;        ///< V~ = X diag(beta)(V - e^G K h): no W, U on that path
  bool decay_on_v_new = false;     ///< h' = gamma h + K^T (diag(e^(G_n - G)) V~)
  bool scale_in_query = false;     ///< q_hat holds the scale
  bool decay_on_gradient = false;  ///< dh_local = Q^T (diag(s e^G) dO)
  bool beta_on_e = false;          ///< dk_A = diag(beta) E K + (diag(beta) E)^T K
  bool dw_in_pieces = false;       ///< dW_local and dw_cross each rounded at dw
  bool r_w_from_r_v = false;       ///< R_w = -R_v h^T with R_v rounded at r, no dW
  /// dG_out from dP . Gamma as rounded at dp, dbeta_A and dG_A from E as rounded at e, <dh', h> of
  /// dG_state from dh' as rounded at dh.
  bool sums_from_operands = false;
  /// Chunks of a segment when the states are found by a scan over segments, each represented by a
  /// DK x DK transition and a local state; 0: one serial pass.
  int segment_chunks = 0;
  /// The same for the gradient of the state, on its way back: the last segment starts from dhT, a
  /// transition is rounded at carry without its gamma I, which multiplies in fp32. 0: one pass.
  int backward_segment_chunks = 0;

  Grid at(RoundingPoint point) const { return points[static_cast<std::size_t>(point)]; }
  DeltaNumerics& set(RoundingPoint point, Grid grid) {
    points[static_cast<std::size_t>(point)] = grid;
    return *this;
  }
  /// Every operand of a product rounds to the grid of `dtype`; gates, decays, running states, the
  /// scan and the sums stay in fp32, and pieces are added before they are stored. An f32 plan
  /// perturbs all of them by the roundings of fp32 sums instead (Grid::f32).
  static DeltaNumerics stored_in(core::Dtype dtype, int chunk = 64);
  friend bool operator==(const DeltaNumerics&, const DeltaNumerics&) = default;
};
/// "f16 C=64 x:f16 b_w:f16 ...", points that round nowhere left out: equal for equal plans.
std::string to_string(const DeltaNumerics& numerics);

inline constexpr int kBoundRuns = 32;
inline constexpr double kBoundLambda = 7.0;
/// The twin must stay within this part of the bound made without it.
inline constexpr double kTwinLimit = 0.85;
/// The two forms of the reference must agree to this part of the largest element.
inline constexpr double kFormsAgree = 1e-12;
/// RMS s above this part of RMS ref is worth a warning.
inline constexpr double kWideBound = 0.05;

/// A tensor of which a null output fails at fewer than this share of the elements that it gets
/// wrong is blind: a defect that moves a tenth of a tensor at random would go unseen in most of it.
inline constexpr double kSeenShare = 0.1;

/// What is known about the bound of one output or intermediate.
struct BoundFigures {
  std::string name{};  ///< "dk"
  std::int64_t elements = 0;
  double relative_scale = 0.0;    ///< RMS s / RMS ref; 0 where ref is exactly 0
  double twin_ratio = 0.0;        ///< worst |y* - ref| over 7 s, s without the twin's floor
  std::int64_t twin_index = -1;   ///< where
  std::int64_t not_finite = 0;    ///< elements whose s is infinite or NaN
  double forms_difference = 0.0;  ///< max |recurrence - chunkwise| / max |recurrence|
  bool zero_reference = false;    ///< ref is 0 everywhere: 0 is the right answer
  /// Of the elements that a null output gets wrong, the share at which it would fail: of an
  /// all-zero output, and of the reference moved by one element. 1 where it gets none wrong.
  double rejects_zero = 1.0, rejects_shuffled = 1.0;

  bool unsound() const { return !(twin_ratio <= kTwinLimit); }
  /// A null output would pass, or all but: the tensor is below the plan's rounding (behind strong
  /// gates, say). Its bound is right, and being inside it is no evidence.
  bool blind() const { return rejects_zero < kSeenShare || rejects_shuffled < kSeenShare; }
  bool wide() const { return !(relative_scale <= kWideBound); }
};

/// The self-checks of a set of bounds. A run is inconclusive (bound_unsound, bound_vacuous) unless
/// usable(): every bound finite and sound, the two forms of the reference in agreement, and at
/// least one output that the null outputs fail. Where a bound is unsound or not finite all bounds
/// of that tensor are infinite, so that no comparison can accept an element of it
/// (ElementClass::no_reference). Blind tensors are for the report to name.
struct BoundReport {
  std::vector<BoundFigures> outputs{};        ///< in the order of DeltaBounds::outputs
  std::vector<BoundFigures> intermediates{};  ///< in the order of DeltaBounds::intermediates
  double forms_difference = 0.0;              ///< worst of the outputs; the two forms must agree

  bool usable() const;
  /// One sentence for each thing wrong or worth saying; empty when there is nothing.
  std::vector<std::string> sentences() const;
};

/// Reference and bound of one tensor.
struct NamedReference {
  std::string name{};
  core::ReferenceTensor values{};
};

/// What to bound.
struct BoundRequest {
  bool backward = false;       ///< the gradients, else o and hT alone
  bool intermediates = false;  ///< those of DeltaBounds::intermediates
  std::uint64_t seed = 1;      ///< of the stochastic rounding; any value gives a valid bound
  int threads = 0;             ///< 0: one per core
};

/// References and bounds, in the layouts of DeltaOutputs and DeltaIntermediates, where the names
/// are explained. Outputs: o, hT; with backward dq, dk, dv, dbeta, dg (if gated) and dh0 after
/// them. Intermediates: x, w, u, h, v_new, p; with backward dp, du_partial, dh, du, dw, r_w, r_v,
/// dm after them. An intermediate's bound is that of the value before its own rounding, as
/// acceptance expects.
struct DeltaBounds {
  std::vector<NamedReference> outputs{};
  std::vector<NamedReference> intermediates{};
  BoundReport report{};

  /// The tensor of that name, among the outputs and then the intermediates. UsageError when absent.
  const core::ReferenceTensor& at(std::string_view name) const;
};

/// References and bounds of a kernel with that numeric plan. Cost: about ten references at T = 1024
/// (bench/reference). UsageError when the inputs' shapes do not fit or the plan is out of range.
DeltaBounds delta_bounds(const DeltaInputs& inputs, const DeltaNumerics& numerics,
                         const BoundRequest& request = {});

/// References and bounds by (problem, inputs, plan), so that variants and configs that share them
/// compute them once. Holds at most `byte_budget` bytes, the least recently used go first; a result
/// larger than that is returned and not kept. Thread-safe; concurrent requests for one key compute
/// once.
class DeltaBoundCache {
 public:
  explicit DeltaBoundCache(std::size_t byte_budget);
  ~DeltaBoundCache();
  DeltaBoundCache(const DeltaBoundCache&) = delete;
  DeltaBoundCache& operator=(const DeltaBoundCache&) = delete;

  /// delta_bounds(inputs, numerics, request), computed at most once while it is kept. The key is
  /// the inputs' shapes, bytes and scale, the plan, and the request less its threads.
  std::shared_ptr<const DeltaBounds> get(const DeltaInputs& inputs, const DeltaNumerics& numerics,
                                         const BoundRequest& request = {});

  struct Statistics {
    std::uint64_t hits = 0, misses = 0, evictions = 0;
    std::size_t bytes = 0, entries = 0;
  };
  Statistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// The cache of the process, 512 MiB.
DeltaBoundCache& delta_bound_cache();

}  // namespace faultline::reference
