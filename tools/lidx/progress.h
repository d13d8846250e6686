// SPDX-License-Identifier: Apache-2.0
// One line on stderr, once a task has taken two seconds.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace lidx::command {

class Progress {
  public:
    Progress(std::string what, int64_t total) : what_(std::move(what)), total_(total) {}
    ~Progress() { finish(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void advance(int64_t steps) {
        done_ += steps;
        const auto now = Clock::now();
        if (now < next_) return;
        next_ = now + (tty_ ? std::chrono::milliseconds(250) : std::chrono::seconds(5));
        shown_ = true;
        const double percent = total_ > 0 ? 100.0 * static_cast<double>(done_) / static_cast<double>(total_) : 100.0;
        std::fprintf(stderr, "%s%s: %" PRId64 " of %" PRId64 " (%.0f %%)%s", tty_ ? "\r" : "", what_.c_str(), done_,
                     total_, percent, tty_ ? "" : "\n");
    }

    // Ends the line, so that what follows has one of its own.
    void finish() {
        if (shown_ && tty_) std::fputc('\n', stderr);
        shown_ = false;
    }

  private:
    using Clock = std::chrono::steady_clock;
    const std::string what_;
    int64_t total_;
    int64_t done_ = 0;
    bool shown_ = false;
    const bool tty_ = ::isatty(2) != 0;
    Clock::time_point next_ = Clock::now() + std::chrono::seconds(2);
};

}  // namespace lidx::command
