"""What the library tells through `logging`."""

from __future__ import annotations

import logging


def listen(verbosity: int) -> None:
    """Let log records go to standard error, as ``verbosity_level`` wants it, if nobody listens."""
    logger = logging.getLogger("sdbr")
    if verbosity and not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO)
