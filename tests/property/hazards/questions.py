"""What decides about the way of a call: values that it has computed."""

from __future__ import annotations

from .hazard import Hazard

#: Each of two or more ways; batches are drawn around zero, so that all of them are taken.
BRANCHES = [
    Hazard("if sum", "if {h}.array.sum() > 0:\n    {v} = F.tanh({h})\nelse:\n    {v} = {h} * 0.5"),
    Hazard("if any", "{v} = F.relu({h})\nif ({raw} > 1).any():\n    {v} = {v} * 0.25 + {h}"),
    Hazard("if all", "{v} = -{h} if ({h}.array > -1).all() else F.sin({h})"),
    Hazard("if element", "{v} = {h}\nif {raw}[0, 1] < {raw}[0, 2]:\n    {v} = F.sigmoid({h})"),
    Hazard("chained", "m{k} = {raw}.mean()\n{v} = {h} if -0.2 < m{k} < 0.2 else F.tanh({h})"),
    Hazard("and or", "s{k} = {raw}.sum(1)\n{v} = {h} * (2 if s{k}[0] > 0 or s{k}[1] > 0 else 3)"),
    Hazard("assert", "assert np.isfinite({h}.array).all()\n{v} = F.sin({h})"),
    Hazard("raise", "if {h}.array.max() > 1e6:\n    raise ValueError('large')\n{v} = {h} + 1"),
    Hazard(
        "halve until small",
        "{v} = {h}\nfor _ in range(6):\n    if abs({v}.array).max() < 1.5:\n        break\n"
        "    {v} = {v} * 0.5",
    ),
    Hazard("while", "{v} = F.tanh({h})\nwhile {v}.array.sum() > 1:\n    {v} = {v} - 0.25"),
    Hazard(
        "in place in a way",
        "a{k} = {raw} * 1\nif a{k}[0, 0] > 0:\n    a{k}[0] = 1\n{v} = {h} + a{k}",
    ),
    Hazard(
        "draw before",
        "d{k} = np.random.rand(4).astype(DTYPE)\n{v} = {h} * (1 if d{k}[0] > 0.5 else 2)",
    ),
    Hazard(
        "dropout before",
        "{v} = F.dropout({h}, 0.3)\nif {v}.array[0].sum() > 0:\n    {v} = F.dropout({v}, 0.2)",
    ),
    Hazard("link in a way", "{v} = self.l2({h}) if {raw}[-1].sum() > 0 else self.l1({h})"),
    Hazard(
        "report in a way",
        "if {raw}[0, 0] > 0:\n    chainer.report({{'up': F.sum({h})}}, self)\n{v} = F.sin({h})",
    ),
    Hazard(
        "store in a way",
        "if {raw}[0, 0] > 0:\n    self.last{k} = {h}\n{v} = F.sin({h})",
        init="self.last{k} = None",
        see="net.last{k}",
    ),
    Hazard(
        "generator in a way",
        "{v} = {h}\nif {raw}[0, 0] > 0:\n    {v} = {h} * np.random.uniform(0.5, 1.5)",
    ),
]
#: Numbers of arrays that shapes, loops and indices need.
COUNTS = [
    Hazard("mask chooses", "c{k} = {h}[{raw}[:, 0] > 0]\n{v} = {h} + F.sum(c{k}, axis=0)"),
    Hazard("nonzero", "(r{k},) = np.nonzero({raw}[:, 1] > 0)\n{v} = {h} * (1 + len(r{k}))"),
    Hazard("argmax picks", "i{k} = int({raw}[0].argmax())\n{v} = {h} + {h}[:, i{k}:i{k} + 1]"),
    Hazard(
        "loops", "{v} = {h}\nfor _ in range(int(({raw} > 0).sum()) % 4):\n    {v} = F.tanh({v})"
    ),
    Hazard("in set", "{v} = {h} * (2 if int({raw}[0].argmin()) in (0, 2) else 1)"),
    Hazard("layer picked", "n{k} = [self.l1, self.l2]\n{v} = n{k}[int({raw}[0, 0] > 0)]({h})"),
    Hazard(
        "sorted rows",
        "o{k} = sorted(range(len({raw})), key=lambda j: {raw}[j, 0])\n{v} = {h}[o{k}]",
    ),
    Hazard("key of a dict", "{v} = {{0: F.sin, 1: F.tanh}}[int({raw}.sum() > 0)]({h})"),
    Hazard(
        "helper",
        "{v} = pick{k}({h}, {raw})",
        "def pick{k}(h, raw):\n    if raw[0, 0] > raw[-1, 0]:\n        return F.sin(h)\n"
        "    return F.cos(h)",
    ),
]
HAZARDS = [*BRANCHES, *COUNTS]
