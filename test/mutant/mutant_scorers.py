# SPDX-License-Identifier: Apache-2.0
"""The mutants of the scorers, for mutant_test.py. A table: kernels and the cases of `check` that each runs, its device,
kinds of edits, and the equivalent ones (kind, place) with their reasons."""
from mutant_kinds import (ARRIVE, BARRIER, HANDED_OVER, ILLEGAL, IN_FLIGHT, INITIALISATION, ITEM_BYTES, STUCK,
                          UNDEFINED, UNORDERED, VALUE, WARP_MEETS, WGMMA, Kind, counted_up, moved_behind)

COMMIT = r"(tcgen05\.commit[^;]*) \[(%r\d+)\];"
MMA = r"(tcgen05\.mma[\w.:]*) \[(%r\d+)\], (%rd\d+), (%rd\d+), (%r\d+), p;"
LOAD_TMEM = r"(tcgen05\.ld[\w.:]*)(\s*\{[^}]*\}), \[(%r\d+)\];"

# The tensor core and Tensor Memory.
TCGEN05 = [
    Kind("tcgen05.fence::before_thread_sync is missing", r"tcgen05\.fence::before[^;]*;", "", {"missing-fence-before"}),
    Kind("tcgen05.fence::after_thread_sync is missing", r"tcgen05\.fence::after[^;]*;", "", {"missing-fence-after"}),
    Kind("wait::ld is missing", r"tcgen05\.wait::ld[^;]*;", "", {"tmem-ld-not-waited"}),
    Kind("a commit is missing", COMMIT, "", STUCK),
    Kind("a commit to another mbarrier", COMMIT, r"add.u32 \2, \2, 8; \1 [\2]; sub.u32 \2, \2, 8;", BARRIER),
    Kind("a commit to the mbarrier before", COMMIT, r"sub.u32 \2, \2, 8; \1 [\2]; add.u32 \2, \2, 8;", BARRIER),
    Kind("a descriptor without its version", MMA,
         r"xor.b64 \3, \3, 0x400000000000; \1 [\2], \3, \4, \5, p; xor.b64 \3, \3, 0x400000000000;", ILLEGAL),
    Kind("a descriptor with a reserved bit", MMA,
         r"xor.b64 \4, \4, 0x8000; \1 [\2], \3, \4, \5, p; xor.b64 \4, \4, 0x8000;", ILLEGAL),
    Kind("a descriptor 16 bytes further", MMA,
         r"add.u64 \3, \3, 1; \1 [\2], \3, \4, \5, p; sub.u64 \3, \3, 1;", VALUE | UNORDERED),
    Kind("operand type code 2", MMA, r"xor.b32 \5, \5, 256; \1 [\2], \3, \4, \5, p; xor.b32 \5, \5, 256;", ILLEGAL),
    Kind("N + 8 columns", MMA, r"add.u32 \5, \5, 0x20000; \1 [\2], \3, \4, \5, p; sub.u32 \5, \5, 0x20000;",
         {"illegal-address", "race-tmem", "race-shared", "tma-load-not-waited", "mma-not-waited"}),
    Kind("M = 64", MMA, r"sub.u32 \5, \5, 0x4000000; \1 [\2], \3, \4, \5, p; add.u32 \5, \5, 0x4000000;",
         {"scores", "race-tmem", "mma-not-waited"}),
    Kind("an MMA is missing", MMA, "", VALUE | {"undefined-store"}),
    Kind("an MMA to the next column", MMA, r"add.u32 \2, \2, 1; \1 [\2], \3, \4, \5, p; sub.u32 \2, \2, 1;",
         {"illegal-address", "race-tmem", "mma-not-waited"}),
    Kind("tcgen05.ld of the next quarter's lanes", LOAD_TMEM,
         r"xor.b32 \3, \3, 0x200000; \1\2, [\3]; xor.b32 \3, \3, 0x200000;", {"tmem-lane-quarter"}),
    Kind("Tensor Memory is not given back", r"tcgen05\.dealloc[^;]*;", "", {"exit-tmem-held"}),
    Kind("Tensor Memory is given back twice", r"tcgen05\.dealloc[^;]*;", r"\g<0> \g<0>", ILLEGAL),
    Kind("Tensor Memory is not allocated", r"tcgen05\.alloc[^;]*;", "", {"illegal-address"} | ILLEGAL),
    Kind("half the columns", r"(tcgen05\.alloc[^\[]*\[%r\d+\], )(%r\d+);",
         r"shr.u32 \2, \2, 1; \1\2; shl.b32 \2, \2, 1;", {"illegal-address"}),
]

