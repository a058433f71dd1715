#include "profiler/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <new>

namespace superpipe {
namespace {

class FileSource final : public TraceSource {
 public:
  explicit FileSource(int file) : file_(file) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(file_); }

  [[nodiscard]] TraceResult<std::size_t> read(std::span<std::byte> bytes) override {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ::ssize_t count = ::read(file_, bytes.data() + done, bytes.size() - done);
      if (count == 0) break;
      if (count > 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        return TraceError{TraceError::Kind::kFile, std::strerror(errno)};
      }
    }
    return done;
  }

 private:
  const int file_;
};

// What a type of event is given to.
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceProperty& e) {
  to.on_property(e);
}
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceThread& e) { to.on_thread(e); }
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceKernel& e) { to.on_kernel(e); }
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceStream& e) { to.on_stream(e); }
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceCallSite& e) {
  to.on_call_site(e);
}
void give(TraceVisitor& to, const TraceMoment& /*when*/, const TraceText& e) { to.on_text(e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceAllocation& e) {
  to.on_allocation(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceFree& e) { to.on_free(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceLaunch& e) {
  to.on_launch(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceUse& e) { to.on_use(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceCopy& e) { to.on_copy(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceFetch& e) { to.on_fetch(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceEviction& e) {
  to.on_eviction(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceTransferEnd& e) {
  to.on_transfer_end(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceStall& e) { to.on_stall(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceBudget& e) {
  to.on_budget(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceMemory& e) {
  to.on_memory(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TracePass& e) { to.on_pass(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceKernelTime& e) {
  to.on_kernel_time(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceMark& e) { to.on_mark(when, e); }
void give(TraceVisitor& to, const TraceMoment& when, const TraceDropped& e) {
  to.on_dropped(when, e);
}
void give(TraceVisitor& to, const TraceMoment& when, const TraceWait& e) { to.on_wait(when, e); }
void give(TraceVisitor& /*to*/, const TraceMoment& /*when*/, const TraceSchema& /*e*/) {}
void give(TraceVisitor& /*to*/, const TraceMoment& /*when*/, const TraceEnd& /*e*/) {}

// Keeps what the first chunk describes.
class DescriptionVisitor final : public TraceVisitor {
 public:
  explicit DescriptionVisitor(TraceProperties& properties) : properties_(properties) {}
  void on_property(const TraceProperty& event) override { properties_.add(event.key, event.value); }

 private:
  TraceProperties& properties_;
};

}  // namespace

std::optional<std::string> TraceProperties::text(std::string_view key) const {
  for (const auto& [known, value] : all_) {
    if (known == key) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> TraceProperties::number(std::string_view key) const {
  const auto value = text(key);
  if (!value) return std::nullopt;
  std::uint64_t parsed = 0;
  const char* const end = value->data() + value->size();
  const auto result = std::from_chars(value->data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return parsed;
}

std::vector<std::string> TraceProperties::texts(std::string_view key) const {
  std::vector<std::string> found;
  for (const auto& [known, value] : all_) {
    if (known == key) found.push_back(value);
  }
  return found;
}

TraceResult<std::size_t> TraceBytesSource::read(std::span<std::byte> bytes) {
  const auto left = std::span(bytes_).subspan(read_);
  const std::size_t count = std::min(bytes.size(), left.size());
  std::copy_n(left.begin(), count, bytes.begin());
  read_ += count;
  return count;
}

TraceReader::TraceReader(std::unique_ptr<TraceSource> source, std::string name)
    : source_(std::move(source)),
      name_(std::move(name)),
      compressor_(std::make_unique<TraceCompressor>()) {}

TraceError TraceReader::error(TraceError::Kind kind, const std::string& what) const {
  return {kind, name_ + " " + what};
}

TraceError TraceReader::corrupt(const std::string& what) const {
  return error(TraceError::Kind::kCorrupt, "is damaged: " + what + " at byte " +
                                               std::to_string(offset_) +
                                               " is not what was written; copy or record it again");
}

TraceResult<TraceReader> TraceReader::open(const std::string& path) {
  const auto cannot = [&path](int number) {
    return TraceError{TraceError::Kind::kFile,
                      "cannot read " + path + ": " + std::strerror(number)};
  };
  // What is no file, such as a pipe that nothing writes to, must not hold the reader up.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return cannot(errno);
  auto source = std::make_unique<FileSource>(file);
  struct stat status {};
  if (::fstat(file, &status) != 0) return cannot(errno);
  if (!S_ISREG(status.st_mode)) {
    return TraceError{TraceError::Kind::kFile, "cannot read " + path + ": it is no regular file"};
  }
  return from(std::move(source), path);
}

TraceResult<TraceReader> TraceReader::from(std::unique_ptr<TraceSource> source, std::string name) {
  TraceReader reader(std::move(source), std::move(name));
  if (auto problem = reader.read_header()) return *std::move(problem);
  return reader;
}

std::optional<TraceError> TraceReader::read_header() {
  using Kind = TraceError::Kind;
  std::array<std::byte, kTraceHeaderSize> bytes{};
  const auto count = source_->read(bytes);
  if (!count.ok()) return error(Kind::kFile, "cannot be read: " + count.error().message);
  if (*count == 0) return error(Kind::kEmpty, "is empty: nothing was recorded in it");
  const TraceHeader header = read_trace_header(bytes);
  if (header.problem == TraceHeaderProblem::kForeign) {
    return error(Kind::kForeign, "is no trace of superpipe");
  }
  if (*count < bytes.size()) {
    return error(Kind::kTruncated, "is cut off in its first bytes; record it again");
  }
  if (header.problem) return corrupt("the header");
  if (header.version.major != kTraceVersion.major) {
    const bool newer = header.version.major > kTraceVersion.major;
    return error(newer ? Kind::kNewer : Kind::kForeign,
                 "has format " + std::to_string(header.version.major) + "." +
                     std::to_string(header.version.minor) +
                     ", and this version of superpipe reads " +
                     std::to_string(kTraceVersion.major) + ".x; " +
                     (newer ? "read it with a newer one" : "record it again"));
  }
  version_ = header.version;
  offset_ = bytes.size();
  TraceChunkHeader chunk;
  const auto loaded = load_chunk(chunk);
  if (!loaded.ok()) return loaded.error();
  if (!*loaded) {
    return error(Kind::kTruncated, "is cut off before its first event; record it again");
  }
  if (chunk.kind != TraceChunkHeader::Kind::kDescription) return corrupt("the first chunk");
  DescriptionVisitor visitor(properties_);
  auto problem = decode(chunk, visitor);
  offset_ += kTraceChunkHeaderSize + chunk.stored;
  return problem;
}

// Reads the next chunk into raw_. @return false: there is none, or only a part of one.
TraceResult<bool> TraceReader::load_chunk(TraceChunkHeader& header) try {
  using Kind = TraceError::Kind;
  std::array<std::byte, kTraceChunkHeaderSize> bytes{};
  const auto count = source_->read(bytes);
  if (!count.ok()) return error(Kind::kFile, "cannot be read: " + count.error().message);
  if (*count < bytes.size()) return false;
  const auto known = read_chunk_header(bytes);
  if (!known || known->sequence != chunks_) return corrupt("a chunk's header");
  header = *known;
  stored_.resize(header.stored);
  const auto stored = source_->read(stored_);
  if (!stored.ok()) return error(Kind::kFile, "cannot be read: " + stored.error().message);
  if (*stored < stored_.size()) return false;
  if (trace_checksum(stored_) != header.checksum ||
      !compressor_->decompress(header, stored_, raw_)) {
    return corrupt("a chunk");
  }
  ++chunks_;
  return true;
} catch (const std::bad_alloc&) {
  return error(TraceError::Kind::kMemory, "cannot be read: there is no host memory left");
}

TraceResult<bool> TraceReader::read_chunk(TraceVisitor& visitor) {
  using Kind = TraceChunkHeader::Kind;
  if (is_at_end_) return false;
  TraceChunkHeader header;
  const auto loaded = load_chunk(header);
  if (!loaded.ok()) return loaded.error();
  if (!*loaded) {
    is_at_end_ = true;
    return false;
  }
  if (header.kind == Kind::kDescription) return corrupt("a chunk's header");
  if (auto problem = decode(header, visitor)) return *std::move(problem);
  offset_ += kTraceChunkHeaderSize + header.stored;
  if (header.kind == Kind::kEvents) return true;
  is_at_end_ = true;
  std::array<std::byte, 1> more{};
  const auto count = source_->read(more);
  if (!count.ok()) return count.error();
  if (*count > 0) return corrupt("what follows its end");
  ending_.is_complete = true;
  return false;
}

std::optional<TraceError> TraceReader::read_all(TraceVisitor& visitor) {
  for (;;) {
    const auto more = read_chunk(visitor);
    if (!more.ok()) return more.error();
    if (!*more) return std::nullopt;
  }
}

template <typename Event>
void TraceReader::deliver(TraceBytesReader& in, const TraceMoment& when, TraceVisitor& visitor) {
  Event event;
  TraceFieldReader fields(in, differences_.counts[Event::kType], buffers_,
                          version_.minor < kTraceVersion.minor);
  Event::fields(event, fields);
  // A later minor version may have appended fields.
  if (in.left() > 0 && version_.minor <= kTraceVersion.minor) in.fail();
  if (in.failed()) return;
  if constexpr (Event::kType == TraceDropped::kType) ending_.dropped += event.events;
  if constexpr (Event::kType == TraceEnd::kType) ending_.dropped = event.dropped;
  if constexpr (Event::kType == TraceThread::kType) thread_ = event.index;
  if constexpr (Event::kType == TraceSchema::kType) {
    schema_.emplace_back(event.type,
                         std::string(event.name) + " " + std::string(event.fields_text));
  }
  give(visitor, when, event);
}

std::optional<TraceError> TraceReader::decode(const TraceChunkHeader& header,
                                              TraceVisitor& visitor) try {
  TraceBytesReader in(raw_);
  TraceMoment when;
  differences_ = {};
  std::uint32_t records = 0;
  while (in.left() > 0) {
    const std::uint64_t type = in.number();
    TraceBytesReader record(in.bytes(in.number()));
    if (in.failed()) return corrupt("a chunk");
    ++records;
    if (type >= kFirstTimedTraceType) {
      differences_.time = wrapping_sum(differences_.time, record.signed_number());
      when.time = differences_.time;
      if (type != TraceEnd::kType) ++ending_.events;
    }
    bool is_known = false;
    for_each_trace_type([&]<typename Event>() {
      if (type != Event::kType) return;
      is_known = true;
      deliver<Event>(record, when, visitor);
    });
    if (!is_known && version_.minor > kTraceVersion.minor) {
      visitor.on_unknown(static_cast<std::uint32_t>(type));
    } else if (!is_known) {
      return corrupt("an event");
    }
    if (record.failed()) return corrupt("an event");
    if (type == TraceThread::kType) when.thread = thread_;
  }
  if (records != header.records) return corrupt("a chunk");
  return std::nullopt;
} catch (const std::bad_alloc&) {
  return error(TraceError::Kind::kMemory, "cannot be read: there is no host memory left");
}

}  // namespace superpipe
