// SPDX-License-Identifier: Apache-2.0
#include "cubin_registers.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "host/kernel_table.h"
#include "host/module.h"

namespace lidx::command {

namespace {

constexpr uint16_t kMachineCuda = 190;   // EM_CUDA

template <class T>
bool read_at(std::string_view bytes, uint64_t offset, T* value) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
    std::memcpy(value, bytes.data() + offset, sizeof(T));
    return true;
}

// Registers of `.text.symbol`, or -1. `cubin` begins with an ELF header and may have other bytes after its end.
// nvcc keeps a kernel's register count in bits 24-31 of its text section's sh_info (as cuobjdump -res-usage shows it).
int text_registers(std::string_view cubin, const Elf64_Ehdr& header, const std::string& symbol) {
    const std::string wanted = ".text." + symbol;
    Elf64_Shdr names, section;
    if (!read_at(cubin, header.e_shoff + uint64_t{header.e_shstrndx} * sizeof(Elf64_Shdr), &names)) return -1;
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
        if (!read_at(cubin, header.e_shoff + i * sizeof(Elf64_Shdr), &section)) return -1;
        const uint64_t name_at = names.sh_offset + section.sh_name;
        if (name_at >= cubin.size() || cubin.size() - name_at <= wanted.size()) continue;
        if (std::string_view(cubin.data() + name_at, wanted.size() + 1) == std::string_view(wanted.c_str(), wanted.size() + 1))
            return static_cast<int>(section.sh_info >> 24);
    }
    return -1;
}

// From version 8 of the cubin ABI (CUDA 13) on, e_flags hold the SM number in bits 8-15, before in bits 0-7.
std::string architecture(const Elf64_Ehdr& header) {
    const unsigned sm = header.e_ident[EI_ABIVERSION] >= 8 ? (header.e_flags >> 8) & 0xff : header.e_flags & 0xff;
    return "sm_" + std::to_string(sm);
}

}  // namespace

std::vector<std::pair<std::string, int>> cubin_registers(const std::string& symbol) {
    std::vector<std::pair<std::string, int>> found;
    for (const KernelRow& row : kernel_rows()) {
        if (row.symbol != symbol) continue;
        const Fatbin fatbin = embedded_fatbin(row.source);
        const std::string_view bytes(static_cast<const char*>(fatbin.bytes), fatbin.size_bytes);
        for (size_t at = bytes.find(ELFMAG); at != std::string_view::npos; at = bytes.find(ELFMAG, at + 1)) {
            Elf64_Ehdr header;
            if (!read_at(bytes, at, &header) || header.e_machine != kMachineCuda || header.e_shentsize != sizeof(Elf64_Shdr)) continue;
            const int registers = text_registers(bytes.substr(at), header, symbol);
            if (registers >= 0) found.emplace_back(architecture(header), registers);
        }
    }
    return found;
}

}  // namespace lidx::command
