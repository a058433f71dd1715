"""Line plots as SVG, drawn by hand: nothing but the standard library is needed to make a page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 74, 20, 62, 52
LEGEND_ROW = 18
COLOURS = ("#2f7fd0", "#d4880f", "#b6529f", "#2e9e62", "#c94a4a", "#6f7f8f")

STYLE = """
  svg { --back: #ffffff; --ink: #1f2328; --faint: #59636e; --line: #d1d9e0; }
  @media (prefers-color-scheme: dark) { svg { --back: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #3d444d; } }
  text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: var(--ink); }
  .title { font-size: 16px; font-weight: 600; } .faint { fill: var(--faint); }
  .back { fill: var(--back); } .line { stroke: var(--line); }
"""


@dataclass(frozen=True)
class Series:
    """One line of a plot; a `bound` is dashed and has no dots."""

    name: str
    points: list[tuple[float, float]]
    bound: bool = False


def ticks(least: float, most: float, about: int = 5) -> list[float]:
    """Round numbers from `least` to `most`."""
    span = max(most - least, 1e-12)
    step = 10 ** math.floor(math.log10(span / about))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= about)
    first = math.ceil(least / step - 1e-9)
    return [round(step * i, 10) for i in range(first, math.floor(most / step + 1e-9) + 1)]


def number(value: float) -> str:
    return f"{value:.10g}"


def line_plot(title: str, device: str, x_name: str, y_name: str, series: list[Series]) -> str:
    """The plot as SVG. `device` names the GPU, or says that it is simulated: a picture without it could be mistaken."""
    points = [point for each in series for point in each.points]
    if not points:
        raise ValueError(f"nothing to draw in '{title}'")
    x_least, x_most = min(x for x, _ in points), max(x for x, _ in points)
    if x_least == x_most:
        x_least, x_most = x_least - 1, x_most + 1
    y_most = 1.05 * max(y for _, y in points) or 1.0
    height = HEIGHT + LEGEND_ROW * math.ceil(len(series) / 3)
    bottom = HEIGHT - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return (LEFT + (x - x_least) / (x_most - x_least) * (WIDTH - LEFT - RIGHT), bottom - y / y_most * (bottom - TOP))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
           f"<title>{escape(title)} ({escape(device)})</title>", f"<style>{STYLE}</style>",
           f'<rect class="back" width="{WIDTH}" height="{height}"/>',
           f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
           f'<text class="faint" x="{LEFT}" y="44">{escape(device)}</text>']
    for y in ticks(0, y_most):
        _, at = place(x_least, y)
        out.append(f'<line class="line" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text class="faint" x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(y)}</text>')
    for x in ticks(x_least, x_most, 8):
        at, _ = place(x, 0)
        out.append(f'<text class="faint" x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{number(x)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(x_name)}</text>')
    middle = (TOP + bottom) / 2
    out.append(f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">{escape(y_name)}</text>')
    for index, each in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        at = [place(x, y) for x, y in sorted(each.points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        dashes = ' stroke-dasharray="6 4"' if each.bound else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        if not each.bound:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        x, y = LEFT + index % 3 * 225, HEIGHT + 4 + LEGEND_ROW * (index // 3)
        out.append(f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{dashes}/>')
        out.append(f'<text x="{x + 28}" y="{y}">{escape(each.name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
