# SPDX-License-Identifier: Apache-2.0
"""What `meson install` puts down is complete and usable. Usage: install_check.py SOURCE_ROOT BUILD_ROOT PKG_CONFIG
COMMAND_WANTED FILE... -- MESON..., FILE being names of kernel files that must be there."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE_ROOT, BUILD_ROOT, PKG_CONFIG, COMMAND_WANTED = sys.argv[1:5]
SPLIT = sys.argv.index("--")
KERNEL_FILES, MESON = [os.path.basename(name) for name in sys.argv[5:SPLIT]], sys.argv[SPLIT + 1:]

PROGRAM = """#include <lidx.h>
#include <stdio.h>
int main(void) { puts(lidx_version()); return lidx_kernel_count() > 0 ? 0 : 1; }
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        subprocess.run([*MESON, "install", "-C", BUILD_ROOT, "--no-rebuild", "--destdir", cls.folder], check=True,
                       stdout=subprocess.DEVNULL)
        cls.pc, = glob.glob(f"{cls.folder}/**/lidx.pc", recursive=True)

    def find(self, name):
        found = glob.glob(f"{self.folder}/**/{name}", recursive=True)
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def test_files(self):
        self.assertTrue(KERNEL_FILES)
        for name in ("liblidx.so", "liblidx.a", "lidx.h", "libptxemu.so", "lidx.py", *KERNEL_FILES):
            self.find(name)

    def flags(self, *options):
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.pc), PKG_CONFIG_SYSROOT_DIR=self.folder)
        return subprocess.run([PKG_CONFIG, *options, "lidx"], env=environment, text=True, check=True,
                              capture_output=True).stdout.split()

    def program(self, *options):
        source, output = os.path.join(self.folder, "program.c"), os.path.join(self.folder, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        subprocess.run(["cc", "-Wall", "-Werror", source, "-o", output, *options], check=True)
        return output

    def test_program_with_the_shared_library(self):
        output = self.program(*self.flags("--cflags", "--libs"))
        environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(self.find("liblidx.so")))
        done = subprocess.run([output], env=environment, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, "0.1.0\n"))

    def test_program_with_the_static_library(self):
        flags = [flag for flag in self.flags("--cflags", "--libs", "--static") if flag != "-llidx"]
        output = self.program(*flags[:-1], self.find("liblidx.a"), *flags[-1:], "-lstdc++")
        done = subprocess.run([output], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (0, "0.1.0\n"))

    def test_the_module_for_python_finds_its_library(self):
        folder, = self.flags("--variable=pythondir")
        folder = folder if folder.startswith(self.folder) else self.folder + folder   # not every pkg-config adds it
        self.assertEqual(folder, os.path.dirname(self.find("lidx.py")))
        program = "import lidx; print(lidx.version(), lidx._library._name)"
        done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": folder, "PATH": "/usr/bin:/bin"},
                              cwd="/", text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        version, library = done.stdout.split()
        self.assertEqual((version, os.path.realpath(library)), ("0.1.0", os.path.realpath(self.find("liblidx.so"))))

    def test_a_rival_of_the_bench_compiles(self):
        if COMMAND_WANTED != "true":
            self.skipTest("built without the command")
        self.assertTrue(self.find("rival.h").endswith("/include/lidx/rival.h"))
        with open(os.path.join(SOURCE_ROOT, "docs", "performance.md"), encoding="utf-8") as file:
            block = re.search(r"```c\n(#include <lidx/rival.h>.*?)```", file.read(), re.S).group(1)
        mine = "void *my_plan(const void *); int my_launches(void *, void *); void my_free(void *);\n"
        source, output = os.path.join(self.folder, "mine.c"), os.path.join(self.folder, "libmine.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stddef.h>\n" + mine + block)
        subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", output, *self.flags("--cflags")],
                       check=True)

    def test_installed_command_finds_its_emulator(self):
        if COMMAND_WANTED != "true":
            self.skipTest("built without the command")
        lidx = self.find("bin/lidx")
        environment = {"PATH": "/usr/bin:/bin"}
        case, scores = os.path.join(self.folder, "case"), os.path.join(self.folder, "scores.npy")
        self.find("bin/ptxemu")
        for arguments in (["gen", "--out", case, "--keys", "40", "--tokens", "1", "--page", "16", "--lattice"],
                          ["score", "--in", case, "--out", scores, "--device", "emu"],
                          ["verify", "--in", case, "--scores", scores, "--exact"]):
            done = subprocess.run([lidx, *arguments], env=environment, cwd="/", text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
