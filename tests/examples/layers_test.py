"""superpipe-layers: the device code, the simgpu plugin and the host's own computation agree on every buffer."""

import ctypes
import itertools
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from program import BUILD, ON_SIMGPU, PLUGIN, THREADS, ProgramCase, plugin, run

SMALL = ["--layers", 3, "--layer-mib", 1, "--passes", 2]


class Kernel(ctypes.Structure):
    """SimgpuKernel of tools/simgpu/kernel_plugin.h."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("modelled_us", ctypes.c_double),
                ("modelled_us_of", ctypes.c_void_p)]


class Results(ProgramCase):
    def digests(self, how: str, *words) -> str:
        """The digests of all buffers of a run that also agreed with the host."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "digests"
            self.assert_done(run("layers", how, "--verify", "--output", path, *words))
            return path.read_text()

    def test_device_code_thread_by_thread(self) -> None:
        for mode in ("forward", "train"):
            with self.subTest(mode=mode):
                words = ["--layers", 2, "--layer-mib", 1, "--passes", 2, "--mode", mode]
                self.assertEqual(self.digests(THREADS, *words), self.digests(PLUGIN, *words))

    def test_every_way_to_run_it(self) -> None:
        for how, mode, streams, alloc, load in itertools.product(
                (PLUGIN, ON_SIMGPU), ("forward", "train"), (1, 3), ("sync", "async"), ((), ("--async",))):
            with self.subTest(how=how, mode=mode, streams=streams, alloc=alloc, load=load):
                found = self.digests(how, *SMALL, "--mode", mode, "--streams", streams, "--alloc", alloc, *load)
                kinds = re.findall(r"^(\w+) \d+ [0-9a-f]{16}$", found, re.MULTILINE)
                expected = {"weights": 3, "activation": streams} if mode == "forward" else {
                    "weights": 3, "activation": 4, "gradient": 3, "state": 3, "upstream": 1}
                self.assertEqual({kind: kinds.count(kind) for kind in kinds}, expected)

    def test_streams_of_training_change_nothing(self) -> None:
        for how in (PLUGIN, ON_SIMGPU):
            runs = [self.digests(how, *SMALL, "--mode", "train", "--streams", streams) for streams in (1, 2, 4)]
            self.assertEqual(len(set(runs)), 1)

    def test_activations_of_another_size(self) -> None:
        for kib in (1, 36, 2048):  # the smallest, one that does not divide a layer, one larger than a layer
            self.digests(PLUGIN, *SMALL, "--mode", "train", "--activation-kib", kib)

    def test_more_passes_until_there_is_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            end = Path(folder) / "end"
            more = subprocess.Popen([BUILD / "tests" / "emulated_layers", *map(str, SMALL),
                                     "--verify", "--until", end],
                                    env={**os.environ, "EMULATION_PLUGIN": str(plugin("layers"))},
                                    stdout=subprocess.PIPE, text=True)
            self.addCleanup(more.kill)
            # What it would do without --until, five times in a row.
            few, *_ = [self.digests(PLUGIN, *SMALL) for _ in range(5)]
            self.assertIsNone(more.poll(), "it ends before there is a file")
            end.touch()
            said, _ = more.communicate(timeout=300)
            self.assertEqual(more.returncode, 0)
            self.assertGreater(said.count("pass "), 2)
            self.assertEqual(self.digests(PLUGIN, *SMALL, "--until", end), few)

    def test_verify_notices_a_wrong_kernel(self) -> None:
        """Seeded defect: a plugin without the optimizer step, in place of which simgpu writes something else."""
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder) / "broken.so"
            code = plugin("layers").read_bytes()
            update = b"_ZN6layers12update_layerEPmS0_PKmm\0"
            self.assertIn(update, code)
            broken.write_bytes(code.replace(update, b"_ZN6layers12xpdate_layerEPmS0_PKmm\0"))
            finished = run("layers", ON_SIMGPU, *SMALL, "--mode", "train", "--verify", SIMGPU_KERNELS=str(broken))
        self.assertEqual(finished.returncode, 1)
        self.assertIn(b"is wrong", finished.stderr)


class Output(ProgramCase):
    def test_json(self) -> None:
        finished = run("layers", ON_SIMGPU, *SMALL, "--json", "--compute-us", 2000)
        self.assert_done(finished)
        result = json.loads(finished.stdout)
        self.assertEqual((result["mode"], result["layers"], result["layer_bytes"], result["passes"]),
                         ("forward", 3, 1 << 20, 2))
        self.assertEqual(len(result["pass_ms"]), 2)
        # Modelled time: three layers of 2 ms each, and three short kernels.
        for milliseconds in result["pass_ms"]:
            self.assertGreaterEqual(milliseconds, 6)
            self.assertLess(milliseconds, 60)

    def test_kernel_names_are_those_of_the_program(self) -> None:
        for name, kernels in (("layers", 4), ("minilm", 5)):
            library = ctypes.CDLL(str(plugin(name)))
            count = ctypes.c_size_t()
            library.simgpu_kernels.restype = ctypes.POINTER(Kernel)
            found = library.simgpu_kernels(ctypes.byref(count))
            self.assertEqual(count.value, kernels)
            program = (BUILD / "bin" / f"superpipe-{name}").read_bytes()
            for i in range(count.value):
                # The device code has a section for each kernel.
                self.assertTrue(b".text." + found[i].name + b"\0" in program, found[i].name)


class BadInput(ProgramCase):
    def test_command_lines(self) -> None:
        for words, part in ((["--layers", "0"], "--layers"), (["--layer-mib", "x"], "--layer-mib"),
                            (["--mode", "backward"], "forward, train"), (["--alloc", "pool"], "sync, async"),
                            (["--streams", "65"], "from 1 to 64"), (["--fast"], "--fast"), (["file"], "file")):
            with self.subTest(words=words):
                self.assert_refused(run("layers", PLUGIN, *words), 2, part)

    def test_output_that_cannot_be_written(self) -> None:
        finished = run("layers", PLUGIN, *SMALL, "--output", "/nonexistent/file")
        self.assert_refused(finished, 1, "/nonexistent/file")

    def test_more_memory_than_the_device_has(self) -> None:
        finished = run("layers", ON_SIMGPU, "--layers", 4, "--layer-mib", 16, SIMGPU_MEMORY="40M")
        self.assert_refused(finished, 1, "cudaMalloc", "cudaErrorMemoryAllocation")

    def test_help(self) -> None:
        finished = run("layers", PLUGIN, "--help")
        self.assert_done(finished)
        self.assertIn(b"usage: superpipe-layers", finished.stdout)


if __name__ == "__main__":
    unittest.main()
