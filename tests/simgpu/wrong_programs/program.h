// Wrong programs: each lacks one order that a driver does not give by itself. With that order it is
// its own right twin.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace wrong_programs {

/// Words of a program's buffers.
inline constexpr std::uint32_t kWords = 16 * 1024;
inline constexpr std::size_t kBytes = kWords * sizeof(std::uint32_t);
/// Bytes of a page, the unit of mapping.
inline constexpr std::size_t kPage = std::size_t{2} << 20;
/// What memory holds before the work that is to be waited for, and after it.
inline constexpr std::uint32_t kOld = 0x01010101;
inline constexpr std::uint32_t kNew = 0x17171717;
/// The kernels of kernels.cu whose names tell what they only read, by these names.
inline constexpr const char* kCopyWords = "_Z10copy_wordsPjPKjj";
inline constexpr const char* kWaitAndCopy = "_Z13wait_and_copyPjPKjjPVj";
inline constexpr const char* kCopyAndWait = "_Z13copy_and_waitPjPKjjPVj";
inline constexpr const char* kMix = "_Z3mixPjPKj";
/// What does not belong there at all.
inline constexpr std::uint32_t kForeign = 0x66666666;

/// Holds up one stream, or one kernel, until the program opens it. Lives as long as the process.
class Gate {
 public:
  Gate();
  /// Enqueues a host function on `stream` that returns when the gate is open: what is submitted
  /// there from now on waits for that.
  void hold(CUstream stream);
  /// For kernels: kStarted and kOpen of kernels.h, in pinned memory.
  [[nodiscard]] CUdeviceptr words() const { return reinterpret_cast<CUdeviceptr>(words_); }
  /// Waits until a kernel has come to the gate. Ends the program if none comes within a minute.
  void wait_for_kernel() const;
  void open();

 private:
  volatile std::uint32_t* words_ = nullptr;
};

/// One run of a program, wrong or as its right twin, in a process of its own.
///
/// The functions that call the driver end the process with the driver's code as the answer if it is
/// not CUDA_SUCCESS. They are synchronous unless they take a stream. Used by one thread.
class Run {
 public:
  /// Initialises the driver; a context of device 0 becomes current.
  explicit Run(bool ordered);

  /// Whether this is the right twin: then the program keeps the order that it is about.
  [[nodiscard]] bool ordered() const { return ordered_; }
  /// @name Memory
  /// @{
  /// Device memory of kWords times `value`.
  CUdeviceptr buffer(std::uint32_t value);
  /// Pinned host memory of `bytes` bytes in words of `value`.
  std::uint32_t* pinned(std::uint32_t value, std::size_t bytes = kBytes);
  /// An address range with room for `pages` pages, where nothing is mapped.
  CUdeviceptr reserve(std::size_t pages = 1);
  /// A new page, of device 0 or on the host.
  CUmemGenericAllocationHandle page();
  CUmemGenericAllocationHandle host_page();
  /// Maps `page` at `address`, and lets device 0 read and write it.
  void map(CUdeviceptr address, CUmemGenericAllocationHandle page);
  void unmap(CUdeviceptr address);
  /// A new page at a new address, filled with `value`.
  CUdeviceptr mapped(std::uint32_t value);
  /// Fills kWords words, and waits for that.
  void fill(CUdeviceptr address, std::uint32_t value);
  /// @}
  /// @name Streams
  /// @{
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  /// `later` waits for what is on `earlier` now, by a new event.
  void order(CUstream later, CUstream earlier);
  /// Launches a kernel of kernels.cu on `stream`. `arguments` are addresses of the parameters.
  void launch(const char* kernel, CUstream stream, std::vector<void*> arguments);
  /// kCopyWords and fill_words, of kWords words.
  void copy_words(CUstream stream, CUdeviceptr out, CUdeviceptr in);
  void fill_words(CUstream stream, CUdeviceptr out, std::uint32_t value);
  /// Kernels of kWords words that take a gate.
  void fill_gated(const char* kernel, CUstream stream, CUdeviceptr out, std::uint32_t value,
                  const Gate& gate);
  void copy_gated(const char* kernel, CUstream stream, CUdeviceptr out, CUdeviceptr in,
                  const Gate& gate);
  void mix(CUstream stream, CUdeviceptr out, CUdeviceptr in);
  /// Copies of kBytes bytes to and from pinned memory.
  void copy_in(CUstream stream, CUdeviceptr to, const std::uint32_t* from);
  void copy_out(CUstream stream, std::uint32_t* to, CUdeviceptr from);
  void synchronize(CUstream stream);
  /// Returns when `stream` has nothing left to do; of a right program, after a while. Between a
  /// mistake and the opening of a gate: the wrong program's stream waits for nothing and gets done;
  /// its twin's waits for the gate and does not.
  void let_run(CUstream stream);
  /// An event behind what is on `stream` now.
  CUevent mark(CUstream stream);
  /// Returns when the operation that was submitted right after `mark` has begun, unless the machine
  /// is busy: a program that uses it is run again where it was not rejected.
  void let_begin(CUevent mark);
  /// For mistakes that are to be made while something runs that no gate can hold: says that this
  /// run proves nothing if `stream` has nothing left to do already.
  void must_still_run(CUstream stream);
  /// @}

