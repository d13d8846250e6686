# SPDX-License-Identifier: Apache-2.0
"""What mutant_test.py does to a kernel, and what must come of it: kinds of edits that several kernels share."""
import re

WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[(%r\d+)\], (%r\d+);"
EXPECT = r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[(%r\d+)\], (%r\d+);"
ARRIVE = r"mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\]((?:, %r\d+)?);"
EXPECT_ALONE = r"mbarrier\.expect_tx\.relaxed\.cta\.shared::cta\.b64 \[(%r\d+)\], (%r\d+);"
INIT = r"mbarrier\.init\.shared::cta\.b64 \[(%r\d+)\], (%r\d+);"
TENSOR_LOAD = r"(cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[\w.:]*) \[(%r\d+)\], ([^;]*), \[(%r\d+)\];"
# With the predicate that guards it.
PREDICATED = r"(?:@!?%?p\d* )?"

UNORDERED = {"race-shared", "race-tmem", "race-global", "race-in-warp", "tma-load-not-waited", "mma-not-waited",
             "tmem-ld-not-waited", "wgmma-not-waited", "cp-async-not-waited", "missing-fence-after",
             "missing-fence-before"}
STUCK = {"deadlock"}
BYTES = STUCK | UNORDERED | {"mbarrier-bytes", "mbarrier-phase-aliasing", "exit-in-flight", "mbarrier-tx-overflow"}
COUNTS = STUCK | UNORDERED | {"mbarrier-arrival-underflow", "mbarrier-phase-aliasing"}
BARRIER = COUNTS | BYTES | {"mbarrier-not-initialised", "mbarrier-reinitialised"}
VALUE = {"scores"}
ILLEGAL = {"illegal-instruction"}
UNDEFINED = {"undefined-guard", "undefined-store", "undefined-address"}
IN_FLIGHT = {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}


class Kind:
    """One edit at every place that a pattern finds. expected: diagnoses of which one must be given.

    few: places that are enough without --long. every: with --long all places are tried, else `few` there, too."""

    def __init__(self, what, pattern, replacement, expected, few=None, every=True):
        self.what, self.pattern, self.replacement = what, re.compile(pattern), replacement
        self.expected, self.few, self.every = expected, few, every

    def places(self, count, long):
        if self.few is None or (long and self.every):
            return list(range(count))
        return sorted({place % count for place in self.few if -count <= place < count})

    def applied(self, match):
        return self.replacement(match) if callable(self.replacement) else match.expand(self.replacement)


def moved_behind(what, pattern, anchor, expected, few=None):
    """The instruction stands behind the next `anchor` instead of before it."""
    return Kind(what, rf"(?s)({pattern})(.*?{anchor})", r"\2 \1", expected, few)


def counted_up(match):
    """wait_group N of a group of copies or MMAs waits for one group less."""
    return f"{match.group(1)}{int(match.group(2)) + 1};"


# mbarriers, tensor copies and the fences of their initialisation.
HANDED_OVER = [
    Kind("a wait is skipped", WAIT, r"setp.eq.u32 p, \1, \1;", UNORDERED | BARRIER, [0, 1, 2, -1]),
    Kind("a wait for the other phase", WAIT,
         r"xor.b32 \2, \2, 1; mbarrier.try_wait.parity.shared::cta.b64 p, [\1], \2; xor.b32 \2, \2, 1;",
         UNORDERED | BARRIER, [0, 1, -1]),
    Kind("a wait that acquires nothing", WAIT,
         r"mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [\1], \2;", UNORDERED, [0, 1, 2, -1]),
    Kind("an arrive.expect_tx is missing", EXPECT, "", BYTES, [0, 1]),
    Kind("an expect_tx is missing", EXPECT, r"mbarrier.arrive.shared::cta.b64 _, [\1];", BYTES, [0, 1]),
    Kind("expect_tx without the arrive", EXPECT, r"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [\1], \2;", STUCK,
         [0, 1]),
    Kind("too few bytes expected", EXPECT, r"mbarrier.arrive.expect_tx.shared::cta.b64 _, [\1], 128;", BYTES, [0, 1]),
    Kind("too many bytes expected", EXPECT, r"mbarrier.arrive.expect_tx.shared::cta.b64 _, [\1], 131072;", BYTES,
         [0, 1]),
    Kind("bytes expected at another mbarrier", EXPECT,
         r"add.u32 \1, \1, 8; mbarrier.arrive.expect_tx.shared::cta.b64 _, [\1], \2; sub.u32 \1, \1, 8;", BARRIER,
         [0, 1]),
    Kind("an mbarrier is not initialised", INIT, "", {"mbarrier-not-initialised"} | BARRIER | ILLEGAL, [0, -1]),
    Kind("an mbarrier expects one arrival more", INIT,
         r"add.u32 \2, \2, 1; mbarrier.init.shared::cta.b64 [\1], \2; sub.u32 \2, \2, 1;", STUCK, [0, -1]),
    Kind("an mbarrier is initialised twice", INIT, r"\g<0> \g<0>", {"mbarrier-reinitialised"}, [0, -1]),
    Kind("a tensor copy is missing", TENSOR_LOAD, "", BYTES | {"undefined-store"}, [0, 1, -1]),
    Kind("a tensor copy to the next 128 bytes", TENSOR_LOAD,
         r"add.u32 \2, \2, 128; \1 [\2], \3, [\4]; sub.u32 \2, \2, 128;",
         {"scores", "race-shared", "tma-load-not-waited", "wgmma-not-waited", "mma-not-waited", "swizzle-alignment",
          "illegal-address", "undefined-store"}, [0, 1, -1]),
    Kind("a tensor copy signals another mbarrier", TENSOR_LOAD,
         r"add.u32 \4, \4, 8; \1 [\2], \3, [\4]; sub.u32 \4, \4, 8;", BARRIER, [0, 1, -1]),
    Kind("fence.mbarrier_init is missing", r"fence\.mbarrier_init[^;]*;", "", {"missing-proxy-fence"}),
    Kind("fence.proxy.async is missing", r"fence\.proxy\.async[^;]*;", "", {"missing-proxy-fence"}),
    Kind("both fences of the initialisation are missing",
         r"(?s)fence\.mbarrier_init[^;]*;(.*?)fence\.proxy\.async[^;]*;", r"\1", {"missing-proxy-fence"}),
]
INITIALISATION = {
    ("fence.mbarrier_init is missing", 0): "fence.proxy.async behind it makes the initialisation visible as well",
    ("fence.proxy.async is missing", 0): "fence.mbarrier_init before it makes the initialisation visible as well",
}

