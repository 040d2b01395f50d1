// SPDX-License-Identifier: Apache-2.0
// Programs: what a subject does on a device, as data. Either backend runs them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "faultline/core/dtype.hpp"
#include "faultline/core/module.hpp"

namespace faultline::core {

using OperationId = std::uint32_t;
using StreamId = std::uint32_t;  ///< logical stream; 0 is the default one
using EventId = std::uint32_t;

/// Index into the program's bindings (the subject's buffers in their declared order, then what the
/// caller adds).
struct BufferArgument {
  std::uint32_t buffer = 0;
  std::uint64_t byte_offset = 0;
  friend bool operator==(const BufferArgument&, const BufferArgument&) = default;
};

/// A scalar passed by value: `size` low bytes of `bits`.
struct ScalarArgument {
  std::uint64_t bits = 0;
  std::uint32_t size = 4;
  friend bool operator==(const ScalarArgument&, const ScalarArgument&) = default;
};
ScalarArgument scalar(std::int32_t value);
ScalarArgument scalar(std::int64_t value);
ScalarArgument scalar(float value);
ScalarArgument scalar(double value);

/// A 128-byte tensor map built by the backend: CUDA's encoder on a device, our own on the
/// simulator. dims[0] is the innermost extent in elements; strides_bytes[i] is the stride of
/// dimension i + 1.
struct TensorMapArgument {
  enum class Swizzle : std::uint8_t { none, bytes_32, bytes_64, bytes_128 };
  std::uint32_t buffer = 0;
  std::uint64_t byte_offset = 0;
  Dtype dtype = Dtype::f32;
  std::uint32_t rank = 2;
  std::array<std::uint64_t, 5> dims{};
  std::array<std::uint64_t, 4> strides_bytes{};
  std::array<std::uint32_t, 5> box{};
  Swizzle swizzle = Swizzle::none;
  friend bool operator==(const TensorMapArgument&, const TensorMapArgument&) = default;
};

using Argument = std::variant<BufferArgument, ScalarArgument, TensorMapArgument>;

struct LaunchOperation {
  ModuleRef module{};
  std::string entry{};
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<Argument> arguments{};
  /// The host builds and loads the module anew before this launch, as a dispatch layer without a
  /// cache does.
  bool reload_module = false;
};
struct CopyOperation {
  BufferArgument destination{}, source{};
  std::uint64_t bytes = 0;
};
struct FillOperation {
  BufferArgument destination{};
  std::uint64_t bytes = 0;
  std::uint32_t word = 0;  ///< 32-bit pattern
};
struct EventRecordOperation {
  EventId event = 0;
};
struct EventWaitOperation {
  EventId event = 0;
};
/// Arbitrary host work between launches; must not touch the device.
struct HostStepOperation {
  std::string name{};
  std::function<void()> step{};
};
struct CaptureBeginOperation {
  std::uint32_t graph = 0;
};
struct CaptureEndOperation {
  std::uint32_t graph = 0;
};
/// Replay a captured graph; arguments of its launches stay those of capture time unless listed.
struct ReplayOperation {
  std::uint32_t graph = 0;
  std::vector<std::pair<OperationId, std::vector<Argument>>> changed_arguments{};
};

struct Operation {
  OperationId id = 0;
  StreamId stream = 0;
  std::variant<LaunchOperation, CopyOperation, FillOperation, EventRecordOperation,
               EventWaitOperation, HostStepOperation, CaptureBeginOperation, CaptureEndOperation,
               ReplayOperation>
      what;
};

/// Operations in issue order. Ids are unique; perturbations attach to them.
struct Program {
  std::string name{};
  std::vector<Operation> operations{};
  /// The device that a stream belongs to, for programs of several devices; 0 where it is not
  /// listed. Buffers are visible to all of them. A backend that drives one device refuses others.
  std::map<StreamId, std::uint32_t> devices{};

  OperationId add(decltype(Operation::what) what, StreamId stream = 0);
};

/// Programs run one after another over buffers and caches that persist between them.
struct Session {
  std::vector<Program> programs{};
};

}  // namespace faultline::core
