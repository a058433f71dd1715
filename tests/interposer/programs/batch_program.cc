// Copies in batches, of more buffers than fit on the device together.
//
//     batch_program SCENARIO KERNELS.fatbin
#include <cuda.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/interposer/programs/program.h"

using programs::accumulate;
using programs::accumulate_listed;
using programs::allocate;
using programs::content;
using programs::hash_of;
using programs::kBytes;
using programs::load_layers;
using programs::print_buffer;

namespace {

CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

void* pinned_memory(std::size_t size) {
  void* memory = nullptr;
  CHECK(cuMemHostAlloc(&memory, size, 0));
  return memory;
}

CUstream make_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

/// Copies of one batch, each with a source access order of its own.
struct Batch {
  std::vector<CUdeviceptr> to;
  std::vector<CUdeviceptr> from;
  std::vector<std::size_t> sizes;
  std::vector<CUmemcpyAttributes> attributes;
  std::vector<std::size_t> starts;

  void add(CUdeviceptr target, CUdeviceptr source, std::size_t size,
           CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) {
    if (attributes.empty() || attributes.back().srcAccessOrder != order) {
      attributes.push_back({});
      attributes.back().srcAccessOrder = order;
      starts.push_back(to.size());
    }
    to.push_back(target);
    from.push_back(source);
    sizes.push_back(size);
  }
  CUresult submit(CUstream stream) {
    return cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), attributes.data(),
                              starts.data(), starts.size(), stream);
  }
  /// By the function of CUDA 12, which tells at which copy it failed.
  CUresult submit(CUstream stream, std::size_t* failed) {
    using Function =
        CUresult (*)(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, CUmemcpyAttributes*,
                     std::size_t*, std::size_t, std::size_t*, CUstream);
    void* function = nullptr;
    CHECK(cuGetProcAddress("cuMemcpyBatchAsync", &function, 12080, 0, nullptr));
    return reinterpret_cast<Function>(function)(to.data(), from.data(), sizes.data(), to.size(),
                                                attributes.data(), starts.data(), starts.size(),
                                                failed, stream);
  }
};

void print_all(const char* name, const std::vector<CUdeviceptr>& buffers) {
  for (const CUdeviceptr buffer : buffers) print_buffer(name, buffer);
}

/// Work of the device before and behind a batch, of which every buffer is a part.
void touch(CUdeviceptr state, const std::vector<CUdeviceptr>& buffers, CUstream stream) {
  for (const CUdeviceptr buffer : buffers) accumulate(buffer, state, 0.5f, stream);
}

CUdeviceptr make_state() {
  const CUdeviceptr state = allocate();
  CHECK(cuMemcpyHtoD(state, content(77).data(), kBytes));
  CHECK(cuStreamSynchronize(nullptr));
  return state;
}

/// From buffers to buffers, with both kinds of attributes, between kernels on the same stream.
void between_buffers() {
  const auto sources = load_layers(8);
  const auto targets = load_layers(8);
  const CUdeviceptr state = make_state();
  const CUstream stream = make_stream();
  for (int pass = 0; pass < 3; ++pass) {
    touch(state, sources, stream);
    Batch batch;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto order =
          i % 3 == 0 ? CU_MEMCPY_SRC_ACCESS_ORDER_ANY : CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      batch.add(targets[i] + 512, sources[(i + 3) % 8], kBytes - 512, order);
    }
    CHECK(batch.submit(stream));
    touch(state, targets, stream);
  }
  CHECK(cuStreamSynchronize(stream));
  print_all("target", targets);
  print_all("source", sources);
}

