# SPDX-License-Identifier: Apache-2.0
"""Writes the one C example of a document as a source file. Usage: readme_example.py DOCUMENT OUTPUT"""
import re
import sys

document, output = sys.argv[1:]
with open(document, encoding="utf-8") as file:
    blocks = re.findall(r"```c\n(.*?)```", file.read(), re.S)
if len(blocks) != 1:
    sys.exit(f"{document} has {len(blocks)} C examples, one is expected")
with open(output, "w", encoding="utf-8") as file:
    file.write(blocks[0])
