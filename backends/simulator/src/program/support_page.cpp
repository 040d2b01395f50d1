// SPDX-License-Identifier: Apache-2.0
#include "program/support_page.hpp"

#include "program/decoder.hpp"

namespace faultline::simulator {

std::string support_page() {
  std::string page = "# PTX that the simulator executes\n"
                     "\n"
                     "Written from the opcode table, backends/simulator/src/program/opcodes.def; a "
                     "test keeps the two equal.\n"
                     "An instruction or a modifier that is not listed stops a launch with the "
                     "status `unsupported`, the opcode and\n"
                     "the source line, if it is reached. It is never guessed.\n"
                     "\n"
                     "| instruction | forms | PTX ISA section |\n"
                     "|---|---|---|\n";
  for (const OpcodeEntry& entry : all_opcodes()) {
    page += "| `" + std::string(entry.mnemonic) + "` | " + std::string(entry.forms) + " | " +
            std::string(entry.section) + " |\n";
  }
  return page;
}

}  // namespace faultline::simulator
