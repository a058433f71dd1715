// Where the parts of this installation (or build tree, which has the same layout) lie.
#pragma once

#include <string>

namespace superpipe::cli {

/// Absolute paths of the parts beside the running command. They need not exist.
struct Installation {
  std::string preload_library;   ///< lib/superpipe/libsuperpipe.so
  std::string simgpu_folder;     ///< lib/superpipe/simgpu
  std::string simgpu_driver;     ///< lib/superpipe/simgpu/libcuda.so.1
  std::string simgpu_runtime;    ///< lib/superpipe/simgpu/libcudart.so.13
  std::string simgpu_loader;     ///< lib/superpipe/simgpu/libsimgpu_loader.so, for LD_AUDIT
  std::string simgpu_devices;    ///< lib/superpipe/simgpu/libsimgpu_devices.so, for LD_PRELOAD
  std::string doctor_kernels{};  ///< bin/superpipe.simgpu.so, the doctor's kernels for simgpu
  /// lib/superpipe/libsuperpipe.simgpu.so, the library's kernels for simgpu
  std::string library_kernels{};
  /// Where libcuda.so is a link to preload_library (folder_with_driver_link()); empty: nowhere.
  std::string driver_link_folder{};
  std::string prefix{};  ///< what bin and lib lie in
};

/// The installation that the running executable belongs to: <folder of the
/// executable>/../lib/superpipe.
///
/// Follows links, so that a link in ~/bin works. Empty paths if the executable cannot be found
/// (/proc is not mounted).
[[nodiscard]] Installation this_installation();

/// The installation whose command is `prefix`/bin/superpipe. `prefix`: an absolute path.
[[nodiscard]] Installation installation_in(const std::string& prefix);

/// Whether LD_PRELOAD, LD_AUDIT and LD_LIBRARY_PATH can name `path`: it has no space, colon or
/// semicolon.
[[nodiscard]] bool loader_can_name(const std::string& path);

/// Whether a regular file that this process may read lies at `path`.
[[nodiscard]] bool is_readable_file(const std::string& path);

/// Where `program` would be executed from: itself if it has a slash, else the first executable file
/// of that name on PATH, as execvp(3) looks for it. Empty if there is none.
[[nodiscard]] std::string find_program(const std::string& program);

}  // namespace superpipe::cli
