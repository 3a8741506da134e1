"""What the library tells through `logging`: a logger ``sdbr.TOPIC`` for each topic."""

from __future__ import annotations

import logging
from typing import Any

#: Topic -> what its records tell.
TOPICS = {
    "traces": "calls that are traced, and how long it takes",
    "misses": "calls that no schedule serves: what differs, and the line",
    "dynamic": "calls that run define-by-run, and why",
    "build": "programs that are built",
    "step": "whole steps, and why a step is none",
    "backoff": "calls that are not traced any more because too many were",
}
_NAME = "sdbr"


def logger(topic: str) -> logging.Logger:
    """The logger of a topic.

    Raises
    ------
    KeyError
        If there is no such topic.
    """
    TOPICS[topic]
    return logging.getLogger(f"{_NAME}.{topic}")


def listen(verbosity: int) -> None:
    """Let log records go to standard error, as ``verbosity_level`` wants it, if nobody listens."""
    root = logging.getLogger(_NAME)
    if verbosity and not root.handlers:
        root.addHandler(logging.StreamHandler())
        root.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)


def are_topics(text: Any) -> bool:
    """Whether a text names topics, with commas between them."""
    return all(name in (*TOPICS, "all", "") for name in _split(text))


def listen_to(text: str) -> None:
    """Let records of these topics go to standard error; names that are none are passed over."""
    names = _split(text)
    for topic in TOPICS if "all" in names else [name for name in names if name in TOPICS]:
        own = logger(topic)
        if not own.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
            own.addHandler(handler)
            own.setLevel(logging.INFO)


def tell(log: logging.Logger, nth: int, text: str, *args: Any) -> None:
    """Log what happens for the n-th time: the first time is news."""
    log.log(logging.DEBUG if nth > 1 else logging.INFO, text, *args)


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
