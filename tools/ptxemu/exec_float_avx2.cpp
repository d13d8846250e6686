// SPDX-License-Identifier: Apache-2.0
// exec_float.cpp once more, for processors with AVX2 and FMA; see exec_integer_avx2.cpp.
#if defined(__x86_64__)
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa.h"
#include "warp.h"
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#define LIDX_ROWS_FLOAT rows_float_avx2
#include "exec_float.cpp"
#endif
