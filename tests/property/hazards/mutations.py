"""What changes under a call: arguments, parameters, what it reads from outside, settings."""

from __future__ import annotations

import dataclasses

from .hazard import Hazard

#: Inside of the call.
INSIDE = [
    Hazard("result in place", "{h}.array[...] *= 0.5\n{v} = F.tanh({h})"),
    Hazard("argument in place", "{raw}[0] = 0.25\n{v} = {h} + {raw}"),
    Hazard("new array in place", "a{k} = {raw} * 2\na{k}[0] = 1\n{v} = {h} + a{k}"),
    Hazard("zeros in place", "a{k} = np.zeros_like({raw})\na{k}[:, 1] = 1\n{v} = {h} * a{k}"),
    Hazard("zeros filled", "a{k} = np.zeros_like({raw})\na{k} += {h}.array\n{v} = {h} * a{k}"),
    Hazard("copy in place", "a{k} = {h}.array.copy()\na{k}[a{k} < 0] = 0\n{v} = {h} + a{k}"),
    Hazard(
        "view in place",
        "a{k} = {raw} * 2\nb{k} = a{k}[:, 1:]\nb{k} += a{k}[:, :-1]\n{v} = {h} + a{k} * b{k}.sum()",
    ),
    Hazard(
        "rows by index in place",
        "a{k} = {h}.array.copy()\na{k}[[0, 1]] = a{k}[[1, 0]]\na{k}.T[0] *= 3\n{v} = {h} * a{k}",
    ),
    Hazard(
        "taken and written",
        "a{k} = {raw} + 1\nu{k} = {h} + a{k}\na{k}[0] = 0\n{v} = u{k} - a{k}",
    ),
    Hazard(
        "kept and written",
        "a{k} = {raw} + 1\nu{k} = {h} * a{k}\na{k}[0] = 0\n{v} = u{k} - a{k}",
    ),
    Hazard(
        "result without graph in place",
        "with chainer.no_backprop_mode():\n    u{k} = F.sin({h})\n"
        "u{k}.array[u{k}.array > 0.5] = 0\n{v} = {h} * u{k}.array",
    ),
    Hazard(
        "added at",
        "a{k} = np.zeros({raw}.shape, DTYPE)\nnp.add.at(a{k}, [0, 0], {h}.array[:2])\n"
        "{v} = {h} + a{k}",
    ),
    Hazard("clip out", "a{k} = {h}.array.copy()\nnp.clip(a{k}, -1, 1, out=a{k})\n{v} = {h} + a{k}"),
    Hazard(
        "global in place",
        "global A{k}\nA{k} += 0.1\n{v} = {h} + A{k}",
        "A{k} = np.ones(4, DTYPE)",
        see="A{k}",
    ),
    Hazard("Variable augmented", "{v} = {h} * 1\n{v} += {h}\n{v} *= 0.5"),
    Hazard("sorted", "a{k} = {h}.array.copy()\na{k}.sort(axis=1)\n{v} = {h} + a{k}"),
    Hazard("item of a list", "l{k} = [{h}, {h} * 2]\nl{k}[0] = F.sin(l{k}[1])\n{v} = sum(l{k})"),
    Hazard(
        "unchained", "u{k} = F.sin({h})\nu{k}.unchain_backward()\n{v} = F.tanh({h} * 0.5) + u{k}"
    ),
    Hazard(
        "array replaced", "u{k} = F.sin({h})\nu{k}.array = {h}.array * 2\n{v} = F.tanh(u{k}) + {h}"
    ),
    Hazard(
        "config inside",
        "with chainer.using_config('train', False):\n    {v} = F.dropout({h}) * 0.5",
    ),
    Hazard(
        "no backprop inside",
        "with chainer.no_backprop_mode():\n    u{k} = F.sin({h})\n{v} = {h} * u{k}",
    ),
    Hazard(
        "gradient inside",
        "{v} = {h}\n"
        "if chainer.config.enable_backprop:\n"
        "    (g{k},) = chainer.grad([F.sum({h} * {h})], [{h}])\n"
        "    {v} = {h} + F.tanh(g{k})",
    ),
    Hazard(
        "batch norm",
        "{v} = self.n{k}(F.tanh({h}) + {h} ** 2)",
        init="with self.init_scope():\n    self.n{k} = L.BatchNormalization(4)",
    ),
    Hazard(
        "lstm",
        "{v} = self.n{k}({h})",
        init="with self.init_scope():\n    self.n{k} = L.LSTM(4, 4)",
        before="if i % 4 == 0:\n    net.n{k}.reset_state()",
    ),
    Hazard(
        "lazy",
        "{v} = self.n{k}({h})",
        init="with self.init_scope():\n    self.n{k} = L.Linear(None, 4)",
    ),
]
#: Between calls: what the call reads changes.
OUTSIDE = [
    Hazard(
        "global array in place",
        "{v} = {h} * A{k}",
        "A{k} = np.ones(4, DTYPE)",
        before="A{k}[i % 4] += 0.5",
    ),
    Hazard(
        "global array anew",
        "{v} = {h} * A{k}",
        "A{k} = np.ones(4, DTYPE)",
        before="global A{k}\nA{k} = A{k} * 0.9",
    ),
    Hazard(
        "global number",
        "{v} = {h} * N{k}",
        "N{k} = 1.0",
        before="global N{k}\nN{k} = 1.0 + 0.1 * (i % 3)",
    ),
    Hazard(
        "global int",
        "for _ in range(N{k}):\n    {h} = F.tanh({h})\n{v} = {h} + 1",
        "N{k} = 1",
        before="global N{k}\nN{k} = 1 + i // 3",
    ),
    Hazard(
        "dict entry",
        "{v} = {h} * D{k}['scale']",
        "D{k} = {{'scale': 1.0}}",
        before="D{k}['scale'] = 1.0 + (i // 2) * 0.5",
    ),
    Hazard(
        "dict array",
        "{v} = {h} * D{k}['a']",
        "D{k} = {{'a': np.ones(4, DTYPE)}}",
        before="D{k}['a'] = D{k}['a'] * 1.1",
    ),
    Hazard(
        "dict array in place",
        "{v} = {h} * D{k}['a']",
        "D{k} = {{'a': np.ones(4, DTYPE)}}",
        before="D{k}['a'] *= 1.1",
    ),
    Hazard(
        "dict Variable",
        "{v} = {h} * D{k}['a']",
        "D{k} = {{'a': chainer.Variable(np.ones(4, DTYPE))}}",
        before="D{k}['a'].cleargrad()\nD{k}['a'].array = D{k}['a'].array * 1.1",
        see="D{k}['a'].grad",
    ),
    Hazard(
        "global Variable",
        "{v} = {h} * V{k}",
        "V{k} = chainer.Variable(np.ones(4, DTYPE))",
        see="(V{k}, V{k}.grad)",
    ),
    Hazard(
        "class attribute",
        "{v} = {h} * C{k}.scale",
        "class C{k}:\n    scale = 1.0",
        before="C{k}.scale = 1.0 + (i // 2) * 0.5",
    ),
    Hazard(
        "class array",
        "{v} = {h} * C{k}.a",
        "class C{k}:\n    a = np.ones(4, DTYPE)",
        before="C{k}.a = C{k}.a * 1.1",
    ),
    Hazard(
        "class of a base",
        "{v} = {h} * E{k}.scale",
        "class C{k}:\n    scale = 1.0\n\n\nclass E{k}(C{k}):\n    pass",
        before="C{k}.scale = 1.0 + (i // 3) * 0.5",
    ),
    Hazard(
        "own class",
        "{v} = {h} * self.scale{k}",
        closure="",
        before="type(net).scale{k} = 1.0 + (i // 3) * 0.5",
    ),
    Hazard(
        "instance attribute",
        "{v} = {h} * self.beta{k}",
        init="self.beta{k} = 1.0",
        before="net.beta{k} = 1.0 + 0.1 * i",
    ),
    Hazard(
        "string attribute",
        "{v} = F.tanh({h}) if self.m{k} == 'a' else F.sin({h})",
        init="self.m{k} = 'a'",
        before="net.m{k} = 'aab'[i % 3]",
    ),
    Hazard(
        "function attribute",
        "{v} = self.f{k}({h})",
        init="self.f{k} = F.tanh",
        before="net.f{k} = (F.tanh, F.tanh, F.sin)[i % 3]",
    ),
    Hazard(
        "global function",
        "{v} = f{k}({h})",
        "def f{k}(h):\n    return F.tanh(h)",
        before="global f{k}\nif i == 4:\n    f{k} = F.sin",
    ),
    Hazard(
        "method on class",
        "{v} = self.act{k}({h})",
        before="if i % 4 == 0:\n"
        "    type(net).act{k} = [lambda self, h: F.tanh(h), lambda self, h: F.sin(h)][i // 4]",
    ),
    Hazard(
        "object attribute",
        "{v} = {h} * O{k}.scale",
        "O{k} = Box(scale=1.0)",
        before="O{k}.scale = 1.0 + (i // 2) * 0.5",
    ),
    Hazard(
        "object array",
        "{v} = {h} * O{k}.a",
        "O{k} = Box(a=np.ones(4, DTYPE))",
        before="O{k}.a = O{k}.a + 0.1",
    ),
    Hazard(
        "nested",
        "{v} = {h} * O{k}.a['b'][0]",
        "O{k} = Box(a={{'b': [1.0]}})",
        before="O{k}.a['b'][0] = 1.0 + (i // 3) * 0.5",
    ),
    Hazard(
        "list grows",
        "{v} = {h} * len(L{k}) * sum(L{k})",
        "L{k} = [0.5]",
        before="if i % 3 == 2:\n    L{k}.append(0.1)",
    ),
    Hazard(
        "list of functions",
        "{v} = {h}\nfor f in L{k}:\n    {v} = f({v})",
        "L{k} = [F.tanh]",
        before="if i == 3:\n    L{k}.append(F.sin)",
    ),
    Hazard(
        "module attribute",
        "{v} = {h} * M{k}.scale",
        "M{k} = types.ModuleType('tools')\nM{k}.scale = 1.0",
        before="M{k}.scale = 1.0 + (i // 3)",
    ),
    Hazard(
        "default argument",
        "{v} = f{k}({h})",
        "def f{k}(h, s=[1.0]):\n    return h * s[0]",
        before="f{k}.__defaults__[0][0] = 1.0 + (i // 3)",
    ),
    Hazard(
        "closure number",
        "{v} = {h} * s{k}",
        "G{k} = []",
        "s{k} = 1.0\n"
        "\n"
        "\n"
        "def to{k}(value):\n"
        "    nonlocal s{k}\n"
        "    s{k} = value\n"
        "\n"
        "\n"
        "G{k}.append(to{k})",
        before="G{k}[0](1.0 + (i // 3))",
    ),
    Hazard(
        "closure array",
        "{v} = {h} * a{k}",
        "G{k} = []",
        "a{k} = np.ones(4, DTYPE)\nG{k}.append(a{k})",
        before="G{k}[0][i % 4] *= 1.2",
    ),
    Hazard(
        "config entry",
        "{v} = {h} * getattr(chainer.config, 'k{k}', 1.0)",
        before="chainer.config.k{k} = 1.0 + (i // 3)",
    ),
    Hazard(
        "train switched", "{v} = F.dropout({h}, 0.2)", before="chainer.config.train = i % 3 != 2"
    ),
    Hazard("parameter in place", before="net.l1.W.array *= 0.95"),
    Hazard("parameter anew", before="net.l2.b.array = net.l2.b.array + 0.1"),
    Hazard("parameter contents", before="net.l1.b.array[...] = 0.1 * i"),
    Hazard("frozen", before="(net.l1.disable_update if i % 4 == 2 else net.l1.enable_update)()"),
    Hazard(
        "link anew",
        before="if i == 4:\n"
        "    del net.l2\n"
        "    with net.init_scope():\n"
        "        net.l2 = L.Linear(4, 4)\n"
        "    optimizer.setup(net)",
    ),
    Hazard("copied parameters", before="if i == 4:\n    net.copyparams(copy.deepcopy(net))"),
    Hazard(
        "persistent",
        "{v} = {h} * self.p{k}",
        init="self.add_persistent('p{k}', np.ones(4, DTYPE))",
        before="net.p{k}[i % 4] += 0.5",
    ),
    Hazard(
        "array attribute",
        "{v} = {h} * self.a{k}",
        init="self.a{k} = np.ones(4, DTYPE)",
        before="net.a{k} = net.a{k} * 1.1",
    ),
    Hazard(
        "array attribute in place",
        "{v} = {h} * self.a{k}",
        init="self.a{k} = np.ones(4, DTYPE)",
        before="net.a{k} *= 1.1",
    ),
    Hazard(
        "array read by numpy",
        "{v} = {h} * np.tanh(self.a{k}).astype({h}.dtype)",
        init="self.a{k} = np.ones(4, DTYPE)",
        before="net.a{k} *= 1.1",
    ),
    Hazard(
        "array read by floats",
        "{v} = {h} * float(self.a{k}[1])",
        init="self.a{k} = np.ones(4, DTYPE)",
        before="net.a{k} *= (1.0, 1.0, 1.5)[i % 3]",
    ),
    Hazard(
        "list of arrays",
        "{v} = {h} * self.a{k}[-1]",
        init="self.a{k} = [np.ones(4, DTYPE)]",
        before="net.a{k}.append(net.a{k}[-1] * 0.9)",
    ),
    Hazard(
        "global mask",
        "{v} = {h} * (A{k} > 0.5).astype({h}.dtype)",
        "A{k} = np.linspace(0, 1, 4)",
        before="np.random.RandomState(i).shuffle(A{k})",
    ),
    Hazard(
        "indices",
        "{v} = {h}[:, A{k}]",
        "A{k} = np.arange(4)",
        before="A{k}[...] = np.roll(A{k}, 1)",
    ),
    Hazard(
        "index list",
        "{v} = {h}[:, L{k}]",
        "L{k} = [0, 1, 2, 3]",
        before="if i % 3 == 0:\n    L{k}.reverse()",
    ),
    Hazard(
        "input kept by user",
        "{v} = {h} + A{k}",
        "A{k} = np.zeros((1, 4), DTYPE)",
        after="A{k}[...] = data.mean(axis=0)",
    ),
    Hazard("rate", before="rate(optimizer, 0.01 * (1 + i))"),
    Hazard("random seeded", "{v} = F.dropout({h}, 0.3)", before="np.random.seed(i // 2)"),
    Hazard("gradient kept", before="if i % 3 == 1:\n    net.cleargrads()\nkeep_grads = i % 3 == 1"),
    Hazard(
        "attribute added",
        "{v} = {h} * getattr(self, 'late{k}', 1.0)",
        before="if i == 3:\n    net.late{k} = 0.5",
    ),
    Hazard(
        "attribute removed",
        "{v} = {h} * (0.5 if hasattr(self, 'e{k}') else 1.0)",
        init="self.e{k} = 1",
        before="if i == 3:\n    del net.e{k}",
    ),
]
#: Between forward and backward, and afterwards.
AFTER = [
    Hazard("input in place before backward", between="data[0] += 1"),
    Hazard("input in place afterwards", after="data[...] = 0"),
    Hazard("parameter before backward", between="net.l1.W.array[0] *= 1.5"),
    Hazard("parameter anew before backward", between="net.l2.W.array = net.l2.W.array * 1.5"),
    Hazard("result in place before backward", between="ys[0].array[...] *= 0.5"),
    Hazard("result in place afterwards", after="ys[0].array[...] = 7"),
    Hazard(
        "state in place before backward",
        "self.kept{k} = F.tanh({h})\n{v} = self.kept{k} * {h}",
        between="net.kept{k}.array[0] *= 2",
    ),
    Hazard(
        "state's gradient",
        "self.kept{k} = F.tanh({h})\n{v} = self.kept{k} * {h}",
        see="net.kept{k}.grad",
    ),
    Hazard(
        "global before backward",
        "{v} = {h} * A{k}",
        "A{k} = np.ones(4, DTYPE)",
        between="A{k}[i % 4] *= 2",
    ),
    Hazard(
        "mask before backward",
        "{v} = F.where(A{k}, {h}, F.sin({h}))",
        "A{k} = np.array([True, False, True, False])",
        between="A{k}[...] = ~A{k}",
    ),
    Hazard("gradient of a result", after="run.see('grad of y', ys[0].grad)"),
    Hazard("gradient set", between="ys[-1].grad = np.full(ys[-1].shape, 0.5, ys[-1].dtype)"),
    Hazard("parameter's gradient set", between="net.l1.b.grad = np.ones(4, DTYPE)"),
    Hazard(
        "kept gradients",
        "{v} = {h} * 1.5",
        "G{k} = []",
        after="G{k}.append(net.l1.W.grad)",
        see="G{k}",
    ),
    Hazard(
        "kept results", "{v} = {h} * 1.5", "G{k} = []", after="G{k}.append(ys[0].array)", see="G{k}"
    ),
    Hazard(
        "earlier result in place",
        "{v} = {h} * 1.5",
        "G{k} = []",
        before="for a in G{k}:\n    a += 1",
        after="G{k}.append(ys[0].array)",
        see="G{k}",
    ),
    Hazard(
        "earlier result goes in",
        "{v} = {h} + A{k}[0]",
        "A{k} = [np.zeros(4, DTYPE)]",
        after="A{k}[0] = ys[0].array.mean(axis=0)",
    ),
    Hazard("result's array replaced", between="ys[0].array = ys[0].array * 2"),
    Hazard(
        "call in between",
        between="with chainer.using_config('train', False), chainer.no_backprop_mode():\n"
        "    run.see('between', call(x))",
    ),
    Hazard("history cut", after="ys[0].unchain_backward()"),
    Hazard("second call", between="run.see('again', call(x))"),
    Hazard(
        "config before backward",
        between="chainer.config.enable_backprop = i % 2 == 0",
        after="chainer.config.enable_backprop = True",
    ),
    Hazard(
        "draw before backward",
        "{v} = F.dropout({h}, 0.4)",
        between="run.see('drawn', np.random.rand(2))",
    ),
    Hazard("cleargrads before backward", between="net.l2.cleargrads()"),
    Hazard("add to gradient", after="net.l1.W.grad[...] += 1"),
    Hazard(
        "state in place afterwards",
        "self.kept{k} = {h}.array\n{v} = {h} + 1",
        after="net.kept{k}[...] = 3",
        see="net.kept{k}",
    ),
    Hazard(
        "state read next",
        "{v} = {h} + self.s{k}\nself.s{k} = F.mean({h}, axis=0).array",
        init="self.s{k} = np.zeros(4, DTYPE)",
        after="net.s{k}[0] = 0.5",
        see="net.s{k}",
    ),
]

#: What makes a call dynamic, most often.
DYNAMIC = {
    "kept and written",
    "result in place",
    "argument in place",
    "global in place",
    "array replaced",
}
DYNAMIC |= {"array read by floats", "global array anew", "dict array", "class array"}
DYNAMIC |= {"object array", "list of arrays", "earlier result goes in"}
HAZARDS = [
    dataclasses.replace(hazard, dynamic=hazard.name in DYNAMIC)
    for hazard in [*INSIDE, *OUTSIDE, *AFTER]
]
