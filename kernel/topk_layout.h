// SPDX-License-Identifier: Apache-2.0
// Launch sizes, shared memory and workspace of the top-k kernel. Plain C++, included by host and kernel.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/live.h"
#include "kernel/problem.h"
#include "kernel/schedule.h"

namespace lidx::topk {

inline constexpr int kThreads = 512;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kKeysPerThread = 16;                          // held in registers while a threshold is sought
inline constexpr int kCapacity = kThreads * kKeysPerThread;        // 8192: rows up to here are read once, as they are
inline constexpr int kSampleKeys = 4096;                           // of longer rows, in pieces of 32 spread evenly
// A sample's threshold may let this part of its rank more through than asked for: a round of selection less.
inline constexpr int kSampleSlack = 4;
inline constexpr int kMaxK = 4096;
inline constexpr int kBins = 2048;                                 // of a digit of 11 bits

// A row is shared out among CTAs in slices, each but the last a multiple of 32 keys. Below 65536 keys a slice's own
// selection costs more than its reads save; the rest keeps the last slice above that, and above k, after the rounding.
inline constexpr int kMinSliceKeys = 65536 + 1024;
static_assert(65536 >= kMaxK);
inline constexpr int kMaxSlices = 32;
// Bits of the map of chosen positions: the longest slice or the longest list of candidates to merge.
inline constexpr int64_t kMaxMapBits = 524288;

// How many of `most` CTAs a row of n keys occupies. 32-bit quotients: a 64-bit one costs a CTA about 500 clocks.
LIDX_HOST_DEVICE constexpr int32_t active_slices(int32_t n, int32_t most) {
    if (most <= 1) return 1;
    const int32_t fit = n / kMinSliceKeys;
    return fit < 1 ? 1 : fit < most ? fit : most;
}
LIDX_HOST_DEVICE constexpr int32_t slice_keys(int32_t n, int32_t slices) {
    const auto count = static_cast<uint32_t>(slices);
    return static_cast<int32_t>(((static_cast<uint32_t>(n) + count - 1) / count + 31) / 32 * 32);
}

// CTAs per row of a launch. Few long rows: as many as the machine has room for, as long as the lists that the last
// arriver merges fit its registers (kCapacity), or as the map of positions makes necessary.
LIDX_HOST_DEVICE constexpr int32_t slices_per_row(int64_t rows, int64_t max_keys, int32_t k, int64_t sms) {
    if (rows <= 0 || max_keys <= kCapacity) return 1;
    int64_t most = sms / rows;   // more rows than multiprocessors overlap by themselves
    if (most > kCapacity / k) most = kCapacity / k;
    const int64_t needed = ceil_div(max_keys + 32 * kMaxSlices, kMaxMapBits);
    if (most < needed) most = needed;
    if (most > kMaxSlices) most = kMaxSlices;
    return active_slices(static_cast<int32_t>(max_keys), most < 1 ? 1 : static_cast<int32_t>(most));
}

// Words of each of the two maps in shared memory.
LIDX_HOST_DEVICE constexpr int64_t map_words(int64_t max_keys, int32_t k, int32_t slices) {
    const int64_t longest = slices > 1 ? slice_keys(static_cast<int32_t>(max_keys), slices) : max_keys;
    // A shorter row than the longest may have fewer slices, each of fewer than twice the least.
    const int64_t short_row = 2 * kMinSliceKeys + 32;
    const int64_t lists = int64_t{slices} * k;
    int64_t bits = slices > 1 && longest < short_row ? short_row : longest;
    if (bits > max_keys) bits = max_keys;
    if (bits < lists) bits = lists;
    if (bits < kCapacity) bits = kCapacity;
    return ceil_div(bits + 3, 32 * 4) * 4;   // 3: the largest Maps::shift
}

enum class IndexKind : int32_t {
    kPosition,    // the key's number in its request
    kRelative,    // counted from the first key that the row sees
    kPhysical,    // block_table[position / page_size] * page_size + position % page_size
    kOffset       // position + offsets[row]
};
enum class SortBy : int32_t { kPosition, kScore };

struct TopkParams {
    RowView view;
    const void* scores;             // [rows, score_stride] score_type
    const int32_t* block_table;     // kPhysical: [batch, block_table_stride]
    const int32_t* offsets;         // kOffset: [rows]
    int32_t* indices;               // [rows, index_stride]; -1 after the valid ones up to k
    float* top_scores;              // [rows, top_score_stride]; null: not wanted; -inf after the valid ones up to k
    int32_t* counts;                // [rows]; null: not wanted
    uint32_t* workspace;            // arrivals and lists, see workspace_bytes(); null with one slice
    int64_t score_stride;           // elements
    int64_t block_table_stride;     // entries
    int64_t index_stride;           // elements
    int64_t top_score_stride;       // elements
    int32_t k;
    int32_t slices;                 // CTAs per row: grid = rows of the launch * slices; held: of a cluster
    int32_t workspace_rows;         // rows that the workspace has room for: no fewer than the launch has
    int32_t map_words;              // of each map in shared memory
    int32_t page_size;              // kPhysical
    int32_t forced_first, forced_last;   // keys at the two ends of what a row sees that are always chosen
    FloatType score_type;
    int32_t relative;               // column 0 of a row is the first key that it sees
    int32_t known_rows;             // whose the rows are and what they see may be read ahead of griddepcontrol.wait:
                                    // it was there when the kernel in front, a scorer of lidx, had waited itself
    IndexKind index_kind;
    SortBy sort_by;
};
static_assert(offsetof(TopkParams, scores) == 72 && offsetof(TopkParams, known_rows) == 196,
              "test/repo/griddep_check.py");

// A row, whose request it is (-1: nobody's) and what it sees.
struct RowKeys {
    int32_t row, request;
    KeyRange keys;
};
static_assert(sizeof(RowKeys) == 16);

// Addresses of a row's column 0 and of its first result.
struct RowPlaces {
    uint64_t scores, indices;
};

// What a search for a threshold needs.
struct SearchLayout {
    alignas(16) uint32_t histogram[kBins];
    uint32_t warp_total[2][kWarps];
    alignas(16) uint32_t found[4];      // by pick_bin()
    alignas(16) uint32_t stored;        // candidates (may exceed kCapacity); of a merge: chosen keys
};
struct SharedLayout : SearchLayout {
    RowKeys row;
    uint32_t ties;                      // keys equal to the sample's threshold
    uint32_t last_arriver;
    uint32_t slice;                     // which of the row's this CTA's is
    uint32_t unused;
    uint32_t candidate[kCapacity];      // position + Maps::shift; afterwards 64-bit sort keys [kMaxK]
    uint32_t list[kMaxK];               // the chosen positions, ascending
    // then two maps of map_words each: chosen, equal to the threshold
};
static_assert(sizeof(SharedLayout) % 16 == 0);
static_assert(kMaxK * 8 <= kCapacity * 4);

// ---- keys held in registers (topk_held.cu)

// Forms of CTAs that hold keys. Most of what a warp does it does once, however many keys it has: 32 a thread are faster
// where a CTA has 16 warps all the same (docs/trials-topk.md).
enum class Held : int32_t {
    kNone,     // the keys are streamed
    kAlone,    // a row each
    kNarrow,   // a part of a row each, which is a cluster's; two CTAs an SM
    kWide      // the same, one an SM
};
struct HeldForm {
    int32_t threads, keys, ctas_an_sm;   // keys: a thread's
    LIDX_HOST_DEVICE constexpr int32_t cta_keys() const { return threads * keys; }
};
LIDX_HOST_DEVICE constexpr HeldForm held_form(Held held) {
    return held == Held::kWide ? HeldForm{512, 32, 1} : HeldForm{512, 16, 2};
}
inline constexpr int kMergeThreads = 1024;   // of a CTA that holds entries to merge (topk_merge.cu)
// A row shorter than what the launch is for leaves CTAs out: fewer than kMinPartKeys are not worth a CTA.
inline constexpr int kMaxClusterCtas = 16;
inline constexpr int32_t kMinPartKeys = 1024;
// log2 of a cluster's CTAs, a power of two up to kMaxClusterCtas: a quotient costs a CTA some 200 clocks.
LIDX_HOST_DEVICE constexpr int cluster_bits(int32_t ctas) {
    return static_cast<int>(ctas >= 2) + static_cast<int>(ctas >= 4) + static_cast<int>(ctas >= 8) +
           static_cast<int>(ctas >= 16);
}
static_assert(kMaxClusterCtas == 16);
LIDX_HOST_DEVICE constexpr int32_t part_keys(int32_t n, int32_t ctas) {
    const auto each = static_cast<int32_t>((((static_cast<uint32_t>(n) + static_cast<uint32_t>(ctas) - 1) >>
                                             cluster_bits(ctas)) + 31) / 32 * 32);
    return each < kMinPartKeys ? kMinPartKeys : each;
}
// Parts above the least leave no CTA out: what the rounding to 32 adds to all is less than one.
LIDX_HOST_DEVICE constexpr int32_t parts_of(int32_t n, int32_t ctas) {
    return part_keys(n, ctas) > kMinPartKeys ? ctas : (n + kMinPartKeys - 1) / kMinPartKeys;
}
static_assert(31 * (kMaxClusterCtas - 1) < kMinPartKeys);
static_assert(kMinPartKeys <= held_form(Held::kNarrow).cta_keys());

// How the rows of a launch are held: CTAs per row, a power of two, and their form. ctas = 0: they are not, being too
// long or too many.
struct HeldShape {
    int32_t ctas;
    Held form;
};
LIDX_HOST_DEVICE constexpr int32_t held_ctas(int64_t max_keys, Held form) {
    int32_t ctas = 1;
    while (ctas < 2 * kMaxClusterCtas && int64_t{ctas} * held_form(form).cta_keys() < max_keys) ctas *= 2;
    return ctas;
}
// All clusters at once. Those of more than two CTAs leave SMs out: of 132, whose GPCs have 16 or 18, an H200 takes 62
// clusters of 4 with two CTAs an SM, 30 of 8, 14 of 16.
LIDX_HOST_DEVICE constexpr HeldShape held_shape(int64_t rows, int64_t max_keys, int64_t sms, bool clusters) {
    const int32_t ctas = held_ctas(max_keys, Held::kNarrow), wide = held_ctas(max_keys, Held::kWide);
    if (max_keys <= held_form(Held::kAlone).cta_keys()) return {1, Held::kAlone};
    if (!clusters) return {0, Held::kNone};
    const int64_t room = ctas == 2 ? 2 * sms : 2 * sms * 7 / 8;
    if (ctas <= kMaxClusterCtas && rows * ctas <= room) return {ctas, Held::kNarrow};
    const int64_t wide_room = wide <= 2 ? sms : sms * 7 / 8;
    if (wide > 1 && wide <= kMaxClusterCtas && rows * wide <= wide_room) return {wide, Held::kWide};
    return {0, Held::kNone};
}

// Where so few keys are left in the bin of the k-th, two wide CTAs list all and compare each with all.
inline constexpr int kListedKeys = 128;
// Zeros at first: `key` stays that behind the last.
struct ListedKeys {
    alignas(16) uint32_t key[kListedKeys];
    uint32_t count;
    uint32_t told;                      // threads that would tell the threshold: one does
    uint32_t unused[2];
};

// Where so few keys of a row of one CTA are left in the bin of the k-th, they are listed, and each compared with all.
inline constexpr uint32_t kFewKeys = 32;

struct HeldLayout {
    alignas(16) uint32_t histogram[kBins];
    uint32_t nowhere[32];               // where keys without a bin are counted, a word a lane
    uint32_t warp_total[2][kMergeThreads / 32];
    alignas(16) uint32_t found[4];      // by pick_bin()
    alignas(16) RowKeys row;
    alignas(16) RowPlaces places;
    uint32_t few[kFewKeys + 32];        // one CTA's: of few keys a number each, then how many; zeros at first
    uint32_t list[kMaxK + 4];           // the chosen positions of the part, ascending
    // then, where results are sorted by score: 64-bit numbers [kMaxK], in a cluster the first CTA's for all
};
inline constexpr uint32_t kCoarseWidth = 32;                       // bins of a coarse bin
inline constexpr uint32_t kCoarseBins = kBins / kCoarseWidth;
inline constexpr int kMaxRounds = 4;                               // a guess that misled, and the three of any keys
// What a CTA of a cluster counts, by round; zeros at first, up to the end of the first histogram.
struct ClusterCounts {
    alignas(16) uint32_t sums[kMaxRounds][kCoarseBins + kCoarseWidth];   // of all CTAs: coarse bins, the bins of one
    ListedKeys listed;                                                   // of the CTA
    uint32_t merged[kListedKeys];                                        // of all CTAs
    uint32_t before, equal_before;                                       // in the parts before this one
    uint32_t placed;                                                     // of merged
    uint32_t unused;
    alignas(16) uint32_t histograms[kMaxRounds][kBins];
};
static_assert(sizeof(ClusterCounts) % 16 == 0);
inline constexpr int kZeroCountWords = offsetof(ClusterCounts, histograms) / 4 + kBins;
struct ClusterLayout : HeldLayout {
    ClusterCounts counts;
    alignas(16) uint32_t coarse[kMaxRounds][kCoarseBins / 2];      // two of 16 bits each: a part has up to 16384 keys
};
static_assert(held_form(Held::kWide).cta_keys() <= 0xffff && kCoarseBins == 64);   // a pair a lane
static_assert(sizeof(HeldLayout) % 16 == 0 && sizeof(ClusterLayout) % 16 == 0);

LIDX_HOST_DEVICE constexpr int64_t held_shared_bytes(int32_t ctas, SortBy sort_by) {
    return static_cast<int64_t>(ctas > 1 ? sizeof(ClusterLayout) : sizeof(HeldLayout)) +
           (sort_by == SortBy::kScore ? kMaxK * int64_t{8} : 0);
}

// ---- keys streamed by clusters (topk_spread.cu)

// Few rows that are too long, or too many, to be held: a cluster's CTAs stream a part each.
struct SpreadLayout : SharedLayout {
    ClusterCounts counts;
    alignas(16) uint32_t coarse[kMaxRounds][kCoarseBins];
    uint32_t kept[2];                   // keys of the part that a sample's threshold let through; equal to it
    uint32_t unused_2[2];
    // then two maps of map_words each
};
static_assert(sizeof(SpreadLayout) % 16 == 0);
// Parts of a row of n keys, none below kCapacity but a row's only one: the last keeps most of that after the rounding.
LIDX_HOST_DEVICE constexpr int32_t spread_parts(int32_t n, int32_t ctas) {
    const int32_t fit = n / kCapacity;
    return fit < 1 ? 1 : fit < ctas ? fit : ctas;
}
// CTAs of a row's cluster, a power of two; 0: there are more rows than that pays for. One CTA an SM: below
// kMinSpreadKeys a part costs more than it saves.
inline constexpr int32_t kMinSpreadKeys = 16384;
LIDX_HOST_DEVICE constexpr int32_t spread_ctas(int64_t rows, int64_t max_keys, int64_t sms, bool clusters) {
    if (!clusters || max_keys <= kCapacity) return 0;
    for (int32_t ctas = kMaxClusterCtas; ctas >= 2; ctas /= 2) {
        const int64_t room = ctas == 2 ? sms : sms * 7 / 8;
        if (rows * ctas > room || (ctas > 2 && max_keys < int64_t{ctas} * kMinSpreadKeys)) continue;
        return slice_keys(static_cast<int32_t>(max_keys), ctas) <= kMaxMapBits ? ctas : 0;
    }
    return 0;
}
LIDX_HOST_DEVICE constexpr int64_t spread_map_words(int64_t max_keys, int32_t ctas) {
    const int64_t longest = slice_keys(static_cast<int32_t>(max_keys), ctas), of_short_rows = 2 * kCapacity + 32;
    return ceil_div((longest < of_short_rows ? of_short_rows : longest) + 3, 32 * 4) * 4;
}
LIDX_HOST_DEVICE constexpr int64_t spread_shared_bytes(int64_t words) {
    return static_cast<int64_t>(sizeof(SpreadLayout)) + 2 * words * 4;
}

// ---- keys streamed (topk.cu)

LIDX_HOST_DEVICE constexpr int64_t shared_bytes(int64_t words) {
    return static_cast<int64_t>(sizeof(SharedLayout)) + 2 * words * 4;
}

// Workspace: an arrival counter per row, which the last arriver returns to zero; then for every row what its slices
// chose, for the last arriver: ordered keys [slices, k], of as many bytes as a score has, and in the second half
// positions [slices, k].
inline constexpr int64_t kListBytes = 8;   // per chosen key
LIDX_HOST_DEVICE constexpr int64_t arrivals_bytes(int64_t rows) { return ceil_div(rows * 4, 16) * 16; }
LIDX_HOST_DEVICE constexpr int64_t workspace_bytes(int64_t rows, int32_t slices, int32_t k) {
    return slices <= 1 ? 0 : arrivals_bytes(rows) + rows * slices * k * kListBytes;
}

// ---- merging lists

// Entries of a row, all its shards' together.
inline constexpr int64_t kMaxMergeEntries = 1 << 20;

// Entry e is number e % k_in of shard e / k_in; a negative position: there is no such key.
struct MergeParams {
    const float* scores;            // [rows, shards, k_in], with strides
    const int32_t* positions;       // the same
    int32_t* indices;               // [rows, index_stride]; -1 after the valid ones up to k
    float* top_scores;              // [rows, top_score_stride]; null: not wanted; -inf after the valid ones up to k
    int32_t* counts;                // [rows]; null: not wanted
    int64_t score_row_stride;       // elements, as all strides
    int64_t score_shard_stride;
    int64_t position_row_stride;
    int64_t position_shard_stride;
    int64_t index_stride;
    int64_t top_score_stride;
    int32_t entries;                // shards * k_in
    int32_t k_in;
    int32_t k;
    SortBy sort_by;
    bool held;                      // merge_held(); else every pass reads them
};

// Entries that a CTA holds in registers, read four at a time: lists begin on 16 bytes and have a multiple of four.
inline constexpr int32_t kMostHeldEntries = 16384;
LIDX_HOST_DEVICE inline bool merge_held(const MergeParams& p) {
    const auto addresses = reinterpret_cast<uintptr_t>(p.scores) | reinterpret_cast<uintptr_t>(p.positions);
    const int64_t elements = p.score_row_stride | p.score_shard_stride | p.position_row_stride |
                             p.position_shard_stride | p.k_in;
    return p.entries <= kMostHeldEntries && addresses % 16 == 0 && elements % 4 == 0;
}

// Numbers to sort, uint64_t[kMaxK], begin where HeldLayout has its list.
inline constexpr uint32_t kSortSegments = 128;                      // of a sort (topk_sort.cuh)
struct MergeLayout : HeldLayout {
    uint32_t rest_of_numbers[kMaxK];
    alignas(16) uint32_t ends[kMergeThreads / 32][4];
    uint32_t bounds[kSortSegments];
    alignas(16) uint32_t stored;        // chosen keys; zeros at first, as are the next
    uint32_t listed;                    // keys that there are
    uint32_t equal;                     // keys met that equal both thresholds
    uint32_t unused;
};
static_assert(offsetof(HeldLayout, list) % 16 == 0 && sizeof(HeldLayout) + kMaxK * 4 >=
                                                          offsetof(HeldLayout, list) + kMaxK * 8);
static_assert(sizeof(MergeLayout) <= 48 * 1024, "static shared memory");

// The order of preference as an unsigned number: NaN 0, -inf, ..., -0 = +0, ..., +inf, then forced keys.
inline constexpr uint32_t kNanKey = 0;
inline constexpr uint32_t kForcedKey = 0xffffffffu;
inline constexpr uint32_t kNanBits = 0x7fffffffu;
LIDX_HOST_DEVICE constexpr uint32_t ordered_key(uint32_t fp32_bits) {
    const uint32_t magnitude = fp32_bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return kNanKey;
    if (magnitude == 0) return 0x80000000u;
    return fp32_bits & 0x80000000u ? ~fp32_bits : fp32_bits | 0x80000000u;
}
// The score of a key of a number.
LIDX_HOST_DEVICE constexpr uint32_t score_bits(uint32_t key) {
    return key & 0x80000000u ? key & 0x7fffffffu : ~key;
}

}  // namespace lidx::topk
