// SPDX-License-Identifier: Apache-2.0
#include "check_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace check {

namespace {

// A child's results travel over this descriptor, one line each, fields separated by tabs:
//   begin <i>
//   end <i> <verdict> <symbol> <hash> <event order> <seconds> <microseconds> <reason>
//   fatal <text>
constexpr int kResultFd = 3;
constexpr size_t kMostNamesPerChild = 256;   // 256 names fit the pipe's 64 KiB, so that writing them never blocks
constexpr size_t kMessageTailBytes = 16384;  // of the child's standard error, kept for the reason of a death

struct Pipe {
    int read_end = -1, write_end = -1;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe2: ") + std::strerror(errno));
        read_end = ends[0];
        write_end = ends[1];
    }
    ~Pipe() {
        close_end(&read_end);
        close_end(&write_end);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    static void close_end(int* fd) {
        if (*fd >= 0) close(*fd);
        *fd = -1;
    }
};

std::string one_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    for (char& ch : text)
        if (ch == '\n' || ch == '\t' || ch == '\r') ch = ' ';
    return text;
}

std::vector<std::string> split_tabs(const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    return fields;
}

class Child {
public:
    Child(const ChildSetup& setup, const std::string& input) {
        std::vector<std::string> arguments = {"check"};
        arguments.insert(arguments.end(), setup.arguments.begin(), setup.arguments.end());
        std::vector<std::string> environment;
        for (char** e = environ; *e != nullptr; ++e) {
            const std::string entry = *e;
            const std::string key = entry.substr(0, entry.find('='));
            const bool replaced = std::any_of(setup.environment.begin(), setup.environment.end(),
                                              [&](const auto& pair) { return pair.first == key; });
            if (!replaced) environment.push_back(entry);
        }
        for (const auto& [key, value] : setup.environment) environment.push_back(key + "=" + value);
        auto pointers = [](std::vector<std::string>& strings) {
            std::vector<char*> result;
            for (std::string& s : strings) result.push_back(s.data());
            result.push_back(nullptr);
            return result;
        };
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, input_.read_end, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, messages_.write_end, STDERR_FILENO);
        posix_spawn_file_actions_adddup2(&actions, results_.write_end, kResultFd);
        const int code = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(),
                                     pointers(environment).data());
        posix_spawn_file_actions_destroy(&actions);
        if (code != 0) throw std::runtime_error(std::string("posix_spawn: ") + std::strerror(code));
        Pipe::close_end(&input_.read_end);
        Pipe::close_end(&results_.write_end);
        Pipe::close_end(&messages_.write_end);
        for (size_t sent = 0; sent < input.size();) {
            const ssize_t n = write(input_.write_end, input.data() + sent, input.size() - sent);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) break;  // it died already; its exit tells
            sent += static_cast<size_t>(n);
        }
        Pipe::close_end(&input_.write_end);
    }
    ~Child() { finish(true); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    enum class Event { kLine, kEnd, kTimeout };
    Event next_line(double limit_seconds, std::string* line) {
        using Clock = std::chrono::steady_clock;
        const auto deadline =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_seconds));
        for (;;) {
            const size_t newline = pending_.find('\n');
            if (newline != std::string::npos) {
                *line = pending_.substr(0, newline);
                pending_.erase(0, newline + 1);
                return Event::kLine;
            }
            if (results_.read_end < 0) return Event::kEnd;
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            if (left <= 0) return Event::kTimeout;
            std::array<pollfd, 2> fds = {pollfd{results_.read_end, POLLIN, 0}, pollfd{messages_.read_end, POLLIN, 0}};
            if (poll(fds.data(), fds.size(), static_cast<int>(std::min<long long>(left, 1000))) < 0) continue;
            if (fds[1].revents != 0) drain(&messages_.read_end, &tail_);
            if (tail_.size() > kMessageTailBytes) tail_.erase(0, tail_.size() - kMessageTailBytes);
            if (fds[0].revents != 0) drain(&results_.read_end, &pending_);
        }
    }

    // The last line that it has written to its standard error since the last call.
    std::string take_messages() {
        pollfd fd = {messages_.read_end, POLLIN, 0};
        while (messages_.read_end >= 0 && poll(&fd, 1, 0) > 0) drain(&messages_.read_end, &tail_);
        while (!tail_.empty() && tail_.back() == '\n') tail_.pop_back();
        const size_t newline = tail_.rfind('\n');
        const std::string text = one_line(tail_.substr(newline == std::string::npos ? 0 : newline + 1, 500));
        tail_.clear();
        return text;
    }

    // Waits for the end (kills first if asked) and says how it came.
    std::string finish(bool kill_it) {
        if (pid_ <= 0) return "";
        if (kill_it) kill(pid_, SIGKILL);
        int status = 0;
        while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = 0;
        while (messages_.read_end >= 0) drain(&messages_.read_end, &tail_);
        std::string text = WIFSIGNALED(status) ? std::string("killed by signal ") + strsignal(WTERMSIG(status))
                                               : "exit code " + std::to_string(WEXITSTATUS(status));
        const std::string tail = take_messages();
        return tail.empty() ? text : text + "; it wrote: " + tail;
    }

