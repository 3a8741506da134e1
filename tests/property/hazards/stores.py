"""What a call leaves behind: on the link, outside of it, in reports."""

from __future__ import annotations

from .hazard import Hazard

#: Things that are stored.
THINGS = {
    "Variable": "{h}",
    "array": "{h}.array",
    "mean": "F.mean({h})",
    "float": "float(F.mean({h}).array)",
    "numpy": "{h}.array.mean(axis=0)",
    "scaled": "{raw} * 2",
    "number": "len({h})",
    "text": "'stored'",
    "pair": "({h}, F.sum({h}))",
    "detached": "chainer.Variable({h}.array)",
    "copy": "{h}.array.copy()",
    "input": "x",
}
#: Places: head, closure, init, statement with {thing}, how it is looked at.
PLACES = {
    "attribute": ("", "", "self.kept{k} = None", "self.kept{k} = {thing}", "net.kept{k}"),
    "setattr": ("", "", "", "setattr(self, 'set{k}', {thing})", "net.set{k}"),
    "child": ("", "", "", "self.l1.kept{k} = {thing}", "net.l1.kept{k}"),
    "dict of link": ("", "", "self.d{k} = {{}}", "self.d{k}['a'] = {thing}", "net.d{k}"),
    "list of link": ("", "", "self.s{k} = []", "self.s{k}.append({thing})", "net.s{k}"),
    "item": ("", "", "self.s{k} = [0, 0]", "self.s{k}[1] = {thing}", "net.s{k}"),
    "last item": ("", "", "self.s{k} = [0, 0]", "self.s{k}[-1] = {thing}", "net.s{k}"),
    "list of child": ("", "", "self.l1.s{k} = []", "self.l1.s{k}.append({thing})", "net.l1.s{k}"),
    "extended list": ("", "", "self.s{k} = []", "self.s{k}.extend([{thing}, 1])", "net.s{k}"),
    "emptied list": (
        "", "", "self.s{k} = []", "self.s{k}.clear()\nself.s{k}.append(({thing}, 2))", "net.s{k}",
    ),
    "deque of link": (
        "", "", "self.q{k} = collections.deque(maxlen=3)", "self.q{k}.appendleft({thing})",
        "list(net.q{k})",
    ),
    "updated dict": ("", "", "self.d{k} = {{}}", "self.d{k}.update({{'a': {thing}}})", "net.d{k}"),
    "row of link": (
        "", "", "self.s{k} = []", "row{k} = {{'a': {thing}, 'n': 1}}\nself.s{k}.append(row{k})",
        "net.s{k}",
    ),
    "object of link": ("", "", "self.o{k} = Box()", "self.o{k}.a = {thing}", "vars(net.o{k})"),
    "global": ("LAST{k} = None", "", "", "global LAST{k}\nLAST{k} = {thing}", "LAST{k}"),
    "global dict": ("D{k} = {{}}", "", "", "D{k}['a'] = {thing}", "D{k}"),
    "global list": ("S{k} = []", "", "", "S{k}.append({thing})", "S{k}"),
    "deque": (
        "Q{k} = collections.deque(maxlen=3)", "", "", "Q{k}.append({thing})", "list(Q{k})",
    ),
    "default dict": (
        "D{k} = collections.defaultdict(list)", "", "", "D{k}['a'].append({thing})", "dict(D{k})",
    ),
    "class": ("class C{k}:\n    last = None", "", "", "C{k}.last = {thing}", "C{k}.last"),
    "class of self": ("", "", "", "type(self).last{k} = {thing}", "type(net).last{k}"),
    "object": ("O{k} = Box()", "", "", "O{k}.last = {thing}", "vars(O{k})"),
    "namespace": (
        "O{k} = types.SimpleNamespace(a=Box())", "", "", "O{k}.a.b = {thing}", "vars(O{k}.a)",
    ),
    "module": ("M{k} = types.ModuleType('tools')", "", "", "M{k}.last = {thing}", "M{k}.last"),
    "function": ("def f{k}():\n    pass", "", "", "f{k}.last = {thing}", "f{k}.last"),
    "by a function": (
        "D{k} = {{}}\n\n\ndef keep{k}(thing):\n    D{k}['a'] = thing\n    return thing",
        "", "", "keep{k}({thing})", "D{k}",
    ),
    "closure": (
        "G{k} = []", "last{k} = None\nG{k}.append(lambda: last{k})", "",
        "nonlocal last{k}\nlast{k} = {thing}", "G{k}[0]()",
    ),
    "list of closure": (
        "G{k} = []", "inner{k} = []\nG{k}.append(inner{k})", "",
        "inner{k}.append({thing})", "G{k}",
    ),
    "on a Variable": ("", "", "", "{h}.attention = {thing}\nself.y{k} = {h}", "net.y{k}.attention"),
    "config": ("", "", "", "chainer.config.k{k} = {thing}", "chainer.config.k{k}"),
}  # fmt: skip
#: What makes a call dynamic, most often.
DYNAMIC = {"float", "object of link", "config"}
DYNAMIC |= {"global dict", "global list", "deque", "default dict", "by a function"}
DYNAMIC |= {"list of closure", "report a float", "best", "running in place", "persistent in place"}
DYNAMIC |= {"counter", "counter that counts", "persistent copyto", "parameter written"}
DYNAMIC |= {"recurrent in a dict", "config read"}
#: Others: (body, init, see).
OTHERS = {
    "report a Variable": ("chainer.report({{'m{k}': F.mean({h})}}, self)", "", ""),
    "report an array": ("chainer.report({{'m{k}': {h}.array.mean()}}, self)", "", ""),
    "report a float": ("chainer.report({{'m{k}': float(F.mean({h}).array)}}, self)", "", ""),
    "report a constant": ("chainer.report({{'m{k}': 3, 'n{k}': self.alpha}}, self)", "", ""),
    "report for a child": ("chainer.report({{'m{k}': F.sum({h})}}, self.l1)", "", ""),
    "report by name": ("chainer.report({{'m{k}': F.max({h})}})", "", ""),
    "report twice": (
        "chainer.report({{'m{k}': F.sum({h})}}, self)\n"
        "chainer.report({{'m{k}': F.mean({h})}}, self)",
        "",
        "",
    ),
    "counter": ("self.n{k} += 1", "self.n{k} = 0", "net.n{k}"),
    "counter that counts": (
        "self.n{k} += 1\n{h} = {h} * (1 / self.n{k})",
        "self.n{k} = 0",
        "net.n{k}",
    ),
    "running array": (
        "self.m{k} = self.m{k} * 0.5 + {h}.array.mean(axis=0)",
        "self.m{k} = np.zeros(4, DTYPE)",
        "net.m{k}",
    ),
    "running in place": (
        "self.m{k} *= 0.5\nself.m{k} += {h}.array.mean(axis=0)",
        "self.m{k} = np.zeros(4, DTYPE)",
        "net.m{k}",
    ),
    "persistent": (
        "self.p{k} = self.p{k} * 0.9 + 0.1 * {h}.array.mean(axis=0)\n{h} = {h} - self.p{k}",
        "self.add_persistent('p{k}', np.zeros(4, DTYPE))",
        "net.p{k}",
    ),
    "persistent in place": (
        "self.p{k}[...] = self.p{k} * 0.9 + 0.1 * {h}.array.mean(axis=0)\n{h} = {h} - self.p{k}",
        "self.add_persistent('p{k}', np.zeros(4, DTYPE))",
        "net.p{k}",
    ),
    "persistent copyto": (
        "np.copyto(self.p{k}, {h}.array.mean(axis=0))",
        "self.add_persistent('p{k}', np.zeros(4, DTYPE))",
        "net.p{k}",
    ),
    "recurrent": (
        "if self.r{k} is not None:\n    {h} = {h} + F.tanh(F.mean(self.r{k}, axis=0))\n"
        "self.r{k} = {h}",
        "self.r{k} = None",
        "net.r{k}",
    ),
    "recurrent detached": (
        "if self.r{k} is not None:\n    {h} = {h} + F.mean(self.r{k}, axis=0)\n"
        "self.r{k} = chainer.Variable(np.tanh({h}.array))",
        "self.r{k} = None",
        "net.r{k}",
    ),
    "recurrent array": (
        "{h} = {h} + self.r{k}.mean(axis=0)\nself.r{k} = np.tanh({h}.array)",
        "self.r{k} = np.zeros((1, 4), DTYPE)",
        "net.r{k}",
    ),
    "recurrent in a dict": (
        "{h} = {h} + self.r{k}['m']\nself.r{k}['m'] = np.tanh({h}.array).mean(axis=0)",
        "self.r{k} = {{'m': np.zeros(4, DTYPE)}}",
        "net.r{k}",
    ),
    "name": ("{h}.name = 'hidden'\nself.y{k} = {h}", "", "net.y{k}.name"),
    "name of number": ("{h}.name = f'h{{len({h})}}'\nself.y{k} = {h}", "", "net.y{k}.name"),
    "first only": (
        "if self.f{k} is None:\n    self.f{k} = {h}.array.copy()",
        "self.f{k} = None",
        "net.f{k}",
    ),
    "best": (
        "s = float(F.mean({h}).array)\nif s > self.best{k}:\n    self.best{k} = s",
        "self.best{k} = -9.0",
        "net.best{k}",
    ),
    "deleted": ("self.t{k} = {h}\n{h} = self.t{k} * 2\ndel self.t{k}", "", "hasattr(net, 't{k}')"),
    "swap": (
        "self.a{k}, self.b{k} = self.b{k}, {h}.array",
        "self.a{k} = self.b{k} = np.ones(4, DTYPE)",
        "(net.a{k}, net.b{k})",
    ),
    "alias": ("self.a{k} = self.b{k} = {h}", "", "(net.a{k}, net.b{k}, net.a{k} is net.b{k})"),
    "cache": (
        "if len({h}) not in self.c{k}:\n    self.c{k}[len({h})] = np.arange(4).astype({h}.dtype)\n"
        "{h} = {h} + self.c{k}[len({h})]",
        "self.c{k} = {{}}",
        "net.c{k}",
    ),
    "parameter written": ("self.l2.b.array[...] = self.l2.b.array * 0.9", "", ""),
    "view stored": ("self.w{k} = {h}.array[:, :2]", "", "net.w{k}"),
    "transposed": ("self.w{k} = {h}.array.T", "", "net.w{k}"),
    "config read": (
        "chainer.config.c{k} = getattr(chainer.config, 'c{k}', 0) + 1",
        "",
        "chainer.config.c{k}",
    ),
}


def _stored(thing: str, place: str) -> Hazard:
    head, closure, init, statement, see = PLACES[place]
    body = statement.replace("{thing}", THINGS[thing]) + "\n{v} = F.tanh({h})"
    dynamic = not DYNAMIC.isdisjoint((thing, place))
    return Hazard(f"{thing} in {place}", body, head, closure, init, see=see, dynamic=dynamic)


def _other(name: str, body: str, init: str, see: str) -> Hazard:
    body += "\n{v} = F.tanh({h})"
    return Hazard(name, body, init=init, see=see, dynamic=name in DYNAMIC)


HAZARDS = [_stored(thing, place) for thing in THINGS for place in PLACES]
HAZARDS += [_other(name, *texts) for name, texts in OTHERS.items()] * 6
