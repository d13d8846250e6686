# SPDX-License-Identifier: Apache-2.0
"""The compiler gates of kernel/device_compile.py refuse what they must: warnings, local memory, C75xx remarks, foreign
paths. Usage: device_compile_check.py ROOT NVCC PTXAS"""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT, NVCC, PTXAS = sys.argv[1:4]
sys.path.insert(0, os.path.join(ROOT, "kernel"))
import device_compile

CLEAN = 'extern "C" __global__ void k(int* p) { p[threadIdx.x] = 7; }\n'
UNUSED = 'extern "C" __global__ void k(int* p) { int unused; p[threadIdx.x] = 7; }\n'
INDEXED = """extern "C" __global__ void k(int* p, int n) {
    int table[64];
    for (int i = 0; i < 64; ++i) table[p[i] & 63] = p[i];
    p[n] = table[p[n] & 63];
}
"""


class Gates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def step(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(ROOT, "kernel", "device_compile.py"), *arguments],
                              text=True, capture_output=True, cwd=self.folder)

    def ptx(self, source, root=None):
        with open(os.path.join(self.folder, "k.cu"), "w", encoding="utf-8") as file:
            file.write(source)
        return self.step("ptx", "--tool", NVCC, "--arch", "compute_90", "--root", root or self.folder,
                         "--input", "k.cu", "--output", "k.ptx", "--depfile", "k.d")

    def cubin(self):
        return self.step("cubin", "--tool", PTXAS, "--arch", "sm_90", "--input", "k.ptx", "--output", "k.cubin")

    def test_clean_source_passes(self):
        self.assertEqual(self.ptx(CLEAN).returncode, 0)
        self.assertEqual(self.cubin().returncode, 0)
        with open(os.path.join(self.folder, "k.ptx"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn('.file\t1 "k.cu"', text)
        self.assertNotIn(self.folder, text)
        with open(os.path.join(self.folder, "k.d"), encoding="utf-8") as file:
            self.assertIn(os.path.join(os.path.realpath(self.folder), "k.cu"), file.read().split())

    def test_compiler_warning_fails(self):
        done = self.ptx(UNUSED)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("unused", done.stderr)

    def test_local_memory_fails_and_leaves_no_cubin(self):
        self.assertEqual(self.ptx(INDEXED).returncode, 0)
        done = self.cubin()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("local memory", done.stderr.lower())
        self.assertFalse(os.path.exists(os.path.join(self.folder, "k.cubin")))

    def test_remarks_count_as_failures(self):
        remark = ("ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized "
                  "due to insufficient register resources")
        used = "ptxas info    : Used 40 registers, used 1 barriers"
        self.assertEqual(device_compile.complaints(f"{used}\n{remark}\n"), [remark])
        self.assertEqual(device_compile.complaints(f"{used}\n"), [])

    def test_file_lines(self):
        root = self.folder
        text = f'.version 9.0\n\t.file\t1 "{root}/kernel/../ptx/a.cuh"\n\t.file\t2 "/opt/cuda/include/b.h"\n'
        self.assertEqual(device_compile.relative_file_lines(text, root),
                         '.version 9.0\n\t.file\t1 "ptx/a.cuh"\n\t.file\t2 "include/b.h"\n')


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
