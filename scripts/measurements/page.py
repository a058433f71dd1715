"""The page that tells what a check found: tables and plots, each with the GPU's name or "simulated"."""

from __future__ import annotations

from pathlib import Path

from measurements.plots import Series, line_plot

STEPS = ("doctor", "conformance", "tests", "examples", "torch", "peers", "launch")
MIB = 1 << 20


def cell_text(value: object) -> str:
    """A value in a table."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return " ".join(str(value).split()).replace("|", "\\|")


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(cell_text(value) for value in row) + " |" for row in rows), ""]


def figures_text(figures: object) -> str:
    """Figures of any shape, in one line."""
    if isinstance(figures, dict):
        return ", ".join(f"{name} {figures_text(value)}" if not isinstance(value, dict) else f"{name}: {figures_text(value)}"
                         for name, value in figures.items())
    if isinstance(figures, list):
        return "; ".join(figures_text(value) for value in figures[:12]) + (" ..." if len(figures) > 12 else "")
    return cell_text(figures)


def mib(size: object) -> object:
    return float(size) / MIB if isinstance(size, (int, float)) else None


def timed(name: str, cell: dict) -> str:
    """What a row is called; simulated times that do not count are named."""
    return name if cell.get("reliable", True) else f"{name} (not in time with the model)"


class Page:
    """A page in the making; plots are written into `folder`."""

    def __init__(self, folder: Path, summary: dict, steps: dict[str, dict]) -> None:
        self.folder = folder
        self.summary = summary
        self.steps = steps
        self.simulated = bool(summary["simulated"])
        name = summary.get("device") or "unknown GPU"
        self.label = f"simulated: {name}" if self.simulated else name
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        """Every section says whose figures it has: it may be linked to, or copied, without the rest."""
        self.lines += [f"## {title} ({self.label})", ""]

    def plot(self, file: str, title: str, x_name: str, y_name: str, series: list[Series]) -> None:
        series = [each for each in series if each.points]
        if not series:
            return
        (self.folder / file).write_text(line_plot(title, self.label, x_name, y_name, series))
        self.lines += [f"![{title} ({self.label})]({file})", ""]

    def text(self) -> str:
        facts = self.summary.get("driver", {})
        cuda = ".".join(map(str, facts.get("cuda", []))) or "unknown"
        date = str(self.summary.get("started", ""))[:10]
        kind = ("**Simulated**: modelled by simgpu, nothing here was measured on a GPU." if self.simulated else
                f"Measured on **{self.label}**, a driver for CUDA {cuda}.")
        self.lines += [f"# {self.label}, {date}", "",
                       f"{kind} superpipe {self.summary.get('package_version', '')}, by `scripts/gpu_check.sh"
                       f"{' --simulate' if self.simulated else ''}{' --short' if self.summary.get('short') else ''}`. "
                       "The raw results lie beside this page.", ""]
        self.section("Steps")
        self.lines += table(["step", "status", "seconds", "remark"], [
            [name, step.get("status"), step.get("seconds"), step.get("reason")]
            for name, step in ((name, self.summary.get("steps", {}).get(name, {"status": "not run"})) for name in STEPS)])
        for name in STEPS:
            step = self.steps.get(name, {})
            if step.get("cells") or step.get("doctor"):
                getattr(self, name)(step, step.get("cells", {}))
        self.machine()
        return "\n".join(self.lines).rstrip() + "\n"

    def doctor(self, step: dict, _cells: dict) -> None:
        probes = step.get("doctor", {}).get("probes", [])
        if not probes:
            return
        self.section("What only hardware can answer")
        self.lines += table(["", "question", "outcome", "answer"], [
            [probe.get("id"), probe.get("question"), probe.get("outcome"), probe.get("answer") or probe.get("reason")]
            for probe in probes])
        for probe in probes:
            self.figures(str(probe.get("id")), probe.get("figures") or {})

    def figures(self, probe: str, figures: dict) -> None:
        """The figures of a probe: single ones in a table, and one table for each list of objects."""
        lists = {name: value for name, value in figures.items()
                 if isinstance(value, list) and value and all(isinstance(each, dict) for each in value)}
        single = [[name, figures_text(value)] for name, value in figures.items() if name not in lists]
        if single:
            self.lines += [f"{probe} ({self.label}):", "", *table(["figure", "value"], single)]
        for name, rows in lists.items():
            columns = list(dict.fromkeys(column for row in rows for column in row))
            self.lines += [f"{probe}, {name} ({self.label}):", "",
                           *table(columns, [[figures_text(row.get(column)) for column in columns] for row in rows])]

    def conformance(self, step: dict, _cells: dict) -> None:
        self.section("Conformance")
        self.lines += table(["result", "tests"], [[name, count] for name, count in step.get("counts", {}).items() if count])
        differences = step.get("differences", [])
        if differences:
            self.lines += ["Where the driver answers otherwise than simgpu:", ""]
            self.lines += table(["test", "what", "driver", "simgpu", "why"], [
                [each.get(key) for key in ("test", "what", "driver", "simgpu", "why")] for each in differences])
        else:
            self.lines += ["simgpu gives the same answers.", ""]
        if step.get("skipped"):
            self.lines += ["Skipped:", ""]
            self.lines += table(["test", "why"], [[name, why] for name, why in step["skipped"].items()])

    def tests(self, step: dict, cells: dict) -> None:
        self.section("Programs with and without superpipe, byte by byte")
        kinds: dict[str, list[dict]] = {}
        for name, cell in cells.items():
            kinds.setdefault(name.partition("/")[0], []).append(cell)
        self.lines += table(["kind", "runs", "as without superpipe", "launches", "evictions"], [
            [kind, len(each), sum(not cell.get("problem") for cell in each), sum(cell.get("launches") or 0 for cell in each),
             sum(cell.get("evictions") or 0 for cell in each)] for kind, each in kinds.items() if kind != "calibration"])
        self.lines += [f"{step.get('random_programs', 0)} random programs.", ""]
        self.problems(cells)

    def problems(self, cells: dict) -> None:
        bad = [[name, cell["problem"]] for name, cell in cells.items() if cell.get("problem")]
        if bad:
            self.lines += ["What failed:", "", *table(["run", "how"], bad)]

    def examples(self, step: dict, cells: dict) -> None:
        self.section("The link")
        self.lines += table(["when", "to the device, GB/s", "to the host, GB/s"], [
            [name[5:], cell.get("h2d_bytes_per_second", 0) / 1e9, cell.get("d2h_bytes_per_second", 0) / 1e9]
            for name, cell in cells.items() if name.startswith("link/")])
        self.section("minilm")
        self.lines += [f"With {step.get('minilm_weights', 'unknown weights')}. Times are superpipe's own, of a pass.", ""]
        self.times({name[7:]: cell for name, cell in cells.items() if name.startswith("minilm/")})
        for load, what in (("memory", "kernels as fast as the memory"), ("balanced", "as much compute as transfer")):
            chosen = {name.split("/")[2]: cell for name, cell in cells.items() if name.startswith(f"layers/{load}/")}
            if not chosen:
                continue
            self.section(f"Layers, {what}")
            self.times(chosen)
            self.layer_plots(load, what, chosen)
        train = {name[6:]: cell for name, cell in cells.items() if name.startswith("train/")}
        if train:
            self.section("Layers, training")
            self.times(train)
        self.problems(cells)

    def times(self, cells: dict) -> None:
        self.lines += table(
            ["run", "same bytes", "pass, ms", "physical bound, ms", "times it", "achievable bound, ms", "times it",
             "sliding window, ms", "times it", "peak as the driver sees it, MiB"],
            [[timed(name, cell), not cell.get("problem"),
              cell.get("pass_ms"), cell.get("physical_ms"), cell.get("times_physical"), cell.get("achievable_ms"),
              cell.get("times_achievable"), cell.get("sliding_window_ms"), cell.get("times_sliding_window"),
              mib(cell.get("peak_bytes"))] for name, cell in cells.items()])

    def layer_plots(self, load: str, what: str, cells: dict) -> None:
        counts, budgets = [], []
        for name, cell in cells.items():
            # Checks before version 0.2 ran each k with several k'.
            if name.startswith("k") and cell.get("pass_ms") and cell.get("k_prime") in (None, 0, max(1, cell.get("k", 0) // 2)):
                counts.append((cell["k"], cell))
            elif name.startswith("budget") and cell.get("pass_ms"):
                budgets.append((cell["percent"], cell))
        for file, title, x_name, chosen in (
                (f"layers-{load}-k.svg", f"Pass time by k, {what}", "k, layers on the device", counts),
                (f"layers-{load}-budget.svg", f"Pass time by budget, {what}", "budget, % of the weights", budgets)):
            self.plot(file, title, x_name, "ms", [
                Series("under superpipe", [(x, cell["pass_ms"]) for x, cell in chosen]),
                Series("physical bound", [(x, cell["physical_ms"]) for x, cell in chosen if "physical_ms" in cell], bound=True),
                Series("sliding window", [(x, cell["sliding_window_ms"]) for x, cell in chosen if "sliding_window_ms" in cell],
                       bound=True)])

    def torch(self, _step: dict, cells: dict) -> None:
        self.section("PyTorch")
        for script in ("inference", "training"):
            chosen = {name.split("/")[1]: cell for name, cell in cells.items() if name.startswith(f"{script}/")}
            if not chosen:
                continue
            self.lines += [f"{script}: {chosen.get('without', {}).get('model', '')}", ""]
            self.lines += table(
                ["budget, % of the peak", "same bytes", "pass, ms", "peak as the driver sees it, MiB", "torch's peak, MiB",
                 "to the device, MiB", "to the host, MiB", "stalled, ms"],
                [[timed(name, cell), not cell.get("problem"), cell.get("pass_ms"), mib(cell.get("peak_bytes")),
                  mib(cell.get("max_memory_reserved_bytes")), mib(cell.get("stats", {}).get("h2d_bytes")),
                  mib(cell.get("stats", {}).get("d2h_bytes")), cell.get("stats", {}).get("stall_ms")]
                 for name, cell in chosen.items()])
            without_times, times = chosen.get("times-off", {}), chosen.get("times-cupti", {})
            if without_times.get("pass_ms") and times.get("pass_ms"):
                self.lines += [f"With CUPTI's times of {100 * times.get('measured_share', 0):.0f} % of the kernels' time a pass takes "
                               f"{times['pass_ms'] / without_times['pass_ms']:.2f} times as long as with a trace that has none.", ""]
            accelerate, beside = chosen.get("accelerate", {}), chosen.get("as-accelerate", {})
            if accelerate.get("pass_ms") and beside.get("pass_ms"):
                self.lines += [f"With as much of the device a pass takes {accelerate['pass_ms'] / beside['pass_ms']:.1f} times as long "
                               "by accelerate's offloading of half of the weights.", ""]
            points = [(cell["percent"], cell["pass_ms"]) for cell in chosen.values() if "percent" in cell and cell.get("pass_ms")]
            alone = chosen.get("without", {}).get("pass_ms")
            self.plot(f"torch-{script}.svg", f"PyTorch {script}: time of a pass by budget", "budget, % of the peak", "ms", [
                Series("under superpipe", points),
                Series("without", [(x, alone) for x, _ in points] if alone else [], bound=True)])
        self.problems(cells)

    def peers(self, _step: dict, cells: dict) -> None:
        self.section("superpipe beside what users would pick instead")
        for cell in cells.values():
            self.lines += table(
                ["model", "device memory", "program", "pass, ms", "times the link's bound", "peak as the driver sees it, MiB",
                 "memory", "host, MiB", "to the device, MiB", "to the host, MiB", "lines changed", "output"],
                [[row["model"], row["budget"] + " %" * row["budget"].isdigit(), row["name"]] +
                 ([row["problem"]] + [""] * 8 if row["problem"] else
                  [row["pass_ms"], row["times_bound"], mib(row["peak_bytes"]), row["memory"], mib(row["host_bytes"]),
                   mib(row["moved_bytes"][0]), mib(row["moved_bytes"][1]), row["lines_changed"], row["output"]])
                 for row in cell.get("rows", [])])
        self.problems(cells)

    def launch(self, step: dict, cells: dict) -> None:
        self.section("Launches")
        added = step.get("added_ns", {})
        hook = cells.get("hook", {})
        self.lines += table(["", "ns"], [
            ["added to a launch without buffers", added.get("no_buffers")],
            ["added to a launch with eight buffers", added.get("eight_buffers")],
            ["the hook alone, over a driver that does nothing, with eight buffers", hook.get("added_ns")]])

    def machine(self) -> None:
        environment = self.summary.get("environment", {})
        cpu = [line.split(":", 1)[1].strip() for line in environment.get("lscpu", "").splitlines()
               if line.startswith("Model name")]
        self.section("The machine")
        self.lines += table(["", ""], [
            ["processor", cpu[0] if cpu else ""], ["kernel", environment.get("uname")], ["C library", environment.get("glibc")],
            ["driver", environment.get("nvidia_driver")],
            ["host memory, MiB", mib(environment.get("memory", {}).get("MemTotal"))]])
