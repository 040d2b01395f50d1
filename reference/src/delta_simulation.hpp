// SPDX-License-Identifier: Apache-2.0
// One head of a DeltaNet kernel, simulated in fp32: the chunkwise form, rounding wherever the
// numeric plan says that the kernel does. Monte Carlo runs and the nearest twin are calls of the
// same code.
#pragma once

#include "float_matrix.hpp"
#include "stochastic_rounding.hpp"

#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace faultline::reference {

/// Intermediates in the order of DeltaBounds::intermediates.
enum class Intermediate : std::uint8_t {
  x,
  w,
  u,
  h,
  v_new,
  p,
  dp,
  du_partial,
  dh,
  du,
  dw,
  r_w,
  r_v,
  dm,
};
inline constexpr std::size_t kIntermediateCount = 14;
inline constexpr std::size_t kForwardIntermediateCount = 6;  ///< x .. p
std::string_view name_of(Intermediate intermediate);
std::vector<double>& array_of(DeltaIntermediates& all, Intermediate intermediate);

/// Inputs of one head in fp32, which holds every value of q, k, v, beta and do exactly.
struct SimulatedInputs {
  std::int64_t t = 0, dk = 0, dv = 0;
  float scale = 1.0f;
  bool gated = false, backward = false;
  FloatMatrix q, k, v, d_o;  // [t, dk], [t, dk], [t, dv], [t, dv]
  FloatMatrix h0, dhT;       // [dk, dv]
  std::vector<float> beta, g;

  SimulatedInputs(const DeltaInputs& inputs, std::int64_t head, bool backward);
};

/// What depends on the inputs alone unless the plan rounds gates or decays. Row t of a [t, C]
/// matrix is that of its chunk.
struct ChunkFactors {
  std::vector<float> decay_in;   // e^G [t]
  std::vector<float> decay_out;  // e^(G_n - G) [t]
  std::vector<float> gamma;      // e^G_n [chunks]
  FloatMatrix ratio;             // Gamma [t, C], lower triangle; empty: ungated, all ones
  FloatMatrix kk;                // K K^T [t, C], lower triangle
  FloatMatrix m;                 // M [t, C]
  FloatMatrix x;                 // A^-1 by substitution in fp32 [t, C]
  FloatMatrix p;                 // P before rounding [t, C]
};

/// What a run gives. Vectors over t are matrices of one row.
struct SimulatedOutputs {
  std::array<FloatMatrix, kDeltaOutputCount> outputs;         // by DeltaOutput
  std::array<FloatMatrix, kIntermediateCount> intermediates;  // before rounding; empty: not kept
};

class DeltaSimulation {
 public:
  /// `inputs` must outlive the simulation.
  DeltaSimulation(SimulatedInputs& inputs, const DeltaNumerics& numerics, bool intermediates);

  /// The result is valid until the next run. Not for concurrent use: one simulation a thread.
  SimulatedOutputs& run(const Rounding& rounding);

 private:
  struct Chunk {
    std::int64_t index, first, rows;
  };
  Chunk chunk(std::int64_t index) const;
  std::int64_t segment_of(std::int64_t chunk) const { return chunk / numerics_.segment_chunks; }

  void find_factors(const Rounding& rounding);
  void invert(const Chunk& c);
  void invert_in_blocks(const Chunk& c);
  void find_wy(const Chunk& c);
  void perturb_products(const Chunk& c);
  void find_v_new(const Chunk& c, FloatView state);
  void advance_state(const Chunk& c, FloatView state, FloatView values, bool subtract);
  void scan_forward();
  void forward_chunk(const Chunk& c);
  void find_du(const Chunk& c, FloatView gradient);
  void retreat_gradient(const Chunk& c, FloatView gradient);
  void scan_backward();
  void backward_chunk(const Chunk& c);
  void find_gate_gradient(const Chunk& c, FloatView e_rounded);
  void perturb_by_rounding_of(const std::vector<float>& summed, float* values,
                              std::int64_t count) const;
  void perturb_gate_sums(const Chunk& c, FloatView e_rounded, FloatView gradient, float* dg);

  void round(RoundingPoint point, FloatView source, FloatView destination) const;
  void round(RoundingPoint point, FloatView values) const { round(point, values, values); }
  void keep(Intermediate which, std::int64_t first_row, FloatView values);

  SimulatedInputs& in_;
  const DeltaNumerics numerics_;
  const bool keep_intermediates_;
  const std::int64_t chunks_;
  const bool factors_vary_;
  bool factors_found_ = false;
  const Rounding* rounding_ = nullptr;

  ChunkFactors factors_;
  SimulatedOutputs out_;
  // Stored by the forward, rounded as the kernel stores them.
  FloatMatrix x_, p_;                                      // [t, C]
  FloatMatrix w_, k_hat_;                                  // [t, dk]
  FloatMatrix u_, v_new_;                                  // [t, dv]
  FloatMatrix h_;                                          // [chunks * dk, dv]
  FloatMatrix du_partial_;                                 // [t, dv]
  FloatMatrix state_, next_;                               // [dk, dv] running h or dh
  std::vector<FloatMatrix> segment_states_, transitions_;  // of a scan over segments
  std::vector<FloatMatrix> gradient_states_;               // of the one on the way back
  // Scratch of one chunk.
  FloatMatrix by_key_[6];    // [C, dk]
  FloatMatrix by_value_[6];  // [C, dv]
  FloatMatrix square_[6];    // [C, C]
  FloatMatrix operand_;      // [dk, dv]
  FloatMatrix transition_operand_;
  std::vector<float> scratch_;
};

}  // namespace faultline::reference
