// Batches of copies: as they are where their buffers fit on the device together, else in parts.
#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "interposer/driver/codes.h"
#include "interposer/driver/in_context.h"
#include "interposer/driver/streams.h"
#include "interposer/driver/table.h"
#include "interposer/generated/hooks.h"
#include "interposer/hooks/device_copy.h"
#include "interposer/hooks/memory_kind.h"
#include "interposer/hooks/named_words.h"
#include "interposer/hooks/recorded_copy.h"
#include "interposer/hooks/routed_copy.h"
#include "interposer/hooks/submit.h"

namespace superpipe {
namespace {

/// What the driver names as the copy at which a batch failed if it is none of them.
constexpr std::size_t kNoCopyFailed = ~std::size_t{0};

/// Copies of a batch, by their places in it.
using Members = std::span<const std::size_t>;

/// Hands the copies of a batch to the driver in as many parts as it takes until the buffers of each
/// fit on the device: the driver may do them in any order. `name(i, used)` tells what copy `i`
/// uses, and `submit(members, failed)` hands some of them to the driver, which sets `*failed` to
/// the one of these that it refuses. `failed` becomes its place in the whole batch. `alone(i)`
/// makes copy `i` where its buffers do not fit together.
template <typename Name, typename Submit, typename Alone = NoOtherWay>
class Parts {
 public:
  Parts(StreamHandle stream, std::size_t& failed, const Name& name, const Submit& submit,
        Alone alone = {})
      : stream_(stream), failed_(failed), name_(name), submit_(submit), alone_(std::move(alone)) {}

  CUresult submit(Members members) const noexcept {
    if (members.empty()) return CUDA_SUCCESS;
    UsedWords used;
    for (const std::size_t member : members) name_(member, used);
    const auto whole = [&] { return hand_over(members); };
    CUresult result;
    if (members.size() == 1) {
      if constexpr (std::is_same_v<Alone, NoOtherWay>) {
        result = submit_using(used, stream_, whole);
      } else {
        result = submit_using(used, stream_, whole, [&] { return alone_(members.front()); });
      }
      if (result != CUDA_SUCCESS) failed_ = members.front();
      return result;
    }
    return submit_using(used, stream_, whole, [&] {
      const std::size_t half = members.size() / 2;
      const CUresult first = submit(members.first(half));
      return first == CUDA_SUCCESS ? submit(members.subspan(half)) : first;
    });
  }

 private:
  CUresult hand_over(Members members) const noexcept {
    std::size_t failed = kNoCopyFailed;
    const CUresult result = submit_(members, &failed);
    if (result != CUDA_SUCCESS) {
      failed_ = failed < members.size() ? members[failed] : kNoCopyFailed;
    }
    return result;
  }

  StreamHandle stream_;
  std::size_t& failed_;
  const Name& name_;
  const Submit& submit_;
  Alone alone_;
};

/// A batch of linear copies, as the driver takes it.
struct LinearBatch {
  CUdeviceptr* to;
  CUdeviceptr* from;
  std::size_t* sizes;
  std::size_t count;
  CUmemcpyAttributes* attributes;
  std::size_t* starts;  ///< starts[k]: the first copy that attributes[k] is of
  std::size_t attribute_count;

