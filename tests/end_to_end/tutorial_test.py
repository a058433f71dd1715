"""The commands of docs/tutorial.md run, and say what stands there, but for the figures.

A block after `<!-- run -->` has commands ("$ ...") and what they print; `<!-- run with torch -->` needs PyTorch, and
`<!-- file: NAME -->` stands before a file. Of output that ends with " ..." the rest of the line may be anything.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

from simulated_run import BUILD, LIMIT, SOURCE, WEIGHTS, clean_environment

sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))
from environment import torch_python  # noqa: E402

TUTORIAL = SOURCE / "docs" / "tutorial.md"
BLOCK = re.compile(r"<!-- (run|run with torch|file: (?P<file>\S+)) -->\n```\w+\n(?P<text>.*?)```\n", re.DOTALL)


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]
    needs_torch: bool


def files_of(document: str) -> dict[str, str]:
    return {block["file"]: block["text"] for block in BLOCK.finditer(document) if block["file"]}


def steps_of(document: str) -> list[Step]:
    steps: list[Step] = []
    for block in BLOCK.finditer(document):
        if block["file"]:
            continue
        for line in block["text"].splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:], [], block[1] == "run with torch"))
            else:
                steps[-1].output.append(line)
    return steps


def shape(line: str) -> str:
    """A line without its figures: numbers with their units, and a sign in brackets, are "#", and any blanks are one."""
    line = re.sub(r"(?:(?<=\()[+-])?\b\d[\d.]*(?: ?(?:B|KiB|MiB|GiB|ns|us|ms|s)\b)?", "#", line)
    return " ".join(line.split())


def missing_lines(expected: list[str], said: str) -> list[str]:
    """Those of `expected` that do not come in this order in what was `said`."""
    lines = [shape(line) for line in said.splitlines()]
    missing, at = [], 0
    for line in expected:
        begins = line.endswith(" ...")
        wanted = shape(line[:-4] if begins else line)
        found = next((i for i in range(at, len(lines)) if lines[i] == wanted or (begins and lines[i].startswith(wanted))), None)
        if found is None:
            missing.append(line)
        else:
            at = found + 1
    return missing


class Tutorial(unittest.TestCase):
    document = TUTORIAL.read_text(encoding="utf-8")

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-tutorial-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / ".deps").mkdir()
        (self.folder / ".deps" / "minilm").symlink_to(WEIGHTS.resolve())
        for name, text in files_of(self.document).items():
            (self.folder / name).write_text(text)
        self.environment = {**clean_environment("LD_", "CUDA_"),
                            "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}

    def run_steps(self, steps: list[Step], torch: str = "") -> None:
        settings: list[str] = []  # what later commands have to have, too
        for step in steps:
            finished = subprocess.run(["bash", "-c", "\n".join([*settings, step.command])], cwd=self.folder, text=True,
                                      env=self.environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=LIMIT)
            with self.subTest(step.command):
                said = finished.stdout.replace(f"{self.folder}/", "")
                if torch:
                    said = said.replace(torch, "python3")
                self.assertEqual(finished.returncode, 0, said)
                self.assertEqual(missing_lines(step.output, said), [], f"not in what it says:\n{said}")
            if re.match(r"(export )?\w+=", step.command):
                settings.append(step.command)

    def test_examples(self) -> None:
        if not (WEIGHTS / "model.safetensors").is_file():
            self.skipTest(f"no model in {WEIGHTS}; scripts/fetch_minilm gets it")
        steps = [step for step in steps_of(self.document) if not step.needs_torch]
        self.assertGreaterEqual(len(steps), 9)
        self.run_steps(steps)
        for made in ("minilm.sptrace", "both.html", "small.perfetto-trace"):
            self.assertTrue((self.folder / made).is_file(), made)

    def test_pytorch(self) -> None:
        torch = torch_python(SOURCE)
        if torch is None:
            self.skipTest("there is no PyTorch in build/frameworks-venv; scripts/test --frameworks installs it")
        python = self.folder / "bin" / "python3"
        python.parent.mkdir()
        # The environment is found by the path that Python is called by.
        python.write_text(f'#!/bin/sh\nexec "{torch}" "$@"\n')
        python.chmod(0o755)
        self.environment["PATH"] = f"{python.parent}:{self.environment['PATH']}"
        steps = steps_of(self.document)
        settings = [step for step in steps if not step.needs_torch and step.command.startswith("export ")]
        self.run_steps([*settings, *(step for step in steps if step.needs_torch)], torch=str(torch))

    def test_what_is_not_said_is_found(self) -> None:
        said = "peak 12 MiB\n  link   gen4\nthe end is long\n"
        self.assertEqual(missing_lines(["peak 7.5 GiB", "link gen4", "the end ..."], said), [])
        self.assertEqual(missing_lines(["peak 12 MiB of 3"], said), ["peak 12 MiB of 3"])
        self.assertEqual(missing_lines(["link gen4", "peak 12 MiB"], said), ["peak 12 MiB"])
        self.assertEqual(missing_lines(["the beginning ..."], said), ["the beginning ..."])

    def test_documents_are_linked(self) -> None:
        for link in re.findall(r"\]\(([^)#]+)\)", self.document):
            self.assertTrue((TUTORIAL.parent / link).is_file(), link)
        self.assertIn("(docs/tutorial.md)", (SOURCE / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
