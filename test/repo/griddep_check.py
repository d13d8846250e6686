# SPDX-License-Identifier: Apache-2.0
"""Programmatic dependent launch: every kernel of the given PTX files waits for the grid before it (griddepcontrol.wait)
on every path, ahead of any access to global memory through whatever unit. Tensor maps are parameters and may be
fetched before.
Usage: griddep_check.py STEM=PTX... [--without STEM...]     those must not use griddepcontrol at all"""
import re
import sys
import unittest

SPLIT = sys.argv.index("--without")
FILES = dict(argument.split("=", 1) for argument in sys.argv[1:SPLIT])
WITHOUT = set(sys.argv[SPLIT + 1:])

ENTRY = re.compile(r"\.entry\s+(\w+)\(.*?\n\{\n(.*?)\n\}", re.DOTALL)
# Shared memory, parameters, registers and barriers of the CTA are its own.
ACCESS = re.compile(r"^(?:@%?!?\w+\s+)?((?:ld|st|atom|red|cp|prefetch|prefetchu|multimem|applypriority|discard)\b\S*|"
                    r"ldu\.\S+|tensormap\.\S+)")
OWN = re.compile(r"\.(?:shared|param|local|const)\b|^prefetch\.tensormap")
BRANCH = re.compile(r"^(?:@%?!?\w+\s+)?bra(?:\.uni)?\s+(\$?\w+);")
LEAVES = re.compile(r"^(?:@%?!?\w+\s+)?(?:brx|call|ret|exit)\b")
LABEL = re.compile(r"^(\$?\w+):$")


def before_wait(body):
    """Instructions in front of the first griddepcontrol.wait that may not be there; None: it never waits."""
    found, jumps, labels = [], [], set()
    for line in map(str.strip, body.splitlines()):
        if line.startswith("griddepcontrol.wait"):
            return found + [jump for target, jump in jumps if target not in labels]   # round it
        access, jump, label = ACCESS.match(line), BRANCH.match(line), LABEL.match(line)
        if label:
            labels.add(label.group(1))
        if jump:
            jumps.append((jump.group(1), line))
        if LEAVES.match(line) or (access and not OWN.search(access.group(1))):
            found.append(line)
    return None


class Griddep(unittest.TestCase):
    def test_nothing_is_read_before_the_wait(self):
        kernels = 0
        for stem, path in FILES.items():
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if stem in WITHOUT:
                self.assertNotIn("griddepcontrol", text, stem)
                continue
            for name, body in ENTRY.findall(text):
                kernels += 1
                self.assertEqual(before_wait(body), [], name)
        self.assertGreater(kernels, 10)

    def test_an_early_access_is_found(self):
        wait = "griddepcontrol.wait;"
        for lines in (["ld.param.u64 %rd1, [p];", "ld.shared.u32 %r1, [%r2];", wait, "ld.global.u32 %r1, [%rd1];"],
                      ["@%p1 bra $L__BB0_1;", "st.shared.u32 [%r1], %r2;", "$L__BB0_1:", wait]):
            self.assertEqual(before_wait("\n".join(lines)), [])
        for line in ("ld.global.u32 %r1, [%rd1];", "@%p1 ld.global.nc.u32 %r1, [%rd1];", "st.global.u32 [%rd1], %r1;",
                     "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;", "ld.u32 %r1, [%rd1];",
                     "cp.async.bulk.tensor.2d.tile [%r1], [%rd1];", "@%p1 bra \t$L__BB0_1;", "ret;"):
            self.assertEqual(before_wait(line + "\n" + wait + "\n$L__BB0_1:"), [line])
        self.assertIsNone(before_wait("ld.global.u32 %r1, [%rd1];"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
