#include "tools/superpipe/probes/child_program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "policy/policy_engine.h"
#include "settings/settings.h"
#include "tools/superpipe/probes/session.h"
#include "tools/superpipe/run_environment.h"

extern char** environ;

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

// What the user set for other programs must not decide what is measured. Where processes find each
// other decides nothing, and another folder might not do.
void clear_superpipe_variables() {
  std::vector<std::string> names;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_setting = name.rfind("SUPERPIPE_", 0) == 0;
    if (is_setting && name != variable_of(SettingId::kSharedFolder)) names.emplace_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

// What else is preloaded stays: it is part of how programs run here.
void leave_out_of_preloads(const std::string& library) {
  const char* const old = std::getenv("LD_PRELOAD");
  std::string_view rest = old != nullptr ? old : "";
  std::string others;
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(": ");
    const std::string_view entry = rest.substr(0, end);
    if (!entry.empty() && entry != library) others.append(others.empty() ? "" : ":").append(entry);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  setenv("LD_PRELOAD", others.c_str(), 1);
}

void set_environment(const ProbeSetting& setting, ChildLibrary library) {
  clear_superpipe_variables();
  if (library == ChildLibrary::kNone) {
    leave_out_of_preloads(setting.parts.preload_library);
    return;
  }
  RunOptions options;
  if (setting.simulated) options.flag(SettingId::kSimulate) = "1";
  if (library != ChildLibrary::kManaging) {
    options.flag(SettingId::kPolicy) = name_of(PolicyKind::kResident);
  }
  apply(environment_changes(options, setting.parts, ""));
  setenv(variable_of(SettingId::kDriver), setting.driver_path.c_str(), 1);
  if (library == ChildLibrary::kManaging) setenv(variable_of(SettingId::kGpuMem), "50%", 1);
  unsetenv(variable_of(SettingId::kSummary));
}

[[noreturn]] void start(const ProbeSetting& setting, const std::vector<std::string>& words,
                        ChildLibrary library, int output, int said) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  dup2(said, STDERR_FILENO);
  set_environment(setting, library);
  std::vector<std::string> all = {"superpipe", kChildProgramWord};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  arguments.reserve(all.size() + 1);
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  _exit(126);
}

std::string contents_of(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
}

ChildEnd read_end(const std::string& output, const std::string& said, int status) {
  ChildEnd end;
  bool ended = false;
  std::string step = "starting";
  std::istringstream lines(output);
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    if (line.contains("figure")) end.figures[line.value("figure", "")] = line["value"];
    if (line.contains("step")) step = line.value("step", "");
    if (line.contains("end")) {
      ended = true;
      end.failure = line.value("end", "") == "failed" ? line.value("reason", "it failed") : "";
    }
  }
  if (!ended) {
    end.failure = WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                      : "ended with code " + std::to_string(WEXITSTATUS(status));
    end.failure += " while " + step;
  }
  if (!end.failure.empty() && !said.empty()) end.failure += "; it wrote: " + last_line(said);
  return end;
}

// Launches one kernel that does nothing, again and again, and says how long the calls took.
void launch_program(const std::vector<std::string>& words, const ProbeReport& report) {
  if (words.size() != 3) throw std::runtime_error("it takes a driver and a number of launches");
  ProbeSetting setting;
  setting.driver_path = words[1];
  const std::size_t wanted = std::strtoull(words[2].c_str(), nullptr, 10);
  // A launch queue of the driver's is never full: then a launch would wait for the device.
  constexpr std::size_t kBetweenWaits = 200;
  constexpr std::size_t kUntimed = 500;
  report.step("opening the device");
  Session session(setting);
  const Driver& cu = session.cu();
  std::array<CUdeviceptr, 4> buffers{};
  for (CUdeviceptr& buffer : buffers) cu.cuMemAlloc.must(&buffer, 2 * kMiB);
  const Stream stream(session);
  const CUfunction kernel = session.kernel("probe_nothing");
  std::array<void*, 4> arguments{&buffers[0], &buffers[1], &buffers[2], &buffers[3]};
  report.step("launching");
  std::vector<double> nanoseconds;
  nanoseconds.reserve(wanted);
  for (std::size_t i = 0; i < kUntimed + wanted; ++i) {
    const double seconds = host_seconds([&] {
      cu.cuLaunchKernel.must(kernel, 1, 1, 1, 32, 1, 1, 0, stream.get(), arguments.data(), nullptr);
    });
    if (i >= kUntimed) nanoseconds.push_back(seconds * 1e9);
    if (i % kBetweenWaits == kBetweenWaits - 1) stream.wait();
  }
  stream.wait();
  report.figure("launches", nanoseconds.size());
  report.figure("median_ns", quantile(nanoseconds, 0.5));
  report.figure("p99_ns", quantile(nanoseconds, 0.99));
  report.figure("library_present", dlsym(RTLD_DEFAULT, "superpipe_version") != nullptr);
}

