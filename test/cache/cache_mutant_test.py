#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Spoils one instruction of a cache kernel's PTX at a time; the tests of that kernel must notice.

For each kind of edit the instructions that match are counted, and a few of them, spread over the text, are edited. The
edited text runs in the emulator in place of the shipped one (PTXEMU_PTX).

usage: cache_mutant_test.py CACHE_KERNELS STORE_PTX GATHER_PTX QUERY_PTX
"""
import os
import re
import subprocess
import sys
import tempfile

# what: (pattern of an instruction, its replacement, how many of its places are tried; -1: the last one)
QUANTISE = {
    "a sum is rounded toward zero": (r"add\.rn\.f32", "add.rz.f32", 4),
    "a product becomes a sum": (r"mul\.rn\.f32", "add.rn.f32", 3),
    "a division is rounded toward zero": (r"div\.rn\.f32", "div.rz.f32", 5),
    "a rotated value is cut to bf16": (r"cvt\.rn\.bf16\.f32", "cvt.rz.bf16.f32", 2),
    "a rotated value is cut to fp16": (r"cvt\.rn\.f16\.f32", "cvt.rz.f16.f32", 2),
    "the largest hides a NaN": (r"max\.NaN\.f32", "max.f32", 3),
    "an absolute value keeps its sign": (r"abs\.f32", "mov.f32", 2),
    "a lane asks itself": (r"shfl\.sync\.bfly\.b32 (\S+) (\S+) \S+,", r"shfl.sync.bfly.b32 \1 \2 0,", 5),
}
# kernel: (tests that must notice, edits)
EDITS = {
    "cache_store": ("store:*", QUANTISE | {
        "a byte offset loses its check": (r"setp\.lt\.s64", "setp.gt.s64", 1),
        "a division of slots": (r"div\.u64", "rem.u64", 1),
        "codes go to the neighbour": (r"st\.global\.u32 \[(%rd\d+)\]", r"st.global.u32 [\1+4]", 2),
    }),
    "cache_store_pages": ("cache:*", {
        "a division is rounded toward zero": (r"div\.rn\.f32", "div.rz.f32", 1),
        "a lane asks itself": (r"shfl\.sync\.bfly\.b32 (\S+) (\S+) \S+,", r"shfl.sync.bfly.b32 \1 \2 0,", 1),
        "the page is the slot": (r"div\.u32", "rem.u32", 1),
        "codes go to the neighbour": (r"st\.global\.u32 \[(%rd\d+)\]", r"st.global.u32 [\1+4]", 1),
    }),
    "cache_query": ("query:*", QUANTISE | {
        "weights are cut to bf16": (r"cvt\.rn\.bf16\.f32", "cvt.rz.bf16.f32", -1),
        "the row is the head": (r"div\.u32", "rem.u32", 1),
    }),
    "cache_gather": ("gather:*", {
        "a boundary belongs to the request before": (r"setp\.le\.s32", "setp.lt.s32", 1),
        "an illegal page id passes": (r"setp\.gt\.s64", "setp.ne.s64", -1),
        "a scale is stored four bytes on": (r"st\.global\.u32 \[(%rd\d+)\]", r"st.global.u32 [\1+4]", 1),
        "the page is the slot": (r"div\.u32", "rem.u32", 1),
    }),
}


def body(ptx, kernel):
    """(begin, end) of a kernel in the text."""
    begin = re.search(rf"\.entry\s+{kernel}\(", ptx).start()
    following = ptx.find(".entry", begin + 10)
    return begin, len(ptx) if following < 0 else following


def spread(count, wanted):
    """Up to `wanted` of range(count), from the first to the last; -1: the last."""
    if wanted < 0:
        return list(range(count))[-1:]
    if count <= wanted:
        return list(range(count))
    return sorted({round(i * (count - 1) / max(1, wanted - 1)) for i in range(wanted)})


def main():
    program, *paths = sys.argv[1:]
    failures = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        edited = os.path.join(folder, "edited.ptx")

        def passes(tests, text):
            with open(edited, "w", encoding="utf-8") as file:
                file.write(text)
            # On a GPU there is no PTX to edit.
            environment = dict(os.environ, PTXEMU_PTX=edited, LIDX_TEST_DRIVER="emu")
            done = subprocess.run([program, tests], env=environment, timeout=300,
                                  capture_output=True, text=True)
            return done.returncode == 0, done.stdout + done.stderr

        for kernel, (tests, edits) in EDITS.items():
            path = next(p for p in paths if kernel.startswith(os.path.basename(p).split(".")[0]))
            with open(path, encoding="utf-8") as file:
                ptx = file.read()
            good, output = passes(tests, ptx)
            if not good:
                print(f"FAIL {kernel}: the shipped text itself\n{output}")
                failures += 1
                continue
            begin, end = body(ptx, kernel)
            for what, (pattern, replacement, wanted) in edits.items():
                found = list(re.finditer(pattern, ptx[begin:end]))
                if not found:
                    print(f"FAIL {kernel}: no instruction matches {pattern}")
                    failures += 1
                for index in spread(len(found), wanted):
                    match = found[index]
                    tried += 1
                    good, output = passes(tests, ptx[:begin + match.start()] + match.expand(replacement) +
                                          ptx[begin + match.end():])
                    line = ptx.count("\n", 0, begin + match.start()) + 1
                    print(f"{'FAIL' if good else 'ok  '} {kernel}: {what}, PTX line {line}", flush=True)
                    failures += good
    print(f"cache mutants: {tried} tried, {failures} unnoticed or wrong")
    return 1 if failures or tried < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
