#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_matrix_cases.py FOLDER writes matrix_*.ptx: tensor cores, Tensor Memory, tensor copies, and what they must give.

The models here know the manual's layouts and the tensor cores' fixed-window arithmetic (docs/emulator-reference.md) in
integers; they know nothing of the emulator. Every run writes the same bytes.
"""

import functools
import pathlib
import random
import struct
import sys

from make_cases import BF16, E4M3, E5M2, F16, F32, TF32, File, mask, signed

rng = random.Random(20251130)

SILICON = 'independent model of the fixed-window rule, confirmed bit for bit on an H200'
WINDOW = 'independent model of the fixed-window rule'
LAYOUT = 'manual, layout formulas'

# ---- numbers: value = mantissa * 2^exponent, and the raw exponent that the window looks at ----


@functools.cache
def parts(code, fmt):
    """(signed mantissa, exponent of its unit, raw exponent), or 'nan', '+inf', '-inf'."""
    v = fmt.value(code)
    if isinstance(v, str):
        return v
    exponent = code >> fmt.f & mask(fmt.e)
    fraction = code & mask(fmt.f)
    raw = max(exponent, 1) - fmt.bias
    m = fraction if exponent == 0 else fraction | 1 << fmt.f
    return (-m if fmt.sign(code) else m), raw - fmt.f, raw


def truncate(m, e, unit):
    """m * 2^e, toward zero, in units of 2^unit."""
    if e >= unit:
        return m << (e - unit)
    return (abs(m) >> (unit - e)) * (1 if m >= 0 else -1)


def to_f32(m, e, bits):
    """m * 2^e toward zero with `bits` fraction bits."""
    if m == 0:
        return 0
    sign, a = (1, -m) if m < 0 else (0, m)
    top = a.bit_length() - 1 + e
    unit = max(top - bits, -149)
    a = a >> (unit - e) if unit >= e else a << (e - unit)
    if top > 127:
        return sign << 31 | 0x7F800000
    if top < -126:
        return sign << 31 | (a << (unit + 149))
    a <<= 23 - (top - unit)
    return sign << 31 | (top + 127) << 23 | (a & mask(23))


def fused(a, b, fa, fb, c, window, bits, out=F32):
    """One step: sum of a[i] * b[i], plus c unless it is None."""
    terms, special = [], set()
    for x, y in zip(a, b):
        p, q = parts(x, fa), parts(y, fb)
        if isinstance(p, str) or isinstance(q, str):
            zero = (not isinstance(p, str) and p[0] == 0) or (not isinstance(q, str) and q[0] == 0)
            if p == 'nan' or q == 'nan' or zero:
                special.add('nan')
            else:
                special.add('-inf' if fa.sign(x) != fb.sign(y) else '+inf')
            continue
        if p[0] and q[0]:
            terms.append((p[0] * q[0], p[1] + q[1], p[2] + q[2]))
    if c is not None:
        v = parts(c, out)
        if isinstance(v, str):
            special.add(v)
        elif v[0]:
            terms.append(v)
    if special:
        if 'nan' in special or len(special) > 1:
            return out.nan_code
        return out.inf_code | (1 << (out.width - 1) if special == {'-inf'} else 0)
    if not terms:
        return 0
    unit = max(t[2] for t in terms) - window
    total = sum(truncate(m, e, unit) for m, e, _ in terms)
    if out is F32:
        return to_f32(total, unit, bits)
    from fractions import Fraction

    return out.round(Fraction(total) * Fraction(2) ** unit)


def integer_dot(a, b, sa, sb, c, saturate=False):
    total = sum((signed(x, 8) if sa else x) * (signed(y, 8) if sb else y) for x, y in zip(a, b)) + signed(c, 32)
    if saturate:
        total = max(-(1 << 31), min((1 << 31) - 1, total))
    return total & mask(32)


FORMATS = {'f16': F16, 'bf16': BF16, 'tf32': TF32, 'e4m3': E4M3, 'e5m2': E5M2}
BITS = {'f16': 16, 'bf16': 16, 'tf32': 32, 'e4m3': 8, 'e5m2': 8, 's8': 8, 'u8': 8}


def code(t, spread=None):
    """A random finite code; tf32 as its 32-bit pattern."""
    if t in ('s8', 'u8'):
        return rng.getrandbits(8)
    fmt = FORMATS[t]
    width = 19 if t == 'tf32' else fmt.width
    while True:
        c = rng.getrandbits(width)
        if spread is not None:
            e = max(0, min(mask(fmt.e) - 1, fmt.bias + rng.randint(-spread, spread)))
            c = c & ~(mask(fmt.e) << fmt.f) | e << fmt.f
        if not isinstance(fmt.value(c), str):
            return c << 13 if t == 'tf32' else c


def model_code(t, c):
    return c >> 13 if t == 'tf32' else c


def spread_of(t):
    return {'f16': 8, 'bf16': 12, 'tf32': 12}.get(t)


def element(t, a, b, ta, tb, c, dt, window, bits, saturate=False):
    if dt == 's32':
        return integer_dot(a, b, ta == 's8', tb == 's8', 0 if c is None else c, saturate)
    out = F16 if dt == 'f16' else F32
    fa, fb = FORMATS[ta], FORMATS[tb]
    return fused([model_code(ta, v) for v in a], [model_code(tb, v) for v in b], fa, fb, c, window, bits, out)


def hexes(values, width=8):
    return ' '.join('%0*x' % (width, v) for v in values)


def words(data):
    return list(struct.unpack('<%dI' % (len(data) // 4), bytes(data)))


# ---- mma.sync ----


def mma_sync(f):
    shapes = []
    for t in ('f16', 'bf16'):
        shapes += [(t, t, 16, 'f32'), (t, t, 8, 'f32')]
    shapes += [
        ('f16', 'f16', 16, 'f16'),
        ('f16', 'f16', 8, 'f16'),
        ('tf32', 'tf32', 8, 'f32'),
        ('tf32', 'tf32', 4, 'f32'),
    ]
    shapes += [(x, y, k, 's32') for x in ('s8', 'u8') for y in ('s8', 'u8') for k in (16, 32)]
    for ta, tb, k, dt in shapes:
        bits = BITS[ta]
        per = 32 // bits
        a = [[code(ta, spread_of(ta)) for _ in range(k)] for _ in range(16)]
        b = [[code(tb, spread_of(tb)) for _ in range(k)] for _ in range(8)]
        if dt == 's32':
            c = [[rng.getrandbits(32) >> rng.choice([0, 12]) for _ in range(8)] for _ in range(16)]
        else:
            c = [
                [code('f16', 6) if dt == 'f16' else code('tf32', 10) | rng.getrandbits(13) for _ in range(8)]
                for _ in range(16)
            ]
        a_count, b_count = 16 * k * bits // 1024, 8 * k * bits // 1024

        def pack(row, at):
            return sum(row[at + e] << (e * bits) for e in range(per))

        ins = []
        for r in range(a_count):
            ins.append([pack(a[t // 4 + 8 * (r & 1)], (r >> 1) * 4 * per + t % 4 * per) for t in range(32)])
        for r in range(b_count):
            ins.append([pack(b[t // 4], r * 4 * per + t % 4 * per) for t in range(32)])
        n = 2 if dt == 'f16' else 4
        for r in range(n):
            if dt == 'f16':
                ins.append(
                    [c[t // 4 + 8 * r][2 * (t % 4)] | c[t // 4 + 8 * r][2 * (t % 4) + 1] << 16 for t in range(32)]
                )
            else:
                ins.append([c[t // 4 + 8 * (r >> 1)][2 * (t % 4) + (r & 1)] for t in range(32)])
        for sat in (['', '.satfinite'] if dt == 's32' else ['']):
            d = [[element(ta, a[i], b[j], ta, tb, c[i][j], dt, 25, 23, bool(sat)) for j in range(8)] for i in range(16)]
            outs = []
            for r in range(n):
                if dt == 'f16':
                    outs.append(
                        [d[t // 4 + 8 * r][2 * (t % 4)] | d[t // 4 + 8 * r][2 * (t % 4) + 1] << 16 for t in range(32)]
                    )
                else:
                    outs.append([d[t // 4 + 8 * (r >> 1)][2 * (t % 4) + (r & 1)] for t in range(32)])
            from make_cases import NAMES_IN, NAMES_OUT

            names = NAMES_IN[: len(ins)]
            body = 'mma.sync.aligned.m16n8k%d.row.col%s.%s.%s.%s.%s {%s}, {%s}, {%s}, {%s};' % (
                k,
                sat,
                dt,
                ta,
                tb,
                dt,
                ', '.join(NAMES_OUT[:n]),
                ', '.join(names[:a_count]),
                ', '.join(names[a_count : a_count + b_count]),
                ', '.join(names[a_count + b_count :]),
            )
            f.case(
                body,
                [('b32', v) for v in ins],
                [('b32', v) for v in outs],
                SILICON,
                'mma_m16n8k%d%s_%s_%s_%s' % (k, sat.replace('.', '_'), dt, ta, tb),
            )


# ---- ldmatrix, stmatrix ----


def matrices(f):
    for trans in ('', '.trans'):
        for n in (1, 2, 4):
            cells = [[[rng.getrandbits(16) for _ in range(8)] for _ in range(8)] for _ in range(n)]
            image = [
                cells[i][r][c] | cells[i][r][c + 1] << 16 for i in range(n) for r in range(8) for c in (0, 2, 4, 6)
            ]
            image += [0] * (128 - len(image))
            fragment = []
            for i in range(n):
                for t in range(32):
                    r, c = t // 4, 2 * (t % 4)
                    pair = (cells[i][c][r], cells[i][c + 1][r]) if trans else (cells[i][r][c], cells[i][r][c + 1])
                    fragment.append(pair[0] | pair[1] << 16)
            regs = ', '.join('%%r%d' % (20 + i) for i in range(n))
            store = '\n'.join('st.global.b32 [%%l4+%d], %%r%d;' % (128 * i, 20 + i) for i in range(n))
            f.program(
                'ldmatrix_x%d%s' % (n, trans.replace('.', '_')),
                LAYOUT,
                ['in b32: ' + hexes(image), 'out b32: ' + hexes(fragment)],
                '''
ld.param.u64 %%l0, [p0];
ld.param.u64 %%l1, [p1];
mov.u32 %%r0, %%tid.x;
mad.wide.u32 %%l2, %%r0, 16, %%l0;
mad.wide.u32 %%l4, %%r0, 4, %%l1;
ld.global.v4.b32 {%%r1, %%r2, %%r3, %%r4}, [%%l2];
shl.b32 %%r5, %%r0, 4;
mov.u32 %%r6, tile;
add.u32 %%r6, %%r6, %%r5;
st.shared.v4.b32 [%%r6], {%%r1, %%r2, %%r3, %%r4};
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [%%r6];
%s''' % (n, trans, regs, store),
                registers='.shared .align 16 .b8 tile[512];',
            )
            load = '\n'.join('ld.global.b32 %%r%d, [%%l4+%d];' % (20 + i, 128 * i) for i in range(n))
            f.program(
                'stmatrix_x%d%s' % (n, trans.replace('.', '_')),
                LAYOUT,
                ['in b32: ' + hexes(fragment), 'out b32: ' + hexes(image)],
                '''
ld.param.u64 %%l0, [p0];
ld.param.u64 %%l1, [p1];
mov.u32 %%r0, %%tid.x;
mad.wide.u32 %%l2, %%r0, 16, %%l1;
mad.wide.u32 %%l4, %%r0, 4, %%l0;
%s
shl.b32 %%r5, %%r0, 4;
mov.u32 %%r6, tile;
add.u32 %%r6, %%r6, %%r5;
mov.b32 %%r1, 0;
st.shared.v4.b32 [%%r6], {%%r1, %%r1, %%r1, %%r1};
bar.sync 0;
stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r6], {%s};
bar.sync 0;
ld.shared.v4.b32 {%%r1, %%r2, %%r3, %%r4}, [%%r6];
st.global.v4.b32 [%%l2], {%%r1, %%r2, %%r3, %%r4};''' % (load, n, trans, regs),
                registers='.shared .align 16 .b8 tile[512];',
            )


# ---- matrix operands in shared memory ----


def swizzle(address, span):
    return address ^ ((address >> 7 & {0: 0, 32: 1, 64: 3, 128: 7}[span]) << 4)


def operand_image(rows, row_bytes, span, base):
    """Bytes of a K-major operand [rows][row_bytes] that begins at address `base` (a multiple of 128), and its
    leading and stride offsets. Swizzled: row_bytes == span, eight rows follow each other; else core matrices of
    8 x 16 bytes."""
    k_bytes = len(rows[0])
    image = bytearray(len(rows) * row_bytes)
    for r, row in enumerate(rows):
        for k in range(k_bytes):
            if span:
                at = swizzle(base + r // 8 * 8 * span + r % 8 * span + k, span) - base
            else:
                at = r // 8 * 8 * row_bytes + r % 8 * 16 + k // 16 * 128 + k % 16
            image[at] = row[k]
    return image, 128, 8 * (span or row_bytes)


COPY_IN = '''
ld.param.u64 %%l0, [p0];
ld.param.u64 %%l1, [p1];
mov.u32 %%r0, %%tid.x;
mov.u32 %%r10, smem;
mov.u32 %%r1, %%r0;
COPY:
setp.ge.u32 %%p0, %%r1, %d;
@%%p0 bra COPIED;
mad.wide.u32 %%l2, %%r1, 4, %%l0;
ld.global.b32 %%r2, [%%l2];
shl.b32 %%r3, %%r1, 2;
add.u32 %%r3, %%r3, %%r10;
st.shared.b32 [%%r3], %%r2;
add.u32 %%r1, %%r1, 128;
bra COPY;
COPIED:
fence.proxy.async.shared::cta;
bar.sync 0;
'''


def matrix_rows(t, rows, k):
    """Codes [rows][k] and their bytes."""
    codes = [[code(t, spread_of(t)) for _ in range(k)] for _ in range(rows)]
    size = BITS[t] // 8
    return codes, [b''.join(c.to_bytes(size, 'little') for c in row) for row in codes]


def wgmma(f):
    # shift: bytes by which both operands begin behind a multiple of 1024: the swizzle is one of addresses.
    def add(ta, tb, dt, n, steps, span, registers=False, c_start=True, negate=(1, 1), shift=0):
        bits = BITS[ta]
        k = 256 // bits
        span_bytes = 32 * steps if not span else span
        a, a_bytes = matrix_rows(ta, 64, k * steps)
        b, b_bytes = matrix_rows(tb, n, k * steps)
        a_image, lbo, sbo = operand_image(a_bytes, span_bytes, span, shift)
        b_image, _, _ = operand_image(b_bytes, span_bytes, span, shift)
        a_image = bytes(shift) + a_image
        a_image += bytes(-len(a_image) % 1024)
        offset_b = len(a_image)
        a_image += bytes(shift)
        image = words(a_image + b_image)
        window, fraction = (13, 13) if ta[0] == 'e' else (25, 23)
        d = []
        sign = {'f16': 0x8000, 'bf16': 0x8000, 'tf32': 1 << 31, 'e4m3': 128, 'e5m2': 128}
        for i in range(64):
            line = []
            for j in range(n):
                c = None
                for s in range(steps):
                    x, y = a[i][s * k : s * k + k], b[j][s * k : s * k + k]
                    if negate[0] < 0:
                        x = [v ^ sign[ta] for v in x]
                    if negate[1] < 0:
                        y = [v ^ sign[tb] for v in y]
                    c = element(ta, x, y, ta, tb, c, dt, window, fraction)
                line.append(c)
            d.append(line)
        count = n // 4 if dt == 'f16' else n // 2
        out = []
        for r in range(count):
            for t in range(128):
                w, lane = t // 32, t % 32
                if dt == 'f16':
                    row, col = 16 * w + lane // 4 + 8 * (r & 1), 8 * (r >> 1) + 2 * (lane % 4)
                    out.append(d[row][col] | d[row][col + 1] << 16)
                else:
                    row, col = 16 * w + lane // 4 + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (lane % 4) + (r & 1)
                    out.append(d[row][col])
        swizzle_code = {0: 0, 128: 1, 64: 2, 32: 3}[span]
        constant = swizzle_code << 62 | (sbo >> 4) << 32 | (lbo >> 4) << 16
        body = COPY_IN % len(image)
        body += 'cvt.u64.u32 %%l5, %%r10;\nshr.u64 %%l6, %%l5, 4;\nor.b64 %%l7, %%l6, 0x%x;\n' % constant
        body += 'add.u64 %%l8, %%l7, %d;\n' % ((offset_b + shift) >> 4)
        if shift:
            body += 'add.u64 %%l7, %%l7, %d;\n' % (shift >> 4)
        if registers:
            # The fragment straight from the image: K-major rows, no swizzle in what is read here.
            for s in range(steps):
                for r in range(4):
                    body += '''
and.b32 %%r11, %%r0, 31;
shr.u32 %%r12, %%r0, 5;
shl.b32 %%r12, %%r12, 4;
shr.u32 %%r13, %%r11, 2;
add.u32 %%r12, %%r12, %%r13;
add.u32 %%r12, %%r12, %d;
and.b32 %%r13, %%r11, 3;
shl.b32 %%r13, %%r13, 2;
shr.u32 %%r14, %%r12, 3;
mul.lo.u32 %%r14, %%r14, %d;
and.b32 %%r15, %%r12, 7;
shl.b32 %%r15, %%r15, 4;
add.u32 %%r14, %%r14, %%r15;
add.u32 %%r14, %%r14, %%r13;
add.u32 %%r14, %%r14, %%r10;
ld.shared.b32 %%a%d, [%%r14+%d];
''' % (8 * (r & 1), sbo, 4 * s + r, (32 * s + 16 * (r >> 1)) // 16 * 128)
        body += 'wgmma.fence.sync.aligned;\n'
        trans = ', 0, 0' if bits == 16 and not registers else ', 0' if bits == 16 else ''
        scales = '' if dt == 's32' else ', %d, %d' % negate
        regs = ', '.join('%%d%d' % i for i in range(count))
        for s in range(steps):
            step = (32 * s if span else 2 * s * 128) >> 4
            body += 'add.u64 %%l9, %%l7, %d;\nadd.u64 %%l10, %%l8, %d;\n' % (step, step)
            operand = '{%s}' % ', '.join('%%a%d' % (4 * s + i) for i in range(4)) if registers else '%l9'
            body += 'wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {%s}, %s, %%l10, %s%s%s;\n' % (
                n,
                k,
                dt,
                ta,
                tb,
                regs,
                operand,
                '%p1' if s else '%p2',
                scales,
                trans,
            )
        body += 'wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n'
        body += 'mad.wide.u32 %l11, %r0, 4, %l1;\n'
        for r in range(count):
            body += 'st.global.b32 [%%l11+%d], %%d%d;\n' % (512 * r, r)
        # scale-d is a predicate: %p1 true, %p2 false.
        body = 'setp.eq.u32 %p1, 0, 0;\nsetp.ne.u32 %p2, 0, 0;\n' + body
        name = 'wgmma_m64n%dk%d_%s_%s_%s_%s%s%s%s' % (
            n,
            k,
            dt,
            ta,
            tb,
            'swizzle%d' % span if span else 'plain',
            '_registers' if registers else '',
            '_negated' if negate != (1, 1) else '',
            '_shifted%d' % shift if shift else '',
        )
        finds = ['finds: swizzle-alignment: does not begin on a multiple of'] if shift else []
        f.program(
            name,
            SILICON,
            ['in b32: ' + hexes(image), 'out b32: ' + hexes(out)] + finds,
            body,
            registers='.reg .b32 %%d<%d>; .reg .b32 %%a<16>; .shared .align 1024 .b8 smem[%d];'
            % (max(count, 1), len(image) * 4),
            block=128,
        )

    for n in (8, 24, 64):
        add('e4m3', 'e4m3', 'f32', n, 4, 128)
    add('e4m3', 'e5m2', 'f32', 8, 1, 32)
    add('e5m2', 'e4m3', 'f32', 16, 2, 64)
    add('e5m2', 'e5m2', 'f32', 8, 2, 0)
    add('e4m3', 'e4m3', 'f32', 16, 2, 0, registers=True)
    add('e4m3', 'e4m3', 'f16', 16, 2, 64)
    add('f16', 'f16', 'f32', 16, 4, 128)
    add('f16', 'f16', 'f32', 8, 2, 0, registers=True)
    add('f16', 'f16', 'f16', 16, 2, 64)
    add('bf16', 'bf16', 'f32', 16, 2, 64)
    add('bf16', 'bf16', 'f32', 8, 1, 32, negate=(-1, 1))
    add('tf32', 'tf32', 'f32', 8, 2, 64)
    add('s8', 'u8', 's32', 8, 2, 64)
    add('e4m3', 'e4m3', 'f32', 16, 2, 128, shift=384)
    add('f16', 'f16', 'f32', 16, 2, 64, shift=128)
    add('u8', 's8', 's32', 16, 1, 0)


# ---- tcgen05 ----

TENSOR_TAIL = '''
bar.sync 0;
setp.ge.u32 %p3, %r0, 32;
@%p3 bra RELEASED;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, COLUMNS;
RELEASED:
'''


def alloc(columns):
    return '''
setp.ge.u32 %%p3, %%r0, 32;
@%%p3 bra ALLOCATED;
mov.u32 %%r21, slot;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%r21], %d;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
setp.ne.u32 %%p4, %%r0, 0;
@%%p4 bra READY;
mov.u32 %%r22, bar;
mbarrier.init.shared::cta.b64 [%%r22], 1;
fence.mbarrier_init.release.cluster;
READY:
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
ld.shared.b32 %%r20, [slot];
''' % columns


def tensor_columns(n):
    columns = 32
    while columns < n:
        columns *= 2
    return columns


def mma_product(a, b, ta, tb, dt, steps):
    """D = A B^T of the fifth-generation tensor core, a K step after the other."""
    k = 256 // BITS[ta]
    d = []
    for row in a:
        line = []
        for column in b:
            c = None
            for s in range(steps):
                c = element(ta, row[s * k : s * k + k], column[s * k : s * k + k], ta, tb, c, dt, 25, 23)
            line.append(c)
        d.append(line)
    return d


def mma_descriptors(kind, ta, tb, dt, m, n, span, lbo, sbo):
    """The instruction descriptor and the constant bits of the operands'."""
    types = {
        'f16': {'f16': 0, 'bf16': 1},
        'tf32': {'tf32': 2},
        'f8f6f4': {'e4m3': 0, 'e5m2': 1},
        'i8': {'u8': 0, 's8': 1},
    }[kind]
    instruction = {'f16': 0, 'f32': 1, 's32': 2}[dt] << 4 | types[ta] << 7 | types[tb] << 10
    instruction |= (n >> 3) << 17 | (m >> 4) << 24
    swizzle_code = {0: 0, 128: 2, 64: 4, 32: 6}[span]
    return instruction, swizzle_code << 61 | 1 << 46 | (sbo >> 4) << 32 | (lbo >> 4) << 16


