// SPDX-License-Identifier: Apache-2.0
// A file to read: regular, of a size that is known beforehand. Anything else (a directory, a FIFO that nobody writes, a
// device without an end) is refused as kBadInputCode instead of being waited for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace tool {

class InputFile {
  public:
    explicit InputFile(const std::filesystem::path& path);
    ~InputFile();
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    const std::string& name() const { return name_; }
    uint64_t size_bytes() const { return size_bytes_; }
    // The next bytes of the file, all of them, or kBadInputCode.
    void read(void* data, size_t size_bytes);

  private:
    std::string name_;
    int fd_ = -1;
    uint64_t size_bytes_ = 0;
};

}  // namespace tool
