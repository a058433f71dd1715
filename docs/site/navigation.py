"""The order of the site's pages.

A page that is named nowhere stands under OTHERS, so that a new one is never lost. One that is named
and not there is left out.
"""

FRONT = "docs/README"
OTHERS = "More"
GROUPS = {
    "Begin": ["docs/install", "docs/first-run", "docs/tutorial"],
    "Use": [
        "docs/recipes/language-model",
        "docs/recipes/lora",
        "docs/recipes/diffusers",
        "docs/recipes/comfyui",
        "docs/recipes/vllm",
        "docs/recipes/notebooks",
        "docs/deploy",
        "docs/frameworks",
        "docs/frameworks-grid",
        "docs/wheel",
    ],
    "Look up": [
        "docs/commands",
        "docs/glossary",
        "docs/settings",
        "docs/troubleshooting",
        "docs/doctor",
        "docs/gpu-check",
        "docs/top",
        "docs/report",
        "docs/diff",
        "docs/cards",
        "docs/trace-format",
        "docs/plan-format",
    ],
    "How it works": ["docs/design", "docs/policy", "docs/residency", "tools/simgpu/README"],
    "Decisions": ["docs/decisions/README"],
    "Measurements": ["docs/measurements/README"],
    "The project": [
        "README",
        "CONTRIBUTING",
        "CHANGELOG",
        "examples/README",
        "examples/minilm/README",
        "bench/peers/README",
        "bench/virtual_time/README",
        "third_party/uplot/README",
    ],
}
# Folders whose pages all stand below the page of this name.
FOLDERS = ("docs/decisions", "docs/measurements")


def _below(page: str, pages: list[str]) -> list[str]:
    folder, _, name = page.rpartition("/")
    if name != "README" or folder not in FOLDERS:
        return []
    return sorted(other for other in pages if other.startswith(f"{folder}/") and other != page)


def toctrees(page: str, pages: list[str]) -> str:
    """Tables of contents that are added to `page` of the `pages`, all without suffix."""
    if page != FRONT:
        below = _below(page, pages)
        return _toctree(below, ":maxdepth: 1") if below else ""
    groups = {name: [each for each in group if each in pages] for name, group in GROUPS.items()}
    named = {each for group in groups.values() for each in group}
    named.update(other for each in named.copy() for other in _below(each, pages))
    groups[OTHERS] = sorted(set(pages) - named - {FRONT})
    return "".join(
        _toctree(group, ":hidden:", f":caption: {name}") for name, group in groups.items() if group
    )


def _toctree(pages: list[str], *options: str) -> str:
    lines = ["", "", "```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""]
    return "\n".join(lines)