SM100 = {
    "program": "check",
    # Two requests of five token tiles and two key tiles, rows with keys of their own; one CTA takes all four units.
    "kernels": {f"sm100_score_h{heads}{suffix}": [
        f"h{heads}/d128/t{4 * tokens + 1}/b2/n200/p32/block-split/pad0/gap0/lattice/plain/nocheck/guard/s77/window,"
        "sms1"]
        for heads, most, fewer in ((64, 2, (1,)), (128, 1, ()), (32, 4, (3, 2, 1)), (16, 8, (4, 2)), (8, 16, (8, 4)),
                                   (4, 32, (16, 8)))
        for suffix, tokens in (("", most), *((f"_t{tokens}", tokens) for tokens in fewer))},
    "environment": {"PTXEMU_SMS": "1"},
    "always_all": True,
    "mutants": HANDED_OVER + TCGEN05 + [
        moved_behind("tcgen05.fence::before_thread_sync behind the barrier", r"tcgen05\.fence::before[^;]*;",
                     r"bar\.sync 0;", {"missing-fence-before"}),
        Kind("a CTA barrier is missing", r"bar\.sync 0;", "", UNORDERED | BARRIER | {"illegal-address"}),
        moved_behind("wait::ld behind the barrier", r"tcgen05\.wait::ld[^;]*;", r"bar\.sync 0;",
                     {"tmem-ld-not-waited"}),
        Kind("tcgen05.ld beyond the accumulator", LOAD_TMEM, r"add.u32 \3, \3, 128; \1\2, [\3]; sub.u32 \3, \3, 128;",
             {"illegal-address"}),
        Kind("weights are not stored", r"st\.shared\.f32[^;]*;", "", {"scores", "undefined-store"}),
        Kind("what rows see is not stored", r"st\.shared\.v2\.u32[^;]*;", "", {"scores"} | UNDEFINED),
        Kind("what a warp's rows see together is not stored", r"st\.shared\.v4\.u32[^;]*;", "",
             {"scores"} | UNDEFINED),
    ],
    "equivalent": {
        # .relaxed hands over, with tcgen05.fence, what concerns Tensor Memory and the tensor core (PTX ISA 9.7.16.6.4).
        # All that it waits for is the MMA: S written, K and Q read. The Q tile that comes next is written after that.
        ("a wait that acquires nothing", 2): "s_full is a commit's alone: a completed MMA, and no thread's accesses",
        # The fence orders asynchronous tcgen05 operations; tcgen05.alloc is synchronous (9.7.16.6.1). The loads of the
        # unit before were fenced where all met behind them.
        ("tcgen05.fence::before_thread_sync is missing", 0): "no asynchronous operation since the last such fence",
        ("tcgen05.fence::before_thread_sync behind the barrier", 0): "no asynchronous operation since the last one",
        **INITIALISATION,
    },
}

# The item behind the last has no tokens, so no keys, weights or columns to fill; consumers read that, and return. In
# all three prefill kernels, by the source line that all of it is inlined from.
LAST = "load_item<T>(p, loader, shared, {loader.ring, 0, 0, 0, 0, 0, 0, 0}, {0, 0})"
LAST_ITEM = {
    ("k_scale's copies are not announced, their arrivals are", (LAST,)): "it copies nothing",
    ("what a row sees is not said", (LAST,)): "nobody asks what its rows see",
    ("the warp does not meet before one lane releases for it", (LAST,)): "nobody reads what its other lanes store",
    ("a release that releases nothing", ("else ptx::mbarrier_arrive(full);",)):
        "the warp met behind its weights, and the lane that handed the item over released them for it",
    # Lanes of an emulated warp arrive together: the first arrivals complete the phase, the elected lane's among them.
    ("a release counts one more", (LAST,)): "nobody waits for the phase behind that of the last item",
    ("what an item is is not said", (LAST, "st_shared_v4_u32(to + 16, ")): "it has no keys and no columns to fill",
}
LAST_ITEM_OF_PLAIN = {name: why for name, why in LAST_ITEM.items() if name[0] not in (
    "what a row sees is not said", "the warp does not meet before one lane releases for it",
    "a release that releases nothing", "what an item is is not said")}
