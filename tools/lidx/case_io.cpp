// SPDX-License-Identifier: Apache-2.0
#include "case_io.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "failure.h"
#include "input_file.h"
#include "npy.h"
#include "output_file.h"
#include "texts.h"

namespace lidx::command {

namespace {

constexpr const char* kFormat = "lidx case";
constexpr int kFormatVersion = 1;
constexpr int kMaxHeads = 128;
constexpr int32_t kMaxBatch = 65536;
constexpr int64_t kMaxPageSize = 65536;
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

void require(bool condition, const std::filesystem::path& file, const std::string& message) {
    if (!condition) bad_input(file.string() + ": " + message);
}

const nlohmann::json& field(const nlohmann::json& object, const char* key, const std::filesystem::path& file) {
    const auto found = object.find(key);
    require(found != object.end(), file, std::string("field '") + key + "' is missing");
    return *found;
}

}  // namespace

void Case::find_seen() {
    const int64_t room = contiguous() ? page_slots : max_pages * page_slots;
    lengths_.assign(static_cast<size_t>(batch), 0);
    seen_.clear();
    if (visibility == Visibility::kLength && compress_ratio == 1) {
        for (size_t request = 0; request < lengths_.size(); ++request)
            lengths_[request] = std::clamp<int64_t>(context_lens[request], 0, room);
        return;
    }
    ref::Sight sight;
    sight.keys = static_cast<ref::SightKeys>(visibility);
    sight.batch = batch;
    sight.max_rows = sight.max_tokens = rows;
    sight.room = room;
    sight.ratio = compress_ratio;
    const std::vector<int32_t>& lengths = visibility == Visibility::kRowLengths ? row_lengths : context_lens;
    sight.lengths.assign(lengths.begin(), lengths.end());
    sight.begins.assign(row_begin.begin(), row_begin.end());
    sight.ends.assign(row_end.begin(), row_end.end());
    for (int32_t request = 0; request < batch; ++request) {
        const int64_t first = cu_seqlens_q[static_cast<size_t>(request)];
        const int64_t last = cu_seqlens_q[static_cast<size_t>(request) + 1];
        for (int64_t row = first; row < last; ++row) {
            seen_.push_back(ref::seen_keys(sight, {request, row - first, last - first}, row));
            lengths_[static_cast<size_t>(request)] =
                std::max(lengths_[static_cast<size_t>(request)], seen_.back().end);
        }
    }
}

ref::SeenKeys Case::keys_of(int32_t request, int64_t row) const {
    return seen_.empty() ? ref::SeenKeys{0, length(request)} : seen_[static_cast<size_t>(row)];
}

int64_t Case::longest() const {
    int64_t longest = 0;
    for (int32_t request = 0; request < batch; ++request) longest = std::max(longest, length(request));
    return longest;
}

int64_t Case::page_of(int32_t request, int64_t key) const {
    return contiguous() ? request : block_table[static_cast<size_t>(request * max_pages + key / page_slots)];
}

const uint8_t* Case::codes(int64_t page, int64_t slot) const { return k.data() + page * page_bytes() + slot * kDepth; }
uint8_t* Case::codes(int64_t page, int64_t slot) { return k.data() + page * page_bytes() + slot * kDepth; }

float Case::scale(int64_t page, int64_t slot) const {
    if (!block_split()) return k_scale[static_cast<size_t>(page * page_slots + slot)];
    float scale;
    std::memcpy(&scale, k.data() + page * page_bytes() + page_slots * kDepth + slot * 4, sizeof scale);
    return scale;
}

void Case::set_scale(int64_t page, int64_t slot, float scale) {
    if (!block_split())
        k_scale[static_cast<size_t>(page * page_slots + slot)] = scale;
    else
        std::memcpy(k.data() + page * page_bytes() + page_slots * kDepth + slot * 4, &scale, sizeof scale);
}

std::optional<std::string> bad_page_id(const Case& c) {
    if (c.contiguous()) return {};
    for (int32_t request = 0; request < c.batch; ++request) {
        const int64_t pages = (c.length(request) + c.page_slots - 1) / c.page_slots;
        for (int64_t entry = 0; entry < pages; ++entry) {
            const int64_t id = c.block_table[static_cast<size_t>(request * c.max_pages + entry)];
            if (id >= 0 && id < c.num_pages) continue;
            return "block_table.npy: request " + std::to_string(request) + ", entry " + std::to_string(entry)
                   + ": page id " + std::to_string(id) + ", expected 0 to " + std::to_string(c.num_pages - 1);
        }
    }
    return {};
}

namespace {

constexpr const char* kCaseFiles[] = {"case.json",       "q.npy",         "q_scale.npy",   "cu_seqlens_q.npy",
                                      "context_lens.npy", "row_lengths.npy", "row_begin.npy", "row_end.npy",
                                      "k_cache.npy",     "k_pages.npy",   "k_scales.npy",  "block_table.npy",
                                      "k.npy",           "k_scale.npy"};

}  // namespace

void require_outputs(const std::vector<Output>& outputs, const std::filesystem::path& case_dir,
                     const std::vector<std::filesystem::path>& inputs) {
    for (const Output& output : outputs)
        for (const char* name : kCaseFiles)
            if (!output.path.empty() && !case_dir.empty() && tool::same_file(output.path, case_dir / name))
                bad_input(output.option + ": " + output.path.string() + " is a file of the case");
    tool::require_outputs(outputs, inputs);
}

namespace {

// The counts in case.json repeat what the arrays say. Where both speak they must agree: else the files are of two
// cases. (`longest` follows from lengths that may be edited and binds nobody.)
void require_counts(const nlohmann::json& json, const Case& c, const std::filesystem::path& json_path) {
    const std::pair<const char*, int64_t> counts[] = {
        {"batch", c.batch}, {"rows", c.rows}, {"heads", c.heads}, {"depth", kDepth}, {"num_pages", c.num_pages}};
    for (const auto& [name, count] : counts) {
        const auto found = json.find(name);
        require(found == json.end() || (found->is_number_integer() && *found == count), json_path,
                std::string(name) + ": " + (found == json.end() ? "" : json_shown(*found)) + ", but the arrays hold "
                    + std::to_string(count));
    }
}

// A name out of a list; the first where case.json lacks the field.
template <class T, size_t kCount>
T read_name(const nlohmann::json& json, const char* key, const char* const (&names)[kCount],
            const std::filesystem::path& json_path) {
    const auto found = json.find(key);
    if (found == json.end()) return T{};
    std::string expected;
    for (size_t i = 0; i < kCount; ++i) {
        if (*found == names[i]) return static_cast<T>(i);
        expected += (i == 0 ? "" : i + 1 == kCount ? " or " : ", ") + std::string(names[i]);
    }
    bad_input(json_path.string() + ": " + key + ": " + json_shown(*found) + ", expected " + expected);
}

// Where an array's shape comes from, for the message.
constexpr const char* kRowsOfQ = "rows of q.npy";
constexpr const char* kRequests = "first the requests of context_lens.npy";
constexpr const char* kPageSize = "with the page_size of case.json";

// Which rows are whose and who sees what.
void read_sight(const nlohmann::json& json, const std::filesystem::path& dir, Case& c) {
    const auto json_path = dir / "case.json";
    c.row_map = read_name<RowMap>(json, "row_map", kRowMapNames, json_path);
    c.visibility = read_name<Visibility>(json, "visibility", kVisibilityNames, json_path);
    const auto ratio = json.find("compress_ratio");
    if (ratio != json.end()) {
        require(ratio->is_number_integer() && *ratio >= 1 && *ratio <= kMaxRatio, json_path,
                "compress_ratio: " + json_shown(*ratio) + ", expected 1 to " + std::to_string(kMaxRatio));
        c.compress_ratio = ratio->get<int32_t>();
        require(c.compress_ratio == 1 || c.visibility != Visibility::kWindow, json_path,
                "compress_ratio: " + json_shown(*ratio) + ", expected 1 with windows, which count keys");
    }
    if (c.row_map == RowMap::kFixed)
        for (size_t i = 1; i < c.cu_seqlens_q.size(); ++i)
            require(c.cu_seqlens_q[i] == static_cast<int64_t>(i) * c.cu_seqlens_q[1], dir / "cu_seqlens_q.npy",
                    "entry " + std::to_string(i) + ": " + std::to_string(c.cu_seqlens_q[i])
                        + ", expected as many rows per request as in the first: row_map is fixed");
    if (c.visibility == Visibility::kRowLengths)
        c.row_lengths = read_npy<int32_t>(dir / "row_lengths.npy", {c.rows}, kRowsOfQ).data;
    if (c.visibility == Visibility::kWindow) {
        c.row_begin = read_npy<int32_t>(dir / "row_begin.npy", {c.rows}, kRowsOfQ).data;
        c.row_end = read_npy<int32_t>(dir / "row_end.npy", {c.rows}, kRowsOfQ).data;
    }
}

// A misspelt field would leave what it is meant for at its default.
void require_known_fields(const nlohmann::json& json, const std::filesystem::path& json_path) {
    constexpr const char* kFields[] = {"format", "version", "layout", "page_size", "lattice", "row_map", "visibility",
                                       "compress_ratio", "batch", "rows", "heads", "depth", "longest", "num_pages",
                                       "origin"};
    for (const auto& [name, value] : json.items())
        require(std::find(std::begin(kFields), std::end(kFields), name) != std::end(kFields), json_path,
                "field '" + name + "' is none of a case; there are " + joined(kFields));
}

// Of case.json alone.
void read_layout(const nlohmann::json& json, const std::filesystem::path& json_path, Case& c) {
    const nlohmann::json& layout = field(json, "layout", json_path);
    const auto* name =
        std::find_if(std::begin(kLayoutNames), std::end(kLayoutNames), [&](const char* n) { return layout == n; });
    require(name != std::end(kLayoutNames), json_path,
            "layout: " + json_shown(layout) + ", expected block-split, split-pool or contiguous");
    c.layout = static_cast<Layout>(name - std::begin(kLayoutNames));
    const nlohmann::json& lattice = field(json, "lattice", json_path);
    require(lattice.is_boolean(), json_path, "lattice: " + json_shown(lattice) + ", expected true or false");
    c.lattice = lattice.get<bool>();
}

void read_queries(const std::filesystem::path& dir, Case& c) {
    auto q = read_npy<uint8_t>(dir / "q.npy", {kAnySize, kAnySize, kDepth});
    c.rows = q.shape[0];
    require(c.rows <= kInt32Max, dir / "q.npy", "shape: " + shape_text(q.shape) + ", expected at most 2147483647 rows");
    require(q.shape[1] >= 1 && q.shape[1] <= kMaxHeads, dir / "q.npy",
            "shape: " + shape_text(q.shape) + ", expected 1 to 128 heads");
    c.heads = static_cast<int32_t>(q.shape[1]);
    c.q = std::move(q.data);
    c.q_scale = read_npy<float>(dir / "q_scale.npy", {c.rows, c.heads}, "rows and heads of q.npy").data;
}

// Which rows are whose.
void read_requests(const std::filesystem::path& dir, Case& c) {
    auto lens = read_npy<int32_t>(dir / "context_lens.npy", {kAnySize});
    require(lens.shape[0] <= kMaxBatch, dir / "context_lens.npy",
            "shape: " + shape_text(lens.shape) + ", expected at most 65536 requests");
    c.batch = static_cast<int32_t>(lens.shape[0]);
    c.context_lens = std::move(lens.data);

    const auto cu_path = dir / "cu_seqlens_q.npy";
    c.cu_seqlens_q =
        read_npy<int32_t>(cu_path, {c.batch + int64_t{1}}, "one more than the requests of context_lens.npy").data;
    require(c.cu_seqlens_q[0] == 0, cu_path, "entry 0: " + std::to_string(c.cu_seqlens_q[0]) + ", expected 0");
    for (size_t i = 1; i < c.cu_seqlens_q.size(); ++i)
        require(c.cu_seqlens_q[i] >= c.cu_seqlens_q[i - 1], cu_path,
                "entry " + std::to_string(i) + ": " + std::to_string(c.cu_seqlens_q[i]) + ", expected at least "
                    + std::to_string(c.cu_seqlens_q[i - 1]) + ", the entry before it");
    require(c.cu_seqlens_q.back() == c.rows, cu_path,
            "last entry: " + std::to_string(c.cu_seqlens_q.back()) + ", expected " + std::to_string(c.rows)
                + ", the rows of q.npy");
}

void read_keys(const nlohmann::json& json, const std::filesystem::path& dir, Case& c) {
    const auto json_path = dir / "case.json";
    if (c.contiguous()) {
        auto k = read_npy<uint8_t>(dir / "k.npy", {c.batch, kAnySize, kDepth}, kRequests);
        c.num_pages = c.batch;
        c.page_slots = k.shape[1];
        require(c.page_slots <= kInt32Max, dir / "k.npy",
                "shape: " + shape_text(k.shape) + ", expected at most 2147483647 keys");
        c.k = std::move(k.data);
        c.k_scale =
            read_npy<float>(dir / "k_scale.npy", {c.num_pages, c.page_slots}, "requests and keys of k.npy").data;
        return;
    }

    const nlohmann::json& page = field(json, "page_size", json_path);
    require(page.is_number_integer() && page >= 1 && page <= kMaxPageSize, json_path,
            "page_size: " + json_shown(page) + ", expected 1 to 65536");
    c.page_slots = page.get<int64_t>();
    auto table = read_npy<int32_t>(dir / "block_table.npy", {c.batch, kAnySize}, kRequests);
    c.max_pages = table.shape[1];
    require(c.max_pages <= kInt32Max, dir / "block_table.npy",
            "shape: " + shape_text(table.shape) + ", expected at most 2147483647 pages");
    c.block_table = std::move(table.data);
    if (c.block_split()) {
        auto k = read_npy<uint8_t>(dir / "k_cache.npy", {kAnySize, c.page_slots, 1, kPackedKeyBytes}, kPageSize);
        c.num_pages = k.shape[0];
        c.k = std::move(k.data);
    } else {
        auto k = read_npy<uint8_t>(dir / "k_pages.npy", {kAnySize, c.page_slots, kDepth}, kPageSize);
        c.num_pages = k.shape[0];
        c.k = std::move(k.data);
        c.k_scale =
            read_npy<float>(dir / "k_scales.npy", {c.num_pages, c.page_slots}, "pages and keys of k_pages.npy").data;
    }
}

}  // namespace

Case read_case(const std::filesystem::path& dir) {
    if (!std::filesystem::is_directory(dir))
        bad_input(dir.string() + (std::filesystem::exists(dir) ? ": not a directory" : ": no such directory") +
                  " (make a case with `lidx gen`)");
    const auto json_path = dir / "case.json";
    const nlohmann::json json = read_json(json_path);
    require(json.is_object(), json_path, "not an object: " + json_shown(json));
    const nlohmann::json& format = field(json, "format", json_path);
    require(format == kFormat, json_path, "format: " + json_shown(format) + ", expected \"" + kFormat + "\"");
    const nlohmann::json& version = field(json, "version", json_path);
    require(version == kFormatVersion, json_path,
            "version: " + json_shown(version) + ", expected " + std::to_string(kFormatVersion));

    require_known_fields(json, json_path);

    Case c;
    read_layout(json, json_path, c);
    read_queries(dir, c);
    read_requests(dir, c);
    read_sight(json, dir, c);
    read_keys(json, dir, c);
    require_counts(json, c, json_path);
    c.find_seen();
    return c;
}

void write_case(const std::filesystem::path& dir, const Case& c, const nlohmann::ordered_json& origin) {
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    if (error) bad_input(dir.string() + ": cannot create the directory: " + error.message());

    nlohmann::ordered_json json;
    json["format"] = kFormat;
    json["version"] = kFormatVersion;
    json["layout"] = kLayoutNames[static_cast<int>(c.layout)];
    json["page_size"] = c.contiguous() ? 0 : c.page_slots;
    json["lattice"] = c.lattice;
    json["batch"] = c.batch;
    json["rows"] = c.rows;
    json["heads"] = c.heads;
    json["depth"] = kDepth;
    json["longest"] = c.longest();
    json["num_pages"] = c.num_pages;
    json["row_map"] = kRowMapNames[static_cast<int>(c.row_map)];
    json["visibility"] = kVisibilityNames[static_cast<int>(c.visibility)];
    json["compress_ratio"] = c.compress_ratio;
    json["origin"] = origin;

    std::vector<std::filesystem::path> written;
    const auto write = [&]<class T>(const char* name, const Shape& shape, const std::vector<T>& data) {
        write_npy<T>(dir / name, shape, data);
        written.push_back(dir / name);
    };
    std::filesystem::remove(dir / "case.json", error);   // an older case in this directory is no longer whole
    try {
        write("q.npy", {c.rows, c.heads, kDepth}, c.q);
        write("q_scale.npy", {c.rows, c.heads}, c.q_scale);
        write("cu_seqlens_q.npy", {c.batch + int64_t{1}}, c.cu_seqlens_q);
        write("context_lens.npy", {c.batch}, c.context_lens);
        if (c.visibility == Visibility::kRowLengths) write("row_lengths.npy", {c.rows}, c.row_lengths);
        if (c.visibility == Visibility::kWindow) {
            write("row_begin.npy", {c.rows}, c.row_begin);
            write("row_end.npy", {c.rows}, c.row_end);
        }
        if (!c.contiguous()) write("block_table.npy", {c.batch, c.max_pages}, c.block_table);
        switch (c.layout) {
            case Layout::kBlockSplit: write("k_cache.npy", {c.num_pages, c.page_slots, 1, kPackedKeyBytes}, c.k); break;
            case Layout::kSplitPool:
                write("k_pages.npy", {c.num_pages, c.page_slots, kDepth}, c.k);
                write("k_scales.npy", {c.num_pages, c.page_slots}, c.k_scale);
                break;
            case Layout::kContiguous:
                write("k.npy", {c.num_pages, c.page_slots, kDepth}, c.k);
                write("k_scale.npy", {c.num_pages, c.page_slots}, c.k_scale);
                break;
        }
        OutputFile file(dir / "case.json");
        file.write(json_text(json) + "\n");
        file.close();
    } catch (...) {
        for (const auto& path : written) std::filesystem::remove(path, error);
        throw;
    }
}

}  // namespace lidx::command
