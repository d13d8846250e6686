#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ptxemu run and info: arguments of every kind, exit codes, seeds, findings as JSON.
usage: run_command_test.py PTXEMU [unittest arguments]"""
import array
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PTXEMU = os.path.abspath(sys.argv.pop(1))
PICTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/ptxemu/trace_picture.py")

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"

# y[i] = a * x[i] + y[i] for i < n, and the word of `tail` where i == n.
SAXPY = HEADER + """
.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n, .param .align 4 .b8 tail[4]) {
    .reg .pred %p, %q;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    ld.param.f32 %f0, [a];
    ld.param.u32 %r0, [n];
    ld.param.b32 %r5, [tail];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %d2, %r4, 4;
    add.u64 %d0, %d0, %d2;
    add.u64 %d1, %d1, %d2;
    setp.eq.u32 %q, %r4, %r0;
    @%q st.global.b32 [%d1], %r5;
    setp.ge.u32 %p, %r4, %r0;
    @%p exit;
    ld.global.f32 %f1, [%d0];
    ld.global.f32 %f2, [%d1];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%d1], %f3;
    ret;
}
"""

# CTAs in pairs: each stores its word and arrives; the one that arrives last reads the other's word.
PAIRS = HEADER + """
.visible .entry pairs(.param .u64 words, .param .u64 arrivals, .param .u64 out) {
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %d<6>;
    ld.param.u64 %d0, [words];
    ld.param.u64 %d1, [arrivals];
    ld.param.u64 %d2, [out];
    mov.u32 %r0, %ctaid.x;
    mul.wide.u32 %d3, %r0, 4;
    add.u64 %d3, %d0, %d3;
    add.u32 %r1, %r0, 7;
    st.global.b32 [%d3], %r1;
    shr.u32 %r2, %r0, 1;
    mul.wide.u32 %d4, %r2, 4;
    add.u64 %d1, %d1, %d4;
    add.u64 %d2, %d2, %d4;
    atom.acq_rel.gpu.global.add.u32 %r3, [%d1], 1;
    setp.eq.u32 %p, %r3, 0;
    @%p exit;
    xor.b32 %r4, %r0, 1;
    mul.wide.u32 %d5, %r4, 4;
    add.u64 %d5, %d0, %d5;
    ld.global.b32 %r4, [%d5];
    st.global.b32 [%d2], %r4;
    ret;
}
"""

# One box of 8 rows of 32 bytes by TMA, then each thread stores 8 of its 256 bytes.
COPY = HEADER + """
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out) {
    .shared .align 128 .b8 tile[512];
    .shared .align 8 .b64 bar;
    .reg .pred %p, %q;
    .reg .b32 %r<6>;
    .reg .b64 %d<6>;
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p, %r0, 0;
    mov.u32 %r1, bar;
    mov.u32 %r2, tile;
    @%p bra READY;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    mov.b64 %d0, map;
    cvta.param.u64 %d0, %d0;
    mov.b32 %r3, 0;
    mov.b32 %r4, 2;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d0, {%r3, %r4}], [%r1];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r1], 0;
    @!%q bra WAIT;
    shl.b32 %r5, %r0, 3;
    add.u32 %r2, %r2, %r5;
    ld.shared.b64 %d1, [%r2];
    ld.param.u64 %d2, [out];
    cvt.u64.u32 %d3, %r5;
    add.u64 %d2, %d2, %d3;
    st.global.b64 [%d2], %d1;
    ret;
}
"""

# Warp 1 reads a flag that warp 0 sets, without any barrier between them, and traps where it is not yet set.
UNORDERED = HEADER + """
.visible .entry unordered() {
    .shared .align 4 .b32 flag;
    .reg .pred %p, %q;
    .reg .b32 %r<4>;
    mov.u32 %r0, %tid.x;
    setp.ge.u32 %p, %r0, 32;
    @%p bra READER;
    mov.b32 %r1, 7;
    st.volatile.shared.b32 [flag], %r1;
    ret;
READER:
    ld.volatile.shared.b32 %r2, [flag];
    setp.ne.u32 %q, %r2, 7;
    @%q trap;
    ret;
}
"""

HANG = HEADER + """
.visible .entry hang() {
    .shared .align 8 .b64 bar;
    .reg .pred %q;
    .reg .b32 %r<2>;
    mov.u32 %r0, bar;
    mbarrier.init.shared::cta.b64 [%r0], 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r0], 0;
    @!%q bra WAIT;
    ret;
}
"""

NUMPY = {"|u1": "B", "<u2": "H", "<i4": "i", "<u4": "I", "<f4": "f", "<f8": "d"}


def write_npy(path, shape, descr, values):
    text = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
                   + array.array(NUMPY[descr], values).tobytes())


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length], {"__builtins__": {}}, {})  # a dict literal of our own making
    return list(header["shape"]), header["descr"], list(array.array(NUMPY[header["descr"]], data[10 + length:]))


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ptxemu_command_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)

    def run_ptx(self, text, *arguments, args=None, block=32, grid=1, code=0):
        command = [PTXEMU, "run", self.put("kernel.ptx", text), "--grid", grid, "--block", block, *arguments]
        if args is not None:
            command += ["--args", self.put("args.json", args)]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def read_json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)


class Arguments(Command):
    def saxpy(self, **changes):
        write_npy(self.path("x.npy"), [64], "<f4", range(64))
        entries = {"x": {"buffer": "x.npy"},
                   "y": {"buffer": {"shape": [8, 8], "dtype": "f32", "fill": 1}, "out": "y.npy"},
                   "a": {"scalar": 0.5, "type": "f32"}, "n": {"scalar": 40, "type": "u32"},
                   "tail": {"bytes": "0000 8040"}}
        entries.update(changes)
        return list(entries.values())

    def test_a_warning_is_told_once_and_listed_for_each_seed(self):
        text = SAXPY.replace("fma.rn.f32 %f3, %f0, %f1, %f2;", "add.f32 %f3, %f1, %f2;")
        output = self.run_ptx(text, "--check", "--seeds", 4, "--json", self.path("r.json"), args=self.saxpy(), block=64)
        self.assertEqual(output.count("warning [f32-contractible]"), 1, output)
        self.assertIn("clean, 0 errors, 1 warning, 4 seeds", output)
        self.assertEqual([f["seed"] for f in self.read_json("r.json")["findings"]], [0, 1, 2, 3])

    def test_buffers_scalars_and_bytes(self):
        self.run_ptx(SAXPY, "--kernel", "saxpy", args=self.saxpy(), grid="2,1,1")
        # By hand: 1 + i / 2 below 40; the bytes 00 00 80 40 are 4.0; the rest keeps its fill.
        expected = [1 + i / 2 for i in range(40)] + [4.0] + [1.0] * 23
        self.assertEqual(read_npy(self.path("y.npy")), ([8, 8], "<f4", expected))

    def test_fills(self):
        for dtype, fill, descr, values in (("s32", -3, "<i4", [-3] * 4), ("u8", "iota", "|u1", [0, 1, 2, 3]),
                                           ("bf16", 1.0, "<u2", [0x3f80] * 4), ("e4m3", 448, "|u1", [0x7e] * 4),
                                           ("f32", "0x7fc00001", "<u4", [0x7fc00001] * 4), ("f64", "-inf", "<f8",
                                                                                            [float("-inf")] * 4)):
            kernel = HEADER + ".visible .entry nothing(.param .u64 x) { ret; }\n"
            self.run_ptx(kernel, args=[{"buffer": {"shape": [4], "dtype": dtype, "fill": fill}, "out": "o.npy"}])
            shape, got, found = read_npy(self.path("o.npy"))
            if dtype == "f32":   # its NaN's bits
                got, found = "<u4", list(array.array("I", array.array("f", found).tobytes()))
            self.assertEqual((shape, got, found), ([4], descr, values), dtype)

    def test_random_fill_depends_on_its_seed_only(self):
        kernel = HEADER + ".visible .entry nothing(.param .u64 x) { ret; }\n"
        drawn = []
        for seed in (1, 1, 2):
            self.run_ptx(kernel, args=[{"buffer": {"shape": [100], "dtype": "f32", "fill": "random", "seed": seed},
                                        "out": "o.npy"}])
            drawn.append(read_npy(self.path("o.npy"))[2])
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])
        self.assertTrue(all(-1 <= v < 1 for v in drawn[0]) and min(drawn[0]) < -0.5 and max(drawn[0]) > 0.5)

    def test_tensor_map_and_out(self):
        write_npy(self.path("in.npy"), [16, 64], "|u1", [i * 7 % 251 for i in range(16 * 64)])
        tensor_map = {"globalAddress": "data", "tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_UINT8",
                      "globalDim": [64, 16], "globalStrides": [64], "boxDim": [32, 8], "swizzle": "NONE"}
        self.run_ptx(COPY, "--check", args=[
            {"buffer": "in.npy", "name": "data", "param": False}, {"tensormap": tensor_map},
            {"buffer": {"shape": [8, 32], "dtype": "u8"}, "out": "out.npy"}])
        expected = [(row * 64 + column) * 7 % 251 for row in range(2, 10) for column in range(32)]
        self.assertEqual(read_npy(self.path("out.npy")), ([8, 32], "|u1", expected))

    def test_struct_and_address(self):
        kernel = HEADER + """