  /// Ends the process with the driver's code as the answer, unless it is CUDA_SUCCESS.
  void check(CUresult result);
  /// Ends the process: every one of the kWords words has to be `value`.
  [[noreturn]] void expect(const std::uint32_t* words, std::uint32_t value);
  /// As above, of device memory, which it reads when all work is done.
  [[noreturn]] void expect(CUdeviceptr address, std::uint32_t value);
  /// Ends the process. The bytes of device memory, of which nobody can say what they are to be, are
  /// the answer: they have to differ from the twin's.
  [[noreturn]] void answer(CUdeviceptr address);

 private:
  CUmemGenericAllocationHandle page_at(CUmemLocationType place);
  [[noreturn]] static void end(const std::string& text);
  const bool ordered_;
  CUmodule module_ = nullptr;
};

/// How simgpu rejects a wrong program.
enum class Rejection {
  kOtherBytes,         ///< The program reads other bytes than its twin, or as kIllegalAddress.
  kIllegalAddress,     ///< CUDA_ERROR_ILLEGAL_ADDRESS, from a call that waits.
  kInvalidValue,       ///< CUDA_ERROR_INVALID_VALUE.
  kSegmentationFault,  ///< The process gets SIGSEGV, as it would from memory that is not there.
  kProtectionFault,    ///< As above, where the processor has memory protection keys.
};

/// A row of a table of wrong programs.
struct WrongProgram {
  std::string name;
  std::string mistake;
  Rejection rejection;
  std::function<void(Run&)> body;
  std::vector<std::string> environment = {};  ///< settings of simgpu, "NAME=value"
};

/// A program that looks wrong and is not: simgpu has to accept it.
struct RightProgram {
  std::string name;
  std::string look;  ///< what it does that looks wrong
  std::function<void(Run&)> body;
  std::vector<std::string> environment = {};
  std::string rejected_because = {};  ///< why simgpu rejects it today; empty if it does not
};

/// The tables, by what is wrong: a stream does not wait for another, an allocation is used outside
/// its life, a mapping changes while it is used, content moves too early, the host is too early.
std::vector<WrongProgram> wrong_waits();
std::vector<WrongProgram> wrong_lifetimes();
std::vector<WrongProgram> wrong_mappings();
std::vector<WrongProgram> wrong_movement();
std::vector<WrongProgram> wrong_host_memory();
std::vector<RightProgram> right_table();

/// All programs: the rows of the tables, made once.
const std::vector<WrongProgram>& programs();
const std::vector<RightProgram>& right_programs();

/// Runs the program `name` in this process, which ends with it. @return 2 if there is none.
int run_program(const std::string& name, bool ordered);

}  // namespace wrong_programs
