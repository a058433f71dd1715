"""`superpipe run`: each bad input has one clear line and its exit code; a good one gets its environment."""

import json
import os
import sys
import unittest

from command_case import FAKE_DRIVER, CommandCase

BAD_USAGE, CANNOT_RUN, NOT_EXECUTABLE, NOT_FOUND = 2, 125, 126, 127
PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"
WITH_DRIVER = {"SUPERPIPE_DRIVER": str(FAKE_DRIVER)}


class BadUsage(CommandCase):
    """Refused before anything is started, whatever the machine has."""

    def assert_refused(self, *flags: str, says: list[str], environment: dict[str, str] | None = None) -> None:
        marker = self.root / "started"
        finished = self.run_superpipe("run", *flags, "--", "touch", str(marker), environment=environment)
        self.assert_one_line(finished, BAD_USAGE, "superpipe run: ", *says)
        self.assertFalse(marker.exists())

    def test_values_of_flags(self) -> None:
        for flags, says in [
            (["--k", "0"], ["--k 0", "at least 1"]),
            (["--k", "-3"], ["--k -3", "at least 1"]),
            (["--k", "two"], ["--k two", "whole number"]),
            (["--k", "2.5"], ["--k 2.5", "whole number"]),
            (["--k", "99999999999999999999"], ["--k 9", "whole number"]),
            (["--k", "4", "--k-prime", "0"], ["--k-prime 0", "at least 1"]),
            (["--k", "4", "--k-prime", "4"], ["--k-prime 4", "below --k, which is 4"]),
            (["--k", "4", "--k-prime", "5"], ["--k-prime 5", "below --k, which is 4"]),
            (["--k", "1", "--k-prime", "1"], ["--k-prime 1", "no meaning with --k 1"]),
            (["--k-prime", "1"], ["--k-prime 1", "no meaning without --k; give it too"]),
            (["--gpu-mem", "12Q"], ["--gpu-mem 12Q", "K, M, G, T", "percentage"]),
            (["--gpu-mem", "-1G"], ["--gpu-mem -1G", "size above 0"]),
            (["--gpu-mem", "0"], ["--gpu-mem 0", "size above 0"]),
            (["--gpu-mem", "150%"], ["--gpu-mem 150%"]),
            (["--gpu-mem", "99999999999T"], ["--gpu-mem 99999999999T"]),
            (["--gpu-mem", "4G", "--k", "2"], ["--k and --gpu-mem", "one of them"]),
            (["--gpu-mem", "4G", "--k-prime", "2"], ["--k-prime 2", "with --gpu-mem it follows"]),
            (["--host-mem", "lots"], ["--host-mem lots", "size above 0"]),
            (["--min-buffer", "5%"], ["--min-buffer 5%", "size above 0"]),
            (["--headroom", "some"], ["--headroom some", "K, M, G, T", "percentage of the device"]),
            (["--policy", "belady"], ["--policy belady", "resident, naive, superpipeline, superpipeline-paper, lru, auto"]),
            (["--policy", "lru", "--k", "2"], ["--policy lru", "counts in bytes", "with --gpu-mem SIZE, and not with --k"]),
            (["--policy", "naive"], ["--policy naive", "needs --k N or --gpu-mem SIZE"]),
            (["--policy", "resident", "--k", "2"], ["--policy resident", "neither --k nor"]),
            (["--allocator", "best"], ["--allocator best", "async, native"]),
            (["--writeback", "never"], ["--writeback never", "digest, always"]),
            (["--overflow", "yes"], ["--overflow yes", "fail, allow"]),
            (["--wait-ms", "0"], ["--wait-ms 0", "at least 1"]),
            (["--fill", "ones"], ["--fill ones", "zero"]),
            (["--evicted", "host-mapped"], ["--evicted host-mapped", "not available in this version"]),
            (["--report-mem", "some"], ["--report-mem some", "auto, virtual, budget, real"]),
            (["--log", "loud"], ["--log loud", "debug"]),
            (["--log", "info:"], ["--log info:", "no file"]),
            (["--log", ":x"], ["--log :x", "no level"]),
            (["--log", "info:/no/such/folder/log"], ["--log", "/no/such/folder"]),
            (["--stats", "/no/such/folder/stats.json"], ["--stats", "/no/such/folder"]),
            (["--stats", "/"], ["--stats /", "folder"]),
            (["--timeline", "/no/such/folder/t.csv"], ["--timeline", "/no/such/folder"]),
            (["--trace", "/no/such/folder/t.sptrace"], ["--trace", "/no/such/folder"]),
            (["--plan", "/no/plan"], ["--plan /no/plan", "cannot open it"]),
            (["--no-such-flag"], ["there is no flag '--no-such-flag'", "--help"]),
            (["--k", "1", "--k", "2"], ["--k", "once"]),
        ]:
            with self.subTest(flags=flags):
                self.assert_refused(*flags, says=says)

    def test_k_prime_is_held_against_the_variable_too(self) -> None:
        self.assert_refused("--k-prime", "3", says=["--k-prime 3", "below SUPERPIPE_K, which is 2"], environment={"SUPERPIPE_K": "2"})

    def test_no_command(self) -> None:
        for arguments in (["run"], ["run", "--k", "2"], ["run", "--"], ["run", "--", ""]):
            with self.subTest(arguments=arguments):
                self.assert_one_line(self.run_superpipe(*arguments), BAD_USAGE, "no command", '"--"')

    def test_command_without_separator(self) -> None:
        self.assert_one_line(self.run_superpipe("run", "--k", "2", "python3", "x.py"), BAD_USAGE, "'python3'",
                             'after "--"')

    def test_value_is_missing(self) -> None:
        self.assert_one_line(self.run_superpipe("run", "--k"), BAD_USAGE, "--k", "value")

    def test_no_such_subcommand(self) -> None:
        self.assert_one_line(self.run_superpipe("rum"), BAD_USAGE, "no subcommand 'rum'", "run, profile, plan, report, diff, export, verify, budget, top, doctor, env, copy-runtime")
        self.assert_one_line(self.run_superpipe(), BAD_USAGE, "no subcommand", "run, profile, plan, report, diff, export, verify, budget, top, doctor, env, copy-runtime")


