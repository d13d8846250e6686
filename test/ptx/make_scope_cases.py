#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_scope_cases.py FOLDER writes check_scopes_90.ptx: messages that threads of one CTA, of one cluster and of one
grid pass each other, with every form of release and acquire in every scope, and what PTXEMU_CHECK must say of each.

The expectations are those of the manual's memory model, applied here: a write is observed, and a release pattern
synchronises with an acquire pattern, only where the operations specify scopes that include each other's thread (PTX
ISA 8.5, 8.7, 8.8, 8.9.2, 8.9.4); two strong accesses of one place whose scopes do not are a race (8.7.1)."""

import pathlib
import sys

REACH = {'cta': 1, 'cluster': 2, 'gpu': 3, 'sys': 3}   # one device: nobody is farther away
PLACES = {'cta': 1, 'cluster': 2, 'grid': 3}
NARROW = 'scope-too-narrow: does not include'
RACE = 'race-global: nothing orders the two'

cases = []


def case(name, source, body, finds, place, out='7', ins='0 0 0 0', shared='', ctas=2):
    """Threads: %r0 counts those that play a part, 0 first, one a warp or one a CTA; the others leave."""
    head = [f'// case: {name}', f'// source: {source}', f'// in b32: {ins}', f'// out b32: {out}']
    if place == 'cta':
        head.append(f'// block: {32 * ctas}')
    else:
        head.append(f'// grid: {ctas}')
    if place == 'cluster':
        head.append(f'// cluster: {ctas}')
    head += [f'// finds: {f}' for f in (finds or ['nothing'])]
    who = ['mov.u32 %r1, %tid.x;', 'and.b32 %r2, %r1, 31;', 'setp.ne.u32 %p0, %r2, 0;', '@%p0 ret;',
           'shr.u32 %r0, %r1, 5;' if place == 'cta' else 'mov.u32 %r0, %ctaid.x;',
           'ld.param.u64 %l0, [p0];', 'ld.param.u64 %l1, [p1];']
    lines = who + [line.strip() for line in body.strip().splitlines()] + ['ret;']
    cases.append('\n' + '\n'.join(head) + f'\n.visible .entry {name}(.param .u64 p0, .param .u64 p1)\n{{\n'
                 '    .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %l<8>;\n' + shared +
                 ''.join(f'    {line}\n' for line in lines) + '}\n')


def thread(n, body):
    return f'setp.ne.u32 %p1, %r0, {n};\n@%p1 bra PAST{n};\n{body}\nPAST{n}:\n'


def spin(load, n=1, label='SPIN'):
    return f'{label}:\n{load}\nsetp.ne.u32 %p2, %r5, {n};\n@%p2 bra {label};'


def verdict(place, write, read, release, acquire):
    """What must be found: scopes of the flag's write and read, of the release and of the acquire (None: there is
    none)."""
    d = PLACES[place]
    meets = min(REACH[write], REACH[read]) >= d
    finds = [] if meets else [NARROW]
    if release is None or acquire is None:
        finds.append(RACE)
    elif not (meets and min(REACH[release], REACH[acquire]) >= d) and not finds:
        finds.append(NARROW)
    return finds


# Flag writes: PTX, scope of the write, scope of the release. S is the scope that varies.
RELEASES = {
    'st_release': lambda s: (f'st.release.{s}.global.b32 [%l0+4], 1;', s, s),
    'fence_st_relaxed': lambda s: (f'fence.acq_rel.{s};\nst.relaxed.sys.global.b32 [%l0+4], 1;', 'sys', s),
    'fence_sc_st_volatile': lambda s: (f'fence.sc.{s};\nst.volatile.global.b32 [%l0+4], 1;', 'sys', s),
    'fence_release_st_relaxed': lambda s: (f'fence.release.sys;\nst.relaxed.{s}.global.b32 [%l0+4], 1;', s, 'sys'),
    'atom_release': lambda s: (f'atom.release.{s}.global.exch.b32 %r4, [%l0+4], 1;', s, s),
    'red_release': lambda s: (f'red.release.{s}.global.add.u32 [%l0+4], 1;', s, s),
    'fence_red_relaxed': lambda s: (f'fence.acq_rel.{s};\nred.relaxed.gpu.global.add.u32 [%l0+4], 1;', 'gpu', s),
    'fence_atom_default': lambda s: (f'fence.release.{s};\natom.global.add.u32 %r4, [%l0+4], 1;', 'gpu', s),
    'wide_fence_then_narrow': lambda s: (f'fence.acq_rel.{s};\nfence.acq_rel.cta;\nst.relaxed.sys.global.b32 [%l0+4], '
                                         '1;', 'sys', s),
    'release_then_relaxed': lambda s: (f'st.release.{s}.global.b32 [%l0+4], 2;\nst.relaxed.sys.global.b32 [%l0+4], 1;',
                                       None, s),
    'relaxed': lambda s: (f'st.relaxed.{s}.global.b32 [%l0+4], 1;', s, None),
}
ACQUIRES = {
    'ld_acquire': lambda s: (spin(f'ld.acquire.{s}.global.b32 %r5, [%l0+4];'), s, s),
    'ld_relaxed_fence': lambda s: (spin('ld.relaxed.sys.global.b32 %r5, [%l0+4];') + f'\nfence.acq_rel.{s};', 'sys', s),
    'ld_volatile_fence_sc': lambda s: (spin('ld.volatile.global.b32 %r5, [%l0+4];') + f'\nfence.sc.{s};', 'sys', s),
    'ld_narrow_fence_acquire': lambda s: (spin(f'ld.relaxed.{s}.global.b32 %r5, [%l0+4];') + '\nfence.acquire.sys;', s,
                                          'sys'),
    'atom_acquire': lambda s: (spin(f'atom.acquire.{s}.global.or.b32 %r5, [%l0+4], 0;'), s, s),
    'atom_fence_acquire': lambda s: (spin('atom.global.or.b32 %r5, [%l0+4], 0;') + f'\nfence.acquire.{s};', 'gpu', s),
    'narrow_fence_then_wide': lambda s: (spin('ld.relaxed.sys.global.b32 %r5, [%l0+4];') +
                                         f'\nfence.acq_rel.cta;\nfence.acq_rel.{s};', 'sys', s),
    'ld_relaxed': lambda s: (spin(f'ld.relaxed.{s}.global.b32 %r5, [%l0+4];'), s, None),
}
MEMBARS = {'cta': 'cta', 'gpu': 'gl', 'sys': 'sys'}


def message(name, source, write, read, finds, place):
    case(name, source, thread(0, 'st.global.b32 [%l0], 7;\n' + write) +
         thread(1, read + '\nld.global.b32 %r6, [%l0];\nst.global.b32 [%l1], %r6;'), finds, place)


def messages():
    for place in PLACES:
        for scope in REACH:
            for what, form in RELEASES.items():
                write, strong, release = form(scope)
                # A write that follows a release in program order and is itself wide: both must be observed.
                finds = verdict(place, strong or 'sys', 'sys', release, 'sys')
                if strong is None and REACH[scope] < PLACES[place]:
                    finds = [NARROW]
                message(f'{what}_{scope}_to_{place}', 'manual 8.8, 8.9.4: read by ld.acquire.sys', write,
                        ACQUIRES['ld_acquire']('sys')[0], finds, place)
            for what, form in ACQUIRES.items():
                read, strong, acquire = form(scope)
                message(f'{what}_{scope}_from_{place}', 'manual 8.8, 8.9.4: written by st.release.sys',
                        RELEASES['st_release']('sys')[0], read, verdict(place, 'sys', strong, 'sys', acquire), place)
        for scope, level in MEMBARS.items():
            message(f'membar_{scope}_to_{place}', 'manual 9.7.13.4: membar is fence.sc',
                    f'membar.{level};\nst.volatile.global.b32 [%l0+4], 1;',
                    spin('ld.volatile.global.b32 %r5, [%l0+4];') + f'\nmembar.{level};',
                    verdict(place, 'sys', 'sys', scope, scope), place)


def races():
    for place in PLACES:
        for one, other in (('cta', 'gpu'), ('cluster', 'cluster'), ('gpu', 'cta'), ('gpu', 'sys')):
            narrow = min(REACH[one], REACH[other]) < PLACES[place]
            case(f'atomics_{one}_{other}_{place}', 'manual 8.7.1, 9.7.13.5: atomic to each other if each scope '
                 'includes the other', thread(0, f'red.relaxed.{one}.global.add.u32 [%l0], 3;') +
                 thread(1, f'red.relaxed.{other}.global.add.u32 [%l0], 4;'), [NARROW] if narrow else [], place,
                 out='a5a5a5a5')
            case(f'strong_store_and_load_{one}_{other}_{place}', 'manual 8.7.1: strong accesses',
                 thread(0, f'st.relaxed.{one}.global.b32 [%l0], 3;') +
                 thread(1, f'ld.relaxed.{other}.global.b32 %r5, [%l0];'), [NARROW] if narrow else [], place,
                 out='a5a5a5a5')
        case(f'weak_store_and_atomic_{place}', 'manual 8.7.1: a weak access is never morally strong',
             thread(0, 'st.global.b32 [%l0], 3;') + thread(1, 'red.global.add.u32 [%l0], 4;'), [RACE], place,
             out='a5a5a5a5')
        case(f'red_and_fence_{place}', 'manual 8.11.1: reductions do not form acquire patterns',
             thread(0, 'st.global.b32 [%l0], 7;\nst.release.gpu.global.b32 [%l0+4], 1;') +
             thread(1, 'red.relaxed.sys.global.add.u32 [%l0+4], 1;\nfence.acquire.gpu;\nld.global.b32 %r6, [%l0];'),
             [RACE], place, out='a5a5a5a5')


def chains():
    def three(name, source, middle, last, finds, place='grid', first='st.release.gpu.global.b32 [%l0+4], 1;'):
        case(name, source, thread(0, 'st.global.b32 [%l0], 7;\n' + first) + thread(1, middle) +
             thread(2, last + '\nld.global.b32 %r6, [%l0];\nst.global.b32 [%l1], %r6;'), finds, place, ctas=3)

    last = spin('ld.acquire.gpu.global.b32 %r5, [%l0+4];', 2, 'LAST')
    # An atomic operation is waited for by what it returns: 1 was the release's.
    add = spin('atom.relaxed.{0}.global.cas.b32 %r5, [%l0+4], 1, 2;', 1)
    three('through_an_atomic', 'manual 8.9.2: observation order goes through atomic operations', add.format('gpu'),
          last, [])
    three('through_a_narrow_atomic', 'manual 8.9.2: the atomic operation must be morally strong to both',
          add.format('cta'), last, [NARROW])
    three('a_store_ends_the_sequence', 'manual 8.9.2: what a plain store overwrites is not observed',
          spin('ld.relaxed.gpu.global.b32 %r5, [%l0+4];', 1) + '\nst.relaxed.gpu.global.b32 [%l0+4], 2;\n'
          'st.relaxed.gpu.global.b32 [%l0+8], 2;', spin('ld.relaxed.gpu.global.b32 %r5, [%l0+8];', 2, 'LAST') +
          '\nld.acquire.gpu.global.b32 %r5, [%l0+4];', [RACE])
    hop = spin('ld.acquire.{0}.global.b32 %r5, [%l0+4];', 1) + '\nst.release.{1}.global.b32 [%l0+8], 2;'
    last = spin('ld.acquire.gpu.global.b32 %r5, [%l0+8];', 2, 'LAST')
    three('handed_on', 'manual 8.9.5: base causality order is transitive', hop.format('gpu', 'gpu'), last, [])
    three('handed_on_after_a_narrow_acquire', 'manual 8.9.4', hop.format('cta', 'gpu'), last, [NARROW])
    three('handed_on_by_a_narrow_release', 'manual 8.9.4', hop.format('gpu', 'cluster'), last, [NARROW])


def barriers():
    """Four warps in two CTAs: warp 0 writes, its CTA's barrier hands to warp 1, which releases to the other CTA."""
    for scope in ('cta', 'cluster', 'gpu'):
        for place, cluster in (('cluster', 2), ('grid', 0)):
            narrow = REACH[scope] < PLACES[place]
            head = ['', f'// case: around_two_barriers_{scope}_{place}',
                    '// source: manual 8.9.5: what bar.sync hands over is handed on, at the scope of the release',
                    '// in b32: 0 0', '// out b32: 7', '// block: 64', '// grid: 2']
            head += ['// cluster: 2'] if cluster else []
            head += [f'// finds: {NARROW if narrow else "nothing"}']
            cases.append('\n'.join(head) + f'''
.visible .entry around_two_barriers_{scope}_{place}(.param .u64 p0, .param .u64 p1)
{{
    .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %l<8>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    ld.param.u64 %l0, [p0];
    ld.param.u64 %l1, [p1];
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra SECOND;
    setp.ne.u32 %p1, %r0, 0;
    @!%p1 st.global.b32 [%l0], 7;
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 32;
    @!%p1 fence.acq_rel.{scope};
    @!%p1 red.relaxed.gpu.global.add.u32 [%l0+4], 1;
    ret;
SECOND:
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra MEET;
SPIN:
    ld.relaxed.gpu.global.b32 %r5, [%l0+4];
    setp.ne.u32 %p2, %r5, 1;
    @%p2 bra SPIN;
    fence.acq_rel.{scope};
MEET:
    bar.sync 0;
    setp.ne.u32 %p1, %r0, 32;
    @%p1 ret;
    ld.global.b32 %r6, [%l0];
    st.global.b32 [%l1], %r6;
    ret;
}}
''')


