#include "tools/simgpu/driver/launch/launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tools/simgpu/driver/code/process_plugins.h"
#include "tools/simgpu/driver/device/device.h"
#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/graphs/capture.h"
#include "tools/simgpu/driver/launch/kernel_cost.h"
#include "tools/simgpu/driver/launch/mixer.h"
#include "tools/simgpu/driver/launch/occupancy.h"
#include "tools/simgpu/driver/launch/operands.h"
#include "tools/simgpu/driver/launch/private_operands.h"
#include "tools/simgpu/driver/memory/address_space.h"
#include "tools/simgpu/driver/memory/host_pages.h"
#include "tools/simgpu/driver/memory/program_view.h"
#include "tools/simgpu/driver/process/configuration.h"
#include "tools/simgpu/driver/process/log.h"
#include "tools/simgpu/driver/process/statistics.h"
#include "tools/simgpu/tensor_map.h"

namespace simgpu {
namespace {

// CUDA programming guide, technical specifications per compute capability.
constexpr std::array<unsigned, 3> kMaxGrid = {2147483647, 65535, 65535};
constexpr std::array<unsigned, 3> kMaxBlock = {1024, 1024, 64};
constexpr std::uint64_t kMaxBlockThreads = 1024;
constexpr int kPortableCluster = 8;
constexpr int kLargestCluster = 16;

std::uint64_t product(const std::array<unsigned, 3>& extents) {
  return std::uint64_t{extents[0]} * extents[1] * extents[2];
}

/// Writes the address of its tensor into the first 8 bytes of each tensor map among `parameters`, a
/// launch's in `buffer`: so it is a word like others. @return the offsets of the maps.
std::vector<std::size_t> resolve_tensor_maps(std::span<const ParameterLayout> parameters,
                                             std::vector<std::byte>& buffer) {
  std::vector<std::size_t> maps;
  for (const ParameterLayout& parameter : parameters) {
    const std::size_t end = std::min(parameter.offset + parameter.size, buffer.size());
    // A struct with a map in it is aligned as maps are, wherever the parameters begin.
    for (std::size_t at = parameter.offset; at + kTensorMapBytes <= end;
         at += kTensorMapAlignment) {
      TensorMap map{};
      map.hidden = address_of_tensor(buffer.data() + at);
      if (map.hidden == 0) continue;
      std::memcpy(buffer.data() + at, &map, sizeof(map));
      maps.push_back(at);
    }
  }
  return maps;
}

/// The real work of one launch, which its operation shares: Operation::work and Operation::finish
/// call the functions of the same names.
class LaunchWork {
 public:
  LaunchWork(FunctionPtr function, const LaunchShape& shape, std::vector<std::byte> buffer)
      : function_(std::move(function)),
        buffer_(std::move(buffer)),
        maps_(resolve_tensor_maps(function_->code->image().parameters, buffer_)),
        grid_(shape.grid),
        operands_(live_words(), *function_->context),
        threads_(static_cast<double>(product(shape.grid)) *
                 static_cast<double>(product(shape.block))) {
    const KernelImage& image = function_->code->image();
    for (const ParameterLayout& parameter : image.parameters) {
      arguments_.push_back(buffer_.data() + parameter.offset);
      sizes_.push_back(parameter.size);
    }
    view_.name = image.name.c_str();
    std::copy(shape.grid.begin(), shape.grid.end(), view_.grid);
    std::copy(shape.block.begin(), shape.block.end(), view_.block);
    view_.shared_bytes = shape.shared_bytes;
    view_.arguments = arguments_.data();
    view_.argument_sizes = sizes_.data();
    view_.argument_count = arguments_.size();
    const Card& card = configuration().card;
    view_.device_bytes_per_us = card.memory_gbps * 1e3;
    view_.shortest_us = card.launch_ns * 1e-3;
    view_.program_address = [](const SimgpuLaunch* launch, const void* address) {
      const auto* const operands = static_cast<const View*>(launch)->operands;
      const auto word = reinterpret_cast<std::uint64_t>(address);
      return reinterpret_cast<const void*>(operands->to_program(word));
    };
    view_.operands = &private_;
  }
  LaunchWork(const LaunchWork&) = delete;
  LaunchWork& operator=(const LaunchWork&) = delete;

