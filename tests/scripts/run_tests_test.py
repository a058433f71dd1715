"""scripts/run_tests.py on a build tree of a few tests, and the folders that tests run in."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
LIMIT = 300  # seconds; ends a hang

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(few LANGUAGES NONE)
enable_testing()
set(launcher {python} -B {source}/tests/in_own_folders.py)
foreach(target superpipe_parts needed other)
  add_custom_target(${{target}} COMMAND ${{CMAKE_COMMAND}} -E touch built.${{target}})
endforeach()
add_custom_target(everything ALL COMMAND ${{CMAKE_COMMAND}} -E touch built.all)
add_test(NAME good COMMAND ${{launcher}} {python} ${{CMAKE_SOURCE_DIR}}/good.py)
add_test(NAME bad COMMAND ${{launcher}} {python} ${{CMAKE_SOURCE_DIR}}/bad.py)
add_test(NAME long COMMAND ${{launcher}} {python} ${{CMAKE_SOURCE_DIR}}/good.py)
foreach(shard 1 2)
  add_test(NAME binary.${{shard}}
    COMMAND ${{launcher}} ${{CMAKE_SOURCE_DIR}}/binary)
  set_tests_properties(binary.${{shard}} PROPERTIES LABELS other
    ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${{shard}};KEPT=yes")
endforeach()
add_test(NAME skips COMMAND ${{launcher}} {python} ${{CMAKE_SOURCE_DIR}}/skips.py)
set_tests_properties(skips PROPERTIES LABELS "skips;extended")
set_tests_properties(good bad PROPERTIES LABELS part)
set_tests_properties(long PROPERTIES LABELS "part;extended")
file(WRITE ${{CMAKE_BINARY_DIR}}/tests.json [[{{
"good": {{"needs": ["needed"], "sources": ["{folder}/good.py"]}},
"bad": {{"needs": ["other"], "sources": ["{folder}/bad.py"]}},
"skips": {{"needs": [], "sources": ["{folder}/skips.py"]}},
"long": {{"needs": [], "sources": ["{folder}/good.py"]}},
"binary.1": {{"needs": ["needed"], "sources": ["{folder}/binary.cc"]}},
"binary.2": {{"needs": ["needed"], "sources": ["{folder}/binary.cc"]}}
}}]])
"""
GOOD = """
import unittest
class Good(unittest.TestCase):
    def test_one(self):
        print("one ran")
    def test_two(self):
        print("two ran")
unittest.main()
"""
BAD = """
import sys
print("[ RUN      ] Suite.Passes\\nnoise of it\\n[       OK ] Suite.Passes (1 ms)")
print("[ RUN      ] Suite.Skips\\n[  SKIPPED ] Suite.Skips (0 ms)")
print("[ RUN      ] Suite.Fails\\nwhy it failed\\n[  FAILED  ] Suite.Fails (1 ms)")
sys.exit(1)
"""
SKIPS = """
import unittest
class Skips(unittest.TestCase):
    @unittest.skip("no device")
    def test_one(self):
        pass
unittest.main(verbosity=2)
"""
BINARY = """#!/bin/sh
echo "filter: $* shards: $GTEST_TOTAL_SHARDS kept: $KEPT"
case "$*" in *Holds*) ran=0 ;; *) ran=1 ;; esac
echo "[==========] $ran test from 1 test suite ran. (0 ms total)"
"""


class RunTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="run-tests-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.build = self.folder / "build"
        (self.folder / "good.py").write_text(GOOD)
        (self.folder / "bad.py").write_text(BAD)
        (self.folder / "skips.py").write_text(SKIPS)
        (self.folder / "binary").write_text(BINARY)
        (self.folder / "binary").chmod(0o755)
        (self.folder / "binary.cc").write_text("TEST(Suite, Does) {}\nTEST_P(Other, Holds) {}\n")
        (self.folder / "CMakeLists.txt").write_text(
            PROJECT.format(python=sys.executable, source=SOURCE, folder=self.folder)
        )
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.build],
            check=True,
            capture_output=True,
        )

    def run_tests(self, *words: str) -> subprocess.CompletedProcess:
        command = [
            sys.executable,
            "-B",
            SOURCE / "scripts" / "run_tests.py",
            "--build",
            self.build,
            *words,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    def built(self) -> set[str]:
        return {path.name.removeprefix("built.") for path in self.build.glob("built.*")}

    def test_everyday_tests_are_built_and_run_and_what_failed_stands_last(self) -> None:
        finished = self.run_tests()
        self.assertEqual(finished.returncode, 1)
        *_, said, again, count = (line for line in finished.stdout.splitlines() if line)
        shown = finished.stdout.rpartition("== bad failed")[2]
        self.assertIn("why it failed", shown)
        self.assertNotIn("noise of it", shown)
        self.assertIn("skipped in bad: Suite.Skips", finished.stdout)
        self.assertEqual(
            (said, again, count), ("failed: bad", "again: scripts/test bad", "3 passed, 1 failed")
        )
        self.assertEqual(self.built(), {"needed", "other"})

    def test_all_are_more(self) -> None:
        self.assertEqual(self.run_tests("--all").stdout.splitlines()[-1], "5 passed, 1 failed")
        self.assertEqual(self.built(), {"all", "needed", "other"})
        self.assertEqual(
            self.run_tests("--all", "--except", "part").stdout.splitlines()[-1],
            "3 passed, 0 failed",
        )

    def test_a_test_that_skips_itself_fails_where_it_may_not(self) -> None:
        cases = {
            (): 0,
            ("--may-skip", "^skips: test_one .*no device"): 0,
            ("--may-skip", "^other"): 1,
        }
        for words, code in cases.items():
            with self.subTest(words):
                finished = self.run_tests("--all", "--label", "^skips$", *words)
                self.assertEqual(finished.returncode, code, finished.stdout)
                self.assertEqual("shall run here" in finished.stdout, code == 1)

    def test_a_label_builds_what_its_tests_need(self) -> None:
        finished = self.run_tests("--label", "other")
        self.assertEqual(
            (finished.returncode, finished.stdout.splitlines()[-1]), (0, "2 passed, 0 failed")
        )
        self.assertEqual(self.built(), {"needed"})
        self.assertNotEqual(self.run_tests("--label", "no-such-part").returncode, 0)
        self.assertEqual(
            self.run_tests("--except", "other").stdout.splitlines()[-1], "1 passed, 1 failed"
        )

    def test_a_name_runs_one_test_and_builds_what_it_needs(self) -> None:
        for name, ran, not_run in (
            ("good", ["one ran", "two ran"], []),
            ("test_one", ["one ran"], ["two ran"]),
            ("Good.test_two", ["two ran"], ["one ran"]),
            ("Good", ["one ran", "two ran"], []),
        ):
            with self.subTest(name):
                finished = self.run_tests(name)
                self.assertEqual(finished.returncode, 0, finished.stderr)
                for line in ran:
                    self.assertIn(line, finished.stdout)
                for line in not_run:
                    self.assertNotIn(line, finished.stdout)
        self.assertEqual(self.built(), {"needed"})

    def test_a_google_test_is_found_before_it_is_built(self) -> None:
        finished = self.run_tests("Suite.Does")
        self.assertIn("filter: --gtest_filter=*Suite.Does* shards:  kept: yes", finished.stdout)
        self.assertEqual(
            finished.stdout.splitlines()[-1],
            "1 passed, 0 failed",
            "one of the two shards is enough",
        )
        self.assertIn("--gtest_filter=*Other*", self.run_tests("Other").stdout)
        self.assertEqual(self.run_tests("binary").stdout.splitlines()[-1], "2 passed, 0 failed")

    def test_a_name_that_runs_nothing_is_a_failure(self) -> None:
        (self.folder / "good.py").write_text(GOOD + "\nclass Empty:\n    pass\n")
        for name in ("Other.Holds", "Empty"):
            finished = self.run_tests(name)
            self.assertEqual(finished.returncode, 1, name)
            self.assertIn("no test of this name ran", finished.stdout)

    def test_a_failure_by_name_is_one(self) -> None:
        finished = self.run_tests("bad", "good")
        self.assertEqual(finished.returncode, 1)
        self.assertEqual(finished.stdout.splitlines()[-2:], ["failed: bad", "1 passed, 1 failed"])

    def test_bad_usage(self) -> None:
        finished = self.run_tests("Suite.Dose")
        self.assertEqual(finished.returncode, 2)
        self.assertIn("no test 'Suite.Dose'; did you mean Suite.Does", finished.stderr)
        self.assertEqual(self.run_tests("good", "--all").returncode, 2)
        self.assertEqual(self.built(), set())

    def test_beside_load_another_program_of_superpipe_runs(self) -> None:
        binaries = self.build / "bin"
        binaries.mkdir()
        (binaries / "superpipe").write_text(
            '#!/bin/sh\necho "$SUPERPIPE_K" >"$0.ran"\nexec sleep 1000\n'
        )
        (binaries / "superpipe").chmod(0o755)
        os.environ["SUPERPIPE_K"] = "5"
        self.addCleanup(os.environ.pop, "SUPERPIPE_K")
        # The tests begin at once, and may be over before the other program has written anything.
        (self.folder / "good.py").write_text(
            f"import os, time\nran = {str(binaries / 'superpipe.ran')!r}\n"
            "while not os.path.exists(ran): time.sleep(0.01)\n"
        )
        self.assertEqual(self.run_tests("good", "--beside-load").returncode, 0)
        self.assertEqual(
            (binaries / "superpipe.ran").read_text(),
            "\n",
            "variables of the caller's are not its own",
        )
        self.assertEqual(self.built(), {"needed", "superpipe_parts"})
        (binaries / "superpipe").write_text(
            '#!/bin/sh\necho $$ >"$0.pid"\nmv "$0.pid" "$0.ended"\nexit 3\n'
        )
        (self.folder / "good.py").write_text(
            f"import os, time\nended = {str(binaries / 'superpipe.ended')!r}\n"
            "while not os.path.exists(ended): time.sleep(0.01)\n"
            "stat = f'/proc/{int(open(ended).read())}/stat'\n"
            "while open(stat).read().rpartition(')')[2].split()[0] != 'Z': time.sleep(0.01)\n"
        )
        finished = self.run_tests("good", "--beside-load")
        self.assertEqual(finished.returncode, 1)
        self.assertIn("ended early, with 3", finished.stderr)


class InOwnFolders(unittest.TestCase):
    def run_in(self, script: str, *words: str) -> subprocess.CompletedProcess:
        command = [
            sys.executable,
            "-B",
            SOURCE / "tests" / "in_own_folders.py",
            sys.executable,
            "-c",
            script,
            *words,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)

    def test_folders_are_new_and_go(self) -> None:
        script = (
            "import os; print(os.environ['TMPDIR']); print(os.environ['SUPERPIPE_SHARED_FOLDER']);"
            "open(os.environ['TMPDIR'] + '/left', 'w');"
            "print(os.listdir(os.environ['SUPERPIPE_SHARED_FOLDER']))"
        )
        first, second = (
            self.run_in(script).stdout.splitlines(),
            self.run_in(script).stdout.splitlines(),
        )
        self.assertEqual((first[2], second[2]), ("[]", "[]"))
        self.assertEqual(len({*first[:2], *second[:2]}), 4)
        for folder in (*first[:2], *second[:2]):
            self.assertFalse(Path(folder).parent.exists())

    def test_exit_codes(self) -> None:
        self.assertEqual(self.run_in("import sys; sys.exit(7)").returncode, 7)
        self.assertEqual(self.run_in("import os; os.kill(os.getpid(), 9)").returncode, 137)

    def test_what_a_test_leaves_running_is_ended(self) -> None:
        pid = int(
            self.run_in(
                "import subprocess as s; print(s.Popen(['sleep', '1000'], stdout=s.DEVNULL).pid)"
            ).stdout
        )
        deadline = time.monotonic() + LIMIT
        while (
            Path(f"/proc/{pid}").exists()
            and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        ):
            self.assertLess(time.monotonic(), deadline, "it was left running")
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
