// SPDX-License-Identifier: Apache-2.0
// Who sees what, row by row and key by key, as engines define it: no intervals, no searches, and nothing that a kernel
// or the host runtime shares.
//
//     a row of position i sees key j of its request if i >= r * j + r - 1       (r tokens are one key)
//     positions: the last of a request of len tokens is len - 1; causal, row t of n has position len - n + t
//     windows: key j is seen if begin <= j < end
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace lidx::ref {

enum class SightRows { kCuSeqlens, kFixed, kRequestIds };
enum class SightKeys { kRequestLength, kCausal, kRowLength, kWindow };

struct Sight {
    SightRows rows = SightRows::kCuSeqlens;
    SightKeys keys = SightKeys::kRequestLength;
    int64_t batch = 0, max_rows = 0, max_tokens = 0;
    int64_t room = 0;                     // keys that fit: max_keys, or the narrowest block table
    int64_t ratio = 1;                    // r
    std::vector<int32_t> cu_seqlens;      // [batch + 1], kCuSeqlens
    std::vector<int32_t> row_requests;    // [max_rows], kRequestIds
    std::vector<int64_t> lengths;         // [batch] or, kRowLength, [max_rows]
    std::vector<int64_t> begins, ends;    // [max_rows], kWindow
};

struct RowOwner {
    int64_t request = -1;                 // -1: nobody's
    int64_t token = 0, tokens = 0;        // the row's place among its request's rows, and how many these are
};

inline RowOwner owner_of(const Sight& s, int64_t row) {
    RowOwner owner;
    if (s.rows == SightRows::kFixed) {
        owner = {row / s.max_tokens, row % s.max_tokens, s.max_tokens};
    } else if (s.rows == SightRows::kRequestIds) {
        owner.request = s.row_requests[static_cast<size_t>(row)];
        for (int64_t other = 0; other < s.max_rows; ++other) {
            if (s.row_requests[static_cast<size_t>(other)] != owner.request) continue;
            owner.token += other < row ? 1 : 0;
            ++owner.tokens;
        }
    } else {
        for (int64_t request = 0; request < s.batch; ++request) {
            const int64_t first = s.cu_seqlens[static_cast<size_t>(request)];
            const int64_t last = std::min<int64_t>(s.cu_seqlens[static_cast<size_t>(request) + 1], s.max_rows);
            if (row >= first && row < last) owner = {request, row - first, last - first};
        }
    }
    if (owner.request < 0 || owner.request >= s.batch || owner.token >= s.max_tokens) return {};
    return owner;
}

inline bool sees(const Sight& s, const RowOwner& owner, int64_t row, int64_t key) {
    if (owner.request < 0 || key < 0 || key >= s.room) return false;
    if (s.keys == SightKeys::kWindow)
        return s.begins[static_cast<size_t>(row)] <= key && key < s.ends[static_cast<size_t>(row)];
    const int64_t length = s.lengths[static_cast<size_t>(s.keys == SightKeys::kRowLength ? row : owner.request)];
    if (length <= 0) return false;
    int64_t position = length - 1;
    if (s.keys == SightKeys::kCausal) position = length - owner.tokens + owner.token;
    return position >= s.ratio * key + s.ratio - 1;
}

// The keys that a row sees follow one another.
struct SeenKeys {
    int64_t begin = 0, end = 0;
};
inline SeenKeys seen_keys(const Sight& s, const RowOwner& owner, int64_t row) {
    SeenKeys seen;
    for (int64_t key = 0; key < s.room; ++key) {
        if (!sees(s, owner, row, key)) continue;
        if (seen.begin == seen.end) seen.begin = key;
        seen.end = key + 1;
    }
    return seen;
}

}  // namespace lidx::ref
