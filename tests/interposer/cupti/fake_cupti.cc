#include "tests/interposer/cupti/fake_cupti.h"

namespace superpipe::testing {
namespace {

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

}  // namespace

struct FakeCupti::Functions {
  static CUptiResult version(std::uint32_t* version) {
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
  }
  static CUptiResult result_string(CUptiResult result, const char** text) {
    *text = result == CUPTI_ERROR_NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE" : nullptr;
    return *text != nullptr ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
  }
  static CUptiResult timestamp(std::uint64_t* time) {
    *time = current_->now();
    return current_->answer("cuptiGetTimestamp");
  }
  static CUptiResult subscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc call,
                               void* /*user*/) {
    const CUptiResult result = current_->answer("cuptiSubscribe");
    if (result != CUPTI_SUCCESS) return result;
    current_->on_call_ = call;
    ++current_->subscribers;
    *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(current_);
    return result;
  }
  static CUptiResult unsubscribe(CUpti_SubscriberHandle /*subscriber*/) {
    --current_->subscribers;
    current_->on_call_ = nullptr;
    current_->functions.clear();
    return CUPTI_SUCCESS;
  }
  static CUptiResult enable_callback(std::uint32_t enable, CUpti_SubscriberHandle /*subscriber*/,
                                     CUpti_CallbackDomain domain, CUpti_CallbackId function) {
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || enable != 1) return CUPTI_ERROR_INVALID_PARAMETER;
    current_->functions.insert(function);
    return current_->answer("cuptiEnableCallback");
  }
  static CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                        CUpti_BuffersCallbackCompleteFunc complete) {
    current_->request_ = request;
    current_->complete_ = complete;
    return current_->answer("cuptiActivityRegisterCallbacks");
  }
  static CUptiResult set_attribute(CUpti_ActivityAttribute attribute, std::size_t* size,
                                   void* value) {
    if (attribute != CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE || *size != sizeof(std::size_t)) {
      return CUPTI_ERROR_INVALID_PARAMETER;
    }
    const CUptiResult result = current_->answer("cuptiActivitySetAttribute");
    // For buffers that it allocates from then on.
    if (result == CUPTI_SUCCESS && current_->kinds == 0) {
      current_->device_buffer_bytes = *static_cast<std::size_t*>(value);
    }
    return result;
  }
  static CUptiResult enable(CUpti_ActivityKind /*kind*/) {
    const CUptiResult result = current_->answer("cuptiActivityEnable");
    if (result == CUPTI_SUCCESS) ++current_->kinds;
    return result;
  }
  static CUptiResult disable(CUpti_ActivityKind /*kind*/) {
    --current_->kinds;
    return CUPTI_SUCCESS;
  }
  static CUptiResult flush(std::uint32_t flag) {
    ++current_->flushes;
    const bool is_forced = flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
    current_->forced_flushes += is_forced ? 1 : 0;
    if (is_forced || current_->flushes_deliver) current_->deliver();
    return CUPTI_SUCCESS;
  }
  static CUptiResult next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
    if (current_->on_next_record) current_->on_next_record();
    auto* const last = reinterpret_cast<std::uint8_t*>(*record);
    std::uint8_t* const next = last == nullptr ? buffer : last + size_of((*record)->kind);
    if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity*>(next);
    return CUPTI_SUCCESS;
  }
  static CUptiResult count_dropped(CUcontext /*context*/, std::uint32_t /*stream*/,
                                   std::size_t* count) {
    *count = std::exchange(current_->dropped, 0);
    return current_->answer("cuptiActivityGetNumDroppedRecords");
  }
};

CuptiApi FakeCupti::api() {
  using F = Functions;
  CuptiApi api{};
  api.cuptiGetVersion = F::version;
  api.cuptiGetResultString = F::result_string;
  api.cuptiGetTimestamp = F::timestamp;
  api.cuptiSubscribe = F::subscribe;
  api.cuptiUnsubscribe = F::unsubscribe;
  api.cuptiEnableCallback = F::enable_callback;
  api.cuptiActivityRegisterCallbacks = F::register_callbacks;
  api.cuptiActivitySetAttribute = F::set_attribute;
  api.cuptiActivityEnable = F::enable;
  api.cuptiActivityDisable = F::disable;
  api.cuptiActivityFlushAll = F::flush;
  api.cuptiActivityGetNextRecord = F::next_record;
  api.cuptiActivityGetNumDroppedRecords = F::count_dropped;
  return api;
}

void FakeCupti::launch(std::uint32_t correlation, CUpti_CallbackId function) {
  if (!functions.contains(function)) return;
  call_back(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_API_ENTER, correlation);
  call_back(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_API_EXIT, correlation);
}

void FakeCupti::call_back(CUpti_CallbackDomain domain, CUpti_ApiCallbackSite site,
                          std::uint32_t correlation) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.correlationId = correlation;
  on_call_(nullptr, domain, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
}

void FakeCupti::kernel(std::uint32_t correlation, std::uint64_t begin, std::uint64_t end,
                       std::uint32_t graph) {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.correlationId = correlation;
  kernel.start = begin;
  kernel.end = end;
  kernel.graphId = graph;
  record(kernel);
}

std::uint8_t* FakeCupti::request() {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t most = 1;
  request_(&buffer, &size, &most);
  if (buffer != nullptr) {
    size_ = size;
    std::memset(buffer, 0, size);
  }
  return most == 0 && (buffer != nullptr) == (size != 0) ? buffer : nullptr;
}

// Where there is no buffer, or no room in it, CUPTI drops the record.
void FakeCupti::append(const void* record, std::size_t size) {
  if (buffer_ == nullptr) buffer_ = request();
  if (buffer_ == nullptr || valid_ + size > size_) {
    ++dropped;
    return;
  }
  std::memcpy(buffer_ + valid_, record, size);
  valid_ += size;
}

std::pair<std::uint8_t*, std::size_t> FakeCupti::change_buffer() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(buffer_, nullptr), std::exchange(valid_, 0)};
}

void FakeCupti::deliver() {
  const auto [buffer, valid] = change_buffer();
  if (buffer != nullptr) complete(buffer, valid);
}

void FakeCupti::complete(std::uint8_t* buffer, std::size_t valid) {
  complete_(nullptr, 0, buffer, size_, valid);
}

std::uint64_t FakeCupti::now() const {
  const auto steady = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(steady).count() + ahead);
}

}  // namespace superpipe::testing
