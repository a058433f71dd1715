"""`superpipe report` of what `superpipe profile` recorded on simgpu: its figures are those of the run, and a browser shows them.

The browser is Debian's headless Chromium, driven by playwright; scripts/setup --developer installs both.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from simulated_run import BUILD, LIMIT, MIB, SUPERPIPE, EndToEndCase, Outcome, layers, run

try:
    from playwright.sync_api import Page, sync_playwright
except ImportError:
    sync_playwright = None

LAYER_COUNT, PASSES, LAYER_MIB = 8, 6, 2
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
WIDTHS, THEMES = (1280, 400), ("light", "dark")
# The page of a million events has few of them: what it draws from is this large at most, however
# many there were.
MOST_BYTES = 1 << 20


def data_of(page: Path) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(text)


class ReportCase(EndToEndCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="superpipe-report-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.trace, cls.outcome = cls.record("run.sptrace", "--gpu-mem", "12M")

    @classmethod
    def record(cls, name: str, *flags: str) -> tuple[Path, Outcome]:
        trace = cls.folder / name
        outcome = run(layers(LAYER_COUNT, LAYER_MIB, passes=PASSES), "--trace", str(trace), *flags)
        return trace, outcome

    @classmethod
    def make_page(cls, *traces: Path, name: str = "report.html") -> Path:
        page = cls.folder / name
        finished = subprocess.run([SUPERPIPE, "report", *traces, "-o", page], capture_output=True,
                                  text=True, timeout=LIMIT)
        if (finished.returncode, finished.stderr) != (0, ""):
            raise AssertionError(finished.stderr)
        return page


class Figures(ReportCase):
    def test_agree_with_the_statistics(self) -> None:
        self.assert_succeeded(self.outcome)
        stats = self.outcome.stats
        (trace,) = data_of(self.make_page(self.trace))["traces"]
        counts = trace["counts"]
        self.assertEqual((counts["fetches"], counts["demand_fetches"]), (stats["fetches"], stats["demand_fetches"]))
        self.assertEqual((counts["evictions"], counts["write_backs"]), (stats["evictions"], stats["write_backs"]))
        self.assertEqual((trace["link"]["to_device_bytes"], trace["link"]["to_host_bytes"]), (stats["h2d_bytes"], stats["d2h_bytes"]))
        self.assertGreater(stats["h2d_bytes"], LAYER_COUNT * LAYER_MIB * MIB)
        self.assertLessEqual(abs(trace["stalls"]["all_ns"] / 1e6 - stats["stall_ms"]), 0.01 * stats["stall_ms"] + 0.01)
        # Memory is told when it changes much, and at least now and then.
        self.assertLessEqual(trace["memory"]["device_peak_bytes"], stats["peak_device_bytes"])
        self.assertGreaterEqual(trace["memory"]["device_peak_bytes"], 0.7 * stats["peak_device_bytes"])

    def test_layers_are_those_of_the_program(self) -> None:
        (trace,) = data_of(self.make_page(self.trace))["traces"]
        self.assertEqual([group["name"] for group in trace["groups"] if group["is_layer"]], [f"layer {i}" for i in range(1, LAYER_COUNT + 1)])
        self.assertEqual({group["most_bytes"] for group in trace["groups"]}, {LAYER_MIB * MIB})
        # What was on the device at the same time fits the budget.
        columns = zip(*(group["residency"] for group in trace["groups"]), strict=True)
        most = max(sum(column) for column in columns) / 100 * LAYER_MIB * MIB
        self.assertLessEqual(most, max(trace["memory"]["budget"]) + LAYER_MIB * MIB)
        self.assertGreater(most, 2 * LAYER_MIB * MIB)

    def test_nothing_is_said_of_what_did_not_happen(self) -> None:
        resident, outcome = self.record("resident.sptrace", "--policy", "resident")
        self.assert_succeeded(outcome)
        (trace,) = data_of(self.make_page(resident, name="resident.html"))["traces"]
        self.assertEqual((trace["link"]["to_device_bytes"], trace["stalls"]["all_ns"], max(trace["memory"]["budget"])), (0, 0, 0))


@unittest.skipIf((CHROMIUM is None or sync_playwright is None) and not os.environ.get("CI"),
                 "there is no headless Chromium with playwright; scripts/setup --developer installs both")
class InTheBrowser(ReportCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.page_file = cls.make_page(cls.trace)
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # which Chromium demands of root
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        cls.addClassCleanup(cls.browser.close)

    def open(self, file: Path, width: int = 1280, theme: str = "light") -> "Page":
        """The page, drawn: nothing was loaded besides, and nothing complained of."""
        page = self.browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.addCleanup(page.close)
        self.said: list[str] = []
        self.loaded: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.loaded.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=LIMIT * 1000, state="attached")
        self.assertEqual((self.said, self.loaded), ([], [file.as_uri()]))
        return page

    def test_is_drawn_at_every_width_in_both_themes(self) -> None:
        for width in WIDTHS:
            for theme in THEMES:
                with self.subTest(width=width, theme=theme):
                    page = self.open(self.page_file, width, theme)
                    self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), theme)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    # Device, host, residency, link, stalls, passes, plan; the machine decides whether launches waited.
                    self.assertGreaterEqual(page.locator(".chart canvas").count(), 6)
                    for box in page.locator(".chart canvas").all():
                        size = box.bounding_box()
                        self.assertLessEqual(size["x"] + size["width"], width)
                        self.assertGreater(size["width"], 0.7 * width)
                    self.assertIn("superpipe-layers", page.locator("h1").inner_text())

    def test_charts_have_ink(self) -> None:
        """A chart that failed to draw is one colour."""
        page = self.open(self.page_file)
        colours = page.evaluate("""[...document.querySelectorAll('.chart canvas')].map((canvas) => {
            const bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Set();
            for (let i = 0; i < bytes.length; i += 4) seen.add((bytes[i] << 16) | (bytes[i + 1] << 8) | bytes[i + 2]);
            return seen.size; })""")
        self.assertGreaterEqual(min(colours), 5, colours)

    def test_theme_is_switched(self) -> None:
        page = self.open(self.page_file)
        background = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(background)
        page.click("#theme")
        self.assertNotEqual(page.evaluate(background), before)
        page.click("#theme")
        self.assertEqual(page.evaluate(background), before)
        self.assertEqual(self.said, [])

    def test_search_filters_the_tables(self) -> None:
        page = self.open(self.page_file)
        rows = page.locator("#layers tbody tr:visible")
        self.assertEqual(rows.count(), LAYER_COUNT)
        page.keyboard.press("/")
        page.keyboard.type("layer 3")
        self.assertEqual(rows.count(), 1)
        self.assertRegex(page.locator("#found").inner_text(), r"^\d+ of \d+ rows: Enter goes to the first$")
        page.fill("#search", "no such thing")
        self.assertEqual(rows.count(), 0)
        self.assertTrue(page.locator("#layers .empty").is_visible())
        page.fill("#search", "")
        self.assertEqual(rows.count(), LAYER_COUNT)

    def test_enter_goes_from_hit_to_hit(self) -> None:
        page = self.open(self.page_file)
        page.keyboard.press("/")
        page.keyboard.type("layer")
        page.keyboard.press("Enter")
        hit = page.locator("tr.hit")
        self.assertEqual(hit.count(), 1)
        first = hit.inner_text()
        self.assertRegex(page.locator("#found").inner_text(), r"^row 1 of \d+$")
        self.assertTrue(hit.evaluate("(row) => { const {top, bottom} = row.getBoundingClientRect(); return top > 0 && bottom < innerHeight; }"))
        page.keyboard.press("Enter")
        self.assertRegex(page.locator("#found").inner_text(), r"^row 2 of \d+$")
        self.assertNotEqual(hit.inner_text(), first)
        page.keyboard.press("Shift+Enter")
        self.assertEqual(hit.inner_text(), first)
        page.fill("#search", "")
        self.assertEqual(hit.count(), 0)

    def test_a_narrow_page_can_be_printed_too(self) -> None:
        for width in WIDTHS:
            with self.subTest(width=width):
                box = self.open(self.page_file, width).locator("#print").bounding_box()
                self.assertLessEqual(box["x"] + box["width"], width)

    def test_slider_reads_the_predictions(self) -> None:
        rows = data_of(self.page_file)["traces"][0]["what_if"]["rows"]
        page = self.open(self.page_file)
        answer = page.locator("#what-if .answer")
        largest = answer.inner_text()
        slider = page.locator("#what-if input")
        slider.focus()
        for _ in rows[1:]:
            page.keyboard.press("ArrowLeft")
        self.assertNotEqual(answer.inner_text(), largest)
        self.assertEqual(slider.input_value(), "0")
        self.assertIn(f"{rows[0]['gpu_mem_bytes'] / MIB:.0f} MiB", answer.inner_text())
        self.assertIn("Predictions, not measurements", page.locator("#what-if").inner_text())

    def test_rows_open_and_sort(self) -> None:
        page = self.open(self.page_file)
        page.locator("#layers .opener").first.click()
        self.assertIn("1 buffer of 2 MiB", page.locator("#layers tr.more").inner_text())
        page.locator("#layers .opener").first.click()
        self.assertEqual(page.locator("#layers tr.more").count(), 0)
        page.locator("#layers th button").first.click()
        first = page.locator("#layers .opener").first.inner_text()
        page.locator("#layers th button").first.click()
        self.assertEqual({first, page.locator("#layers .opener").first.inner_text()}, {"layer 1", f"layer {LAYER_COUNT}"})

    def test_keyboard_reaches_and_moves_charts(self) -> None:
        page = self.open(self.page_file)
        chart = page.locator("#memory .chart").first
        page.locator("#print").focus()
        for _ in range(40):
            page.keyboard.press("Tab")
            if chart.evaluate("(chart) => chart === document.activeElement"):
                break
        else:
            self.fail("the tab key does not reach the first chart")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        self.assertIn("device memory", page.locator("#said").text_content())
        self.assertIn("device memory", chart.locator(".tip").inner_text())
        self.assertRegex(chart.locator(".u-legend").inner_text(), r"device memory:?\s*[\d.]+ MiB")
        page.keyboard.press("+")
        page.keyboard.press("Escape")
        self.assertEqual(self.said, [])

    def test_tooltip_names_the_layer(self) -> None:
        page = self.open(self.page_file)
        plot = page.locator("#residency .chart .u-over")
        plot.scroll_into_view_if_needed()
        size = plot.bounding_box()
        page.mouse.move(size["x"] + size["width"] * 0.6, size["y"] + size["height"] * 1.5 / LAYER_COUNT)
        self.assertRegex(page.locator("#residency .tip").inner_text(), r"(?s)^layer 2\s+\d+ % of 2 MiB on the device")

    def test_prints_in_light_colours(self) -> None:
        page = self.open(self.page_file, theme="dark")
        self.assertGreater(len(page.pdf()), 10_000)
        page.emulate_media(media="print")
        self.assertFalse(page.locator("header").is_visible())
        self.assertEqual(self.said, [])

    def test_two_traces_share_an_axis(self) -> None:
        other, _ = self.record("other.sptrace", "--gpu-mem", "18M")
        page = self.open(self.make_page(self.trace, other, name="two.html"))
        legend = page.locator("#memory .u-legend").first.inner_text()
        for series in ("A: device memory", "B: device memory", "A: budget", "B: budget"):
            self.assertIn(series, legend)
        self.assertEqual(page.locator("#residency .chart").count(), 2)

    @staticmethod
    def top_of_memory(page: "Page") -> float:
        """Where the highest point of the curve of device memory is drawn: 0 the top, 1 the foot of
        its chart."""
        return page.evaluate("""() => {
            const canvas = document.querySelector('#memory .chart canvas');
            const style = getComputedStyle(document.documentElement);
            const [red, green, blue] = style.getPropertyValue('--c0').match(/[0-9a-f]{2}/gi)
              .map((one) => parseInt(one, 16));
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const isNear = (value, wanted) => Math.abs(value - wanted) < 12;
            for (let i = 0; i < data.length; i += 4) {
              if (isNear(data[i], red) && isNear(data[i + 1], green) && isNear(data[i + 2], blue)) {
                return Math.floor(i / 4 / canvas.width) / canvas.height;
              }
            }
            return 1; }""")

    def test_a_budget_far_above_the_curves_is_said_at_the_top(self) -> None:
        page = self.open(self.page_file)
        self.assertEqual(page.locator(".above").count(), 0)
        roomy, _ = self.record("roomy.sptrace", "--gpu-mem", "900M")
        page = self.open(self.make_page(roomy, name="roomy.html"))
        self.assertLess(self.top_of_memory(page), 0.3)
        self.assertRegex(page.locator("#memory .above").inner_text(),
                         r"^\u2191 budget \d+ MiB, above$")
        self.assertIn("budget", page.locator("#memory .u-legend").first.inner_text())

    def test_a_million_events_make_a_small_page_that_opens(self) -> None:
        trace = self.folder / "million.sptrace"
        subprocess.run([BUILD / "tests" / "write_trace", trace, "17000"], check=True, timeout=LIMIT)
        file = self.make_page(trace, name="million.html")
        self.assertGreater(data_of(file)["traces"][0]["events"], 1_000_000)
        self.assertLess(file.stat().st_size, MOST_BYTES)
        self.open(file)


if __name__ == "__main__":
    unittest.main()
