"""What a user or a machine can get wrong: each time one clear line that says what to do, and nothing lost."""

import sys
import unittest

from simulated_run import BUILD, LAYERS, MIB, EndToEndCase, layers, run

SMALL = layers(4, 2)


class BadVariables(EndToEndCase):
    # Every variable that can be wrong, but those that the command itself sets (SUPERPIPE_SUMMARY),
    # the driver's name, which the command checks before it starts anything (tests/tools), and
    # files, below. One value each: what else is wrong is for settings/setting_values.cc to find,
    # whatever the variable.
    BAD = {
        "SUPERPIPE_K": "zero",
        "SUPERPIPE_K_PRIME": "0",
        "SUPERPIPE_GPU_MEM": "12Q",
        "SUPERPIPE_HEADROOM": "101%",
        "SUPERPIPE_POLICY": "belady",
        "SUPERPIPE_HOST_MEM": "all",
        "SUPERPIPE_MIN_BUFFER": "5%",
        "SUPERPIPE_ALLOCATOR": "mine",
        "SUPERPIPE_WRITEBACK": "never",
        "SUPERPIPE_OVERFLOW": "perhaps",
        "SUPERPIPE_WAIT_MS": "soon",
        "SUPERPIPE_FILL": "ones",
        "SUPERPIPE_EVICTED": "host-mapped",
        "SUPERPIPE_REPORT_MEM": "some",
        "SUPERPIPE_LOG": "info:",
        "SUPERPIPE_OFF": "yes",
        "SUPERPIPE_STRICT": "yes",
        "SUPERPIPE_PLAN": "file",
        "SUPERPIPE_HOST_LEDGER": "yes",
    }

    def test_program_runs_without_superpipe_after_one_line(self) -> None:
        reference = run(SMALL, without_superpipe=True)
        for name, value in self.BAD.items():
            with self.subTest(variable=name, value=value):
                # With a good value superpipe manages this run: the same peak shows that it does not now.
                is_schedule = name in ("SUPERPIPE_K", "SUPERPIPE_GPU_MEM")
                others = {} if is_schedule else {"SUPERPIPE_K": "2"}
                outcome = run(SMALL, environment={**others, name: value})
                self.assert_same_output(outcome, reference)
                self.assertEqual(len(self.lines(outcome.stderr, "superpipe:")), 1, outcome.stderr)
                self.assertIn(f"{name}={value}: ", outcome.stderr)
                self.assertIn("; the program runs without superpipe", outcome.stderr)
                self.assertEqual(outcome.peak, reference.peak)

    def test_files_that_cannot_be_written_lose_nothing_but_themselves(self) -> None:
        reference = run(SMALL, without_superpipe=True)
        for name in ("SUPERPIPE_STATS", "SUPERPIPE_TIMELINE"):
            with self.subTest(variable=name):
                outcome = run(SMALL, "--k", "2", environment={name: "/no/such/folder/file"})
                self.assert_same_output(outcome, reference)
                self.assertEqual(len(self.lines(outcome.stderr, "/no/such/folder/file")), 1, outcome.stderr)
                self.assertIn(f"superpipe: {name}: cannot write ", outcome.stderr)
                self.assertLess(outcome.peak, reference.peak)

    def test_log_that_cannot_be_written_goes_to_standard_error(self) -> None:
        outcome = run(SMALL, "--k", "2", environment={"SUPERPIPE_LOG": "info:/proc/no-such-file"})
        self.assert_same_output(outcome, run(SMALL, without_superpipe=True))
        self.assertEqual(len(self.lines(outcome.stderr, "superpipe: SUPERPIPE_LOG: ")), 1, outcome.stderr)
        self.assertEqual(len(self.lines(outcome.stderr, "superpipe: managing device 0")), 1, outcome.stderr)

    def test_strict_does_not_run_it(self) -> None:
        outcome = run(SMALL, "--strict", environment={"SUPERPIPE_K": "zero"})
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.files), (2, "", {}))
        self.assert_one_line(outcome.stderr, "superpipe: SUPERPIPE_K=zero: ", "SUPERPIPE_STRICT=1, so nothing runs")

    def test_variables_that_contradict_each_other(self) -> None:
        reference = run(SMALL, without_superpipe=True)
        for environment, says in (({"SUPERPIPE_K": "2", "SUPERPIPE_K_PRIME": "2"}, "below SUPERPIPE_K, which is 2"),
                                  ({"SUPERPIPE_K": "2", "SUPERPIPE_K_PRIME": "7"}, "below SUPERPIPE_K, which is 2"),
                                  ({"SUPERPIPE_K": "1", "SUPERPIPE_K_PRIME": "1"}, "no meaning with SUPERPIPE_K=1"),
                                  ({"SUPERPIPE_K_PRIME": "1"}, "no meaning without SUPERPIPE_K"),
                                  ({"SUPERPIPE_POLICY": "naive"}, "needs SUPERPIPE_K or SUPERPIPE_GPU_MEM"),
                                  ({"SUPERPIPE_K": "2", "SUPERPIPE_GPU_MEM": "1G"}, "not both")):
            with self.subTest(**environment):
                outcome = run(SMALL, environment=environment)
                self.assert_same_output(outcome, reference)
                self.assertEqual(outcome.peak, reference.peak)
                self.assert_one_line(outcome.stderr, "superpipe: SUPERPIPE_", says,
                                     "the program runs without superpipe")

    def test_malformed_variable_of_simgpu(self) -> None:
        outcome = run(SMALL, without_superpipe=True, environment={"SIMGPU_MEMORY": "plenty"})
        self.assertEqual((outcome.returncode, outcome.files), (1, {}), outcome.stderr)
        self.assertEqual(len(self.lines(outcome.stderr, "SIMGPU_MEMORY=plenty is not valid")), 1, outcome.stderr)


