// Whether any process of a run opened the CUDA driver.
//
// Where none did, nothing ran under superpipe: a framework's build for the CPU alone, or one that
// took the machine for one without a GPU, ends as if all were well. The process that began the run
// says so at its end. Each process that opens the driver leaves a mark, an empty file in the folder
// in which processes find each other (SUPERPIPE_SHARED_FOLDER). The run's name for it is in the
// environment, so that it holds over exec() and in other namespaces. Runs that ask for no summary
// have no mark.
#pragma once

namespace superpipe {

/// Where this process begins a run that asks for a summary: gives the run a mark's name, and
/// removes the marks of runs whose first process is gone. Changes the environment: not thread-safe,
/// called once, before the program runs.
void begin_watching_for_driver() noexcept;

/// A process of the run has opened the driver, or has said why it could not: leaves the mark. If it
/// cannot be made, the end of the run says wrongly that no driver was opened. Any thread.
void note_driver_of_run() noexcept;

/// Called at the end of every process; does something only in the one that began the run. Removes
/// the mark, and where there was none and `exit_code` is 0, says in one line that no process opened
/// the driver, with the usual reasons; where the settings ask for a trace, another line has said
/// that it is empty. @return whether none did, and the exit code is 0.
[[nodiscard]] bool end_watching_for_driver(int exit_code) noexcept;

}  // namespace superpipe
