# SPDX-License-Identifier: Apache-2.0
"""Reads what cuobjdump and nvdisasm print about a cubin: per kernel its resources and its instruction counts."""
import collections
import fnmatch
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


def parse_listing(text):
    """nvdisasm -c -> {function: Counter of opcodes}; the part after the first dot of an opcode does not count.
    The padding behind the last instruction (a branch to itself, then NOPs) is not code and is left out."""
    listings, current = {}, None
    for line in text.splitlines():
        if match := SECTION_LINE.match(line):
            current = listings.setdefault(match.group(1), [])
        elif OTHER_SECTION_LINE.match(line):
            current = None
        elif (match := INSTRUCTION_LINE.match(line)) and current is not None:
            current.append(match.group(1))
    counts = {}
    for function, opcodes in listings.items():
        while opcodes and opcodes[-1] == "NOP":
            opcodes.pop()
        if opcodes and opcodes[-1] == "BRA":
            opcodes.pop()
        counts[function] = collections.Counter(opcodes)
    return counts


def read_cubin(path, cuobjdump, nvdisasm):
    """{function: {"registers": ..., "total": ..., opcode: count}} of one cubin file."""
    def output_of(command):
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout
    usage = parse_usage(output_of([cuobjdump, "--dump-resource-usage", path]))
    counts = parse_listing(output_of([nvdisasm, "-c", path]))
    if usage.keys() != counts.keys() or not usage:
        raise RuntimeError(f"{path}: cuobjdump names {sorted(usage)}, nvdisasm {sorted(counts)}")
    return {name: {**usage[name], "total": sum(counts[name].values()), **counts[name]} for name in usage}


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
