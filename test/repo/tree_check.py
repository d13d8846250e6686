# SPDX-License-Identifier: Apache-2.0
"""Rules of the source tree: include directions, unique names, file sizes, line lengths, licence lines, and nothing
left over. Usage: tree_check.py ROOT"""
import collections
import os
import re
import sys
import unittest

ROOT = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
CODE = (".c", ".cpp", ".h", ".cuh", ".cu", ".inc", ".h.in")   # the build makes x.h of x.h.in
SCRIPTS = (".py", ".sh")

# Who may include whom; the first folder that a path begins with decides. Everyone may include from its own folder.
ALLOWED = {
    "ptx": {"ptx"},
    "kernel/*.cu": {"kernel", "ptx"},      # and kernel/*.cuh
    "kernel": {"kernel"},
    "host": {"host", "kernel"},
    "tools/common": {"tools/common"},
    "tools/ptxemu": {"tools/ptxemu", "tools/common"},
    "tools/lidx": {"tools/lidx", "tools/common", "host", "kernel", "test/ref"},   # verify judges
    "tools/lidx/*.cu": {"tools/lidx", "ptx"},
    "test": {"test", "host", "kernel", "tools/ptxemu", "tools/lidx", "tools/common", "ptx"},
}
# The reference is an independent model: it may share nothing with what it judges.
ALLOWED_REFERENCE = {"test/ref"}


def tree():
    """Source files relative to ROOT; build directories and hidden folders other than .ci are no part of it."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if (not f.startswith(".") or f == ".ci") and f != "__pycache__"
                            and not os.path.isdir(os.path.join(folder, f, "meson-private"))
                            and not (folder == ROOT and f.startswith("build")))
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names
                  if not name.endswith(".pyc") and name != ".git"]   # a file in a worktree
    return sorted(found)


FILES = tree()


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_script(path):
    return path.endswith(SCRIPTS) or text_of(path).startswith("#!")


def area_of(path):
    areas = ("tools/common", "tools/ptxemu", "tools/lidx", "tools/sass", "ptx", "kernel", "host", "test")
    return next((area for area in areas if path.startswith(area + "/")), path.split("/")[0])


def includes(text):
    """Quoted includes, and lidx.h in either form; comments and raw strings at a line's start do not occur in them."""
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<(lidx\.h)>)', text, re.M):
        yield match.group(1) or match.group(2)


def resolve(path, name, files):
    """The file of the tree that an include means: next to the includer, from the root, or the only one so named."""
    for candidate in (os.path.normpath(os.path.join(os.path.dirname(path), name)), os.path.normpath(name)):
        for name_in_tree in (candidate, candidate + ".in"):
            if name_in_tree in files:
                return name_in_tree
    ends = [f for f in files if f.endswith("/" + name)]
    return ends[0] if len(ends) == 1 else None


def allowed_for(path):
    if path.startswith("test/ref/"):
        return ALLOWED_REFERENCE
    if path.startswith("kernel/") and path.endswith((".cu", ".cuh")):
        return ALLOWED["kernel/*.cu"]
    if path.startswith("tools/lidx/") and path.endswith(".cu"):
        return ALLOWED["tools/lidx/*.cu"]
    return ALLOWED.get(area_of(path), set())


def wrong_includes(contents):
    """contents: {path: text} of all code files."""
    wrong = []
    files = set(contents)
    for path, text in contents.items():
        for name in includes(text):
            target = resolve(path, name, files)
            if target is None:
                wrong.append(f'{path} includes "{name}", which is not in the tree')
            elif not any(target.startswith(area + "/") for area in allowed_for(path)):
                wrong.append(f'{path} must not include "{name}" ({area_of(target)})')
    return wrong


