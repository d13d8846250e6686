#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_cases.py FOLDER writes arithmetic_*.ptx: a kernel per opcode form, its inputs and the bits it must give.

The expectations come from the models below, which know the manual and exact arithmetic (integers and fractions of any
size) and nothing of the emulator. Every run writes the same bytes.
"""

import math
import pathlib
import random
import sys
from fractions import Fraction

LANES = 32

# ---- formats ----


class Format:
    def __init__(self, exponent_bits, fraction_bits, infinity=True):
        self.e, self.f, self.infinity = exponent_bits, fraction_bits, infinity
        self.width = 1 + exponent_bits + fraction_bits
        self.bias = (1 << (exponent_bits - 1)) - 1
        self.min_exponent = 1 - self.bias
        top = (1 << exponent_bits) - 1
        self.inf_code = top << fraction_bits
        self.nan_code = (1 << (self.width - 1)) - 1
        self.max_code = self.inf_code - 1 if infinity else self.nan_code - 1

    def value(self, code):
        """Fraction, or 'nan', '+inf', '-inf'; the sign of zero is lost (see sign)."""
        sign = code >> (self.width - 1) & 1
        exponent = code >> self.f & ((1 << self.e) - 1)
        fraction = code & ((1 << self.f) - 1)
        if self.infinity and exponent == (1 << self.e) - 1:
            return 'nan' if fraction else ('-inf' if sign else '+inf')
        if not self.infinity and code & self.nan_code == self.nan_code:
            return 'nan'
        if exponent == 0:
            magnitude = Fraction(fraction) * Fraction(2) ** (self.min_exponent - self.f)
        else:
            magnitude = Fraction(fraction + (1 << self.f)) * Fraction(2) ** (exponent - self.bias - self.f)
        return -magnitude if sign else magnitude

    def sign(self, code):
        return code >> (self.width - 1) & 1

    def round(self, x, mode='rn', saturate=False, zero_sign=0):
        """Code of a Fraction (or 'nan', '+inf', '-inf'), rounded once."""
        top = 1 << (self.width - 1)
        if x == 'nan':
            return self.nan_code
        if x in ('+inf', '-inf'):
            code = self.max_code if saturate else (self.inf_code if self.infinity else self.nan_code)
            return (top if x == '-inf' else 0) | code
        if x == 0:
            return top if zero_sign else 0
        negative, m = x < 0, abs(x)
        exponent = self.min_exponent
        while Fraction(2) ** (exponent + 1) <= m:
            exponent += 1
        scaled = m / Fraction(2) ** (exponent - self.f)
        low = scaled.numerator // scaled.denominator
        rest = scaled - low
        if mode == 'rn':
            up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
        elif mode == 'rna':
            up = rest >= Fraction(1, 2)
        elif mode == 'rz':
            up = False
        elif mode == 'rm':
            up = rest != 0 and negative
        else:
            up = rest != 0 and not negative
        low += up
        if low >= 1 << (self.f + 1):
            low //= 2
            exponent += 1
        if low < 1 << self.f:
            code = low
        else:
            code = ((exponent + self.bias) << self.f) + (low - (1 << self.f))
        if code > self.max_code:
            away = mode in ('rn', 'rna') or (mode == 'rm' and negative) or (mode == 'rp' and not negative)
            code = self.max_code if saturate or not away else (self.inf_code if self.infinity else self.nan_code)
        return (top if negative else 0) | code


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
E4M3, E5M2, TF32 = Format(4, 3, infinity=False), Format(5, 2), Format(8, 10)


def is_special(x):
    return isinstance(x, str)


def ext_add(x, y, sx, sy, mode):
    """x + y with the sign of a zero result; (value, zero_sign)."""
    if x == 'nan' or y == 'nan':
        return 'nan', 0
    if is_special(x) and is_special(y):
        return ('nan', 0) if x != y else (x, 0)
    if is_special(x):
        return x, 0
    if is_special(y):
        return y, 0
    s = x + y
    if s == 0:
        if x == 0 and y == 0 and sx == sy:
            return s, sx
        return s, 1 if mode == 'rm' else 0
    return s, 0


def ext_mul(x, y, sx, sy):
    if x == 'nan' or y == 'nan':
        return 'nan', 0
    sign = sx ^ sy
    if is_special(x) or is_special(y):
        if x == 0 or y == 0:
            return 'nan', 0
        return ('-inf' if sign else '+inf'), sign
    return x * y, sign


def ext_div(x, y, sx, sy):
    if x == 'nan' or y == 'nan':
        return 'nan', 0
    sign = sx ^ sy
    if is_special(x):
        return ('nan', 0) if is_special(y) else (('-inf' if sign else '+inf'), sign)
    if is_special(y):
        return Fraction(0), sign
    if y == 0:
        return ('nan', 0) if x == 0 else (('-inf' if sign else '+inf'), sign)
    return x / y, sign


NAN_OUT = {F64: 0x7FFFFFFFFFFFFFFF}


def float_op(fmt, op, mode='rn', ftz=False, sat=False, relu=False):
    """A model of a floating-point instruction on codes."""

    def flush(c):
        return c & (1 << (fmt.width - 1)) if ftz and (c >> fmt.f & ((1 << fmt.e) - 1)) == 0 else c

    def run(*codes):
        codes = [flush(c) for c in codes]
        v = [fmt.value(c) for c in codes]
        s = [fmt.sign(c) for c in codes]
        if op == 'add':
            r, z = ext_add(v[0], v[1], s[0], s[1], mode)
        elif op == 'sub':
            neg = {'+inf': '-inf', '-inf': '+inf', 'nan': 'nan'}
            y = neg[v[1]] if is_special(v[1]) else -v[1]
            r, z = ext_add(v[0], y, s[0], 1 - s[1], mode)
        elif op == 'mul':
            r, z = ext_mul(v[0], v[1], s[0], s[1])
        elif op == 'fma':
            p, ps = ext_mul(v[0], v[1], s[0], s[1])
            r, z = ext_add(p, v[2], ps, s[2], mode)
        elif op == 'div':
            r, z = ext_div(v[0], v[1], s[0], s[1])
        elif op == 'rcp':
            r, z = ext_div(Fraction(1), v[0], 0, s[0])
        code = fmt.round(r, mode, zero_sign=z)
        code = flush(code)
        if sat:
            x = fmt.value(code)
            if x == 'nan' or x == '-inf' or (not is_special(x) and x <= 0):
                code = 0
            elif x == '+inf' or x > 1:
                code = fmt.round(Fraction(1))
        if relu and fmt.value(code) != 'nan' and fmt.sign(code):
            code = 0
        return code

    return run


def sqrt_model(fmt, mode='rn'):
    def run(code):
        x = fmt.value(code)
        if x == 'nan' or x == '-inf' or (not is_special(x) and x < 0):
            return fmt.nan_code
        if is_special(x) or x == 0:
            return code
        # An integer square root with 200 extra bits, plus a crumb where it is inexact, rounds as the exact root does.
        scale = 1200
        n = x * Fraction(4) ** scale
        assert n.denominator == 1
        root = math.isqrt(n.numerator)
        value = Fraction(root) / Fraction(2) ** scale
        if root * root != n.numerator:
            value += Fraction(1, 2 ** (scale + 2))
        return fmt.round(value, mode)

    return run


def min_max(fmt, biggest, nan=False, xorsign=False):
    def run(a, b):
        sign = (a ^ b) & (1 << (fmt.width - 1))
        if xorsign:
            a &= fmt.nan_code
            b &= fmt.nan_code
        x, y = fmt.value(a), fmt.value(b)
        if x == 'nan' or y == 'nan':
            if nan or x == y:
                return fmt.nan_code
            r = b if x == 'nan' else a
        else:

            def key(v, c):
                return (-(2**4000) if v == '-inf' else 2**4000 if v == '+inf' else v, 0 if fmt.sign(c) else 1)

            r = (max if biggest else min)((key(x, a), a), (key(y, b), b))[1]
        if xorsign:
            r |= sign
        return r

    return run


# ---- integers ----


def mask(bits):
    return (1 << bits) - 1


def signed(v, bits):
    v &= mask(bits)
    return v - (1 << bits) if v >> (bits - 1) else v


def clamp(v, low, high):
    return max(low, min(high, v))


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


# ---- the files ----

REGISTER = {'b8': '.b16', 'b16': '.b16', 'b32': '.b32', 'b64': '.b64', 'f32': '.b32', 'pred': '.pred'}
LOAD = {'b8': 'u8', 'b16': 'b16', 'b32': 'b32', 'b64': 'b64', 'f32': 'b32'}
BYTES = {'b8': 1, 'b16': 2, 'b32': 4, 'b64': 8, 'f32': 4, 'pred': 4}
NAMES_IN = ['a', 'b', 'c', 'e'] + ['s%d' % i for i in range(4, 16)]
NAMES_OUT = ['d', 'f', 'g', 'h'] + ['t%d' % i for i in range(4, 16)]


class File:
    folder = pathlib.Path('.')

    def __init__(self, name, about, target='sm_80', version='8.6'):
        self.path = File.folder / (name + '.ptx')
        self.parts = [
            '// SPDX-License-Identifier: Apache-2.0\n// %s\n'
            '// Generated; see ptx_case_test.cpp for the comments. %s\n'
            '.version %s\n.target %s\n.address_size 64\n' % (about, self.evidence(target), version, target)
        ]
        self.names = set()

    @staticmethod
    def evidence(target):
        if target in ('sm_80', 'sm_90', 'sm_90a'):
            return 'Confirmed on an H200: every kernel of this file.'
        return 'No machine has confirmed this file.'

    def case(self, body, ins, outs, source, name=None):
        """body uses inputs a, b, c, e and outputs d, f; ins: [(type, [32 values])], outs: [(type, values[, ulps])]."""
        if name is None:
            name = body.split(';')[0].split()[0].replace('.', '_').replace('::', '_')
        base, n = name, 2
        while name in self.names:
            name = '%s_%d' % (base, n)
            n += 1
        self.names.add(name)
        lines = ['', '// case: ' + name, '// source: ' + source]
        parameters, code, registers = [], [], []
        for i, (t, values) in enumerate(ins):
            assert len(values) == LANES, name
            w = BYTES[t] * 2
            lines.append(
                '// in %s: %s' % ('b32' if t == 'pred' else t, ' '.join('%0*x' % (w, v & mask(4 * w)) for v in values))
            )
            r = NAMES_IN[i]
            parameters.append('.param .u64 in%d' % i)
            registers.append('.reg %s %s;' % (REGISTER[t], r))
            code += ['ld.param.u64 %%x0, [in%d];' % i, 'mad.wide.u32 %%x1, %%t0, %d, %%x0;' % BYTES[t]]
            if t == 'pred':
                code += ['ld.global.b32 %t1, [%x1];', 'setp.ne.b32 %s, %%t1, 0;' % r]
            else:
                code.append('ld.global.%s %s, [%%x1];' % (LOAD[t], r))
        code.append(body)
        for i, out in enumerate(outs):
            t, values = out[0], out[1]
            assert len(values) == LANES, name
            w = BYTES[t] * 2
            kind = ('f32 within %d' % out[2]) if len(out) > 2 else ('b32' if t == 'pred' else t)
            lines.append('// out %s: %s' % (kind, ' '.join('%0*x' % (w, v & mask(4 * w)) for v in values)))
            r = NAMES_OUT[i]
            parameters.append('.param .u64 out%d' % i)
            registers.append('.reg %s %s;' % (REGISTER[t], r))
            code += ['ld.param.u64 %%x0, [out%d];' % i, 'mad.wide.u32 %%x1, %%t0, %d, %%x0;' % BYTES[t]]
            if t == 'pred':
                code += ['selp.u32 %%t1, 1, 0, %s;' % r, 'st.global.b32 [%x1], %t1;']
            else:
                code.append('st.global.%s [%%x1], %s;' % (LOAD[t], r))
        lines.append('.visible .entry %s(%s)' % (name, ', '.join(parameters)))
        lines.append('{')
        lines.append('    .reg .b32 %t<2>;')
        lines.append('    .reg .b64 %x<2>;')
        lines += ['    ' + r for r in registers]
        lines.append('    mov.u32 %t0, %tid.x;')
        lines += ['    ' + c for c in code]
        lines.append('    ret;')
        lines.append('}')
        self.parts.append('\n'.join(lines) + '\n')

    def model(self, body, ins, outs, f, source, name=None):
        """outs: types; f maps one lane's inputs to its outputs (a tuple, or one value)."""
        results = []
        for lane in range(LANES):
            r = f(*[values[lane] for _, values in ins])
            results.append(r if isinstance(r, tuple) else (r,))
        self.case(body, ins, [(t, [r[i] for r in results]) for i, t in enumerate(outs)], source, name)

    def program(self, name, source, lines, body, registers='', block=32, shared=0, cluster=1):
        """A kernel written out: lines are its parameters' comments, p0, p1 .. its parameters (64 bits, or maps)."""
        assert name not in self.names, name
        self.names.add(name)
        text = ['', '// case: ' + name, '// source: ' + source]
        text += ['// ' + line for line in lines]
        if block != 32:
            text.append('// block: %d' % block)
        if shared:
            text.append('// shared: %d' % shared)
        if cluster > 1:
            text += ['// grid: %d' % cluster, '// cluster: %d' % cluster]
        parameters = []
        for line in lines:
            if line.split()[0] in ('in', 'out'):
                parameters.append('.param .u64 p%d' % len(parameters))
            elif line.startswith('map'):
                parameters.append('.param .align 64 .b8 p%d[128]' % len(parameters))
        text.append('.visible .entry %s(%s)' % (name, ', '.join(parameters)))
        text.append('{')
        text.append('    .reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %l<32>; ' + registers)
        text += ['    ' + line for line in body.strip().splitlines()]
        text += ['    ret;', '}']
        self.parts.append('\n'.join(text) + '\n')

    def write(self):
        self.path.write_text(''.join(self.parts))


