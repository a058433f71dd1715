// Asks the driver what a test wants to know, the way a runtime does: dlopen, dlsym, lookups.
//
//     driver_probe COMMAND [ARGUMENT]
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using Init = int (*)(unsigned);
using Lookup = int (*)(const char*, void**, int, std::uint64_t, int*);
using Allocate = int (*)(unsigned long long*, std::size_t);
using AllocatePitch = int (*)(unsigned long long*, std::size_t*, std::size_t, std::size_t,
                              unsigned);
using NoArguments = int (*)();

namespace {

void* library = nullptr;

void* symbol(const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    printf("missing %s\n", name);
    exit(1);
  }
  return found;
}

void* look_up(Lookup lookup, const char* name, int version, std::uint64_t flags) {
  void* function = nullptr;
  int status = -1;
  if (lookup(name, &function, version, flags, &status) != 0) return nullptr;
  return function;
}

/// Whether a lookup gave the function that the library exports as `exported`.
void expect(const char* what, void* got, const char* exported) {
  printf("%s %s\n", what, got != nullptr && got == dlsym(library, exported) ? "ours" : "other");
}

void lookups(void) {
  const auto lookup = reinterpret_cast<Lookup>(symbol("cuGetProcAddress_v2"));
  expect("alloc", look_up(lookup, "cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
  expect("launch", look_up(lookup, "cuLaunchKernel", 12000, 0), "cuLaunchKernel");
  expect("launch-ptsz", look_up(lookup, "cuLaunchKernel", 12000, 2), "cuLaunchKernel_ptsz");
  void* again = look_up(lookup, "cuGetProcAddress", 12000, 0);
  expect("itself", again, "cuGetProcAddress_v2");
  expect("itself-old", look_up(lookup, "cuGetProcAddress", 11030, 0), "cuGetProcAddress");
  // Through the pointer that the lookup gave, as a runtime does from then on.
  expect("alloc-again", look_up(reinterpret_cast<Lookup>(again), "cuMemAlloc", 12000, 0),
         "cuMemAlloc_v2");
  // A function that only passes is the driver's own.
  expect("pass", look_up(lookup, "cuDriverGetVersion", 2020, 0), "cuDriverGetVersion");
  void* newer = look_up(lookup, "cuNewInTheNextVersion", 14000, 0);
  printf("newer %s\n", newer != nullptr ? "passes" : "lost");
  printf("absent %s\n", look_up(lookup, "cuMakeCoffee", 12000, 0) == nullptr ? "null" : "found");
  const auto identity = reinterpret_cast<NoArguments>(symbol("superpipe_pointer_identity_holds"));
  printf("identity %d\n", identity());
}

/// A form of a function that is newer than any header, twice, and an old one beside it.
void newer_form() {
  using Allocate99 = int (*)(std::size_t, unsigned long long*);
  const auto lookup = reinterpret_cast<Lookup>(symbol("cuGetProcAddress_v2"));
  void* newer = nullptr;
  for (int i = 0; i < 2; ++i) newer = look_up(lookup, "cuMemAlloc", 14000, 0);
  unsigned long long address = 0;
  const int result = newer == nullptr ? -1 : reinterpret_cast<Allocate99>(newer)(64, &address);
  printf("newer %d %s\n", result, address != 0 ? "allocated" : "nothing");
  expect("alloc", look_up(lookup, "cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
  expect("launch", look_up(lookup, "cuLaunchKernel", 14000, 0), "cuLaunchKernel");
  const auto identity = reinterpret_cast<NoArguments>(symbol("superpipe_pointer_identity_holds"));
  printf("identity %d\n", identity());
}

void allocate() {
  const auto allocate = reinterpret_cast<Allocate>(symbol("cuMemAlloc_v2"));
  for (int i = 0; i < 2; ++i) {
    unsigned long long address = 0;
    const int result = allocate(&address, 4 << 20);
    printf("alloc %d %s\n", result, address != 0 ? "something" : "nothing");
  }
}

/// Opens the driver as `name`, and with `both` then by its own name too.
int open_driver(const char* name, bool both) {
  library = dlopen(name, RTLD_NOW);
  if (library == nullptr) {
    printf("%s\n", dlerror());
    return 1;
  }
  const int result = reinterpret_cast<Init>(symbol("cuInit"))(0);
  if (both) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    reinterpret_cast<Init>(symbol("cuInit"))(0);
  }
  printf("init %d\n", result);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const char* command = count > 1 ? arguments[1] : "";
  if (strcmp(command, "environment") == 0) {
    const char* value = getenv(arguments[2]);
    printf("%s\n", value == nullptr ? "(unset)" : value);
    return 0;
  }
  if (strcmp(command, "open") == 0) return open_driver(arguments[2], false);
  if (strcmp(command, "open-both") == 0) return open_driver(arguments[2], true);
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    printf("no library\n");
    return 1;
  }
  if (strcmp(command, "lookups") == 0) {
    lookups();
  } else if (strcmp(command, "newer-form") == 0) {
    newer_form();
  } else if (strcmp(command, "allocate") == 0) {
    allocate();
  } else if (strcmp(command, "init") == 0) {
    const auto lookup = reinterpret_cast<Lookup>(symbol("cuGetProcAddress_v2"));
    const auto init = reinterpret_cast<Init>(look_up(lookup, "cuInit", 2000, 0));
    printf("init %d\n", init == nullptr ? -1 : init(0));
  } else if (strcmp(command, "end-with") == 0) {
    // As a program of a framework: with a library of it, if one is named, and an exit code.
    if (count > 3 && dlopen(arguments[3], RTLD_NOW) == nullptr) printf("no %s\n", arguments[3]);
    reinterpret_cast<Init>(symbol("cuInit"))(0);
    if (count > 4) setenv("PYTORCH_CUDA_ALLOC_CONF", arguments[4], 1);
    return atoi(arguments[2]);
  } else if (strcmp(command, "call") == 0) {
    printf("call %d\n", reinterpret_cast<NoArguments>(symbol(arguments[2]))());
  } else if (strcmp(command, "reenter") == 0) {
    unsigned long long address = 0;
    size_t pitch = 0;
    const int result =
        reinterpret_cast<AllocatePitch>(symbol("cuMemAllocPitch_v2"))(&address, &pitch, 64, 4, 4);
    printf("reenter %d pitch %zu\n", result, pitch);
  } else if (strcmp(command, "fork") == 0) {
    unsigned long long address = 0;
    const auto allocate = reinterpret_cast<Allocate>(symbol("cuMemAlloc_v2"));
    printf("parent %d\n", allocate(&address, 64));
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      printf("child %d\n", allocate(&address, 64));
      exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("status %d\n", status);
  }
  return 0;
}
