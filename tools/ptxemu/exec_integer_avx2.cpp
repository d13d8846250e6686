// SPDX-License-Identifier: Apache-2.0
// exec_integer.cpp once more, for processors with AVX2. Standard headers come first: their inline functions must not be
// compiled for it, as the linker may keep this copy of them for the whole library.
#if defined(__x86_64__)
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "isa.h"
#include "warp.h"
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define LIDX_ROWS_INTEGER rows_integer_avx2
#include "exec_integer.cpp"
#endif
