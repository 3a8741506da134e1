"""Random numbers: of the global generators, of generators of the user's, of functions."""

from __future__ import annotations

from .hazard import Hazard

#: Bodies that need nothing else: those that draw arrays, and those that draw numbers.
ARRAYS = {
    "rand": "{v} = {h} * np.random.rand(*{h}.shape).astype({h}.dtype)",
    "randn of a row": "{v} = {h} + np.random.randn(4).astype({h}.dtype)",
    "uniform array": "{v} = {h} * np.random.uniform(0.5, 1.5, {h}.shape).astype({h}.dtype)",
    "normal": "{v} = {h} + np.random.normal(0, 0.1, {h}.shape).astype({h}.dtype)",
    "randint array": "{v} = {h} * np.random.randint(0, 2, {h}.shape).astype({h}.dtype)",
    "permutation": "{v} = {h}[np.random.permutation(len({h}))]",
    "choice of rows": "{v} = {h} + {h}[np.random.choice(len({h}), len({h}))]",
    "binomial": "{v} = {h} * np.random.binomial(1, 0.5, {h}.shape).astype({h}.dtype)",
    "mask of arrays": "{v} = {h} * (np.random.rand(*{h}.shape) < 0.5).astype({h}.dtype)",
    "where": "{v} = F.where(np.random.rand(*{h}.shape) < 0.5, {h}, F.sin({h}))",
    "noise on the input": "{v} = {h} + {raw} * np.random.rand(len({raw}), 1).astype({h}.dtype)",
    "dropout": "{v} = F.dropout({h}, 0.3)",
    "dropout of two": "{v} = F.dropout({h}, 0.3) + F.dropout({h}, 0.5)",
    "dropout ratio": "{v} = F.dropout({h}, 0.1 + 0.1 * self.alpha)",
    "zoneout": "{v} = F.zoneout({h}, F.tanh({h}), 0.4)",
    "gaussian": "{v} = F.gaussian({h}, F.tanh({h}) - 3)",
    "rrelu": "{v} = F.rrelu({h})",
    "dropconnect": "{v} = F.simplified_dropconnect({h}, self.l2.W, self.l2.b)",
    "gumbel": "{v} = F.gumbel_softmax({h}, 0.5)",
    "in train": "{v} = {h}\nif chainer.config.train:\n    {v} = {h} * np.random.rand(4)",
    "draw unused": "np.random.rand(2)\n{v} = F.tanh({h})",
    "draw for later": "{v} = {h} * self.later{k}\nself.later{k} = np.random.rand(4).astype('f')",
}
NUMBERS = {
    "uniform number": "{v} = {h} * np.random.uniform(0.5, 1.5)",
    "randint index": "{v} = {h} * {h}[:, np.random.randint(4)][:, None]",
    "shuffle": "p{k} = np.arange(len({h}))\nnp.random.shuffle(p{k})\n{v} = {h} + {h}[p{k}]",
    "choice": "{v} = {h} * float(np.random.choice([0.5, 1.0, 2.0]))",
    "branch": "{v} = F.tanh({h}) if np.random.rand() < 0.5 else {h} * 1.5",
    "seeded": "np.random.seed(5)\n{v} = {h} * np.random.rand(4).astype({h}.dtype)",
    "random": "{v} = {h} * random.random()",
    "random branch": "{v} = {h} if random.random() < 0.5 else F.sin({h})",
    "random.choice": "{v} = random.choice([F.tanh, F.sin, F.relu])({h})",
    "random.uniform": "{v} = {h} * random.uniform(0.9, 1.1)",
    "random.gauss": "{v} = {h} + random.gauss(0, 0.1)",
    "random.shuffle": "o{k} = [0, 1, 2, 3]\nrandom.shuffle(o{k})\n{v} = {h}[:, o{k}]",
    "random.sample": "{v} = {h} * {h}[:, random.sample(range(4), 4)]",
}
#: Where a generator may lie: (head, closure, init), how it is reached.
PLACES = {
    "link": ("", "", "self.rng{k} = {new}", "self.rng{k}", "net.rng{k}"),
    "dict of a link": ("", "", "self.o{k} = {{'g': {new}}}", "self.o{k}['g']", "net.o{k}['g']"),
    "object of a link": ("", "", "self.b{k} = Box(g={new})", "self.b{k}.g", "net.b{k}.g"),
    "closure": ("G{k} = []", "g{k} = {new}\nG{k}.append(g{k})", "", "g{k}", "G{k}[0]"),
    "global": ("G{k} = {new}", "", "", "G{k}", "G{k}"),
    "global dict": ("G{k} = {{'g': {new}}}", "", "", "G{k}['g']", "G{k}['g']"),
    "class": ("class C{k}:\n    g = {new}", "", "", "C{k}.g", "C{k}.g"),
}
KINDS = {
    "RandomState": ("np.random.RandomState(3)", "{g}.rand(*{h}.shape)", "{g}.get_state()[1:]"),
    "default_rng": ("np.random.default_rng(3)", "{g}.random({h}.shape)", "{g}.bit_generator.state"),
    "normal": ("np.random.default_rng(3)", "{g}.normal(size=4)", "{g}.bit_generator.state"),
    "number": ("np.random.RandomState(3)", "np.full(4, {g}.uniform())", "{g}.get_state()[1:]"),
    "Random": ("random.Random(3)", "np.full(4, {g}.random())", "{g}.getstate()"),
    "bound": ("random.Random(3).random", "np.full(4, {g}())", "{g}.__self__.getstate()"),
}


def _own(kind: str, place: str) -> Hazard:
    new, draw, state = KINDS[kind]
    head, closure, init, inside, outside = PLACES[place]
    head, closure, init = (text.replace("{new}", new) for text in (head, closure, init))
    drawn = draw.replace("{g}", inside)
    return Hazard(
        f"{kind} in {place}",
        body=f"{{v}} = {{h}} * ({drawn}).astype({{h}}.dtype)",
        head=head,
        closure=closure,
        init=init,
        see=f"digest({state.replace('{g}', outside)})",
        dynamic=True,
    )


HAZARDS = [
    Hazard(name, body, init="self.later{k} = np.ones(4, 'f')" if "later{k}" in body else "")
    for name, body in ARRAYS.items()
]
HAZARDS += [
    *(Hazard(name, body, dynamic=True) for name, body in NUMBERS.items()),
    Hazard(
        "name of random",
        body="{v} = {h} * random_number() + draw_array(4).astype({h}.dtype)",
        head="from random import random as random_number\n"
        "from numpy.random import rand as draw_array",
    ),
    Hazard(
        "array by name",
        body="{v} = {h} + draw_array(*{h}.shape).astype({h}.dtype)",
        head="from numpy.random import rand as draw_array",
    ),
    *(_own(kind, place) for kind in KINDS for place in PLACES),
]
