// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "tool_failure.h"

namespace tool {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), target_(path) {
    const int old = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (old < 0 && errno != ENOENT) fail("cannot create it", errno);
    struct stat status = {};
    if (old >= 0 && (::fstat(old, &status) != 0 || !S_ISREG(status.st_mode))) {
        fd_ = old;   // a device, a FIFO ...
        return;
    }
    if (open_unnamed(old >= 0 ? &status : nullptr)) {
        if (old >= 0) ::close(old);
        return;
    }
    if (old >= 0) ::close(old);
    target_ = path;
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot create it", errno);
}

// A file without a name in the folder of the one that it will replace, with its owner and mode. False where that cannot
// be: in a file system without such files, in a folder that cannot be written, without /proc to name the file by.
bool OutputFile::open_unnamed(const struct stat* old) {
    std::error_code error;
    if (old != nullptr) target_ = std::filesystem::canonical(path_, error);
    else if (std::filesystem::is_symlink(path_, error)) return false;   // to nothing: the link stays
    if (error && old != nullptr) return false;
    const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
    fd_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0) return false;
    struct stat made = {};
    bool same = ::access(own_name().c_str(), F_OK) == 0 && ::fstat(fd_, &made) == 0;
    if (same && old != nullptr)
        same = old->st_dev == made.st_dev   // else it is mounted there and cannot be replaced
               && ((old->st_uid == made.st_uid && old->st_gid == made.st_gid)
                   || ::fchown(fd_, old->st_uid, old->st_gid) == 0)
               && ::fchmod(fd_, old->st_mode & 07777) == 0;
    unnamed_ = same;
    if (!same) ::close(std::exchange(fd_, -1));
    return same;
}

std::string OutputFile::own_name() const { return "/proc/self/fd/" + std::to_string(fd_); }

OutputFile::~OutputFile() {
    if (fd_ < 0) return;
    struct stat status;
    const bool named = !unnamed_ && ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    ::close(fd_);
    if (named) ::unlink(path_.c_str());   // never a device such as /dev/full
}

void OutputFile::write(const void* data, size_t size_bytes) {
    const char* next = static_cast<const char*>(data);
    constexpr size_t kChunkBytes = size_t{1} << 30;
    while (size_bytes > 0) {
        const ssize_t written = ::write(fd_, next, std::min(size_bytes, kChunkBytes));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail("write failed", written < 0 ? errno : ENOSPC);
        next += written;
        size_bytes -= static_cast<size_t>(written);
    }
}

void OutputFile::close() {
    if (unnamed_) take_name();
    struct stat status;
    const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) == 0) return;
    const int error = errno;
    if (regular) ::unlink(path_.c_str());
    fail("close failed", error);
}

// A link cannot replace a file, renaming can.
void OutputFile::take_name() {
    const auto passing = target_.parent_path() / (".output-" + std::to_string(::getpid()) + "-" + std::to_string(fd_));
    ::unlink(passing.c_str());   // of a process with this number that was killed between the next two lines
    if (::linkat(AT_FDCWD, own_name().c_str(), AT_FDCWD, passing.c_str(), AT_SYMLINK_FOLLOW) != 0)
        fail("cannot be given its name", errno);
    if (::rename(passing.c_str(), target_.c_str()) == 0) return;
    const int error = errno;
    ::unlink(passing.c_str());
    fail("cannot be given its name", error);
}

void OutputFile::fail(const char* what, int error) {
    bad_input(path_.string() + ": " + what + ": " + std::strerror(error));
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    if (std::filesystem::exists(a, error) && !std::filesystem::is_regular_file(a, error)) return false;
    if (std::filesystem::equivalent(a, b, error)) return true;
    // Absolute first: of a relative path without a folder that exists, weakly_canonical makes no absolute one.
    const auto place = [&error](const std::filesystem::path& path) {
        return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
    };
    return place(a) == place(b);
}

namespace {

std::string refused(const std::filesystem::path& path) {
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return "";
    return path.string() + " cannot be written: " + std::strerror(errno);
}

// Why nothing can be written there; empty if nothing is known against it.
std::string obstacle(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return path.string() + " is a directory";
    if (std::filesystem::exists(path, error)) return refused(path);
    if (error) return path.string() + ": " + error.message();
    if (std::filesystem::is_symlink(path, error)) return "";   // to nothing: its target is made
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    if (!std::filesystem::is_directory(folder, error)) return "no such directory: " + folder.string();
    return refused(folder);
}

}  // namespace

void require_outputs(const std::vector<Output>& outputs, const std::vector<std::filesystem::path>& inputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
        const std::string& option = outputs[i].option;
        const std::filesystem::path& path = outputs[i].path;
        if (path.empty()) bad_input(option + ": the path is empty");
        for (const auto& input : inputs)
            if (same_file(path, input)) bad_input(option + ": " + path.string() + " is an input");
        for (size_t other = 0; other < i; ++other)
            if (same_file(path, outputs[other].path))
                bad_input(option + ": " + path.string() + " is also written for " + outputs[other].option);
        const std::string why = obstacle(path);
        if (!why.empty()) bad_input(option + ": " + why);
    }
}

void require_ending(const Output& output, const std::string& ending) {
    const std::string own = output.path.extension().string();
    std::string small = own;
    for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!own.empty() && small != ending)
        bad_input(output.option + ": " + output.path.string() + ": what is written is a " + ending +
                  " file, the name ends in " + own);
}

void require_output_folder(const std::string& option, const std::filesystem::path& path) {
    if (path.empty()) bad_input(option + ": the path is empty");
    std::error_code error;
    std::filesystem::path there = std::filesystem::absolute(path, error);
    while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
    if (!std::filesystem::is_directory(there, error))
        bad_input(option + ": " + path.string() + ": cannot create the directory: " + there.string() +
                  " is no directory");
    const std::string why = refused(there);
    if (!why.empty()) bad_input(option + ": " + why);
}

}  // namespace tool