private:
    // Reads once; closes at the end.
    static void drain(int* fd, std::string* into) {
        char buffer[4096];
        const ssize_t n = read(*fd, buffer, sizeof buffer);
        if (n > 0)
            into->append(buffer, static_cast<size_t>(n));
        else if (n == 0 || errno != EINTR)
            Pipe::close_end(fd);
    }

    Pipe input_, results_, messages_;
    pid_t pid_ = 0;
    std::string pending_, tail_;
};

// Runs one batch, with as many children as it takes. "" or why no child works.
std::string run_batch(const ChildSetup& setup, const std::vector<std::string>& names,
                      const std::function<void(const Result&)>& report) {
    size_t done = 0;
    while (done < names.size()) {
        std::string input;
        for (size_t i = done; i < names.size(); ++i) input += names[i] + "\n";
        const size_t first = done;
        Child child(setup, input);
        bool running = false;  // between begin and end
        for (bool alive = true; alive;) {
            std::string line;
            const auto event = child.next_line(setup.limit_seconds, &line);
            Result failed;
            failed.name = names[done < names.size() ? done : names.size() - 1];
            if (event == Child::Event::kLine) {
                const std::vector<std::string> fields = split_tabs(line);
                if (fields.size() == 2 && fields[0] == "fatal") return fields[1];
                if (fields.size() == 2 && fields[0] == "begin") running = true;
                if (fields.size() < 8 || fields[0] != "end") continue;
                Result r;
                r.name = names[first + static_cast<size_t>(std::atoll(fields[1].c_str()))];
                r.verdict = static_cast<Verdict>(std::atoi(fields[2].c_str()));
                r.symbol = fields[3];
                r.hash = fields[4];
                r.event_order = fields[5];
                r.seconds = std::atof(fields[6].c_str());
                r.microseconds = std::atof(fields[7].c_str());
                if (fields.size() > 8) r.reason = fields[8];
                const std::string messages = child.take_messages();
                if (r.verdict == Verdict::kFail && !messages.empty()) r.reason += "; it wrote: " + messages;
                running = false;
                ++done;
                report(r);
            } else if (event == Child::Event::kTimeout) {
                failed.seconds = setup.limit_seconds;
                const std::string how = child.finish(true);
                failed.reason =
                    "no answer within " + std::to_string(static_cast<int>(setup.limit_seconds)) + " s; " + how;
                ++done;
                report(failed);
                alive = false;
            } else {
                const std::string how = child.finish(false);
                // A child that ends between cases gave up its context after a failure: the rest gets a new one.
                const bool lost = running || (done == first && done < names.size());
                if (lost) {
                    failed.reason = "the process ended: " + how;
                    ++done;
                    report(failed);
                }
                alive = false;
            }
        }
    }
    return "";
}

}  // namespace

bool run_in_children(const ChildSetup& setup, const std::vector<std::string>& names,
                     const std::function<void(const Result&)>& report, std::string* error) {
    const auto jobs = static_cast<size_t>(std::max(1, setup.jobs));
    const size_t batch = std::clamp<size_t>(names.size() / (jobs * 8) + 1, 8, kMostNamesPerChild);
    std::mutex mutex;
    size_t next = 0;
    std::string failure;
    auto work = [&] {
        for (;;) {
            std::vector<std::string> mine;
            {
                const std::lock_guard lock(mutex);
                if (!failure.empty() || next >= names.size()) return;
                const size_t end = std::min(names.size(), next + (jobs == 1 ? kMostNamesPerChild : batch));
                mine.assign(names.begin() + static_cast<std::ptrdiff_t>(next),
                            names.begin() + static_cast<std::ptrdiff_t>(end));
                next = end;
            }
            std::string text;
            try {
                text = run_batch(setup, mine, [&](const Result& r) {
                    const std::lock_guard lock(mutex);
                    report(r);
                });
            } catch (const std::runtime_error& e) {
                text = e.what();
            }
            if (!text.empty()) {
                const std::lock_guard lock(mutex);
                failure = text;
                return;
            }
        }
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < jobs; ++i) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    *error = failure;
    return failure.empty();
}

ChildLink::ChildLink() {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(STDIN_FILENO, buffer, sizeof buffer)) != 0;) {
        if (n < 0 && errno != EINTR) break;
        if (n > 0) text.append(buffer, static_cast<size_t>(n));
    }
    std::istringstream stream(text);
    for (std::string name; std::getline(stream, name);) names_.push_back(name);
}

void ChildLink::send(const std::string& line) const {
    for (size_t sent = 0; sent < line.size();) {
        const ssize_t n = write(kResultFd, line.data() + sent, line.size() - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) std::_Exit(4);  // nobody listens
        sent += static_cast<size_t>(n);
    }
}

void ChildLink::begin(size_t i) const { send("begin\t" + std::to_string(i) + "\n"); }

void ChildLink::end(size_t i, const Result& r) const {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%.3f\t%.3f", r.seconds, r.microseconds);
    send("end\t" + std::to_string(i) + "\t" + std::to_string(static_cast<int>(r.verdict)) + "\t" + r.symbol + "\t" +
         r.hash + "\t" + r.event_order + "\t" + numbers + "\t" + one_line(r.reason) + "\n");
}

void ChildLink::fatal(const std::string& text) const { send("fatal\t" + one_line(text) + "\n"); }

}  // namespace check
