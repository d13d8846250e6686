#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_form_cases.py FOLDER writes form_*.ptx: the rarer opcode forms, so that every row of the emulator's tables has a
case. The models are those of make_cases.py: exact integers and fractions, and the manual."""

import math
import pathlib
import sys
from fractions import Fraction

import make_cases
from make_cases import BF16, EXACT, F16, F32, F64, INTEGERS, LANES, clamp, float_op, floats, ints, mask, min_max, signed


class Forms(make_cases.File):
    @staticmethod
    def evidence(target):
        return 'No machine has confirmed this file.'


def words(bits, n=1):
    return [('b%d' % bits, ints(bits)) for _ in range(n)]


def reals(fmt, n=1, special=True):
    return [('b%d' % fmt.width, floats(fmt, special=special)) for _ in range(n)]


def flushed(fmt, code):
    return code & 1 << (fmt.width - 1) if code >> fmt.f & mask(fmt.e) == 0 else code


def integers(f):
    def chain(z, value):
        return z & mask(64), value >> 64 & mask(64)

    f.model('sub.cc.u64 d, a, b; subc.u64 f, c, e;', words(64, 4), ['b64', 'b64'],
            lambda x, y, z, w: chain(x - y, (x | z << 64) - (y | w << 64)), INTEGERS)
    f.model('mad.lo.cc.u64 d, a, b, c; madc.hi.u64 f, a, b, e;', words(64, 4), ['b64', 'b64'],
            lambda x, y, z, w: (x * y + z, (x * y >> 64) + w + ((x * y & mask(64)) + z >> 64)), INTEGERS)
    f.model('mad24.hi.sat.s32 d, a, b, c;', words(32, 3), ['b32'],
            lambda x, y, z: clamp((signed(x, 24) * signed(y, 24) >> 16) + signed(z, 32), -(1 << 31), mask(31)),
            INTEGERS)

    def pair(fn):
        return lambda x, y: sum((fn(signed(x >> s, 16), signed(y >> s, 16)) & mask(16)) << s for s in (0, 16))

    f.model('min.relu.s16x2 d, a, b;', words(32, 2), ['b32'], pair(lambda x, y: max(0, min(x, y))), INTEGERS)
    controls = [0, 0x80000000, 0x3F800000, 0xBF800000, 0x80000001, 1, 0x7F800000, 0xFF800000, 0x7FC00000] + [
        v for v in floats(F32, special=False)[:23]]

    def chosen(ftz):
        def run(x, y, c):
            v = F32.value(flushed(F32, c) if ftz else c)
            return x if v != 'nan' and v != '-inf' and (v == '+inf' or v >= 0) else y
        return run

    for bits in (16, 32, 64):
        for ftz in ('', '.ftz'):
            f.model('slct%s.b%d.f32 d, a, b, c;' % (ftz, bits) if not ftz else 'slct.ftz.u%d.f32 d, a, b, c;' % bits,
                    words(bits, 2) + [('b32', controls)], ['b%d' % bits], chosen(bool(ftz)), 'manual 9.7.6.4')


def real_arithmetic(f):
    f.model('sub.f32 d, a, b;', reals(F32, 2), ['b32'], float_op(F32, 'sub'), EXACT)
    for form, mode in (('mad.rn.f32', 'rn'), ('mad.rz.f32', 'rz')):
        f.model(form + ' d, a, b, c;', reals(F32, 3), ['b32'], float_op(F32, 'fma', mode), EXACT)
    for form, mode in (('mad.rn.f64', 'rn'), ('mad.rp.f64', 'rp')):
        f.model(form + ' d, a, b, c;', reals(F64, 3, False), ['b64'], float_op(F64, 'fma', mode), EXACT)
    one = F64.round(Fraction(1))
    f.model('rcp.rz.f64 d, a;', reals(F64, 1, False), ['b64'], lambda x: float_op(F64, 'div', 'rz')(one, x), EXACT)
    top = {F16: 1 << 15, BF16: 1 << 15, F32: 1 << 31, F64: 1 << 63}
    sign = 'manual: the sign bit alone'
    for fmt, form in ((F32, 'ftz.f32'), (F64, 'f64')):
        b = 'b%d' % fmt.width
        ftz = (lambda x, fmt=fmt: flushed(fmt, x)) if form.startswith('ftz') else (lambda x: x)
        values = [(b, [1, 3, top[fmt] | 1, 0, top[fmt]] + floats(fmt, special=False)[:LANES - 5])]
        f.model('abs.%s d, a;' % form, values, [b], lambda x, fmt=fmt, z=ftz: z(x) & ~top[fmt], sign)
        f.model('neg.%s d, a;' % form, values, [b], lambda x, fmt=fmt, z=ftz: z(x) ^ top[fmt], sign)
    f.model('copysign.f64 d, a, b;', reals(F64, 2, False), ['b64'],
            lambda x, y: x & top[F64] | y & ~top[F64], sign)
    for fmt, t in ((F16, 'f16x2'), (BF16, 'bf16x2')):
        pairs = [('b32', [a | b << 16 for a, b in zip(floats(fmt, special=False), floats(fmt, special=False))])]
        f.model('neg.%s d, a;' % t, pairs, ['b32'], lambda x: x ^ 0x80008000, sign)
        f.model('abs.%s d, a;' % t, pairs, ['b32'], lambda x: x & 0x7FFF7FFF, sign)
    for op, biggest in (('min', False), ('max', True)):
        model = min_max(F32, biggest)
        f.model('%s.ftz.f32 d, a, b;' % op, reals(F32, 2), ['b32'],
                lambda x, y, m=model: m(flushed(F32, x), flushed(F32, y)), 'manual 9.7.3.11')
    for what, fn in (('finite', lambda v, x: v not in ('nan', '+inf', '-inf')),
                     ('infinite', lambda v, x: v in ('+inf', '-inf')), ('number', lambda v, x: v != 'nan'),
                     ('notanumber', lambda v, x: v == 'nan'),
                     ('normal', lambda v, x: v == 0 or 0 < (x >> 52 & 2047) < 2047),
                     ('subnormal', lambda v, x: x >> 52 & 2047 == 0 and v != 0)):
        f.model('testp.%s.f64 d, a;' % what, reals(F64), ['pred'], lambda x, fn=fn: int(fn(F64.value(x), x)),
                'manual 9.7.3.1')
    compare = {'lt': lambda x, y: x < y, 'ge': lambda x, y: x >= y}
    for fmt, t in ((F16, 'f16'), (BF16, 'bf16'), (F32, 'f32')):
        one = fmt.round(Fraction(1))
        b = 'b%d' % fmt.width
        for op, fn in compare.items():
            xs, ys = floats(fmt, special=False, scale=1), floats(fmt, special=False, scale=1)
            ys[:6] = xs[:6]
            test = lambda x, y, fn=fn, fmt=fmt: fn(fmt.value(x), fmt.value(y))
            f.model('set.%s.u32.%s d, a, b;' % (op, t), [(b, xs), (b, ys)], ['b32'],
                    lambda x, y, test=test: mask(32) if test(x, y) else 0, 'manual 9.7.6.1, 9.7.7.1')
            if t == 'f32':
                continue
            f.model('set.%s.%s.%s d, a, b;' % (op, t, t), [(b, xs), (b, ys)], [b],
                    lambda x, y, test=test, one=one: one if test(x, y) else 0, 'manual 9.7.7.1')
            both = lambda values: [values[i] | values[(i + 7) % LANES] << 16 for i in range(LANES)]
            f.model('set.%s.%sx2.%sx2 d, a, b;' % (op, t, t), [('b32', both(xs)), ('b32', both(ys))], ['b32'],
                    lambda x, y, test=test, one=one: sum(
                        (one if test(x >> s & 0xFFFF, y >> s & 0xFFFF) else 0) << s for s in (0, 16)), 'manual 9.7.7.1')


def code32(x):
    return F32.round(Fraction(x))


def approximate(f):
    def near(form, fn, values, ulps, ins=1):
        sets = [('b32', [code32(v) for v in values])]
        if ins == 2:
            sets.append(('b32', [code32(v) for v in reversed(values)]))
        names = 'd, a, b;' if ins == 2 else 'd, a;'
        def exact(*codes):
            return code32(fn(*[float(F32.value(c)) for c in codes]))
        results = [exact(*[s[1][lane] for s in sets]) for lane in range(LANES)]
        f.case('%s %s' % (form, names), sets, [('b32', results, ulps)],
               "binary64 formula, within the manual's error bound")

    positive = [1.0 + i * 1.37 for i in range(LANES)]
    near('div.approx.f32', lambda x, y: x / y, positive, 2, ins=2)
    near('div.full.f32', lambda x, y: x / y, positive, 2, ins=2)
    near('sin.approx.f32', math.sin, [0.6 + i * 0.06 for i in range(LANES)], 12)   # 2^-20.5 where |sin| > 0.5
    near('cos.approx.f32', math.cos, [-0.95 + i * 0.06 for i in range(LANES)], 12)
    near('lg2.approx.f32', math.log2, [3.0 + i * 5.5 for i in range(LANES)], 4)
    near('tanh.approx.f32', math.tanh, [0.3 + i * 0.1 for i in range(LANES)], 8192)


def exact_points(f):
    """Approximations where their value is a power of two, or a limit. The manual promises no more than a bound there,
    so these are not for silicon."""
    source = 'hand: the value is exact'
    powers = [Fraction(2) ** (i - 16) for i in range(LANES)]
    f.case('rcp.approx.ftz.f64 d, a;', [('b64', [F64.round(p) for p in powers])],
           [('b64', [F64.round(1 / p) for p in powers])], source)
    f.case('rsqrt.approx.f64 d, a;', [('b64', [F64.round(p * p) for p in powers])],
           [('b64', [F64.round(1 / p) for p in powers])], source)
    for fmt, t in ((F16, 'f16'), (BF16, 'bf16')):
        ftz = '.ftz' if fmt is BF16 else ''
        exponents = [i - 13 for i in range(LANES) if i - 13 <= 15][:29]
        exponents += [0] * (LANES - len(exponents))
        code = lambda x, fmt=fmt: fmt.round(Fraction(x))
        f.case('ex2.approx%s.%s d, a;' % (ftz, t), [('b16', [code(e) for e in exponents])],
               [('b16', [code(Fraction(2) ** e) for e in exponents])], source)
        twice = lambda c: c | c << 16
        f.case('ex2.approx%s.%sx2 d, a;' % (ftz, t), [('b32', [twice(code(e)) for e in exponents])],
               [('b32', [twice(code(Fraction(2) ** e)) for e in exponents])], source)
        limits = ([0, fmt.inf_code, fmt.inf_code | 1 << 15, code(64), code(-64)] * 7)[:LANES]
        signs = ([0, code(1), code(-1), code(1), code(-1)] * 7)[:LANES]
        f.case('tanh.approx.%s d, a;' % t, [('b16', limits)], [('b16', signs)], source)
        f.case('tanh.approx.%sx2 d, a;' % t, [('b32', [twice(c) for c in limits])],
               [('b32', [twice(c) for c in signs])], source)


def blackwell(f):
    """f32 with a half, three operands, formats of 4, 6 and 8 bits."""
    for fmt, t in ((F16, 'f16'), (BF16, 'bf16')):
        wide = lambda c, fmt=fmt: F32.round(fmt.value(c), zero_sign=fmt.sign(c))
        half, full = lambda fmt=fmt: reals(fmt, 1, False), lambda: reals(F32, 1, False)
        f.model('add.rn.f32.%s d, a, b;' % t, half() + full(), ['b32'],
                lambda x, y, w=wide: float_op(F32, 'add')(w(x), y), EXACT)
        f.model('sub.rz.f32.%s d, a, b;' % t, half() + full(), ['b32'],
                lambda x, y, w=wide: float_op(F32, 'sub', 'rz')(w(x), y), EXACT)
        f.model('fma.rn.f32.%s d, a, b, c;' % t, half() + half() + full(), ['b32'],
                lambda x, y, z, w=wide: float_op(F32, 'fma')(w(x), w(y), z), EXACT)
    for op, biggest in (('min', False), ('max', True)):
        two = min_max(F32, biggest)
        f.model('%s.f32 d, a, b, c;' % op, reals(F32, 3, False), ['b32'], lambda x, y, z, m=two: m(m(x, y), z),
                'manual 9.7.3.11, 9.7.3.12')

    def small(e, m, bias):   # values of a format without infinities, by code
        out = []
        for code in range(1 << e + m):
            exponent, fraction = code >> m, code & mask(m)
            out.append(Fraction(fraction, 1 << m) * Fraction(2) ** (1 - bias) if exponent == 0 else
                       (1 + Fraction(fraction, 1 << m)) * Fraction(2) ** (exponent - bias))
        return out

    for t, e, m, bias in (('e2m3', 2, 3, 1), ('e3m2', 3, 2, 3)):
        table = small(e, m, bias)

        def narrow(c, table=table, e=e, m=m):
            v = F32.value(c)
            best = min(range(len(table)), key=lambda i: (abs(table[i] - abs(v)), i & 1))
            return best | F32.sign(c) << (e + m)

        values = [('b32', floats(F32, special=False, scale=3)) for _ in range(2)]
        f.model('cvt.rn.satfinite.%sx2.f32 d, a, b;' % t, values, ['b16'],
                lambda x, y, n=narrow: n(x) << 8 | n(y), 'manual 9.7.9.21, nearest of all codes')

        def half(c, table=table, e=e, m=m):
            v = table[c & mask(e + m)]
            return F16.round(-v if c >> (e + m) & 1 else v, zero_sign=c >> (e + m) & 1)

        codes = [(i * 37 + 5 & mask(6)) | (i * 11 + 3 & mask(6)) << 8 for i in range(LANES)]
        f.model('cvt.rn.f16x2.%sx2 d, a;' % t, [('b16', codes)], ['b32'],
                lambda x, h=half: h(x & 63) | h(x >> 8 & 63) << 16, 'manual 9.7.9.21, table of codes')
    normal = [c & mask(31) for c in floats(F32, special=False)]
    other = [c & mask(31) for c in floats(F32, special=False)]
    ceiling = lambda c: (c >> 23) + (c & mask(23) != 0)
    f.model('cvt.rz.satfinite.ue8m0x2.f32 d, a, b;', [('b32', normal), ('b32', other)], ['b16'],
            lambda x, y: x >> 23 << 8 | y >> 23, 'manual 9.7.9.21: the exponent alone')
    f.model('cvt.rp.satfinite.ue8m0x2.f32 d, a, b;', [('b32', normal), ('b32', other)], ['b16'],
            lambda x, y: ceiling(x) << 8 | ceiling(y), 'manual 9.7.9.21: the exponent alone')
    pairs = [(x >> 16) << 16 | y >> 16 for x, y in zip(normal, other)]
    f.model('cvt.rz.satfinite.ue8m0x2.bf16x2 d, a;', [('b32', pairs)], ['b16'],
            lambda x: (x >> 23 & 255) << 8 | x >> 7 & 255, 'manual 9.7.9.21: the exponent alone')
    scales = [(i * 7 + 1) % 254 + 1 | ((i * 13 + 5) % 254 + 1) << 8 for i in range(LANES)]
    f.model('cvt.rn.bf16x2.ue8m0x2 d, a;', [('b16', scales)], ['b32'],
            lambda x: (x & 255) << 7 | (x >> 8) << 23, 'manual 9.7.9.21: the exponent alone')
    finite = floats(F32, special=False)
    best = min(finite, key=lambda c: F32.value(c))
    f.case('redux.sync.min.f32 d, a, 0xffffffff;', [('b32', finite)], [('b32', [best] * LANES)], 'manual 9.7.13.12')
    biggest = max(finite, key=lambda c: abs(F32.value(c))) & mask(31)
    f.case('redux.sync.max.abs.f32 d, a, 0xffffffff;', [('b32', finite)], [('b32', [biggest] * LANES)],
           'manual 9.7.13.12')
    spoiled = finite[:9] + [0x7FC12345] + finite[10:]
    f.case('redux.sync.max.NaN.f32 d, a, 0xffffffff;', [('b32', spoiled)], [('b32', [0x7FFFFFFF] * LANES)],
           'manual 9.7.13.12')


def warp(f):
    tile = ints(32)

    def element(r, c):
        return tile[4 * r + c // 2] >> 16 * (c % 2) & 0xFFFF

    turned = [element(2 * (lane % 4), lane // 4) | element(2 * (lane % 4) + 1, lane // 4) << 16
              for lane in range(LANES)]
    f.case('movmatrix.sync.aligned.m8n8.trans.b16 d, a;', [('b32', tile)], [('b32', turned)],
           'manual 9.7.14.5.17: row r in lanes 4 r to 4 r + 3')


# What has no effect on values: the load between is what it was.
NOTHING_80 = ['prefetch.global.L2 [%x1];', 'prefetchu.L1 [%x1];', 'applypriority.global.L2::evict_normal [%x0], 128;',
              'createpolicy.fractional.L2::evict_last.b64 %x0, 1.0; ld.global.L2::cache_hint.b32 d, [%x1], %x0;',
              'createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %x0, [%x1], 128, 128; '
              'ld.global.L2::cache_hint.b32 d, [%x1], %x0;',
              'createpolicy.cvt.L2.b64 %x0, 0x14F0000000000000; ld.global.L2::cache_hint.b32 d, [%x1], %x0;',
              'ldu.global.b32 d, [%x1];', 'pmevent 7;', 'membar.proxy.alias;', 'fence.proxy.alias;']
NOTHING_90 = ['griddepcontrol.launch_dependents;', 'griddepcontrol.wait;',
              'fence.proxy.tensormap::generic.release.gpu;', 'fence.proxy.tensormap::generic.acquire.gpu [%x0], 128;',
              'fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;',
              'fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;']


NOTHING_100 = ['membar.proxy.async;']   # as the manual has it; ptxas 13.0 refuses it


def nothing(f, bodies):
    for body in bodies:
        values = ints(32)
        load = '' if ' d,' in body else ' mov.b32 d, a;'
        f.case(body + load, [('b32', values)], [('b32', values)], 'manual: no effect on values')


def system(f):
    """barrier forms, cluster addresses, asynchronous arrivals, prefetches of bulk and tensor copies."""
    f.case('barrier.sync 0; mov.b32 d, a;', [('b32', list(range(LANES)))], [('b32', list(range(LANES)))], 'hand')
    f.case('and.b32 %t1, a, 1; setp.ne.b32 c, %t1, 0; barrier.red.popc.u32 d, 0, c; barrier.red.or.pred b, 0, c; '
           'selp.b32 f, 1, 0, b;'.replace('setp.ne.b32 c', '{ .reg .pred b, c; setp.ne.b32 c') + ' }',
           [('b32', list(range(LANES)))], [('b32', [16] * LANES), ('b32', [1] * LANES)], 'hand: half the lanes are odd',
           name='barrier_red')
    f.program('addresses_of_a_peer', 'manual 9.7.9.22, .23: each CTA stores its rank + 5 into the other one',
              ['out b32: 6 5 1 0'], '''ld.param.u64 %l0, [p0];
    mov.u32 %r0, %cluster_ctarank;
    xor.b32 %r1, %r0, 1;
    mov.u64 %l1, cell;
    mapa.shared::cluster.u64 %l2, %l1, %r1;
    getctarank.shared::cluster.u64 %r2, %l2;
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p0, %r3, 0;
    add.u32 %r4, %r0, 5;
    @!%p0 st.shared::cluster.b32 [%l2], %r4;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p0 bra LAST;
    ld.shared.b32 %r5, [cell];
    mad.wide.u32 %l3, %r0, 4, %l0;
    st.global.b32 [%l3], %r5;
    st.global.b32 [%l3+8], %r2;
LAST:''', registers='.shared .align 4 .b32 cell;', cluster=2)
    f.program('copies_announced', 'manual 9.7.13.15.15: every lane copies 4 bytes and arrives behind them',
              ['in b32: ' + ' '.join('%x' % (i * i) for i in range(LANES)),
               'out b32: ' + ' '.join('%x' % (i * i) for i in reversed(range(LANES)))], '''ld.param.u64 %l0, [p0];
    ld.param.u64 %l1, [p1];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared.b64 [bar], 32;
    bar.warp.sync 0xffffffff;
    mov.u32 %r1, cells;
    mad.lo.u32 %r2, %r0, 4, %r1;
    mad.wide.u32 %l2, %r0, 4, %l0;
    cp.async.ca.shared.global [%r2], [%l2], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
WAIT:
    mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
    sub.u32 %r3, 31, %r0;
    mad.lo.u32 %r4, %r3, 4, %r1;
    ld.shared.b32 %r5, [%r4];
    mad.wide.u32 %l3, %r0, 4, %l1;
    st.global.b32 [%l3], %r5;''', registers='.shared .align 16 .b32 cells[32]; .shared .align 8 .b64 bar;')
    f.program('reduced_in_a_peer', 'manual 9.7.9.25.4.2: CTA 0 adds 1, 2, 3, 4 to 10, 20, 30, 40 of CTA 1',
              ['out b32: b 16 21 2c'], '''ld.param.u64 %l0, [p0];
    mov.u32 %r0, %cluster_ctarank;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p0, %r1, 0;
    setp.ne.u32 %p1, %r0, 0;
    @%p0 bra READY;
    selp.u32 %r2, 10, 1, %p1;
    mul.lo.u32 %r3, %r2, 2;
    mul.lo.u32 %r4, %r2, 3;
    mul.lo.u32 %r5, %r2, 4;
    st.shared.v4.b32 [cells], {%r2, %r3, %r4, %r5};
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
READY:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    @%p0 bra LAST;
    @%p1 bra WAIT;
    mov.b32 %r6, 1;
    mov.u32 %r9, cells;
    mov.u32 %r10, bar;
    mapa.shared::cluster.u32 %r7, %r9, %r6;
    mapa.shared::cluster.u32 %r8, %r10, %r6;
    cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r7], [%r9], 16, [%r8];
    bra LAST;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [cells];
    st.global.v4.b32 [%l0], {%r2, %r3, %r4, %r5};
LAST:
    barrier.cluster.arrive;
    barrier.cluster.wait;''', registers='.shared .align 16 .b32 cells[4]; .shared .align 8 .b64 bar;', cluster=2)
    f.program('prefetches', 'manual 9.7.9.25.4.3, .5.4: no effect on values',
              ['in b32: ' + ' '.join(['7'] * 256),
               'map: buffer=0 type=0 rank=2 dims=128,8 strides=128 box=128,8 swizzle=0',
               'out b32: 7'], '''ld.param.u64 %l0, [p0];
    mov.b64 %l1, p1;
    cvta.param.u64 %l1, %l1;
    ld.param.u64 %l2, [p2];
    cp.async.bulk.prefetch.L2.global [%l0], 128;
    createpolicy.fractional.L2::evict_first.b64 %l3, 1.0;
    cp.async.bulk.prefetch.L2.global.L2::cache_hint [%l0], 128, %l3;
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%l1, {0, 0}];
    ld.global.b32 %r0, [%l0];
    st.global.b32 [%l2], %r0;''')
    f.program('vector_reduction', 'manual 9.7.13.5, .6: vectors with the operation behind the type',
              ['in b32: 3f800000 40000000', 'out b32: 3f800000 40000000 40400000 40a00000'],
              '''ld.param.u64 %l0, [p0];
    ld.param.u64 %l1, [p1];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra LAST;
    mov.b32 %r1, 0x3f800000;
    mov.b32 %r2, 0x40000000;
    atom.global.v2.f32.add {%r3, %r4}, [%l0], {%r1, %r2};
    red.global.v2.f32.add [%l0], {%r1, %r1};
    st.global.v2.b32 [%l1], {%r3, %r4};
    ld.global.v2.b32 {%r5, %r6}, [%l0];
    st.global.v2.b32 [%l1+8], {%r5, %r6};
LAST:''')


def registers_and_matrices(f):
    f.case('setmaxnreg.dec.sync.aligned.u32 40; mov.b32 d, a;', [('b32', list(range(LANES)))],
           [('b32', list(range(LANES)))], 'manual 9.7.19.5: no effect on values')
    # D[r][c] = sum over k of A[r][k] B[k][c]; A and B hold small integers, so every order and window gives the sum.
    a = [[(3 * r + k) % 5 - 2 for k in range(32)] for r in range(16)]
    b = [[(k + 2 * c) % 3 - 1 for c in range(8)] for k in range(32)]
    code = {v: make_cases.E4M3.round(Fraction(v)) for v in range(-2, 3)}

    def packed(values):
        return sum(code[v] << 8 * i for i, v in enumerate(values))

    lanes_a = [[packed([a[lane // 4 + 8 * (i & 1)][16 * (i >> 1) + 4 * (lane % 4) + j] for j in range(4)])
                for lane in range(LANES)] for i in range(4)]
    lanes_b = [[packed([b[16 * i + 4 * (lane % 4) + j][lane // 4] for j in range(4)]) for lane in range(LANES)]
               for i in range(2)]
    out = [[code32(sum(a[lane // 4 + 8 * (i >> 1)][k] * b[k][2 * (lane % 4) + (i & 1)] for k in range(32)))
            for lane in range(LANES)] for i in range(4)]
    f.case('mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {d, f, g, h}, {a, b, c, e}, {s4, s5}, {z, z, z, z}; }',
           [('b32', v) for v in lanes_a + lanes_b], [('b32', v) for v in out],
           'hand: sums of small integers, fragments of manual 9.7.14.5.10', name='mma_e4m3')
    f.parts[-1] = f.parts[-1].replace('    mma.sync', '    { .reg .f32 z; mov.f32 z, 0f00000000;\n    mma.sync')


def stored_asynchronously(f):
    f.program('release_to_global', 'manual 9.7.9.12, 9.7.13.7: st.async and red.async with release to global memory',
              ['in b32: 0 5', 'out b32: 0'], '''ld.param.u64 %l0, [p0];
    mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra LAST;
    mov.b32 %r1, 9;
    st.async.release.gpu.global.b32 [%l0], %r1;
    red.async.release.gpu.global.add.u32 [%l0+4], %r1;
LAST:
    ld.param.u64 %l1, [p1];
    @!%p0 st.global.b32 [%l1], 0;''')


REFUSED = [
    ('tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %l0, %l1, [%r1], %r2, %p0;', 'sparse tcgen05.mma is'),
    ('cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%l0, {%r0, %r1, %r2, %r3, %r4}];', 'gather4 is'),
    ('cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r0], '
     '[%l0, {%r1, %r2, %r3}], [%r4], {%h0};', 'the im2col modes are'),
    ('cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%l0], [%r0], 16, %h0;', 'cp_mask is'),
    ('mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, '
     '{%r0, %r1, %r2, %r3}, %r4, 0x0;', 'a sparse matrix operand is'),
    ('mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r1, %r2, %r3}, {%r4, %r5}, '
     '{%r6, %r7}, {%r0, %r1, %r2, %r3}, %r4, 0x0;', 'a sparse matrix operand is'),
    ('wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%r0, %r1, %r2, %r3}, %l0, %l1, %r4, 0, %p0, 1, 1, 0, 0;',
     'a sparse matrix operand is'),
    ('wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%l0];', 'wmma'),
    ('tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%l0, {%r4, %r5}];', 'textures and surfaces are'),
]


def refused(f):
    for i, (line, what) in enumerate(REFUSED):
        f.parts.append(f'\n// case: refused_form_{i}\n// source: documented\n// refused: {what}\n'
                       f'.visible .entry refused_form_{i}()\n{{\n'
                       '    .reg .pred %p<2>; .reg .b16 %h<2>; .reg .b32 %r<8>; .reg .b64 %l<4>;\n'
                       f'    {line}\n    ret;\n}}\n')


def main():
    make_cases.File.folder = pathlib.Path(sys.argv[1])
    files = []

    def add(name, about, target, version, *makers):
        f = Forms(name, about, target, version)
        for make in makers:
            make(f)
        files.append(f)

    add('form_80', 'Rarer arithmetic.', 'sm_80', '8.6', approximate, warp,
        lambda f: nothing(f, NOTHING_80))
    add('form_90', 'Rarer arithmetic and system instructions of Hopper.', 'sm_90', '8.6', integers, real_arithmetic,
        lambda f: nothing(f, NOTHING_90), system)
    add('form_90a', 'Registers and matrices.', 'sm_90a', '8.6', registers_and_matrices)
    add('form_100a', 'f32 with halves, small formats, asynchronous stores.', 'sm_100a', '8.8', blackwell,
        stored_asynchronously)
    add('form_refused', 'For no GPU: refused by name, or by ptxas; approximations that the manual only bounds.',
        'sm_100a', '8.8', refused, exact_points, lambda f: nothing(f, NOTHING_100))
    for f in files:
        f.write()


if __name__ == '__main__':
    main()
