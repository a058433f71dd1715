"""scripts/release refuses what is not to be released, and makes the same bytes twice or says which
differ. Its steps are small stand-ins here."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "release"
CMAKE = "project(superpipe VERSION 7.8.9 LANGUAGES C CXX)\n"
CHANGES = "# Changelog\n\n## [7.8.9] - 2026-12-01\n\n### Added\n- All.\n\n## [7.7.0] - untagged\n"
# Each writes what the real one would, from what may and what must not make a difference.
DEB = """#!/bin/sh
set -e
echo "$SOURCE_DATE_EPOCH $TZ $CXXFLAGS $CMAKE_PREFIX_PATH $CCACHE_BASEDIR" >"$2/superpipe_7.8.9-1_amd64.deb"
"""
WHEEL = """#!/bin/sh
set -e
python3 - "$2/superpipe-7.8.9-py3-none-manylinux_2_28_x86_64.whl" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr(zipfile.ZipInfo("superpipe/__init__.py"), "same")
END
"""
PACKAGE = """#!/bin/sh
set -e
mkdir -p packed/bin && echo "TEXT" >packed/bin/superpipe && date >packed/now
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=755 packed/bin |
  gzip --no-name >"$2"
"""
SBOM = """#!/bin/sh
echo "{}" >"$2"
"""
# Neither the user's settings nor a repository that a hook runs in.
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
STEPS = {"deb": DEB, "wheel": WHEEL, "package": PACKAGE, "sbom": SBOM}


class Release(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="release-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.root = self.folder / "clone"
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts")
        for name, text in STEPS.items():
            self.write(f"scripts/{name}", text)
        self.write("CMakeLists.txt", CMAKE)
        self.write("CHANGELOG.md", CHANGES)
        self.write(".gitignore", "/build/\n/packed/\n")
        self.git("init", "--quiet")
        self.commit("All")
        self.git("tag", "v7.8.9")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755 if name.startswith("scripts/") else 0o644)

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "tag.gpgSign=false"]
        subprocess.run(
            ["git", *identity, *words],
            cwd=self.root,
            env={**clean_environment("GIT_"), **GIT},
            check=True,
            capture_output=True,
        )

    def commit(self, subject: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-gpg-sign", "--message", subject)

    def release(self, *words: str, **variables: str) -> subprocess.CompletedProcess:
        environment = {**clean_environment("GIT_"), **GIT, "TMPDIR": str(self.folder), **variables}
        return subprocess.run(
            [self.root / "scripts" / "release", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def assert_refuses(self, line: str, *words: str) -> None:
        finished = self.release(*words)
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        self.assertRegex(finished.stderr, line)
        self.assertEqual(len(finished.stderr.splitlines()), 1, finished.stderr)
        self.assertFalse((self.root / "build").exists())

    def assert_makes(self, *words: str, **variables: str) -> dict[str, bytes]:
        """@return the bytes of each file of the release."""
        finished = self.release(*words, **variables)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        files = (self.root / "build" / "released").iterdir()
        return {file.name: file.read_bytes() for file in files}

    def test_makes_all_files_and_their_sums(self) -> None:
        made = self.assert_makes()
        sums = made.pop("SHA256SUMS").decode()
        self.assertEqual(
            sorted(made),
            [
                "superpipe-7.8.9-linux-x86_64.tar.gz",
                "superpipe-7.8.9-py3-none-manylinux_2_28_x86_64.whl",
                "superpipe-7.8.9.cdx.json",
                "superpipe_7.8.9-1_amd64.deb",
            ],
        )
        for name, text in made.items():
            with self.subTest(name):
                self.assertIn(f"{hashlib.sha256(text).hexdigest()}  {name}\n", sums)
        checked = subprocess.run(
            ["sha256sum", "--check", "--strict", "SHA256SUMS"],
            cwd=self.root / "build" / "released",
            capture_output=True,
        )
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_leaves_nothing_of_an_earlier_release(self) -> None:
        (self.root / "build" / "released").mkdir(parents=True)
        (self.root / "build" / "released" / "superpipe-7.7.0.cdx.json").touch()
        self.assertNotIn("superpipe-7.7.0.cdx.json", self.assert_makes())

    def test_leaves_files_of_others_alone(self) -> None:
        folder = self.root / "build" / "released"
        folder.mkdir(parents=True)
        (folder / "superpipe-7.7.0.cdx.json").touch()
        (folder / "thesis.txt").write_text("all of it")
        finished = self.release()
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        self.assertIn("thesis.txt, which no release made", finished.stderr)
        self.assertEqual((folder / "thesis.txt").read_text(), "all of it")
        self.assertTrue((folder / "superpipe-7.7.0.cdx.json").exists())

    def test_the_environment_makes_no_difference(self) -> None:
        first = self.assert_makes()
        other = self.assert_makes(
            SOURCE_DATE_EPOCH="1", TZ="Asia/Tokyo", CXXFLAGS="-g", CMAKE_PREFIX_PATH="/nowhere",
            CCACHE_BASEDIR="/nowhere"
        )
        self.assertEqual(first, other)

    def test_refuses_a_changed_file(self) -> None:
        self.write("CMakeLists.txt", CMAKE + "# more\n")
        self.assert_refuses("not clean: CMakeLists.txt$")
        self.assert_refuses("not clean: CMakeLists.txt$", "--allow-untagged")

    def test_refuses_new_files(self) -> None:
        for name in ("one", "two", "zero"):
            self.write(name, "")
        self.assert_refuses("not clean: one and 2 more$")

    def test_refuses_a_commit_without_the_tag(self) -> None:
        self.git("tag", "--delete", "v7.8.9")
        self.assert_refuses("there is no tag v7.8.9$")

    def test_refuses_a_commit_after_the_tag(self) -> None:
        self.git("commit", "--quiet", "--no-gpg-sign", "--allow-empty", "--message", "Later")
        self.assert_refuses("the tag v7.8.9 is [0-9a-f]{12}, and the clone is at [0-9a-f]{12}$")

    def test_a_trial_needs_no_tag_and_no_date(self) -> None:
        self.git("tag", "--delete", "v7.8.9")
        self.write("CHANGELOG.md", CHANGES.replace("2026-12-01", "unreleased"))
        self.commit("No date")
        self.assert_makes("--allow-untagged")

    def test_refuses_a_changelog_without_the_version(self) -> None:
        self.write("CHANGELOG.md", CHANGES.replace("7.8.9", "7.8.8"))
        self.commit("Another version")
        self.git("tag", "--force", "v7.8.9")
        line = "CMakeLists.txt has version 7.8.9, and CHANGELOG.md begins with 7.8.8$"
        self.assert_refuses(line)
        self.assert_refuses(line, "--allow-untagged")

    def test_refuses_a_changelog_without_a_date(self) -> None:
        self.write("CHANGELOG.md", CHANGES.replace("2026-12-01", "unreleased"))
        self.commit("No date")
        self.git("tag", "--force", "v7.8.9")
        self.assert_refuses("CHANGELOG.md has no date for 7.8.9, but 'unreleased'$")

    def test_a_step_that_fails_ends_it(self) -> None:
        self.write("scripts/wheel", "#!/bin/sh\nexit 7\n")
        self.commit("Broken")
        finished = self.release("--allow-untagged")
        self.assertEqual(finished.returncode, 1)
        self.assertIn("scripts/wheel failed", finished.stderr)
        self.assertFalse((self.root / "build" / "released" / "SHA256SUMS").exists())

    def test_the_second_time_gives_the_same_bytes(self) -> None:
        self.assert_makes("--check")
        self.assertEqual(list(self.folder.glob("superpipe-release-*")), [])

    def test_says_what_differs_the_second_time(self) -> None:
        # The file names the folder in which it was made.
        self.write("scripts/package", PACKAGE.replace("TEXT", "$PWD"))
        self.commit("Names its folder")
        finished = self.release("--check", "--allow-untagged")
        self.assertEqual(finished.returncode, 1, finished.stdout + finished.stderr)
        self.assertIn(
            "superpipe-7.8.9-linux-x86_64.tar.gz differs in packed/bin/superpipe\n",
            finished.stderr,
        )
        self.assertNotIn(".whl differs", finished.stderr)


if __name__ == "__main__":
    unittest.main()
