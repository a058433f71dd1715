"""Step launch: what superpipe adds to a kernel launch, on the host's clock."""

from __future__ import annotations

import json

from check import Context

ROUNDS = 3
LINE_LIMIT_NS = 20_000  # a launch that costs more than this on top is no measurement but a fault


def measured(context: Context, managed: bool, **variables: object) -> dict:
    run = context.run([context.layout.program("device_probe"), "launches", "--count", 2000 if context.options.short else 20000],
                      managed=managed, plugin="gpu_test.simgpu.so", **variables)
    answer = context.answer(run)
    return {"problem": run.problem or ("" if answer else "printed no JSON"), **answer,
            **{name: run.stats[name] for name in ("launch_overhead_ns_p50", "launch_overhead_ns_p99") if name in run.stats}}


def benchmark(context: Context) -> dict:
    """The hook alone, over a driver that does nothing."""
    command = [context.layout.program("launch_hook_bench"), "--benchmark_format=json",
               f"--benchmark_min_time={0.05 if context.options.short else 0.5}"]
    finished = context.execute(command, context.environment(), 120)
    try:
        rows = json.loads(finished.stdout)["benchmarks"]
        times = {row["name"]: row["real_time"] for row in rows}
        return {"problem": finished.problem, "without_hook_ns": times["BM_LaunchWithoutHook"],
                "with_hook_ns": times["BM_LaunchHook"], "added_ns": times["BM_LaunchHook"] - times["BM_LaunchWithoutHook"]}
    except (ValueError, KeyError):
        return {"problem": finished.problem or "printed no figures"}


def run(context: Context) -> None:
    # The two take turns, so that a change of the processor's clock affects both alike.
    for turn in range(1 if context.options.short else ROUNDS):
        context.cell(f"without/{turn + 1}", lambda: measured(context, managed=False))
        context.cell(f"with/{turn + 1}", lambda: measured(context, managed=True))
    context.cell("hook", lambda: benchmark(context))
    cells = context.value["cells"]

    def best(who: str, what: str) -> float:
        """The fastest round: whatever else the machine does can only make a round slower."""
        return min((cell[what]["p50_ns"] for name, cell in cells.items() if name.startswith(f"{who}/") and what in cell),
                   default=0.0)

    added = {what: best("with", what) - best("without", what) for what in ("no_buffers", "eight_buffers")}
    context.note(added_ns=added)
    if any(value > LINE_LIMIT_NS for value in added.values()):
        context.cell("verdict", lambda: {"problem": f"a launch costs {max(added.values()):.0f} ns more under superpipe"})
    probes = context.folder.step("doctor").get("doctor", {}).get("probes", [])
    context.note(doctor_h10=next((probe for probe in probes if str(probe.get("id")) == "H10"), None))
    context.finish(f"{added['no_buffers']:.0f} ns added without buffers, {added['eight_buffers']:.0f} ns with eight")
