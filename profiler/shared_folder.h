// The folder in which the processes of one user on one host find each other.
#pragma once

#include <string>

#include "policy/units.h"
#include "settings/setting_values.h"

namespace superpipe {

/// The folder that SUPERPIPE_SHARED_FOLDER names in `environment`, else the default; unchecked.
[[nodiscard]] std::string shared_folder(const Environment& environment);

/// What a process does in the folder.
enum class FolderUse {
  kLook,   ///< finds the files of others and reads them
  kEnter,  ///< puts files there, for others to find
};

/// What keeps this process from using `folder`, as words that begin with its name; empty: nothing
/// is known. For kEnter, it is not known whether the folder has room or may be written: the system
/// says so when a file is made there.
[[nodiscard]] std::string problem_with_shared_folder(const std::string& folder, FolderUse use);

/// What a user shall do about such a problem, as words that follow it.
[[nodiscard]] std::string advice_on_shared_folder();
/// The same about `error`, which a file in the folder met; empty: another folder does not help.
/// Pure.
[[nodiscard]] std::string advice_on_shared_file(int error);

/// What keeps this process from writing files of `size` bytes: EFBIG or 0, as far as its own limit
/// says (RLIMIT_FSIZE), beyond which a write is a signal that ends it.
[[nodiscard]] int problem_with_file_size(Bytes size);

}  // namespace superpipe
