"""Programs on drivers that lack functions which superpipe would like to ask."""

import os
import re
import tempfile
import unittest
from pathlib import Path

from managed_run import SIMGPU, ManagedCase


class OldDriverCase(ManagedCase):
    def driver_without(self, *functions):
        """A copy of simgpu that does not export `functions`, which have other names in it."""
        content = (SIMGPU / "libcuda.so.1").read_bytes()
        for function in functions:
            name = f"\0{function}\0".encode()
            self.assertGreaterEqual(content.count(name), 1, function)
            content = content.replace(name, name[:-2] + b"_\0")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        driver = Path(folder.name) / "libcuda.so.1"
        driver.write_bytes(content)
        os.chmod(driver, 0o755)
        return driver


class LibraryKernelsTest(OldDriverCase):
    def test_layouts_of_a_librarys_kernels_stay_while_other_code_goes(self):
        driver = self.driver_without("cuKernelGetLibrary")
        calls = []
        for variables in ({}, {"SUPERPIPE_DRIVER": driver}):
            run = self.assert_same("library_kernels", SUPERPIPE_K=2, **variables)
            self.assert_moved(run)
            calls.append(run.simgpu["api_calls"]["cuKernelGetParamInfo"])
        # As often as a kernel has parameters, and once more.
        self.assertEqual(calls, [5, 5])

    def test_a_driver_without_all_that_superpipe_can_do_without_is_used_in_silence(self):
        driver = self.driver_without("cuKernelGetLibrary", "cuKernelGetName", "cuFuncGetName", "cuEventElapsedTime_v2", "cuLogsDumpToMemory")
        run = self.assert_same("library_kernels", SUPERPIPE_K=2, SUPERPIPE_DRIVER=driver)
        self.assert_moved(run)
        self.assertGreater(run.simgpu["api_calls"]["cuEventElapsedTime"], 0)


class FaultReportTest(OldDriverCase):
    """What a fault's report says where the driver has no log."""

    PROGRAM = "unseen_program"

    def test_without_the_drivers_log_the_report_names_what_was_not_there(self):
        for variables in ({"SUPERPIPE_DRIVER": self.driver_without("cuLogsDumpToMemory")},
                          {"SIMGPU_FAULTS": "cuLogsDumpToMemory:fail@1+"}):
            with self.subTest(variables):
                run = self.run_managed("use_absent", SIMGPU_FILL="poison", SUPERPIPE_GPU_MEM="18M", **variables)
                self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", run.output)
                said = run.errors[run.errors.index("superpipe: work of the program"):]
                self.assertNotIn("was called, but the driver does not have it", run.errors)
                # One call of the worker's, whichever meets the error first, is named before, meanwhile or afterwards.
                calls_of_worker = re.findall(r"^superpipe: \w+ failed: CUDA_ERROR_ILLEGAL_ADDRESS$", run.errors, re.MULTILINE)
                self.assertLessEqual(len(calls_of_worker), 1, run.errors)
                lines = [line for line in said.splitlines() if line.startswith("superpipe: ") and line not in calls_of_worker]
                self.assertEqual(len(lines), 4, run.errors)
                self.assertEqual(
                    lines[0], "superpipe: work of the program failed with CUDA_ERROR_ILLEGAL_ADDRESS: the driver tells neither the "
                    "kernel nor the address (compute-sanitizer, without superpipe, finds faults of the program's own)")
                self.assertEqual(lines[1], "superpipe: the kernels launched last, the latest first: accumulate_listed, accumulate")
                self.assertRegex(lines[2], r"^superpipe: not on the device, or in part, the last used first: buffer \d+ of 2097152 bytes")
                self.assertRegex(lines[3], r"set SUPERPIPE_PIN=[0-9,-]+ \(--pin [0-9,-]+\), which keeps .*; fewer of them may do")


if __name__ == "__main__":
    unittest.main()
