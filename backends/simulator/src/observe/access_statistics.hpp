// SPDX-License-Identifier: Apache-2.0
// How well warps use the memory system, per instruction: global sectors and shared bank passes.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "faultline/core/execution.hpp"
#include "observe/observer.hpp"

namespace faultline::simulator {

class AccessStatisticsCollector final : public Observer {
 public:
  void begin(std::shared_ptr<const Program> program);
  std::vector<core::AccessStatistics> finish();
  void on_access(const AccessEvent& event) override;

 private:
  struct Counts {
    std::uint64_t requests = 0, sectors = 0, ideal = 0, lanes = 0, distinct = 0;
    std::map<std::int64_t, std::uint64_t> strides;
    bool shared = false, write = false;
  };
  std::shared_ptr<const Program> program_;
  std::map<std::uint32_t, Counts> by_site_;
};

// The source position of a site, innermost first, then what it was inlined into.
std::vector<core::SourceLocation> source_chain(const Program& program, std::uint32_t site);

// The innermost position of the chain in a source of the module's own (not a toolkit header).
core::SourceLocation own_location(const Program& program, std::uint32_t site);

}  // namespace faultline::simulator
