# SPDX-License-Identifier: Apache-2.0
"""The mutants of the selection of keys, for mutant_test.py. Cases are the hidden tests of test/topk, "small: ..."."""
from mutant_kinds import ILLEGAL, PREDICATED, STUCK, UNDEFINED, UNORDERED, VALUE, Kind

ANY = VALUE | UNDEFINED | UNORDERED | {"illegal-address", "exit-before-access"}

# Each place of a synchronising instruction; values at a few.
SELECTION = [
    Kind("a CTA barrier is missing", r"bar\.sync 0;", "", ANY | {"ordered-by-convergence"}, [0, 3, -1]),
    Kind("a count is missing", PREDICATED + r"red\.shared\.add\.u32[^;]*;", "", ANY, [0], every=False),
    Kind("a word of shared memory is not written", PREDICATED + r"st\.shared\.u32[^;]*;", "", ANY, [0, 2], every=False),
    Kind("what was counted is not cleared", r"st\.shared\.v4\.u32[^;]*;", "", ANY, [0], every=False),
    Kind("a sum over the warp is missing", r"redux\.sync\.add\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.u32 \1, \2;",
         ANY | STUCK, [0, 1], every=False),
    Kind("a sum over lanes is missing", r"shfl\.sync\.up\.b32 (%r\d+), (%r\d+), [^;]*;", r"mov.u32 \1, 0;", ANY,
         [0], every=False),
]

HELD_ROWS = [
    Kind("where a row lies is not written", r"st\.shared\.u64[^;]*;", "", ANY, [0, 1], every=False),
]
# Few keys share the k-th's bin: what is counted, listed, chosen and told of them.
FEW_KEYS = [
    Kind("a sum for the few keys is missing", r"redux\.sync\.add\.u32 (%r\d+), (%r\d+), %r\d+;",
         r"mov.u32 \1, \2;", ANY, [2, 3], every=False),
    Kind("a place among the few keys is not taken", r"atom\.shared\.add\.u32 (%r\d+), \[[^;]*;",
         r"mov.u32 \1, 0;", ANY),
    Kind("one of the few keys is not listed", r"st\.shared\.u32[^;]*;", "", ANY, [3], every=False),
    Kind("which of the few keys are chosen is not told", r"vote\.sync\.ballot\.b32 (%r\d+), [^;]*;",
         r"mov.u32 \1, 0;", ANY, [1, 2], every=False),
    Kind("one of the few keys is each lane's own", r"shfl\.sync\.idx\.b32 (%r\d+), (%r\d+), [^;]*;",
         r"mov.u32 \1, \2;", ANY, [5], every=False),
]
HELD = {
    "program": "catch",
    "kernels": {f"topk_held_{score}": [f"small: topk_held_{score}"] for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "3"},
    "mutants": SELECTION + HELD_ROWS + FEW_KEYS,
    "equivalent": {},
}

CLUSTER = {
    "program": "catch",
    "kernels": {f"topk_cluster_{score}": [f"small: topk_cluster_{score}"] for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "4"},
    "mutants": SELECTION + HELD_ROWS + [
        Kind("an arrival at the cluster's barrier is missing", r"barrier\.cluster\.arrive[^;]*;", "",
             UNORDERED | STUCK | ILLEGAL | VALUE),
        Kind("a wait at the cluster's barrier is missing", r"barrier\.cluster\.wait[^;]*;", "",
             UNORDERED | STUCK | ILLEGAL | {"exit-before-access"}),
        Kind("the cluster does not meet", r"(?s)barrier\.cluster\.arrive[^;]*;((?:(?!barrier\.cluster|ret;|bra ).)*?)"
                                          r"barrier\.cluster\.wait[^;]*;", r"\1", UNORDERED | VALUE | UNDEFINED),
        Kind("a fence of the cluster is missing", r"fence\.release\.sync_restrict[^;]*;", "", UNORDERED),
        Kind("the release of an arrival is missing", r"barrier\.cluster\.arrive\.aligned;",
             "barrier.cluster.arrive.relaxed.aligned;", UNORDERED),
        Kind("a peer's shared memory is one's own",
             r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), [^;]*;", r"mov.u32 \1, \2;",
             ANY, [0, 1, -1]),
        Kind("a peer's counts are not read", PREDICATED + r"ld\.shared::cluster[^;]*;", "", ANY),
        Kind("numbers are not sent to the first CTA", PREDICATED + r"st\.shared::cluster\.u64[^;]*;", "", ANY, [0, -1]),
    ],
    "equivalent": {},
}