class CannotRun(CommandCase):
    def test_command_does_not_exist(self) -> None:
        for name in ("no-such-command-anywhere", "./no-such-file", "/no/such/file"):
            with self.subTest(name=name):
                self.assert_one_line(self.run_superpipe("run", "--", name), NOT_FOUND, f"no command '{name}'")

    def test_interpreter_of_a_script_does_not_exist(self) -> None:
        script = self.root / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        finished = self.run_superpipe("run", "--", str(script), environment=WITH_DRIVER)
        self.assert_one_line(finished, NOT_FOUND, "interpreter")

    def test_command_is_not_executable(self) -> None:
        script = self.root / "script"
        script.write_text("echo no\n")
        self.assert_one_line(self.run_superpipe("run", "--", str(script)), NOT_EXECUTABLE, "cannot execute", "chmod +x")
        self.assert_one_line(self.run_superpipe("run", "--", str(self.root)), NOT_EXECUTABLE,
                             "folder")

    @unittest.skipIf(any(os.path.exists(f"{folder}/libcuda.so.1") for folder in (
        "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64")), "this machine has a driver")
    def test_no_driver_names_simulate(self) -> None:
        finished = self.run_superpipe("run", "--k", "2", "--", "true")
        self.assert_one_line(finished, CANNOT_RUN, "no CUDA driver", "--simulate")

    def test_driver_variable_names_nothing(self) -> None:
        finished = self.run_superpipe("run", "--", "true", environment={"SUPERPIPE_DRIVER": "/no/such/libcuda.so.1"})
        self.assert_one_line(finished, CANNOT_RUN, "SUPERPIPE_DRIVER=/no/such/libcuda.so.1", "does not exist")

    def test_driver_variable_names_a_foreign_library(self) -> None:
        for path, says in (("libm.so.6", "no cuInit"), (str(self.root / "text"), "not a CUDA driver")):
            (self.root / "text").write_text("not a library")
            with self.subTest(path=path):
                finished = self.run_superpipe("run", "--", "true", environment={"SUPERPIPE_DRIVER": path})
                self.assert_one_line(finished, CANNOT_RUN, "is not a CUDA driver", says)

    def test_driver_is_too_old_to_manage_anything(self) -> None:
        finished = self.run_superpipe("run", "--", "true", environment={**WITH_DRIVER, "FAKE_DRIVER": "old"})
        self.assert_one_line(finished, CANNOT_RUN, "is too old", "CUDA 12.3, and superpipe needs 12.4", "550",
                             "--simulate")
        finished = self.run_superpipe("run", "--", "true", environment={**WITH_DRIVER, "FAKE_DRIVER": "oldest"})
        self.assertEqual(finished.returncode, 0, finished.stderr)

    def test_library_is_missing(self) -> None:
        self.library.unlink()
        finished = self.run_superpipe("run", "--", "true", environment=WITH_DRIVER)
        self.assert_one_line(finished, CANNOT_RUN, "missing", str(self.library), "install")

    def test_simgpu_is_missing(self) -> None:
        (self.simgpu / "libcudart.so.13").unlink()
        self.assert_one_line(self.run_superpipe("run", "--simulate", "--", "true"), CANNOT_RUN, "missing",
                             "libcudart.so.13")

    def test_folder_that_the_loader_cannot_name(self) -> None:
        self.install(self.root / "my programs")
        nowhere = {**WITH_DRIVER, "SUPERPIPE_SHARED_FOLDER": str(self.root / "no folder")}
        self.assert_one_line(self.run_superpipe("run", "--", "true", environment=nowhere), CANNOT_RUN,
                             "space", "no link to it", "move superpipe")


