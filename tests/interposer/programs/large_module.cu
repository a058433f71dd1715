// A module whose variable takes more device memory than what a driver has left over in its blocks.

// Two of these do not fit into 2 MiB.
__device__ float table[3 << 17];

extern "C" __global__ void fill(float value) {
  table[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
