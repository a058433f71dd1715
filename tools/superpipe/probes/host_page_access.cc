// H25: how fast are reads and writes of pages on the host that are strided, wide, copies or
// memsets?

#include <string>

#include "tools/superpipe/probes/host_pages.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

constexpr unsigned kMovedSeed = 31, kRestSeed = 32;

/// Which words of a range an access takes: of each `step` groups of `group` words the first one.
struct WordPattern {
  std::size_t group, step;

  [[nodiscard]] std::size_t group_bytes() const { return group * sizeof(unsigned); }
  [[nodiscard]] std::size_t stride_bytes() const { return step * group_bytes(); }
  [[nodiscard]] std::size_t groups_in(std::size_t bytes) const { return bytes / stride_bytes(); }
  [[nodiscard]] std::size_t moved_of(std::size_t bytes) const {
    return groups_in(bytes) * group_bytes();
  }
};

/// A page on the host and one of the device, between which kernels and copies move words.
class PageAccess {
 public:
  PageAccess(Session& session, const HostPlace& place, std::size_t bytes)
      : session_(session),
        bytes_(bytes),
        host_(session, bytes, place.location),
        device_(session, bytes, kOnDevice),
        measure_(session) {}

  [[nodiscard]] unsigned long long wrong_words() const { return wrong_words_; }

  /// Kernels that move the words of `pattern`, with accesses of a group each.
  Json by_kernels(const WordPattern& pattern) {
    const char* const kernel = pattern.group == 4 ? "probe_move16" : "probe_move4";
    const unsigned long long count = pattern.groups_in(bytes_);
    const unsigned long long step = pattern.step;
    const auto move = [&](CUdeviceptr to, CUdeviceptr from) {
      session_.launch(kernel, measure_.stream(), count, to, from, count, step);
    };
    const double read = timed(device_.address(), host_.address(), pattern, move);
    const double write = timed(host_.address(), device_.address(), pattern, move);
    return {{"bytes_of_an_access", pattern.group_bytes()},
            {"stride_bytes", pattern.stride_bytes()},
            {"read_gbps", read},
            {"write_gbps", write}};
  }

  /// A copy of the first words of each row, to the device or back.
  double by_copy_of_rows(const WordPattern& pattern, bool from_host) {
    return timed(from_host ? device_.address() : host_.address(),
                 from_host ? host_.address() : device_.address(), pattern,
                 [&](CUdeviceptr to, CUdeviceptr from) {
                   CUDA_MEMCPY2D copy{};
                   copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
                   copy.srcDevice = from;
                   copy.dstDevice = to;
                   copy.srcPitch = copy.dstPitch = pattern.stride_bytes();
                   copy.WidthInBytes = pattern.group_bytes();
                   copy.Height = pattern.groups_in(bytes_);
                   session_.cu().cuMemcpy2DAsync.must(&copy, measure_.stream());
                 });
  }

  /// Memsets of whole words and of bytes.
  double by_memset(bool of_words) {
    constexpr unsigned kWord = 0xa5a5a5a5U;
    const unsigned long long words = bytes_ / sizeof(unsigned);
    measure_.fill(host_.address(), bytes_, kRestSeed);
    const double gbps = measure_.gbps(bytes_, [&] {
      if (of_words) {
        session_.cu().cuMemsetD32Async.must(host_.address(), kWord, words, measure_.stream());
      } else {
        session_.cu().cuMemsetD8Async.must(host_.address(), kWord & 0xff, bytes_,
                                           measure_.stream());
      }
    });
    wrong_words_ += measure_.counted([&] {
      session_.launch("probe_check_value", measure_.stream(), words, host_.address(), words, kWord,
                      measure_.counter());
    });
    return gbps;
  }

 private:
  // GB/s of `move`, whose result is checked: what it moves, and what lies in between.
  template <typename Move>
  double timed(CUdeviceptr to, CUdeviceptr from, const WordPattern& pattern, const Move& move) {
    const unsigned long long words = bytes_ / sizeof(unsigned);
    measure_.fill(from, bytes_, kMovedSeed);
    measure_.fill(to, bytes_, kRestSeed);
    const double gbps = measure_.gbps(pattern.moved_of(bytes_), [&] { move(to, from); });
    wrong_words_ += measure_.counted([&] {
      session_.launch("probe_check_moved", measure_.stream(), words, to, words,
                      static_cast<unsigned long long>(pattern.group),
                      static_cast<unsigned long long>(pattern.step), kMovedSeed, kRestSeed,
                      measure_.counter());
    });
    return gbps;
  }

  Session& session_;
  const std::size_t bytes_;
  Window host_, device_;
  Measurement measure_;
  unsigned long long wrong_words_ = 0;
};

}  // namespace

void probe_host_page_access(const ProbeSetting& setting, const ProbeReport& report) {
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  const std::size_t bytes = page_bytes(session, place.location, setting.pick(256, 64, 2) * kMiB);
  need_host_memory(setting, bytes);
  session.need_device_memory(bytes + 2 * kGranule);
  PageAccess access(session, place, bytes);
  report.figure("bytes", bytes);

  Json rows = Json::array();
  for (const std::size_t group : {std::size_t{1}, std::size_t{4}}) {
    for (const std::size_t stride_bytes :
         {group * sizeof(unsigned), std::size_t{128}, std::size_t{4096}}) {
      const WordPattern pattern{group, stride_bytes / sizeof(unsigned) / group};
      report.step("accesses of " + std::to_string(pattern.group_bytes()) + " bytes, one in " +
                  std::to_string(stride_bytes));
      rows.push_back(access.by_kernels(pattern));
    }
  }
  report.figure("kernels", rows);
  report.step("copies of rows");
  const WordPattern row{256, 4};  // 1 KiB of each 4 KiB
  const double from_host = access.by_copy_of_rows(row, true);
  report.figure("copy_of_rows_from_host_gbps", from_host);
  report.figure("copy_of_rows_to_host_gbps", access.by_copy_of_rows(row, false));
  report.step("memsets");
  report.figure("memset_of_words_gbps", access.by_memset(true));
  const double memset_gbps = access.by_memset(false);
  report.figure("memset_of_bytes_gbps", memset_gbps);
  report.figure("wrong_words", access.wrong_words());
  const auto read = [&](std::size_t at) {
    return with_digits(rows[at]["read_gbps"].get<double>(), 1);
  };
  report.answer(
      (access.wrong_words() == 0 ? std::string()
                                 : std::to_string(access.wrong_words()) + " wrong words; ") +
          "reads of 4 bytes " + read(0) + " GB/s, of 4 in 128 " + read(1) + ", of 16 bytes " +
          read(3) + ", of 16 in 128 " + read(4) + "; copies of rows " + with_digits(from_host, 1) +
          ", memsets " + with_digits(memset_gbps, 1),
      access.wrong_words() == 0);
}

}  // namespace superpipe::cli
