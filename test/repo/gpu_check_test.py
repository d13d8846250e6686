# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check over tools that only pretend: its stages, statuses, limits, exit codes and JSON; and that the cases
it names exist. usage: gpu_check_test.py ROOT CHECK [unittest arguments]"""
import fnmatch
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT, CHECK = (os.path.abspath(path) for path in sys.argv[1:3])
SCRIPT = os.path.join(ROOT, "tools", "gpu-check")
loader = importlib.machinery.SourceFileLoader("gpu_check", SCRIPT)
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(gpu_check)

SANITIZED = [f"{tool}_{name}" for tool in ("memcheck", "racecheck", "synccheck", "initcheck")
             for name in ("score", "cache", "topk")]
STAGES = ["configure", "build", "clocks", "tests", "reruns", "bench", "bench_warm", "profile"]

# Shell scripts in the tools' places. $FAKE_<NAME> holds commands that go first.
MESON = r"""#!/bin/sh
eval "$FAKE_MESON"
case $1 in
setup)
    for last; do build=$previous; previous=$last; done
    mkdir -p "$build/meson-logs" "$build/test/check" "$build/test/cache" "$build/test/topk" "$build/tools/lidx"
    : >"$build/build.ninja"
    for name in check/check cache/cache_kernels topk/topk_kernels; do cp "$FAKES/program" "$build/test/$name"; done
    cp "$FAKES/lidx" "$build/tools/lidx/lidx" ;;
compile) eval "$FAKE_COMPILE" ;;
test)
    case "$*" in *--setup=gpu*--no-suite\ repo*) ;; *) exit 9 ;; esac
    {
        said='All tests passed (9 assertions in 4 test cases)\n'
        printf '%s\n' '{"name": "unit", "result": "OK", "duration": 1.5, "stdout": "'"$said"'"}'
        said='check: 7 passed, 0 failed, 3 skipped\n'
        printf '%s\n' '{"name": "check_0", "result": "'"${FAKE_RESULT:-OK}"'", "duration": 2, "stdout": "'"$said"'"}'
    } >"$3/meson-logs/testlog-gpu.json"
    [ -z "$FAKE_RESULT" ] ;;
esac
"""
# check, cache_kernels, topk_kernels. check --json: one row a case; the one with the number $FAKE_ODD fails.
PROGRAM = r"""#!/bin/sh
eval "$FAKE_PROGRAM"
json= ; number=0; rows=
while [ $# -gt 0 ]; do
    case $1 in
    --json) json=$2; shift ;;
    --case)
        number=$((number + 1)); verdict=ok
        case $2 in sm100_*) verdict=skip ;; esac
        reason=; [ "$number" = "$FAKE_ODD" ] && verdict=FAIL reason=odd
        rows="$rows${rows:+,}{\"name\": \"$2\", \"verdict\": \"$verdict\", \"hash\": \"12\", \"reason\": \"$reason\"}"
        shift ;;
    esac
    shift
done
[ -z "$json" ] || echo "{\"cases\": [$rows]}" >"$json"
echo "check: 5 passed, 0 failed, 1 skipped"
"""
LIDX = r"""#!/bin/sh
eval "$FAKE_LIDX"
row='{"workload": "w", "kernel": "k", "problem": "", "agrees": '${FAKE_AGREES:-true}'}'
while [ $# -gt 0 ]; do [ "$1" = --json ] && echo "{\"rows\": [$row]}" >"$2"; shift; done
[ "$FAKE_AGREES" != false ]
"""
SMI = """#!/bin/sh
case "$*" in
*noheader*) echo "NVIDIA H200, 580.1, 1980 MHz, 3201 MHz, 1980 MHz, 75.50 W, 700.00 W, 30" ;;
*) echo fine ;;
esac
"""
NCU = r"""#!/bin/sh
eval "$FAKE_NCU"
echo "==PROF== Connected"
echo '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","score","Memory Throughput","%","91.5"'
echo '"0","score","Duration","us","12"'
echo '"1","score","Duration","us","14"'
"""
SANITIZER = r"""#!/bin/sh
tool=$2
while :; do case $1 in */check | */cache_kernels | */topk_kernels) break ;; esac; shift; done
[ "$LIDX_TEST_DRIVER" = cuda ] || exit 9
"$@"; code=$?
eval "$FAKE_SANITIZER"
if [ $tool = racecheck ]; then
    echo "========= RACECHECK SUMMARY: ${FAKE_HAZARDS:-0} hazards displayed (0 errors, ${FAKE_HAZARDS:-0} warnings)"
