# SPDX-License-Identifier: Apache-2.0
"""Every wrapper of ptx/ is instantiated and assembles, and says where its instruction is documented.
Usage: ptx_wrappers_check.py ROOT NVCC PTXAS"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PTXAS = sys.argv.pop(3)
NVCC = sys.argv.pop(2)
ROOT = os.path.abspath(sys.argv.pop(1))
# Source: virtual architecture, and the one that ptxas assembles for.
SOURCES = {"test/unit/ptx_wrappers_compile.cu": ("compute_100f", "sm_100f"),
           "test/unit/ptx_wrappers_compile_90a.cu": ("compute_90a", "sm_90a")}
WRAPPER = re.compile(r"^LIDX_PTX \S+ (\w+)\(", re.M)


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def wrappers():
    """{header: names of its functions}"""
    headers = sorted(n for n in os.listdir(os.path.join(ROOT, "ptx")) if n.endswith(".cuh"))
    return {name: WRAPPER.findall(text_of("ptx/" + name)) for name in headers}


def undocumented(text):
    """Wrappers with no comment above them or above the run of wrappers that they continue."""
    bad, documented = [], False
    for line in text.splitlines():
        if line.startswith("//"):
            documented = True
        elif not line.strip():
            documented = False
        elif WRAPPER.match(line) and not documented:
            bad.append(WRAPPER.match(line).group(1))
    return bad


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def in_order(few, many):
    """Whether the words of few occur in many, in that order."""
    rest = iter(many)
    return all(word in rest for word in few)


class Wrappers(unittest.TestCase):
    def test_every_wrapper_is_instantiated(self):
        calls = {name for source in SOURCES for name in re.findall(r"\b(\w+)(?:<\w+>)?\(", text_of(source))}
        found = wrappers()
        self.assertGreater(sum(map(len, found.values())), 40)
        for header, names in found.items():
            self.assertEqual([n for n in names if n not in calls], [], f"{header}: in none of {list(SOURCES)}")

    def test_every_wrapper_is_documented(self):
        for header in wrappers():
            text = text_of("ptx/" + header)
            self.assertEqual(undocumented(text), [], header)
            self.assertIn("PTX ISA", text, header)

    def test_a_wrapper_without_a_comment_is_seen(self):
        self.assertEqual(undocumented("// a\nLIDX_PTX void a() {\n}\n\nLIDX_PTX void b() {}\n"), ["b"])

    def test_all_assemble_and_emit_what_they_are_named_after(self):
        with tempfile.TemporaryDirectory() as folder:
            ptx, cubin = os.path.join(folder, "w.ptx"), os.path.join(folder, "w.cubin")
            lines = []
            for source, (compute, sm) in SOURCES.items():
                subprocess.run([NVCC, "-ptx", "-arch=" + compute, "-std=c++20", "-fmad=false",
                                "-Werror=all-warnings", "-I.", "-o", ptx, source], cwd=ROOT, check=True)
                subprocess.run([PTXAS, "-arch=" + sm, "-Werror", "--warn-on-spills", "--warn-on-local-memory-usage",
                                "-o", cubin, ptx], check=True)
                with open(ptx, encoding="utf-8") as file:
                    lines += [words(line) for line in file if not line.startswith("//")]
        for header, names in wrappers().items():
            for name in names:
                if name != "cvta_to_shared":   # a constant once the compiler knows the variable
                    self.assertTrue(any(in_order(words(name), line) for line in lines), f"{header}: {name}")


if __name__ == "__main__":
    unittest.main()
