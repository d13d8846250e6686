#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the CUDA 13 compiler and prints key=value lines for meson: nvcc, ptxas, fatbinary, nvdisasm, cuobjdump,
include, version. Looks at the option, CUDA_HOME, PATH, where NVIDIA's packages install, and the wheels in <root>/.venv,
in that order; the first place that holds a complete toolkit of the right version wins."""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

WANTED = "13.0"
NEEDED = ("nvcc", "ptxas", "fatbinary")
INSTALLED = ("/usr/local/cuda-13.0", "/usr/local/cuda")   # the packages put neither on PATH


def version_of(nvcc):
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"release (\d+\.\d+)", text)
    return found.group(1) if found else None


def include_of(home):
    for inner in ("include", "targets/x86_64-linux/include"):
        path = os.path.join(home, inner)
        if os.path.isfile(os.path.join(path, "cuda.h")):
            return path
    return None


def wheel_homes(root):
    return sorted(glob.glob(os.path.join(root, ".venv", "lib", "python3*", "site-packages", "nvidia", "cu13")))


def candidates(option, root):
    if option:
        yield "option toolkit_home", option
        return
    if os.environ.get("CUDA_HOME"):
        yield "CUDA_HOME", os.environ["CUDA_HOME"]
    on_path = shutil.which("nvcc")
    if on_path:
        yield "PATH", os.path.dirname(os.path.dirname(os.path.realpath(on_path)))
        yield "PATH", os.path.dirname(os.path.dirname(os.path.abspath(on_path)))
    for home in INSTALLED:
        if os.path.isdir(home):
            yield "installed", home
    for home in wheel_homes(root):
        yield ".venv", home


def locate(option, root):
    refused = []
    for origin, home in candidates(option, root):
        tools = {name: os.path.join(home, "bin", name) for name in NEEDED}
        lacking = [name for name, path in tools.items() if not os.access(path, os.X_OK)]
        include = include_of(home)
        if lacking or not include:
            refused.append(f"{home} ({origin}) lacks {', '.join(lacking) or 'cuda.h'}")
            continue
        version = version_of(tools["nvcc"])
        if version != WANTED:
            refused.append(f"{home} ({origin}) is CUDA {version}")
            continue
        result = dict(tools, include=include, version=version)
        for name in ("nvdisasm", "cuobjdump"):
            places = [os.path.join(home, "bin", name)] + [os.path.join(h, "bin", name) for h in wheel_homes(root)]
            places.append(shutil.which(name) or "")
            result[name] = next((p for p in places if p and os.access(p, os.X_OK)), "")
        return result, refused
    return None, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--option", default="")
    parser.add_argument("--root", required=True)
    args = parser.parse_args()
    found, refused = locate(args.option, args.root)
    if not found:
        why = "; ".join(refused) if refused else "none in CUDA_HOME, on PATH, in /usr/local/cuda or in .venv"
        print(f"no CUDA {WANTED} compiler: {why}. Run tools/setup, or set -Dtoolkit_home.", file=sys.stderr)
        return 1
    for key, value in found.items():
        print(f"{key}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
