"""NumPy in forward: ways of picking, moving and counting elements."""

import itertools

import chainer.functions as F
import numpy as np

from tests.leaks.programs._kit import Embedding, forward, labelled, table, variables, words

TABLE = np.arange(12, dtype="f").reshape(3, 4)

table(
    globals(),
    forward,
    {
        "sort_rows_by_column": lambda self, x: self.net(x[x[:, 0].argsort()]),
        "reverse": lambda self, x: self.net(x[::-1]),
        "flip_columns": lambda self, x: self.net(x[:, ::-1].copy()),
        "roll": lambda self, x: self.net(np.roll(x, 1, axis=0)),
        "fancy_pairs": lambda self, x: (
            self.net(x) * x[np.arange(len(x)), x.argmax(axis=1)][:, None]
        ),
        "newaxis": lambda self, x: F.sum(self.net(x)[:, None] * x[:, None, :3], axis=2),
        "ellipsis": lambda self, x: self.net(x[..., :]) + x[..., :3],
        "take": lambda self, x: self.net(np.take(x, [0, 2, 1], axis=0)),
        "take_along_axis": lambda self, x: self.net(np.take_along_axis(x, x.argsort(1), axis=1)),
        "sort": lambda self, x: self.net(np.sort(x, axis=1)),
        "sort_then_first": lambda self, x: self.net(np.sort(x, axis=0)[:2]),
        "partition": lambda self, x: self.net(np.partition(x, 2, axis=1)[:, 2:3] + x),
        "argpartition": lambda self, x: self.net(x[np.argpartition(x[:, 1], 1)[:2]]),
        "lexsort": lambda self, x: self.net(x[np.lexsort((x[:, 1], x[:, 0]))]),
        "double_argsort_ranks": lambda self, x: self.net(x.argsort(0).argsort(0).astype("f")),
        "nonzero_rows": lambda self, x: self.net(x[np.nonzero(x[:, 0] > 0)[0]]),
        "where_one_arg": lambda self, x: self.net(x[np.where(x[:, 0] > 0)]),
        "flatnonzero_len": lambda self, x: self.net(x) * len(np.flatnonzero(x > 0)),
        "argwhere": lambda self, x: self.net(x) + np.argwhere(x > 0).sum(),
        "bool_mask": lambda self, x: F.sum(self.net(x)) + x[x > 0].sum(),
        "compress": lambda self, x: self.net(np.compress([True, False, True], x, axis=0)),
        "choose": lambda self, x: (
            self.net(x) * np.choose((x[:, 0] > 0).astype("i"), [1, -1])[:, None]
        ),
        "select": lambda self, x: self.net(
            np.select([x > 1, x < -1], [x * 2, x * 3], 0.0).astype("f")
        ),
        "piecewise": lambda self, x: self.net(np.piecewise(x, [x < 0, x >= 0], [-1, 1])),
        "where_three": lambda self, x: self.net(np.where(x > 0, x, 0.1 * x).astype("f")),
        "diag": lambda self, x: self.net(x) + np.diag(x[:3, :3].dot(x[:3, :3].T)),
        "diagonal_method": lambda self, x: self.net(x) + x[:3, :3].diagonal(),
        "tril": lambda self, x: self.net(np.tril(x)),
        "triu_indices": lambda self, x: self.net(x) + x[:3, :3][np.triu_indices(3)].sum(),
        "unravel": lambda self, x: self.net(x) * np.unravel_index(x.argmax(), x.shape)[1],
        "ravel_pick": lambda self, x: self.net(x) + x.ravel()[5],
        "flat_pick": lambda self, x: self.net(x) + x.flat[3],
        "flat_slice": lambda self, x: self.net(x) + x.flat[2:5],
        "searchsorted": lambda self, x: (
            self.net(x) + np.searchsorted(np.sort(x[:, 0]), [-1.0, 0, 1])
        ),
        "digitize": lambda self, x: self.net(np.digitize(x, [-1, 0, 1]).astype("f")),
        "bincount": lambda self, x: (
            self.net(x) + np.bincount(x.argmax(1), minlength=3)[:3].astype("f")
        ),
        "unique": lambda self, x: self.net(x) + np.unique(x.argmax(1)).size,
        "unique_counts": lambda self, x: self.net(x) * np.unique(x > 0, return_counts=True)[1][-1],
        "histogram": lambda self, x: self.net(x) + np.histogram(x, bins=3)[0].astype("f"),
        "split": lambda self, x: self.l2(self.l1(sum(np.split(x, 3)))),
        "array_split": lambda self, x: self.net(np.array_split(x, 2)[1]),
        "hstack": lambda self, x: self.net(np.hstack([x[:, 2:], x[:, :2]])),
        "vstack_generator": lambda self, x: self.net(np.vstack([r for r in x if r[0] > 0] or [x])),
        "concatenate_rows": lambda self, x: self.net(np.concatenate([r[None] for r in x])),
        "stack_columns": lambda self, x: self.net(np.stack([x[:, i] for i in (3, 1, 0, 2)], 1)),
        "c_": lambda self, x: self.net(np.c_[x[:, :2], x[:, :2]]),
        "r_": lambda self, x: self.net(np.r_[x[:1], x]),
        "ix_": lambda self, x: self.net(x[np.ix_([0, 1], [3, 2, 1, 0])]),
        "repeat": lambda self, x: self.net(np.repeat(x, 2, axis=0)),
        "repeat_counts": lambda self, x: self.net(np.repeat(x, (x[:, 0] > 0) + 1, axis=0)),
        "tile": lambda self, x: self.net(np.tile(x, (2, 1))),
        "pad": lambda self, x: self.net(np.pad(x[:, 1:], ((0, 0), (1, 0)), mode="edge")),
        "broadcast_to": lambda self, x: self.net(np.broadcast_to(x[0], x.shape)),
        "moveaxis": lambda self, x: self.net(np.moveaxis(x[:, None], 2, 1)[..., 0]),
        "as_strided": lambda self, x: self.net(
            np.lib.stride_tricks.as_strided(x, (2, 4), (x.strides[0], x.strides[1]))
        ),
        "sliding_window": lambda self, x: self.net(
            np.lib.stride_tricks.sliding_window_view(x, 2, axis=0).mean(-1)
        ),
        "view_int": lambda self, x: self.net((x.view("i4") & 7).astype("f")),
        "tobytes": lambda self, x: self.net(np.frombuffer(x.tobytes(), "f").reshape(x.shape)),
        "iterate_rows": lambda self, x: F.concat([self.net(r[None]) for r in x], axis=0),
        "zip_rows": lambda self, x: sum(
            F.sum(self.l1(a[None]) * b.sum()) for a, b in itertools.pairwise(x)
        ),
        "enumerate_rows": lambda self, x: sum(
            i * F.sum(self.net(r[None])) for i, r in enumerate(x)
        ),
        "ndenumerate": lambda self, x: (
            self.net(x) + sum(v for (i, j), v in np.ndenumerate(x) if i == j)
        ),
        "nditer": lambda self, x: self.net(x) + sum(float(v) for v in np.nditer(x)),
        "index_by_max": lambda self, x: self.net(x[x.sum(1).argmax()][None]),
        "slice_by_count": lambda self, x: self.net(x[: (x[:, 0] > 0).sum() + 1]),
        "module_table": lambda self, x: self.net(TABLE[x[:, :3].argmax(1)]),
        "literal_table": lambda self, x: self.net(
            np.array([[1, 2, 3, 4], [4, 3, 2, 1]], "f")[(x[:, 0] > 0).astype("i")]
        ),
        "list_table": lambda self, x: self.net(x) * [0.5, 2.0][int(x[0, 0] > 0)],
        "eye_onehot": lambda self, x: self.net(np.eye(4, dtype="f")[x.argmax(1)]),
        "index_with_list_of_ints": lambda self, x: self.net(x[[int(i) for i in x[:, 0].argsort()]]),
        "put_along": lambda self, x: self.net(x) + np.bincount([0, 1, 1], x[:3, 0])[1],
        "trace": lambda self, x: self.net(x) * x.trace(),
        "swapaxes": lambda self, x: self.net(x[:3, :].swapaxes(0, 1).T.copy()),
        "delete": lambda self, x: self.net(np.delete(x, x[:, 0].argmin(), axis=0)),
        "insert": lambda self, x: self.net(np.insert(x, 1, x[0] * 2, axis=0)),
        "append": lambda self, x: self.net(np.append(x, x[:1], axis=0)),
        "isin": lambda self, x: self.net(x) * np.isin(x.argmax(1), [0, 2])[:, None],
        "rot90": lambda self, x: self.net(np.rot90(x[:3, :].T @ x[:3, :])),
        "einsum_outer": lambda self, x: self.net(
            np.einsum("ij,kj->ik", x, TABLE[:, ::-1])[:, [0, 1, 2, 0]]
        ),
        "structured": lambda self, x: self.net(
            np.array([tuple(r) for r in x], dtype="f,f,f,f")["f1"][:, None] + x
        ),
        "record_order": lambda self, x: self.net(x[sorted(range(len(x)), key=lambda i: x[i, 0])]),
    },
)