class BudgetTooSmall(EndToEndCase):
    """Launches of training need two or three buffers of 4 MiB: a layer's weights, gradient and optimizer state."""

    COMMAND = layers(3, 4, "--mode", "train")

    def test_launch_fails_with_one_line_that_names_kernel_bytes_and_budget(self) -> None:
        outcome = run(self.COMMAND, "--gpu-mem", "10M")
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        lines = self.lines(outcome.stderr, "superpipe: a launch of kernel ")
        self.assertEqual(len(lines), 1, outcome.stderr)
        # The context, what is too small to be managed, and the headroom have 2 MiB of the budget each.
        self.assertRegex(lines[0], rf"kernel layers::layer_gradient\(.*\) needs {8 * MIB} bytes .*"
                         rf"the budget leaves {4 * MIB} bytes .*raise the budget by at least {4 * MIB} bytes .*"
                         "--gpu-mem.*SUPERPIPE_OVERFLOW=allow")
        summary = self.lines(outcome.stderr, "smallest budget that would run it")
        self.assertEqual(len(summary), 1, outcome.stderr)
        self.assertRegex(summary[0], rf"kernel layers::layer_gradient\(.*run it: {14 * MIB} bytes")
        self.assert_succeeded(run(self.COMMAND, "--gpu-mem", "18M"))  # the update of a layer needs 12 MiB
        self.assertEqual(outcome.driver["unmapped_accesses"], 0)
        self.assertLessEqual(outcome.peak, 10 * MIB)

    def test_overflow_may_be_allowed(self) -> None:
        outcome = run(self.COMMAND, "--gpu-mem", "10M", "--overflow", "allow")
        self.assert_same_output(outcome, run(self.COMMAND, without_superpipe=True))
        self.assertEqual(len(self.lines(outcome.stderr, "over")), 1, outcome.stderr)


class Plugins(EndToEndCase):
    def test_kernel_that_the_plugin_lacks_is_said_once(self) -> None:
        # minilm's plugin has none of the kernels of superpipe-layers.
        other = {"SIMGPU_KERNELS": str(BUILD / "bin" / "superpipe-minilm.simgpu.so")}
        outcome = run(layers(4, 2, passes=5), without_superpipe=True, environment=other)
        self.assert_succeeded(outcome)
        lines = self.lines(outcome.stderr, "simgpu:")
        self.assertEqual([line for line in lines if "runs as a mixer; its results are not computed" in line], lines)
        self.assertEqual(len(lines), 2, outcome.stderr)  # the two kernels of a forward pass, once each
        managed = run(layers(4, 2, passes=5), "--k", "2", environment=other)
        self.assert_same_output(managed, outcome)
        self.assertEqual(self.lines(managed.stderr, "simgpu:"), lines)

    def test_mixers_see_every_byte_moved(self) -> None:
        other = {"SIMGPU_KERNELS": ""}
        reference = run(layers(6, 2), without_superpipe=True, environment=other)
        self.assert_succeeded(reference)
        for k in (1, 2, 4):
            self.assert_same_output(run(layers(6, 2), "--k", str(k), environment=other), reference)

    def test_plugin_that_does_not_exist(self) -> None:
        self.assert_refused("/no/such/plugin.so")

    def test_library_that_is_no_plugin(self) -> None:
        self.assert_refused(str(BUILD / "lib" / "superpipe" / "simgpu" / "libcudart.so.13"))

    def test_file_that_is_no_library(self) -> None:
        self.assert_refused("/etc/passwd")

    def assert_refused(self, plugin: str) -> None:
        for flags in ((), ("--k", "2")):
            with self.subTest(plugin=plugin, flags=flags):
                outcome = run(SMALL, *flags, without_superpipe=not flags, environment={"SIMGPU_KERNELS": plugin})
                self.assertEqual((outcome.returncode, outcome.files), (1, {}), outcome.stderr)
                self.assertEqual(len(self.lines(outcome.stderr, plugin)), 1, outcome.stderr)


