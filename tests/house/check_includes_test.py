"""scripts/check_includes.py accepts the tree, and rejects each kind of violation put into a copy of a good one."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SUPERPIPE_SOURCE_DIR", Path(__file__).resolve().parents[2]))
CHECK = SOURCE / "scripts" / "check_includes.py"

GOOD = {
    "policy/budget.h": "#include <chrono>\n#include <optional>\n#include \"policy/units.h\"\n",
    "residency/pieces/arena.cc": "#include <mutex>\n#include \"policy/units.h\"\n#include \"residency/pieces/arena.h\"\n",
    "interposer/hooks.cc": "#include <cuda.h>\n#include \"residency/pieces/arena.h\"\n",
    "interposer/kernel_plugin.cc": "#include \"residency/content_digest.h\"\n#include \"tools/simgpu/kernel_plugin.h\"\n",
    "settings/settings.h": "#include \"policy/budget.h\"\n",
    "profiler/timeline.cc": "#include \"policy/units.h\"\n",
    "tools/superpipe/main.cc": "#include \"policy/budget.h\"\n",
    "tools/simgpu/driver/device/device.cc": "#include <cuda.h>\n#include \"tools/simgpu/driver/device/device.h\"\n",
    "examples/minilm/model.cu": "#include <cuda_runtime.h>\n#include \"tools/simgpu/kernel_plugin.h\"\n",
}

# The file that breaks a rule, the line that breaks it, what must be said.
SEEDED = [
    ("policy/eviction.cc", '#include "residency/pieces/arena.h"', "policy/ may not include residency/"),
    ("policy/eviction.cc", '#include "profiler/trace.h"', "policy/ may not include profiler/"),
    ("policy/eviction.cc", "#include <cuda.h>", "NVIDIA's headers are not for policy/"),
    ("policy/eviction.cc", "#include <sys/mman.h>", "standard library only"),
    ("policy/eviction.cc", "#include <boost/container/small_vector.hpp>", "standard library only"),
    ("policy/eviction.cc", "auto now = std::chrono::steady_clock::now();", "policy/ is pure"),
    ("policy/eviction.cc", "#  include <thread>", "policy/ is pure"),
    ("policy/eviction.cc", '#include "settings/settings.h"', "policy/ may not include settings/"),
    ("settings/settings.cc", '#include "profiler/trace.h"', "settings/ may not include profiler/"),
    ("settings/settings.cc", "#include <fstream>", "settings/ is pure"),
    ("residency/residency_manager.cc", '#include "settings/settings.h"', "residency/ may not include settings/"),
    ("profiler/trace.cc", '#include "residency/pieces/arena.h"', "profiler/ may not include residency/"),
    ("profiler/trace.cc", "#include <cupti.h>", "NVIDIA's headers"),
    ("profiler/cupti_activity.cc", "#include <cupti.h>", "NVIDIA's headers are not for profiler/"),
    ("residency/pieces/arena.h", '#include "interposer/runtime.h"', "residency/pieces/ may not include interposer/"),
    ("residency/pieces/arena.h", '#include "residency/room/turn.h"',
     "residency/pieces/ may not include residency/room/"),
    ("residency/pieces/arena.h", '#include "residency/residency_core.h"',
     "residency/pieces/ may not include residency/"),
    ("residency/pieces/arena.h", '#include "residency/residency_manager.h"',
     "residency/pieces/ may not include residency/"),
    ("residency/pieces/arena.h", "#include <cuda_runtime_api.h>", "NVIDIA's headers"),
    ("residency/pieces/arena.h", "#include <cudaTypedefs.h>", "NVIDIA's headers"),
    ("residency/pieces/arena.h", '#include "buffer_table.h"', "include from the project root"),
    ("interposer/hooks.cc", '#include "tools/superpipe/run_options.h"', "interposer/ may not include tools/"),
    ("interposer/hooks.cc", '#include "tools/simgpu/kernel_plugin.h"', "interposer/ may not include tools/"),
    ("interposer/kernel_plugin.cc", '#include "interposer/log.h"', "interposer/ may not include interposer/"),
    ("interposer/kernel_plugin.cc", '#include "residency/pieces/arena.h"', "interposer/ may not include residency/"),
    ("tools/superpipe/main.cc", '#include "interposer/configuration.h"', "tools/ may not include interposer/"),
    ("tools/superpipe/main.cc", '#include "tools/simgpu/driver/device/device.h"', "tools/ may not include tools/"),
    ("tools/superpipe/main.cc", "#include <cuda.h>", "NVIDIA's headers"),
    ("tools/superpipe/probes/session.cc", '#include "tools/simgpu/driver/device/device.h"', "tools/ may not include tools/"),
    ("tools/superpipe/probes/session.cc", '#include "interposer/lookup.h"', "tools/ may not include interposer/"),
    ("tools/superpipe/probes/kernel_plugin.cc", '#include "tools/superpipe/host_description.h"', "may not include tools/"),
    ("tools/simgpu/driver/device/device.cc", '#include "policy/units.h"', "tools/ may not include policy/"),
    ("examples/layers/main.cu", '#include "policy/units.h"', "examples/ may not include policy/"),
]


def check(root: Path) -> tuple[int, str]:
    finished = subprocess.run([sys.executable, "-B", CHECK, "--root", root], capture_output=True, text=True)
    return finished.returncode, finished.stdout + finished.stderr


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class CheckIncludes(unittest.TestCase):
    def test_accepts_the_project(self) -> None:
        code, output = check(SOURCE)
        self.assertEqual(code, 0, output)

    def test_accepts_a_good_tree(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), GOOD)
            code, output = check(Path(folder))
            self.assertEqual(code, 0, output)
            self.assertIn(f"{len(GOOD)} files, 0 violations", output)

    def test_rejects_each_seeded_violation(self) -> None:
        for file, line, says in SEEDED:
            with self.subTest(file=file, line=line), tempfile.TemporaryDirectory() as folder:
                write(Path(folder), {**GOOD, file: f"#include <vector>\n{line}\n"})
                code, output = check(Path(folder))
                self.assertEqual(code, 1, output)
                self.assertIn(f"{file}:2: ", output)
                self.assertIn(says, output)
                self.assertIn(" 1 violations", output)

    def test_rejects_an_empty_tree(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(check(Path(folder))[0], 1)


if __name__ == "__main__":
    unittest.main()
