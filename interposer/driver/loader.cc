#include "interposer/driver/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "interposer/driver/hook_scope.h"
#include "interposer/driver/table.h"
#include "interposer/log.h"
#include "interposer/process_configuration.h"
#include "policy/requirements.h"
#include "settings/settings.h"

namespace superpipe {
namespace {

constexpr char kSoname[] = "libcuda.so.1";

/// What a user without a driver can do.
std::string advice() {
  return std::string("install the NVIDIA driver, name one with ") +
         variable_of(SettingId::kDriver) + "=/path/" + kSoname + ", or use 'superpipe run " +
         setting(SettingId::kSimulate).flag + "'";
}

bool is_file(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_same_file(const std::string& left, const std::string& right) {
  struct stat a;
  struct stat b;
  return ::stat(left.c_str(), &a) == 0 && ::stat(right.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

/// The toolkit ships a library to link against that exports the driver's names and works nowhere.
bool is_link_time_stub(const std::string& path) {
  return path.find("/stubs/") != std::string::npos;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string own_file() {
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&find_driver), &info) == 0) return {};
  return info.dli_fname == nullptr ? std::string() : std::string(info.dli_fname);
}

struct LoadedDriver {
  std::string path;
  std::array<void*, kDriverFunctionCount> functions{};
};

// Never destroyed: calls may come from other libraries' destructors at exit.
std::atomic<const LoadedDriver*> loaded_driver{nullptr};
std::atomic<bool> load_begun{false};
std::atomic<bool> load_attempted{false};
std::atomic<bool> is_too_old{false};
std::mutex& load_mutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

std::string& pending_line() {
  static auto* const line = new std::string;
  return *line;
}

void (*when_looked_for)() noexcept = nullptr;

// The driver's own constructors may call cu* functions while dlopen runs in this thread.
constinit thread_local bool loading_in_this_thread = false;

constinit thread_local int optional_calls = 0;

/// What cuDriverGetVersion says; 0: nothing.
int version_of(void* driver) {
  const auto get_version =
      reinterpret_cast<CUresult (*)(int*)>(::dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  return get_version != nullptr && get_version(&version) == CUDA_SUCCESS ? version : 0;
}

/// What is wrong with a driver of that version, behind its name.
std::string too_old(int version) {
  return "is " + (version > 0 ? "of CUDA " + cuda_version(version) : std::string("too old")) +
         ", and CUDA " + cuda_version(kOldestDriver) + " (driver " + kOldestDriverPackage +
         ") or newer is needed";
}

bool has_driver_name(std::string_view name) { return name.rfind("libcuda.so", 0) == 0; }

/// The name that a loaded library gives itself; empty: none.
std::string_view soname_of(const struct dl_phdr_info& info) {
  const ElfW(Dyn)* entry = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type != PT_DYNAMIC) continue;
    entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + segment.p_vaddr);
  }
  ElfW(Addr) strings = 0;
  std::optional<ElfW(Xword)> name;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) name = entry->d_un.d_val;
  }
  if (strings == 0 || !name) return {};
  // The loader has made an address of it, but not for what the kernel maps (the vDSO).
  if (strings < info.dlpi_addr) strings += info.dlpi_addr;
  return reinterpret_cast<const char*>(strings + *name);
}

void say_foreign_driver(const std::string& path) {
  static auto* const mutex = new std::mutex;
  static auto* const said = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (!said->insert(path).second) return;
  log_line(LogLevel::kWarning,
           "the program opened the driver past superpipe (" + path +
               "): what it does through that is not managed; have it open " + kSoname +
               ", or start it with 'superpipe run', under which libcuda.so is superpipe too");
}

/// Opens `path` and takes all functions from it. @return what is wrong with it, if anything.
std::optional<std::string> open_driver(const std::string& path, LoadedDriver& driver) {
  int flags = RTLD_NOW | RTLD_LOCAL;
#if !defined(SUPERPIPE_SANITIZES_ADDRESS) && !defined(SUPERPIPE_SANITIZES_THREAD)
  if (!is_linked_symbolically(path)) flags |= RTLD_DEEPBIND;
#endif
  void* const handle = ::dlopen(path.c_str(), flags);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return std::string("cannot be opened: ") + (reason == nullptr ? "unknown reason" : reason);
  }
  if (::dlsym(handle, "cuInit") == nullptr) {
    ::dlclose(handle);
    return std::string("is no CUDA driver (it lacks cuInit)");
  }
  // Drivers of CUDA 11 do not have it, so that what we hook cannot be told from what they return.
  if (::dlsym(handle, "cuGetProcAddress_v2") == nullptr) {
    const std::string problem = too_old(version_of(handle));
    if (process_configuration().strict) {
      ::dlclose(handle);
      return problem + "; SUPERPIPE_STRICT=1, so it is not used";
    }
    is_too_old.store(true, std::memory_order_relaxed);
    if (!hooks_disabled.exchange(true)) {
      log_line(LogLevel::kError,
               "the driver " + path + ' ' + problem + "; the program runs without superpipe");
    }
  }
  driver.path = path;
  for (std::size_t i = 0; i < kDriverFunctionCount; ++i) {
    driver.functions[i] = ::dlsym(handle, kDriverFunctionNames[i]);
  }
  return std::nullopt;
}