  /// Whether each copy has attributes that the driver's manual allows, and none has two.
  [[nodiscard]] bool is_well_formed() const noexcept {
    if (to == nullptr || from == nullptr || sizes == nullptr || attributes == nullptr ||
        starts == nullptr || attribute_count == 0 || attribute_count > count || starts[0] != 0) {
      return false;
    }
    for (std::size_t k = 0; k < attribute_count; ++k) {
      const auto access = attributes[k].srcAccessOrder;
      if (access < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || access > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
          starts[k] >= count || (k > 0 && starts[k] <= starts[k - 1])) {
        return false;
      }
    }
    return true;
  }
  /// Which of the attributes copy `i` has. REQUIRES: is_well_formed().
  [[nodiscard]] std::size_t attribute_of(std::size_t i) const noexcept {
    return static_cast<std::size_t>(std::upper_bound(starts, starts + attribute_count, i) - starts -
                                    1);
  }
  [[nodiscard]] SourceAccess access_of(std::size_t i) const noexcept {
    switch (attributes[attribute_of(i)].srcAccessOrder) {
      case CU_MEMCPY_SRC_ACCESS_ORDER_STREAM:
        return SourceAccess::kInOrder;
      case CU_MEMCPY_SRC_ACCESS_ORDER_ANY:
        return SourceAccess::kWhenever;
      default:
        return SourceAccess::kAtOnce;
    }
  }
};

bool is_host_memory(const ManagedContext& managed, CUdeviceptr address) noexcept {
  return !managed.in_arena(address) && !is_device_memory(address);
}

/// Where copy `i` of the batch goes if it can leave out the device: between the host and a buffer.
enum class Direction { kIn, kOut };
std::optional<Direction> direction_of(const ManagedContext& managed, const LinearBatch& batch,
                                      std::size_t i) noexcept {
  if (managed.in_arena(batch.to[i]) && is_host_memory(managed, batch.from[i])) {
    return Direction::kIn;
  }
  if (managed.in_arena(batch.from[i]) && is_host_memory(managed, batch.to[i])) {
    return Direction::kOut;
  }
  return std::nullopt;
}

/// Sees to the pointers that the batch copies from the host to the device.
Status scan_sources(ManagedContext& managed, const LinearBatch& batch,
                    StreamHandle stream) noexcept {
  if (!managed.moves() || batch.to == nullptr || batch.from == nullptr || batch.sizes == nullptr) {
    return Status::kOk;
  }
  const bool is_well_formed = batch.is_well_formed();
  for (std::size_t i = 0; i < batch.count; ++i) {
    if (batch.sizes[i] == 0 || !managed.pins().is_searched(batch.sizes[i]) ||
        is_host_memory(managed, batch.to[i]) || !is_host_memory(managed, batch.from[i])) {
      continue;
    }
    const SourceAccess access = is_well_formed ? batch.access_of(i) : SourceAccess::kByKind;
    const Status status =
        scan_source(managed, reinterpret_cast<const void*>(batch.from[i]), batch.sizes[i],
                    batch.to[i], stream, CopyMode::kAsynchronous, access);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

/// A batch whose buffers do not fit on the device together. Its copies between the host and buffers
/// go as single ones would: to the host copies of what is evicted. `call(part, failed)` hands a
/// batch to the driver.
template <typename Call>
CUresult submit_linear_parts(ManagedContext& managed, const LinearBatch& batch, std::size_t& failed,
                             StreamHandle stream, const Call& call) noexcept try {
  // What the driver would refuse, before any of it is done.
  if (stream == kLegacyStream || !batch.is_well_formed()) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUdeviceptr> to;
  std::vector<CUdeviceptr> from;
  std::vector<std::size_t> sizes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<std::size_t> starts;
  to.reserve(batch.count);
  from.reserve(batch.count);
  sizes.reserve(batch.count);
  attributes.reserve(batch.attribute_count);
  starts.reserve(batch.attribute_count);
  const auto name = [&batch](std::size_t i, UsedWords& used) {
    used.add_reads(batch.from[i]);
    used.add_writes(batch.to[i]);
  };
  const auto submit = [&](Members members, std::size_t* which) {
    to.clear();
    from.clear();
    sizes.clear();
    attributes.clear();
    starts.clear();
    std::size_t last = batch.attribute_count;
    for (const std::size_t i : members) {
      to.push_back(batch.to[i]);
      from.push_back(batch.from[i]);
      sizes.push_back(batch.sizes[i]);
      const std::size_t attribute = batch.attribute_of(i);
      if (attribute == last) continue;
      last = attribute;
      attributes.push_back(batch.attributes[attribute]);
      starts.push_back(to.size() - 1);
    }
    return call(LinearBatch{to.data(), from.data(), sizes.data(), to.size(), attributes.data(),
                            starts.data(), starts.size()},
                which);
  };
  // Bytes [offset, offset + size) of copy `i`.
  const auto bytes = [&](std::size_t i, std::size_t offset, std::size_t size) {
    CUdeviceptr target = batch.to[i] + offset;
    CUdeviceptr source = batch.from[i] + offset;
    std::size_t start = 0;
    std::size_t which = kNoCopyFailed;
    return call(LinearBatch{&target, &source, &size, 1, batch.attributes + batch.attribute_of(i),
                            &start, 1},
                &which);
  };
  const auto alone = [&](std::size_t i) {
    const DeviceCopy copy{batch.to[i], batch.from[i], batch.sizes[i], stream};
    const CUresult result = copy_device_in_parts(managed, copy, [&](const DeviceCopy& part) {
      return bytes(i, part.to - copy.to, part.size);
    });
    const bool is_done = result != CUDA_SUCCESS || batch.access_of(i) != SourceAccess::kAtOnce;
    if (is_done) return result;
    // A capture of another thread is none of its business.
    const RelaxedCaptureMode mode;
    return driver().cuStreamSynchronize(driver_stream(stream));
  };
  std::vector<std::size_t> others;
  others.reserve(batch.count);
  for (std::size_t i = 0; i < batch.count; ++i) {
    const auto direction = direction_of(managed, batch, i);
    if (!direction || batch.sizes[i] == 0) {
      others.push_back(i);
      continue;
    }
    const auto one = [&](std::size_t offset, std::size_t size) { return bytes(i, offset, size); };
    const CUresult result =
        *direction == Direction::kIn
            ? copy_scanned_in(batch.to[i], reinterpret_cast<const void*>(batch.from[i]),
                              batch.sizes[i], stream, CopyMode::kAsynchronous, batch.access_of(i),
                              one)
            : submit_copy_out(reinterpret_cast<void*>(batch.to[i]), batch.from[i], batch.sizes[i],
                              stream, CopyMode::kAsynchronous, one);
    if (result != CUDA_SUCCESS) {
      failed = i;
      return result;
    }
  }
  return Parts(stream, failed, name, submit, alone).submit(others);
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

/// Submits a batch through `submit(which)`, and tells the program at which copy that failed where
/// it wants to know: where superpipe itself refuses the whole batch, at none, as the driver says
/// it.
template <typename Submit>
CUresult tell_failed(std::size_t* failed, const Submit& submit) noexcept {
  std::size_t which = kNoCopyFailed;
  const CUresult result = submit(which);
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = which;
  return result;
}

/// A batch of linear copies. `call(part, failed)` hands a batch to the driver.
template <typename Call>
CUresult copy_linear_batch(const LinearBatch& batch, std::size_t* failed, StreamHandle stream,
                           const Call& call) noexcept {
  const auto submit = [&]() -> CUresult {
    UsedWords used;
    used.add_reads(batch.from, batch.count);
    used.add_writes(batch.to, batch.count);
    if (used.managed() == nullptr) return call(batch, failed);
    ManagedContext& managed = *used.managed();
    return tell_failed(failed, [&](std::size_t& which) {
      const Status scanned = scan_sources(managed, batch, stream);
      if (scanned != Status::kOk) return managed.failure(scanned, CallKind::kSubmission);
      return submit_using(
          used, stream, [&] { return call(batch, &which); },
          [&] { return submit_linear_parts(managed, batch, which, stream, call); });
    });
  };
  return recorded_copies(stream, submit, batch.to, batch.from, batch.sizes, batch.count);
}

/// A batch of copies of boxes. `call(operations, count, failed)` hands a batch to the driver.
template <typename Call>
CUresult copy_box_batch(CUDA_MEMCPY3D_BATCH_OP* operations, std::size_t count, std::size_t* failed,
                        StreamHandle stream, const Call& call) noexcept {
  UsedWords used;
  used.add_reads(operations, count);
  used.add_writes(operations, count);
  if (used.managed() == nullptr) return call(operations, count, failed);
  const auto in_parts = [&](std::size_t& failed_at) -> CUresult {
    // What the driver would refuse, before any of it is done.
    if (stream == kLegacyStream) return CUDA_ERROR_INVALID_VALUE;
    try {
      std::vector<CUDA_MEMCPY3D_BATCH_OP> part;
      part.reserve(count);
      std::vector<std::size_t> all(count);
      std::iota(all.begin(), all.end(), std::size_t{0});
      const auto name = [operations](std::size_t i, UsedWords& one) {
        one.add_reads(operations + i, 1);
        one.add_writes(operations + i, 1);
      };
      const auto submit = [&](Members members, std::size_t* which) {
        part.clear();
        for (const std::size_t i : members) part.push_back(operations[i]);
        return call(part.data(), part.size(), which);
      };
      return Parts(stream, failed_at, name, submit).submit(all);
    } catch (const std::bad_alloc&) {
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
  };
  return tell_failed(failed, [&](std::size_t& which) {
    return submit_using(
        used, stream, [&] { return call(operations, count, &which); },
        [&] { return in_parts(which); });
  });
}

}  // namespace

CUresult hook::cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                  CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                  size_t* failIdx, CUstream hStream) noexcept {
  return copy_linear_batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx,
                           stream_handle(hStream, kLegacyDefault),
                           [&](const LinearBatch& part, size_t* failed) {
                             return driver().cuMemcpyBatchAsync(
                                 part.to, part.from, part.sizes, part.count, part.attributes,
                                 part.starts, part.attribute_count, failed, hStream);
                           });
}
CUresult hook::cuMemcpyBatchAsync_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                       size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                       size_t numAttrs, size_t* failIdx,
                                       CUstream hStream) noexcept {
  return copy_linear_batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx,
                           stream_handle(hStream, kPerThreadDefault),
                           [&](const LinearBatch& part, size_t* failed) {
                             return driver().cuMemcpyBatchAsync_ptsz(
                                 part.to, part.from, part.sizes, part.count, part.attributes,
                                 part.starts, part.attribute_count, failed, hStream);
                           });
}
CUresult hook::cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                     size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                     size_t numAttrs, CUstream hStream) noexcept {
  return copy_linear_batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, nullptr,
                           stream_handle(hStream, kLegacyDefault),
                           [&](const LinearBatch& part, size_t* /*failed*/) {
                             return driver().cuMemcpyBatchAsync_v2(
                                 part.to, part.from, part.sizes, part.count, part.attributes,
                                 part.starts, part.attribute_count, hStream);
                           });
}
CUresult hook::cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                          size_t count, CUmemcpyAttributes* attrs,
                                          size_t* attrsIdxs, size_t numAttrs,
                                          CUstream hStream) noexcept {
  return copy_linear_batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, nullptr,
                           stream_handle(hStream, kPerThreadDefault),
                           [&](const LinearBatch& part, size_t* /*failed*/) {
                             return driver().cuMemcpyBatchAsync_v2_ptsz(
                                 part.to, part.from, part.sizes, part.count, part.attributes,
                                 part.starts, part.attribute_count, hStream);
                           });
}