class GoodRun(CommandCase):
    def environment_of_command(self, *flags: str, environment: dict[str, str] | None = None) -> dict[str, str]:
        finished = self.run_superpipe("run", *flags, "--", sys.executable, "-c", PRINT_ENVIRONMENT,
                                      environment=environment)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        return json.loads(finished.stdout)

    def test_command_runs_under_the_library(self) -> None:
        seen = self.environment_of_command("--k", "4", "--k-prime", "2", environment=WITH_DRIVER)
        self.assertEqual(seen["LD_PRELOAD"], str(self.library))
        self.assertEqual((seen["SUPERPIPE_K"], seen["SUPERPIPE_K_PRIME"]), ("4", "2"))
        self.assertEqual(seen["SUPERPIPE_SUMMARY"], "1")

    def test_parts_are_found_through_a_link(self) -> None:
        link = self.root / "link"
        link.symlink_to(self.prefix / "bin" / "superpipe")
        self.prefix, bin_folder = self.root / "linked", self.root / "linked" / "bin"
        bin_folder.mkdir(parents=True)
        (bin_folder / "superpipe").symlink_to(link)
        self.assertEqual(self.environment_of_command(environment=WITH_DRIVER)["LD_PRELOAD"], str(self.library))

    def test_kernels_beside_the_program_are_used_when_simulating(self) -> None:
        program = self.root / "program"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{PRINT_ENVIRONMENT}'\n")
        program.chmod(0o755)
        kernels = self.root / "program.simgpu.so"
        kernels.touch()

        def kernels_seen(**environment: str) -> str | None:
            finished = self.run_superpipe("run", "--simulate", "--", str(program), environment=environment)
            self.assertEqual(finished.returncode, 0, finished.stderr)
            return json.loads(finished.stdout).get("SIMGPU_KERNELS")

        self.assertEqual(kernels_seen(), str(kernels))
        self.assertEqual(kernels_seen(SIMGPU_KERNELS="/mine.so"), "/mine.so")
        kernels.unlink()
        self.assertIsNone(kernels_seen())

    def test_switched_off_needs_neither_driver_nor_library(self) -> None:
        self.library.unlink()
        seen = self.environment_of_command(environment={"SUPERPIPE_OFF": "1"})
        self.assertNotIn("LD_PRELOAD", seen)

    def test_exit_code_and_arguments_are_the_commands_own(self) -> None:
        finished = self.run_superpipe("run", "--", "sh", "-c", 'printf "%s|" "$@"; exit 41', "x", "--k", "--", "a b",
                                      environment=WITH_DRIVER)
        self.assertEqual((finished.returncode, finished.stdout), (41, "--k|--|a b|"))

    def test_help_and_version(self) -> None:
        version = self.run_superpipe("--version")
        self.assertEqual(version.returncode, 0)
        self.assertRegex(version.stdout, r"^superpipe \d+\.\d+\.\d+\n$")
        help_text = self.run_superpipe("run", "--help")
        self.assertEqual(help_text.returncode, 0)
        for part in ("Examples:", "--k-prime", "--simulate", "-- COMMAND"):
            self.assertIn(part, help_text.stdout)

    def test_help_has_flags_by_what_they_are_for_and_names_the_rare_ones(self) -> None:
        text = self.run_superpipe("run", "--help").stdout
        headings = ["Options:", "Memory:", "Policy:", "Diagnosis:", "Examples:"]
        places = [text.index(f"\n{heading}\n") for heading in headings]
        self.assertEqual(places, sorted(places))
        self.assertLess(text.index("--gpu-mem SIZE"), text.index("Policy:"))
        self.assertNotIn("\n  --wait-ms", text)
        self.assertRegex(" ".join(text.split()), r"Rarely needed, .*: --wait-ms, .*--map\.")
        self.assertNotIn("\n\n\n", text)
        finished = self.run_superpipe("run", "--wait-ms", "some", "--", "true")
        self.assertEqual(finished.returncode, 2)
        self.assertIn("--wait-ms", finished.stderr)


if __name__ == "__main__":
    unittest.main()
