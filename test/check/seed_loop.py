#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test program under the emulator's checks and many schedules: it passes, and no finding is written.

usage: seed_loop.py SEEDS PROGRAM [ARGUMENT...]     seeds 0 to SEEDS
"""
import os
import re
import subprocess
import sys


def main():
    seeds, command = int(sys.argv[1]), sys.argv[2:]
    failed = 0
    for seed in range(seeds + 1):
        done = subprocess.run(command, env=dict(os.environ, PTXEMU_CHECK="1", PTXEMU_ANY_LEADER="1",
                                                 PTXEMU_SEED=str(seed)),
                              capture_output=True, text=True, errors="replace")
        findings = re.findall(r"ptxemu: (?:error|warning) \[[^\n]*", done.stderr)
        if done.returncode != 0 or findings:
            failed += 1
            print(f"FAIL seed {seed}: exit code {done.returncode}; {findings[:3]}\n{done.stdout[-2000:]}", flush=True)
    print(f"seed_loop: {seeds + 1 - failed} seeds passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