WIDE = {
    **CLUSTER,
    "kernels": {f"topk_wide_{score}": [f"small: topk_wide_{score}"] for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "20"},
    "few": 1,
}

ONE_PART = "find_pair_threshold<kThreads>(whole_keys, 0, 1, "   # a line of topk_spread.cu
# Clusters of four, each CTA of which streams its part; of short rows two and one.
SPREAD = {
    **CLUSTER,
    "mutants": [kind for kind in CLUSTER["mutants"] if kind not in HELD_ROWS],
    "kernels": {f"topk_spread_{score}": [f"small: topk_spread_{score}"] for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "5"},
    "few": 1,
    "equivalent": {
        ("a CTA barrier is missing", (ONE_PART, "sum_before(rank > 0")): "a row of one part: nothing is added up",
        ("a peer's shared memory is one's own", (ONE_PART,)): "a row of one part: its CTA asks itself alone",
        ("a peer's counts are not read", ("exchange_kept(rank, parts, ",)):
            "counts of zero: the row is taken for misjudged and streamed once more, which gives the same",
    },
    "unreached": {
        ("a peer's counts are not read", (ONE_PART, "peer_bins<kOfThreads>(ctas > 1, ")): "there is no other CTA",
    },
}

STREAMED = [
    *SELECTION,
    Kind("a bit of a map is not set", PREDICATED + r"red\.shared\.or\.b32[^;]*;", "", ANY, [0], every=False),
    Kind("a place among the candidates is not taken",
         r"atom\.shared\.add\.u32 (%r\d+), \[[^;]*;", r"mov.u32 \1, 0;", ANY, [0], every=False),
]
TOPK = {
    "program": "catch",
    "kernels": {f"topk_{score}": [f"small: topk_{score}", f"small: topk_{score} in slices"]
                for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "1"},
    "mutants": STREAMED,
    "equivalent": {},
}
TOPK_SM80 = {
    "program": "catch",
    "kernels": {f"topk_sm80_{score}": [f"small: topk_{score}", f"small: topk_{score} in slices"]
                for score in ("fp32", "bf16")},
    "environment": {"PTXEMU_CC": "80", "PTXEMU_SMS": "1"},
    "mutants": STREAMED + [
        Kind("an arrival does not release", r"atom\.acq_rel\.gpu\.global\.add\.u32", "atom.acquire.gpu.global.add.u32",
             {"race-global"}),
        Kind("an arrival does not acquire", r"atom\.acq_rel\.gpu\.global\.add\.u32", "atom.release.gpu.global.add.u32",
             {"race-global"}),
        Kind("an arrival orders its CTA only", r"atom\.acq_rel\.gpu\.global\.add\.u32",
             "atom.acq_rel.cta.global.add.u32", {"race-global", "scope-too-narrow"}),
    ],
    "equivalent": {},
}

MERGE = {
    "program": "catch",
    "kernels": {"topk_merge": ["small: topk_merge", "topk merge: a key that is listed twice*"]},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "mutants": SELECTION + [
        Kind("a place among the chosen is not taken", r"atom\.shared\.add\.u32 (%r\d+), \[[^;]*;", r"mov.u32 \1, 0;",
             ANY, [1, -1], every=False),
        Kind("a warp's most is missing", r"redux\.sync\.max\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.u32 \1, \2;",
             ANY | STUCK | ILLEGAL, [0, 1, 8, -1], every=False),
        Kind("a rank is not counted", r"vote\.sync\.ballot\.b32 (%r\d+), [^;]*;", r"mov.u32 \1, 0;", ANY, [0, -1],
             every=False),
    ],
    "equivalent": {},
}

TABLES = {"topk_held": HELD, "topk_cluster": CLUSTER, "topk_wide": WIDE, "topk_spread": SPREAD, "topk": TOPK,
          "topk_sm80": TOPK_SM80, "topk_merge": MERGE}
