// SPDX-License-Identifier: Apache-2.0
// Fat binaries: which PTX is taken, and damaged ones. Images are built here byte by byte, in the form that fatbinary of
// toolkit 13.0 was seen to write.
#include "tools/ptxemu/fatbin.h"

#include <cstring>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <vector>

#include "catch_any.h"
#include "ptx_samples.h"

using namespace ptxemu;

namespace {

using Bytes = std::vector<uint8_t>;

void put(Bytes& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

struct Part {
    int kind;   // 1 PTX, 2 cubin
    std::string payload;
    uint32_t compressed = 0;
    uint64_t expanded = 4096;
    uint32_t flags = 0x8011;   // Zstandard
};

Bytes fatbin(const std::vector<Part>& parts) {
    Bytes entries;
    for (const Part& part : parts) {
        const uint64_t size = (part.payload.size() + 8) / 8 * 8;   // with its NUL
        put(entries, static_cast<uint64_t>(part.kind), 2);
        put(entries, 0x101, 2);
        put(entries, 80, 4);
        put(entries, size, 8);
        put(entries, part.compressed, 4);
        put(entries, 64, 4);
        put(entries, 9u << 16, 4);
        put(entries, 80, 4);
        put(entries, 0, 8);
        put(entries, part.compressed != 0 ? part.flags : 0x11, 8);
        put(entries, 0, 8);
        put(entries, part.compressed != 0 ? part.expanded : 0, 8);
        put(entries, 72, 8);
        put(entries, 0, 8);
        Bytes payload(part.payload.begin(), part.payload.end());
        payload.resize(size);
        entries.insert(entries.end(), payload.begin(), payload.end());
    }
    Bytes out;
    put(out, 0xba55ed50, 4);
    put(out, 1, 2);
    put(out, 16, 2);
    put(out, entries.size(), 8);
    out.insert(out.end(), entries.begin(), entries.end());
    return out;
}

std::string ptx(const std::string& target) { return "\n\n.version 9.0\n.target " + target + "\n.address_size 64\n"; }

struct Outcome {
    std::string text;
    bool invalid = false, no_binary = false;
    std::string message;
};
Outcome take(const void* image, uint64_t readable, int capability = 100) {
    Outcome outcome;
    try {
        outcome.text = select_ptx(image, readable, capability);
    } catch (const ImageError& e) {
        outcome.invalid = e.kind == ImageError::Kind::kInvalidImage;
        outcome.no_binary = e.kind == ImageError::Kind::kNoBinary;
        outcome.message = e.what();
    }
    return outcome;
}
Outcome take(const Bytes& image, int capability = 100) { return take(image.data(), image.size(), capability); }

}   // namespace

TEST_CASE("which target runs where", "[fatbin]") {
    const std::vector<int> devices = {80, 90, 100, 103};
    const std::vector<std::pair<const char*, std::vector<bool>>> rows = {
        {"sm_75", {true, true, true, true}},       {"sm_80", {true, true, true, true}},
        {"sm_90", {false, true, true, true}},      {"sm_90a", {false, true, false, false}},
        {"sm_100", {false, false, true, true}},    {"sm_100a", {false, false, true, false}},
        {"sm_100f", {false, false, true, true}},   {"sm_103f", {false, false, false, true}},
        {"sm_103a", {false, false, false, true}},  {"sm_120f", {false, false, false, false}},
        {"sm_", {false, false, false, false}},     {"sm_100x", {false, false, false, false}},
        {"sm_1000", {false, false, false, false}}, {"compute_80", {false, false, false, false}},
    };
    for (const auto& [target, expected] : rows) {
        for (size_t d = 0; d < devices.size(); ++d) {
            INFO(target << " on " << devices[d]);
            CHECK(target_runs_on(target, devices[d]) == expected[d]);
        }
    }
}

TEST_CASE("the best PTX of a fat binary", "[fatbin]") {
    const Bytes image = fatbin({{1, ptx("sm_80")},
                                {2,
                                 "\x7f"
                                 "ELF"},
                                {1, ptx("sm_90a")},
                                {1, ptx("sm_100f")},
                                {1, ptx("sm_90")},
                                {1, ptx("sm_100")}});
    CHECK(take(image, 80).text == ptx("sm_80"));
    CHECK(take(image, 90).text == ptx("sm_90a"));
    CHECK(take(image, 100).text == ptx("sm_100f"));
    CHECK(take(image, 103).text == ptx("sm_100f"));
    const Outcome old = take(fatbin({{1, ptx("sm_90a")}, {1, ptx("sm_100f")}}), 80);
    CHECK(old.no_binary);
    CHECK(old.message.find("sm_90a, sm_100f") != std::string::npos);
    CHECK(take(fatbin({{2,
                        "\x7f"
                        "ELF"}}))
              .no_binary);
    CHECK(take(fatbin({})).no_binary);
    const Outcome packed = take(fatbin({{1, "(\xb5/\xfd", 4}}));
    CHECK(packed.no_binary);
    CHECK(packed.message.find("compressed PTX: the Zstandard data is damaged") != std::string::npos);
}

TEST_CASE("LZ4 by hand", "[fatbin]") {
    // Literals, a match of 5 at distance 1 (the last newline again and again), one more literal.
    const std::string text = ptx("sm_90");
    REQUIRE((text.size() >= 15 && text.size() < 15 + 255));
    std::string packed = "\xf1";
    packed += static_cast<char>(text.size() - 15);
    packed += text + std::string("\x01\x00\x10/", 4);
    const uint64_t expanded = text.size() + 6;
    const auto part = [](const std::string& payload, uint64_t bytes) {
        return Part{1, payload, static_cast<uint32_t>(payload.size()), bytes, 0x2011};
    };
    CHECK(take(fatbin({part(packed, expanded)})).text == text + "\n\n\n\n\n/");
    for (const uint64_t wrong : {expanded - 1, expanded + 1, uint64_t{1}})
        CHECK(take(fatbin({part(packed, wrong)})).no_binary);
    for (size_t cut = 0; cut < packed.size(); ++cut)
        CHECK_FALSE(take(fatbin({part(packed.substr(0, cut + (cut == 0)), expanded)})).message.empty());
    std::string far = packed;
    far[far.size() - 4] = '\x7f', far[far.size() - 3] = '\x7f';   // a distance before the beginning
    CHECK(take(fatbin({part(far, expanded)})).message.find("LZ4 data is damaged") != std::string::npos);
    CHECK(take(fatbin({part(packed, uint64_t{1} << 40)})).invalid);
}

TEST_CASE("what fatbinary compresses", "[fatbin]") {
    const char* images = std::getenv("LIDX_TEST_FATBINS");   // of one PTX: as it is, then compressed
    REQUIRE(images != nullptr);
    const auto read = [](const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    std::istringstream list(images);
    std::string path;
    REQUIRE(std::getline(list, path, ':'));
    const std::string plain = read(path), text = take(plain.data(), plain.size()).text;
    REQUIRE(text.find(".version") != std::string::npos);
    int count = 0;
    for (; std::getline(list, path, ':'); ++count) {
        INFO(path);
        const std::string image = read(path);
        const Outcome outcome = take(image.data(), image.size());
        CHECK(outcome.message == "");
        CHECK((outcome.text == text));
        CHECK(image.size() < plain.size());
    }
    CHECK(count == 3);
}

TEST_CASE("plain PTX, wrapper, cubin, rubbish", "[fatbin]") {
    CHECK(take(kSampleAdd, sizeof kSampleAdd).text == kSampleAdd);
    CHECK(take(kSampleTcgen05, sizeof kSampleTcgen05, 90).no_binary);
    CHECK(take(kSampleAdd, sizeof kSampleAdd - 1).invalid);   // no NUL within reach
    CHECK(take("\x7f"
               "ELF....",
               8)
              .no_binary);
    CHECK(take("not PTX at all", 15).invalid);
    CHECK(take("ab", 2).invalid);
    CHECK(take(nullptr, 0).invalid);

    const Bytes image = fatbin({{1, ptx("sm_80")}});
    struct {
        uint32_t magic, version;
        const void* data;
        void* unused;
    } wrapper = {0x466243b1, 1, image.data(), nullptr};
    CHECK(take(&wrapper, sizeof wrapper).text == ptx("sm_80"));
    wrapper.version = 3;
    CHECK(take(&wrapper, sizeof wrapper).invalid);
    wrapper.version = 1;
    wrapper.data = nullptr;
    CHECK(take(&wrapper, sizeof wrapper).invalid);
    wrapper.data = reinterpret_cast<void*>(uintptr_t{0x10});
    CHECK(take(&wrapper, sizeof wrapper).invalid);
    CHECK(take(&wrapper, sizeof wrapper - 1).invalid);
}

TEST_CASE("a fat binary cut at any length is refused", "[fatbin]") {
    const Bytes image = fatbin({{1, ptx("sm_80")}, {1, ptx("sm_100f")}});
    CHECK(take(image).text == ptx("sm_100f"));
    for (size_t length = 0; length < image.size(); ++length) {
        INFO(length);
        const Bytes cut(image.begin(),
                        image.begin() + static_cast<ptrdiff_t>(length));   // exact size: a sanitizer sees more
        CHECK(take(cut).invalid);
    }
}

TEST_CASE("a fat binary with any byte damaged never harms", "[fatbin]") {
    const Bytes image = fatbin({{1, ptx("sm_80")}, {2, "cubin"}, {1, ptx("sm_100f")}});
    size_t refused = 0;
    for (size_t at = 0; at < image.size(); ++at) {
        for (const int flip : {0x01, 0x80, 0xff}) {
            Bytes damaged = image;
            damaged[at] = static_cast<uint8_t>(damaged[at] ^ flip);
            const Outcome outcome = take(damaged);
            refused += outcome.text.empty() ? 1 : 0;
            CHECK((outcome.invalid || outcome.no_binary || !outcome.text.empty()));
        }
    }
    CHECK(refused > 48);   // at the least the magic, the version and the header sizes
    std::mt19937 random(7);
    for (int round = 0; round < 20000; ++round) {
        Bytes damaged = image;
        for (int n = 0; n < 4; ++n) damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
        damaged.resize(random() % 8 == 0 ? random() % damaged.size() + 1 : damaged.size());
        damaged.shrink_to_fit();
        take(damaged);
    }
}

TEST_CASE("how far memory can be read", "[fatbin]") {
    const Bytes some(100);
    CHECK(readable_bytes_at(some.data()) >= some.size());
    CHECK(readable_bytes_at(nullptr) == 0);
    CHECK(readable_bytes_at(reinterpret_cast<void*>(uintptr_t{0x10})) == 0);
}
