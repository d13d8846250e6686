// SPDX-License-Identifier: Apache-2.0
// A file being written: every write and the close are checked (a full disk often shows at the close only), and whatever
// is not finished is removed again.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tool {

class OutputFile {
  public:
    // Creates or truncates. Throws Failure(kBadInputCode), as does every member function.
    explicit OutputFile(const std::filesystem::path& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(const void* data, size_t size_bytes);
    void write(std::string_view text) { write(text.data(), text.size()); }
    // Call it last; without it the destructor removes the file.
    void close();

  private:
    [[noreturn]] void fail(const char* what, int error);
    std::filesystem::path path_;
    int fd_ = -1;
};

}  // namespace tool