  /// Modelled time on the device.
  [[nodiscard]] Nanoseconds duration() const {
    const SimgpuKernel* const host = function_->code->host_kernel();
    double microseconds = 0;
    if (host != nullptr && host->modelled_us_of != nullptr) {
      microseconds = host->modelled_us_of(&view_);
    } else if (host != nullptr && host->modelled_us > 0) {
      microseconds = host->modelled_us;
    } else if (const std::optional<double>& given = configuration().kernel_us) {
      microseconds = *given;
    } else {
      microseconds = estimated_us();
    }
    constexpr double kLongest = 1e12;  // eleven days: keeps the arithmetic finite
    if (!std::isfinite(microseconds) || microseconds < 0) return 0;
    return static_cast<Nanoseconds>(std::min(microseconds, kLongest) * 1e3);
  }

  /// By what is mapped when the kernel is about to start: what it has to do with pages on the host.
  void plan(Operation& operation) {
    traffic_ = operands_.host_traffic([this](std::uint64_t position, std::uint64_t there) {
      const bool is_product = is_product_kernel(view_.name);
      const std::uint64_t told = is_product ? operand_bytes_in(buffer_, position) : 0;
      return told != 0 ? std::min(told, there) : touched_bytes(there, threads_);
    });
    const Configuration& settings = configuration();
    traffic_.read *= settings.host_reread * settings.host_share;
    if (traffic_.read == 0 && traffic_.written == 0) return;
    const LinkTimes times = link_times(settings.card, traffic_);
    operation.link_read = static_cast<Nanoseconds>(times.read);
    operation.link_written = static_cast<Nanoseconds>(times.written);
    use_of_host_pages_ = HostPages::instance().begin_use();
  }

  /// At the modelled start: the whole host kernel, or a mixer's reads.
  void work() {
    operands_.start();
    const KernelCode& code = *function_->code;
    if (const SimgpuKernel* const host = code.host_kernel(); host != nullptr) {
      run(*host);
      return;
    }
    operands_.refuse_doubtful();
    constexpr double kMostThreads = 0x1p48;
    const MixerLaunch launch{code.image().name,
                             static_cast<std::uint64_t>(std::min(threads_, kMostThreads))};
    writes_ = mix(launch, mixer_operands(), operands_);
  }

  /// At the modelled end: the writes; a mixer's unless SIMGPU_MIXERS=off. The memory that the
  /// launch names has to be there still.
  void finish() {
    if (function_->code->host_kernel() != nullptr) {
      operands_.end(private_);
      private_.publish();
      count_traffic();
      return;
    }
    operands_.end();
    count_traffic();
    if (!configuration().mixers_write) return;
    for (const MixerWrite& write : writes_) {
      operands_.write(write.address, std::span(write.bytes).first(write.size));
    }
  }

 private:
  /// What the host kernel is given, and what answers program_address.
  struct View : SimgpuLaunch {
    const PrivateOperands* operands;
  };

  void count_traffic() const {
    if (use_of_host_pages_ == nullptr) return;
    statistics().in_place_read_bytes += static_cast<std::uint64_t>(traffic_.read);
    statistics().in_place_written_bytes += static_cast<std::uint64_t>(traffic_.written);
  }

  void run(const SimgpuKernel& host) {
    // Where host code shares the memory, it may share words with a kernel that runs.
    if (!configuration().host_access) operands_.make_private(private_);
    operands_.guard_doubtful(private_);
    for (const ParameterLayout& parameter : function_->code->image().parameters) {
      const std::size_t end = std::min(parameter.offset + parameter.size, buffer_.size());
      for (std::size_t at = align_up(parameter.offset, sizeof(std::uint64_t));
           at + sizeof(std::uint64_t) <= end; at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, buffer_.data() + at, sizeof(word));
        word = operands_.names(word) ? private_.to_copy(word) : private_.end_to_copy(word);
        std::memcpy(buffer_.data() + at, &word, sizeof(word));
      }
    }
    const FaultAddresses addresses{
        [](const void* operands, std::uint64_t address) {
          return static_cast<const PrivateOperands*>(operands)->to_program(address);
        },
        &private_};
    {
      const DeviceCode device_code;
      host.function(&view_);
    }
    private_.collect();
  }

