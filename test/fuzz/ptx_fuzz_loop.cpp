// SPDX-License-Identifier: Apache-2.0
// ptx_fuzz_loop SECONDS SEED FILE...: mutates the files, without guidance, where there is no libFuzzer; with 0 seconds
// it only runs the files as they are. The last line counts.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "ptx_fuzz_one.h"

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '%' || c == ':' || c == '$') {
            word += c;
        } else {
            if (!word.empty()) words.push_back(word);
            word.clear();
            if (c > ' ') words.emplace_back(1, c);
        }
    }
    return words;
}

std::string mutate(std::string text, std::mt19937& random, const std::vector<std::string>& corpus,
                   const std::vector<std::string>& words) {
    for (int edits = 1 + static_cast<int>(random() % 6); edits != 0 && !text.empty(); --edits) {
        const size_t at = random() % text.size(), length = std::min<size_t>(random() % 48, text.size() - at);
        switch (random() % 8) {
            case 0: text[at] = static_cast<char>(random()); break;
            case 1: text.erase(at, length); break;
            case 2: text.insert(at, text.substr(random() % text.size(), length)); break;
            case 3: text.insert(at, " " + words[random() % words.size()] + " "); break;
            case 4: {
                const std::string& other = corpus[random() % corpus.size()];
                const size_t from = other.find('\n', random() % other.size());
                const size_t to = from == std::string::npos ? from : other.find('\n', from + 1);
                const size_t line = text.find('\n', at);
                if (to != std::string::npos && line != std::string::npos)
                    text.insert(line, other.substr(from, to - from));
                break;
            }
            case 5: text.resize(at); break;
            default: {   // a word for a word
                size_t begin = at, end = at;
                while (begin > 0 && std::isalnum(static_cast<unsigned char>(text[begin - 1]))) --begin;
                while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
                text.replace(begin, end - begin, words[random() % words.size()]);
            }
        }
    }
    return text;
}

void one(const std::string& text) { ptx_fuzz_one(reinterpret_cast<const uint8_t*>(text.data()), text.size()); }

}   // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: ptx_fuzz_loop SECONDS SEED FILE...\n");
        return 2;
    }
    const auto limit = std::chrono::duration<double>(std::atof(argv[1]));
    std::mt19937 random(static_cast<unsigned>(std::atoi(argv[2])));
    std::vector<std::string> corpus, words;
    for (int i = 3; i < argc; ++i) {
        std::ifstream in(argv[i], std::ios::binary);
        std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        if (text.empty()) continue;
        for (auto& w : words_of(text)) words.push_back(std::move(w));
        corpus.push_back(std::move(text));
    }
    if (corpus.empty()) {
        std::fprintf(stderr, "ptx_fuzz_loop: no file has any text\n");
        return 2;
    }
    std::freopen("/dev/null", "w", stdout);   // the kernels' printf
    const auto started = Clock::now();
    size_t runs = 0;
    double longest = 0;
    for (const auto& text : corpus) one(text), ++runs;
    while (Clock::now() - started < limit) {
        const std::string text = mutate(corpus[random() % corpus.size()], random, corpus, words);
        const auto before = Clock::now();
        one(text);
        ++runs;
        const double took = std::chrono::duration<double>(Clock::now() - before).count();
        longest = std::max(longest, took);
        if (took > 10) {
            std::fprintf(stderr, "ptx_fuzz_loop: an input took %.1f s:\n%s\n", took, text.c_str());
            return 1;
        }
    }
    std::fprintf(stderr, "ptx_fuzz_loop: %zu inputs of %zu files, the longest took %.2f s\n", runs, corpus.size(),
                 longest);
    return 0;
}
