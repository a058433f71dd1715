// Links by which the loader finds what it does not find by itself, in a folder of the user's own.
//
// A folder in which the name libcuda.so, without a version, leads to superpipe's library:
// Numba and many scripts open the driver by that name. The library's own name, libcuda.so.1, does
// not answer to it, so that the loader goes on searching. Where it finds a link to the library that
// is preloaded it knows it again by its inode: a copy would be a second superpipe.
#pragma once

#include <optional>
#include <string>

#include "tools/superpipe/installation.h"

namespace superpipe::cli {

/// Makes, or finds made before, a folder that has a link libcuda.so to `library` and nothing else.
///
/// It lies in a folder of this user's alone (mode 0700) in `shared`, where the user's processes
/// find each other (SUPERPIPE_SHARED_FOLDER), and stays: the program that this process becomes
/// cannot remove it at its end. What another user owns, may write to or may replace is not used.
/// `library`: an absolute path.
/// @return the folder's path, or an empty one where none can be had.
[[nodiscard]] std::string folder_with_driver_link(const std::string& library,
                                                  const std::string& shared);

/// `parts` by paths that the loader's variables can name: themselves where they can be named, else
/// behind a link to their folder, beside the folders of folder_with_driver_link() and kept as they
/// are. What a part finds beside itself it finds there too.
/// @return nullopt where no such link can be had.
[[nodiscard]] std::optional<Installation> parts_to_be_named(const Installation& parts,
                                                            const std::string& shared);

}  // namespace superpipe::cli
