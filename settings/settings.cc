#include "settings/settings.h"

#include <algorithm>
#include <array>

#include "policy/budget.h"
#include "policy/policy_engine.h"

namespace superpipe {
namespace {

using Table = std::array<Setting, kSettingCount>;

// The headroom is the larger of the first two where none is given. One percent of a device of
// 140 GiB is more than half of a budget of 2 GiB: of a budget it is no more than the third.
constexpr char kLeastHeadroom[] = "64M";
constexpr char kHeadroomShare[] = "1%";
constexpr std::uint64_t kBudgetToHeadroom = 8;

std::string_view default_headroom_words() {
  static const std::string words = std::string("the larger of ") + kLeastHeadroom + " and " +
                                   kHeadroomShare +
                                   " of the device, at most an eighth of the budget";
  return words;
}

Table make_table() {
  using Id = SettingId;
  using Kind = SettingKind;
  return {{
      {.id = Id::kK,
       .kind = Kind::kCount,
       .group = SettingGroup::kPolicy,
       .variable = "SUPERPIPE_K",
       .flag = "--k",
       .placeholder = "N",
       .unit = "layers",
       .help = "Layers kept on the device"},
      {.id = Id::kKPrime,
       .kind = Kind::kCount,
       .group = SettingGroup::kPolicy,
       .variable = "SUPERPIPE_K_PRIME",
       .flag = "--k-prime",
       .placeholder = "N",
       .unit = "layers",
       .default_words = "k/2, at least 1",
       .help = "Layers that superpipeline-paper moves at a time, less than k"},
      {.id = Id::kGpuMem,
       .kind = Kind::kSize,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_GPU_MEM",
       .flag = "--gpu-mem",
       .placeholder = "SIZE",
       .whole = "the device",
       .default_words = "with auto and lru, what the device has free when its context is made",
       .help =
           "Device memory to use, the budget; naive and superpipeline-paper take the k that fits"},
      {.id = Id::kHeadroom,
       .kind = Kind::kSizeOrZero,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_HEADROOM",
       .flag = "--headroom",
       .placeholder = "SIZE",
       .whole = "the device",
       .default_words = default_headroom_words(),
       .simulated_value = "2M",
       .help =
           "Part of the budget that is kept free for what the driver takes without being asked, "
           "such as loaded modules and growing memory pools"},
      {.id = Id::kPolicy,
       .kind = Kind::kChoice,
       .group = SettingGroup::kPolicy,
       .variable = "SUPERPIPE_POLICY",
       .flag = "--policy",
       .placeholder = "NAME",
       .choices = {name_of(PolicyKind::kResident), name_of(PolicyKind::kNaive),
                   name_of(PolicyKind::kSuperpipeline), name_of(PolicyKind::kSuperpipelinePaper),
                   name_of(PolicyKind::kLru), name_of(PolicyKind::kAuto)},
       .default_words = "superpipeline with a k, auto with a budget; without either, superpipe run "
                        "takes auto and a preloaded library resident",
       .help = "What decides what stays on the device and what moves"},
      {.id = Id::kSimulate,
       .kind = Kind::kSwitch,
       .flag = "--simulate",
       .help = "Run on a simulated GPU (simgpu); never implied"},
      {.id = Id::kHostMem,
       .kind = Kind::kSize,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_HOST_MEM",
       .flag = "--host-mem",
       .placeholder = "SIZE",
       .whole = "the host's memory",
       .default_words = "what is available",
       .help = "Cap of the host memory that holds what is not on the device"},
      {.id = Id::kMinBuffer,
       .kind = Kind::kSize,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_MIN_BUFFER",
       .flag = "--min-buffer",
       .placeholder = "SIZE",
       .default_value = "1M",
       .help = "Smaller allocations stay on the device"},
      {.id = Id::kAllocator,
       .kind = Kind::kChoice,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_ALLOCATOR",
       .flag = "--allocator",
       .placeholder = "async|native",
       .choices = {"async", "native"},
       .default_value = "async",
       .help = "How PyTorch, TensorFlow and JAX allocate: async (each tensor by itself) or native "
               "(as without superpipe)"},
      {.id = Id::kOverflow,
       .kind = Kind::kChoice,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_OVERFLOW",
       .flag = "--overflow",
       .placeholder = "fail|allow",
       .choices = {"fail", "allow"},
       .default_value = "fail",
       .help = "Whether a launch that alone needs more than the budget fails or may exceed it"},
      {.id = Id::kWaitMs,
       .kind = Kind::kCount,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_WAIT_MS",
       .flag = "--wait-ms",
       .placeholder = "MS",
       .unit = "milliseconds",
       .default_value = "30000",
       .help = "Bound of every wait of superpipe's own"},
      {.id = Id::kFill,
       .kind = Kind::kChoice,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_FILL",
       .flag = "--fill",
       .placeholder = "zero|none",
       .choices = {"zero", "none"},
       .default_value = "none",
       .simulated_value = "zero",
       .help = "What new allocations read as: zero, or none (whatever was there)"},
      {.id = Id::kKernelWords,
       .kind = Kind::kChoice,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_KERNEL_WORDS",
       .flag = "--kernel-words",
       .placeholder = "known|all",
       .choices = {"known", "all"},
       .default_value = "known",
       .help =
           "Which words of the structs that PyTorch hands to its kernels may be pointers: those "
           "that are known to be, or all, should a kernel fail for memory that superpipe did "
           "not bring"},
      {.id = Id::kPin,
       .kind = Kind::kPinList,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_PIN",
       .flag = "--pin",
       .placeholder = "LIST",
       .help =
           "Buffers that never leave the device, should a kernel use them in a way that superpipe "
           "does not see: numbers, as the report of its failure has them (12,15-17), or sizes "
           "(8M,1M-2M,33554432B)"},
      {.id = Id::kEvicted,
       .kind = Kind::kChoice,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_EVICTED",
       .flag = "--evicted",
       .placeholder = "auto|unmapped",
       .choices = {"auto", "unmapped"},
       .later = {"host-mapped"},
       .default_value = "auto",
       .help = "What an evicted address is: in this version always unmapped"},
      {.id = Id::kWriteback,
       .kind = Kind::kChoice,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_WRITEBACK",
       .flag = "--writeback",
       .placeholder = "digest|always",
       .choices = {"digest", "always"},
       .default_value = "digest",
       .help = "What is copied back at an eviction: what has changed by a digest that the device "
               "computes, or everything"},
      {.id = Id::kMap,
       .kind = Kind::kChoice,
       .group = SettingGroup::kRare,
       .variable = "SUPERPIPE_MAP",
       .flag = "--map",
       .placeholder = "arrived|early",
       .choices = {"arrived", "early"},
       .default_value = "arrived",
       .help = "When what is brought is mapped at its address: when its content has arrived, or "
               "early, when the copy has begun, which spares a launch that waits for it some time; "
               "a kernel that uses it through a pointer which it read from device memory may then "
               "find old content"},
      {.id = Id::kReportMem,
       .kind = Kind::kChoice,
       .group = SettingGroup::kMemory,
       .variable = "SUPERPIPE_REPORT_MEM",
       .flag = "--report-mem",
       .placeholder = "auto|virtual|budget|real",
       .choices = {"auto", "virtual", "budget", "real"},
       .default_value = "auto",
       .help = "What programs are told of the device's memory, with one total wherever they ask: "
               "virtual (what device and host hold together), budget (what the budget leaves them "
               "of the device), real (the whole device), or auto (budget in a process that has "
               "vLLM, which fills all that it is told of, else virtual)"},
      {.id = Id::kLog,
       .kind = Kind::kLog,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_LOG",
       .flag = "--log",
       .placeholder = "LEVEL[:FILE]",
       .choices = {"debug", "info", "warning", "error", "off"},
       .default_value = "warning",
       .help = "Log to FILE, or to standard error, what is at least of LEVEL"},
      {.id = Id::kStats,
       .kind = Kind::kOutputFile,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_STATS",
       .flag = "--stats",
       .placeholder = "FILE",
       .help = "Write statistics as JSON at exit; in the name, %p is the process's id and %r its "
               "rank, and without them further processes of a run append their ids"},
      {.id = Id::kTimeline,
       .kind = Kind::kOutputFile,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_TIMELINE",
       .flag = "--timeline",
       .placeholder = "FILE",
       .help =
           "Write as CSV at exit when buffers came, went and were used, in a file that is named "
           "as by --stats; scripts/residency_svg.py draws it"},
      {.id = Id::kTrace,
       .kind = Kind::kOutputFile,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_TRACE",
       .flag = "--trace",
       .placeholder = "FILE",
       .help = "Record what the program does with device memory, and what superpipe does about it, "
               "in a trace (docs/trace-format.md)"},
      {.id = Id::kKernelTimes,
       .kind = Kind::kChoice,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_KERNEL_TIMES",
       .flag = "--kernel-times",
       .placeholder = "events|cupti|off",
       .choices = {"events", "cupti", "off"},
       .later = {"auto"},
       .default_value = "events",
       .help = "How a trace has kernels timed: some by events in the program's streams (events), "
               "all by CUPTI, which no other profiler has then (cupti; events where it refuses), "
               "or none (off)"},
      {.id = Id::kProgress,
       .kind = Kind::kChoice,
       .group = SettingGroup::kDiagnosis,
       .variable = "SUPERPIPE_PROGRESS",
       .flag = "--progress",
       .placeholder = "auto|off",
       .choices = {"auto", "off"},
       .default_value = "auto",
       .help =
           "Whether a line on standard error tells how far loading and the first passes are: auto "
           "(where that is a terminal, and a summary is printed) or off"},
      {.id = Id::kStrict,
       .kind = Kind::kSwitch,
       .variable = "SUPERPIPE_STRICT",
       .flag = "--strict",
       .help =
           "Where superpipe cannot manage the program, a bad variable included, stop it instead "
           "of running it without superpipe; one that ends without having opened the driver has "
           "exit code 125, and one with a launch that has no room on the device ends there, with "
           "125 too"},
      {.id = Id::kPlan,
       .kind = Kind::kInputFile,
       .group = SettingGroup::kPolicy,
       .variable = "SUPERPIPE_PLAN",
       .flag = "--plan",
       .placeholder = "FILE",
       .help = "Follow a plan of superpipe plan: its policy and budget, where no others are given, "
               "and from the first launch on the order of its first pass"},
      {.id = Id::kOff,
       .kind = Kind::kSwitch,
       .variable = "SUPERPIPE_OFF",
       .help = "Run programs without superpipe"},
      {.id = Id::kDriver,
       .kind = Kind::kLibraryFile,
       .variable = "SUPERPIPE_DRIVER",
       .placeholder = "FILE",
       .default_words = "libcuda.so.1, as the loader finds it",
       .help = "The CUDA driver's library"},
      {.id = Id::kSummary,
       .kind = Kind::kSwitch,
       .variable = "SUPERPIPE_SUMMARY",
       .help = "Print a summary at exit; superpipe run sets it"},
      {.id = Id::kCopies,
       .kind = Kind::kOutputFile,
       .variable = "SUPERPIPE_COPIES",
       .placeholder = "FILE",
       .help =
           "Write a digest of each copy out of the device to FILE.PID, also with SUPERPIPE_OFF=1; "
           "superpipe verify sets it"},
      {.id = Id::kSharedFolder,
       .kind = Kind::kFolder,
       .variable = "SUPERPIPE_SHARED_FOLDER",
       .placeholder = "FOLDER",
       .default_value = "/dev/shm",
       .help = "Where your processes on this host find each other, on a file system of this host: "
               "superpipe top and budget, which have to be given the same, and the ledger of host "
               "memory; for where /dev/shm is full or not to be written"},
      {.id = Id::kHostLedger,
       .kind = Kind::kChoice,
       .variable = "SUPERPIPE_HOST_LEDGER",
       .placeholder = "shared|none",
       .choices = {"shared", "none"},
       .default_value = "shared",
       .help = "Whether your processes on this host share its memory by a ledger (shared), or each "
               "may take all (none)"},
  }};
}

const Table& table() {
  static const Table instance = make_table();
  return instance;
}

// "a, b or c".
std::string enumerated(std::span<const std::string_view> choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

// A placeholder in capitals names a kind of value; one in small letters spells the choices out.
bool placeholder_shows_choices(const Setting& setting) {
  return setting.kind == SettingKind::kChoice &&
         std::string_view(setting.placeholder).find(setting.choices.front()) == 0;
}

}  // namespace

std::span<const Setting> all_settings() { return table(); }

const Setting& setting(SettingId id) { return table()[index_of(id)]; }

const char* variable_of(SettingId id) { return setting(id).variable; }

Bytes default_headroom(Bytes whole, Bytes budget) {
  const Bytes headroom = std::max(parse_size(kLeastHeadroom, whole).value_or(Bytes{}),
                                  parse_size(kHeadroomShare, whole).value_or(Bytes{}));
  return budget == Bytes{} ? headroom
                           : std::min(headroom, Bytes{budget.count() / kBudgetToHeadroom});
}

std::string description_of(const Setting& setting) {
  std::string text(setting.help);
  if (!setting.choices.empty() && !placeholder_shows_choices(setting)) {
    text += ": " + enumerated(setting.choices);
  }
  std::string standard(setting.default_words.empty() ? setting.default_value
                                                     : setting.default_words);
  if (*setting.simulated_value != '\0') {
    standard += std::string(", ") + setting.simulated_value + " with --simulate";
  }
  return standard.empty() ? text : text + "; default " + standard;
}

}  // namespace superpipe
