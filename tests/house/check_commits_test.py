"""scripts/check_commits judges new commits only, and rejects each message that breaks a rule."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
CHECK = SOURCE / "scripts" / "check_commits"
BODY = "Because a reader asks why."
# No configuration of this machine's user, and no hooks of theirs.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
               "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b",
               "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b", "GIT_COMMITTER_DATE": "2030-01-01T00:00:00+00:00"}


class CheckCommits(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="check-commits-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.root = self.folder / "project"
        self.root.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("x" * 100)  # before the base
        self.base = self.git("rev-parse", "HEAD")

    def git(self, *words: object, root: Path | None = None, **variables: str) -> str:
        return subprocess.run(["git", *map(str, words)], cwd=root or self.root, check=True, capture_output=True, text=True,
                              env={**ENVIRONMENT, **variables}).stdout.strip()

    def commit(self, *paragraphs: str) -> None:
        self.git("commit", "--quiet", "--allow-empty", *(word for part in paragraphs for word in ("-m", part)))

    def check(self, root: Path | None = None, base: str | None = None) -> tuple[int, str]:
        finished = subprocess.run([sys.executable, "-B", CHECK, "--base", base or self.base], cwd=root or self.root,
                                  capture_output=True, text=True, env=ENVIRONMENT)
        return finished.returncode, finished.stdout + finished.stderr

    def test_accepts_good_messages_and_does_not_judge_older_ones(self) -> None:
        self.assertEqual(self.check(), (0, "commits: 0 new ones, 0 break a rule\n"))
        self.commit("x" * 72, BODY)
        self.commit("\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 72, BODY)  # 144 bytes
        self.assertEqual(self.check(), (0, "commits: 2 new ones, 0 break a rule\n"))

    def test_rejects_a_long_subject(self) -> None:
        self.commit("x" * 73, BODY)
        self.commit("A good one", BODY)
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("the subject has 73 characters", output)
        self.assertIn("2 new ones, 1 break a rule", output)

    def test_rejects_a_subject_that_goes_on_in_the_next_line(self) -> None:
        self.commit("x" * 40 + "\n" + "y" * 40, BODY)
        self.assertIn("81 characters", self.check()[1])

    def test_rejects_a_commit_without_a_body(self) -> None:
        self.commit("A subject alone")
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("A subject alone\n    no body", output)

    def test_judges_the_commits_of_a_merged_branch_but_not_the_merge(self) -> None:
        self.git("switch", "--quiet", "--create", "work")
        self.commit("On a branch", BODY)
        self.assertEqual(self.check()[0], 0)
        self.git("switch", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "-m", "Merge branch 'work'" + "x" * 80, "work")
        self.assertEqual(self.check(), (0, "commits: 1 new ones, 0 break a rule\n"))
        self.git("switch", "--quiet", "work")
        self.commit("x" * 73, BODY)
        self.assertEqual(self.check()[0], 1)
        self.git("switch", "--quiet", "main")
        self.assertEqual(self.check()[0], 0)
        self.git("merge", "--quiet", "--no-ff", "-m", "Again", "work")
        self.assertEqual(self.check()[0], 1)

    def test_judges_a_fresh_clone_as_its_origin(self) -> None:
        self.commit("x" * 73, BODY)
        self.git("clone", "--quiet", self.root, self.folder / "clone")
        self.assertEqual(self.check(self.folder / "clone"), self.check())

    def test_judges_what_a_shallow_clone_has_and_says_so(self) -> None:
        self.commit("A good one", BODY)
        for subject, code in (("Another", 0), ("x" * 73, 1)):
            with self.subTest(subject):
                self.commit(subject, BODY)
                clone = self.folder / f"shallow{code}"
                self.git("clone", "--quiet", "--depth", 1, self.root.as_uri(), clone)
                status, output = self.check(clone)
                self.assertEqual(status, code, output)
                self.assertIn("commits: 1 new ones", output)
                self.assertIn("this clone is shallow", output)

    def test_a_shallow_clone_s_older_commits_are_not_judged(self) -> None:
        self.git("commit", "--quiet", "--allow-empty", "-m", "x" * 100, GIT_COMMITTER_DATE="2020-01-01T00:00:00+00:00")
        self.git("clone", "--quiet", "--depth", 1, self.root.as_uri(), self.folder / "shallow")
        self.assertEqual(self.check(self.folder / "shallow")[0], 0)

    def test_a_complete_clone_without_the_base_is_an_error(self) -> None:
        code, output = self.check(base="0" * 40)
        self.assertEqual(code, 1)
        self.assertIn("is not in this clone", output)

    def test_a_folder_without_git_is_an_error(self) -> None:
        code, output = self.check(root=Path("/"))
        self.assertEqual(code, 1)
        self.assertIn("git does not name a HEAD here: fatal: not a git repository", output)

    def test_the_recorded_base_is_in_the_project(self) -> None:
        inside = subprocess.run(["git", "-C", SOURCE, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
        if inside.stdout.strip() != "false":
            self.skipTest("not a complete checkout")
        finished = subprocess.run([sys.executable, "-B", CHECK], cwd=SOURCE, capture_output=True, text=True)
        self.assertRegex(finished.stdout, r"commits: \d+ new ones")


if __name__ == "__main__":
    unittest.main()
