# SPDX-License-Identifier: Apache-2.0
"""lidx.h and rival.h compile alone as C and C++; other headers compile alone as C++20; the README's example compiles
and links.
Usage: header_check.py ROOT LIBRARY CUDA_INCLUDE CC... -- CXX..."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, LIBRARY, CUDA_INCLUDE = sys.argv[1:4]
SPLIT = sys.argv.index("--")
CC, CXX = sys.argv[4:SPLIT], sys.argv[SPLIT + 1:]
API = os.path.join(ROOT, "host", "include")
RIVAL = os.path.join(ROOT, "tools", "lidx")
COMMON = os.path.join(ROOT, "tools", "common")


def compile_text(compiler, language, standard, text, *options):
    """What the compiler says against a source text; "" if it accepts it. Options stand after the source."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "text.c" if language == "c" else "text.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        command = [*compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-I", API, source, *options]
        done = subprocess.run(command, text=True, capture_output=True, cwd=folder)
    return done.stderr or f"exit {done.returncode}" if done.returncode else ""


class Headers(unittest.TestCase):
    def test_api_header_alone(self):
        for header in ("<lidx.h>", '"rival.h"'):
            text = f"#include {header}\nint unused_(void);\n"
            for standard in ("c99", "c11", "c17", "c++11", "c++17", "c++20"):
                language = "c++" if "+" in standard else "c"
                with self.subTest(header + standard):
                    self.assertEqual(compile_text(CXX if "+" in standard else CC, language, standard, text,
                                                  "-pedantic-errors", "-fsyntax-only", "-I", RIVAL), "")

    def test_a_broken_header_is_seen(self):
        broken = "#include <lidx.h>\nlidx_statu broken;\n"
        self.assertNotEqual(compile_text(CC, "c", "c99", broken, "-fsyntax-only"), "")

    def test_internal_headers_alone(self):
        seen = 0
        for area in ("kernel", "host", "tools/ptxemu", "test/ref"):
            for name in sorted(os.listdir(os.path.join(ROOT, area))):
                if name.endswith(".h"):
                    seen += 1
                    with self.subTest(f"{area}/{name}"):
                        self.assertEqual(compile_text(CXX, "c++", "c++20", f'#include "{area}/{name}"\n',
                                                      "-fsyntax-only", "-I", ROOT, "-I", COMMON, "-isystem",
                                                      CUDA_INCLUDE), "")
        self.assertGreater(seen, 10)

    def test_readme_example(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            block = re.search(r"```c\n(.*?)```", file.read(), re.S).group(1)
        main = "int main(void) { return score(0, 0, 0, 0, 0, 0, 0, 0) == LIDX_OK; }\n"
        self.assertEqual(compile_text(CC, "c", "c99", block + main, "-pedantic-errors", "-O1", "-o", "example",
                                      os.path.abspath(LIBRARY)), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
