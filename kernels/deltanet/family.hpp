// SPDX-License-Identifier: Apache-2.0
// What the subjects of the DeltaNet family share: their problems, how a problem's regimes become
// input distributions, their buffers, and the glue to the references.
//
//   q, k [B, H, T, DK]   v, o, do [B, H, T, DV]   beta, g [B, H, T]
//   h0, hT, dh0, dhT [B, H, DK, DV]
//
// q, k, v, do, beta and o are of the problem's dtype; g and the states are fp32. The decode
// subjects have no t: T is 1 there, and their vectors lack that extent.
#pragma once

#include <faultline/core/problem.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/deltanet.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::reference {
struct DeltaBounds;
}

namespace faultline::kernels::deltanet {

struct Extents {
  std::int64_t b = 1, h = 1, t = 1, dk = 64, dv = 64;
  std::int64_t heads() const { return b * h; }
  std::int64_t chunks(std::int64_t chunk) const { return (t + chunk - 1) / chunk; }
};
Extents extents_of(const core::Problem& problem);

/// The factor of o as the kernel gets it: `auto` is DK^-1/2, rounded to fp32.
float scale_of(const core::Problem& problem);

struct DomainOptions {
  bool gated = false;
  bool decode = false;  ///< without t
};
/// b, h, [t,] dk, dv, dtype, scale, keys, beta, [gate,] states.
core::Domain problem_domain(const DomainOptions& options);

/// Shapes around what the kernels' loops depend on, each regime, dtype and chunk boundary at least
/// once. T = 1, below, at and one beyond a chunk; 1, 2, 3 and more chunks; DK != DV.
std::vector<core::Problem> sequence_verify_problems(const std::string& subject, bool gated,
                                                    bool small);
/// B = 2, H = 4; T = 2048 to 16384; D = 64 and 128; f16 and bf16.
std::vector<core::Problem> sequence_bench_problems(const std::string& subject, bool gated);

/// A buffer that the family's mathematics names, with shape and dtype: q k v beta g h0 do dhT as
/// inputs with the distribution of the problem's regime; o hT dq dk dv dbeta dg dh0 as outputs in
/// tiles of `chunk` rows (states: 16 rows). UsageError for any other name.
core::BufferSpec family_buffer(const core::Problem& problem, std::string_view name,
                               std::int64_t chunk);

/// A workspace of that shape, cut into tiles for comparison as an intermediate: the last extent is
/// the tile's columns, `tile_rows` rows of the array flattened to two dimensions its rows; what a
/// tile is, `tile_axis` says (empty: so many rows). The first two extents are B and H: tiles are
/// counted within a head where a head has whole tiles.
core::BufferSpec workspace_buffer(std::string name, core::Dtype dtype, core::Shape shape,
                                  std::int64_t tile_rows, std::string tile_axis = "");

/// Position of the buffer of that name. UsageError when there is none.
std::uint32_t index_of(const std::vector<core::BufferSpec>& buffers, std::string_view name);

/// Inputs of a trial (in buffer order, inputs only) as the reference takes them, by buffer name.
reference::DeltaInputs inputs_of(const std::vector<core::BufferSpec>& buffers,
                                 const std::vector<core::Tensor>& inputs, float scale);

/// The tensors of those names, outputs or intermediates, in that order.
std::vector<core::ReferenceTensor> references_of(const reference::DeltaBounds& bounds,
                                                 const std::vector<std::string>& names);

/// What the bounds say against themselves, of the outputs of those names.
std::vector<core::ReferenceNote> notes_of(const reference::DeltaBounds& bounds,
                                          const std::vector<std::string>& names);

/// Names of the buffers at `indices`.
std::vector<std::string> names_of(const std::vector<core::BufferSpec>& buffers,
                                  const std::vector<std::uint32_t>& indices);

/// Bytes of all inputs and outputs, each once.
double traffic_bytes_of(const std::vector<core::BufferSpec>& buffers);

}  // namespace faultline::kernels::deltanet
