"""Python values made from arrays in forward."""

import array
import collections
import copy
import decimal
import fractions
import heapq
import json
import pickle
import statistics
import struct

import chainer
import chainer.functions as F
import numpy as np

from tests.leaks.programs._kit import Embedding, forward, function, labelled, loss, table, words

CACHE = {}
SEEN = set()
BEST = float("inf")

table(
    globals(),
    forward,
    {
        "float_mean": lambda self, x: self.net(x) * float(x.mean()),
        "int_sum": lambda self, x: self.net(x) * int(x.sum()),
        "bool_any": lambda self, x: self.net(x) * bool((x > 2).any()),
        "item": lambda self, x: self.net(x) * x[0, 0].item(),
        "item_index": lambda self, x: self.net(x) * x.item(3),
        "item_pair": lambda self, x: self.net(x) * x.item((1, 2)),
        "tolist_sum": lambda self, x: self.net(x) * sum(x[0].tolist()),
        "tolist_max": lambda self, x: self.net(x) * max(x[:, 0].tolist()),
        "max_of_array": lambda self, x: self.net(x) * max(x[:, 0]),
        "min_of_two": lambda self, x: self.net(x) * min(x[0, 0], 0.5),
        "max_of_float": lambda self, x: self.net(x) / max(1.0, x.sum()),
        "sorted_array": lambda self, x: self.net(x) * sorted(x[:, 0])[0],
        "abs_scalar": lambda self, x: self.net(x) * abs(x[0, 0]),
        "round_scalar": lambda self, x: self.net(x) * round(float(x[0, 0]), 1),
        "if_positive": lambda self, x: self.net(x) if x[0, 0] > 0 else -self.net(x),
        "if_array_size": lambda self, x: self.net(x) if x.size > 20 else -self.net(x),
        "ternary_sum": lambda self, x: self.net(x) * (2 if x.sum() > 0 else 3),
        "and_or": lambda self, x: self.net(x) * ((x[0, 0] > 0 and 2) or 3),
        "not": lambda self, x: self.net(x) * (not x[0, 0] > 0),
        "chained_compare": lambda self, x: self.net(x) * (-0.5 < x[0, 0] < 0.5),
        "in_list": lambda self, x: self.net(x) * (int(x[0].argmax()) in (0, 2)),
        "in_array": lambda self, x: self.net(x) * (2 in x.argmax(1)),
        "format": lambda self, x: self.net(x) * len(f"{x[0, 0]:.2f}"),
        "str": lambda self, x: self.net(x) * len(str(x[0, 0])),
        "repr_array": lambda self, x: self.net(x) * len(repr(x)),
        "percent_format": lambda self, x: self.net(x) * float(format(x[0, 0], ".1f")),
        "json_loads": lambda self, x: self.net(x) * json.loads(json.dumps(x[0].tolist()))[0],
        "decimal": lambda self, x: (
            self.net(x) * float(decimal.Decimal(float(x[0, 0])).quantize(decimal.Decimal("0.1")))
        ),
        "range_of_value": lambda self, x: sum(self.net(x) for _ in range(1 + int(x[0, 0] > 0))),
        "index_as_int": lambda self, x: self.net(x)[:, x[0, :3].argmax()],
        "list_by_argmax": lambda self, x: [F.tanh, F.relu, F.sigmoid, F.exp][x[0].argmax()](
            self.net(x)
        ),
        "dict_by_bool": lambda self, x: {True: F.tanh, False: F.relu}[bool(x[0, 0] > 0)](
            self.net(x)
        ),
        "hash_of_bytes": lambda self, x: self.net(x) * (x.tobytes()[0] % 5),
        "unpack_row": lambda self, x: (lambda a, b, c, d: self.net(x) * a)(*x[0]),
        "unpack_rows": lambda self, x: (lambda a, b, *rest: self.net(a[None] + b[None]))(*x),
        "star_tolist": lambda self, x: self.net(x) * max(*x[0].tolist()),
        "sum_generator": lambda self, x: self.net(x) * sum(v > 0 for v in x[:, 0]),
        "any_builtin": lambda self, x: self.net(x) * any(v > 1 for v in x[:, 0]),
        "all_builtin": lambda self, x: self.net(x) * all(x[:, 0] > -1),
        "filter_builtin": lambda self, x: self.net(
            np.stack(list(filter(lambda r: r[0] > 0, x)) or [x[0]])
        ),
        "counter": lambda self, x: (
            self.net(x) * collections.Counter(x.argmax(1).tolist()).most_common(1)[0][1]
        ),
        "set_size": lambda self, x: self.net(x) * len(set(x.argmax(1))),
        "enumerate_if": lambda self, x: self.net(x) * sum(i for i, r in enumerate(x) if r[0] > 0),
        "while_loop": lambda self, x: _halve(self.net(x)),
        "complex_value": lambda self, x: self.net(x) * complex(x[0, 0], 1).imag,
        "index_dunder": lambda self, x: self.net(x) * [1, 2, 3, 4][x[1].argmin()],
        "float_of_loss": lambda self, x: (lambda y: y * float(F.sum(y).array))(self.net(x)),
        "float_of_variable_data": lambda self, x: (lambda y: y * float(F.max(y).data))(self.net(x)),
        "if_hidden": lambda self, x: (lambda y: y if F.sum(y).array > 0 else -y)(self.net(x)),
        "if_hidden_any": lambda self, x: (lambda y: y if (y.array > 0.7).any() else -y)(
            self.net(x)
        ),
        "np_float32_keep": lambda self, x: (lambda s: self.net(x) * s)(x.mean(dtype="f")),
        "np_scalar_arith": lambda self, x: (lambda s: self.net(x) * (s * 2 + 1) / (abs(s) + 1))(
            x.mean()
        ),
        "np_scalar_as_power": lambda self, x: self.net(x) ** 2 * np.float32(2) ** x[0, 0],
        "np_scalar_into_F": lambda self, x: F.clip(self.net(x), -abs(float(x[0, 0])), 1.0),
        "scalar_as_dropout": lambda self, x: F.dropout(self.net(x), float(abs(x[0, 0]) % 0.5)),
        "scalar_as_slope": lambda self, x: F.leaky_relu(self.net(x), slope=float(x[0, 0])),
        "scalar_as_size": lambda self, x: F.broadcast_to(
            F.sum(self.net(x)), (1 + int(x[0].argmax()),)
        ),
        "scalar_as_axis": lambda self, x: F.sum(self.net(x), axis=int(x[0, 0] > 0)),
        "scalar_as_k": lambda self, x: F.get_item(
            self.net(x), slice(0, 1 + int(x[0].argmax() > 1))
        ),
        "scalar_np_as_slope": lambda self, x: F.leaky_relu(self.net(x), slope=x[0, 0]),
        "float_subclass": lambda self, x: self.net(x) * np.float64(x.astype("d").mean()),
        "try_int": lambda self, x: self.net(x) * int(str(int(x[0, 0] * 10))),
        "divide_zero_guard": lambda self, x: self.net(x) / (x.mean() or 1.0),
        "is_finite": lambda self, x: self.net(x) if np.isfinite(self.net(x).array).all() else None,
        "nan_check": lambda self, x: self.net(x) * (0 if np.isnan(x.sum()) else 1),
        "first_positive": lambda self, x: (
            self.net(x) * next((i for i, v in enumerate(x[:, 0]) if v > 0), 9)
        ),
        "bisect": lambda self, x: self.net(x) * np.searchsorted([-1, 0, 1], float(x[0, 0])),
        "argmax_tuple": lambda self, x: self.net(x) * sum(divmod(int(x.argmax()), 4)),
        "zip_dict": lambda self, x: self.net(x) * dict(zip("abcd", x[0], strict=True))["b"],
        "namedtuple": lambda self, x: self.net(x) * POINT(*x[0, :2]).b,
        "memory_view": lambda self, x: self.net(x) * memoryview(x.copy())[0, 0],
        "array_interface": lambda self, x: (
            self.net(x) * np.asarray(memoryview(np.ascontiguousarray(x)))[0, 1]
        ),
        "ctypes": lambda self, x: self.net(x) * (x.ctypes.data == x.ctypes.data),
        "dump_pickle": lambda self, x: self.net(pickle.loads(pickle.dumps(x))),
        "deepcopy_array": lambda self, x: self.net(copy.deepcopy(x)),
        "struct_pack": lambda self, x: (
            self.net(x) * struct.unpack("f", struct.pack("f", x[0, 0]))[0]
        ),
        "array_module": lambda self, x: self.net(x) * array.array("f", x[0])[1],
        "statistics_median": lambda self, x: self.net(x) * statistics.median(x[0].tolist()),
        "fractions": lambda self, x: (
            self.net(x) * float(fractions.Fraction(float(x[0, 0])).limit_denominator(4))
        ),
        "heapq": lambda self, x: self.net(x) * heapq.nlargest(2, x[:, 0])[1],
        "str_join": lambda self, x: self.net(x) * len(",".join(map(str, x.argmax(1)))),
        "eval_expression": lambda self, x: self.net(x) * eval("float(x[0, 0])", {"x": x}),
        "numpy_str": lambda self, x: self.net(x) * len(np.array2string(x)),
        "array_str_format": lambda self, x: (
            self.net(x) * float(np.format_float_positional(x[0, 0], 2))
        ),
        "char_of_int": lambda self, x: self.net(x) * ord(chr(97 + x[0].argmax())),
        "match_value": lambda self, x: self.net(x) * _match(int(x[0].argmax())),
    },
)