  /// What of the parameters are addresses, while the launch is being submitted.
  [[nodiscard]] std::vector<LiveWord> live_words() const {
    std::vector<LiveWord> words = function_->code->words().live(
        buffer_, grid_,
        [](std::uint64_t word) { return AddressSpace::instance().touches_device(word, 1); });
    for (LiveWord& word : words) {
      word.surely = word.surely || std::ranges::binary_search(maps_, word.offset);
    }
    return words;
  }

  [[nodiscard]] std::vector<MixerOperand> mixer_operands() const {
    std::vector<MixerOperand> operands = operands_.mixer_operands();
    if (is_product_kernel(view_.name)) {
      for (MixerOperand& operand : operands) {
        operand.bytes = operand_bytes_in(buffer_, operand.position);
        if (operand.position == kProductInputs) operand.role = Role::kOutput;
      }
    }
    return operands;
  }

  [[nodiscard]] double estimated_us() const {
    const std::vector<std::uint64_t> extents = operands_.extents();
    KernelWork work{.operand_bytes = extents, .threads = threads_, .product = {}};
    if (is_product_kernel(view_.name)) work.product = product_in(buffer_);
    return kernel_ns(configuration().card, work) * 1e-3;
  }

  FunctionPtr function_;
  std::vector<std::byte> buffer_;
  std::vector<std::size_t> maps_;  ///< offsets of tensor maps, with which kernels use the tensors
  std::array<unsigned, 3> grid_;
  Operands operands_;
  double threads_;  ///< of all blocks; more than a 64-bit integer holds, for some valid grids
  PrivateOperands private_{
      configuration().live_operands ? 0 : PrivateOperands::kCopied};  ///< of a host kernel
  std::vector<void*> arguments_;
  std::vector<std::size_t> sizes_;
  View view_{};
  std::vector<MixerWrite> writes_;
  HostTraffic traffic_;
  std::shared_ptr<void> use_of_host_pages_;  ///< none where the kernel uses none
};

bool within(const std::array<unsigned, 3>& extents, const std::array<unsigned, 3>& limits) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (extents[axis] == 0 || extents[axis] > limits[axis]) return false;
  }
  return true;
}

bool is_cluster(const LaunchShape& shape) { return product(shape.cluster) != 1; }

CUresult check_cluster(const Function& function, const LaunchShape& shape) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (shape.cluster[axis] == 0 || shape.grid[axis] % shape.cluster[axis] != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return product(shape.cluster) > static_cast<std::uint64_t>(largest_cluster(function))
             ? CUDA_ERROR_INVALID_CLUSTER_SIZE
             : CUDA_SUCCESS;
}

/// Counts the kernel. Where plugins were given and none has it, says so, once per kernel.
void note_first_launch(const KernelCode& code) {
  count_kernel(code.image().name);
  const KernelPlugins& plugins = process_plugins();
  if (code.host_kernel() == nullptr && plugins.any() && note_missing_kernel(code.image().name)) {
    log_line(LogLevel::kWarning,
             "kernel %s runs as a mixer; its results are not computed; add it to %s",
             code.image().name.c_str(), plugins.paths().front().c_str());
  }
}

}  // namespace

LaunchShape shape_of(const CUlaunchConfig& config) {
  LaunchShape shape{.grid = {config.gridDimX, config.gridDimY, config.gridDimZ},
                    .block = {config.blockDimX, config.blockDimY, config.blockDimZ},
                    .cluster = {1, 1, 1},
                    .shared_bytes = config.sharedMemBytes,
                    .cooperative = false};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& extents = attribute.value.clusterDim;
      shape.cluster = {extents.x, extents.y, extents.z};
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
      shape.cooperative = attribute.value.cooperative != 0;
    }
  }
  return shape;
}

