// SPDX-License-Identifier: Apache-2.0
#include "fatbin.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "decompress.h"
#include "lexer.h"

namespace ptxemu {
namespace {

constexpr uint32_t kFatbinMagic = 0xba55ed50;
constexpr uint32_t kWrapperMagic = 0x466243b1;   // __fatBinC_Wrapper_t of the toolkit's fatbinary_section.h
constexpr uint32_t kElfMagic = 0x464c457f;
constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;
constexpr uint16_t kKindPtx = 1;

struct Wrapper {
    uint32_t magic, version;
    uint64_t data;
    uint64_t unused;
};
static_assert(sizeof(Wrapper) == 24);

// Layouts as `fatbinary` of toolkit 13.0 writes them.
struct Header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t payload_bytes;   // all entries
};
static_assert(sizeof(Header) == 16);

struct Entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    uint32_t compressed_bytes;   // 0: not compressed
    uint32_t options_offset;
    uint16_t minor, major;   // of the PTX ISA
    uint32_t architecture;
    uint32_t name_offset, name_bytes;
    uint64_t flags;
    uint64_t unused;
    uint64_t uncompressed_bytes;   // 0: not compressed
};
static_assert(sizeof(Entry) == 64);
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagsCompressed = 0x1000 | kFlagLz4 | kFlagZstd;
constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;   // what the parser takes

[[noreturn]] void invalid(const std::string& message) { throw ImageError(ImageError::Kind::kInvalidImage, message); }

template <class T>
T read_at(const uint8_t* bytes, uint64_t offset) {
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
}

struct Target {
    int architecture = 0;
    char suffix = 0;
};

std::optional<Target> parse_target(std::string_view name) {
    if (name.substr(0, 3) != "sm_") return std::nullopt;
    Target target;
    size_t i = 3;
    for (; i < name.size() && i < 6 && name[i] >= '0' && name[i] <= '9'; ++i) {
        target.architecture = target.architecture * 10 + (name[i] - '0');
    }
    if (i == 3) return std::nullopt;
    if (i + 1 == name.size() && (name[i] == 'a' || name[i] == 'f')) {
        target.suffix = name[i];
    } else if (i != name.size()) {
        return std::nullopt;
    }
    return target;
}

// The sm_ name of `.target`, or empty. A text damaged later on is for the parser to refuse.
std::string target_of(std::string_view text) {
    try {
        Lexer lexer(text);
        Token token = lexer.take();
        if (token.kind != Token::Kind::kWord || token.text != "version") return {};
        lexer.take();
        token = lexer.take();
        if (token.kind != Token::Kind::kWord || token.text != "target") return {};
        do {
            token = lexer.take();
            if (token.kind == Token::Kind::kIdentifier && token.text.substr(0, 3) == "sm_")
                return std::string(token.text);
            token = lexer.take();
        } while (token.is(','));
    } catch (const PtxError&) {
    }
    return {};
}

std::string capability_text(int compute_capability) {
    return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

std::string select_from_fatbin(const uint8_t* bytes, uint64_t readable_bytes, int compute_capability) {
    const auto header = read_at<Header>(bytes, 0);
    if (header.version != 1 || header.header_bytes != sizeof(Header)) {
        invalid("fat binary: header version " + std::to_string(header.version) + " of " +
                std::to_string(header.header_bytes) + " bytes, expected version 1 of 16 bytes");
    }
    const uint64_t room = std::min(readable_bytes, kMaxImageBytes) - sizeof(Header);
    if (header.payload_bytes > room) {
        invalid("fat binary: claims " + std::to_string(header.payload_bytes) + " bytes after its header, only " +
                std::to_string(room) + " can be read");
    }
    const uint64_t end = sizeof(Header) + header.payload_bytes;
    std::string best, found;
    Target best_target;
    std::string unread;   // why a compressed one was passed over
    for (uint64_t at = sizeof(Header); at < end;) {
        const std::string where = "fat binary: entry at byte " + std::to_string(at);
        if (end - at < sizeof(Entry)) invalid(where + " is cut off");
        const auto entry = read_at<Entry>(bytes, at);
        if (entry.header_bytes < sizeof(Entry) || entry.header_bytes > end - at) {
            invalid(where + ": header of " + std::to_string(entry.header_bytes) + " bytes");
        }
        const uint64_t payload = at + entry.header_bytes;
        if (entry.payload_bytes > end - payload) {
            invalid(where + ": payload of " + std::to_string(entry.payload_bytes) + " bytes, only " +
                    std::to_string(end - payload) + " are left");
        }
        at = payload + entry.payload_bytes;
        if (entry.kind != kKindPtx) continue;
        const char* begin = reinterpret_cast<const char*>(bytes + payload);
        std::string_view text(begin, strnlen(begin, entry.payload_bytes));
        std::string expanded;
        if (entry.compressed_bytes != 0 || entry.uncompressed_bytes != 0 || (entry.flags & kFlagsCompressed) != 0) {
            std::string why;
            if (entry.compressed_bytes > entry.payload_bytes || entry.uncompressed_bytes > kMaxTextBytes) {
                invalid(where + ": " + std::to_string(entry.compressed_bytes) + " bytes of compressed PTX in " +
                        std::to_string(entry.payload_bytes) + ", " + std::to_string(entry.uncompressed_bytes) +
                        " when expanded; 64 MB are read");
            }
            if ((entry.flags & (kFlagLz4 | kFlagZstd)) == 0) {
                why = "it is compressed in a way that is not known";
            } else if (decompress(entry.flags & kFlagZstd ? Compression::kZstd : Compression::kLz4, bytes + payload,
                                  entry.compressed_bytes, entry.uncompressed_bytes, &expanded, &why)) {
                text = std::string_view(expanded.data(), strnlen(expanded.data(), expanded.size()));
            }
            if (!why.empty()) {
                unread = why;
                continue;
            }
        }
        const std::string name = target_of(text);
        const std::optional<Target> target = parse_target(name);
        if (!target) invalid(where + ": PTX without .version and .target");
        found += (found.empty() ? "" : ", ") + name;
        if (!target_runs_on(name, compute_capability)) continue;
        const auto rank = [](const Target& t) {
            return t.architecture * 4 + (t.suffix == 'a' ? 2 : t.suffix == 'f' ? 1 : 0);
        };
        if (best.empty() || rank(*target) > rank(best_target)) {
            best = text;
            best_target = *target;
        }
    }
    if (best.empty()) {
        throw ImageError(ImageError::Kind::kNoBinary,
                         "fat binary: no PTX for compute capability " + capability_text(compute_capability) +
                             (found.empty() ? "" : " among " + found) +
                             (unread.empty() ? "" : "; compressed PTX: " + unread));
    }
    return best;
}

}   // namespace

