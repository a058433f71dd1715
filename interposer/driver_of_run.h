// Whether any process of a run opened the CUDA driver.
//
// Where none did, nothing ran under superpipe: a framework's build for the CPU alone, or one that
// took the machine for one without a GPU, ends as if all were well. The process that began the run
// (kRunRootVariable) says so at its end. The others leave it a mark when they open the driver, an
// empty file in the folder in which processes find each other.
#pragma once

namespace superpipe {

/// Where this process begins the run, removes the marks of those that are gone. Called once, before
/// the program runs.
void begin_watching_for_driver() noexcept;

/// This process has opened the driver: leaves a mark if another one began the run. A mark that
/// cannot be made is none: then the end of the run is told wrongly. Any thread.
void note_driver_of_run() noexcept;

/// Called at the end of a process whose exit code is 0: says in one line, if it began the run,
/// that the driver was never opened, with the usual reasons; not where the settings ask for a
/// trace, of which a line says that it is empty. Removes the mark. @return false where the driver
/// was opened, or looked for and not found, of which there is a line, and where the settings ask
/// for no summary.
[[nodiscard]] bool say_if_driver_was_never_opened() noexcept;

}  // namespace superpipe