rng = random.Random(20251129)


def ints(bits, *edges):
    values = list(edges) + [0, 1, mask(bits), 1 << (bits - 1), (1 << (bits - 1)) - 1]
    rng.shuffle(values)
    values = values[:LANES]
    while len(values) < LANES:
        values.append(rng.getrandbits(bits) >> rng.choice([0, 0, 0, bits // 2, bits - 3]))
    rng.shuffle(values)
    return values


def floats(fmt, special=True, scale=None):
    """Codes: specials, subnormals, near and far magnitudes."""
    top = 1 << (fmt.width - 1)
    values = []
    if special:
        values = [0, top, fmt.max_code, top | fmt.max_code, 1, top | 1, (1 << fmt.f) - 1, 1 << fmt.f]
        if fmt.infinity:
            values += [fmt.inf_code, top | fmt.inf_code]
        values += [fmt.nan_code]
    rng.shuffle(values)
    while len(values) < LANES:
        spread = scale if scale is not None else rng.choice([1, 3, 12, fmt.bias - 2])
        exponent = clamp(fmt.bias + rng.randint(-spread, spread), 1, (1 << fmt.e) - 2)
        values.append(rng.getrandbits(1) << (fmt.width - 1) | exponent << fmt.f | rng.getrandbits(fmt.f))
    rng.shuffle(values)
    return values


INTEGERS = 'independent formula: integers of unlimited size, reduced to the register'
EXACT = 'independent formula: exact fractions, rounded once'


def integer_files():
    f = File('arithmetic_integer', 'Integer arithmetic, logic, shifts and comparison.', target='sm_90')
    for t, bits in (('u16', 16), ('s16', 16), ('u32', 32), ('s32', 32), ('u64', 64), ('s64', 64)):
        b = 'b%d' % bits
        sg = t[0] == 's'

        def val(v, sg=sg, bits=bits):
            return signed(v, bits) if sg else v

        a2 = lambda bits=bits, b=b: [(b, ints(bits)), (b, ints(bits))]
        a3 = lambda bits=bits, b=b: [(b, ints(bits)), (b, ints(bits)), (b, ints(bits))]
        nz = lambda bits=bits, b=b: [(b, ints(bits)), (b, [v or 3 for v in ints(bits)])]
        f.model('add.%s d, a, b;' % t, a2(), [b], lambda x, y: x + y, INTEGERS)
        f.model('sub.%s d, a, b;' % t, a2(), [b], lambda x, y: x - y, INTEGERS)
        f.model('mul.lo.%s d, a, b;' % t, a2(), [b], lambda x, y: x * y, INTEGERS)
        f.model('mul.hi.%s d, a, b;' % t, a2(), [b], lambda x, y: val(x) * val(y) >> bits, INTEGERS)
        f.model('mad.lo.%s d, a, b, c;' % t, a3(), [b], lambda x, y, z: x * y + z, INTEGERS)
        f.model('mad.hi.%s d, a, b, c;' % t, a3(), [b], lambda x, y, z: (val(x) * val(y) >> bits) + z, INTEGERS)
        f.model('sad.%s d, a, b, c;' % t, a3(), [b], lambda x, y, z: z + abs(val(x) - val(y)), INTEGERS)
        f.model('div.%s d, a, b;' % t, nz(), [b], lambda x, y: trunc_div(val(x), val(y)), INTEGERS)
        f.model('rem.%s d, a, b;' % t, nz(), [b], lambda x, y: val(x) - trunc_div(val(x), val(y)) * val(y), INTEGERS)
        f.model('min.%s d, a, b;' % t, a2(), [b], lambda x, y: min(val(x), val(y)), INTEGERS)
        f.model('max.%s d, a, b;' % t, a2(), [b], lambda x, y: max(val(x), val(y)), INTEGERS)
        if bits < 64:
            wide = 'b%d' % (2 * bits)
            f.model('mul.wide.%s d, a, b;' % t, a2(), [wide], lambda x, y: val(x) * val(y), INTEGERS)
            f.model(
                'mad.wide.%s d, a, b, c;' % t,
                a2() + [(wide, ints(2 * bits))],
                [wide],
                lambda x, y, z: val(x) * val(y) + z,
                INTEGERS,
            )
        if sg:
            f.model('abs.%s d, a;' % t, [(b, ints(bits))], [b], lambda x: abs(val(x)), INTEGERS)
            f.model('neg.%s d, a;' % t, [(b, ints(bits))], [b], lambda x: -val(x), INTEGERS)
        for op, fn in (
            ('eq', lambda x, y: x == y),
            ('ne', lambda x, y: x != y),
            ('lt', lambda x, y: x < y),
            ('le', lambda x, y: x <= y),
            ('gt', lambda x, y: x > y),
            ('ge', lambda x, y: x >= y),
        ):
            xs, ys = ints(bits), ints(bits)
            ys[:6] = xs[:6]
            f.model(
                'setp.%s.%s d, a, b;' % (op, t),
                [(b, xs), (b, ys)],
                ['pred'],
                lambda x, y, fn=fn: int(fn(val(x), val(y))),
                INTEGERS,
            )
    for op, fn in (
        ('lo', lambda x, y: x < y),
        ('ls', lambda x, y: x <= y),
        ('hi', lambda x, y: x > y),
        ('hs', lambda x, y: x >= y),
    ):
        f.model(
            'setp.%s.u32 d, a, b;' % op,
            [('b32', ints(32)), ('b32', ints(32))],
            ['pred'],
            lambda x, y, fn=fn: int(fn(x, y)),
            INTEGERS,
        )
    for op, fn in (('and', lambda r, c: r and c), ('or', lambda r, c: r or c), ('xor', lambda r, c: r != c)):
        f.model(
            'setp.lt.%s.s32 d|f, a, b, !c;' % op,
            [('b32', ints(32)), ('b32', ints(32)), ('pred', [i & 1 for i in range(32)])],
            ['pred', 'pred'],
            lambda x, y, c, fn=fn: (
                int(fn(signed(x, 32) < signed(y, 32), not c)),
                int(fn(not signed(x, 32) < signed(y, 32), not c)),
            ),
            INTEGERS,
        )
    f.model(
        'set.gt.u32.s32 d, a, b;',
        [('b32', ints(32)), ('b32', ints(32))],
        ['b32'],
        lambda x, y: mask(32) if signed(x, 32) > signed(y, 32) else 0,
        INTEGERS,
    )
    f.model(
        'set.gt.f32.u32 d, a, b;',
        [('b32', ints(32)), ('b32', ints(32))],
        ['b32'],
        lambda x, y: 0x3F800000 if x > y else 0,
        INTEGERS,
    )
    p32 = ('pred', [(i * 7 >> 2) & 1 for i in range(32)])
    for b, bits in (('b16', 16), ('b32', 32), ('b64', 64)):
        f.model(
            'selp.%s d, a, b, c;' % b,
            [(b, ints(bits)), (b, ints(bits)), p32],
            [b],
            lambda x, y, c: x if c else y,
            INTEGERS,
        )
        f.model(
            'slct.%s.s32 d, a, b, c;' % b,
            [(b, ints(bits)), (b, ints(bits)), ('b32', ints(32))],
            [b],
            lambda x, y, c: x if signed(c, 32) >= 0 else y,
            INTEGERS,
        )
        for op, fn in (('and', lambda x, y: x & y), ('or', lambda x, y: x | y), ('xor', lambda x, y: x ^ y)):
            f.model('%s.%s d, a, b;' % (op, b), [(b, ints(bits)), (b, ints(bits))], [b], fn, INTEGERS)
        f.model('not.%s d, a;' % b, [(b, ints(bits))], [b], lambda x: ~x, INTEGERS)
        f.model('cnot.%s d, a;' % b, [(b, ints(bits))], [b], lambda x: int(x == 0), INTEGERS)
        amounts = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 0x80000000, mask(32)] + [
            rng.randrange(bits) for _ in range(18)
        ]
        f.model(
            'shl.%s d, a, b;' % b, [(b, ints(bits)), ('b32', amounts)], [b], lambda x, n: x << min(n, bits), INTEGERS
        )
        f.model(
            'shr.u%d d, a, b;' % bits,
            [(b, ints(bits)), ('b32', amounts)],
            [b],
            lambda x, n: x >> min(n, bits),
            INTEGERS,
        )
        f.model(
            'shr.s%d d, a, b;' % bits,
            [(b, ints(bits)), ('b32', amounts)],
            [b],
            lambda x, n: signed(x, bits) >> min(n, bits),
            INTEGERS,
        )
        if bits > 16:
            f.model('popc.%s d, a;' % b, [(b, ints(bits))], ['b32'], lambda x: bin(x).count('1'), INTEGERS)
            f.model('clz.%s d, a;' % b, [(b, ints(bits))], ['b32'], lambda x: bits - x.bit_length(), INTEGERS)
            f.model(
                'brev.%s d, a;' % b, [(b, ints(bits))], [b], lambda x: int(format(x, '0%db' % bits)[::-1], 2), INTEGERS
            )
            for sg in (False, True):
                t = ('s' if sg else 'u') + str(bits)

                def bfind(x, sg=sg):
                    v = ~x & mask(bits) if sg and x >> (bits - 1) else x
                    return v.bit_length() - 1 if v else mask(32)

                f.model('bfind.%s d, a;' % t, [(b, ints(bits))], ['b32'], bfind, INTEGERS)
                f.model(
                    'bfind.shiftamt.%s d, a;' % t,
                    [(b, ints(bits))],
                    ['b32'],
                    lambda x, bfind=bfind: mask(32) if bfind(x) == mask(32) else bits - 1 - bfind(x),
                    INTEGERS,
                )
                # Beyond 255 the manual promises nothing: sm_90 masks with 255 for b32 only.
                positions = [rng.choice([0, 1, 5, bits - 1, bits, 200]) for _ in range(32)]
                lengths = [rng.choice([0, 1, 3, 16, bits - 1, bits, 255]) for _ in range(32)]

                def bfe(a, p, n, sg=sg):
                    p, n = p & 255, n & 255
                    if n == 0:
                        return 0
                    sign = sg and a >> min(p + n - 1, bits - 1) & 1
                    out = 0
                    for i in range(bits):
                        bit = (a >> (p + i) & 1) if i < n and p + i < bits else sign
                        out |= bit << i
                    return out

                f.model(
                    'bfe.%s d, a, b, c;' % t,
                    [(b, ints(bits)), ('b32', positions), ('b32', lengths)],
                    [b],
                    bfe,
                    'manual 9.7.1.19, bit by bit',
                )

            def bfi(a, to, p, n):
                p, n = p & 255, n & 255
                for i in range(n):
                    if p + i < bits:
                        to = to & ~(1 << (p + i)) | (a >> i & 1) << (p + i)
                return to

            f.model(
                'bfi.%s d, a, b, c, e;' % b,
                [(b, ints(bits)), (b, ints(bits)), ('b32', positions), ('b32', lengths)],
                [b],
                bfi,
                'manual 9.7.1.20, bit by bit',
            )
    two = lambda: [('b32', ints(32)), ('b32', ints(32))]
    three = lambda: two() + [('b32', ints(32))]
    low, high = -(1 << 31), (1 << 31) - 1
    f.model(
        'add.sat.s32 d, a, b;', two(), ['b32'], lambda x, y: clamp(signed(x, 32) + signed(y, 32), low, high), INTEGERS
    )
    f.model(
        'sub.sat.s32 d, a, b;', two(), ['b32'], lambda x, y: clamp(signed(x, 32) - signed(y, 32), low, high), INTEGERS
    )
    f.model(
        'mad.hi.sat.s32 d, a, b, c;',
        three(),
        ['b32'],
        lambda x, y, z: clamp((signed(x, 32) * signed(y, 32) >> 32) + signed(z, 32), low, high),
        INTEGERS,
    )
    for sg in (False, True):
        t = 's32' if sg else 'u32'
        v = (lambda x: signed(x, 24)) if sg else (lambda x: x & mask(24))
        f.model('mul24.lo.%s d, a, b;' % t, two(), ['b32'], lambda x, y, v=v: v(x) * v(y), INTEGERS)
        f.model('mul24.hi.%s d, a, b;' % t, two(), ['b32'], lambda x, y, v=v: v(x) * v(y) >> 16, INTEGERS)
        f.model('mad24.lo.%s d, a, b, c;' % t, three(), ['b32'], lambda x, y, z, v=v: v(x) * v(y) + z, INTEGERS)
        f.model('mad24.hi.%s d, a, b, c;' % t, three(), ['b32'], lambda x, y, z, v=v: (v(x) * v(y) >> 16) + z, INTEGERS)
    for ta in ('u32', 's32'):
        for tb in ('u32', 's32'):

            def part(v, i, w, t):
                v = v >> (w * i) & mask(w)
                return signed(v, w) if t == 's32' else v

            f.model(
                'dp4a.%s.%s d, a, b, c;' % (ta, tb),
                three(),
                ['b32'],
                lambda x, y, z, ta=ta, tb=tb: z + sum(part(x, i, 8, ta) * part(y, i, 8, tb) for i in range(4)),
                INTEGERS,
            )
            for half in ('lo', 'hi'):
                f.model(
                    'dp2a.%s.%s.%s d, a, b, c;' % (half, ta, tb),
                    three(),
                    ['b32'],
                    lambda x, y, z, ta=ta, tb=tb, half=half: z
                    + sum(part(x, i, 16, ta) * part(y, i + (2 if half == 'hi' else 0), 8, tb) for i in range(2)),
                    INTEGERS,
                )
    n33 = [0, 1, 31, 32, 33, 64, 255, mask(32)] + [rng.randrange(34) for _ in range(24)]
    f.model(
        'shf.l.clamp.b32 d, a, b, c;',
        two() + [('b32', n33)],
        ['b32'],
        lambda x, y, n: (y << 32 | x) << min(n, 32) >> 32,
        INTEGERS,
    )
    f.model(
        'shf.r.clamp.b32 d, a, b, c;',
        two() + [('b32', n33)],
        ['b32'],
        lambda x, y, n: (y << 32 | x) >> min(n, 32),
        INTEGERS,
    )
    f.model(
        'shf.l.wrap.b32 d, a, b, c;',
        two() + [('b32', n33)],
        ['b32'],
        lambda x, y, n: (y << 32 | x) << (n & 31) >> 32,
        INTEGERS,
    )
    f.model(
        'shf.r.wrap.b32 d, a, b, c;',
        two() + [('b32', n33)],
        ['b32'],
        lambda x, y, n: (y << 32 | x) >> (n & 31),
        INTEGERS,
    )
    for lut in (0x00, 0x01, 0x80, 0x96, 0xE8, 0xCA, 0x3C, 0xFF):

        def lop3(x, y, z, lut=lut):
            return sum((lut >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1)) & 1) << i for i in range(32))

        f.model('lop3.b32 d, a, b, c, %d;' % lut, three(), ['b32'], lop3, 'manual 9.7.8.6, truth table bit by bit')
    sparse = [v if i % 3 else 0 for i, v in enumerate(ints(32))]
    f.model(
        'lop3.or.b32 d|f, a, b, c, 0x80, !e;',
        [('b32', sparse), ('b32', sparse), ('b32', sparse), p32],
        ['b32', 'pred'],
        lambda x, y, z, q: (x & y & z, int((x & y & z) != 0 or not q)),
        'manual 9.7.8.6',
    )

    def prmt(x, y, s):
        source, out = x | y << 32, 0
        for i in range(4):
            k = s >> (4 * i) & 15
            byte = source >> (8 * (k & 7)) & 255
            out |= ((255 if byte & 128 else 0) if k & 8 else byte) << (8 * i)
        return out

    f.model(
        'prmt.b32 d, a, b, c;',
        two() + [('b32', [0x3210, 0x7654, 0xBA98, 0x0123] + ints(16)[:28])],
        ['b32'],
        prmt,
        'manual 9.7.9.7, byte by byte',
    )
    tables = {
        'f4e': ['3210', '4321', '5432', '6543'],
        'b4e': ['5670', '6701', '7012', '0123'],
        'rc8': ['0000', '1111', '2222', '3333'],
        'ecl': ['3210', '3211', '3222', '3333'],
        'ecr': ['0000', '1110', '2210', '3210'],
        'rc16': ['1010', '3232', '1010', '3232'],
    }
    for m, rows in tables.items():
        f.model(
            'prmt.b32.%s d, a, b, c;' % m,
            two() + [('b32', [i if i < 4 else rng.getrandbits(32) for i in range(32)])],
            ['b32'],
            lambda x, y, s, rows=rows: prmt(x, y, int(rows[s & 3], 16)),
            'manual 9.7.9.7, table of modes',
        )
    f.model(
        'fns.b32 d, a, b, c;',
        [
            ('b32', ints(32)),
            ('b32', [rng.randrange(32) for _ in range(32)]),
            ('b32', [rng.randrange(-6, 7) & mask(32) for _ in range(32)]),
        ],
        ['b32'],
        lambda m, base, n: fns(m, base, signed(n, 32)),
        'manual 9.7.1, "fns"',
    )
    for mode in ('clamp', 'wrap'):
        widths = [0, 1, 5, 31, 32, 33, 40, 64, mask(32)] + [rng.randrange(33) for _ in range(23)]

        def szext(a, n, sg, mode=mode):
            n = n & 31 if mode == 'wrap' else min(n, 32)
            if n == 0:
                return 0
            v = a & mask(n)
            return signed(v, n) if sg else v

        f.model(
            'szext.%s.u32 d, a, b;' % mode,
            [('b32', ints(32)), ('b32', widths)],
            ['b32'],
            lambda a, n: szext(a, n, False),
            'manual 9.7.1.21',
        )
        f.model(
            'szext.%s.s32 d, a, b;' % mode,
            [('b32', ints(32)), ('b32', widths)],
            ['b32'],
            lambda a, n: szext(a, n, True),
            'manual 9.7.1.21',
        )

        def bmsk(p, n, mode=mode):
            if mode == 'wrap':
                p, n = p & 31, n & 31
            else:
                p, n = min(p, 32), min(n, 32)
            return mask(n) << p

        f.model(
            'bmsk.%s.b32 d, a, b;' % mode,
            [('b32', widths), ('b32', list(reversed(widths)))],
            ['b32'],
            bmsk,
            'manual 9.7.1.22',
        )
    f.model(
        'add.cc.u32 d, a, b; addc.u32 f, a, b;',
        two(),
        ['b32', 'b32'],
        lambda x, y: (x + y, x + y + (x + y >> 32)),
        INTEGERS,
        'add_cc_addc',
    )
    f.model(
        'sub.cc.u32 d, a, b; subc.u32 f, a, b;',
        two(),
        ['b32', 'b32'],
        lambda x, y: (x - y, x - y - int(x < y)),
        INTEGERS,
        'sub_cc_subc',
    )
    f.model(
        'add.cc.u64 d, a, b; addc.cc.u64 f, a, b; addc.u64 d, d, f;',
        [('b64', ints(64)), ('b64', ints(64))],
        ['b64', 'b64'],
        lambda x, y: carry_chain(x, y),
        INTEGERS,
        'add_cc_u64_chain',
    )
    f.model(
        'mad.lo.cc.u32 d, a, b, c; madc.hi.u32 f, a, b, c;',
        three(),
        ['b32', 'b32'],
        lambda x, y, z: ((x * y & mask(32)) + z, (x * y >> 32) + z + ((x * y & mask(32)) + z >> 32)),
        INTEGERS,
        'mad_lo_cc_madc_hi',
    )
    for t in ('u16x2', 's16x2'):
        v = (lambda x: signed(x, 16)) if t[0] == 's' else (lambda x: x & mask(16))
        pair = lambda fn: (
            lambda x, y: (fn(x & mask(16), y & mask(16)) & mask(16)) | (fn(x >> 16, y >> 16) & mask(16)) << 16
        )
        f.model('add.%s d, a, b;' % t, two(), ['b32'], pair(lambda p, q: p + q), INTEGERS)
        f.model('min.%s d, a, b;' % t, two(), ['b32'], pair(lambda p, q, v=v: min(v(p), v(q))), INTEGERS)
        f.model('max.%s d, a, b;' % t, two(), ['b32'], pair(lambda p, q, v=v: max(v(p), v(q))), INTEGERS)
    f.model('max.relu.s16x2 d, a, b;', two(), ['b32'], lambda x, y: pair_relu(x, y, max), INTEGERS)
    f.model('min.relu.s32 d, a, b;', two(), ['b32'], lambda x, y: max(0, min(signed(x, 32), signed(y, 32))), INTEGERS)
    for op, fn in (('and', lambda x, y: x & y), ('or', lambda x, y: x | y), ('xor', lambda x, y: x ^ y)):
        f.model('%s.pred d, a, b;' % op, [p32, ('pred', [i >> 1 & 1 for i in range(32)])], ['pred'], fn, INTEGERS)
    f.model('not.pred d, a;', [p32], ['pred'], lambda x: 1 - x, INTEGERS)
    for op in ('mov.b32', 'mov.u32', 'mov.f32'):
        f.model(op + ' d, a;', [('b32', ints(32))], ['b32'], lambda x: x, INTEGERS)
    f.model('mov.b64 d, a;', [('b64', ints(64))], ['b64'], lambda x: x, INTEGERS)
    f.model('mov.b64 d, {a, b};', two(), ['b64'], lambda x, y: x | y << 32, INTEGERS, 'mov_b64_pack')
    f.model(
        'mov.b64 {d, f}, a;',
        [('b64', ints(64))],
        ['b32', 'b32'],
        lambda x: (x & mask(32), x >> 32),
        INTEGERS,
        'mov_b64_unpack',
    )
    f.model(
        'mov.b32 d, {a, b};',
        [('b16', ints(16)), ('b16', ints(16))],
        ['b32'],
        lambda x, y: x | y << 16,
        INTEGERS,
        'mov_b32_pack',
    )
    f.model(
        'mov.b32 {d, f}, a;',
        [('b32', ints(32))],
        ['b16', 'b16'],
        lambda x: (x & mask(16), x >> 16),
        INTEGERS,
        'mov_b32_unpack',
    )
    f.model(
        'mov.b64 d, {a, b, c, e};',
        [('b16', ints(16)) for _ in range(4)],
        ['b64'],
        lambda x, y, z, w: x | y << 16 | z << 32 | w << 48,
        INTEGERS,
        'mov_b64_pack4',
    )
    f.write()


