#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps from .cu to an object that holds the fatbin. Every step fails on any warning.

  ptx     nvcc -ptx, run in the source root so that no path of this machine enters the PTX; writes a depfile
  cubin   ptxas; spills, local memory and every (C75xx) remark are errors
  fatbin  fatbinary with uncompressed PTX and cubins
  embed   an assembler file that includes the fatbin under the symbols lidx_fatbin_<stem> and lidx_fatbin_<stem>_end
"""
import argparse
import os
import re
import subprocess
import sys

# ptxas prints these as info and exits 0: wgmma serialised, wait injected, setmaxnreg ignored and their like.
REMARK = re.compile(r"\(C75\d\d\)")
FILE_LINE = re.compile(r'^(\s*\.file\s+\d+\s+)"([^"]*)"(.*)$')


def run(command, cwd=None):
    """Runs a compiler; its output counts as failure when it carries a warning or a C75xx remark."""
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def complaints(output):
    """The lines of a ptxas or nvcc log that must fail a build that otherwise succeeded."""
    return [line for line in output.splitlines() if REMARK.search(line) or re.search(r"\bwarning\b", line, re.I)]


def relative_file_lines(ptx, root):
    """Rewrites .file paths: below the source root relative to it, any other to <name of its folder>/<name>."""
    real_root = os.path.realpath(root)
    lines = []
    for line in ptx.splitlines(keepends=True):
        match = FILE_LINE.match(line.rstrip("\n"))
        if match:
            path = os.path.realpath(os.path.join(root, match.group(2)))
            if path.startswith(real_root + os.sep):
                path = os.path.relpath(path, real_root)
            else:
                path = os.path.join(os.path.basename(os.path.dirname(path)), os.path.basename(path))
            line = f'{match.group(1)}"{path}"{match.group(3)}\n'
        lines.append(line)
    return "".join(lines)


def fail(step, command, output):
    sys.stderr.write(f"{step} failed: {' '.join(command)}\n{output}")
    return 1


def make_ptx(args):
    source = os.path.relpath(os.path.realpath(args.input), os.path.realpath(args.root))
    output = os.path.abspath(args.output)
    depfile = os.path.abspath(args.depfile)
    command = [args.tool, "-ptx", f"-arch={args.arch}", "-std=c++20", "-fmad=false", "-lineinfo",
               "-Werror=all-warnings", "-I.", "-MD", "-MF", depfile, "-o", output] + args.extra + [source]
    code, text = run(command, cwd=args.root)
    if code or complaints(text):
        return fail("nvcc", command, text)
    with open(output, encoding="utf-8") as file:
        ptx = relative_file_lines(file.read(), args.root)
    with open(output, "w", encoding="utf-8") as file:
        file.write(ptx)
    # nvcc names dependencies as seen from the source root; ninja reads them from the build directory.
    with open(depfile, encoding="utf-8") as file:
        rule = file.read().replace("\\\n", " ")
    sources = [os.path.normpath(os.path.join(args.root, name)) for name in rule.split(":", 1)[1].split()]
    with open(depfile, "w", encoding="utf-8") as file:
        file.write(f"{args.output}: " + " ".join(os.path.abspath(name) for name in sources) + "\n")
    return 0


def make_cubin(args):
    # Without line tables: with them a cubin carries its PTX once more (2.9 instead of 0.9 MB of sm100_score).
    command = [args.tool, f"-arch={args.arch}", "-Werror", "--warn-on-spills", "--warn-on-local-memory-usage", "-v",
               "--suppress-debug-info", args.input, "-o", args.output]
    code, text = run(command)
    if code or complaints(text):
        if os.path.exists(args.output):
            os.remove(args.output)
        return fail("ptxas", command, text)
    return 0


def make_fatbin(args):
    command = [args.tool, "-64", "--compress-mode=none", f"--create={args.output}"]
    for image in args.images:
        kind, sm, path = image.split(":", 2)
        command.append(f"--image3=kind={kind},sm={sm},file={path}")
    code, text = run(command)
    if code or text.strip():
        return fail("fatbinary", command, text)
    return 0


def make_embed(args):
    symbol = f"lidx_fatbin_{args.stem}"
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(f"""/* SPDX-License-Identifier: Apache-2.0 */
    .section .rodata.{symbol}, "a", @progbits
    .balign 16
    .globl {symbol}
    .hidden {symbol}
    .type {symbol}, @object
{symbol}:
    .incbin "{args.input}"
    .size {symbol}, . - {symbol}
    .globl {symbol}_end
    .hidden {symbol}_end
{symbol}_end:
    .byte 0
    .section .note.GNU-stack, "", @progbits
""")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    for name, function, options in (
            ("ptx", make_ptx, ("tool", "arch", "root", "input", "output", "depfile")),
            ("cubin", make_cubin, ("tool", "arch", "input", "output")),
            ("fatbin", make_fatbin, ("tool", "output")),
            ("embed", make_embed, ("stem", "input", "output"))):
        step = steps.add_parser(name)
        step.set_defaults(function=function)
        for option in options:
            step.add_argument(f"--{option}", required=True)
        if name == "ptx":
            step.add_argument("extra", nargs="*")
        if name == "fatbin":
            step.add_argument("images", nargs="+", help="kind:sm:path, for example elf:100f:kernel/a.sm_100f.cubin")
    args = parser.parse_args()
    return args.function(args)


if __name__ == "__main__":
    sys.exit(main())
