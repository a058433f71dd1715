// The answers of `superpipe plan`, in words.
#pragma once

#include <iosfwd>
#include <span>

#include "tools/superpipe/planner/assumed_link.h"
#include "tools/superpipe/planner/planner.h"
#include "tools/superpipe/planner/traced_program.h"

namespace superpipe::cli {

/// Writes what the program is and needs, and how far predictions over `link` can be trusted.
void write_facts(std::ostream& out, const TracedProgram& program, const Planner& planner,
                 const AssumedLink& link);

/// Writes a line for each of `rows` under their titles. A pass with all on the device takes
/// `resident_ms`.
void write_table(std::ostream& out, std::span<const Prediction> rows, double resident_ms);

}  // namespace superpipe::cli