/// REQUIRES: load_mutex() held.
void load_driver() {
  if (load_attempted.load(std::memory_order_acquire)) return;
  loading_in_this_thread = true;
  if (!pending_line().empty()) log_line(LogLevel::kError, pending_line());
  const FoundDriver found = find_driver(search_of_process());
  if (found.path.empty()) {
    log_line(LogLevel::kError, found.problem);
  } else {
    // It is the same library then, and does not look like another one later.
    void* const opened_before = ::dlopen(found.path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (opened_before != nullptr) {
      ::dlclose(opened_before);
      if (!hooks_disabled.load()) say_foreign_driver(found.path);
    }
    auto* const driver = new LoadedDriver;
    if (const auto problem = open_driver(found.path, *driver)) {
      log_line(LogLevel::kError, found.path + " " + *problem + "; " + advice());
      delete driver;
    } else {
      for (std::size_t i = 0; i < kDriverFunctionCount; ++i) {
        if (driver->functions[i] != nullptr) {
          __atomic_store_n(driver_slot(i), driver->functions[i], __ATOMIC_RELEASE);
        }
      }
      loaded_driver.store(driver, std::memory_order_release);
      log_line(LogLevel::kInfo, "driver: " + found.path);
    }
  }
  if (when_looked_for != nullptr) when_looked_for();
  loading_in_this_thread = false;
  load_attempted.store(true, std::memory_order_release);
}

template <typename T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&value), sizeof value));
}

}  // namespace

std::vector<std::string> paths_in_loader_cache(const std::string& cache_file,
                                               const std::string& name, Processor processor) {
  struct Header {
    std::array<char, 20> magic;
    std::uint32_t entries;
    std::uint32_t string_bytes;
    std::array<std::uint32_t, 5> unused;
  };
  struct Entry {
    std::int32_t flags;
    std::uint32_t key;
    std::uint32_t value;
    std::uint32_t os_version;
    std::uint64_t hardware;
  };
  static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  // FLAG_X8664_LIB64 or FLAG_AARCH64_LIB64, each with FLAG_ELF_LIBC6.
  const std::int32_t wanted_flags = processor == Processor::kAarch64 ? 0x0a03 : 0x0303;

  std::ifstream file(cache_file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t start = text.find(kMagic);
  std::vector<std::string> paths;
  if (start == std::string::npos || text.size() - start < sizeof(Header)) return paths;
  Header header;
  std::memcpy(&header, text.data() + start, sizeof header);
  const std::size_t room = text.size() - start - sizeof header;
  if (header.entries > room / sizeof(Entry)) return paths;
  const auto string_at = [&](std::uint32_t offset) {
    if (offset >= text.size() - start) return std::string();
    const std::size_t end = text.find('\0', start + offset);
    return end == std::string::npos ? std::string()
                                    : text.substr(start + offset, end - start - offset);
  };
  for (std::uint32_t i = 0; i < header.entries; ++i) {
    Entry entry;
    std::memcpy(&entry, text.data() + start + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.flags == wanted_flags && string_at(entry.key) == name) {
      paths.push_back(string_at(entry.value));
    }
  }
  return paths;
}

bool is_linked_symbolically(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(file, header.e_phoff + i * sizeof segment, segment)) return false;
    if (segment.p_type != PT_DYNAMIC) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
         at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!read_at(file, segment.p_offset + at, entry) || entry.d_tag == DT_NULL) return false;
      if (entry.d_tag == DT_SYMBOLIC) return true;
      if (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_SYMBOLIC) != 0) return true;
    }
  }
  return false;
}

