"""Values that leave the arrays of a call, and what is done with them."""

from __future__ import annotations

from .hazard import Hazard

#: Expressions that give a number.
READS = {
    "item": "{h}.array.mean().item()",
    "Variable.item": "F.mean({h}).item()",
    "float": "float({h}.array[0, 0])",
    "float of input": "float({raw}[0, 0])",
    "scalar of array": "{h}.array[0, 0]",
    "numpy scalar": "np.float32({h}.array.sum())",
    "dtype.type": "{h}.dtype.type({h}.array[0, 1])",
    "max of flat": "max({h}.array.flat)",
    "iterator of flat": "next(iter({raw}.flat))",
    "memoryview": "float(memoryview(np.ascontiguousarray({h}.array))[0, 1])",
    "tolist": "{h}.array.tolist()[0][2]",
    "text": "float(str({h}.array[0, 0]))",
    "format": "float('%.6f' % {h}.array[0, 0])",
    "f-string": "float(f'{{{h}.array[0, 3]:.5f}}')",
    "sum of a row": "sum({h}.array[0])",
    "comprehension": "min(v for row in {h}.array for v in row)",
    "fromiter": "np.fromiter({h}.array.flat, 'd').mean()",
    "frombuffer": "np.frombuffer({h}.array.tobytes(), {h}.dtype)[1]",
    "pickle": "pickle.loads(pickle.dumps({h}.array))[0, 0]",
    "deepcopy": "copy.deepcopy({h}.array)[0, 0]",
    "fmean": "statistics.fmean({h}.array[0].tolist())",
    "math": "math.tanh({h}.array[0, 0])",
    "reduce": "functools.reduce(operator.add, {h}.array[0])",
    "norm": "np.linalg.norm({h}.array)",
    "argmax": "int({h}.array.argmax())",
    "count": "int((({h}.array) > 0).sum())",
    "nonzero": "len(np.nonzero({raw} > 0)[0])",
    "nditer": "sum(float(v) for v in np.nditer({h}.array))",
    "json": "json.loads(json.dumps({h}.array.tolist()))[0][0]",
    "struct": "struct.unpack('f', struct.pack('f', {h}.array[0, 2]))[0]",
    "sorted": "sorted({h}.array[0])[1]",
    "complex": "complex({h}.array[0, 0]).real",
    "round": "round(float({h}.array[0, 1]), 3)",
    "index": "operator.index({h}.array.argmin())",
    "data": "{h}.data[0, 0]",
    "unique": "len(np.unique({raw}.round(1)))",
    "any": "bool(({raw} > 1).any())",
    "isfinite": "np.isfinite({h}.array).all() * 0.5",
    "size": "{h}.array.size * 0.1",
    "std": "{h}.array.std()",
    "divmod": "divmod({h}.array[0, 0], 0.7)[1]",
    "array of floats": "np.array([float(v) for v in {h}.array[0]]).mean()",
    "lexical": "len(repr(round(float({raw}[0, 0]), 2)))",
}
#: What is made of a number `s`.
USES = {
    "factor": "{v} = {h} * float(np.tanh(s))",
    "plain factor": "{v} = F.tanh({h} * s)",
    "branch": "{v} = {h} * 2 if s > 0.1 else F.sin({h})",
    "bool": "{v} = -{h} if bool(s > 0) else {h}",
    "loop": "{v} = {h}\nfor _ in range(int(abs(s) * 3) % 3):\n    {v} = F.tanh({v}) + 0.5",
    "index": "j{k} = int(abs(s) * 10) % 4\n{v} = {h} * {h}[:, j{k} : j{k} + 1]",
    "clip": "{v} = {h} * min(max(s, -0.5), 0.5)",
    "where": "{v} = F.where(np.full({h}.shape, s > 0), {h}, F.cos({h}))",
    "key": "{v} = {{True: F.sin, False: F.tanh}}[bool(s > 0)]({h})",
    "filled": "{v} = {h} + np.full({h}.shape, s * 0.1, {h}.dtype)",
    "attribute": "self.leaked{k} = s\n{v} = {h} * 0.9",
    "read later": "{v} = {h} * float(np.tanh(self.leaked{k}))\nself.leaked{k} = s",
    "pow": "{v} = F.tanh({h} ** (1 + int(abs(s) * 7) % 2))",
    "while": "n{k}, {v} = abs(s) % 3, {h}\nwhile n{k} > 1:\n    n{k}, {v} = n{k} - 1, F.sin({v})",
    "nothing": "{v} = F.tanh({h})",
    "in a test only": "if s > 1e9:\n    raise ValueError(s)\n{v} = {h} * 1.1",
}

HAZARDS = [
    Hazard(
        f"{read} as {use}",
        body=f"s = {expression}\n{statement}",
        init="self.leaked{k} = 0.5" if "leaked" in statement else "",
        see="float(net.leaked{k})" if "leaked" in statement else "",
        dynamic=True,
    )
    for read, expression in READS.items()
    for use, statement in USES.items()
]
