"""The commands of the pages on installing and first steps, and of the recipes, run on simgpu, or
their pages say why not."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from document_commands import MARK, DocumentCase, blocks_of, steps_of
from simulated_run import BUILD, LIMIT, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))
from environment import torch_python  # noqa: E402

DOCS = SOURCE / "docs"
PAGES = [DOCS / "install.md", DOCS / "first-run.md", *sorted((DOCS / "recipes").glob("*.md"))]
CI = SOURCE / ".ci" / "run"


def faults_of(document: str) -> list[str]:
    """What is wrong with the marks of `document`, such as commands that nothing runs."""
    found = []
    for block in blocks_of(document):
        mark = MARK.fullmatch(block.mark)
        if mark is None:
            found.append(f"{block.mark or 'no mark'}: {block.text}")
        elif mark["path"]:
            text = (SOURCE / mark["path"]).read_text(encoding="utf-8")
            if mark["path"] != ".ci/run" and mark["path"] not in CI.read_text(encoding="utf-8"):
                found.append(f"CI does not run {mark['path']}")
            found += [
                f"not in {mark['path']}: {command}"
                for command in block.commands
                if not re.search(rf"(^ *|&& ){re.escape(command)}( |$)", text, re.MULTILINE)
            ]
        elif (
            block.mark == "needs a GPU" and "GPU" not in block.before.rstrip().rpartition("\n\n")[2]
        ):
            found.append(f"does not say to its reader that it needs a GPU: {block.text}")
        elif not mark["name"] and not block.commands:
            found.append(f"{block.mark}, and no command: {block.text}")
    return found


class Pages(DocumentCase):
    def steps(self, page: Path, *marks: str) -> list:
        return [step for step in steps_of(page.read_text(encoding="utf-8")) if step.mark in marks]

    def run_page(self, page: Path, *marks: str, torch: str = "") -> int:
        """@return how many commands it was to run."""
        steps = self.steps(page, *marks)
        with self.subTest(page=str(page.relative_to(SOURCE))):
            for file in self.folder.iterdir():
                if file.is_symlink() or file.is_file():
                    file.unlink()
                elif file.name != "bin":
                    shutil.rmtree(file)
            self.put_files(page.read_text(encoding="utf-8"))
            self.run_steps(steps, torch)
        return len(steps)

    def test_each_command_runs_or_says_why_not(self) -> None:
        for page in PAGES:
            with self.subTest(page=str(page.relative_to(SOURCE))):
                self.assertEqual(faults_of(page.read_text(encoding="utf-8")), [])
                self.assert_links_are_there(page)

    def test_what_nothing_runs_is_found(self) -> None:
        def fenced(mark: str, text: str, before: str = "On a GPU:") -> str:
            return f"{before}\n\n{mark}```console\n{text}\n```\n"

        for good in (
            fenced("<!-- run -->\n", "$ true"),
            fenced("<!-- needs a GPU -->\n", "$ true"),
            fenced("<!-- run by scripts/demo -->\n", "$ scripts/setup\n$ cmake --preset dev"),
            fenced("<!-- file: a.py -->\n", "import a"),
        ):
            self.assertEqual(faults_of(good), [])
        for bad in (
            fenced("", "$ true"),
            fenced("<!-- walk -->\n", "$ true"),
            fenced("<!-- run -->\n", "true"),
            fenced("<!-- needs a GPU -->\n", "$ true", "On a GPU:\n\nSo:"),
            fenced("<!-- run by scripts/demo -->\n", "$ scripts/set"),
            fenced("<!-- run by scripts/coverage -->\n", "$ true"),
        ):
            self.assertNotEqual(faults_of(bad), [], bad)

    def test_on_simgpu(self) -> None:
        # What a page calls build/dev is the build under test, and what it installs goes into the
        # folder.
        self.environment["HOME"] = str(self.folder)
        self.assertEqual(
            [step.command for step in self.steps(DOCS / "install.md", "run")][:1],
            ["cmake --install build/dev --prefix ~/.local"],
        )
        ran = 0
        for page in PAGES:
            if page.name == "install.md":
                (self.folder / "build").mkdir()
                (self.folder / "build" / "dev").symlink_to(BUILD)
                steps = self.steps(page, "run")
                self.run_steps(steps)
                ran += len(steps)
            else:
                ran += self.run_page(page, "run")
        self.assertGreaterEqual(ran, 5)

    def test_with_pytorch(self) -> None:
        torch = torch_python(SOURCE)
        if torch is None:
            self.skipTest(
                "there is no PyTorch in build/frameworks-venv; scripts/test --frameworks installs it"
            )
        self.put_python(torch)
        ran = sum(self.run_page(page, "run with torch", torch=str(torch)) for page in PAGES)
        self.assertGreaterEqual(ran, 6)

    def test_with_a_wheel(self) -> None:
        wheel = os.environ.get("SUPERPIPE_WHEEL")
        if wheel is None:
            self.skipTest(
                "there is no wheel; the step wheel of .ci/run names one in SUPERPIPE_WHEEL"
            )
        shutil.copy(wheel, self.folder)
        environment = self.folder / "bin"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=LIMIT)
        self.add_to_path(environment / "bin")
        steps = self.steps(DOCS / "install.md", "run with wheel")
        self.assertGreaterEqual(len(steps), 3)
        self.run_steps(steps)


if __name__ == "__main__":
    unittest.main()
