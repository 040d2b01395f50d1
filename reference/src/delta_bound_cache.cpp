// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_bounds.hpp>

#include <faultline/core/generator.hpp>

#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace faultline::reference {

namespace {

/// 128-bit hash of everything a result depends on. Not cryptographic; two of a campaign's inputs
/// collide with probability 2^-128 a pair.
class Key {
 public:
  Key(const DeltaInputs& inputs, const DeltaNumerics& numerics, const BoundRequest& request) {
    const DeltaShape& s = inputs.shape;
    for (const std::int64_t extent : {s.b, s.h, s.t, s.dk, s.dv}) {
      add(static_cast<std::uint64_t>(extent));
    }
    add(core::bits_of(inputs.scale));
    for (const std::vector<double>* values : {&inputs.q, &inputs.k, &inputs.v, &inputs.beta,
                                              &inputs.g, &inputs.h0, &inputs.d_o, &inputs.dhT}) {
      add(values->size());
      for (const double x : *values) {
        add(core::bits_of(x));
      }
    }
    add(static_cast<std::uint64_t>(numerics.dtype));
    add(static_cast<std::uint64_t>(numerics.chunk));
    for (const Grid grid : numerics.points) {
      add(static_cast<std::uint64_t>(grid));
    }
    add(static_cast<std::uint64_t>(numerics.inverse_block));
    add(static_cast<std::uint64_t>(numerics.segment_chunks));
    add(static_cast<std::uint64_t>(numerics.backward_segment_chunks));
    for (const bool flag : {numerics.inverse_scaled, numerics.fused_v_new, numerics.decay_on_v_new,
                            numerics.scale_in_query, numerics.decay_on_gradient, numerics.beta_on_e,
                            numerics.dw_in_pieces, numerics.r_w_from_r_v,
                            numerics.sums_from_operands, request.backward, request.intermediates}) {
      add(flag);
    }
    add(request.seed);
  }

  friend auto operator<=>(const Key&, const Key&) = default;

 private:
  void add(std::uint64_t word) {
    first_ = core::mix64(first_ ^ word) + 0x9e3779b97f4a7c15ull;
    second_ = core::mix64(second_ + word * 0xd1342543de82ef95ull) ^ 0x632be59bd9b4e019ull;
  }

  std::uint64_t first_ = 1, second_ = 2;
};

std::size_t bytes_of(const DeltaBounds& bounds) {
  std::size_t bytes = sizeof bounds;
  for (const std::vector<NamedReference>* all : {&bounds.outputs, &bounds.intermediates}) {
    for (const NamedReference& reference : *all) {
      bytes += sizeof reference + sizeof(BoundFigures) +
               sizeof(double) * (reference.values.expected.size() + reference.values.bound.size());
    }
  }
  return bytes;
}

}  // namespace

struct DeltaBoundCache::State {
  struct Entry {
    Key key;
    std::shared_ptr<const DeltaBounds> value;
    std::size_t bytes;
  };

  explicit State(std::size_t budget_) : budget(budget_) {}

  const std::size_t budget;
  mutable std::mutex mutex;
  std::condition_variable computed;
  std::list<Entry> entries;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> found;
  std::set<Key> in_progress;  // being computed by some thread
  Statistics statistics;

  void insert(const Key& key, std::shared_ptr<const DeltaBounds> value) {
    const std::size_t bytes = bytes_of(*value);
    if (bytes > budget) {
      return;
    }
    while (statistics.bytes + bytes > budget) {
      statistics.bytes -= entries.back().bytes;
      found.erase(entries.back().key);
      entries.pop_back();
      ++statistics.evictions;
    }
    entries.push_front({key, std::move(value), bytes});
    found[key] = entries.begin();
    statistics.bytes += bytes;
  }
};

DeltaBoundCache::DeltaBoundCache(std::size_t byte_budget)
    : state_(std::make_unique<State>(byte_budget)) {}
DeltaBoundCache::~DeltaBoundCache() = default;

std::shared_ptr<const DeltaBounds> DeltaBoundCache::get(const DeltaInputs& inputs,
                                                        const DeltaNumerics& numerics,
                                                        const BoundRequest& request) {
  const Key key(inputs, numerics, request);
  State& state = *state_;
  {
    std::unique_lock lock(state.mutex);
    state.computed.wait(lock, [&] { return !state.in_progress.contains(key); });
    if (const auto at = state.found.find(key); at != state.found.end()) {
      state.entries.splice(state.entries.begin(), state.entries, at->second);
      ++state.statistics.hits;
      return at->second->value;
    }
    ++state.statistics.misses;
    state.in_progress.insert(key);
  }
  std::shared_ptr<const DeltaBounds> value;
  std::exception_ptr error;
  try {
    value = std::make_shared<const DeltaBounds>(delta_bounds(inputs, numerics, request));
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(state.mutex);
    state.in_progress.erase(key);
    if (value != nullptr) {
      state.insert(key, value);
    }
  }
  state.computed.notify_all();
  if (error) {
    std::rethrow_exception(error);
  }
  return value;
}

DeltaBoundCache::Statistics DeltaBoundCache::statistics() const {
  const std::lock_guard lock(state_->mutex);
  Statistics statistics = state_->statistics;
  statistics.entries = state_->entries.size();
  return statistics;
}

DeltaBoundCache& delta_bound_cache() {
  static DeltaBoundCache cache(std::size_t{512} << 20);
  return cache;
}

}  // namespace faultline::reference
