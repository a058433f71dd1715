// A CUDA driver that is no good in the way FAKE_GPU says: fail, none, old, no-vmm, crash, hang.
// What scripts/gpu_check.sh has to say in one line.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char* what) {
  const char* const value = getenv("FAKE_GPU");
  return value != NULL && strcmp(value, what) == 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  if (is("crash")) abort();
  while (is("hang")) pause();
  return is("fail") ? 100 : 0;
}
int cuDriverGetVersion(int* version) {
  *version = is("old") ? 12040 : 13000;
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = is("none") ? 0 : 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int length, int device) {
  (void)device;
  strncpy(name, "Fake GPU 3000", (size_t)length);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  (void)device;
  *bytes = (size_t)1 << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = 0;
  if (attribute == 75) *value = is("old-gpu") ? 6 : 9;  // compute capability, major
  if (attribute == 102) *value = is("no-vmm") ? 0 : 1;  // virtual memory management
  return 0;
}
