#include "tools/superpipe/installation.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace superpipe::cli {

Installation this_installation() {
  std::error_code error;
  const auto executable = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return installation_in(executable.parent_path().parent_path().string());
}

Installation installation_in(const std::string& prefix) {
  const auto bin = std::filesystem::path(prefix) / "bin";
  const auto lib = std::filesystem::path(prefix) / "lib" / "superpipe";
  const auto simgpu = lib / "simgpu";
  Installation parts{
      (lib / "libsuperpipe.so").string(),        simgpu.string(),
      (simgpu / "libcuda.so.1").string(),        (simgpu / "libcudart.so.13").string(),
      (simgpu / "libsimgpu_loader.so").string(), (simgpu / "libsimgpu_devices.so").string(),
      (bin / "superpipe.simgpu.so").string(),    (lib / "libsuperpipe.simgpu.so").string()};
  parts.prefix = prefix;
  return parts;
}

bool loader_can_name(const std::string& path) {
  return path.find_first_of(": ;") == std::string::npos;
}

bool is_readable_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), R_OK) == 0;
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  while (true) {
    const std::size_t end = rest.find(':');
    // An empty entry means the working folder.
    const std::string folder{end == 0 || rest.empty() ? "." : rest.substr(0, end)};
    std::string candidate = folder;
    candidate.append("/").append(program);
    struct stat status {};
    if (stat(candidate.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
}

}  // namespace superpipe::cli
