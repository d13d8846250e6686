#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the emulator's parser, decoder and engine for a bounded time: with libFuzzer under the address and undefined
behaviour sanitizers where clang has them, else with a loop of blind mutations. Seeds: the kernels' PTX and every
kernel of test/ptx, cut to small modules. A failing input stays in the work folder; give it to --input to repeat it."""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import sys
import time

# Unoptimised but for the files that every input goes through: a third of the time to build.
OPTIMISED = ('parser_body', 'parser_module', 'parser_variables', 'lexer', 'ir')
FLAGS = ['-std=c++20', '-g1', '-fno-omit-frame-pointer', '-ffp-contract=off', '-Wno-everything',
         '-fsanitize=fuzzer-no-link,address,undefined', '-fno-sanitize-recover=undefined']
MAX_BYTES = 12000
MAX_SEEDS = 400   # reading them all must leave time for mutations
KERNEL = re.compile(r'^(?:\.visible )?\.(?:entry|func)\b', re.M)


def small_modules(text):
    """(name, module) of each kernel in a PTX text; long ones are cut behind a whole instruction."""
    starts = [m.start() for m in KERNEL.finditer(text)]
    if not starts:
        return
    head = ''.join(re.findall(r'^\.(?:version|target|address_size)[^\n]*\n', text[:starts[0]], re.M))
    for i, start in enumerate(starts):
        kernel = text[start:starts[i + 1] if i + 1 < len(starts) else len(text)]
        kernel = re.sub(r'//[^\n]*', '', kernel)
        kernel = re.sub(r'^\s*\.loc[^\n]*\n', '', kernel, flags=re.M)
        name = re.search(r'\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)', kernel)
        if len(head + kernel) > MAX_BYTES:
            cut = kernel.rfind(';', 0, MAX_BYTES)
            body = kernel[:cut + 1]
            kernel = body + '\nret;\n' + '}\n' * (body.count('{') - body.count('}'))
        yield (name.group(1) if name else str(i)), head + kernel


def write_seeds(folder, files, seed):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    words = {}
    for file in files:
        text = pathlib.Path(file).read_text()
        for name, module in small_modules(text):
            (folder / f'{pathlib.Path(file).stem}-{name}'[:120]).write_text(module)
        for word in re.findall(r'[.%]?[A-Za-z_][\w:]*', text):
            words[word] = words.get(word, 0) + 1
    frequent = sorted(words, key=lambda w: -words[w])[:600]
    (folder.parent / 'words.dict').write_text(''.join(f'"{w}"\n' for w in frequent))
    seeds = sorted(folder.iterdir())
    kept = set(random.Random(seed).sample(seeds, min(MAX_SEEDS, len(seeds))))
    for path in seeds:
        if path not in kept:
            path.unlink()
    return sorted(kept)


def compile_fuzzer(clang, sources, root, folder, jobs):
    """An incremental build: an object is made again when its source or one of its headers is newer."""
    folder.mkdir(parents=True, exist_ok=True)

    def build(source):
        target = folder / (pathlib.Path(source).stem + '.o')
        depends = target.with_suffix('.d')
        if target.exists() and depends.exists():
            made = target.stat().st_mtime
            files = depends.read_text().replace('\\\n', ' ').split(':', 1)[1].split()
            if all(os.path.exists(f) and os.path.getmtime(f) <= made for f in files):
                return None
        level = '-O1' if pathlib.Path(source).stem in OPTIMISED else '-O0'
        command = [clang, level, *FLAGS, '-I', str(root), '-MMD', '-MF', str(depends), '-c', source, '-o', str(target)]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.stderr if result.returncode else None

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        errors = [e for e in pool.map(build, sources) if e]
    if errors:
        sys.exit('ptx_fuzz: ' + errors[0])
    program = folder / 'ptx_fuzz'
    objects = [str(folder / (pathlib.Path(s).stem + '.o')) for s in sources]
    link = [clang, '-fsanitize=fuzzer,address,undefined', *objects, '-lpthread', '-o', str(program)]
    result = subprocess.run(link, capture_output=True, text=True)
    if result.returncode:
        sys.exit('ptx_fuzz: ' + result.stderr)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--clang', default='', help='clang++ with libFuzzer; empty: blind mutations')
    parser.add_argument('--loop', required=True, help='the program ptx_fuzz_loop')
    parser.add_argument('--root', required=True, help='the source tree')
    parser.add_argument('--work', required=True, help='folder for objects, seeds and failing inputs')
    parser.add_argument('--sources', nargs='+', default=[], help='what libFuzzer drives')
    parser.add_argument('--seeds', nargs='+', required=True, help='PTX files and folders of them')
    parser.add_argument('--seconds', type=int, default=int(os.environ.get('LIDX_FUZZ_SECONDS', '20')))
    parser.add_argument('--seed', type=int, default=int(os.environ.get('LIDX_FUZZ_SEED', '1')))
    parser.add_argument('--input', help='run this file only')
    options = parser.parse_args()
    work = pathlib.Path(options.work)
    files = []
    for place in options.seeds:
        path = pathlib.Path(place)
        files += sorted(path.glob('*.ptx')) if path.is_dir() else [path]
    seeds = write_seeds(work / 'seeds', files, options.seed)
    environment = {**os.environ, 'ASAN_OPTIONS': 'detect_leaks=0:allocator_may_return_null=1',
                   'UBSAN_OPTIONS': 'print_stacktrace=1'}
    if not options.clang:
        print(f'ptx_fuzz: no clang with libFuzzer here: blind mutations of {len(seeds)} seeds', flush=True)
        inputs = [options.input] if options.input else [str(s) for s in seeds]
        seconds = '0' if options.input else str(options.seconds)
        result = subprocess.run([options.loop, seconds, str(options.seed), *inputs], stderr=subprocess.PIPE,
                                text=True, errors='replace')   # findings of the kernels, then what the loop says
        print('\n'.join(result.stderr.splitlines()[-1 if result.returncode == 0 else -200:]))
        sys.exit(result.returncode)
    started = time.monotonic()
    jobs = max(1, min(4, os.cpu_count() or 1))
    program = compile_fuzzer(options.clang, options.sources, options.root, work / 'objects', jobs)
    print(f'ptx_fuzz: built in {time.monotonic() - started:.0f} s; {len(seeds)} seeds', flush=True)
    if options.input:
        sys.exit(subprocess.run([str(program), options.input], env=environment).returncode)
    corpus = work / 'corpus'
    corpus.mkdir(exist_ok=True)
    command = [str(program), f'-max_total_time={options.seconds}', f'-seed={options.seed}', '-timeout=20',
               '-rss_limit_mb=4096', f'-max_len={MAX_BYTES}', '-close_fd_mask=3', '-print_final_stats=1',
               f'-dict={work / "words.dict"}', f'-artifact_prefix={work}/', str(corpus), str(work / 'seeds')]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, errors='replace')
    shown = [line for line in result.stderr.splitlines() if line.startswith('stat::') or 'cov:' in line][-8:]
    print('\n'.join(shown if result.returncode == 0 else result.stderr.splitlines()[-120:]))
    sys.exit(result.returncode)


main()
