#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The emulator computes what the PTX says, not what the reference says.

Each edit changes one instruction of sm100_score.ptx. Run through PTXEMU_PTX, the edited text must give other scores
than the shipped one; the unedited text must give the same. (check compares the counts of MMAs and TMA loads in every
case; the edit that removes an MMA must upset them too.)

usage: emulator_honesty_test.py CHECK SM100_SCORE_PTX
"""
import json
import os
import re
import subprocess
import sys
import tempfile

KERNEL = "sm100_score_h64"
CASE = KERNEL + "/h64/d128/t3/b1/n129/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s77"
# A NaN for each head at each place of a token tile, one at a time, and scales that are subnormal.
SPECIAL = KERNEL + "/h64/d128/t1280/b1/n9/p64/block-split/pad0/gap0/special/plain/nocheck/guard/s1301"

REG = r"%\w+"
# what: (pattern of one instruction, which of its occurrences, its replacement, how the failure must begin, the case)
EDITS = {
    "an fma takes its first factor twice":
        (rf"fma\.rn\.f32x2 ({REG}), ({REG}), ({REG}), ({REG});", 0, r"fma.rn.f32x2 \1, \2, \2, \4;", "lattice:", CASE),
    "the last fma drops its addend":
        (rf"fma\.rn\.f32x2 ({REG}), ({REG}), ({REG}), ({REG});", -1, r"mul.rn.f32x2 \1, \2, \3;", "lattice:", CASE),
    "one relu is gone":
        (rf"max\.NaN\.f32 ({REG}), ({REG}), ({REG});", 0, r"mov.f32 \1, \2;", "lattice:", CASE),
    "one relu becomes min":
        (rf"max\.NaN\.f32 ({REG}), ({REG}), ({REG});", 0, r"min.NaN.f32 \1, \2, \3;", "lattice:", CASE),
    # The first two such products are those of two weight factors.
    "k_scale is added instead of multiplied":
        (rf"mul\.rn\.f32 ({REG}), ({REG}), ({REG});", 2, r"add.rn.f32 \1, \2, \3;", "lattice:", CASE),
    "one MMA is missing":
        (r"tcgen05\.mma\.[^;]*;", 0, "", "the emulator counted", CASE),
    "the first relu hides NaN":
        (r"max\.NaN\.f32", 0, "max.f32", "lattice:", SPECIAL),
    "the last relu hides NaN":
        (r"max\.NaN\.f32", -1, "max.f32", "lattice:", SPECIAL),
    "an fma flushes subnormals":
        (r"fma\.rn\.f32x2", 20, "fma.rn.ftz.f32x2", "lattice:", SPECIAL),
    "the multiplication by k_scale flushes subnormals":
        (r"mul\.rn\.f32 ", 2, "mul.rn.ftz.f32 ", "lattice:", SPECIAL),
}


def kernel_text(ptx):
    """(begin, end) of the kernel's body."""
    begin = re.search(rf"\.entry\s+{KERNEL}\b", ptx).start()
    following = ptx.find(".entry", begin + 10)
    return begin, len(ptx) if following < 0 else following


def run(check, ptx_file, directory, case):
    out = os.path.join(directory, "result.json")
    environment = dict(os.environ)
    environment.pop("PTXEMU_PTX", None)
    if ptx_file:
        environment["PTXEMU_PTX"] = ptx_file
    done = subprocess.run([check, "--device", "emu", "--case", case, "--json", out],
                          env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        raise SystemExit(f"check ended with {done.returncode}: {done.stdout}{done.stderr}")
    with open(out, encoding="utf-8") as file:
        return json.load(file)["cases"][0]


def main():
    check, ptx_path = sys.argv[1:]
    with open(ptx_path, encoding="utf-8") as file:
        ptx = file.read()
    begin, end = kernel_text(ptx)
    failures = 0

    def report(what, good, detail):
        nonlocal failures
        failures += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}: {detail}", flush=True)

    with tempfile.TemporaryDirectory() as directory:
        shipped = {}
        for case in (CASE, SPECIAL):
            shipped[case] = run(check, None, directory, case)
            report("the shipped PTX", shipped[case]["verdict"] == "ok",
                   shipped[case]["hash"] + " " + shipped[case]["reason"])

        def run_text(text, case):
            path = os.path.join(directory, "edited.ptx")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return run(check, path, directory, case)

        same = run_text(ptx, CASE)
        report("the same PTX as a file", same["verdict"] == "ok" and same["hash"] == shipped[CASE]["hash"],
               same["hash"] + " " + same["reason"])
        for what, (pattern, occurrence, replacement, reason, case) in EDITS.items():
            found = list(re.finditer(pattern, ptx[begin:end]))
            if not found:
                report(what, False, f"no instruction matches {pattern}")
                continue
            match = found[occurrence]
            edited = run_text(ptx[:begin + match.start()] + match.expand(replacement) + ptx[begin + match.end():], case)
            good = edited["verdict"] == "FAIL" and edited["hash"] not in ("-", shipped[case]["hash"]) \
                and edited["reason"].startswith(reason)
            report(what, good, edited["hash"] + " " + edited["reason"])
    print(f"emulator_honesty: {len(EDITS) + 3 - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
