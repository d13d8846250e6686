#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every hand-over of the kernels is needed, and PTXEMU_CHECK=1 says so.

A mutant is a kernel's PTX with one edit: a fence, wait, commit, arrive, expect_tx or barrier left out, or another
single change. It is caught by a finding, a fault or other results under one of eleven seeds, and one of the diagnoses
that its kind lists must be among those given; or it stands in the table of equivalent mutants, with the reason why
nothing can show it, and must then not be caught although a case executes the place: `trap` there is caught. Places that
no launch can reach stand in the table apart ("unreached"), and must not be. The kernel itself must be silent.

usage: mutant_test.py TABLE PTX PROGRAM [--long] [--show] [--only=TEXT] [--kernel=NAME]
  TABLE      of mutant_scorers.py or mutant_selection.py; PROGRAM is what runs the cases: check, or a Catch2 program
  --long     every place of kinds that have many alike; else a few of each
  --show     print what each mutant gives, judge nothing
  --only     of the kinds, those whose name contains the text
  --kernel   of a table that is for several kernels, this one; else the first
"""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True   # the source tree stays as it is
import mutant_scorers
import mutant_selection

SEEDS = range(11)
# The C library keeps what a launch gave back: half the time of those with many threads.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_MMAP_THRESHOLD_": "2000000000"}
TABLES = {**mutant_scorers.TABLES, **mutant_selection.TABLES}


def alone(ptx, kernel):
    """The module with the body of one entry, so that little is parsed: other entries return at once, no debug text.
    And where that body begins and ends."""
    text = re.sub(r"(\.entry\s+(\w+)\([^)]*\)[^{]*)\{.*?\n\}\n",
                  lambda m: m.group(0) if m.group(2) == kernel else m.group(1) + "{ ret; }\n", ptx, flags=re.S)
    text = text.split(".section", 1)[0]
    begin = re.search(rf"\.entry\s+{kernel}\b", text).start()
    end = text.find(".entry", begin + 10)
    return text, begin, len(text) if end < 0 else end


class Runner:
    """Runs the cases of a table with a text in place of the shipped PTX."""

    def __init__(self, table, kernel, program, directory):
        self.cases = table["kernels"][kernel]
        self.kernel, self.path = kernel, os.path.join(directory, "mutant.ptx")
        self.checks = table["program"] == "check"
        self.command = [program, "--device", "emu", "--timeout", "60"] if self.checks else [program, "-a"]
        self.environment = dict(os.environ, PTXEMU_PTX=self.path, PTXEMU_CHECK="1", LIDX_TEST_DRIVER="emu",
                                PTXEMU_MAX_INSTRUCTIONS="20000000", **KEEP_MEMORY, **table["environment"])

    def run(self, cases, seed):
        """Codes of what is found."""
        if self.checks:
            named = [word for case in cases for word in ("--case", f"{self.kernel}/{case}")]
        else:
            named = [",".join(cases)]
        done = subprocess.run(self.command + named, env=dict(self.environment, PTXEMU_SEED=str(seed)),
                              capture_output=True, text=True, errors="replace", timeout=1200)
        codes = set(re.findall(r"\[([a-z0-9]+(?:-[a-z0-9]+)+|deadlock)\]", done.stdout + done.stderr))
        if self.checks and done.returncode not in (0, 1):
            return {"run failed: " + done.stderr[-200:]}
        if done.returncode != 0 and not codes:
            broken = re.search(r"driver call failed[^\n]*|CUDA_ERROR_\w+", done.stdout + done.stderr)
            codes = {broken.group(0)[:200]} if broken else {"scores"}
        return codes

    def reaches(self, text, match, begin):
        """Whether a case executes the instruction, that of its predicate included."""
        guard = re.match(r"(?:@!?%?p\d* )?", match.group(0)).group(0)
        at = begin + match.start()
        return bool(self.diagnoses(text[:at] + guard + "trap; " + text[at:], SEEDS[:1])[0])

    def diagnoses(self, text, seeds):
        """Of the first seed that shows anything, and that seed."""
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)
        for seed in seeds:   # most are caught by the first case and seed; the module is parsed once a process
            for cases in [[case] for case in self.cases] if seed == 0 else [self.cases]:
                codes = self.run(cases, seed)
                if codes:
                    return codes, seed
        return set(), None

    def judged(self, ptx, begin, kind, match, seeds):
        """Diagnoses of a mutant, their seed, and whether any case comes to the place; seeds after 0 if one does."""
        mutant = ptx[:begin + match.start()] + kind.applied(match) + ptx[begin + match.end():]
        codes, seed = self.diagnoses(mutant, seeds[:1])
        if codes or not self.reaches(ptx, match, begin):
            return codes, seed, bool(codes)
        return *self.diagnoses(mutant, seeds[1:]), True


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    name, ptx_path, program = [a for a in sys.argv[1:] if not a.startswith("--")]
    value = lambda key: next((o.split("=", 1)[1] for o in options if o.startswith(key + "=")), "")
    table, only, show, long = TABLES[name], value("--only"), "--show" in options, "--long" in options
    kernel = value("--kernel") or next(iter(table["kernels"]))
    every_place = long or table.get("always_all", False)
    seeds = SEEDS if every_place else SEEDS[:1 if "few" in table else 3]
    with open(ptx_path, encoding="utf-8") as file:
        shipped = file.read()
    first_line = shipped.count("\n", 0, re.search(rf"\.entry\s+{kernel}\b", shipped).start()) + 1
    ptx, begin, end = alone(shipped, kernel)
    failed = passed = 0
    equivalent = {**table["equivalent"], **table.get("equivalent_of", {}).get(kernel, {})}
    absent = table.get("absent", {}).get(kernel, ())
    unreached = {**table.get("unreached", {}), **table.get("unreached_of", {}).get(kernel, {})}
    unused, places_of_edits, caught, latest = {**equivalent, **unreached}, set(), 0, 0

    def report(good, text):
        nonlocal failed, passed
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)

    with tempfile.TemporaryDirectory() as directory:
        runner = Runner(table, kernel, program, directory)
        codes, _ = runner.diagnoses(ptx, SEEDS[:2])
        report(not codes, f"no mutation: {sorted(codes) or 'silent'}")
        for kind in table["mutants"]:
            if only not in kind.what:
                continue
            found = list(kind.pattern.finditer(ptx[begin:end]))
            if not found and kind.what not in absent:
                report(False, f"{kind.what}: no instruction matches")
            places = kind.places(len(found), every_place)
            if not every_place and "few" in table:
                places = places[:table["few"]]
            for place in places:
                match = found[place]
                codes, seed, reached = runner.judged(ptx, begin, kind, match, seeds)
                reason = unused.pop((kind.what, place), None)
                line = first_line + ptx.count("\n", begin, begin + match.start())
                what = f"{kind.what}, place {place} of {len(found)}, line {line}: {sorted(codes)} seed {seed}"
                places_of_edits.add(match.start())
                caught, latest = caught + bool(codes), max(latest, seed or 0)
                what += "" if reached else "; no case comes here"
                if reason is not None:
                    dead = (kind.what, place) in unreached
                    report(not codes and reached != dead, f"{what}; {'unreached' if dead else 'equivalent'}: {reason}")
                else:
                    report(bool(codes & kind.expected) or show, what)
    for (what, place), _ in unused.items():
        if every_place and not only:
            report(False, f"{what}, place {place}: listed, but there is no such mutant")
    listed = [sum(mutant not in unused for mutant in among) for among in (equivalent, unreached)]
    print(f"{kernel}: {len(places_of_edits)} places, {caught} mutants caught (the last by seed {latest}), "
          f"{listed[0]} equivalent, {listed[1]} unreached")
    print(f"{name}_mutants: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
