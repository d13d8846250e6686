# SPDX-License-Identifier: Apache-2.0
"""The program of docs/engines.md without torch: its Indexer on memory of the CUDA driver API, eagerly and in a graph,
against the formula in integers; lidx_cache from Python; and where torch and a GPU are, the program itself.
LIDX_DRIVER: the driver, else libcuda.so.1. Usage: python_decode_test.py LIBRARY EXAMPLE"""
import array
import ctypes
import importlib.util
import operator
import os
import random
import struct
import subprocess
import sys
import unittest

LIBRARY, EXAMPLE = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path[:0] = [os.path.dirname(LIBRARY), os.path.dirname(EXAMPLE)]
import decode_indexer   # noqa: E402
import lidx   # noqa: E402

DRIVER = ctypes.CDLL(os.environ.get("LIDX_DRIVER", "libcuda.so.1"))
BATCH, NEXT_N, HEADS, DEPTH, PAGES, PAGE, WIDTH, K = 2, 2, 64, 128, 6, 64, 2, 70
ROWS, KEYS = BATCH * NEXT_N, WIDTH * PAGE
E4M3 = {-2: 0xc0, -1: 0xb8, 0: 0x00, 1: 0x38, 2: 0x40}
CANARY = 0x5ca1ab1e


def cuda(name, *arguments):
    result = getattr(DRIVER, name)(*arguments)
    if result != 0:
        raise RuntimeError(f"{name}: CUresult {result}")