def fns(m, base, n):
    if n == 0:
        return base if m >> base & 1 else mask(32)
    step, left, i = (1, n, base) if n > 0 else (-1, -n, base)
    while 0 <= i < 32:
        if m >> i & 1:
            left -= 1
            if left == 0:
                return i
        i += step
    return mask(32)


def carry_chain(x, y):
    d = x + y
    f = x + y + (d >> 64)
    return (d & mask(64)) + (f & mask(64)) + (f >> 64), f


def pair_relu(x, y, fn):
    half = lambda p, q: max(0, fn(signed(p, 16), signed(q, 16)))
    return half(x & mask(16), y & mask(16)) | half(x >> 16, y >> 16) << 16


def float_files():
    f = File('arithmetic_float', 'f32 and f64 arithmetic, IEEE 754; NaN results of f32 are 7fffffff.', target='sm_90')
    for op in ('add', 'sub', 'mul', 'fma'):
        n = 3 if op == 'fma' else 2
        operands = 'd, a, b, c' if n == 3 else 'd, a, b'
        for mode in ('rn', 'rz', 'rm', 'rp'):
            for _ in range(2):
                f.model(
                    '%s.%s.f32 %s;' % (op, mode, operands),
                    [('b32', floats(F32)) for _ in range(n)],
                    ['b32'],
                    float_op(F32, op, mode),
                    EXACT,
                )
            f.model(
                '%s.%s.f64 %s;' % (op, mode, operands),
                [('b64', floats(F64, special=False)) for _ in range(n)],
                ['b64'],
                float_op(F64, op, mode),
                EXACT,
            )
        f.model(
            '%s.rn.f32 %s;' % (op, operands),
            [('b32', floats(F32, special=False, scale=2)) for _ in range(n)],
            ['b32'],
            float_op(F32, op),
            EXACT,
        )
        f.model(
            '%s.rn.ftz.f32 %s;' % (op, operands),
            [('b32', floats(F32)) for _ in range(n)],
            ['b32'],
            float_op(F32, op, ftz=True),
            EXACT,
        )
        f.model(
            '%s.rn.sat.f32 %s;' % (op, operands),
            [('b32', floats(F32, scale=1)) for _ in range(n)],
            ['b32'],
            float_op(F32, op, sat=True),
            EXACT,
        )
    # Half-way cases of fma and of sums that cancel, by hand: 1 + 2^-24 ties to even, with a crumb below it does not.
    one, half_ulp = 0x3F800000, 0x33800000
    f.case(
        'fma.rn.f32 d, a, b, c;',
        [
            ('b32', [half_ulp, 0x33800001, one, 0x7F7FFFFF] * 8),
            ('b32', [one, one, one, 0x40000000] * 8),
            ('b32', [one, one, 0xBF800000, 0xFF7FFFFF] * 8),
        ],
        [('b32', [one, 0x3F800001, 0, 0x7F7FFFFF] * 8)],
        'hand: 1 + 2^-24 is a tie; 1 + 2^-24(1 + 2^-23) is not; 1 - 1 = +0; 2 max - max = max without overflow',
        'fma_rn_f32_by_hand',
    )
    for mode in ('rn', 'rz', 'rm', 'rp'):
        f.model(
            'div.%s.f32 d, a, b;' % mode,
            [('b32', floats(F32)), ('b32', floats(F32))],
            ['b32'],
            float_op(F32, 'div', mode),
            EXACT,
        )
        f.model('rcp.%s.f32 d, a;' % mode, [('b32', floats(F32))], ['b32'], float_op(F32, 'rcp', mode), EXACT)
        f.model(
            'sqrt.%s.f32 d, a;' % mode,
            [('b32', [v & 0x7FFFFFFF if i % 4 else v for i, v in enumerate(floats(F32))])],
            ['b32'],
            sqrt_model(F32, mode),
            EXACT,
        )
        f.model(
            'div.%s.f64 d, a, b;' % mode,
            [('b64', floats(F64, special=False)), ('b64', floats(F64, special=False))],
            ['b64'],
            float_op(F64, 'div', mode),
            EXACT,
        )
        f.model(
            'sqrt.%s.f64 d, a;' % mode,
            [('b64', [v & mask(63) for v in floats(F64, special=False)])],
            ['b64'],
            sqrt_model(F64, mode),
            EXACT,
        )
    for name, biggest in (('min', False), ('max', True)):
        f.model(
            '%s.f32 d, a, b;' % name,
            [('b32', floats(F32)), ('b32', floats(F32))],
            ['b32'],
            min_max(F32, biggest),
            'manual 9.7.3.11',
        )
        f.model(
            '%s.NaN.f32 d, a, b;' % name,
            [('b32', floats(F32)), ('b32', floats(F32))],
            ['b32'],
            min_max(F32, biggest, nan=True),
            'manual 9.7.3.11',
        )
        f.model(
            '%s.xorsign.abs.f32 d, a, b;' % name,
            [('b32', floats(F32)), ('b32', floats(F32))],
            ['b32'],
            min_max(F32, biggest, xorsign=True),
            'manual 9.7.3.11',
        )
        zeros = [0, 0x80000000, 0, 0x80000000] * 8
        f.model(
            '%s.f32 d, a, b;' % name,
            [('b32', zeros), ('b32', [0, 0, 0x80000000, 0x80000000] * 8)],
            ['b32'],
            min_max(F32, biggest),
            'manual 9.7.3.11: -0 < +0',
        )
        f.model(
            '%s.f64 d, a, b;' % name,
            [('b64', floats(F64, special=False)), ('b64', floats(F64, special=False))],
            ['b64'],
            min_max(F64, biggest),
            'manual 9.7.3.11',
        )
    number = [v for v in floats(F32) if F32.value(v) != 'nan']
    number += number[: LANES - len(number)]
    f.model('abs.f32 d, a;', [('b32', number)], ['b32'], lambda x: x & mask(31), 'sign bit cleared')
    f.model('neg.f32 d, a;', [('b32', number)], ['b32'], lambda x: x ^ 1 << 31, 'sign bit flipped')
    f.model(
        'copysign.f32 d, a, b;',
        [('b32', number), ('b32', floats(F32))],
        ['b32'],
        lambda x, y: x & 1 << 31 | y & mask(31),
        'manual 9.7.3.2',
    )
    kinds = {
        'finite': lambda v, c: not is_special(v),
        'infinite': lambda v, c: v in ('+inf', '-inf'),
        'number': lambda v, c: v != 'nan',
        'notanumber': lambda v, c: v == 'nan',
        'normal': lambda v, c: not is_special(v) and (c >> 23 & 255 != 0 or v == 0),
        'subnormal': lambda v, c: not is_special(v) and c >> 23 & 255 == 0 and c & mask(23) != 0,
    }
    for kind, fn in kinds.items():
        f.model(
            'testp.%s.f32 d, a;' % kind,
            [('b32', floats(F32))],
            ['pred'],
            lambda c, fn=fn: int(fn(F32.value(c), c)),
            'manual 9.7.3.1',
        )
    order = {'-inf': -(2**2000), '+inf': 2**2000}

    def compare(op, x, y):
        if op in ('num', 'nan'):
            unordered = x == 'nan' or y == 'nan'
            return unordered == (op == 'nan')
        base, allow = (op[:2], True) if op.endswith('u') and op not in ('eq', 'ne') else (op, False)
        if x == 'nan' or y == 'nan':
            return allow
        x, y = order.get(x, x), order.get(y, y)
        return {'eq': x == y, 'ne': x != y, 'lt': x < y, 'le': x <= y, 'gt': x > y, 'ge': x >= y}[base]

    for op in ('eq', 'ne', 'lt', 'le', 'gt', 'ge', 'equ', 'neu', 'ltu', 'leu', 'gtu', 'geu', 'num', 'nan'):
        for t, fmt, b in (('f32', F32, 'b32'), ('f64', F64, 'b64'), ('f16', F16, 'b16')):
            xs, ys = floats(fmt), floats(fmt)
            ys[:8] = xs[:8]
            f.model(
                'setp.%s.%s d, a, b;' % (op, t),
                [(b, xs), (b, ys)],
                ['pred'],
                lambda x, y, op=op, fmt=fmt: int(compare(op, fmt.value(x), fmt.value(y))),
                'manual 9.3.1.2',
            )
    good = floats(F32, special=False, scale=3)
    positive = [v & mask(31) for v in good]
    for name, fn, xs, ulps in (
        ('rcp.approx.f32', lambda x: 1 / x, good, 1),
        ('sqrt.approx.f32', math.sqrt, positive, 2),
        ('rsqrt.approx.f32', lambda x: 1 / math.sqrt(x), positive, 3),
        ('ex2.approx.f32', lambda x: 2**x, good, 3),
    ):
        results = [F32.round(Fraction(fn(float(F32.value(v))))) for v in xs]
        f.case(
            '%s d, a;' % name,
            [('b32', xs)],
            [('f32', results, ulps)],
            'binary64 formula, within the manual\'s error bound',
        )
    f.write()

    p = File('arithmetic_pair', 'Packed f32x2 arithmetic.', target='sm_100')

    def halves(fn, n):
        def run(*codes):
            return fn(*[c & mask(32) for c in codes]) | fn(*[c >> 32 for c in codes]) << 32

        return run

    for op in ('add', 'sub', 'mul', 'fma'):
        n = 3 if op == 'fma' else 2
        pairs = lambda: ('b64', [x | y << 32 for x, y in zip(floats(F32), floats(F32))])
        for mode in ('rn', 'rz', 'rm', 'rp'):
            p.model(
                '%s.%s.f32x2 %s;' % (op, mode, 'd, a, b, c' if n == 3 else 'd, a, b'),
                [pairs() for _ in range(n)],
                ['b64'],
                halves(float_op(F32, op, mode), n),
                EXACT,
            )
        p.model(
            '%s.rn.ftz.f32x2 %s;' % (op, 'd, a, b, c' if n == 3 else 'd, a, b'),
            [pairs() for _ in range(n)],
            ['b64'],
            halves(float_op(F32, op, ftz=True), n),
            EXACT,
        )
    p.write()


