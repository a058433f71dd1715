"""Scripts as people write them, each compared with itself without superpipe by `superpipe verify`.

Nothing is typed but the command: no variable, no preload. A script has to move data under its budget.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
# Of each framework: the script, and a budget at which about half of what it needs fits.
RUNS = {"torch": (("torch_networks.py", "60M"),), "jax": (("jax_layers.py", "40M"),),
        "tensorflow": (("keras_fit.py", "40M"),)}
MOVED = re.compile(r"^same with superpipe and the flags: .*; peak .*?, (.*?) moved in,", re.MULTILINE)


def verify(command: Path, python: Path, script: str, budget: str, limit: float) -> tuple[str | None, str, list[str]]:
    """What is wrong with a run (None: nothing), a word on what it did, and the lines that say more."""
    words = [command, "verify", "--simulate", "--gpu-mem", budget, "--", python, "-B", SCRIPTS / script]
    variables = {name: value for name, value in os.environ.items()
                 if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_", "XLA_", "TF_", "PYTORCH_"))
                 or name == "SUPERPIPE_SHARED_FOLDER"}
    try:
        ended = subprocess.run([str(word) for word in words], env=variables, text=True, capture_output=True,
                               stdin=subprocess.DEVNULL, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"no answer in {limit:.0f} s", "", []
    said = ended.stdout + ended.stderr
    moved = MOVED.search(said)
    if ended.returncode != 0 or moved is None:
        return f"exit code {ended.returncode}", "", said.splitlines()[-12:]
    if moved[1] == "0 B":
        return f"nothing moved at {budget}", "", said.splitlines()[-4:]
    return None, f"the same at {budget}, {moved[1]} moved in", []
