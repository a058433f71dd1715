#!/usr/bin/env python3
"""Builds and runs superpipe's tests.

  scripts/test                  the tests of everyday work
  scripts/test --all            also the long ones, simgpu's own, those of benchmarks and examples
  scripts/test NAME...          the tests of these names, and builds only what they need
  scripts/test --label policy   the tests of one part; --except is the opposite
  scripts/test --beside-load    beside three busy processes and another superpipe program
  scripts/test --frameworks     PyTorch's tests, in an environment of their own (6 GB in build/);
                                --help after it says more

NAME is an entry of ctest (end_to_end.top), a GoogleTest or its suite (HostStore.Reserves,
HostStore), or a class or method of a Python test (Once, test_bad_usage). What a failed test said
stands at the end. Exit code 0 if all passed, 1 if not, 2 on bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUSY = 3  # processes that compute beside the tests with --beside-load
GOOGLE_TEST = re.compile(
    r"^(?:TYPED_)?(?:RC_G)?TEST(?:_F|_P|_PROP|_FIXTURE_PROP)?\(\s*(\w+),\s*(\w+)", re.MULTILINE
)
# What GoogleTest and unittest say at their end.
SOME_RAN = re.compile(r"\[=+\] [1-9]\d* tests? from .* ran|Ran [1-9]\d* tests? in")
# What they say of tests that did not run, and of those that passed.
SKIPPED = re.compile(
    r"^\[  SKIPPED \] (\S+?)(?: \(\d+ ms\))?$|^(.*?)(?: \(.*\))? \.\.\. skipped (.*)$", re.MULTILINE
)
PASSED = re.compile(
    r"^\[ RUN      \] (\S+)\n(?:(?!\[ RUN ).*\n)*?\[       OK \] \1 .*\n", re.MULTILINE
)
PYTHON_TEST = re.compile(r"^class (\w+)|^    def (test_\w+)", re.MULTILINE)


class Failure(Exception):
    """What the user has to mend, and the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Entry:
    """An entry of ctest."""

    name: str
    needs: list[str]  # targets
    sources: list[Path]
    command: list[str]
    environment: dict[str, str]
    labels: list[str]

    @property
    def is_python(self) -> bool:
        return any(source.suffix == ".py" for source in self.sources)

    def has(self, label: str) -> bool:
        """Whether one of its labels matches the regular expression."""
        return any(re.search(label, own) for own in self.labels)

    def tests(self) -> set[str]:
        """The names of its tests, alone and with their suite or class, and of these."""
        names: set[str] = set()
        for source in self.sources:
            if not source.is_file():
                continue
            text, holder = source.read_text(), ""
            for first, second in (PYTHON_TEST if source.suffix == ".py" else GOOGLE_TEST).findall(
                text
            ):
                if source.suffix != ".py":
                    names |= {first, second, f"{first}.{second}"}
                elif first:
                    holder = first
                    names.add(first)
                else:
                    names |= {second, f"{holder}.{second}"}
        return names


def entries_of(build: Path) -> list[Entry]:
    """All entries of a configured build tree, built or not."""
    declared = json.loads((build / "tests.json").read_text())
    shown = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        capture_output=True,
        text=True,
        check=True,
    )
    entries = []
    for test in json.loads(shown.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test["properties"]}
        environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        facts = declared[test["name"]]
        entries.append(
            Entry(
                test["name"],
                facts["needs"],
                [Path(source) for source in facts["sources"]],
                test["command"],
                environment,
                properties.get("LABELS", []),
            )
        )
    return entries


def build_targets(build: Path, targets: list[str]) -> None:
    """Builds them. @raises Failure if that fails; the compiler has said why."""
    if (
        targets
        and subprocess.run(["cmake", "--build", build, "--target", *targets]).returncode != 0
    ):
        raise Failure("the build failed")


@dataclass(frozen=True)
class Run:
    """A part of an entry, or all of it."""

    entry: Entry
    arguments: list[str]
    environment: dict[str, str]

    def passes(self) -> bool:
        """Runs it, and shows what it says. @return whether tests ran, and passed."""
        print(f"== {self.entry.name} {' '.join(self.arguments)}", flush=True)
        command, environment = self.entry.command + self.arguments, {
            **os.environ,
            **self.environment,
        }
        has_run = not self.arguments
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as test:
            assert test.stdout is not None
            for line in test.stdout:
                print(line, end="", flush=True)
                has_run = has_run or bool(SOME_RAN.match(line))
        if not has_run:
            print("no test of this name ran")
        return test.returncode == 0 and has_run


def runs_of(name: str, entries: list[Entry]) -> list[Run]:
    """The entries, or parts of entries, of this name. @raises Failure if there are none."""
    whole = [entry for entry in entries if name in (entry.name, re.sub(r"\.\d+$", "", entry.name))]
    if whole:
        return [Run(entry, [], entry.environment) for entry in whole]
    runs: dict[tuple[str, ...], Run] = {}
    for entry in entries:
        if name not in entry.tests():
            continue
        chosen = ["-k", name] if entry.is_python else [f"--gtest_filter=*{name}*"]
        # Of the entries that divide a program's tests among them, one can run any test.
        environment = {
            key: value for key, value in entry.environment.items() if not key.startswith("GTEST_")
        }
        program = [word for word in entry.command if not word.startswith("--gtest_filter=")]
        runs[tuple(program)] = Run(entry, chosen, environment)
    if not runs:
        known = {known for entry in entries for known in entry.tests() | {entry.name}}
        close = difflib.get_close_matches(name, known, 3, 0.7)
        raise Failure(
            f"there is no test '{name}'"
            + (f"; did you mean {' or '.join(close)}?" if close else ""),
            2,
        )
    return list(runs.values())


