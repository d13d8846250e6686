# SPDX-License-Identifier: Apache-2.0
"""lidx.py against lidx.h: a C++ compiler says where each field lies and of what type it is, what every function takes
and every constant is; and its errors, none of which needs a device.
Usage: python_module_test.py LIBRARY HEADER GENERATOR CXX..."""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY, HEADER, GENERATOR = (os.path.abspath(path) for path in sys.argv[1:4])
CXX = sys.argv[4:]
sys.path.insert(0, os.path.dirname(LIBRARY))
import lidx   # noqa: E402

with open(HEADER, encoding="utf-8") as header_file:
    TEXT = header_file.read()
CODE = re.sub(r"/\*.*?\*/", "", TEXT, flags=re.S)
STRUCTS = {name: kind for name, kind in vars(lidx).items()
           if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and not name.startswith("_")}
FUNCTIONS = {name: value for name, value in vars(lidx).items() if isinstance(value, ctypes._CFuncPtr)}
CONSTANTS = {name: value for name, value in vars(lidx).items() if isinstance(value, int)}

PROGRAM = """#include <lidx.h>
#include <cstdio>
#include <string>
#include <type_traits>
template <typename T> std::string word() {
    using V = std::remove_cv_t<T>;
    if constexpr (std::is_void_v<V>) return "void";
    else if constexpr (std::is_array_v<V>)
        return word<std::remove_extent_t<V>>() + "x" + std::to_string(std::extent_v<V>);
    else if constexpr (std::is_pointer_v<V>) {
        using P = std::remove_cv_t<std::remove_pointer_t<V>>;
        if constexpr (std::is_same_v<P, char>) return "text";
        else if constexpr (std::is_pointer_v<P>) return "pp";
        else return "p";
    }
    else if constexpr (std::is_class_v<V>) return "struct" + std::to_string(sizeof(V));
    else return (std::is_floating_point_v<V> ? "f" : std::is_enum_v<V> || std::is_signed_v<V> ? "i" : "u") +
                std::to_string(sizeof(V));
}
template <typename R, typename... A> std::string words(R (*)(A...)) { return (word<R>() + ... + (" " + word<A>())); }
int main() {
%s}
"""


def word(kind):
    """A ctypes type as PROGRAM names the C type."""
    if kind is None:
        return "void"
    if issubclass(kind, ctypes.Array):
        return f"{word(kind._type_)}x{kind._length_}"
    if kind is ctypes.c_char_p:
        return "text"
    if issubclass(kind, ctypes._Pointer):
        return "pp" if issubclass(kind._type_, ctypes.c_void_p) else "p"
    if issubclass(kind, ctypes.c_void_p):
        return "p"
    if issubclass(kind, ctypes.Structure):
        return f"struct{ctypes.sizeof(kind)}"
    size = ctypes.sizeof(kind)
    return {"f": "f", "i": "i", "l": "i", "q": "i", "I": "u", "L": "u", "c": "i"}[kind._type_] + str(size)


