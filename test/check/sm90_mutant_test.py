#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hand-overs of the SM90 kernel, one spoiled at a time: the emulator under a few scheduler seeds must show other
scores, a deadlock or an error. A few places of each kind; the unrolled loop has many that are alike.
(That the consumers meet where the number of groups changes matters only when a loading warp falls behind by a round of
the ring, which these seeds do not bring about.)

usage: sm90_mutant_test.py CHECK SM90_SCORE_PTX
"""
import os
import re
import subprocess
import sys
import tempfile

KERNEL = "sm90_score_h64"
# 1 to 5 tokens and 0 to 450 keys a request: one, two and four token groups, many items, several rounds of the ring. The
# first places of each kind are those of the walk over blocks whose rows see different keys.
CASE = KERNEL + "/h64/d128/t5/b20/n450/p64/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2107/causal"
SEEDS = "8"

WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[(%r\d+)\], (%r\d+);"
RELEASE = r"mbarrier\.arrive\.shared::cta\.b64 _, \[(%r\d+)\], (%r\d+);"
# what: (pattern, replacement, places: 0 is the first, -1 the last)
MUTANTS = {
    "a wait is skipped": (WAIT, r"setp.eq.u32 p, \1, \1;", [0, 1, 2]),
    "a wait for the other phase":
        (WAIT, r"xor.b32 \2, \2, 1; mbarrier.try_wait.parity.shared::cta.b64 p, [\1], \2; xor.b32 \2, \2, 1;", [1, -1]),
    "wait_group is missing": (r"wgmma\.wait_group\.sync\.aligned 0;", "", [-1]),
    "a release is missing": (RELEASE, "", [-1]),
    "a release counts one warp only": (RELEASE, r"mbarrier.arrive.shared::cta.b64 _, [\1], 1;", [-4]),
    "k_scale is not announced": (r"cp\.async\.mbarrier\.arrive\.noinc[^;]*;", "", [0]),
    "a weight or a k_scale is not loaded": (r"cp\.async\.ca\.shared\.global[^;]*;", "", [0, 1]),
    "what a row sees is not said": (r"st\.shared\.v2\.u32[^;]*;", "", [0]),
    "live keys are not said": (r"st\.shared\.u32[^;]*;", "", [0]),
    "the CTA does not meet": (r"bar\.sync 0;", "", [0]),
    "an MMA is missing": (r"wgmma\.mma_async[^;]*;", "", [-1]),
}


def main():
    check, ptx_path = sys.argv[1:]
    with open(ptx_path, encoding="utf-8") as file:
        ptx = file.read()
    begin = re.search(rf"\.entry\s+{KERNEL}\b", ptx).start()
    end = ptx.find(".entry", begin + 10)
    end = len(ptx) if end < 0 else end
    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory:
        mutant = os.path.join(directory, "mutant.ptx")
        environment = dict(os.environ, PTXEMU_PTX=mutant, PTXEMU_CC="90", PTXEMU_SMS="2")

        def run(text):
            with open(mutant, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([check, "--device", "emu", "--seeds", SEEDS, "--timeout", "60", "--case", CASE],
                                  env=environment, capture_output=True, text=True, timeout=1200)
            return done.returncode, done.stdout.split("\n")[0]

        def report(good, what, line):
            nonlocal passed, failed
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {what} | {line}", flush=True)

        code, line = run(ptx)
        report(code == 0, "no mutation", line)
        for what, (pattern, replacement, places) in MUTANTS.items():
            found = list(re.finditer(pattern, ptx[begin:end]))
            if not found:
                report(False, what, f"no instruction matches {pattern}")
                continue
            for place in places:
                match = found[place]
                text = ptx[:begin + match.start()] + match.expand(replacement) + ptx[begin + match.end():]
                code, line = run(text)
                report(code == 1, f"{what}, place {place} of {len(found)}", line[line.find("s: ") + 3:][:200])
    print(f"sm90_mutants: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
