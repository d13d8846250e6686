// SPDX-License-Identifier: Apache-2.0
#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tool_failure.h"

namespace tool {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot create it", errno);
}

OutputFile::~OutputFile() {
    if (fd_ < 0) return;
    struct stat status;
    const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    ::close(fd_);
    if (regular) ::unlink(path_.c_str());   // never a device such as /dev/full
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
    struct stat status;
    const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) == 0) return;
    const int error = errno;
    if (regular) ::unlink(path_.c_str());
    fail("close failed", error);
}

void OutputFile::fail(const char* what, int error) {
    bad_input(path_.string() + ": " + what + ": " + std::strerror(error));
}

}  // namespace tool
