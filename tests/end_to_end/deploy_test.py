"""The recipes of docs/deploy.md: what superpipe prints is what stands there, the pod is a valid one,
and torchrun's ranks compute the same with and without superpipe.

SUPERPIPE_TORCH_PYTHON names a Python with PyTorch, and perhaps with kubernetes-validate.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from simulated_run import FAST, LIMIT, SOURCE, SUPERPIPE
from document_commands import files_of
from hermetic import clean_environment

sys.path.insert(0, str(SOURCE / "tests" / "frameworks"))
from environment import torch_python  # noqa: E402

DOCUMENT = (SOURCE / "docs" / "deploy.md").read_text(encoding="utf-8")
CHECK_POD = """
import sys
import kubernetes_validate, yaml
kubernetes_validate.validate(yaml.safe_load(open(sys.argv[1])), "1.37", strict=True)
"""


class Deploy(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-deploy-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in files_of(DOCUMENT).items():
            (self.folder / name).write_text(text)
        self.environment = {**clean_environment("LD_", "CUDA_"), **FAST}

    def run_command(self, *words: object, **variables: str) -> str:
        finished = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        return finished.stdout

    def test_the_pod_has_what_superpipe_prints(self) -> None:
        command = re.search(r"`superpipe (env [^`]*--format k8s)`", DOCUMENT)
        self.assertIsNotNone(command)
        printed = self.run_command(SUPERPIPE, *command[1].split())
        pod = (self.folder / "pod.yaml").read_text()
        self.assertIn("      env:\n" + textwrap.indent(printed, " " * 8) + "      resources:", pod)

    def test_the_pod_is_valid(self) -> None:
        python = os.environ.get("SUPERPIPE_TORCH_PYTHON", sys.executable)
        asked = subprocess.run([python, "-c", "import kubernetes_validate"], capture_output=True)
        if asked.returncode != 0:
            self.skipTest("this Python has no kubernetes-validate")
        self.run_command(python, "-c", CHECK_POD, "pod.yaml")
        pod = self.folder / "pod.yaml"
        pod.write_text(pod.read_text().replace("mountPath: /dev/shm", "mountpath: /dev/shm"))
        words = [python, "-c", CHECK_POD, str(pod)]
        self.assertNotEqual(subprocess.run(words, capture_output=True).returncode, 0)

    def test_ranks_compute_the_same(self) -> None:
        python = torch_python(SOURCE)
        if python is None:
            self.skipTest("there is no PyTorch in build/frameworks-venv")
        ranks = (python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        run = (SUPERPIPE, "run", "--simulate")
        script = (*ranks, "ranks.py", "ddp")
        # Kernels of simgpu read whole allocations, which have to be the same ones.
        off = {"SUPERPIPE_OFF": "1", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
        without = self.run_command(*run, "--", *script, **off)
        flags = ("--gpu-mem", "120M", "--stats", "rank-%r.json")
        under = self.run_command(*run, *flags, "--", *script)
        self.assertRegex(without, "rank 1: [0-9a-f]{16}\n")
        self.assertEqual(sorted(under.splitlines()), sorted(without.splitlines()))
        for rank in (0, 1):
            stats = json.loads((self.folder / f"rank-{rank}.json").read_text())
            self.assertGreater(stats["h2d_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
