#include "tools/simgpu/driver/code/module_registry.h"

#include <utility>

#include "tools/simgpu/driver/context/context_table.h"
#include "tools/simgpu/driver/memory/device_memory.h"
#include "tools/simgpu/driver/streams/stream.h"

namespace simgpu {
namespace {

// Not a canonical address, so that a program that follows a handle faults at once.
constexpr std::uint64_t kHandleBase = std::uint64_t{0x5347} << 48;

using Attributes = std::vector<std::shared_ptr<FunctionAttributes>>;

template <typename Map, typename Handle>
auto find_in(const Map& map, Handle handle) {
  const auto found = map.find(handle);
  return found == map.end() ? typename Map::mapped_type{} : found->second;
}

Attributes new_attributes(const LoadedImage& image) {
  Attributes attributes;
  for (const auto& kernel : image.kernels()) {
    attributes.push_back(std::make_shared<FunctionAttributes>(kernel->image()));
  }
  return attributes;
}

}  // namespace

ModuleRegistry& ModuleRegistry::instance() {
  static auto* const registry = new ModuleRegistry;
  return *registry;
}

ModuleRegistry::ModuleRegistry() {
  on_context_destroy([this](Context& context) { forget(context); });
}

template <typename Handle>
Handle ModuleRegistry::new_handle(HandleKind kind) {
  const std::uint64_t number = kHandleBase | static_cast<std::uint64_t>(kind) << 44 | next_++ << 4;
  return reinterpret_cast<Handle>(number);
}

CUresult ModuleRegistry::add_module(Context& context, const LoadedImagePtr& image,
                                    CUlibrary library, const Attributes& attributes,
                                    CUmodule* handle) {
  auto module = std::make_shared<Module>();
  module->image = image;
  module->context = &context;
  module->library = library;
  const ModuleImage& content = image->image();
  if (content.data_bytes != 0) {
    const CUresult result = allocate_for_module(context, content.data_bytes, &module->data);
    if (result != CUDA_SUCCESS) return result;
    for (const InitialData& initial : content.initial) {
      write_device(module->data + initial.offset, initial.bytes.data(), initial.bytes.size());
    }
  }
  const std::unique_lock lock{mutex_};
  const auto module_handle = new_handle<CUmodule>(HandleKind::kModule);
  for (std::size_t i = 0; i < image->kernels().size(); ++i) {
    const auto function = new_handle<CUfunction>(HandleKind::kFunction);
    functions_.emplace(function,
                       std::make_shared<Function>(Function{.image = image,
                                                           .code = image->kernels()[i].get(),
                                                           .context = &context,
                                                           .module = module_handle,
                                                           .attributes = attributes[i]}));
    module->functions.push_back(function);
  }
  modules_.emplace(module_handle, std::move(module));
  *handle = module_handle;
  return CUDA_SUCCESS;
}

CUresult ModuleRegistry::load_module(Context& context, const LoadedImagePtr& image,
                                     CUmodule* handle) {
  return add_module(context, image, nullptr, new_attributes(*image), handle);
}

ModulePtr ModuleRegistry::remove(CUmodule handle) {
  const auto found = modules_.find(handle);
  if (found == modules_.end()) return nullptr;
  ModulePtr module = found->second;
  modules_.erase(found);
  for (const CUfunction function : module->functions) functions_.erase(function);
  return module;
}

void ModuleRegistry::free_data(const Module& module) {
  if (module.data != 0) {
    // Kernels in flight may still read the variables.
    (void)synchronize(*module.context);
    (void)free_device(module.data);
  }
}

CUresult ModuleRegistry::unload_module(CUmodule handle) {
  ModulePtr module;
  {
    const std::unique_lock lock{mutex_};
    const ModulePtr found = find_in(modules_, handle);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (found->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;
    module = remove(handle);
  }
  free_data(*module);
  return CUDA_SUCCESS;
}

CUlibrary ModuleRegistry::load_library(LoadedImagePtr image) {
  const Attributes attributes = new_attributes(*image);
  const std::unique_lock lock{mutex_};
  const auto handle = new_handle<CUlibrary>(HandleKind::kLibrary);
  Library library{.image = std::move(image), .kernels = {}, .modules = {}};
  for (std::size_t i = 0; i < library.image->kernels().size(); ++i) {
    const auto kernel = new_handle<CUkernel>(HandleKind::kKernel);
    kernels_.emplace(kernel,
                     std::make_shared<Kernel>(Kernel{.image = library.image,
                                                     .code = library.image->kernels()[i].get(),
                                                     .index = static_cast<int>(i),
                                                     .library = handle,
                                                     .attributes = attributes[i]}));
    library.kernels.push_back(kernel);
  }
  libraries_.emplace(handle, std::move(library));
  return handle;
}

CUresult ModuleRegistry::unload_library(CUlibrary handle) {
  std::vector<ModulePtr> modules;
  {
    const std::lock_guard loading{load_mutex_};
    const std::unique_lock lock{mutex_};
    const auto found = libraries_.find(handle);
    if (found == libraries_.end()) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [context, module] : found->second.modules) modules.push_back(remove(module));
    for (const CUkernel kernel : found->second.kernels) kernels_.erase(kernel);
    libraries_.erase(found);
  }
  for (const ModulePtr& module : modules) free_data(*module);
  return CUDA_SUCCESS;
}

CUresult ModuleRegistry::module_of(CUlibrary handle, Context& context, CUmodule* module) {
  const std::lock_guard loading{load_mutex_};
  LoadedImagePtr image;
  Attributes attributes;
  {
    const std::shared_lock lock{mutex_};
    const auto found = libraries_.find(handle);
    if (found == libraries_.end()) return CUDA_ERROR_INVALID_HANDLE;
    const auto loaded = found->second.modules.find(&context);
    if (loaded != found->second.modules.end()) {
      *module = loaded->second;
      return CUDA_SUCCESS;
    }
    image = found->second.image;
    for (const CUkernel kernel : found->second.kernels) {
      attributes.push_back(kernels_.at(kernel)->attributes);
    }
  }
  const CUresult result = add_module(context, image, handle, attributes, module);
  if (result == CUDA_SUCCESS) {
    const std::unique_lock lock{mutex_};
    libraries_.at(handle).modules.emplace(&context, *module);
  }
  return result;
}

ModulePtr ModuleRegistry::find(CUmodule handle) const {
  const std::shared_lock lock{mutex_};
  return find_in(modules_, handle);
}

FunctionPtr ModuleRegistry::find(CUfunction handle) const {
  const std::shared_lock lock{mutex_};
  return find_in(functions_, handle);
}

KernelPtr ModuleRegistry::find(CUkernel handle) const {
  const std::shared_lock lock{mutex_};
  return find_in(kernels_, handle);
}

LoadedImagePtr ModuleRegistry::image_of(CUlibrary handle) const {
  const std::shared_lock lock{mutex_};
  const auto found = libraries_.find(handle);
  return found == libraries_.end() ? nullptr : found->second.image;
}

std::vector<CUkernel> ModuleRegistry::kernels_of(CUlibrary handle) const {
  const std::shared_lock lock{mutex_};
  const auto found = libraries_.find(handle);
  return found == libraries_.end() ? std::vector<CUkernel>{} : found->second.kernels;
}

void ModuleRegistry::forget(Context& context) {
  std::vector<ModulePtr> modules;
  {
    const std::lock_guard loading{load_mutex_};
    const std::unique_lock lock{mutex_};
    std::vector<CUmodule> handles;
    for (const auto& [handle, module] : modules_) {
      if (module->context == &context) handles.push_back(handle);
    }
    for (const CUmodule handle : handles) modules.push_back(remove(handle));
    for (auto& [handle, library] : libraries_) library.modules.erase(&context);
  }
  for (const ModulePtr& module : modules) {
    if (module->data != 0) (void)free_device(module->data);
  }
}

CUresult function_of(CUkernel kernel, Context& context, CUfunction* function) {
  ModuleRegistry& registry = ModuleRegistry::instance();
  const KernelPtr found = registry.find(kernel);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule handle = nullptr;
  if (const CUresult result = registry.module_of(found->library, context, &handle);
      result != CUDA_SUCCESS) {
    return result;
  }
  const ModulePtr module = registry.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;  // unloaded since
  *function = module->functions[static_cast<std::size_t>(found->index)];
  return CUDA_SUCCESS;
}

CUresult global_of(const Module& module, std::string_view name, CUdeviceptr* address,
                   std::size_t* bytes) {
  const GlobalImage* const global = module.image->find_global(name);
  if (global == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = module.data + global->offset;
  if (bytes != nullptr) *bytes = global->bytes;
  return CUDA_SUCCESS;
}

CUresult parameter_layout(const KernelImage& kernel, std::size_t index, std::size_t* offset,
                          std::size_t* size) {
  if (index >= kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel.parameters[index].offset;
  if (size != nullptr) *size = kernel.parameters[index].size;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
