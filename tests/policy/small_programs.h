// Random programs that are small enough for the exhaustive search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/policy/exhaustive_schedule.h"
#include "tests/policy/properties.h"

namespace superpipe {

/// A number from `least` to `most`, each alike. RapidCheck's own ranges begin narrow and grow with
/// the cases, so that most programs would have a launch or two and fit on the device.
template <typename T>
T any_of(T least, T most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(least, most + 1));
}

/// `most_pieces` pieces or up to two fewer, in buffers of one to three, and `least_launches` to 9
/// launches that name up to three buffers and mostly compute little, so that the link matters.
/// REQUIRES: most_pieces > 2.
inline SmallProgram any_small_program(int most_pieces, std::size_t least_launches) {
  SmallProgram program;
  for (int left = any_of(most_pieces - 2, most_pieces); left > 0;) {
    program.pieces.push_back(std::min(left, *rc::gen::element(1, 1, 1, 2, 3)));
    left -= program.pieces.back();
  }
  const auto launches = any_of<std::size_t>(least_launches, 9);
  const auto last = static_cast<std::uint32_t>(program.pieces.size() - 1);
  for (std::size_t at = 0; at < launches; ++at) {
    SmallLaunch& launch = program.launches.emplace_back();
    launch.compute = *rc::gen::element(0, 0, 0, 0, 1, 1, 2, 3);
    for (int left = *rc::gen::element(0, 1, 1, 1, 1, 1, 1, 2, 2, 3); left > 0; --left) {
      launch.buffers.push_back(BufferId{any_of<std::uint32_t>(0, last)});
    }
  }
  return program;
}

/// From none to more than all pieces of `program`.
inline int any_fit(const SmallProgram& program) {
  int pieces = 0;
  for (const int count : program.pieces) pieces += count;
  return any_of(0, pieces + 1);
}

/// The bytes of `pieces` pieces.
inline Bytes pieces_bytes(int pieces) { return static_cast<std::uint64_t>(pieces) * kPiece; }

}  // namespace superpipe
