// cuDNN's graph API: a program describes operations, and a plan of them is executed as launches.
//
// There is one engine, with the number 0, for every graph. A launch has no code: what it writes to
// a result follows from all that the graph reads.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/simgpu/cudnn/descriptor.h"
#include "tools/simgpu/cudnn/execution.h"
#include "tools/simgpu/cudnn/graph.h"
#include "tools/simgpu/cudnn/guarded.h"
#include "tools/simgpu/cudnn/handle.h"
#include "tools/simgpu/cudnn/status.h"
#include "tools/simgpu/export.h"

namespace simgpu::cudnn {
namespace {

/// The plans that the program has had as text, which is a number here: it holds in this process.
class WrittenPlans {
 public:
  static constexpr std::string_view kPrefix = "{\"simgpu_plan\": \"";
  static constexpr std::string_view kEnd = "\"}";
  static constexpr int kDigits = 16;
  /// Of every text, with its closing zero.
  static constexpr std::size_t kSize = kPrefix.size() + kDigits + kEnd.size() + 1;

  std::string write(const Descriptor& plan) {
    auto written = std::make_shared<Descriptor>(kPlan);
    written->copy(plan);
    std::array<char, kDigits + 1> digits{};
    const std::scoped_lock lock(mutex_);
    std::snprintf(digits.data(), digits.size(), "%0*zu", kDigits, plans_.size());
    plans_.push_back(std::move(written));
    return std::string(kPrefix) + digits.data() + std::string(kEnd);
  }

  /// Null for a text of another process, or of another library.
  DescriptorRef read(std::string_view text) {
    if (text.substr(0, kPrefix.size()) != kPrefix) return nullptr;
    text = text.substr(kPrefix.size(), kDigits);
    std::size_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::scoped_lock lock(mutex_);
    if (parsed.ec != std::errc() || number >= plans_.size()) return nullptr;
    return plans_[number];
  }

  static WrittenPlans& of_process() {
    static auto* const plans = new WrittenPlans;  // never destroyed: threads outlive exit handlers
    return *plans;
  }

 private:
  std::mutex mutex_;
  std::vector<DescriptorRef> plans_;
};

/// Where the program asks for the elements of an attribute.
struct Asked {
  std::int64_t room;
  std::int64_t* count;  ///< null: it does not ask
  void* elements;       ///< null: it only asks how many there are

