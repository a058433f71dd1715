"""What the documents show, taken from them: commands with what they print, and files.

A mark in a comment before a fenced block says what the block is:

    <!-- run -->              commands ("$ ...") and what they print; they run on simgpu
    <!-- run with torch -->   the same, where there is PyTorch
    <!-- run with wheel -->   the same, where a wheel is at hand (the step wheel of .ci/run)
    <!-- run by PATH -->      commands that stand in the file PATH, which CI runs
    <!-- needs a GPU -->      commands that nothing here can run
    <!-- file: NAME -->       a file

Of output that ends with " ..." the rest of the line may be anything, and figures may differ.
"""

import re
import subprocess
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

from simulated_run import BUILD, LIMIT, SOURCE, clean_environment

FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
MARK = re.compile(
    r"run|run with (?:torch|wheel)|run by (?P<path>\S+)|needs a GPU|file: (?P<name>\S+)"
)


@dataclass(frozen=True)
class Block:
    """A fenced block, whose mark is "" where it has none."""

    mark: str
    language: str
    text: str
    before: str  # the document up to it

    @property
    def commands(self) -> list[str]:
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


@dataclass(frozen=True)
class Step:
    command: str
    mark: str  # of its block
    output: list[str] = field(default_factory=list)


def blocks_of(document: str) -> list[Block]:
    return [
        Block(found["mark"] or "", found["language"], found["text"], document[: found.start()])
        for found in FENCE.finditer(document)
    ]


def files_of(document: str) -> dict[str, str]:
    marked = [(MARK.fullmatch(block.mark), block.text) for block in blocks_of(document)]
    return {mark["name"]: text for mark, text in marked if mark and mark["name"]}


def steps_of(document: str) -> list[Step]:
    """The commands that run, in their order."""
    steps: list[Step] = []
    for block in blocks_of(document):
        if block.mark != "run" and not block.mark.startswith("run with "):
            continue
        for line in block.text.splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], block.mark))
            else:
                steps[-1].output.append(line)
    return steps


def shape(line: str) -> str:
    """A line without its figures: numbers with their units, and a sign in brackets, are "#", and any
    blanks are one."""
    line = re.sub(r"(?:(?<=\()[+-])?\b\d[\d.]*(?: ?(?:B|KiB|MiB|GiB|ns|us|ms|s)\b)?", "#", line)
    return " ".join(line.split())


def missing_lines(expected: list[str], said: str) -> list[str]:
    """Those of `expected` that do not come in this order in what was `said`."""
    lines = [shape(line) for line in said.splitlines()]
    missing, at = [], 0
    for line in expected:
        begins = line.endswith(" ...")
        wanted = shape(line[:-4] if begins else line)
        found = next(
            (
                i
                for i in range(at, len(lines))
                if lines[i] == wanted or (begins and lines[i].startswith(wanted))
            ),
            None,
        )
        if found is None:
            missing.append(line)
        else:
            at = found + 1
    return missing


class DocumentCase(unittest.TestCase):
    """Runs the commands of a document in a folder that has its files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-document-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = clean_environment("LD_", "CUDA_")
        self.add_to_path(BUILD / "bin")

    def add_to_path(self, folder: Path) -> None:
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"

    def put_files(self, document: str) -> None:
        for name, text in files_of(document).items():
            (self.folder / name).write_text(text)

    def put_python(self, torch: Path) -> None:
        """Has `python3` be `torch`, an interpreter of an environment."""
        python = self.folder / "bin" / "python3"
        python.parent.mkdir()
        # The environment is found by the path that Python is called by.
        python.write_text(f'#!/bin/sh\nexec "{torch}" "$@"\n')
        python.chmod(0o755)
        self.add_to_path(python.parent)

    def run_steps(self, steps: list[Step], torch: str = "") -> None:
        """Each has to succeed, and to print what stands there; `torch` is printed as python3."""
        settings: list[str] = []  # what later commands have to have, too
        for step in steps:
            finished = subprocess.run(
                ["bash", "-c", "\n".join([*settings, step.command])],
                cwd=self.folder,
                text=True,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT,
            )
            with self.subTest(step.command):
                said = finished.stdout.replace(f"{self.folder}/", "")
                if torch:
                    said = said.replace(torch, "python3")
                self.assertEqual(finished.returncode, 0, said)
                self.assertEqual(
                    missing_lines(step.output, said), [], f"not in what it says:\n{said}"
                )
            if re.match(r"(export )?\w+=|source ", step.command):
                settings.append(step.command)

    def assert_links_are_there(self, document: Path) -> None:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not link.startswith("https://"):
                self.assertTrue(
                    (document.parent / link).is_file(), f"{document.relative_to(SOURCE)}: {link}"
                )
