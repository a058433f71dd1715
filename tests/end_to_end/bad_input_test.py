"""What a user or a machine can get wrong: each time one clear line that says what to do, and nothing lost."""

import sys
import unittest

from simulated_run import BUILD, LAYERS, EndToEndCase, layers, run

SMALL = layers(4, 2)


class BadVariables(EndToEndCase):
    BAD = {
        "SUPERPIPE_K": "zero",
        "SUPERPIPE_GPU_MEM": "12Q",
        "SUPERPIPE_POLICY": "belady",
        "SUPERPIPE_HOST_MEM": "-1",
        "SUPERPIPE_MIN_BUFFER": "many",
        "SUPERPIPE_ALLOCATOR": "mine",
        "SUPERPIPE_WRITEBACK": "never",
        "SUPERPIPE_OVERFLOW": "perhaps",
        "SUPERPIPE_WAIT_MS": "soon",
        "SUPERPIPE_FILL": "ones",
        "SUPERPIPE_EVICTED": "gone",
        "SUPERPIPE_LOG": "loud",
        "SUPERPIPE_TRACE": "file",
        "SUPERPIPE_PLAN": "file",
    }

    def test_program_runs_unmanaged_after_one_line(self) -> None:
        unmanaged = run(SMALL, unmanaged=True)
        for name, value in self.BAD.items():
            with self.subTest(variable=name):
                outcome = run(SMALL, environment={name: value})
                self.assert_same_output(outcome, unmanaged)
                self.assertEqual(len(self.lines(outcome.stderr, name)), 1, outcome.stderr)
                self.assertIn(f"{name}={value}", outcome.stderr)
                self.assertEqual(outcome.peak, unmanaged.peak)

    def test_strict_does_not_run_it(self) -> None:
        outcome = run(SMALL, "--strict", environment={"SUPERPIPE_K": "zero"})
        self.assertNotEqual(outcome.returncode, 0)
        self.assertEqual(outcome.files, {})
        self.assertIn("SUPERPIPE_K=zero", outcome.stderr)

    def test_variables_that_contradict_each_other(self) -> None:
        for environment in ({"SUPERPIPE_K": "2", "SUPERPIPE_K_PRIME": "2"}, {"SUPERPIPE_K_PRIME": "1"},
                            {"SUPERPIPE_K": "2", "SUPERPIPE_GPU_MEM": "1G"}):
            with self.subTest(**environment):
                outcome = run(SMALL, environment=environment)
                self.assert_succeeded(outcome)
                self.assertEqual(len(self.lines(outcome.stderr, "SUPERPIPE_")), 1, outcome.stderr)

    def test_malformed_variable_of_simgpu(self) -> None:
        outcome = run(SMALL, unmanaged=True, environment={"SIMGPU_MEMORY": "plenty"})
        self.assertNotEqual(outcome.returncode, 0)
        self.assertEqual(len(self.lines(outcome.stderr, "SIMGPU_MEMORY")), 1, outcome.stderr)


class BudgetTooSmall(EndToEndCase):
    """One launch of training needs a layer's weights, gradient and optimizer state: 3 buffers of 4 MiB."""

    COMMAND = layers(3, 4, "--mode", "train")

    def test_launch_fails_with_one_line_that_names_kernel_bytes_and_budget(self) -> None:
        outcome = run(self.COMMAND, "--gpu-mem", "10M")
        self.assertEqual(outcome.returncode, 1, outcome.stderr)
        lines = [line for line in self.lines(outcome.stderr, "superpipe") if "kernel" in line and "budget" in line]
        self.assertEqual(len(lines), 1, outcome.stderr)
        self.assertRegex(lines[0], r"Mi?B")
        self.assertLessEqual(outcome.peak, 10 << 20)

    def test_overflow_may_be_allowed(self) -> None:
        outcome = run(self.COMMAND, "--gpu-mem", "10M", "--overflow", "allow")
        self.assert_same_output(outcome, run(self.COMMAND, unmanaged=True))
        self.assertEqual(len(self.lines(outcome.stderr, "over")), 1, outcome.stderr)


class Plugins(EndToEndCase):
    def test_kernel_that_the_plugin_lacks_is_said_once(self) -> None:
        # minilm's plugin has none of the kernels of superpipe-layers.
        other = {"SIMGPU_KERNELS": str(BUILD / "bin" / "superpipe-minilm.simgpu.so")}
        outcome = run(layers(4, 2, passes=5), unmanaged=True, environment=other)
        lines = self.lines(outcome.stderr, "mixer")
        self.assertGreaterEqual(len(lines), 1, outcome.stderr)
        self.assertEqual(len(lines), len(set(lines)))

    def test_mixers_see_every_byte_moved(self) -> None:
        other = {"SIMGPU_KERNELS": ""}
        unmanaged = run(layers(6, 2), unmanaged=True, environment=other)
        self.assert_succeeded(unmanaged)
        for k in (1, 2, 4):
            self.assert_same_output(run(layers(6, 2), "--k", str(k), environment=other), unmanaged)

    def test_plugin_that_does_not_exist(self) -> None:
        outcome = run(SMALL, unmanaged=True, environment={"SIMGPU_KERNELS": "/no/such/plugin.so"})
        self.assertNotEqual(outcome.returncode, 0)
        self.assertEqual(len(self.lines(outcome.stderr, "/no/such/plugin.so")), 1, outcome.stderr)


class NotCuda(EndToEndCase):
    def test_program_without_cuda_is_left_alone(self) -> None:
        outcome = run(["sh", "-c", "echo out; echo err >&2; exit 3"], "--k", "2")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (3, "out\n", "err\n"))
        self.assertEqual((outcome.stats, outcome.driver), ({}, {}))

    def test_python_without_cuda_is_left_alone(self) -> None:
        outcome = run([sys.executable, "-c", "print(sum(range(10)))"], "--k", "2")
        self.assertEqual((outcome.returncode, outcome.stdout, outcome.stderr), (0, "45\n", ""))

    def test_children_of_a_shell_are_managed(self) -> None:
        command = ["sh", "-c", '"$@" && exit 5', "sh", *layers(4, 2)]
        outcome = run(command, "--k", "2", "--k-prime", "1",
                      environment={"SIMGPU_KERNELS": f"{LAYERS}.simgpu.so"})
        self.assertEqual(outcome.returncode, 5, outcome.stderr)
        self.assertEqual(outcome.files, run(layers(4, 2), unmanaged=True).files)
        self.assertGreater(outcome.stats["h2d_bytes"], 0)


class Faults(EndToEndCase):
    """A driver that fails a call of ours may fail the program; it may not corrupt it."""

    def test_no_injected_fault_gives_wrong_bytes(self) -> None:
        unmanaged = run(SMALL, unmanaged=True)
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
                    self.assertEqual(outcome.files, unmanaged.files)
                else:
                    failed += 1
                    self.assertTrue(outcome.stderr)
        self.assertGreater(survived, 0)


if __name__ == "__main__":
    unittest.main()
