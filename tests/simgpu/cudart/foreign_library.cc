// A library that has the driver's file name and none of its functions.
#include "tools/simgpu/export.h"

SIMGPU_EXPORT int not_a_driver() { return 1; }
