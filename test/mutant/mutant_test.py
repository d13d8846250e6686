#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every hand-over of the kernels is needed, and PTXEMU_CHECK=1 says so.

A mutant is a kernel's PTX with one edit: a fence, wait, commit, arrive, expect_tx or barrier left out, or another
single change. It is caught by a finding, a fault or other results under one of eleven seeds, and one of the diagnoses
that its kind lists must be among those given; or it stands in the table of equivalent mutants, with the reason why
nothing can show it, and must then not be caught although a case executes the place: `trap` there is caught. Places that
no launch can reach stand in the table apart ("unreached"), and must not be. A mutant is named by its kind and the
number of its place among those of the kind, or by texts of the source lines that the place was inlined from. The kernel
itself must be silent.

usage: mutant_test.py TABLE PTX PROGRAM [--long] [--show] [--only=TEXT] [--kernel=NAME]
  TABLE      of mutant_scorers.py or mutant_selection.py; PROGRAM is what runs the cases: check, or a Catch2 program
  --long     every place of kinds that have many alike; else a few of each
  --show     print what each mutant gives, judge nothing
  --only     of the kinds, those whose name contains the text
  --kernel   of a table that is for several kernels, this one; else the first, and with --long all
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


class Sources:
    """Which lines of kernel/ and ptx/ an instruction came from, by .loc: its own, then where each was inlined."""
    LOC = re.compile(r"\s*\.loc\s+(\d+) (\d+) (\d+)(?:.*inlined_at (\d+) (\d+) (\d+))?")

    def __init__(self, shipped):
        self.lines = shipped.split("\n")
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        self.texts = {}
        for number, path in re.findall(r'\.file\s+(\d+)\s+"([^"]+)"', shipped):
            file = os.path.join(root, *path.split("/")[-2:])
            if os.path.exists(file):
                with open(file, encoding="utf-8") as text:
                    self.texts[number] = text.read().split("\n")

    def of(self, line):
        """The text of those lines, for the instruction in a line of the PTX."""
        found, at = [], None
        for text in reversed(self.lines[:line]):
            loc = self.LOC.match(text)
            if loc and (at is None or loc.groups()[:3] == at):
                known = self.texts.get(loc.group(1))
                found.append(known[int(loc.group(2)) - 1] if known else "")
                at = loc.groups()[3:]
                if at[0] is None:
                    break
            elif ".entry" in text:
                break
        return found

    def come_from(self, line, texts):
        """Whether all the texts stand in some of its lines."""
        sources = self.of(line)
        return all(any(text in source for source in sources) for text in texts)


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


class Count:
    def __init__(self):
        self.failed = self.passed = 0

    def report(self, good, text):
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {text}", flush=True)


def try_kernel(table, kernel, shipped, program, every_place, only, show, count):
    """All mutants of a kernel, or a few of them."""
    seeds = SEEDS if every_place else SEEDS[:1 if "few" in table else 3]
    first_line = shipped.count("\n", 0, re.search(rf"\.entry\s+{kernel}\b", shipped).start()) + 1
    ptx, begin, end = alone(shipped, kernel)
    of_kernel = lambda what: {**table.get(what, {}), **table.get(what + "_of", {}).get(kernel, {})}
    equivalent, unreached = of_kernel("equivalent"), of_kernel("unreached")
    absent = table.get("absent", {}).get(kernel, ())
    listed = {**equivalent, **unreached}
    sources = Sources(shipped)
    unused, edited, tried, caught, latest, silent = set(listed), set(), 0, 0, 0, {True: 0, False: 0}
    with tempfile.TemporaryDirectory() as directory:
        runner = Runner(table, kernel, program, directory)
        codes, _ = runner.diagnoses(ptx, seeds[:2])
        count.report(not codes, f"no mutation: {sorted(codes) or 'silent'}")
        for kind in table["mutants"]:
            if only not in kind.what or not (every_place or kind.what in table.get("few_kinds", {kind.what})):
                continue
            found = list(kind.pattern.finditer(ptx[begin:end]))
            if not found and kind.what not in absent:
                count.report(False, f"{kind.what}: no instruction matches")
            places = kind.places(len(found), every_place)
            if not every_place and "few" in table:
                places = places[:table["few"]]
            for place in places:
                match = found[place]
                codes, seed, reached = runner.judged(ptx, begin, kind, match, seeds)
                line = first_line + ptx.count("\n", begin, begin + match.start())
                what = f"{kind.what}, place {place} of {len(found)}, line {line}: {sorted(codes)} seed {seed}"
                edited.add(match.start())
                tried, caught, latest = tried + 1, caught + bool(codes), max(latest, seed or 0)
                what += "" if reached else "; no case comes here"
                named = [key for key in listed if key[0] == kind.what and
                         (key[1] == place if isinstance(key[1], int) else sources.come_from(line, key[1]))]
                unused.difference_update(named)
                if named:
                    dead = named[0] in unreached
                    silent[dead] += 1
                    count.report(not codes and reached != dead,
                                 f"{what}; {'unreached' if dead else 'equivalent'}: {listed[named[0]]}")
                else:
                    count.report(bool(codes & kind.expected) or show, what)
    for what, place in unused:
        if every_place and not only and any(kind.what == what for kind in table["mutants"]):
            count.report(False, f"{what}, place {place}: listed, but there is no such mutant")
    print(f"{kernel}: {len(edited)} places, {tried} mutants, {caught} caught (the last by seed {latest}), "
          f"{silent[False]} equivalent, {silent[True]} unreached", flush=True)


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    name, ptx_path, program = [a for a in sys.argv[1:] if not a.startswith("--")]
    value = lambda key: next((o.split("=", 1)[1] for o in options if o.startswith(key + "=")), "")
    table, long, count = TABLES[name], "--long" in options, Count()
    kernels = list(table["kernels"])
    if value("--kernel"):
        kernels = [value("--kernel")]
    elif not long:
        kernels = kernels[:1]
    with open(ptx_path, encoding="utf-8") as file:
        shipped = file.read()
    for kernel in kernels:
        try_kernel(table, kernel, shipped, program, long or table.get("always_all", False), value("--only"),
                   "--show" in options, count)
    print(f"{name}_mutants: {count.passed} passed, {count.failed} failed")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
