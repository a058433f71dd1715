"""A notebook whose kernel superpipe.jupyter has installed runs under superpipe on simgpu.

SUPERPIPE_TORCH_PYTHON names a Python with ipykernel and nbclient, and for one test with PyTorch.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from simulated_run import FAST, LIMIT, SOURCE, SUPERPIPE
from hermetic import clean_environment

PYTHON = os.environ.get("SUPERPIPE_TORCH_PYTHON", sys.executable)
# Runs the cells of standard input by the kernel that is named, and prints what each one printed.
RUNNER = """
import json, sys
import nbclient, nbformat

notebook = nbformat.v4.new_notebook()
notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in json.load(sys.stdin)]
nbclient.NotebookClient(notebook, kernel_name=sys.argv[1], timeout=280).execute()
texts = [[part.get("text", "") for part in cell.outputs] for cell in notebook.cells]
print(json.dumps(["".join(text) for text in texts]))
"""
ALLOCATE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0
"""
TRAIN = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)]).cuda()
for _ in range(3):
    result = model(torch.ones(4, 1024, device="cuda"))
torch.cuda.synchronize()
"""


def has(module: str) -> bool:
    asked = subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True)
    return asked.returncode == 0


@unittest.skipUnless(has("ipykernel, nbclient"), "this Python has no ipykernel and nbclient")
class Notebook(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-notebook-")
        self.addCleanup(folder.cleanup)
        self.variables = {
            **clean_environment("LD_", "CUDA_", "JUPYTER"),
            **FAST,
            "PATH": f"{SUPERPIPE.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JUPYTER_PATH": str(Path(folder.name) / "share" / "jupyter"),
            "IPYTHONDIR": folder.name,
            "JUPYTER_RUNTIME_DIR": str(Path(folder.name) / "runtime"),
            "JUPYTER_CONFIG_DIR": folder.name,
            "HOME": folder.name,
        }
        self.folder = folder.name

    def ask(self, *words: str, standard_input: str = "") -> str:
        finished = subprocess.run(
            [PYTHON, *words],
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            input=standard_input,
        )
        self.assertEqual(finished.returncode, 0, finished.stdout + finished.stderr)
        return finished.stdout

    def printed(self, flags: list[str], *cells: str) -> list[str]:
        """What the cells print, run in a kernel that was installed with `flags`."""
        place = ("--prefix", self.folder, "--name", "under-test")
        self.ask("-m", "superpipe.jupyter", "install", *place, *flags)
        return json.loads(self.ask("-c", RUNNER, "under-test", standard_input=json.dumps(cells)))

    def test_runs_under_superpipe(self) -> None:
        cells = (
            "import superpipe; superpipe.require_active()",
            ALLOCATE,
            "print(superpipe.stats()['budget_bytes'] >> 20)",
            "superpipe.set_budget('30M'); print(superpipe.stats()['budget_bytes'] >> 20)",
        )
        printed = self.printed(["--simulate", "--gpu-mem", "40M"], *cells)
        self.assertEqual(printed, ["", "", "40\n", "30\n"])

    @unittest.skipUnless(has("torch"), "there is no PyTorch")
    def test_a_model_that_does_not_fit_is_moved(self) -> None:
        shown = "import superpipe; print(superpipe.stats()['counts']['h2d_bytes'] > 0)"
        printed = self.printed(["--simulate", "--gpu-mem", "40M"], TRAIN, shown)
        self.assertEqual(printed[1], "True\n")


if __name__ == "__main__":
    unittest.main()
