// H28: is a matrix product whose weights lie on the host faster in place, or when they are brought
// first?

#include <array>
#include <string>
#include <vector>

#include "tools/superpipe/probes/cublas_library.h"
#include "tools/superpipe/probes/host_pages.h"

namespace superpipe::cli {
namespace {

using Json = ProbeReport::Json;

struct ProductType {
  const char* name;
  NumberType type;
  std::size_t bytes;
};

/// A square matrix of weights, on the host and on the device, and what it is multiplied with.
class WeightProduct {
 public:
  WeightProduct(Session& session, const CublasLibrary& cublas, const HostPlace& place,
                const ProductType& type, int extent, int largest_batch)
      : session_(session),
        cublas_(cublas),
        type_(type),
        extent_(extent),
        weight_bytes_(page_bytes(session, place.location, numbers(extent) * type.bytes)),
        host_(session, weight_bytes_, place.location),
        device_(session, weight_bytes_, kOnDevice),
        input_(session, numbers(largest_batch) * type.bytes),
        output_(session, numbers(largest_batch) * type.bytes),
        other_output_(session, numbers(largest_batch) * type.bytes),
        measure_(session) {
    cublas_.use_stream(measure_.stream());
    // Bytes from 0x30 to 0x3f are small numbers of either type: sums stay finite.
    constexpr unsigned kStripes = 16;
    for (unsigned i = 0; i < kStripes; ++i) {
      const std::size_t stripe = weight_bytes_ / kStripes;
      session_.cu().cuMemsetD8Async.must(host_.address() + i * stripe,
                                         static_cast<unsigned char>(0x30 + i), stripe,
                                         measure_.stream());
    }
    session_.cu().cuMemsetD8Async.must(input_.address(), 0x2c, numbers(largest_batch) * type.bytes,
                                       measure_.stream());
    bring();
    measure_.wait();
  }

  [[nodiscard]] std::size_t weight_bytes() const { return weight_bytes_; }

  Json time(int batch) {
    const double on_device = measure_.seconds([&] { multiply(device_.address(), batch, output_); });
    const double in_place =
        measure_.seconds([&] { multiply(host_.address(), batch, other_output_); });
    const double brought = measure_.seconds([&] {
      bring();
      multiply(device_.address(), batch, output_);
    });
    return {{"type", type_.name},
            {"batch", batch},
            {"on_device_us", on_device * 1e6},
            {"in_place_us", in_place * 1e6},
            {"brought_us", brought * 1e6},
            {"in_place_times_brought", brought > 0 ? in_place / brought : 0},
            {"in_place_readings", readings(in_place)},
            {"same_bytes", same_bytes(batch)}};
  }

 private:
  [[nodiscard]] std::size_t numbers(int columns) const {
    return static_cast<std::size_t>(extent_) * static_cast<std::size_t>(columns);
  }
  void bring() {
    session_.cu().cuMemcpyDtoDAsync.must(device_.address(), host_.address(), weight_bytes_,
                                         measure_.stream());
  }
  void multiply(CUdeviceptr weights, int batch, const DeviceMemory& output) {
    cublas_.multiply(type_.type, extent_, batch, extent_, weights, input_.address(),
                     output.address());
  }
  /// How often the weights could have crossed the link in that time, by the speed of a copy.
  double readings(double seconds) {
    const double once = measure_.seconds([&] { bring(); });
    return once > 0 ? seconds / once : 0;
  }
  /// Whether both places give the same result.
  [[nodiscard]] bool same_bytes(int batch) {
    const std::size_t bytes = numbers(batch) * type_.bytes;
    std::vector<unsigned char> of_device(bytes), of_host(bytes);
    for (const DeviceMemory* output : {&output_, &other_output_}) {
      session_.cu().cuMemsetD8Async.must(output->address(), 0, bytes, measure_.stream());
    }
    multiply(device_.address(), batch, output_);
    multiply(host_.address(), batch, other_output_);
    measure_.wait();
    session_.cu().cuMemcpyDtoH.must(of_device.data(), output_.address(), bytes);
    session_.cu().cuMemcpyDtoH.must(of_host.data(), other_output_.address(), bytes);
    return of_device == of_host;
  }

  Session& session_;
  const CublasLibrary& cublas_;
  const ProductType type_;
  const int extent_;
  const std::size_t weight_bytes_;
  const Window host_, device_;
  const DeviceMemory input_, output_, other_output_;
  Measurement measure_;
};

}  // namespace

void probe_host_page_products(const ProbeSetting& setting, const ProbeReport& report) {
  const int extent = setting.pick(4096, 4096, 1024);  // a page, so that all of it counts
  const auto batches =
      setting.pick<std::vector<int>>({1, 16, 256, 2048}, {1, 16, 256, 2048}, {1, 16});
  constexpr std::array<ProductType, 2> kTypes{
      {{"fp16", NumberType::kHalf, 2}, {"fp32", NumberType::kSingle, 4}}};
  report.step("opening the device");
  Session session(setting);
  const HostPlace place = find_host_place(session, setting, report);
  need_host_memory(setting, sizeof(float) * extent * extent + kGranule);
  session.need_device_memory(setting.pick(1024, 1024, 16) * kMiB);
  report.step("loading cuBLAS");
  const CublasLibrary cublas(setting);
  report.figure("cublas", cublas.path());
  report.figure("extent", extent);

  Json rows = Json::array();
  std::string in_place, different;
  for (const ProductType& type : kTypes) {
    report.step(std::string("products of ") + type.name);
    WeightProduct product(session, cublas, place, type, extent, batches.back());
    for (const int batch : batches) {
      Json row = product.time(batch);
      const double times = row["in_place_times_brought"].get<double>();
      const std::string name = std::string(type.name) + ", batch " + std::to_string(batch);
      in_place += (in_place.empty() ? "" : ", ") + with_digits(times, 2) + " (" + name + ")";
      if (!row["same_bytes"].get<bool>()) different += (different.empty() ? "" : "; ") + name;
      rows.push_back(std::move(row));
      report.figure("products", rows);
    }
  }
  report.answer("time in place over that of bringing and multiplying: " + in_place +
                (different.empty() ? "" : "; other bytes in place: " + different));
}

}  // namespace superpipe::cli
