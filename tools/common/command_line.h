// SPDX-License-Identifier: Apache-2.0
// What the commands share at their command line. Needs CLI11.
#pragma once
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "texts.h"
#include "tool_failure.h"

namespace tool {

// Whole decimal numbers only. CLI11's own conversion takes 010 for 8, -1 for 2^64 - 1, 2^64 for the same, and an empty
// text for 0.
template <class T>
CLI::Validator whole(T low, T high) {
    return {[low, high](std::string& text) -> std::string {
                T value = 0;
                const char* end = text.data() + text.size();
                const auto result = std::from_chars(text.data(), end, value);
                if (result.ec != std::errc() || result.ptr != end || value < low || value > high)
                    return "Value '" + shown(text) + "' is not a whole number from " + std::to_string(low) +
                           " to " + std::to_string(high);
                text = std::to_string(value);
                return "";
            },
            std::to_string(low) + " to " + std::to_string(high)};
}

// One of these words. CLI11's own IsMember puts nothing around the value, which may be empty.
inline CLI::Validator one_of(std::vector<std::string> words) {
    return {[words](std::string& text) -> std::string {
                if (std::find(words.begin(), words.end(), text) != words.end()) return "";
                return "Value '" + shown(text) + "' is none of " + joined(words);
            },
            "{" + joined(words, ",") + "}"};
}

// What is wrong with the arguments, and whose --help says more; where there is no subcommand, which ones there are, and
// which word is none. False after --help and --version, which are no error.
inline bool report_arguments(const CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error) != 0;
    std::string who = app.get_name(), what = error.what();
    if (!app.get_subcommands().empty()) {
        who += " " + app.get_subcommands()[0]->get_name();
        // CLI11 misses what is required before it looks at what nobody asked for, such as that option misspelt, and
        // lists the latter backwards.
        const auto words = app.get_subcommands()[0]->remaining();
        const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
        if (!words.empty() && (code == CLI::ExitCodes::RequiredError || code == CLI::ExitCodes::ExtrasError))
            what = "The following argument was not expected: " + words[0];
        // CLI11: "--k: At Most 1 required but received 2", "--k: 1 required INT:1 to 4096 missing"
        const std::string most = ": At Most 1 required but received ";
        if (const size_t at = what.find(most); at != std::string::npos)
            what.replace(at, most.size(), ": one value is expected, not ");
        const std::string begin = ": 1 required ", end = " missing";
        if (const size_t at = what.find(begin); at != std::string::npos && what.ends_with(end))
            what.replace(at, std::string::npos,
                         ": a value is missing, " +
                             what.substr(at + begin.size(), what.size() - end.size() - at - begin.size()));
    } else if (error.get_name() == "RequiredError") {
        const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
        const auto words = app.remaining();
        const std::string kind = !words.empty() && words[0].starts_with("-") ? "option" : "subcommand";
        what = (words.empty() ? "a subcommand is required" : "there is no " + kind + " '" + words[0] + "'") +
               "; the subcommands are " +
               joined(commands, ", ", [](const CLI::App* command) { return command->get_name(); });
    }
    std::fprintf(stderr, "%s: %s\nRun %s --help for more information.\n", who.c_str(), what.c_str(), who.c_str());
    return true;
}

// What main() does around run(): an exception becomes a line on stderr and an exit code, a failed write of standard
// output kBadInputCode.
template <class Run>
int guarded_main(const char* name, int internal_code, Run&& run) {
    const auto report = [&](int code, const std::string& message) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: %s\n", name, message.c_str());
        return code;
    };
    int code = internal_code;
    try {
        code = run();
    } catch (const Failure& failure) {
        return report(failure.code, failure.what());
    } catch (const std::filesystem::filesystem_error& error) {   // a name that is too long, a folder without rights
        return report(kBadInputCode, error.path1().string() + ": " + error.code().message());
    } catch (const std::bad_alloc&) {
        return report(internal_code, "out of memory");
    } catch (const std::exception& error) {
        return report(internal_code, error.what());
    }
    // A write that failed earlier, when the buffer was full, has left only the stream's error flag.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        return report(kBadInputCode, std::string("standard output: ") + std::strerror(errno));
    return code;
}

}  // namespace tool
