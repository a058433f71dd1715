#include "tools/simgpu/driver/graphs/graph_allocation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "tools/simgpu/driver/faults/access_fault.h"
#include "tools/simgpu/driver/memory/address_space.h"

namespace simgpu {
namespace {

/// What is written to memory as it is allocated, so that a program that reads what it never wrote
/// does not find what it wrote in an earlier launch.
constexpr int kPoison = 0xCB;

/// A number of bytes, and the most that it was since the last reset.
struct Watermark {
  std::uint64_t current = 0;
  std::uint64_t high = 0;

  void add(std::uint64_t bytes) {
    current += bytes;
    high = std::max(high, current);
  }
};

struct GraphMemoryFigures {
  Watermark used;
  Watermark reserved;
};

/// All allocations of graphs. `mutex` is taken after that of an allocation.
struct GraphMemory {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<GraphAllocation>> by_address;
  /// Those that are allocated live on, even if their graph does not.
  std::map<std::uint64_t, GraphAllocationPtr> live;
  std::array<GraphMemoryFigures, kMaxDevices> figures;

  static GraphMemory& instance() {
    static auto* const memory = new GraphMemory;
    return *memory;
  }
  GraphMemoryFigures& of(const Device& device) {
    return figures[static_cast<std::size_t>(device.ordinal())];
  }
};

MappingTable& mappings() { return AddressSpace::instance().mappings(); }

}  // namespace

CUresult GraphAllocation::create(Device& device, std::uint64_t size,
                                 GraphAllocationPtr* allocation) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (size > device.capacity()) return CUDA_ERROR_OUT_OF_MEMORY;
  GraphAllocationPtr made{new GraphAllocation(device, size)};
  const std::uint64_t bytes = align_up(size, kGranularity);
  if (mappings().reserve(bytes, 0, 0, &made->address_) != CUDA_SUCCESS) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made->bytes_ = bytes;
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard lock{memory.mutex};
  memory.by_address[made->address_] = made;
  *allocation = std::move(made);
  return CUDA_SUCCESS;
}

GraphAllocation::~GraphAllocation() {
  if (bytes_ == 0) return;  // nothing was reserved
  {
    GraphMemory& memory = GraphMemory::instance();
    const std::lock_guard lock{memory.mutex};
    memory.by_address.erase(address_);
  }
  const std::lock_guard lock{mutex_};
  if (mapped_) mappings().unmap(address_, bytes_);
  drop_memory();
  mappings().release_reservation(address_, bytes_);
}

void GraphAllocation::drop_memory() {
  if (physical_ == nullptr) return;
  mappings().release_handle(handle_);
  physical_ = nullptr;
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard lock{memory.mutex};
  memory.of(device_).reserved.current -= bytes_;
}

