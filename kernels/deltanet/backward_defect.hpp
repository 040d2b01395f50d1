// SPDX-License-Identifier: Apache-2.0
// The mutants of the backward.
#pragma once

#include <faultline/core/hd.hpp>

namespace faultline::kernels::deltanet {

/// What a mutant leaves out; each is one `lacks(...)` of the kernel named. The first four are from
/// a public kernel, ported from a gated form whose decay had hidden them; they show from one chunk
/// on when it is entered by a state and left by a gradient, as missing_term.
enum class BackwardDefect {
  none,
  a_inv,              ///< gradients: dk_A, dbeta_A, dG_A, what flows through X = A^-1
  dh_coefficient,     ///< state: -W^T K^ dh' in dh; the coefficient is then gamma I
  dw_cross,           ///< gradients: -du_corr h^T in dW
  all_three,          ///< a_inv, dh_coefficient and dw_cross
  du_corr,            ///< state: K^ dh' in dU, and so in dW and dh
  dk_corr,            ///< gradients: diag(e^(G_n - G)) v_new dh'^T in dK
  no_reverse_cumsum,  ///< gradients: the sum from behind, dg = dG; shows as wrong_term
};

FAULTLINE_HD constexpr bool lacks(BackwardDefect defect, BackwardDefect path) {
  const bool famous = path == BackwardDefect::a_inv || path == BackwardDefect::dh_coefficient ||
                      path == BackwardDefect::dw_cross;
  return defect == path || (defect == BackwardDefect::all_three && famous);
}

}  // namespace faultline::kernels::deltanet
