"""What Chainer's snapshots leave out, saved beside them."""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

from sdbr.base.errors import SdbrWarning
from sdbr.optimizers.table import row_of_class

import chainer
import numpy as np
from chainer.serializer import Serializer
from chainer.training import extension

_SCALING = ("_loss_scale", "_loss_scaling_multiplier", "_loss_scaling_isnan_ever")


class ResumeState(extension.Extension):
    """A Trainer extension that makes a training that is resumed go on as if it had not ended.

    Snapshots of the trainer then hold the states of NumPy's and Python's global random generators
    as well, the loss scales of the optimizers, what their rules keep in attributes (`beta_power` of
    MSVAG), and the float32 parameters and states of rules with ``use_fp32_update``. Plain Chainer
    ignores what it does not know; a file without it loads with a warning.

    Parameters
    ----------
    *optimizers : chainer.GradientMethod
        Of the trainer, in an order that stays.

    Raises
    ------
    TypeError
        If one of them is no ``GradientMethod``.
    """

    name = "sdbr_resume_state"
    default_name = name

    def __init__(self, *optimizers: chainer.GradientMethod) -> None:
        for i, optimizer in enumerate(optimizers):
            if not isinstance(optimizer, chainer.GradientMethod):
                raise TypeError(
                    f"optimizers[{i}]: expected an instance of chainer.GradientMethod, "
                    f"got {type(optimizer).__name__}"
                )
        self.optimizers = optimizers

    @staticmethod
    def trigger(trainer) -> bool:
        """It does nothing by itself."""
        return False

    def __call__(self, trainer) -> None:
        """Nothing: it is only there to be saved."""

    def serialize(self, serializer) -> None:
        """Save or load."""
        if isinstance(serializer, Serializer):
            self._save(serializer)
            return
        try:
            self._load(serializer)
        except (KeyError, ValueError):
            warnings.warn(
                "the snapshot was saved without sdbr.training.ResumeState: random numbers, loss "
                "scales and what rules keep in attributes go on as they are now",
                SdbrWarning,
                stacklevel=2,
            )

    def _save(self, serializer) -> None:
        serializer("numpy_random", json.dumps(np.random.get_state(legacy=False), default=_listed))
        serializer("python_random", json.dumps(random.getstate()))
        for i, optimizer in enumerate(self.optimizers):
            of_one = serializer[f"optimizer_{i}"]
            for key in _SCALING:
                of_one(key, getattr(optimizer, key, None))
            for path, parameter in _updated(optimizer):
                rule, of_rule = parameter.update_rule, of_one[path]
                attribute = _attribute_of(rule)
                of_rule("attribute", None if attribute is None else getattr(rule, attribute))
                master = rule._fp32_param
                of_rule("fp32_param", None if master is None else master.array)
                # Chainer loads the state of such a rule into arrays of the parameter's dtype.
                state = _arrays_of(rule) if master is not None else {}
                of_rule("names", json.dumps(list(state)))
                for name, value in state.items():
                    of_rule(f"state/{name}", value)

    def _load(self, serializer) -> None:
        numpy_random = json.loads(serializer("numpy_random", ""))
        version, numbers, gauss = json.loads(serializer("python_random", ""))
        found = [
            self._loaded(serializer[f"optimizer_{i}"], o) for i, o in enumerate(self.optimizers)
        ]
        # All of it is there.
        np.random.set_state(numpy_random)
        random.setstate((version, tuple(numbers), gauss))
        for optimizer, (scaling, rules) in zip(self.optimizers, found, strict=True):
            for key, value in scaling.items():
                if value is not None:
                    setattr(optimizer, key, value)
            for parameter, attribute, master, state in rules:
                rule = parameter.update_rule
                if attribute is not None and _attribute_of(rule) is not None:
                    setattr(rule, _attribute_of(rule), attribute)
                rule._fp32_param = _parameter(master, parameter)
                if state:
                    rule._state.update(state)

    def _loaded(self, serializer, optimizer) -> tuple[dict[str, Any], list[tuple]]:
        scaling = {key: _scalar(serializer(key, None)) for key in _SCALING}
        rules = []
        for path, parameter in _updated(optimizer):
            of_rule = serializer[path]
            attribute = _scalar(of_rule("attribute", None))
            names = json.loads(of_rule("names", ""))
            state = {name: np.array(of_rule(f"state/{name}", None)) for name in names}
            master = of_rule("fp32_param", None)
            rules.append((parameter, attribute, master, state))
        return scaling, rules


def _listed(value):
    """What JSON takes of a state of NumPy's."""
    return value.tolist()


def _updated(optimizer) -> list[tuple[str, chainer.Parameter]]:
    """Parameters with rules, by their paths."""
    return [
        (path.strip("/"), parameter)
        for path, parameter in sorted(optimizer.target.namedparams())
        if parameter.update_rule is not None
    ]


def _arrays_of(rule) -> dict[str, Any]:
    return {key: v for key, v in (rule.state or {}).items() if isinstance(v, np.ndarray)}


def _attribute_of(rule) -> str | None:
    """The attribute of a rule that its steps depend on, where it has one and it changes."""
    row = row_of_class(type(rule))
    if row is None or row.attribute is None or getattr(rule, row.attribute, None) is None:
        return None
    return row.attribute


def _scalar(value):
    return None if value is None else np.asarray(value)[()].item()


def _parameter(array, like: chainer.Parameter):
    if array is None:
        return None
    return chainer.Parameter(np.array(array, np.float32), name=like.name)
