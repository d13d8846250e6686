# SPDX-License-Identifier: Apache-2.0
"""Programmatic dependent launch, proved of every kernel of the given PTX files on every path of its control flow:

- Nobody accesses global memory, through whatever unit, or leaves ahead of griddepcontrol.wait. Tensor maps are
  parameters and may be fetched before.
- griddepcontrol.launch_dependents comes behind the wait: what depends on this grid may rely on all that it waited for.
- A selection, where TopkParams::known_rows is not 0 (the grid in front is a scorer of lidx, so by the second rule all
  in front of that one is over), may load who sees what ahead of the wait: words whose address comes from the three
  pointers of RowView and from no other.
Usage: griddep_check.py STEM=PTX... [--without STEM...]     those must not use griddepcontrol at all"""
import re
import sys
import unittest

SPLIT = sys.argv.index("--without")
FILES = dict(argument.split("=", 1) for argument in sys.argv[1:SPLIT])
WITHOUT = set(sys.argv[SPLIT + 1:])

ENTRY = re.compile(r"\.entry\s+(\w+)\(.*?\n\{\n(.*?)\n\}", re.DOTALL)
GUARD = r"^(?:@!?%?\w+\s+)?"
# Shared memory, parameters, registers and barriers of the CTA are its own.
ACCESS = re.compile(GUARD + r"((?:ld|st|atom|red|cp|prefetch|prefetchu|multimem|applypriority|discard)\b\S*|"
                    r"ldu\.\S+|tensormap\.\S+)")
OWN = re.compile(r"^(?!.*\.global\b).*\.(?:shared|param|local|const)\b|^prefetch\.tensormap")   # copies name both
BRANCH = re.compile(r"^(?:@(!?)(%?\w+)\s+)?bra(?:\.uni)?\s+(\$?\w+);")
LEAVES = re.compile(GUARD + r"(?:brx|call|ret|exit)\b")
ENDS = re.compile(r"^(?:ret|exit|trap)\b")
LABEL = re.compile(r"^(\$?\w+):$")
WAIT, LAUNCH = "griddepcontrol.wait;", re.compile(GUARD + r"griddepcontrol\.launch_dependents;")

RESULT = re.compile(GUARD + r"\w[\w.:]*\s+(\{[^}]*\}|%?\w+(?:\|%?\w+)?)\s*,\s*(.*);")
REGISTER, PREDICATE = re.compile(r"%(?:r|rd|rs|f|fd)\d+"), re.compile(r"%p\d+")
PARAMETER = re.compile(GUARD + r"ld\.param(?:\.v[24])?\.[usbf](\d+)\s+(\{[^}]*\}|%\w+),\s*\[([%\w]+)(?:\+(-?\d+))?\];")
LOAD = re.compile(GUARD + r"ld\.[\w.:]*?[usbf](\d+)\s")
VIEW_LOAD = re.compile(GUARD + r"ld\.global(?:\.v[24])?\.[usbf]\d+\s+(?:\{[^}]*\}|%\w+),\s*\[(%rd\d+)(?:\+-?\d+)?\];")
ZERO = re.compile(r"^setp\.(eq|ne)\.[su]32\s+%\w+,\s*(%r\d+),\s*0;")

# kernel/topk_layout.h: where TopkParams has known_rows, and the pointers of its RowView.
KNOWN_ROWS, VIEW_POINTERS = 196, {0, 8, 16}
NEITHER, KNOWN, WAITED = range(3)


