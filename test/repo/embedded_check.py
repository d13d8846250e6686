# SPDX-License-Identifier: Apache-2.0
"""What liblidx carries: for each kernel file PTX and cubins, uncompressed; every cubin is what ptxas makes of that
very PTX; the installed files are the embedded ones; no path of the building machine is inside.
Usage: embedded_check.py LIBRARY PTXAS SOURCE_ROOT BUILD_ROOT STEM=ptx_arch:cubin_arch,... -- FILE..."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import fatbin_image

LIBRARY, PTXAS, SOURCE_ROOT, BUILD_ROOT = sys.argv[1:5]
SPLIT = sys.argv.index("--")
EXPECTED = {row.split("=")[0]: row.split("=")[1] for row in sys.argv[5:SPLIT]}
SHIPPED = sys.argv[SPLIT + 1:]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def by_stem(containers):
    """Names each container by its kernels: their symbols begin with the stem of their file."""
    named = {}
    for images in containers:
        ptx = next(image.payload for image in images if image.kind == "ptx")
        entry = re.search(rb"\.entry\s+(\w+)", ptx).group(1).decode()
        stem = max((stem for stem in EXPECTED if entry.startswith(stem)), key=len, default=entry)
        named[stem] = images
    return named


def code_sections(cubin):
    return {name: data for name, data in fatbin_image.elf_sections(cubin).items()
            if name.startswith((".text.", ".nv.constant", ".nv.global.init"))}


def ptx_lines(ptx):
    """fatbinary drops comments and indentation but keeps the lines, so that line numbers stay valid."""
    return [b" ".join(line.split(b"//")[0].split()) for line in ptx.rstrip().split(b"\n")]


class Embedded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.containers = by_stem(fatbin_image.containers(read(LIBRARY)))

    def test_images(self):
        for stem, archs in EXPECTED.items():
            ptx, cubins = archs.split(":")
            found = [(image.kind, image.arch) for image in self.containers[stem]]
            expected = [("ptx", ptx)] + [("elf", arch) for arch in cubins.split(",")]
            self.assertEqual(sorted(found), sorted(expected), stem)
        self.assertEqual(self.containers.keys(), EXPECTED.keys())

    def test_uncompressed(self):
        for images in self.containers.values():
            for image in images:
                self.assertEqual(image.flags & fatbin_image.COMPRESSED_FLAGS, 0)
                self.assertIn(b"\x7fELF" if image.kind == "elf" else b".version", image.payload)

    def test_cubins_are_the_assembled_ptx(self):
        compared = 0
        for stem, images in self.containers.items():
            ptx = next(image.payload for image in images if image.kind == "ptx")
            for image in images:
                if image.kind != "elf":
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    source, output = os.path.join(folder, "a.ptx"), os.path.join(folder, "a.cubin")
                    with open(source, "wb") as file:
                        file.write(ptx)
                    subprocess.run([PTXAS, f"-arch=sm_{image.arch}", source, "-o", output], check=True)
                    again = code_sections(read(output))
                shipped = code_sections(image.payload)
                self.assertTrue(any(name.startswith(".text.") and data for name, data in shipped.items()))
                self.assertEqual(again.keys(), shipped.keys(), f"{stem} sm_{image.arch}")
                for name, data in shipped.items():
                    same = data == again[name]
                    self.assertTrue(same, f"{stem} sm_{image.arch} {name} differs from the reassembled PTX")
                    compared += 1
        self.assertGreaterEqual(compared, 2 * sum(len(images) - 1 for images in self.containers.values()))

    def test_shipped_files_are_the_embedded_images(self):
        images = [image for images in self.containers.values() for image in images]
        self.assertEqual(len(SHIPPED), len(images))
        for path in SHIPPED:
            data = read(path)
            if path.endswith(".ptx"):
                texts = [ptx_lines(image.payload) for image in images if image.kind == "ptx"]
                self.assertIn(ptx_lines(data), texts, path)
            else:
                # fatbinary pads images with zeros to a multiple of eight.
                self.assertTrue(any(image.payload.startswith(data) and not image.payload[len(data):].strip(b"\0")
                                    for image in images), path)

    def test_no_path_of_this_machine(self):
        home = os.path.expanduser("~")
        roots = {os.path.realpath(SOURCE_ROOT), os.path.realpath(BUILD_ROOT)}
        if len(home) > 1:
            roots.add(home)
        for path in [*SHIPPED, LIBRARY]:
            data = read(path)
            for root in roots:
                self.assertNotIn(root.encode() + b"/", data, f"{path} contains {root}")
        for path in SHIPPED:
            if path.endswith(".ptx"):
                files = re.findall(rb'\.file\s+\d+\s+"([^"]*)"', read(path))
                self.assertTrue(files, f"{path} names no source file")
                self.assertEqual([name for name in files if name.startswith(b"/")], [], path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
