// SPDX-License-Identifier: Apache-2.0
#include "faultline/simulator/module.hpp"

#include "ptx/module_implementation.hpp"
#include "ptx/parser.hpp"

namespace faultline::simulator {

Module::Module(std::shared_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Module Module::parse(std::string text, std::string name, std::string source_root,
                     std::vector<std::string> known_sources) {
  auto implementation = std::make_shared<Implementation>();
  implementation->source.text = std::move(text);
  implementation->source.name = std::move(name);
  while (!source_root.empty() && source_root.back() == '/') source_root.pop_back();
  implementation->source_root = std::move(source_root);
  implementation->known_sources = std::move(known_sources);
  ptx::parse_module(implementation->source);
  return Module(std::move(implementation));
}

std::vector<std::string> Module::entries() const {
  std::vector<std::string> result;
  for (const std::string_view name : implementation_->source.entry_order) result.emplace_back(name);
  return result;
}

bool Module::has_entry(std::string_view entry) const {
  const auto& functions = implementation_->source.functions;
  const auto it = functions.find(entry);
  return it != functions.end() && it->second.is_entry && it->second.has_body;
}

namespace {

const ptx::Function& find_entry(const ptx::Source& source, std::string_view entry) {
  const auto it = source.functions.find(entry);
  if (it != source.functions.end() && it->second.is_entry) return it->second;
  std::string known;
  for (std::size_t i = 0; i < source.entry_order.size() && i < 8; ++i) {
    known += (i ? ", " : "") + std::string(source.entry_order[i]);
  }
  if (source.entry_order.size() > 8) known += ", ...";
  throw ParseError(source.name + ": no entry '" + std::string(entry) + "'; there are: " + known);
}

}  // namespace

std::vector<EntryParameter> Module::parameters(std::string_view entry) const {
  const ptx::Function& function = find_entry(implementation_->source, entry);
  std::vector<EntryParameter> result;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    const ptx::Variable& parameter = function.parameters[i];
    result.push_back({std::string(parameter.name), function.parameter_offsets[i],
                      static_cast<std::uint32_t>(parameter.size),
                      static_cast<std::uint32_t>(parameter.align)});
  }
  return result;
}

std::uint32_t Module::parameter_bytes(std::string_view entry) const {
  return find_entry(implementation_->source, entry).parameter_bytes;
}

const ptx::Function& Module::Implementation::function(std::string_view name) {
  const auto it = source.functions.find(name);
  if (it == source.functions.end() || !it->second.has_body) {
    throw ParseError(source.name + ": function '" + std::string(name) + "' has no body here");
  }
  ptx::parse_body(source, it->second);
  return it->second;
}

std::string Module::Implementation::file_name(int file) const {
  const auto it = source.files.find(file);
  if (it == source.files.end()) return "<file " + std::to_string(file) + ">";
  std::string_view path = it->second;
  const auto ends_like = [](std::string_view longer, std::string_view shorter) {
    return longer == shorter || (longer.size() > shorter.size() && longer.ends_with(shorter) &&
                                 longer[longer.size() - shorter.size() - 1] == '/');
  };
  for (const std::string& known : known_sources) {
    if (ends_like(known, path) || ends_like(path, known)) return known;
  }
  if (!source_root.empty() && path.starts_with(source_root) && path.size() > source_root.size() &&
      path[source_root.size()] == '/') {
    return std::string(path.substr(source_root.size() + 1));
  }
  if (path.starts_with("./")) path.remove_prefix(2);
  if (!path.starts_with('/')) return std::string(path);
  return std::string(path.substr(path.rfind('/') + 1));  // outside the root: the bare name
}

}  // namespace faultline::simulator
