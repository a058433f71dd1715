#!/usr/bin/env python3
"""Runs the model MiniLM without superpipe, with all its layers on the device, and with 2 of 6, and compares.

Exit code 1 if a run fails or the outputs are not the same bytes.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SENTENCES = [
    "The cat sleeps on the warm windowsill.",
    "A kitten naps in the sunlight by the window.",
    "Interest rates rose by half a percent last quarter.",
    "The central bank made borrowing more expensive.",
    "Only the layers that run next lie on the device.",
]


@dataclass
class Run:
    """One run of the model: what it wrote, and what the driver and superpipe counted."""

    title: str
    printed: str
    embeddings: bytes
    driver: dict = field(default_factory=dict)  # simgpu's own count; empty on hardware
    superpipe: dict = field(default_factory=dict)  # empty without superpipe
    timeline: str = ""  # when layers came and went, as CSV


class DemoError(Exception):
    pass


def run_model(title: str, build: Path, model: Path, flags: list[str], simulate: bool, passes: int,
              without_superpipe: bool = False) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        embeddings, stats, driver, timeline = (
            Path(folder) / name for name in ("embeddings", "stats.json", "simgpu.json", "timeline.csv"))
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("SUPERPIPE_") or name == "SUPERPIPE_SHARED_FOLDER"}
        environment["SIMGPU_STATS"] = str(driver)
        environment.setdefault("SIMGPU_DEVICE_GBPS", "6")  # what this machine can fill memory at
        if without_superpipe:
            environment["SUPERPIPE_OFF"] = "1"
        command = [build / "bin" / "superpipe", "run", *(["--simulate"] if simulate else []), *flags,
                   *([] if without_superpipe else ["--stats", stats, "--timeline", timeline]), "--",
                   build / "bin" / "superpipe-minilm", "--model", model, "--repeat", str(passes), "--output", embeddings,
                   *SENTENCES]
        shown = [command[0], "run", *(["--simulate"] if simulate else []), *flags, "--", build / "bin" / "superpipe-minilm"]
        text = " ".join(str(word) for word in shown).replace(f"{ROOT}/", "")
        print(f"\n== {title}\n$ {'SUPERPIPE_OFF=1 ' if without_superpipe else ''}{text} ...", flush=True)
        finished = subprocess.run([str(word) for word in command], env=environment, cwd=ROOT, stdout=subprocess.PIPE,
                                  text=True)
        if finished.returncode != 0:
            raise DemoError(f"the run '{title}' failed with exit code {finished.returncode}")
        read = lambda path: json.loads(path.read_text()) if path.is_file() else {}
        return Run(title, finished.stdout, embeddings.read_bytes(), read(driver), read(stats),
                   timeline.read_text() if timeline.is_file() else "")


def mebibytes(count: float) -> str:
    return f"{count / 2**20:.1f} MiB"


def device_peak(run: Run, with_superpipe: dict) -> int:
    """Peak device bytes: the driver's own count where there is one, else superpipe's."""
    if run.driver:
        return run.driver["peak_bytes"]
    if run.superpipe:
        return run.superpipe["peak_device_bytes"] + run.superpipe["context_bytes"]
    return (with_superpipe["managed_bytes"] + with_superpipe["passthrough_bytes"] + with_superpipe["context_bytes"])


def print_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def compare(plain: Run, resident: Run, managed: Run, simulate: bool) -> None:
    stats = managed.superpipe
    before, after = device_peak(plain, stats), device_peak(managed, stats)
    passes = max(1, stats["passes"])
    source = "counted by the simulated driver" if plain.driver else "counted by superpipe"
    print(f"\n== Comparison{' (simulated GPU: its times are modelled)' if simulate else ''}")
    print_table([
        ("", "without superpipe", f"with k={stats['k']}", ""),
        ("output", f"{len(plain.embeddings)} bytes", "the same bytes", ""),
        ("peak device memory", mebibytes(before), mebibytes(after), f"{100 * (1 - after / before):.0f} % less, {source}"),
        ("layers on the device", str(stats["layers"]), str(stats["k"]), ""),
        ("moved to the device", "-", mebibytes(stats["h2d_bytes"]),
         f"{mebibytes(stats['h2d_bytes'] / passes)} a pass, {stats['prefetches']} prefetches, "
         f"{stats['demand_fetches']} demand fetches"),
        ("moved back", "-", mebibytes(stats["d2h_bytes"]), f"{stats['write_backs']} write-backs"),
        pass_times(resident, managed),
    ])


def pass_times(resident: Run, managed: Run) -> tuple[str, str, str, str]:
    """The row of pass times. On simgpu they mean nothing where over 1 % of its busy time was lateness of this machine."""
    late = max(run.driver.get("overrun_share", 0.0) for run in (resident, managed))
    if late > 0.01:
        return ("pass time", "?", "?", f"this machine was slower than simgpu's model by {late:.1%} of its busy time")
    return ("pass time", f"{resident.superpipe['pass_ms']:.1f} ms", f"{managed.superpipe['pass_ms']:.1f} ms",
            "left: under superpipe with k=6: all layers on the device")


def steady_passes(timeline: str, count: int) -> tuple[float, float]:
    """When the last `count` whole passes began and ended: a pass begins at the first launch of layer 0."""
    starts, previous = [], None
    for row in csv.DictReader(timeline.splitlines()):
        if row["event"] == "launch" and row["layer"] != "":
            if row["layer"] == "0" and previous != "0":
                starts.append(float(row["time_ms"]))
            previous = row["layer"]
    if len(starts) <= count:
        raise DemoError("the timeline has too few passes to draw")
    return starts[-count - 1], starts[-1]


def draw(run: Run, simulate: bool, output: Path) -> None:
    timeline = output.with_suffix(".csv")
    begin, end = steady_passes(run.timeline, count=2)
    header, *lines = run.timeline.splitlines()
    with timeline.open("w") as file:  # time counts from the first of the passes
        print(header, file=file)
        for line in lines:
            time, rest = line.split(",", 1)
            print(f"{float(time) - begin:.4f},{rest}", file=file)
    finished = subprocess.run([sys.executable, "-B", str(ROOT / "scripts" / "residency_svg.py"), str(timeline),
                               "-o", str(output), "--from", "0", "--to", str(end - begin),
                               "--title", "MiniLM's six layers, two on the device: two passes",
                               "--device", "simulated GPU" if simulate else "GPU"], cwd=ROOT)
    if finished.returncode != 0:
        raise DemoError("the picture could not be drawn")
    print(f"\nResidency over two passes, as a picture: {output}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--model", type=Path, default=ROOT / ".deps" / "minilm", help="the model's folder")
    parser.add_argument("--simulate", action="store_true", help="on a simulated GPU, even if there is a real one")
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--svg", type=Path, help="where to write the picture (default: BUILD/residency.svg)")
    options = parser.parse_args()
    build, model = options.build.resolve(), options.model.resolve()
    if not (model / "model.safetensors").is_file():
        print(f"demo: no model in {model}; scripts/fetch_minilm FOLDER gets it, --model FOLDER names it", file=sys.stderr)
        return 1

    doctor = subprocess.run([build / "bin" / "superpipe", "doctor", "--no-probes"], capture_output=True, text=True)
    simulate = options.simulate or doctor.returncode != 0
    print("demo: " + ("on a SIMULATED GPU" + ("" if options.simulate else ": this machine has no usable one")
                      if simulate else "on this machine's GPU"))
    try:
        plain = run_model("Without superpipe", build, model, [], simulate, options.passes, without_superpipe=True)
        print(plain.printed, end="")
        resident = run_model("Under superpipe, all 6 layers on the device", build, model, ["--k", "6"], simulate,
                             options.passes)
        managed = run_model("Under superpipe, 2 of 6 layers on the device", build, model,
                            ["--k", "2"], simulate, options.passes)
        for run in (resident, managed):
            if run.embeddings != plain.embeddings or run.printed != plain.printed:
                raise DemoError(f"the run '{run.title}' gave other bytes than the run without superpipe")
        compare(plain, resident, managed, simulate)
        draw(managed, simulate, (options.svg or build / "residency.svg").resolve())
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
