"""The picture that the demo writes."""

from __future__ import annotations

from typing import Any

INK = "#1f2328"
MUTED = "#6e7781"
PLAIN = "#8c959f"
STATIC = "#d1495b"


def draw_demo(path: str, plain: Any, static: Any, network: str) -> None:
    """Write a PNG with the two loss curves and the time bars.

    Parameters
    ----------
    path : str
        Where the PNG goes.
    plain, static : sdbr.cli.demo.Run
    network : str
        The layer sizes, for the title.
    """
    # The object interface draws without a display and leaves pyplot's state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.2), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    curves, epochs, steps = figure.subplots(1, 3, width_ratios=(2.2, 1, 1))
    _draw_curves(curves, plain, static)
    _draw_bars(
        epochs, "milliseconds per epoch", plain, static, lambda run: 1e3 * run.seconds_per_epoch
    )
    _draw_bars(steps, "microseconds per step", plain, static, lambda run: run.microseconds_per_step)
    figure.suptitle(
        f"{network}: test accuracy {plain.accuracy:.4f} define-by-run, "
        f"{static.accuracy:.4f} static",
        color=INK,
        fontsize=11,
    )
    figure.savefig(path)


def _draw_curves(axes: Any, plain: Any, static: Any) -> None:
    numbers = range(1, len(plain.epoch_losses) + 1)
    # The wide pale line stays visible under the thin one that covers it.
    axes.plot(numbers, plain.epoch_losses, color=PLAIN, linewidth=6, alpha=0.55, label=plain.label)
    axes.plot(
        numbers,
        static.epoch_losses,
        color=STATIC,
        linewidth=1.6,
        marker="o",
        markersize=3,
        label=static.label,
    )
    axes.set_yscale("log")
    axes.set_xlabel("epoch", color=MUTED)
    axes.set_title("mean training loss", color=INK, fontsize=10, loc="left")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, labelcolor=INK)
    axes.grid(True, which="major", color="#eaeef2")
    _quiet(axes)


def _draw_bars(axes: Any, title: str, plain: Any, static: Any, value: Any) -> None:
    heights = [value(plain), value(static)]
    bars = axes.bar([plain.label, static.label], heights, color=[PLAIN, STATIC], width=0.62)
    axes.bar_label(
        bars,
        [f"{height:,.3g}" if height < 1000 else f"{height:,.0f}" for height in heights],
        color=INK,
        padding=2,
    )
    axes.set_title(title, color=INK, fontsize=10, loc="left")
    axes.set_xlabel(
        f"{heights[0] / heights[1]:.1f} x", color=STATIC, fontsize=12, fontweight="bold"
    )
    axes.margins(y=0.12)
    axes.set_yticks([])
    _quiet(axes)
    axes.spines["left"].set_visible(False)


def _quiet(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#d0d7de")
    axes.tick_params(colors=MUTED, labelcolor=INK)
