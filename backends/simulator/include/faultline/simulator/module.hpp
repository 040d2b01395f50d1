// SPDX-License-Identifier: Apache-2.0
// PTX text as nvcc -ptx writes it, ready to be launched on a simulated Device.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::simulator {

namespace ptx {
struct Source;
struct Function;
}  // namespace ptx

/// The text is not PTX that this parser understands: `file:line: what`.
class ParseError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One parameter of an entry, at its offset in the packed parameter bytes.
struct EntryParameter {
  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  std::uint32_t align = 1;
};

/// A parsed module. Bodies are parsed when first asked for, so a module with a hundred entries
/// costs little. Cheap to copy; copies share one text, and belong to one thread.
class Module {
 public:
  /// `name` stands in error messages. Source files are reported by their name in `known_sources`
  /// where one of those ends like the path in the PTX, else with `source_root` stripped from the
  /// front. Throws ParseError.
  static Module parse(std::string text, std::string name = "<ptx>", std::string source_root = {},
                      std::vector<std::string> known_sources = {});

  std::vector<std::string> entries() const;
  bool has_entry(std::string_view entry) const;
  /// Throws ParseError when there is no such entry; the message lists the nearest names.
  std::vector<EntryParameter> parameters(std::string_view entry) const;
  std::uint32_t parameter_bytes(std::string_view entry) const;

  struct Implementation;
  const std::shared_ptr<Implementation>& implementation() const { return implementation_; }

 private:
  explicit Module(std::shared_ptr<Implementation> implementation);
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace faultline::simulator