# Of sm90_wide and sm90_fast, whose items have a warp of their own.
ITEM_WARP = {
    **LAST_ITEM,
    ("where the share begins is not said", 0): "a share without work has no tokens, whatever its cost",
    **{("what an item is is not said", place): "a share without work has no cost, whatever its rows and keys are"
       for place in (0, 1)},
    ("weights of no token are not zeros, or weights are not stored", ("pad_weights<T>(loader, shared, item);",)):
        "rows that do not exist are not stored",
}

SM90 = {
    "program": "check",
    # 1 to 5 tokens and 0 to 450 keys a request: one, two and four token groups, many items, several rounds of the ring;
    # rows that see different keys, then all the same, then stretches of sixteen tiles; tiles of 2, 4 and 1 boxes; a
    # fourth group without tokens, and more tiles than stages; items of more than half a ring whose groups change;
    # weights that are not copied, in rectangles and in blocks; items that have columns to fill and no keys.
    "kernels": {"sm90_score_h64": [
        "h64/d128/t5/b20/n450/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107/causal",
        "h64/d128/t5/b20/n450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
        "h64/d128/t2/b2/n6000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
        "h64/d128/t3/b2/n2500/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5/causal",
        "h64/d128/t5/b6/n1450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2108",
        "h64/d128/t3/b4/n200/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2109/wbf16",
        "h64/d128/t9/b6/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s2113/fill9,sms1",
        "h64/d128/t9/b6/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s2114/wbf16,fill9,sms1"]},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "mutants": HANDED_OVER + WGMMA + ITEM_BYTES + [
        Kind("the consumers do not meet", r"bar\.sync \d+, \d+;|bar\.sync %r\d+, %r\d+;|barrier\.sync[^;]*;", "",
             {"mbarrier-phase-aliasing", "scores"}, []),
        WARP_MEETS,
    ],
    "equivalent": {
        **INITIALISATION,
        **LAST_ITEM,
        ("a wait that acquires nothing", ("k_full[stage_at<T>(ring).index]",)):
            "a fourth group where there are three reads nothing of the tile",
        # The first two MMAs of a stretch: the fence before the first was behind the last access of both accumulators.
        ("wgmma.fence is missing", ("if (two) next(i, 1, b);",)):
            "no register of its MMA was accessed since the fence before",
        # The second tile of a pair, by number: source lines do not tell the tiles of an unrolled stretch apart. The
        # warp met behind its waits for both tiles and its reads of both k_scale and live words, before the first was
        # released; what reads the second since is its MMA, and lane 0 has waited for that.
        **{("the warp does not meet before one lane releases for it", place): "it met behind all lanes' reads of it"
           for place in range(2, 24, 2)},
    },
}


# All meet at named barriers, none at that of the CTA.
NAMED_BARRIERS = [
    Kind("threads do not meet at a named barrier", r"bar\.sync %r\d+, %r\d+;", "",
         UNORDERED | BARRIER | UNDEFINED | {"missing-proxy-fence", "wgmma-by-warpgroup"}),
    Kind("loading warps are not told where the share begins", r"bar\.arrive %r\d+, %r\d+;", "", STUCK),
]

