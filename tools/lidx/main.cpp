// SPDX-License-Identifier: Apache-2.0
// The command lidx: options and exit codes. What each subcommand does is in the file of its name.
#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

#include <lidx.h>

#include "case_io.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "kernel/schedule.h"
#include "kernel/topk_layout.h"

namespace {

using namespace lidx::command;

constexpr const char* kDescription =
    "lidx scores a paged FP8 key cache, on a GPU or on any computer:\n"
    "\n"
    "    score[row, key] = k_scale[key] * sum_h relu(q[row, h] . k[key]) * q_scale[row, h]\n";

constexpr const char* kExamples =
    "Examples\n"
    "  lidx gen --out case                                  2 tokens, 8192 keys, 64 heads, pages of 64\n"
    "  lidx score --in case --out scores.npy                on a CUDA GPU, else in the emulator\n"
    "  lidx verify --in case --scores scores.npy            every cell against the reference\n"
    "  lidx heatmap --in case --scores scores.npy --out scores.png\n"
    "  lidx index --in case --out indices.npy --k 2048      each row's best keys, without writing scores\n"
    "  lidx verify --in case --indices indices.npy          against the reference, too\n"
    "\n"
    "  lidx gen --out exact --lattice --ragged --batch 4 --tokens 5 --keys 1000 --heads 32 --page 16\n"
    "  lidx score --in exact --out exact.npy --device emu --stats counts.json\n"
    "  lidx verify --in exact --scores exact.npy --exact    bit by bit\n"
    "\n"
    "Exit codes\n"
    "  0  done\n"
    "  1  verification failed\n"
    "  2  bad input: arguments, files that are missing or malformed, outputs that cannot be written\n"
    "  3  no device or no driver\n"
    "  4  a driver call failed, or a defect in lidx\n";

void add_gen(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("gen", "Make a case: queries and a paged key cache as .npy files");
    const auto o = std::make_shared<GenOptions>();
    command->add_option("--out", o->out, "Directory to write; made if missing")->required()->type_name("DIR");
    command->add_option("--batch", o->batch, "Requests")->transform(whole(1, 65536))->capture_default_str();
    command->add_option("--tokens", o->tokens, "Query tokens per request")
        ->transform(whole(0, 1 << 20))
        ->capture_default_str();
    command->add_option("--heads", o->heads, "Heads")->transform(whole(1, 128))->capture_default_str();
    command->add_option("--keys", o->keys, "Keys per request")
        ->transform(whole(0, static_cast<int>(lidx::kMaxKeys)))
        ->capture_default_str();
    command->add_option("--page", o->page, "Keys per page")->transform(whole(1, 65536))->capture_default_str();
    command
        ->add_option("--layout", o->layout,
                     "block-split: codes and scales in one page; split-pool: two pools; contiguous: no pages")
        ->check(one_of({kLayoutNames[0], kLayoutNames[1], kLayoutNames[2]}))
        ->capture_default_str();
    command->add_option("--seed", o->seed, "The same seed gives the same files on every machine")
        ->transform(whole(uint64_t{0}, std::numeric_limits<uint64_t>::max()))
        ->capture_default_str();
    command->add_flag("--lattice", o->lattice,
                      "Small integers and powers of two: every kernel must then agree bit for bit");
    command->add_flag("--ragged", o->ragged,
                      "Draw tokens from 0 to --tokens and lengths from 0 to --keys for each request");
    command
        ->add_option("--rows", o->rows,
                     "How rows are told to lidx: cu-seqlens; fixed: --tokens each; request-ids: one id per row")
        ->check(one_of({kRowMapNames[0], kRowMapNames[1], kRowMapNames[2]}))
        ->capture_default_str();
    auto* causal = command->add_flag("--causal", o->causal,
                                     "The last row of a request sees all its keys, each row before it one token less");
    auto* lengths = command->add_flag("--row-lengths", o->row_lengths, "Draw a length of its own for each row");
    auto* window = command->add_option("--window", o->window, "A row sees so many keys up to its own position, no more")
                       ->transform(whole(1, static_cast<int>(lidx::kMaxKeys)))
                       ->type_name("KEYS");
    auto* ratio = command->add_option("--ratio", o->ratio, "Tokens per key: a row that sees t tokens sees t / N keys")
                      ->transform(whole(1, kMaxRatio))
                      ->capture_default_str();
    causal->excludes(lengths)->excludes(window);
    lengths->excludes(window);
    window->excludes(ratio);
    command->footer(
        "Values are Hadamard-rotated, heavy-tailed activations, quantised as DeepSeek-V3.2 does it, with\n"
        "weights of both signs. Pages are shuffled over the pool. Block-table entries past a length hold\n"
        "ids that must not be read, and slots past a length hold NaN. docs/command.md has the files of a case, and\n"
        "how data of your own become one.\n"
        "\n"
        "Example\n"
        "  lidx gen --out case --batch 8 --tokens 4 --keys 4096 --ragged --layout split-pool --seed 7\n"
        "  lidx gen --out prefill --tokens 512 --keys 2048 --causal");
    command->callback([o, &chosen] { chosen = [o] { return run_gen(*o); }; });
}

void add_score(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("score", "Score a case on a GPU or in the emulator");
    const auto o = std::make_shared<ScoreOptions>();
    command->add_option("--in", o->in, "Directory of the case (lidx gen)")->required()->type_name("DIR");
    command
        ->add_option(
            "--out", o->out,
            "Scores to write: f32 [rows, longest length], -inf for keys that a row does not see; FILE.json says what\n"
            "computed them")
        ->required()
        ->type_name("FILE");
    command->add_option("--device", o->device, "auto: a CUDA GPU that has a kernel for the case, else the emulator")
        ->check(one_of({"auto", "cuda", "emu"}))
        ->capture_default_str();
    command->add_option("--stats", o->stats, "Write executed instructions per opcode as JSON (emulator only)")
        ->type_name("FILE");
    command->add_option("--kernel", o->kernel, "Debug: force the kernel of this name (lidx info lists them)")
        ->type_name("SYMBOL");
    command->add_flag("--fast", o->fast,
                      "The fast mode (LIDX_FLAG_FAST) where the device has one for the case, else as without it;\n"
                      "FILE.json says which");
    command->footer(
        "cuda means the library that $LIDX_DRIVER names, else libcuda.so.1. The emulator is a device of compute\n"
        "capability 10.0 with 148 multiprocessors unless PTXEMU_CC and PTXEMU_SMS say otherwise.\n"
        "\n"
        "Examples\n"
        "  lidx score --in case --out scores.npy\n"
        "  lidx score --in case --out scores.npy --device emu --stats counts.json\n"
        "  lidx score --in case --out generic.npy --kernel generic_score");
    command->callback([o, &chosen] { chosen = [o] { return run_score(*o); }; });
}

// What a key is called, and the offsets that "ragged" adds.
template <class Output>
void add_names(CLI::App* command, Output& output, std::filesystem::path& offsets, const std::string& absent) {
    auto* option = command->add_option("--output", output,
                                       "What a key is called. local: counted from its request's first key;\n"
                                       "relative: from the first key that the row sees;\n"
                                       "physical: its slot in the pool, page * page size + slot;\n"
                                       "ragged: local, plus an offset for each row" + absent);
    option->check(one_of({"local", "relative", "physical", "ragged"}));
    if (absent.empty()) option->capture_default_str();
    command
        ->add_option("--offsets", offsets,
                     "int32 [rows]: what --output ragged adds; default: where the request's keys begin\n"
                     "if those of all requests lie one behind the other")
        ->type_name("FILE");
}

// Options that topk and index share.
template <class Options>
void add_choice(CLI::App* command, Options& o) {
    command->add_option("--k", o.k, "Keys to choose")->transform(whole(1, lidx::topk::kMaxK))->capture_default_str();
    command
        ->add_option("--sorted", o.sorted,
                     "position: ascending; score: best first, equal scores by position; none: in the order that\n"
                     "costs least, today position")
        ->check(one_of({"none", "position", "score"}))
        ->capture_default_str();
    command->add_option("--first", o.forced_first, "Keys at the beginning that are chosen whatever their score")
        ->transform(whole(0, lidx::topk::kMaxK))
        ->capture_default_str();
    command->add_option("--last", o.forced_last, "Keys at the end that are chosen whatever their score")
        ->transform(whole(0, lidx::topk::kMaxK))
        ->capture_default_str();
    command
        ->add_option("--scores-out", o.scores_out,
                     "Scores of the chosen to write: f32 [rows, k], -inf in unused entries")
        ->type_name("FILE");
    command->add_option("--counts-out", o.counts_out, "Numbers of chosen keys to write: int32 [rows]")
        ->type_name("FILE");
    command
        ->add_option("--json", o.json, "Where to write as JSON what ran and how, for lidx verify; default: OUT.json")
        ->type_name("FILE");
}

void add_topk(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("topk", "Choose each row's k largest scores");
    const auto o = std::make_shared<TopkOptions>();
    command->add_option("--scores", o->scores, "f32 [rows, keys], or u16 holding the bits of bf16")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", o->out, "Indices to write: int32 [rows, k], -1 in unused entries")
        ->required()
        ->type_name("FILE");
    command->add_option("--lengths", o->lengths, "int32 [rows]: keys that each row sees; default: all")
        ->type_name("FILE");
    add_choice(command, *o);
    command->add_option("--device", o->device, "auto: a CUDA GPU, else the emulator")
        ->check(one_of({"auto", "cuda", "emu"}))
        ->capture_default_str();
    command->footer(
        "Exact: of equal scores the smaller positions win, NaN ranks below -inf, -0 equals +0.\n"
        "\n"
        "Example\n"
        "  lidx score --in case --out scores.npy && lidx topk --scores scores.npy --k 512 --out indices.npy");
    command->callback([o, &chosen] { chosen = [o] { return run_topk(*o); }; });
}

void add_index(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("index", "Score a case and choose each row's k best keys, in one call");
    const auto o = std::make_shared<IndexOptions>();
    command->add_option("--in", o->in, "Directory of the case (lidx gen)")->required()->type_name("DIR");
    command->add_option("--out", o->out, "Indices to write: int32 [rows, k], -1 in unused entries")
        ->required()
        ->type_name("FILE");
    add_names(command, o->output, o->offsets, "");
    add_choice(command, *o);
    command->add_option("--score-type", o->score_type, "What scores are rounded to before keys are chosen")
        ->check(one_of({"fp32", "bf16"}))
        ->capture_default_str();
    command
        ->add_option("--budget-bytes", o->budget_bytes,
                     "Most workspace: rows are scored and chosen from in windows that fit; 0: all rows at once")
        ->transform(whole(uint64_t{0}, std::numeric_limits<uint64_t>::max()))
        ->capture_default_str();
    command->add_option("--device", o->device, "auto: a CUDA GPU that has a kernel for the case, else the emulator")
        ->check(one_of({"auto", "cuda", "emu"}))
        ->capture_default_str();
    command->add_option("--stats", o->stats, "Write executed instructions per opcode as JSON (emulator only)")
        ->type_name("FILE");
    command->add_option("--kernel", o->kernel, "Debug: force the scoring kernel of this name (lidx info lists them)")
        ->type_name("SYMBOL");
    command->add_flag("--fast", o->fast,
                      "The fast mode (LIDX_FLAG_FAST) where the device has one for the case, else as without it;\n"
                      "FILE.json says which");
    command->footer(
        "Exact: the keys that a sort of the scores gives. Of equal scores the smaller positions win, NaN ranks below\n"
        "-inf, -0 equals +0. Neither --budget-bytes nor the device's size shows in the result.\n"
        "\n"
        "Examples\n"
        "  lidx index --in case --out indices.npy\n"
        "  lidx index --in case --out slots.npy --k 512 --output physical --sorted score --scores-out best.npy\n"
        "  lidx index --in prefill --out indices.npy --budget-bytes 536870912 --json summary.json\n"
        "  lidx index --in case --out indices.npy --fast && lidx verify --in case --indices indices.npy");
    command->callback([o, &chosen] { chosen = [o] { return run_index(*o); }; });
}

void add_verify(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("verify", "Compare scores, or chosen keys, with a double-precision reference");
    const auto o = std::make_shared<VerifyOptions>();
    command->add_option("--in", o->in, "Directory of the case; without it --indices are held against --scores alone")
        ->type_name("DIR");
    command->add_option("--scores", o->scores, "Scores of that case (lidx score), or what lidx topk chose from")
        ->type_name("FILE");
    command->add_option("--indices", o->indices, "Chosen keys (lidx index, lidx topk, or your own): int32 [rows, k]")
        ->type_name("FILE");
    command->add_flag("--exact", o->exact, "Demand the reference's bits, or its keys; for cases made with --lattice");
    command->add_option("--arithmetic", o->arithmetic, "Whose error bound to use; default: what FILE.json names")
        ->check(one_of({"sm_100", "sm_90", "sm_90_fast", "fp32"}));
    const std::string absent = "; default: what FILE.json says, else ";
    add_names(command, o->output, o->offsets, absent + "local");
    command->add_option("--sorted", o->sorted, "Order of the indices: position, score or none" + absent + "position")
        ->check(one_of({"none", "position", "score"}));
    command->add_option("--score-type", o->score_type, "What scores were rounded to before" + absent + "fp32")
        ->check(one_of({"fp32", "bf16"}));
    for (const auto& [name, value, where] : {std::tuple{"--first", &o->forced_first, "beginning"},
                                             std::tuple{"--last", &o->forced_last, "end"}})
        command
            ->add_option(name, *value, "Keys at the " + std::string(where) + " that had to be chosen" + absent + "0")
            ->transform(whole(0, std::numeric_limits<int32_t>::max()));
    command->add_option("--lengths", o->lengths, "int32 [rows], without --in: keys that each row sees; default: all")
        ->type_name("FILE");
    command->footer(
        "Scores: prints the worst cell, its error bound, and the median and largest ratio of error to bound. The\n"
        "bound is derived from the arithmetic, not fitted: a ratio above 1 is a wrong score.\n"
        "Indices: a row must hold keys that it sees, none twice, none left out that certainly comes before one that\n"
        "was chosen, in the order of --sorted, and -1 in the entries that are left. Beside --scores, keys come in\n"
        "the order of these scores, ties by position; of a case alone, where scores within their bounds leave no\n"
        "doubt.\n"
        "Exit code 1 if anything is wrong.\n"
        "\n"
        "Examples\n"
        "  lidx verify --in case --scores scores.npy\n"
        "  lidx verify --in case --indices indices.npy                       of lidx index\n"
        "  lidx verify --scores scores.npy --indices indices.npy             of lidx topk\n"
        "  lidx verify --in case --indices mine.npy --arithmetic sm_90 --sorted none --output physical");
    command->callback([o, &chosen] { chosen = [o] { return run_verify(*o); }; });
}

void add_info(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("info", "List the kernels inside, drivers and devices");
    const auto o = std::make_shared<InfoOptions>();
    command->add_flag("--json", o->json, "As JSON, with all fields");
    command->footer(
        "Kernels that score come in order of preference: the first that serves a shape on the device is taken\n"
        "(docs/abi.md). heads and depth: what it serves; 64..128: multiples of 64 up to 128. keys x tokens: a tile.\n"
        "threads, shared: of a CTA, shared memory in bytes, in brackets that of the smallest launch. tmem: columns\n"
        "of Tensor Memory. registers: per thread, as they stand in the cubins.\n"
        "cuda means the library that $LIDX_DRIVER names, else libcuda.so.1.\n"
        "\n"
        "Examples\n"
        "  lidx info\n"
        "  lidx info --json\n"
        "  PTXEMU_CC=90 lidx info                               the emulator as a Hopper device");
    command->callback([o, &chosen] { chosen = [o] { return run_info(*o); }; });
}

void add_heatmap(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("heatmap", "Draw scores as a picture, rows down and keys across");
    const auto o = std::make_shared<HeatmapOptions>();
    command->add_option("--in", o->in, "Directory of the case")->required()->type_name("DIR");
    command->add_option("--scores", o->scores, "Scores of that case (lidx score)")->required()->type_name("FILE");
    command->add_option("--out", o->out, "PNG to write")->required()->type_name("FILE");
    command->footer(
        "Grey: keys that a row does not see; magenta: NaN. Colours end at the 1st and the 99th percentile. With more\n"
        "than 1024 keys or 768 rows a pixel is the largest score of its block. Lines part the requests.\n"
        "\n"
        "Example\n"
        "  lidx heatmap --in case --scores scores.npy --out scores.png");
    command->callback([o, &chosen] { chosen = [o] { return run_heatmap(*o); }; });
}

void add_quantize(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("quantize", "Quantise vectors to codes and scales as they lie in a cache");
    const auto o = std::make_shared<QuantizeOptions>();
    command
        ->add_option("--in", o->in,
                     "Vectors: f32, f16, or u16 holding the bits of bf16; the last dimension is 64 or 128")
        ->required()
        ->type_name("FILE");
    command->add_option("--codes", o->codes, "e4m3 codes to write: u8, the shape of the input")
        ->required()
        ->type_name("FILE");
    command->add_option("--scales", o->scales, "Scales to write: f32, that shape without its last dimension")
        ->required()
        ->type_name("FILE");
    command->add_flag("--rotate", o->rotate, "Hadamard rotation before");
    command->add_flag("--pow2", o->pow2, "Scales rounded up to powers of two");
    command->add_option("--device", o->device, "auto: a CUDA GPU, else the emulator")
        ->check(one_of({"auto", "cuda", "emu"}))
        ->capture_default_str();
    command->footer(
        "The bits are those of lidx_store_enqueue() and lidx_query_enqueue(); docs/cache.md says how they come about.\n"
        "\n"
        "Example\n"
        "  lidx quantize --in keys.npy --codes codes.npy --scales scales.npy --rotate");
    command->callback([o, &chosen] { chosen = [o] { return run_quantize(*o); }; });
}

void add_bench(CLI::App& app, std::function<int()>& chosen) {
    auto* command = app.add_subcommand("bench", "Time named workloads on a GPU");
    const auto o = std::make_shared<BenchOptions>();
    command->add_flag("--list", o->list, "List the workloads and stop");
    command
        ->add_option("--workload", o->workloads,
                     "Workloads to time; default: all but the smoke tests, in the emulator these alone")
        ->type_name("NAME");
    command->add_option("--filter", o->filter, "Workloads in whose name this is found")->type_name("REGEX");
    command->add_option("--kernel", o->kernels, "Kernels to time side by side; default: the best of each workload")
        ->type_name("SYMBOL");
    command->add_flag("--fast", o->fast,
                      "The fast mode (LIDX_FLAG_FAST), too, where the device has one for the workload");
    command->add_option("--rival", o->rivals, "Shared library to time beside them (lidx/rival.h); repeatable")
        ->type_name("LIB.so");
    command->add_option("--cublaslt", o->cublaslt, "The library of the FP8 product; default: libcublasLt.so.13, .12")
        ->type_name("FILE");
    command->add_option("--runs", o->runs, "Samples per candidate")->transform(whole(1, 1000))->capture_default_str();
    auto* warm =
        command->add_flag("--warm", o->warm, "Samples are 10 runs in a row, L2 warm; default: one run, L2 flushed");
    auto* graph =
        command->add_flag("--graph", o->graph, "Samples are 10 runs in a CUDA graph, L2 not flushed")->excludes(warm);
    command->add_option("--flush", o->flush, "Fill L2 before a sample by writing (lines that go to memory) or reading")
        ->check(one_of({"write", "read"}))
        ->excludes(warm)
        ->excludes(graph)
        ->capture_default_str();
    command->add_option("--device", o->device, "emu runs the same code, its times mean nothing")
        ->check(one_of({"cuda", "emu"}))
        ->capture_default_str();
    command->add_option("--json", o->json, "Write all there is to know as JSON")->type_name("FILE");
    command->add_option("--csv", o->csv, "Write the rows as CSV")->type_name("FILE");
    command->add_option("--plot", o->plot, "Write a chart")->type_name("FILE.svg");
    auto* from = command
                     ->add_option("--from", o->from,
                                  "Time nothing: table, chart and CSV of what an earlier run wrote with --json")
                     ->type_name("FILE.json");
    for (const char* timed : {"--kernel", "--fast", "--rival", "--cublaslt", "--runs", "--warm", "--graph", "--flush",
                              "--device", "--list"})
        from->excludes(command->get_option(timed));
    command->footer(
        "FLOPs are 2 * (row, key) pairs * heads * 128; bytes are keys with their scales, scores or lists that are\n"
        "given, and results, once each. The ceiling that binds is the longer of reading those bytes with a plain\n"
        "kernel, in the same turns, and of those FLOPs at the rate of cuBLASLt's FP8 product (else the nominal rate).\n"
        "'of moves' is the share of a plain kernel that reads the pages in the order of the block table and writes as\n"
        "many scores. 'x lidx' is the time over that of lidx's first candidate, whose results all others are compared\n"
        "with: exit code 1 if a rival fails or computes something else. docs/performance.md has more.\n"
        "\n"
        "Examples\n"
        "  lidx bench --json bench.json --csv bench.csv --plot bench.svg\n"
        "  lidx bench --from bench.json --filter '^decode' --plot decode.svg\n"
        "  lidx bench --filter '^decode' --rival ./libother.so\n"
        "  lidx bench --filter '^topk' --warm\n"
        "  lidx bench --workload prefill-2kx8k-h64 decode-64x32k --kernel sm90_score_h64 generic_score");
    command->callback([o, &chosen] { chosen = [o] { return run_bench(*o); }; });
}

int run(int argc, char** argv) {
    CLI::App app(kDescription, "lidx");
    app.footer(kExamples);
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("lidx ") + lidx_version());
    std::function<int()> chosen;
    add_gen(app, chosen);
    add_score(app, chosen);
    add_verify(app, chosen);
    add_topk(app, chosen);
    add_index(app, chosen);
    add_info(app, chosen);
    add_heatmap(app, chosen);
    add_quantize(app, chosen);
    add_bench(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return report_arguments(app, error) ? kBadInput : kDone;
    }
    return chosen();
}

}  // namespace

int main(int argc, char** argv) {
    return guarded_main("lidx", kInternal, [&] { return run(argc, argv); });
}