CUresult check_attributes(const CUlaunchConfig& config) {
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    switch (config.attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

int multiprocessors(const Context& context) {
  return attribute_of(context.device(), CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

int largest_cluster(const Function& function) {
  return function.attributes->value(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0
             ? kLargestCluster
             : kPortableCluster;
}

CUresult check_shape(const Function& function, const LaunchShape& shape) {
  if (!within(shape.grid, kMaxGrid) || !within(shape.block, kMaxBlock) ||
      product(shape.block) > kMaxBlockThreads) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const FunctionAttributes& attributes = *function.attributes;
  const auto shared_limit =
      static_cast<unsigned>(attributes.value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
  if (shape.shared_bytes > shared_limit) return CUDA_ERROR_INVALID_VALUE;
  const auto threads = static_cast<int>(product(shape.block));
  if (threads > attributes.value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  const KernelImage& image = function.code->image();
  const int resident =
      resident_blocks({.threads = threads,
                       .registers = image.registers,
                       .shared_bytes = image.static_shared_bytes + shape.shared_bytes});
  if (resident == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape.cooperative &&
      product(shape.grid) > static_cast<std::uint64_t>(resident) *
                                static_cast<std::uint64_t>(multiprocessors(*function.context))) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return is_cluster(shape) ? check_cluster(function, shape) : CUDA_SUCCESS;
}

CUresult find_launchable(CUfunction handle, Context& context, FunctionPtr* function) {
  ModuleRegistry& registry = ModuleRegistry::instance();
  *function = registry.find(handle);
  if (*function != nullptr) return CUDA_SUCCESS;
  CUfunction loaded = nullptr;
  if (const CUresult result = function_of(reinterpret_cast<CUkernel>(handle), context, &loaded);
      result != CUDA_SUCCESS) {
    return result;
  }
  *function = registry.find(loaded);
  return *function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult gather_parameters(const KernelCode& code, void* const* values, void* const* extra,
                           std::vector<std::byte>* buffer) {
  const std::vector<ParameterLayout>& parameters = code.image().parameters;
  if (values != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  buffer->assign(code.parameter_bytes(), std::byte{0});
  if (parameters.empty()) return CUDA_SUCCESS;
  if (values != nullptr) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (values[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(buffer->data() + parameters[i].offset, values[i], parameters[i].size);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const void* source = nullptr;
  const std::size_t* size = nullptr;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      source = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = static_cast<const std::size_t*>(extra[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (source == nullptr || size == nullptr || *size < buffer->size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::memcpy(buffer->data(), source, buffer->size());
  return CUDA_SUCCESS;
}

CUresult prepare(Context& context, const LaunchRequest& request, PreparedLaunch* work) {
  FunctionPtr function;
  if (const CUresult result = find_launchable(request.function, context, &function);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (function->context != &context) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult result = check_shape(*function, request.shape); result != CUDA_SUCCESS) {
    return result;
  }
  if (const CUresult result =
          gather_parameters(*function->code, request.parameters, request.extra, &work->parameters);
      result != CUDA_SUCCESS) {
    return result;
  }
  work->handle = request.function;
  work->function = std::move(function);
  work->shape = request.shape;
  return CUDA_SUCCESS;
}

Operation operation_of(PreparedLaunch work) {
  if (work.function->code->first_launch()) note_first_launch(*work.function->code);
  std::string label = work.function->code->image().name;
  const auto launched = std::make_shared<LaunchWork>(std::move(work.function), work.shape,
                                                     std::move(work.parameters));
  Operation operation;
  operation.label = std::move(label);
  operation.engine = Engine::kCompute;
  operation.duration = launched->duration();
  operation.work = [launched] { launched->work(); };
  operation.finish = [launched] { launched->finish(); };
  if (HostPages::instance().any()) {
    operation.plan = [launched](Operation& planned) { launched->plan(planned); };
  }
  statistics().launches.fetch_add(1, std::memory_order_relaxed);
  return operation;
}

CUresult launch(Context& context, const LaunchRequest& request) {
  StreamPtr stream;
  if (const CUresult result = resolve_stream(context, request.stream, request.null_stream, &stream);
      result != CUDA_SUCCESS) {
    return result;
  }
  PreparedLaunch work;
  if (const CUresult result = prepare(context_of(*stream), request, &work);
      result != CUDA_SUCCESS) {
    return result;
  }
  if (const auto answer = capture(stream, [&] { return seal(std::move(work), *stream); })) {
    return *answer;
  }
  if (work.function->code->first_launch()) {
    note_first_launch(*work.function->code);
    charge_loading();
    if (configuration().implicit_sync) synchronize(*work.function->context);
  }
  await_room(stream);
  enqueue(stream, operation_of(std::move(work)));
  return CUDA_SUCCESS;
}

}  // namespace simgpu