FoundDriver find_driver(const DriverSearch& search) {
  if (!search.chosen.empty()) {
    const std::string chosen = std::string(variable_of(SettingId::kDriver)) + '=' + search.chosen;
    if (!is_file(search.chosen)) {
      return {"", chosen + ": no such file; " + advice()};
    }
    if (is_same_file(search.chosen, search.own_file)) {
      return {"", chosen + ": this is superpipe itself; name the real driver"};
    }
    // dlopen searches for a name without a slash: make it a path.
    if (search.chosen.find('/') == std::string::npos) return {"./" + search.chosen, ""};
    return {search.chosen, ""};
  }
  std::vector<std::string> candidates;
  for (const std::string& folder : split(search.library_path, ':')) {
    candidates.push_back(folder + "/" + kSoname);
  }
  for (std::string& path : paths_in_loader_cache(search.cache_file, kSoname, search.processor)) {
    candidates.push_back(std::move(path));
  }
  for (const std::string& folder : search.folders) candidates.push_back(folder + "/" + kSoname);
  for (const std::string& path : candidates) {
    if (is_file(path) && !is_same_file(path, search.own_file) && !is_link_time_stub(path)) {
      return {path, ""};
    }
  }
  return {"", std::string("no CUDA driver (") + kSoname + ") found; " + advice()};
}

std::vector<std::string> driver_folders(Processor processor) {
  const bool is_arm = processor == Processor::kAarch64;
  const std::string multiarch = is_arm ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  std::vector<std::string> folders = {"/usr/lib/" + multiarch, "/lib/" + multiarch};
  if (is_arm) {
    folders.push_back("/usr/lib/" + multiarch + "/nvidia");
    folders.push_back("/usr/lib/" + multiarch + "/tegra");
  }
  for (const char* const folder :
       {"/usr/lib64", "/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/cuda/compat"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

DriverSearch search_of_process() {
  DriverSearch search;
  search.chosen = environment(variable_of(SettingId::kDriver));
  search.library_path = environment("LD_LIBRARY_PATH");
  search.cache_file = "/etc/ld.so.cache";
  search.folders = driver_folders(search.processor);
  search.own_file = own_file();
  return search;
}

void* resolve_driver_function(std::size_t index) noexcept {
  if (loading_in_this_thread) return nullptr;
  if (!load_attempted.load(std::memory_order_acquire)) {
    try {
      load_begun.store(true, std::memory_order_release);
      const std::lock_guard lock(load_mutex());
      load_driver();
    } catch (...) {
      // Out of memory while the program starts: it sees a machine without a driver.
      loading_in_this_thread = false;
      load_attempted.store(true, std::memory_order_release);
    }
  }
  const LoadedDriver* const driver = loaded_driver.load(std::memory_order_acquire);
  return driver == nullptr ? nullptr : driver->functions[index];
}

CUresult answer_without_function(std::size_t index) noexcept {
  const LoadedDriver* const driver = loaded_driver.load(std::memory_order_acquire);
  if (driver == nullptr) {
    const std::string_view name = kDriverFunctionNames[index];
    return name == "cuInit" ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_NOT_INITIALIZED;
  }
  static std::array<std::atomic<bool>, kDriverFunctionCount> said{};
  if (optional_calls == 0 && !said[index].exchange(true)) {
    log_line(LogLevel::kWarning,
             std::string(kDriverFunctionNames[index]) +
                 " was called, but the driver does not have it: CUDA_ERROR_NOT_SUPPORTED");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

OptionalCalls::OptionalCalls() noexcept { ++optional_calls; }
OptionalCalls::~OptionalCalls() { --optional_calls; }

void say_when_driver_loads(std::string text) { pending_line() = std::move(text); }

void call_when_driver_is_looked_for(void (*function)() noexcept) { when_looked_for = function; }

const std::string& loaded_driver_path() noexcept {
  static const auto* const none = new std::string;
  const LoadedDriver* const driver = loaded_driver.load(std::memory_order_acquire);
  return driver == nullptr ? *none : driver->path;
}

bool driver_is_too_old() noexcept { return is_too_old.load(std::memory_order_relaxed); }

bool driver_was_looked_for() noexcept { return load_begun.load(std::memory_order_acquire); }

bool driver_is_loaded() noexcept {
  return loaded_driver.load(std::memory_order_acquire) != nullptr;
}

bool say_foreign_drivers() {
  struct Search {
    std::vector<std::string> found;
    std::string ours = own_file();
  } search;
  ::dl_iterate_phdr(
      [](struct dl_phdr_info* info, std::size_t /*size*/, void* data) {
        auto& state = *static_cast<Search*>(data);
        const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const bool is_driver =
            has_driver_name(path.substr(path.rfind('/') + 1)) || has_driver_name(soname_of(*info));
        if (is_driver && !path.empty() && !is_same_file(path, state.ours) &&
            !is_same_file(path, loaded_driver_path())) {
          state.found.push_back(path);
        }
        return 0;
      },
      &search);
  for (const std::string& path : search.found) say_foreign_driver(path);
  return !search.found.empty();
}

}  // namespace superpipe