def mma_prepare(columns, sbo, steps, a_in_tmem):
    """Every cell of D gets 0x01234567; A goes to Tensor Memory behind it, if it is there."""
    body = '''
mov.b32 %r30, 0x01234567;
shr.u32 %r31, %r0, 5;
shl.b32 %r31, %r31, 21;
add.u32 %r31, %r31, %r20;
'''
    for j in range(columns):
        body += 'add.u32 %%r32, %%r31, %d;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%%r32], {%%r30};\n' % j
    # Row = lane: the thread writes the 8 words of each K step of its row (no swizzle in the image).
    for s in range(steps if a_in_tmem else 0):
        for w in range(8):
            body += '''
shr.u32 %%r33, %%r0, 3;
mul.lo.u32 %%r33, %%r33, %d;
and.b32 %%r34, %%r0, 7;
shl.b32 %%r34, %%r34, 4;
add.u32 %%r33, %%r33, %%r34;
add.u32 %%r33, %%r33, %%r10;
ld.shared.b32 %%r35, [%%r33+%d];
add.u32 %%r32, %%r31, %d;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r32], {%%r35};
''' % (sbo, (32 * s + 4 * w) // 16 * 128 + 4 * w % 16, columns + 8 * s + w)
    return body


def mma_issue(group, kind, instruction, a_column, steps, span, a_in_tmem, lanes_off):
    """The K steps, by the descriptors in %l7 and %l8."""
    body = ''
    for s in range(steps):
        step = (32 * s if span else 2 * s * 128) >> 4
        body += 'add.u64 %%l9, %%l7, %d;\nadd.u64 %%l10, %%l8, %d;\n' % (step, step)
        body += 'setp.ne.u32 %%p5, %d, 0;\nadd.u32 %%r36, %%r20, %d;\n' % (s, a_column + 8 * s)
        off = ''
        if lanes_off is not None:
            off = ', {%s}' % ', '.join('%%r%d' % (40 + i) for i in range(4 * group))
            body += ''.join('mov.b32 %%r%d, 0x%x;\n' % (40 + i, v) for i, v in enumerate(lanes_off))
        body += 'tcgen05.mma.cta_group::%d.kind::%s [%%r20], %s, %%l10, 0x%x%s, %%p5;\n' % (
            group,
            kind,
            '[%r36]' if a_in_tmem else '%l9',
            instruction,
            off,
        )
    return body


def mma_read_back(columns):
    """Waits for the commit and stores D, a column after the other."""
    body = '''
ISSUED:
mov.u32 %r22, bar;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r22], 0;
@!%p6 bra WAIT;
bar.warp.sync -1;
tcgen05.fence::after_thread_sync;
mad.wide.u32 %l11, %r0, 4, %l1;
'''.lstrip()
    for j in range(columns):
        body += 'add.u32 %%r32, %%r31, %d;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%%r37}, [%%r32];\n' % j
        body += 'tcgen05.wait::ld.sync.aligned;\n'
        body += 'st.global.b32 [%%l11+%d], %%r37;\n' % (512 * j)
    return body


def mma_shared(words_of_image):
    return (
        '.shared .align 1024 .b8 smem[%d]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;'
        % (words_of_image * 4)
    )


def tcgen05_mma(f, integers):
    def add(kind, ta, tb, dt, m, n, steps, span, a_in_tmem=False, negate=(0, 0), lanes_off=None, file=f):
        bits = BITS[ta]
        k = 256 // bits
        span_bytes = 32 * steps if not span else span
        a, a_bytes = matrix_rows(ta, m, k * steps)
        b, b_bytes = matrix_rows(tb, n, k * steps)
        a_image, lbo, sbo = operand_image(a_bytes, span_bytes, span, 0)
        b_image, _, _ = operand_image(b_bytes, span_bytes, span, 0)
        a_image += bytes(-len(a_image) % 1024)
        offset_b = len(a_image)
        image = words(a_image + b_image)
        sign = {'f16': 0x8000, 'bf16': 0x8000, 'tf32': 1 << 31, 'e4m3': 128, 'e5m2': 128}
        a = [[v ^ sign[ta] for v in row] for row in a] if negate[0] else a
        b = [[v ^ sign[tb] for v in row] for row in b] if negate[1] else b
        d = mma_product(a, b, ta, tb, dt, steps)
        # Layout D: M = 128, row = lane. Layout F: M = 64, row -> lane row % 16 + 32 (row / 16).
        out = []
        for j in range(n):
            for t in range(128):
                row = t if m == 128 else (t // 32 * 16 + t % 32 if t % 32 < 16 else None)
                if row is None or (lanes_off is not None and lanes_off[t // 32] >> (t % 32) & 1):
                    out.append(0x01234567)  # what the kernel put there before
                else:
                    out.append(d[row][j])
        instruction, constant = mma_descriptors(kind, ta, tb, dt, m, n, span, lbo, sbo)
        instruction |= negate[0] << 13 | negate[1] << 14
        columns = tensor_columns(n + (8 * steps if a_in_tmem else 0))
        assert not a_in_tmem or (m == 128 and not span)
        body = COPY_IN % len(image) + alloc(columns) + mma_prepare(n, sbo, steps, a_in_tmem)
        body += '''
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
bar.sync 0;
tcgen05.fence::after_thread_sync;
cvt.u64.u32 %%l5, %%r10;
shr.u64 %%l6, %%l5, 4;
or.b64 %%l7, %%l6, 0x%x;
add.u64 %%l8, %%l7, %d;
setp.ne.u32 %%p4, %%r0, 0;
@%%p4 bra ISSUED;
''' % (constant, offset_b >> 4)
        body += mma_issue(1, kind, instruction, n, steps, span, a_in_tmem, lanes_off)
        body += '''
mov.u32 %r22, bar;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r22];
'''
        body += mma_read_back(n)
        body += TENSOR_TAIL.replace('COLUMNS', str(columns))
        name = 'tcgen05_mma_%s_m%dn%d_%s_%s_%s_%s%s%s%s' % (
            kind,
            m,
            n,
            dt,
            ta,
            tb,
            'swizzle%d' % span if span else 'plain',
            '_a_in_tmem' if a_in_tmem else '',
            '_negated' if negate != (0, 0) else '',
            '_lanes_off' if lanes_off else '',
        )
        file.program(
            name,
            WINDOW,
            ['in b32: ' + hexes(image), 'out b32: ' + hexes(out)],
            body,
            block=128,
            registers=mma_shared(len(image)),
        )

    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 128, 16, 4, 128)
    add('f8f6f4', 'e4m3', 'e5m2', 'f32', 128, 8, 1, 32)
    add('f8f6f4', 'e5m2', 'e4m3', 'f32', 64, 16, 2, 64)
    add('f8f6f4', 'e5m2', 'e5m2', 'f32', 128, 8, 2, 0)
    add('f8f6f4', 'e4m3', 'e4m3', 'f16', 128, 8, 2, 64)
    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 128, 8, 2, 0, a_in_tmem=True)
    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 128, 8, 1, 0, negate=(1, 0))
    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 128, 8, 2, 0, lanes_off=(0xFF, 0, 0x80000001, 0))
    add('f16', 'f16', 'f16', 'f32', 128, 8, 2, 64)
    add('f16', 'bf16', 'bf16', 'f32', 64, 8, 4, 128)
    add('f16', 'f16', 'f16', 'f16', 64, 8, 1, 32)
    add('tf32', 'tf32', 'tf32', 'f32', 128, 8, 2, 64)
    # kind::i8 exists on sm_100a, not on the family target.
    add('i8', 's8', 'u8', 's32', 128, 16, 2, 64, file=integers)


