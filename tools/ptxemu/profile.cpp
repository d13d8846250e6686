// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>

#include "mbarrier.h"
#include "nominal_clocks.h"
#include "scheduler.h"
#include "tensor_core.h"

namespace ptxemu {
namespace {

std::vector<std::string> words_of(const InsnInfo& info) {
    std::string text = info.text;
    if (text.starts_with('@')) text.erase(0, text.find(' ') + 1);
    text.resize(std::min(text.find(' '), text.size()));
    if (text.ends_with(';')) text.pop_back();
    std::vector<std::string> words;
    for (size_t at = 0; at <= text.size();) {
        const size_t dot = std::min(text.find('.', at), text.size());
        words.push_back(text.substr(at, dot - at));
        at = dot + 1;
    }
    return words;
}

bool has(const std::vector<std::string>& words, const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

uint16_t access_bytes(const std::vector<std::string>& words) {
    int bytes = type_bytes(type_from_name(words.back()));
    for (const char* vector : {"v2", "v4", "v8"})
        if (has(words, vector)) bytes *= vector[1] - '0';
    return static_cast<uint16_t>(bytes);
}

bool is_float(const std::vector<std::string>& words) { return words.back() == "f32" || words.back() == "f64"; }

// Passes of the shared-memory pipe: a bank gives one 4-byte word a clock, to all lanes that want it. 8-byte accesses go
// by half warps, 16-byte ones by quarters.
void count_wavefronts(const uint64_t* address, uint32_t mask, uint32_t bytes, uint64_t* needed, uint64_t* least) {
    const int lanes = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
    const uint32_t words = std::max(bytes / 4, 1u);
    for (int first = 0; first < kLanes; first += lanes) {
        uint64_t seen[32][32];
        uint32_t count[32] = {}, most = 0;
        for (int l = first; l < first + lanes; ++l) {
            if (!(mask >> l & 1)) continue;
            for (uint32_t i = 0; i < words; ++i) {
                const uint64_t word = address[l] / 4 + i;
                const uint32_t bank = word % 32;
                const uint64_t* end = seen[bank] + count[bank];
                if (std::find(seen[bank], seen[bank] + count[bank], word) != end || count[bank] == 32) continue;
                seen[bank][count[bank]++] = word;
                most = std::max(most, count[bank]);
            }
        }
        if (most == 0) continue;
        *needed += most;
        ++*least;
    }
}

const char* name_of(TraceSlice::Kind kind) {
    switch (kind) {
        case TraceSlice::Kind::kRun: return "run";
        case TraceSlice::Kind::kIssueCopy: return "issue TMA";
        case TraceSlice::Kind::kIssueMma: return "issue MMA";
        case TraceSlice::Kind::kEpilogue: return "epilogue";
        case TraceSlice::Kind::kWaitBarrier: return "wait: barrier";
        case TraceSlice::Kind::kWaitMbarrier: return "wait: mbarrier";
        case TraceSlice::Kind::kWaitGroup: return "wait: group";
        case TraceSlice::Kind::kWaitMemory: return "wait: memory";
        case TraceSlice::Kind::kWaitTmem: return "wait: TMEM";
        case TraceSlice::Kind::kCopy: return "copy";
        case TraceSlice::Kind::kMma: return "MMA";
    }
    return "";
}

const char* category_of(TraceSlice::Kind kind) {
    if (kind >= TraceSlice::Kind::kCopy) return kind == TraceSlice::Kind::kMma ? "mma" : "tma";
    return kind >= TraceSlice::Kind::kWaitBarrier ? "wait" : kind == TraceSlice::Kind::kEpilogue ? "epilogue" : "run";
}

}   // namespace

// ---- TraceLog ----

bool TraceLog::open(const std::string& path) {
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) return false;
    std::fputs("{\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n", file_);
    return flush();
}

TraceLog::LaunchTrace TraceLog::begin(const Dim3& grid) {
    const std::lock_guard lock(mutex_);
    LaunchTrace launch{++launches_, processes_, grid, {}};
    processes_ += static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    return launch;
}

void TraceLog::add(LaunchTrace& launch, const Program& program, const std::vector<TraceSlice>& slices) {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;
    const auto separate = [&] {
        if (!first_) std::fputs(",\n", file_);
        first_ = false;
    };
    for (const TraceSlice& s : slices) {
        if (written_ == kMaxSlices) {
            ++dropped_;
            continue;
        }
        ++written_;
        const uint64_t process = launch.first_process + s.cta;
        std::set<uint16_t>& named = launch.named[s.cta];
        if (named.empty()) {
            const Dim3& g = launch.grid;
            separate();
            std::fprintf(file_,
                         "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %" PRIu64
                         ", \"args\": {\"name\": \"launch %" PRIu64 " %s CTA (%u,%u,%u), nominal clocks\"}}",
                         process, launch.number, program.name.c_str(), s.cta % g.x, s.cta / g.x % g.y,
                         s.cta / g.x / g.y);
        }
        if (named.insert(s.track).second) {
            const std::string name = s.track == kCopyTrack  ? "TMA and copies"
                                     : s.track == kMmaTrack ? "tensor core"
                                                            : "warp " + std::to_string(s.track);
            separate();
            // The units above the warps.
            std::fprintf(file_,
                         "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %" PRIu64
                         ", \"tid\": %u, \"args\": {\"name\": \"%s\"}},\n{\"ph\": \"M\", \"name\": "
                         "\"thread_sort_index\", \"pid\": %" PRIu64 ", \"tid\": %u, \"args\": {\"sort_index\": %d}}",
                         process, s.track, name.c_str(), process, s.track,
                         s.track >= kCopyTrack ? static_cast<int>(s.track) - 70 : static_cast<int>(s.track));
        }
        std::string title = name_of(s.kind), more;
        const InsnInfo& info = program.info[s.pc];
        char text[96];
        switch (s.kind) {
            case TraceSlice::Kind::kMma:
                std::snprintf(text, sizeof text, ", \"m\": %u, \"n\": %u", static_cast<unsigned>(s.value >> 32),
                              static_cast<unsigned>(s.value));
                more = text;
                title += " " + std::to_string(s.value >> 32) + "x" + std::to_string(s.value & 0xffffffffu);
                break;
            case TraceSlice::Kind::kCopy:
                more = ", \"bytes\": " + std::to_string(s.value);
                title = program.stat_names[info.stat].starts_with("cp.async.bulk.tensor") ? "TMA " : "copy ";
                title += std::to_string(s.value) + " B";
                break;
            case TraceSlice::Kind::kWaitMbarrier:
                std::snprintf(text, sizeof text, " 0x%" PRIx64, s.value);
                title += text;
                break;
            case TraceSlice::Kind::kWaitBarrier: title += " " + std::to_string(s.value); break;
            default: break;
        }
        if (info.source_line != 0 && info.source_file > 0 &&
            static_cast<size_t>(info.source_file) < program.source_files.size()) {
            more += ", \"source\": " + json_quoted(program.source_files[static_cast<size_t>(info.source_file)] + ":" +
                                              std::to_string(info.source_line));
        }
        separate();
        // One nominal clock is shown as a nanosecond; the unit of ts and dur is a microsecond.
        std::fprintf(file_,
                     "{\"ph\": \"X\", \"name\": %s, \"cat\": \"%s\", \"pid\": %" PRIu64
                     ", \"tid\": %u, \"ts\": %.4f, \"dur\": %.4f, \"args\": {\"ptx_line\": %d%s}}",
                     json_quoted(title).c_str(), category_of(s.kind), process, s.track, s.begin * 1e-3,
                     (s.end - s.begin) * 1e-3, info.line, more.c_str());
    }
}

bool TraceLog::flush() {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return false;
    const long end = std::ftell(file_);
    std::fprintf(file_, "\n],\n\"otherData\": {\"clock\": \"nominal: 1 ns stands for one clock of a throughput "
                        "model\", \"launches\": %" PRIu64 ", \"slices\": %" PRIu64 ", \"slices_dropped\": %" PRIu64
                        "}}\n",
                 launches_, written_, dropped_);
    // What follows goes over this end, which is then longer.
    if (std::fflush(file_) != 0 || std::ferror(file_) != 0 || std::fseek(file_, end, SEEK_SET) != 0) failed_ = true;
    return !failed_;
}

bool TraceLog::close() {
    if (file_ == nullptr) return !failed_;
    const bool whole = flush();
    const bool closed = std::fclose(file_) == 0;
    file_ = nullptr;
    return whole && closed;
}

// ---- BusyTrack ----

void BusyTrack::insert(double begin, double end) {
    if (end <= begin) return;
    auto next = busy_.lower_bound(begin);
    if (next != busy_.begin()) {
        auto before = std::prev(next);
        if (before->second >= begin) {
            begin = before->first;
            end = std::max(end, before->second);
            busy_.erase(before);
        }
    }
    while (next != busy_.end() && next->first <= end) {
        end = std::max(end, next->second);
        next = busy_.erase(next);
    }
    busy_.emplace(begin, end);
    // Nobody comes back to the distant past.
    constexpr size_t kMostPieces = 256;
    if (busy_.size() > kMostPieces) busy_.erase(busy_.begin());
}

double BusyTrack::place(double earliest, double length) {
    double at = earliest;
    auto next = busy_.upper_bound(at);
    if (next != busy_.begin() && std::prev(next)->second > at) at = std::prev(next)->second;
    while (next != busy_.end() && next->first < at + length) {
        at = next->second;
        ++next;
    }
    insert(at, at + length);
    return at;
}

double BusyTrack::consume(double earliest, double length) {
    double at = earliest;
    auto next = busy_.upper_bound(at);
    if (next != busy_.begin() && std::prev(next)->second > at) at = std::prev(next)->second;
    const double begin = at;
    double left = length;
    while (next != busy_.end() && next->first < at + left) {
        left -= next->first - at;
        at = next->second;
        ++next;
    }
    insert(begin, at + left);
    return at + left;
}

// ---- Profile ----

Profile::Profile(const Program& program, bool trace, bool detail)
    : program_(program), trace_(trace), detail_(detail), costs_(program.code.size()) {
    wavefronts_.resize(program.code.size());
    least_wavefronts_.resize(program.code.size());
    for (size_t pc = 0; pc < costs_.size(); ++pc) {
        Cost& c = costs_[pc];
        const std::string& name = program.stat_names[program.info[pc].stat];
        const std::vector<std::string> words = words_of(program.info[pc]);
        const std::string& opcode = words[0];
        c.floats = words.back() == "f32" || words.back() == "f32x2";
        if (opcode == "ld" || opcode == "st") {
            c.kind = opcode == "ld" ? Kind::kLoad : Kind::kStore;
            c.bytes = access_bytes(words);
            c.shared = name.ends_with(".shared") || name == opcode;
            c.global = name.ends_with(".global") || name == opcode;
        } else if (opcode == "ldmatrix" || opcode == "stmatrix") {
            c.kind = Kind::kMatrix;
            c.loads = opcode == "ldmatrix";
            c.bytes = 16;
            c.shared = true;
        } else if (name == "mbarrier.init") {
            c.kind = Kind::kInit;
        } else if (name.starts_with("mbarrier.arrive") || name == "mbarrier.expect_tx" ||
                   name == "mbarrier.complete_tx") {
            c.kind = Kind::kArrive;
        } else if (name == "mbarrier.try_wait" || name == "mbarrier.test_wait") {
            c.kind = Kind::kMbarrierWait;
        } else if (name == "cp.async.bulk.wait_group") {
            c.kind = Kind::kBulkWait;
        } else if (name == "cp.async.wait_group" || name == "cp.async.wait_all") {
            c.kind = Kind::kCopyWait;
        } else if (name.starts_with("cp.") && !name.ends_with("commit_group")) {
            c.kind = Kind::kCopy;
        } else if (name == "tcgen05.mma" || name == "wgmma.mma_async") {
            c.kind = Kind::kMma;
            for (const std::string& word : words)
                if (word.starts_with("m64n")) c.n = static_cast<uint16_t>(std::atoi(word.c_str() + 4));
        } else if (name == "tcgen05.commit") {
            c.kind = Kind::kCommit;
        } else if (name == "tcgen05.ld" || name == "tcgen05.st") {
            c.kind = name == "tcgen05.ld" ? Kind::kTmemLoad : Kind::kTmemStore;
        } else if (name.starts_with("tcgen05.wait")) {
            c.kind = Kind::kTmemWait;
        } else if (name == "wgmma.wait_group") {
            c.kind = Kind::kWgmmaWait;
        } else if (opcode == "barrier" && has(words, "cluster")) {
            c.kind = has(words, "arrive") ? Kind::kClusterArrive : Kind::kClusterWait;
        } else if (opcode == "bar" || opcode == "barrier") {
            if (!has(words, "warp")) c.kind = Kind::kBarrier;
        } else if (opcode == "fma" || ((opcode == "add" || opcode == "sub" || opcode == "mul") && is_float(words))) {
            c.fma = nominal::kFma;
        } else if (words.back() == "f32x2") {
            c.fma = nominal::kFmaPacked;
        } else if (opcode == "mad" || opcode == "mul") {
            c.fma = nominal::kFmaPacked;
        } else if (opcode == "mma") {
            c.fma = nominal::kMmaSyncInterval;
        } else if (opcode == "ex2" || opcode == "lg2" || opcode == "rcp" || opcode == "sqrt" || opcode == "rsqrt" ||
                   opcode == "sin" || opcode == "cos" || opcode == "tanh" || opcode == "div") {
            c.mufu = nominal::kMufu;
        } else if (opcode == "mov" || opcode == "bra" || opcode == "ret" || opcode == "exit" || opcode == "cvta" ||
                   opcode == "fence") {
            continue;   // no pipe but issue; ptxas removes most
        } else {
            c.alu = nominal::kAlu;
        }
    }
}

void Profile::start(Cluster& cluster) {
    for (const auto& cta : cluster.ctas) by_warp_.resize(std::max(by_warp_.size(), cta->warps.size()));
    if (detail_)
        for (auto& counts : by_warp_) counts.resize(program_.code.size());
    if (!trace_) return;
    cluster.clocks = std::make_shared<ProfileClocks>();
    cluster.clocks->ctas.resize(cluster.ctas.size());
    for (size_t rank = 0; rank < cluster.ctas.size(); ++rank) {
        CtaClock& c = cluster.clocks->ctas[rank];
        c.warps.resize(cluster.ctas[rank]->warps.size());
        for (WarpClock& w : c.warps) w.ready.resize(program_.register_bytes / 64 + 4);
    }
}

Profile::CtaClock& Profile::cta_clock(Exec& x) { return x.cta->cluster->clocks->ctas[x.cta->rank]; }
Profile::WarpClock& Profile::clock_of(Exec& x) { return cta_clock(x).warps[x.warp->index]; }

void Profile::slice(Exec& x, TraceSlice::Kind kind, uint32_t track, uint32_t pc, double begin, double end,
                    uint64_t value) {
    const auto cta = static_cast<uint32_t>(x.cta->linear);
    slices_.push_back({kind, static_cast<uint16_t>(track), cta, pc, begin, end, value});
}

// Brings the clock up to date: what was executed since, at the speed of the busiest pipe.
void Profile::advance(Exec& x, WarpClock& w) {
    const double length = std::max({w.issue, w.fma, w.alu, w.mufu, w.lsu});
    if (length == 0) return;
    w.now = cta_clock(x).sub_partitions[x.warp->index % 4].consume(w.now, length);
    w.issue = w.fma = w.alu = w.mufu = w.lsu = 0;
}

// Ends the stretch that the warp has run; the next one is of another kind.
void Profile::cut(Exec& x, WarpClock& w, TraceSlice::Kind next) {
    if (w.category == next) return;
    advance(x, w);
    if (w.now > w.segment) slice(x, w.category, x.warp->index, w.segment_pc, w.segment, w.now, 0);
    w.segment = w.now;
    w.segment_pc = x.pc;
    w.category = next;
}

void Profile::wait_until(Exec& x, WarpClock& w, double time, TraceSlice::Kind kind, uint64_t value) {
    advance(x, w);
    if (time <= w.now) return;
    if (w.now > w.segment) slice(x, w.category, x.warp->index, w.segment_pc, w.segment, w.now, 0);
    slice(x, kind, x.warp->index, x.pc, w.now, time, value);
    w.now = w.segment = time;
    w.segment_pc = x.pc;
    w.category = TraceSlice::Kind::kRun;
}

void Profile::access(Exec& x, const Insn& in, uint32_t mask, const Cost& cost) {
    uint64_t address[kLanes];
    uint32_t shared = 0, global = 0;
    for (int l = 0; l < kLanes; ++l) {
        if (!(mask >> l & 1)) continue;
        if (cost.kind == Kind::kMatrix && l >= static_cast<int>(in.aux) * 8) continue;
        address[l] = lane_address(x, in, 0, l);
        const uint64_t window = address[l] >> kWindowShift;
        if (cost.shared && (!cost.global || window == 1)) shared |= 1u << l;
        else if (cost.global && window == 0) global |= 1u << l;
    }
    const bool load = cost.kind == Kind::kLoad || cost.loads;
    if (shared != 0) {
        uint64_t needed = 0, least = 0;
        count_wavefronts(address, shared, cost.bytes, &needed, &least);
        if (detail_) {
            wavefronts_[x.pc] += needed;
            least_wavefronts_[x.pc] += least;
            bytes_[load ? "shared_read" : "shared_written"] +=
                static_cast<uint64_t>(std::popcount(shared)) * cost.bytes;
        }
        if (trace_) clock_of(x).lsu += static_cast<double>(needed);
    }
    if (global != 0 && detail_)
        bytes_[load ? "global_read" : "global_written"] += static_cast<uint64_t>(std::popcount(global)) * cost.bytes;
    // The latency of shared memory is left out: PTX has a load next to its use, ptxas moves them apart.
    if (!trace_ || !load || global == 0) return;
    WarpClock& w = clock_of(x);
    const double ready = w.now + w.issue + nominal::kGlobalLatency;
    for (uint32_t i = 0; i < in.list_count; ++i) {
        const uint32_t slot = x.lists[in.list + i];
        if (!(slot & kConstantSlot) && slot >= kRegistersBegin) w.ready[slot / 64] = ready;
    }
}

void Profile::before(Exec& x, const Insn& in, uint32_t mask) {
    const Cost& cost = costs_[x.pc];
    if (detail_) {
        counted_ = x.worker->warp_counts[x.pc];
        ++by_warp_[x.warp->index][x.pc];
        if (cost.kind == Kind::kTmemLoad) bytes_["tmem_read"] += in.list_count * 4ull * kLanes;
        if (cost.kind == Kind::kTmemStore) bytes_["tmem_written"] += in.list_count * 4ull * kLanes;
    }
    if (!trace_) {
        if (cost.shared || cost.global) access(x, in, mask, cost);
        return;
    }
    WarpClock& w = clock_of(x);
    if (w.at_barrier) {   // it was released
        w.at_barrier = false;
        const auto released = cta_clock(x).barriers.find({w.barrier, w.generation});
        if (released != cta_clock(x).barriers.end())
            wait_until(x, w, released->second, TraceSlice::Kind::kWaitBarrier, w.barrier);
    }
    double ready = 0;
    const auto look = [&](uint32_t slot) {
        if (!(slot & kConstantSlot) && slot >= kRegistersBegin && slot / 64 < w.ready.size())
            ready = std::max(ready, w.ready[slot / 64]);
    };
    for (const uint32_t slot : in.slot) look(slot);
    if (cost.kind == Kind::kStore)
        for (uint32_t i = 0; i < in.list_count; ++i) look(x.lists[in.list + i]);
    if (ready > w.now) {
        advance(x, w);
        if (ready > w.now) {
            const TraceSlice::Kind resumed = w.category;
            wait_until(x, w, ready, TraceSlice::Kind::kWaitMemory, 0);
            w.category = resumed;
        }
    }
    w.issue += 1;
    w.fma += cost.fma;
    w.alu += cost.alu;
    w.mufu += cost.mufu;
    if (cost.shared || cost.global) access(x, in, mask, cost);
    const double tmem_bytes = in.list_count * 4.0 * kLanes;
    if (w.accumulators && cost.floats) cut(x, w, TraceSlice::Kind::kEpilogue);
    switch (cost.kind) {
        case Kind::kCopy: cut(x, w, TraceSlice::Kind::kIssueCopy); break;
        case Kind::kMma:
        case Kind::kCommit: cut(x, w, TraceSlice::Kind::kIssueMma); break;
        case Kind::kTmemLoad:
        case Kind::kTmemStore:
            cut(x, w, cost.kind == Kind::kTmemLoad ? TraceSlice::Kind::kEpilogue : w.category);
            w.accumulators |= cost.kind == Kind::kTmemLoad;
            advance(x, w);
            w.tmem_ready = std::max(w.tmem_ready, w.now) + tmem_bytes / nominal::kTmemBytesPerClock;
            break;
        case Kind::kInit:
            for (int l = 0; l < kLanes; ++l) {
                if (!(mask >> l & 1)) continue;
                const uint32_t address = shared_address(x, l, lane_address(x, in, 0, l), "address");
                x.cta->cluster->clocks->mbarriers.erase(address);
            }
            break;
        case Kind::kBarrier: {
            advance(x, w);
            const uint32_t id = x.at<uint32_t>(in.slot[0])[std::countr_zero(mask)];
            if (id >= x.cta->barriers.size()) break;
            double& last = cta_clock(x).barriers[{id, x.cta->barriers[id].generation}];
            last = std::max(last, w.now);
            w.barrier = id;
            w.generation = x.cta->barriers[id].generation;
            break;
        }
        case Kind::kClusterArrive: {
            advance(x, w);
            double& last = x.cta->cluster->clocks->cluster_barrier[x.cta->cluster->generation];
            last = std::max(last, w.now);
            break;
        }
        case Kind::kArrive: advance(x, w); break;
        default: break;
    }
    moment_ = w.now + w.issue;
}

void Profile::group_done(Exec& x, WarpClock& w, int which, uint32_t open, uint64_t keep) {
    auto& groups = w.groups[which];
    const uint32_t below = open > keep ? open - static_cast<uint32_t>(keep) : 0;
    double done = 0;
    while (!groups.empty() && groups.begin()->first < below) {
        done = std::max(done, groups.begin()->second);
        groups.erase(groups.begin());
    }
    wait_until(x, w, done, TraceSlice::Kind::kWaitGroup, 0);
}

// next: the handler let the warp go on.
void Profile::after(Exec& x, const Insn& in, uint32_t mask, bool next) {
    // What blocks is executed again, and counted then.
    if (detail_ && x.worker->warp_counts[x.pc] < counted_) --by_warp_[x.warp->index][x.pc];
    if (!trace_) return;
    const Cost& cost = costs_[x.pc];
    if (cost.kind == Kind::kPlain) return;
    WarpClock& w = clock_of(x);
    const int first = std::countr_zero(mask);
    switch (cost.kind) {
        case Kind::kBarrier:
            // Blocked at the barrier, or its last arrival.
            w.at_barrier = !next;
            break;
        case Kind::kMbarrierWait: {
            if (!next && x.flow != Flow::kYield) break;
            const uint32_t done = x.predicate(in, 0) & mask;
            if (done == 0) break;
            const int lane = std::countr_zero(done);
            const uint32_t address = shared_address(x, lane, lane_address(x, in, 1, lane), "address");
            const auto found = x.cta->cluster->clocks->mbarriers.find(address);
            if (found != x.cta->cluster->clocks->mbarriers.end())
                wait_until(x, w, found->second.done, TraceSlice::Kind::kWaitMbarrier, address);
            break;
        }
        case Kind::kClusterWait:
            if (next && x.cta->cluster->generation != 0) {
                const double done = x.cta->cluster->clocks->cluster_barrier[x.cta->cluster->generation - 1];
                wait_until(x, w, done, TraceSlice::Kind::kWaitBarrier, 0);
            }
            break;
        case Kind::kTmemWait:
            if (next) wait_until(x, w, w.tmem_ready, TraceSlice::Kind::kWaitTmem, 0);
            break;
        case Kind::kBulkWait:
            if (next) group_done(x, w, 0, x.warp->bulk_group[first], in.imm);
            break;
        case Kind::kCopyWait: {
            const bool all = program_.stat_names[program_.info[x.pc].stat] == "cp.async.wait_all";
            if (next) group_done(x, w, 1, all ? ~0u : x.warp->copy_group[first], all ? 0 : in.imm);
            break;
        }
        case Kind::kWgmmaWait:
            if (!next) break;
            group_done(x, w, 2, x.warp->wgmma_group[0], in.imm);
            w.accumulators = true;
            break;
        default: break;
    }
}

void Profile::issued(Exec& x, AsyncOp& op) {
    if (!trace_) return;
    WarpClock& w = clock_of(x);
    advance(x, w);
    op.issued = w.now;
}

void Profile::completing(Exec& x, const AsyncOp& op) {
    const bool matrix = op.kind == AsyncKind::kMma || op.kind == AsyncKind::kWgmma;
    if (detail_) {
        switch (op.kind) {
            case AsyncKind::kTensorLoad: bytes_["tma_loaded"] += op.bytes; break;
            case AsyncKind::kBulkLoad: bytes_["bulk_loaded"] += op.bytes; break;
            case AsyncKind::kTensorStore:
            case AsyncKind::kTensorReduce: bytes_["tma_stored"] += op.bytes; break;
            case AsyncKind::kBulkStore:
            case AsyncKind::kBulkReduce: bytes_["bulk_stored"] += op.bytes; break;
            case AsyncKind::kBulkSharedCopy: bytes_["bulk_shared"] += op.bytes; break;
            case AsyncKind::kCopy: bytes_["cp_async"] += op.source_bytes; break;
            default: break;
        }
    }
    if (!trace_) return;
    CtaClock& c = cta_clock(x);
    moment_ = op.issued;
    if (matrix) {
        uint64_t m = 64, n = costs_[op.pc].n;
        double begin, end;
        if (op.kind == AsyncKind::kMma) {
            InstrDescriptor d;
            const auto kind = static_cast<MmaKind>(op.mma_kind);
            if (!decode_instr_descriptor(op.instr_descriptor, kind, static_cast<int>(op.cta_group), &d).empty()) return;
            m = static_cast<uint64_t>(d.m), n = static_cast<uint64_t>(d.n);
            const int group = static_cast<int>(op.cta_group);
            const double interval = nominal::mma_interval(d.m, d.n, op.a_in_tmem, group);
            begin = c.mma.place(op.issued, interval);
            end = begin + interval;
            moment_ = std::max(c.last_mma, begin + nominal::mma_latency(d.m, d.n, op.a_in_tmem, group));
            c.last_mma = moment_;   // they complete in order
        } else {
            const double interval = nominal::wgmma_interval(static_cast<int>(n));
            begin = c.wgmma[op.warp % 4].place(op.issued, interval);
            end = begin + interval;
            moment_ = end + nominal::kWgmmaLatency;
            double& done = cta_clock(x).warps[op.warp].groups[2][op.group];
            done = std::max(done, moment_);
            if (op.warp % 4 != 0) return;   // the four warps' quarters are one instruction
        }
        slice(x, TraceSlice::Kind::kMma, kMmaTrack, op.pc, begin, end, m << 32 | n);
        return;
    }
    if (op.kind == AsyncKind::kCommit) {
        moment_ = std::max(op.issued, c.last_mma);
        return;
    }
    if (op.kind == AsyncKind::kCopyArrive) {   // behind the thread's earlier copies, which are counted as a group
        for (const auto& [group, done] : c.warps[op.warp].groups[1]) moment_ = std::max(moment_, done);
        return;
    }
    if (op.kind > AsyncKind::kCopy) return;
    const double length = static_cast<double>(op.bytes) / nominal::kCopyBytesPerClock;
    const double begin = c.copies.place(op.issued, length);
    moment_ = begin + length + nominal::kCopyLatency;
    if (op.grouped) {
        double& done = c.warps[op.warp].groups[op.kind == AsyncKind::kCopy ? 1 : 0][op.group];
        done = std::max(done, moment_);
    }
    if (op.kind != AsyncKind::kCopy)
        slice(x, TraceSlice::Kind::kCopy, kCopyTrack, op.pc, begin, begin + length, op.bytes);
}

void Profile::arrived(Exec& x, uint32_t address) {
    if (!trace_) return;
    Mbarrier& b = x.cta->cluster->clocks->mbarriers[address];
    const MbarrierState state = mbarrier_unpack(*mbarrier_at(x, 0, address));
    b.pending = std::max(b.pending, moment_);
    if (state.phase == b.phase) return;
    b.phase = state.phase;
    b.done = b.pending;
    b.pending = 0;
}

void Profile::finish(Exec& x) {
    if (!trace_) return;
    for (const auto& cta : x.cta->cluster->ctas) {
        for (Warp& warp : cta->warps) {
            x.cta = cta.get();
            x.warp = &warp;
            WarpClock& w = clock_of(x);
            advance(x, w);
            if (w.now > w.segment) slice(x, w.category, warp.index, w.segment_pc, w.segment, w.now, 0);
        }
    }
    x.cta->cluster->clocks.reset();
}

void Profile::add_to(Stats& stats) const {
    if (!detail_) return;
    for (size_t w = 0; w < by_warp_.size(); ++w) {
        for (size_t pc = 0; pc < by_warp_[w].size(); ++pc) {
            if (by_warp_[w][pc] == 0) continue;
            stats.role_counts["warp " + std::to_string(w)][program_.stat_names[program_.info[pc].stat]] +=
                by_warp_[w][pc];
        }
    }
    for (const auto& [name, n] : bytes_) stats.bytes[name] += n;
    for (size_t pc = 0; pc < wavefronts_.size(); ++pc) {
        if (wavefronts_[pc] == 0) continue;
        auto& line = stats.bank_conflicts[program_.name + ":" + std::to_string(program_.info[pc].line)];
        line[0] += wavefronts_[pc];
        line[1] += least_wavefronts_[pc];
    }
}

}   // namespace ptxemu
