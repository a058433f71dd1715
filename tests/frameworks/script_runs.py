"""Scripts as people write them, each compared with itself by `superpipe verify`.

Nothing is typed but the command: no variable, no preload. scripts/test --frameworks runs each
script at one budget, by a policy that takes turns with the commits; --frameworks=full runs each by
all policies at 100, 50 and 25 % of its peak (script_grid.py).
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"
ROOT = SCRIPTS.parents[2]


@dataclass(frozen=True)
class Script:
    """A script of scripts/, and how it is run."""

    framework: str
    name: str
    stands_for: str
    peak: int  # MiB of the device where everything fits, as superpipe run says
    percent: int = 50  # of the peak, the budget of the one run: its launches fit, and data moves
    always: bool = False  # in each run of CI
    in_turn: bool = False  # now and then in one: it copies the same in each run without superpipe

    def budget(self, percent: int) -> int:
        """In MiB."""
        return max(self.peak * percent // 100, 1)


RUNS = (
    Script("torch", "torch_networks.py", "convolutions, attention, LSTM", 198, always=True),
    Script("torch", "llama_caches.py", "`generate()` with each cache", 144, in_turn=True),
    Script("torch", "mixtral_experts.py", "a mixture of experts", 172),
    Script("torch", "trainers.py", "GPT-2 and BERT with Trainer", 162),
    Script("torch", "vit_frozen.py", "timm's ViT, half of it frozen", 248),
    Script("torch", "resnet_loader.py", "ResNet, DataLoader workers", 292),
    Script("torch", "diffusion_pipeline.py", "a pipeline of diffusers, offloaded too", 130),
    Script("torch", "lora_adapters.py", "LoRA by peft, adapters switched", 202),
    Script("torch", "lisa.py", "LISA, accumulation, checkpointing", 250, in_turn=True),
    Script("torch", "mixed_precision.py", "autocast, GradScaler", 260, in_turn=True),
    Script("torch", "optimizers.py", "optimizers: loops, foreach, fused", 152, in_turn=True),
    Script("torch", "mezo_and_ema.py", "MeZO, averaged weights", 180, in_turn=True),
    Script("torch", "speculative.py", "speculative decoding", 158),
    Script("torch", "compiled.py", "torch.compile", 120, 25),
    Script("torch", "cuda_graphs.py", "CUDA graphs", 240, 16, in_turn=True),
    Script("torch", "streams_and_threads.py", "streams and threads", 212, 25),
    Script("torch", "moves_and_saves.py", "moves, `torch.save`, views", 216),
    Script("torch", "graph_network.py", "a graph network, large embeddings", 154),
    Script("torch", "linear_algebra.py", "factors, small systems, Fourier layers", 206, in_turn=True),
    Script("torch", "distributed_one.py", "DDP and FSDP2 over gloo", 280),
    Script("torch", "quantized.py", "weights of 8 bits by torchao", 138, in_turn=True),
    Script("torch", "bitsandbytes_weights.py", "weights of 4 and 8 bits, AdamW8bit", 216, in_turn=True),
    Script("jax", "jax_layers.py", "layers one by one, convolution", 60, always=True),
    Script("jax", "jax_training.py", "donation, `lax.scan`, optax", 214, 60, in_turn=True),
    Script("jax", "flax_transformer.py", "a transformer of flax", 268),
    Script("jax", "jax_linear_algebra.py", "factors, small systems, transforms", 112, in_turn=True),
    Script("jax", "jax_placement.py", "sharding, `pinned_host`", 64),
    Script("tensorflow", "keras_fit.py", "Keras, dense", 68, always=True),
    Script("tensorflow", "keras_networks.py", "Keras, convolutions and a transformer", 160),
    Script("tensorflow", "tensorflow_loops.py", "GradientTape, mixed precision", 116),
    Script("onnx", "onnx_session.py", "sessions with the CUDA provider", 110, always=True),
)
FRAMEWORKS = tuple(dict.fromkeys(script.framework for script in RUNS))
POLICIES = {
    "auto": ["--policy", "auto"],
    "lru": ["--policy", "lru"],
    "k": ["--policy", "superpipeline"],
}
PERCENTS = (100, 50, 25)
# How near the smallest budget that runs is found, in percent of the peak.
NEAR = 3
# A run of CI takes a fifth of the scripts that take turns.
TURNS = 5
# What begins the answer for one run, and with which budget that was.
ANSWER = re.compile(
    r"^(same|DIFFERENT OUTPUT|DIFFERENT|NOT VERIFIED) with "
    r"(?:superpipe and the flags|--gpu-mem (\d+)M)",
    re.MULTILINE,
)
MOVED = re.compile(r"; peak .*?, (.*?) moved in,")
REFUSED = re.compile(
    r"too small for (?:a launch of )?(.*?), which needs \d+ bytes \((.*?)\) at once"
)
# The same, and of small allocations, which superpipe does not manage, as it is told at once.
LACKS = re.compile(
    r"superpipe: (?:a launch of )?(.*?) needs \d+ bytes \((.*?)\) of managed buffers at once, but the budget"
)
FULL = re.compile(
    r"a pass-through allocation of .*? fails: \d+ bytes \((.*?)\) are pass-through memory"
)
FAILS = "the program fails without superpipe too"


def commits() -> int:
    """How many commits there are; 0 where that cannot be told."""
    counted = subprocess.run(
        ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"], capture_output=True, text=True
    )
    return int(counted.stdout) if counted.returncode == 0 else 0


def policy_of(turn: int) -> str:
    """The policy by which each script is run: they take turns."""
    return tuple(POLICIES)[turn % len(POLICIES)]


def chosen(frameworks: list[str], only: str = "", turn: int | None = None) -> list[Script]:
    """The scripts of `frameworks` whose names contain `only`.

    `turn`: if not None, those that are always run and a part of the others, which `turn` says. JAX
    and TensorFlow themselves take turns by odd and even, so every second turn has the same part.
    """
    found = [script for script in RUNS if script.framework in frameworks and only in script.name]
    if turn is None:
        return found
    part = turn // 2 % TURNS
    others = [script for script in found if script.in_turn]
    return [script for script in found if script.always] + others[part::TURNS]


@dataclass
class Cell:
    """What came of one run with superpipe."""

    outcome: str  # "same", "refused", "differs", "not on simgpu", "no answer"
    detail: str = ""  # same: what was moved in; refused: what is needed; else what was said
    kernel: str = ""  # refused: whose launch needs that


def variables() -> dict[str, str]:
    """The environment of a run: nothing in it says how superpipe or a framework works."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SUPERPIPE_", "SIMGPU_", "LD_", "XLA_", "TF_", "PYTORCH_"))
        or name == "SUPERPIPE_SHARED_FOLDER"
    }


