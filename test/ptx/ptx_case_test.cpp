// SPDX-License-Identifier: Apache-2.0
// Runs every kernel of every .ptx file in some folders and compares what it writes, bit for bit. A comment block in
// front of each kernel is its case; each line that makes a parameter stands in the order of the kernel's parameters:
//
//     // case: add_sat_s32                    the kernel's name
//     // source: ...                          where the expectation comes from
//     // in b32: 7fffffff 00000001 ...        a buffer: hexadecimal words, lane after lane. Parameter: its address
//     // out b32: ...                         a buffer filled with poison; what it must hold afterwards
//     // out f32 within 2: ...                the same, within that many units in the last place
//     // scalar b64: 5                        a value
//     // map: buffer=0 type=0 rank=2 dims=128,64 strides=128 box=64,8 swizzle=0     a tensor map of an earlier buffer
//     // block: 32                            threads, default 32;  // grid: 1;  // shared: 0 (bytes, dynamic)
//     // cluster: 2                           CTAs, default 1
//     // fails: deadlock: text                the launch must fail so, its message containing text
//     // refused: text                        decoding must fail, its message containing text
//     // finds: code: text                     the checks must find this, in every schedule, and nothing else; a
//                                           warning leaves what "out" must hold. "nothing": not even a warning
//     // unchecked: 1                         not run with the checks
//     // seeds: 0 1 2                         schedules, default 0 1 2 3
//
// LIDX_PTX_CASES names the folders, separated by colons. LIDX_PTX_DRIVER=PATH runs them through the CUDA driver at PATH
// instead (all but those that its device cannot run, and the failing ones), which is how silicon confirms them.
// LIDX_PTXAS=PATH has ptxas assemble the files that a GPU is given.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "test/unit/catch_any.h"
#include "tools/ptxemu/engine.h"
#include "tools/ptxemu/ir.h"
#include "tools/ptxemu/memory.h"
#include "tools/ptxemu/opcode_forms.h"
#include "tools/ptxemu/tensor_map.h"