def cluster_barriers():
    shared_race = 'race-shared: nothing orders the two'

    def meet(name, source, arrive, wait, finds):
        case(name, source, f'''
            mov.b32 %r7, 1;
            mapa.shared::cluster.u32 %r8, cell, %r7;
            setp.ne.u32 %p1, %r0, 0;
            @!%p1 st.shared::cluster.b32 [%r8], 7;
            {arrive}
            {wait}
            @%p1 ld.shared.b32 %r6, [cell];
            @%p1 st.global.b32 [%l1], %r6;
            barrier.cluster.arrive;
            barrier.cluster.wait;''', finds, 'cluster', shared='    .shared .align 4 .b32 cell;\n')

    meet('cluster_barrier', 'manual 9.7.13.3: .release and .acquire are the defaults', 'barrier.cluster.arrive;',
         'barrier.cluster.wait;', [])
    meet('cluster_barrier_named', 'manual 9.7.13.3', 'barrier.cluster.arrive.release;', 'barrier.cluster.wait.acquire;',
         [])
    meet('cluster_barrier_relaxed', 'manual 9.7.13.3: .relaxed orders no memory', 'barrier.cluster.arrive.relaxed;',
         'barrier.cluster.wait;', [shared_race])
    for scope, finds in (('cta', ['scope-too-narrow: does not include']), ('cluster', []), ('gpu', [])):
        meet(f'cluster_barrier_relaxed_fence_{scope}', 'manual 9.7.13.3: with an explicit fence of cluster scope',
             f'fence.acq_rel.{scope};\n            barrier.cluster.arrive.relaxed;', 'barrier.cluster.wait;', finds)


