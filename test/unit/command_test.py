#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command from end to end: gen, score, verify, topk, index, info, heatmap, and every kind of bad input with its
exit code.

Files are read and written here with a reader of this test's own. LIDX_TEST_DRIVER: emu (default) or cuda.
usage: command_test.py LIDX [unittest arguments]
"""
import array
import hashlib
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

LIDX = os.path.abspath(sys.argv.pop(1))
DEVICE = os.environ.get("LIDX_TEST_DRIVER", "emu")
TYPES = {"|u1": "B", "<i4": "i", "<f4": "f"}


def run(*arguments, env=None, cwd=None):
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PTXEMU_CC", "PTXEMU_SMS", "PTXEMU_STATS", "PTXEMU_PTX",
                                   "PTXEMU_TRACE", "PTXEMU_DETAIL")}
    environment.update(env or {})
    return subprocess.run([LIDX, *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          env=environment, cwd=cwd, timeout=600)


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", path
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length], {"__builtins__": {}}, {})  # a dict literal of our own making
    values = array.array(TYPES[header["descr"]], data[10 + length:])
    return list(header["shape"]), values


def write_npy(path, shape, values, descr=None, fortran=False, header=None):
    descr = descr or {v: k for k, v in TYPES.items()}[values.typecode]
    text = header or repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)})
    text += "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + values.tobytes())


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lidx_command_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def ok(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refused(self, code, message, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(message, done.stderr)
        return done.stderr

    def gen(self, name, *arguments):
        self.ok("gen", "--out", self.path(name), *arguments)
        return self.path(name)

    def score(self, case, out="scores.npy", *arguments, **options):
        self.ok("score", "--in", case, "--out", self.path(out), "--device", DEVICE, *arguments, **options)
        return self.path(out)


    def seen_by(self, case):
        """[(first key, one past the last)] of each row, from the case's files as docs/abi.md has it."""
        with open(os.path.join(case, "case.json"), encoding="utf-8") as file:
            description = json.load(file)
        _, lens = read_npy(os.path.join(case, "context_lens.npy"))
        _, cu = read_npy(os.path.join(case, "cu_seqlens_q.npy"))
        sees, ratio, seen = description["visibility"], description["compress_ratio"], []
        arrays = {"row-lengths": ["row_lengths.npy"], "window": ["row_begin.npy", "row_end.npy"]}.get(sees, [])
        own = [read_npy(os.path.join(case, name))[1] for name in arrays]
        for request, (first, last) in enumerate(zip(cu, cu[1:])):
            for row in range(first, last):
                begin, tokens = 0, lens[request]
                if sees == "causal":
                    tokens -= last - 1 - row
                elif own:
                    begin, tokens = own[0][row] if len(own) > 1 else 0, own[-1][row]
                end = max(tokens, 0) // ratio
                seen.append((begin, end) if begin < end else (0, 0))
        return seen


