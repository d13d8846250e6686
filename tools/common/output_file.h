// SPDX-License-Identifier: Apache-2.0
// A file being written: every write and the close are checked (a full disk often shows at the close only). Until
// close() it has no name, so that a process that fails or is killed leaves what stood there before. Where the file
// system has no such files it is written in place, and removed again if it is not finished.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

struct stat;

namespace tool {

class OutputFile {
  public:
    // Finds out whether it can be written. Throws Failure(kBadInputCode), as does every member function.
    explicit OutputFile(const std::filesystem::path& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(const void* data, size_t size_bytes);
    void write(std::string_view text) { write(text.data(), text.size()); }
    // Call it last; without it nothing is left of what was written.
    void close();

  private:
    [[noreturn]] void fail(const char* what, int error);
    bool open_unnamed(const struct stat* old);
    void take_name();
    std::string own_name() const;
    std::filesystem::path path_;
    std::filesystem::path target_;   // path_ without symbolic links
    int fd_ = -1;
    bool unnamed_ = false;
};

// True of two names of one file, also of one that is not there yet. Devices such as /dev/null are nobody's file.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

struct Output {
    std::string option;   // named in the message
    std::filesystem::path path;
};
// What can be known of outputs before any work is done for them. Throws Failure(kBadInputCode) if a path is empty,
// names an input or another output (writing it would destroy what was just read or written), is a folder, or cannot be
// written: a missing folder, a lack of permission. Writes and opens nothing.
void require_outputs(const std::vector<Output>& outputs, const std::vector<std::filesystem::path>& inputs);
// Throws Failure(kBadInputCode) if the name ends like a file of another kind; a name without an ending will do.
void require_ending(const Output& output, const std::string& ending);
// The same of a folder that files will be written into, and that is made if it is missing, with those above it.
void require_output_folder(const std::string& option, const std::filesystem::path& path);

}  // namespace tool
