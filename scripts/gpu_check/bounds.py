"""What a pass takes at least, from the link and the compute time that were measured in the same run."""

from __future__ import annotations


def bounds(compute_ms: float, persistent_bytes: float, fit_bytes: float, link_bytes_per_second: float,
           piece_bytes: float) -> dict[str, float]:
    """The bounds that pass times are divided by, in milliseconds.

    physical: max(compute, (W - fit) / link), W the persistent bytes of a pass and `fit_bytes` those of them that can stay on
    the device. achievable: the same with room for two pieces of `piece_bytes` on their way. sliding_window: every layer
    comes in every pass, which is all that a cyclic window can do.
    """
    def transfer_ms(size: float) -> float:
        return 1e3 * max(0.0, size) / link_bytes_per_second

    missing = persistent_bytes - fit_bytes
    return {
        "physical_ms": max(compute_ms, transfer_ms(missing)),
        "achievable_ms": max(compute_ms, transfer_ms(missing + 2 * piece_bytes if missing > 0 else 0)),
        "sliding_window_ms": max(compute_ms, transfer_ms(persistent_bytes if missing > 0 else 0)),
    }
