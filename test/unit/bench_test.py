#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lidx bench on its smallest workloads: what it counts, compares and writes, rivals good and bad, and every refusal.

LIDX_TEST_DRIVER: emu (default) or cuda. usage: bench_test.py LIDX EMULATOR RIVAL FAKE_CUBLASLT [unittest arguments]
"""
import csv
import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

LIDX, EMULATOR, RIVAL, CUBLASLT = (os.path.abspath(path) for path in sys.argv[1:5])
del sys.argv[1:5]
DEVICE = os.environ.get("LIDX_TEST_DRIVER", "emu")
NAME = 'test "rival", 1'
SMOKE = ["smoke", "smoke-prefill", "smoke-fast", "smoke-ragged", "smoke-topk", "smoke-merge", "smoke-index",
         "smoke-index-prefill"]
# What the rival can be asked: not merging, nor paged prefill.
RIVALLED = ["smoke", "smoke-prefill", "smoke-fast", "smoke-ragged", "smoke-topk", "smoke-index"]


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lidx_bench_")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_bench(self, *arguments, env=None):
        environment = {**os.environ, "TEST_RIVAL_DRIVER": EMULATOR if DEVICE == "emu" else "libcuda.so.1"}
        environment.update(env or {})
        device = [] if "--from" in arguments else ["--device", DEVICE]
        return subprocess.run([LIDX, "bench", *device, *arguments], capture_output=True, text=True, env=environment,
                              timeout=300)

    def ok(self, *arguments, **options):
        done = self.run_bench(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def report(self, *arguments, code=0, **options):
        """The JSON of a run, and what it printed."""
        done = self.run_bench("--json", self.path("bench.json"), *arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        with open(self.path("bench.json"), encoding="utf-8") as file:
            return json.load(file), done.stdout + done.stderr

    def refused(self, message, *arguments, code=2, **options):
        done = self.run_bench(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(message, done.stderr)


class Rows(Bench):
    def test_every_kind_of_workload(self):
        report, text = self.report("--filter", "^smoke", "--runs", "3", "--csv", self.path("bench.csv"), "--plot",
                                   self.path("bench.svg"))
        rows = {(row["workload"], row["role"]): row for row in report["rows"]}
        self.assertEqual({name for name, _ in rows}, set(SMOKE))
        self.assertEqual([name for name, role in rows if role == "scorer"], ["smoke-index", "smoke-index-prefill"])
        for row in report["rows"]:
            self.assertIn(row["kernel"], text)
            self.assertTrue(0 < row["least_us"] <= row["us"] <= row["most_us"], row)
            self.assertTrue(row["agrees"], row)
            self.assertGreater(row["read_us"], 0)
            self.assertAlmostEqual(row["percent_of_ceiling"], 100 * row["ceiling_us"] / row["us"], places=6)
            self.assertAlmostEqual(row["terabytes_per_second"], row["bytes"] / row["us"] * 1e-6)
        # By hand: heads * 128 * 2 FLOPs a (row, key); a key is 132 bytes, a score 4, an index 4 and 2048 of them a row.
        expected = {"smoke": (4 * 256 * 64 * 256, 2 * 256 * 132 + 4 * 256 * 4),
                    # an early row sees 38 keys, the others 262 and 263 of 300
                    "smoke-prefill": ((38 + 262 + 263) * 32 * 256, 300 * 132 + (38 + 262 + 263) * 4),
                    "smoke-topk": (0, 3 * 3000 * 4 + 3 * 2048 * 4),
                    "smoke-merge": (0, 2 * 3 * 1000 * 8 + 2 * 2048 * 4),
                    "smoke-index": (2 * 2300 * 64 * 256, 2 * 2300 * 132 + 2 * 2048 * 4),
                    "smoke-index-prefill": (sum(range(2293, 2305)) * 64 * 256, 2304 * 132 + 12 * 2048 * 4)}
        for name, (flops, size_bytes) in expected.items():
            self.assertEqual((rows[name, "lidx"]["flops"], rows[name, "lidx"]["bytes"]), (flops, size_bytes), name)
        self.assertRegex(rows["smoke-index-prefill", "lidx"]["kernel"], r" \+ topk x [2-5]$")   # windows

        with open(self.path("bench.csv"), encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        self.assertEqual([row["kernel"] for row in table], [row["kernel"] for row in report["rows"]])
        self.assertEqual([float(row["us"]) for row in table], [row["us"] for row in report["rows"]])
        svg = xml.etree.ElementTree.parse(self.path("bench.svg")).getroot()
        words = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
        for name in SMOKE:
            self.assertIn(name, words)
        self.again(text)

    def again(self, text):
        """--from says what the run said: the same table, JSON, CSV and chart; of some workloads, theirs."""
        said = self.saved("bench.json", "--json", self.path("again.json"), "--csv", self.path("again.csv"), "--plot",
                          self.path("again.svg"))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(said.stdout, text[:len(said.stdout)])   # stderr stands behind it
        for kind in ("json", "csv", "svg"):
            self.assertTrue(filecmp.cmp(self.path("bench." + kind), self.path("again." + kind), shallow=False), kind)
        said = self.saved("bench.json", "--filter", "topk$", "--workload", "smoke", "--csv", self.path("some.csv"))
        self.assertEqual(said.returncode, 0, said.stderr)
        with open(self.path("some.csv"), encoding="utf-8", newline="") as file:
            self.assertEqual([row["workload"] for row in csv.DictReader(file)], ["smoke", "smoke-topk", "smoke-topk"])
        said = self.saved("bench.json", "--filter", "decode-1x8k")
        self.assertEqual(said.returncode, 2)
        self.assertIn("none of these workloads has a row there", said.stderr)

    def saved(self, name, *arguments):
        return subprocess.run([LIDX, "bench", "--from", self.path(name), *arguments], capture_output=True, text=True,
                              timeout=60, check=False)

    def test_candidates_side_by_side(self):
        report, text = self.report("--workload", "smoke", "--runs", "2", "--kernel", "generic_score", "generic_score")
        first, second = report["rows"]
        self.assertIsNone(first["ratio_to_lidx"])
        self.assertAlmostEqual(second["ratio_to_lidx"], second["us"] / first["us"])
        self.assertEqual((second["difference"], second["agrees"]), (0, True))
        self.assertIn("differs by 0.0e+00", text)

    @unittest.skipIf(DEVICE != "emu", "names the device's kernels")
    def test_fast_beside_exact(self):
        report, _ = self.report("--workload", "smoke-fast", "smoke", "--runs", "2", "--fast", env={"PTXEMU_CC": "90"})
        self.assertEqual([row["kernel"] for row in report["rows"] if row["workload"] == "smoke-fast"][1:],
                         ["sm90_fast_h64"])
        self.assertEqual([row["role"] for row in report["rows"] if row["workload"] == "smoke"], ["lidx"])   # 2 tokens
        fast = report["rows"][-1] if report["rows"][-1]["workload"] == "smoke-fast" else report["rows"][1]
        self.assertTrue(0 < fast["difference"] < 0.03 and fast["agrees"], fast)
        report, _ = self.report("--workload", "smoke-index-prefill", "smoke-index", "--runs", "1", "--fast",
                                env={"PTXEMU_CC": "90"})
        rows = [(row["workload"], row["kernel"].split(" x ")[0], row["role"]) for row in report["rows"]]
        self.assertEqual(rows, [("smoke-index", "sm90_decode_h64 + topk", "lidx"),
                                ("smoke-index", "sm90_decode_h64", "scorer"),
                                ("smoke-index-prefill", "sm90_pair_h64 + topk", "lidx"),
                                ("smoke-index-prefill", "sm90_pair_h64", "scorer"),
                                ("smoke-index-prefill", "sm90_fast_h64 + topk", "lidx")])
        self.assertTrue(report["rows"][-1]["difference"] < 0.03 and report["rows"][-1]["agrees"], report["rows"][-1])

    @unittest.skipIf(DEVICE != "emu", "a GPU times the others")
    def test_the_emulator_runs_the_smoke_tests(self):
        report, _ = self.report("--runs", "1")
        self.assertEqual(list(dict.fromkeys(row["workload"] for row in report["rows"])), SMOKE)

    def test_warm_and_graph(self):
        for option in ("warm", "graph"):
            report, _ = self.report("--filter", "^smoke(-topk|-index)?$", "--runs", "2", "--" + option)
            self.assertEqual((report["timing"], report["runs_per_sample"]), (option, 10))
            self.assertEqual(len(report["rows"]), 5)
            self.assertTrue(all(row["us"] > 0 and row["agrees"] for row in report["rows"]))

    def test_flushed_by_reading(self):
        for how in ("write", "read"):
            report, text = self.report("--workload", "smoke", "smoke-ragged", "smoke-topk", "--runs", "2", "--flush",
                                       how)
            self.assertEqual((report["timing"], report["flush"]), ("flushed", how))
            self.assertIn("L2 " + ("filled by reading" if how == "read" else "overwritten") + " before it", text)
            self.assertTrue(all(row["us"] > 0 and row["agrees"] for row in report["rows"]))
            for row in report["rows"]:   # what moves pages and scores: scorers of paged keys have that
                self.assertEqual(row["traffic_us"] is not None and row["traffic_us"] > 0, row["page"] > 0, row)
        self.assertIsNone(self.report("--workload", "smoke", "--runs", "1", "--warm")[0]["flush"])

    def test_lists(self):
        everything = self.ok("--list")
        self.assertRegex(everything,
                         r"(?m)^decode-64x32k +64 requests x +1 token  x +32768 keys, 64 heads, pages of 64$")
        self.assertRegex(everything, r"(?m)^topk-64x128k +64 rows x +131072 scores, k 2048$")
        found = self.ok("--list", "--filter", "spread(50|90)", "--workload", "smoke")
        self.assertEqual([line.split()[0] for line in found.splitlines()],
                         ["smoke", "decode-64x32k-spread50", "decode-64x32k-spread90"])


class Ceilings(Bench):
    def test_the_product_of_cublaslt(self):
        report, text = self.report("--workload", "smoke", "--runs", "1", "--cublaslt", CUBLASLT)
        self.assertEqual(report["product_source"], "cuBLASLt 13.4.5 FP8 8192^3")
        self.assertTrue(report["product_measured"])
        self.assertTrue(0 < report["open_ms"] < report["first_score_ms"])
        self.assertIn("start: lidx_open ", text)
        self.assertIn("cuBLASLt 13.4.5 FP8 8192^3", text)
        row = report["rows"][0]
        product_us = row["flops"] / report["product_flops_per_second"] * 1e6
        self.assertEqual(row["ceiling"], "product" if product_us > row["read_us"] else "read")
        self.assertAlmostEqual(row["ceiling_us"], max(product_us, row["read_us"]))

    def test_refusals(self):
        for library, message in ((RIVAL, "lacks the symbol cublasLtGetVersion"), ("/none.so", "/none.so")):
            self.refused("--cublaslt: ", "--workload", "smoke", "--cublaslt", library)
            self.refused(message, "--workload", "smoke", "--cublaslt", library)
        self.refused("no FP8 product for this device", "--workload", "smoke", "--cublaslt", CUBLASLT,
                     env={"FAKE_CUBLASLT": "none"})


class Rivals(Bench):
    def rival(self, mode, *arguments, workloads=("smoke",), code=1):
        return self.report("--workload", *workloads, "--runs", "1", "--rival", RIVAL, *arguments, code=code,
                           env={"TEST_RIVAL": mode})

    def test_a_good_one(self):
        report, text = self.rival("", "--csv", self.path("b.csv"), "--plot", self.path("b.svg"), workloads=SMOKE,
                                  code=0)
        self.assertEqual(report["rivals"], [NAME])
        rows = [row for row in report["rows"] if row["role"] == "rival"]
        self.assertEqual([row["workload"] for row in rows], RIVALLED)
        for row in rows:
            lidx = next(r for r in report["rows"] if r["workload"] == row["workload"])
            self.assertAlmostEqual(row["ratio_to_lidx"], row["us"] / lidx["us"])
            self.assertEqual((row["agrees"], row["problem"], row["kernel"]), (True, "", NAME))
            # Another order of additions, or 13 bits of a Hopper's dot product (2.3e-3 at most on an H200); scores that
            # are given leave no room.
            self.assertLess(row["difference"], 2e-3 if DEVICE == "emu" else 1e-2)
        self.assertEqual(next(row for row in rows if row["workload"] == "smoke-topk")["difference"], 0)
        self.assertIn(NAME, text)
        with open(self.path("b.csv"), encoding="utf-8", newline="") as file:
            self.assertIn(NAME, [row["kernel"] for row in csv.DictReader(file)])
        words = [element.text for element in xml.etree.ElementTree.parse(self.path("b.svg")).getroot().iter()]
        self.assertIn(NAME, words)

    def test_graphs_and_copies(self):
        report, _ = self.report("--filter", "^smoke(-topk)?$", "--runs", "1", "--rival", RIVAL, "--graph")
        self.assertTrue(all(row["agrees"] for row in report["rows"]))

    def test_one_that_computes_something_else(self):
        report, text = self.rival("wrong", workloads=RIVALLED)
        for row in report["rows"]:
            self.assertEqual(row["agrees"], row["role"] != "rival", row)
            if row["role"] == "rival":
                self.assertGreater(row["difference"], 0.1)
        self.assertEqual(len(re.findall(r"OTHER RESULTS, by", text)), len(RIVALLED))
        self.assertIn("not all candidates ran and computed the same", text)

    def test_one_that_writes_nothing(self):
        report, _ = self.rival("silent", workloads=("smoke", "smoke-topk"))
        problems = [row["problem"] for row in report["rows"] if row["role"] == "rival"]
        self.assertEqual(problems, ["row 0, key 0: NaN, or not written", "row 0: 0 indices, not 2048"])

    def test_one_that_chooses_twice(self):
        report, _ = self.rival("twice", workloads=("smoke-topk",))
        self.assertEqual([row["kernel"] for row in report["rows"]], ["topk", "topk, overlapped", NAME])
        self.assertRegex(report["rows"][2]["problem"], r"^row 0: index \d+ twice$")

    def test_one_that_declines_is_no_row(self):
        report, _ = self.rival("declines", code=0)
        self.assertEqual([row["role"] for row in report["rows"]], ["lidx"])

    def test_one_that_fails_is_a_row_of_its_own(self):
        for mode, problem in (("refuses", "lidx_rival_prepare gave -1"), ("fails", "lidx_rival_run gave 7")):
            report, text = self.rival(mode, "--plot", self.path("b.svg"), workloads=("smoke", "smoke-topk"))
            self.assertEqual([row["problem"] for row in report["rows"]], ["", problem, "", "", problem])
            self.assertEqual([row["us"] is None for row in report["rows"]], [False, True, False, False, True])
            self.assertIn("FAILED: " + problem, text)

    def test_no_rival_at_all(self):
        text = self.path("text.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no library")
        for path, message in (("/none.so", "there is no such file"), (text, "cannot be loaded"),
                              (CUBLASLT, "lacks the symbol lidx_rival_name")):
            self.refused(f"--rival {path}", "--workload", "smoke", "--rival", path)
            self.refused(message, "--workload", "smoke", "--rival", path)


class Refusals(Bench):
    def test_words(self):
        for message, *arguments in (
                ("no such workload: tea", "--workload", "tea"),
                ("no workload's name has tea", "--filter", "tea"),
                ("not a regular expression: (", "--filter", "("),
                ("no workload's name has (((.*)*)*)*%", "--filter", "(((.*)*)*)*%"),
                ("not a regular expression: (a)\\1", "--filter", r"(a)\1"),
                ("--filter: 40000 bytes, expected at most 256", "--filter", "(" * 20000 + ")" * 20000),
                ("no such kernel: sm100; there are", "--kernel", "generic_score", "sm100"),
                ("is not a whole number from 1 to 1000", "--runs", "0"),
                ("excludes", "--warm", "--graph"),
                ("No space left", "--workload", "smoke", "--json", "/dev/full"),
                ("No space left", "--workload", "smoke", "--csv", "/dev/full"),
                ("No space left", "--workload", "smoke", "--plot", "/dev/full"),
                ("--plot: no such directory: /none", "--workload", "smoke", "--plot", "/none/bench.svg"),
                ("what is written is a .svg file, the name ends in .png", "--workload", "smoke", "--plot",
                 self.path("bench.png"))):
            self.refused(message, *arguments)

    def test_saved_results(self):
        report, _ = self.report("--workload", "smoke", "--runs", "1")
        for change, message in ((lambda r: r.pop("device"), "json writes: device is missing"),
                                (lambda r: r.update(runs="many"), 'runs: "many", expected a whole number of 0 .. '),
                                (lambda r: r.update(runs=2 ** 31), "runs: 2147483648, expected a whole number"),
                                (lambda r: r.update(rows={}), "rows: object, expected an array"),
                                (lambda r: r.update(rows=[3]), "an object with workload is expected, not number"),
                                (lambda r: r["rows"][0].update(us=0), "us: 0, expected more than 0, or null"),
                                (lambda r: r["rows"][0].update(ceiling_us=1e308), "ceiling_us: 1e+308, expected"),
                                (lambda r: r["rows"][0].update(tokens=1e30), "tokens: 1e+30, expected a whole"),
                                (lambda r: r["rows"][0].update(keys=-1), "keys: -1, expected a whole number"),
                                (lambda r: r.update(timing="slow"), 'timing: "slow" is none of those'),
                                (lambda r: r["rows"][0].update(role="judge"), 'role: "judge" is none of those'),
                                (lambda r: r["rows"][0].pop("us"), "us is missing"),
                                (lambda r: r.update(rows=[]), "none of these workloads has a row there")):
            changed = json.loads(json.dumps(report))
            change(changed)
            with open(self.path("changed.json"), "w", encoding="utf-8") as file:
                json.dump(changed, file)
            self.refused("changed.json: ", "--from", self.path("changed.json"))
            self.refused(message, "--from", self.path("changed.json"))
        self.refused("none.json: cannot open", "--from", self.path("none.json"))
        self.refused("excludes", "--from", self.path("bench.json"), "--runs", "3")
        self.refused("is an input", "--from", self.path("bench.json"), "--csv", self.path("bench.json"))

    def test_outputs_over_each_other_or_an_input(self):
        report, library = self.path("r.json"), self.path("rival.so")
        shutil.copy(RIVAL, library)
        self.refused("--csv: " + report + " is also written for --json", "--json", report, "--csv", report)
        self.refused("--plot: " + library + " is an input", "--plot", library, "--rival", library)
        self.assertTrue(filecmp.cmp(RIVAL, library, shallow=False))

    def test_interrupted_runs_leave_what_was_there(self):
        with open(self.path("r.json"), "w", encoding="utf-8") as file:
            file.write("before")
        os.symlink("r.json", self.path("link.json"))
        command = [LIDX, "bench", "--device", DEVICE, "--workload", "smoke", "smoke-topk", "--runs", "1000", "--json",
                   self.path("link.json"), "--csv", self.path("r.csv")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            self.assertIn("lidx", running.stdout.readline())   # the head of the table: the files are open
            running.send_signal(signal.SIGINT)
        self.assertEqual(running.returncode, -signal.SIGINT)
        self.assertEqual(sorted(os.listdir(self.folder)), ["link.json", "r.json"])
        with open(self.path("r.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        os.chmod(self.path("r.json"), 0o640)
        self.ok("--workload", "smoke-topk", "--runs", "1", "--json", self.path("link.json"))
        with open(self.path("r.json"), encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["rows"]), 2)
        self.assertEqual((os.readlink(self.path("link.json")), os.stat(self.path("r.json")).st_mode & 0o777),
                         ("r.json", 0o640))

    @unittest.skipIf(DEVICE != "emu", "an emulated device of compute capability 10.0")
    def test_kernels_of_another_device(self):
        self.refused("no kernel of --kernel serves", "--workload", "smoke", "--kernel", "sm90_score_h64")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[1:])