else
    echo "========= ERROR SUMMARY: ${FAKE_ERRORS:-0} errors"
fi
exit $code
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.fakes = os.path.join(self.folder, "fakes")
        os.mkdir(self.fakes)
        for name, text in (("meson", MESON), ("program", PROGRAM), ("lidx", LIDX), ("nvidia-smi", SMI), ("ncu", NCU),
                           ("compute-sanitizer", SANITIZER)):
            path = os.path.join(self.fakes, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)

    def command(self, *arguments):
        return [sys.executable, SCRIPT, "--build", os.path.join(self.folder, "build"), "--out",
                os.path.join(self.folder, "out"), *arguments]

    def environment(self, variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAKE", "LIDX_"))}
        return {**kept, "PATH": f"{self.fakes}:/usr/bin:/bin", "FAKES": self.fakes, "CUDA_HOME": "/nonexistent",
                **variables}

    def results(self):
        with open(os.path.join(self.folder, "out", "gpu-check.json"), encoding="utf-8") as file:
            return json.load(file)

    def run_script(self, *arguments, **variables):
        """(exit code, lines of stdout, JSON, {name: stage})"""
        done = subprocess.run(self.command(*arguments), env=self.environment(variables), capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.stderr, "")
        report = self.results()
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], f"gpu-check: {report['passed']} stages passed, {report['failed']} failed")
        return done.returncode, lines, report, {stage["name"]: stage for stage in report["stages"]}

    def test_all_is_well(self):
        rival, product = os.path.join(self.folder, "other.so"), os.path.join(self.folder, "lt.so")
        for path in (rival, product):
            with open(path, "w", encoding="utf-8"):
                pass
        code, lines, report, stages = self.run_script("--headers", self.fakes, "-D", "toolkit_home=/t", "--rival",
                                                      rival, "--cublaslt", product)
        self.assertEqual(lines[-1], "gpu-check: 20 stages passed, 0 failed")
        self.assertEqual(code, 0)
        self.assertEqual([s["name"] for s in report["stages"]][:8], STAGES)
        self.assertEqual(sorted(stages), sorted(STAGES + SANITIZED))
        self.assertEqual({s["status"] for s in report["stages"]}, {"passed"})
        self.assertIn("-Dheaders_dir=" + self.fakes, stages["configure"]["command"])
        self.assertIn("-Dtoolkit_home=/t", stages["configure"]["command"])
        self.assertEqual(stages["tests"]["counts"], {"passed": 11, "failed": 0, "skipped": 3})
        self.assertEqual(stages["tests"]["result"][1]["name"], "check_0")
        self.assertEqual(stages["reruns"]["counts"]["cases"],
                         sum(not name.startswith("sm100_") for name in gpu_check.RERUN_CASES))
        command = stages["reruns"]["command"]
        self.assertEqual(command[command.index("--runs") + 1], "20")
        for name in ("bench", "bench_warm"):
            self.assertEqual([row["workload"] for row in stages[name]["result"]["rows"]], ["w"])
            self.assertEqual("--warm" in stages[name]["command"], name == "bench_warm")
            self.assertEqual([stages[name]["command"][stages[name]["command"].index(option) + 1]
                              for option in ("--rival", "--cublaslt", "--plot")],
                             [rival, product, os.path.join(self.folder, "out", name + ".svg")])
        self.assertEqual(stages["profile"]["result"], [
            {"kernel": "score", "Memory Throughput [%]": "91.5", "Duration [us]": "12"},
            {"kernel": "score", "Duration [us]": "14"}])
        self.assertEqual(stages["racecheck_topk"]["counts"], {"passed": 5, "failed": 0, "skipped": 1, "reports": 0})
        for name in STAGES + SANITIZED:
            for when in ("gpu_before", "gpu_after"):
                self.assertEqual(stages[name][when]["clocks.sm"], "1980 MHz")
                self.assertEqual(stages[name][when]["power.draw"], "75.50 W")
        self.assertEqual(report["machine"]["gpu"]["name"], "NVIDIA H200")
        with open(os.path.join(self.folder, "out", "gpu-check.log"), encoding="utf-8") as file:
            log = file.read()
        self.assertEqual(len(re.findall("^==== ", log, re.M)), 20)
        # Again in the same build directory, fewer stages.
        code, _, _, stages = self.run_script("--quick")
        self.assertEqual(code, 0)
        self.assertIn("--reconfigure", stages["configure"]["command"])
        self.assertEqual(sorted(name for name in stages if name in SANITIZED), sorted(SANITIZED[:3]))
        self.assertEqual(len(stages), 11)

    def failed(self, expected, *arguments, **variables):
        """{name: stage}; exactly these fail."""
        code, _, report, stages = self.run_script(*arguments, **variables)
        self.assertEqual([s["name"] for s in report["stages"] if s["status"] in ("failed", "timeout")], expected)
        self.assertEqual(code, 1)
        return stages

    def test_failures(self):
        stages = self.failed(["tests"], "--quick", FAKE_RESULT="FAIL")
        self.assertEqual(stages["tests"]["reason"], "failed: check_0")
        self.assertEqual(stages["tests"]["counts"], {"passed": 11, "failed": 1, "skipped": 3})
        stages = self.failed(["reruns"], "--quick", FAKE_ODD="7")
        self.assertRegex(stages["reruns"]["reason"], "^sm90_[^ ;]*: odd$")
        stages = self.failed(["bench", "bench_warm"], "--quick", FAKE_LIDX='[ "$2$3" = --runs1 ] || exit 4')
        self.assertEqual((stages["bench"]["reason"], stages["bench"]["exit_code"]), ("exit code 4", 4))
        stages = self.failed(["bench", "bench_warm"], "--quick", FAKE_AGREES="false",
                             FAKE_LIDX='[ "$2$3" = --runs1 ] && exit 0')
        self.assertEqual(stages["bench"]["reason"], "failed, or computed something else: k at w")
        stages = self.failed(["profile"], "--quick", FAKE_NCU="exit 0")
        self.assertEqual(stages["profile"]["reason"], "ncu profiled nothing")

    def test_sanitizers(self):
        stages = self.failed(["memcheck_score", "memcheck_cache", "memcheck_topk"], "--quick", "--jobs", "1",
                             FAKE_ERRORS="3")
        self.assertEqual(stages["memcheck_topk"]["reason"], "3 reports")
        self.assertEqual(stages["memcheck_topk"]["counts"]["reports"], 3)
        stages = self.failed(["racecheck_score", "racecheck_cache", "racecheck_topk"], "--jobs", "1", FAKE_HAZARDS="1")
        self.assertEqual(stages["racecheck_cache"]["reason"], "1 reports")
        for said, reason in (("exit 0", "compute-sanitizer printed no summary"),
                             ("echo '=== Error: Target application terminated before first instrumented API call'",
                              "nothing was instrumented"),
                             ("code=139", "the program under it: exit code 139")):
            stages = self.failed(["memcheck_score", "memcheck_cache", "memcheck_topk"], "--quick", "--jobs", "1",
                                 FAKE_SANITIZER=said)
            self.assertEqual(stages["memcheck_score"]["reason"], reason)

    def test_what_fails_early_skips_the_rest(self):
        stages = self.failed(["build"], FAKE_COMPILE="echo no such header; exit 1")
        self.assertEqual(stages["clocks"]["status"], "passed")
        for name in STAGES[3:] + SANITIZED:
            self.assertEqual((stages[name]["status"], stages[name]["reason"]), ("skipped", "build did not pass"), name)
        stages = self.failed(["configure"], FAKE_MESON="exit 1")
        self.assertEqual(stages["build"]["reason"], "configure did not pass")

    def test_missing_tools(self):
        for name in ("ncu", "compute-sanitizer"):
            os.remove(os.path.join(self.fakes, name))
        code, lines, report, stages = self.run_script()
        self.assertEqual((code, lines[-1]), (0, "gpu-check: 7 stages passed, 0 failed"))
        self.assertEqual(report["missing_tool"], ["profile", *SANITIZED])
        self.assertEqual(stages["initcheck_topk"]["status"], "missing tool")
        self.assertEqual(stages["profile"]["reason"], "ncu was not found")

    def test_without_a_gpu_nothing_is_built(self):
        smi = os.path.join(self.fakes, "nvidia-smi")
        for text, reason in (("echo no devices were found; exit 6", "nvidia-smi -L: no devices were found"),
                             ("exit 9", "nvidia-smi -L: exit code 9"), (None, "nvidia-smi was not found")):
            if text is None:
                os.remove(smi)
            else:
                with open(smi, "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\n" + text + "\n")
            done = subprocess.run(self.command(), env=self.environment({}), capture_output=True, text=True, timeout=60)
            if "libcuda" not in done.stderr:
                self.skipTest("this machine's driver has a device")
            self.assertEqual((done.returncode, done.stdout), (3, ""))
            self.assertRegex(done.stderr, r"\Agpu-check: no NVIDIA GPU \(.*" + reason + r"; libcuda.*\n\Z")
            self.assertFalse(os.path.exists(os.path.join(self.folder, "build")))

    def test_no_right_to_counters(self):
        _, _, report, _ = self.run_script("--quick", FAKE_NCU="echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1")
        self.assertEqual((report["failed"], report["missing_tool"]), (0, ["profile"]))

    def test_timeouts(self):
        leftover = os.path.join(self.folder, "leftover")
        # It ignores the polite signal, and so does what it started.
        stages = self.failed(["memcheck_score"], "--quick", "--sanitizer-timeout", "1", "--jobs", "3",
                             FAKE_SANITIZER="case $1 in */check) trap '' TERM; (sleep 5; : >" + leftover + ") ; esac")
        self.assertEqual(stages["memcheck_score"]["status"], "timeout")
        self.assertEqual(stages["memcheck_score"]["reason"], "stopped after 1 s")
        self.assertIsNone(stages["memcheck_score"]["exit_code"])
        self.assertFalse(os.path.exists(leftover))

    def test_budget(self):
        code, _, report, stages = self.run_script("--budget", "9", FAKE_COMPILE="exit 1")
        self.assertEqual(code, 0)       # configure and clocks passed, nothing failed
        self.assertEqual(stages["build"]["status"], "skipped")
        self.assertRegex(stages["build"]["reason"], r"^takes 10 s or more, \d s are left of 9 s$")
        self.assertEqual(report["skipped"],
                         [name for name in STAGES + SANITIZED if name not in ("configure", "clocks")])

    def test_signal(self):
        process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=self.environment({"FAKE_COMPILE": "sleep 30"}))
        while "configure" not in process.stdout.readline():
            pass
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(output.splitlines()[-1], "gpu-check: 1 stages passed, 1 failed")
        stages = {stage["name"]: stage for stage in self.results()["stages"]}
        self.assertEqual(stages["build"]["reason"], "ended by signal 9")
        self.assertEqual(stages["tests"]["status"], "skipped")

    def test_usage(self):
        for arguments in (["--budget", "0"], ["--jobs", "x"], ["--headers", "/nonexistent"], ["-D", "x"], ["--what"],
                          ["--rival", "/none.so"], ["--cublaslt", "/none.so"], ["--out", "/dev/null/x"]):
            done = subprocess.run(self.command(*arguments), env=self.environment({}), capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))