def written(words: list, limit: float) -> tuple[str, str]:
    """What the command wrote to standard output and to standard error.

    @raises subprocess.TimeoutExpired after `limit` seconds.
    """
    run = subprocess.run(
        [str(word) for word in words],
        env=variables(),
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=limit,
    )
    return run.stdout, run.stderr


def verify(
    command: Path, python: Path, script: Script, percents: list[int], policy: str, limit: float
) -> dict[int, Cell]:
    """Runs the script twice without superpipe, and once with each budget, by `superpipe verify`.

    @return by percent. `limit`: in seconds, for the runs of one command.
    """
    budgets = {script.budget(percent): percent for percent in percents}
    flag = "--gpu-mem" if len(budgets) == 1 else "--budget"
    flags = [flag, ",".join(f"{budget}M" for budget in budgets), *POLICIES[policy]]
    # Without -B: Python keeps what it compiled of the packages, which pip was told not to compile.
    program = ["--", python, SCRIPTS / script.name]
    try:
        output, errors = written([command, "verify", "--simulate", *flags, *program], limit)
        cells = cells_of(output, budgets)
        for budget, percent in budgets.items():
            if percent in cells and cells[percent].outcome == "differs":
                # verify shows the last lines of a program: superpipe may have spoken before.
                flags = ["--gpu-mem", f"{budget}M", *POLICIES[policy]]
                _, said = written([command, "run", "--simulate", *flags, *program], limit)
                cells[percent] = refusal_in(said) or cells[percent]
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode(errors="replace").strip().split("\n")[-1]
        return {percent: Cell("no answer", f"in {limit:.0f} s: {said}") for percent in percents}
    unsaid = "; ".join((output + errors).strip().split("\n")[-3:])
    return {percent: cells.get(percent, Cell("no answer", unsaid)) for percent in percents}


def smallest_percent(
    command: Path, python: Path, script: Script, refused: int, runs: int, limit: float
) -> int:
    """The smallest percent of the peak, to within NEAR, with which nothing is refused by auto.

    `refused` percent are known to be too few, and `runs` percent to do.
    @raises subprocess.TimeoutExpired where a run takes longer than `limit` seconds.
    """
    while runs - refused > NEAR:
        between = (refused + runs) // 2
        flags = ["--gpu-mem", f"{script.budget(between)}M", *POLICIES["auto"]]
        program = ["--", python, SCRIPTS / script.name]
        _, said = written([command, "run", "--simulate", *flags, *program], limit)
        if refusal_in(said):
            refused = between
        else:
            runs = between
    return runs


def refusal_in(said: str) -> Cell | None:
    """What was refused, by the lines that superpipe wrote at once; None where nothing was."""
    if full := FULL.search(said):
        return Cell("refused", full[1], "small allocations")
    if lacks := LACKS.search(said):
        return Cell("refused", lacks[2], lacks[1])
    return None


def cells_of(said: str, budgets: dict[int, int]) -> dict[int, Cell]:
    """By percent, what `superpipe verify` said. `budgets`: the percents by the budgets in MiB.

    What it says of flags is of the only budget.
    """
    begins = list(ANSWER.finditer(said))
    ends = [begin.start() for begin in begins[1:]] + [len(said)]
    fails = said.find(FAILS)
    cells = {}
    for begin, end in zip(begins, ends):
        text = said[begin.start() : end]
        if fails >= 0:
            lines = [line.strip() for line in said[fails:].split("\n") if line.strip()]
            cell = Cell(
                "not on simgpu", next((line for line in lines if "Error" in line), lines[-1])
            )
        elif begin[1] == "same":
            moved = MOVED.search(text)
            cell = Cell("same", moved[1] if moved else "")
        elif refused := REFUSED.search(text):
            cell = Cell("refused", refused[2], refused[1])
        else:
            cell = Cell(
                "differs", "; ".join(line.strip() for line in text.strip().split("\n")[:12])
            )
        budget = int(begin[2]) if begin[2] else next(iter(budgets))
        cells[budgets[budget]] = cell
    return cells


def problem_of(cell: Cell) -> str | None:
    """What is wrong with a run that has to be the same and to move data, or None."""
    if cell.outcome != "same":
        return f"{cell.outcome}: {cell.detail} {cell.kernel}".rstrip()
    return "nothing was moved" if cell.detail == "0 B" else None