def half_files():
    f = File('arithmetic_half', 'f16 and bf16 arithmetic; NaN results are 7fff.', target='sm_90')

    def halves(fn):
        return lambda *codes: fn(*[c & mask(16) for c in codes]) | fn(*[c >> 16 for c in codes]) << 16

    for t, fmt in (('f16', F16), ('bf16', BF16)):
        one = lambda fmt=fmt: ('b16', floats(fmt))
        two = lambda fmt=fmt: ('b32', [x | y << 16 for x, y in zip(floats(fmt), floats(fmt))])
        for op in ('add', 'sub', 'mul', 'fma'):
            n = 3 if op == 'fma' else 2
            operands = 'd, a, b, c' if n == 3 else 'd, a, b'
            for _ in range(2):
                f.model(
                    '%s.rn.%s %s;' % (op, t, operands), [one() for _ in range(n)], ['b16'], float_op(fmt, op), EXACT
                )
                f.model(
                    '%s.rn.%sx2 %s;' % (op, t, operands),
                    [two() for _ in range(n)],
                    ['b32'],
                    halves(float_op(fmt, op)),
                    EXACT,
                )
        f.model(
            'fma.rn.relu.%s d, a, b, c;' % t, [one(), one(), one()], ['b16'], float_op(fmt, 'fma', relu=True), EXACT
        )
        f.model(
            'fma.rn.relu.%sx2 d, a, b, c;' % t,
            [two(), two(), two()],
            ['b32'],
            halves(float_op(fmt, 'fma', relu=True)),
            EXACT,
        )
        for name, biggest in (('min', False), ('max', True)):
            f.model('%s.%s d, a, b;' % (name, t), [one(), one()], ['b16'], min_max(fmt, biggest), 'manual 9.7.4.7')
            f.model(
                '%s.NaN.%s d, a, b;' % (name, t),
                [one(), one()],
                ['b16'],
                min_max(fmt, biggest, nan=True),
                'manual 9.7.4.7',
            )
            f.model(
                '%s.%sx2 d, a, b;' % (name, t), [two(), two()], ['b32'], halves(min_max(fmt, biggest)), 'manual 9.7.4.7'
            )
        number = [v for v in floats(fmt) if fmt.value(v) != 'nan']
        number += number[: LANES - len(number)]
        f.model('neg.%s d, a;' % t, [('b16', number)], ['b16'], lambda x: x ^ 0x8000, 'sign bit flipped')
        f.model('abs.%s d, a;' % t, [('b16', number)], ['b16'], lambda x: x & 0x7FFF, 'sign bit cleared')
    f.model(
        'add.ftz.f16 d, a, b;',
        [('b16', floats(F16)), ('b16', floats(F16))],
        ['b16'],
        float_op(F16, 'add', ftz=True),
        EXACT,
    )
    f.model(
        'add.sat.f16 d, a, b;',
        [('b16', floats(F16, scale=1)), ('b16', floats(F16, scale=1))],
        ['b16'],
        float_op(F16, 'add', sat=True),
        EXACT,
    )
    f.model(
        'mul.ftz.f16x2 d, a, b;',
        [('b32', [x | y << 16 for x, y in zip(floats(F16), floats(F16))]) for _ in range(2)],
        ['b32'],
        halves(float_op(F16, 'mul', ftz=True)),
        EXACT,
    )
    f.write()


