"""What containers and clusters take away stops no run: locked memory, room in /dev/shm, a home."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import (
    FAST,
    LIMIT,
    MIB,
    SUPERPIPE,
    EndToEndCase,
    clean_environment,
    layers,
    run,
)
from hermetic import unprivileged

# More is evicted than a container's /dev/shm holds.
COMMAND = layers(24, 8, passes=2)
BUDGET = ("--gpu-mem", "32M")
DOCKERS_SHM = 64 * MIB
SAID = ("policy ", "peak device memory ", "evictions", " launches, ")


class NarrowMachine(EndToEndCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-narrow-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "out").mkdir(mode=0o777)
        (self.folder / "shared").mkdir()

    def assert_runs(self, *before: str, **variables: str) -> None:
        """The program behind `before` computes what it does elsewhere, and nothing is said but what
        a run says at its end."""
        environment = {
            **clean_environment("LD_", "CUDA_"),
            **FAST,
            "SUPERPIPE_SHARED_FOLDER": str(self.folder / "shared"),
            **variables,
        }
        environment.pop("SUPERPIPE_HOST_LEDGER")
        words = [str(word).replace("{out}", str(self.folder / "out")) for word in COMMAND]
        finished = subprocess.run(
            [*before, str(SUPERPIPE), "run", "--simulate", *BUDGET, "--", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(finished.returncode, 0, finished.stderr)
        lines = finished.stderr.splitlines()
        self.assertEqual(len(lines), len(SAID), finished.stderr)
        for line, said in zip(lines, SAID):
            self.assertIn(said, line)
        reference = run(COMMAND, without_superpipe=True)
        self.assertEqual(
            (self.folder / "out" / "digests").read_bytes(), reference.files["digests"]
        )

    def test_no_memory_may_be_locked(self) -> None:
        self.assert_runs(*unprivileged(), "sh", "-c", 'ulimit -l 0 && exec "$@"', "sh")

    def test_the_shared_folder_is_as_small_as_a_containers(self) -> None:
        mounted = [
            "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
            f'mount -t tmpfs -o size={DOCKERS_SHM} tmpfs /dev/shm && exec "$@"', "sh",
        ]  # fmt: skip
        if subprocess.run([*mounted, "true"], capture_output=True, timeout=LIMIT).returncode != 0:
            self.skipTest("no namespace with a file system of its own is to be had")
        self.assert_runs(*mounted, SUPERPIPE_SHARED_FOLDER="/dev/shm")

    def test_the_home_cannot_be_written(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        home.chmod(0o500)
        self.addCleanup(home.chmod, 0o700)
        self.assert_runs(*unprivileged(), HOME=str(home), XDG_CACHE_HOME=str(home / "cache"))
        self.assertEqual(list(home.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
