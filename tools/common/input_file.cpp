// SPDX-License-Identifier: Apache-2.0
#include "input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tool_failure.h"

namespace tool {

InputFile::InputFile(const std::filesystem::path& path) : name_(path.string()) {
    // O_NONBLOCK: opening a FIFO would wait for a writer. Regular files do not know the difference.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) bad_input(name_ + ": cannot open it: " + std::strerror(errno));
    struct stat status;
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(fd_);
        bad_input(name_ + ": not a regular file");
    }
    size_bytes_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(fd_); }

void InputFile::read(void* data, size_t size_bytes) {
    char* next = static_cast<char*>(data);
    constexpr size_t kChunkBytes = size_t{1} << 30;
    while (size_bytes > 0) {
        const ssize_t got = ::read(fd_, next, std::min(size_bytes, kChunkBytes));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) bad_input(name_ + ": read failed: " + std::strerror(errno));
        if (got == 0) bad_input(name_ + ": the file ends early; it shrank while it was read");
        next += got;
        size_bytes -= static_cast<size_t>(got);
    }
}

}  // namespace tool