CUresult hook::cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                    unsigned long long flags, CUstream hStream) noexcept {
  return copy_box_batch(opList, numOps, failIdx, stream_handle(hStream, kLegacyDefault),
                        [&](CUDA_MEMCPY3D_BATCH_OP* operations, size_t count, size_t* failed) {
                          return driver().cuMemcpy3DBatchAsync(count, operations, failed, flags,
                                                               hStream);
                        });
}
CUresult hook::cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                         size_t* failIdx, unsigned long long flags,
                                         CUstream hStream) noexcept {
  return copy_box_batch(opList, numOps, failIdx, stream_handle(hStream, kPerThreadDefault),
                        [&](CUDA_MEMCPY3D_BATCH_OP* operations, size_t count, size_t* failed) {
                          return driver().cuMemcpy3DBatchAsync_ptsz(count, operations, failed,
                                                                    flags, hStream);
                        });
}
CUresult hook::cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                       unsigned long long flags, CUstream hStream) noexcept {
  return copy_box_batch(opList, numOps, nullptr, stream_handle(hStream, kLegacyDefault),
                        [&](CUDA_MEMCPY3D_BATCH_OP* operations, size_t count, size_t* /*failed*/) {
                          return driver().cuMemcpy3DBatchAsync_v2(count, operations, flags,
                                                                  hStream);
                        });
}
CUresult hook::cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                            unsigned long long flags, CUstream hStream) noexcept {
  return copy_box_batch(opList, numOps, nullptr, stream_handle(hStream, kPerThreadDefault),
                        [&](CUDA_MEMCPY3D_BATCH_OP* operations, size_t count, size_t* /*failed*/) {
                          return driver().cuMemcpy3DBatchAsync_v2_ptsz(count, operations, flags,
                                                                       hStream);
                        });
}

}  // namespace superpipe
