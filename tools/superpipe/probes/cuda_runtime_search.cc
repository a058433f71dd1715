#include "tools/superpipe/probes/cuda_runtime_search.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tools/superpipe/installation.h"

namespace superpipe::cli {

std::vector<std::string> cuda_library_candidates(const std::string& name) {
  std::vector<std::string> patterns;
  for (const char* const variable : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"}) {
    const char* const folder = std::getenv(variable);
    if (folder == nullptr || *folder == '\0') continue;
    patterns.push_back(std::string(folder) + "/lib64/" + name);
    patterns.push_back(std::string(folder) + "/lib/" + name);
  }
  patterns.push_back("/usr/local/cuda/lib64/" + name);
  patterns.push_back("/usr/local/cuda-*/lib64/" + name);
  patterns.push_back("/usr/local/cuda-*/targets/*/lib/" + name);
  patterns.push_back("/opt/cuda/lib64/" + name);

  // Python's packages: of the active environment, of the python3 on PATH, of the system.
  std::vector<std::string> prefixes;
  for (const char* const variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const folder = std::getenv(variable);
    if (folder != nullptr && *folder != '\0') prefixes.emplace_back(folder);
  }
  if (const std::string python = find_program("python3"); !python.empty()) {
    // Not the link's target: a virtual environment's python3 is a link out of it.
    prefixes.push_back(std::filesystem::path(python).parent_path().parent_path().string());
  }
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr", "/opt/conda"});
  if (const char* const home = std::getenv("HOME"); home != nullptr) {
    prefixes.push_back(std::string(home) + "/.local");
  }
  for (const std::string& prefix : prefixes) {
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      std::string pattern = prefix;
      pattern.append("/lib/python3*/").append(packages).append("/nvidia/*/lib/").append(name);
      patterns.push_back(std::move(pattern));
    }
  }

  std::vector<std::string> candidates = {name};
  for (const std::string& pattern : patterns) {
    glob_t found{};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      for (std::size_t i = 0; i < found.gl_pathc; ++i) candidates.emplace_back(found.gl_pathv[i]);
    }
    globfree(&found);
  }
  return candidates;
}

std::vector<std::string> cuda_runtime_candidates(int major) {
  return cuda_library_candidates("libcudart.so." + std::to_string(major));
}

std::string first_loadable(const std::vector<std::string>& candidates) {
  for (const std::string& candidate : candidates) {
    if (dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) return candidate;
  }
  return {};
}

}  // namespace superpipe::cli
