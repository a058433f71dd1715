// What `superpipe top` writes for programs.
#pragma once

#include <string>

#include "tools/superpipe/top_model.h"

namespace superpipe::cli {

/// All processes as one JSON object on one line, without the line's end. Sizes are bytes; what is
/// not known is null. `unix_seconds`: the time of the look. docs/top.md has an example.
[[nodiscard]] std::string top_json(const TopModel& model, double unix_seconds);

/// All processes as metrics in Prometheus's text exposition format 0.0.4. Counts are as the
/// processes have them, so that rates are the reader's to form.
/// Source: prometheus.io/docs/instrumenting/exposition_formats.
[[nodiscard]] std::string top_prometheus(const TopModel& model);

}  // namespace superpipe::cli