SM90_PLAIN = {
    "program": "check",
    # One group and four, in rounds of eight tiles from any stage, behind a rehearsal; tiles of 2, 4 and 1 boxes; a
    # fourth group without tokens; two groups; items of more than half a ring whose groups change; more items than
    # arrivals complete a phase.
    "kernels": {"sm90_score_h64_plain": [
        "h64/d128/t5/b20/n450/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
        "h64/d128/t4/b34/n450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
        "h64/d128/t3/b2/n2500/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
        "h64/d128/t2/b2/n6000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
        "h64/d128/t5/b6/n1450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2108",
        "h64/d128/t1/b140/n64/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2115"]},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "few": 1,
    "few_kinds": {"a wait for the other phase", "an arrive.expect_tx is missing", "a release is missing",
                  "a tensor copy signals another mbarrier", "an MMA is missing", "wgmma.wait_group is missing",
                  "k_scale is not announced", "threads do not meet at a named barrier"},
    "mutants": HANDED_OVER + ITEM_BYTES + [
        kind for kind in WGMMA if kind.what not in ("what a row sees is not said", "a CTA barrier is missing")] +
        NAMED_BARRIERS + [WARP_MEETS],
    "equivalent": {
        **INITIALISATION,
        **LAST_ITEM_OF_PLAIN,
        ("a wait that acquires nothing", ("k_full[stage_at<T>(ring).index]",)):
            "a fourth group where there are three reads nothing of the tile",
        ("wgmma.fence is missing", ("if (two) next(i, 1, b);",)):
            "no register of its MMA was accessed since the fence before",
        ("the warp does not meet before one lane releases for it", ("the elected lane's arrival hands over",)):
            "with 64 heads no lane stores: rows see alike, and no weights fill up a group",
        # The second tile of a pair, by number, as in SM90: of stretches of eight, four and two tiles.
        **{("the warp does not meet before one lane releases for it", place): "it met behind all lanes' reads of it"
           for place in range(3, 16, 2)},
    },
}

SM90_PAIR = {
    "program": "check",
    # 1 to 6 tokens and 0 to 450 keys a request, warpgroups with two groups, one, none; rounds of the ring, items whose
    # groups change; tiles of 2, 4 and 1 boxes; more requests than lanes; more items than arrivals complete a phase.
    "kernels": {"sm90_pair_h64": [
        "h64/d128/t6/b9/n450/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
        "h64/d128/t6/b2/n2500/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
        "h64/d128/t6/b40/n100/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2108",
        "h64/d128/t5/b140/n64/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2115"]},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "few": 1,
    "mutants": HANDED_OVER + ITEM_BYTES + [
        kind for kind in WGMMA if kind.what not in ("what a row sees is not said", "a CTA barrier is missing")] +
        NAMED_BARRIERS + [WARP_MEETS],
    "equivalent": {
        **INITIALISATION,
        **LAST_ITEM_OF_PLAIN,
        ("a wait that acquires nothing", ("                arrived<T>(shared, stage_at<T>(ring));",)):
            "a warpgroup without a group reads nothing of the tile",
        # The second MMA of a stretch of four tiles, and of one: the fence before the first was behind the last access
        # of both accumulators. By number: source lines do not tell the tiles of an unrolled stretch apart.
        **{("wgmma.fence is missing", place): "no register of its MMA was accessed since the fence before"
           for place in (1, 9)},
        ("the warp does not meet before one lane releases for it", ("the elected lane's arrival hands over",)):
            "with 64 heads no lane stores: rows see alike, and no weights fill up a group",
        ("the warp does not meet before one lane releases for it", ("        ptx::bar_warp_sync(ptx::kFullMask);",)):
            "it met at the release of the item's last tile, behind all that its lanes read of the item",
    },
}

