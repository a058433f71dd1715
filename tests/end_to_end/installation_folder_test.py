"""An installation runs from any folder, also from one that LD_PRELOAD and LD_AUDIT cannot name."""

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import (
    BUILD,
    FAST,
    LIMIT,
    MIB,
    EndToEndCase,
    clean_environment,
    layers,
    run,
)

PARTS = ("superpipe", "superpipe.simgpu.so", "superpipe-layers", "superpipe-layers.simgpu.so")
NAME = "a folder; of: mine"


class InstallationFolder(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-spaces-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.prefix = cls.folder / NAME
        (cls.prefix / "bin").mkdir(parents=True)
        for name in PARTS:
            shutil.copy2(BUILD / "bin" / name, cls.prefix / "bin" / name)
        shutil.copytree(
            BUILD / "lib" / "superpipe", cls.prefix / "lib" / "superpipe", symlinks=True
        )

    def setUp(self) -> None:
        self.shared = Path(tempfile.mkdtemp(prefix="shared-", dir=self.folder))
        self.out = Path(tempfile.mkdtemp(prefix="out-", dir=self.folder))

    def superpipe(
        self, *words: object, prefix: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str((prefix or self.prefix) / "bin" / "superpipe"), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={
                **clean_environment("LD_", "CUDA_"),
                **FAST,
                "SUPERPIPE_SHARED_FOLDER": str(self.shared),
                **variables,
            },
        )

    def command(self, prefix: Path | None = None) -> list[str]:
        """superpipe-layers of the installation, which writes its digests into self.out."""
        _, *words = layers(6, 2)
        program = (prefix or self.prefix) / "bin" / "superpipe-layers"
        return [str(program), *(str(word).replace("{out}", str(self.out)) for word in words)]

    def assert_managed(self, finished: subprocess.CompletedProcess, statistics: Path) -> None:
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        # The loader says so of what it cannot load, and starts the program without it.
        self.assertNotIn("cannot be", finished.stderr)
        self.assertNotIn("computes no values", finished.stderr)
        stats = json.loads(statistics.read_text())
        self.assertGreater(stats["evictions"], 0)
        self.assertLessEqual(stats["peak_device_bytes"], 10 * MIB)
        reference = run(layers(6, 2), without_superpipe=True)
        self.assertEqual((self.out / "digests").read_bytes(), reference.files["digests"])

    def test_runs_with_the_kernels_of_its_examples(self) -> None:
        stats = self.out / "stats.json"
        finished = self.superpipe(
            "run", "--simulate", "--gpu-mem", "10M", "--", *self.command(),
            SUPERPIPE_STATS=str(stats),
        )  # fmt: skip
        self.assert_managed(finished, stats)

    def test_children_that_start_when_the_command_is_gone_are_managed(self) -> None:
        stats = self.out / "stats.json"
        finished = self.superpipe(
            "run", "--simulate", "--gpu-mem", "10M", "--",
            "sh", "-c", 'sh -c \'"$@"; exit $?\' sh "$@"', "sh", *self.command(),
            SUPERPIPE_STATS=str(stats),
            SIMGPU_KERNELS=str(BUILD / "bin" / "superpipe-layers.simgpu.so"),
        )  # fmt: skip
        self.assert_managed(finished, stats)

    def test_finds_its_kernels_again_where_it_has_moved(self) -> None:
        moved = self.folder / "moved: elsewhere"
        for prefix in (self.prefix, moved):
            with self.subTest(prefix):
                if prefix == moved:
                    self.prefix.rename(moved)
                    self.addCleanup(moved.rename, self.prefix)
                stats = self.out / "stats.json"
                finished = self.superpipe(
                    "run", "--simulate", "--gpu-mem", "10M", "--", *self.command(prefix),
                    prefix=prefix, SUPERPIPE_STATS=str(stats),
                )  # fmt: skip
                self.assert_managed(finished, stats)

    def test_runs_with_a_driver_that_is_named(self) -> None:
        stats = self.out / "stats.json"
        simgpu = self.prefix / "lib" / "superpipe" / "simgpu"
        finished = self.superpipe(
            "run", "--gpu-mem", "10M", "--", *self.command(),
            SUPERPIPE_STATS=str(stats),
            SUPERPIPE_DRIVER=str(simgpu / "libcuda.so.1"),
            SIMGPU_KERNELS=str(BUILD / "bin" / "superpipe-layers.simgpu.so"),
            LD_LIBRARY_PATH=str(BUILD / "lib" / "superpipe" / "simgpu"),
        )  # fmt: skip
        self.assert_managed(finished, stats)

    def test_verifies(self) -> None:
        finished = self.superpipe(
            "verify", "--simulate", "--gpu-mem", "10M", "--", *self.command()
        )
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertNotIn("cannot be", finished.stderr)

    def test_the_doctor_asks_its_programs(self) -> None:
        finished = self.superpipe("doctor", "--simulate", "--quick", SIMGPU_DEVICES="2")
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        self.assertIn(str(self.prefix / "lib" / "superpipe" / "libsuperpipe.so"), finished.stdout)
        for word in ("skipped", "failed", "crashed", "timed out"):
            self.assertNotIn(f" {word}: ", finished.stdout)

    def test_the_link_is_for_this_user_alone(self) -> None:
        self.superpipe("run", "--simulate", "--", "true")
        (own,) = self.shared.iterdir()
        self.assertEqual(own.stat().st_mode & 0o777, 0o700)
        links = [path for path in own.iterdir() if path.is_symlink()]
        self.assertEqual([link.readlink() for link in links], [self.prefix])

    def test_one_line_where_no_link_can_be_made(self) -> None:
        named = self.folder / "shared too: this"
        named.mkdir()
        for shared in (self.folder / "missing", named):
            for subcommand in ("run", "verify"):
                with self.subTest(shared=shared, subcommand=subcommand):
                    finished = self.superpipe(
                        subcommand, "--simulate", "--", "touch", self.out / "started",
                        SUPERPIPE_SHARED_FOLDER=str(shared),
                    )  # fmt: skip
                    self.assertEqual((finished.returncode, finished.stdout), (125, ""))
                    self.assert_one_line(
                        finished.stderr, f"superpipe {subcommand}: ", str(self.prefix),
                        "a space, a colon or a semicolon", f"can be made in {shared}",
                        "SUPERPIPE_SHARED_FOLDER",
                    )  # fmt: skip
        self.assertFalse((self.out / "started").exists())


if __name__ == "__main__":
    unittest.main()
