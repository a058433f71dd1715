// Which of a kernel's measured times are believed.
#pragma once

#include <span>

namespace superpipe::cli {

/// Sets those of `times`, which launches that are alike took, to their median that are more than
/// four times as long and that no other of them comes near.
///
/// Another process, or the page faults of a first launch, make a launch take a hundred times as
/// long, and a mean would carry that into all launches whose time was not taken. But launches of
/// one kernel with the same buffers may be of different sizes, which nobody tells. Those come again
/// with each pass, and so do their times: a long time that has company within a twentieth is
/// believed. Of fewer than four times nothing is known. O(n log n).
void replace_outliers(std::span<float> times);

}  // namespace superpipe::cli