class Module(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        """What the compiler says: lines of `name: words`."""
        lines = []
        for name, kind in STRUCTS.items():
            lines.append(f'std::printf("{name}: %zu\\n", sizeof(lidx_{name}));')
            for field, _ in kind._fields_:
                at = f"lidx_{name}, {field}"
                lines.append(f'std::printf("{name}.{field}: %zu %zu %s\\n", offsetof({at}), '
                             f'sizeof(lidx_{name}::{field}), word<decltype(lidx_{name}::{field})>().c_str());')
        for name in FUNCTIONS:
            lines.append(f'std::printf("{name}: %s\\n", words(lidx_{name}).c_str());')
        for name in CONSTANTS:
            lines.append(f'std::printf("{name}: %lld\\n", static_cast<long long>(LIDX_{name}));')
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "words.cpp"), os.path.join(folder, "words")
            with open(source, "w", encoding="utf-8") as file:
                file.write(PROGRAM % "\n".join(lines))
            subprocess.run([*CXX, "-std=c++17", "-I", os.path.dirname(HEADER), source, "-o", program, LIBRARY,
                            "-Wl,-rpath," + os.path.dirname(LIBRARY)], check=True)
            output = subprocess.run([program], check=True, text=True, capture_output=True).stdout
        cls.compiler = dict(line.split(": ") for line in output.splitlines())

    def test_every_field_is_where_the_compiler_has_it(self):
        mine = {}
        for name, kind in STRUCTS.items():
            mine[name] = str(ctypes.sizeof(kind))
            for field, of in kind._fields_:
                at = getattr(kind, field)
                mine[f"{name}.{field}"] = f"{at.offset} {at.size} {word(of)}"
        self.assertEqual(mine, {name: self.compiler[name] for name in mine})
        bodies = dict(re.findall(r"typedef struct \w+ \{([^}]*)\} lidx_(\w+);", CODE))
        self.assertEqual(sorted(bodies.values()), sorted(STRUCTS))
        for body, name in bodies.items():
            self.assertEqual(body.count(";"), len(STRUCTS[name]._fields_), name)

    def test_every_function_takes_what_the_compiler_says(self):
        declared = re.findall(r"^LIDX_API[^;(]*?lidx_(\w+)\s*\(", CODE, re.M)
        self.assertEqual(sorted(FUNCTIONS), sorted(name for name in declared if not name.endswith("_init")))
        for name, function in FUNCTIONS.items():
            with self.subTest(name):
                kinds = [function.restype, *function.argtypes]
                self.assertEqual(" ".join(map(word, kinds)), self.compiler[name])

    def test_every_constant(self):
        self.assertEqual(sorted(CONSTANTS), sorted(set(re.findall(r"\bLIDX_(\w+)\b(?= =| \d)", CODE))))
        self.assertEqual({name: str(value) for name, value in CONSTANTS.items()},
                         {name: self.compiler[name] for name in CONSTANTS})

    def test_a_struct_is_made_as_its_init_function_does(self):
        library, seen = ctypes.CDLL(LIBRARY), 0
        for name, kind in STRUCTS.items():
            struct_size = kind.from_buffer_copy(b"\xa5" * ctypes.sizeof(kind))
            if hasattr(library, f"lidx_{name}_init"):
                seen += 1
                self.assertEqual(getattr(library, f"lidx_{name}_init")(ctypes.byref(struct_size)), 0)
                self.assertEqual(bytes(kind()), bytes(struct_size), name)
            else:
                self.assertEqual(bytes(kind()), ctypes.sizeof(kind).to_bytes(8, "little").ljust(
                    ctypes.sizeof(kind), b"\0"), name)
        self.assertGreater(seen, 10)

    def test_an_unknown_field_is_an_error(self):
        desc = lidx.index_desc(k=7, score=lidx.score_desc(heads=64))
        self.assertEqual((desc.k, desc.score.heads, desc.score.struct_size), (7, 64, ctypes.sizeof(lidx.score_desc)))
        with self.assertRaises(AttributeError):
            desc.score.head = 64
        with self.assertRaises(AttributeError):
            lidx.index_desc(kk=7)

    def test_a_number_out_of_range_is_an_error(self):
        class Index:   # as those of NumPy
            def __index__(self):
                return 1 << 33

        desc, args = lidx.index_desc(k=(1 << 31) - 1), lidx.index_args(q=(1 << 64) - 1)
        self.assertEqual((desc.k, args.q), ((1 << 31) - 1, (1 << 64) - 1))
        for wrong in (1 << 31, (-1 << 31) - 1, (1 << 32) + 5, Index()):
            with self.assertRaisesRegex(OverflowError, r"^index_desc\.k = -?\d+: must be -2147483648 \.\. 2147483647$"):
                desc.k = wrong
        with self.assertRaisesRegex(OverflowError, r"score_desc\.flags = -1: must be 0 \.\. 4294967295"):
            lidx.score_desc(flags=-1)
        for wrong in (-1, 1 << 64):
            with self.assertRaisesRegex(OverflowError, f"index_args.q = {wrong}: must be 0 .. {(1 << 64) - 1}"):
                args.q = wrong
        self.assertEqual((desc.k, args.q), ((1 << 31) - 1, (1 << 64) - 1))
        args.q = None
        self.assertIsNone(args.q)
        with self.assertRaisesRegex(ctypes.ArgumentError, "index = 4294967296: must be -2147483648 .. 2147483647"):
            lidx.get_kernel_info(None, 1 << 32)
        with self.assertRaisesRegex(ctypes.ArgumentError, "sequence = 9223372036854775808: must be"):
            lidx.cache_length(None, 1 << 63)
        with self.assertRaisesRegex(ctypes.ArgumentError, "stream = -1: must be 0 .. "):
            lidx.topk_merge_enqueue(None, lidx.merge_args(), -1)
        for wrong in (2.5, "64", b"64"):
            with self.assertRaisesRegex(TypeError, r"^score_desc\.heads: "):
                lidx.score_desc(heads=wrong)
        with self.assertRaisesRegex(TypeError, r"^config\.driver_path: bytes "):
            lidx.config(driver_path="libptxemu.so")

    def test_a_handle_is_one_that_the_library_made(self):
        for wrong in (3, "plan", b"plan", lidx.context(), ctypes.c_void_p(3)):
            with self.assertRaisesRegex(ctypes.ArgumentError, "expected plan, not " + type(wrong).__name__):
                lidx.get_plan_info(wrong)

    def test_errors_are_exceptions_with_the_text(self):
        with self.assertRaisesRegex(lidx.Error, r"lidx_open: .*'nowhere\.so' .*driver_path") as caught:
            lidx.open(lidx.config(driver_path=b"nowhere.so"))
        self.assertEqual(caught.exception.status, lidx.ERR_NO_DRIVER)
        count = lidx.kernel_count()
        with self.assertRaisesRegex(lidx.Error, f"index = {count}: must be 0 .. {count - 1}") as caught:
            lidx.get_kernel_info(None, count)
        self.assertEqual(caught.exception.status, lidx.ERR_VALUE)
        with self.assertRaisesRegex(lidx.Error, "lidx_index_plan_create: ctx is null"):
            lidx.index_plan_create(None, lidx.index_desc())
        with self.assertRaises(ctypes.ArgumentError):
            lidx.index_plan_create(lidx.plan(), lidx.index_desc())   # a handle of another kind
        self.assertEqual(lidx.status_string(lidx.OK).split(":")[0], "LIDX_OK")
        self.assertEqual(lidx.version(), f"{lidx.VERSION_MAJOR}.{lidx.VERSION_MINOR}.{lidx.VERSION_PATCH}")

    def test_what_the_generator_cannot_read_ends_the_build(self):
        for wrong in ("typedef union lidx_u { int a; } lidx_u;", "typedef struct lidx_s { double a; } lidx_s;",
                      "enum { LIDX_SHIFT = 3 << 1 };", "typedef struct lidx_plan { int32_t a; } lidx_plan;",
                      "LIDX_API lidx_status lidx_f(lidx_context *ctx, int32_t *numbers);"):
            with self.subTest(wrong), tempfile.TemporaryDirectory() as folder:
                header, output = os.path.join(folder, "lidx.h"), os.path.join(folder, "lidx.py")
                with open(header, "w", encoding="utf-8") as file:
                    file.write(TEXT.replace("/* ---- errors", wrong + "\n/* ---- errors"))
                done = subprocess.run([sys.executable, GENERATOR, header, output, "liblidx.so.1", "/a/b", "/a/c"],
                                      text=True, capture_output=True)
                self.assertEqual((done.returncode, os.path.exists(output)), (1, False))
                self.assertIn("python_module.py", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