  [[nodiscard]] bool wants_elements() const { return elements != nullptr && room > 0; }
  int tell_none() const {
    if (count != nullptr) *count = 0;
    return kSuccess;
  }
  int tell(const void* values, std::int64_t available, std::size_t bytes_of_one) const {
    if (count != nullptr) *count = available;
    if (!wants_elements()) return kSuccess;
    std::memcpy(elements, values,
                static_cast<std::size_t>(std::min(available, room)) * bytes_of_one);
    return kSuccess;
  }
  /// The program's own descriptor at the first place takes over what `source` has.
  int tell(const DescriptorRef& source) const {
    if (source == nullptr) return tell_none();
    if (count != nullptr) *count = 1;
    if (!wants_elements()) return kSuccess;
    void* pointer = nullptr;
    std::memcpy(&pointer, elements, sizeof(pointer));
    const DescriptorRef target = find_descriptor(pointer);
    if (target == nullptr) return kBadParam;
    target->copy(*source);
    return kSuccess;
  }
};

/// The configuration of the one engine for a graph.
DescriptorRef configuration_for(const DescriptorRef& graph) {
  auto engine = std::make_shared<Descriptor>(kEngine);
  engine->set_descriptor(kEngineGraph, graph);
  engine->set_number(kEngineNumber, 0);
  auto configuration = std::make_shared<Descriptor>(kEngineConfig);
  configuration->set_descriptor(kConfigEngine, std::move(engine));
  return configuration;
}

int tell_attribute(const Descriptor& descriptor, int name, const Asked& asked) {
  constexpr std::int64_t kNone = 0;
  constexpr std::int64_t kOne = 1;
  switch (name) {
    case kHeuristicResults:
      if (const DescriptorRef graph = graph_of(descriptor)) {
        return asked.tell(configuration_for(graph));
      }
      return kBadParam;
    case kConfigEngine:
    case kPlanConfig:
    case kEngineGraph:
      return asked.tell(descriptor.descriptor(name));
    case kGraphEngines:
      return asked.tell(&kOne, 1, sizeof(kOne));
    case kConfigWorkspace:
    case kPlanWorkspace:
      return asked.tell(&kNone, 1, sizeof(kNone));
    case kConfigSharedMemory: {
      constexpr std::int32_t kBytes = 0;
      return asked.tell(&kBytes, 1, sizeof(kBytes));
    }
    case kConfigIntermediates:
    case kConfigKnobs:
    case kEngineKnobs:
    case kEngineNumerics:
    case kEngineLayouts:
    case kEngineBehavior:
      return asked.tell_none();
    case kPlanText: {
      const bool is_read = asked.wants_elements();
      const std::string text = is_read ? WrittenPlans::of_process().write(descriptor) : "";
      return asked.tell(text.c_str(), static_cast<std::int64_t>(WrittenPlans::kSize), 1);
    }
    default:
      break;
  }
  const Attribute* const found = descriptor.find(name);
  if (found == nullptr || found->type == kDescriptor) return asked.tell_none();
  return asked.tell(found->bytes.data(), found->count, size_of(found->type));
}

int set_attribute(Descriptor& descriptor, int name, int type, std::int64_t count,
                  const void* elements) {
  if (name == kPlanText) {
    const auto* const text = static_cast<const char*>(elements);
    const DescriptorRef plan =
        WrittenPlans::of_process().read({text, static_cast<std::size_t>(count)});
    if (plan == nullptr) return kNotSupported;
    descriptor.copy(*plan);
    return kSuccess;
  }
  Attribute value{type, count, {}, {}};
  if (type == kDescriptor) {
    for (std::int64_t i = 0; i < count; ++i) {
      DescriptorRef named = find_descriptor(static_cast<void* const*>(elements)[i]);
      if (named == nullptr) return kBadParam;
      value.descriptors.push_back(std::move(named));
    }
  } else {
    const auto* const begin = static_cast<const std::byte*>(elements);
    value.bytes.assign(begin, begin + static_cast<std::size_t>(count) * size_of(type));
  }
  descriptor.set(name, std::move(value));
  return kSuccess;
}

int execute_plan(const Handle& handle, const Descriptor& plan, const Descriptor& pack) {
  const DescriptorRef graph = graph_of(plan);
  if (graph == nullptr) return kBadParam;
  const Operands operands = operands_of(*graph);
  const auto numbers = pack.values<std::int64_t>(kPackNumbers);
  const auto pointers = pack.values<void*>(kPackPointers);
  if (numbers.size() != pointers.size()) return kBadParam;
  std::map<std::int64_t, void*> by_number;
  for (std::size_t i = 0; i < numbers.size(); ++i) by_number[numbers[i]] = pointers[i];
  const auto addressed = [&](const std::map<std::int64_t, std::uint64_t>& bytes_by_number) {
    std::vector<ProductOperand> list;
    list.reserve(bytes_by_number.size());
    for (const auto& [number, bytes] : bytes_by_number) list.push_back({by_number[number], bytes});
    return list;
  };
  const std::vector<ProductOperand> inputs = addressed(operands.read);
  const std::vector<ProductOperand> outputs = addressed(operands.written);
  const auto is_missing = [](const ProductOperand& operand) { return operand.address == nullptr; };
  if (std::ranges::any_of(inputs, is_missing) || std::ranges::any_of(outputs, is_missing)) {
    return kBadParam;
  }
  return execute(handle, inputs, outputs, operands.work);
}

}  // namespace

SIMGPU_EXPORT int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  if (descriptor == nullptr) return kBadParam;
  return guarded([&] {
    *descriptor = give_to_program(std::make_shared<Descriptor>(kind));
    return kSuccess;
  });
}

/// Descriptors that refer to it keep its content.
SIMGPU_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  return descriptor == nullptr || take_from_program(descriptor) ? kSuccess : kBadParam;
}

SIMGPU_EXPORT int cudnnBackendInitialize(void* descriptor) {
  return find_descriptor(descriptor) == nullptr ? kBadParam : kSuccess;
}

/// An engine with another number than 0 is none.
SIMGPU_EXPORT int cudnnBackendFinalize(void* descriptor) {
  return guarded([&] {
    const DescriptorRef found = find_descriptor(descriptor);
    if (found == nullptr) return kBadParam;
    const bool is_other_engine =
        found->kind() == kEngine && found->value<std::int64_t>(kEngineNumber, 0) != 0;
    return is_other_engine ? kNotSupported : kSuccess;
  });
}

SIMGPU_EXPORT int cudnnBackendSetAttribute(void* descriptor, int name, int type, std::int64_t count,
                                           const void* elements) {
  return guarded([&]() -> int {
    const DescriptorRef found = find_descriptor(descriptor);
    if (found == nullptr || count < 0 || (elements == nullptr && count > 0)) return kBadParam;
    return set_attribute(*found, name, type, count, elements);
  });
}

SIMGPU_EXPORT int cudnnBackendGetAttribute(void* descriptor, int name, int /*type*/,
                                           std::int64_t room, std::int64_t* count, void* elements) {
  return guarded([&]() -> int {
    const DescriptorRef found = find_descriptor(descriptor);
    if (found == nullptr || room < 0) return kBadParam;
    return tell_attribute(*found, name, {room, count, elements});
  });
}

SIMGPU_EXPORT int cudnnBackendExecute(Handle* handle, void* plan, void* pack) {
  return guarded([&]() -> int {
    const DescriptorRef found = find_descriptor(plan);
    const DescriptorRef values = find_descriptor(pack);
    if (handle == nullptr || found == nullptr || values == nullptr) return kBadParam;
    return execute_plan(*handle, *found, *values);
  });
}

}  // namespace simgpu::cudnn