def anchors_of(path):
    """What a link to a heading of the document ends in."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


class Tree(unittest.TestCase):
    maxDiff = None

    def test_includes_point_the_allowed_way(self):
        contents = {path: text_of(path) for path in FILES if path.endswith(CODE)}
        self.assertGreater(sum(len(list(includes(text))) for text in contents.values()), 10)
        self.assertEqual(wrong_includes(contents), [])

    def test_forbidden_includes_are_seen(self):
        contents = {"host/a.cpp": '#include "../tools/ptxemu/b.h"\n', "tools/ptxemu/b.h": '#include "kernel/c.h"\n',
                    "kernel/c.h": '#include "ptx/d.cuh"\n', "kernel/e.cu": '#include "ptx/d.cuh"\n#include <cstdint>\n',
                    "ptx/d.cuh": '  # include "c.h"\n', "test/ref/f.h": '#include "kernel/c.h"\n',
                    "host/g.h": '#include "nowhere.h"\n'}
        self.assertEqual(len(wrong_includes(contents)), 6)

    def test_ptx_wrappers_need_only_standard_headers(self):
        for path in FILES:
            if path.startswith("ptx/"):
                self.assertEqual([name for name in re.findall(r"#\s*include\s+<([^>]+)>", text_of(path))
                                  if name not in ("cstdint", "cstddef")], [], path)

    def test_emulator_knows_nothing_of_lidx(self):
        for path in FILES:
            if path.startswith("tools/ptxemu/") and path.endswith(CODE):
                # Macros share one prefix throughout the tree; nothing else of the library may be named.
                self.assertIsNone(re.search(r"lidx|sm100_score|generic_score", text_of(path)), path)

    def test_names_are_unique(self):
        names = collections.defaultdict(list)
        for path in FILES:
            if os.path.basename(path) not in ("meson.build", "README.md"):
                names[os.path.basename(path)].append(path)
        self.assertEqual([paths for paths in names.values() if len(paths) > 1], [])

    def test_documents_name_what_exists(self):
        pattern = re.compile(r"(?<![\w/.])((?:docs|host|kernel|ptx|test|tools)/[\w./-]*\w)")
        lacking = [f"{path}: {name}" for path in FILES if path.endswith(".md")
                   for name in pattern.findall(text_of(path))
                   if not os.path.exists(os.path.join(ROOT, name))]
        self.assertEqual(lacking, [])

    def test_links_of_documents_lead_somewhere(self):
        lacking, links = [], 0
        for path in FILES:
            if not path.endswith(".md"):
                continue
            for name, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text_of(path)):
                if name.startswith("http"):
                    continue
                links += 1
                target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                if not os.path.exists(os.path.join(ROOT, target)) or anchor and anchor not in anchors_of(target):
                    lacking.append(f"{path}: {name}{'#' + anchor if anchor else ''}")
        self.assertGreater(links, 10)
        self.assertEqual(lacking, [])

    def test_named_sections_exist(self):
        """`docs/x.md, "Section"`: a heading, or a paragraph's bold words, of that document begins so."""
        sections = {os.path.basename(path): re.findall(r"^#+ (.*)$|\*\*([^*]+)\*\*", text_of(path), re.M)
                    for path in FILES if path.endswith(".md")}
        lacking, found = [], 0
        for path in FILES:
            text = re.sub(r"\s*\n\s*(?://|\*|#)?\s*", " ", text_of(path))
            for document, section in re.findall(r'([\w-]+\.md)\)?, "([^"]+?)[.,]?"', text):
                if document in sections:
                    found += 1
                    if not any(name.startswith(section) for pair in sections[document] for name in pair):
                        lacking.append(f"{path}: {document}, {section}")
        self.assertGreater(found, 10)
        self.assertEqual(lacking, [])

    def test_kernel_files_are_short(self):
        for path in FILES:
            if path.startswith("kernel/") and path.endswith(CODE):
                self.assertLessEqual(len(text_of(path).splitlines()), 400, path)

    def test_licence_lines(self):
        marked = [path for path in FILES
                  if path.endswith(CODE + SCRIPTS) or "meson" in os.path.basename(path) or is_script(path)]
        lacking = [path for path in marked
                   if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text_of(path).splitlines()[:3])]
        self.assertEqual(lacking, [])

    def test_lines_are_short(self):
        long = [f"{path}:{number}" for path in FILES if path.endswith(CODE + (".py",))
                for number, line in enumerate(text_of(path).splitlines(), 1) if len(line) > 120]
        self.assertEqual(long, [])

    def test_nothing_left_over(self):
        marks = re.compile(r"\b(TO" "DO|FIX" "ME|X" r"XX)\b")
        self.assertEqual([path for path in FILES if path != "LICENSE" and marks.search(text_of(path))], [])

    def test_no_path_of_a_machine(self):
        paths = re.compile(r"(?<![\w.$}*])/(?:wo" r"rk|ro" r"ot|ho" r"me)/")
        self.assertEqual([path for path in FILES if paths.search(text_of(path))], [])


if __name__ == "__main__":
    unittest.main()