SM90_DECODE = {
    "program": "check",
    # 1 to 3 tokens and 0 to 200 keys a request: warpgroups whose share spans several requests, one after the other;
    # then pages of one warp's reach and windows of 30 tiles that end inside a request; then more requests than lanes.
    "kernels": {f"sm90_decode_{shape}": [
        f"{shape}/d128/t3/b20/n200/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2112",
        f"{shape}/d128/t2/b2/n6000/p16/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
        f"{shape}/d128/t1/b33/n2/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s7"]
        for shape in ("h64", "h32")},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "1"},
    "always_all": True,
    "mutants": [
        Kind("a wait for copies is missing", r"cp\.async\.wait_group[^;]*;", "", UNORDERED),
        Kind("a wait for copies waits for one group less", r"(cp\.async\.wait_group )(\d);", counted_up, UNORDERED),
        Kind("a group of copies is not closed", r"cp\.async\.commit_group;", "", UNORDERED),
        Kind("a copy is missing", r"cp\.async\.c[ag]\.[^;]*;", "", VALUE | UNDEFINED | UNORDERED),
        Kind("a copy to the next 128 bytes", r"(cp\.async\.c[ag]\.\S*) \[(%r\d+)\],",
             r"add.u32 \2, \2, 128; \1 [\2],", VALUE | UNDEFINED | UNORDERED | {"illegal-address"}),
        Kind("fence.proxy.async is missing", r"fence\.proxy\.async[^;]*;", "", {"missing-proxy-fence"}),
        Kind("the warpgroup does not meet", r"bar\.sync %r\d+, %r\d+;", "", UNORDERED | {"missing-proxy-fence"}),
        Kind("the CTA does not meet", r"bar\.sync 0;", "", UNORDERED | STUCK),
        Kind("the warp does not meet", r"bar\.warp\.sync[^;]*;", "", {"ordered-by-convergence"} | UNORDERED),
        Kind("a fragment is missing", r"ldmatrix[^;]*;", "", VALUE | UNDEFINED),
        Kind("a fragment of the next 16 bytes", r"(ldmatrix[^\[]*\[)(%r\d+)\];",
             r"xor.b32 \2, \2, 16; \1\2];", VALUE | UNDEFINED),
        Kind("wgmma.fence is missing", r"wgmma\.fence[^;]*;", "", {"missing-wgmma-fence"}),
        Kind("wgmma.commit_group is missing", r"wgmma\.commit_group[^;]*;", "", IN_FLIGHT),
        Kind("wgmma.wait_group is missing", r"wgmma\.wait_group[^;]*;", "", IN_FLIGHT),
        Kind("an MMA is missing", r"wgmma\.mma_async[^;]*;", "", VALUE | {"undefined-store"}),
        Kind("a score is missing", r"st\.global\.f32[^;]*;", "", VALUE),
    ],
    "equivalent": {},
    "unreached": {
        ("a score is missing", 0): "a dead key of an illegal page: the one-call index alone asks for those",
    },
}

# What sm90_wide and sm90_fast hand over beyond that.
ITEMS = [
    WARP_MEETS,
    *NAMED_BARRIERS,
    Kind("what an item is is not said", r"st\.shared\.v4\.u32[^;]*;", "", VALUE | UNDEFINED | STUCK, [0, -1]),
    Kind("where the share begins is not said", r"st\.shared\.v2\.u64[^;]*;", "", VALUE | UNDEFINED | STUCK, [0]),
    Kind("a warp's cost is not said", r"st\.shared\.u64[^;]*;", "", VALUE | UNDEFINED),
    Kind("weights of no token are not zeros, or weights are not stored", r"st\.shared\.f32[^;]*;", "",
         VALUE | UNDEFINED),
    Kind("a lane's sum is its own", r"shfl\.sync\.bfly\.b32 (%\w+), (%\w+), [^;]*;", r"mov.b32 \1, \2;", VALUE, [0],
         every=False),
    Kind("an MMA adds to what was there", r"wgmma\.mma_async[^;]*, p, 1, 1;", r"setp.eq.u32 p, 0, 0; \g<0>",
         VALUE | UNDEFINED, [0], every=False),
]
# All meet at named barriers, none at that of the CTA.
PREFILL = HANDED_OVER + [kind for kind in WGMMA if kind.what != "a CTA barrier is missing"] + ITEMS
SM90_WIDE = {
    "program": "check",
    # Six items and some twenty tiles in one CTA, of six boxes each; two CTAs, of which the second begins inside
    # the work; nothing at all; items that have columns to fill and no keys; more blocks than threads, as in sm90_fast.
    "kernels": {name: [
        f"{shape}/d128/t17/b3/n700/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2111/causal,sms1",
        f"{shape}/d128/t9/b2/n900/p96/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2112{more}",
        f"{shape}/d128/t2/b3/n64/p64/block-split/pad0/gap0/lattice/dead/nocheck/guard/s2113",
        f"{shape}/d128/t9/b2/n900/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/guard/s2114"] + [
        f"{shape}/d128/t9/b6/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/{filled},sms1"
        for filled in ("s2113/fill9", "s2114/wbf16,fill9") if more] + [
        f"{shape}/d128/t2/b404/n64/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2205/causal"
        for _ in (0,) if name == "sm90_wide_h64"]
        for name, shape, more in (("sm90_wide_h64", "h64", "/wbf16,fill9"), ("sm90_wide_h64_plain", "h64", ""),
                                  ("sm90_wide_h128", "h128", "/wbf16,fill9"), ("sm90_wide_h32", "h32", "/wbf16,fill9"),
                                  ("sm90_wide_h32_plain", "h32", ""))},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "few": 1,
    "mutants": PREFILL + ITEM_BYTES,
    "equivalent": {
        **INITIALISATION,
        ("wgmma.fence is missing", 1): "no register of its MMA was accessed since the fence before",
        **ITEM_WARP,
    },
    # MMAs whose accumulators are an array of their own: it was read a tile before, and other MMAs' fences followed.
    "equivalent_of": {name: {("wgmma.fence is missing", place): "its registers were read a tile ago, fences since"
                             for place in places}
                      for name, places in (("sm90_wide_h64", range(2, 8)), ("sm90_wide_h64_plain", range(2, 8)),
                                           ("sm90_wide_h32_plain", (3,)))},
}

