#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check on a machine that misbehaves in one of three cases: exactly that case must fail, with the right reason.

usage: bad_machine_test.py CHECK LIBBAD_MACHINE
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

CHECK, LIBRARY = sys.argv[1:3]
NAME = "generic_score/h8/d64/t2/b2/n{}/p16/block-split/pad16/gap3/lattice/plain/check/guard/s5"
GOOD_BEFORE, BAD, GOOD_AFTER = (NAME.format(keys) for keys in (40, 41, 42))


def run(what, *options):
    """{name: row}"""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "result.json")
        command = [CHECK, "--device", "emu", "--emulator", LIBRARY, "--json", out, *options]
        for name in (GOOD_BEFORE, BAD, GOOD_AFTER):
            command += ["--case", name]
        done = subprocess.run(command, env=dict(os.environ, BAD_MACHINE=what, BAD_MACHINE_KEYS="41"),
                              capture_output=True, text=True, timeout=300)
        if not os.path.exists(out):
            raise AssertionError(done.stdout + done.stderr)
        with open(out, encoding="utf-8") as file:
            rows = {row["name"]: row for row in json.load(file)["cases"]}
    return done, rows


class BadMachine(unittest.TestCase):
    def expect(self, what, reason, *options):
        done, rows = run(what, *options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("check: 2 passed, 1 failed", done.stdout)
        self.assertEqual({name: row["verdict"] for name, row in rows.items()},
                         {GOOD_BEFORE: "ok", BAD: "FAIL", GOOD_AFTER: "ok"})
        self.assertIn(reason, rows[BAD]["reason"])

    def test_well_behaved(self):
        done, rows = run("behave")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("check: 3 passed, 0 failed", done.stdout)

    def test_crash(self):
        self.expect("crash", "killed by signal Segmentation fault")

    def test_exit(self):
        self.expect("exit", "exit code 9")

    def test_hang(self):
        self.expect("hang", "no answer within 3 s", "--timeout", "3")

    def test_sticky_error(self):
        self.expect("sticky", "CUDA_ERROR_ILLEGAL_ADDRESS")

    def test_nothing_computed(self):
        self.expect("nothing", "lattice: ")

    def test_one_wrong_sign(self):
        self.expect("bit", "lattice: row 0 key 0 (request 0 token 0 of 2, length 41)")

    def test_one_wrong_sign_in_a_later_run(self):
        self.expect("later", "run 2 of 3: the first run: row 0 key 0", "--runs", "3")

    def test_write_before_the_scores(self):
        self.expect("before", "scores: byte -4 of ")

    def test_write_behind_the_scores(self):
        self.expect("behind", "scores: byte ")

    def test_write_between_rows(self):
        self.expect("gap", "dead cell: row 0 key 41")

    def test_write_to_an_input(self):
        self.expect("input", "k: byte 0 of ")

    def test_check_word(self):
        self.expect("check_word", "the check word is 7, expected 0")

    def test_no_driver(self):
        done = subprocess.run([CHECK, "--device", "cuda", "--driver", "/nonexistent/libcuda.so", "--case", BAD],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn("/nonexistent/libcuda.so", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
