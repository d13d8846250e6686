#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_check_cases.py FOLDER writes check_definedness_*.ptx: kernels in which some bits were never written, and where
the checks must say so. In each a register named %u or %up is never written. Every run writes the same bytes."""

import pathlib
import sys

STORE = 'undefined-store: an undefined value is stored to global memory'
OPERAND = 'undefined-operand: an operand that decides what happens is undefined'
ADDRESS = 'undefined-address: the address is undefined'
GUARD = 'undefined-guard: the predicate that guards it is undefined'


class File:
    def __init__(self, name, target):
        self.name, self.cases = name, []
        self.head = f"""// SPDX-License-Identifier: Apache-2.0
// What was never written, and where it matters. Generated; see ptx_case_test.cpp for the comments.
.version 8.8
.target {target}
.address_size 64
"""

    def case(self, name, source, body, finds=(), expect=None, ins=None, block=32, shared=0, maps='', grid=1,
    before=''):
        """body: PTX lines; %r9 is stored at the end unless the body returns itself. expect: word per thread."""
        text = f'\n// case: {name}\n// source: {source}\n'
        params = []
        if ins is not None:
            text += '// in b32: ' + ' '.join('%x' % w for w in ins) + '\n'
            params.append('.param .u64 p0')
        words = ['%x' % (expect(t) & 0xffffffff) if expect else '0' for t in range(block)]
        text += '// out b32: ' + ' '.join(words) + '\n'
        params.append('.param .u64 p1')
        if maps:
            text += f'// map: {maps}\n'
            params.append('.param .align 64 .b8 p2[128]')
        for f in finds:
            text += f'// finds: {f}\n'
        if block != 32:
            text += f'// block: {block}\n'
        if grid != 1:
            text += f'// grid: {grid}\n'
        lines = ['mov.u32 %r0, %tid.x;', 'ld.param.u64 %l1, [p1];', 'mad.wide.u32 %l2, %r0, 4, %l1;']
        if ins is not None:
            lines.append('ld.param.u64 %l0, [p0];')
        lines += [line.strip() for line in body.strip().splitlines()]
        if lines[-1] != 'ret;':
            lines += ['st.global.b32 [%l2], %r9;', 'ret;']
        text += before + f'.visible .entry {name}({", ".join(params)})\n{{\n'
        text += '    .reg .pred %p<6>; .reg .pred %up; .reg .b16 %h<6>; .reg .b32 %r<24>; .reg .b32 %u;\n'
        text += '    .reg .b64 %l<12>; .reg .f32 %f<8>;\n'
        if shared:
            text += f'    .shared .align 1024 .b8 smem[{shared}];\n'
        text += ''.join(f'    {line}\n' for line in lines) + '}\n'
        self.cases.append(text)

    def write(self, folder):
        (folder / self.name).write_text(self.head + ''.join(self.cases))


def registers(f):
    five = lambda t: 5
    f.case('stored', 'a register that nobody wrote', 'mov.b32 %r9, %u;', [STORE])
    f.case('through_arithmetic', 'every result of it', 'add.rn.f32 %f0, 0f3F800000, 0f40000000;\nmov.b32 %f1, %u;\n'
           'fma.rn.f32 %f2, %f0, %f1, %f0;\nmov.b32 %r9, %f2;', [STORE])
    f.case('never_stored', 'computed with and dropped', 'add.u32 %r1, %u, 1;\nmul.lo.u32 %r2, %r1, %r1;\n'
           'mov.b32 %r9, 5;',
           expect=five)
    f.case('lanes_apart', 'written and stored in the same lanes only', 'setp.lt.u32 %p0, %r0, 16;\n'
           '@%p0 mov.b32 %r9, 5;\n@%p0 st.global.b32 [%l2], %r9;\n@!%p0 st.global.b32 [%l2], 6;\nret;',
           expect=lambda t: 5 if t < 16 else 6)
    f.case('lanes_mixed', 'written in half of the lanes that store', 'setp.lt.u32 %p0, %r0, 16;\n'
           '@%p0 mov.b32 %r9, 5;',
           ['undefined-store: byte 64 of the 128 bytes that parameter'])
    second = 'mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p0, %r1, 0;\n'
    f.case('written_by_the_cta_before', 'the first CTA writes it and ends; registers are not handed on', second +
           '@%p0 bra L;\nmov.b32 %r9, 5;\nret;\nL:', [STORE], grid=2)
    f.case('written_on_one_way', 'the first CTA goes another way to the same store', second +
           '@%p0 bra L;\nmov.b32 %r9, 5;\nbra M;\nL:\n@%p0 add.u32 %r1, %r1, 1;\nM:\n'
           '@%p0 st.global.b32 [%l2], %r9;\nret;', [STORE], grid=2)
    f.case('written_by_a_guarded_move', 'in the first CTA', second + '@!%p0 mov.b32 %r9, 5;\n@!%p0 ret;', [STORE],
           grid=2)
    f.case('written_in_a_loop', 'whose first round reads it', second + 'mov.b32 %r2, 0;\nL:\n'
           '@%p0 st.global.b32 [%l2], %r9;\nmov.b32 %r9, 5;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 2;\n'
           '@%p1 bra L;\nret;', [STORE], grid=2)
    f.case('and_with_zero', 'a defined 0 decides and', 'and.b32 %r1, %u, 0xff00;\nand.b32 %r9, %r1, 0x00ff;',
           expect=lambda t: 0)
    f.case('or_with_ones', 'a defined 1 decides or', 'or.b32 %r9, %u, 0xffffffff;', expect=lambda t: 0xffffffff)
    f.case('and_keeps_a_bit', 'one undefined bit is left', 'and.b32 %r9, %u, 0x8000;', [STORE])
    f.case('lop3_ignores', 'a table that does not look at b', 'lop3.b32 %r9, %r0, %u, 3, 0xa0;',
           expect=lambda t: t & 3)
    f.case('lop3_looks', 'a ^ b', 'lop3.b32 %r9, %r0, %u, 3, 0x3c;', [STORE])
    f.case('shifted_out', 'the undefined half is shifted away', 'mov.b32 %r1, 7;\nmov.b64 %l3, {%r1, %u};\n'
           'shl.b64 %l3, %l3, 32;\nshr.u64 %l3, %l3, 32;\ncvt.u32.u64 %r9, %l3;', expect=lambda t: 7)
    f.case('shift_keeps', 'the undefined half is shifted in', 'mov.b32 %r1, 7;\nmov.b64 %l3, {%r1, %u};\n'
           'shr.u64 %l3, %l3, 16;\ncvt.u32.u64 %r9, %l3;', [STORE])
    f.case('shift_by_undefined', 'the amount', 'shl.b32 %r9, %r0, %u;', [STORE])
    f.case('unpacked', 'the defined half of a pair', 'mov.b32 %r1, 7;\nmov.b64 %l3, {%u, %r1};\n'
           'mov.b64 {%r2, %r9}, %l3;',
           expect=lambda t: 7)
    f.case('bytes_assembled', 'prmt and bfi fill every byte', 'mov.b32 %r1, 0x1122;\nprmt.b32 %r2, %r1, %u, 0x7610;\n'
           'bfi.b32 %r9, 0x3344, %r2, 16, 16;', expect=lambda t: 0x33441122)
    f.case('byte_missing', 'bfi leaves byte 3 as it was', 'mov.b32 %r1, 0x1122;\nprmt.b32 %r2, %r1, %u, 0x7610;\n'
           'bfi.b32 %r9, 0x44, %r2, 16, 8;', [STORE])
    f.case('sign_of_undefined', 'prmt replicates the sign of an undefined byte',
           'prmt.b32 %r9, 0x11223344, %u, 0x3C10;', [STORE])
    f.case('low_sum', 'a sum depends on lower bits only', 'shl.b32 %r1, %u, 8;\nadd.u32 %r2, %r1, 3;\n'
           'and.b32 %r9, %r2, 0xff;',
           expect=lambda t: 3)
    f.case('high_sum', 'and on all of them', 'and.b32 %r1, %u, 1;\nadd.u32 %r2, %r1, 3;\nshr.u32 %r9, %r2, 8;',
           [STORE])
    f.case('carry', 'the condition code is undefined, too', 'add.cc.u32 %r1, %u, 1;\naddc.u32 %r9, 0, 0;', [STORE])
    f.case('half_pairs', 'halves of f16x2 do not touch each other', 'mov.b32 %r1, {%h0, %h1};\n'
           'mov.b32 %r2, 0x3c003c00;\nadd.f16x2 %r3, %r2, %r1;\nand.b32 %r9, %r3, 0xffff;',
           [STORE])
    f.case('half_pairs_apart', 'only the upper one is undefined', 'mov.b16 %h0, 0x3c00;\nmov.b32 %r1, {%h0, %h1};\n'
           'mov.b32 %r2, 0x3c003c00;\nadd.f16x2 %r3, %r2, %r1;\nand.b32 %r9, %r3, 0xffff;',
           expect=lambda t: 0x4000)
    f.case('packed_conversion', 'a is the upper half, b the lower', 'mov.b32 %f0, %u;\n'
           'cvt.rn.f16x2.f32 %r1, %f0, 0f3F800000;\nand.b32 %r9, %r1, 0xffff;', expect=lambda t: 0x3c00)
    f.case('select_defined', 'the side that is taken is defined', 'setp.lt.u32 %p0, %r0, 99;\n'
           'selp.b32 %r9, 5, %u, %p0;',
           expect=five)
    f.case('select_undefined', 'the other one', 'setp.lt.u32 %p0, %r0, 31;\nselp.b32 %r9, 5, %u, %p0;',
           ['undefined-store: byte 124 of the 128 bytes that parameter'])
    f.case('select_by_undefined', 'the condition', 'setp.lt.u32 %p0, %u, 31;\nselp.b32 %r9, 5, 6, %p0;', [STORE])
    f.case('select_equal', 'both sides are the same', 'setp.lt.u32 %p0, %u, 31;\nselp.b32 %r9, 5, 5, %p0;',
           expect=five)
    f.case('relu', 'max of a NaN that nobody wrote', 'mov.b32 %f0, %u;\nmax.f32 %f1, %f0, 0f00000000;\n'
           'mov.b32 %r9, %f1;', [STORE])
    f.case('times_zero', 'it may be infinite', 'mov.b32 %f0, %u;\nmul.rn.f32 %f1, %f0, 0f00000000;\n'
           'mov.b32 %r9, %f1;', [STORE])


def loose(f):
    """Warnings of which there is one for each kind, at the first instruction."""
    one = 'mov.b32 %f0, 0f3F800000;\n'
    f.case('contractible', 'a product that may become part of an fma', one + 'mul.f32 %f1, %f0, %f0;\n'
           'add.f32 %f2, %f1, %f0;\nmov.b32 %r9, %f2;', ['f32-contractible: `mul.f32 %f1, %f0, %f0;`'],
           expect=lambda t: 0x40000000)   # 2
    f.case('flushing', 'subnormals are lost', one + 'fma.rn.ftz.f32 %f1, %f0, %f0, %f0;\nmov.b32 %r9, %f1;',
           ['f32-ftz: subnormal'], expect=lambda t: 0x40000000)
    f.case('approximate', 'the bits belong to the machine', one + 'rcp.approx.f32 %f1, %f0;\nmov.b32 %r9, %f1;',
           ['f32-approx: not the same on every machine'], expect=lambda t: 0x3f800000)
    f.case('not_executed', 'an instruction that no lane executes', one + 'setp.eq.u32 %p0, 1, 2;\n'
           '@%p0 mul.f32 %f0, %f0, %f0;\nmov.b32 %r9, %f0;', expect=lambda t: 0x3f800000)


def predicates(f):
    f.case('guarded_store', 'nobody knows whether it is stored', 'mov.b32 %r9, 5;\n@%up st.global.b32 [%l2], %r9;\n'
           'ret;', [GUARD])
    f.case('branch', 'nobody knows where it goes', 'setp.eq.u32 %p0, %u, 3;\nmov.b32 %r9, 5;\n@%p0 bra L;\n'
           'mov.b32 %r9, 6;\nL:\n'
           'st.global.b32 [%l2], 1;\nret;', [GUARD], expect=lambda t: 1)
    f.case('guarded_move', 'the register holds either value', 'mov.b32 %r9, 5;\n@%up mov.b32 %r9, 6;', [STORE])
    f.case('guarded_move_dropped', 'which does not matter', 'mov.b32 %r9, 5;\n@%up mov.b32 %r8, 6;',
           expect=lambda t: 5)
    f.case('differs_anyway', 'a defined bit decides eq', 'or.b32 %r1, %u, 1;\nsetp.eq.u32 %p0, %r1, 0;\n'
           'selp.b32 %r9, 6, 5, %p0;',
           expect=lambda t: 5)
    f.case('false_and', 'a defined false decides and', 'setp.ne.u32 %p0, 0, 0;\nand.pred %p1, %up, %p0;\n'
           'selp.b32 %r9, 6, 5, %p1;',
           expect=lambda t: 5)
    f.case('false_bool_op', 'also in setp', 'setp.ne.u32 %p0, 0, 0;\nsetp.lt.and.u32 %p1, %u, 9, %p0;\n'
           'selp.b32 %r9, 6, 5, %p1;',
           expect=lambda t: 5)
    f.case('or_pred', 'the other way round it does not', 'setp.ne.u32 %p0, 0, 0;\nor.pred %p1, %up, %p0;\n'
           'selp.b32 %r9, 6, 5, %p1;',
           [STORE])
    f.case('shuffled', 'from a lane that wrote', 'setp.lt.u32 %p0, %r0, 16;\n@%p0 mov.b32 %r1, 5;\n'
           'shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;', expect=lambda t: 5)
    f.case('shuffled_undefined', 'from one that did not', 'setp.lt.u32 %p0, %r0, 16;\n@%p0 mov.b32 %r1, 5;\n'
           'shfl.sync.idx.b32 %r9, %r1, 20, 31, -1;', [STORE])
    f.case('voted', 'one lane decides any', 'setp.eq.u32 %p1, %r0, 0;\n@%p1 mov.pred %up, %p1;\n'
           'vote.sync.any.pred %p2, %up, -1;\n'
           'selp.b32 %r9, 6, 5, %p2;', expect=lambda t: 6)
    f.case('voted_undefined', 'but not all', 'setp.eq.u32 %p1, %r0, 0;\n@%p1 mov.pred %up, %p1;\n'
           'vote.sync.all.pred %p2, %up, -1;\n'
           'selp.b32 %r9, 6, 5, %p2;', [STORE])
    f.case('ballot_bits', 'bit i is of lane i', 'setp.lt.u32 %p0, %r0, 16;\nsetp.lt.u32 %p1, %r0, 4;\n'
           '@%p0 mov.pred %up, %p1;\n'
           'vote.sync.ballot.b32 %r1, %up, -1;\nand.b32 %r9, %r1, 0xffff;', expect=lambda t: 0xf)
    f.case('barrier_count', 'how many threads it waits for', 'and.b32 %r1, %u, 0;\nadd.u32 %r1, %r1, 32;\n'
           'and.b32 %r2, %u, 0x20;\n'
           'or.b32 %r2, %r2, 32;\nand.b32 %r3, %u, 0;\nbar.sync %r3, %r1;\nmov.b32 %r9, 5;', expect=lambda t: 5)
    f.case('address', 'a load from nowhere', 'and.b32 %r1, %u, 4;\ncvt.u64.u32 %l3, %r1;\nadd.u64 %l3, %l0, %l3;\n'
           'ld.global.b32 %r1, [%l3];\nst.global.b32 [%l2], 5;\nret;', [ADDRESS], ins=[1, 2])


def memory(f):
    base = 'mov.u32 %r10, smem;\nmad.lo.u32 %r11, %r0, 4, %r10;\n'
    f.case('shared_written', 'written and read', base + 'st.shared.b32 [%r11], %r0;\nld.shared.b32 %r9, [%r11];',
           shared=256,
           expect=lambda t: t)
    f.case('shared_unwritten', 'never written', base + 'ld.shared.b32 %r9, [%r11];', [STORE], shared=256)
    f.case('shared_half', 'a vector of which half is written, and the written half is used',
           'mov.u32 %r10, smem;\nmad.lo.u32 %r11, %r0, 8, %r10;\nst.shared.b32 [%r11+4], %r0;\n'
           'ld.shared.v2.b32 {%r8, %r9}, [%r11];', shared=256, expect=lambda t: t)
    f.case('shared_bytes', 'bytes put together', base + 'st.shared.b8 [%r11], 1;\nst.shared.b8 [%r11+1], 2;\n'
           'st.shared.b16 [%r11+2], 0x403;\nld.shared.b32 %r9, [%r11];', shared=256, expect=lambda t: 0x04030201)
    f.case('shared_byte_missing', 'but for one', base + 'st.shared.b8 [%r11], 1;\nst.shared.b16 [%r11+2], 0x403;\n'
           'ld.shared.b32 %r9, [%r11];', [STORE], shared=256)
    f.case('shared_overwritten', 'an undefined value over a defined one', base + 'st.shared.b32 [%r11], %r0;\n'
           'st.shared.b32 [%r11], %u;\nld.shared.b32 %r9, [%r11];', [STORE], shared=256)
    f.case('generic', 'through a generic address', base + 'cvta.shared.u64 %l3, 0;\ncvt.u64.u32 %l4, %r11;\n'
           'add.u64 %l3, %l3, %l4;\n'
           'st.b32 [%l3], %r0;\nld.shared.b32 %r9, [%r11];', shared=256, expect=lambda t: t)
    f.case('shared_atomic', 'an atomic operation on what nobody wrote',
           base + 'atom.shared.add.u32 %r9, [%r11], 1;', [STORE], shared=256)
    f.case('shared_exchange', 'an exchange defines it', base + 'atom.shared.exch.b32 %r8, [%r11], 5;\n'
           'ld.shared.b32 %r9, [%r11];',
           shared=256, expect=lambda t: 5)
    f.case('global_unwritten', 'the output was never written', 'ld.global.b32 %r1, [%l2];\nadd.u32 %r9, %r1, 1;',
           [STORE])
    f.case('global_written', 'by the kernel itself', 'st.global.b32 [%l2], 4;\nld.global.b32 %r1, [%l2];\n'
           'add.u32 %r9, %r1, 1;',
           expect=lambda t: 5)
    f.case('global_reduction', 'adding to what nobody wrote', 'red.global.add.u32 [%l2], 1;\nret;',
           ['undefined-read: an atomic operation on global memory'])
    f.case('global_atomic_operand', 'adding what nobody wrote', 'st.global.b32 [%l2], 4;\n'
           'red.global.add.u32 [%l2], %u;\nret;',
           ['undefined-store: an atomic operation stores an undefined value'])
    f.case('local_memory', 'local, half of it', '.local .align 8 .b8 frame[8];\nmov.b32 %r1, 5;\n'
           'st.local.b32 [frame], %r1;\n'
           'ld.local.b32 %r9, [frame];', expect=lambda t: 5)
    f.case('local_unwritten', 'the other half', '.local .align 8 .b8 frame[8];\nmov.b32 %r1, 5;\n'
           'st.local.b32 [frame], %r1;\n'
           'ld.local.b32 %r9, [frame+4];', [STORE])
    f.case('copy_async', 'cp.async fills with zeros what it does not copy', base + 'cvt.u64.u32 %l3, 0;\n'
           'add.u64 %l3, %l3, %l0;\n'
           'mad.lo.u32 %r11, %r0, 8, %r10;\ncp.async.ca.shared.global [%r11], [%l3], 8, 4;\ncp.async.wait_all;\n'
           'ld.shared.v2.b32 {%r1, %r2}, [%r11];\nadd.u32 %r9, %r1, %r2;', shared=256, ins=[5, 6], expect=lambda t: 5)
    f.case('matrix_rows', 'ldmatrix and mma: row 3 of A is undefined, the others are stored',
           'mov.u32 %r10, smem;\nmad.lo.u32 %r11, %r0, 16, %r10;\nsetp.ne.u32 %p0, %r0, 3;\nmov.b32 %r1, 0;\n'
           '@%p0 st.shared.v4.b32 [%r11], {%r1, %r1, %r1, %r1};\nbar.sync 0;\n'
           'ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r11];\n'
           'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r2, %r3, %r4, %r5}, {%r1, %r1}, '
           '{0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000};\nshr.u32 %r7, %r0, 2;\nsetp.ne.u32 %p0, %r7, 3;\n'
           'mov.b32 %r9, %f2;\n'
           '@%p0 mov.b32 %r9, %f0;', shared=512, expect=lambda t: 0x3f800000)
    f.case('matrix_row', 'that row, too',
           'mov.u32 %r10, smem;\nmad.lo.u32 %r11, %r0, 16, %r10;\nsetp.ne.u32 %p0, %r0, 3;\nmov.b32 %r1, 0;\n'
           '@%p0 st.shared.v4.b32 [%r11], {%r1, %r1, %r1, %r1};\nbar.sync 0;\n'
           'ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r11];\n'
           'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r2, %r3, %r4, %r5}, {%r1, %r1}, '
           '{0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000};\nmov.b32 %r9, %f0;', [STORE], shared=512)
    f.case('matrix_column', 'column 5 of B is undefined',
           'shr.u32 %r7, %r0, 2;\nsetp.ne.u32 %p0, %r7, 5;\nmov.b32 %r1, 0;\n@%p0 mov.b32 %r2, 0;\n'
           'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r2}, '
           '{0f3F800000, 0f3F800000, 0f3F800000, 0f3F800000};\nand.b32 %r7, %r0, 3;\nsetp.ne.u32 %p0, %r7, 2;\n'
           'mov.b32 %r9, %f2;\n'
           '@%p0 mov.b32 %r9, %f1;', expect=lambda t: 0x3f800000)
    f.case('call_results', 'arguments and results of a function keep it', '{\n.param .b32 a;\n.param .b32 r;\n'
           'st.param.b32 [a], %u;\n'
           'call (r), twice, (a);\nld.param.b32 %r9, [r];\n}', [STORE],
           before='.func (.param .b32 r) twice(.param .b32 a)\n{\n    .reg .b32 %r<3>;\n    ld.param.b32 %r1, [a];\n'
           '    add.u32 %r2, %r1, %r1;\n    st.param.b32 [r], %r2;\n    ret;\n}\n')


# Operands without swizzle: 8 rows of 16 bytes together, the other 16 bytes of K behind them.
COPY = """
mov.u32 %r10, smem;
mov.b32 %r1, %r0;
FILL:
setp.ge.u32 %p0, %r1, {words};
@%p0 bra FILLED;
shr.u32 %r2, %r1, 2;
and.b32 %r2, %r2, 7;
shr.u32 %r3, %r1, 6;
setp.eq.u32 %p1, %r3, 0;
setp.eq.and.u32 %p1, %r2, 3, %p1;
setp.eq.u32 %p2, %r3, {b_group};
setp.eq.and.u32 %p2, %r2, 5, %p2;
or.pred %p1, %p1, %p2;
mad.lo.u32 %r4, %r1, 4, %r10;
@!%p1 st.shared.b32 [%r4], 0x38383838;
add.u32 %r1, %r1, {threads};
bra FILL;
FILLED:
fence.proxy.async.shared::cta;
bar.sync 0;
"""


def wgmma(f):
    start = COPY.format(words=576, b_group=8, threads=128) + """