class Memory:
    """Device memory with a tensor's data_ptr()."""

    def __init__(self, data):
        self.bytes, self.address = len(data), ctypes.c_uint64()
        cuda("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(self.bytes, 1)))
        self.write(data)

    def data_ptr(self):
        return self.address.value

    def write(self, data):
        cuda("cuMemcpyHtoD_v2", self.address, bytes(data), ctypes.c_size_t(len(data)))
        cuda("cuCtxSynchronize")   # of pageable memory it may return before the copy has arrived (CUDA driver API, API
                                   # synchronization behavior), and streams of our own do not wait for it

    def read(self, kind):
        cuda("cuCtxSynchronize")
        data = ctypes.create_string_buffer(self.bytes)
        cuda("cuMemcpyDtoH_v2", data, self.address, ctypes.c_size_t(self.bytes))
        return list(array.array(kind, data.raw))


def int32(values):
    return array.array("i", values).tobytes()


class Decode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cuda("cuInit", 0)
        device, current = ctypes.c_int(), ctypes.c_void_p()
        cuda("cuDeviceGet", ctypes.byref(device), 0)
        cuda("cuDevicePrimaryCtxRetain", ctypes.byref(current), device)
        cuda("cuCtxSetCurrent", current)
        cls.ctx = lidx.open()
        cls.addClassCleanup(lidx.close, cls.ctx)
        rng = random.Random(5)

        def draw(low, high, count):
            return [rng.randint(low, high) for _ in range(count)]

        cls.q = [draw(-1, 1, DEPTH) for _ in range(ROWS * HEADS)]
        cls.weights = draw(-1, 4, ROWS * HEADS)   # sixteenths
        cls.keys = [draw(-2, 2, DEPTH) for _ in range(PAGES * PAGE)]
        cls.scales = [2 ** n for n in draw(0, 3, PAGES * PAGE)]
        cls.table = rng.sample(range(PAGES), BATCH * WIDTH)
        cls.best = [cls.order(row) for row in range(ROWS)]
        pool = b"".join(bytes(E4M3[x] for key in cls.keys[at:at + PAGE] for x in key) +
                        struct.pack(f"<{PAGE}f", *cls.scales[at:at + PAGE]) for at in range(0, PAGES * PAGE, PAGE))
        cls.d_q = Memory(bytes(E4M3[x] for head in cls.q for x in head))
        cls.d_weights = Memory(struct.pack(f"<{ROWS * HEADS}f", *(w / 16 for w in cls.weights)))
        cls.d_pool, cls.d_table, cls.d_lens = Memory(pool), Memory(int32(cls.table)), Memory(bytes(4 * BATCH))

    @classmethod
    def order(cls, row):
        """The positions of the row's request, in the order of preference."""
        request, scores = row // NEXT_N, []
        for position in range(KEYS):
            slot = cls.table[request * WIDTH + position // PAGE] * PAGE + position % PAGE
            dots = (sum(map(operator.mul, cls.q[row * HEADS + h], cls.keys[slot])) for h in range(HEADS))
            weights = cls.weights[row * HEADS:(row + 1) * HEADS]
            scores.append(cls.scales[slot] * sum(max(dot, 0) * weight for dot, weight in zip(dots, weights)))
        return sorted(range(KEYS), key=lambda position: -scores[position])

    def wanted(self, lens):
        result = []
        for row in range(ROWS):
            seen = lens[row // NEXT_N] - NEXT_N + row % NEXT_N + 1
            result += ([position for position in self.best[row] if position < seen] + [-1] * K)[:K]
        return result

    def test_the_program_of_the_document(self):
        indexer = decode_indexer.Indexer(self.ctx, BATCH, NEXT_N, HEADS, PAGES, PAGE, WIDTH, K,
                                         zeros=lambda size: Memory(bytes(size)))
        self.addCleanup(indexer.close)
        indices = Memory(int32([CANARY] * (ROWS * K)))
        stream, graph, replay = (ctypes.c_void_p() for _ in range(3))
        cuda("cuStreamCreate", ctypes.byref(stream), 1)
        self.addCleanup(cuda, "cuStreamDestroy_v2", stream)

        def step():
            indexer.enqueue(self.d_q, self.d_weights, self.d_pool, self.d_table, self.d_lens, indices, stream.value)

        self.d_lens.write(int32([KEYS, 65]))
        step()
        self.assertEqual(indices.read("i"), self.wanted([KEYS, 65]))
        cuda("cuStreamBeginCapture_v2", stream, 0)
        step()
        cuda("cuStreamEndCapture", stream, ctypes.byref(graph))
        cuda("cuGraphInstantiateWithFlags", ctypes.byref(replay), graph, ctypes.c_uint64(0))
        for lens in ([1, KEYS - 1], [100, 0]):
            indices.write(int32([CANARY] * (ROWS * K)))
            self.d_lens.write(int32(lens))
            cuda("cuGraphLaunch", replay, stream)
            self.assertEqual(indices.read("i"), self.wanted(lens))
        cuda("cuGraphExecDestroy", replay)
        cuda("cuGraphDestroy", graph)

    def test_the_merge_of_the_document(self):
        rng, shards, length = random.Random(6), 3, 200
        whole = [[float(rng.randint(-20, 20)) for _ in range(shards * length)] for _ in range(ROWS)]   # ties
        scores, positions = [], []
        for shard in range(shards):
            for row in whole:
                best = sorted(range(shard * length, (shard + 1) * length), key=lambda at: (-row[at], at))[:K]
                rng.shuffle(best)
                positions += best
                scores += [row[at] for at in best]
        d_scores, d_positions = Memory(struct.pack(f"<{len(scores)}f", *scores)), Memory(int32(positions))
        indices = Memory(int32([CANARY] * (ROWS * K)))
        decode_indexer.merge_shards(self.ctx, d_scores, d_positions, shards, ROWS, K, indices, None)
        self.assertEqual(indices.read("i"), [at for row in whole for at in
                                             sorted(range(shards * length), key=lambda at: (-row[at], at))[:K]])

    def test_a_context_of_a_device_by_its_number(self):
        ctx = lidx.open(lidx.config(device=0))
        self.addCleanup(lidx.close, ctx)
        info = lidx.get_device_info(ctx)
        self.assertEqual((info.ordinal, info.struct_size), (0, ctypes.sizeof(lidx.device_info)))
        self.assertEqual(info.compute_capability, lidx.get_device_info(self.ctx).compute_capability)

    def test_errors_name_the_field(self):
        desc = lidx.score_desc(batch=1, max_rows=1, max_tokens=1, heads=64, depth=128, max_keys=64, page_size=64,
                               num_pages=1, k_page_stride=8176, k_scale_page_stride=256, block_table_stride=1,
                               score_stride=64)
        with self.assertRaisesRegex(lidx.Error, "k_page_stride = 8176: must be at least 8192") as caught:
            lidx.plan_create(self.ctx, desc)
        self.assertEqual((caught.exception.status, lidx.driver_error(self.ctx)), (lidx.ERR_VALUE, 0))
        desc.k_page_stride = 8192
        plan = lidx.plan_create(self.ctx, desc)
        self.addCleanup(lidx.plan_destroy, plan)
        self.assertEqual((lidx.plan_workspace_bytes(plan), lidx.get_plan_info(plan).symbol),
                         (0, lidx.supports(self.ctx, desc).symbol))
        with self.assertRaisesRegex(lidx.Error, "lidx_score_enqueue: .*q is null") as caught:
            lidx.score_enqueue(self.ctx, plan, lidx.score_args(), None)
        self.assertEqual(caught.exception.status, lidx.ERR_NULL)

    def test_a_handle_that_was_ended_is_null(self):
        desc = lidx.score_desc(batch=1, max_rows=1, max_tokens=1, heads=64, depth=128, max_keys=64, page_size=64,
                               num_pages=1, k_page_stride=8192, k_scale_page_stride=256, block_table_stride=1,
                               score_stride=64)
        plan = lidx.plan_create(self.ctx, desc)
        ctx = lidx.open()
        pool = lidx.pool(k_base=self.d_pool.data_ptr(), k_scale_base=self.d_pool.data_ptr() + PAGE * DEPTH, depth=DEPTH,
                         page_size=PAGE, num_pages=PAGES, k_page_stride=PAGE * 132, k_scale_page_stride=PAGE * 132)
        cache = lidx.cache_create(ctx, lidx.cache_desc(pool=ctypes.pointer(pool)))
        for handle, end in ((plan, lidx.plan_destroy), (cache, lidx.cache_destroy), (ctx, lidx.close)):
            self.assertTrue(handle)
            self.assertIsNone(end(handle))
            self.assertFalse(handle)
            end(handle)
            end(None)
        with self.assertRaisesRegex(lidx.Error, "lidx_score_enqueue: plan is null"):
            lidx.score_enqueue(self.ctx, plan, lidx.score_args(), None)
        with self.assertRaisesRegex(lidx.Error, "lidx_get_device_info: ctx is null"):
            lidx.get_device_info(ctx)
        with self.assertRaisesRegex(lidx.Error, "lidx_cache_length: cache is null"):
            lidx.cache_length(cache, 1)

    def test_a_cache(self):
        pool = lidx.pool(k_base=self.d_pool.data_ptr(), k_scale_base=self.d_pool.data_ptr() + PAGE * DEPTH, depth=DEPTH,
                         page_size=PAGE, num_pages=PAGES, k_page_stride=PAGE * 132, k_scale_page_stride=PAGE * 132)
        cache = lidx.cache_create(self.ctx, lidx.cache_desc(pool=ctypes.pointer(pool)))
        self.addCleanup(lidx.cache_destroy, cache)
        first, second = lidx.cache_add(cache), lidx.cache_add(cache)
        sequences, tokens = (ctypes.c_int64 * 2)(first, second), (ctypes.c_int32 * 2)(PAGE + 1, 3)
        lidx.cache_extend(cache, sequences, tokens, 2, None)
        self.assertEqual((lidx.cache_length(cache, first), lidx.cache_length(cache, second)), (PAGE + 1, 3))
        slots = (ctypes.c_int64 * 4)()
        lidx.cache_fill_slots(cache, sequences, (ctypes.c_int32 * 2)(1, 3), 2, slots)
        table, lens = (ctypes.c_int32 * (2 * WIDTH))(), (ctypes.c_int32 * 2)()
        lidx.cache_fill_tables(cache, lidx.cache_tables(
            sequences=ctypes.addressof(sequences), count=2, block_table_stride=WIDTH,
            block_table=ctypes.addressof(table), context_lens=ctypes.addressof(lens)), None)
        self.assertEqual((list(lens), table[WIDTH + 1]), ([PAGE + 1, 3], -1))
        self.assertEqual(list(slots), [table[1] * PAGE, *(table[WIDTH] * PAGE + i for i in range(3))])
        stats = lidx.cache_get_stats(cache)
        self.assertEqual((stats.num_pages, stats.free_pages, stats.tokens), (PAGES, PAGES - 3, PAGE + 4))
        child = lidx.cache_fork(cache, first)
        lidx.cache_free(cache, first)
        self.assertEqual(lidx.cache_length(cache, child), PAGE + 1)
        with self.assertRaisesRegex(lidx.Error, "lidx_cache_length: sequence") as caught:   # of the cache's context
            lidx.cache_length(cache, first)
        self.assertEqual((caught.exception.status, str(caught.exception)), (lidx.ERR_VALUE, lidx.last_error(self.ctx)))

    def test_with_torch(self):
        if os.environ.get("LIDX_TEST_DRIVER") != "cuda" or importlib.util.find_spec("torch") is None:
            self.skipTest("torch with a GPU")
        done = subprocess.run([sys.executable, EXAMPLE], text=True, capture_output=True,
                              env=dict(os.environ, PYTHONPATH=os.path.dirname(LIBRARY)))
        self.assertEqual((done.returncode, done.stdout), (0, "right: True True True True\n"), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
