#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every hand-over of the tensor-core kernels is needed, and PTXEMU_CHECK=1 says so.

A mutant is the kernel's PTX with one edit: a fence, wait, commit, arrive or expect_tx left out, or another single
change. It is caught by a finding, a fault or other scores under one of eleven seeds, and one of the diagnoses that its
kind lists must be among those given; or it stands in the table of equivalent mutants, with the reason why nothing can
show it, and must then not be caught. The kernel itself must be silent.

usage: mutant_test.py CHECK sm100|sm90|sm90_decode PTX [--long] [--show] [--only=TEXT]
  --long   sm90: every place of kinds that have many alike; else a few of each
  --show   print what each mutant gives, judge nothing
  --only   of the kinds, those whose name contains the text
"""
import os
import re
import subprocess
import sys
import tempfile

SEEDS = range(11)
WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[(%r\d+)\], (%r\d+);"
EXPECT = r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[(%r\d+)\], (%r\d+);"
ARRIVE = r"mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\], (%r\d+);"
INIT = r"mbarrier\.init\.shared::cta\.b64 \[(%r\d+)\], (%r\d+);"
COMMIT = r"(tcgen05\.commit[^;]*) \[(%r\d+)\];"
TENSOR_LOAD = r"(cp\.async\.bulk\.tensor\.\dd\.shared::cluster\.global[\w.:]*) \[(%r\d+)\], ([^;]*), \[(%r\d+)\];"
MMA = r"(tcgen05\.mma[\w.:]*) \[(%r\d+)\], (%rd\d+), (%rd\d+), (%r\d+), p;"
LOAD_TMEM = r"(tcgen05\.ld[\w.:]*)(\s*\{[^}]*\}), \[(%r\d+)\];"

UNORDERED = {"race-shared", "race-tmem", "race-in-warp", "tma-load-not-waited", "mma-not-waited", "tmem-ld-not-waited",
             "wgmma-not-waited", "cp-async-not-waited", "missing-fence-after", "missing-fence-before"}
STUCK = {"deadlock"}
BYTES = STUCK | UNORDERED | {"mbarrier-bytes", "mbarrier-phase-aliasing", "exit-in-flight", "mbarrier-tx-overflow"}
COUNTS = STUCK | UNORDERED | {"mbarrier-arrival-underflow", "mbarrier-phase-aliasing"}
BARRIER = COUNTS | BYTES | {"mbarrier-not-initialised", "mbarrier-reinitialised", "race-shared"}
VALUE = {"scores"}
ILLEGAL = {"illegal-instruction"}
UNDEFINED = {"undefined-guard", "undefined-store", "undefined-address"}


class Kind:
    """One edit at every place that a pattern finds. expected: diagnoses of which one must be given."""

    def __init__(self, what, pattern, replacement, expected, few=None):
        self.what, self.pattern, self.replacement = what, re.compile(pattern), replacement
        self.expected, self.few = expected, few      # few: places that are enough without --long


def moved_behind(what, pattern, anchor, expected, few=None):
    """The instruction stands behind the next `anchor` instead of before it."""
    return Kind(what, rf"(?s)({pattern})(.*?{anchor})", r"\2 \1", expected, few)


WAITS = [
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

SM100 = {
    "kernel": "sm100_score_h64",
    # Two requests of five token tiles and two key tiles, rows with keys of their own; one CTA takes all four units.
    "cases": ["h64/d128/t9/b2/n200/p32/block-split/pad0/gap0/lattice/plain/nocheck/guard/s77/window,sms1"],
    "environment": {"PTXEMU_SMS": "1"},
    "always_all": True,
    "mutants": WAITS + [
        Kind("tcgen05.fence::before_thread_sync is missing", r"tcgen05\.fence::before[^;]*;", "",
             {"missing-fence-before"}),
        Kind("tcgen05.fence::after_thread_sync is missing", r"tcgen05\.fence::after[^;]*;", "",
             {"missing-fence-after"}),
        moved_behind("tcgen05.fence::before_thread_sync behind the barrier", r"tcgen05\.fence::before[^;]*;",
                     r"bar\.sync 0;", {"missing-fence-before"}),
        Kind("a CTA barrier is missing", r"bar\.sync 0;", "", UNORDERED | BARRIER | {"illegal-address"}),
        Kind("wait::ld is missing", r"tcgen05\.wait::ld[^;]*;", "", {"tmem-ld-not-waited"}),
        moved_behind("wait::ld behind the barrier", r"tcgen05\.wait::ld[^;]*;", r"bar\.sync 0;",
                     {"tmem-ld-not-waited"}),
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
        Kind("tcgen05.ld beyond the accumulator", LOAD_TMEM, r"add.u32 \3, \3, 128; \1\2, [\3]; sub.u32 \3, \3, 128;",
             {"illegal-address"}),
        Kind("Tensor Memory is not given back", r"tcgen05\.dealloc[^;]*;", "", {"exit-tmem-held"}),
        Kind("Tensor Memory is given back twice", r"tcgen05\.dealloc[^;]*;", r"\g<0> \g<0>", ILLEGAL),
        Kind("Tensor Memory is not allocated", r"tcgen05\.alloc[^;]*;", "", {"illegal-address"} | ILLEGAL),
        Kind("half the columns", r"(tcgen05\.alloc[^\[]*\[%r\d+\], )(%r\d+);",
             r"shr.u32 \2, \2, 1; \1\2; shl.b32 \2, \2, 1;", {"illegal-address"}),
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
        ("fence.mbarrier_init is missing", 0): "fence.proxy.async behind it makes the initialisation visible as well",
        ("fence.proxy.async is missing", 0): "fence.mbarrier_init before it makes the initialisation visible as well",
    },
}

SM90 = {
    "kernel": "sm90_score_h64",
    # 1 to 5 tokens and 0 to 450 keys a request: one, two and four token groups, many items, several rounds of the ring;
    # rows that see different keys, then all the same, then stretches of sixteen tiles; tiles of 2, 4 and 1 boxes; a
    # fourth group without tokens, and more tiles than stages.
    "cases": ["h64/d128/t5/b20/n450/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107/causal",
              "h64/d128/t5/b20/n450/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107",
              "h64/d128/t2/b2/n6000/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
              "h64/d128/t3/b2/n2500/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5/causal"],
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "2"},
    "always_all": False,
    "mutants": WAITS + [
        Kind("a release is missing", ARRIVE, "", COUNTS, [0, 1, 2, -1]),
        Kind("a release that releases nothing", ARRIVE,
             r"mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [\1], \2;", UNORDERED | {"mbarrier-phase-aliasing"},
             [0, 1, 2, -1]),
        Kind("a release counts one more", ARRIVE,
             r"add.u32 \2, \2, 1; mbarrier.arrive.shared::cta.b64 _, [\1], \2; sub.u32 \2, \2, 1;", COUNTS | BARRIER,
             [0]),
        Kind("a release to another mbarrier", ARRIVE,
             r"add.u32 \1, \1, 8; mbarrier.arrive.shared::cta.b64 _, [\1], \2; sub.u32 \1, \1, 8;", COUNTS | BARRIER,
             [0]),
        Kind("wgmma.fence is missing", r"wgmma\.fence[^;]*;", "", {"missing-wgmma-fence"}, [0]),
        Kind("wgmma.commit_group is missing", r"wgmma\.commit_group[^;]*;", "",
             {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}, [0]),
        Kind("wgmma.wait_group is missing", r"wgmma\.wait_group[^;]*;", "",
             {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}, [0]),
        Kind("wgmma.wait_group waits for one group less", r"wgmma\.wait_group\.sync\.aligned (\d);",
             lambda m: f"wgmma.wait_group.sync.aligned {int(m.group(1)) + 1};",
             {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}, [0]),
        Kind("an MMA is missing", r"wgmma\.mma_async[^;]*;", "", VALUE | {"undefined-store"}, [0, -1]),
        Kind("k_scale is not announced", r"cp\.async\.mbarrier\.arrive\.noinc[^;]*;", "", STUCK, [0, 1, -1]),
        Kind("k_scale's copies are not announced, their arrivals are",
             r"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64 \[(%r\d+)\];",
             r"mbarrier.arrive.shared::cta.b64 _, [\1];", {"cp-async-not-waited"}, [0, 1]),
        Kind("a weight or a k_scale is not loaded", r"cp\.async\.ca[^;]*;", "", {"scores", "undefined-store"}),
        Kind("what a row sees is not said", r"st\.shared\.v2\.u32[^;]*;", "", {"scores"} | UNDEFINED),
        Kind("live keys are not said", r"st\.shared\.u32[^;]*;", "", {"scores"} | UNDEFINED, [0]),
        Kind("a CTA barrier is missing", r"bar\.sync 0;", "", UNORDERED | BARRIER),
        Kind("the consumers do not meet", r"bar\.sync \d+, \d+;|bar\.sync %r\d+, %r\d+;|barrier\.sync[^;]*;", "",
             {"mbarrier-phase-aliasing", "scores"}, []),
        Kind("the warp does not meet before one lane releases for it", r"bar\.warp\.sync[^;]*;", "",
             {"ordered-by-convergence", "race-shared"}, [0, 1]),
    ],
    "equivalent": {
        ("fence.mbarrier_init is missing", 0): "fence.proxy.async behind it makes the initialisation visible as well",
        ("fence.proxy.async is missing", 0): "fence.mbarrier_init before it makes the initialisation visible as well",
        ("k_scale's copies are not announced, their arrivals are", 4): "the last item has no tokens, so copies nothing",
        ("a wait that acquires nothing", 26): "a fourth group where there are three reads nothing of the tile",
        # The second of two MMAs in a row: the fence before the first was behind the last access of both accumulators.
        **{("wgmma.fence is missing", place): "no register of its MMA was accessed since the fence before"
           for place in (1, 17, 21)},
        ("what a row sees is not said", 2): "the last item has no tiles, so nobody asks what its rows see",
        # The compiler's rest of an unrolled loop: an item has one, two or four groups, so never three boxes of Q.
        **{(kind, place): "three boxes of Q, which no item has" for place in (6, 15)
           for kind in ("a tensor copy is missing", "a tensor copy to the next 128 bytes",
                        "a tensor copy signals another mbarrier")},
    },
}


SM90_DECODE = {
    "kernel": "sm90_decode_h64",
    # 1 to 3 tokens and 0 to 200 keys a request: warpgroups whose share spans several requests, one after the other;
    # then pages of one warp's reach and windows of 30 tiles that end inside a request; then more requests than lanes.
    "cases": ["h64/d128/t3/b20/n200/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2112",
              "h64/d128/t2/b2/n6000/p16/block-split/pad0/gap0/lattice/plain/nocheck/guard/s5",
              "h64/d128/t1/b33/n2/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s7"],
    "environment": {"PTXEMU_CC": "90", "PTXEMU_SMS": "1"},
    "always_all": True,
    "mutants": [
        Kind("a wait for copies is missing", r"cp\.async\.wait_group[^;]*;", "", UNORDERED),
        Kind("a wait for copies waits for one group less", r"cp\.async\.wait_group (\d);",
             lambda m: f"cp.async.wait_group {int(m.group(1)) + 1};", UNORDERED),
        Kind("a group of copies is not closed", r"cp\.async\.commit_group;", "", UNORDERED),
        Kind("a copy is missing", r"cp\.async\.c[ag]\.[^;]*;", "", VALUE | UNDEFINED | UNORDERED),
        Kind("a copy to the next 128 bytes", r"(cp\.async\.c[ag]\.\S*) \[(%r\d+)\],",
             r"add.u32 \2, \2, 128; \1 [\2],", VALUE | UNDEFINED | UNORDERED),
        Kind("fence.proxy.async is missing", r"fence\.proxy\.async[^;]*;", "", {"missing-proxy-fence"}),
        Kind("the warpgroup does not meet", r"bar\.sync %r\d+, %r\d+;", "", UNORDERED | {"missing-proxy-fence"}),
        Kind("the CTA does not meet", r"bar\.sync 0;", "", UNORDERED | STUCK),
        Kind("the warp does not meet", r"bar\.warp\.sync[^;]*;", "", {"ordered-by-convergence"} | UNORDERED),
        Kind("a fragment is missing", r"ldmatrix[^;]*;", "", VALUE | UNDEFINED),
        Kind("a fragment of the next 16 bytes", r"(ldmatrix[^\[]*\[)(%r\d+)\];",
             r"xor.b32 \2, \2, 16; \1\2];", VALUE | UNDEFINED),
        Kind("wgmma.fence is missing", r"wgmma\.fence[^;]*;", "", {"missing-wgmma-fence"}),
        Kind("wgmma.commit_group is missing", r"wgmma\.commit_group[^;]*;", "",
             {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}),
        Kind("wgmma.wait_group is missing", r"wgmma\.wait_group[^;]*;", "",
             {"wgmma-not-waited", "wgmma-register-in-use", "exit-in-flight"}),
        Kind("an MMA is missing", r"wgmma\.mma_async[^;]*;", "", VALUE | {"undefined-store"}),
        Kind("a score is missing", r"st\.global\.f32[^;]*;", "", VALUE),
    ],
    "equivalent": {
        # By the manual cp.async belongs to the generic proxy (9.7.9.25.2 names the bulk copies alone as the other's).
        ("fence.proxy.async is missing", 0): "the emulator asks for no proxy fence behind cp.async (docs/emulator.md)",
        ("a score is missing", 0): "a dead key of an illegal page: the one-call index alone asks for those",
    },
}


def alone(ptx, kernel):
    """The module with the body of one entry, so that little is parsed: other entries return at once, no debug text.
    And where that body begins and ends."""
    text = re.sub(r"(\.entry\s+(\w+)\([^)]*\)[^{]*)\{.*?\n\}\n",
                  lambda m: m.group(0) if m.group(2) == kernel else m.group(1) + "{ ret; }\n", ptx, flags=re.S)
    text = text.split(".section", 1)[0]
    begin = re.search(rf"\.entry\s+{kernel}\b", text).start()
    end = text.find(".entry", begin + 10)
    return text, begin, len(text) if end < 0 else end


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    check, name, ptx_path = [a for a in sys.argv[1:] if not a.startswith("--")]
    table = {"sm100": SM100, "sm90": SM90, "sm90_decode": SM90_DECODE}[name]
    kernel, every_place = table["kernel"], table["always_all"] or "--long" in options
    with open(ptx_path, encoding="utf-8") as file:
        shipped = file.read()
    first_line = shipped.count("\n", 0, re.search(rf"\.entry\s+{kernel}\b", shipped).start()) + 1
    ptx, begin, end = alone(shipped, kernel)
    seeds = SEEDS if every_place else SEEDS[:3]
    failed = passed = 0
    unused = dict(table["equivalent"])
    with tempfile.TemporaryDirectory() as directory:
        mutant = os.path.join(directory, "mutant.ptx")
        environment = dict(os.environ, PTXEMU_PTX=mutant, PTXEMU_CHECK="1", **table["environment"])

        def diagnoses(text, seeds):
            """Codes of what is found under the first seed that shows anything, and that seed."""
            with open(mutant, "w", encoding="utf-8") as file:
                file.write(text)
            for seed in seeds:   # most are caught by the first case and seed; the module is parsed once a process
                for cases in [[case] for case in table["cases"]] if seed == 0 else [table["cases"]]:
                    named = [word for case in cases for word in ("--case", f"{kernel}/{case}")]
                    done = subprocess.run([check, "--device", "emu", "--timeout", "60", *named],
                                          env=dict(environment, PTXEMU_SEED=str(seed)), capture_output=True, text=True,
                                          timeout=1200)
                    codes = set(re.findall(r"\[([a-z0-9]+(?:-[a-z0-9]+)+|deadlock)\]", done.stdout + done.stderr))
                    if done.returncode not in (0, 1):
                        return {"run failed: " + done.stderr[-200:]}, seed
                    if done.returncode == 1 and not codes:
                        codes = {"scores"} if "driver call failed" not in done.stdout else {done.stdout[:300]}
                    if codes:
                        return codes, seed
            return set(), None

        def report(good, text):
            nonlocal failed, passed
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)

        codes, _ = diagnoses(ptx, range(201) if "--long" in options else SEEDS[:2])
        report(not codes, f"no mutation: {sorted(codes) or 'silent'}")
        only = next((o[7:] for o in options if o.startswith("--only=")), "")
        for kind in table["mutants"]:
            if only not in kind.what:
                continue
            found = list(kind.pattern.finditer(ptx[begin:end]))
            if not found:
                report(False, f"{kind.what}: no instruction matches")
                continue
            places = range(len(found))
            if kind.few is not None and not every_place:
                places = sorted({p % len(found) for p in kind.few if -len(found) <= p < len(found)})
            for place in places:
                match = found[place]
                new = kind.replacement(match) if callable(kind.replacement) else match.expand(kind.replacement)
                codes, seed = diagnoses(ptx[:begin + match.start()] + new + ptx[begin + match.end():], seeds)
                reason = unused.pop((kind.what, place), None)
                line = first_line + ptx.count("\n", begin, begin + match.start())
                what = f"{kind.what}, place {place} of {len(found)}, line {line}: {sorted(codes)} seed {seed}"
                if reason is not None:
                    report(not codes, f"{what}; equivalent: {reason}")
                else:
                    report(bool(codes & kind.expected) or "--show" in options, what)
    for (what, place), _ in unused.items():
        if every_place and not only:
            report(False, f"{what}, place {place}: listed as equivalent, but there is no such mutant")
    print(f"{name}_mutants: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
