#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every kernel of kernel/variants.h, unmutated, under many schedules and PTXEMU_CHECK=1: nothing is found, and results
are right.

A kernel's cases are small and whole: every ring wraps, every role runs. Only its body is parsed, so that a case which
another kernel served would fail.

usage: silent_seeds.py SEEDS VARIANTS_H CHECK TOPK CACHE STEM=PTX... [--only=TEXT] [--table]
  SEEDS    seeds 0 to SEEDS, one a launch
  --only   of the kernels, those whose name contains the text
  --table  the results once more, as rows of docs/testing-mutants.md
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is
import mutant_scorers
import mutant_selection
from mutant_test import KEEP_MEMORY, alone

CHECK, TOPK, CACHE = range(3)


def sm100_case(heads, tokens):
    """Two requests of five and more token tiles and two key tiles: Q and S stages, K and weights are reused."""
    shape = f"h{heads}/d128/t{4 * tokens + 1}/b2/n200/p32/block-split/pad0/gap0"
    return f"{shape}/lattice/ragged/nocheck/guard/s77/causal,sms1"


SCORE = "b3/n900/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2108"
DECODE = "b8/n400/p16/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2112"
WIDE = "t17/b2/n250/p16/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2111/causal"
WIDE_TILES = "b2/n600/p32/block-split/pad0/gap0/lattice/ragged/nocheck/guard/s2111/causal"
FAST = "b1/n900/p64/block-split/pad0/gap0/lattice/plain/nocheck/guard/s2201/causal"
HOPPER = {"PTXEMU_CC": "90", "PTXEMU_SMS": "1"}

# kernel: (program, device, cases)
CASES = {
    **{f"sm90_score_h{h}": (CHECK, HOPPER, [f"h{h}/d128/t{t}/{SCORE}/causal"])
       for h, t in ((64, 5), (32, 9), (16, 17), (8, 33), (4, 33))},
    **{f"sm90_score_h{h}_plain": (CHECK, HOPPER, [f"h{h}/d128/t{t}/{SCORE}"]) for h, t in ((64, 5), (32, 9))},
    **{f"sm90_pair_h{h}": (CHECK, HOPPER, [f"h{h}/d128/t{t}/{SCORE}"]) for h, t in ((64, 6), (32, 12))},
    **{f"sm90_decode_h{h}": (CHECK, HOPPER, [f"h{h}/d128/t{t}/{DECODE}"]) for h, t in ((64, 5), (32, 9))},
    **{f"sm90_wide_h{h}": (CHECK, HOPPER, [f"h{h}/d128/{WIDE},fill9"]) for h in (128, 64, 32)},
    **{f"sm90_wide_h{h}_plain": (CHECK, HOPPER, [f"h{h}/d128/{WIDE}"]) for h in (64, 32)},
    **{f"sm100_wide_h{h}": (CHECK, {"PTXEMU_CC": "100", "PTXEMU_SMS": "1"}, [f"h{h}/d128/t{t}/{WIDE_TILES}"])
       for h, t in ((64, 9), (32, 17))},
    **{f"sm90_fast_h{h}": (CHECK, HOPPER, [f"h{h}/d128/t{t}/{FAST}"]) for h, t in ((64, 13), (32, 25))},
    "generic_score": (CHECK, mutant_scorers.GENERIC["environment"], mutant_scorers.GENERIC["kernels"]["generic_score"]),
    **{kernel: (TOPK, table["environment"], cases)
       for table in mutant_selection.TABLES.values() for kernel, cases in table["kernels"].items()},
    "cache_store": (CACHE, {"PTXEMU_CC": "80"}, ["store: every*", "store: unaligned*"]),
    "cache_store_pages": (CACHE, {"PTXEMU_CC": "80"}, ["streams: steps on two*"]),
    "cache_gather": (CACHE, {"PTXEMU_CC": "80"}, ["gather: more*", "gather: boundaries*"]),
    "cache_query": (CACHE, {"PTXEMU_CC": "80"}, ["query:*"]),
}


def kernels_of(variants):
    """Symbols of the tables, in order, and the source files that the cache's name. Families are in capitals."""
    with open(variants, encoding="utf-8") as file:
        text = file.read()
    return re.findall(r"\bX\(([a-z]\w*)[,)]", re.sub(r"//[^\n]*|#define[^\n]*", "", text))


