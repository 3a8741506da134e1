"""Programs of static models."""

from __future__ import annotations

import sdbr  # noqa: F401

STEP_MODELS = ["mlp_dropout", "autoencoder", "actor_critic", "dqn", "conv_net", "regularised"]


def programs_of(model):
    found = []
    for candidates in model.schedule_manager.schedules.values():
        for schedule in candidates:
            for program in schedule.programs.values():
                found += program if isinstance(program, list) else [program]
    return found
