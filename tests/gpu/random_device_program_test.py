"""Random programs on simgpu give the same bytes with and without superpipe, and a digest that notices a wrong one."""

import os
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "tests" / "end_to_end"))
from simulated_run import BUILD, MIB, EndToEndCase, run  # noqa: E402  (found through the path above)

PROGRAM = BUILD / "tests" / "gpu" / "random_device_program"
ENVIRONMENT = {"SIMGPU_KERNELS": str(BUILD / "tests" / "gpu" / "gpu_test.simgpu.so"), "SIMGPU_MEMORY": "512M",
               "SIMGPU_D2D_GBPS": "1000"}
# What a budget has to hold besides managed buffers: a context, small allocations of both kinds, and headroom for the pool,
# each 2 MiB on simgpu.
BESIDE_BUFFERS = 8 * MIB


class RandomDeviceProgram(EndToEndCase):
    def outcome(self, *words: object, without_superpipe: bool = False, **variables: object):
        return run([PROGRAM, *words], without_superpipe=without_superpipe,
                   environment={**ENVIRONMENT, **{name: str(value) for name, value in variables.items()}})

    def test_same_bytes_under_every_kind_of_schedule(self) -> None:
        words = ("--seed", 100, "--programs", 8)
        reference = self.outcome(*words, without_superpipe=True)
        self.assert_succeeded(reference)
        self.assertEqual(len(set(reference.stdout.splitlines())), 8)
        for variables in ({"SUPERPIPE_GPU_MEM": BESIDE_BUFFERS + 12 * MIB}, {"SUPERPIPE_GPU_MEM": BESIDE_BUFFERS + 20 * MIB},
                          {"SUPERPIPE_K": 1}, {"SUPERPIPE_K": 3, "SUPERPIPE_K_PRIME": 2}):
            with self.subTest(variables):
                managed = self.outcome(*words, **variables)
                self.assert_same_output(managed, reference)
                if "SUPERPIPE_GPU_MEM" in variables:
                    self.assertGreater(managed.stats["evictions"], 100)

    def test_digest_is_of_what_was_computed(self) -> None:
        """The program run with kernels that compute something else (simgpu's mixer) gives another digest."""
        words = ("--seed", 5)
        self.assertNotEqual(self.outcome(*words, without_superpipe=True).stdout,
                            self.outcome(*words, without_superpipe=True, SIMGPU_KERNELS="").stdout)

    def test_ends_with_work_queued(self) -> None:
        for how, code in (("pending", 0), ("exit", 17), ("thread", 17), ("at-once", 17)):
            with self.subTest(how):
                words = ("--seed", 3, "--leave", how)
                reference = self.outcome(*words, without_superpipe=True)
                self.assertEqual(reference.returncode, code, reference.stderr)
                managed = self.outcome(*words, SUPERPIPE_GPU_MEM=BESIDE_BUFFERS + 12 * MIB)
                self.assertEqual((managed.returncode, managed.stdout), (code, reference.stdout), managed.stderr)

    def test_bad_usage(self) -> None:
        for words in (("--seed", "x"), ("--leave", "never")):
            with self.subTest(words):
                self.assertEqual(self.outcome(*words, without_superpipe=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
