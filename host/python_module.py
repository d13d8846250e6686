# SPDX-License-Identifier: Apache-2.0
"""Writes lidx.py, which is lidx.h for ctypes. A declaration that it cannot read ends the build.
Usage: python_module.py HEADER OUTPUT SONAME MODULE_DIR LIBRARY_DIR, the last two as installed."""
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator

SCALARS = {"int32_t": "ctypes.c_int32", "uint32_t": "ctypes.c_uint32", "int64_t": "ctypes.c_int64",
           "size_t": "ctypes.c_size_t", "float": "ctypes.c_float", "char": "ctypes.c_char"}
DEFAULTS = {"config": {"device": -1}}              # what an _init function writes that is not 0
OUT = {"bytes", "child", "length", "sequence"}     # pointers to one number that is written
ARRAYS = {"slots"}                                 # arrays of the caller's that are written
OPTIONAL = {"open": "config"}                      # arguments that may be left out: null

PRELUDE = '''\
# SPDX-License-Identifier: Apache-2.0
"""lidx.h of lidx {version} for ctypes, made from it by the build; docs/engines.md, "From Python".

Names are those of lidx.h without lidx_ and LIDX_. A struct is made of zeros and its struct_size, as by its _init
function, and takes fields by keyword; pointers in it are addresses (int, None), which keep nothing alive, strings are
bytes. A function returns what the C function writes to its last pointers, and raises Error with the text of
lidx_last_error(). Calls release the interpreter's lock.
"""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any


def _load(soname: str) -> ctypes.CDLL:
    """The library beside this file, or as both were installed; else as the loader finds it."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, folder, soname) for folder in (".", {library_dir!r})]
    return ctypes.CDLL(next(filter(os.path.exists, places), soname))


_library = _load({soname!r})


class Error(RuntimeError):
    """What a function refused or could not do; status is the lidx_status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _limits(kind: Any) -> tuple[int, int] | None:
    """Least and most of a type of whole numbers or addresses; ctypes would keep the low bits of any other number."""
    if not issubclass(kind, (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64)):
        return None
    bits, signed = 8 * ctypes.sizeof(kind), (kind(-1).value or 0) < 0
    return (-1 << bits - 1, (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _whole(value: Any, limits: tuple[int, int], what: str) -> int:
    number = operator.index(value)
    if not limits[0] <= number <= limits[1]:
        raise OverflowError(f"{{what}} = {{number}}: must be {{limits[0]}} .. {{limits[1]}}")
    return number


class _Struct(ctypes.Structure):
    __slots__ = ()   # a misspelt field is an AttributeError
    _defaults_: dict[str, Any] = {{}}
    _limits_: dict[str, Any] = {{}}

    def __init_subclass__(cls) -> None:
        own = {{name: _limits(kind) for name, kind in cls.__dict__.get("_fields_", ())}}
        cls._limits_ = {{**cls._limits_, **own}}

    def __setattr__(self, name: str, value: Any) -> None:
        limits = self._limits_.get(name)
        try:
            if limits and not (type(value) is int and limits[0] <= value <= limits[1]) and hasattr(value, "__index__"):
                value = _whole(value, limits, f"{{type(self).__name__}}.{{name}}")
            ctypes.Structure.__setattr__(self, name, value)
        except TypeError as error:
            raise TypeError(f"{{type(self).__name__}}.{{name}}: {{error}}") from None

    def __init__(self, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(self))
        for name, kind, *_ in self._fields_:
            if issubclass(kind, _Struct):
                getattr(self, name).struct_size = ctypes.sizeof(kind)
        for name, value in {{**self._defaults_, **fields}}.items():
            setattr(self, name, value)


class _Handle(ctypes.c_void_p):
    """What the library made: to be given to its functions, and to the one that ends it, behind which it is null."""
    context: Any   # a cache's alone: that it was made with, which has the text of its errors

    @classmethod
    def from_param(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, cls):
            raise TypeError(f"expected {{cls.__name__}}, not {{type(value).__name__}}")
        return value


def _checked(kind: Any, what: str) -> Any:
    """A parameter's type that takes no number out of its range."""
    limits = None if issubclass(kind, _Handle) else _limits(kind)
    if limits is None:
        return kind

    class Checked(kind):   # type: ignore[misc]
        @classmethod
        def from_param(cls, value: Any) -> Any:
            return kind.from_param(_whole(value, limits, what) if hasattr(value, "__index__") else value)

    return Checked


def _bind(name: str, result: Any, *parameters: tuple[Any, ...]) -> Any:
    """parameters: (type, 1 in or 2 out, name, a default or nothing)."""
    prototype = ctypes.CFUNCTYPE(result, *(_checked(kind, flags[1]) for kind, *flags in parameters))
    return prototype((name, _library), tuple(tuple(flags) for _, *flags in parameters))


def _bind_status(name: str, *parameters: tuple[Any, ...]) -> Any:
    returns = any(direction == 2 for _, direction, *_ in parameters)

    def check(status: int, _: Any, arguments: tuple[Any, ...]) -> Any:
        owner = getattr(arguments[0], "context", arguments[0])
        if status != OK:
            text = last_error(owner if isinstance(owner, context) else None)
            raise Error(status, text or status_string(status))
        if isinstance(arguments[-1], cache) and returns:
            arguments[-1].context = owner
        return arguments if returns else None   # of arguments ctypes returns those that were written

    function = _bind(name, ctypes.c_int, *parameters)
    function.errcheck = check
    return function


def _bind_end(name: str, handle: tuple[Any, ...]) -> Any:
    def forget(_: None, __: Any, arguments: tuple[Any, ...]) -> None:
        if arguments[0] is not None:
            arguments[0].value = None

    function = _bind(name, None, handle)
    function.errcheck = forget
    return function


def _bind_text(name: str, *parameters: tuple[Any, ...]) -> Any:
    function = _bind(name, ctypes.c_char_p, *parameters)
    function.errcheck = lambda text, *_: text.decode(errors="replace")
    return function
'''


