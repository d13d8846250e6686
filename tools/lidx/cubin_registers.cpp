// SPDX-License-Identifier: Apache-2.0
#include "cubin_registers.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "failure.h"
#include "host/kernel_table.h"
#include "host/module.h"
#include "host/status.h"

namespace lidx::command {

namespace {

constexpr uint16_t kMachineCuda = 190;   // EM_CUDA

template <class T>
bool read_at(std::string_view bytes, uint64_t offset, T* value) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
    std::memcpy(value, bytes.data() + offset, sizeof(T));
    return true;
}

// One section of a cubin that begins with `header` and may have other bytes after its end; false where there is none of
// that name.
bool find_section(std::string_view cubin, const Elf64_Ehdr& header, const std::string& name, Elf64_Shdr* section) {
    Elf64_Shdr names;
    if (!read_at(cubin, header.e_shoff + uint64_t{header.e_shstrndx} * sizeof(Elf64_Shdr), &names)) return false;
    const std::string_view wanted(name.c_str(), name.size() + 1);   // with the terminating zero
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
        if (!read_at(cubin, header.e_shoff + i * sizeof(Elf64_Shdr), section)) return false;
        const uint64_t name_at = names.sh_offset + section->sh_name;
        if (name_at < cubin.size() && cubin.substr(name_at, wanted.size()) == wanted) return true;
    }
    return false;
}

// Section .nv.info is a list of records: u8 format, u8 attribute, and for format 4 a u16 size and that many bytes.
// Attribute 0x2f is u32 symbol index, u32 registers; a kernel's text section holds its symbol index in the low 24 bits
// of sh_info. (Read off cubins of CUDA 13.0; the counts are those of `cuobjdump -res-usage`.) -1 where the kernel is
// not in the cubin.
int kernel_registers(std::string_view cubin, const Elf64_Ehdr& header, const std::string& symbol) {
    struct Record {
        uint8_t format, attribute;
        uint16_t size_bytes;
    };
    constexpr uint8_t kSized = 4, kRegisterCount = 0x2f;
    Elf64_Shdr text, info;
    if (!find_section(cubin, header, ".text." + symbol, &text) || !find_section(cubin, header, ".nv.info", &info))
        return -1;
    Record record;
    for (uint64_t at = info.sh_offset; at < info.sh_offset + info.sh_size && read_at(cubin, at, &record);) {
        at += sizeof(Record);
        if (record.format != kSized) continue;
        uint32_t index_and_count[2];
        if (record.attribute == kRegisterCount && read_at(cubin, at, &index_and_count)
            && index_and_count[0] == (text.sh_info & 0xffffff))
            return static_cast<int>(index_and_count[1]);
        at += record.size_bytes;
    }
    return -1;
}

// From version 8 of the cubin ABI (CUDA 13) on, e_flags hold the SM number in bits 8-15, before in bits 0-7.
std::string architecture(const Elf64_Ehdr& header) {
    const unsigned sm = header.e_ident[EI_ABIVERSION] >= 8 ? (header.e_flags >> 8) & 0xff : header.e_flags & 0xff;
    return "sm_" + std::to_string(sm);
}

}  // namespace

std::vector<std::pair<std::string, int>> cubin_registers(const char* source, const std::string& symbol) {
    std::vector<std::pair<std::string, int>> found;
    Fatbin fatbin;
    try {
        fatbin = embedded_fatbin(source);
    } catch (const lidx::Failure& failure) {
        throw tool::Failure(kInternal, failure.text);
    }
    const std::string_view bytes(static_cast<const char*>(fatbin.bytes), fatbin.size_bytes);
    for (size_t at = bytes.find(ELFMAG); at != std::string_view::npos; at = bytes.find(ELFMAG, at + 1)) {
        Elf64_Ehdr header;
        if (!read_at(bytes, at, &header) || header.e_machine != kMachineCuda
            || header.e_shentsize != sizeof(Elf64_Shdr))
            continue;
        const int registers = kernel_registers(bytes.substr(at), header, symbol);
        if (registers >= 0) found.emplace_back(architecture(header), registers);
    }
    return found;
}

}  // namespace lidx::command