POINT = collections.namedtuple("POINT", "a b")


def _match(i):
    match i:
        case 0:
            return 1.0
        case 1 | 2:
            return 2.0
        case _:
            return 3.0


def _halve(y):
    while abs(y.array).max() > 0.4:
        y = y / 2
    return y


table(
    globals(),
    function,
    {
        "fn_clip_norm": lambda x: x / max(1.0, float(F.sqrt(F.sum(F.square(x))).array)),
        "fn_result_float": lambda x: F.sum(x).array.item(),
        "fn_result_list": lambda x: F.sum(F.relu(x), axis=1).array.tolist(),
        "fn_result_string": lambda x: "pos" if x.sum() > 0 else "neg",
        "fn_result_index": lambda x: int(F.sum(F.relu(x), axis=1).array.argmax()),
        "fn_result_np_int": lambda x: x.sum(1).argmax(),
        "fn_result_counts": lambda x: {"positive": int((x > 0).sum()), "y": F.relu(x)},
        "fn_result_tuple_bool": lambda x: (F.relu(x), bool(x[0, 0] > 0)),
        "fn_result_np_float": lambda x: np.float32(F.sum(x).array),
        "fn_result_shape_of_mask": lambda x: x[x > 0].shape,
        "fn_result_len_of_mask": lambda x: len(x[x[:, 0] > 0]),
        "fn_result_nbytes": lambda x: (x.nbytes, x.dtype.name, x.flags.c_contiguous),
        "fn_result_0d": lambda x: np.array(x.sum()),
        "fn_result_max_of_variable": lambda x: max(F.sum(x, axis=1).array),
    },
)


