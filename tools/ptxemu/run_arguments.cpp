// SPDX-License-Identifier: Apache-2.0
#include "run_arguments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "counted.h"
#include "half.h"
#include "json_file.h"
#include "npy.h"
#include "tensor_map.h"
#include "texts.h"
#include "tool_failure.h"

namespace ptxemu {
namespace {

using nlohmann::json;
using tool::joined;
using tool::json_shown;

enum class Kind : uint8_t { kUnsigned, kSigned, kFloat32, kFloat64, kSmallFloat };

struct ElementType {
    const char* name;
    const char* other_names;   // blank-separated
    const char* descr;         // of .npy, which has no bf16 and no fp8: their codes
    int bytes;
    Kind kind;
    const SmallFormat* format = nullptr;
};
const ElementType kTypes[] = {
    {"u8", "uint8 b8 |u1 bool |b1", "|u1", 1, Kind::kUnsigned},
    {"u16", "uint16 b16 <u2", "<u2", 2, Kind::kUnsigned},
    {"u32", "uint32 b32 <u4", "<u4", 4, Kind::kUnsigned},
    {"u64", "uint64 b64 <u8", "<u8", 8, Kind::kUnsigned},
    {"s8", "i8 int8 |i1", "|i1", 1, Kind::kSigned},
    {"s16", "i16 int16 <i2", "<i2", 2, Kind::kSigned},
    {"s32", "i32 int32 <i4", "<i4", 4, Kind::kSigned},
    {"s64", "i64 int64 <i8", "<i8", 8, Kind::kSigned},
    {"f16", "float16 half <f2", "<f2", 2, Kind::kSmallFloat, &kHalfFormat},
    {"bf16", "bfloat16", "<u2", 2, Kind::kSmallFloat, &kBf16Format},
    {"f32", "float32 float <f4", "<f4", 4, Kind::kFloat32},
    {"f64", "float64 double <f8", "<f8", 8, Kind::kFloat64},
    {"e4m3", "float8_e4m3fn", "|u1", 1, Kind::kSmallFloat, &kE4m3Format},
    {"e5m2", "float8_e5m2", "|u1", 1, Kind::kSmallFloat, &kE5m2Format},
};

bool is_word_of(const std::string& word, const char* list) {
    const std::string all = std::string(" ") + list + " ";
    return !word.empty() && word.find(' ') == std::string::npos && all.find(" " + word + " ") != std::string::npos;
}

// Where in the file a message points to: "args.json: entry 2: buffer".
struct Place {
    std::string text;
    [[noreturn]] void fail(const std::string& why) const { tool::bad_input(text + ": " + why); }
    Place operator/(const std::string& part) const { return {text + ": " + part}; }
};

void check_keys(const Place& at, const json& object, std::initializer_list<const char*> known) {
    for (const auto& [key, value] : object.items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        at.fail("unknown field '" + tool::shown(key) + "', expected " + joined(known));
    }
}

const ElementType& type_named(const Place& at, const json& value) {
    if (value.is_string()) {
        const std::string name = value.get<std::string>();
        for (const ElementType& t : kTypes)
            if (name == t.name || is_word_of(name, t.other_names)) return t;
    }
    at.fail(json_shown(value) + ", expected one of " + joined(kTypes, ", ", &ElementType::name));
}

std::optional<uint64_t> hexadecimal(const json& value) {
    if (!value.is_string()) return {};
    const std::string text = value.get<std::string>();
    if (text.size() < 3 || text.size() > 18 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X')) return {};
    uint64_t bits = 0;
    for (char c : text.substr(2)) {
        if (!std::isxdigit(static_cast<unsigned char>(c))) return {};
        bits = bits << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return bits;
}

uint64_t encode_float(double value, const ElementType& type) {
    switch (type.kind) {
        case Kind::kFloat32: return std::bit_cast<uint32_t>(static_cast<float>(value));
        case Kind::kFloat64: return std::bit_cast<uint64_t>(value);
        default: return round_to_format(value, 0, *type.format, 0, false);
    }
}

// A number of the type: JSON's numbers, "0x.." for its bits, and "nan", "inf", "-inf" for floats.
uint64_t encode(const Place& at, const json& value, const ElementType& type) {
    const int bits = type.bytes * 8;
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    if (const auto raw = hexadecimal(value)) {
        if (*raw > mask)
            at.fail(json_shown(value) + " has more than the " + std::to_string(bits) + " bits of " + type.name);
        return *raw;
    }
    if (type.kind == Kind::kUnsigned || type.kind == Kind::kSigned) {
        const bool is_signed = type.kind == Kind::kSigned;
        const int64_t lowest = is_signed ? -static_cast<int64_t>(mask >> 1) - 1 : 0;
        const uint64_t highest = is_signed ? mask >> 1 : mask;
        bool fits = false;
        if (value.is_number_unsigned()) fits = value.get<uint64_t>() <= highest;
        else if (value.is_number_integer()) fits = is_signed && value.get<int64_t>() >= lowest;
        else if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
        if (!fits) {
            at.fail(json_shown(value) + ", expected a whole number from " + std::to_string(lowest) + " to " +
                    std::to_string(highest) + " (" + type.name + "), or \"0x..\"");
        }
        return (value.is_number_unsigned() ? value.get<uint64_t>()
                                           : static_cast<uint64_t>(value.get<int64_t>())) & mask;
    }
    if (value.is_number()) return encode_float(value.get<double>(), type);
    if (value == "nan") return encode_float(std::numeric_limits<double>::quiet_NaN(), type);
    if (value == "inf") return encode_float(std::numeric_limits<double>::infinity(), type);
    if (value == "-inf") return encode_float(-std::numeric_limits<double>::infinity(), type);
    at.fail(json_shown(value) + ", expected a number, \"nan\", \"inf\", \"-inf\" or \"0x..\" (" + type.name + ")");
}

uint64_t whole(const Place& at, const json& value, uint64_t highest) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= highest) return value.get<uint64_t>();
    at.fail(json_shown(value) + ", expected a whole number from 0 to " + std::to_string(highest));
}

struct Buffer {
    std::string name;
    std::string descr;
    tool::Shape shape;
    uint64_t bytes = 0;
    bool filled = false;
    std::vector<uint8_t> data;   // where filled
    std::filesystem::path out;
    uint64_t address = 0;
};

constexpr uint64_t kMaxFilledBytes = uint64_t{4} << 30;
constexpr uint64_t kMaxBufferBytes = uint64_t{180} << 30;

// How many bytes an entry takes in the parameter block, and where its addresses go.
struct Part {
    std::vector<uint8_t> bytes;
    uint64_t align = 1;
    struct Address {
        uint64_t at;
        size_t buffer;
        uint64_t offset;
    };
    std::vector<Address> addresses;
    struct Map {
        uint64_t at;
        size_t buffer;
        TensorMapArgs args;   // address: the offset in the buffer
    };
    std::vector<Map> maps;
};

struct Name {
    const char* name;
    uint32_t value;
};
constexpr Name kDataTypes[] = {
    {"UINT8", 0},        {"UINT16", 1},        {"UINT32", 2},          {"INT32", 3},
    {"UINT64", 4},       {"INT64", 5},         {"FLOAT16", 6},         {"FLOAT32", 7},
    {"FLOAT64", 8},      {"BFLOAT16", 9},      {"FLOAT32_FTZ", 10},    {"TFLOAT32", 11},
    {"TFLOAT32_FTZ", 12}, {"16U4_ALIGN8B", 13}, {"16U4_ALIGN16B", 14}, {"16U6_ALIGN16B", 15}};
constexpr Name kInterleaves[] = {{"NONE", 0}, {"16B", 1}, {"32B", 2}};
constexpr Name kSwizzles[] = {{"NONE", 0},           {"32B", 1},
                              {"64B", 2},            {"128B", 3},
                              {"128B_ATOM_32B", 4},  {"128B_ATOM_32B_FLIP_8B", 5},
                              {"128B_ATOM_64B", 6}};
constexpr Name kPromotions[] = {{"NONE", 0}, {"L2_64B", 1}, {"L2_128B", 2}, {"L2_256B", 3}};
constexpr Name kFills[] = {{"NONE", 0}, {"NAN_REQUEST_ZERO_FMA", 1}};

// An enumerator of cuda.h: its number, its whole name or the end of it.
template <size_t N>
uint32_t enumerator(const Place& at, const json& value, const Name (&names)[N], const char* prefix) {
    if (value.is_number_unsigned() && value.get<uint64_t>() < N) return static_cast<uint32_t>(value.get<uint64_t>());
    if (value.is_string()) {
        std::string name = value.get<std::string>();
        if (name.starts_with(prefix)) name.erase(0, std::strlen(prefix));
        for (const Name& n : names)
            if (name == n.name) return n.value;
    }
    at.fail(json_shown(value) + ", expected one of " + joined(names, ", ", &Name::name));
}

uint64_t splitmix(uint64_t& state) {
    uint64_t z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

}   // namespace

struct ArgumentList {
    std::filesystem::path folder;
    int compute_capability = 0;
    std::vector<Buffer> buffers;
    std::vector<std::filesystem::path> inputs;   // .npy files that were read
    std::map<std::string, size_t> by_name;
    std::vector<Part> parts;
    std::vector<uint64_t> offsets;   // of the parts in the parameter block
    uint32_t param_bytes = 0;

