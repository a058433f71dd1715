"""The generator of the hook layer: committed code is current, and nothing goes unclassified."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
GENERATOR = SOURCE / "interposer" / "generate.py"
INCLUDE = Path(os.environ.get("SUPERPIPE_CUDA_INCLUDE", "/usr/local/cuda/include"))


def generate(*arguments):
    return subprocess.run([sys.executable, "-B", str(GENERATOR), *map(str, arguments)],
                          capture_output=True, text=True, check=False)


class GeneratorTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = Path(self.folder.name) / "generated"

    def seeded(self, change):
        """hooks.json with `change` applied to its functions."""
        hooks = json.loads((SOURCE / "interposer" / "hooks.json").read_text())
        change(hooks["functions"])
        path = Path(self.folder.name) / "hooks.json"
        path.write_text(json.dumps(hooks))
        return path

    def test_committed_code_is_what_the_generator_writes(self):
        result = generate("--include", INCLUDE, "--check")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_check_fails_on_code_that_is_not_current(self):
        self.output.mkdir()
        (self.output / "hooks.h").write_text("// old\n")
        result = generate("--include", INCLUDE, "--check", "--output", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("generated/hooks.h is not what generate.py writes", result.stderr)

    def test_check_fails_on_a_hook_that_is_not_in_the_file_that_its_entry_names(self):
        def change(functions):
            functions["cuArrayCreate_v2"]["subject"] = "memory"
        result = generate("--include", INCLUDE, "--hooks", self.seeded(change), "--check")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr,
                         "cuArrayCreate_v2: hooks.json says it is defined in memory_hooks.cc, "
                         "it is defined in array_hooks.cc\n")

    def test_check_fails_on_a_hook_that_is_not_defined_and_on_one_that_no_entry_names(self):
        sources = Path(self.folder.name) / "hooks"
        sources.mkdir()
        for source in (SOURCE / "interposer" / "hooks").glob("*.cc"):
            text = source.read_text()
            if source.name == "array_hooks.cc":
                text = text.replace("hook::cuArrayCreate_v2(", "hook::cuArrayGetPlane(")
            (sources / source.name).write_text(text)
        result = generate("--include", INCLUDE, "--sources", sources, "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuArrayCreate_v2: hooks.json says it is defined in array_hooks.cc, "
                      "it is defined in no file", result.stderr)
        self.assertIn("cuArrayGetPlane: hooks.json says it is defined in no file, "
                      "it is defined in array_hooks.cc", result.stderr)

    def test_fails_on_a_function_that_a_new_header_declares(self):
        include = Path(self.folder.name) / "include"
        include.mkdir()
        for header in INCLUDE.glob("*"):
            if header.is_file() and header.name.startswith(("cuda", "vector_", "surface_", "tex")):
                (include / header.name).symlink_to(header)
        (include / "cuda.h").unlink()
        text = (INCLUDE / "cuda.h").read_text()
        anchor = "CUresult CUDAAPI cuInit(unsigned int Flags);"
        self.assertIn(anchor, text)
        (include / "cuda.h").write_text(
            text.replace(anchor, anchor + "\nCUresult CUDAAPI cuMemTeleport(CUdeviceptr dptr);"))
        result = generate("--include", include, "--output", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuMemTeleport: not classified", result.stderr)
        self.assertFalse(self.output.exists())

    def test_fails_on_a_function_that_no_header_declares(self):
        hooks = self.seeded(lambda functions: functions.update(cuMakeCoffee="pass"))
        result = generate("--include", INCLUDE, "--hooks", hooks, "--output", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuMakeCoffee: classified, but the headers do not declare it", result.stderr)

    def test_fails_on_an_unknown_class_and_on_words_that_are_no_parameter(self):
        def change(functions):
            functions["cuInit"] = "ignore"
            functions["cuIpcGetMemHandle"] = {"class": "pin", "words": ["pointer"]}
        result = generate("--include", INCLUDE, "--hooks", self.seeded(change),
                          "--output", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuInit: unknown class 'ignore'", result.stderr)
        self.assertIn("cuIpcGetMemHandle: 'words' names 'pointer', which is no parameter",
                      result.stderr)

    def test_generated_files_say_so_in_their_first_line(self):
        for path in (SOURCE / "interposer" / "generated").iterdir():
            with self.subTest(path.name):
                self.assertIn("Generated by interposer/generate.py",
                              path.read_text().splitlines()[0])

    def test_functions_that_change_passthrough_memory_say_so_and_how(self):
        hooks = self.seeded(lambda functions: functions.update(
            cuMulticastCreate={"class": "change", "change": "growth"}))
        result = generate("--include", INCLUDE, "--hooks", hooks, "--output", self.output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("return change_passthrough(PassthroughChange::kGrowth, "
                      "[&] { return driver().cuMulticastCreate(",
                      (self.output / "simple_hooks.cc").read_text())

    def test_functions_behind_which_a_stream_may_wait_for_the_program_say_so(self):
        hooks = self.seeded(lambda functions: functions.update(cuMulticastCreate={"class": "gate"}))
        result = generate("--include", INCLUDE, "--hooks", hooks, "--output", self.output)
        self.assertEqual(result.returncode, 0, result.stderr)
        generated = (self.output / "simple_hooks.cc").read_text()
        for call in ("return driver().cuMulticastCreate(", "return driver().cuLaunchHostFunc(", "NamedWords named;\n  named.add(addr);"):
            self.assertIn("  Gates::note();\n  " + call, generated)

    def test_a_change_without_its_kind_is_an_error(self):
        hooks = self.seeded(lambda functions: functions.update(cuMulticastCreate={"class": "change"}))
        result = generate("--include", INCLUDE, "--hooks", hooks, "--output", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cuMulticastCreate: class change needs 'change'", result.stderr)

    def test_refused_functions_answer_not_supported(self):
        hooks = self.seeded(lambda functions: functions.update(cuMulticastCreate="refuse"))
        result = generate("--include", INCLUDE, "--hooks", hooks, "--output", self.output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('return refused("cuMulticastCreate")',
                      (self.output / "simple_hooks.cc").read_text())


if __name__ == "__main__":
    unittest.main()