namespace {

using ptxemu::RunStatus;

struct Buffer {
    std::string name;   // "in b32"
    bool is_output = false;
    int element_bytes = 4;
    uint32_t ulps = 0;   // f32 only
    std::vector<uint64_t> words;
};

struct Parameter {
    enum class Kind { kBuffer, kScalar, kMap } kind;
    size_t buffer = 0;
    uint64_t value = 0;
    int bytes = 8;
    ptxemu::TensorMapArgs map;
};

struct Case {
    std::string file, name, source;
    std::vector<Buffer> buffers;
    std::vector<Parameter> parameters;
    ptxemu::Dim3 grid, block{32, 1, 1}, cluster;
    uint32_t shared_bytes = 0;
    std::string fails, refused;
    std::vector<std::string> finds;
    bool unchecked = false;
    bool silent = false;
    std::vector<uint64_t> seeds{0, 1, 2, 3};
};

[[noreturn]] void bad(const std::string& file, int line, const std::string& why) {
    throw std::runtime_error(file + ":" + std::to_string(line) + ": " + why);
}

ptxemu::TensorMapArgs parse_map(const std::string& text, size_t* buffer) {
    ptxemu::TensorMapArgs map;
    for (auto& e : map.element_strides) e = 1;
    std::istringstream parts(text);
    std::string part;
    while (parts >> part) {
        const size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        std::vector<uint64_t> values;
        std::istringstream list(part.substr(equals + 1));
        for (std::string v; std::getline(list, v, ',');) values.push_back(std::stoull(v));
        auto fill = [&values](auto* to) {
            for (size_t i = 0; i < values.size(); ++i)
                to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(values[i]);
        };
        if (key == "buffer") *buffer = values.at(0);
        else if (key == "type") map.data_type = static_cast<uint32_t>(values.at(0));
        else if (key == "rank") map.rank = static_cast<uint32_t>(values.at(0));
        else if (key == "dims") fill(map.dims);
        else if (key == "strides") fill(map.strides);
        else if (key == "box") fill(map.box);
        else if (key == "swizzle") map.swizzle = static_cast<uint32_t>(values.at(0));
        else if (key == "steps") fill(map.element_strides);
        else throw std::runtime_error("unknown map field " + key);
    }
    return map;
}

std::vector<Case> read_cases(const std::string& path, const std::string& text) {
    std::vector<Case> cases;
    std::istringstream lines(text);
    std::string line;
    int number = 0;
    bool in_header = false;   // between a case line and its kernel
    while (std::getline(lines, line)) {
        ++number;
        const size_t colon = line.find(": ");
        if (line.rfind(".visible", 0) == 0) in_header = false;
        if (line.rfind("// ", 0) != 0 || colon == std::string::npos) continue;
        const std::string key = line.substr(3, colon - 3), value = line.substr(colon + 2);
        if (key == "case") {
            cases.emplace_back();
            cases.back().file = std::filesystem::path(path).filename().string();
            cases.back().name = value;
            in_header = true;
            continue;
        }
        if (!in_header) continue;
        Case& c = cases.back();
        std::istringstream words(key);
        std::string kind, type, within;
        uint32_t ulps = 0;
        words >> kind >> type >> within >> ulps;
        if (kind == "in" || kind == "out") {
            Buffer b;
            b.name = key;
            b.is_output = kind == "out";
            b.element_bytes = std::stoi(type.substr(1)) / 8;
            b.ulps = ulps;
            std::istringstream values(value);
            for (std::string v; values >> v;) b.words.push_back(std::stoull(v, nullptr, 16));
            if (b.words.empty()) bad(path, number, "no values");
            Parameter p{Parameter::Kind::kBuffer, c.buffers.size(), 0, 8, {}};
            c.buffers.push_back(std::move(b));
            c.parameters.push_back(p);
        } else if (kind == "scalar") {
            c.parameters.push_back(
                {Parameter::Kind::kScalar, 0, std::stoull(value, nullptr, 16), std::stoi(type.substr(1)) / 8, {}});
        } else if (kind == "map") {
            Parameter p{Parameter::Kind::kMap, 0, 0, 128, {}};
            p.map = parse_map(value, &p.buffer);
            c.parameters.push_back(p);
        } else if (kind == "source") {
            c.source = value;
        } else if (kind == "block") {
            c.block.x = static_cast<uint32_t>(std::stoul(value));
        } else if (kind == "grid") {
            c.grid.x = static_cast<uint32_t>(std::stoul(value));
        } else if (kind == "cluster") {
            c.cluster.x = static_cast<uint32_t>(std::stoul(value));
        } else if (kind == "shared") {
            c.shared_bytes = static_cast<uint32_t>(std::stoul(value));
        } else if (kind == "fails") {
            c.fails = value;
        } else if (kind == "refused") {
            c.refused = value;
        } else if (kind == "unchecked") {
            c.unchecked = true;
        } else if (kind == "finds") {
            if (value == "nothing") c.silent = true;
            else c.finds.push_back(value);
        } else if (kind == "seeds") {
            c.seeds.clear();
            std::istringstream values(value);
            for (uint64_t s; values >> s;) c.seeds.push_back(s);
        } else {
            bad(path, number, "unknown line " + key);
        }
    }
    return cases;
}

const char* status_name(RunStatus s) {
    switch (s) {
        case RunStatus::kOk: return "ok";
        case RunStatus::kIllegalAddress: return "illegal_address";
        case RunStatus::kMisaligned: return "misaligned";
        case RunStatus::kIllegalInstruction: return "illegal_instruction";
        case RunStatus::kInvalidParams: return "invalid_params";
        case RunStatus::kDeadlock: return "deadlock";
        case RunStatus::kTrap: return "trap";
        case RunStatus::kAssert: return "assert";
        case RunStatus::kInternal: return "internal";
        case RunStatus::kLaunchFailed: return "launch_failed";
        case RunStatus::kFindings: return "findings";
    }
    return "?";
}

std::vector<uint8_t> buffer_bytes(const Buffer& b) {
    std::vector<uint8_t> bytes(b.words.size() * static_cast<size_t>(b.element_bytes), 0xa5);
    if (b.is_output) return bytes;
    for (size_t i = 0; i < b.words.size(); ++i)
        std::memcpy(bytes.data() + i * b.element_bytes, &b.words[i], b.element_bytes);
    return bytes;
}

void compare(const Case& c, const Buffer& b, const uint8_t* got) {
    for (size_t i = 0; i < b.words.size(); ++i) {
        uint64_t word = 0;
        std::memcpy(&word, got + i * b.element_bytes, b.element_bytes);
        bool equal = word == b.words[i];
        if (!equal && b.ulps != 0) {
            const auto have = static_cast<uint32_t>(word), want = static_cast<uint32_t>(b.words[i]);
            const int64_t distance =
                static_cast<int64_t>(have & 0x7fffffffu) - static_cast<int64_t>(want & 0x7fffffffu);
            equal = (have ^ want) >> 31 == 0 && (want & 0x7f800000u) != 0x7f800000u && std::abs(distance) <= b.ulps;
        }
        if (equal) continue;
        std::ostringstream text;
        text << c.file << " " << c.name << ", " << b.name << " element " << i << ": got " << std::hex << word
             << ", expected " << b.words[i] << " (" << c.source << ")";
        FAIL_CHECK(text.str());
        return;
    }
}

std::set<std::string> codes_found;   // by any case
std::set<const ptxemu::Row*> forms_used, forms_on_hopper;   // by cases; by those that an H200 runs
size_t cases_on_hopper = 0;

bool device_runs(const std::string& target, int capability) {
    const int number = std::stoi(target.substr(3));
    if (target.back() == 'a') return number == capability;
    const bool of_family = target.back() != 'f' || number / 10 == capability / 10;
    return of_family && number <= capability;
}

// What a GPU is given: no cases of the checks themselves, whose accesses no schedule orders and whose rules are broken
// on purpose, none that fail, and no file with what the emulator refuses.
bool file_is_for_gpus(const std::string& path, const std::vector<Case>& cases) {
    return !std::filesystem::path(path).filename().string().starts_with("check_") &&
           std::all_of(cases.begin(), cases.end(), [](const Case& c) { return c.refused.empty(); });
}
bool file_runs_on(const std::string& path, const ptxemu::Module& module, const std::vector<Case>& cases,
                  int capability) {
    return file_is_for_gpus(path, cases) && device_runs(module.target, capability);
}
bool case_runs_on_gpu(const Case& c) { return c.fails.empty() && c.finds.empty(); }

void check_findings(const Case& c, const ptxemu::RunResult& result) {
    std::vector<bool> found(c.finds.size());
    for (const auto& f : result.findings) {
        codes_found.insert(f.code);
        if (f.severity == ptxemu::Severity::kWarning && c.finds.empty() && !c.silent) continue;
        if (!c.fails.empty()) continue;
        bool wanted = false;
        for (size_t i = 0; i < c.finds.size(); ++i) {
            const size_t colon = c.finds[i].find(": ");
            const bool is = f.code == c.finds[i].substr(0, colon) &&
                            ptxemu::finding_text(f).find(c.finds[i].substr(colon + 2)) != std::string::npos;
            if (is) found[i] = true;
            wanted |= is;
        }
        if (!wanted) FAIL_CHECK("not to be found: " << ptxemu::finding_text(f));
    }
    for (size_t i = 0; i < found.size(); ++i)
        if (!found[i]) FAIL_CHECK("not found: " << c.finds[i]);
}

void run_on_emulator(const Case& c, const ptxemu::Module& module, const std::map<std::string, uint64_t>& addresses,
                     ptxemu::GlobalMemory& memory, bool on_hopper) {
    std::shared_ptr<const ptxemu::Program> program;
    const auto found = module.functions.find(c.name);
    REQUIRE(found != module.functions.end());
    std::set<const ptxemu::Row*> used;
    ptxemu::note_opcode_forms(&used);
    struct Stop {
        ~Stop() { ptxemu::note_opcode_forms(nullptr); }
    } stop;
    try {
        program = ptxemu::decode(module, *found->second, addresses);
        CHECK(c.refused.empty());
    } catch (const ptxemu::PtxError& e) {
        INFO(c.file << " " << c.name << ": " << e.what());
        CHECK(e.line > 0);
        CHECK(!c.refused.empty());
        CHECK(std::string(e.what()).find(c.refused) != std::string::npos);
        forms_used.insert(used.begin(), used.end());
        return;
    }
    forms_used.insert(used.begin(), used.end());
    if (!c.refused.empty()) return;
    if (on_hopper) {
        forms_on_hopper.insert(used.begin(), used.end());
        ++cases_on_hopper;
    }
    // Every schedule, and the first once more under the checks, which must find what the case lists and no more.
    struct Run {
        uint64_t seed;
        bool check;
    };
    std::vector<Run> runs;
    if (c.finds.empty())
        for (const uint64_t seed : c.seeds) runs.push_back({seed, false});
    for (const uint64_t seed : c.finds.empty() && !c.silent ? std::vector<uint64_t>{c.seeds.front()} : c.seeds)
        if (!c.unchecked) runs.push_back({seed, true});
    for (const auto& [seed, check] : runs) {
        INFO(c.file << " " << c.name << ", seed " << seed << (check ? ", checked" : ""));
        ptxemu::Launch launch;
        launch.grid = c.grid;
        launch.block = c.block;
        launch.cluster = c.cluster;
        launch.explicit_cluster = c.cluster.x > 1;
        launch.dynamic_shared_bytes = c.shared_bytes;
        std::vector<uint64_t> device;
        for (const auto& b : c.buffers) {
            const auto bytes = buffer_bytes(b);
            device.push_back(memory.allocate(bytes.size()));
            REQUIRE(device.back() != 0);
            std::memcpy(reinterpret_cast<void*>(device.back()), bytes.data(), bytes.size());
            if (!b.is_output) memory.mark_written(device.back(), bytes.size());
        }
        for (const auto& p : c.parameters) {
            const size_t align = p.kind == Parameter::Kind::kMap ? 64 : static_cast<size_t>(p.bytes);
            launch.params.resize((launch.params.size() + align - 1) / align * align);
            const size_t at = launch.params.size();
            launch.params.resize(at + static_cast<size_t>(p.bytes));
            if (p.kind == Parameter::Kind::kMap) {
                ptxemu::TensorMapArgs map = p.map;
                map.address = device.at(p.buffer);
                std::string why;
                REQUIRE(ptxemu::tensor_map_check(map, &why));
                ptxemu::tensor_map_encode(map, launch.params.data() + at);
            } else {
                const uint64_t value = p.kind == Parameter::Kind::kBuffer ? device.at(p.buffer) : p.value;
                std::memcpy(launch.params.data() + at, &value, static_cast<size_t>(p.bytes));
            }
        }
        ptxemu::DeviceConfig config;
        config.seed = seed;
        config.any_leader = seed > 2;
        config.check = check;
        ptxemu::Stats stats;
        const ptxemu::RunResult result = ptxemu::run(*program, launch, config, memory, stats);
        check_findings(c, result);
        if (!c.fails.empty()) {
            const size_t colon = c.fails.find(": ");
            INFO(result.message);
            CHECK(status_name(result.status) == c.fails.substr(0, colon));
            CHECK(result.message.find(c.fails.substr(colon + 2)) != std::string::npos);
            CHECK(result.message.find("line ") != std::string::npos);
        } else {
            INFO(result.message);
            if (c.finds.empty()) CHECK(result.status == RunStatus::kOk);
            for (size_t i = 0; i < c.buffers.size() && result.status == RunStatus::kOk; ++i)
                if (c.buffers[i].is_output) compare(c, c.buffers[i], reinterpret_cast<const uint8_t*>(device[i]));
        }
        for (uint64_t address : device) memory.release(address);
    }
}

// The handful of driver functions that a case needs.
struct Driver {
    void* library = nullptr;
    template <class F>
    F get(const char* name) const {
        void* f = dlsym(library, name);
        if (!f) throw std::runtime_error(std::string("no ") + name);
        return reinterpret_cast<F>(f);
    }
    template <class... A>
    void call(const char* name, A... arguments) const {
        const int status = get<int (*)(A...)>(name)(arguments...);
        if (status != 0) throw std::runtime_error(std::string(name) + " returned " + std::to_string(status));
    }
};

void run_on_driver(const Case& c, const Driver& driver, void* module) {
    void* function = nullptr;
    driver.call("cuModuleGetFunction", &function, module, c.name.c_str());
    std::vector<uint64_t> device(c.buffers.size());
    for (size_t i = 0; i < c.buffers.size(); ++i) {
        const auto bytes = buffer_bytes(c.buffers[i]);
        driver.call("cuMemAlloc_v2", &device[i], bytes.size());
        driver.call("cuMemcpyHtoD_v2", device[i], static_cast<const void*>(bytes.data()), bytes.size());
    }
    struct alignas(64) Map {
        uint8_t bytes[128];
    };
    std::vector<Map> maps(c.parameters.size());
    std::vector<uint64_t> values(c.parameters.size());
    std::vector<void*> pointers;
    for (size_t i = 0; i < c.parameters.size(); ++i) {
        const auto& p = c.parameters[i];
        if (p.kind == Parameter::Kind::kMap) {
            ptxemu::TensorMapArgs m = p.map;
            driver.call("cuTensorMapEncodeTiled", static_cast<void*>(&maps[i]), static_cast<int>(m.data_type), m.rank,
                        reinterpret_cast<void*>(device.at(p.buffer)), &m.dims[0], &m.strides[0], &m.box[0],
                        &m.element_strides[0], 0, static_cast<int>(m.swizzle), 0, 0);
            pointers.push_back(&maps[i]);
        } else {
            values[i] = p.kind == Parameter::Kind::kBuffer ? device.at(p.buffer) : p.value;
            pointers.push_back(&values[i]);
        }
    }
    if (c.shared_bytes > 48 * 1024) driver.call("cuFuncSetAttribute", function, 8, static_cast<int>(c.shared_bytes));
    if (c.cluster.x > 8) driver.call("cuFuncSetAttribute", function, 14, 1);   // non-portable cluster size
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {c.cluster.x, 1, 1};
    CUlaunchConfig config{};
    config.gridDimX = c.grid.x;
    config.blockDimX = c.block.x;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = c.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = c.cluster.x > 1 ? 1 : 0;
    driver.call("cuLaunchKernelEx", &config, function, pointers.data(), static_cast<void**>(nullptr));
    driver.call("cuCtxSynchronize");
    for (size_t i = 0; i < c.buffers.size(); ++i) {
        if (c.buffers[i].is_output) {
            std::vector<uint8_t> got(c.buffers[i].words.size() * static_cast<size_t>(c.buffers[i].element_bytes));
            driver.call("cuMemcpyDtoH_v2", static_cast<void*>(got.data()), device[i], got.size());
            compare(c, c.buffers[i], got.data());
        }
        driver.call("cuMemFree_v2", device[i]);
    }
}

std::vector<std::string> case_files() {
    const char* folders = std::getenv("LIDX_PTX_CASES");
    REQUIRE(folders != nullptr);
    std::vector<std::string> files;
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');)
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            if (entry.path().extension() == ".ptx") files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    REQUIRE(!files.empty());
    return files;
}

std::string read_text(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

}   // namespace

TEST_CASE("one-instruction PTX cases") {
    const char* driver_path = std::getenv("LIDX_PTX_DRIVER");
    Driver driver;
    int capability = 0;
    if (driver_path) {
        driver.library = dlopen(driver_path, RTLD_NOW);
        REQUIRE(driver.library != nullptr);
        driver.call("cuInit", 0u);
        int device = 0, major = 0, minor = 0;
        driver.call("cuDeviceGet", &device, 0);
        driver.call("cuDeviceGetAttribute", &major, 75, device);
        driver.call("cuDeviceGetAttribute", &minor, 76, device);
        capability = major * 10 + minor;
        void* context = nullptr;
        driver.call("cuDevicePrimaryCtxRetain", &context, device);
        driver.call("cuCtxSetCurrent", context);
    }
    size_t ran = 0;
    for (const auto& path : case_files()) {
        const std::string text = read_text(path);
        const std::vector<Case> cases = read_cases(path, text);
        INFO(path);
        REQUIRE(!cases.empty());
        const auto module = ptxemu::parse_ptx(text);
        for (const auto& c : cases) {
            INFO(c.name);
            CHECK(!c.source.empty());
        }
        if (driver_path) {
            if (!file_runs_on(path, *module, cases, capability)) continue;
            void* loaded = nullptr;
            driver.call("cuModuleLoadData", &loaded, static_cast<const void*>(text.c_str()));
            for (const auto& c : cases) {
                if (!case_runs_on_gpu(c)) continue;
                run_on_driver(c, driver, loaded);
                ++ran;
            }
            driver.call("cuModuleUnload", loaded);
            continue;
        }
        const bool on_hopper = file_runs_on(path, *module, cases, 90);
        ptxemu::GlobalMemory memory;
        memory.track_writes();
        std::map<std::string, uint64_t> addresses;
        for (const auto& v : module->globals) {
            if (v.space != ptxemu::Space::kGlobal && v.space != ptxemu::Space::kConst) continue;
            addresses[v.name] = memory.allocate(v.bytes);
            std::memset(reinterpret_cast<void*>(addresses[v.name]), 0, v.bytes);
            memory.mark_written(addresses[v.name], v.bytes);
            if (!v.init.empty()) std::memcpy(reinterpret_cast<void*>(addresses[v.name]), v.init.data(), v.init.size());
        }
        for (const auto& v : module->globals) {
            for (const auto& r : v.relocations) {
                const auto symbol = addresses.find(r.symbol);
                const uint64_t to =
                    symbol != addresses.end() ? symbol->second : ptxemu::function_address(*module, r.symbol);
                const uint64_t value = (to + static_cast<uint64_t>(r.addend)) >> r.shift;
                std::memcpy(reinterpret_cast<void*>(addresses[v.name] + r.offset), &value, r.bytes);
            }
        }
        for (const auto& c : cases) {
            run_on_emulator(c, *module, addresses, memory, on_hopper && case_runs_on_gpu(c));
            ++ran;
        }
    }
    WARN("PTX cases run: " << ran);
    CHECK(ran > 0);
    if (driver_path) return;
    // Every row of the tables of instructions.
    size_t known = 0, refused = 0, on_hopper = 0;
    for (const ptxemu::OpcodeForm& form : ptxemu::opcode_forms()) {
        ++(form.refused ? refused : known);
        on_hopper += forms_on_hopper.count(form.row);
        INFO("no case has the form " << form.syntax << " with operands " << form.operands);
        CHECK(forms_used.count(form.row) == 1);
    }
    std::ostringstream counts;
    counts << known << " opcode forms are known, " << on_hopper << " of them in cases that an H200 runs; " << refused
           << " are refused by name";
    WARN(counts.str() << " (H200: " << cases_on_hopper << " cases)");
    const char *guide = std::getenv("LIDX_EMULATOR_DOC"), *reference = std::getenv("LIDX_EMULATOR_REFERENCE");
    if (guide == nullptr || reference == nullptr) return;
    {
        INFO("docs/emulator-reference.md does not say: " << counts.str());
        CHECK(read_text(reference).find("    " + counts.str() + "\n") != std::string::npos);
    }
    // Every code of the table in docs/emulator.md is found by a case, and no case finds another.
    std::istringstream lines(read_text(guide));
    std::set<std::string> codes;
    for (std::string line; std::getline(lines, line);) {
        const bool row = line.find("| error |") != std::string::npos || line.find("| warning |") != std::string::npos;
        if (!row) continue;
        std::istringstream names(line.substr(2, line.find(" |", 2) - 2));
        for (std::string name; std::getline(names, name, ',');) {
            name.erase(0, name.find_first_not_of(' '));
            INFO("no case finds " << name);
            CHECK(codes_found.count(name) == 1);
            codes.insert(name);
        }
    }
    for (const std::string& code : codes_found) {
        INFO("docs/emulator.md does not have " << code);
        CHECK(codes.count(code) == 1);
    }
    CHECK(codes.size() > 40);
}

// The driver compiles a file as ptxas does, all of it or nothing.
TEST_CASE("PTX cases for a GPU assemble") {
    const char* ptxas = std::getenv("LIDX_PTXAS");
    if (ptxas == nullptr) return;
    std::set<std::string> targets;
    for (const auto& path : case_files()) {
        const std::string text = read_text(path);
        if (!file_is_for_gpus(path, read_cases(path, text))) continue;
        const std::string target = ptxemu::parse_ptx(text)->target;
        const std::string command =
            std::string("'") + ptxas + "' -O0 -arch=" + target + " -o /dev/null '" + path + "'";
        INFO(command);
        CHECK(std::system(command.c_str()) == 0);
        targets.insert(target);
    }
    for (const char* target : {"sm_80", "sm_90", "sm_90a", "sm_100a"}) CHECK(targets.count(target) == 1);
}
