#!/usr/bin/env python3
"""Checks on this machine's GPU what superpipe relies on and what it promises. See scripts/gpu_check.sh."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import driver as driver_module
import machine
import process
from check import Context, Options, OutOfTime, StepSkipped
from layout import Layout, MissingPart, default_root
from results import (FAILED, FINISHED, FORMAT, INTERRUPTED, PASSED, RUNNING, SKIPPED, STEPS, TIMED_OUT, Folder, FolderError)

USAGE_EXIT, FOLDER_EXIT, NOTHING_EXIT = 120, 121, 123
MOST_FAILED = 100
STEP_LIMIT_S = 480
SPARE_S = 10  # of a step's limit, left for it to end by itself

HELP = f"""\
steps: {', '.join(STEPS)}; each takes {STEP_LIMIT_S // 60} minutes at most, all together about 35 on one data-centre GPU.

A step that fails does not stop the others. The results lie in one folder: summary.json (with the machine's description), a
JSON file for each step, and logs.tar.gz; scripts/measurements_to_docs of a checkout makes pages of them. --resume goes on
with a folder: what passed or failed there is not repeated, a step that was killed keeps the parts that it had finished.

exit codes: the number of steps that failed, were killed at their limit or interrupted, at most {MOST_FAILED}; 0 if there are
none and at least one step passed; {USAGE_EXIT} wrong command line; {FOLDER_EXIT} the results cannot be written; 122 no Python;
{NOTHING_EXIT} nothing failed, but every step was skipped.
"""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:
        print(f"gpu_check: {message}; see --help", file=sys.stderr)
        sys.exit(USAGE_EXIT)


def size(text: str) -> int:
    """Bytes of '8G' and the like."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    number, unit = (text[:-1], text[-1].upper()) if text and text[-1].upper() in units else (text, "")
    if not number.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 8G")
    return int(number) << units.get(unit, 0)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog="gpu_check.sh", description=__doc__, epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", action="store_true", help="check the simulated GPU; never implied")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where the results go (default: gpu-check-DATE-TIME)")
    parser.add_argument("--model", type=Path, metavar="DIR",
                        help="folder with minilm's model.safetensors and vocab.txt (default: random weights)")
    parser.add_argument("--short", action="store_true", help="fewer and smaller runs: to see that it works")
    parser.add_argument("--resume", action="store_true", help="go on with the results in --output")
    parser.add_argument("--step", action="append", default=[], metavar="NAME", help="only this step; can be given again")
    parser.add_argument("--host-mem", type=size, default=0, metavar="SIZE",
                        help="host memory that may be used, by superpipe too (default: what is available; superpipe's own)")
    parser.add_argument("--step-limit", type=float, default=STEP_LIMIT_S, metavar="SECONDS", help=f"default {STEP_LIMIT_S}")
    parser.add_argument("--root", type=Path, default=default_root(), help=argparse.SUPPRESS)
    parser.add_argument("--worker", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    for name in options.step:
        if name not in STEPS:
            parser.error(f"there is no step '{name}'; there are {', '.join(STEPS)}")
    if not 0 < options.step_limit <= STEP_LIMIT_S:
        parser.error(f"--step-limit takes seconds up to {STEP_LIMIT_S}")
    if options.model and not all((options.model / file).is_file() for file in ("model.safetensors", "vocab.txt")):
        parser.error(f"no model in {options.model}: it needs model.safetensors and vocab.txt")
    if options.resume and options.output is None:
        parser.error("--resume needs --output FOLDER")
    return options


def check_options(options: argparse.Namespace) -> Options:
    model = str(options.model.resolve()) if options.model else ""
    return Options(options.root.resolve(), options.simulate, options.short, model, options.host_mem)


# One step, in a process of its own.


def work(options: argparse.Namespace) -> int:
    """Runs one step to its end; what it came to is in its file."""
    process.die_with_parent()
    folder = Folder(options.output)
    driver = driver_module.Driver(**folder.summary()["driver"])
    context = Context(options.worker, check_options(options), driver, folder, max(1.0, options.step_limit - SPARE_S))
    try:
        importlib.import_module(f"step_{options.worker}").run(context)
    except StepSkipped as reason:
        context.stop(SKIPPED, str(reason))
    except OutOfTime as reason:
        context.out_of_time(str(reason))
    except MissingPart as reason:
        context.stop(FAILED, str(reason))
    except Exception as error:  # a fault of the check itself is a failed step, not a missing result
        traceback.print_exc()
        context.stop(FAILED, f"the check itself failed: {type(error).__name__}: {error}")
    return 0


# All of them.


class Interrupted(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


def raise_interrupted(number: int, _frame: object) -> None:
    raise Interrupted(number)


class Check:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        stamp = datetime.datetime.now(datetime.timezone.utc)
        options.output = (options.output or Path(f"gpu-check-{stamp:%Y%m%d-%H%M%S}")).resolve()
        self.folder = Folder(options.output)
        self.folder.prepare()
        self.layout = Layout(options.root)
        self.summary = self.begin(stamp)

    def begin(self, stamp: datetime.datetime) -> dict:
        before = self.folder.summary()
        identity = {**check_options(self.options).identity(), "version": self.layout.version()}
        if before and not self.options.resume:
            raise FolderError(f"{self.options.output} has results already; add --resume to go on, or name another folder")
        if before and before.get("identity") != identity:
            raise FolderError(f"the results in {self.options.output} are of another check ({before.get('identity')}): "
                              "name another folder")
        if not self.layout.superpipe.is_file():
            raise FolderError(f"no superpipe in {self.layout.root}: run the script of an unpacked package")
        driver = self.find_driver()
        simulated = self.options.simulate or driver.is_simulated
        if before and (before.get("device"), before.get("simulated")) != (driver.device, simulated):
            raise FolderError(f"the results in {self.options.output} are of another device ({before.get('device') or 'none'}): "
                              "name another folder")
        return {"format": FORMAT, "package_version": identity["version"], "identity": identity, "simulated": simulated,
                "short": self.options.short, "device": driver.device,
                "driver": dataclasses.asdict(driver), "started": before.get("started") or stamp.isoformat(timespec="seconds"),
                "steps": before.get("steps", {}), "environment": machine.environment()}

    def find_driver(self) -> driver_module.Driver:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SIMGPU_STATS")}
        if self.options.simulate:
            return driver_module.probe(str(self.layout.simgpu_driver), "", environment)
        named = os.environ.get("SUPERPIPE_DRIVER", "")
        return driver_module.probe(named or "libcuda.so.1", "SUPERPIPE_DRIVER" if named else "", environment)

    def record(self, name: str, status: str, reason: str, seconds: float = 0.0) -> None:
        before = self.summary["steps"].get(name, {})
        self.summary["steps"][name] = {
            "status": status, "reason": reason, "attempts": before.get("attempts", 0) + (status == RUNNING),
            "seconds": round(before.get("seconds", 0.0) + seconds, 1)}
        self.folder.write_summary(self.summary)

    def run(self) -> int:
        where = self.summary["device"] or "no device"
        print(f"gpu_check: {where}{', SIMULATED: no figure is a measurement' if self.summary['simulated'] else ''}; "
              f"results in {self.options.output}", flush=True)
        chosen = [name for name in STEPS if not self.options.step or name in self.options.step]
        problem = self.summary["driver"]["problem"]
        self.folder.write_summary(self.summary)
        # Keeps the device open for the whole check: without a persistence daemon, the driver would otherwise start it
        # anew for each program, which takes seconds.
        held = machine.DeviceMemoryWatch(enabled=not self.summary["simulated"] and not problem)
        for name in chosen:
            before = self.summary["steps"].get(name, {})
            if before.get("status") in FINISHED:
                print(f"{name}: already done: {before['status']}", flush=True)
            elif problem:
                self.folder.write_step(name, {"step": name, "status": SKIPPED, "reason": problem,
                                              "simulated": self.summary["simulated"], "device": "", "cells": {}})
                self.record(name, SKIPPED, problem)
                print(f"{name}: skipped: {problem}", flush=True)
            else:
                self.run_step(name)
        del held
        self.folder.pack_logs()
        return self.conclude(chosen)

    def run_step(self, name: str) -> None:
        print(f"{name}: ...", end=" ", flush=True)
        self.record(name, RUNNING, "")
        begin = time.monotonic()
        log = self.folder.log_file(name, self.summary["steps"][name]["attempts"])
        words = [sys.executable, "-B", __file__, "--worker", name, "--output", self.options.output, "--root", self.options.root,
                 "--step-limit", self.options.step_limit, "--host-mem", self.options.host_mem]
        words += ["--simulate"] * self.options.simulate + ["--short"] * self.options.short
        words += ["--model", self.options.model] if self.options.model else []
        status, reason, interruption = "", "", None
        with log.open("wb") as opened:
            worker = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=opened,
                                      stderr=subprocess.STDOUT)
            try:
                worker.wait(timeout=self.options.step_limit)
            except subprocess.TimeoutExpired:
                process.kill_tree(worker)
                status, reason = TIMED_OUT, f"killed after {self.options.step_limit:.0f} s; --resume goes on"
            except Interrupted as caught:
                process.kill_tree(worker)
                status, reason, interruption = INTERRUPTED, f"{caught}; --resume goes on", caught
        self.folder.clean()
        result = self.folder.step(name)
        if not status and result.get("status") in (None, RUNNING):
            status, reason = FAILED, f"the step ended without a result (exit code {worker.returncode})"
        if status:
            # A worker that died at once has not even written which device it ran on.
            about = {"simulated": self.summary["simulated"], "device": self.summary["device"], "cells": {}}
            self.folder.write_step(name, {**about, **result, "step": name, "status": status, "reason": reason})
        else:
            status, reason = result["status"], result.get("reason", "")
        seconds = time.monotonic() - begin
        self.record(name, status, reason, seconds)
        self.folder.pack_logs()
        print(f"{status} ({seconds:.0f} s){': ' + reason if reason else ''}", flush=True)
        if interruption is not None:
            raise interruption

    def conclude(self, chosen: list[str]) -> int:
        steps = self.summary["steps"]
        print(f"\n{'step':<12} {'status':<12} {'seconds':>7}  remark")
        for name in chosen:
            step = steps.get(name, {"status": "not run", "seconds": 0.0, "reason": ""})
            print(f"{name:<12} {step['status']:<12} {step['seconds']:>7.0f}  {step['reason'][:200]}")
        failed = [name for name in chosen if steps.get(name, {}).get("status") in (FAILED, TIMED_OUT, INTERRUPTED)]
        passed = [name for name in chosen if steps.get(name, {}).get("status") == PASSED]
        skipped = [name for name in chosen if steps.get(name, {}).get("status") == SKIPPED]
        label = "SIMULATED, " if self.summary["simulated"] else ""
        print(f"{label}{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped; {self.options.output}", flush=True)
        self.summary["failed"] = len(failed)
        self.summary["finished"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.folder.write_summary(self.summary)
        if failed:
            return min(len(failed), MOST_FAILED)
        return 0 if passed else NOTHING_EXIT


def main() -> int:
    options = parse(sys.argv[1:])
    if options.worker:
        return work(options)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, raise_interrupted)
    try:
        return Check(options).run()
    except FolderError as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return FOLDER_EXIT
    except Interrupted as caught:
        print(f"\ngpu_check: {caught}; --resume goes on", file=sys.stderr)
        return 128 + caught.number


if __name__ == "__main__":
    sys.exit(main())
