#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_rule_cases.py FOLDER writes check_rules_90a.ptx and check_rules_100a.ptx: a correct tcgen05.mma, try_cancel,
wgmma and bulk store, and each once more with one edit that breaks one rule, with what the emulator must say of it."""

import pathlib
import sys


class Rules:
    def __init__(self, target, what):
        self.text = f"""// SPDX-License-Identifier: Apache-2.0
// {what}, kept once and broken in one place a case. Generated; see ptx_case_test.cpp.
.version 8.8
.target {target}
.address_size 64
"""

    def case(self, name, source, body, verdict, block=32, cluster=1, shared=(), params='', buffers=()):
        head = [f'// case: {name}', f'// source: {source}'] + [f'// {b}' for b in buffers] + [f'// {verdict}']
        if block != 32:
            head.append(f'// block: {block}')
        if cluster != 1:
            head += [f'// grid: {cluster}', f'// cluster: {cluster}']
        lines = [line.strip() for line in body.strip().splitlines() if line.strip()]
        self.text += '\n' + '\n'.join(head) + f'\n.visible .entry {name}({params})\n{{\n'
        self.text += '    .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %l<12>; .reg .f32 %f<8>;\n'
        self.text += ''.join(f'    {line}\n' for line in [*shared, *lines, 'ret;']) + '}\n'

    def write(self, path):
        path.write_text(self.text)


def edited(lines, edits):
    """The steps, by name, with some replaced."""
    unknown = set(edits) - set(lines)
    assert not unknown, unknown
    return '\n'.join(edits.get(name, text) for name, text in lines.items())


# One MMA of 128 x 8 x 32 by lane 0 of one warp, and what the warp's lanes receive. SW128 descriptors: version bit 46,
# 8 rows to the next 1024 bytes further (manual 9.7.16.4.1); e4m3, f32 (9.7.16.4.2).
TCGEN05 = {
    'begin': 'mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;',
    'alloc': 'tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;',
    'init': '@!%p0 mbarrier.init.shared::cta.b64 [bar], 1;\n@!%p0 fence.proxy.async.shared::cta;\n'
            'bar.warp.sync 0xffffffff;',
    'operands': 'ld.shared.b32 %r1, [slot];\nmov.u32 %r2, a;\nshr.b32 %r2, %r2, 4;\ncvt.u64.u32 %l0, %r2;\n'
                'or.b64 %l0, %l0, 0x4000404000000000;\nmov.u32 %r3, b;\nshr.b32 %r3, %r3, 4;\ncvt.u64.u32 %l1, %r3;\n'
                'or.b64 %l1, %l1, 0x4000404000000000;\nmov.b32 %r4, 0x08020010;\nsetp.eq.u32 %p1, %r0, 99;',
    'edit': '',
    'mma': '@!%p0 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r1], %l0, %l1, %r4, %p1;',
    'commit': 'mov.u32 %r5, bar;\n'
              '@!%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];',
    'early': '',
    'wait': 'WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;',
    'after': 'tcgen05.fence::after_thread_sync;',
    'load': 'tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r1];\ntcgen05.wait::ld.sync.aligned;',
    'late': '',
    'free': 'tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;',
}
TCGEN05_SHARED = ['.shared .align 1024 .b8 a[16384];', '.shared .align 1024 .b8 b[1024];',
                  '.shared .align 1024 .b8 other[1024];', '.shared .align 8 .b64 bar;', '.shared .align 4 .b32 slot;']


def tcgen05(folder):
    f = Rules('sm_100a', 'An MMA, a request for a cluster')

    def case(name, source, verdict, **edits):
        f.case(name, source, edited(TCGEN05, edits), verdict, shared=TCGEN05_SHARED)

    illegal = 'fails: illegal_instruction: '
    case('mma_kept', 'manual 9.7.16.6.4: commit, wait, fence, load', 'finds: nothing')
    case('mma_accumulator_not_waited', 'manual 9.7.16.6.4: the load before the wait',
         'finds: mma-not-waited: tcgen05.commit', early=TCGEN05['load'])
    case('mma_operand_overwritten', 'manual 9.7.16.6.4: a thread writes A while the MMA may read it',
         'finds: mma-not-waited: tcgen05.commit', early='@!%p0 st.shared.b32 [a], 1;')
    case('mma_operand_overwritten_by_a_copy', 'manual 9.7.16.6.4: a bulk copy writes B while the MMA may read it',
         'finds: mma-not-waited: tcgen05.commit',
         early='@!%p0 mbarrier.init.shared::cta.b64 [other], 1;\n@!%p0 fence.proxy.async.shared::cta;\n'
               'bar.warp.sync 0xffffffff;\n'
               '@!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [other], 16;\nmov.u32 %r7, a;\nmov.u32 %r8, b;\n'
               'mov.u32 %r9, other;\n@!%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes '
               '[%r8], [%r7], 16, [%r9];\nWAIT_COPY:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [other], 0;\n'
               '@!%p3 bra WAIT_COPY;')
    case('mma_without_fence_after', 'manual 9.7.16.6.3: the load without tcgen05.fence::after_thread_sync',
         'finds: missing-fence-after: tcgen05.fence::after_thread_sync', after='')
    case('mma_without_commit', 'rule: nobody completes the phase',
         'fails: deadlock: pending arrivals 1 of 1', commit='')
    case('mma_operand_in_generic_proxy', 'manual 8.6: a thread writes A, and no fence.proxy.async',
         'finds: missing-proxy-fence: fence.proxy.async in the writing thread', edit='@!%p0 st.shared.b32 [a], 1;')
    case('mma_base_offset', 'manual table 40: bits 49 to 51 say where a pattern off its boundary begins: refused',
         illegal + 'base offset', edit='xor.b64 %l1, %l1, 0x2000000000000;')
    case('mma_descriptor_version', 'manual table 40: bits 46 to 48 are 0b001', illegal + 'bits 46',
         edit='xor.b64 %l0, %l0, 0x400000000000;')
    case('mma_descriptor_reserved', 'manual table 40: bits 14 and 15 are 0', illegal + 'reserved',
         edit='xor.b64 %l0, %l0, 0x8000;')
    case('mma_descriptor_swizzle', 'manual table 40: swizzle 3 does not exist', illegal + 'swizzle',
         edit='xor.b64 %l0, %l0, 0x2000000000000000;')
    case('mma_type_code', 'manual table 42: code 2 is no type of kind::f8f6f4', illegal + 'type',
         edit='or.b32 %r4, %r4, 256;')
    case('mma_illegal_m', 'manual table 39: M is 64 or 128', illegal + 'M', edit='mov.b32 %r4, 0x06020010;')
    case('mma_illegal_n', 'manual table 39: N is at least 8', illegal + 'N', edit='mov.b32 %r4, 0x08000010;')
    case('tmem_of_another_quarter', 'manual 9.7.16.2: warp 0 has lanes 0 to 31', 'finds: tmem-lane-quarter: quarter',
         load='add.u32 %r7, %r1, 0x200000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r7];\n'
              'tcgen05.wait::ld.sync.aligned;')
    case('tmem_within_a_quarter', 'manual 9.7.16.8: 32x32b begins where the quarter does',
         illegal + 'expected lane 0 for',
         load='add.u32 %r7, %r1, 0x40000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r7];\n'
              'tcgen05.wait::ld.sync.aligned;')
    case('tmem_after_dealloc', 'manual 9.7.16.7', 'fails: illegal_address: ',
         free=TCGEN05['free'] + '\n' + TCGEN05['load'])
    case('tmem_freed_twice', 'manual 9.7.16.7', illegal + 'tcgen05.dealloc', free=2 * (TCGEN05['free'] + '\n'))
    case('tmem_of_48_columns', 'manual 9.7.16.7: a power of two from 32 on', illegal + '48',
         alloc='mov.b32 %r9, 48;\n' + TCGEN05['alloc'].replace('32;', '%r9;'))
    case('tmem_kept', 'manual 9.7.16.7: to be freed before the kernel exits', 'fails: launch_failed: columns of Tensor '
         'Memory', free='')
    f.case('tmem_race', 'rule: warps 0 and 4 store to the same lanes, and nothing orders them', '''
        mov.u32 %r0, %tid.x;
        setp.ge.u32 %p0, %r0, 32;
        @%p0 bra OTHERS;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
        tcgen05.fence::before_thread_sync;
    OTHERS:
        bar.sync 0;
        tcgen05.fence::after_thread_sync;
        ld.shared.b32 %r1, [slot];
        setp.lt.u32 %p1, %r0, 32;
        setp.ge.or.u32 %p2, %r0, 128, %p1;
        @!%p2 bra MEET;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r0};
        tcgen05.wait::st.sync.aligned;
        tcgen05.fence::before_thread_sync;
    MEET:
        bar.sync 0;
        @%p0 ret;
        tcgen05.fence::after_thread_sync;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;''', 'finds: race-tmem: nothing orders the two',
           block=160, shared=['.shared .align 4 .b32 slot;'])
    freed_behind_exit(f)
    cancel(f)
    f.write(folder / 'check_rules_100a.ptx')


TENSOR_LOAD = 'cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes'
WGMMA = {
    'begin': 'mov.u32 %r0, a;\nshr.b32 %r0, %r0, 4;\ncvt.u64.u32 %l0, %r0;\nor.b64 %l0, %l0, 0x4000004000000000;\n'
             'mov.u32 %r1, b;\nshr.b32 %r1, %r1, 4;\ncvt.u64.u32 %l1, %r1;\nor.b64 %l1, %l1, 0x4000004000000000;\n'
             'mov.u32 %r2, %tid.x;\nsetp.ne.u32 %p0, %r2, 0;\nsetp.eq.u32 %p1, %r2, 999;',
    'fence': 'wgmma.fence.sync.aligned;',
    'edit': '',
    'mma': 'wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %l0, %l1, %p1, 1, 1;',
    'commit': 'wgmma.commit_group.sync.aligned;',
    'early': '',
    'wait': 'wgmma.wait_group.sync.aligned 0;',
    'late': 'mov.f32 %f4, %f0;\n@!%p0 st.shared.b32 [b], 1;',
}


def hopper(folder):
    f = Rules('sm_90a', 'A wgmma, a bulk store, an mbarrier')

    def case(name, source, verdict, **edits):
        f.case(name, source, edited(WGMMA, edits), verdict, block=128,
               shared=['.shared .align 1024 .b8 a[8192];', '.shared .align 1024 .b8 b[1024];'])

    case('wgmma_kept', 'manual 9.7.15.7: fence, MMA, commit, wait; then registers and B are the threads\' again; a '
         'write of B by one thread needs the others\' waits', 'finds: wgmma-by-warpgroup: every warp')
    case('wgmma_kept_by_all', 'the same behind bar.sync', 'finds: nothing', wait=WGMMA['wait'] + '\nbar.sync 0;')
    case('wgmma_without_fence', 'manual 9.7.15.7.1: the first wgmma needs a fence, too',
         'finds: missing-wgmma-fence: wgmma.fence behind the access', fence='', late='')
    case('wgmma_register_written_behind_the_fence', 'manual 9.7.15.7.1: an accumulator was written since',
         'finds: missing-wgmma-fence: wgmma.fence behind the access', edit='mov.f32 %f1, 0f00000000;', late='')
    case('wgmma_register_read', 'manual 9.7.15.7.3: registers before wait_group',
         'finds: wgmma-register-in-use: wgmma.wait_group', early='mov.f32 %f4, %f0;', late='')
    case('wgmma_not_committed', 'manual 9.7.15.7.3: wait_group waits for committed groups',
         'finds: wgmma-register-in-use: wgmma.commit_group\n// finds: exit-in-flight: the CTA exits while', commit='',
         late='mov.f32 %f4, %f0;')
    case('wgmma_operand_overwritten', 'manual 9.7.15.7.3: A is written before wait_group',
         'finds: wgmma-not-waited: wgmma.wait_group', early='setp.ne.u32 %p2, %r2, 0;\n@!%p2 st.shared.b32 [a], 1;',
         late='')
    aligned = 'manual 9.7.15.5: all threads of the warpgroup execute the same one'
    case('wgmma_by_half_a_warpgroup', aligned, 'fails: illegal_instruction: of its warpgroup has ex',
         edit='setp.ge.u32 %p2, %r2, 64;\n@%p2 ret;')
    case('wgmma_in_two_places', aligned, 'fails: illegal_instruction: has executed the one at PTX line',
         edit='setp.ge.u32 %p2, %r2, 64;\n@%p2 bra OTHER;', early='OTHER:\n' + WGMMA['mma'] + '\n' + WGMMA['commit'])
    same = 'manual 9.7.15.5: the contents of a descriptor are the same in all warps of the warpgroup'
    case('wgmma_other_descriptor', same, 'fails: illegal_instruction: executed it with other descriptors',
         edit='setp.ge.u32 %p2, %r2, 64;\n@%p2 mov.u64 %l1, %l0;')
    case('wgmma_descriptor_of_a_lane', same, 'fails: illegal_instruction: of B differs between the lanes',
         edit='@!%p0 add.u64 %l1, %l1, 8;')
    # A in registers %r8 to %r11.
    tiles = ['.shared .align 1024 .b8 a[8192];', '.shared .align 1024 .b8 b[2048];']
    in_registers = {name: text.replace('%l0, %l1', '{%r8, %r9, %r10, %r11}, %l1') for name, text in WGMMA.items()}
    in_registers['begin'] += ''.join(f'\nmov.b32 %r{r}, 0x38383838;' for r in range(8, 12))
    in_registers.update(wait=WGMMA['wait'] + '\nbar.sync 0;', late='mov.f32 %f4, %f0;')

    def register_case(name, source, verdict, **edits):
        f.case(name, source, edited(in_registers, edits), verdict, block=128, shared=tiles)

    def other(kind, d, a):
        return f'wgmma.mma_async.sync.aligned.{kind} {d}, {a}, %l1, %p1, 1, 1;'

    until_wait = 'manual 9.7.15.7.3: registers of A before wait_group'
    register_case('wgmma_a_kept', 'manual 9.7.15.7: A in registers', 'finds: nothing')
    register_case('wgmma_a_read', until_wait + '; a read takes the right value all the same',
                  'finds: wgmma-register-in-use: warning [wgmma-register-in-use]', early='mov.b32 %r12, %r8;')
    register_case('wgmma_a_written', until_wait, 'finds: wgmma-register-in-use: writes a register of A',
                  early='ld.shared.b32 %r10, [b];')
    register_case('wgmma_a_written_behind_the_fence', 'manual 9.7.15.7.1: a register of A was written since',
                  'finds: missing-wgmma-fence: wgmma.fence behind the access', edit='mov.b32 %r9, 0;')
    half, both = '{%r12, %r13}', 'm64n8k32.f16.e4m3.e4m3'
    register_case('wgmma_chained', 'manual 9.7.15.7.1: accumulators of one shape need no fence between',
                  'finds: nothing', edit=in_registers['mma'])
    register_case('wgmma_of_two_shapes', 'manual 9.7.15.7.1: of two shapes they do',
                  'finds: missing-wgmma-fence: wgmma.fence behind the access',
                  edit=other('m64n16k32.f32.e4m3.e4m3', '{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}',
                             '{%r8, %r9, %r10, %r11}'))
    register_case('wgmma_result_as_a', until_wait + ': an accumulator is the next one\'s A',
                  'finds: missing-wgmma-fence: wgmma.fence\n// finds: wgmma-register-in-use: takes as A',
                  edit=other(both, half, '{%r8, %r9, %r10, %r11}') + '\n' +
                  other(both, '{%r14, %r15}', '{%r12, %r13, %r8, %r9}'))
    register_case('wgmma_result_over_a', until_wait + ': the next one accumulates there',
                  'finds: wgmma-register-in-use: accumulates in a register of A',
                  edit=other(both, half, '{%r8, %r9, %r10, %r11}'),
                  mma=other(both, '{%r8, %r9}', '{%r14, %r15, %r16, %r17}'))
    copy = ('ld.param.u64 %l2, [p0];\nmad.wide.u32 %l2, %r2, 16, %l2;\nmov.u32 %r5, b;\nmad.lo.u32 %r5, %r2, 16, %r5;\n'
            'cp.async.cg.shared.global [%r5], [%l2], 16;\ncp.async.wait_all;\n{}bar.sync 0;')
    for name, source, fence, verdict in (
            ('wgmma_of_copied_operand', 'behind fence.proxy.async', 'fence.proxy.async.shared::cta;\n', 'nothing'),
            ('wgmma_of_copied_operand_unfenced', 'without fence.proxy.async; known-good kernels lack it', '',
             'missing-proxy-fence: warning [missing-proxy-fence]')):
        f.case(name, 'manual 9.7.9.25.2, 9.7.15.4: cp.async is of the generic proxy, wgmma reads its bytes ' + source,
               edited(in_registers, {'begin': in_registers['begin'] + '\n' + copy.format(fence)}), 'finds: ' + verdict,
               block=128, shared=tiles, params='.param .u64 p0',
               buffers=['in b32: ' + '0 ' * 511 + '0'])
    f.case('wgmma_of_two_warps', aligned, edited(WGMMA, {}), 'fails: illegal_instruction: has only 2 warps', block=64,
           shared=['.shared .align 1024 .b8 a[8192];', '.shared .align 1024 .b8 b[1024];'])
    store = '''
        mov.u32 %r0, %tid.x;
        setp.ne.u32 %p0, %r0, 0;
        @%p0 ret;
        ld.param.u64 %l0, [p0];
        st.shared.v4.b32 [data], {{%r0, %r0, %r0, %r0}};
        fence.proxy.async.shared::cta;
        cp.async.bulk.global.shared::cta.bulk_group [%l0], [data], 16;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group{0} 0;
        st.global.b32 [%l0], 1;
        cp.async.bulk.wait_group 0;'''
    for name, read, verdict in (('bulk_store_waited', '', 'finds: nothing'),
                                ('bulk_store_only_read', '.read', 'finds: bulk-store-not-waited: wait_group')):
        f.case(name, 'manual 9.7.9.25.5: .read waits for the source only', store.format(read), verdict,
               shared=['.shared .align 16 .b8 data[16];'], params='.param .u64 p0', buffers=['in b32: 0 0 0 0'])
    for name, line, verdict in (
            ('bulk_prefetch', 'cp.async.bulk.prefetch.L2.global [%l0+16], 48;', 'finds: nothing'),
            ('bulk_prefetch_size', 'cp.async.bulk.prefetch.L2.global [%l0], 8;',
             'fails: illegal_instruction: bulk prefetch of 8 bytes'),
            ('bulk_prefetch_address', 'cp.async.bulk.prefetch.L2.global [%l0+8], 16;',
             'fails: misaligned: is not a multiple of 16'),
            ('bulk_prefetch_beyond', 'cp.async.bulk.prefetch.L2.global [%l0+16], 64;', 'fails: illegal_address: ')):
        f.case(name, 'manual 9.7.9.25.4.3: a size and an address in multiples of 16, of memory that exists',
               'ld.param.u64 %l0, [p0];\n' + line, verdict, params='.param .u64 p0',
               buffers=['in b32: ' + ' '.join(['0'] * 16)])
    head = 'mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nmbarrier.init.shared::cta.b64 [bar], 1;\n'
    for name, source, line, verdict in (
            ('mbarrier_twice', '9.7.13.15.9: the location must hold no object',
             'mbarrier.init.shared::cta.b64 [bar], 1;', 'already holds an mbarrier object'),
            ('mbarrier_too_many_bytes', '9.7.13.15.2: tx-count up to 2^20 - 1',
             'mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048576;', 'tx-count'),
            ('mbarrier_count_of_zero', '9.7.13.15.9: counts from 1 on',
             'mbarrier.inval.shared::cta.b64 [bar];\nmbarrier.init.shared::cta.b64 [bar], 0;', 'count'),
            ('mbarrier_overrun', '9.7.13.15.13: no more arrivals than are pending',
             'mbarrier.arrive.shared::cta.b64 %l1, [bar], 2;', 'exceeds the 1 pending')):
        f.case(name, f'manual {source}', head + line, f'fails: illegal_instruction: {verdict}',
               shared=['.shared .align 8 .b64 bar;'])
    object_only = 'manual 9.7.13.15.2: an initialised mbarrier is no data'
    for name, source, line, verdict in (
            ('mbarrier_stored_over', object_only, 'st.shared.b32 [bar], 5;',
             'mbarrier-misuse: writes over an mbarrier'),
            ('mbarrier_loaded', object_only, 'ld.shared.b32 %r1, [bar+4];',
             'mbarrier-misuse: warning [mbarrier-misuse]'),
            ('mbarrier_invalidated', 'manual 9.7.13.15.10: behind mbarrier.inval its memory is',
             'mbarrier.inval.shared::cta.b64 [bar];\nst.shared.b32 [bar], 5;', 'nothing')):
        body = head + line
        if name == 'mbarrier_stored_over':
            body += '\nst.shared.b32 [bar], 0;'   # whatever the bits mean at exit
        f.case(name, source, body, 'finds: ' + verdict, shared=['.shared .align 8 .b64 bar;'])
    for name, line, verdict in (
            ('copy_in_at_exit', 'mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n'
             'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%l0], 16, [bar];',
             'exit-in-flight: mbarrier.try_wait for the phase'),
            ('small_copy_in_at_exit', 'cp.async.cg.shared.global [data], [%l0], 16;',
             'exit-in-flight: cp.async.wait_all before')):
        f.case(name, 'rule: a copy to shared memory that no thread waits for, on every schedule',
               head + 'fence.proxy.async.shared::cta;\nld.param.u64 %l0, [p0];\n' + line + '\nmov.b32 %r2, 0;\n' +
               'LATE:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 20000;\n@%p1 bra LATE;', 'finds: ' + verdict,
               shared=['.shared .align 16 .b8 data[16];', '.shared .align 8 .b64 bar;'], params='.param .u64 p0',
               buffers=['in b32: 1 2 3 4'])
    for name, start, verdict in (('swizzled_copy', 0, 'finds: nothing'),
                                 ('swizzled_copy_off_its_boundary', 128, 'finds: swizzle-alignment: 128-byte swizzle')):
        f.case(name, 'manual 5.5.5: the pattern of 128-byte swizzle repeats every 1024 bytes', head + f'''
            fence.proxy.async.shared::cta;
            mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
            mov.u32 %r1, data;
            add.u32 %r1, %r1, {start};
            mov.b64 %l0, p1;
            cvta.param.u64 %l0, %l0;
            {TENSOR_LOAD} [%r1], [%l0, {{0, 0}}], [bar];
        WAIT:
            mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
            @!%p1 bra WAIT;''', verdict, params='.param .u64 p0, .param .align 64 .b8 p1[128]',
               shared=['.shared .align 1024 .b8 data[2048];', '.shared .align 8 .b64 bar;'],
               buffers=['in b32: ' + '0 ' * 255 + '0',
                        'map: buffer=0 type=0 rank=2 dims=128,8 strides=128 box=128,8 swizzle=3'])
    initialised_behind_fence(f)
    f.write(folder / 'check_rules_90a.ptx')


# Warp 1 reads Tensor Memory and exits, warp 0 frees it.
def freed_behind_exit(f):
    meet, done = 'barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;', 'tcgen05.wait::ld.sync.aligned;'
    poll = 'POLL:\nld.volatile.shared.b32 %r4, [flag];\nsetp.ne.u32 %p1, %r4, 1;\n@%p1 bra POLL;'
    for name, wait, barrier, verdict in (
            ('freed_behind_exit', done, meet, 'ordered-by-exit: warning [ordered-by-exit]'),
            ('freed_behind_flag', done + '\nst.volatile.shared.b32 [flag], 1;', poll,
             'race-tmem: writes what another access has read')):
        f.case(name, 'manual 9.7.13.3: the barrier waits for all threads that have not exited', f'''
            mov.u32 %r0, %tid.x;
            setp.ge.u32 %p0, %r0, 32;
            @%p0 bra MET;
            st.volatile.shared.b32 [flag], 0;
            tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
        MET:
            tcgen05.fence::before_thread_sync;
            bar.sync 0;
            tcgen05.fence::after_thread_sync;
            ld.shared.b32 %r1, [slot];
            @!%p0 bra FREE;
            add.u32 %r2, %r1, 0x200000;
            tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r3}}, [%r2];
            {wait}
            ret;
        FREE:
            {barrier}
            tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;''', 'finds: ' + verdict, block=64,
               shared=['.shared .align 4 .b32 slot;', '.shared .align 4 .b32 flag;'])


# The first CTA's mbarrier is initialised, both CTAs meet with relaxed arrivals, and the second arrives there.
def initialised_behind_fence(f):
    init, fence = 'mbarrier.init.shared::cta.b64 [bar], 1;', 'fence.mbarrier_init.release.cluster;'
    for name, lines, verdict in (
            ('init_behind_fence', f'{fence}\n{init}', 'mbarrier-not-initialised: warning [mbarrier-not-initialised]'),
            ('init_without_fence', init, 'mbarrier-not-initialised: error [mbarrier-not-initialised]'),
            ('init_before_fence', f'{init}\n{fence}', 'nothing')):
        f.case(name, 'manual 9.7.13.3, 9.7.13.4: a relaxed arrival releases nothing', f'''
            mov.u32 %r0, %tid.x;
            mov.u32 %r1, %cluster_ctarank;
            setp.ne.u32 %p0, %r0, 0;
            @%p0 bra MET;
            {lines}
        MET:
            barrier.cluster.arrive.relaxed;
            barrier.cluster.wait;
            @%p0 bra DONE;
            setp.ne.u32 %p1, %r1, 1;
            @%p1 bra DONE;
            mov.u32 %r2, bar;
            mapa.shared::cluster.u32 %r2, %r2, 0;
            mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
        DONE:
            barrier.cluster.arrive;
            barrier.cluster.wait;''', 'finds: ' + verdict, cluster=2, shared=['.shared .align 8 .b64 bar;'])


# In a pair of CTAs lane 0 of warp 1 of the second CTA reads `slot` and tells the first CTA; lane 0 of that one's warp 0
# then asks for a cluster; lane 0 of the second CTA's warp 0 waits for the response and writes `slot`.
CANCEL = {
    'begin': """mov.u32 %r0, %tid.x;
        and.b32 %r1, %r0, 31;
        mov.u32 %r2, %cluster_ctarank;
        setp.ne.u32 %p0, %r0, 0;
        @!%p0 mbarrier.init.shared::cta.b64 [bar], 1;
        @!%p0 mbarrier.init.shared::cta.b64 [consumed], 1;
        @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
        @!%p0 fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        mov.u32 %r5, response;
        mov.u32 %r6, bar;
        mov.u32 %r7, consumed;
        mapa.shared::cluster.u32 %r7, %r7, 0;
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra FIRST;
        @!%p0 bra WRITE;""",
    'read': 'ld.shared.b32 %r8, [slot];',
    'tell': 'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];',
    'first': 'bra DONE;\nFIRST:\n@%p0 bra DONE;',
    'told': 'TOLD:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [consumed], 0;\n@!%p3 bra TOLD;',
    'ask': 'clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all'
           '.b128 [%r5], [%r6];',
    'response': """bra LAST;
        WRITE:
        LAST:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0;
        @!%p4 bra LAST;""",
    'also': '',
    'write': '@!%p2 st.shared.b32 [slot], 7;',
    'end': 'DONE:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;',
}


def cancel(f):
    copy = ('cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster '
            '[%r5], [%l0], 16, [%r6], 3;')
    for name, source, edits, verdict in (
            ('read_known_to_issuer', 'only the issuer of the request knows of the read', {},
             'ordered-by-issuer: warning [ordered-by-issuer]'),
            ('read_unknown_to_issuer', 'the issuer does not wait for the reader', {'told': ''},
             'race-shared: writes what another access has read, and nothing orders'),
            ('read_after_arrival', 'the reader reads once more behind its arrival',
             {'tell': CANCEL['tell'] + '\nld.shared.b32 %r9, [slot];'},
             'race-shared: writes what another access has read, and nothing orders'),
            ('write_known_to_issuer', 'what the issuer knows is not handed over, so a write is unordered',
             {'read': 'st.shared.b32 [slot], 5;'},
             'race-shared: writes what another access has written, and nothing orders'),
            ('read_known_to_both', 'the writer waits for the reader besides',
             {'tell': CANCEL['tell'] + '\nmbarrier.arrive.shared::cta.b64 _, [consumed];',
              'also': '@%p2 bra DONE;\nALSO:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [consumed], 0;\n'
                      '@!%p3 bra ALSO;'},
             'nothing'),
            ('read_known_to_issuer_of_copy', 'the manual says so of the complete-tx of a bulk copy',
             {'ask': 'ld.param.u64 %l0, [p0];\n' + copy},
             'race-shared: writes what another access has read, and nothing orders')):
        f.case(name, 'manual 8.9.1.1: ' + source, edited(CANCEL, edits), 'finds: ' + verdict, block=64, cluster=2,
               params='.param .u64 p0', buffers=['in b32: 1 2 3 4'],
               shared=['.shared .align 16 .b8 response[16];', '.shared .align 8 .b64 bar;',
                       '.shared .align 8 .b64 consumed;', '.shared .align 4 .b32 slot;'])


def main():
    folder = pathlib.Path(sys.argv[1])
    tcgen05(folder)
    hopper(folder)


if __name__ == '__main__':
    main()
