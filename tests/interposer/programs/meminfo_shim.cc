// Preloaded in front of a program, has it read another file in place of /proc/meminfo, so that a
// test decides how much memory the host has: the one that MEMINFO names, and the one that
// MEMINFO_AT_FIRST names when it reads for the first time.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) FILE* fopen64(const char* path,
                                                                const char* mode) {
  static std::atomic<bool> is_first{true};
  using Open = FILE* (*)(const char*, const char*);
  static const Open open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "fopen64"));
  if (std::strcmp(path, "/proc/meminfo") != 0) return open(path, mode);
  const char* first = is_first.exchange(false) ? std::getenv("MEMINFO_AT_FIRST") : nullptr;
  const char* instead = first != nullptr ? first : std::getenv("MEMINFO");
  return open(instead != nullptr ? instead : path, mode);
}
