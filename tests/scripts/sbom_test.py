"""scripts/sbom names all that is compiled in and carried, in a document that fits its schema, or
says what it does not know."""

import importlib.machinery
import importlib.util
import json
import os
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "sbom"
BUILD = Path(os.environ.get("SUPERPIPE_BUILD_DIR", "build/dev")).resolve()


def load() -> object:
    loader = importlib.machinery.SourceFileLoader("sbom", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sbom", loader))
    sys.modules["sbom"] = module  # dataclasses look for their module there
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


sbom = load()
ZSTD = sbom.debian_component("libzstd", "1.5.4+dfsg2-5")
CUDART = sbom.Component("nvidia-cuda-runtime", "13.0.96", "pkg:pypi/nvidia-cuda-runtime@13.0.96")


class Document(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="sbom-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.wheel = self.folder / "superpipe-7.8.9-py3-none-any.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("superpipe/lib/superpipe/libsuperpipe.so", "ours")
            archive.writestr("superpipe/lib/superpipe/simgpu/libcudart.so.13", "ours")
            archive.writestr("superpipe/lib/superpipe/cuda/libcudart.so.13", "NVIDIA's")
        self.tarball = self.folder / "superpipe-7.8.9-linux-x86_64.tar.gz"
        with tarfile.open(self.tarball, "w:gz") as archive:
            archive.add(self.wheel, "superpipe/lib/libzstd.so.1")

    def document(self) -> dict:
        inside = {self.wheel: {ZSTD, CUDART}, self.tarball: {ZSTD}}
        return sbom.document("7.8.9", inside, 1700000000)

    def test_fits_its_schema(self) -> None:
        self.assertIsNone(sbom.objection(json.dumps(self.document())))

    def test_the_schema_rejects_what_does_not_fit(self) -> None:
        for part, value in (("components", [{"name": "no type"}]), ("more", 1)):
            with self.subTest(part):
                self.assertIsNotNone(sbom.objection(json.dumps({**self.document(), part: value})))

    def test_says_what_is_in_which_file(self) -> None:
        document = self.document()
        inside = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
        self.assertEqual(inside[f"file:{self.wheel.name}"], sorted([ZSTD.purl, CUDART.purl]))
        self.assertEqual(inside[f"file:{self.tarball.name}"], [ZSTD.purl])
        by_name = {component["name"]: component for component in document["components"]}
        expression = "BSD-3-Clause OR GPL-2.0-only"
        self.assertEqual(by_name["zstd"]["licenses"], [{"expression": expression}])
        self.assertEqual(by_name["zstd"]["version"], "1.5.4+dfsg2-5")
        purl = "pkg:deb/debian/libzstd@1.5.4%2Bdfsg2-5?arch=source"
        self.assertEqual(by_name["zstd"]["purl"], purl)
        digest = by_name[self.wheel.name]["hashes"][0]["content"]
        self.assertEqual(digest, sbom.sha256(self.wheel))

    def test_is_the_same_twice(self) -> None:
        self.assertEqual(json.dumps(self.document()), json.dumps(self.document()))
        first = self.document()["serialNumber"]
        self.wheel.write_bytes(b"another")
        self.assertNotEqual(self.document()["serialNumber"], first)

    def test_a_component_without_a_licence_is_an_error(self) -> None:
        with self.assertRaisesRegex(sbom.Unknown, "libnew 1.0-1 has no licence"):
            sbom.debian_component("libnew", "1.0-1").as_json()

    def test_finds_what_is_carried(self) -> None:
        names = sbom.names_in(self.wheel)
        made = {"libsuperpipe.so", "libcudart.so.13"}
        known = {"nvidia-cuda-runtime": CUDART}
        self.assertEqual(sbom.carried(names, made, known), {CUDART})
        others = [name for name in names if "/cuda/" not in name]
        self.assertEqual(sbom.carried(others, made, known), set())

    def test_a_library_from_nowhere_is_an_error(self) -> None:
        with self.assertRaisesRegex(sbom.Unknown, "lib/libzstd.so.1 is carried"):
            sbom.carried(sbom.names_in(self.tarball), {"libsuperpipe.so"}, {})


class CompiledBySetup(unittest.TestCase):
    def test_headers_and_archives_have_the_same_component(self) -> None:
        try:
            header = sbom.compiled_by_setup(Path("include/benchmark/benchmark.h"))
        except sbom.Unknown as why:
            self.skipTest(f"{why}: this is not Debian")
        self.assertEqual(header.key, "benchmark")
        self.assertEqual(sbom.compiled_by_setup(Path("lib/libbenchmark.a")), header)

    def test_what_is_not_known_is_an_error(self) -> None:
        for name in ("include/new/new.h", "lib/libnew.a", "made"):
            with self.subTest(name), self.assertRaises(sbom.Unknown):
                sbom.compiled_by_setup(Path(name))


class OfABuild(unittest.TestCase):
    def test_the_toolkit_is_found_when_nvcc_is_a_script_elsewhere(self) -> None:
        with tempfile.TemporaryDirectory(prefix="sbom-") as folder:
            toolkit = Path(folder, "toolkit")
            build = Path(folder, "build")
            for made in (toolkit / "bin", build):
                made.mkdir(parents=True)
            (build / "CMakeCache.txt").write_text(
                f"CUDAToolkit_BIN_DIR:PATH={toolkit}/bin\n"
                f"CUDAToolkit_NVCC_EXECUTABLE:FILEPATH={folder}/bin/nvcc\n"
            )
            self.assertEqual(sbom.Build(build, []).toolkit.folder, toolkit.resolve())

    def test_names_what_is_compiled_in(self) -> None:
        build = sbom.Build(BUILD, ["superpipe_parts"])
        found = build.components()
        names = {component.name for component in found}
        expected = {"zstd", "xxhash", "nlohmann-json", "CLI11", "protozero", "uplot"}
        self.assertLessEqual(expected | {"nvidia-cuda-runtime"}, names)
        # Of tests, and of the machine itself.
        self.assertFalse(names & {"googletest", "rapidcheck", "glibc"})
        for component in found:
            self.assertTrue(component.version and component.licence_entry()[1], component)


if __name__ == "__main__":
    unittest.main()
