// SPDX-License-Identifier: Apache-2.0
// Compiled kernels as data: PTX text, sm_90a cubin and the source text behind their line
// information.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::core {

/// Bytes of the binary, as they are or as one zstd frame.
struct EmbeddedBytes {
  std::span<const std::byte> stored{};
  std::size_t unpacked_size = 0;  ///< of a frame; 0: stored as they are

  bool empty() const { return stored.empty(); }
};
/// The bytes themselves. A frame is decompressed anew in each call. Throws EnvironmentError when it
/// is damaged.
std::string unpack(const EmbeddedBytes& bytes);

/// One source file, project-relative path.
struct EmbeddedSource {
  std::string_view path;
  EmbeddedBytes text;
};

/// What faultline_kernels() puts into the binary for one .cu file.
struct EmbeddedModule {
  std::string_view name;
  EmbeddedBytes ptx;
  EmbeddedBytes cubin;
  std::span<const EmbeddedSource> sources;
};

/// A module that programs refer to. Immutable once made.
struct Module {
  std::string name{};
  std::string ptx{};
  std::vector<std::byte>
      cubin;  ///< empty: PTX only (the CUDA backend then lets the driver compile it)
  std::vector<std::pair<std::string, std::string>> sources{};  ///< path, text
  std::string hash{};  ///< 16 hexadecimal digits over PTX and cubin: which code ran
};
using ModuleRef = std::shared_ptr<const Module>;

/// Unpacked; keep it rather than make it twice. The hash is that of the unpacked PTX and cubin.
ModuleRef make_module(const EmbeddedModule& embedded);
/// A .ptx file from disk. Throws EnvironmentError when unreadable.
ModuleRef load_ptx_module(const std::string& path);
/// The module with other PTX text: no cubin, and a hash of its own.
ModuleRef with_ptx(const Module& module, std::string ptx);
/// Distinct opcodes of asynchronous units in the PTX of kernel `entry`, sorted, without modifiers
/// that only say where data go: "cp.async", "cp.async.bulk", "cp.async.bulk.tensor",
/// "wgmma.mma_async". Functions that the kernel calls are not followed. Empty when there is no such
/// entry.
std::vector<std::string> asynchronous_instructions(const Module& module, std::string_view entry);
/// Line `line` (from 1) of the source with that path, trailing blanks removed; empty when unknown.
std::string source_line(const Module& module, std::string_view path, int line);

}  // namespace faultline::core
