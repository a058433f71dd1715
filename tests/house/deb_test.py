#!/usr/bin/env python3
"""The Debian package installs, runs and is removed, and is no danger to the machine's own driver.

    tests/house/deb_test.py [PACKAGE.deb]

Without an argument it packs what lies in the build tree.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hermetic import LIMIT, clean_environment  # noqa: E402  (found through the path above)

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()
# The folders that ldconfig reads on Debian and its kin.
READ_BY_LDCONFIG = re.compile(r"\./(usr/)?(local/)?lib(32|64|x32)?(/x86_64-linux-gnu)?")
TIME = "1700000000"


def run(*command: object, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env={**clean_environment("LD_"), **variables},
    )


def pack(build: Path, folder: Path, time: str = TIME) -> Path:
    """The package of a build tree, made as scripts/deb makes it. @raises AssertionError with what
    cpack said, if it fails."""
    config = build / "CPackConfig.cmake"
    # gzip takes a tenth of xz's time.
    words = ["cpack", "-G", "DEB", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "--config", config]
    before = os.umask(0o022)
    try:
        ran = run(*words, "-B", folder, SOURCE_DATE_EPOCH=time)
    finally:
        os.umask(before)
    packages = list(folder.glob("*.deb"))
    if ran.returncode != 0 or len(packages) != 1:
        raise AssertionError(ran.stdout + ran.stderr)
    return packages[0]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Deb(unittest.TestCase):
    package: Path | None = None

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("dpkg-deb") is None or shutil.which("dpkg-shlibdeps") is None:
            raise unittest.SkipTest("no dpkg here")
        folder = tempfile.TemporaryDirectory(prefix="superpipe-deb-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        if cls.package is None:
            cls.package = pack(BUILD, cls.folder / "packed")
        cls.root = cls.folder / "unpacked"
        ran = run("dpkg-deb", "--extract", cls.package, cls.root)
        if ran.returncode != 0:
            raise AssertionError(ran.stderr)
        data = cls.folder / "data.tar"
        with data.open("wb") as opened:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", cls.package], stdout=opened, check=True)
        with tarfile.open(data) as archive:
            cls.members = archive.getmembers()

    def field(self, name: str) -> str:
        return run("dpkg-deb", "--field", self.package, name).stdout.strip()

    def packages_of(self, name: str) -> set[str]:
        words = re.split(r"\s*[,|]\s*", self.field(name))
        return {word.split()[0] for word in words if word}

    def assert_runs(self, *command: object, **variables: str) -> str:
        """@return what it printed."""
        finished = run(*command, **variables)
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        return finished.stdout + finished.stderr

    def test_its_name_and_fields_say_what_it_is(self) -> None:
        version = self.assert_runs(self.root / "usr/bin/superpipe", "--version").split()[1]
        self.assertEqual(self.package.name, f"superpipe_{version}-1_amd64.deb")
        self.assertEqual(self.field("Version"), f"{version}-1")
        self.assertEqual(self.field("Architecture"), "amd64")
        self.assertRegex(self.field("Maintainer"), r"^[^<]+ <[^@ ]+@[^@ ]+>$")
        self.assertGreater(int(self.field("Installed-Size")), 1000)

    def test_needs_glibc_and_no_driver(self) -> None:
        depends = self.packages_of("Depends")
        self.assertIn("libc6", depends)
        # The oldest that has all symbols, and not the one in which this machine has them.
        files = [file for file in self.root.rglob("*") if file.is_file() and not file.is_symlink()]
        binaries = [file for file in files if file.read_bytes()[:4] == b"\x7fELF"]
        symbols = run("objdump", "--dynamic-syms", *binaries).stdout
        newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols))
        self.assertIn(f"libc6 (>= 2.{newest})", self.field("Depends"))
        for name in depends | self.packages_of("Recommends") | self.packages_of("Pre-Depends"):
            self.assertNotRegex(name, "cuda|nvidia")
        self.assertIn("libcuda1", self.packages_of("Suggests"))

    def test_holds_every_part(self) -> None:
        for part in (
            "bin/superpipe",
            "bin/superpipe-layers",
            "bin/superpipe-layers.simgpu.so",
            "bin/superpipe-minilm",
            "lib/superpipe/libsuperpipe.so",
            "lib/superpipe/libsuperpipe.simgpu.so",
            "lib/superpipe/libsuperpipe.nvtx.so",
            "lib/superpipe/simgpu/libcuda.so.1",
            "lib/superpipe/simgpu/libcudart.so.13",
            "share/bash-completion/completions/superpipe",
            "share/doc/superpipe/README.md",
            "share/doc/superpipe/changelog.Debian.gz",
            "share/doc/superpipe/changelog.gz",
            "share/doc/superpipe/copyright",
            "share/fish/vendor_completions.d/superpipe.fish",
            "share/man/man1/superpipe-run.1.gz",
            "share/man/man1/superpipe.1.gz",
            "share/zsh/vendor-completions/_superpipe",
        ):
            with self.subTest(part):
                self.assertTrue((self.root / "usr" / part).is_file())

    def test_holds_nothing_else(self) -> None:
        for member in self.members:
            with self.subTest(member.name):
                self.assertRegex(
                    member.name + "/",
                    r"^\./$|^\./usr/$|^\./usr/bin/(superpipe|$)"
                    r"|^\./usr/lib/$|^\./usr/lib/superpipe/"
                    r"|^\./usr/share/$|^\./usr/share/doc/($|superpipe/)|^\./usr/share/lintian/"
                    r"|^\./usr/share/man/$|^\./usr/share/man/man1/($|superpipe)"
                    r"|^\./usr/share/(bash-completion|zsh|fish)/",
                )
                self.assertNotRegex(member.name, r"lib/cmake|gtest|site-functions|\.cmake$")

    def test_ldconfig_finds_no_library_of_it(self) -> None:
        libraries = [member.name for member in self.members if ".so" in Path(member.name).name]
        self.assertTrue(libraries)
        for name in libraries:
            with self.subTest(name):
                self.assertIsNone(READ_BY_LDCONFIG.fullmatch(str(Path(name).parent)[2:] or "."))
        # Only a file of its configuration makes ldconfig read more.
        self.assertFalse((self.root / "etc").exists())

    def test_has_no_script_that_runs_as_root(self) -> None:
        control = self.folder / "control"
        self.assert_runs("dpkg-deb", "--control", self.package, control)
        self.assertLessEqual({file.name for file in control.iterdir()}, {"control", "md5sums"})

    def test_all_is_roots_and_readable(self) -> None:
        for member in self.members:
            with self.subTest(member.name):
                self.assertEqual((member.uid, member.gid), (0, 0))
                if member.issym():
                    continue
                is_program = member.isdir() or (
                    Path(member.name).parent.name == "bin" and not member.name.endswith(".so")
                )
                # CMake decides by the machine whether libraries are executable.
                allowed = {0o755} if is_program else {0o644}
                if ".so" in Path(member.name).name:
                    allowed = {0o644, 0o755}
                self.assertIn(member.mode & 0o7777, allowed, oct(member.mode))

    def test_manuals_and_changelogs_are_compressed_without_a_time(self) -> None:
        files = list((self.root / "usr" / "share").rglob("*.gz"))
        self.assertGreater(len(files), 5)
        for file in files:
            with self.subTest(file.name):
                head = file.read_bytes()[:10]
                self.assertEqual(head[3:8], bytes(5), "names a file or a time")
                self.assertTrue(gzip.decompress(file.read_bytes()))
        self.assertEqual(list((self.root / "usr" / "share" / "man").rglob("*.1")), [])

    def test_the_copyright_names_what_is_carried(self) -> None:
        doc = self.root / "usr" / "share" / "doc" / "superpipe"
        text = (doc / "copyright").read_text()
        self.assertIn("/usr/share/common-licenses/Apache-2.0", text)
        carried = {
            "cuda/libcudart.so.13": "-------- cuda_runtime --------",
            "unwind/libunwind.so.8": "-------- libunwind",
        }
        for file, heading in carried.items():
            if (self.root / "usr" / "lib" / "superpipe" / file).exists():
                self.assertIn(heading, text)
        self.assertFalse((doc / "LICENSE").exists())
        self.assertFalse((doc / "licenses").exists())

    def test_names_no_place_of_the_machine_that_built_it(self) -> None:
        for file in self.root.rglob("*"):
            if file.is_file() and not file.is_symlink():
                with self.subTest(file.name):
                    self.assertNotIn(str(ROOT).encode() + b"/", file.read_bytes())

    @unittest.skipIf(
        os.environ.get("SUPERPIPE_SANITIZER"),
        "a sanitizer's library cannot be preloaded into other programs",
    )
    def test_runs_from_where_it_is_unpacked(self) -> None:
        bin_folder = self.root / "usr" / "bin"
        words = ["--k", "2", "--", "superpipe-layers", "--layers", "4", "--layer-mib", "1"]
        text = self.assert_runs(
            bin_folder / "superpipe",
            "run",
            "--simulate",
            *words,
            PATH=f"{bin_folder}:{os.environ['PATH']}",
        )
        self.assertNotIn("computes no values", text)
        self.assertIn("superpipe", text)

    def test_is_installed_and_leaves_nothing_when_it_is_removed(self) -> None:
        root = self.folder / "another root"
        (root / "var/lib/dpkg/info").mkdir(parents=True)
        (root / "var/lib/dpkg/updates").mkdir()
        (root / "var/lib/dpkg/status").touch()
        # What it needs is not there, and no path of it is to be written outside that root.
        dpkg = ["dpkg", f"--root={root}", "--force-not-root,depends,bad-path", "--log=/dev/null"]
        self.assert_runs(*dpkg, "--install", self.package)
        self.assertTrue((root / "usr/lib/superpipe/libsuperpipe.so").is_file())
        listed = self.assert_runs(*dpkg, "--listfiles", "superpipe").split()
        self.assertIn("/usr/bin/superpipe", listed)
        text = self.assert_runs(root / "usr/bin/superpipe", "--version")
        self.assertTrue(text.startswith("superpipe "))
        self.assert_runs(*dpkg, "--purge", "superpipe")
        left = [file for file in root.rglob("*") if "var" not in file.relative_to(root).parts]
        self.assertEqual([file for file in left if not file.is_dir()], [])
        self.assertFalse((root / "usr").exists())

    def test_lintian_finds_no_error(self) -> None:
        if shutil.which("lintian") is None:
            self.skipTest("no lintian here")
        # The licences of what is linked in come with the portable build alone.
        self.assert_runs("lintian", "--fail-on", "error", "--allow-root", self.package)


class Packing(unittest.TestCase):
    def test_gives_the_same_bytes_at_another_time_in_another_folder(self) -> None:
        if not (BUILD / "CPackConfig.cmake").exists() or shutil.which("dpkg-shlibdeps") is None:
            self.skipTest("no build tree here, or no dpkg")
        with tempfile.TemporaryDirectory(prefix="superpipe-deb-") as name:
            first = sha256(pack(BUILD, Path(name) / "one"))
            second = sha256(pack(BUILD, Path(name) / "the second, elsewhere"))
            later = sha256(pack(BUILD, Path(name) / "later", "1800000000"))
        self.assertEqual(first, second)
        self.assertNotEqual(first, later)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].endswith(".deb"):
        Deb.package = Path(sys.argv.pop(1)).resolve()
        if not Deb.package.is_file():
            sys.exit(f"deb_test: {Deb.package} is not there")
    unittest.main()
