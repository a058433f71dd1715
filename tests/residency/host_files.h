// A folder with the files in which the kernel tells of host memory, as tests want them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "policy/units.h"
#include "tests/temporary_folder.h"

namespace superpipe {

/// A root for read_host_memory(), removed at the end. It has no file at first.
class HostFiles {
 public:
  HostFiles() { root_ = make_temporary_folder("host-files"); }
  ~HostFiles() { std::filesystem::remove_all(root_); }
  HostFiles(const HostFiles&) = delete;
  HostFiles& operator=(const HostFiles&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }

  void write(const std::string& path, const std::string& text) const {
    const auto file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  /// Of sixteen GiB in all.
  void set_available(Bytes available) const {
    write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: " +
                              std::to_string(available.count() >> 10) + " kB\n");
  }

 private:
  std::string root_;
};

}  // namespace superpipe
