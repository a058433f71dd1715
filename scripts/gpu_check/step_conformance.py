"""Step conformance: what superpipe relies on, asked of the driver under test and of simgpu, and where the two differ."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import process
from check import Context

SUITE_LIMIT_S = 120
TEST_LIMIT_S = 60
PATIENT_KERNEL_MS = 2000  # for tests that failed: a busy machine may take longer for a call than a kernel to be overtaken
UNITS = ("_ns", "_us", "_ms", "_s", "_gbps")  # a property that ends so is a measurement, and no behaviour


def listed_tests(context: Context) -> dict[str, list[str]]:
    """The names of the suites, and of the tests in each."""
    finished = process.run([context.layout.program("conformance"), "--gtest_list_tests"], context.environment(), 30)
    suites: dict[str, list[str]] = {}
    suite = ""
    for line in finished.stdout.splitlines():
        word = line.split("#")[0].rstrip()
        if word.startswith("  ") and suite:
            suites[suite].append(word.strip())
        elif word.endswith("."):
            suite = word[:-1].strip()
            suites[suite] = []
    return suites


def parse_report(file: Path) -> dict[str, dict]:
    """Result, skip reason, failure and recorded properties of each test in GoogleTest's XML report."""
    found: dict[str, dict] = {}
    try:
        tree = ElementTree.parse(file)
    except (OSError, ElementTree.ParseError):
        return found
    for case in tree.iter("testcase"):
        skipped, failure = case.find("skipped"), case.find("failure")
        properties = {item.get("name"): item.get("value") for item in case.iter("property")}
        result, why = "passed", ""
        if failure is not None:
            result, why = "failed", failure.get("message") or failure.text or ""
        elif skipped is not None or case.get("result") == "skipped":
            result = "skipped"
            why = ((skipped.get("message") or skipped.text or "") if skipped is not None else "")
        elif case.get("status") == "notrun":
            continue
        found[f"{case.get('classname')}.{case.get('name')}"] = {
            "result": result, "why": " ".join(why.split())[:400], "properties": properties}
    return found


def ask(context: Context, driver: str, names: list[str], limit: float,
        *words: str) -> tuple[process.Finished, dict[str, dict]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        environment = context.environment(SIMGPU_KERNELS=context.layout.program("conformance.simgpu.so"))
        finished = context.execute([context.layout.program("conformance"), *([f"--driver={driver}"] if driver else []),
                                    f"--gtest_filter={':'.join(names)}", f"--gtest_output=xml:{report}", *words], environment, limit)
        return finished, parse_report(report)


def measure_suite(context: Context, driver: str, suite: str, tests: list[str]) -> dict:
    """All tests of a suite in one process; where that crashes or hangs, each in a process of its own."""
    names = [f"{suite}.{test}" for test in tests]
    finished, found = ask(context, driver, names, SUITE_LIMIT_S)
    if any(name not in found for name in names):
        print(f"{suite}: one by one, because together: {finished.problem}\n{finished.stdout[-2000:]}", flush=True)
        found = {}
        for name in names:
            finished, one = ask(context, driver, [name], TEST_LIMIT_S)
            result = "hung" if finished.timed_out else "crashed"
            found[name] = one.get(name) or {"result": result, "why": finished.problem, "properties": {}}
    elif finished.problem:
        print(finished.stdout[-4000:], flush=True)
    failed = [name for name in names if found[name]["result"] == "failed"]
    if failed:
        print(f"{suite}: once more with longer kernels: {', '.join(failed)}", flush=True)
        _, again = ask(context, driver, failed, SUITE_LIMIT_S, f"--kernel-ms={PATIENT_KERNEL_MS}")
        found.update(again)
    return {"tests": found}


def results_of(context: Context, who: str) -> dict[str, dict]:
    tests: dict[str, dict] = {}
    for name, cell in context.value["cells"].items():
        if name.startswith(f"{who}/"):
            tests.update(cell["tests"])
    return tests


def differences(tested: dict[str, dict], simgpu: dict[str, dict]) -> list[dict]:
    """Where the driver under test answers otherwise than simgpu: by test, and by recorded property."""
    found = []
    for name in sorted(tested.keys() | simgpu.keys()):
        ours, theirs = tested.get(name, {}), simgpu.get(name, {})
        if ours.get("result") != theirs.get("result"):
            found.append({"test": name, "what": "result", "driver": ours.get("result", "missing"),
                          "simgpu": theirs.get("result", "missing"), "why": ours.get("why") or theirs.get("why", "")})
        a, b = ours.get("properties", {}), theirs.get("properties", {})
        found += [{"test": name, "what": f"{'figure' if key.endswith(UNITS) else 'property'} {key}", "driver": a.get(key, "not recorded"),
                   "simgpu": b.get(key, "not recorded"), "why": ""}
                  for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
    return found


def run(context: Context) -> None:
    under_test = str(context.layout.simgpu_driver) if context.options.simulate else context.driver.path
    suites = listed_tests(context)
    if not suites:
        context.cell("list", lambda: {"problem": "the conformance suite names no tests"})
    for who, driver in (("driver", under_test), ("simgpu", str(context.layout.simgpu_driver))):
        for suite, tests in suites.items():
            if who == "simgpu" and context.options.simulate:
                continue  # one and the same driver
            context.cell(f"{who}/{suite}", lambda: measure_suite(context, driver, suite, tests))
    tested = results_of(context, "driver")
    simgpu = tested if context.options.simulate else results_of(context, "simgpu")
    found = differences(tested, simgpu)
    counts = {result: sum(test["result"] == result for test in tested.values())
              for result in ("passed", "skipped", "failed", "crashed", "hung")}
    skipped = {name: test["why"] for name, test in tested.items() if test["result"] == "skipped"}
    context.note(counts=counts, differences=found, skipped=skipped)
    for each in found:
        print(f"differs: {each}", flush=True)
    for name, test in tested.items():
        if test["result"] in ("failed", "crashed", "hung"):
            context.cell(f"verdict/{name}", lambda: {"problem": f"{test['result']}: {test['why']}"})
    context.finish(", ".join(f"{count} {result}" for result, count in counts.items() if count) +
                   f"; {sum(not each['what'].startswith('figure ') for each in found)} differences from simgpu")
