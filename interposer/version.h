// The version of this library.
#pragma once

namespace superpipe {

/// As in the project's CMakeLists.txt, which hands it in.
inline constexpr char kVersion[] = SUPERPIPE_VERSION;

}  // namespace superpipe
