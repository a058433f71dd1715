"""Runs CUDA programs whose models are larger than the GPU: superpipe run -- python script.py

The package holds the command and its libraries as any other installation does, and functions for
programs that want to know of it. Importing it loads no library and no driver.

    superpipe.require_active()          # raises NotActive where this process runs without superpipe
    superpipe.stats()["pages_bytes"]    # what superpipe top shows of this process
    superpipe.set_budget("4G")          # another budget for this process
    subprocess.run(command, env={**os.environ, **superpipe.environment(gpu_mem="6G")})
"""

__all__ = [
    "Error",
    "NotActive",
    "environment",
    "is_active",
    "require_active",
    "set_budget",
    "stats",
]


def __getattr__(name: str) -> object:
    """What __all__ names, from superpipe._process: only then is that imported, because the console
    scripts of superpipe import this package at each start and need nothing of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from superpipe import _process

    return getattr(_process, name)
