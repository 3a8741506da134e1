"""Arrays of the call that NumPy writes in place, and views of them."""

from __future__ import annotations

from .hazard import Hazard

MADE = [
    Hazard("mask zeroed", "a{k} = {raw}.copy()\na{k}[a{k} > 0.5] = 0\n{v} = {h} * a{k}"),
    Hazard(
        "rows of an index", "a{k} = {raw} * 1\na{k}[np.arange(len({raw})), 1] = 2\n{v} = {h} + a{k}"
    ),
    Hazard(
        "picked",
        "i{k} = {raw}.argmax(1)\na{k} = np.zeros_like({raw})\n"
        "a{k}[np.arange(len(i{k})), i{k}] = 1\n{v} = {h} * a{k}",
    ),
    Hazard("added", "a{k} = {raw} * 1\na{k} += {h}.array\na{k} *= 0.5\n{v} = {h} + a{k}"),
    Hazard("slice added", "a{k} = {raw} * 1\na{k}[:, 1:3] += {h}.array[:, :2]\n{v} = {h} + a{k}"),
    Hazard("column", "a{k} = {raw} * 1\na{k}[:, 0] = {h}.array.sum(1)\n{v} = {h} + a{k}"),
    Hazard("ellipsis", "a{k} = np.empty_like({raw})\na{k}[...] = {h}.array\n{v} = {h} - a{k}"),
    Hazard("view written", "a{k} = {raw} * 1\nb{k} = a{k}[:, 1]\nb{k} += 1\n{v} = {h} + a{k}"),
    Hazard(
        "view read",
        "a{k} = {raw} * 1\nb{k} = a{k}[:, 1]\na{k}[:] = {h}.array\n{v} = {h} + b{k}[:, None]",
    ),
    Hazard(
        "view of a view",
        "a{k} = {raw} * 1\nb{k} = a{k}[::2][:, 1:]\nb{k}[:, 0] = 0.5\n{v} = {h} + a{k}",
    ),
    Hazard("transposed", "a{k} = {raw} * 1\na{k}.T[0] = 0.25\n{v} = {h} + a{k}"),
    Hazard("reshaped", "a{k} = {raw} * 1\na{k}.reshape(-1)[:3] = 7\n{v} = {h} + a{k}"),
    Hazard("raveled", "a{k} = {raw} * 1\na{k}.ravel()[::2] *= 0.5\n{v} = {h} + a{k}"),
    Hazard("overlapping", "a{k} = {raw} * 1\na{k}[:, 1:] += a{k}[:, :-1]\n{v} = {h} + a{k}"),
    Hazard("backwards", "a{k} = {raw} * 1\na{k}[:] = a{k}[:, ::-1]\n{v} = {h} + a{k}"),
    Hazard(
        "add out",
        "a{k} = np.empty_like({raw})\nnp.add({raw}, {h}.array, out=a{k})\n{v} = {h} * a{k}",
    ),
    Hazard(
        "add out of itself", "a{k} = {raw} * 1\nnp.multiply(a{k}, a{k}, out=a{k})\n{v} = {h} * a{k}"
    ),
    Hazard(
        "copyto", "a{k} = {raw} * 1\nnp.copyto(a{k}, {h}.array, where={raw} > 0)\n{v} = {h} + a{k}"
    ),
    Hazard("fill", "a{k} = {raw} * 1\na{k}[0].fill(3)\n{v} = {h} + a{k}"),
    Hazard(
        "add at", "a{k} = np.zeros(4, DTYPE)\nnp.add.at(a{k}, {raw}.argmax(1), 1)\n{v} = {h} + a{k}"
    ),
    Hazard("two indices the same", "a{k} = {raw} * 1\na{k}[[0, 0]] += 1\n{v} = {h} + a{k}"),
    Hazard(
        "other dtype",
        "a{k} = np.zeros({raw}.shape, 'f')\na{k}[:] = {raw}.astype('d') * 0.1\n"
        "{v} = {h} + a{k}.astype(DTYPE)",
    ),
    Hazard(
        "truth", "a{k} = {raw} > 0\na{k}[:, 2] = False\na{k} |= {h}.array > 1\n{v} = {h} * a{k}"
    ),
    Hazard(
        "filled by steps",
        "a{k} = np.zeros_like({raw})\nfor j in range(4):\n"
        "    a{k}[:, j] = {h}.array[:, j] if j == 0 else a{k}[:, j - 1] * 0.5\n{v} = {h} + a{k}",
    ),
    Hazard(
        "swapped",
        "a{k} = {raw} * 1\na{k}[0], a{k}[-1] = a{k}[-1].copy(), a{k}[0].copy()\n{v} = {h} + a{k}",
    ),
    Hazard(
        "before and after",
        "a{k} = {raw} * 1\n{v} = {h} * a{k}\na{k}[:] = 0\n{v} = F.tanh({v}) + a{k}",
    ),
    Hazard(
        "node keeps it",
        "u{k} = F.sin({h})\n{v} = u{k} * u{k}\nu{k}.array[0] = 0.5\n{v} = {v} + u{k}",
    ),
    Hazard(
        "normalized",
        "a{k} = {raw}.copy()\na{k} -= a{k}.mean(0)\na{k} /= a{k}.std(0) + 1\n{v} = {h} + a{k}",
    ),
    Hazard("flattened", "a{k} = {raw} * 1\na{k}.flat[1] = 4\n{v} = {h} + a{k}"),
    Hazard("put", "a{k} = {raw} * 1\nnp.put(a{k}, [0, 2], [1, 2])\n{v} = {h} + a{k}"),
    Hazard(
        "partition", "a{k} = {h}.array.copy()\na{k}.partition(1, axis=1)\n{v} = {h} + a{k}[:, :1]"
    ),
    Hazard(
        "grown",
        "a{k} = [{raw}[0], {raw}[1]]\na{k}.append({h}.array[-1])\nb{k} = np.stack(a{k})\n"
        "b{k}[1] = 0\n{v} = {h} + b{k}.sum(0)",
    ),
]
HELD = [
    Hazard("parameter", "self.l2.W.array[0] *= 0.5\n{v} = self.l2({h})"),
    Hazard(
        "buffer",
        "self.b{k}[...] = 0.9 * self.b{k} + {h}.array.mean(0)\n{v} = {h} - self.b{k}",
        init="self.b{k} = np.zeros(4, DTYPE)",
        see="net.b{k}",
    ),
    Hazard(
        "persistent",
        "self.b{k} += {raw}.sum(0)\n{v} = {h} * 0.5 + self.b{k}",
        init="self.add_persistent('b{k}', np.zeros(4, DTYPE))",
        see="net.b{k}",
    ),
    Hazard("argument's view", "{raw}[:, 1] = {raw}[:, 0]\n{v} = {h} + {raw}"),
    Hazard(
        "written and asked",
        "self.b{k} += 1\n{v} = {h} * (2 if {raw}[0, 0] > 0 else 1) + self.b{k}",
        init="self.b{k} = np.zeros(4, DTYPE)",
        see="net.b{k}",
    ),
]
HAZARDS = [*MADE, *HELD]