SM100_WIDE = {
    "program": "check",
    # Six items and some twenty tiles in one CTA, of four boxes each, rows that see different keys; two CTAs, the second
    # of which begins inside the work; subnormal weights; nothing at all; contiguous keys; more blocks than threads.
    "kernels": {f"sm100_wide_h{heads}": [
        f"h{heads}/d128/t{tokens}/b2/n900/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2111/causal,sms1",
        f"h{heads}/d128/t{tokens}/b1/n1100/p16/block-split/pad0/gap0/special/plain/nocheck/guard/s2112",
        f"h{heads}/d128/t2/b3/n64/p64/block-split/pad0/gap0/lattice/dead/nocheck/guard/s2113",
        f"h{heads}/d128/t{tokens}/b2/n900/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/guard/s2114",
        f"h{heads}/d128/t2/b270/n64/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2205/causal"]
        for heads, tokens in ((64, 11), (32, 22))},
    "environment": {"PTXEMU_CC": "100", "PTXEMU_SMS": "2"},
    "few": 1,
    "few_kinds": {"a wait is skipped", "a wait for the other phase", "a wait that acquires nothing",
                  "a tensor copy signals another mbarrier", "both fences of the initialisation are missing",
                  "tcgen05.fence::before_thread_sync is missing", "tcgen05.fence::after_thread_sync is missing",
                  "a commit is missing", "an MMA is missing", "Tensor Memory is not given back", "a release is missing",
                  "a release that releases nothing", "a release counts one more",
                  "the warp does not meet before one lane releases for it", "threads do not meet at a named barrier",
                  "tcgen05.ld beyond Tensor Memory"},
    "mutants": HANDED_OVER + ITEM_BYTES + [
        kind for kind in TCGEN05 + WGMMA + ITEMS if "wgmma" not in kind.pattern.pattern and
        kind.what not in ("N + 8 columns", "wait::ld is missing", "a CTA barrier is missing",
                          "a lane's sum is its own")] + [
        # The stage is given back by an arrival, not by a barrier of the CTA.
        Kind("wait::ld is missing", r"tcgen05\.wait::ld[^;]*;", "", {"tmem-ld-not-waited", "race-tmem"}),
        moved_behind("tcgen05.fence::before_thread_sync behind the release", r"tcgen05\.fence::before[^;]*;", ARRIVE,
                     {"missing-fence-before"}),
        Kind("N of 264", MMA, r"add.u32 \5, \5, 0x20000; \1 [\2], \3, \4, \5, p; sub.u32 \5, \5, 0x20000;", ILLEGAL),
        Kind("tcgen05.ld beyond Tensor Memory", LOAD_TMEM,
             r"add.u32 \3, \3, 512; \1\2, [\3]; sub.u32 \3, \3, 512;", {"illegal-address"}),
    ],
    "equivalent": {
        **INITIALISATION,
        **{name: why for name, why in LAST_ITEM.items() if name[0] != "a release that releases nothing"},
        # The second are those of s_full and s_empty.
        **{(what, 1): "no copy completes on them, and the CTA has met when a commit or a warp arrives"
           for what in ("fence.mbarrier_init is missing", "fence.proxy.async is missing",
                        "both fences of the initialisation are missing")},
        ("a wait that acquires nothing", ("    wait(ptx::cvta_to_shared(&shared.s_empty[ring % kScoreStages])",)):
            "Tensor Memory alone goes behind it",
        ("the warp does not meet before one lane releases for it", 11):
            "it meets for tcgen05.dealloc, which is .aligned; lanes that wait in the emulator do so together",
        # The zeros that a share begins as; its tokens, place 2 of the items, are needed.
        **{place: "a share without work has no tokens, whatever else it says"
           for place in (("what a row sees is not said", 0), ("live keys are not said", 0),
                         ("what an item is is not said", 0), ("what an item is is not said", 1),
                         ("where the share begins is not said", 0))},
        # By number: source lines do not tell all steps apart.
        **{("wait::ld is missing", place): "the last step's stands before the release; the registers are waited for"
           for place in range(16) if place % 4 != 3},
    },
}

