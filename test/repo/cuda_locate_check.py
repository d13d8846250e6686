# SPDX-License-Identifier: Apache-2.0
"""Which CUDA compiler the build takes, on made-up toolkits."""
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools", "sass"))
import cuda_locate


class Locate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def toolkit(self, name, version, tools=("nvcc", "ptxas", "fatbinary"), header=True):
        home = os.path.join(self.folder, name)
        os.makedirs(os.path.join(home, "bin"))
        os.makedirs(os.path.join(home, "include"))
        for tool in tools:
            path = os.path.join(home, "bin", tool)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.88'\n")
            os.chmod(path, 0o755)
        if header:
            with open(os.path.join(home, "include", "cuda.h"), "w", encoding="utf-8"):
                pass
        return home

    def locate(self, option="", path="", home=None, installed=()):
        environment = {"PATH": f"{path}:/usr/bin:/bin" if path else "/nowhere"}
        if home:
            environment["CUDA_HOME"] = home
        with (mock.patch.dict(os.environ, environment, clear=True),
              mock.patch.object(cuda_locate, "INSTALLED", installed)):
            return cuda_locate.locate(option, self.folder)

    def test_order(self):
        option, home, path, package = (self.toolkit(name, "13.0") for name in ("a", "b", "c", "d"))
        packages = (os.path.join(self.folder, "none"), package)
        wheels = self.toolkit(".venv/lib/python3.11/site-packages/nvidia/cu13", "13.0")
        for arguments, expected in (((option, path + "/bin", home), option), (("", path + "/bin", home), home),
                                    (("", path + "/bin", None, packages), path), (("", "", None, packages), package),
                                    (("",), wheels)):
            found, _ = self.locate(*arguments)
            self.assertEqual(os.path.realpath(found["nvcc"]), os.path.realpath(os.path.join(expected, "bin", "nvcc")))

    def test_another_version_is_passed_over(self):
        old = self.toolkit("old", "12.4")
        self.assertEqual(self.locate(home=old), (None, [f"{old} (CUDA_HOME) is CUDA 12.4"]))
        wheels = self.toolkit(".venv/lib/python3.11/site-packages/nvidia/cu13", "13.0")
        self.assertEqual(self.locate(home=old)[0]["include"], os.path.join(wheels, "include"))

    def test_an_option_is_taken_at_its_word(self):
        self.toolkit(".venv/lib/python3.11/site-packages/nvidia/cu13", "13.0")
        found, refused = self.locate(option="/nowhere/cuda")
        self.assertIsNone(found)
        self.assertIn("/nowhere/cuda (option toolkit_home) lacks nvcc", refused[0])

    def test_incomplete_toolkits(self):
        self.assertIn("lacks ptxas", self.locate(home=self.toolkit("p", "13.0", tools=("nvcc", "fatbinary")))[1][0])
        self.assertIn("lacks cuda.h", self.locate(home=self.toolkit("h", "13.0", header=False))[1][0])

    def test_readers_may_come_from_the_wheels(self):
        home = self.toolkit("t", "13.0")
        self.assertEqual(self.locate(home=home)[0]["nvdisasm"], "")
        wheels = self.toolkit(".venv/lib/python3.11/site-packages/nvidia/cu13", "13.2", tools=("nvdisasm", "cuobjdump"))
        self.assertEqual(self.locate(home=home)[0]["nvdisasm"], os.path.join(wheels, "bin", "nvdisasm"))


if __name__ == "__main__":
    unittest.main()
