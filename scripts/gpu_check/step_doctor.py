"""Step doctor: `superpipe doctor`, its probes and what they found."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import process
from check import Context

# The outcomes of a probe that settle its question. One that crashed or hung is a finding, and its question stays open.
ANSWERED = ("answered", "not_supported")


def is_answered(probe: dict) -> bool:
    return probe.get("outcome") in ANSWERED


def ask(context: Context, *more: str) -> tuple[process.Finished, dict]:
    """Runs the command as JSON, into a file where it knows how to."""
    command = [context.layout.superpipe, "doctor", *(["--simulate"] if context.options.simulate else []), "--json", *more]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "doctor.json"
        environment = context.environment()
        finished = process.run([*command, "--output", file], environment, max(1.0, context.time_left() - 5))
        text = file.read_text() if file.is_file() else finished.stdout
        if finished.returncode == 2 and not text.strip():  # an older one, which only prints
            finished = process.run(command[:-len(more) or None], environment, max(1.0, context.time_left() - 5))
            text = finished.stdout
    try:
        report = json.loads(text)
    except ValueError:
        report = {}
    return finished, report if isinstance(report, dict) else {}


def run(context: Context) -> None:
    # All probes together have to end within the step's time, even if one wedges the device and all later ones time out.
    # A CPU that simulates may be busy with other things, and wedges nothing.
    limit_s = 25 if context.simulated else 14
    words = ["--probe-timeout", str(limit_s), *(["--quick"] if context.options.short else [])]
    if context.options.host_bytes:
        words += ["--host-mem", str(context.options.host_bytes)]
    # Probe H0 asks about NVIDIA's own runtime library, which the package brings unchanged.
    runtime = context.layout.root / "lib" / "superpipe" / "cuda" / "libcudart.so.13"
    if not context.simulated and runtime.is_file():
        words += ["--cudart", str(runtime)]
    finished, report = ask(context, *words)
    print(json.dumps(report, indent=1), flush=True)
    if finished.stderr:
        print(finished.stderr, flush=True)
    if not report:
        context.cell("doctor", lambda: {"problem": finished.problem or "superpipe doctor printed no JSON object"})
        context.finish()
        return
    context.note(doctor=report)
    probes = [probe for probe in report.get("probes", []) if isinstance(probe, dict)]
    answered = sum(is_answered(probe) for probe in probes)
    open_ones = [str(probe.get("id", "?")) for probe in probes if not is_answered(probe)]
    unready = [finding for finding in report.get("findings", []) if finding.get("level") == "problem"]
    problem = ""
    if finished.timed_out:
        problem = finished.problem
    elif not report.get("ready", True):
        problem = unready[0].get("what", "not ready") if unready else "superpipe cannot run here"
    context.cell("doctor", lambda: {"problem": problem, "probes": len(probes), "answered": answered})
    remark = f"{answered} of {len(probes)} probes answered" if probes else "no probes in this version"
    context.finish(remark + (f"; without answer: {', '.join(open_ones)}" if open_ones else ""))