.visible .entry store(.param .align 8 .b8 p[24]) {
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [p];
    ld.param.u64 %d1, [p+8];
    ld.param.u64 %d2, [p+16];
    st.global.u64 [%d0], %d2;
    st.global.u64 [%d1], %d2;
    ret;
}
"""
        self.run_ptx(kernel, block=1, args=[{"struct": [
            {"buffer": {"shape": [4], "dtype": "u32", "fill": 0}, "name": "b", "out": "b.npy"},
            {"address": "b", "offset": 8}, {"scalar": 5, "type": "u8"}, {"scalar": 1, "type": "u16", "at": 20}]}])
        self.assertEqual(read_npy(self.path("b.npy"))[2], [5, 1, 5, 1])

    def test_refusals_name_field_value_and_limit(self):
        for changes, message in (
                ({"n": {"scalar": 2**32, "type": "u32"}}, "entry 3: scalar: 4294967296, expected a whole number from 0 "
                                                          "to 4294967295 (u32)"),
                ({"n": {"scalar": -1, "type": "u32"}}, "scalar: -1, expected"),
                ({"n": {"scalar": 1, "type": "u33"}}, 'entry 3: type: "u33", expected one of u8,'),
                ({"n": {"scalar": 1, "type": 999 * "é"}}, 'entry 3: type: "' + 37 * "é" + '...", expected one of u8,'),
                ({"n": {"scalar": 1, "type": "u32", 999 * "é": 1}}, "unknown field '" + 38 * "é" + "...', expected"),
                ({"n": {"scalar": 1, "type": "u64"}}, "entry 3: 8 bytes, parameter 3 (n) has 4"),
                ({"n": {"scalar": 1, "type": "u8"}}, "entry 3: 1 byte, parameter 3 (n) has 4"),
                ({"n": {"scaler": 1, "type": "u32"}}, "struct; there is scaler, type"),
                ({"n": {}}, "entry 3: expected exactly one of buffer, address, scalar, bytes, tensormap, struct; "
                            "there is none"),
                ({"x": {"buffer": {"shape": [4], "dtype": "f32", "fill": "rand"}}},
                 'buffer: fill: "rand", expected a number as a scalar has it, "iota" or "random"'),
                ({"n": {"scalar": 1, "type": "u32", "kind": 1}}, "unknown field 'kind', expected scalar, type"),
                ({"tail": {"bytes": "123"}}, 'bytes: "123", expected pairs'),
                ({"x": {"buffer": "nowhere.npy"}}, "nowhere.npy: cannot open it"),
                ({"x": {"address": "z"}}, 'address: "z" names no buffer; there are: 1'),
                ({"x": {"address": "1", "offset": 257}}, "offset: 257, expected a whole number from 0 to 256"),
                ({"x": {"buffer": {"shape": [0], "dtype": "f32"}}}, "shape: (0,) has no elements"),
                ({"x": {"buffer": {"shape": [2**20, 2**20], "dtype": "f32"}}}, "more than 180 GiB"),
                ({"x": {"buffer": {"shape": [4], "dtype": "e4m3", "fill": "0x100"}}}, "more than the 8 bits of e4m3"),
                ({"x": {"struct": [{"scalar": 1, "type": "u32", "at": 2}, {"scalar": 1, "type": "u8", "at": 4}]}},
                 "at: 4 lies inside the members before it, which end at 6"),
                ({"x": {"tensormap": {"globalAddress": "1", "tensorDataType": "UINT8", "globalDim": [64],
                                      "boxDim": [300]}}}, "cuTensorMapEncodeTiled refuses it: "),
                ({"more": {"scalar": 1, "type": "u32"}}, "entry 5: kernel saxpy has only 5 parameters")):
            self.assertIn(message, self.run_ptx(SAXPY, args=self.saxpy(**changes), code=2))
        self.assertIn("4 parameters, kernel saxpy has 5", self.run_ptx(SAXPY, args=self.saxpy()[:4], code=2))
        self.assertIn("--args: kernel saxpy has 5 parameters", self.run_ptx(SAXPY, code=2))
        self.assertIn("not valid JSON", self.run_ptx(SAXPY, args="[1,", code=2))


class Outcomes(Command):
    def test_usage(self):
        self.assertIn("--grid: Value '1,0' is not X, X,Y or X,Y,Z", self.run_ptx(HANG, grid="1,0", code=2))
        self.assertIn("--grid: Value '" + 38 * "é" + "...' is not X,", self.run_ptx(HANG, grid=99 * "é", code=2))
        self.assertIn(".target sm_120 does not run on any of compute capability 80, 90, 100, 103",
                      self.run_ptx(HANG.replace("sm_90a", "sm_120"), code=2))
        self.assertIn("has no kernel 'other', it has: hang", self.run_ptx(HANG, "--kernel", "other", code=2))
        self.assertIn(":4: ", self.run_ptx(HEADER + "nonsense\n", code=2))
        self.assertIn("kernel.ptx:6: ", self.run_ptx(HEADER + ".visible .entry k() {\n.reg .b32 %r;\n"
                                                     "frob.b32 %r, 1;\n}\n", code=2))
        self.assertIn("'4294967296' is not X, X,Y or X,Y,Z with numbers from 1 to 4294967295",
                      self.run_ptx(HANG, grid=2**32, code=2))
        self.assertIn("block 1025,1,1 exceeds 1024,1024,64 or 1024 threads", self.run_ptx(HANG, block=1025, code=2))
        self.assertIn("grid 3,1,1 is not a multiple of the cluster 2,1,1",
                      self.run_ptx(HANG, "--cluster", 2, grid=3, code=2))
        self.assertIn("ptxemu run: --cc: Value '70' is none of 80, 90, 100, 103\nRun ptxemu run --help for more",
                      self.run_ptx(HANG, "--cc", 70, code=2))
        for bounds, words, message in (
                (".reqntid 64", (), "block 32,1,1 differs from the kernel's .reqntid 64,1,1"),
                (".maxntid 16", (), "block 32,1,1 has 32 threads, .maxntid allows 16"),
                (".reqnctapercluster 2", ("--cluster", 4),
                 "cluster 4,1,1 differs from the kernel's .reqnctapercluster 2,1,1"),
                (".maxclusterrank 2", ("--cluster", 4), "cluster 4,1,1 has 4 CTAs, .maxclusterrank allows 2")):
            text = HEADER + f".visible .entry k() {bounds} {{ ret; }}\n"
            self.assertIn(message, self.run_ptx(text, *words, grid=4, code=2))
        self.assertIn(".target sm_90a does not run on compute capability 100", self.run_ptx(HANG, "--cc", 100, code=2))

    def test_outputs_over_each_other_or_an_input(self):
        nothing = HEADER + ".visible .entry nothing(.param .u64 x) { ret; }\n"
        kernel, arguments, json_file = (self.path(name) for name in ("kernel.ptx", "args.json", "r.json"))
        write_npy(self.path("x.npy"), [4], "<f4", range(4))
        for out, words, message in (
                ("kernel.ptx", (), f"out of buffer x: {kernel} is an input"),
                ("args.json", (), f"out of buffer x: {arguments} is an input"),
                ("x.npy", (), f"out of buffer x: {self.path('x.npy')} is an input"),
                ("r.json", ("--json", json_file), f"out of buffer x: {json_file} is also written for --json"),
                ("o.npy", ("--json", json_file, "--stats", json_file), "--stats: "),
                ("o.npy", ("--trace", kernel), f"--trace: {kernel} is an input"),
                ("", (), 'entry 0: out: "", expected a file name'),
                ("o.npy\0p", (), 'entry 0: out: "o.npy\\u0000p", expected a file name')):
            entries = [{"buffer": "x.npy", "name": "x", "out": out}]
            self.assertIn(message, self.run_ptx(nothing, *words, args=entries, code=2))
            self.assertEqual(read_npy(self.path("x.npy"))[2], [0, 1, 2, 3])
            self.assertFalse(os.path.exists(json_file))
        for name in ("", "x.npy\0"):
            message = f"entry 0: buffer: {json.dumps(name)}, expected a file name"
            self.assertIn(message, self.run_ptx(nothing, args=[{"buffer": name}], code=2))

    def test_deadlock(self):
        text = self.run_ptx(HANG, "--json", self.path("r.json"), block=1, code=4)
        self.assertIn("pending arrivals 1 of 1", text)
        result = self.read_json("r.json")
        self.assertEqual((result["status"], result["exit_code"]), ("deadlock", 4))
        finding = result["findings"][-1]
        self.assertEqual((finding["code"], finding["role"], finding["space"]), ("deadlock", "warp 0", "shared"))
        self.assertIn("mbarrier " + finding["address"], finding["would_order"])

    def test_fault(self):
        kernel = HEADER + """