    std::filesystem::path resolve(const Place& at, const json& name) const {
        const bool usable = name.is_string() && name != "" && name.get<std::string>().find('\0') == std::string::npos;
        if (!usable) at.fail(json_shown(name) + ", expected a file name");
        const std::filesystem::path path(name.get<std::string>());
        return path.is_absolute() ? path : folder / path;
    }

    void collect(const Place& at, const json& entry, const std::string& number);
    void fill(const Place& at, const json& what, Buffer& buffer);
    size_t buffer_named(const Place& at, const json& value) const;
    Part part_of(const Place& at, const json& entry, const std::string& number) const;
    Part map_of(const Place& at, const json& value) const;
};

void ArgumentList::fill(const Place& at, const json& what, Buffer& buffer) {
    check_keys(at, what, {"shape", "dtype", "fill", "seed"});
    if (!what.contains("shape") || !what["shape"].is_array()) at.fail("it needs a shape, an array of sizes");
    if (!what.contains("dtype")) at.fail("it needs a dtype");
    const ElementType& type = type_named(at / "dtype", what["dtype"]);
    uint64_t elements = 1;
    if (what["shape"].size() > 32) (at / "shape").fail("more than 32 dimensions");
    for (const json& size : what["shape"]) {
        const uint64_t n = whole(at / "shape", size, kMaxBufferBytes);
        buffer.shape.push_back(static_cast<int64_t>(n));
        if (n != 0 && elements > kMaxBufferBytes / n) (at / "shape").fail("more than 180 GiB");
        elements *= n;
    }
    buffer.descr = type.descr;
    buffer.bytes = elements * static_cast<uint64_t>(type.bytes);
    if (buffer.bytes == 0) (at / "shape").fail(tool::shape_text(buffer.shape) + " has no elements");
    if (buffer.bytes > kMaxBufferBytes) (at / "shape").fail("more than 180 GiB");
    if (!what.contains("fill") || what["fill"].is_null()) {
        if (what.contains("seed")) at.fail("a seed belongs to \"fill\": \"random\"");
        return;
    }
    const json& value = what["fill"];
    if (buffer.bytes > kMaxFilledBytes) (at / "fill").fail("more than 4 GiB; leave it out for large buffers");
    const bool random = value == "random", iota = value == "iota";
    const bool number = !value.is_string() || value == "nan" || value == "inf" || value == "-inf" ||
                        value.get_ref<const std::string&>().starts_with("0x");
    if (!number && !random && !iota)
        (at / "fill").fail(json_shown(value) + ", expected a number as a scalar has it, \"iota\" or \"random\"");
    if (what.contains("seed") && !random) at.fail("a seed belongs to \"fill\": \"random\"");
    buffer.filled = true;
    buffer.data.resize(buffer.bytes);
    const auto size = static_cast<size_t>(type.bytes);
    uint64_t state = what.contains("seed") ? whole(at / "seed", what["seed"], ~uint64_t{0}) : 1;
    const uint64_t same = random || iota ? 0 : encode(at / "fill", value, type);
    const bool integer = type.kind == Kind::kUnsigned || type.kind == Kind::kSigned;
    for (uint64_t i = 0; i < elements; ++i) {
        uint64_t bits = same;
        if (random && integer) bits = splitmix(state);
        // Uniform in [-1, 1).
        else if (random) bits = encode_float(static_cast<double>(splitmix(state) >> 11) * 0x1p-52 - 1, type);
        else if (iota) bits = integer ? i : encode_float(static_cast<double>(i), type);
        std::memcpy(buffer.data.data() + i * size, &bits, size);
    }
}

void ArgumentList::collect(const Place& at, const json& entry, const std::string& number) {
    if (!entry.is_object()) at.fail(json_shown(entry) + ", expected an object");
    static constexpr const char* kKinds[] = {"buffer", "address", "scalar", "bytes", "tensormap", "struct"};
    int kinds = 0;
    for (const char* kind : kKinds) kinds += entry.contains(kind);
    if (kinds != 1) {
        const std::string there = joined(entry.items(), ", ", [](const auto& item) { return item.key(); });
        at.fail("expected exactly one of " + joined(kKinds) + "; there is " + (there.empty() ? "none" : there));
    }
    if (entry.contains("struct")) {
        const json& members = entry["struct"];
        if (!members.is_array()) (at / "struct").fail(json_shown(members) + ", expected an array of entries");
        for (size_t i = 0; i < members.size(); ++i)
            collect(at / ("member " + std::to_string(i)), members[i], number + "." + std::to_string(i));
    }
    if (!entry.contains("buffer")) return;
    check_keys(at, entry, {"buffer", "name", "out", "param", "at"});
    Buffer buffer;
    buffer.name = number;
    if (entry.contains("name")) {
        if (!entry["name"].is_string()) (at / "name").fail(json_shown(entry["name"]) + ", expected a string");
        buffer.name = entry["name"].get<std::string>();
    }
    const json& what = entry["buffer"];
    if (what.is_string()) {
        auto path = resolve(at / "buffer", what);
        tool::RawNpy array = tool::read_raw_npy(path);
        inputs.push_back(path);
        buffer.descr = array.descr;
        buffer.shape = std::move(array.shape);
        buffer.data = std::move(array.data);
        buffer.bytes = buffer.data.size();
        buffer.filled = true;
        if (buffer.bytes == 0) (at / "buffer").fail(path.string() + " has no elements");
    } else if (what.is_object()) {
        fill(at / "buffer", what, buffer);
    } else {
        (at / "buffer").fail(json_shown(what) + ", expected the name of an .npy file or {shape, dtype, fill}");
    }
    if (entry.contains("out") && !entry["out"].is_null()) buffer.out = resolve(at / "out", entry["out"]);
    if (!by_name.emplace(buffer.name, buffers.size()).second)
        (at / "name").fail("'" + buffer.name + "' is the name of another buffer, too");
    buffers.push_back(std::move(buffer));
}

size_t ArgumentList::buffer_named(const Place& at, const json& value) const {
    const std::string name = value.is_string() ? value.get<std::string>()
                             : value.is_number_unsigned() ? std::to_string(value.get<uint64_t>()) : "";
    const auto found = by_name.find(name);
    if (found != by_name.end()) return found->second;
    const std::string list = joined(by_name, ", ", [](const auto& known) { return known.first; });
    at.fail(json_shown(value) + " names no buffer; there are: " + (list.empty() ? "none" : list));
}

Part ArgumentList::map_of(const Place& at, const json& value) const {
    if (!value.is_object())
        at.fail(json_shown(value) + ", expected an object with the arguments of cuTensorMapEncodeTiled");
    check_keys(at, value, {"tensorDataType", "tensorRank", "globalAddress", "offset", "globalDim", "globalStrides",
                           "boxDim", "elementStrides", "interleave", "swizzle", "l2Promotion", "oobFill"});
    for (const char* needed : {"tensorDataType", "globalAddress", "globalDim", "boxDim"})
        if (!value.contains(needed)) at.fail(std::string("it needs ") + needed);
    Part part;
    part.bytes.resize(128);
    part.align = 64;
    Part::Map map{0, buffer_named(at / "globalAddress", value["globalAddress"]), {}};
    TensorMapArgs& args = map.args;
    if (value.contains("offset")) args.address = whole(at / "offset", value["offset"], kMaxBufferBytes);
    const json& dims = value["globalDim"];
    const uint64_t rank =
        value.contains("tensorRank") ? whole(at / "tensorRank", value["tensorRank"], 5) : dims.size();
    if (rank < 1 || rank > 5) (at / "tensorRank").fail(std::to_string(rank) + ", expected 1 to 5");
    args.rank = static_cast<uint32_t>(rank);
    const auto numbers = [&](const char* field, uint64_t count, auto* to, uint64_t highest) {
        const Place here = at / field;
        if (!value.contains(field)) {
            if (count != 0) at.fail(std::string("it needs ") + field);
            return;
        }
        const json& list = value[field];
        if (!list.is_array() || list.size() != count)
            here.fail(json_shown(list) + ", expected an array of " + std::to_string(count) + " numbers");
        for (uint64_t i = 0; i < count; ++i)
            to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(whole(here, list[i], highest));
    };
    constexpr uint64_t kU32 = 0xffffffffu;
    numbers("globalDim", rank, args.dims, uint64_t{1} << 32);
    numbers("globalStrides", rank - 1, args.strides, uint64_t{1} << 40);
    numbers("boxDim", rank, args.box, kU32);
    for (auto& stride : args.element_strides) stride = 1;
    if (value.contains("elementStrides")) numbers("elementStrides", rank, args.element_strides, kU32);
    args.data_type =
        enumerator(at / "tensorDataType", value["tensorDataType"], kDataTypes, "CU_TENSOR_MAP_DATA_TYPE_");
    const auto optional = [&](const char* field, const auto& names, const char* prefix) {
        return value.contains(field) ? enumerator(at / field, value[field], names, prefix) : 0;
    };
    args.interleave = optional("interleave", kInterleaves, "CU_TENSOR_MAP_INTERLEAVE_");
    args.swizzle = optional("swizzle", kSwizzles, "CU_TENSOR_MAP_SWIZZLE_");
    args.l2_promotion = optional("l2Promotion", kPromotions, "CU_TENSOR_MAP_L2_PROMOTION_");
    args.oob_fill = optional("oobFill", kFills, "CU_TENSOR_MAP_FLOAT_OOB_FILL_");
    std::string why;
    TensorMapArgs tried = args;
    tried.address = args.address + 4096;   // buffers begin on multiples of 512
    if (!tensor_map_check(tried, &why, compute_capability)) at.fail("cuTensorMapEncodeTiled refuses it: " + why);
    part.maps.push_back(map);
    return part;
}

Part ArgumentList::part_of(const Place& at, const json& entry, const std::string& number) const {
    Part part;
    if (entry.contains("buffer") || entry.contains("address")) {
        part.bytes.resize(8);
        part.align = 8;
        if (entry.contains("buffer")) {
            const std::string name = entry.contains("name") ? entry["name"].get<std::string>() : number;
            part.addresses.push_back({0, by_name.at(name), 0});
        } else {
            check_keys(at, entry, {"address", "offset", "at"});
            const size_t buffer = buffer_named(at / "address", entry["address"]);
            const uint64_t offset =
                entry.contains("offset") ? whole(at / "offset", entry["offset"], buffers[buffer].bytes) : 0;
            part.addresses.push_back({0, buffer, offset});
        }
    } else if (entry.contains("scalar")) {
        check_keys(at, entry, {"scalar", "type", "at"});
        if (!entry.contains("type")) at.fail("a scalar needs a type, for example \"u32\"");
        const ElementType& type = type_named(at / "type", entry["type"]);
        const uint64_t bits = encode(at / "scalar", entry["scalar"], type);
        part.bytes.resize(static_cast<size_t>(type.bytes));
        part.align = static_cast<uint64_t>(type.bytes);
        std::memcpy(part.bytes.data(), &bits, part.bytes.size());
    } else if (entry.contains("bytes")) {
        check_keys(at, entry, {"bytes", "at"});
        const json& value = entry["bytes"];
        std::string digits;
        bool good = value.is_string();
        if (good)
            for (char c : value.get<std::string>())
                if (c != ' ' && c != '_') digits += c;
        good = good && digits.size() % 2 == 0 && !digits.empty() &&
               digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
        if (!good) (at / "bytes").fail(json_shown(value) + ", expected pairs of hexadecimal digits");
        for (size_t i = 0; i < digits.size(); i += 2)
            part.bytes.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    } else if (entry.contains("tensormap")) {
        check_keys(at, entry, {"tensormap", "at"});
        part = map_of(at / "tensormap", entry["tensormap"]);
    } else {
        check_keys(at, entry, {"struct", "at"});
        const json& members = entry["struct"];
        for (size_t i = 0; i < members.size(); ++i) {
            const Place here = at / ("member " + std::to_string(i));
            if (members[i].contains("param") && members[i]["param"] == false) continue;
            Part member = part_of(here, members[i], number + "." + std::to_string(i));
            uint64_t offset = (part.bytes.size() + member.align - 1) / member.align * member.align;
            if (members[i].contains("at")) {
                offset = whole(here / "at", members[i]["at"], 32764);
                if (offset < part.bytes.size())
                    (here / "at").fail(std::to_string(offset) + " lies inside the members before it, which end at " +
                                       std::to_string(part.bytes.size()));
            }
            part.align = std::max(part.align, member.align);
            part.bytes.resize(offset);
            part.bytes.insert(part.bytes.end(), member.bytes.begin(), member.bytes.end());
            for (auto a : member.addresses) part.addresses.push_back({a.at + offset, a.buffer, a.offset});
            for (auto m : member.maps) part.maps.push_back({m.at + offset, m.buffer, m.args});
        }
        part.bytes.resize((part.bytes.size() + part.align - 1) / part.align * part.align);
    }
    return part;
}

RunArguments::~RunArguments() = default;

RunArguments::RunArguments(const std::filesystem::path& path, const Function& kernel, int compute_capability)
    : list_(std::make_unique<ArgumentList>()) {
    ArgumentList& list = *list_;
    list.folder = path.parent_path();
    list.compute_capability = compute_capability;
    list.param_bytes = kernel.param_bytes;
    const json entries = tool::read_json(path);
    const Place file{path.string()};
    if (!entries.is_array()) file.fail("expected an array with one entry for each parameter");
    for (size_t i = 0; i < entries.size(); ++i)
        list.collect(file / ("entry " + std::to_string(i)), entries[i], std::to_string(i));
    size_t parameter = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
        const Place at = file / ("entry " + std::to_string(i));
        if (entries[i].contains("param")) {
            if (!entries[i]["param"].is_boolean()) (at / "param").fail("expected true or false");
            if (!entries[i]["param"].get<bool>()) continue;
        }
        Part part = list.part_of(at, entries[i], std::to_string(i));
        if (parameter == kernel.params.size()) {
            at.fail("kernel " + kernel.name + " has only " + tool::counted(kernel.params.size(), "parameter"));
        }
        const Variable& wanted = kernel.params[parameter++];
        if (part.bytes.size() != wanted.bytes) {
            at.fail(tool::counted(part.bytes.size(), "byte") + ", parameter " + std::to_string(parameter - 1) + " (" +
                    wanted.name + ") has " + std::to_string(wanted.bytes));
        }
        list.offsets.push_back(wanted.offset);
        list.parts.push_back(std::move(part));
    }
    if (parameter != kernel.params.size()) {
        file.fail(tool::counted(parameter, "parameter") + ", kernel " + kernel.name + " has " +
                  std::to_string(kernel.params.size()));
    }
}

std::vector<uint8_t> RunArguments::place(GlobalMemory& memory) {
    for (Buffer& b : list_->buffers) {
        b.address = memory.allocate(b.bytes);
        if (b.address == 0)
            tool::bad_input("buffer " + b.name + ": no memory for " + std::to_string(b.bytes) + " bytes");
        memory.label(b.address, "buffer " + b.name);
        if (!b.filled) continue;
        std::memcpy(reinterpret_cast<void*>(b.address), b.data.data(), b.bytes);
        memory.mark_written(b.address, b.bytes);
    }
    std::vector<uint8_t> block(list_->param_bytes);
    for (size_t i = 0; i < list_->parts.size(); ++i) {
        const Part& part = list_->parts[i];
        uint8_t* to = block.data() + list_->offsets[i];
        if (!part.bytes.empty()) std::memcpy(to, part.bytes.data(), part.bytes.size());
        for (const auto& a : part.addresses) {
            const uint64_t address = list_->buffers[a.buffer].address + a.offset;
            std::memcpy(to + a.at, &address, sizeof address);
        }
        for (const auto& m : part.maps) {
            TensorMapArgs args = m.args;
            args.address += list_->buffers[m.buffer].address;
            tensor_map_encode(args, to + m.at);
        }
    }
    return block;
}

void RunArguments::release(GlobalMemory& memory) {
    for (Buffer& b : list_->buffers) {
        if (b.address != 0) memory.release(b.address);
        b.address = 0;
    }
}

std::vector<std::vector<uint8_t>> RunArguments::contents() const {
    std::vector<std::vector<uint8_t>> all;
    for (const Buffer& b : list_->buffers) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(b.address);
        if (b.out.empty()) all.emplace_back();
        else all.emplace_back(bytes, bytes + b.bytes);
    }
    return all;
}

std::vector<std::string> RunArguments::buffer_names() const {
    std::vector<std::string> names;
    for (const Buffer& b : list_->buffers) names.push_back(b.name);
    return names;
}

std::vector<tool::Output> RunArguments::outputs() const {
    std::vector<tool::Output> all;
    for (const Buffer& b : list_->buffers)
        if (!b.out.empty()) all.push_back({"out of buffer " + b.name, b.out});
    return all;
}

const std::vector<std::filesystem::path>& RunArguments::inputs() const { return list_->inputs; }

void RunArguments::write_outputs() const {
    for (const Buffer& b : list_->buffers) {
        if (b.out.empty()) continue;
        const auto* bytes = reinterpret_cast<const uint8_t*>(b.address);
        tool::write_raw_npy(b.out, {b.descr, b.shape, std::vector<uint8_t>(bytes, bytes + b.bytes)});
    }
}

}   // namespace ptxemu
