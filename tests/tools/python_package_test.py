"""The Python package superpipe where no library is loaded: what it finds, asks for and refuses."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from command_case import CommandCase
from hermetic import LIMIT, clean_environment

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PACKAGE = SOURCE / "python" / "superpipe"
PRINT_ERROR = """
import superpipe
try:
    print({call})
except Exception as error:
    print(type(error).__name__, error)
"""


class PackageCase(CommandCase):
    """Python with the package in its path, and the command of the installation on PATH."""

    def setUp(self) -> None:
        super().setUp()
        self.packages = self.root / "packages"
        shutil.copytree(PACKAGE, self.packages / "superpipe", ignore=lambda *_: ["__pycache__"])
        self.variables = {
            "PYTHONPATH": str(self.packages),
            "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}",
        }

    def python(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-B", *words],
            env={**clean_environment("LD_", "JUPYTER", "XDG_"), **self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=self.root,
        )

    def run_code(self, code: str, **variables: str) -> str:
        """@return what it printed."""
        finished = self.python("-c", code, **variables)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return finished.stdout.strip()

    def error_of(self, call: str, **variables: str) -> str:
        """The name and the message of what `call` raises."""
        return self.run_code(PRINT_ERROR.format(call=call), **variables)


class NotActive(PackageCase):
    def test_importing_and_asking_loads_nothing(self) -> None:
        loaded = self.run_code(
            "import superpipe\n"
            "assert superpipe.is_active() is False\n"
            "print(open('/proc/self/maps').read())"
        )
        self.assertNotIn("libcuda", loaded)
        self.assertNotIn("libsuperpipe", loaded)

    def test_says_why(self) -> None:
        calls = ("require_active()", "stats()", "set_budget('4G')")
        for call in calls:
            with self.subTest(call):
                said = self.error_of(f"superpipe.{call}")
                self.assertRegex(said, "^NotActive this process .*start it by superpipe run")
        gone = "/no/such/libsuperpipe.so"
        said = self.error_of("superpipe.require_active()", LD_PRELOAD=gone)
        self.assertIn(f"LD_PRELOAD names {gone}, which cannot be read", said)
        # Any library will do: it is there, and is not in force.
        there = self.root / "libsuperpipe.so"
        there.touch()
        off = {"LD_PRELOAD": str(there), "SUPERPIPE_OFF": "1"}
        self.assertIn("SUPERPIPE_OFF=1", self.error_of("superpipe.require_active()", **off))
        said = self.error_of("superpipe.require_active()", LD_PRELOAD=str(there))
        self.assertIn("not in force", said)

    def test_require_active_ends_a_program_that_does_not_catch_it(self) -> None:
        finished = self.python("-c", "import superpipe; superpipe.require_active(); print('on')")
        self.assertEqual((finished.returncode, finished.stdout), (1, ""))


class Environment(PackageCase):
    def test_is_what_the_command_prints(self) -> None:
        code = "import json, superpipe; print(json.dumps(superpipe.environment({})))"
        for keywords, flags in (
            ("", []),
            ("gpu_mem='6G', host_mem=1 << 30", ["--gpu-mem", "6G", "--host-mem", str(1 << 30)]),
            ("k=4, policy='naive', k_prime=None", ["--k", "4", "--policy", "naive"]),
            ("simulate=True, strict=False", ["--simulate"]),
            (f"gpu_mem='40%', runtime='{self.prefix.parent}'", None),
        ):
            with self.subTest(keywords):
                if flags is None:
                    shutil.copytree(self.prefix, self.prefix.parent / "superpipe")
                    flags = ["--gpu-mem", "40%", "--runtime", str(self.prefix.parent)]
                printed = self.run_superpipe("env", "--format", "json", *flags)
                self.assertEqual(
                    json.loads(self.run_code(code.format(keywords))), json.loads(printed.stdout)
                )

    def test_keeps_what_is_preloaded(self) -> None:
        code = "import superpipe; print(superpipe.environment()['LD_PRELOAD'])"
        mine = self.root / "mine.so"
        self.assertEqual(self.run_code(code, LD_PRELOAD=str(mine)), f"{self.library}:{mine}")

    def test_refuses_bad_values(self) -> None:
        for keywords, says in (
            ("gpu_mem='12Q'", "--gpu-mem 12Q"),
            ("gpu_mem='-1G'", "--gpu-mem -1G"),
            ("gpu_mem=0", "--gpu-mem 0"),
            ("gpu_mem=0.5", "0.5: it takes a text or a whole number"),
            ("gpu_mem=''", "--gpu-mem"),
            ("gpu_memory='6G'", "no flag '--gpu-memory"),
            ("k=2, gpu_mem='6G'", "one of them"),
            ("simulate='perhaps'", "--simulate"),
        ):
            with self.subTest(keywords):
                said = self.error_of(f"superpipe.environment({keywords})")
                self.assertTrue(said.startswith("ValueError "), said)
                self.assertIn(says, said)

    def test_says_which_part_is_missing(self) -> None:
        self.library.unlink()
        said = self.error_of("superpipe.environment()")
        self.assertRegex(said, "^Error superpipe env: a part of superpipe is missing")


class Command(PackageCase):
    CODE = "from superpipe import _process; print(_process.command())"

    def test_is_that_of_the_library_then_of_the_package_then_on_path(self) -> None:
        on_path = self.prefix / "bin" / "superpipe"
        self.assertEqual(self.run_code(self.CODE), str(on_path))
        own = self.packages / "superpipe" / "bin" / "superpipe"
        own.parent.mkdir()
        shutil.copy2(on_path, own)
        self.assertEqual(self.run_code(self.CODE), str(own))
        self.install(self.root / "another")
        preload = f"/lib/mine.so:{self.library}"
        self.assertEqual(
            self.run_code(self.CODE, LD_PRELOAD=preload), str(self.prefix / "bin" / "superpipe")
        )

    def test_says_where_it_was_not_found(self) -> None:
        said = self.error_of("superpipe.environment()", PATH="/no/such/folder")
        self.assertRegex(said, "^Error there is no command superpipe: .*wheel.*PATH")


if __name__ == "__main__":
    unittest.main()
