"""What a call counts, keeps and grows from one call to the next."""

from __future__ import annotations

from .hazard import Hazard

HAZARDS = [
    Hazard("counter", "self.c{k} += 1\n{v} = {h} * 0.5", init="self.c{k} = 0", see="net.c{k}"),
    Hazard(
        "counter scales",
        "self.c{k} += 1\n{v} = {h} / self.c{k}",
        init="self.c{k} = 0",
        see="net.c{k}",
    ),
    Hazard(
        "float decays",
        "self.c{k} *= 0.9\n{v} = {h} * self.c{k}",
        init="self.c{k} = 1.0",
        see="net.c{k}",
    ),
    Hazard(
        "annealed",
        "self.c{k} += 1\n{v} = {h} * min(1.0, self.c{k} / 5)",
        init="self.c{k} = 0",
        see="net.c{k}",
    ),
    Hazard(
        "every third",
        "self.c{k} += 1\n{v} = F.sin({h}) if self.c{k} % 3 == 0 else F.tanh({h})",
        init="self.c{k} = 0",
        see="net.c{k}",
    ),
    Hazard(
        "warm up",
        "self.c{k} += 1\n{v} = F.sin({h}) if self.c{k} < 4 else {h} * 0.5",
        init="self.c{k} = 0",
        see="net.c{k}",
    ),
    Hazard(
        "round robin",
        "self.c{k} = (self.c{k} + 1) % 2\n{v} = [self.l1, self.l2][self.c{k}]({h})",
        init="self.c{k} = 0",
        see="net.c{k}",
    ),
    Hazard(
        "position",
        "self.b{k}[self.c{k}] = {h}.array.mean()\nself.c{k} = (self.c{k} + 1) % 4\n"
        "{v} = {h} + self.b{k}",
        init="self.c{k} = 0\nself.b{k} = np.zeros(4, DTYPE)",
        see="(net.c{k}, net.b{k})",
    ),
    Hazard("counter outside", "global C{k}\nC{k} += 1\n{v} = {h} * C{k}", "C{k} = 0", see="C{k}"),
    Hazard(
        "counter of an object",
        "BOX{k}.n += 1\n{v} = {h} / BOX{k}.n",
        "BOX{k} = Box(n=0)",
        see="BOX{k}.n",
    ),
    Hazard(
        "counter in a dict",
        "D{k}['n'] += 1\n{v} = {h} * D{k}['n']",
        "D{k} = {{'n': 0}}",
        see="D{k}",
    ),
    Hazard(
        "grows", "self.g{k}.append(1)\n{v} = {h} * 0.5", init="self.g{k} = []", see="len(net.g{k})"
    ),
    Hazard(
        "grows and is read",
        "self.g{k}.append(1)\n{v} = {h} * len(self.g{k})",
        init="self.g{k} = []",
        see="len(net.g{k})",
    ),
    Hazard(
        "history",
        "self.g{k}.append({h}.array.mean())\n{v} = F.sin({h})",
        init="self.g{k} = []",
        see="net.g{k}",
    ),
    Hazard(
        "window",
        "self.g{k} = [*self.g{k}, {h}.array.mean()][-3:]\n{v} = F.sin({h})",
        init="self.g{k} = []",
        see="net.g{k}",
    ),
    Hazard(
        "mean kept",
        "self.m{k} = 0.9 * self.m{k} + 0.1 * {h}.array.mean(0)\n{v} = {h} - self.m{k}",
        init="self.m{k} = np.zeros(4, DTYPE)",
        see="net.m{k}",
    ),
    Hazard(
        "number kept",
        "self.m{k} = 0.9 * self.m{k} + 0.1 * float({h}.array.mean())\n{v} = {h} * 0.5",
        init="self.m{k} = 0.0",
        see="net.m{k}",
    ),
    Hazard(
        "number read",
        "self.m{k} = 0.9 * self.m{k} + 0.1 * float({h}.array.mean())\n{v} = {h} - self.m{k}",
        init="self.m{k} = 0.0",
        see="net.m{k}",
    ),
    Hazard(
        "largest kept",
        "self.m{k} = max(self.m{k}, float({h}.array.max()))\n{v} = {h} / (1 + abs(self.m{k}))",
        init="self.m{k} = 0.0",
        see="net.m{k}",
    ),
    Hazard(
        "hidden state",
        "self.s{k} = F.tanh({h} if self.s{k} is None or self.s{k}.shape != {h}.shape else "
        "{h} + self.s{k})\n{v} = self.s{k} * 0.5",
        init="self.s{k} = None",
        before="if i % 3 == 0:\n    net.s{k} = None",
    ),
    Hazard(
        "states in a list",
        "self.s{k}[0] = F.tanh({h} if self.s{k}[0] is None or self.s{k}[0].shape != "
        "{h}.shape else {h} + self.s{k}[0])\n{v} = self.s{k}[0] * 0.5",
        init="self.s{k} = [None]",
        before="if i % 3 == 0:\n    net.s{k} = [None]",
    ),
    Hazard(
        "previous array",
        "p{k} = self.p{k}\nself.p{k} = {h}.array.mean(0)\n"
        "{v} = {h} if p{k} is None else {h} + p{k}",
        init="self.p{k} = None",
        see="net.p{k}",
    ),
    Hazard(
        "first call",
        "if not self.f{k}:\n    self.f{k} = True\n{v} = F.sin({h})",
        init="self.f{k} = False",
        see="net.f{k}",
    ),
    Hazard(
        "scaled at first",
        "if not self.f{k}:\n    self.sc{k} = 1 / (1 + {h}.array.std(0))\n"
        "    self.f{k} = True\n{v} = {h} * self.sc{k}",
        init="self.f{k} = False\nself.sc{k} = None",
        see="(net.f{k}, net.sc{k})",
    ),
    Hazard(
        "reported number",
        "chainer.report({{'m{k}': float({h}.array.mean())}}, self)\n{v} = F.tanh({h})",
    ),
    Hazard("number of an array", "n{k} = float({h}.array.max())\n{v} = {h} / (1 + n{k} * n{k})"),
    Hazard("item", "n{k} = {h}.array.sum().item()\n{v} = {h} + 0.1 * n{k}"),
    Hazard("list of an array", "l{k} = {h}.array[0].tolist()\n{v} = {h} + np.array(l{k}, DTYPE)"),
    Hazard("number asked", "n{k} = float({h}.array.mean())\n{v} = {h} * (2 if n{k} > 0 else 3)"),
    Hazard(
        "kept number",
        "self.m{k} = float({h}.array.mean())\n{v} = F.sin({h})",
        init="self.m{k} = 0.0",
        see="net.m{k}",
    ),
    Hazard(
        "printed text",
        "self.m{k} = f'{{float({h}.array.mean()):.2f}}'\n{v} = F.sin({h})",
        init="self.m{k} = ''",
        see="net.m{k}",
        dynamic=True,
    ),
]
