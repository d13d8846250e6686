#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums the cases of meson's test logs (testlog-*.json) and prints `N passed, N failed` as its last line; exit 1 when
anything failed or nothing ran. A case is a Catch2 test case, a Python unittest method or a row of check; a program
that prints no such sum is one case. A program that meson calls failed counts at least one failure, whatever it
printed."""
import json
import re
import sys


def cases_of(output):
    """(passed, failed, skipped) from the last summary that the program printed; None where it printed none."""
    sums = []
    for match in re.finditer(r"^All tests passed \(\d[\d,]* assertions? in (\d+) test cases?\)", output, re.M):
        sums.append((match.start(), int(match[1]), 0, 0))
    for match in re.finditer(r"^test cases:\s*(\d+)(.*)$", output, re.M):
        part = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed)", match[2])}
        failed = part.get("failed", 0)
        sums.append((match.start(), part.get("passed", int(match[1]) - failed), failed, 0))
    for match in re.finditer(r"^Ran (\d+) tests? in .*\n+(OK|FAILED)(.*)$", output, re.M):
        part = {word: int(n) for word, n in re.findall(r"(\w+)=(\d+)", match[3])}
        failed = part.get("failures", 0) + part.get("errors", 0)
        skipped = part.get("skipped", 0)
        sums.append((match.start(), int(match[1]) - failed - skipped, failed, skipped))
    for match in re.finditer(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", output, re.M):
        sums.append((match.start(), int(match[1]), int(match[2]), int(match[3] or 0)))
    return max(sums)[1:] if sums else None


def count(records):
    """records: meson's, one per test. Returns (passed, failed, skipped, rows for the table)."""
    totals, rows = [0, 0, 0], []
    for record in records:
        result = record["result"]
        if result == "SKIP":
            passed, failed, skipped = 0, 0, 1
        else:
            good = result in ("OK", "EXPECTEDFAIL")
            found = cases_of(record.get("stdout", "") + "\n" + record.get("stderr", ""))
            passed, failed, skipped = found or ((1, 0, 0) if good else (0, 1, 0))
            if not good:
                failed = max(failed, 1)
        for i, value in enumerate((passed, failed, skipped)):
            totals[i] += value
        rows.append((record["name"], record["duration"], passed, failed, skipped))
    return (*totals, rows)


def main():
    records = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            records += [json.loads(line) for line in file if line.strip()]
    passed, failed, skipped, rows = count(records)
    for name, seconds, good, bad, left in rows:
        print(f"{name:<50} {seconds:7.1f} s  {good:5} passed {bad:4} failed {left:4} skipped")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
