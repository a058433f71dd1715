// A libcupti.so.13 for the loader: what its functions do, the test says, in `fake_cupti`.
//
// WITHOUT_FUNCTION: it lacks one. VERSION: what it says it is.
#define CUPTI_LIB  // the functions are seen from outside
#include "interposer/cupti/cupti_api.h"

#ifndef VERSION
#define VERSION CUPTI_API_VERSION
#endif

extern "C" {

__attribute__((visibility("default"))) superpipe::CuptiApi fake_cupti{};

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  return fake_cupti.cuptiGetResultString(result, text);
}
CUptiResult cuptiGetTimestamp(uint64_t* time) { return fake_cupti.cuptiGetTimestamp(time); }
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc call,
                           void* user) {
  return fake_cupti.cuptiSubscribe(subscriber, call, user);
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return fake_cupti.cuptiUnsubscribe(subscriber);
}
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId function) {
  return fake_cupti.cuptiEnableCallback(enable, subscriber, domain, function);
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  return fake_cupti.cuptiActivityRegisterCallbacks(request, complete);
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size,
                                      void* value) {
  return fake_cupti.cuptiActivitySetAttribute(attribute, size, value);
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return fake_cupti.cuptiActivityEnable(kind);
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return fake_cupti.cuptiActivityDisable(kind);
}
CUptiResult cuptiActivityFlushAll(uint32_t flag) { return fake_cupti.cuptiActivityFlushAll(flag); }
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  return fake_cupti.cuptiActivityGetNextRecord(buffer, valid, record);
}
#ifndef WITHOUT_FUNCTION
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* count) {
  return fake_cupti.cuptiActivityGetNumDroppedRecords(context, stream, count);
}
#endif

}  // extern "C"
