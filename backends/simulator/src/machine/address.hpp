// SPDX-License-Identifier: Apache-2.0
// Where the state spaces lie in the simulated 64-bit generic address space.
#pragma once

#include <cstdint>

namespace faultline::simulator {

// Global memory: device allocations, from here upwards.
inline constexpr std::uint64_t kGlobalBase = 0x0000'7000'0000'0000ull;
// Variables of modules (.global, .const).
inline constexpr std::uint64_t kVariableBase = 0x0000'7800'0000'0000ull;
// Shared memory of the executing CTA is window + offset. An offset with a CTA field, (rank + 1) <<
// 24, names the shared memory of that CTA of the cluster (PTX ISA, "mapa").
inline constexpr std::uint64_t kSharedWindow = 0x0001'0000'0000'0000ull;
inline constexpr std::uint32_t kSharedRankShift = 24;
inline constexpr std::uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;
// Local memory: window + offset in the thread's own frame.
inline constexpr std::uint64_t kLocalWindow = 0x0002'0000'0000'0000ull;
// Kernel parameters.
inline constexpr std::uint64_t kParamWindow = 0x0003'0000'0000'0000ull;
inline constexpr std::uint64_t kWindowEnd = 0x0004'0000'0000'0000ull;

}  // namespace faultline::simulator
