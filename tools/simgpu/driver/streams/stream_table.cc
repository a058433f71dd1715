#include "tools/simgpu/driver/streams/stream_table.h"

#include <mutex>
#include <utility>
#include <vector>

#include "tools/simgpu/driver/context/green_context.h"
#include "tools/simgpu/driver/entry/handle_table.h"
#include "tools/simgpu/driver/streams/stream_object.h"

namespace simgpu {
namespace {

/// Those that cuStreamCreate made.
HandleTable<CUstream, Stream>& made_streams() {
  static auto* const table = new HandleTable<CUstream, Stream>;
  return *table;
}

/// Streams that were destroyed while they had work, whose handles are not to come again before it
/// is done.
struct DestroyedStreams {
  std::mutex mutex;
  std::vector<std::pair<CUstream, StreamPtr>> list;
};
DestroyedStreams& destroyed_streams() {
  static auto* const streams = new DestroyedStreams;
  return *streams;
}

void release_handles_of_done_streams() {
  DestroyedStreams& destroyed = destroyed_streams();
  const std::lock_guard lock{destroyed.mutex};
  std::erase_if(destroyed.list, [](const std::pair<CUstream, StreamPtr>& stream) {
    if (!is_complete(stream.second)) return false;
    made_streams().release(stream.first);
    return true;
  });
}

/// The calling thread's default streams, one per context; closed when the thread ends.
struct PerThreadStreams {
  std::vector<StreamPtr> list;

  ~PerThreadStreams() {
    if (forked()) return;  // locks may be held by threads that the child does not have
    for (const StreamPtr& stream : list) stream->close();
  }
};

StreamPtr per_thread_stream(Context& context) {
  thread_local PerThreadStreams mine;
  std::erase_if(mine.list, [](const StreamPtr& stream) { return stream->closed.load(); });
  for (const StreamPtr& stream : mine.list) {
    if (&stream->context == &context) return stream;
  }
  mine.list.push_back(make_stream(context, StreamKind::kPerThread, CU_STREAM_DEFAULT, 0));
  return mine.list.back();
}

StreamPtr legacy_stream(Context& context) {
  {
    const std::lock_guard lock{context.enqueue_mutex};
    if (context.legacy_stream != nullptr) return context.legacy_stream;
  }
  StreamPtr made = make_stream(context, StreamKind::kLegacy, CU_STREAM_DEFAULT, 0);
  StreamPtr theirs;
  {
    const std::lock_guard lock{context.enqueue_mutex};
    if (context.legacy_stream == nullptr) {
      context.legacy_stream = made;
      return made;
    }
    theirs = context.legacy_stream;  // another thread made one meanwhile
  }
  made->close();
  return theirs;
}

}  // namespace

CUresult resolve_stream(Context& context, CUstream handle, NullStream null_stream, StreamPtr* out) {
  if (handle == nullptr) {
    handle = null_stream == NullStream::kLegacy ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
  }
  GreenContext* const green = current_green_context();
  if (green != nullptr && handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  if (green != nullptr && handle == CU_STREAM_LEGACY) {
    if (!green->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = green->default_stream();
  } else if (handle == CU_STREAM_LEGACY) {
    *out = legacy_stream(context);
  } else if (handle == CU_STREAM_PER_THREAD) {
    *out = per_thread_stream(context);
  } else {
    StreamPtr found = made_streams().find(handle);
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (found->green != nullptr && !found->green->alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = std::move(found);
  }
  return CUDA_SUCCESS;
}

StreamPtr find_made_stream(CUstream handle) {
  const bool is_default =
      handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  return is_default ? nullptr : made_streams().find(handle);
}

CUstream create_stream(Context& context, unsigned flags, int priority, GreenContext* green) {
  const StreamKind kind =
      (flags & CU_STREAM_NON_BLOCKING) != 0 ? StreamKind::kNonBlocking : StreamKind::kBlocking;
  release_handles_of_done_streams();
  StreamPtr made = make_stream(context, kind, flags, priority);
  made->green = green;
  return made_streams().add(std::move(made));
}

bool destroy_stream(CUstream handle) {
  const StreamPtr stream = made_streams().withdraw(handle);
  if (stream == nullptr) return false;
  stream->close();
  DestroyedStreams& destroyed = destroyed_streams();
  const std::lock_guard lock{destroyed.mutex};
  destroyed.list.emplace_back(handle, stream);
  return true;
}

void close_streams_of(Context& context) {
  made_streams().remove_if([&](const Stream& stream) { return &stream.context == &context; });
  std::vector<StreamPtr> closing;
  {
    const std::lock_guard lock{context.enqueue_mutex};
    closing = context.streams;
    if (context.legacy_stream != nullptr) closing.push_back(context.legacy_stream);
    context.legacy_stream = nullptr;
  }
  for (const StreamPtr& stream : closing) stream->close();
}

}  // namespace simgpu