def cpu_seconds():
    """Of the runs so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def found(done):
    """What a program that must be silent said, in short."""
    codes = sorted(set(re.findall(r"\[([a-z0-9]+(?:-[a-z0-9]+)+|deadlock)\]", done.stdout + done.stderr)))
    if codes or done.returncode != 0:
        return f"{codes} exit code {done.returncode}: {(done.stdout + done.stderr)[-1500:]}"
    return ""


def run_check(check, kernel, cases, environment, seeds, directory):
    """The case `seeds` times in one process, each time under the next seed; the orders of events must differ."""
    path = os.path.join(directory, "rows.json")
    done = subprocess.run([check, "--device", "emu", "--json", path] + ["--case", f"{kernel}/{cases[0]}"] * seeds,
                          env=dict(environment, PTXEMU_SEED="0", PTXEMU_SEED_STEP="1"), capture_output=True, text=True,
                          errors="replace")
    problem = found(done)
    if problem:
        return 0, problem
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["cases"]
    orders, bits = {row["event_order"] for row in results}, {row["hash"] for row in results}
    if len(results) != seeds or len(bits) != 1:
        problem = f"{len(results)} results, {len(bits)} different ones"
    elif len(orders) * 2 < seeds:
        problem = f"the seeds change too little: {len(orders)} orders of events"
    return len(results), problem


def run_launches(program, kernel, cases, environment, seeds, directory):
    """Some launches of different shapes, each under the next seed, until there were enough."""
    path = os.path.join(directory, "stats.json")
    launches, repeats = 0, 1
    while launches < seeds:
        done = subprocess.run([program, ",".join(cases)], capture_output=True, text=True, errors="replace",
                              env=dict(environment, PTXEMU_SEED=str(launches), PTXEMU_SEED_STEP="1",
                                       PTXEMU_STATS=path, LIDX_TEST_REPEATS=str(repeats)))
        problem = found(done)
        if problem:
            return launches, problem
        with open(path, encoding="utf-8") as file:
            more = json.load(file)["launches"]
        if more == 0:
            return launches, "nothing was launched"
        launches += more
        repeats = max(1, -(-(seeds - launches) * repeats // more))   # the first run has all shapes once
    return launches, ""


RUN = {CHECK: run_check, TOPK: run_launches, CACHE: run_launches}


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    count, variants, *programs = [a for a in sys.argv[1:] if not a.startswith("--")]
    programs, stems = programs[:3], dict(a.split("=", 1) for a in programs[3:])
    only = next((o.split("=", 1)[1] for o in options if o.startswith("--only=")), "")
    seeds, failed, passed, rows = int(count) + 1, 0, 0, []
    for kernel in kernels_of(variants):
        if only not in kernel and only != "=" + kernel:
            continue
        sm100 = re.fullmatch(r"sm100_score_h(\d+)(?:_t(\d+))?", kernel)
        if sm100:
            heads = int(sm100.group(1))
            which = (CHECK, {"PTXEMU_CC": "100"}, [sm100_case(heads, int(sm100.group(2) or 128 // heads))])
        else:
            which = CASES.get(kernel)
        if which is None:
            print(f"FAIL {kernel}: no case", flush=True)
            failed += 1
            continue
        program, environment, cases = which
        for path in stems.values():
            with open(path, encoding="utf-8") as file:
                ptx = file.read()
            if re.search(rf"\.entry\s+{kernel}\(", ptx):
                break
        with tempfile.TemporaryDirectory() as directory:
            edited = os.path.join(directory, "alone.ptx")
            with open(edited, "w", encoding="utf-8") as file:
                file.write(alone(ptx, kernel)[0] if program != CACHE else ptx)
            environment = dict(os.environ, PTXEMU_PTX=edited, PTXEMU_CHECK="1", LIDX_TEST_DRIVER="emu", **KEEP_MEMORY,
                               **environment)
            before = cpu_seconds()
            launches, problem = RUN[program](programs[program], kernel, cases, environment, seeds, directory)
        used = cpu_seconds() - before
        passed, failed = passed + (not problem), failed + bool(problem)
        print(f"{'FAIL' if problem else 'ok  '} {kernel}: {launches} schedules, {problem or 'silent'}, {used:.0f} s",
              flush=True)
        rows.append(f"| {kernel} | {'; '.join(f'`{case}`' for case in cases)} | {launches} | {used:.0f} |")
    if "--table" in options:
        print("\n".join(rows))
    print(f"silent_seeds: {passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
