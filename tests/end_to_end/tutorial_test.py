"""The commands of docs/tutorial.md run, and print what the page shows. Figures may differ."""

import sys
import unittest

from document_commands import DocumentCase, missing_lines, steps_of
from simulated_run import SOURCE, WEIGHTS

sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))
from environment import torch_python  # noqa: E402

TUTORIAL = SOURCE / "docs" / "tutorial.md"


class Tutorial(DocumentCase):
    document = TUTORIAL.read_text(encoding="utf-8")

    def setUp(self) -> None:
        super().setUp()
        (self.folder / ".deps").mkdir()
        (self.folder / ".deps" / "minilm").symlink_to(WEIGHTS.resolve())
        self.put_files(self.document)

    def test_examples(self) -> None:
        if not (WEIGHTS / "model.safetensors").is_file():
            self.skipTest(f"no model in {WEIGHTS}; scripts/fetch_minilm gets it")
        steps = [step for step in steps_of(self.document) if step.mark == "run"]
        self.assertGreaterEqual(len(steps), 9)
        self.run_steps(steps)
        for made in ("minilm.sptrace", "both.html", "small.perfetto-trace"):
            self.assertTrue((self.folder / made).is_file(), made)

    def test_pytorch(self) -> None:
        torch = torch_python(SOURCE)
        if torch is None:
            self.skipTest("there is no PyTorch in build/frameworks-venv; scripts/test --frameworks installs it")
        self.put_python(torch)
        steps = steps_of(self.document)
        settings = [step for step in steps if step.mark == "run" and step.command.startswith("export ")]
        self.run_steps([*settings, *(step for step in steps if step.mark == "run with torch")], torch=str(torch))

    def test_what_is_not_said_is_found(self) -> None:
        said = "peak 12 MiB\n  link   gen4\nthe end is long\n"
        self.assertEqual(missing_lines(["peak 7.5 GiB", "link gen4", "the end ..."], said), [])
        self.assertEqual(missing_lines(["peak 12 MiB of 3"], said), ["peak 12 MiB of 3"])
        self.assertEqual(missing_lines(["link gen4", "peak 12 MiB"], said), ["peak 12 MiB"])
        self.assertEqual(missing_lines(["the beginning ..."], said), ["the beginning ..."])

    def test_documents_are_linked(self) -> None:
        self.assert_links_are_there(TUTORIAL)
        self.assertIn("(docs/tutorial.md)", (SOURCE / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
