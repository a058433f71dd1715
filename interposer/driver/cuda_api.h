// The driver API with every ABI version declared under its exported name.
#pragma once

// Without this, cuda.h renames cuMemAlloc to cuMemAlloc_v2 and hides the older versions.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>
