#include "tools/superpipe/probes/driver.h"

#include <dlfcn.h>

namespace superpipe::cli {
namespace {

CallInProgress* noted_in = nullptr;

#define SUPERPIPE_TEXT_OF(name) #name
// The second step expands cuda.h's renaming, so that "cuMemAlloc_v2" is looked up for cuMemAlloc.
#define SUPERPIPE_TEXT(name) SUPERPIPE_TEXT_OF(name)

}  // namespace

namespace detail {
void begin_call(const char* name) {
  if (noted_in != nullptr) noted_in->store(name, std::memory_order_relaxed);
}

void throw_missing(const char* name) {
  throw NotSupported(std::string("the driver exports no ") + name);
}

void throw_failure(const char* name, CUresult result, ErrorNamer namer) {
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    throw NotSupported(std::string(name) + " answers CUDA_ERROR_NOT_SUPPORTED");
  }
  throw CallFailed(name, result, cli::name_of(namer, result));
}
}  // namespace detail

void note_calls_in(CallInProgress* place) { noted_in = place; }

std::string name_of(ErrorNamer namer, CUresult code) {
  const char* name = nullptr;
  if (namer != nullptr && namer(code, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "error " + std::to_string(code);
}

Driver::Driver(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    const char* const why = dlerror();
    throw std::runtime_error(why != nullptr ? why : path + " cannot be loaded");
  }
  namer_ = reinterpret_cast<ErrorNamer>(dlsym(library_, "cuGetErrorName"));
#define SUPERPIPE_RESOLVE(name) \
  name.set(SUPERPIPE_TEXT(name), dlsym(library_, SUPERPIPE_TEXT(name)), namer_);
  SUPERPIPE_PROBE_FUNCTIONS(SUPERPIPE_RESOLVE)
#undef SUPERPIPE_RESOLVE
  cuEventElapsedTime.set("cuEventElapsedTime", dlsym(library_, "cuEventElapsedTime"), namer_);
}

void* Driver::symbol(const char* name) const { return dlsym(library_, name); }

}  // namespace superpipe::cli