class Body:
    """A kernel's instructions, where its labels are, and what defines its registers."""

    def __init__(self, text):
        self.lines, self.labels, self.definitions = [], {}, {}
        for line in map(str.strip, text.splitlines()):
            label = LABEL.match(line)
            if label:
                self.labels[label.group(1)] = len(self.lines)
            elif line.endswith(";"):
                self.lines.append(line)
        for line in self.lines:
            result = RESULT.match(line)
            for register in REGISTER.findall(result.group(1)) if result else ():
                self.definitions.setdefault(register, []).append(line)
            for register in PREDICATE.findall(result.group(1)) if result else ():
                self.definitions.setdefault(register, []).append(line)

    def parameter_base(self, name):
        """The offset in the parameters that an address of ld.param has; None: not known."""
        if name.endswith("_param_0"):
            return 0
        definitions = self.definitions.get(name, [])
        if len(definitions) != 1:
            return None
        moved = re.match(r"^mov\.[ub]64\s+%\w+,\s*(\w+_param_0);", definitions[0])
        added = re.match(r"^add\.s64\s+%\w+,\s*(%\w+),\s*(-?\d+);", definitions[0])
        if moved:
            return 0
        base = self.parameter_base(added.group(1)) if added else None
        return None if base is None else base + int(added.group(2))

    def parameters(self, line):
        """(register, offset, bits) of what a ld.param loads; None: it is none; offset None: not known."""
        match = PARAMETER.match(line)
        if not match:
            return None
        bits, base = int(match.group(1)), self.parameter_base(match.group(3))
        names = match.group(2).strip("{}").replace(" ", "").split(",")
        return [(name, None if base is None else base + int(match.group(4) or 0) + i * bits // 8, bits)
                for i, name in enumerate(names)]

    def pointers(self, register, seen):
        """What 64-bit values a register is worked out from: offsets of parameters, or a text for any other."""
        if register in seen:
            return set()
        seen.add(register)
        found = set() if register in self.definitions else {"undefined"}
        for line in self.definitions.get(register, ()):
            parameters, load = self.parameters(line), LOAD.match(line)
            if parameters is not None:
                found |= {"unknown" if offset is None else offset
                          for name, offset, bits in parameters if name == register and bits == 64}
            elif load:
                found |= {"loaded"} if load.group(1) == "64" else set()
            elif "_param_" in line:
                found.add("address")
            else:
                for source in REGISTER.findall(RESULT.match(line).group(2)):
                    found |= self.pointers(source, seen)
        return found

    def loads_view(self, line):
        match = VIEW_LOAD.match(line)
        pointers = self.pointers(match.group(1), set()) if match else set()
        return bool(pointers) and pointers <= VIEW_POINTERS

    def known_if(self, predicate):
        """Whether known_rows is not 0 where the predicate is true (True) or false (False); None: it says nothing."""
        definitions = self.definitions.get(predicate, [])
        match = ZERO.match(definitions[0]) if len(definitions) == 1 else None
        sources = self.definitions.get(match.group(2), []) if match else []
        if len(sources) != 1 or self.parameters(sources[0]) is None:
            return None
        loaded = [offset for name, offset, bits in self.parameters(sources[0]) if name == match.group(2) and bits == 32]
        return match.group(1) == "ne" if loaded == [KNOWN_ROWS] else None

    def successors(self, i, state, selection):
        """(next instruction, state there)"""
        line = self.lines[i]
        if line == WAIT:
            state = WAITED
        branch = BRANCH.match(line)
        if ENDS.match(line):
            return
        if not branch:
            yield i + 1, state
            return
        known = self.known_if(branch.group(2)) if selection and branch.group(2) else None
        taken = known is not None and known == (branch.group(1) == "")   # where they are known
        edges = [(self.labels[branch.group(3)], taken)] + ([(i + 1, not taken)] if branch.group(2) else [])
        for target, is_known in edges:
            if known is None:
                yield target, state
            elif is_known:
                yield target, max(state, KNOWN)
            elif state != KNOWN:   # they are, so nobody goes there
                yield target, state

    def states(self, selection):
        """Of every instruction that is reached: what holds before it on all paths."""
        states, work = {0: NEITHER}, [0]
        while work:
            i = work.pop()
            for target, state in self.successors(i, states[i], selection):
                if target < len(self.lines) and states.get(target, WAITED + 1) > state:
                    states[target] = state
                    work.append(target)
        return states


def before_wait(text, selection=False):
    """Instructions in front of griddepcontrol.wait that may not be there; None: there is no wait."""
    body = Body(text)
    if WAIT not in body.lines:
        return None
    found = []
    for i, state in sorted(body.states(selection).items()):
        line = body.lines[i]
        access = ACCESS.match(line)
        if state == WAITED or (state == KNOWN and body.loads_view(line)):
            continue
        if LEAVES.match(line) or LAUNCH.match(line) or (access and not OWN.match(access.group(1))):
            found.append(line)
    return found


class Griddep(unittest.TestCase):
    def test_nothing_is_read_before_the_wait(self):
        kernels = early = 0
        for stem, path in FILES.items():
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if stem in WITHOUT:
                self.assertNotIn("griddepcontrol", text, stem)
                continue
            for name, body in ENTRY.findall(text):
                kernels += 1
                selection = name.startswith("topk_")
                early += selection and before_wait(body) != []
                self.assertEqual(before_wait(body, selection), [], name)
        self.assertGreater(kernels, 10)
        self.assertGreater(early, 5)   # selections do read ahead

    def test_an_early_access_is_found(self):
        for lines in (["ld.param.u64 %rd1, [p];", "ld.shared.u32 %r1, [%r2];", WAIT, "ld.global.u32 %r1, [%rd1];"],
                      ["@%p1 bra $L__BB0_1;", "st.shared.u32 [%r1], %r2;", "$L__BB0_1:", WAIT],
                      ["@%p1 bra $L__BB0_1;", WAIT, "st.global.u32 [%rd1], %r2;", "ret;", "$L__BB0_1:", WAIT, "ret;"],
                      [WAIT, "griddepcontrol.launch_dependents;", "ret;"]):
            self.assertEqual(before_wait("\n".join(lines)), [])
        for line in ("ld.global.u32 %r1, [%rd1];", "@%p1 ld.global.nc.u32 %r1, [%rd1];", "st.global.u32 [%rd1], %r1;",
                     "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1;", "ld.u32 %r1, [%rd1];",
                     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, "
                     "{%r2, %r3}], [%r4];", "cp.async.cg.shared.global [%r1], [%rd1], 16;", "ret;", "@%p1 ret;",
                     "griddepcontrol.launch_dependents;"):
            self.assertEqual(before_wait(line + "\n" + WAIT), [line])
        store = "st.global.u32 [%rd1], %r1;"
        for lines in (["@%p1 bra \t$L__BB0_1;", WAIT, "$L__BB0_1:", store],      # round the wait
                      ["@%p1 bra $L__BB0_1;", WAIT, "bra.uni $L__BB0_2;", "$L__BB0_1:", "add.s32 %r1, %r2, 1;",
                       "$L__BB0_2:", store],
                      ["bra.uni $L__BB0_2;", "$L__BB0_1:", store, WAIT, "ret;", "$L__BB0_2:",
                       "bra.uni $L__BB0_1;"],                                     # behind it in the text alone
                      ["@%p1 " + WAIT, store, WAIT]):                             # some threads wait
            self.assertEqual(before_wait("\n".join(lines)), [store])
        self.assertIsNone(before_wait("ld.global.u32 %r1, [%rd1];"))

    # A selection's beginning; %rd4 is an entry of the row map.
    SELECTION = ["mov.b64 %rd1, topk_param_0;", "add.s64 %rd2, %rd1, 196;", "ld.param.u32 %r1, [%rd1+196];",
                 "setp.ne.s32 %p1, %r1, 0;", "@%p1 bra $L__BB0_1;", WAIT, "$L__BB0_1:",
                 "ld.param.u64 %rd3, [%rd2+-196];", "mul.wide.s32 %rd5, %r9, 4;", "add.s64 %rd4, %rd3, %rd5;"]
    LOAD_VIEW, END = "@%p2 ld.global.u32 %r2, [%rd4+4];", [WAIT, "ret;"]

    def judge(self, *edits, line=LOAD_VIEW, selection=True):
        text = "\n".join(["mov.u32 %r9, %tid.x;", *self.SELECTION, line, *self.END])
        for before, after in edits:
            self.assertIn(before, text)
            text = text.replace(before, after)
        return before_wait(text, selection)

    def test_what_a_selection_reads_ahead(self):
        self.assertEqual(self.judge(), [])
        self.assertEqual(self.judge(("setp.ne", "setp.eq"), ("@%p1", "@!%p1")), [])
        self.assertEqual(self.judge(("[%rd2+-196]", "[%rd2+-180]")), [])   # ends
        for edits in ([("setp.ne", "setp.eq")], [("@%p1", "@!%p1")],       # where rows are not known
                      [("[%rd1+196]", "[%rd1+192]")],                      # another field
                      [("@%p1 bra", "not.pred %p1, %p1;\n@%p1 bra")],       # or not it alone
                      [("[%rd2+-196]", "[%rd2+-124]")],                    # the scores
                      [("mul.wide.s32 %rd5, %r9, 4;", "ld.param.u64 %rd5, [%rd1+72];")],   # or worked out from them
                      [("mul.wide.s32 %rd5, %r9, 4;", "ld.global.u64 %rd5, [%rd3];")],
                      [("mul.wide.s32 %rd5, %r9, 4;", "")],
                      [("[%rd2+-196]", "[%rd9+-196]")]):
            self.assertIn(self.LOAD_VIEW, self.judge(*edits), edits)
        waits = ["@!%p1 bra $L__BB0_2;", WAIT, "$L__BB0_2:", "ld.global.u32 %r3, [%rd7];", "ret;"]   # where known
        self.assertEqual(self.judge((WAIT + "\nret;", "\n".join(waits))), [])
        waits[0] = "@%p1 bra $L__BB0_2;"
        self.assertEqual(self.judge((WAIT + "\nret;", "\n".join(waits))), waits[3:])
        self.assertEqual(self.judge(selection=False), [self.LOAD_VIEW])
        for line in ("st.global.u32 [%rd4], %r2;", "red.global.add.u32 [%rd4], 1;", "@%p3 ret;",
                     "griddepcontrol.launch_dependents;", "prefetch.global.L1 [%rd4];"):
            self.assertEqual(self.judge(line=line), [line])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
