// SPDX-License-Identifier: Apache-2.0
#include "decode.hpp"

#include <faultline/core/dtype.hpp>
#include <faultline/core/stop.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace faultline::reference {

namespace {

/// Value of every f16 pattern; exact in float.
const std::array<float, 65536>& half_values() {
  static const std::array<float, 65536> values = [] {
    std::array<float, 65536> table;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      table[bits] = static_cast<float>(core::decode(core::Dtype::f16, bits));
    }
    return table;
  }();
  return values;
}

template <typename Raw, typename Decode>
void decode_raw(const core::Tensor& tensor, std::int64_t first, std::int64_t count,
                double* destination, Decode&& decode) {
  const std::byte* source = tensor.bytes.data() + static_cast<std::size_t>(first) * sizeof(Raw);
  for (std::int64_t i = 0; i < count; ++i) {
    Raw raw;
    std::memcpy(&raw, source + static_cast<std::size_t>(i) * sizeof(Raw), sizeof raw);
    destination[i] = decode(raw);
  }
}

}  // namespace

void decode_range(const core::Tensor& tensor, std::int64_t first, std::int64_t count,
                  double* destination) {
  switch (tensor.dtype) {
  case core::Dtype::f16: {
    const std::array<float, 65536>& values = half_values();
    decode_raw<std::uint16_t>(tensor, first, count, destination,
                              [&](std::uint16_t raw) { return static_cast<double>(values[raw]); });
    return;
  }
  case core::Dtype::bf16:
    decode_raw<std::uint16_t>(tensor, first, count, destination, [](std::uint16_t raw) {
      return static_cast<double>(core::float_of(static_cast<std::uint32_t>(raw) << 16));
    });
    return;
  case core::Dtype::f32:
    decode_raw<float>(tensor, first, count, destination,
                      [](float raw) { return static_cast<double>(raw); });
    return;
  case core::Dtype::f64:
    decode_raw<double>(tensor, first, count, destination, [](double raw) { return raw; });
    return;
  }
}

void parallel_ranges(std::int64_t count, double cost,
                     const std::function<void(std::int64_t, std::int64_t)>& work) {
  constexpr double kWorthAThread = 1 << 22;  // about 4 ms of work
  const std::int64_t wanted = static_cast<std::int64_t>(cost / kWorthAThread);
  const std::int64_t available = std::max(1u, std::thread::hardware_concurrency());
  if (count <= 0) {
    return;
  }
  const std::int64_t threads = std::clamp<std::int64_t>(std::min(wanted, available), 1, count);
  if (threads == 1) {
    work(0, count);
    return;
  }
  std::mutex mutex;
  std::exception_ptr first_error;
  const std::atomic<bool>* stop = core::StopScope::current();
  const auto guarded = [&](std::int64_t begin, std::int64_t end) {
    const core::StopScope scope(stop);
    try {
      work(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) {
        first_error = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> workers;
  for (std::int64_t t = 0; t < threads; ++t) {
    workers.emplace_back(guarded, count * t / threads, count * (t + 1) / threads);
  }
  workers.clear();  // joins
  if (first_error) {
    std::rethrow_exception(first_error);
  }
}

}  // namespace faultline::reference
