# SPDX-License-Identifier: Apache-2.0
"""The readers of tools/sass on listings written by hand in the tools' format, every number counted by eye."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools", "sass"))
import sass_listing

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function first:
  REG:40 STACK:16 SHARED:1024 LOCAL:8 CONSTANT[0]:908 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function second:
  REG:8 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:904 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

LISTING = """
	.target	sm_100

//--------------------- .nv.info.first          --------------------------
	.section	.nv.info.first,"",@"SHT_CUDA_INFO"
	.align	4
        /*0000*/ 	.byte	0x04, 0x2f

//--------------------- .text.first             --------------------------
	.section	.text.first,"ax",@progbits
first:
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!UP1 UTMALDG.3D [UR8], [UR4], desc[UR6] ;
        /*0030*/                   UTCQMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], !UPT ;
        /*0040*/                   UTCQMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UPT ;
        /*0050*/                   LDTM.x32 R4, tmem[UR4] ;
        /*0060*/                   FADD2 R4, R4.F32x2.HI_LO, |R4|.F32x2.HI_LO ;
        /*0070*/                   BRA `(.L_x_1) ;
        /*0080*/                   NOP ;
        /*0090*/                   EXIT ;
.L_x_0:
        /*00a0*/                   BRA `(.L_x_0);
        /*00b0*/                   NOP;
        /*00c0*/                   NOP;

//--------------------- .nv.constant0.first     --------------------------
	.section	.nv.constant0.first,"a",@progbits
        /*0000*/ 	.byte	0x00, 0x00

	.section	.text.second,"ax",@progbits
.text.second:
        /*0000*/                   STL [R1], R2 ;
        /*0010*/                   EXIT ;
"""


class Listing(unittest.TestCase):
    def test_usage(self):
        self.assertEqual(sass_listing.parse_usage(USAGE), {
            "first": {"registers": 40, "stack": 16, "shared": 1024, "local": 8},
            "second": {"registers": 8, "stack": 0, "shared": 0, "local": 0}})

    def test_counts_leave_out_padding_and_data(self):
        counts = sass_listing.parse_listing(LISTING)
        self.assertEqual(dict(counts["first"]), {"LDC": 1, "EXIT": 2, "UTMALDG": 1, "UTCQMMA": 2, "LDTM": 1,
                                                 "FADD2": 1, "BRA": 1, "NOP": 1})
        self.assertEqual(dict(counts["second"]), {"STL": 1, "EXIT": 1})


# Two loops, one in the other, the inner one with the multiply-adds; one more that only waits.
LOOPS = """
	.section	.text.score_h4,"ax",@progbits
.text.score_h4:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
.L_x_0:
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
        /*0020*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0030*/                   MUFU.RCP R3, R3 ;
        /*0040*/                   ISETP.NE.AND P1, PT, R3, RZ, PT ;
.L_x_2:
        /*0050*/                   QGMMA.64x64x32.F32.E4M3.E4M3 R24, gdesc[UR8], RZ, !UPT ;
        /*0060*/                   FFMA R4, R5, R6, R4 ;
        /*0070*/                   FFMA2 R4, R5.F32x2.HI_LO, R6.F32x2.HI_LO, R4.F32x2.HI_LO ;
        /*0080*/                   FMNMX R7, RZ, R7, !PT ;
        /*0090*/               @P2 BRA `(.L_x_3) ;
        /*00a0*/                   UIADD3 UR4, UPT, UPT, UR4, 0x1, URZ ;
        /*00b0*/                   LDS R8, [R9] ;
.L_x_3:
        /*00c0*/                   XYZZY R8 ;
        /*00d0*/               @P1 BRA `(.L_x_2) ;
        /*00e0*/               @P0 BRA `(.L_x_1) ;
        /*00f0*/                   EXIT ;
.L_x_4:
        /*0100*/                   BRA `(.L_x_4);
        /*0110*/                   NOP;