/// From the host to buffers and back, in each order that a source may be read in, from pinned and
/// other memory, behind work that takes its time.
void with_the_host() {
  constexpr std::size_t kPart = kBytes / 2;
  const auto buffers = load_layers(9);
  const CUdeviceptr state = make_state();
  const CUstream stream = make_stream();
  constexpr std::array kOrders = {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                  CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
                                  CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
  auto* const pinned = static_cast<char*>(pinned_memory(3 * kPart));
  auto* const back = static_cast<char*>(pinned_memory(9 * kBytes));
  std::vector<char> pageable(3 * kPart);
  for (int pass = 0; pass < 4; ++pass) {
    touch(state, buffers, stream);
    // Before its stream gets to the batch, the memory of its first order has other bytes.
    CHECK(cuMemcpyDtoHAsync(pinned, state, kPart, stream));
    for (int i = 1; i < 3; ++i) std::memcpy(pinned + i * kPart, content(pass + i).data(), kPart);
    for (int i = 0; i < 3; ++i) {
      std::memcpy(pageable.data() + i * kPart, content(pass + i + 10).data(), kPart);
    }
    Batch batch;
    for (std::size_t i = 0; i < 6; ++i) {
      const char* const source = i % 2 == 0 ? pinned : pageable.data();
      batch.add(buffers[i] + 4096 * i, address_of(source + i / 2 * kPart), kPart, kOrders[i / 2]);
    }
    CHECK(batch.submit(stream));
    // What had to be read before the call returned may change now.
    std::memset(pinned + kPart, 0x11, kPart);
    std::memset(pageable.data() + kPart, 0x22, kPart);
    touch(state, buffers, stream);
    Batch out;
    for (std::size_t i = 0; i < 8; ++i) out.add(address_of(back) + i * kBytes, buffers[i], kBytes);
    std::vector<float> last(kBytes / sizeof(float));
    out.add(address_of(last.data()), buffers[8], kBytes);
    CHECK(out.submit(stream));
    CHECK(cuStreamSynchronize(stream));
    std::printf("back %016llx\n", static_cast<unsigned long long>(hash_of(back, 8 * kBytes)));
    std::printf("last %016llx\n", static_cast<unsigned long long>(hash_of(last.data(), kBytes)));
  }
  print_all("buffer", buffers);
}

/// Boxes of bytes between buffers.
void boxes() {
  const auto sources = load_layers(8);
  const auto targets = load_layers(8);
  const CUdeviceptr state = make_state();
  const CUstream stream = make_stream();
  for (int pass = 0; pass < 3; ++pass) {
    touch(state, sources, stream);
    std::vector<CUDA_MEMCPY3D_BATCH_OP> operations(8);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      CUDA_MEMCPY3D_BATCH_OP& operation = operations[i];
      operation.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      operation.src.op.ptr.ptr = sources[(i + 5) % 8] + 4096 * i;
      operation.src.op.ptr.rowLength = 2048;
      operation.src.op.ptr.layerHeight = 8;
      operation.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
      operation.dst.op.ptr.ptr = targets[i];
      operation.dst.op.ptr.rowLength = 4096;
      operation.extent = {1000 + 8 * i, 8, 16};
      operation.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    CHECK(cuMemcpy3DBatchAsync(operations.size(), operations.data(), 0, stream));
    touch(state, targets, stream);
  }
  CHECK(cuStreamSynchronize(stream));
  print_all("target", targets);
}

/// A batch of which the driver refuses one copy tells which, and one with bad attributes does
/// nothing.
void failures() {
  const auto sources = load_layers(8);
  const auto targets = load_layers(8);
  const CUstream stream = make_stream();
  Batch batch;
  for (std::size_t i = 0; i < 8; ++i) batch.add(targets[i], sources[i], i == 6 ? 0 : kBytes);
  std::size_t failed = 99;
  const CUresult result = batch.submit(stream, &failed);
  std::printf("result %d at %zu\n", static_cast<int>(result), failed);
  Batch bad;
  for (std::size_t i = 0; i < 8; ++i) bad.add(targets[i], sources[7 - i], kBytes);
  bad.starts[0] = 1;
  std::printf("bad attributes %d\n", static_cast<int>(bad.submit(stream)));
  bad.starts[0] = 0;
  std::printf("legacy %d\n", static_cast<int>(bad.submit(CU_STREAM_LEGACY)));
  CHECK(cuStreamSynchronize(stream));
  print_buffer("last", targets[7]);
}

/// A box that needs more than any budget below 32 MiB.
void too_large() {
  constexpr std::size_t kBig = 16 << 20;
  CUDA_MEMCPY3D_BATCH_OP box{};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = allocate(kBig);
  box.dst.op.ptr.ptr = allocate(kBig);
  box.extent = {kBig, 1, 1};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const auto buffers = load_layers(2);
  const CUstream stream = make_stream();
  CHECK(cuMemcpyDtoDAsync(buffers[1], buffers[0], kBytes, stream));
  const CUresult result = cuMemcpy3DBatchAsync(1, &box, 0, stream);
  std::printf("result %d\n", static_cast<int>(result));
  CHECK(cuStreamSynchronize(stream));
  print_buffer("copied", buffers[1]);
}

/// Buffers of 8 MiB, of which two take more than 12.
class LargeBuffers {
 public:
  static constexpr int kPieces = 4;
  static constexpr std::size_t kSize = kPieces * kBytes;

  LargeBuffers() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i] = allocate(kSize);
      for (int piece = 0; piece < kPieces; ++piece) {
        const auto seed = static_cast<int>(i) * kPieces + piece;
        CHECK(cuMemcpyHtoD(buffers_[i] + piece * kBytes, content(seed).data(), kBytes));
      }
    }
    CHECK(cuStreamSynchronize(nullptr));
  }
  CUdeviceptr operator[](std::size_t i) const { return buffers_[i]; }

  /// Has a kernel write all of buffer `i`.
  void write(std::size_t i, CUstream stream) const {
    for (int piece = 0; piece < kPieces; ++piece) {
      accumulate(buffers_[i] + piece * kBytes, state_, 0.5f, stream);
    }
  }
  void print() const {
    for (const CUdeviceptr buffer : buffers_) {
      for (int piece = 0; piece < kPieces; ++piece) print_buffer("piece", buffer + piece * kBytes);
    }
    print_buffer("state", state_);
  }

 private:
  std::array<CUdeviceptr, 3> buffers_{};
  CUdeviceptr state_ = make_state();
};

