// libsimgpu_loader.so: has the dynamic loader open simgpu's libraries in place of NVIDIA's.
//
// A framework's libraries name the folder of NVIDIA's ones themselves (DT_RPATH, or an absolute
// path), which comes before all that LD_LIBRARY_PATH says. The loader asks a library that LD_AUDIT
// names about each name that it is about to look for (rtld-audit(7)): what simgpu has a stand-in
// for is opened from the folder that this library lies in, by whatever name and path it was asked
// for, and in processes that open none of it nothing is loaded.
//
// The driver itself, libcuda.so.1, is not among these: superpipe stands in front of it, and is
// found by that name. The library lives in a namespace of its own, with a C library of its own.
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/export.h"

namespace simgpu::loader {
namespace {

constexpr std::size_t kMostStandIns = 64;

/// The stand-ins of one folder. Not thread-safe until read() has returned, and then it is.
class StandIns {
 public:
  /// Lists the libraries in the folder of this one. Where it cannot, there are none.
  void read() {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void*>(&kMostStandIns), &self) == 0) return;
    const char* const slash = std::strrchr(self.dli_fname, '/');
    if (slash == nullptr) return;
    const auto folder_size = static_cast<std::size_t>(slash - self.dli_fname) + 1;
    char* const folder = ::strndup(self.dli_fname, folder_size);
    DIR* const stream = folder != nullptr ? ::opendir(folder) : nullptr;
    while (const dirent* const entry = stream != nullptr ? ::readdir(stream) : nullptr) {
      if (!is_stand_in(entry->d_name)) continue;
      const std::size_t size = folder_size + std::strlen(entry->d_name) + 1;
      auto* const path = static_cast<char*>(std::malloc(size));
      if (path == nullptr || count_ == kMostStandIns) break;
      std::memcpy(path, folder, folder_size);
      std::memcpy(path + folder_size, entry->d_name, size - folder_size);
      found_[count_++] = {path, path + folder_size};
    }
    if (stream != nullptr) ::closedir(stream);
    std::free(folder);
  }

  /// The path of the stand-in for the library `name`, which may have a folder before it and more
  /// digits of a version behind it; null if there is none.
  [[nodiscard]] const char* path_for(const char* name) const {
    const char* const slash = std::strrchr(name, '/');
    const char* const file = slash != nullptr ? slash + 1 : name;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t size = std::strlen(found_[i].name);
      if (std::strncmp(file, found_[i].name, size) != 0) continue;
      if (file[size] == '\0' || file[size] == '.') return found_[i].path;
    }
    return nullptr;
  }

 private:
  struct StandIn {
    const char* path = nullptr;
    const char* name = nullptr;  ///< within path
  };

  // "libcublas.so.13" and the like: a name with one version, but for the driver's.
  static bool is_stand_in(const char* name) {
    const char* const ending = std::strstr(name, ".so.");
    return std::strncmp(name, "lib", 3) == 0 && ending != nullptr &&
           std::strchr(ending + 4, '.') == nullptr && std::strcmp(name, "libcuda.so.1") != 0;
  }

  StandIn found_[kMostStandIns]{};
  std::size_t count_ = 0;
};

constinit StandIns stand_ins{};

}  // namespace

/// Called first, with the newest version of the interface that the loader has.
SIMGPU_EXPORT unsigned la_version(unsigned version) {
  stand_ins.read();
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

/// Called before a library is looked for, with the name as it was asked for, and then for each
/// path that is tried. @return what to look for: the path of a stand-in, or `name`.
SIMGPU_EXPORT char* la_objsearch(const char* name, std::uintptr_t* /*cookie*/, unsigned flag) {
  const char* const path = flag == LA_SER_ORIG ? stand_ins.path_for(name) : nullptr;
  return const_cast<char*>(path != nullptr ? path : name);
}

}  // namespace simgpu::loader
