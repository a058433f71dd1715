// Where a test puts its files.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace superpipe {

/// Makes an empty folder of a name that begins with `name`, in the folder that TMPDIR names: ctest
/// gives each test one of its own there. The caller removes it.
inline std::string make_temporary_folder(const std::string& name) {
  std::string path = (std::filesystem::temp_directory_path() / (name + ".XXXXXX")).string();
  return ::mkdtemp(path.data()) == nullptr ? std::string() : path;
}

}  // namespace superpipe