def mbarriers():
    default = 'mbarrier-scope: the default scope is .cta'
    shared_race = 'race-shared: nothing orders the two'

    def remote(name, source, arrive, wait, finds):
        case(name, source, f'''
            setp.ne.u32 %p1, %r0, 0;
            @!%p1 bra READY;
            mbarrier.init.shared::cta.b64 [bar], 1;
            fence.mbarrier_init.release.cluster;
        READY:
            barrier.cluster.arrive;
            barrier.cluster.wait;
            @%p1 bra RECEIVE;
            mov.b32 %r7, 1;
            mapa.shared::cluster.u32 %r8, cell, %r7;
            mapa.shared::cluster.u32 %r9, bar, %r7;
            st.shared::cluster.b32 [%r8], 7;
            {arrive}
            bra LAST;
        RECEIVE:
            {wait}
            @!%p2 bra RECEIVE;
            WAITED
            ld.shared.b32 %r6, [cell];
            st.global.b32 [%l1], %r6;
        LAST:
            barrier.cluster.arrive;
            barrier.cluster.wait;'''.replace('WAITED', 'fence.acq_rel.cluster;' if 'relaxed' in wait else ''), finds,
             'cluster', shared='    .shared .align 8 .b64 bar;\n    .shared .align 4 .b32 cell;\n')

    wide_wait = 'mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;'
    wide = 'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];'
    remote('remote_arrival_cluster', 'manual 9.7.13.15.13, .16', wide, wide_wait, [])
    remote('remote_arrival_default', 'manual 9.7.13.15.13: without .scope it is .cta',
           'mbarrier.arrive.shared::cluster.b64 _, [%r9];', wide_wait, [default])
    remote('remote_arrival_waited_by_default', 'manual 9.7.13.15.16: without .scope it is .cta', wide,
           'mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;', [default])
    relaxed = 'mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r9];'
    remote('remote_arrival_relaxed', 'manual 9.7.13.15.13: .relaxed orders nothing', relaxed, wide_wait, [shared_race])
    remote('remote_arrival_relaxed_fence', 'manual 8.8: a fence and a strong write are a release pattern',
           'fence.acq_rel.cluster;\n            ' + relaxed, wide_wait, [])
    remote('remote_arrival_relaxed_narrow_fence', 'manual 8.9.4', 'fence.acq_rel.cta;\n            ' + relaxed,
           wide_wait, ['scope-too-narrow: does not include'])
    remote('remote_arrival_relaxed_wait_fence', 'manual 8.8: a strong read and a fence are an acquire pattern', wide,
           'mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p2, [bar], 0;', [])


def main():
    messages()
    races()
    chains()
    barriers()
    cluster_barriers()
    mbarriers()
    head = """// SPDX-License-Identifier: Apache-2.0
// Who hands what to whom at which scope, and what the checks must say. Generated; see ptx_case_test.cpp.
.version 8.8
.target sm_90
.address_size 64
"""
    (pathlib.Path(sys.argv[1]) / 'check_scopes_90.ptx').write_text(head + ''.join(cases))


if __name__ == '__main__':
    main()
