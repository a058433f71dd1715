#pragma once

namespace conformance {

/// A parameter of `combine`: pointers inside a struct that is passed by value, with padding before
/// the second.
struct Operands {
  unsigned factor;
  const unsigned* in;
  unsigned char tag;
  unsigned* out;
};

}  // namespace conformance
