// Device code for the tests of the image readers and of launches: never executed, its layout
// counts.

struct Mixed {
  char tag;
  double* values;
  short count;
  float weights[3];
};

struct Wide {
  unsigned char bytes[20000];
};

__device__ int counter = 7;
__device__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ float zeros[1000];
__constant__ float coefficients[8] = {1.0f, 2.0f, 3.0f};

__device__ __noinline__ float helper(const float* in, int i) { return in[i] * coefficients[i & 7]; }

extern "C" __global__ void add(float* out, const float* in, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] += helper(in, i);
}

extern "C" __global__ void mixed(char a, short b, int c, long long d, Mixed e, char f, float* g) {
  *g =
      static_cast<float>(a + b + c + d + e.tag + *e.values + e.count + f) + e.weights[1] + zeros[3];
  atomicAdd(&counter, static_cast<int>(table[a & 3]));
}

extern "C" __global__ void nothing() {}

extern "C" __global__ void point_at(float** out, float* target) { out[0] = out[1] = target; }

extern "C" __global__ void wide(Wide w, float* out) {
  out[0] = static_cast<float>(w.bytes[19999] + w.bytes[threadIdx.x]);
}

template <typename T>
__global__ void copy(T* __restrict__ out, const T* __restrict__ in, size_t n) {
  __shared__ T tile[64];
  tile[threadIdx.x & 63] = in[0];
  __syncthreads();
  out[n] = tile[3];
}
template __global__ void copy<double>(double*, const double*, size_t);

__global__ void __launch_bounds__(128) bounded(float* p) { p[0] = 1.0f; }
