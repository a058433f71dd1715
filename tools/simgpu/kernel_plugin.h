/* What a plugin of host kernels for simgpu looks like.
 *
 * A simulated device cannot execute a GPU's machine code. A plugin gives it, for each kernel of a
 * program that has to compute for real, a host function registered under the kernel's (mangled)
 * name. Build it as a shared library that exports the one symbol simgpu_kernels(), and name it in
 * SIMGPU_KERNELS (paths separated by ':').
 *
 * The plugin of a library's own kernels lies beside it: where the process has loaded NAME.so before
 * it calls cuInit, and there is a NAME.simgpu.so in the same folder, simgpu takes that too.
 *
 * Plain C on purpose: a plugin needs neither simgpu's classes nor its compiler.
 */
#ifndef SIMGPU_KERNEL_PLUGIN_H_
#define SIMGPU_KERNEL_PLUGIN_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): C */

/** One launch, as a host kernel sees it. Owned by simgpu; valid until the host kernel returns. */
typedef struct SimgpuLaunch {
  const char* name;       /**< Mangled name of the kernel. */
  unsigned grid[3];       /**< Blocks in x, y, z; each at least 1. */
  unsigned block[3];      /**< Threads of a block in x, y, z; each at least 1. */
  unsigned shared_bytes;  /**< Dynamic shared memory of a block, in bytes; the plugin allocates its
                             own. */
  void* const* arguments; /**< arguments[i] points at the bytes of parameter i, copied when it was
                             launched. */
  const size_t* argument_sizes; /**< Bytes of each parameter. */
  size_t argument_count;        /**< Number of parameters. */
  double device_bytes_per_us;   /**< What the simulated device's memory reads and writes, together,
                                   in a microsecond. */
  double shortest_us;           /**< Microseconds that the shortest kernel takes there. */
  /** The address by which the program knows what the host kernel finds at `address`; `address`
   * itself where both know it by that. A kernel that stores an address in device memory stores this
   * one: addresses among the arguments may be those of copies, which end with the kernel. Called
   * while the host kernel runs, on its thread, and at no other time. */
  const void* (*program_address)(const struct SimgpuLaunch* launch, const void* address);
} SimgpuLaunch;

/**
 * Computes one whole launch: all of its blocks and threads.
 *
 * Runs on the thread of the launch's stream, never two launches of one stream at a time; launches
 * of different streams may run at the same time. Device addresses among the arguments can be
 * dereferenced; one that is not mapped faults, as on a device. One that a kernel stores in device
 * memory goes through SimgpuLaunch::program_address first. Must not call the driver, must not
 * throw, must not keep a pointer of `launch`.
 */
typedef void (*SimgpuKernelFunction)(const SimgpuLaunch* launch);

/** A kernel that a plugin can compute. The plugin owns it and keeps it unchanged while it is
 * loaded. */
typedef struct SimgpuKernel {
  const char* name;              /**< Mangled name, as in the cubin; not null. */
  SimgpuKernelFunction function; /**< Not null. */
  double modelled_us;            /**< Microseconds that a launch occupies the simulated device; 0:
                                    as long as simgpu takes a kernel without a plugin to run. */
  /** Microseconds of one given launch; null: modelled_us. Called on the launching thread, before
   * the launch runs; a negative or non-finite answer counts as 0. It may read the arguments' bytes
   * but no device memory. */
  double (*modelled_us_of)(const SimgpuLaunch* launch);
} SimgpuKernel;

/* NOLINTEND(modernize-use-using) */

/**
 * The one symbol that a plugin exports: its kernels, `*count` of them.
 *
 * Called once, after the plugin was loaded. The array stays the plugin's and must live as long as
 * the process. Where two plugins know the same name, the one earlier in SIMGPU_KERNELS computes it,
 * and any of those before one that lies beside a library.
 */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const SimgpuKernel*
simgpu_kernels(size_t* count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SIMGPU_KERNEL_PLUGIN_H_ */