cvt.u64.u32 %l3, %r10;
shr.u64 %l3, %l3, 4;
or.b64 %l3, %l3, 0x0000001000080000;
add.u64 %l4, %l3, 128;
setp.ne.u32 %p3, 0, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %l3, %l4, %p3, 1, 1;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
mov.b32 %r9, %f2;
shr.u32 %r7, %r0, 2;
and.b32 %r8, %r0, 3;
setp.ne.u32 %p4, %r7, 3;
"""
    thirty_two = lambda t: 0x42000000
    f.case('wgmma_row', 'row 3 of A is undefined', start + '@%p4 mov.b32 %r9, %f0;', shared=2304, block=128,
           expect=thirty_two)
    f.case('wgmma_row_stored', 'and stored', start + 'mov.b32 %r9, %f0;', [STORE], shared=2304, block=128)
    f.case('wgmma_column', 'column 5 is row 5 of B', start + 'setp.ne.and.u32 %p4, %r8, 2, %p4;\n'
           '@%p4 mov.b32 %r9, %f1;',
           shared=2304, block=128, expect=thirty_two)
    f.case('wgmma_column_stored', 'and stored', start + '@%p4 mov.b32 %r9, %f1;', [STORE], shared=2304, block=128)
    second = start.replace('setp.ne.u32 %p3, 0, 0;', 'mov.u32 %r7, %ctaid.x;\nsetp.ne.u32 %p3, %r7, 0;')
    f.case('wgmma_sum_of_the_cta_before', 'the second CTA adds to accumulators that only the first one has written',
           second + '@!%p3 ret;', [STORE], shared=2304, block=128, grid=2)
    f.case('wgmma_sum_without_a_predicate', 'scale-d is 1', start.replace('%p3, 1, 1;', '1, 1, 1;'), [STORE],
           shared=2304, block=128)
    bulk = """
