// SPDX-License-Identifier: Apache-2.0
#include "faultline/app/main.hpp"

int main(int argc, char** argv) {
  return faultline::app::run(argc, argv, faultline::kernels::register_builtin_subjects);
}
