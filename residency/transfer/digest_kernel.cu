// The digest of device memory, as residency/content_digest.h defines it.
//
// A warp takes a chunk at a time. Its lanes read 16 bytes each, four times, and keep the four sums
// of NH of what they read in registers; shuffles add those up. Eight lanes then have a term of the
// polynomials each: half of a sum, which they multiply by the point's power. Each block leaves the
// sum of its terms as a part; the host adds the parts up.

#include "residency/transfer/digest_kernel.h"

// Not an unnamed namespace: nvcc puts a hash of the folder into the names of its __shared__
// variables, and two builds differ in it.
namespace superpipe::digest_kernel {

constexpr unsigned kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr unsigned kWarps = kDigestThreads / kLanes;
constexpr unsigned kLoadWords = 4;  // that a lane reads at once
constexpr unsigned kLoadBytes = 16;
constexpr unsigned kRows = kDigestChunkWords / (kLanes * kLoadWords);  // reads of a lane in a chunk
constexpr unsigned kRowBytes = kLanes * kLoadBytes;
constexpr unsigned kChunkBytes = kRows * kRowBytes;
static_assert(kDigestSums == 4, "a quarter of a warp for each sum");

// The 16 bytes at `offset`, of which zero bytes take the places of those from `size` on.
__device__ uint4 load_at_end(const unsigned char* content, std::uint64_t size,
                             std::uint64_t offset) {
  unsigned words[kLoadWords] = {};
#pragma unroll
  for (unsigned i = 0; i < kLoadBytes; ++i) {
    if (offset + i < size) words[i / 4] |= unsigned{content[offset + i]} << (8 * (i % 4));
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Adds to the sums what four words of a chunk add, of which the first has the number `at`.
__device__ void add_products(std::uint64_t (&sums)[kDigestSums], const uint4& words,
                             const std::uint32_t* key_words, unsigned at) {
  const uint4 key0 = *reinterpret_cast<const uint4*>(key_words + at);
  const uint4 key4 = *reinterpret_cast<const uint4*>(key_words + at + 4);
  const uint2 key8 = *reinterpret_cast<const uint2*>(key_words + at + 8);
  const std::uint32_t keys[] = {key0.x, key0.y, key0.z, key0.w, key4.x,
                                key4.y, key4.z, key4.w, key8.x, key8.y};
#pragma unroll
  for (unsigned t = 0; t < kDigestSums; ++t) {
    sums[t] += digest_product(words.x, words.y, keys[2 * t], keys[2 * t + 1]);
    sums[t] += digest_product(words.z, words.w, keys[2 * t + 2], keys[2 * t + 3]);
  }
}

// Adds the sums of all lanes up. Lane l gets sum number l / 8. To halve what is exchanged, a lane
// passes on what it has of those sums that it does not keep. All lanes take part.
__device__ std::uint64_t sum_over_lanes(const std::uint64_t (&sums)[kDigestSums], unsigned lane) {
  const bool keeps_upper = (lane & 16) != 0;
  std::uint64_t even = keeps_upper ? sums[2] : sums[0];
  std::uint64_t odd = keeps_upper ? sums[3] : sums[1];
  even += __shfl_xor_sync(kAllLanes, keeps_upper ? sums[0] : sums[2], 16);
  odd += __shfl_xor_sync(kAllLanes, keeps_upper ? sums[1] : sums[3], 16);
  const bool keeps_odd = (lane & 8) != 0;
  std::uint64_t sum = keeps_odd ? odd : even;
  sum += __shfl_xor_sync(kAllLanes, keeps_odd ? even : odd, 8);
#pragma unroll
  for (int distance = 4; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  }
  return sum;
}

// The sum of `part` over all threads of the block; only thread 0 gets it. All threads take part.
__device__ ContentDigest sum_over_block(ContentDigest part) {
  __shared__ std::uint64_t firsts[kWarps];
  __shared__ std::uint64_t seconds[kWarps];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    part.first = digest_add(part.first, __shfl_xor_sync(kAllLanes, part.first, distance));
    part.second = digest_add(part.second, __shfl_xor_sync(kAllLanes, part.second, distance));
  }
  if (threadIdx.x % kLanes == 0) {
    firsts[threadIdx.x / kLanes] = part.first;
    seconds[threadIdx.x / kLanes] = part.second;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < kWarps; ++warp) {
      part.first = digest_add(part.first, firsts[warp]);
      part.second = digest_add(part.second, seconds[warp]);
    }
  }
  return part;
}

// What this block's chunks add to the digest; only thread 0 gets it. All threads take part.
__device__ ContentDigest digest_of_block(const unsigned char* content, std::uint64_t size,
                                         const DigestKey& key) {
  // 16 bytes of it are read at once.
  __shared__ uint4 key_storage[(kDigestKeyWords + kLoadWords - 1) / kLoadWords];
  auto* const key_words = reinterpret_cast<std::uint32_t*>(key_storage);
  const auto* const words_of_key = reinterpret_cast<const std::uint32_t*>(&key.words);
  const auto* const points = reinterpret_cast<const std::uint64_t*>(&key.points);
  for (unsigned i = threadIdx.x; i < kDigestKeyWords; i += kDigestThreads) {
    key_words[i] = words_of_key[i];
  }
  __syncthreads();

  const unsigned lane = threadIdx.x % kLanes;
  const std::uint64_t warps = std::uint64_t{gridDim.x} * kWarps;
  const std::uint64_t first_chunk = std::uint64_t{blockIdx.x} * kWarps + threadIdx.x / kLanes;
  const std::uint64_t chunks = (size + kChunkBytes - 1) / kChunkBytes;

  // Lane l has sum number l / 8. Two of the sums make a polynomial, the lower half of each before
  // the upper one. Of the eight lanes that have a sum, the first two have its halves to care for.
  const bool has_term = lane % 8 < 2;
  const bool upper_half = lane % 2 != 0;
  const unsigned polynomial = lane / 16;
  const unsigned number = lane / 8 % 2 * 2 + lane % 2;  // of the term in its polynomial
  const std::uint64_t point = points[polynomial];
  const std::uint64_t step = digest_power(point, 4 * warps);
  std::uint64_t weight = digest_power(point, 4 * first_chunk + number + 1);
  std::uint64_t value = 0;

  // The number of the chunk is the same for a whole warp: its lanes stay together.
  for (std::uint64_t chunk = first_chunk; chunk < chunks; chunk += warps) {
    const std::uint64_t offset = chunk * kChunkBytes + lane * kLoadBytes;
    uint4 words[kRows];
    if ((chunk + 1) * kChunkBytes <= size) {
#pragma unroll
      for (unsigned row = 0; row < kRows; ++row) {
        // Read once: what the program has in the caches is worth more.
        words[row] = __ldcs(reinterpret_cast<const uint4*>(content + offset + row * kRowBytes));
      }
    } else {
#pragma unroll
      for (unsigned row = 0; row < kRows; ++row) {
        words[row] = load_at_end(content, size, offset + row * kRowBytes);
      }
    }
    std::uint64_t sums[kDigestSums] = {};
#pragma unroll
    for (unsigned row = 0; row < kRows; ++row) {
      add_products(sums, words[row], key_words, (row * kLanes + lane) * kLoadWords);
    }
    const std::uint64_t sum = sum_over_lanes(sums, lane);
    const std::uint64_t half = upper_half ? sum >> 32 : sum & 0xffffffffU;
    value = digest_add(value, digest_multiply(weight, half));
    weight = digest_multiply(weight, step);
  }
  if (!has_term) value = 0;
  ContentDigest part;
  if (polynomial == 0) {
    part.first = value;
  } else {
    part.second = value;
  }
  return sum_over_block(part);
}

// Writes what each block makes of the digest of content[0 .. size) to its place in `parts`. Blocks
// of kDigestThreads threads, at most kDigestMaximumBlocks of them.
extern "C" __global__ void __launch_bounds__(kDigestThreads)
    superpipe_digest(const unsigned char* content, std::uint64_t size,
                     const __grid_constant__ DigestKey key, ContentDigest* parts) {
  const ContentDigest part = digest_of_block(content, size, key);
  if (threadIdx.x == 0) parts[blockIdx.x] = part;
}

}  // namespace superpipe::digest_kernel