table(
    globals(),
    forward,
    {
        "variable_getitem": lambda self, x: self.net(x[::2]),
        "variable_by_array_argmax": lambda self, x: self.net(x)[:, int(x.array.sum() > 0)],
        "variable_fancy": lambda self, x: self.net(x[x.array[:, 0].argsort()]),
        "variable_get_item_mask": lambda self, x: self.net(x)[x.array[:, 0] > 0],
        "variable_iter": lambda self, x: F.stack([self.l1(r[None])[0] for r in x]),
        "variable_T": lambda self, x: self.net(x.T.T) + F.sum(x.T[0]),
        "variable_reshape_star": lambda self, x: self.net(x.reshape(2, -1).reshape(-1, 4)),
        "variable_len": lambda self, x: self.net(x) / len(x),
        "variable_size": lambda self, x: self.net(x) / x.size * x.ndim,
        "variable_data": lambda self, x: self.net(x.data * 2),
        "variable_item_of_array": lambda self, x: self.net(x) * x.array[0, 0],
    },
    inputs=variables,
)

table(
    globals(),
    forward,
    {
        "label_pick": lambda self, x, t: self.net(x)[np.arange(len(t)), t],
        "label_onehot": lambda self, x, t: self.net(x) * np.eye(3, dtype="f")[t],
        "label_onehot_compare": lambda self, x, t: self.net(x) * (t[:, None] == np.arange(3)),
        "label_weights_list": lambda self, x, t: self.net(x) * np.array([1, 2, 3], "f")[t][:, None],
        "label_list_of_lists": lambda self, x, t: (
            self.net(x) + np.array([[0.0, 1.0, 2.0][i] for i in t], "f")[:, None]
        ),
        "label_counts": lambda self, x, t: (
            self.net(x) / np.bincount(t, minlength=3).clip(1).astype("f")
        ),
        "label_sorted_groups": lambda self, x, t: self.net(x[np.argsort(t, kind="stable")]),
        "label_split_by_class": lambda self, x, t: [
            self.net(x[t == c]) for c in range(3) if (t == c).any()
        ],
        "label_shuffled": lambda self, x, t: F.softmax_cross_entropy(self.net(x), t[::-1].copy()),
        "label_set": lambda self, x, t: self.net(x) * len(set(t.tolist())),
        "label_dict": lambda self, x, t: self.net(x) * {0: 1.0, 1: 2.0, 2: 3.0}[int(t[0])],
        "label_minus_one": lambda self, x, t: F.softmax_cross_entropy(self.net(x), t - (t == 2)),
    },
    inputs=labelled,
)


@forward(inputs=words, net=Embedding)
def p_last_word(self, x):
    lengths = (x >= 0).sum(axis=1)
    return self.out(self.embed(x)[np.arange(len(x)), lengths - 1])