bool target_runs_on(std::string_view name, int compute_capability) {
    const std::optional<Target> target = parse_target(name);
    if (!target) return false;
    switch (target->suffix) {
        case 'a': return compute_capability == target->architecture;
        case 'f':
            return compute_capability / 10 == target->architecture / 10 && compute_capability >= target->architecture;
        default: return compute_capability >= target->architecture;
    }
}

std::string select_ptx(const void* image, uint64_t readable_bytes, int compute_capability) {
    const auto* bytes = static_cast<const uint8_t*>(image);
    if (readable_bytes < sizeof(uint32_t)) invalid("image of " + std::to_string(readable_bytes) + " readable bytes");
    auto magic = read_at<uint32_t>(bytes, 0);
    if (magic == kWrapperMagic) {
        if (readable_bytes < sizeof(Wrapper)) invalid("fat binary wrapper is cut off");
        const auto wrapper = read_at<Wrapper>(bytes, 0);
        if (wrapper.version != 1 && wrapper.version != 2) {
            invalid("fat binary wrapper of version " + std::to_string(wrapper.version));
        }
        bytes = reinterpret_cast<const uint8_t*>(wrapper.data);
        readable_bytes = readable_bytes_at(bytes);
        if (readable_bytes < sizeof(Header)) invalid("fat binary wrapper points to memory that cannot be read");
        magic = read_at<uint32_t>(bytes, 0);
        if (magic != kFatbinMagic) invalid("fat binary wrapper does not point to a fat binary");
    }
    if (magic == kFatbinMagic) {
        if (readable_bytes < sizeof(Header)) invalid("fat binary header is cut off");
        return select_from_fatbin(bytes, readable_bytes, compute_capability);
    }
    if (magic == kElfMagic) {
        throw ImageError(ImageError::Kind::kNoBinary, "image is a cubin; the emulator runs PTX only");
    }
    const char* begin = reinterpret_cast<const char*>(bytes);
    const uint64_t limit = std::min(readable_bytes, kMaxImageBytes);
    const std::string_view text(begin, strnlen(begin, limit));
    if (text.size() == limit) invalid("PTX text without its closing NUL");
    const std::string name = target_of(text);
    if (name.empty()) invalid("image is neither a fat binary nor PTX text with .version and .target");
    if (!target_runs_on(name, compute_capability)) {
        throw ImageError(ImageError::Kind::kNoBinary, "PTX for " + name + " does not run on compute capability " +
                                                          capability_text(compute_capability));
    }
    return std::string(text);
}

uint64_t readable_bytes_at(const void* address) {
    const auto at = reinterpret_cast<uint64_t>(address);
    if (at == 0) return 0;
    std::ifstream maps("/proc/self/maps");
    if (!maps) return std::numeric_limits<uint64_t>::max() - at;
    uint64_t end = 0;
    std::string line;
    while (std::getline(maps, line)) {
        unsigned long long low = 0, high = 0;
        char readable = '-';
        if (std::sscanf(line.c_str(), "%llx-%llx %c", &low, &high, &readable) != 3) continue;
        if (end == 0) {
            if (at < low) return 0;
            if (at >= high) continue;
        } else if (low != end) {
            break;
        }
        if (readable != 'r') break;
        end = high;
    }
    return end == 0 ? 0 : end - at;
}

}   // namespace ptxemu