CUresult GraphAllocation::back() {
  const std::lock_guard lock{mutex_};
  if (physical_ != nullptr) return CUDA_SUCCESS;
  PhysicalPtr taken = Physical::create(device_.small_allocations(), bytes_);
  if (taken == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_.ordinal();
  handle_ = mappings().add_handle(taken, properties);
  physical_ = std::move(taken);
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard figures_lock{memory.mutex};
  memory.of(device_).reserved.add(bytes_);
  return CUDA_SUCCESS;
}

void GraphAllocation::trim() {
  const std::lock_guard lock{mutex_};
  if (!live_ && !mapped_) drop_memory();
}

bool GraphAllocation::live() const {
  const std::lock_guard lock{mutex_};
  return live_;
}

void GraphAllocation::map() {
  const std::lock_guard lock{mutex_};
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_.ordinal();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (mappings().map(address_, bytes_, handle_) != CUDA_SUCCESS ||
      mappings().set_access(address_, bytes_, &access, 1) != CUDA_SUCCESS) {
    throw AccessFault{address_, true};
  }
  mapped_ = true;
  std::memset(physical_->window(), kPoison, bytes_);
}

void GraphAllocation::unmap() {
  const std::lock_guard lock{mutex_};
  if (!mapped_ || mappings().unmap(address_, bytes_) != CUDA_SUCCESS) {
    throw AccessFault{address_, true};
  }
  mapped_ = false;
}

void GraphAllocation::set_live(bool live) {
  const std::lock_guard lock{mutex_};
  if (live_ == live) return;
  live_ = live;
  Watermark& used = GraphMemory::instance().of(device_).used;
  const std::lock_guard figures_lock{GraphMemory::instance().mutex};
  if (live) {
    used.add(bytes_);
  } else {
    used.current -= bytes_;
  }
}

Operation GraphAllocation::allocate(const GraphAllocationPtr& allocation) {
  allocation->set_live(true);
  {
    GraphMemory& memory = GraphMemory::instance();
    const std::lock_guard lock{memory.mutex};
    memory.live[allocation->address()] = allocation;
  }
  Operation operation;
  operation.label = "an allocation of a graph";
  operation.work = [allocation] { allocation->map(); };
  return operation;
}

Operation GraphAllocation::free(const GraphAllocationPtr& allocation) {
  allocation->set_live(false);
  {
    GraphMemory& memory = GraphMemory::instance();
    const std::lock_guard lock{memory.mutex};
    memory.live.erase(allocation->address());
  }
  Operation operation;
  operation.label = "a free of a graph's allocation";
  operation.work = [allocation] { allocation->unmap(); };
  return operation;
}

GraphAllocationPtr GraphAllocation::find(std::uint64_t address) {
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard lock{memory.mutex};
  const auto found = memory.by_address.find(address);
  return found == memory.by_address.end() ? nullptr : found->second.lock();
}

bool GraphAllocation::covers(std::uint64_t address, std::uint64_t size) {
  GraphMemory& memory = GraphMemory::instance();
  GraphAllocationPtr found;
  {
    const std::lock_guard lock{memory.mutex};
    const auto next = memory.by_address.upper_bound(address);
    if (next == memory.by_address.begin()) return false;
    found = std::prev(next)->second.lock();
  }
  if (found == nullptr || address - found->address() > found->size()) return false;
  return size <= found->size() - (address - found->address());
}

bool GraphAllocation::free_at(std::uint64_t address, const StreamPtr& stream, CUresult* result) {
  const GraphAllocationPtr allocation = find(address);
  if (allocation == nullptr) return false;
  if (!allocation->live() || allocation->free_node == FreeNode::kOwnGraph) {
    *result = CUDA_ERROR_INVALID_VALUE;
    return true;
  }
  Operation release = free(allocation);
  if (stream != nullptr) {
    enqueue(stream, std::move(release));
  } else {
    release.work();
  }
  *result = CUDA_SUCCESS;
  return true;
}

void GraphAllocation::trim_all_of(const Device& device) {
  std::vector<GraphAllocationPtr> all;
  {
    GraphMemory& memory = GraphMemory::instance();
    const std::lock_guard lock{memory.mutex};
    for (const auto& [address, allocation] : memory.by_address) all.push_back(allocation.lock());
  }
  for (const GraphAllocationPtr& allocation : all) {
    if (allocation != nullptr && &allocation->device() == &device) allocation->trim();
  }
}

CUresult GraphAllocation::get_attribute(const Device& device, CUgraphMem_attribute attribute,
                                        void* value) {
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard lock{memory.mutex};
  const GraphMemoryFigures& figures = memory.of(device);
  auto* const out = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *out = figures.used.current;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *out = figures.used.high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *out = figures.reserved.current;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *out = figures.reserved.high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult GraphAllocation::set_attribute(const Device& device, CUgraphMem_attribute attribute,
                                        const void* value) {
  if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  GraphMemory& memory = GraphMemory::instance();
  const std::lock_guard lock{memory.mutex};
  GraphMemoryFigures& figures = memory.of(device);
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) {
    figures.used.high = figures.used.current;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  figures.reserved.high = figures.reserved.current;
  return CUDA_SUCCESS;
}

}  // namespace simgpu