# What threads hand back, the warpgroup's MMAs, and copies of k_scale and weights.
WGMMA = [
    Kind("a release is missing", ARRIVE, "", COUNTS, [1, 2, -1]),
    Kind("a release that releases nothing", ARRIVE,
         r"mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [\1]\2;", UNORDERED | {"mbarrier-phase-aliasing"},
         [1, 2]),
    Kind("a release counts one more", ARRIVE,
         r"\g<0> mbarrier.arrive.shared::cta.b64 _, [\1];", COUNTS | BARRIER | UNDEFINED, [1]),
    Kind("a release to another mbarrier", ARRIVE,
         r"add.u32 \1, \1, 8; mbarrier.arrive.shared::cta.b64 _, [\1]\2; sub.u32 \1, \1, 8;", COUNTS | BARRIER,
         [1]),
    Kind("wgmma.fence is missing", r"wgmma\.fence[^;]*;", "", {"missing-wgmma-fence"}, [0]),
    Kind("wgmma.commit_group is missing", r"wgmma\.commit_group[^;]*;", "", IN_FLIGHT, [0]),
    Kind("wgmma.wait_group is missing", r"wgmma\.wait_group[^;]*;", "", IN_FLIGHT, [0]),
    Kind("wgmma.wait_group waits for one group less", r"(wgmma\.wait_group\.sync\.aligned )(\d);", counted_up,
         IN_FLIGHT, [0]),
    Kind("an MMA is missing", r"wgmma\.mma_async[^;]*;", "", VALUE | {"undefined-store"}, [0, -1]),
    Kind("k_scale is not announced", r"cp\.async\.mbarrier\.arrive\.noinc[^;]*;", "", STUCK, [0, 1, -1]),
    Kind("k_scale's copies are not announced, their arrivals are",
         r"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64 \[(%r\d+)\];",
         r"mbarrier.arrive.shared::cta.b64 _, [\1];", {"cp-async-not-waited"}, [0, 1]),
    Kind("a weight or a k_scale is not loaded", r"cp\.async\.ca[^;]*;", "", {"scores", "undefined-store"}),
    # Where a share begins, too: the compiler stores two words of it at once.
    Kind("what a row sees is not said", r"st\.shared\.v2\.u32[^;]*;", "",
         {"scores", "race-same-value"} | UNDEFINED | STUCK),
    Kind("live keys are not said", r"st\.shared\.u32[^;]*;", "", {"scores"} | UNDEFINED, [0]),
    Kind("a CTA barrier is missing", r"bar\.sync 0;", "", UNORDERED | BARRIER),
]
# Q's bytes, ahead of the arrival that hands the rest of the item over.
ITEM_BYTES = [
    Kind("Q's bytes are not expected", EXPECT_ALONE, "", BYTES),
    Kind("too few of Q's bytes expected", EXPECT_ALONE, r"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [\1], 128;",
         BYTES),
    Kind("too many of Q's bytes expected", EXPECT_ALONE,
         r"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [\1], 131072;", BYTES),
    Kind("Q's bytes expected at another mbarrier", EXPECT_ALONE,
         r"add.u32 \1, \1, 8; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [\1], \2; sub.u32 \1, \1, 8;", BARRIER),
]
WARP_MEETS = Kind("the warp does not meet before one lane releases for it", r"bar\.warp\.sync[^;]*;", "",
                  {"ordered-by-convergence", "race-shared", "race-in-warp", "mbarrier-phase-aliasing"}, [0, 1])
