# SPDX-License-Identifier: Apache-2.0
"""Reads what cuobjdump and nvdisasm print about a cubin: per kernel its resources and its instruction counts."""
import collections
import fnmatch
import math
import re
import subprocess

# Instructions that the table shows; a limit may name any other opcode too.
SHOWN = ("UTCQMMA", "QGMMA", "UTMALDG", "LDTM", "SYNCS", "FMNMX", "FADD", "FADD2", "FFMA", "FFMA2", "FMUL", "LDG",
         "STG", "LDS", "LDL", "STL")
RESOURCES = ("registers", "stack", "shared", "local")

FUNCTION_LINE = re.compile(r"^\s*Function (\S+):\s*$")
USAGE_LINE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
SECTION_LINE = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")
OTHER_SECTION_LINE = re.compile(r"^\s*\.section\s+\.(?!text\.)")
INSTRUCTION_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
LABEL_LINE = re.compile(r"^(\.L_x_\d+):")
TARGET = re.compile(r"\bBRA\b[^;]*`\((\.L_x_\d+)\)")

# The pipe of an opcode is the first whose pattern matches it whole. IMAD shares the fma pipe; "lsu" is everything that
# goes to memory or to a unit beside it (TMA, Tensor Memory, mbarriers, shuffles); "branch" is control and waiting.
PIPES = {
    "tensor": re.compile(r"UTC\w*MMA|\w*GMMA|[HIQD]MMA"),
    "lsu": re.compile(r"LD(?!CU)\w*|ST\w*|ATOM\w*|RED|REDG|REDS|SHFL|SYNCS|UTMA\w*|UBLK\w*|CCTL\w*|ARRIVES|MATCH|"
                      r"UTCBAR|UTC\w*CP"),
    "branch": re.compile(r"BRA|BRX|EXIT|CALL|RET|BSSY|BSYNC|BREAK|WARPSYNC\w*|BAR|B2R|DEPBAR|WARPGROUP\w*|USETMAXREG|"
                         r"NOP|NANOSLEEP|YIELD|MEMBAR|FENCE|ELECT|ERRBAR|BMOV|BPT|ACQBULK|PREEXIT|\w*COLLECTIVE"),
    "uniform": re.compile(r"U\w+|R2UR|S2UR|VOTEU|C?REDUX|LDCU"),
    "fma": re.compile(r"FFMA2?|FMUL2?|FADD2?|IMAD|HFMA2|HADD2|HMUL2"),
    "alu": re.compile(r"FMNMX\d?|FSEL|FSETP|ISETP|IADD\d?|I?MNMX|VIADD\w*|VIMNMX\w*|LOP3|PLOP3|LEA|SHF|SEL|PRMT|MOV|"
                      r"P2R|R2P|I2FP|F2FP|BMSK|SGXT|IABS|VABSDIFF\w*|CS2R|S2R|VOTE|HSET\w*|HMNMX2|POPC|FLO|BREV|"
                      r"I2F|F2I|F2F|MUFU|FCHK"),
}

# Clocks of an SM for one instruction of a warp. A sub-partition issues one a clock: 0.25 for four. Measured on an H200,
# lane operations per clock and SM: FFMA 124, FADD 126, FMNMX 63. Blackwell has the same, and 2.04 FFMA2 of a warp per
# clock. Shared memory moves 128 bytes a clock, a warp's 32 words.
CLOCKS = {"issue": 0.25, "fma": 0.25, "alu": 0.5, "lsu": 1.0}
PACKED = ("FFMA2", "FADD2", "FMUL2")   # two lane operations each: twice the clocks of the fma pipe
# FP8 operations of the tensor cores per clock and SM, by the number behind sm_.
TENSOR_FLOP_PER_CLOCK = {90: 8192, 100: 16384, 103: 16384}
DEPTH = 128


def pipe_of(opcode):
    return next((pipe for pipe, pattern in PIPES.items() if pattern.fullmatch(opcode)), "other")


def weight(counts):
    """How much of the reduction there is: scalar and packed multiply-adds, and the MMAs."""
    return sum(count for opcode, count in counts.items()
               if opcode in ("FFMA", "FFMA2") or pipe_of(opcode) == "tensor")


def hot_loop(opcodes, labels, branches, innermost=False):
    """Counter of the loop with the most of the reduction in it, the shortest of those; None without a loop or where no
    loop has any. innermost: of those alone that hold no other loop with any. opcodes: of a kernel; labels: {name:
    index}; branches: [(index, label)]."""
    loops = []
    for index, label in branches:
        begin = labels.get(label, index + 1)
        if begin <= index and weight(counts := collections.Counter(opcodes[begin:index + 1])):
            loops.append((weight(counts), begin - index, begin, index, counts))
    if innermost:
        loops = [loop for loop in loops
                 if not any(loop[2] <= other[2] and other[3] <= loop[3] and other[1] > loop[1] for other in loops)]
    return max(loops, key=lambda loop: loop[:2])[4] if loops else None


def loop_quantities(counts, name="loop"):
    """{"loop.total": n, "loop.fma": n, ...} of a hot loop."""
    pipes = collections.Counter()
    for opcode, count in counts.items():
        pipes[pipe_of(opcode)] += count
    return {f"{name}.total": sum(counts.values()), **{f"{name}.{pipe}": pipes[pipe] for pipe in (*PIPES, "other")}}


