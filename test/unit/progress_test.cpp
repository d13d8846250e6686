// SPDX-License-Identifier: Apache-2.0
// The line of a task that takes over two seconds: on a terminal and in a file.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "catch_any.h"
#include "tools/lidx/progress.h"

namespace {

// What a task of four steps writes to `to` as stderr, the first two at once, the others after two seconds.
std::string written(int to, int from) {
    const int kept = dup(2);
    dup2(to, 2);
    bool silent_before = false;
    char text[512];
    {
        lidx::command::Progress progress("a task", 4);
        progress.advance(1);
        progress.advance(1);
        silent_before = read(from, text, sizeof text) <= 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(2100));
        progress.advance(1);
        progress.finish();
        progress.finish();   // ends one line, and so does the destructor
    }
    std::fflush(stderr);
    dup2(kept, 2);
    close(kept);
    const ssize_t size = read(from, text, sizeof text);
    if (!silent_before) return "not silent at first";
    return std::string(text, static_cast<size_t>(size > 0 ? size : 0));
}

}  // namespace

TEST_CASE("progress in a file") {
    int ends[2];
    REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
    CHECK(written(ends[1], ends[0]) == "a task: 3 of 4 (75 %)\n");
    close(ends[0]);
    close(ends[1]);
}

TEST_CASE("progress on a terminal") {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    REQUIRE(terminal >= 0);
    REQUIRE(grantpt(terminal) == 0);
    REQUIRE(unlockpt(terminal) == 0);
    const int shown = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    REQUIRE(shown >= 0);
    CHECK(written(shown, terminal) == "\ra task: 3 of 4 (75 %)\r\n");   // the terminal adds its carriage return
    close(shown);
    close(terminal);
}
