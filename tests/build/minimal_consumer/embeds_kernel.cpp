// SPDX-License-Identifier: Apache-2.0
//
// What faultline_kernels() promises of an embedded module: PTX whose line table names files
// relative to the project, a cubin, and the text of those files.
#include <consumer_kernels_modules.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "failed: %s\n", what);
    ++failures;
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: embeds_kernel SOURCE_DIR\n", stderr);
    return 2;
  }
  const std::string root = argv[1];
  const auto module = faultline::core::make_module(faultline::embedded::scale());
  expect(module->name == "scale", "the module is named after its source");
  expect(contains(module->ptx, ".visible .entry scale("), "the PTX has the entry");
  expect(contains(module->ptx, ".target sm_90a"), "the PTX is for sm_90a");
  expect(contains(module->ptx, "\"kernels/scale.cu\""), "the line table has the relative path");
  expect(contains(module->ptx, "\"kernels/twice.cuh\""), "the line table has the included file");
  expect(!contains(module->ptx, root), "the PTX has no absolute path");
  const std::string_view cubin(reinterpret_cast<const char*>(module->cubin.data()),
                               module->cubin.size());
  expect(cubin.starts_with("\177ELF"), "the cubin is an ELF file");
  expect(!contains(cubin, root), "the cubin has no absolute path");
  expect(module->sources.size() == 2, "two sources are embedded");
  for (const auto& [path, text] : module->sources) {
    const std::string file = read(root + "/" + path);
    expect(!file.empty() && text == file, "a source's text is the file's");
  }

  const auto older = faultline::core::make_module(faultline::embedded::scale_compute_80());
  expect(contains(older->ptx, ".target sm_80"), "the extra architecture has its own PTX");
  expect(older->cubin.empty(), "the extra architecture has no cubin");
  return failures == 0 ? 0 : 1;
}