class NoDriver(EndToEndCase):
    """The command looks before it starts anything; a program that finds no driver later hears it from the library."""

    def test_driver_that_is_missing_or_none(self) -> None:
        for driver, says in (("/no/such/libcuda.so.1", "does not exist"), ("libm.so.6", "is not a CUDA driver"),
                             ("/etc/passwd", "is not a CUDA driver")):
            with self.subTest(driver=driver):
                outcome = run(SMALL, simulate=False, environment={"SUPERPIPE_DRIVER": driver})
                self.assertEqual((outcome.returncode, outcome.stdout, outcome.files), (125, "", {}))
                self.assert_one_line(outcome.stderr, "superpipe run: ", driver, says)

    def test_command_that_does_not_exist(self) -> None:
        outcome = run(["no-such-command-anywhere"], "--k", "2")
        self.assertEqual((outcome.returncode, outcome.stdout), (127, ""))
        self.assert_one_line(outcome.stderr, "superpipe run: ", "there is no command 'no-such-command-anywhere'")


class NotCuda(EndToEndCase):
    def test_program_without_cuda_is_left_alone(self) -> None:
        outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], "--k", "2")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (3, "out\n", "err\n"))
        self.assertEqual((outcome.stats, outcome.driver), ({}, {}))

    def test_python_without_cuda_is_left_alone(self) -> None:
        outcome = run([sys.executable, "-c", "print(sum(range(10)))"], "--k", "2")
        self.assertEqual((outcome.returncode, outcome.stdout), (0, "45\n"))
        self.assert_one_line(outcome.stderr, "superpipe: the program never opened the CUDA driver")

    def test_children_of_a_shell_are_managed(self) -> None:
        command = ["sh", "-c", '"$@" && exit 5', "sh", *layers(4, 2)]
        outcome = run(command, "--k", "2", "--k-prime", "1",
                      environment={"SIMGPU_KERNELS": f"{LAYERS}.simgpu.so"})
        self.assertEqual(outcome.returncode, 5, outcome.stderr)
        self.assertEqual(outcome.files, run(layers(4, 2), without_superpipe=True).files)
        self.assertGreater(outcome.stats["h2d_bytes"], 0)


class Faults(EndToEndCase):
    """A driver that fails a call of ours may fail the program; it may not corrupt it."""

    def test_no_injected_fault_gives_wrong_bytes(self) -> None:
        reference = run(SMALL, without_superpipe=True)
        survived = failed = 0
        for fault in ("cuMemCreate:oom@1", "cuMemCreate:oom@3", "cuMemCreate:oom@6", "cuMemMap:fail@2",
                      "cuMemMap:fail@7", "cuMemSetAccess:fail@3", "cuMemUnmap:fail@2", "cuMemHostRegister_v2:fail@1",
                      "cuMemcpyHtoDAsync_v2:fail@2", "cuMemcpyDtoHAsync_v2:fail@1", "cuEventCreate:fail@4",
                      "cuEventRecord:fail@3", "cuStreamCreateWithPriority:fail@1", "cuStreamWaitEvent:fail@2",
                      "cuMemAddressReserve:fail@1"):
            with self.subTest(fault=fault):
                outcome = run(SMALL, "--k", "2", "--k-prime", "1", environment={"SIMGPU_FAULTS": fault})
                self.assertGreaterEqual(outcome.returncode, 0, f"died of a signal: {outcome.stderr}")
                if outcome.returncode == 0:
                    survived += 1
                    self.assertEqual(outcome.files, reference.files)
                else:
                    failed += 1
                    self.assertTrue(outcome.stderr)
        self.assertGreater(survived, 0)


if __name__ == "__main__":
    unittest.main()