mov.u32 %r10, smem;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra WAIT;
mbarrier.init.shared::cta.b64 [%r10], 1;
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], {bytes};
{copy}
WAIT:
bar.sync 0;
POLL:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;
@!%p1 bra POLL;
"""
    bulk_copy = ('add.u32 %r11, %r10, 128;\n'
                 'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [{}], 64, [%r10];')
    f.case('bulk_load', 'defined as the bytes in global memory', bulk.format(bytes=64,
           copy=bulk_copy.format('%l0')) +
           'and.b32 %r1, %r0, 15;\nmad.lo.u32 %r11, %r1, 4, %r10;\nld.shared.b32 %r9, [%r11+128];', shared=256,
           ins=list(range(16)),
           expect=lambda t: t & 15)
    f.case('bulk_load_unwritten', 'which nobody wrote', bulk.format(bytes=64,
           copy=bulk_copy.format('%l1')) +
           'and.b32 %r1, %r0, 15;\nmad.lo.u32 %r11, %r1, 4, %r10;\nld.shared.b32 %r9, [%r11+128];', [STORE],
           shared=256)
    tensor = bulk.format(bytes=128, copy='mov.b64 %l5, p2;\ncvta.param.u64 %l5, %l5;\nadd.u32 %r11, %r10, 128;\n'
    'cp.async.bulk.tensor.2d.shared::cluster.global.'
                         'mbarrier::complete_tx::bytes [%r11], [%l5, {{{x}, 0}}], [%r10];'.replace('{{',
                         '{').replace('}}', '}'))
    fetch = 'mad.lo.u32 %r11, %r0, 4, %r10;\nld.shared.b32 %r9, [%r11+128];'
    f.case('tensor_load_filled', 'the box reaches beyond the tensor, where zeros are filled in',
           tensor.replace('{x}', '4') + fetch, shared=256, ins=list(range(32)),
           maps='buffer=0 type=2 rank=2 dims=8,4 strides=32 box=8,4 swizzle=0',
           expect=lambda t: t + 4 if t % 8 < 4 else 0)
    f.case('tensor_load_unwritten', 'the tensor was never written', tensor.replace('{x}', '0') + fetch, [STORE],
           shared=256,
           maps='buffer=0 type=2 rank=2 dims=8,4 strides=32 box=8,4 swizzle=0')
    store = """