def run_named(build: Path, entries: list[Entry], names: list[str]) -> bool:
    """Builds and runs the tests of these names. @return whether all passed."""
    runs = [run for name in names for run in runs_of(name, entries)]
    build_targets(build, sorted({target for run in runs for target in run.entry.needs}))
    failed = [run.entry.name for run in runs if not run.passes()]
    if failed:
        print(f"failed: {' '.join(failed)}")
    print(f"{len(runs) - len(failed)} passed, {len(failed)} failed")
    return not failed


@contextlib.contextmanager
def load(build: Path):
    """Until the end of the block, processes compute, and a program runs under superpipe."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("SUPERPIPE_")
    }
    # There is never such a file: it runs until it is ended.
    model = ["--layers", "4", "--layer-mib", "1", "--until", build / "no-such-file"]
    program = [build / "bin" / "superpipe-layers", *model]
    command = [build / "bin" / "superpipe", "run", "--simulate", "--k", "2", "--", *program]
    # A signal that ends this process by the way of an exception ends the others as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    others: list[subprocess.Popen] = []
    try:
        for _ in range(BUSY):
            others.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        others.append(subprocess.Popen(command, env=inherited, **quiet))
        yield
        if others[-1].poll() is not None:
            raise Failure(f"the program beside the tests ended early, with {others[-1].returncode}")
    finally:
        for other in others:
            other.kill()
            other.wait()


def run_all(build: Path, options: argparse.Namespace) -> bool:
    """Runs the chosen entries by ctest, then shows what failed. @return whether all passed."""
    words = ["--no-tests=error", "--parallel", str(options.jobs)]
    for label in options.label:
        words += ["--label-regex", label]
    if options.excluded:
        words += ["--label-exclude", "|".join(options.excluded)]
    with tempfile.TemporaryDirectory(prefix="superpipe-tests-") as folder:
        results = Path(folder) / "results.xml"
        status = subprocess.run(
            ["ctest", "--test-dir", build, *words, "--output-junit", results]
        ).returncode
        if not results.is_file():
            return False  # ctest has said why
        cases = xml.etree.ElementTree.parse(results).getroot().findall("testcase")
    failed = [case for case in cases if case.find("failure") is not None]
    unexpected = []
    for case in cases:
        for test, name, reason in SKIPPED.findall(case.findtext("system-out") or ""):
            said = f"{case.get('name')}: {test or name} {reason}".rstrip()
            print(f"skipped in {said}")
            if options.may_skip is not None and not re.search(options.may_skip, said):
                unexpected.append(said)
    for case in failed:
        said = PASSED.sub("", (case.findtext("system-out") or "") + "\n")
        print(f"\n== {case.get('name')} failed\n{said.strip()}")
    if failed:
        names = [str(case.get("name")) for case in failed]
        print(f"\nfailed: {' '.join(names)}\nagain: scripts/test {names[0]}")
    if unexpected:
        print("\nskipped, and shall run here:", *unexpected, sep="\n  ")
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - len(failed) - skipped
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    return status == 0 and not failed and not unexpected


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="tests to run; default: all of everyday work"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the long tests, and those of simgpu, benchmarks and examples",
    )
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="PART",
        help="only the tests of this part, by regular expression",
    )
    parser.add_argument(
        "--except",
        action="append",
        default=[],
        metavar="PART",
        dest="excluded",
        help="no tests of this part, by regular expression",
    )
    parser.add_argument(
        "--beside-load",
        action="store_true",
        help="beside busy processes, and another superpipe program",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build" / "dev",
        metavar="FOLDER",
        help="a configured build tree; default build/dev",
    )
    parser.add_argument(
        "--may-skip",
        metavar="PATTERN",
        help="fails where a test skips itself whose entry, name and reason do not match",
    )
    # Many tests mostly wait, for times that simgpu models: more of them keep processors busy.
    parser.add_argument(
        "--jobs",
        type=int,
        default=(os.cpu_count() or 1) * 3 // 2 or 1,
        metavar="N",
        help="tests at once; default: one and a half per processor",
    )
    options = parser.parse_args()
    if not options.all:
        options.excluded.append("^extended$")
    if options.names and (
        options.all or options.label or len(options.excluded) > 1 or options.may_skip is not None
    ):
        parser.error("give names, or --all, --label, --except and --may-skip, not both")
    build = options.build
    entries = entries_of(build)
    if not options.names:
        wanted = [
            entry
            for entry in entries
            if all(entry.has(label) for label in options.label)
            and not any(entry.has(label) for label in options.excluded)
        ]
        targets = {target for entry in wanted for target in entry.needs}
        build_targets(
            build, sorted(targets | ({"all"} if options.all and not options.label else set()))
        )
    if options.beside_load:
        build_targets(build, ["superpipe_parts"])
    with load(build) if options.beside_load else contextlib.nullcontext():
        passed = (
            run_named(build, entries, options.names) if options.names else run_all(build, options)
        )
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"test: {failure}", file=sys.stderr)
        sys.exit(failure.code)
