// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/program.hpp"

#include <algorithm>

namespace faultline::core {

ScalarArgument scalar(std::int32_t value) {
  return {static_cast<std::uint64_t>(static_cast<std::uint32_t>(value)), 4};
}
ScalarArgument scalar(std::int64_t value) { return {static_cast<std::uint64_t>(value), 8}; }
ScalarArgument scalar(float value) { return {bits_of(value), 4}; }
ScalarArgument scalar(double value) { return {bits_of(value), 8}; }

OperationId Program::add(decltype(Operation::what) what, StreamId stream) {
  OperationId id = 0;
  for (const Operation& operation : operations) {
    id = std::max(id, operation.id + 1);
  }
  operations.push_back({id, stream, std::move(what)});
  return id;
}

}  // namespace faultline::core