def convert_files():
    f = File('arithmetic_convert', 'Conversions.', target='sm_90')
    KINDS = {'u8': 8, 'u16': 16, 'u32': 32, 'u64': 64, 's8': 8, 's16': 16, 's32': 32, 's64': 64}
    FLOATS = {'f16': F16, 'bf16': BF16, 'f32': F32, 'f64': F64}

    def reg(bits):
        return 'b%d' % max(bits, 16)

    def extend(v, t):
        bits = KINDS[t]
        v &= mask(bits)
        return signed(v, bits) & mask(max(bits, 16)) if t[0] == 's' else v

    def number(code, t):
        bits = KINDS[t]
        return signed(code, bits) if t[0] == 's' else code & mask(bits)

    def limits(t):
        bits = KINDS[t]
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == 's' else (0, mask(bits))

    for to in KINDS:
        for frm in KINDS:
            if to == frm:
                continue
            f.model(
                'cvt.%s.%s d, a;' % (to, frm),
                [(reg(KINDS[frm]), ints(max(KINDS[frm], 16)))],
                [reg(KINDS[to])],
                lambda x, to=to, frm=frm: extend(number(x, frm), to),
                INTEGERS,
            )
            if limits(to)[0] <= limits(frm)[0] and limits(frm)[1] <= limits(to)[1]:
                continue  # nothing to saturate: ptxas refuses it
            f.model(
                'cvt.sat.%s.%s d, a;' % (to, frm),
                [(reg(KINDS[frm]), ints(max(KINDS[frm], 16)))],
                [reg(KINDS[to])],
                lambda x, to=to, frm=frm: extend(clamp(number(x, frm), *limits(to)), to),
                INTEGERS,
            )
    # Wider registers than types (manual 9.4.1).
    f.model(
        'cvt.s64.s32 d, a;',
        [('b64', ints(64))],
        ['b64'],
        lambda x: signed(x, 32),
        'manual 9.4.1',
        'cvt_s64_s32_wide_source',
    )
    f.model(
        'cvt.s8.s32 d, a;',
        [('b32', ints(32))],
        ['b32'],
        lambda x: signed(x, 8),
        'manual 9.4.1',
        'cvt_s8_s32_wide_destination',
    )
    f.model(
        'cvt.u32.u16 d, a;', [('b32', ints(32))], ['b64'], lambda x: x & 0xFFFF, 'manual 9.4.1', 'cvt_u32_u16_wide_both'
    )

    def to_integral(x, mode):
        if mode == 'rni':
            low = math.floor(x)
            rest = x - low
            return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))
        return {'rzi': math.trunc, 'rmi': math.floor, 'rpi': math.ceil}[mode](x)

    for frm, fmt in FLOATS.items():
        for to in ('s32', 'u32', 's64', 'u64', 's16', 'u8'):
            if frm == 'bf16' and to not in ('s32', 'u32', 's64'):
                continue
            for mode in ('rni', 'rzi', 'rmi', 'rpi'):

                def convert(c, fmt=fmt, frm=frm, to=to, mode=mode):
                    x = fmt.value(c)
                    low, high = limits(to)
                    if x == 'nan':
                        return 1 << (KINDS[to] - 1) if frm == 'f64' or to in ('s64', 'u64') else 0
                    if is_special(x):
                        return extend(high if x == '+inf' else low, to)
                    return extend(clamp(to_integral(x, mode), low, high), to)

                xs = floats(fmt, special=frm != 'f64')
                for i in range(0, 12):  # magnitudes that matter
                    xs[i * 2] = fmt.round(Fraction(rng.randint(-9, 300)) + Fraction(rng.choice([0, 1, 2, 3]), 4))
                f.model(
                    'cvt.%s.%s.%s d, a;' % (mode, to, frm),
                    [(reg(fmt.width), xs)],
                    [reg(KINDS[to])],
                    convert,
                    'manual 9.7.9.21: rounded, then limited',
                )
    for to, fmt in FLOATS.items():
        for frm in ('s32', 'u32', 's64', 'u64', 's8', 'u16'):
            if to == 'bf16' and frm in ('s8',):
                continue
            for mode in ('rn', 'rz', 'rm', 'rp'):
                f.model(
                    'cvt.%s.%s.%s d, a;' % (mode, to, frm),
                    [(reg(KINDS[frm]), ints(max(16, KINDS[frm])))],
                    [reg(fmt.width)],
                    lambda x, fmt=fmt, frm=frm, mode=mode: fmt.round(Fraction(number(x, frm)), mode),
                    EXACT,
                )

    def narrow(fmt, src, mode='rn', sat=False, relu=False):
        def run(c):
            x = src.value(c)
            if relu and x != 'nan' and src.sign(c):
                x, z = Fraction(0), 0
            else:
                z = src.sign(c)
            return fmt.round(x, mode, saturate=sat, zero_sign=z)

        return run

    for mode in ('rn', 'rz', 'rm', 'rp'):
        f.model(
            'cvt.%s.f32.f64 d, a;' % mode, [('b64', floats(F64, scale=126))], ['b32'], narrow(F32, F64, mode), EXACT
        )
        f.model('cvt.%s.f16.f32 d, a;' % mode, [('b32', floats(F32, scale=16))], ['b16'], narrow(F16, F32, mode), EXACT)
        f.model('cvt.%s.f16.f64 d, a;' % mode, [('b64', floats(F64, scale=16))], ['b16'], narrow(F16, F64, mode), EXACT)
    for mode in ('rn', 'rz'):
        f.model('cvt.%s.bf16.f32 d, a;' % mode, [('b32', floats(F32))], ['b16'], narrow(BF16, F32, mode), EXACT)
        f.model(
            'cvt.%s.relu.bf16.f32 d, a;' % mode,
            [('b32', floats(F32))],
            ['b16'],
            narrow(BF16, F32, mode, relu=True),
            EXACT,
        )
        f.model(
            'cvt.%s.relu.f16.f32 d, a;' % mode,
            [('b32', floats(F32, scale=16))],
            ['b16'],
            narrow(F16, F32, mode, relu=True),
            EXACT,
        )
        for t, fmt in (('f16', F16), ('bf16', BF16)):
            for relu in (False, True):
                n = narrow(fmt, F32, mode, relu=relu)
                f.model(
                    'cvt.%s%s.%sx2.f32 d, a, b;' % (mode, '.relu' if relu else '', t),
                    [('b32', floats(F32, scale=16)), ('b32', floats(F32, scale=16))],
                    ['b32'],
                    lambda x, y, n=n: n(x) << 16 | n(y),
                    EXACT,
                )
    f.model('cvt.f32.f16 d, a;', [('b16', floats(F16))], ['b32'], narrow(F32, F16), EXACT)
    f.model(
        'cvt.f64.f32 d, a;',
        [('b32', [v if F32.value(v) != 'nan' else 0x3F800000 for v in floats(F32)])],
        ['b64'],
        narrow(F64, F32),
        EXACT,
    )
    f.model(
        'cvt.f64.f16 d, a;',
        [('b16', [v if F16.value(v) != 'nan' else 0x3C00 for v in floats(F16)])],
        ['b64'],
        narrow(F64, F16),
        EXACT,
    )
    for mode in ('rni', 'rzi', 'rmi', 'rpi'):

        def integral(c, mode=mode):
            x = F32.value(c)
            if is_special(x):
                return F32.round(x)
            return F32.round(Fraction(to_integral(x, mode)), zero_sign=F32.sign(c))

        f.model('cvt.%s.f32.f32 d, a;' % mode, [('b32', floats(F32, scale=6))], ['b32'], integral, 'manual 9.7.9.21')
    f.model(
        'cvt.ftz.sat.f32.f32 d, a;', [('b32', floats(F32, scale=1))], ['b32'], lambda c: sat_model(c), 'manual 9.7.9.21'
    )
    tf = lambda c, mode: (
        F32.nan_code if F32.value(c) == 'nan' else TF32.round(F32.value(c), mode, zero_sign=F32.sign(c)) << 13
    )
    f.model(
        'cvt.rna.tf32.f32 d, a;',
        [('b32', [v if F32.value(v) != 'nan' else 0 for v in floats(F32)])],
        ['b32'],
        lambda c: tf(c, 'rna'),
        EXACT,
    )
    f.model(
        'cvt.rn.tf32.f32 d, a;',
        [('b32', [v if F32.value(v) != 'nan' else 0 for v in floats(F32)])],
        ['b32'],
        lambda c: tf(c, 'rn'),
        EXACT,
    )
    for t, fmt in (('e4m3', E4M3), ('e5m2', E5M2)):
        for relu in (False, True):
            r = '.relu' if relu else ''
            n = narrow(fmt, F32, sat=True, relu=relu)
            xs = lambda: ('b32', floats(F32, scale=9))
            f.model(
                'cvt.rn.satfinite%s.%sx2.f32 d, a, b;' % (r, t),
                [xs(), xs()],
                ['b16'],
                lambda x, y, n=n: n(x) << 8 | n(y),
                EXACT,
            )
            h = narrow(fmt, F16, sat=True, relu=relu)
            hs = ('b32', [x | y << 16 for x, y in zip(floats(F16), floats(F16))])
            f.model(
                'cvt.rn.satfinite%s.%sx2.f16x2 d, a;' % (r, t),
                [hs],
                ['b16'],
                lambda x, h=h: h(x & 0xFFFF) | h(x >> 16) << 8,
                EXACT,
            )
            w = narrow(F16, fmt, relu=relu)
            f.model(
                'cvt.rn%s.f16x2.%sx2 d, a;' % (r, t),
                [('b16', ints(16, 0x7F80, 0x00FF, 0x7C7B))],
                ['b32'],
                lambda x, w=w: w(x & 0xFF) | w(x >> 8) << 16,
                EXACT,
            )
    for t, bits in (('u16', 16), ('s16', 16)):
        lo, hi = limits(t)
        f.model(
            'cvt.pack.sat.%s.s32 d, a, b;' % t,
            [('b32', ints(32)), ('b32', ints(32))],
            ['b32'],
            lambda x, y, lo=lo, hi=hi: (clamp(signed(x, 32), lo, hi) & mask(16)) << 16
            | clamp(signed(y, 32), lo, hi) & mask(16),
            'manual 9.7.9.22',
        )
    for t in ('u8', 's8', 'u4', 's4', 'u2', 's2'):
        n = int(t[1])
        lo, hi = (0, mask(n)) if t[0] == 'u' else (-(1 << (n - 1)), (1 << (n - 1)) - 1)
        f.model(
            'cvt.pack.sat.%s.s32.b32 d, a, b, c;' % t,
            [('b32', ints(32)), ('b32', ints(32)), ('b32', ints(32))],
            ['b32'],
            lambda x, y, z, n=n, lo=lo, hi=hi: (clamp(signed(x, 32), lo, hi) & mask(n)) << n
            | clamp(signed(y, 32), lo, hi) & mask(n)
            | z << 2 * n,
            'manual 9.7.9.22',
        )
    f.write()


