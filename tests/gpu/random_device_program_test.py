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
UNMANAGED = 8 * MIB  # a context, small allocations of both kinds, headroom for the pool: 2 MiB each on simgpu


class RandomDeviceProgram(EndToEndCase):
    def outcome(self, *words: object, unmanaged: bool = False, **variables: object):
        return run([PROGRAM, *words], unmanaged=unmanaged,
                   environment={**ENVIRONMENT, **{name: str(value) for name, value in variables.items()}})

    def test_same_bytes_under_every_kind_of_schedule(self) -> None:
        words = ("--seed", 100, "--programs", 8)
        unmanaged = self.outcome(*words, unmanaged=True)
        self.assert_succeeded(unmanaged)
        self.assertEqual(len(set(unmanaged.stdout.splitlines())), 8)
        for variables in ({"SUPERPIPE_GPU_MEM": UNMANAGED + 12 * MIB}, {"SUPERPIPE_GPU_MEM": UNMANAGED + 20 * MIB},
                          {"SUPERPIPE_K": 1}, {"SUPERPIPE_K": 3, "SUPERPIPE_K_PRIME": 2}):
            with self.subTest(variables):
                managed = self.outcome(*words, **variables)
                self.assert_same_output(managed, unmanaged)
                if "SUPERPIPE_GPU_MEM" in variables:
                    self.assertGreater(managed.stats["evictions"], 100)

    def test_digest_is_of_what_was_computed(self) -> None:
        """The program run with kernels that compute something else (simgpu's mixer) gives another digest."""
        words = ("--seed", 5)
        self.assertNotEqual(self.outcome(*words, unmanaged=True).stdout,
                            self.outcome(*words, unmanaged=True, SIMGPU_KERNELS="").stdout)

    def test_ends_with_work_queued(self) -> None:
        for how, code in (("pending", 0), ("exit", 17), ("thread", 17), ("at-once", 17)):
            with self.subTest(how):
                words = ("--seed", 3, "--leave", how)
                unmanaged = self.outcome(*words, unmanaged=True)
                self.assertEqual(unmanaged.returncode, code, unmanaged.stderr)
                managed = self.outcome(*words, SUPERPIPE_GPU_MEM=UNMANAGED + 12 * MIB)
                self.assertEqual((managed.returncode, managed.stdout), (code, unmanaged.stdout), managed.stderr)

    def test_bad_usage(self) -> None:
        for words in (("--seed", "x"), ("--leave", "never")):
            with self.subTest(words):
                self.assertEqual(self.outcome(*words, unmanaged=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
