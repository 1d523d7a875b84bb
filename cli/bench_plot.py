"""The roofline of `edgeinfer bench --plot`: what a model's operations reach of what the machine can do.

Source: Williams, Waterman, Patterson, https://doi.org/10.1145/1498765.1498785."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeinfer.errors import BackendError, RequestError


def library() -> Any:
    """matplotlib's pyplot, which draws to files.  RequestError where it is missing."""
    try:
        import matplotlib
    except ImportError:
        raise RequestError("--plot needs matplotlib: pip install 'edgeinfer[plot]'") from None
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")


def roofline(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A picture of the rows' phases that multiply weights: products for each byte read, products a second.

    RequestError where matplotlib is missing; BackendError where the file cannot be written."""
    pyplot = library()
    figure, axes = pyplot.subplots(figsize=(9, 6))
    for threads in sorted({row["n_threads"] for row in rows}):
        own = next(row for row in rows if row["n_threads"] == threads)
        _roof(axes, own["read_bandwidth"], own["product_peak"], f"{threads} threads")
    for row in rows:
        found = [phase for phase in row["phases"] if phase["products"] and phase["ns"] > 0]
        across = [phase["products"] / phase["bytes"] for phase in found]
        up = [phase["products"] / phase["ns"] for phase in found]
        axes.loglog(across, up, "o", label=f"{row['test']}, {row['n_threads']} threads")
        for x, y, phase in zip(across, up, found, strict=True):
            axes.annotate(phase["name"], (x, y), textcoords="offset points", xytext=(6, -4), fontsize=8)
    axes.set(xlabel="products per byte of weights", ylabel="GMAC/s", title=rows[0]["model_type"])
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise BackendError(f"{path} cannot be written: {error}") from error
    finally:
        pyplot.close(figure)


def _roof(axes: Any, read: float, products: float, label: str) -> None:
    """What the machine can do: reading up to the ridge, multiplying beyond it."""
    ridge = products / read
    axes.loglog([0.5, ridge, 4096], [0.5 * read / 1e9, products / 1e9, products / 1e9], "--", label=f"limit, {label}")
