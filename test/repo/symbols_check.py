# SPDX-License-Identifier: Apache-2.0
"""Exported symbols. `symbols_check.py lidx LIBRARY HEADER SONAME`: exactly the LIDX_API functions of the header;
`symbols_check.py ptxemu LIBRARY`: only cu* and ptxemu* names."""
import re
import subprocess
import sys
import unittest

KIND, LIBRARY, *REST = sys.argv[1:]


def tool(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def exported(library):
    names = []
    for line in tool("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":                       # symbol-version nodes
            names.append(name.split("@")[0])
    return sorted(names)


def declared(header):
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return sorted(re.findall(r"^LIDX_API[^;(]*?(\w+)\s*\(", text, re.M))


class Symbols(unittest.TestCase):
    @unittest.skipUnless(KIND == "lidx", "the library only")
    def test_library_exports_its_header(self):
        names = declared(REST[0])
        self.assertIn("lidx_score_enqueue", names)
        self.assertEqual(exported(LIBRARY), names)

    @unittest.skipUnless(KIND == "lidx", "the library only")
    def test_soname(self):
        self.assertIn(f"[{REST[1]}]", tool("readelf", "-d", LIBRARY).split("SONAME", 1)[1].splitlines()[0])

    @unittest.skipUnless(KIND == "lidx", "the library only")
    def test_library_needs_no_cuda_library(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-d", LIBRARY))
        self.assertEqual([name for name in needed if re.search("cuda|nv|ptxemu", name)], [])

    @unittest.skipUnless(KIND == "ptxemu", "the emulator only")
    def test_emulator_exports_the_driver_api_only(self):
        names = exported(LIBRARY)
        self.assertIn("cuLaunchKernelEx", names)
        self.assertEqual([name for name in names if not re.fullmatch(r"cu[A-Z]\w*|ptxemu\w*", name)], [])


if __name__ == "__main__":
    cases = unittest.defaultTestLoader.loadTestsFromTestCase(Symbols)
    wanted = unittest.TestSuite(case for case in cases
                                if not getattr(getattr(case, case._testMethodName), "__unittest_skip__", False))
    sys.exit(not unittest.TextTestRunner().run(wanted).wasSuccessful())