class Names(unittest.TestCase):
    def test_check_knows_the_cases(self):
        for names in (gpu_check.SANITIZED_CASES, gpu_check.RERUN_CASES):
            done = subprocess.run([CHECK, "--list", *gpu_check.repeated("--case", names)], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.stdout.splitlines(), list(names), done.stderr)

    def test_test_cases_exist(self):
        for folder, patterns in (("cache", gpu_check.CACHE_TESTS), ("topk", gpu_check.TOPK_TESTS)):
            names = []
            for path in glob.glob(os.path.join(ROOT, "test", folder, "*.cpp")):
                with open(path, encoding="utf-8") as file:
                    names += re.findall(r'TEST_CASE\("([^"]*)"', file.read())
            for pattern in patterns.split(","):
                self.assertEqual(len(fnmatch.filter(names, pattern)), 1, pattern)

    def test_workloads_exist(self):
        with open(os.path.join(ROOT, "tools", "lidx", "bench", "workloads.cpp"), encoding="utf-8") as file:
            text = file.read()
        names = re.findall(r'\("([a-z0-9-]+)",', text)
        for name in gpu_check.PROFILED:
            self.assertIn(name, names)
        timed = []
        for everything, quick in gpu_check.BENCHES.values():
            timed += [name for name in names if re.search(everything[-1], name)]
            for name in quick[quick.index("--workload") + 1:]:
                self.assertIn(name, names)
                self.assertRegex(name, everything[-1])
        self.assertEqual(sorted(timed), sorted(name for name in names if not name.startswith("smoke")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