def sat_model(c):
    x = F32.value(c)
    if (
        x == 'nan'
        or x == '-inf'
        or (not is_special(x) and x <= 0)
        or (not is_special(x) and abs(x) < Fraction(2) ** -126)
    ):
        return 0
    return 0x3F800000 if x == '+inf' or x > 1 else c


def warp_files():
    f = File('arithmetic_warp', 'Exchange between the lanes of a warp.', target='sm_90')
    values = ints(32)
    for mode in ('up', 'down', 'bfly', 'idx'):
        for c in (0x1F, 0x0, 0x181F, 0x1807, 0x1C1F, 0x0F):
            lanes = [rng.choice([0, 1, 2, 5, 16, 31, 33]) for _ in range(32)]

            def shfl(lane, b, mode=mode, c=c):
                bound, segment = c & 31, c >> 8 & 31
                top, low = lane & segment | bound & ~segment, lane & segment
                b &= 31
                j, ok = {
                    'up': (lane - b, lane - b >= top),
                    'down': (lane + b, lane + b <= top),
                    'bfly': (lane ^ b, (lane ^ b) <= top),
                    'idx': (low | b & ~segment, (low | b & ~segment) <= top),
                }[mode]
                return (j if ok else lane), int(ok)

            if mode == 'up' and c & 31:
                continue
            got = [shfl(l, lanes[l]) for l in range(32)]
            f.case(
                'shfl.sync.%s.b32 d|f, a, b, %d, -1;' % (mode, c),
                [('b32', values), ('b32', lanes)],
                [('b32', [values[j] for j, _ in got]), ('pred', [ok for _, ok in got])],
                'manual 9.7.9.6, its pseudo code',
            )
    some = [(i * 11 >> 3) & 1 for i in range(32)]
    ballot = sum(v << i for i, v in enumerate(some))
    f.case('vote.sync.ballot.b32 d, a, -1;', [('pred', some)], [('b32', [ballot] * 32)], 'manual 9.7.13.9')
    for mode, fn in (('all', all), ('any', any), ('uni', lambda v: all(v) or not any(v))):
        for given in (some, [0] * 32, [1] * 32):
            f.case(
                'vote.sync.%s.pred d, a, -1;' % mode,
                [('pred', given)],
                [('pred', [int(fn(given))] * 32)],
                'manual 9.7.13.9',
            )
    few = [rng.choice([3, 7, 0xFFFFFFFF]) for _ in range(32)]
    f.case(
        'match.any.sync.b32 d, a, -1;',
        [('b32', few)],
        [('b32', [sum(1 << j for j in range(32) if few[j] == v) for v in few])],
        'manual 9.7.13.10',
    )
    f.case(
        'match.all.sync.b32 d|f, a, -1;', [('b32', few)], [('b32', [0] * 32), ('pred', [0] * 32)], 'manual 9.7.13.10'
    )
    f.case(
        'match.all.sync.b64 d|f, a, -1;',
        [('b64', [5 << 40] * 32)],
        [('b32', [mask(32)] * 32), ('pred', [1] * 32)],
        'manual 9.7.13.10',
    )
    for t in ('u32', 's32'):
        v = [signed(x, 32) if t == 's32' else x for x in values]
        for op, fn in (('add', sum), ('min', min), ('max', max)):
            f.case(
                'redux.sync.%s.%s d, a, -1;' % (op, t), [('b32', values)], [('b32', [fn(v)] * 32)], 'manual 9.7.13.12'
            )
    for op in ('and', 'or', 'xor'):
        r = values[0]
        for x in values[1:]:
            r = {'and': r & x, 'or': r | x, 'xor': r ^ x}[op]
        f.case('redux.sync.%s.b32 d, a, -1;' % op, [('b32', values)], [('b32', [r] * 32)], 'manual 9.7.13.12')
    f.case('activemask.b32 d;', [('b32', values)], [('b32', [mask(32)] * 32)], 'all lanes are active')
    f.case(
        '{ .reg .b32 w; .reg .pred q; mov.u32 w, %tid.x; and.b32 w, w, 1; setp.ne.b32 q, w, 0; @q bra ODD; '
        'shfl.sync.bfly.b32 d, a, 2, 0x1f, 0x55555555; bra DONE; '
        'ODD: shfl.sync.bfly.b32 d, a, 4, 0x1f, 0xaaaaaaaa; DONE: }',
        [('b32', values)],
        [('b32', [values[i ^ (4 if i & 1 else 2)] for i in range(32)])],
        'hand: even lanes exchange with lane^2, odd ones with lane^4',
        'shfl_sync_diverged',
    )
    f.write()


if __name__ == '__main__':
    File.folder = pathlib.Path(sys.argv[1])
    integer_files()
    float_files()
    half_files()
    convert_files()
    warp_files()
