# SPDX-License-Identifier: Apache-2.0
"""The blocks of docs/emulator.md as they stand: every ```sh block in one shell, in their order, each ```text block the
lines that the block before it prints, in this order; `...` is anything, and so are line numbers, addresses and
registers, which are nvcc's and the allocator's choice. A block that imports Triton needs Triton.
usage: emulator_guide_test.py GUIDE FOLDER_OF_PTXEMU NVCC CUDA_INCLUDE [unittest arguments]"""
import array
import os
import re
import subprocess
import sys
import tempfile
import unittest

GUIDE, PTXEMU, NVCC, INCLUDE = (os.path.abspath(sys.argv.pop(1)) for _ in range(4))
MARK = "---- next block ----"


def blocks():
    """[(commands, what they print or None)]"""
    with open(GUIDE, encoding="utf-8") as file:
        found = re.findall(r"^```(sh|text)\n(.*?)^```$", file.read(), re.S | re.M)
    pairs = []
    for kind, text in found:
        if kind == "sh":
            pairs.append([text, None])
        else:
            assert pairs and pairs[-1][1] is None, "a text block without commands: " + text
            pairs[-1][1] = text
    return pairs


def pattern_of(text):
    """The expected lines as an expression on output whose white space is single blanks."""
    text = re.sub(r"\s+", " ", text.strip())
    text = re.sub(r"PTX line \d+|0x[0-9a-f]+|%\w+", "...", text)
    return ".*?".join(re.escape(part) for part in text.split("..."))


class Guide(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        """The source tree with its build, and the library that a linker takes for the driver."""
        holder = tempfile.TemporaryDirectory(prefix="emulator_guide_")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        os.makedirs(self.path("tree", "build", "tools"))
        os.symlink(PTXEMU, self.path("tree", "build", "tools", "ptxemu"))
        exported = subprocess.run(["nm", "-D", os.path.join(PTXEMU, "libptxemu.so")], capture_output=True, text=True,
                                  check=True).stdout
        names = re.findall(r" T (cu\w+)$", exported, re.M)
        self.assertIn("cuInit", names)
        with open(self.path("stub.c"), "w", encoding="utf-8") as file:
            file.writelines(f"void {name}(void) {{}}\n" for name in names)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", self.path("stub.c"), "-o",
                        self.path("libcuda.so")], check=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_blocks(self, pairs):
        """In the folder "try"; only the places of the toolkit and of that folder differ from the guide."""
        script = f"\necho '{MARK}'\n".join(commands for commands, _ in pairs)
        for text, instead in (("CUDA=/usr/local/cuda", f"CUDA='{os.path.dirname(os.path.dirname(NVCC))}'"),
                              ("cd $(mktemp -d)", f"mkdir '{self.path('try')}' && cd '{self.path('try')}'")):
            self.assertEqual(script.count(text), 1, text)
            script = script.replace(text, instead)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PTXEMU")}
        environment.update(LIBRARY_PATH=self.folder, CPATH=INCLUDE)
        output = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=240, cwd=self.path("tree"), env=environment).stdout
        printed = output.split(MARK + "\n")
        self.assertEqual(len(printed), len(pairs), output)
        for (commands, expected), output in zip(pairs, printed):
            if expected is not None:
                self.assertRegex(re.sub(r"\s+", " ", output), pattern_of(expected), commands)

    def test_kernels_and_hosts(self):
        pairs = [pair for pair in blocks() if "import json, triton" not in pair[0]]
        self.assertEqual([expected is not None for _, expected in pairs], [False, True, True, True])
        self.run_blocks(pairs)
        with open(self.path("try", "out.npy"), "rb") as file:
            self.assertEqual(list(array.array("f", file.read()[-1024:])), [float(255 - i) for i in range(256)])
        # A fat binary as nvcc makes it by default, compressed.
        subprocess.run([NVCC, "-fatbin", "-gencode", "arch=compute_90a,code=compute_90a", "reverse.cu"], check=True,
                       cwd=self.path("try"))
        listed = subprocess.run([os.path.join(PTXEMU, "ptxemu"), "info", self.path("try", "reverse.fatbin")],
                                capture_output=True, text=True, check=True).stdout
        self.assertIn("target sm_90a", listed)

    def test_it_names_every_option_and_variable(self):
        with open(GUIDE, encoding="utf-8") as file:
            guide = file.read()
        told = subprocess.run([os.path.join(PTXEMU, "ptxemu"), "run", "--help"], capture_output=True, text=True,
                              check=True).stdout
        options = set(re.findall(r"^ +(?:-h,)?(--[a-z][a-z-]*)", told, re.M)) - {"--help"}
        self.assertGreater(len(options), 15)
        self.assertEqual([option for option in sorted(options) if option not in guide], [])
        with open(os.path.join(PTXEMU, "libptxemu.so"), "rb") as file:
            read = set(re.findall(rb"\0(PTXEMU_[A-Z_]+)(?=\0)", file.read()))
        self.assertGreater(len(read), 10)
        named = set(re.findall(r"PTXEMU_[A-Z_]+", guide))
        self.assertEqual(sorted(name.decode() for name in read), sorted(named))

    def test_triton(self):
        if subprocess.run(["python3", "-c", "import triton"], capture_output=True).returncode != 0:
            self.skipTest("python3 has no Triton")
        pairs = blocks()
        (block,) = (pair for pair in pairs if "import json, triton" in pair[0])
        self.run_blocks([pairs[0], block])


if __name__ == "__main__":
    unittest.main()
