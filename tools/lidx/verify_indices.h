// SPDX-License-Identifier: Apache-2.0
// Indices against scores: which keys were chosen, in which order, and that unused entries are -1. Both return an exit
// code, print what they found, and throw Failure(kBadInput).
#pragma once
#include <vector>

#include "case_io.h"
#include "commands.h"

namespace lidx::command {

// scores [rows, longest]: exactly the keys and the order that these give. Null: what a kernel may choose whose scores
// are within the bound of its arithmetic, or, exact, what the reference chooses.
int verify_indices_of_case(const VerifyOptions& options, const Case& c, const std::vector<float>* scores);

// Exactly the keys and the order that the scores of options.scores give, as lidx topk takes them.
int verify_indices_of_scores(const VerifyOptions& options);

}  // namespace lidx::command
