"""The same training loop, fed by the updater that takes batches from arrays."""

from __future__ import annotations

import dataclasses

from benchmarks.cases import trainer_digits

CASE = dataclasses.replace(
    trainer_digits.CASE,
    name="trainer_fed",
    title="trainer_digits with sdbr.training.StandardUpdater",
)
