// SPDX-License-Identifier: Apache-2.0
#include <faultline/core/module.hpp>

int main() {
  const faultline::core::EmbeddedModule module{};
  return module.sources.empty() ? 0 : 1;
}