MEET = 'barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n'


def pair_part(m_size, n_size, cta, lane, column):
    """Row and column of D in a cell of a CTA of a pair: layouts A (M = 256) and B (M = 128)."""
    if m_size == 256:
        return 128 * cta + lane, column
    return 64 * cta + lane % 64, column + (n_size // 2 if lane >= 64 else 0)


def tcgen05_pair(f, integers):
    """Two CTAs; each holds half of the rows of A and of B. The one of rank `issuer` multiplies."""

    def add(kind, ta, tb, dt, m, n, steps, span, issuer=0, a_in_tmem=False, lanes_off=None, file=f):
        k = 256 // BITS[ta]
        span_bytes = span or 32 * steps
        a, a_bytes = matrix_rows(ta, m, k * steps)
        b, b_bytes = matrix_rows(tb, n, k * steps)
        images = []
        for cta in range(2):
            part, lbo, sbo = operand_image(a_bytes[cta * m // 2 : (cta + 1) * m // 2], span_bytes, span, 0)
            part += bytes(-len(part) % 1024)
            offset_b = len(part)
            rest = operand_image(b_bytes[cta * n // 2 : (cta + 1) * n // 2], span_bytes, span, 0)[0]
            images.append(words(part + rest))
        d = mma_product(a, b, ta, tb, dt, steps)
        d_columns = n if m == 256 else n // 2
        out = []
        for cta in range(2):
            for j in range(d_columns):
                for t in range(128):
                    row, column = pair_part(m, n, cta, t, j)
                    off = lanes_off is not None and lanes_off[4 * cta + t // 32] >> (t % 32) & 1
                    out.append(0x01234567 if off else d[row][column])
        instruction, constant = mma_descriptors(kind, ta, tb, dt, m, n, span, lbo, sbo)
        columns = tensor_columns(d_columns + (8 * steps if a_in_tmem else 0))
        image_bytes = 4 * len(images[0])
        out_bytes = 512 * d_columns
        body = 'mov.u32 %r50, %cluster_ctarank;\n'
        body += COPY_IN.replace(
            'mov.u32 %%r0, %%tid.x;',
            'mad.wide.u32 %%%%l0, %%%%r50, %d, %%%%l0;\n'
            'mad.wide.u32 %%%%l1, %%%%r50, %d, %%%%l1;\nmov.u32 %%%%r0, %%%%tid.x;'
            % (image_bytes, out_bytes),
        ) % len(images[0])
        body += MEET + alloc(columns).replace('cta_group::1', 'cta_group::2')
        assert not a_in_tmem or (m == 256 and not span)
        body += mma_prepare(d_columns, sbo, steps, a_in_tmem)
        body += """
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
MEET
tcgen05.fence::after_thread_sync;
and.b32 %%r51, %%r10, 0x3ffff;
cvt.u64.u32 %%l5, %%r51;
shr.u64 %%l6, %%l5, 4;
or.b64 %%l7, %%l6, 0x%x;
add.u64 %%l8, %%l7, %d;
setp.ne.u32 %%p4, %%r0, 0;
@%%p4 bra ISSUED;
setp.ne.u32 %%p4, %%r50, %d;
@%%p4 bra ISSUED;
""".replace('MEET\n', MEET) % (constant, offset_b >> 4, issuer)
        body += mma_issue(2, kind, instruction, d_columns, steps, span, a_in_tmem, lanes_off)
        body += """
mov.u32 %r22, bar;
mov.b16 %h0, 3;
tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r22], %h0;
"""
        body += mma_read_back(d_columns)
        body += 'tcgen05.fence::before_thread_sync;\n' + MEET + 'tcgen05.fence::after_thread_sync;\n'
        body += TENSOR_TAIL.replace('COLUMNS', str(columns)).replace('cta_group::1', 'cta_group::2')
        body += MEET
        name = 'tcgen05_pair_%s_m%dn%d_%s_%s_%s_%s%s%s%s' % (
            kind,
            m,
            n,
            dt,
            ta,
            tb,
            'swizzle%d' % span if span else 'plain',
            '_a_in_tmem' if a_in_tmem else '',
            '_odd' if issuer else '',
            '_lanes_off' if lanes_off else '',
        )
        file.program(
            name,
            WINDOW + '; operands and D over two CTAs as in PTX ISA 9.7.16.10.5',
            ['in b32: ' + hexes(images[0] + images[1]), 'out b32: ' + hexes(out)],
            body,
            block=128,
            cluster=2,
            registers=mma_shared(len(images[0])),
        )

    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 256, 16, 4, 128)
    add('f8f6f4', 'e4m3', 'e5m2', 'f32', 128, 32, 2, 64)
    add('f8f6f4', 'e5m2', 'e4m3', 'f16', 128, 16, 1, 32, issuer=1)
    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 256, 16, 2, 0, a_in_tmem=True)
    add('f8f6f4', 'e4m3', 'e4m3', 'f32', 256, 16, 1, 0, lanes_off=(0xFF, 0, 0x80000001, 0, 0, 0xF0, 0, 1))
    add('f16', 'bf16', 'bf16', 'f32', 256, 16, 2, 64)
    add('f16', 'f16', 'f16', 'f32', 128, 16, 2, 64)
    add('tf32', 'tf32', 'tf32', 'f32', 128, 16, 2, 64)
    add('i8', 's8', 'u8', 's32', 256, 32, 2, 64, file=integers)


def tmem_cell(shape, t, i, split):
    """Lane and column of register i of thread t, relative to the address (PTX ISA 9.7.16.2.3)."""
    if shape == '32x32b':
        return t, i
    if shape == '16x64b':
        return 8 * (t & 1) + (t >> 2), 2 * i + (t >> 1 & 1)
    if shape == '16x128b':
        return (t >> 2) + 8 * (i & 1), 4 * (i >> 1) + (t & 3)
    if shape == '16x256b':
        return (t >> 2) + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (t & 3) + (i & 1)
    return t % 16, i + (0 if t < 16 else split)


def tmem_access(f):
    """What 32x32b wrote, another shape reads: registers i of thread t of warp 1."""
    width = {'32x32b': 1, '16x64b': 1, '16x128b': 2, '16x256b': 4, '16x32bx2': 1}
    for shape in width:
        for num in (1, 2, 4):
            for packed in (False, True):
                for store in (False, True):
                    registers = width[shape] * num
                    split = 8
                    columns = 64
                    cells = [
                        [(lane << 16 | column) * 2654435761 & mask(32) for column in range(64)] for lane in range(32)
                    ]
                    given, out = [], []
                    half = 16 if shape != '32x32b' else 0
                    if not store:
                        for i in range(registers):
                            for t in range(32):
                                lane, column = tmem_cell(shape, t, i, split)
                                row = cells[lane + half]
                                out.append(
                                    row[2 * column] & 0xFFFF | (row[2 * column + 1] & 0xFFFF) << 16
                                    if packed
                                    else row[column]
                                )
                        given = [cells[t][c] for c in range(64) for t in range(32)]
                        expected = out
                    else:
                        given = [rng.getrandbits(32) for _ in range(32 * registers)]
                        after = [[0x76543210] * 64 for _ in range(32)]
                        for i in range(registers):
                            for t in range(32):
                                lane, column = tmem_cell(shape, t, i, split)
                                v = given[i * 32 + t]
                                row = after[lane + half]
                                if packed:
                                    row[2 * column], row[2 * column + 1] = v & 0xFFFF, v >> 16
                                else:
                                    row[column] = v
                        expected = [after[t][c] for c in range(64) for t in range(32)]
                    extra = ', %d' % split if shape == '16x32bx2' else ''
                    modifier = ('.unpack::16b' if store else '.pack::16b') if packed else ''
                    operand = '{%s}' % ', '.join('%%v%d' % i for i in range(registers))
                    body = (
                        '''
ld.param.u64 %l0, [p0];
ld.param.u64 %l1, [p1];
mov.u32 %r0, %tid.x;
'''
                        + alloc(columns)
                        + '''
setp.lt.u32 %p5, %r0, 32;
@%p5 bra DONE;
add.u32 %r1, %r0, -32;
mad.wide.u32 %l2, %r1, 4, %l0;
mad.wide.u32 %l3, %r1, 4, %l1;
add.u32 %r31, %r20, 0x200000;
mov.b32 %r30, 0x76543210;
'''
                    )
                    for c in range(64):
                        if store:
                            value = '%r30'
                        else:
                            body += 'ld.global.b32 %%r29, [%%l2+%d];\n' % (128 * c)
                            value = '%r29'
                        body += 'add.u32 %%r32, %%r31, %d;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%%r32], {%s};\n' % (
                            c,
                            value,
                        )
                    body += 'tcgen05.wait::st.sync.aligned;\nadd.u32 %%r33, %%r31, 0x%x;\n' % (half << 16)
                    if store:
                        for i in range(registers):
                            body += 'ld.global.b32 %%v%d, [%%l2+%d];\n' % (i, 128 * i)
                        body += (
                            'tcgen05.st.sync.aligned.%s.x%d%s.b32 [%%r33]%s, %s;\ntcgen05.wait::st.sync.aligned;\n'
                            % (shape, num, modifier, extra, operand)
                        )
                        for c in range(64):
                            body += (
                                'add.u32 %%r32, %%r31, %d;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%%r29}, [%%r32];\n'
                                % c
                            )
                            body += 'tcgen05.wait::ld.sync.aligned;\nst.global.b32 [%%l3+%d], %%r29;\n' % (128 * c)
                    else:
                        body += (
                            'tcgen05.ld.sync.aligned.%s.x%d%s.b32 %s, [%%r33]%s;\ntcgen05.wait::ld.sync.aligned;\n'
                            % (shape, num, modifier, operand, extra)
                        )
                        for i in range(registers):
                            body += 'st.global.b32 [%%l3+%d], %%v%d;\n' % (128 * i, i)
                    body += 'DONE:\n' + TENSOR_TAIL.replace('COLUMNS', str(columns))
                    f.program(
                        'tcgen05_%s_%s_x%d%s' % ('st' if store else 'ld', shape, num, '_packed' if packed else ''),
                        'manual 9.7.16.2.3, fragment formulas',
                        ['in b32: ' + hexes(given), 'out b32: ' + hexes(expected)],
                        body,
                        block=64,
                        registers='.reg .b32 %v<16>; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;',
                    )


# ---- tensor copies ----


REDUCE = """
ld.param.u64 %%l0, [p0];
ld.param.u64 %%l1, [p1];
ld.param.u64 %%l2, [p2];
mov.u32 %%r0, %%tid.x;
mul.wide.u32 %%l3, %%r0, 4;
add.u64 %%l4, %%l0, %%l3;
add.u64 %%l5, %%l1, %%l3;
add.u64 %%l6, %%l2, %%l3;
ld.global.b32 %%r1, [%%l4];
st.global.b32 [%%l6], %%r1;
ld.global.b32 %%r2, [%%l5];
mov.u32 %%r10, smem;
shl.b32 %%r3, %%r0, 2;
add.u32 %%r3, %%r3, %%r10;
st.shared.b32 [%%r3], %%r2;
fence.proxy.async;
bar.sync 0;
setp.ne.u32 %%p0, %%r0, 0;
@%%p0 exit;
%s
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""


def reduced(op, t, a, b):
    """One element of cp.reduce.async.bulk (PTX ISA 9.7.9.25.4.2), codes in and out."""
    bits = int(t.strip('bfsu'))
    if t in ('f16', 'bf16', 'f32', 'f64'):
        shape = {'f16': 'e', 'f32': 'f', 'f64': 'd'}.get(t)

        def value(c):
            if t == 'bf16':
                return struct.unpack('<f', struct.pack('<I', c << 16))[0]
            return struct.unpack('<' + shape, c.to_bytes(bits // 8, 'little'))[0]

        if op != 'add':
            return min(a, b, key=value) if op == 'min' else max(a, b, key=value)
        total = value(a) + value(b)   # f32: an H200 keeps subnormals, whatever the manual says
        if t == 'bf16':   # exact in fp32 for the values used here; nearest even
            c = int.from_bytes(struct.pack('<f', total), 'little')
            return (c + 0x7FFF + (c >> 16 & 1)) >> 16
        return int.from_bytes(struct.pack('<' + shape, total), 'little')
    x, y = (signed(a, bits), signed(b, bits)) if t[0] == 's' else (a, b)
    return {
        'add': lambda: x + y,
        'min': lambda: min(x, y),
        'max': lambda: max(x, y),
        'inc': lambda: 0 if a >= b else a + 1,
        'dec': lambda: b if a == 0 or a > b else a - 1,
        'and': lambda: a & b,
        'or': lambda: a | b,
        'xor': lambda: a ^ b,
    }[op]() & mask(bits)


def reduction_values(t):
    bits = int(t.strip('bfsu'))
    n = 1024 // bits
    if t in ('f16', 'bf16', 'f32', 'f64'):
        e, f, bias = {'f16': (5, 10, 15), 'bf16': (8, 7, 127), 'f32': (8, 23, 127), 'f64': (11, 52, 1023)}[t]
        codes = [
            rng.getrandbits(1) << (bits - 1) | rng.randint(bias - 4, bias + 4) << f | rng.getrandbits(f)
            for _ in range(n)
        ]
        codes[0], codes[1], codes[2] = 1, 1 << (bits - 1) | 3, 0   # subnormals, zero
        return codes
    return [rng.getrandbits(bits) >> rng.choice([0, 0, bits // 2]) for _ in range(n)]


def async_reductions(f):
    forms = [('add', t) for t in ('u32', 's32', 'u64', 'f32', 'f64', 'f16', 'bf16')]
    forms += [(op, t) for op in ('min', 'max') for t in ('u32', 's32', 'u64', 's64', 'f16', 'bf16')]
    forms += [('inc', 'u32'), ('dec', 'u32')]
    forms += [(op, t) for op in ('and', 'or', 'xor') for t in ('b32', 'b64')]
    kinds = {'u32': 2, 's32': 3, 'u64': 4, 's64': 5, 'f16': 6, 'f32': 7, 'bf16': 9, 'b32': 2, 'b64': 4}
    for op, t in forms:
        bits = int(t.strip('bfsu'))
        a, b = reduction_values(t), reduction_values(t)
        if t in ('f16', 'bf16', 'f32'):
            b[1], b[2] = 1 << (bits - 1) | 2, 1 << (bits - 1) | (1 << (bits - 2))
        out = [reduced(op, t, x, y) for x, y in zip(a, b)]

        def line(codes):
            return hexes(words(b''.join(c.to_bytes(bits // 8, 'little') for c in codes)))

        lines = ['in b32: ' + line(a), 'in b32: ' + line(b), 'out b32: ' + line(out)]
        noftz = '.noftz' if op == 'add' and t in ('f16', 'bf16') else ''
        source = 'model of the manual, 9.7.9.25.4.2 and 9.7.9.25.5.3, confirmed on an H200'
        shared = '.shared .align 128 .b8 smem[128];'
        f.program(
            'bulk_reduce_%s_%s' % (op, t),
            source,
            lines,
            REDUCE
            % ('cp.reduce.async.bulk.global.shared::cta.bulk_group.%s%s.%s [%%l2], [%%r10], 128;' % (op, noftz, t)),
            registers=shared,
        )
        if t not in kinds:
            continue
        n = 1024 // bits
        f.program(
            'tensor_reduce_%s_%s' % (op, t),
            source,
            lines + ['map: buffer=2 type=%d rank=1 dims=%d box=%d swizzle=0' % (kinds[t], n, n)],
            REDUCE
            % (
                'mov.b64 %l7, p3;\ncvta.param.u64 %l7, %l7;\nmov.b32 %r4, 0;\n'
                + 'cp.reduce.async.bulk.tensor.1d.global.shared::cta.%s.tile.bulk_group [%%l7, {%%r4}], [%%r10];' % op
            ),
            registers=shared,
        )


def tensor_copies(f):
    def add(name, dims, box, start, span, element_bytes=1):
        """Loads a box and writes it out as it lies in shared memory; the tensor holds counting bytes."""
        rank = len(dims)
        strides = []
        pitch = dims[0] * element_bytes
        for d in dims[1:]:
            strides.append(pitch)
            pitch *= d
        data = bytes((i * 37 + (i >> 8)) & 255 for i in range(pitch))
        inner = box[0] * element_bytes
        total = inner
        for b in box[1:]:
            total *= b
        image = bytearray(total)
        for i in range(total // element_bytes):
            rest, index = i, []
            for b in box:
                index.append(rest % b)
                rest //= b
            at = [s + x for s, x in zip(start, index)]
            value = bytes(element_bytes)
            if all(0 <= p < d for p, d in zip(at, dims)):
                offset = at[0] * element_bytes + sum(p * s for p, s in zip(at[1:], strides))
                value = data[offset : offset + element_bytes]
            address = swizzle(i * element_bytes, span)
            image[address : address + element_bytes] = value
        code_of = {1: 0, 2: 1, 4: 2}[element_bytes]
        map_line = 'map: buffer=0 type=%d rank=%d dims=%s%s box=%s swizzle=%d' % (
            code_of,
            rank,
            ','.join(map(str, dims)),
            ' strides=' + ','.join(map(str, strides)) if strides else '',
            ','.join(map(str, box)),
            {0: 0, 32: 1, 64: 2, 128: 3}[span],
        )
        coords = ', '.join('%%r%d' % (40 + i) for i in range(rank))
        body = '''
ld.param.u64 %%l1, [p1];
mov.b64 %%l3, p2;
cvta.param.u64 %%l3, %%l3;
mov.u32 %%r0, %%tid.x;
mov.u32 %%r10, smem;
mov.u32 %%r22, bar;
setp.ne.u32 %%p0, %%r0, 0;
@%%p0 bra START;
mbarrier.init.shared::cta.b64 [%%r22], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r22], %d;
%s
cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%r10], [%%l3, {%s}], [%%r22];
START:
bar.sync 0;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %%p1, [%%r22], 0;
@!%%p1 bra WAIT;
mov.u32 %%r1, %%r0;
COPY:
setp.ge.u32 %%p0, %%r1, %d;
@%%p0 bra COPIED;
shl.b32 %%r3, %%r1, 2;
add.u32 %%r3, %%r3, %%r10;
ld.shared.b32 %%r2, [%%r3];
mad.wide.u32 %%l2, %%r1, 4, %%l1;
st.global.b32 [%%l2], %%r2;
add.u32 %%r1, %%r1, 32;
bra COPY;
COPIED:''' % (
            total,
            '\n'.join('mov.b32 %%r%d, %d;' % (40 + i, s) for i, s in enumerate(start)),
            rank,
            coords,
            total // 4,
        )
        f.program(
            'tensor_load_' + name,
            'manual 5.5, 5.5.7: box walk, zero fill, swizzle',
            ['in b32: ' + hexes(words(data)), 'out b32: ' + hexes(words(image)), map_line],
            body,
            registers='.shared .align 1024 .b8 smem[%d]; .shared .align 8 .b64 bar;' % total,
        )

    add('1d', [64], [32], [24], 0, 4)
    add('2d_plain', [64, 8], [32, 4], [16, 2], 0, 1)
    add('2d_swizzle32', [64, 8], [32, 8], [32, 0], 32)
    add('2d_swizzle64', [64, 8], [64, 8], [0, 0], 64)
    add('2d_swizzle128', [128, 16], [128, 16], [0, 0], 128)
    add('2d_beyond', [64, 8], [64, 8], [-16, 5], 64)
    add('2d_halves', [64, 6], [64, 4], [8, 4], 128, 2)
    add('3d_pages', [128, 4, 3], [128, 4, 1], [0, 0, 1], 128)
    add('3d_dead_page', [128, 4, 3], [128, 4, 1], [0, 0, 3], 128)
    add('4d', [16, 3, 3, 3], [16, 2, 2, 2], [0, 1, 2, 1], 0)
    add('5d', [16, 2, 3, 2, 2], [16, 2, 2, 1, 2], [0, 0, 1, 1, 1], 0)

    # Stores: shared memory counts, the tensor is poison outside the box; elements out of bounds are not written.
    for name, dims, box, start, span in (
        ('2d', [64, 8], [32, 4], [32, 2], 0),
        ('2d_beyond', [64, 8], [64, 4], [32, 6], 64),
    ):
        total = box[0] * box[1]
        source = bytes((i * 29 + 7) & 255 for i in range(total))
        tensor = bytearray(b'\xa5' * (dims[0] * dims[1]))
        for i in range(total):
            x, y = start[0] + i % box[0], start[1] + i // box[0]
            if x < dims[0] and y < dims[1]:
                tensor[y * dims[0] + x] = source[swizzle(i, span)]
        body = COPY_IN.replace('%%r1, 128;', '%%r1, 32;') % (total // 4)
        body += '''
mov.b64 %%l3, p2;
cvta.param.u64 %%l3, %%l3;
setp.ne.u32 %%p0, %%r0, 0;
@%%p0 bra DONE;
mov.b32 %%r40, %d;
mov.b32 %%r41, %d;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%%l3, {%%r40, %%r41}], [%%r10];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:''' % tuple(start)
        f.program(
            'tensor_store_' + name,
            'manual 5.5: elements out of bounds are not written',
            [
                'in b32: ' + hexes(words(source)),
                'out b32: ' + hexes(words(tensor)),
                'map: buffer=1 type=0 rank=2 dims=%d,%d strides=%d box=%d,%d swizzle=%d'
                % (*dims, dims[0], *box, {0: 0, 64: 2}[span]),
            ],
            body,
            registers='.shared .align 1024 .b8 smem[%d];' % total,
        )

    # Plain bulk copies, there and back.
    data = [rng.getrandbits(32) for _ in range(64)]
    f.program(
        'bulk_copy',
        'the bytes themselves',
        ['in b32: ' + hexes(data), 'out b32: ' + hexes(data)],
        '''
ld.param.u64 %l0, [p0];
ld.param.u64 %l1, [p1];
mov.u32 %r0, %tid.x;
mov.u32 %r10, smem;
mov.u32 %r22, bar;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra DONE;
mbarrier.init.shared::cta.b64 [%r22], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r22], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%l0], 256, [%r22];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r22], 0;
@!%p1 bra WAIT;
cp.async.bulk.global.shared::cta.bulk_group [%l1], [%r10], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:''',
        registers='.shared .align 128 .b8 smem[256]; .shared .align 8 .b64 bar;',
    )
    short = [v if i % 4 < 2 else 0 for i, v in enumerate(data)]
    f.program(
        'cp_async',
        'manual 9.7.9.25.3.1: 8 bytes of 16, the rest zero',
        ['in b32: ' + hexes(data), 'out b32: ' + hexes(short)],
        '''
ld.param.u64 %l0, [p0];
ld.param.u64 %l1, [p1];
mov.u32 %r0, %tid.x;
mov.u32 %r10, smem;
setp.ge.u32 %p0, %r0, 16;
@%p0 bra DONE;
shl.b32 %r1, %r0, 4;
add.u32 %r2, %r10, %r1;
mad.wide.u32 %l2, %r0, 16, %l0;
mad.wide.u32 %l3, %r0, 16, %l1;
cp.async.cg.shared.global [%r2], [%l2], 16, 8;
cp.async.commit_group;
cp.async.wait_group 0;
ld.shared.v4.b32 {%r3, %r4, %r5, %r6}, [%r2];
st.global.v4.b32 [%l3], {%r3, %r4, %r5, %r6};
DONE:''',
        registers='.shared .align 128 .b8 smem[256];',
    )


if __name__ == '__main__':
    File.folder = pathlib.Path(sys.argv[1])
    sync = File('matrix_sync', 'mma.sync, ldmatrix, stmatrix.', target='sm_90')
    mma_sync(sync)
    matrices(sync)
    sync.write()
    groups = File('matrix_wgmma', 'wgmma.', target='sm_90a')
    wgmma(groups)
    groups.write()
    copies = File('matrix_copies', 'Asynchronous copies.', target='sm_90')
    tensor_copies(copies)
    async_reductions(copies)
    copies.write()
    fifth = File('matrix_tcgen05', 'The fifth-generation tensor core.', target='sm_100f', version='8.8')
    only_100a = File('matrix_tcgen05_i8', 'tcgen05.mma on integers.', target='sm_100a', version='8.8')
    tcgen05_mma(fifth, only_100a)
    tcgen05_pair(fifth, only_100a)
    only_100a.write()
    tmem_access(fifth)
    fifth.write()
