// SPDX-License-Identifier: Apache-2.0
// Matrices for the references of the catalogue, and the bound of sums that may be exact.
#pragma once

#include <faultline/core/tensor.hpp>
#include <faultline/reference/gemv_bound.hpp>

#include <Eigen/Core>

namespace faultline::kernels::catalogue {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A tensor of rank 1 (as one row) or 2.
RowMajor matrix(const core::Tensor& tensor);

/// The largest power of two of which every element is an integer multiple; 1 for zeros only.
double granularity(const RowMajor& values);

/// Bound of a sum in fp32 of terms that are integer multiples of `unit`, a power of two;
/// magnitude = sum |term|. Up to 2^24 units every partial sum of every order is an fp32 number:
/// nothing rounds, and the bound is 0. Beyond: `general`.
double sum_bound(const reference::GemvBound& general, double unit, double magnitude);

}  // namespace faultline::kernels::catalogue
