# SPDX-License-Identifier: Apache-2.0
"""Writes the C example of README.md as a source file. Usage: readme_example.py README OUTPUT"""
import re
import sys

readme, output = sys.argv[1:]
with open(readme, encoding="utf-8") as file:
    blocks = re.findall(r"```c\n(.*?)```", file.read(), re.S)
if len(blocks) != 1:
    sys.exit(f"README.md has {len(blocks)} C examples, one is expected")
with open(output, "w", encoding="utf-8") as file:
    file.write(blocks[0])
