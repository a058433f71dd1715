// Asks the driver what a test wants to know, the way a runtime does: dlopen, dlsym, lookups.
//
//     driver_probe COMMAND [ARGUMENT]
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int (*Init)(unsigned);
typedef int (*Lookup)(const char*, void**, int, uint64_t, int*);
typedef int (*Allocate)(unsigned long long*, size_t);
typedef int (*AllocatePitch)(unsigned long long*, size_t*, size_t, size_t, unsigned);

static void* library;

static void* symbol(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    printf("missing %s\n", name);
    exit(1);
  }
  return found;
}

static void* look_up(Lookup lookup, const char* name, int version, uint64_t flags) {
  void* function = NULL;
  int status = -1;
  if (lookup(name, &function, version, flags, &status) != 0) return NULL;
  return function;
}

/// Whether a lookup gave the function that the library exports as `exported`.
static void expect(const char* what, void* got, const char* exported) {
  printf("%s %s\n", what, got != NULL && got == dlsym(library, exported) ? "ours" : "other");
}

static void lookups(void) {
  Lookup lookup = (Lookup)symbol("cuGetProcAddress_v2");
  expect("alloc", look_up(lookup, "cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
  expect("launch", look_up(lookup, "cuLaunchKernel", 12000, 0), "cuLaunchKernel");
  expect("launch-ptsz", look_up(lookup, "cuLaunchKernel", 12000, 2), "cuLaunchKernel_ptsz");
  void* again = look_up(lookup, "cuGetProcAddress", 12000, 0);
  expect("itself", again, "cuGetProcAddress_v2");
  expect("itself-old", look_up(lookup, "cuGetProcAddress", 11030, 0), "cuGetProcAddress");
  // Through the pointer that the lookup gave, as a runtime does from then on.
  expect("alloc-again", look_up((Lookup)again, "cuMemAlloc", 12000, 0), "cuMemAlloc_v2");
  // A function that only passes is the driver's own.
  expect("pass", look_up(lookup, "cuDriverGetVersion", 2020, 0), "cuDriverGetVersion");
  void* newer = look_up(lookup, "cuNewInTheNextVersion", 14000, 0);
  printf("newer %s\n", newer != NULL ? "passes" : "lost");
  printf("absent %s\n", look_up(lookup, "cuMakeCoffee", 12000, 0) == NULL ? "null" : "found");
  int (*identity)(void) = (int (*)(void))symbol("superpipe_pointer_identity_holds");
  printf("identity %d\n", identity());
}

int main(int count, char** arguments) {
  const char* command = count > 1 ? arguments[1] : "";
  if (strcmp(command, "environment") == 0) {
    const char* value = getenv(arguments[2]);
    printf("%s\n", value == NULL ? "(unset)" : value);
    return 0;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    printf("no library\n");
    return 1;
  }
  if (strcmp(command, "lookups") == 0) {
    lookups();
  } else if (strcmp(command, "init") == 0) {
    Lookup lookup = (Lookup)symbol("cuGetProcAddress_v2");
    Init init = (Init)look_up(lookup, "cuInit", 2000, 0);
    printf("init %d\n", init == NULL ? -1 : init(0));
  } else if (strcmp(command, "call") == 0) {
    printf("call %d\n", ((int (*)(void))symbol(arguments[2]))());
  } else if (strcmp(command, "reenter") == 0) {
    unsigned long long address = 0;
    size_t pitch = 0;
    const int result = ((AllocatePitch)symbol("cuMemAllocPitch_v2"))(&address, &pitch, 64, 4, 4);
    printf("reenter %d pitch %zu\n", result, pitch);
  } else if (strcmp(command, "fork") == 0) {
    unsigned long long address = 0;
    Allocate allocate = (Allocate)symbol("cuMemAlloc_v2");
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