def short(name: str) -> str:
    return re.sub("^(lidx_|LIDX_)", "", name)


class Reader:
    """lidx.h, declaration by declaration, into lines of Python."""

    def __init__(self, text: str) -> None:
        self.enums: set[str] = set()
        self.structs: set[str] = set()
        self.handles: set[str] = set()
        self.names: set[str] = set()
        self.lines: list[str] = []
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"#ifdef __cplusplus.*?#endif|#if defined\(_WIN32\).*?#endif", " ", text, flags=re.S)
        self.defines = dict(re.findall(r"^#define LIDX_(\w+) (\d+)$", text, re.M))
        for name, value in self.defines.items():
            self.lines.append(f"{self.new(name)} = {value}")
        rest = re.sub(r"\s+", " ", re.sub(r"^\s*#.*$", " ", text, flags=re.M)).strip()
        kinds: list[tuple[str, Callable[..., Iterator[str]]]] = [
            (r"(?:typedef )?enum(?: (\w+))? { ([^}]*?),? }(?: \1)? ?;", self.enum),
            (r"typedef struct (\w+) { ([^}]*) } \1 ?;", self.struct),
            (r"typedef struct (\w+) \1 ?;", self.handle),
            (r"LIDX_API ([\w ]+?)( ?\*| )(lidx_\w+) ?\(([^)]*)\) ?;", self.function)]
        while rest:
            for pattern, write in kinds:
                match = re.match(pattern, rest)
                if match:
                    self.lines += write(*match.groups())
                    rest = rest[match.end():].lstrip()
                    break
            else:
                sys.exit(f"python_module.py cannot read: {rest[:200]}")

    def new(self, name: str) -> str:
        """The name in Python; the build ends if there is one already."""
        name = short(name)
        if name in self.names or not name.isidentifier():
            sys.exit(f"python_module.py: a second {name}")
        self.names.add(name)
        return name

    def enum(self, name: str, body: str) -> Iterator[str]:
        self.enums.add(name)
        for item in body.split(","):
            match = re.fullmatch(r"\s*(LIDX_\w+) = (?:(\d+)|1u << (\d+))\s*", item)
            if not match:
                sys.exit(f"python_module.py cannot read {item} of enum {name}")
            yield f"{self.new(match[1])} = {match[2] or 1 << int(match[3])}"

    def handle(self, name: str) -> Iterator[str]:
        self.handles.add(name)
        yield from ["", "", f"class {self.new(name)}(_Handle):", "    pass"]

    def split(self, declaration: str) -> tuple[str, ...]:
        """C type without const, stars, name, length of an array."""
        match = re.fullmatch(r"(?:const )?(\w+) ?(\**) ?(\w+)(?:\[(\d+)\])?", declaration.strip())
        if not match:
            sys.exit(f"python_module.py cannot read {declaration}")
        return match.groups()

    def scalar(self, c_type: str) -> str:
        if c_type not in SCALARS and c_type not in self.enums:
            sys.exit(f"python_module.py does not know the type {c_type}")
        return SCALARS.get(c_type, "ctypes.c_int")

    def field(self, declaration: str) -> str:
        c_type, stars, name, length = self.split(declaration)
        if stars:
            kind = ("ctypes.c_char_p" if c_type == "char" else
                    f"ctypes.POINTER({short(c_type)})" if c_type in self.structs else "ctypes.c_void_p")
        else:
            kind = short(c_type) if c_type in self.structs else self.scalar(c_type)
        return f"        ({name!r}, {kind + (f' * {length}' if length else '')}),"

    def struct(self, name: str, body: str) -> Iterator[str]:
        yield from ["", "", f"class {self.new(name)}(_Struct):", "    __slots__ = ()", "    _fields_ = ["]
        yield from (self.field(line) for line in body.rstrip("; ").split(";"))
        yield "    ]"
        if short(name) in DEFAULTS:
            yield f"    _defaults_ = {DEFAULTS[short(name)]}"
        self.structs.add(name)

    def parameter(self, function: str, declaration: str) -> str:
        c_type, stars, name, length = self.split(declaration)
        constant, direction = declaration.strip().startswith("const "), 1
        if not stars:
            kind = self.scalar(c_type)
        elif c_type in self.handles:
            kind, direction = (f"ctypes.POINTER({short(c_type)})", 2) if len(stars) == 2 else (short(c_type), 1)
        elif c_type in self.structs:
            kind, direction = f"ctypes.POINTER({short(c_type)})", 1 if constant else 2
        elif c_type == "void":
            kind = "ctypes.c_void_p"
        else:
            kind, direction = f"ctypes.POINTER({self.scalar(c_type)})", 1 if constant or name in ARRAYS else 2
            if direction == 2 and name not in OUT:
                sys.exit(f"python_module.py does not know whether {function} writes one number to {name}")
        default = ", None" if OPTIONAL.get(function) == name else ""
        return f"({kind}, {direction}, {name!r}{default})"

    def function(self, c_type: str, star: str, name: str, parameters: str) -> Iterator[str]:
        if name.endswith("_init"):
            return   # a struct's constructor does it
        bind = {"void": "_bind_end({}", "int32_t": "_bind({}, ctypes.c_int32", "const char": "_bind_text({}",
                "lidx_status": "_bind_status({}"}[c_type].format(repr(name))
        words = [] if parameters == "void" else [self.parameter(short(name), p) for p in parameters.split(",")]
        yield from ["", *textwrap.wrap(f"{c_type}{star}{name}({parameters.strip()})", 116, initial_indent="# ",
                                       subsequent_indent="#     ")]
        yield from textwrap.wrap(f"{self.new(name)} = {', '.join([bind, *words])})", 116, subsequent_indent="    ")


def main() -> None:
    header, output, soname, module_dir, library_dir = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        reader = Reader(file.read())
    text = "\n".join(reader.lines)
    text = re.sub(r"(\n    [^\n]*)\n+(?=[\w#])", r"\1\n\n\n", text)   # two blank lines behind what is indented
    version = ".".join(reader.defines[f"VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))
    prelude = PRELUDE.format(version=version, soname=soname, library_dir=os.path.relpath(library_dir, module_dir))
    with open(output, "w", encoding="utf-8") as file:
        file.write(f"{prelude}\n\n{text}\n")


if __name__ == "__main__":
    main()