void run_nothing(void* /*data*/) {}

/// Single copies between buffers of which no two fit on the device together, by each function that
/// makes them, between kernels that write what they read and read what they write.
void large_copies(bool after_host_function) {
  const LargeBuffers buffers;
  const CUstream stream = make_stream();
  constexpr std::size_t kSize = LargeBuffers::kSize;
  constexpr std::size_t kMost = kSize - 12345;
  if (after_host_function) CHECK(cuLaunchHostFunc(stream, run_nothing, nullptr));
  for (int pass = 0; pass < 2; ++pass) {
    buffers.write(0, stream);
    CHECK(cuMemcpyDtoDAsync(buffers[1] + 777, buffers[0] + 12, kMost, stream));
    buffers.write(1, stream);
    CHECK(cuMemcpyDtoDAsync(buffers[2], buffers[1], kSize, stream));
    CHECK(cuMemcpyAsync(buffers[0] + kSize / 2, buffers[0], kSize / 2, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoD(buffers[1], buffers[0] + 4096, kMost));
    buffers.write(2, nullptr);
    CHECK(cuMemcpy(buffers[0], buffers[2] + 1, kMost));
    CHECK(cuStreamSynchronize(nullptr));
    Batch batch;
    batch.add(buffers[2], buffers[1] + 99, kMost, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
    batch.add(buffers[1] + kSize - 4096, buffers[0], 4096);
    CHECK(batch.submit(stream));
    buffers.write(2, stream);
    CHECK(cuStreamSynchronize(stream));
  }
  // What does not lie in its buffer is refused as a whole.
  const CUresult result = cuMemcpyDtoDAsync(buffers[0] + 1, buffers[1], kSize, stream);
  std::printf("outside %d\n", static_cast<int>(result));
  buffers.print();
}
void large_copies_alone() { large_copies(false); }
void large_copies_after_host_function() { large_copies(true); }

/// Pointers that a batch brings to the device.
void pointers() {
  const auto weights = load_layers(8);
  const CUdeviceptr state = make_state();
  const CUstream stream = make_stream();
  const CUdeviceptr lists = allocate(4 * sizeof(CUdeviceptr));
  const CUdeviceptr listed[4] = {weights[0], weights[1], weights[2], weights[5]};
  Batch batch;
  batch.add(lists, address_of(listed), sizeof listed, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL);
  CHECK(batch.submit(stream));
  CHECK(cuStreamSynchronize(stream));
  for (const CUdeviceptr weight : weights) accumulate(state, weight, 0.125f);
  accumulate_listed(lists);
  print_buffer("state", state);
  print_all("weight", weights);
}

}  // namespace

int main(int count, char** arguments) {
  using programs::without_words;
  return programs::run_scenario(
      count, arguments,
      {
          {"between_buffers", without_words<between_buffers>},
          {"with_the_host", without_words<with_the_host>},
          {"boxes", without_words<boxes>},
          {"failures", without_words<failures>},
          {"too_large", without_words<too_large>},
          {"large_copies", without_words<large_copies_alone>},
          {"large_copies_after_host_function", without_words<large_copies_after_host_function>},
          {"pointers", without_words<pointers>},
      });
}