@forward
def p_adaptive_slope(self, x):
    h = self.l1(x)
    slope = 0.1 if float(F.mean(h).array) > 0 else 0.3
    return self.l2(F.leaky_relu(h, slope=slope))


@forward
def p_cache_by_key(self, x):
    key = len(x)
    if key not in CACHE:
        CACHE[key] = np.linspace(0, 1, key, dtype="f")[:, None]
    return self.net(x * CACHE[key])


@forward
def p_cache_by_content(self, x):
    key = x.tobytes()
    if key not in CACHE:
        CACHE[key] = float(x.sum())
    return self.net(x) * CACHE[key]


@forward
def p_seen_set(self, x):
    SEEN.add(int(x[0].argmax()))
    return self.net(x) * len(SEEN)


@forward
def p_global_best(self, x):
    global BEST
    y = self.net(x)
    BEST = min(BEST, float(F.sum(y).array))
    return y


@forward(best=1e9)
def p_best_attribute(self, x):
    y = self.net(x)
    value = float(F.mean_squared_error(y, np.zeros_like(y.array)).array)
    if value < self.best:
        self.best = value
    return y


@forward(inputs=labelled)
def p_class_of_first_label(self, x, t):
    return self.net(x) if t[0] == 1 else self.net(-x)


@forward(inputs=labelled)
def p_count_labels(self, x, t):
    return self.net(x) / np.sum(t == 1).clip(1)


