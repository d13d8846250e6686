// SPDX-License-Identifier: Apache-2.0
// A kernel's arguments as a JSON file gives them: an array with one entry for each parameter, in order.
//
//   {"buffer": "in.npy", "name": "x", "out": "out.npy"}    device memory with the file's data; the parameter is its
//                                                          address; out: written after the run
//   {"buffer": {"shape": [4, 8], "dtype": "f32", "fill": 0}}   fill: a number, "iota", "random" (with "seed": 1), or
//                                                          none: uninitialised
//   {"address": "x", "offset": 16}                         another pointer into buffer x, in bytes
//   {"scalar": 3, "type": "u32"}
//   {"bytes": "00ff.."}
//   {"tensormap": {"globalAddress": "x", "tensorDataType": "UINT8", "globalDim": [128, 64], ...}}   the arguments of
//                                                          cuTensorMapEncodeTiled by name
//   {"struct": [entries]}                                  members at their natural alignment, or at "at": bytes
//
// An entry with "param": false makes a buffer that only others name. Buffers without a name are called by the number of
// their entry, from 0.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ir.h"
#include "memory.h"
#include "output_file.h"

namespace ptxemu {

struct ArgumentList;   // run_arguments.cpp

class RunArguments {
  public:
    // Reads the file and every .npy it names; relative paths start at its folder. Throws tool::Failure(kBadInputCode)
    // naming entry, field, value and limit.
    RunArguments(const std::filesystem::path& json, const Function& kernel, int compute_capability);
    ~RunArguments();

    // Makes the buffers anew in `memory` and returns the kernel's parameter block.
    std::vector<uint8_t> place(GlobalMemory& memory);
    void release(GlobalMemory& memory);
    // Contents of all buffers, to compare runs; of the placed ones.
    std::vector<std::vector<uint8_t>> contents() const;
    std::vector<std::string> buffer_names() const;
    // The "out" files, and the .npy files that were read.
    std::vector<tool::Output> outputs() const;
    const std::vector<std::filesystem::path>& inputs() const;
    // Writes the "out" files from the placed buffers.
    void write_outputs() const;

  private:
    std::unique_ptr<ArgumentList> list_;
};

}   // namespace ptxemu