.visible .entry past(.param .u64 x) {
    .reg .b64 %d;
    .reg .b32 %r;
    ld.param.u64 %d, [x];
    ld.global.b32 %r, [%d+16];
    ret;
}
"""
        self.run_ptx(kernel, "--json", self.path("r.json"), code=3,
                     args=[{"buffer": {"shape": [4], "dtype": "u32", "fill": 0}}])
        finding = self.read_json("r.json")["findings"][-1]
        self.assertEqual((finding["code"], finding["severity"], finding["ptx_line"], finding["role"].split(",")[0]),
                         ("illegal-address", "error", 9, "warp 0"))
        for field in ("source", "address", "other", "would_order"):
            self.assertIn(field, finding)
        self.assertEqual((finding["space"], finding["bytes"], finding["place"]),
                         ("global", 4, "byte 16 of the 16 bytes of buffer 0, behind their end"))
        self.assertIn(finding["address"], finding["message"])
        table = HEADER + (".global .align 8 .b8 table[8];\n"
                          ".visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [table+8]; }")
        self.assertIn("byte 8 of the 8 bytes of variable table, behind their end", self.run_ptx(table, code=3))

    def test_forgotten_dynamic_shared_memory(self):
        kernel = HEADER + """
.shared .align 4 .b8 fixed[64];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k() {
    .reg .b32 %r<2>;
    mov.u32 %r0, %tid.x;
    mad.lo.u32 %r1, %r0, 4, dynamic;
    st.shared.b32 [fixed], %r0;
    st.shared.b32 [%r1], %r0;
    ret;
}
"""
        hint = "kernel.ptx declares dynamic shared memory (dynamic); --smem says how much, here 0 bytes"
        text = self.run_ptx(kernel, code=3)
        self.assertIn("0x400..0x440 (64 bytes static, 0 dynamic): byte 0 of dynamic shared memory", text)
        self.assertIn(hint, text)
        text = self.run_ptx(kernel, "--smem", 64, code=3)
        self.assertIn("(64 bytes static, 64 dynamic): byte 64 of dynamic shared memory", text)
        self.assertNotIn(hint, text)
        self.assertIn("clean, 0 errors, 0 warnings, 1 seed, ", self.run_ptx(kernel, "--smem", 128))
        done = subprocess.run([PTXEMU, "info", self.path("kernel.ptx")], capture_output=True, text=True)
        self.assertIn("\ndynamic shared memory: dynamic\n", done.stdout)

    def test_seeds_find_what_order_hides_and_replay(self):
        text = self.run_ptx(UNORDERED, "--seeds", 50, "--json", self.path("r.json"), block=64, code=3)
        result = self.read_json("r.json")
        seed = result["failing_seed"]
        self.assertGreater(seed, 0)    # in order, the writer comes first
        self.assertIn(f"--seed {seed}", text)
        self.assertIn(f"the {seed} before it do not", text)
        self.assertEqual(result["findings"][-1]["code"], "trap")
        for _ in range(2):
            self.run_ptx(UNORDERED, "--seed", seed, block=64, code=3)
        self.run_ptx(UNORDERED, "--seeds", seed, block=64)

    def test_outputs_that_differ_between_seeds_are_named(self):
        kernel = HEADER + """
