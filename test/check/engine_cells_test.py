# SPDX-License-Identifier: Apache-2.0
"""docs/engines.md names checks; each of them exists, and each cell that check has is named there.
Usage: engine_cells_test.py CHECK RELATIONS ENGINES_MD"""
import re
import subprocess
import sys

check, relations, document = sys.argv[1:4]
with open(document, encoding="utf-8") as file:
    text = file.read()
named = set(re.findall(r"`@([^`]+)`", text))
quoted = set(re.findall(r'\| "([^"]+)" \|', text))


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


cases = output(check, "--list") + output(check, "--list", "--long")
existing = {word[1:] for line in cases.splitlines() for word in line.split("/")[-1].split(",") if word.startswith("@")}
tests = re.sub(r"\s+", " ", output(relations, "--list-tests"))
problems = [f"{document}: no case has @{label}" for label in sorted(named - existing)]
problems += [f"{document} does not name @{label}" for label in sorted(existing - named)
             if not label.startswith("next_n=uneven")]
problems += [f"{document}: no test case is called \"{name}\"" for name in sorted(quoted) if name not in tests]
if len(named) < 30 or len(quoted) < 7:
    problems.append(f"only {len(named)} labels and {len(quoted)} test cases were found in {document}")
print("\n".join(problems) or f"{len(named)} labels and {len(quoted)} test cases, all there")
sys.exit(1 if problems else 0)
