# SPDX-License-Identifier: Apache-2.0
"""Writes the one C example of a document, or the one in Python, as a source file.
Usage: readme_example.py DOCUMENT OUTPUT.c|OUTPUT.py"""
import re
import sys

document, output = sys.argv[1:]
language = "python" if output.endswith(".py") else "c"
with open(document, encoding="utf-8") as file:
    blocks = re.findall(rf"```{language}\n(.*?)```", file.read(), re.S)
if len(blocks) != 1:
    sys.exit(f"{document} has {len(blocks)} examples in {language}, one is expected")
with open(output, "w", encoding="utf-8") as file:
    file.write(blocks[0])
