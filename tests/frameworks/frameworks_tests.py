#!/usr/bin/env python3
"""Frameworks' tests on simgpu. PyTorch's: with a twin on the CPU, whose values everything has to equal, and without, run against run.

  scripts/test --frameworks [--parts words,operations,layers,twin,...] [--only TEXT] ...

words         tools/kernel_words.json: each struct that it describes is handed to a kernel in PyTorch's library, and superpipe
              finds the operands of operations in such structs. In a decode and in a training nothing is fetched for what the
              structs hold besides.
operations    Operations of PyTorch under the twin, without superpipe, and two faults that the twin has to find.
layers        The layers of models of transformers and diffusers are their modules, by the addresses of the parameters
              (module_tree.py). --short takes one of the models, another one with each commit.
twin          Programs under the twin: without superpipe, which says what they need, and under it at half of that. Each value
              that is kept on the device is compared before each use, and the results are those of a run on the CPU.
reproducible  The same programs as they are, on kernels whose results are not computed: the same bytes in each run without
              superpipe, while the machine is busy, and under superpipe at parts of the peak.
scripts       Scripts of PyTorch, JAX, TensorFlow and ONNX Runtime as people write them (--scripts says
              of which), each the same under superpipe at half of what it needs as without it:
              scripts/, script_runs.py. By auto, lru or k layers, in turn by the number of commits.
              --short takes a part of them, which is another with every second commit, and runs those
              that are not always run by auto.
faults        Faults seeded in superpipe, each of which the twin has to find: seeded_faults.py. Not among the parts that run
              unless they are named: it builds superpipe once for each, which takes minutes.

scripts/test --frameworks=full, which is --full, runs scripts alone: of all frameworks, with 100, 50
and 25 % of what each needs, by auto, lru and k layers. That takes an hour or more. What was found
stands in build/frameworks-grid.json, where the next call goes on (remove it to begin anew), and as the
page docs/frameworks-grid.md in build/frameworks-grid.md.

All is simulated. Exit code 0 if all passed, 1 if not, 2 on bad usage, 77 if skipped with one line that says why.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import environment
import kernel_words_check
import layers_check
import module_tree
import script_grid
import script_runs
import seeded_faults
import stale_words
from simulated_torch import ALLOCATORS, Build, Unfit, simulated_run, torch_version

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIPPED = 77
MIB = 1 << 20
PARTS = ("words", "operations", "layers", "twin", "reproducible", "scripts")

PROGRAMS = ("generate_llama", "generate_gpt2_sampling", "train_sgd", "train_adamw_foreach", "train_adamw_single", "train_adamw_fused",
            "train_accumulating", "train_checkpointing", "train_zeroth_order", "vit", "bert", "diffusion_sampling", "diffusion_training")
# What these need at least, in percent of their peak: what one launch names has to be on the device at once, beside code and small
# tensors, which superpipe does not manage. With the async allocator it gives each tensor whole pages of 2 MiB, with the native one
# a tensor lies in a segment of up to 12 MiB. Found by trial, and rounded up; a refusal says how much is lacking.
AT_LEAST = {("train_sgd", "native"): 45, ("train_sgd", "async"): 55,
            ("train_adamw_foreach", "native"): 70, ("train_adamw_foreach", "async"): 55,
            ("train_adamw_single", "native"): 40, ("train_adamw_single", "async"): 45,
            ("train_adamw_fused", "native"): 70, ("train_adamw_fused", "async"): 60,
            ("train_accumulating", "native"): 55, ("train_accumulating", "async"): 45,
            ("train_checkpointing", "native"): 45, ("train_zeroth_order", "native"): 45, ("vit", "native"): 40,
            ("diffusion_sampling", "native"): 75, ("diffusion_sampling", "async"): 75, ("diffusion_training", "async"): 45}
# With --short: what CI has time for.
SHORT = (("generate_llama", "native"), ("train_sgd", "async"), ("train_adamw_foreach", "async"), ("train_checkpointing", "native"),
         ("vit", "async"), ("diffusion_training", "native"))
# In which nothing may be fetched for stale words: a decode of a LLaMA, a training of a GPT-2.
STALE = ("generate_llama", "train_adamw_single")
# What structs hold that nobody filled is what the stack held before: now and then a run has no stale word at all.
STALE_ATTEMPTS = 4
REPRODUCIBLE = [name for name in PROGRAMS if not name.startswith(("generate", "diffusion_sampling"))]
# What the driver may take beyond the budget, in bytes: its own pool, which only the async allocator uses, grows by blocks while the
# program runs on. Superpipe leaves room for one, and makes room for a second once it has seen the first (docs/design.md, I4).
LATE_BLOCKS = {"native": 0, "async": 2 * MIB}
# How many runs may be made until the peak is within that: on a busy machine a third block may come before superpipe's worker is given
# a processor. A defect shows in each run.
RUNS_FOR_PEAK = {"native": 1, "async": 3}
# A part of what each of module_tree.py's models needs.
LAYERS_BUDGET = "60M"
MIXERS_OFF = {"SIMGPU_MIXERS": "off", "SIMGPU_LOG": "error"}


class Runner:
    """Runs cases on several threads, prints a line for each, and counts."""

    def __init__(self, options: argparse.Namespace, build: Build, folder: Path) -> None:
        self.options, self.build, self.folder = options, build, folder
        self.lock = threading.Lock()
        self.passed = self.failed = 0
        self.rows: list[dict] = []
        self.moved: list[bool] = []  # for each run under the twin and superpipe
        self.peaks: dict[tuple[str, str], int] = {}
        self.started = time.monotonic()

    def child(self, program: str, *, twin: bool, allocator: str, managed: bool, budget: int | None = None, passes: int = 2,
              reference: bool = False, trace: Path | None = None, environment: dict | None = None) -> dict:
        command = [self.options.python, HERE / "child.py", "--program", program, "--passes", passes]
        variables = dict(environment or {})
        if twin:
            command += ["--twin", self.build.twin]
            variables |= MIXERS_OFF | {"SIMGPU_KERNELS": str(self.build.twin)}
        if reference:
            command += ["--reference", self.folder / f"{program}.pt"]
        # Segments of 20 MiB, as the native allocator takes them by itself, are too large for halves of small programs.
        variables["PYTORCH_ALLOC_CONF"] = ALLOCATORS[allocator] + (",large_segment_size_mb:12" if allocator == "native" else "")
        flags = [] if budget is None else ["--gpu-mem", budget]
        if trace is not None:
            command += ["--marks"]
            flags += ["--trace", trace, "--kernel-times", "off"]
        return simulated_run(self.build, command, allocator=allocator, managed=managed, flags=flags, environment=variables,
                             limit=self.options.limit)

    def row(self, part: str, name: str, problem: str | None, detail: str, answers: list[dict]) -> None:
        with self.lock:
            self.passed += problem is None
            self.failed += problem is not None
            self.rows.append({"part": part, "name": name, "problem": problem, "detail": detail, "answers": answers, "simulated": True})
            print(f"{time.monotonic() - self.started:5.0f} s  {part:13}{name:66}{'passed' if problem is None else 'FAILED':8}"
                  f"{problem or detail}", flush=True)
            if problem is not None:
                for answer in answers:
                    for line in (answer.get("said") or []) + answer.get("output", "").strip().split("\n")[-6:]:
                        if "error" in answer and line:
                            print(f"             {line[:200]}", flush=True)
            if self.options.json:  # after each row: what was found survives an interruption
                self.options.json.write_text(json.dumps(self.rows, indent=1) + "\n")

    def cases(self, function, cases) -> None:
        """Calls function(*case) for each of `cases`, as many at once as there are jobs."""
        with ThreadPoolExecutor(self.options.jobs) as pool:
            for future in [pool.submit(function, *case) for case in cases if self.options.only in case[0]]:
                future.result()

    def peak(self, name: str, allocator: str) -> int:
        """Device memory that the program needs under the twin without superpipe, in bytes; found out once."""
        if (name, allocator) not in self.peaks:
            answer = self.child(name, twin=True, allocator=allocator, managed=False)
            self.peaks[name, allocator] = answer.get("peak_bytes", 0)
        return self.peaks[name, allocator]

    def references(self, names: list[str]) -> None:
        """Runs the programs on the CPU, and keeps their values."""
        command = [self.options.python, HERE / "child.py", "--device", "cpu", "--save", self.folder, "--program", *names]
        finished = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=4 * self.options.limit)
        answers = json.loads(finished.stdout.strip().split("\n")[-1]) if finished.returncode == 0 else {}
        answers = answers.get("programs", {names[0]: answers})
        wrong = [name for name in names if "error" in answers.get(name, {"error": "none"})]
        self.row("reference", "all programs on the CPU", f"{wrong}: {finished.stderr[-1000:]}" if wrong else None,
                 f"{len(names)} programs", [])

    # ---- words

    def words(self) -> None:
        try:
            problem, detail = kernel_words_check.check_rows(self.options.python, self.build.kernel_parameters)
        except RuntimeError as error:
            problem, detail = str(error), ""
        self.row("words", "rows of tools/kernel_words.json", problem, detail, [])
        timeline = self.folder / "operands.csv"
        answer = simulated_run(self.build, [self.options.python, HERE / "operands.py"], allocator="async", managed=True,
                               flags=["--gpu-mem", "20G", "--min-buffer", "1", "--timeline", timeline], environment=MIXERS_OFF,
                               limit=self.options.limit)
        problem, detail = answer.get("error"), ""
        if problem is None:
            problem, detail = kernel_words_check.operands_problem(answer["steps"], kernel_words_check.launches_of_steps(timeline))
        self.row("words", "operands of operations", problem, detail, [answer] if "error" in answer else [])
        for name in STALE:
            self.stale(name)

    def stale(self, name: str) -> None:
        """Runs the program with half of what it needs; where superpipe looks at all words of structs, it has to name more."""
        answer = self.child(name, twin=False, allocator="async", managed=False)
        budget = answer.get("peak_bytes", 0) * max(50, AT_LEAST.get((name, "async"), 0)) // 100
        for words in ("known", "all"):
            must_find = words == "all" and name == STALE[0]
            for _ in range(STALE_ATTEMPTS if must_find else 1):
                answer, found, unnamed = self.names_of_launches(name, budget, words)
                if found is None or found.stale_names:
                    break
            problem, detail = answer.get("error"), found.detail() if found else ""
            if found and words == "known":
                problem = stale_words.problem(found)
            elif found and not found.stale_names and must_find:
                problem = "no stale word was found where all words of structs are looked at"
            self.row("words", f"stale words of {name}, {words} words", problem, detail, [answer] if "error" in answer else [])
        # The call sites of the last run: PyTorch allocates without the lock of the interpreter that names its functions.
        self.row("words", f"functions of Python in call sites of {name}", unnamed, "", [])

    def names_of_launches(self, name: str, budget: int, words: str) -> tuple[dict, stale_words.Found | None, str | None]:
        """What the program said, what its launches name, and what is wrong with the functions that its allocations name."""
        trace, export = self.folder / f"{name}.sptrace", self.folder / f"{name}.csv"
        answer = self.child(name, twin=False, allocator="async", managed=True, budget=budget, trace=trace,
                            environment={"SUPERPIPE_KERNEL_WORDS": words})
        if "error" in answer:
            return answer, None, answer["error"]
        subprocess.run([self.build.command, "export", trace, "--format", "csv", "-o", export], check=True, capture_output=True)
        rows = stale_words.read_rows(export)
        sites = [row["call_site"].split(" < ") for row in rows if row["event"] == "allocation" and row["buffer"]]
        named = sum(name in functions for functions in sites)
        # Those that threads of autograd make, which run no Python, are fewer.
        unnamed = None if 2 * named > len(sites) else f"{named} of {len(sites)} allocations name the function that makes them"
        return answer, stale_words.stale_words(rows, answer.pop("operands")), unnamed

    # ---- operations

    def operations(self, name: str, allocator: str) -> None:
        answer = self.child(name, twin=True, allocator=allocator, managed=False, reference=True)
        self.row("operations", f"{name}, {allocator}", twin_problem(answer), twin_detail(answer), [answer])

    def flipped_bit(self, name: str) -> None:
        answer = self.child(name, twin=True, allocator="native", managed=False)
        found = answer.get("twin", {}).get("found", [])
        problem = None if found and "error" not in answer else answer.get("error", "the twin found nothing")
        self.row("operations", f"{name} is found", problem, "; ".join(found)[:160], [answer])

    # ---- layers

    def layers(self, name: str) -> None:
        tree, trace, export = (self.folder / f"{name}.{ending}" for ending in ("json", "sptrace", "csv"))
        command = [self.build.command, "profile", "--simulate", "--gpu-mem", LAYERS_BUDGET, "--policy", "superpipeline",
                   "-o", trace, "--", self.options.python, HERE / "module_tree.py", name, tree]
        try:
            run = subprocess.run([str(word) for word in command], env=script_runs.variables(), text=True, capture_output=True,
                                 stdin=subprocess.DEVNULL, timeout=3 * self.options.limit, check=True)
            subprocess.run([self.build.command, "export", trace, "--format", "csv", "-o", export], check=True, capture_output=True,
                           timeout=self.options.limit)
            shown = re.search(r"^superpipe: policy .* layers (\d+)", run.stderr, re.MULTILINE)
            problem, detail = layers_check.problem(json.loads(tree.read_text()), layers_check.layers_by_address(export),
                                                   int(shown[1]) if shown else 0)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            problem, detail = f"{type(error).__name__}: {error}", ""
        self.row("layers", f"{name}, {LAYERS_BUDGET}", problem, detail, [])

    # ---- twin

    def twin(self, name: str, allocator: str) -> None:
        free = self.child(name, twin=True, allocator=allocator, managed=False, reference=True)
        self.row("twin", f"{name}, {allocator}, without", twin_problem(free), twin_detail(free), [free])
        if "peak_bytes" not in free:
            return
        self.peaks[name, allocator] = free["peak_bytes"]
        fraction = max(self.options.fraction, AT_LEAST.get((name, allocator), 0))
        budget = free["peak_bytes"] * fraction // 100
        for _ in range(RUNS_FOR_PEAK[allocator]):
            managed = self.child(name, twin=True, allocator=allocator, managed=True, budget=budget, reference=True)
            problem = twin_problem(managed)
            if problem is not None or managed["peak_bytes"] <= budget + LATE_BLOCKS[allocator]:
                break
            problem = f"peak {managed['peak_bytes'] / MIB:.1f} MiB above the budget of {budget / MIB:.1f}"
        if fraction < 100 and allocator == "native":  # which takes the same memory however large superpipe's pages are
            with self.lock:
                self.moved.append(managed.get("h2d_bytes", 0) > free["h2d_bytes"])
        self.row("twin", f"{name}, {allocator}, {fraction} %", problem, twin_detail(managed), [managed])

    # ---- reproducible

    def scripts(self) -> None:
        turn = script_runs.commits()
        scripts = script_runs.chosen(self.options.scripts, self.options.only,
                                     turn if self.options.short else None)
        for script in scripts:
            # A script that CI meets by a policy for the first time could fail for a commit that has
            # nothing to do with it. So only those that always run take turns there.
            takes_turns = script.always or not self.options.short
            policy = script_runs.policy_of(turn) if takes_turns else "auto"
            budget = f"{script.budget(script.percent)} MiB"
            name = f"{script.framework} {script.name}, {policy}, {budget}"
            try:
                cells = script_runs.verify(self.build.command, self.python_of(script.framework), script,
                                           [script.percent], policy, 3 * self.options.limit)
            except Unfit as lack:
                self.row("scripts", name, str(lack), "", [])
                continue
            cell = cells[script.percent]
            self.row("scripts", name, script_runs.problem_of(cell), f"the same, {cell.detail} moved in", [])

    def python_of(self, framework: str) -> Path:
        """@raises Unfit if its packages cannot be installed."""
        return self.options.python if framework == "torch" else environment.prepare(ROOT, framework)

    def grid(self) -> None:
        """Runs what of the grid is not in its file yet, and writes its page. Only what is the same or refused passes."""
        grid = script_grid.Grid(ROOT / "build" / "frameworks-grid.json")
        page = ROOT / "build" / "frameworks-grid.md"
        for framework in self.options.scripts:
            try:
                python = self.python_of(framework)
            except Unfit as lack:
                self.row("scripts", framework, str(lack), "", [])
                continue
            grid.versions[framework] = script_grid.versions(python, framework)
            for script in script_runs.chosen([framework], self.options.only):
                for policy in script_runs.POLICIES:
                    self.cells(grid, python, script, policy)
                    page.write_text(grid.markdown())
        page.write_text(grid.markdown())
        self.row("scripts", str(page.relative_to(ROOT)), None, f"of {len(grid.cells)} cells", [])

    def cells(self, grid: script_grid.Grid, python: Path, script: script_runs.Script, policy: str) -> None:
        """Runs what the grid does not have yet of a script by one policy, with the smallest budget that runs, too."""
        open_cells = [percent for percent in grid.percents(script) if grid.cell(script, policy, percent) is None]
        while open_cells:
            cells = script_runs.verify(self.build.command, python, script, open_cells, policy, 9 * self.options.limit)
            grid.add(script, policy, cells)
            wrong = [f"{percent} %: {cell.outcome}: {cell.detail}" for percent, cell in cells.items()
                     if cell.outcome not in ("same", "refused")]
            self.row("scripts", f"{script.framework} {script.name}, {policy}", "; ".join(wrong) or None,
                     ", ".join(f"{percent} %: {cell.outcome}" for percent, cell in cells.items()), [])
            open_cells = []
            if policy == "auto" and (between := grid.lacks_smallest(script)):
                try:
                    smallest = script_runs.smallest_percent(self.build.command, python, script, *between, 3 * self.options.limit)
                    open_cells = [smallest] if grid.cell(script, policy, smallest) is None else []
                except subprocess.TimeoutExpired as expired:
                    self.row("scripts", f"{script.framework} {script.name}, its smallest budget", str(expired), "", [])

    def reproducible(self, name: str, allocator: str) -> None:
        free = [self.child(name, twin=False, allocator=allocator, managed=False) for _ in range(self.options.runs)]
        problem = alike(free, free[0])
        peak = free[0].get("peak_bytes", 0)
        self.row("reproducible", f"{name}, {allocator}, without, {self.options.runs} runs", problem, f"peak {peak / MIB:.0f} MiB", free)
        if "digest" not in free[0]:
            return
        for percent, wanted in possible(self.options.percent, AT_LEAST.get((name, allocator), 0)).items():
            managed = self.child(name, twin=False, allocator=allocator, managed=True, budget=max(peak * percent // 100, 1))
            self.row("reproducible", f"{name}, {allocator}, {percent} %{wanted}", alike([managed], free[0]),
                     f"peak {managed.get('peak_bytes', 0) / MIB:.0f} MiB, moved {managed.get('h2d_bytes', 0) / MIB:.0f} MiB", [managed])


class BusyMachine:
    """Two loops that keep two processors busy while the `with` lasts."""

    def __enter__(self) -> None:
        self.loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]

    def __exit__(self, *unused) -> None:
        for loop in self.loops:
            loop.kill()
            loop.wait()


def alike(answers: list[dict], first: dict) -> str | None:
    if failed := [answer["error"] for answer in answers if "error" in answer]:
        return failed[0]
    others = sum(answer["digest"] != first["digest"] for answer in answers)
    return f"{others} of {len(answers)} give other bytes" if others else None


def possible(percents: list[int], least: int) -> dict[int, str]:
    """The parts of the peak to run at, none below `least`, and what to say of each: which smaller ones were asked for."""
    smaller = [str(percent) for percent in percents if percent < least]
    found = {percent: "" for percent in percents if percent >= least}
    if smaller:
        found[least] = f", the least for one launch, not {' and '.join(smaller)}"
    return found


def twin_problem(answer: dict) -> str | None:
    """What is wrong with a run under the twin, or None."""
    if found := answer.get("twin", {}).get("found"):
        return "; ".join(found)
    if "error" in answer:
        return answer["error"]
    # torch.tensor() fills what it makes before the twin sees it; all else begins with the twin.
    if strange := set(answer["twin"]["adopted"]) - {"aten.lift_fresh.default"}:
        return f"storages of unknown origin: {', '.join(sorted(strange))}"
    compared = answer["compared"]
    if not compared["equal"]:
        return f"differs from the CPU by {compared['distance']:.2g} in {', '.join(compared['differing'])}"
    if answer["twin"]["compared"] == 0 or answer["twin"]["read_back"] == 0:
        return "nothing was compared"
    return "unmapped memory was touched" if answer.get("unmapped_accesses") else None


def twin_detail(answer: dict) -> str:
    if "twin" not in answer or "compared" not in answer:
        return ""
    return (f"{answer['twin']['operations']} operations, {answer['twin']['compared']} storages compared, "
            f"peak {answer['peak_bytes'] / MIB:.0f} MiB, moved {answer['h2d_bytes'] / MIB:.0f} MiB")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=lambda path: Path(path).absolute(),
                        help="a Python that has requirements.txt; without: build/frameworks-venv, made if needed")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    parser.add_argument("--parts", default="", help=f"default {','.join(PARTS)}; there is faults, too")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains TEXT")
    parser.add_argument("--allocators", default=",".join(ALLOCATORS), help="of PyTorch; default both")
    parser.add_argument("--fraction", type=int, default=50, metavar="PERCENT", help="of the peak, for the twin; default 50")
    parser.add_argument("--scripts", default="", metavar="FRAMEWORKS",
                        help=f"of which there are runs of scripts: {','.join(script_runs.FRAMEWORKS)}; default torch, "
                             "with --full all. Each is installed in an environment of its own in build/")
    parser.add_argument("--full", action="store_true", help="the grid of scripts alone")
    parser.add_argument("--short", action="store_true", help="as CI runs them: few programs, --runs 2 --percent 50")
    parser.add_argument("--runs", type=int, default=5, help="reproducible: runs without superpipe; default 5")
    parser.add_argument("--percent", default="100,50,30", help="reproducible: of the peak, under superpipe; default 100,50,30")
    parser.add_argument("--fault", default="", metavar="TEXT", help="faults: those whose name contains TEXT")
    parser.add_argument("--limit", type=float, default=180, metavar="SECONDS", help="for each process; default 180")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at once; default: all cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all answers there")
    options = parser.parse_args()
    options.parts = options.parts or ("scripts" if options.full else ",".join(PARTS))
    options.scripts = options.scripts or (",".join(script_runs.FRAMEWORKS) if options.full else "torch")
    options.parts, options.allocators = options.parts.split(","), options.allocators.split(",")
    if unknown := set(options.parts) - {*PARTS, "faults"} | set(options.allocators) - set(ALLOCATORS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    options.scripts = options.scripts.split(",")
    if unknown := set(options.scripts) - set(script_runs.FRAMEWORKS):
        parser.error(f"there are no scripts of {', '.join(sorted(unknown))}")
    if options.short:
        options.runs, options.percent = 2, "50"
    options.percent = [int(part) for part in options.percent.split(",") if part]
    return options


def main() -> int:
    options = parse()
    build = Build(options.build)
    try:
        build.check()
        options.python = options.python or environment.prepare(ROOT)
        version, cuda = torch_version(options.python)
    except Unfit as lack:
        print(f"frameworks: skipped: {lack}", file=sys.stderr)
        return SKIPPED
    print(f"torch {version}, CUDA {cuda}, on simgpu: all of it simulated", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, build, Path(folder))
        names = [name for name in PROGRAMS if options.only in name]  # their values are the CPU's, bit for bit
        cases = [(name, allocator) for name in names for allocator in options.allocators
                 if not options.short or (name, allocator) in SHORT]
        needed = {"operations": ["operations"], "twin": [name for name, _ in cases], "faults": seeded_faults.programs()}
        if "words" in options.parts:
            runner.words()
        if referenced := [name for part in options.parts for name in needed.get(part, [])]:
            runner.references(list(dict.fromkeys(referenced)))
        if "operations" in options.parts:
            runner.cases(runner.operations, [("operations", allocator) for allocator in options.allocators])
            runner.cases(runner.flipped_bit, [("flipped_bit",), ("flipped_bit_read_back",)])
        if "layers" in options.parts:
            models = list(module_tree.MODELS)
            chosen = [models[script_runs.commits() % len(models)]] if options.short else models
            runner.cases(runner.layers, [(model,) for model in chosen])
        if "twin" in options.parts:
            runner.cases(runner.twin, cases)
            runner.row("twin", "superpipe moved data", None if 2 * sum(runner.moved) >= len(runner.moved) else "in too few runs",
                       f"in {sum(runner.moved)} of {len(runner.moved)} runs with the native allocator", [])
        if "reproducible" in options.parts:
            with BusyMachine():
                runner.cases(runner.reproducible, [case for case in cases if case[0] in REPRODUCIBLE])
        if "scripts" in options.parts:
            (runner.grid if options.full else runner.scripts)()
        if "faults" in options.parts:
            seeded_faults.run(runner)
        print(f"{time.monotonic() - runner.started:.0f} s\n{runner.passed} passed, {runner.failed} failed")
        return 1 if runner.failed or not runner.passed else 0


if __name__ == "__main__":
    sys.exit(main())