def clocks_per_pair(counts, heads, number):
    """{pipe: clocks of an SM per (key, token)} of a scorer's hot loop. Each (key, head, token) costs one lane operation
    of a multiply-add, which tells how many pairs the code of the loop holds; number: of the architecture."""
    elements = 32 * (counts["FFMA"] + 2 * counts["FFMA2"])
    if not elements or number not in TENSOR_FLOP_PER_CLOCK:
        return {}
    pairs = elements / heads
    warp = collections.Counter({"issue": sum(counts.values())})
    for opcode, count in counts.items():
        warp[pipe_of(opcode)] += count * (2 if opcode in PACKED else 1)
    clocks = {pipe: warp[pipe] * cost / pairs for pipe, cost in CLOCKS.items()}
    return {"tensor": 2 * heads * DEPTH / TENSOR_FLOP_PER_CLOCK[number], **clocks}


def parse_usage(text):
    """cuobjdump --dump-resource-usage -> {function: {registers, stack, shared, local}}"""
    usage, function = {}, None
    for line in text.splitlines():
        if match := FUNCTION_LINE.match(line):
            function = match.group(1)
        elif (match := USAGE_LINE.search(line)) and function:
            usage[function] = dict(zip(RESOURCES, map(int, match.groups())))
            function = None
    return usage


def read_listing(text):
    """nvdisasm -c -> {function: (opcodes, {label: index}, [(index of a branch, label)])}; the part after the first dot
    of an opcode does not count. The padding behind the last instruction (a branch to itself, then NOPs) is not code
    and is left out."""
    listings, current = {}, None
    for line in text.splitlines():
        if match := SECTION_LINE.match(line):
            current = listings.setdefault(match.group(1), ([], {}, []))
        elif OTHER_SECTION_LINE.match(line):
            current = None
        elif current is None:
            continue
        elif match := LABEL_LINE.match(line):
            current[1][match.group(1)] = len(current[0])
        elif match := INSTRUCTION_LINE.match(line):
            if target := TARGET.search(line):
                current[2].append((len(current[0]), target.group(1)))
            current[0].append(match.group(1))
    for opcodes, _, branches in listings.values():
        while opcodes and opcodes[-1] == "NOP":
            opcodes.pop()
        if opcodes and opcodes[-1] == "BRA":
            opcodes.pop()
        branches[:] = [branch for branch in branches if branch[0] < len(opcodes)]
    return listings


def parse_listing(text):
    """nvdisasm -c -> {function: Counter of opcodes}"""
    return {function: collections.Counter(opcodes) for function, (opcodes, _, _) in read_listing(text).items()}


def read_cubin(path, cuobjdump, nvdisasm):
    """{function: {"registers": ..., "total": ..., opcode: count, "loop.fma": ..., "inner.fma": ...}} of one cubin file;
    "clocks" and "inner clocks", where a scorer's are known, are {pipe: clocks per (key, token)}, and "inner.clk.fma"
    and the like thousandths of the latter, rounded up."""
    def output_of(command):
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout
    usage = parse_usage(output_of([cuobjdump, "--dump-resource-usage", path]))
    listings = read_listing(output_of([nvdisasm, "-c", path]))
    counts = {name: collections.Counter(listing[0]) for name, listing in listings.items()}
    loops = {name: {kind: hot_loop(*listing, innermost) for kind, innermost in (("loop", False), ("inner", True))}
             for name, listing in listings.items()}
    if usage.keys() != counts.keys() or not usage:
        raise RuntimeError(f"{path}: cuobjdump names {sorted(usage)}, nvdisasm {sorted(counts)}")
    architecture = re.search(r"\.sm_(\d+)", path)
    rows = {}
    for name in usage:
        rows[name] = {**usage[name], "total": sum(counts[name].values()), **counts[name]}
        for kind, counts_of_loop in loops[name].items():
            if not counts_of_loop:
                continue
            rows[name].update(loop_quantities(counts_of_loop, kind))
            heads = re.search(r"_h(\d+)", name)
            if heads and architecture:
                clocks = clocks_per_pair(counts_of_loop, int(heads[1]), int(architecture[1]))
                rows[name]["clocks" if kind == "loop" else "inner clocks"] = clocks
                if kind == "inner":
                    rows[name].update({f"inner.clk.{pipe}": math.ceil(1000 * clk) for pipe, clk in clocks.items()})
    return rows


def parse_limits(text):
    """Lines `cubin kernel quantity relation number`; the first two are shell patterns, # begins a comment."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 5 or words[3] not in ("<=", ">=", "==") or not words[4].isdigit():
            raise ValueError(f"line {number}: expected `cubin kernel quantity <=|>=|== number`, found `{line.strip()}`")
        rows.append((number, *words[:4], int(words[4])))
    return rows


def violations(rows, kernels):
    """kernels: {(cubin, function): values}. Says which limits are broken, which rows serve nothing, and which
    kernels have no limit on their registers."""
    found, limited = [], set()
    for number, cubin_pattern, kernel_pattern, quantity, relation, limit in rows:
        matched = False
        for (cubin, function), values in kernels.items():
            if not (fnmatch.fnmatchcase(cubin, cubin_pattern) and fnmatch.fnmatchcase(function, kernel_pattern)):
                continue
            matched = True
            value = values.get(quantity, 0)
            if quantity == "registers" and relation in ("<=", "=="):
                limited.add((cubin, function))
            holds = {"<=": value <= limit, ">=": value >= limit, "==": value == limit}[relation]
            if not holds:
                found.append(f"{cubin} {function}: {quantity} is {value}, limit {relation} {limit} (line {number})")
        if not matched:
            found.append(f"line {number}: no kernel matches {cubin_pattern} {kernel_pattern}")
    for cubin, function in kernels.keys() - limited:
        found.append(f"{cubin} {function}: no line limits its registers")
    return sorted(found)
