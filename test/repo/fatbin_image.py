# SPDX-License-Identifier: Apache-2.0
"""Readers for the tests: the images of a fatbin container, wherever in a file it lies, and the sections of a cubin.
Container: magic u32, version u16, header bytes u16, payload bytes u64; then entries: kind u16 (1 PTX, 2 ELF), version
u16, header bytes u32, payload bytes u64, ..., at 28 the architecture u32, ..., at 40 flags u64. Checked against what
`fatbinary` 13.0 writes."""
import dataclasses
import struct

MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
KINDS = {1: "ptx", 2: "elf"}
COMPRESSED_FLAGS = 0xF000
FAMILY_FLAG = 0x00200000
SPECIFIC_FLAG = 0x00100000


@dataclasses.dataclass
class Image:
    kind: str        # "ptx" or "elf"
    arch: str        # for example "100f"
    flags: int
    payload: bytes


def containers(data):
    """The image lists of all fatbin containers in data. lidx aligns its own to 16 bytes; the magic number may also be
    an operand of some instruction, even there, and what follows that is no header of an image within the file."""
    found, start = [], data.find(MAGIC)
    while start >= 0:
        end = start + 16
        if start % 16 == 0 and len(data) - start >= 32:
            size, kind, _, header = struct.unpack_from("<QHHI", data, start + 8)
            if size <= len(data) - end and kind in KINDS and 48 <= header <= size:
                end += size
                found.append(images(data[start:end]))
        start = data.find(MAGIC, end if end > start + 16 else start + 1)
    return found


def images(container):
    result, at = [], 16
    while at < len(container):
        kind, _, header, size = struct.unpack_from("<HHIQ", container, at)
        arch, = struct.unpack_from("<I", container, at + 28)
        flags, = struct.unpack_from("<Q", container, at + 40)
        suffix = "f" if flags & FAMILY_FLAG else "a" if flags & SPECIFIC_FLAG else ""
        payload = container[at + header:at + header + size]
        name = KINDS[kind]
        if name == "ptx":
            payload = payload.rstrip(b"\0")
        result.append(Image(name, f"{arch}{suffix}", flags, payload))
        at += header + size
    return result


def elf_sections(data):
    """{name: bytes} of a 64-bit ELF file's sections that hold data."""
    assert data[:5] == b"\x7fELF\x02"
    offset, = struct.unpack_from("<Q", data, 40)
    entry, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry) for i in range(count)]
    strings = data[headers[names][4]:headers[names][4] + headers[names][5]]
    return {strings[h[0]:strings.index(b"\0", h[0])].decode(): data[h[4]:h[4] + h[5]] for h in headers if h[1] != 8}
