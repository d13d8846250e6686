#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every hand-over of the SM100 kernel is needed, and the emulator under a few scheduler seeds shows it.

Each mutant spoils one synchronisation of the PTX: a wait skipped, or waiting for the other phase; a wrong byte
count; a barrier, a commit, a wait::ld or an initialisation left out. Each must give other scores, a deadlock or an
error.
(Fences that only order memory, as tcgen05.fence and fence.proxy.async do, change nothing on a machine that
executes one instruction after the other, and are not among them.)

usage: handover_mutant_test.py CHECK SM100_SCORE_PTX
"""
import os
import re
import subprocess
import sys
import tempfile

KERNEL = "sm100_score_h64"
# Two requests of five token tiles and two key tiles, rows with keys of their own; one CTA takes all four units.
CASE = KERNEL + "/h64/d128/t9/b2/n200/p32/block-split/pad0/gap0/lattice/plain/nocheck/guard/s77/window,sms1"
SEEDS = "12"

WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[(%r\d+)\], (%r\d+);"
EXPECT = r"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[(%r\d+)\], (%r\d+);"
# what: (pattern, replacement)
MUTANTS = {
    "a wait is skipped": (WAIT, r"setp.eq.u32 p, \1, \1;"),
    "a wait for the other phase":
        (WAIT, r"xor.b32 \2, \2, 1; mbarrier.try_wait.parity.shared::cta.b64 p, [\1], \2; xor.b32 \2, \2, 1;"),
    "too few bytes expected": (EXPECT, r"mbarrier.arrive.expect_tx.shared::cta.b64 _, [\1], 128;"),
    "too many bytes expected": (EXPECT, r"mbarrier.arrive.expect_tx.shared::cta.b64 _, [\1], 32768;"),
    "a CTA barrier is missing": (r"bar\.sync 0;", ""),
    "wait::ld is missing": (r"tcgen05\.wait::ld\.sync\.aligned;", ""),
    "a commit is missing": (r"tcgen05\.commit[^;]*;", ""),
    "an mbarrier is not initialised": (r"mbarrier\.init[^;]*;", ""),
    "a TMA load is missing": (r"cp\.async\.bulk\.tensor[^;]*;", ""),
    "Tensor Memory is not given back": (r"tcgen05\.dealloc[^;]*;", ""),
    "weights are not stored": (r"st\.shared\.f32[^;]*;", ""),
    "what rows see is not stored": (r"st\.shared\.v2\.u32[^;]*;", ""),
    "what a warp's rows see together is not stored": (r"st\.shared\.v4\.u32[^;]*;", ""),
}


def main():
    check, ptx_path = sys.argv[1:]
    with open(ptx_path, encoding="utf-8") as file:
        ptx = file.read()
    begin = re.search(rf"\.entry\s+{KERNEL}\b", ptx).start()
    end = ptx.find(".entry", begin + 10)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory:
        mutant = os.path.join(directory, "mutant.ptx")
        environment = dict(os.environ, PTXEMU_PTX=mutant, PTXEMU_SMS="1")

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
        for what, (pattern, replacement) in MUTANTS.items():
            found = list(re.finditer(pattern, ptx[begin:end]))
            if not found:
                report(False, what, f"no instruction matches {pattern}")
            for i, match in enumerate(found):
                text = ptx[:begin + match.start()] + match.expand(replacement) + ptx[begin + match.end():]
                code, line = run(text)
                report(code == 1, f"{what}, place {i}", line[line.find("s: ") + 3:][:300])
    print(f"handover_mutants: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