@forward(inputs=labelled)
def p_python_accuracy(self, x, t):
    y = self.net(x)
    hits = sum(int(a == b) for a, b in zip(y.array.argmax(1), t, strict=True))
    return y, hits / len(t)


@forward(inputs=labelled)
def p_weights_from_counts(self, x, t):
    counts = collections.Counter(t.tolist())
    w = np.array([1 / counts[int(i)] for i in t], "f")
    return self.net(x) * w[:, None]


@forward(inputs=words, net=Embedding)
def p_lengths_list(self, x):
    lengths = [int((row >= 0).sum()) for row in x]
    return F.concat(
        [F.sum(self.out(self.embed(r[:n])), 0)[None] for r, n in zip(x, lengths, strict=True)], 0
    )


@forward(inputs=words, net=Embedding)
def p_max_length_cut(self, x):
    n = int((x >= 0).sum(1).max())
    return self.out(F.sum(self.embed(x[:, :n]), axis=1))


@forward(inputs=words, net=Embedding)
def p_until_end(self, x):
    h = self.embed(x[:, 0])
    for i in range(1, 5):
        if (x[:, i] == -1).all():
            break
        h = h + self.embed(x[:, i])
    return self.out(h)


@forward(inputs=words, net=Embedding)
def p_words_with_numbers(self, x):
    table = {i: 0.1 * i for i in range(10)}
    scale = np.array([[table.get(int(w), 0.0) for w in row] for row in x], "f")
    return self.out(F.sum(self.embed(x) * scale[:, :, None], axis=1))


@loss
def p_skip_small_loss(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    if value.array < 1.1:
        return value * 0
    return value


@loss
def p_scaled_by_own_value(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    return value / float(value.array)


@loss
def p_detached_scale(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    return value / value.array


@loss
def p_report_python_float(self, x, t):
    value = F.softmax_cross_entropy(self.net(x), t)
    chainer.report({"loss": float(value.array), "n": len(x)}, self)
    return value


@loss
def p_report_accuracy_numpy(self, x, t):
    y = self.net(x)
    chainer.report({"acc": (y.array.argmax(1) == t).mean()}, self)
    return F.softmax_cross_entropy(y, t)


@loss
def p_report_conditional(self, x, t):
    y = self.net(x)
    if (t == 2).any():
        chainer.report({"third": F.mean(y[:, 2])}, self)
    return F.softmax_cross_entropy(y, t)


@loss
def p_balance_two_losses(self, x, t):
    y = self.net(x)
    a, b = F.softmax_cross_entropy(y, t), F.sum(y**2)
    w = a.array / (a.array + b.array)
    return w * a + (1 - w) * b


@loss
def p_topk_hard(self, x, t):
    e = F.softmax_cross_entropy(self.net(x), t, reduce="no")
    k = max(1, len(t) // 2)
    return F.mean(e[np.argsort(e.array)[-k:]])


@loss
def p_topk_hard_list(self, x, t):
    e = F.softmax_cross_entropy(self.net(x), t, reduce="no")
    worst = sorted(range(len(t)), key=lambda i: -float(e.array[i]))[:2]
    return F.mean(F.stack([e[i] for i in worst]))