// The CUDA runtime's functions that are needed; the numbers are part of its ABI.
class CudaRuntime {
 public:
  explicit CudaRuntime(const std::string& path) : library_(dlopen(path.c_str(), RTLD_NOW)) {
    if (library_ == nullptr) {
      const char* const why = dlerror();
      throw std::runtime_error(why != nullptr ? why : path + " cannot be loaded");
    }
  }
  template <typename... Arguments>
  void must(const char* name, Arguments... arguments) const {
    using Call = int (*)(Arguments...);
    const auto call = reinterpret_cast<Call>(dlsym(library_, name));
    if (call == nullptr) throw std::runtime_error(std::string("it has no ") + name);
    const int result = call(arguments...);
    if (result == 0) return;
    using GetName = const char* (*)(int);
    const auto get_name = reinterpret_cast<GetName>(dlsym(library_, "cudaGetErrorName"));
    const char* const text = get_name != nullptr ? get_name(result) : nullptr;
    throw std::runtime_error(std::string(name) + ": " + (text != nullptr ? text : "error") + " (" +
                             std::to_string(result) + ")");
  }

 private:
  void* library_;
};

// Starts the runtime library, and takes bytes to the device and back.
void runtime_program(const std::vector<std::string>& words, const ProbeReport& report) {
  constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;
  if (words.size() != 2) throw std::runtime_error("it takes a runtime library");
  report.step("loading the runtime library");
  const CudaRuntime runtime(words[1]);
  int version = 0;
  int count = 0;
  report.step("cudaRuntimeGetVersion");
  runtime.must("cudaRuntimeGetVersion", &version);
  report.figure("runtime_version", version);
  report.step("cudaGetDeviceCount");
  runtime.must("cudaGetDeviceCount", &count);
  report.figure("devices", count);
  std::size_t moved = 0;
  for (const std::size_t bytes : {std::size_t{4096}, 8 * kMiB}) {
    std::vector<unsigned char> sent(bytes);
    for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<unsigned char>(i * 131 + i / 977);
    std::vector<unsigned char> received(bytes);
    void* first = nullptr;
    void* second = nullptr;
    report.step("cudaMalloc");
    runtime.must("cudaMalloc", &first, bytes);
    runtime.must("cudaMalloc", &second, bytes);
    report.step("cudaMemcpy");
    runtime.must("cudaMemcpy", first, static_cast<const void*>(sent.data()), bytes, kHostToDevice);
    runtime.must("cudaMemcpy", second, static_cast<const void*>(first), bytes, kDeviceToDevice);
    runtime.must("cudaMemcpy", static_cast<void*>(received.data()),
                 static_cast<const void*>(second), bytes, kDeviceToHost);
    if (sent != received) throw std::runtime_error("the bytes that came back are others");
    moved += bytes;
    report.step("cudaFree");
    runtime.must("cudaFree", first);
    runtime.must("cudaFree", second);
  }
  report.figure("bytes_compared", moved);
  const auto ask = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  report.figure("library_present", ask("superpipe_version") != nullptr);
  if (void* const identity = ask("superpipe_pointer_identity_holds"); identity != nullptr) {
    report.figure("pointer_identity_holds", reinterpret_cast<int (*)()>(identity)() == 1);
  }
  if (void* const path = ask("superpipe_driver_path"); path != nullptr) {
    const char* const driver = reinterpret_cast<const char* (*)()>(path)();
    report.figure("driver_behind_the_library", driver != nullptr ? driver : "");
  }
}

}  // namespace

ChildEnd run_child_program(const ProbeSetting& setting, const std::vector<std::string>& words,
                           ChildLibrary library) {
  if (library != ChildLibrary::kNone) {
    if (switched_off())
      throw Skipped(std::string(variable_of(SettingId::kOff)) + "=1 is set; unset it");
    const std::string& file = setting.parts.preload_library;
    if (!is_readable_file(file)) throw Skipped("superpipe's own library is missing: " + file);
  }
  const int output = memfd_create("superpipe-output", MFD_CLOEXEC);
  const int said = memfd_create("superpipe-said", MFD_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) start(setting, words, library, output, said);
  if (child < 0) throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ChildEnd end = read_end(contents_of(output), contents_of(said), status);
  close(output);
  close(said);
  return end;
}

int child_program_main(const std::vector<std::string>& words) {
  const ProbeReport report(STDOUT_FILENO);
  try {
    if (!words.empty() && words.front() == "launch") {
      launch_program(words, report);
    } else if (!words.empty() && words.front() == "runtime") {
      runtime_program(words, report);
    } else {
      throw std::runtime_error("there is no such program");
    }
    report.line({{"end", "answered"}});
    return 0;
  } catch (const std::exception& failed) {
    report.line({{"end", "failed"}, {"reason", failed.what()}});
    return 1;
  }
}

}  // namespace superpipe::cli