.visible .entry last(.param .u64 x) {
    .reg .b64 %d;
    .reg .b32 %r;
    ld.param.u64 %d, [x];
    mov.u32 %r, %tid.x;
    st.global.b32 [%d], %r;
    ret;
}
"""
        text = self.run_ptx(kernel, "--seeds", 20, "--json", self.path("r.json"), block=64,
                            args=[{"buffer": {"shape": [1], "dtype": "u32", "fill": 0}, "name": "x", "out": "x.npy"}])
        self.assertIn("buffer x: seed", text)
        self.assertTrue(self.read_json("r.json")["outputs_differ"])

    def test_stats(self):
        self.run_ptx(UNORDERED, "--stats", self.path("s.json"), block=64)
        stats = self.read_json("s.json")
        self.assertEqual((stats["launches"], stats["ctas"], stats["warp_counts"]["st.shared"]), (1, 1, 1))

    def test_stats_by_warp_bytes_and_bank_conflicts(self):
        # By hand: a stride of 8 bytes puts two of the 32 words into each of 16 banks, 128 bytes put all into one;
        # 16-byte accesses of neighbours take a quarter warp a pass.
        kernel = HEADER + """
.visible .entry strides() {
    .shared .align 16 .b8 tile[4096];
    .reg .b32 %r<10>;
    mov.u32 %r0, %tid.x;
    and.b32 %r0, %r0, 31;
    mov.u32 %r1, tile;
    mov.b32 %r2, 0;
    mad.lo.u32 %r3, %r0, 8, %r1;
    st.shared.b32 [%r3], %r2;
    mad.lo.u32 %r4, %r0, 128, %r1;
    st.shared.b32 [%r4], %r2;
    mad.lo.u32 %r5, %r0, 16, %r1;
    st.shared.v4.b32 [%r5], {%r2, %r2, %r2, %r2};
    ld.shared.b32 %r6, [%r1];
    ret;
}
"""
        self.run_ptx(kernel, "--stats", self.path("s.json"), block=32)
        stats = self.read_json("s.json")
        line = kernel[:kernel.index("st.shared.b32 [%r3]")].count("\n") + 1
        self.assertEqual(stats["shared_memory_passes"], {
            "taken": 2 + 32 + 4 + 1, "without_conflicts": 1 + 1 + 4 + 1,
            "by_line": {f"strides:{line}": {"taken": 2, "without_conflicts": 1},
                        f"strides:{line + 2}": {"taken": 32, "without_conflicts": 1}}})
        self.assertEqual(stats["bytes"], {"shared_written": 32 * (4 + 4 + 16), "shared_read": 128})
        self.run_ptx(UNORDERED, "--stats", self.path("s.json"), block=64)
        roles = self.read_json("s.json")["role_counts"]
        self.assertEqual((roles["warp 0"].get("st.shared"), roles["warp 1"].get("st.shared")), (1, None))
        self.assertEqual((roles["warp 0"].get("ld.shared"), roles["warp 1"].get("ld.shared")), (None, 1))

    def test_trace(self):
        write_npy(self.path("in.npy"), [16, 64], "|u1", [0] * 1024)
        self.run_ptx(COPY, "--trace", self.path("t.json"), block=64, grid=2, args=[
            {"buffer": "in.npy", "name": "data", "param": False},
            {"tensormap": {"globalAddress": "data", "tensorDataType": "UINT8", "globalDim": [64, 16],
                           "globalStrides": [64], "boxDim": [32, 8]}},
            {"buffer": {"shape": [512], "dtype": "u8"}}])
        trace = self.read_json("t.json")
        slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertIn("nominal", trace["otherData"]["clock"])
        self.assertEqual(trace["otherData"]["slices"], len(slices))
        copies = [event for event in slices if event["cat"] == "tma"]
        line = COPY[:COPY.index("cp.async.bulk.tensor")].count("\n") + 1
        self.assertEqual([(event["name"], event["args"]["bytes"], event["args"]["ptx_line"]) for event in copies],
                         [("TMA 256 B", 256, line)] * 2)
        for copy in copies:
            # 256 bytes at 64 a clock; whoever waits for them goes on 600 clocks behind (nominal_clocks.h).
            self.assertAlmostEqual(copy["dur"] * 1000, 4)
            waits = [event for event in slices
                     if event["pid"] == copy["pid"] and event["name"].startswith("wait: mbarrier")]
            self.assertEqual({event["tid"] for event in waits}, {0, 1})
            for wait in waits:
                self.assertAlmostEqual((wait["ts"] + wait["dur"]) * 1000, copy["ts"] * 1000 + 604)
        for pid in {event["pid"] for event in slices}:
            for tid in {event["tid"] for event in slices if event["pid"] == pid}:
                mine = sorted((event["ts"], event["ts"] + event["dur"]) for event in slices
                              if (event["pid"], event["tid"]) == (pid, tid))
                self.assertTrue(all(end <= begin + 1e-9 for (_, end), (begin, _) in zip(mine, mine[1:])), (pid, tid))
        picture = subprocess.run([sys.executable, PICTURE, self.path("t.json"), self.path("t.svg")],
                                 capture_output=True, text=True)
        self.assertEqual(picture.returncode, 0, picture.stderr)
        with open(self.path("t.svg"), encoding="utf-8") as file:
            self.assertIn("TMA 256 B: ", file.read())

    def test_trace_that_cannot_be_written(self):
        self.assertIn("--trace: no such directory: ",
                      self.run_ptx(UNORDERED, "--trace", self.path("no/t.json"), code=2))
        self.assertIn("No space left", self.run_ptx(UNORDERED, "--trace", "/dev/full", code=2))

    def test_what_is_released_on_one_host_thread_is_acquired_on_another(self):
        # A check that looked before or behind the atomic itself would find a race now and then.
        pairs = 4096
        entries = [{"buffer": {"shape": [2 * pairs], "dtype": "u32", "fill": 0}},
                   {"buffer": {"shape": [pairs], "dtype": "u32", "fill": 0}},
                   {"buffer": {"shape": [pairs], "dtype": "u32", "fill": 0}}]
        said = self.run_ptx(PAIRS, "--check", "--threads", 4, "--seeds", 4, args=entries, block=1, grid=2 * pairs)
        self.assertNotIn("race-global", said)

    def test_info(self):
        done = subprocess.run([PTXEMU, "info", self.put("kernel.ptx", SAXPY)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("target sm_90a", done.stdout)
        self.assertRegex(done.stdout, r"2\s+offset\s+16\s+4 bytes\s+align 4\s+\.f32\s+a\n")

    def test_names_of_cpp(self):
        one, other, scaled = "_Z5twicefPf", "_Z5twiceiPf", "_ZN4math5scaleILi4EEEvPf"
        text = HEADER + "".join(f".visible .entry {symbol}() {{\nret;\n}}\n" for symbol in (one, scaled))
        for name in (one, "twice", "math::scale<4>"):
            self.assertIn("clean", self.run_ptx(text, "--kernel", name))
        for name in ("scale", "twice(float, float*)", "void", ""):
            self.assertIn(one, self.run_ptx(text, "--kernel", name, code=2))
        text += f".visible .entry {other}() {{\nret;\n}}\n"
        self.assertIn("has several 'twice': ", self.run_ptx(text, "--kernel", "twice", code=2))
        self.assertIn("clean", self.run_ptx(text, "--kernel", other))
        done = subprocess.run([PTXEMU, "info", self.put("kernel.ptx", text)], capture_output=True, text=True)
        self.assertIn(f"{one}\n  twice(float, float*)\n", done.stdout)
        self.assertIn(f"{scaled}\n  void math::scale<4>(float*)\n", done.stdout)

    def test_help_teaches(self):
        done = subprocess.run([PTXEMU, "run", "--help"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        for word in ("args.json", "tensormap", "--seeds", "--check", "--trace", "--stats"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