mov.b64 %l5, p2;
cvta.param.u64 %l5, %l5;
mov.u32 %r10, smem;
mad.lo.u32 %r11, %r0, 4, %r10;
and.b32 %r1, %r0, 7;
setp.lt.u32 %p1, %r1, 4;
@%p1 st.shared.b32 [%r11], %r0;
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra DONE;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%l5, {{{x}, 0}}], [%r10];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
ret;
"""
    f.case('tensor_store_clipped', 'the undefined half of the box lies outside the tensor', store.format(x=4),
           shared=256,
           maps='buffer=0 type=2 rank=2 dims=8,4 strides=32 box=8,4 swizzle=0',
           expect=lambda t: 0xa5a5a5a5 if t % 8 < 4 else t - 4)
    f.case('tensor_store', 'and here inside', store.format(x=0),
           ['undefined-store: an undefined byte of shared memory is stored'], shared=256,
           maps='buffer=0 type=2 rank=2 dims=8,4 strides=32 box=8,4 swizzle=0')
    f.case('coordinate', 'where a tensor copy begins', store.format(x='%r12').replace('@%p0 bra',
           'and.b32 %r12, %u, 4;\n@%p0 bra').replace('@%p1 st', 'st'), [OPERAND], shared=256,
           maps='buffer=0 type=2 rank=2 dims=8,4 strides=32 box=8,4 swizzle=0')
    f.case('mbarrier_parity', 'which phase is waited for', """
