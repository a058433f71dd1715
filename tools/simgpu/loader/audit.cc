// libsimgpu_loader.so: has the dynamic loader open simgpu's libraries in place of NVIDIA's.
//
// A framework's libraries name the folder of NVIDIA's ones themselves (DT_RPATH, or an absolute
// path), which comes before all that LD_LIBRARY_PATH says. The loader asks a library that LD_AUDIT
// names about each name that it is about to look for (rtld-audit(7)): what simgpu has a stand-in
// for is opened from the folder that this library lies in, by whatever name and path it was asked
// for, and in processes that open none of it nothing is loaded.
//
// A library of NVIDIA's that simgpu has none of is looked for in the packages of the same Python
// environment, nvidia/*/lib, if one alone has it: TensorFlow's wheel does not name all folders of
// those that it opens. Where several have it, of CUDA 12 and 13, the loader finds the one that the
// library that asks was built for.
//
// The driver itself, libcuda.so.1, is not among these: superpipe stands in front of it, and is
// found by that name. The library lives in a namespace of its own, with a C library of its own.
//
// None of dladdr(), dlsym() and the like is called: before glibc 2.34 they take a loader that is
// still starting for one that is not there, and jump to nowhere.
#include <dirent.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/simgpu/export.h"

namespace simgpu::loader {
namespace {

constexpr std::size_t kMostStandIns = 64;

/// For dl_iterate_phdr(): has `path`, a const char*, name the file of this library, and then stops.
int find_own_path(dl_phdr_info* library, std::size_t /*size*/, void* path) {
  const std::uintptr_t own = reinterpret_cast<std::uintptr_t>(&kMostStandIns) - library->dlpi_addr;
  for (unsigned i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || own - segment.p_vaddr >= segment.p_memsz) continue;
    *static_cast<const char**>(path) = library->dlpi_name;
    return 1;
  }
  return 0;
}

/// The stand-ins of one folder. Not thread-safe until read() has returned, and then it is.
class StandIns {
 public:
  /// Lists the libraries in the folder of this one. Where it cannot, there are none.
  void read() {
    const char* own_path = nullptr;
    if (::dl_iterate_phdr(find_own_path, static_cast<void*>(&own_path)) == 0) return;
    const char* const slash = std::strrchr(own_path, '/');
    if (slash == nullptr) return;
    const auto folder_size = static_cast<std::size_t>(slash - own_path) + 1;
    char* const folder = ::strndup(own_path, folder_size);
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

  /// The path of the stand-in for the library `name`, which may have a folder before it, and more
  /// digits of a version behind it or none at all (then it is the newest); null if there is none.
  [[nodiscard]] const char* path_for(const char* name) const {
    const char* const file = file_of(name);
    const std::size_t given = std::strlen(file);
    const char* newest = nullptr;
    for (std::size_t i = 0; i < count_; ++i) {
      const StandIn& known = found_[i];
      const std::size_t size = std::strlen(known.name);
      const bool agrees = std::strncmp(file, known.name, size < given ? size : given) == 0;
      if (agrees && given >= size && (file[size] == '\0' || file[size] == '.')) return known.path;
      const bool has_no_version = agrees && given > 3 && std::strcmp(file + given - 3, ".so") == 0;
      if (!has_no_version || known.name[given] != '.') continue;
      if (newest == nullptr || std::strcmp(known.path, newest) > 0) newest = known.path;
    }
    return newest;
  }

  static const char* file_of(const char* name) {
    const char* const slash = std::strrchr(name, '/');
    return slash != nullptr ? slash + 1 : name;
  }

 private:
  struct StandIn {
    const char* path = nullptr;
    const char* name = nullptr;  ///< within path
  };

  // "libcublas.so.13" and the like: a name with one version, and not the driver's.
  static bool is_stand_in(const char* name) {
    const char* const ending = std::strstr(name, ".so.");
    return std::strncmp(name, "lib", 3) == 0 && ending != nullptr &&
           std::strchr(ending + 4, '.') == nullptr && std::strcmp(name, "libcuda.so.1") != 0;
  }

  StandIn found_[kMostStandIns]{};
  std::size_t count_ = 0;
};

constinit StandIns stand_ins{};

bool begins_with(const char* text, const char* start) {
  return std::strncmp(text, start, std::strlen(start)) == 0;
}

/// Where the library `name` lies in the one of NVIDIA's packages that has it, beside the file at
/// `requester`; null if none has, or several have, or the name has a folder before it. The text
/// stays, as the loader needs it for a while.
const char* path_in_packages(const char* name, const char* requester) {
  const bool is_nvidias =
      begins_with(name, "libcu") || begins_with(name, "libnv") || begins_with(name, "libnccl");
  if (!is_nvidias || begins_with(name, "libcuda.so") || std::strchr(name, '/') != nullptr) {
    return nullptr;
  }
  constexpr char kPackages[] = "/site-packages/";
  const char* const at = std::strstr(requester, kPackages);
  if (at == nullptr) return nullptr;
  const int size =
      static_cast<int>(at - requester + static_cast<std::ptrdiff_t>(sizeof(kPackages)) - 1);
  char path[PATH_MAX];
  std::snprintf(path, sizeof(path), "%.*snvidia", size, requester);
  DIR* const stream = ::opendir(path);
  if (stream == nullptr) return nullptr;
  char found[PATH_MAX];
  int count = 0;
  while (const dirent* const entry = ::readdir(stream)) {
    std::snprintf(path, sizeof(path), "%.*snvidia/%s/lib/%s", size, requester, entry->d_name, name);
    if (entry->d_name[0] == '.' || ::access(path, R_OK) != 0) continue;
    std::memcpy(found, path, sizeof(found));
    ++count;
  }
  ::closedir(stream);
  return count == 1 ? ::strdup(found) : nullptr;
}

}  // namespace

/// Called first, with the newest version of the interface that the loader has: what is used of it
/// is the same in all.
SIMGPU_EXPORT unsigned la_version(unsigned version) {
  stand_ins.read();
  return version;
}

/// Called before a library is looked for, with the name as it was asked for, and then for each
/// path that is tried. `*cookie`: the link map of the library that asks, as the loader puts it
/// there. @return what to look for: the path of a stand-in, or of a library in a package, or
/// `name`.
SIMGPU_EXPORT char* la_objsearch(const char* name, std::uintptr_t* cookie, unsigned flag) {
  const char* path = nullptr;
  if (flag == LA_SER_ORIG) {
    path = stand_ins.path_for(name);
    const auto* const asks = reinterpret_cast<const link_map*>(*cookie);
    if (path == nullptr && asks != nullptr) path = path_in_packages(name, asks->l_name);
  }
  return const_cast<char*>(path != nullptr ? path : name);
}

}  // namespace simgpu::loader
