// SPDX-License-Identifier: Apache-2.0
#include "decompress.h"

#include <dlfcn.h>

#include <cstring>

namespace ptxemu {
namespace {

// LZ4 block format: sequences of a token (lengths of literals and match, 15: more bytes follow), literals, the match's
// distance and the rest of its length; the last sequence ends behind its literals.
bool lz4(const uint8_t* data, uint64_t bytes, uint64_t out_bytes, std::string* out) {
    constexpr uint64_t kMinMatch = 4;
    uint64_t at = 0;
    auto length = [&](uint64_t first, uint64_t* value) {
        *value = first;
        if (first != 15) return true;
        while (at < bytes) {
            const uint8_t more = data[at++];
            *value += more;
            if (more != 255) return true;
        }
        return false;
    };
    while (at < bytes) {
        const uint8_t token = data[at++];
        uint64_t literals, match;
        if (!length(token >> 4, &literals) || literals > bytes - at || literals > out_bytes - out->size()) return false;
        out->append(reinterpret_cast<const char*>(data + at), literals);
        at += literals;
        if (at == bytes) break;
        if (bytes - at < 2) return false;
        const uint64_t distance = data[at] | static_cast<uint64_t>(data[at + 1]) << 8;
        at += 2;
        if (!length(token & 15, &match)) return false;
        match += kMinMatch;
        if (distance == 0 || distance > out->size() || match > out_bytes - out->size()) return false;
        for (; match != 0; --match) out->push_back((*out)[out->size() - distance]);   // it may overlap itself
    }
    return out->size() == out_bytes;
}

}   // namespace

bool decompress(Compression kind, const uint8_t* data, uint64_t bytes, uint64_t out_bytes, std::string* out,
                std::string* why) {
    out->clear();
    if (kind == Compression::kLz4) {
        if (lz4(data, bytes, out_bytes, out)) return true;
        *why = "the LZ4 data is damaged";
        return false;
    }
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    using Decompress = size_t (*)(void*, size_t, const void*, size_t);
    const auto zstd = library ? reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress")) : nullptr;
    if (!zstd) {
        *why = "it is compressed with Zstandard and there is no libzstd.so.1 (fatbinary --compress-mode=none or speed)";
        return false;
    }
    out->resize(out_bytes);
    if (zstd(out->data(), out_bytes, data, bytes) == out_bytes) return true;   // error codes are far above any size
    *why = "the Zstandard data is damaged";
    return false;
}

}   // namespace ptxemu