mov.u32 %r10, smem;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra WAIT;
mbarrier.init.shared::cta.b64 [%r10], 1;
mbarrier.arrive.shared::cta.b64 _, [%r10];
WAIT:
bar.sync 0;
and.b32 %r1, %u, 1;
mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r10], %r1;
st.global.b32 [%l2], 5;
ret;""", [OPERAND], shared=256)


def tcgen05(f):
    head = """
mov.u32 %r10, smem;
add.u32 %r12, %r10, 8192;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r12], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
bar.sync 0;
ld.shared.b32 %r13, [%r12];
"""
    tail = """
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r13, 32;
st.global.b32 [%l2], %r9;
ret;"""
    f.case('tmem_unwritten', 'columns that were only allocated',
           head + 'tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r13];\n'
           'tcgen05.wait::ld.sync.aligned;' + tail, [STORE], shared=9216)
    f.case('tmem_stored', 'written with tcgen05.st',
           head + 'tcgen05.st.sync.aligned.32x32b.x2.b32 [%r13], {%r0, %u};\n'
           'tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%r13];\n'
           'tcgen05.wait::ld.sync.aligned;' + tail, shared=9216, expect=lambda t: t)
    f.case('tmem_used_before_wait', 'moved, packed and added before tcgen05.wait::ld: a true register dependency',
           head + 'tcgen05.st.sync.aligned.32x32b.x2.b32 [%r13], {%r0, %r0};\n'
           'tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%r8, %r9}, [%r13];\n'
           'mov.b64 %l3, {%r8, %r9};\nmov.b64 {%r8, %r14}, %l3;\nadd.u32 %r9, %r8, %r14;\n'
           'tcgen05.wait::ld.sync.aligned;' + tail, shared=9216, expect=lambda t: 2 * t)
    f.case('tmem_stored_undefined', 'with an undefined register',
           head + 'tcgen05.st.sync.aligned.32x32b.x2.b32 [%r13], {%r0, %u};\n'
           'tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%r8, %r9}, [%r13];\n'
           'tcgen05.wait::ld.sync.aligned;' + tail, [STORE], shared=9216)
    multiply = head + COPY.format(words=1088, b_group=16, threads=32) + """
