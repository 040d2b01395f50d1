// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/run_record.hpp"
