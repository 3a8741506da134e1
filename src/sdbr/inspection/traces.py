"""Runs as events of Chrome's traces, and as profiles of speedscope."""

from __future__ import annotations

import os

import numpy as np

#: What is kept of a run: times of the program, start, seconds of ops, whether by op, thread.
Run = tuple


def chrome_events(history: list[Run]) -> list[dict]:
    """One event per run, and one per op of those that were timed by op."""
    events = []
    for times, start, seconds, by_op, thread in history:
        common = {"ph": "X", "pid": os.getpid(), "tid": thread, "cat": times.name}
        whole = {"name": times.name, "ts": start * 1e6, "dur": float(seconds.sum()) * 1e6}
        events.append({**common, **whole})
        if not by_op:
            continue
        begins = start + np.concatenate([[0.0], np.cumsum(seconds)])
        for row, begin, took in zip(
            times.described(), begins.tolist(), seconds.tolist(), strict=False
        ):
            args = {name: row[name] for name in ("index", "label", "link", "line")}
            own = {"name": row["op"], "ts": begin * 1e6, "dur": took * 1e6, "args": args}
            events.append({**common, **own})
    return events


def speedscope(history: list[Run]) -> dict:
    """A file of https://www.speedscope.app: a profile per thread, ops below the links of theirs."""
    places: dict[str, int] = {}
    frames: list[dict] = []

    def frame(name: str, line: str = "") -> int:
        key = f"{name}\n{line}"
        if key not in places:
            places[key] = len(frames)
            where, _, number = line.partition(" in ")[0].rpartition(":")
            known = {"file": where, "line": int(number)} if where and number.isdigit() else {}
            frames.append({"name": name, **known})
        return places[key]

    threads: dict[int, tuple[list, list]] = {}
    for times, _, seconds, by_op, thread in history:
        samples, weights = threads.setdefault(thread, ([], []))
        if not by_op:
            continue
        for row, took in zip(times.described(), seconds.tolist(), strict=True):
            parts = [part for part in row["link"].split("/") if part]
            stack = [frame(times.name), *map(frame, parts), frame(row["op"], row["line"])]
            samples.append(stack)
            weights.append(took)
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": frames},
        "profiles": [
            {
                "type": "sampled",
                "name": f"thread {thread}",
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
            for thread, (samples, weights) in threads.items()
        ],
    }