"""


class Loops(unittest.TestCase):
    def setUp(self):
        self.listing = sass_listing.read_listing(LOOPS)["score_h4"]

    def test_the_innermost_loop_with_the_reduction(self):
        counts = sass_listing.hot_loop(*self.listing)
        self.assertEqual(dict(counts), {"QGMMA": 1, "FFMA": 1, "FFMA2": 1, "FMNMX": 1, "BRA": 2, "UIADD3": 1, "LDS": 1,
                                        "XYZZY": 1})
        self.assertEqual(sass_listing.loop_quantities(counts), {
            "loop.total": 9, "loop.tensor": 1, "loop.lsu": 1, "loop.branch": 2, "loop.uniform": 1, "loop.fma": 2,
            "loop.alu": 1, "loop.other": 1})

    def test_several_innermost_loops(self):
        # A second inner loop: together they have more of the reduction than either; the one with more of it counts.
        text = LOOPS.replace("        /*00e0*/", """.L_x_5:
        /*00d8*/                   FFMA R4, R5, R6, R4 ;
        /*00dc*/               @P1 BRA `(.L_x_5) ;
        /*00e0*/""")
        listing = sass_listing.read_listing(text)["score_h4"]
        self.assertEqual(sum(sass_listing.hot_loop(*listing).values()), 14)
        inner = sass_listing.hot_loop(*listing, innermost=True)
        self.assertEqual(inner, sass_listing.hot_loop(*self.listing))
        self.assertEqual(sass_listing.loop_quantities(inner, "inner")["inner.fma"], 2)

    def test_no_loop(self):
        for function in ("first", "second"):   # which jump forward, and only wait
            self.assertIsNone(sass_listing.hot_loop(*sass_listing.read_listing(LISTING)[function]))

    def test_clocks(self):
        # 32 lanes x (1 + 2) elements of 4 heads: 24 pairs. fma: 1 + 2 quarters; alu: a half; lsu: 1; issue: 9 quarters.
        clocks = sass_listing.clocks_per_pair(sass_listing.hot_loop(*self.listing), 4, 90)
        self.assertEqual(clocks, {"tensor": 2 * 4 * 128 / 8192, "issue": 2.25 / 24, "fma": 0.75 / 24, "alu": 0.5 / 24,
                                  "lsu": 1 / 24})
        self.assertEqual(sass_listing.clocks_per_pair(sass_listing.hot_loop(*self.listing), 4, 80), {})

    def test_pipes(self):
        for pipe, opcodes in (("tensor", "QGMMA UTCQMMA HMMA"), ("lsu", "LDG LDS STG UTMALDG LDTM SYNCS SHFL LDC"),
                              ("uniform", "UIADD3 R2UR LDCU CREDUX ULOP3"), ("fma", "FFMA FFMA2 FADD IMAD FMUL2"),
                              ("alu", "FMNMX ISETP LOP3 LEA MOV SEL"), ("branch", "BRA BSYNC WARPGROUP NOP EXIT"),
                              ("other", "FFMA3 XYZZY")):
            for opcode in opcodes.split():
                self.assertEqual(sass_listing.pipe_of(opcode), pipe, opcode)


class Limits(unittest.TestCase):
    KERNELS = {("a.cubin", "k"): {"registers": 40, "UTCQMMA": 4, "STL": 0}}

    def broken(self, text):
        return sass_listing.violations(sass_listing.parse_limits(text), self.KERNELS)

    def test_held(self):
        text = "# comment\na.* k registers <= 40\n* * UTCQMMA >= 4 # four steps\n* * LDL == 0\n"
        self.assertEqual(self.broken(text), [])

    def test_one_above_each_limit_is_reported(self):
        self.assertEqual(self.broken("a.* k registers <= 39\n* k UTCQMMA >= 5\n* k STL == 1\n"), [
            "a.cubin k: STL is 0, limit == 1 (line 3)",
            "a.cubin k: UTCQMMA is 4, limit >= 5 (line 2)",
            "a.cubin k: registers is 40, limit <= 39 (line 1)"])

    def test_row_without_kernel_and_kernel_without_row(self):
        self.assertEqual(self.broken("b.* k registers <= 40\n"),
                         ["a.cubin k: no line limits its registers", "line 1: no kernel matches b.* k"])

    def test_malformed_row(self):
        for text in ("a b registers <= x", "a b registers < 3", "a b registers <="):
            with self.assertRaises(ValueError):
                sass_listing.parse_limits(text)


if __name__ == "__main__":
    unittest.main()