cvt.u64.u32 %l3, %r10;
shr.u64 %l3, %l3, 4;
or.b64 %l3, %l3, 0x0000401000080000;
add.u64 %l4, %l3, 256;
add.u32 %r14, %r12, 64;
setp.ne.u32 %p3, 0, 0;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra ISSUED;
mbarrier.init.shared::cta.b64 [%r14], 1;
fence.mbarrier_init.release.cluster;
tcgen05.mma.cta_group::1.kind::f8f6f4 [%r13], %l3, %l4, 0x08020010, %p3;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r14];
ISSUED:
bar.sync 0;
POLL:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r14], 0;
@!%p1 bra POLL;
tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r13];
tcgen05.wait::ld.sync.aligned;
"""
    thirty_two = lambda t: 0x42000000
    f.case('tcgen05_defined', 'row 3 of A and row 5 of B are undefined; another cell is stored', multiply +
           'mov.b32 %r9, 0x42000000;\nsetp.ne.u32 %p0, %r0, 3;\n@%p0 mov.b32 %r9, %r5;' + tail, shared=9216,
           expect=thirty_two)
    # 0x3838 is 135 / 256 as f16. B is [k][n] in core matrices of 8 x 8, 128 bytes from one to the next along n and 256
    # along k, and ends where the defined bytes end.
    f.case('tcgen05_mn_major', 'B is MN-major and of 16 bits; row 3 of A is undefined; another cell is stored',
           multiply.replace('kind::f8f6f4', 'kind::f16').replace('0x08020010', '0x08050010')
           .replace('%r3, 16;', '%r3, 99;').replace('%r1, 1088;', '%r1, 1152;')
           .replace('add.u64 %l4, %l3, 256;', 'add.u64 %l4, %l3, 256;\nxor.b64 %l4, %l4, 0x0000001800180000;') +
           'mov.b32 %r9, 0x408e6200;\nsetp.ne.u32 %p0, %r0, 3;\n@%p0 mov.b32 %r9, %r5;' + tail, shared=9216,
           expect=lambda t: 0x408e6200)
    f.case('tcgen05_row', 'lane 3 is row 3 of A', multiply + 'mov.b32 %r9, %r5;' + tail, [STORE], shared=9216)
    f.case('tcgen05_column', 'column 5 is row 5 of B', multiply + 'mov.b32 %r9, 0x42000000;\n'
           'setp.ne.u32 %p0, %r0, 3;\n'
           '@%p0 mov.b32 %r9, %r6;' + tail, [STORE], shared=9216)


def main():
    folder = pathlib.Path(sys.argv[1])
    plain = File('check_definedness_80.ptx', 'sm_80')
    registers(plain)
    predicates(plain)
    loose(plain)
    memory(plain)
    plain.write(folder)
    hopper = File('check_definedness_90a.ptx', 'sm_90a')
    wgmma(hopper)
    hopper.write(folder)
    blackwell = File('check_definedness_100f.ptx', 'sm_100f')
    tcgen05(blackwell)
    blackwell.write(folder)


main()
