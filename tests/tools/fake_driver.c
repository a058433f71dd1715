// A CUDA driver with one device that does nothing, or misbehaves as FAKE_DRIVER says: crash, hang,
// fail, none, old (CUDA 12.3), oldest (CUDA 12.4), old-gpu, no-vmm. Compiled with FAKE_OLD_DRIVER
// it is of a CUDA before cuGetProcAddress_v2.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char* what) {
  const char* const value = getenv("FAKE_DRIVER");
  return value != NULL && strcmp(value, what) == 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  if (is("crash")) abort();
  while (is("hang")) pause();
  return is("fail") ? 100 : 0;
}
#ifdef FAKE_OLD_DRIVER
enum { kVersion = 11040 };
#else
enum { kVersion = 13000 };
int cuGetProcAddress_v2(void) { return 1; }
#endif
int cuDriverGetVersion(int* version) {
  *version = kVersion;
  if (is("old")) *version = 12030;
  if (is("oldest")) *version = 12040;
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
  switch (attribute) {
    case 40:
      *value = 2;
      break;  // copy engines
    case 75:
      *value = is("old-gpu") ? 6 : 9;
      break;  // compute capability
    case 76:
      *value = 0;
      break;
    case 102:
      *value = is("no-vmm") ? 0 : 1;
      break;
    case 115:
      *value = 1;
      break;  // memory pools
    case 134:
      *value = 0;
      break;  // host NUMA node
    default:
      return 1;
  }
  return 0;
}
