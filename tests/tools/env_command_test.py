"""`superpipe env` prints what `superpipe run` sets, in a form for each that starts programs."""

import json
import shlex
import subprocess
import sys
import unittest

from command_case import CommandCase
from hermetic import LIMIT, clean_environment
from run_command_test import BAD_USAGE, CANNOT_RUN, PRINT_ENVIRONMENT, WITH_DRIVER

OURS = ("LD_", "SUPERPIPE_", "SIMGPU_", "XLA_")
PRINT = [sys.executable, "-c", PRINT_ENVIRONMENT]


def ours(environment: dict[str, str]) -> dict[str, str]:
    """What superpipe may have set, without empty settings, which are as good as none, and without
    the folder of links, which run alone makes."""
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    kept = ":".join(folder for folder in folders if "/superpipe-links-" not in folder)
    environment = {**environment, "LD_LIBRARY_PATH": kept}
    return {
        name: text
        for name, text in environment.items()
        if name.startswith(OURS) and text and name != "SUPERPIPE_SUMMARY"
    }


class EnvCase(CommandCase):
    def env(self, *flags: str, environment: dict[str, str] | None = None) -> str:
        """@return what it printed."""
        finished = self.run_superpipe("env", *flags, environment=environment)
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        return finished.stdout

    def json(self, *flags: str, environment: dict[str, str] | None = None) -> dict[str, str]:
        return json.loads(self.env("--format", "json", *flags, environment=environment))

    def sh(self, script: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["sh", "-c", script],
            env={**clean_environment("LD_"), **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=self.root,
        )


class Printed(EnvCase):
    def test_is_what_run_sets(self) -> None:
        for flags, variables in (
            ([], {}),
            (["--gpu-mem", "6G"], {"SUPERPIPE_K": "4", "SUPERPIPE_K_PRIME": "2"}),
            (["--k", "4", "--k-prime", "2"], {"SUPERPIPE_GPU_MEM": "6G"}),
            (["--strict", "--stats", "a %p.json"], {"LD_PRELOAD": "libm.so.6"}),
            (["--host-mem", "2G"], {"LD_LIBRARY_PATH": "/opt/mine"}),
        ):
            with self.subTest(flags=flags):
                environment = {**WITH_DRIVER, **variables}
                run = self.run_superpipe("run", *flags, "--", *PRINT, environment=environment)
                self.assertEqual(run.returncode, 0, run.stderr)
                expected = ours(json.loads(run.stdout))
                printed = self.json(*flags, environment=environment)
                started = {**clean_environment("LD_"), **environment, **printed}
                self.assertEqual(ours(started), expected)
                # As a shell has it.
                words = shlex.join([str(self.prefix / "bin" / "superpipe"), "env", *flags])
                shell = self.sh(f'eval "$({words})"; {shlex.join(PRINT)}', **environment)
                self.assertEqual(ours(json.loads(shell.stdout)), expected, shell.stderr)

    def test_simulates(self) -> None:
        printed = self.json("--simulate")
        self.assertEqual(printed["LD_AUDIT"], str(self.simgpu / "libsimgpu_loader.so"))
        self.assertEqual(
            printed["LD_PRELOAD"], f"{self.library}:{self.simgpu / 'libsimgpu_devices.so'}"
        )
        self.assertEqual(printed["SUPERPIPE_DRIVER"], str(self.simgpu / "libcuda.so.1"))
        self.assertEqual(printed["SUPERPIPE_FILL"], "zero")

    def test_asks_for_no_summary_and_no_driver(self) -> None:
        printed = self.json(environment={"SUPERPIPE_DRIVER": "/no/such/driver"})
        self.assertNotIn("SUPERPIPE_SUMMARY", printed)
        self.assertEqual(printed["LD_PRELOAD"], str(self.library))

    def test_container_formats_leave_out_what_is_set_here(self) -> None:
        here = {
            "LD_PRELOAD": "libm.so.6",
            "LD_LIBRARY_PATH": "/opt/mine",
            "SUPERPIPE_K": "4",
            "SUPERPIPE_HOST_MEM": "x",
            "XLA_FLAGS": "--mine",
            "SUPERPIPE_OFF": "1",
        }
        self.library.unlink()
        for format_name in ("docker", "k8s"):
            with self.subTest(format_name):
                flags = ("--format", format_name, "--gpu-mem", "6G", "--plan", "/data/a.spplan")
                text = self.env(*flags, environment=here)
                self.assertEqual(text, self.env(*flags))
                self.assertNotRegex(text, "mine|libm")
                self.assertNotIn("SUPERPIPE_K", text)

    def test_docker_reads_lines(self) -> None:
        stats = "/no/where/it's $x.json"
        text = self.env("--format", "docker", "--gpu-mem", "6G", "--stats", stats)
        self.assertEqual(
            dict(line.split("=", 1) for line in text.splitlines()),
            {
                "LD_PRELOAD": str(self.library),
                "SUPERPIPE_GPU_MEM": "6G",
                "SUPERPIPE_STATS": stats,
            },
        )

    def test_kubernetes_reads_a_list(self) -> None:
        text = self.env("--format", "k8s", "--gpu-mem", "6G", "--stats", '/no/"$(HOME)".json')
        self.assertEqual(
            text,
            f'- name: LD_PRELOAD\n  value: "{self.library}"\n'
            '- name: SUPERPIPE_GPU_MEM\n  value: "6G"\n'
            '- name: SUPERPIPE_STATS\n  value: "/no/\\"$$(HOME)\\".json"\n',
        )

    def test_names_a_copy_in_another_folder(self) -> None:
        text = self.env("--runtime", "/shared", "--format", "docker", "--simulate")
        self.assertIn("LD_PRELOAD=/shared/superpipe/lib/superpipe/libsuperpipe.so:", text)
        self.assertIn("LD_AUDIT=/shared/superpipe/lib/superpipe/simgpu/", text)
        self.assertNotIn(str(self.prefix), text)


class Refused(EnvCase):
    def test_bad_usage(self) -> None:
        for words, says in (
            (["--format", "yaml"], ["--format yaml", "sh, json, docker or k8s"]),
            (["--gpu-mem", "12Q"], ["--gpu-mem 12Q", "K, M, G, T"]),
            (["--gpu-mem=-1G"], ["--gpu-mem -1G", "size above 0"]),
            (["--gpu-mem", "6G", "--format", "k8s", "--k", "2"], ["--k and --gpu-mem"]),
            (["--runtime", "here"], ["--runtime here", "absolute"]),
            (["--runtime", "/a b"], ["--runtime /a b", "space"]),
            (["--stats", "/no/such/folder/a.json"], ["--stats", "/no/such/folder"]),
            (["--stats", "/x\nLD_PRELOAD=/y", "--format", "docker"], ["several lines"]),
            (["--plan", "a.spplan", "--format", "k8s"], ["--plan a.spplan", "absolute"]),
            (["--trace", "a"], ["no flag '--trace'"]),
            (["word"], ["'word' is too much"]),
            (["--", "true"], ["no command", "superpipe run"]),
        ):
            with self.subTest(words):
                finished = self.run_superpipe("env", *words)
                self.assert_one_line(finished, BAD_USAGE, "superpipe env: ", *says)

    def test_switched_off(self) -> None:
        finished = self.run_superpipe("env", environment={"SUPERPIPE_OFF": "1"})
        self.assert_one_line(finished, BAD_USAGE, "SUPERPIPE_OFF=1")

    def test_parts_that_are_missing(self) -> None:
        finished = self.run_superpipe("env", "--format", "json", "--runtime", "/no/such/folder")
        self.assert_one_line(finished, CANNOT_RUN, "missing", "/no/such/folder/superpipe/lib")
        self.library.unlink()
        finished = self.run_superpipe("env", "--format", "json")
        self.assert_one_line(finished, CANNOT_RUN, "missing", str(self.library))

    def test_a_folder_that_the_loader_cannot_name(self) -> None:
        # A link would not last as long as what is printed.
        self.install(self.root / "a folder")
        for format_name in ("json", "docker", "k8s"):
            finished = self.run_superpipe("env", "--format", format_name)
            self.assert_one_line(finished, CANNOT_RUN, str(self.prefix), "copy-runtime")

    def test_output_that_cannot_be_written(self) -> None:
        finished = self.sh(f"{shlex.quote(str(self.prefix / 'bin' / 'superpipe'))} env >/dev/full")
        self.assertEqual(finished.returncode, BAD_USAGE)
        self.assertIn("cannot write standard output: No space left", finished.stderr)

    def test_a_script_ends_where_the_library_has_gone(self) -> None:
        # The loader would print a line, and the program would run without superpipe.
        saved = self.root / "superpipe.sh"
        saved.write_text(self.env("--gpu-mem", "6G"))
        there = self.sh(f". {saved}; echo $SUPERPIPE_GPU_MEM")
        self.assertEqual((there.returncode, there.stdout), (0, "6G\n"), there.stderr)
        self.library.unlink()
        gone = self.sh(f". {saved}; echo it goes on")
        self.assertEqual((gone.returncode, gone.stdout), (CANNOT_RUN, ""))
        self.assertIn(f"{self.library} cannot be read", gone.stderr)
        # Where the library was gone before it is asked, too.
        command = shlex.join([str(self.prefix / "bin" / "superpipe"), "env", "--gpu-mem", "6G"])
        refused = self.sh(f'eval "$({command})"; echo it goes on')
        self.assertEqual((refused.returncode, refused.stdout), (CANNOT_RUN, ""))
        self.assertIn("a part of superpipe is missing", refused.stderr)
        # A terminal's shell stays, and sets nothing.
        words = ["sh", "-i", "-c", f'. {saved}; echo "<$SUPERPIPE_GPU_MEM>"']
        stays = subprocess.run(
            words,
            env=clean_environment("LD_", "ENV"),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(stays.stdout, "<>\n")


if __name__ == "__main__":
    unittest.main()