SM90_FAST = {
    "program": "check",
    # Four items of eight tiles in one CTA; warpgroups without tokens, weights that are not copied; nothing at all;
    # columns to fill; more blocks than threads that share them out: the second CTA begins with a thread's second. The
    # second CTA of three has the beginning of a block, without a tile, and the last tiles of the block before: its
    # first item is none of load_first.
    "kernels": {"sm90_fast_h64": [
        "h64/d128/t13/b2/n450/p16/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2201/causal,sms1",
        "h64/d128/t6/b5/n200/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2202/wbf16,fill9,sms1",
        "h64/d128/t2/b6/n64/p64/block-split/pad0/gap0/lattice/dead/nocheck/guard/s2113/causal,sms2",
        "h64/d128/t13/b6/n100/p64/block-split/pad0/gap0/lattice/lengths/nocheck/guard/s2113/fill9,sms1",
        "h64/d128/t13/b2/n900/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/guard/s2114/sms2",
        "h64/d128/t2/b404/n64/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2205/causal,sms2",
        "h64/d128/t12/b2/n384/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2207"],
                "sm90_fast_h32": [
        "h32/d128/t25/b2/n450/p16/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2203/causal,sms1",
        "h32/d128/t12/b5/n200/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2204/wbf16,fill9,sms1",
        "h32/d128/t2/b40/n64/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2206/sms2",
        "h32/d128/t25/b2/n900/p0/contiguous/pad0/gap0/lattice/ragged/nocheck/guard/s2114/sms2",
        "h32/d128/t2/b12/n64/p64/block-split/pad0/gap0/lattice/dead/nocheck/guard/s2113/causal,sms2",
        "h32/d128/t24/b2/n384/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2208"]},
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "3"},
    "few": 1,
    "few_kinds": {"a wait is skipped", "a wait for the other phase", "an arrive.expect_tx is missing",
                  "a tensor copy signals another mbarrier", "a release is missing", "a release counts one more",
                  "both fences of the initialisation are missing", "wgmma.wait_group is missing", "an MMA is missing",
                  "the warp does not meet before one lane releases for it", "what an item is is not said",
                  "threads do not meet at a named barrier"},
    "mutants": PREFILL,
    "equivalent": {
        **INITIALISATION,
        ("a wait that acquires nothing", ("                wait(ptx::cvta_to_shared(&shared.k_full[stage.index])",)):
            "a group without tokens reads nothing of the tile",
        # Q is not among what completes the phase; weights, keys and rows are stored before any of the lanes arrives. Of
        # the first item, so once; elsewhere the surplus grows with each item until a phase is missed.
        **{("a release counts one more", (arrival, "load_first<T>(p, loader, shared);")):
           "all that it completes early is there, and the lanes of an emulated warp arrive together"
           for arrival in ("        ptx::mbarrier_arrive(full);", "else ptx::mbarrier_arrive(full);")},
        **ITEM_WARP,
    },
}

GENERIC = {
    "program": "check",
    "kernels": {"generic_score": ["h8/d64/t3/b2/n150/p7/block-split/pad0/gap2/normal/ragged/nocheck/guard/s2009"]},
    "environment": {"PTXEMU_CC": "80", "PTXEMU_SMS": "2"},
    "always_all": True,
    "mutants": [
        Kind("a CTA barrier is missing", r"bar\.sync 0;", "", UNORDERED | UNDEFINED),
        Kind("Q or weights are not stored", r"st\.shared[^;]*;", "", VALUE | UNDEFINED),
    ],
    "equivalent": {},
}

TABLES = {"sm100": SM100, "sm100_wide": SM100_WIDE, "sm90": SM90, "sm90_plain": SM90_PLAIN, "sm90_pair": SM90_PAIR,
          "sm90_decode": SM90_DECODE, "sm90_wide": SM90_WIDE, "sm90_fast": SM90_FAST, "generic": GENERIC}
