// SPDX-License-Identifier: Apache-2.0
// docs/ptx-support.md is what the opcode table says. With FAULTLINE_UPDATE_DOCS=1 in the
// environment the page is written instead of compared.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "program/support_page.hpp"

namespace faultline::simulator {
namespace {

TEST(SupportPage, IsGeneratedFromTheOpcodeTable) {
  const std::string path = std::string(FAULTLINE_SOURCE_DIR) + "/docs/ptx-support.md";
  if (std::getenv("FAULTLINE_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << support_page();
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), support_page()) << "regenerate with FAULTLINE_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace faultline::simulator
