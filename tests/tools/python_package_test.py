"""The Python package superpipe where no library is loaded: what it finds, asks for and refuses."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from command_case import CommandCase
from hermetic import LIMIT, clean_environment, unprivileged

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

    def python(
        self, *words: str, before: list[str] = [], **variables: str
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*before, sys.executable, "-B", *words],
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


class Jupyter(PackageCase):
    """The kernel's program is not there: a package of that name is enough to write a kernelspec."""

    def setUp(self) -> None:
        super().setUp()
        (self.packages / "ipykernel").mkdir()
        (self.packages / "ipykernel" / "__init__.py").touch()
        self.kernels = self.root / "share" / "jupyter" / "kernels"

    def install_kernel(
        self, *words: str, before: list[str] = [], **variables: str
    ) -> subprocess.CompletedProcess:
        return self.python("-m", "superpipe.jupyter", "install", *words, before=before, **variables)

    def specification(self, folder: Path) -> dict:
        return json.loads((folder / "kernel.json").read_text())

    def test_writes_a_kernelspec(self) -> None:
        for _ in range(2):  # the second one replaces the first
            words = ("--prefix", str(self.root), "--gpu-mem", "6G", "--simulate")
            finished = self.install_kernel(*words)
            self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        folder = self.kernels / "superpipe"
        self.assertIn(str(folder), finished.stdout)
        self.assertEqual(
            self.specification(folder),
            {
                "argv": [
                    str(self.prefix / "bin" / "superpipe"),
                    *("run", "--gpu-mem", "6G", "--simulate", "--"),
                    *(sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"),
                ],
                "display_name": "Python (superpipe --gpu-mem 6G --simulate)",
                "language": "python",
                "metadata": {"debugger": True},
            },
        )
        self.assertEqual(os.listdir(folder), ["kernel.json"])

    def test_has_the_name_that_was_asked_for(self) -> None:
        words = ("--prefix", str(self.root), "--name", "small", "--display-name", "Small card")
        finished = self.install_kernel(*words, "--k=4")
        self.assertEqual(finished.returncode, 0, finished.stderr)
        written = self.specification(self.kernels / "small")
        self.assertEqual(written["display_name"], "Small card")
        self.assertIn("--k=4", written["argv"])

    def test_writes_where_jupyter_looks_for_a_users_kernels(self) -> None:
        home = self.root / "home"
        for variables, data in (
            ({"HOME": str(home)}, home / ".local" / "share" / "jupyter"),
            ({"XDG_DATA_HOME": str(home / "data")}, home / "data" / "jupyter"),
            ({"JUPYTER_DATA_DIR": str(home / "own")}, home / "own"),
        ):
            with self.subTest(data):
                self.assertEqual(self.install_kernel("--user", **variables).returncode, 0)
                self.assertTrue((data / "kernels" / "superpipe" / "kernel.json").exists())

    def test_refuses_bad_words_and_writes_nothing(self) -> None:
        for words, says in (
            (["--gpu-mem", "12Q"], "--gpu-mem 12Q"),
            (["--no-such-flag"], "no flag '--no-such-flag'"),
            (["--name", "a/b"], "--name a/b"),
            (["word"], "'word' is too much"),
        ):
            with self.subTest(words):
                finished = self.install_kernel("--prefix", str(self.root), *words)
                self.assert_one_line(finished, 2, "superpipe.jupyter: ", says)
                self.assertFalse(self.kernels.exists())

    def test_says_what_is_missing(self) -> None:
        words = ("--prefix", str(self.root))
        finished = self.install_kernel(*words, PATH="/no/such/folder")
        self.assert_one_line(finished, 125, "no command superpipe")
        # A folder of that name would be found in the working folder.
        shutil.rmtree(self.packages / "ipykernel")
        finished = self.python("-S", "-m", "superpipe.jupyter", "install", *words)
        self.assert_one_line(finished, 125, "pip install ipykernel")

    def test_a_folder_that_cannot_be_written(self) -> None:
        self.kernels.mkdir(parents=True)
        self.kernels.chmod(0o555)
        words = ("--prefix", str(self.root))
        finished = self.install_kernel(*words, before=unprivileged())
        self.assert_one_line(finished, 2, "superpipe.jupyter: ", "denied", str(self.kernels))


if __name__ == "__main__":
    unittest.main()