class Gen(Command):
    def test_files_have_the_documented_shapes(self):
        case = self.gen("a", "--batch", 3, "--tokens", 2, "--heads", 8, "--keys", 70, "--page", 16)
        with open(self.path("a", "case.json"), encoding="utf-8") as file:
            description = json.load(file)
        self.assertEqual(description["layout"], "block-split")
        self.assertEqual(description["page_size"], 16)
        pages = description["num_pages"]
        self.assertGreaterEqual(pages, 3 * 5)
        shapes = {name: read_npy(os.path.join(case, name))[0] for name in os.listdir(case) if name.endswith(".npy")}
        self.assertEqual(shapes, {"q.npy": [6, 8, 128], "q_scale.npy": [6, 8], "cu_seqlens_q.npy": [4],
                                  "context_lens.npy": [3], "block_table.npy": [3, 6],
                                  "k_cache.npy": [pages, 16, 1, 132]})
        split = self.gen("b", "--layout", "split-pool", "--keys", 70, "--page", 16)
        pages = read_npy(os.path.join(split, "k_pages.npy"))[0][0]
        self.assertEqual(read_npy(os.path.join(split, "k_pages.npy"))[0], [pages, 16, 128])
        self.assertEqual(read_npy(os.path.join(split, "k_scales.npy"))[0], [pages, 16])
        flat = self.gen("c", "--layout", "contiguous", "--batch", 2, "--keys", 70)
        self.assertEqual(read_npy(os.path.join(flat, "k.npy"))[0], [2, 70, 128])
        self.assertEqual(read_npy(os.path.join(flat, "k_scale.npy"))[0], [2, 70])
        self.assertFalse(os.path.exists(os.path.join(flat, "block_table.npy")))

    def test_pages_are_shuffled_and_unused_entries_poisoned(self):
        case = self.gen("a", "--batch", 6, "--tokens", 3, "--keys", 500, "--page", 16, "--ragged", "--seed", 3)
        _, lens = read_npy(os.path.join(case, "context_lens.npy"))
        _, cu = read_npy(os.path.join(case, "cu_seqlens_q.npy"))
        shape, table = read_npy(os.path.join(case, "block_table.npy"))
        cache_shape, cache = read_npy(os.path.join(case, "k_cache.npy"))
        self.assertTrue(all(0 <= n <= 500 for n in lens) and len(set(lens)) > 2, lens)
        self.assertTrue(all(0 <= b - a <= 3 for a, b in zip(cu, cu[1:])), cu)
        used, poison = [], []
        for request, length in enumerate(lens):
            row = table[request * shape[1]:(request + 1) * shape[1]]
            pages = -(-length // 16)
            used += row[:pages]
            poison += row[pages:]
        self.assertEqual(len(set(used)), len(used))
        self.assertTrue(all(0 <= p < cache_shape[0] for p in used))
        self.assertNotEqual(used, sorted(used))
        self.assertIn(-1, poison)
        self.assertIn(2**31 - 1, poison)
        # A slot past the length holds NaN, and so does a page that nobody uses.
        for request, length in enumerate(lens):
            if length % 16:
                page = table[request * shape[1] + length // 16]
                base = page * 16 * 132
                self.assertEqual(set(cache[base + (length % 16) * 128:base + 16 * 128]), {0x7f})
                scale = struct.unpack("<f", bytes(cache[base + 16 * 128 + 60:base + 16 * 128 + 64]))[0]
                self.assertTrue(math.isnan(scale) or length % 16 == 0)
        free = next(p for p in range(cache_shape[0]) if p not in used)
        self.assertEqual(set(cache[free * 16 * 132:free * 16 * 132 + 16 * 128]), {0x7f})

    def test_same_seed_same_bytes_and_layouts_hold_the_same_keys(self):
        a, b = self.gen("a", "--keys", 300), self.gen("b", "--keys", 300)
        for name in os.listdir(a):
            with open(os.path.join(a, name), "rb") as x, open(os.path.join(b, name), "rb") as y:
                self.assertEqual(x.read(), y.read(), name)
        c = self.gen("c", "--keys", 300, "--seed", 2)
        self.assertNotEqual(read_npy(os.path.join(a, "q.npy")), read_npy(os.path.join(c, "q.npy")))
        flat = self.gen("flat", "--keys", 300, "--layout", "contiguous")
        self.assertEqual(read_npy(os.path.join(a, "q.npy")), read_npy(os.path.join(flat, "q.npy")))
        _, keys = read_npy(os.path.join(flat, "k.npy"))
        _, table = read_npy(os.path.join(a, "block_table.npy"))
        _, cache = read_npy(os.path.join(a, "k_cache.npy"))
        for key in (0, 63, 64, 299):
            at = table[key // 64] * 64 * 132 + key % 64 * 128
            self.assertEqual(cache[at:at + 128], keys[key * 128:key * 128 + 128])

    def test_bytes_are_the_same_on_every_machine(self):
        # Recorded once; the generator uses 64-bit integers and correctly rounded IEEE operations only.
        for arguments, digest in (([], GOLDEN_REAL), (["--lattice"], GOLDEN_LATTICE)):
            case = self.gen("g" + "".join(arguments), "--tokens", 2, "--heads", 4, "--keys", 100, "--page", 32,
                            *arguments)
            digests = hashlib.sha256()
            for name in ("q.npy", "q_scale.npy", "k_cache.npy", "block_table.npy"):
                with open(os.path.join(case, name), "rb") as file:
                    digests.update(file.read())
            self.assertEqual(digests.hexdigest()[:16], digest, arguments)

    def test_weights_have_both_signs(self):
        for arguments in ([], ["--lattice"]):
            _, weights = read_npy(os.path.join(self.gen("w" + "".join(arguments), *arguments), "q_scale.npy"))
            self.assertTrue(min(weights) < 0 < max(weights))

    def test_arguments_out_of_range(self):
        for arguments in (["--heads", 0], ["--heads", 129], ["--page", 0], ["--layout", "striped"], ["--batch", "x"],
                          ["--keys", -1], ["--tokens", 99999999999], ["--nonsense"]):
            self.refused(2, arguments[0], "gen", "--out", self.path("a"), *arguments)
            self.assertFalse(os.path.exists(self.path("a")))
        # No number may be taken for another: octal, a sign or a size that wraps around, an empty text.
        for arguments in (["--seed", -1], ["--seed", 2**64], ["--seed", ""], ["--seed", "1.5"], ["--keys", "0x10"],
                          ["--heads", ""], ["--heads", "1e1"], ["--heads", "nan"], ["--page", " 8"], ["--page", "+8"]):
            self.refused(2, arguments[0], "gen", "--out", self.path("a"), *arguments)
            self.assertFalse(os.path.exists(self.path("a")))
        self.refused(2, "bytes of memory", "gen", "--out", self.path("a"), "--batch", 2000, "--tokens", 1000000,
                     "--heads", 128)
        self.assertFalse(os.path.exists(self.path("a")))
        self.assertIn(" 10 keys", self.ok("gen", "--out", self.path("b"), "--keys", "010", "--seed", 2**64 - 1))
        self.refused(2, "lidx gen: --out is required\nRun lidx gen --help for more information.", "gen")
        self.refused(2, "lidx gen: The following argument was not expected: --outt\n", "gen", "--outt", self.path("a"))
        self.refused(2, "lidx gen: The following argument was not expected: --kyes\n", "gen", "--out", self.path("a"),
                     "--kyes", 3)
        self.refused(2, "lidx gen: --batch: one value is expected, not 2\n", "gen", "--out", self.path("a"),
                     "--batch", 1, "--batch", 2)
        self.refused(2, "lidx gen: --batch: a value is missing, INT:1 to 65536", "gen", "--out", self.path("a"),
                     "--batch")
        self.refused(2, "there is no subcommand 'paint'; the subcommands are gen, score", "paint")
        self.refused(2, "lidx: there is no option '--quiet'; the subcommands are gen, score", "--quiet")
        self.refused(2, "a subcommand is required; the subcommands are gen, score")
        self.refused(2, "9126666241 pages of --page 64 keys, expected at most 2147483647", "gen",
                     "--out", self.path("a"), "--batch", 65536, "--keys", 8388480)
        self.refused(2, "--batch, --tokens: 2148000000 rows in 2148 requests, expected at most 2147483647 in all",
                     "gen", "--out", self.path("a"), "--batch", 65536, "--tokens", 1000000)
        self.refused(2, "--keys, --ratio: a request of 4294", "gen", "--out", self.path("a"), "--keys", 8388480,
                     "--ratio", 512)
        self.refused(2, "--layout: Value '' is none of block-split, split-pool, contiguous", "gen", "--out",
                     self.path("a"), "--layout", "")

    def test_one_is_not_several(self):
        self.assertIn(": 1 request, 1 row, 1 head, 1 key in 2 pages (block-split)",
                      self.ok("gen", "--out", self.path("a"), "--tokens", 1, "--heads", 1, "--keys", 1))
        self.assertIn(": 2 requests, 4 rows, 8 heads, 0 keys in 1 page (block-split)",
                      self.ok("gen", "--out", self.path("b"), "--batch", 2, "--heads", 8, "--keys", 0))
        scores, indices = self.path("s.npy"), self.path("i.npy")
        case = ("--in", self.path("a"))
        self.assertIn(": 1 row x 1 key by ", self.ok("score", *case, "--out", scores, "--device", DEVICE))
        self.assertIn("1 cell, 1 live and 0 dead", self.ok("verify", *case, "--scores", scores))
        self.assertIn(": 1 of up to 1 key for each of 1 row by ",
                      self.ok("index", *case, "--out", indices, "--k", 1, "--device", DEVICE))
        self.assertIn("1 row of 1 index; ", self.ok("verify", *case, "--indices", indices))
        self.assertIn(": 1 of 1 key for each of 1 row on ",
                      self.ok("topk", "--scores", scores, "--out", indices, "--k", 1, "--device", DEVICE))
        self.assertIn(": 1 of up to 1 key for each of 1 row by ",
                      self.ok("index", *case, "--out", indices, "--k", 9, "--device", DEVICE))
        self.assertIn(": 1 of 1 key for each of 1 row on ",
                      self.ok("topk", "--scores", scores, "--out", indices, "--k", 9, "--device", DEVICE))
        self.assertRegex(self.ok("bench", "--list"), r"(?m)^ *decode-1x8k .* 1 request  x    1 token  x +8192 keys")


class EndToEnd(Command):
    def verify(self, case, scores, *arguments):
        return self.ok("verify", "--in", case, "--scores", scores, *arguments)

    def test_lattice_is_exact_in_every_layout(self):
        reference = None
        for layout, page in (("block-split", 64), ("block-split", 16), ("split-pool", 128), ("contiguous", 64),
                             ("block-split", 3), ("split-pool", 1)):
            with self.subTest(layout=layout, page=page):
                case = self.gen(f"{layout}{page}", "--lattice", "--tokens", 3, "--heads", 32, "--keys", 135,
                                "--page", page, "--layout", layout, "--batch", 2)
                scores = self.score(case, f"{layout}{page}.npy")
                self.assertIn("bit-equal", self.verify(case, scores, "--exact"))
                self.verify(case, scores)
                values = read_npy(scores)
                reference = reference or values
                self.assertEqual(values, reference)

    def test_random_values_stay_inside_the_bound(self):
        case = self.gen("a", "--tokens", 2, "--keys", 300)
        scores = self.score(case)
        self.assertIn("within the bound", self.verify(case, scores))
        with open(scores + ".json", encoding="utf-8") as file:
            sidecar = json.load(file)
        if DEVICE == "emu":
            self.assertEqual(sidecar["kernel"], "sm100_score_h64")
            self.assertEqual(sidecar["arithmetic"], "sm_100")
        generic = self.score(case, "generic.npy", "--kernel", "generic_score")
        self.assertIn("fp32 arithmetic", self.verify(case, generic))
        with open(generic + ".json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["kernel"], "generic_score")
        self.refused(2, "generic_scorn", "score", "--in", case, "--out", self.path("x.npy"), "--device", DEVICE,
                     "--kernel", "generic_scorn")
        # The bound of coarser arithmetic is wider.
        self.verify(case, scores, "--arithmetic", "sm_90")

    def test_the_fast_mode_is_asked_for_and_says_so(self):
        if DEVICE != "emu":
            self.skipTest("chosen on compute capability 9.0 only")
        case = self.gen("fast", "--tokens", 12, "--keys", 130, "--heads", 64, "--causal")
        hopper = {"PTXEMU_CC": "90", "PTXEMU_SMS": "4"}
        found = {}
        for flags, env in (((), hopper), (("--fast",), hopper), (("--fast",), {"PTXEMU_CC": "100"})):
            scores = self.score(case, "scores.npy", *flags, env=env)
            self.assertIn("within the bound", self.verify(case, scores))
            with open(scores + ".json", encoding="utf-8") as file:
                sidecar = json.load(file)
            found[flags, env["PTXEMU_CC"]] = (sidecar["kernel"], sidecar["arithmetic"], read_npy(scores)[1])
        self.assertEqual([found[key][:2] for key in found],
                         [("sm90_pair_h64", "sm_90"), ("sm90_fast_h64", "sm_90_fast"), ("sm100_score_h64", "sm_100")])
        self.assertNotEqual(found[(), "90"][2], found[("--fast",), "90"][2])

    def test_ragged_batches_and_dead_cells(self):
        case = self.gen("a", "--ragged", "--batch", 5, "--tokens", 4, "--keys", 200, "--heads", 32, "--page", 32,
                        "--lattice")
        scores = self.score(case)
        self.verify(case, scores, "--exact")
        shape, values = read_npy(scores)
        _, lens = read_npy(os.path.join(case, "context_lens.npy"))
        _, cu = read_npy(os.path.join(case, "cu_seqlens_q.npy"))
        self.assertEqual(shape, [cu[-1], max(lens)])
        for request, length in enumerate(lens):
            for row in range(cu[request], cu[request + 1]):
                cells = values[row * shape[1]:(row + 1) * shape[1]]
                self.assertTrue(all(math.isfinite(x) for x in cells[:length]))
                self.assertTrue(all(x == -math.inf for x in cells[length:]))

    def test_rows_that_see_different_keys(self):
        for name, arguments in (("causal", ["--causal"]), ("window", ["--window", 40]),
                                ("lengths", ["--row-lengths", "--rows", "request-ids"]),
                                ("fixed", ["--causal", "--rows", "fixed", "--ratio", 4]),
                                ("flat", ["--window", 25, "--layout", "contiguous", "--rows", "request-ids"])):
            with self.subTest(name):
                case = self.gen(name, "--ragged", "--batch", 3, "--tokens", 5, "--keys", 150, "--heads", 4,
                                "--lattice", "--page", 16, *arguments)
                scores = self.score(case, name + ".npy")
                self.verify(case, scores, "--exact")
                shape, values = read_npy(scores)
                seen = self.seen_by(case)
                self.assertEqual(shape, [len(seen), max(end for _, end in seen)])
                self.assertGreater(len(set(seen)), 3)
                for row, (begin, end) in enumerate(seen):
                    cells = values[row * shape[1]:(row + 1) * shape[1]]
                    self.assertTrue(all(math.isfinite(x) == (begin <= key < end) for key, x in enumerate(cells)), row)
                # A cell that a row does not see must not hold a score, and the other way round.
                row = next(row for row, (begin, end) in enumerate(seen) if end - begin > 1)
                for key, value in ((seen[row][1] - 1, -math.inf), (seen[row][0] - 1 if seen[row][0] else -1, 0.0)):
                    if key < 0:
                        continue
                    spoiled = array.array("f", values)
                    spoiled[row * shape[1] + key] = value
                    write_npy(self.path("spoiled.npy"), shape, spoiled)
                    done = run("verify", "--in", case, "--scores", self.path("spoiled.npy"), "--exact",
                               "--arithmetic", "fp32")
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    self.assertIn("VERIFICATION FAILED", done.stdout)
                self.ok("heatmap", "--in", case, "--scores", scores, "--out", self.path(name + ".png"))

    def test_a_case_that_does_not_say_who_sees_what(self):
        case = self.gen("old", "--batch", 2, "--keys", 70, "--heads", 4, "--lattice")
        path = os.path.join(case, "case.json")
        with open(path, encoding="utf-8") as file:
            description = json.load(file)
        for field in ("row_map", "visibility", "compress_ratio"):
            del description[field]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(description, file)
        self.verify(case, self.score(case), "--exact")

    def test_a_case_of_what_docs_command_asks_for(self):
        case = self.gen("a", "--tokens", 3, "--keys", 90, "--heads", 32, "--lattice", "--layout", "contiguous")
        with open(os.path.join(case, "case.json"), "w", encoding="utf-8") as file:
            json.dump({"format": "lidx case", "version": 1, "layout": "contiguous", "lattice": False}, file)
        self.assertEqual(sorted(os.listdir(case)), ["case.json", "context_lens.npy", "cu_seqlens_q.npy", "k.npy",
                                                    "k_scale.npy", "q.npy", "q_scale.npy"])
        self.verify(case, self.score(case), "--exact")

    def test_negative_and_oversized_lengths(self):
        case = self.gen("a", "--batch", 3, "--tokens", 1, "--keys", 100, "--heads", 32, "--page", 64)
        # A table of exactly two pages per request: the third length is clamped to 128, and slots 100 .. 127 are NaN.
        shape, table = read_npy(os.path.join(case, "block_table.npy"))
        narrow = array.array("i", [x for i, x in enumerate(table) if i % shape[1] < 2])
        write_npy(os.path.join(case, "block_table.npy"), [3, 2], narrow)
        write_npy(os.path.join(case, "context_lens.npy"), [3], array.array("i", [-5, 100, 2**31 - 1]))
        scores = self.score(case)
        self.verify(case, scores)
        shape, values = read_npy(scores)
        self.assertEqual(shape, [3, 128])
        self.assertTrue(all(x == -math.inf for x in values[:128]))
        self.assertTrue(all(math.isnan(x) for x in values[2 * 128 + 100:]))

    def test_nothing_to_score(self):
        for name, arguments in (("rows", ["--tokens", 0]), ("keys", ["--keys", 0]),
                                ("flat", ["--keys", 0, "--layout", "contiguous"])):
            with self.subTest(name):
                case = self.gen(name, *arguments)
                scores = self.score(case, name + ".npy")
                self.verify(case, scores)

    def test_verification_fails_on_one_wrong_cell(self):
        case = self.gen("a", "--tokens", 1, "--keys", 130, "--heads", 32, "--batch", 2)
        write_npy(os.path.join(case, "context_lens.npy"), [2], array.array("i", [130, 7]))
        scores = self.score(case)
        shape, good = read_npy(scores)
        for cell, value, message in ((77, good[77] * 1.001 + 0.5, "key 77"), (130 + 7, 0.0, "dead cell"),
                                     (5, math.nan, "key 5"), (129, -math.inf, "key 129")):
            values = array.array("f", good)
            values[cell] = value
            write_npy(scores, shape, values)
            done = run("verify", "--in", case, "--scores", scores)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(message, done.stdout)
            self.assertIn("VERIFICATION FAILED", done.stdout)

    def test_exact_sees_a_single_bit(self):
        case = self.gen("a", "--tokens", 1, "--keys", 40, "--heads", 32, "--lattice")
        scores = self.score(case)
        shape, good = read_npy(scores)
        bits = array.array("I", good.tobytes())
        bits[9] ^= 1
        write_npy(scores, shape, array.array("f", bits.tobytes()))
        self.assertEqual(run("verify", "--in", case, "--scores", scores).returncode, 0)
        done = run("verify", "--in", case, "--scores", scores, "--exact")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("key 9", done.stdout)
        other = self.gen("b", "--tokens", 1, "--keys", 40, "--heads", 32)
        self.refused(2, "exact lattice (lidx gen --lattice); q, row 0: ", "verify", "--in", other, "--scores", scores,
                     "--exact")

    def test_exact_sees_the_sign_of_zero(self):
        case = self.gen("a", "--tokens", 1, "--keys", 40, "--heads", 32, "--lattice", "--layout", "contiguous")
        codes = array.array("B", read_npy(os.path.join(case, "k.npy"))[1])
        codes[9 * 128:10 * 128] = array.array("B", [0] * 128)
        write_npy(os.path.join(case, "k.npy"), [1, 40, 128], codes)
        scores = self.score(case)
        self.verify(case, scores, "--exact")
        shape, values = read_npy(scores)
        values[9] = -0.0
        write_npy(scores, shape, values)
        done = run("verify", "--in", case, "--scores", scores, "--exact")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("key 9", done.stdout)

    def test_exact_refuses_what_may_overflow(self):
        # Powers of two, but scores beyond fp32: no bit of such a cell can be demanded, so none may be called equal.
        case = self.gen("a", "--tokens", 1, "--keys", 40, "--heads", 32, "--lattice", "--layout", "contiguous")
        write_npy(os.path.join(case, "k_scale.npy"), [1, 40], array.array("f", [2.0**127] * 40))
        scores = self.score(case)
        self.refused(2, "40 cells may overflow fp32", "verify", "--in", case, "--scores", scores, "--exact")

    def test_heatmap_is_a_png_of_the_scores(self):
        case = self.gen("a", "--ragged", "--batch", 4, "--tokens", 4, "--keys", 200, "--heads", 32, "--seed", 5)
        scores = self.score(case)
        picture = self.path("a.png")
        self.ok("heatmap", "--in", case, "--scores", scores, "--out", picture)
        with open(picture, "rb") as file:
            data = file.read()
        self.assertEqual(data[:16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        width, height = struct.unpack(">II", data[16:24])
        self.assertTrue(200 < width < 2000 and 50 < height < 2000)
        self.assertEqual(data[-8:-4], b"IEND")
        self.refused(2, "No space left", "heatmap", "--in", case, "--scores", scores, "--out", "/dev/full")
        for name in ("q.npy", "case.json"):
            self.refused(2, "is a file of the case", "heatmap", "--in", case, "--scores", scores, "--out",
                         os.path.join(case, name))
        self.refused(2, "is an input", "heatmap", "--in", case, "--scores", scores, "--out", scores)
        self.refused(2, "a.jpg: what is written is a .png file, the name ends in .jpg", "heatmap", "--in", case,
                     "--scores", scores, "--out", self.path("a.jpg"))
        # One large score everywhere: the range of colours must not collapse to nothing.
        shape, values = read_npy(scores)
        write_npy(scores, shape, array.array("f", [3e38] * len(values)))
        self.assertIn("from 3e+38 to 6e+38",
                      self.ok("heatmap", "--in", case, "--scores", scores, "--out", picture))

    @unittest.skipIf(DEVICE != "emu", "only the emulator counts")
    def test_stats_count_the_tensor_instructions(self):
        for tokens, heads, tile in ((5, 64, 2), (4, 32, 4), (3, 32, 3), (1, 64, 2)):
            with self.subTest(tokens=tokens, heads=heads):
                case = self.gen(f"t{tokens}h{heads}", "--tokens", tokens, "--heads", heads, "--keys", 300, "--batch", 2)
                stats = self.path("stats.json")
                self.score(case, "scores.npy", "--stats", stats)
                with open(stats, encoding="utf-8") as file:
                    counts = json.load(file)["warp_counts"]
                mma = sum(n for name, n in counts.items() if name.split(".")[:2] == ["tcgen05", "mma"])
                self.assertEqual(mma, 4 * 2 * 3 * -(-tokens // tile))

    @unittest.skipIf(DEVICE != "emu", "only the emulator traces")
    def test_trace_has_every_mma_and_every_byte(self):
        for capability in (100, 90):   # five tokens: few have a kernel without TMA
            case = self.gen(f"t{capability}", "--tokens", 5, "--keys", 300, "--batch", 2)
            trace, stats = self.path("trace.json"), self.path("stats.json")
            self.score(case, "scores.npy", env={"PTXEMU_CC": str(capability), "PTXEMU_TRACE": trace,
                                                "PTXEMU_STATS": stats, "PTXEMU_DETAIL": "1"})
            with open(trace, encoding="utf-8") as file:
                slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
            with open(stats, encoding="utf-8") as file:
                counts = json.load(file)
            self.assertGreater(counts["mma_operations"], 0)
            self.assertEqual(sum(event["cat"] == "mma" for event in slices), counts["mma_operations"])
            self.assertEqual(sum(event["args"]["bytes"] for event in slices if event["name"].startswith("TMA ")),
                             counts["bytes"]["tma_loaded"])
            per_warp = counts["role_counts"].values()
            self.assertEqual(sum(sum(warp.values()) for warp in per_warp), counts["warp_instructions"])

    @unittest.skipIf(DEVICE != "emu", "only the emulator counts")
    def test_stats_of_nothing_are_zero(self):
        stats = self.path("stats.json")
        self.score(self.gen("rows", "--tokens", 0), "scores.npy", "--stats", stats)
        with open(stats, encoding="utf-8") as file:
            counts = json.load(file)
        self.assertEqual((counts["launches"], counts["warp_counts"]), (0, {}))

    @unittest.skipIf(DEVICE != "emu", "the emulator warns")
    def test_kernels_rely_on_nothing_that_is_merely_let_pass(self):
        for heads, kernel in ((64, "sm100_score_h64"), (32, "sm100_score_h32"), (32, "sm100_score_h32_t3"),
                              (64, "sm100_wide_h64"), (32, "sm100_wide_h32")):
            case = self.gen(kernel, "--tokens", 5, "--heads", heads, "--keys", 200)
            stats = self.path("stats.json")
            self.score(case, "scores.npy", "--stats", stats, "--kernel", kernel,
                       env={"PTXEMU_CHECK": "1", "PTXEMU_DETAIL": "1"})
            with open(stats, encoding="utf-8") as file:
                counts = json.load(file)
            self.assertEqual(counts["warnings"], 0, kernel)
            self.assertEqual(counts["tma_bytes_loaded"], counts["bytes"]["tma_loaded"], kernel)

    @unittest.skipIf(DEVICE != "emu", "the emulator's device can be changed")
    def test_an_older_device_gets_the_generic_kernel(self):
        case = self.gen("a", "--tokens", 1, "--keys", 60, "--heads", 64)
        scores = self.score(case, "old.npy", env={"PTXEMU_CC": "80"})
        with open(scores + ".json", encoding="utf-8") as file:
            sidecar = json.load(file)
        self.assertEqual((sidecar["kernel"], sidecar["device"]["compute_capability"]), ("generic_score", 80))
        self.verify(case, scores)

    def test_info(self):
        text = self.ok("info")
        listed = json.loads(self.ok("info", "--json"))
        symbols = [kernel["symbol"] for kernel in listed["kernels"]]
        for symbol in ("sm100_wide_h64", "sm100_wide_h32", "sm100_score_h64", "sm100_score_h32", "sm100_score_h32_t3",
                       "sm100_score_h4_t16",
                       "sm90_score_h64", "sm90_score_h32", "sm90_score_h64_plain", "sm90_decode_h64", "sm90_decode_h32",
                       "sm90_pair_h64", "sm90_pair_h32",
                       "generic_score"):
            self.assertIn(symbol, symbols)
            self.assertIn(symbol, text)
        shared = {kernel["symbol"]: (kernel["shared_bytes"], kernel["shared_bytes_decode"])
                  for kernel in listed["kernels"]}
        self.assertEqual(shared["sm100_score_h64"], (51200, 34816))
        # 16 heads of 128 codes and their weights, fp32; static shared memory counts, too.
        self.assertEqual(shared["generic_score"], (16 * 128 * 4 + 16 * 4,) * 2)
        self.assertEqual([kernel["symbol"] for kernel in listed["cache_kernels"]],
                         ["cache_store", "cache_store_pages", "cache_gather", "cache_query"])
        self.assertEqual([kernel["symbol"] for kernel in listed["topk_kernels"]],
                         [f"topk{kind}_{score}" for kind in ("", "_sm80", "_held", "_cluster", "_wide", "_spread")
                          for score in ("fp32", "bf16")] + ["topk_merge"])
        for kernel in listed["topk_kernels"]:
            self.assertIn(kernel["symbol"], text)
        for kernel in listed["cache_kernels"]:
            self.assertEqual(list(kernel["registers"]), ["sm_80", "sm_90", "sm_100", "sm_120"])
            self.assertIn(kernel["symbol"], text)
        for kernel in listed["kernels"] + listed["topk_kernels"] + listed["cache_kernels"]:
            self.assertTrue(kernel["registers"], kernel)
            for architecture, registers in kernel["registers"].items():
                self.assertRegex(architecture, r"^sm_\d+$")
                self.assertTrue(16 <= registers <= 255, kernel)
        emulator = next(m for m in listed["machines"] if m["kind"] == "emulator")
        self.assertEqual(emulator["devices"][0]["multiprocessors"], 148, emulator)

    def test_auto_says_what_it_took(self):
        case = self.gen("a", "--tokens", 1, "--keys", 10, "--heads", 32)
        done = run("score", "--in", case, "--out", self.path("a.npy"), env={"LIDX_DRIVER": "/nonexistent/libcuda.so"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("using the emulator", done.stderr)
        self.assertIn("emulator", done.stdout)


class Quantize(Command):
    """Expected codes by hand: 0x38 is 1, 0x7e is 448, a step of the last place is 1/8 of the binade."""

    def quantize(self, shape, values, *arguments, descr=None):
        write_npy(self.path("in.npy"), shape, values, descr)
        self.ok("quantize", "--in", self.path("in.npy"), "--codes", self.path("codes.npy"), "--scales",
                self.path("scales.npy"), "--device", DEVICE, *arguments)
        codes_shape, codes = read_npy(self.path("codes.npy"))
        scales_shape, scales = read_npy(self.path("scales.npy"))
        self.assertEqual(codes_shape, list(shape))
        self.assertEqual(scales_shape, list(shape[:-1]))
        return codes, scales

    def test_codes_by_hand(self):
        known = [(448.0, 0x7e), (1.0, 0x38), (-2.0, 0xc0), (0.0, 0), (-0.0, 0x80), (2.0 ** -9, 1), (17.0, 0x58),
                 (19.0, 0x5a), (-2.0 ** -10, 0x80), (3 * 2.0 ** -10, 2)]
        values = array.array("f", [value for value, _ in known] + [0.0] * (128 - len(known)))
        codes, scales = self.quantize((1, 1, 128), values)
        self.assertEqual(list(codes[:len(known)]), [code for _, code in known])
        self.assertEqual(list(codes[len(known):]), [0] * (128 - len(known)))
        self.assertEqual(list(scales), [1.0])

    def test_scales_are_powers_of_two_if_asked(self):
        values = array.array("f", [449.0] + [2.0] * 63 + [-448.0] + [0.0] * 63)
        codes, scales = self.quantize((2, 64), values, "--pow2")
        self.assertEqual(list(scales), [2.0, 1.0])
        self.assertEqual(list(codes[:2]), [0x76, 0x38])   # 224.5 and 1
        self.assertEqual(codes[64], 0xfe)

    def test_rotation_spreads_one_element(self):
        codes, scales = self.quantize((128,), array.array("f", [0.0] * 5 + [8.0] + [0.0] * 122), "--rotate")
        signs = [-1 if bin(i & 5).count("1") % 2 else 1 for i in range(128)]
        self.assertEqual(list(codes), [0x7e if sign > 0 else 0xfe for sign in signs])
        self.assertAlmostEqual(scales[0], 8 * 128 ** -0.5 / 448, places=9)

    def test_bf16_and_fp16_are_taken(self):
        bf16 = array.array("H", [0x43e0] + [0x3f80] * 63)   # 448, 1
        codes, scales = self.quantize((1, 64), bf16, descr="<u2")
        self.assertEqual((list(codes), list(scales)), ([0x7e] + [0x38] * 63, [1.0]))
        fp16 = array.array("H", [0x5f00] + [0x3c00] * 63)
        codes, scales = self.quantize((1, 64), fp16, descr="<f2")
        self.assertEqual((list(codes), list(scales)), ([0x7e] + [0x38] * 63, [1.0]))

    def test_nothing_is_nothing(self):
        codes, scales = self.quantize((0, 128), array.array("f"))
        self.assertEqual((len(codes), len(scales)), (0, 0))

    def test_bad_input(self):
        source, codes, scales = (self.path(name) for name in ("in.npy", "c.npy", "s.npy"))
        arguments = ("quantize", "--in", source, "--codes", codes, "--scales", scales, "--device", "emu")
        self.refused(2, "in.npy", *arguments)
        write_npy(source, (2, 100), array.array("f", [0.0] * 200))
        self.refused(2, "shape (2, 100): the last dimension must be 64 or 128", *arguments)
        write_npy(source, (), array.array("f", [0.0]))
        self.refused(2, "the last dimension must be 64 or 128", *arguments)
        write_npy(source, (1, 64), array.array("i", [0] * 64))
        self.refused(2, "descr '<i4': must be '<f4' (fp32)", *arguments)
        write_npy(source, (1, 64), array.array("f", [0.0] * 64))
        self.refused(2, "is an input", "quantize", "--in", source, "--codes", source, "--scales", scales)
        self.refused(2, "is also written for --codes", "quantize", "--in", source, "--codes", codes, "--scales", codes)
        self.assertFalse(os.path.exists(codes))


class Topk(Command):
    SCORES = [3.0, 1.0, math.nan, 3.0, -0.0, 0.0, -math.inf, math.inf,
              5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0,
              1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]

    def topk(self, k, *arguments):
        write_npy(self.path("s.npy"), (3, 8), array.array("f", self.SCORES))
        write_npy(self.path("lengths.npy"), (3,), array.array("i", [8, 3, 0]))
        self.ok("topk", "--scores", self.path("s.npy"), "--out", self.path("i.npy"), "--k", k, "--device", DEVICE,
                *arguments)
        shape, indices = read_npy(self.path("i.npy"))
        self.assertEqual(shape, [3, k])
        return [list(indices[row * k:row * k + k]) for row in range(3)]

    def test_positions_ascend_and_ties_go_to_the_smaller(self):
        self.assertEqual(self.topk(3), [[0, 3, 7], [0, 1, 2], [5, 6, 7]])
        self.assertEqual(self.topk(5), [[0, 1, 3, 4, 7], [0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])

    def test_by_score_with_scores_and_lengths(self):
        rows = self.topk(4, "--sorted", "score", "--lengths", self.path("lengths.npy"), "--scores-out",
                         self.path("v.npy"))
        self.assertEqual(rows, [[7, 0, 3, 1], [0, 1, 2, -1], [-1] * 4])
        shape, values = read_npy(self.path("v.npy"))
        self.assertEqual(shape, [3, 4])
        self.assertEqual(list(values), [math.inf, 3, 3, 1, 5, 5, 5, -math.inf] + [-math.inf] * 4)

    def test_forced_keys(self):
        self.assertEqual(self.topk(4, "--first", 2, "--last", 1)[0], [0, 1, 3, 7])

    def test_bf16_scores_and_counts(self):
        # 1, 1 + 2^-7, NaN, -0, +0: the upper halves of fp32
        write_npy(self.path("s.npy"), (1, 5), array.array("H", [0x3f80, 0x3f81, 0x7fc0, 0x8000, 0]), descr="<u2")
        self.ok("topk", "--scores", self.path("s.npy"), "--out", self.path("i.npy"), "--k", 4, "--sorted", "score",
                "--scores-out", self.path("v.npy"), "--counts-out", self.path("c.npy"), "--device", DEVICE)
        self.assertEqual(list(read_npy(self.path("i.npy"))[1]), [1, 0, 3, 4])
        self.assertEqual(list(read_npy(self.path("v.npy"))[1]), [1 + 2 ** -7, 1, 0, 0])
        self.assertEqual(list(read_npy(self.path("c.npy"))[1]), [4])

    def test_bad_input(self):
        write_npy(self.path("s.npy"), (3, 8), array.array("f", self.SCORES))
        write_npy(self.path("bad.npy"), (3,), array.array("i", [8, 9, 0]))
        common = ["topk", "--scores", self.path("s.npy"), "--out", self.path("i.npy"), "--device", DEVICE]
        self.refused(2, "[1] = 9: must be 0 .. 8", *common, "--lengths", self.path("bad.npy"))
        self.refused(2, "4097", *common, "--k", 4097)
        self.refused(2, "is an input", "topk", "--scores", self.path("s.npy"), "--out", self.path("s.npy"))
        write_npy(self.path("f.npy"), (24,), array.array("f", self.SCORES))
        self.refused(2, "shape: (24,), expected (rows, keys)", "topk", "--scores", self.path("f.npy"), "--out",
                     self.path("i.npy"))
        self.refused(2, "descr '<i4': must be '<f4' (fp32) or '<u2'", "topk", "--scores", self.path("bad.npy"), "--out",
                     self.path("i.npy"))
        self.refused(2, "missing.npy", "topk", "--scores", self.path("missing.npy"), "--out", self.path("i.npy"))
        self.assertFalse(os.path.exists(self.path("i.npy")))


class Index(Command):
    """Expected keys: a sort of what `lidx score` wrote."""

    def index(self, case, k, *arguments):
        """Runs it; (indices, scores, counts) by row, and the summary."""
        files = {name: self.path(name) for name in ("indices", "scores", "counts", "summary")}
        self.ok("index", "--in", case, "--out", files["indices"], "--k", k, "--scores-out", files["scores"],
                "--counts-out", files["counts"], "--json", files["summary"], "--device", DEVICE, *arguments)
        shape, indices = read_npy(files["indices"])
        scores_shape, scores = read_npy(files["scores"])
        counts_shape, counts = read_npy(files["counts"])
        self.assertEqual((shape[1:], scores_shape, counts_shape), ([k], shape, shape[:1]))
        with open(files["summary"], encoding="utf-8") as file:
            summary = json.load(file)
        rows = [(list(indices[row * k:row * k + k]), list(scores[row * k:row * k + k]), counts[row])
                for row in range(shape[0])]
        return rows, summary

    def expected(self, case, k, name=lambda row, begin, key: key, by_score=False, first=0, last=0,
                 rounded=lambda score: score):
        shape, values = read_npy(self.score(case, "all.npy"))
        rows = []
        for row, (begin, end) in enumerate(self.seen_by(case)):
            scores = {key: rounded(values[row * shape[1] + key]) for key in range(begin, end)}

            def preference(key):
                return (not (key < begin + first or key >= end - last)), 0 if key < begin + first or key >= end - last \
                    else -scores[key], key
            chosen = sorted(scores, key=preference)[:k]
            chosen = chosen if by_score else sorted(chosen)
            none = k - len(chosen)
            rows.append(([name(row, begin, key) for key in chosen] + [-1] * none,
                         [scores[key] for key in chosen] + [-math.inf] * none, len(chosen)))
        return rows

    def requests(self, case):
        _, cu = read_npy(os.path.join(case, "cu_seqlens_q.npy"))
        return [request for request in range(len(cu) - 1) for _ in range(cu[request], cu[request + 1])]

    def test_the_best_keys_of_every_kind_of_case(self):
        for name, arguments in (("length", []), ("causal", ["--causal"]), ("window", ["--window", 60]),
                                ("rowlen", ["--row-lengths", "--rows", "request-ids", "--layout", "split-pool"]),
                                ("fixed", ["--causal", "--rows", "fixed", "--ratio", 3]),
                                ("flat", ["--window", 50, "--layout", "contiguous", "--rows", "request-ids"])):
            with self.subTest(name):
                case = self.gen(name, "--ragged", "--batch", 3, "--tokens", 6, "--keys", 150, "--heads", 32, "--page",
                                16, *arguments)
                rows, summary = self.index(case, 20)
                self.assertEqual(rows, self.expected(case, 20))
                self.assertEqual((summary["windows"], summary["k"]), (1, 20))
                self.assertTrue(any(count == 20 for _, _, count in rows))
                relative, _ = self.index(case, 20, "--output", "relative", "--sorted", "none")
                self.assertEqual(relative, self.expected(case, 20, lambda row, begin, key: key - begin))

    def test_windows_and_budgets_do_not_show(self):
        case = self.gen("prefill", "--tokens", 40, "--keys", 200, "--causal", "--batch", 2)
        whole, summary = self.index(case, 64, "--sorted", "score")
        self.assertEqual(whole, self.expected(case, 64, by_score=True))
        self.assertEqual((summary["windows"], summary["window_rows"]), (1, 80))
        some, summary = self.index(case, 64, "--sorted", "score", "--budget-bytes", summary["workspace_bytes"] // 3)
        self.assertEqual(some, whole)
        self.assertGreaterEqual(summary["windows"], 3)
        self.assertEqual(summary["windows"], -(-80 // summary["window_rows"]))
        self.assertLessEqual(summary["workspace_bytes"], 80 * 1024 // 3)

    def test_names_of_keys(self):
        case = self.gen("a", "--ragged", "--batch", 4, "--tokens", 3, "--keys", 300, "--page", 48, "--seed", 9)
        shape, table = read_npy(os.path.join(case, "block_table.npy"))
        _, lengths = read_npy(os.path.join(case, "context_lens.npy"))
        owner = self.requests(case)
        rows, _ = self.index(case, 30, "--output", "physical")
        self.assertEqual(rows, self.expected(
            case, 30, lambda row, _, key: table[owner[row] * shape[1] + key // 48] * 48 + key % 48))
        rows, _ = self.index(case, 30, "--output", "ragged")
        self.assertEqual(rows, self.expected(case, 30, lambda row, _, key: sum(lengths[:owner[row]]) + key))
        offsets = array.array("i", [1000 - 300 * row for row in range(len(owner))])
        write_npy(self.path("offsets.npy"), (len(owner),), offsets)
        rows, _ = self.index(case, 30, "--output", "ragged", "--offsets", self.path("offsets.npy"))
        self.assertEqual(rows, self.expected(case, 30, lambda row, _, key: offsets[row] + key))

    def test_forced_keys_and_bf16_scores(self):
        def bf16(score):   # to nearest even
            bits = struct.unpack("<I", struct.pack("<f", score))[0]
            return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]

        case = self.gen("a", "--batch", 2, "--keys", 400, "--causal", "--heads", 32)
        rows, _ = self.index(case, 50, "--first", 4, "--last", 30)
        self.assertEqual(rows, self.expected(case, 50, first=4, last=30))
        rows, _ = self.index(case, 50, "--score-type", "bf16", "--sorted", "score")
        self.assertEqual(rows, self.expected(case, 50, by_score=True, rounded=bf16))

    def test_nothing_to_choose(self):
        for name, arguments in (("rows", ["--tokens", 0]), ("keys", ["--keys", 0, "--tokens", 2]),
                                ("flat", ["--keys", 0, "--tokens", 2, "--layout", "contiguous"])):
            with self.subTest(name):
                rows, _ = self.index(self.gen(name, *arguments), 5)
                self.assertEqual(rows, [([-1] * 5, [-math.inf] * 5, 0)] * (0 if name == "rows" else 2))

    def test_bad_input(self):
        case = self.gen("case", "--keys", 100, "--heads", 32)
        out = self.path("i.npy")
        common = ("index", "--in", case, "--out", out, "--device", DEVICE)
        self.refused(2, "workspace_budget_bytes = 511: one row of score.max_keys = 100 needs 640", *common,
                     "--budget-bytes", 511)
        self.refused(2, "4097", *common, "--k", 4097)
        self.refused(2, "--offsets: only --output ragged adds them, not local", *common, "--offsets", case)
        write_npy(self.path("offsets.npy"), (3,), array.array("i", [0] * 3))
        self.refused(2, "shape: (3,), expected (2,)", *common, "--output", "ragged", "--offsets",
                     self.path("offsets.npy"))
        self.refused(2, "is also written for --out", *common, "--scores-out", out)
        self.refused(2, "./i.npy is also written for --out", "index", "--in", case, "--out", "i.npy", "--scores-out",
                     "./i.npy", cwd=self.path("."))
        self.refused(2, "is a file of the case", "index", "--in", case, "--out", os.path.join(case, "q.npy"))
        self.refused(2, "generic_scorn", *common, "--kernel", "generic_scorn")
        self.refused(2, "--output", *common, "--output", "global")
        self.refused(2, "no such directory", "index", "--in", self.path("nowhere"), "--out", out)
        self.refused(2, "case.json: not a directory", "index", "--in", os.path.join(case, "case.json"), "--out", out)
        flat = self.gen("flat", "--keys", 100, "--layout", "contiguous")
        self.refused(2, "--output physical: the case is contiguous", "index", "--in", flat, "--out", out, "--output",
                     "physical")
        write_npy(os.path.join(case, "block_table.npy"), [1, 2], array.array("i", [0, 99]))
        self.refused(2, "request 0, entry 1: page id 99", *common)
        self.assertFalse(os.path.exists(out))


class VerifyIndices(Command):
    """Files of `lidx index` and `lidx topk` pass; every way to spoil one is told, and where."""

    def setUp(self):
        super().setUp()
        self.case = self.gen("case", "--ragged", "--batch", 3, "--tokens", 4, "--keys", 200, "--heads", 32, "--causal",
                             "--page", 16)

    def index(self, name, *arguments):
        self.ok("index", "--in", self.case, "--out", self.path(name), "--k", 12, "--device", DEVICE, *arguments)
        return self.path(name)

    def verify(self, code, message, *arguments):
        done = run("verify", *arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(message, done.stdout)
        return done.stdout

    def test_every_output_passes(self):
        scores = self.score(self.case)
        for number, arguments in enumerate((
                [], ["--sorted", "score"], ["--output", "physical"], ["--output", "relative", "--sorted", "score"],
                ["--output", "ragged", "--first", 3, "--last", 2, "--sorted", "score"],
                ["--score-type", "bf16", "--sorted", "score"], ["--fast", "--sorted", "none"])):
            with self.subTest(arguments):
                indices = self.index(f"{number}.npy", *arguments)
                self.verify(0, "rows of 12 indices; bound of", "--in", self.case, "--indices", indices)
                self.verify(0, "verified: sets, order", "--in", self.case, "--indices", indices, "--scores", scores)

    def test_kinds_of_sight_and_none_at_all(self):
        for name, arguments in (("w", ["--window", 9]), ("l", ["--row-lengths", "--rows", "request-ids"]),
                                ("short", ["--ratio", 12]), ("none", ["--tokens", 0])):
            case = self.gen(name, "--batch", 2, "--keys", 90, "--heads", 32, *arguments)
            self.ok("index", "--in", case, "--out", self.path("i.npy"), "--k", 12, "--device", DEVICE)
            self.verify(0, "verified", "--in", case, "--indices", self.path("i.npy"))

    def spoiled(self, indices, change):
        shape, values = read_npy(indices)
        rows = [list(values[row * 12:row * 12 + 12]) for row in range(shape[0])]
        change(rows)
        path = self.path("spoiled.npy")
        write_npy(path, shape, array.array("i", sum(rows, [])))
        shutil.copy(indices + ".json", path + ".json")
        return path

    def test_spoiled_files(self):
        indices, scores = self.index("i.npy"), self.score(self.case)
        shape, values = read_npy(scores)
        begin, end = self.seen_by(self.case)[0]
        self.assertGreater(end - begin, 30)
        row = read_npy(indices)[1][:12]
        worst = min(range(begin, end), key=lambda key: values[key])
        best = max(row, key=lambda key: values[key])

        def swap_best_for_worst(rows):
            rows[0] = sorted(worst if key == best else key for key in rows[0])

        def put(entry, value):
            def change(rows):
                rows[0][entry] = value
            return change

        def swap(rows):
            rows[0][3], rows[0][4] = rows[0][4], rows[0][3]
        for change, message in ((swap_best_for_worst, f"key {best} ("), (swap, "not by position"),
                                (put(1, row[0]), "a second time"), (put(11, -1), "names no key"),
                                (put(11, end), f"names no key that the row sees ({begin} .. {end - 1})\n"),
                                (put(0, -2 ** 31), "names no key")):
            path = self.spoiled(indices, change)
            for others in ([], ["--scores", scores]):
                said = self.verify(1, "VERIFICATION FAILED", "--in", self.case, "--indices", path, *others)
                self.assertIn("1 row is wrong; the first: row 0 (request 0, token 0): ", said)
                self.assertIn(message, said)
        self.verify(0, "verified", "--in", self.case, "--indices", self.spoiled(indices, swap), "--sorted", "none")
        by_score = self.index("s.npy", "--sorted", "score")
        self.verify(1, "not by score", "--in", self.case, "--indices", self.spoiled(by_score, swap))
        self.verify(1, "(forced)", "--in", self.case, "--indices", indices, "--first", 5, "--sorted", "none")

    def test_unused_entries(self):
        case = self.gen("short", "--tokens", 1, "--keys", 9, "--heads", 32)
        write_npy(self.path("i.npy"), [1, 12], array.array("i", [*range(9), -1, -1, -1]))
        common = ("--in", case, "--indices", self.path("i.npy"), "--arithmetic", "fp32")
        self.verify(0, "verified", *common)
        for entries, message in (([*range(9), -1, -1, 0], "entry 11 is 0, expected -1: the row sees 9 keys"),
                                 ([*range(8), -1, -1, -1, 8], "entry 8 is -1, which names no key")):
            write_npy(self.path("i.npy"), [1, 12], array.array("i", entries))
            self.verify(1, message, *common)

    def test_ties_on_the_lattice(self):
        case = self.gen("exact", "--lattice", "--tokens", 2, "--keys", 60, "--heads", 8)
        self.ok("index", "--in", case, "--out", self.path("i.npy"), "--k", 12, "--sorted", "score", "--device", DEVICE)
        self.verify(0, "the order of the reference's scores", "--in", case, "--indices", self.path("i.npy"), "--exact")
        self.refused(2, "exact lattice (lidx gen --lattice)", "verify", "--in", self.case, "--indices",
                     self.index("j.npy"), "--exact")

    def test_against_scores_alone(self):
        values = [1.0, 3.0, 3.0, math.nan, -0.0, 0.0, -math.inf, math.inf] * 2
        write_npy(self.path("s.npy"), (2, 8), array.array("f", values))
        write_npy(self.path("lengths.npy"), (2,), array.array("i", [8, 3]))
        lengths = ("--lengths", self.path("lengths.npy"))
        self.ok("topk", "--scores", self.path("s.npy"), "--out", self.path("i.npy"), "--k", 4, "--sorted", "score",
                "--device", DEVICE, *lengths)
        common = ("--scores", self.path("s.npy"), "--indices", self.path("i.npy"))
        self.verify(0, "verified: sets, order", *common, *lengths)
        self.verify(1, "row 1: entry 3 is -1", *common)
        for rows, message in (([7, 2, 1, 0], "key 2 (3), stands"), ([7, 1, 2, 4], "key 0 (1) is left out"),
                              ([7, 1, 2, 0], None)):
            write_npy(self.path("i.npy"), (2, 4), array.array("i", rows + [1, 2, 0, -1]))
            if message:
                self.assertIn(message.split(",")[0], self.verify(1, "row 0", *common, *lengths))
            else:
                self.verify(0, "verified", *common, *lengths)
        write_npy(self.path("i.npy"), (2, 5), array.array("i", [7, 1, 2, 0, 5] + [1, 2, 0, -1, -1]))   # 4 comes first
        self.refused(2, f"shape: k = 5, expected the 4 of {self.path('i.npy.json')}", "verify", *common, *lengths)
        os.remove(self.path("i.npy.json"))
        self.verify(1, "key 4 (-0) is left out, key 5 (0) is chosen", *common, *lengths, "--sorted", "score")

    def test_more_forced_keys_than_k(self):
        write_npy(self.path("s.npy"), (2, 10), array.array("f", range(20)))
        write_npy(self.path("lengths.npy"), (2,), array.array("i", [10, 6]))
        lengths = ("--lengths", self.path("lengths.npy"))
        common = ("--scores", self.path("s.npy"), "--indices", self.path("i.npy"), *lengths)
        for order in ("position", "score"):
            self.ok("topk", "--scores", self.path("s.npy"), "--out", self.path("i.npy"), "--k", 5, "--first", 2,
                    "--last", 6, "--sorted", order, "--device", DEVICE, *lengths)
            # Of the forced keys 0, 1, 4 .. 9 and 0 .. 5 the smaller positions.
            self.assertEqual(list(read_npy(self.path("i.npy"))[1]), [0, 1, 4, 5, 6, 0, 1, 2, 3, 4])
            self.verify(0, "verified: sets, order", *common)
        write_npy(self.path("i.npy"), (2, 5), array.array("i", [0, 1, 4, 5, 9, 0, 1, 2, 3, 4]))
        self.verify(1, "row 0: key 6 (forced) is left out, key 9 (forced) is chosen", *common)

    def test_a_page_named_twice(self):
        case = self.gen("twice", "--batch", 1, "--tokens", 1, "--keys", 64, "--heads", 32, "--page", 16)
        shape, table = read_npy(os.path.join(case, "block_table.npy"))
        first, second = list(table[:2])
        write_npy(os.path.join(case, "block_table.npy"), shape,
                  array.array("i", [first, second, second, first, *table[4:]]))
        for arguments in ([], ["--first", 1], ["--last", 3], ["--first", 2, "--last", 5]):
            for order in ("none", "position", "score"):
                with self.subTest(arguments, order=order):
                    path = self.path("i.npy")
                    self.ok("index", "--in", case, "--out", path, "--k", 12, "--output", "physical", "--sorted", order,
                            "--device", DEVICE, *arguments)
                    self.verify(0, "verified", "--in", case, "--indices", path)
        # Three times: the table names its page twice.
        self.ok("index", "--in", case, "--out", self.path("i.npy"), "--k", 12, "--output", "physical", "--device",
                DEVICE)
        slot = list(read_npy(self.path("i.npy"))[1])[0]
        write_npy(self.path("i.npy"), [1, 12], array.array("i", [slot] * 12))
        self.verify(1, f"entry 2 is {slot}, more often than the row sees keys of that name", "--in", case,
                    "--indices", self.path("i.npy"))

    def test_bad_input(self):
        indices, scores = self.index("i.npy"), self.score(self.case)
        case = ("--in", self.case)
        self.refused(2, "nothing to verify", "verify", *case)
        self.refused(2, "both --scores and --indices are needed", "verify", "--indices", indices)
        self.refused(2, "--exact needs --in", "verify", "--indices", indices, "--scores", scores, "--exact")
        self.refused(2, "need --indices", "verify", *case, "--scores", scores, "--sorted", "none")
        self.refused(2, "says what each row sees", "verify", *case, "--indices", indices, "--lengths", indices)
        self.refused(2, "--offsets: only --output ragged", "verify", *case, "--indices", indices, "--offsets", indices)
        self.refused(2, "needs --in: without a case", "verify", "--scores", scores, "--indices", indices, "--output",
                     "physical")
        self.refused(2, "is not a whole number", "verify", *case, "--indices", indices, "--first", "x")
        write_npy(self.path("k0.npy"), [len(self.seen_by(self.case)), 0], array.array("i", []))
        self.refused(2, "k = 0, expected 1 or more", "verify", *case, "--indices", self.path("k0.npy"))
        for text, message in (("[]", "not an object"), ('{"sorted": 3}', 'sorted: 3, expected one of'),
                              ('{"first": -1}', "first: -1, expected a whole number from 0 to 2147483647"),
                              ('{"last": 2147483648}', "last: 2147483648, expected a whole number from 0 to 214748"),
                              ('{"sorted": "' + 999 * "é" + '"}', 'sorted: "' + 37 * "é" + '...", expected one'),
                              ('{"output": "physical", "first": 1e9}', "first: 1000000000.0, expected")):
            with open(indices + ".json", "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(2, message, "verify", *case, "--indices", indices, "--arithmetic", "fp32")
        for text, message in (("[]", "not an object"), ("{}", ": arithmetic is missing; pass --arithmetic"),
                              ('{"arithmetic": 4}', ": arithmetic: 4, expected sm_100, sm_90, sm_90_fast or fp32"),
                              ('{"arithmetic": "' + 999 * "é" + '"}', ': arithmetic: "' + 37 * "é" + '...", expected'),
                              ('{"arithmetic": "x"}', ': arithmetic: "x", expected sm_100, sm_90,')):
            for option, file_name in (("--indices", indices), ("--scores", scores)):
                with open(file_name + ".json", "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused(2, f"{file_name}.json{message}" if message[0] == ":" else message, "verify", *case, option,
                             file_name)
        for value, shown in (('"' + 999 * "x" + '"', '"' + 75 * "x" + '..."'), ('"up"', '"up"'), ("-1", "-1"),
                             ("null", "null")):
            with open(indices + ".json", "w", encoding="utf-8") as file:
                file.write('{"arithmetic": "fp32", "sorted": ' + value + "}")
            self.refused(2, f"{indices}.json: sorted: {shown}, expected one of none, position, score", "verify", *case,
                         "--indices", indices)
        os.remove(indices + ".json")
        for last in ("2147483648", "-1"):
            self.refused(2, f"--last: Value '{last}' is not a whole number from 0 to 2147483647", "verify",
                         *case, "--indices", indices, "--last", last)
        self.refused(2, "pass --arithmetic", "verify", *case, "--indices", indices)


class BadInput(Command):
    """Each row damages one file of a good case; score and verify must refuse it with exit code 2 and a message."""

    def setUp(self):
        super().setUp()
        self.case = self.gen("case", "--batch", 2, "--tokens", 1, "--heads", 32, "--keys", 100, "--page", 64)

    def damaged(self, message, name, damage):
        with self.subTest(message):
            target = os.path.join(self.case, name)
            with open(target, "rb") as file:
                good = file.read()
            try:
                damage(target)
                error = self.refused(2, message, "score", "--in", self.case, "--out", self.path("s.npy"),
                                     "--device", DEVICE)
                self.assertIn(name, error)
                self.assertFalse(os.path.exists(self.path("s.npy")))
                write_npy(self.path("v.npy"), [2, 100], array.array("f", [0] * 200))
                self.refused(2, message, "verify", "--in", self.case, "--scores", self.path("v.npy"),
                             "--arithmetic", "fp32")
            finally:
                if os.path.isdir(target):
                    os.rmdir(target)
                elif os.path.exists(target):
                    os.remove(target)
                with open(target, "wb") as file:
                    file.write(good)

    def test_every_file_missing(self):
        for name in ("case.json", "q.npy", "q_scale.npy", "cu_seqlens_q.npy", "context_lens.npy", "block_table.npy",
                     "k_cache.npy"):
            self.damaged("cannot open it", name, os.remove)
            # A reader that opened these would fail without a word, or wait for ever.
            self.damaged("not a regular file", name, lambda path: (os.remove(path), os.mkdir(path)))
            self.damaged("not a regular file", name, lambda path: (os.remove(path), os.mkfifo(path)))
        self.refused(2, "no such directory", "score", "--in", self.path("nowhere"), "--out", self.path("s.npy"))

    def test_malformed_arrays(self):
        def rewrite(**changes):
            def damage(path):
                shape, values = read_npy(path)
                write_npy(path, changes.get("shape", shape), changes.get("values", values), descr=changes.get("descr"),
                          fortran=changes.get("fortran", False), header=changes.get("header"))
            return damage

        def cut(path):
            os.truncate(path, os.path.getsize(path) - 1)

        def grow(path):
            with open(path, "ab") as file:
                file.write(b"x")

        def header_length(path):
            with open(path, "r+b") as file:
                file.seek(8)
                file.write(b"\xff\xff")

        self.damaged("descr: '|u1', expected '<f4'", "q_scale.npy", rewrite(descr="|u1"))
        self.damaged("(big-endian)", "q_scale.npy", rewrite(descr=">f4"))
        self.damaged("descr: '<f8'", "q_scale.npy", rewrite(descr="<f8"))
        self.damaged("fortran_order: True", "q.npy", rewrite(fortran=True))
        self.damaged("shape: (2, 32, 64), expected (any, any, 128)", "q.npy",
                     rewrite(shape=[2, 32, 64], values=array.array("B", [0] * 4096)))
        self.damaged("shape: (2, 4096)", "q.npy", rewrite(shape=[2, 4096]))
        self.damaged("overflows", "q.npy", rewrite(shape=[2**62, 8, 128]))
        self.damaged("bytes of data, expected", "q.npy", cut)
        self.damaged("bytes of data, expected", "k_cache.npy", grow)
        self.damaged("header length: 65535", "block_table.npy", header_length)
        self.damaged("unknown key", "context_lens.npy", rewrite(header="{'hello': 1}"))
        self.damaged("magic", "context_lens.npy", lambda path: shutil.copy(__file__, path))
        self.damaged(", 1, 132), with the page_size of case.json", "k_cache.npy",
                     rewrite(shape=[1, 1, 1, 132], values=array.array("B", [0] * 132)))

    def test_inconsistent_values(self):
        def ints(values):
            return lambda path: write_npy(path, [len(values)], array.array("i", values))

        self.damaged("entry 0: 1, expected 0", "cu_seqlens_q.npy", ints([1, 1, 2]))
        self.damaged("entry 2: 1, expected at least 2", "cu_seqlens_q.npy", ints([0, 2, 1]))
        self.damaged("last entry: 3, expected 2", "cu_seqlens_q.npy", ints([0, 1, 3]))
        self.damaged("cu_seqlens_q.npy: shape: (2,), expected (3,), one more than the requests of context_lens.npy",
                     "cu_seqlens_q.npy", ints([0, 2]))

    def test_who_sees_what_is_checked(self):
        def field(name, value):
            def damage(path):
                with open(path, encoding="utf-8") as file:
                    description = json.load(file)
                description[name] = value
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(description, file)
            return damage

        self.damaged("expected cu-seqlens, fixed or request-ids", "case.json", field("row_map", "rows"))
        self.damaged("expected length, causal, row-lengths or window", "case.json", field("visibility", 3))
        self.damaged("compress_ratio: 0, expected 1 to 512", "case.json", field("compress_ratio", 0))
        for sees, lacking in (("row-lengths", "row_lengths.npy"), ("window", "row_begin.npy")):
            case = self.gen("lacking", "--keys", 70, "--heads", 4)
            field("visibility", sees)(os.path.join(case, "case.json"))
            self.refused(2, lacking + ": cannot open it", "score", "--in", case, "--out", self.path("s.npy"))

    def test_page_ids_outside_the_pool(self):
        shape, table = read_npy(os.path.join(self.case, "block_table.npy"))
        pages = read_npy(os.path.join(self.case, "k_cache.npy"))[0][0]
        for value in (-1, pages, 2**31 - 1, -2**31):
            def damage(path, value=value):
                bad = array.array("i", table)
                bad[shape[1] + 1] = value
                write_npy(path, shape, bad)
            self.damaged(f"request 1, entry 1: page id {value}, expected 0 to {pages - 1}", "block_table.npy", damage)

    def test_case_json(self):
        def put(text):
            def damage(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return damage

        self.damaged("not valid JSON", "case.json", put("{"))
        self.damaged("not an object: []", "case.json", put("[]"))
        self.damaged("field 'format' is missing", "case.json", put("{}"))
        self.damaged('format: "npz", expected "lidx case"', "case.json", put('{"format": "npz"}'))
        base = {"format": "lidx case", "version": 1, "layout": "block-split", "lattice": False, "page_size": 64}
        self.damaged("version: 2", "case.json", put(json.dumps(dict(base, version=2))))
        self.damaged("layout: \"tiled\"", "case.json", put(json.dumps(dict(base, layout="tiled"))))
        self.damaged("page_size: 0", "case.json", put(json.dumps(dict(base, page_size=0))))
        self.damaged("page_size: -64", "case.json", put(json.dumps(dict(base, page_size=-64))))
        self.damaged("page_size: 64.5", "case.json", put(json.dumps(dict(base, page_size=64.5))))
        self.damaged("lattice: 3", "case.json", put(json.dumps(dict(base, lattice=3))))
        self.damaged("field 'visiblity' is none of a case; there are format, version, layout", "case.json",
                     put(json.dumps(dict(base, visiblity="causal"))))
        # What it says of the arrays must be true of them.
        pages = read_npy(os.path.join(self.case, "k_cache.npy"))[0][0]
        for name, value in (("batch", 2), ("rows", 2), ("heads", 32), ("depth", 128), ("num_pages", pages)):
            for wrong in (value + 1, 0, -value, str(value), value + 0.5, None, 2**64 - 1):
                self.damaged(f"{name}: {json.dumps(wrong)}, but the arrays hold {value}", "case.json",
                             put(json.dumps(dict(base, **{name: wrong}))))
        self.damaged("bytes, expected at most", "case.json", put(json.dumps(base) + " " * (16 << 20)))
        for name in base:
            if name != "format":
                self.damaged(f"field '{name}' is missing", "case.json",
                             put(json.dumps({key: value for key, value in base.items() if key != name})))
        self.damaged("field 'layout' is missing", "case.json", put(json.dumps({"format": "lidx case", "version": 1})))

    def test_score_files(self):
        scores = self.path("s.npy")
        self.refused(2, "cannot open", "verify", "--in", self.case, "--scores", scores, "--arithmetic", "fp32")
        write_npy(scores, [2, 99], array.array("f", [0] * 198))
        self.refused(2, "shape: (2, 99), expected (2, 100)", "verify", "--in", self.case, "--scores", scores,
                     "--arithmetic", "fp32")
        write_npy(scores, [2, 100], array.array("f", [0] * 200))
        self.refused(2, "pass --arithmetic", "verify", "--in", self.case, "--scores", scores)
        with open(scores + ".json", "w", encoding="utf-8") as file:
            file.write('{"arithmetic": "sm_70"}')
        self.refused(2, "\"sm_70\", expected sm_100, sm_90, sm_90_fast or fp32", "verify", "--in", self.case,
                     "--scores", scores)
        self.refused(2, "--arithmetic", "verify", "--in", self.case, "--scores", scores, "--arithmetic", "fp16")
        os.remove(scores + ".json")
        os.mkfifo(scores + ".json")
        self.refused(2, "not a regular file", "verify", "--in", self.case, "--scores", scores)

    def test_outputs_that_cannot_be_written(self):
        self.refused(2, "/dev/full: write failed: No space left", "score", "--in", self.case, "--out", "/dev/full",
                     "--device", DEVICE)
        self.refused(2, "no such directory", "score", "--in", self.case, "--out", self.path("no/where.npy"),
                     "--device", DEVICE)
        # What is known beforehand is said beforehand: no device is looked for.
        scores, read_only = self.path("given.npy"), self.path("read_only")
        write_npy(scores, [1, 4], array.array("f", [1, 2, 3, 4]))
        os.mkdir(read_only, 0o555)
        commands = {"--out": (["score", "--in", self.case], ["index", "--in", self.case], ["topk", "--scores", scores],
                              ["heatmap", "--in", self.case, "--scores", scores]),
                    "--codes": (["quantize", "--in", scores, "--scales", self.path("f.npy")],),
                    "--json": (["index", "--in", self.case, "--out", self.path("s.npy")], ["bench"]),
                    "--counts-out": (["topk", "--scores", scores, "--out", self.path("s.npy")],)}
        for option, rows in commands.items():
            for arguments in rows:
                where = [] if arguments[0] == "heatmap" else ["--device", "cuda"]
                for path, message in ((self.path("no", "where"), f"{option}: no such directory: {self.path('no')}"),
                                      (read_only, f"{option}: {read_only} is a directory"),
                                      (os.path.join(read_only, "x"), f"{option}: {read_only} cannot be written")):
                    if "cannot" in message and os.geteuid() == 0:
                        continue   # root may
                    self.refused(2, message, *arguments, option, path, *where,
                                 env={"LIDX_DRIVER": "/nonexistent/libcuda.so.1"})
        self.assertFalse(os.path.exists(self.path("s.npy")))
        if DEVICE == "emu":
            self.refused(2, "/dev/full", "score", "--in", self.case, "--out", self.path("s.npy"), "--device", "emu",
                         "--stats", "/dev/full")
        self.assertFalse(os.path.exists(self.path("s.npy")))
        self.refused(2, "--out: the path is empty", "score", "--in", self.case, "--out", "", "--device", DEVICE)
        with open(os.path.join(self.case, "case.json"), "rb") as file:
            before = file.read()
        os.symlink(os.path.join(self.case, "q.npy"), self.path("link.npy"))
        for out, message in ((os.path.join(self.case, "k_cache.npy"), "is a file of the case"),
                             (self.path("link.npy"), "is a file of the case"),
                             (os.path.join(self.case, "case"), "case.json is a file of the case")):
            self.refused(2, message, "score", "--in", self.case, "--out", out, "--device", DEVICE)
        for stats in (self.path("s.npy"), self.path(".", "s.npy.json")):
            self.refused(2, "--stats", "score", "--in", self.case, "--out", self.path("s.npy"), "--device", "emu",
                         "--stats", stats)
        with open(os.path.join(self.case, "case.json"), "rb") as file:
            self.assertEqual(file.read(), before)
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.refused(2, "cannot create the directory", "gen", "--out", self.path("file"))
        os.mkdir(self.path("full"))
        os.symlink("/dev/full", self.path("full", "q_scale.npy"))
        self.refused(2, "No space left", "gen", "--out", self.path("full"))
        self.assertEqual(os.listdir(self.path("full")), ["q_scale.npy"])
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([LIDX, "info", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard output", done.stderr)

    def test_every_option_malformed(self):
        """Whatever an option is given: an exit code of the list, a word on stderr, and no device is reached."""
        scores = self.path("given.npy")
        write_npy(scores, [1, 4], array.array("f", [1, 2, 3, 4]))
        vectors = self.path("vectors.npy")
        write_npy(vectors, [2, 64], array.array("f", [1] * 128))
        out, nothing = self.path("out"), {"LIDX_DRIVER": "/nonexistent/libcuda.so.1"}
        good = {"gen": {"--out": out}, "score": {"--in": self.case, "--out": out, "--device": "cuda"},
                "verify": {"--in": self.case, "--indices": scores},
                "topk": {"--scores": scores, "--out": out, "--device": "cuda"},
                "index": {"--in": self.case, "--out": out, "--device": "cuda"}, "info": {},
                "heatmap": {"--in": self.case, "--scores": scores, "--out": out},
                "quantize": {"--in": vectors, "--codes": out, "--scales": out + "s", "--device": "cuda"},
                "bench": {"--workload": "smoke"}}
        listed = re.findall(r"(?m)^  ([a-z]+) ", self.ok("--help").split("Subcommands:")[-1].split("Examples")[0])
        self.assertEqual(sorted(good), sorted(listed))
        values = ("", "-1", "1e9", "9" * 30, " 7", "/nonexistent/file", "\udcff", "%s%n" * 300, None)
        runs = 0
        for command, arguments in good.items():
            shown = self.ok(command, "--help").split("Examples")[0]
            options = re.findall(r"(?m)^  (?:-[a-z],)?(--[a-z0-9-]+)", shown)
            self.assertTrue(set(arguments) <= set(options), (command, options))
            for option in options:
                if option in ("--help", "--list"):
                    continue
                for value in values:
                    if command == "gen" and option == "--seed" or option == "--out" and value not in ("", None):
                        continue   # any name will do for a file
                    words = [word for name, given in arguments.items() if name != option for word in (name, given)]
                    with self.subTest(" ".join([command, option]), value=value):
                        done = run(command, *words, option, *([] if value is None else [value]), env=nothing,
                                   cwd=self.folder)
                        codes = (0, 1, 2, 3) if value is None else (1, 2, 3)   # a flag wants no value
                        self.assertIn(done.returncode, codes, done.stderr)
                        self.assertNotEqual(done.stdout + done.stderr, "")
                        self.assertNotIn("terminate", done.stderr)
                        runs += 1
        self.assertGreater(runs, 500)

    def test_no_driver(self):
        scores = self.path("scores.npy")
        write_npy(scores, [1, 4], array.array("f", [1, 2, 3, 4]))
        for library in ("/nonexistent/libcuda.so.1", "/dev/null"):
            for arguments in (("score", "--in", self.case, "--out", self.path("s.npy")), ("bench",),
                              ("topk", "--scores", scores, "--out", self.path("s.npy"))):
                said = self.refused(3, library, *arguments, "--device", "cuda", env={"LIDX_DRIVER": library})
                self.assertIn("--device emu needs no GPU", said)
        self.assertFalse(os.path.exists(self.path("s.npy")))

    def test_help_and_version(self):
        self.assertIn("Exit codes", self.ok("--help"))
        for command in ("gen", "score", "verify", "topk", "index", "info", "heatmap"):
            self.assertIn("--help", self.ok(command, "--help"))
        self.assertRegex(self.ok("--version"), r"^lidx \d+\.\d+\.\d+\n$")


GOLDEN_REAL = "1da62848c93a6280"
GOLDEN_LATTICE = "71b7601bc66385e5"

if __name__ == "__main__":
    unittest.main()
