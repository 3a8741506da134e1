"""Values that leave the arrays of a call by other ways than NumPy's calls."""

import collections
import copy
import io
import pickle
import statistics
from statistics import fmean

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer.utils import conv
from scipy import fft as sp_fft
from scipy import ndimage, optimize, signal, spatial, special


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)


def scaled(run, scale, same_first=1, shape=(6, 4), dtype="f"):
    """Train with ``scale(x, h)`` as a factor of the hidden layer; the first batches may be one."""

    class Scaled(Net):
        @run.static
        def forward(self, x):
            h = F.relu(self.l1(x))
            return self.l2(h * scale(x, h))

    model = Scaled()
    batches = [run.array(*shape, dtype=dtype) for _ in range(6)]
    for i in range(1, same_first):
        batches[i] = batches[0]
    for x in batches:
        y = model(x)
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def reads(run, read, same_first=1):
    """A call that returns what ``read(x, h)`` gives beside its Variable."""

    class Reads(Net):
        @run.static
        def forward(self, x):
            h = self.l1(x)
            return F.sum(self.l2(h)), read(x, h)

    model = Reads()
    batches = [run.array(6, 4) for _ in range(6)]
    for i in range(1, same_first):
        batches[i] = batches[0]
    for x in batches:
        run.see("result", *model(x))


# --- 6: values that leave ------------------------------------------------------------------------
def p_06_variable_item(run):
    scaled(run, lambda x, h: F.max(h).item())


def p_06_item_rounded(run):
    scaled(run, lambda x, h: 1 + round(F.mean(h).item(), 2))


def p_06_item_of_ints_as_axis(run):
    class Picks(Net):
        @run.static
        def forward(self, x, k):
            return self.l2(F.relu(self.l1(x)))[:, F.cast(F.sum(k), "i").item()]

    model = Picks()
    for i in range(6):
        run.see("y", model(run.array(6, 4), np.array([i // 3, 0], "f")))


def p_06_numpy_float32_of_a_sum(run):
    scaled(run, lambda x, h: np.float32(x.sum()))


def p_06_numpy_float64_of_a_loss(run):
    scaled(run, lambda x, h: float(np.float64(F.mean(h).array)))


def p_06_numpy_int64_decides(run):
    def scale(x, h):
        n = np.int64((x > 0).sum())
        return 2.0 if n > 12 else 0.5

    scaled(run, scale)


def p_06_dtype_type_of_a_mean(run):
    scaled(run, lambda x, h: h.dtype.type(h.array.mean()))


def p_06_dtype_type_of_zero_dim(run):
    def scale(x, h):
        top = F.max(h)
        return float(top.dtype.type(top.array)) + 1

    scaled(run, scale)


def p_06_largest_of_flat(run):
    scaled(run, lambda x, h: max(h.array.flat))


def p_06_flat_item(run):
    scaled(run, lambda x, h: x.flat[3])


def p_06_sum_over_flat(run):
    scaled(run, lambda x, h: sum(abs(v) for v in x.flat) / x.size)


def p_06_nditer(run):
    def scale(x, h):
        total = 0.0
        for v in np.nditer(x):
            total += float(v)
        return total

    scaled(run, scale)


def p_06_ndenumerate(run):
    def scale(x, h):
        return max((v, i) for i, v in np.ndenumerate(x))[1][0] + 1.0

    scaled(run, scale)


def p_06_fromiter(run):
    scaled(run, lambda x, h: np.fromiter((v * 2 for v in x[0]), "f", 4).max())


def p_06_fromiter_of_flat(run):
    scaled(run, lambda x, h: float(np.fromiter(x.flat, "f").mean()))


def p_06_memoryview(run):
    scaled(run, lambda x, h: memoryview(x)[0, 1])


def p_06_memoryview_kept_as_list(run):
    def scale(x, h):
        rows = memoryview(h.array).tolist()
        return rows[0][0] + 1

    scaled(run, scale)


def p_06_data_attribute(run):
    scaled(run, lambda x, h: x.data[0, 0] + x.data.tolist()[1][1])


def p_06_frombuffer(run):
    scaled(run, lambda x, h: np.frombuffer(x, "f")[5])


def p_06_bytes(run):
    scaled(run, lambda x, h: bytes(x)[0] / 16)


def p_06_array_method(run):
    scaled(run, lambda x, h: x.__array__().max())


def p_06_array_method_with_dtype(run):
    scaled(run, lambda x, h: float(h.array.__array__("d").sum()))


def p_06_array_interface(run):
    class Like:
        def __init__(self, a):
            self.__array_interface__ = a.__array_interface__

    scaled(run, lambda x, h: np.array(Like(x)).max())


def p_06_pickled(run):
    scaled(run, lambda x, h: pickle.loads(pickle.dumps(x)).max())


def p_06_saved_and_loaded(run):
    def scale(x, h):
        file = io.BytesIO()
        np.save(file, x)
        file.seek(0)
        return np.load(file)[0, 0]

    scaled(run, scale)


def p_06_deep_copied(run):
    scaled(run, lambda x, h: copy.deepcopy({"x": x})["x"].max())


def p_06_deque_to_array(run):
    class Window(Net):
        @run.static
        def forward(self, x):
            rows = collections.deque(maxlen=3)
            for row in x:
                rows.append(row * 2)
            return self.l2(F.relu(self.l1(np.array(rows))))

    model = Window()
    for _ in range(6):
        run.see("y", model(run.array(6, 4)))


def p_06_deque_largest(run):
    scaled(run, lambda x, h: float(np.array(collections.deque(x)).max()))


def p_06_userlist_to_array(run):
    scaled(run, lambda x, h: np.asarray(collections.UserList([x[0], x[1]])).sum())


def p_06_node_data(run):
    scaled(run, lambda x, h: h.node.data.max())


def p_06_node_data_branch(run):
    scaled(run, lambda x, h: 2.0 if float(h.node.data[0, 0]) > 0.5 else 1.0)


def p_06_parameter_of_an_array(run):
    class Made(Net):
        @run.static
        def forward(self, x):
            h = self.l1(x)
            scale = chainer.Parameter(h.array)
            return self.l2(h * scale)

    model = Made()
    for _ in range(6):
        y = model(run.array(6, 4))
        model.cleargrads()
        F.sum(y).backward()
        run.see("y", y, model)


def p_06_parameter_of_an_argument(run):
    class Made(Net):
        @run.static
        def forward(self, x):
            p = chainer.Parameter(x)
            return self.l2(F.relu(self.l1(p * 2)))

    model = Made()
    for _ in range(6):
        run.see("y", model(run.array(6, 4)))


def p_06_number_beside_the_loss(run):
    reads(run, lambda x, h: F.sum(h).item(), same_first=2)


def p_06_float_beside_the_loss(run):
    reads(run, lambda x, h: float(np.float32(x.max())), same_first=3)


def p_06_numpy_scalar_beside_the_loss(run):
    reads(run, lambda x, h: np.float32(h.array.max()), same_first=2)


def p_06_reported_item(run):
    class Reports(Net):
        @run.static
        def forward(self, x):
            loss = F.mean(self.l2(F.relu(self.l1(x))) ** 2)
            chainer.report({"loss": loss.item(), "top": max(x.flat)}, self)
            return loss

    model = Reports()
    optimizer = run.optimizer(chainer.optimizers.SGD()).setup(model)
    x = run.array(6, 4)
    for i in range(6):
        run.observe(model, optimizer.update, model, x if i < 2 else run.array(6, 4))


def p_06_table_in_a_dict(run):
    tables = {"a": np.arange(20, dtype="f").reshape(5, 4)}

    class Looks(Net):
        @run.static
        def forward(self, x, t):
            return self.l2(F.relu(self.l1(x + tables["a"][t])))

    model = Looks()
    t = run.labels(6, 5)
    for i in range(6):
        run.see("y", model(run.array(6, 4), t if i < 2 else run.labels(6, 5)))


def p_06_literal_indexed(run):
    class Looks(Net):
        @run.static
        def forward(self, x, t):
            weights = np.array([0.5, 1.0, 2.0], "f")[t]
            return F.sum(self.l2(F.relu(self.l1(x))) * weights[:, None])

    model = Looks()
    optimizer = run.optimizer(chainer.optimizers.SGD()).setup(model)
    t = run.labels(6, 3)
    for i in range(7):
        run.see("y", optimizer.update(model, run.array(6, 4), t if i < 3 else run.labels(6, 3)))
        run.see("model", model)


def p_06_one_batch_for_ever(run):
    class Looks(Net):
        @run.static
        def forward(self, x, t):
            return F.sum(self.l2(F.relu(self.l1(x))) * np.array([[0.5, 1.0, 2.0]], "f")[:, t])

    model = Looks()
    optimizer = run.optimizer(chainer.optimizers.SGD()).setup(model)
    x, t = run.array(6, 4), np.array([0, 2, 1])
    for i in range(8):
        if i == 6:
            t = np.array([2, 0, 1])
        optimizer.update(model, x, t)
        run.see("model", model)


# --- 7: compiled code of others ------------------------------------------------------------------
def p_07_cdist(run):
    scaled(run, lambda x, h: spatial.distance.cdist(x, x).max())


def p_07_cdist_of_doubles_decides(run):
    def scale(x, h):
        return 2.0 if spatial.distance.cdist(x.astype("d"), h.array[:, :4]).min() > 0.7 else 1.0

    scaled(run, scale)


def p_07_pdist(run):
    scaled(run, lambda x, h: float(spatial.distance.pdist(h.array).mean()))


def p_07_gaussian_filter(run):
    scaled(run, lambda x, h: ndimage.gaussian_filter(x, 1).max())


def p_07_uniform_filter(run):
    class Smooth(Net):
        @run.static
        def forward(self, x):
            return self.l2(F.relu(self.l1(ndimage.uniform_filter(x, 3))))

    model = Smooth()
    x = run.array(6, 4)
    for i in range(6):
        run.see("y", model(x if i < 2 else run.array(6, 4)))


def p_07_label(run):
    scaled(run, lambda x, h: float(ndimage.label(x > 0)[1]))


def p_07_label_array(run):
    scaled(run, lambda x, h: ndimage.label(h.array > 0.2)[0].astype("f"))


def p_07_im2col(run):
    def scale(x, h):
        return conv.im2col_cpu(x[:, None, None, :], 1, 2, 1, 1, 0, 0).max()

    scaled(run, scale)


def p_07_im2col_as_input(run):
    class Patches(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 3)

        @run.static
        def forward(self, x):
            col = conv.im2col_cpu(x, 2, 2, 2, 2, 0, 0)
            return self.l(col.transpose(0, 4, 5, 1, 2, 3).reshape(-1, 4))

    model = Patches()
    x = run.array(2, 1, 4, 4)
    for i in range(6):
        run.see("y", model(x if i < 2 else run.array(2, 1, 4, 4)))


def p_07_col2im(run):
    def scale(x, h):
        col = conv.im2col_cpu(x[None, None], 2, 2, 2, 2, 0, 0)
        return float(conv.col2im_cpu(col, 2, 2, 0, 0, 6, 4).sum())

    scaled(run, scale)


def p_07_assignment(run):
    class Matched(Net):
        @run.static
        def forward(self, x, cost):
            y = self.l2(F.relu(self.l1(x)))
            rows, columns = optimize.linear_sum_assignment(cost)
            return F.sum(y[rows, columns])

    model = Matched()
    cost = run.array(6, 3)
    for i in range(7):
        run.see("y", model(run.array(6, 4), cost if i < 3 else run.array(6, 3)))


def p_07_assignment_of_doubles(run):
    class Matched(Net):
        @run.static
        def forward(self, x):
            y = self.l2(F.relu(self.l1(x)))
            rows, columns = optimize.linear_sum_assignment(x.astype("d"))
            return F.sum(y[rows, columns % 3])

    model = Matched()
    x = run.array(6, 4)
    for i in range(7):
        run.see("y", model(x if i < 2 else run.array(6, 4)))


def p_07_fft(run):
    scaled(run, lambda x, h: np.abs(sp_fft.fft(x)).max())


def p_07_dct_as_input(run):
    class Cosine(Net):
        @run.static
        def forward(self, x):
            return self.l2(F.relu(self.l1(sp_fft.dct(x, axis=1))))

    model = Cosine()
    x = run.array(6, 4)
    for i in range(6):
        run.see("y", model(x if i < 2 else run.array(6, 4)))


def p_07_lfilter(run):
    def scale(x, h):
        return F.sum(signal.lfilter([1.0, 0.5], [1.0], x, axis=0).astype("f"))

    scaled(run, scale, same_first=2)


def p_07_lfilter_of_a_layer(run):
    scaled(run, lambda x, h: float(signal.lfilter([0.5], [1.0, -0.2], h.array).max()))


def p_07_special(run):
    scaled(run, lambda x, h: special.expit(x).mean())


def p_07_special_logsumexp(run):
    scaled(run, lambda x, h: special.logsumexp(h.array))


# --- 8: floats through C -------------------------------------------------------------------------
def annealed(run, factor):
    """A float attribute and a float argument change; the call uses ``factor(a)``."""

    class Annealed(Net):
        def __init__(self):
            super().__init__()
            self.alpha = 1.0

        @run.static
        def forward(self, x, beta):
            return self.l2(F.relu(self.l1(x)) * factor(self.alpha) * factor(beta))

    model = Annealed()
    for i in range(8):
        model.alpha = 1.0 + 0.25 * (i // 2)
        run.see("y", model(run.array(6, 4), 0.5 + 0.1 * i))


def p_08_hex(run):
    annealed(run, lambda a: float.fromhex(float.hex(a)))


def p_08_float_add(run):
    annealed(run, lambda a: float.__add__(a, 1.0))


def p_08_float_mul_and_pow(run):
    annealed(run, lambda a: float.__pow__(a, 2.0) + float.__rmul__(a, 3.0))


def p_08_method_of_float_in_a_variable(run):
    number = float
    annealed(run, lambda a: number.__sub__(a, 0.125))


def p_08_method_by_getattr(run):
    annealed(run, lambda a: getattr(float, f"__{'mul'}__")(a, 2.0))


def p_08_bytes_format(run):
    annealed(run, lambda a: float(b"%.3f" % a))


def p_08_bytes_format_of_a_tuple(run):
    def factor(a):
        form = b"%d %.2f"
        return float((form % (3, a)).split()[1])

    annealed(run, factor)


def p_08_bytearray_format(run):
    form = bytearray(b"%.2f")
    annealed(run, lambda a: float(bytes(form % a)))


def p_08_imported_by_name(run):
    annealed(run, lambda a: __import__("struct").unpack("d", __import__("struct").pack("d", a))[0])


def p_08_imported_math(run):
    annealed(run, lambda a: __import__("math").sqrt(a))


def p_08_importlib(run):
    import importlib

    def factor(a):
        module = importlib.import_module("cmath")
        return abs(module.sqrt(a))

    annealed(run, factor)


def p_08_numpy_scalar_of_a_float(run):
    annealed(run, lambda a: float(np.float64(a)) + float(np.float32(a)))


def p_08_dtype_of_a_float(run):
    annealed(run, lambda a: np.dtype("f").type(a))


def p_08_array_of_floats(run):
    annealed(run, lambda a: np.array(collections.deque([a, 2 * a]), "f").sum())


def p_08_filled(run):
    def factor(a):
        array = np.zeros(3, "f")
        array[1] = a
        return array.sum()

    annealed(run, factor)


def p_08_statistics_mean(run):
    annealed(run, lambda a: statistics.mean([a, 2.0]))


def p_08_statistics_of_floats(run):
    annealed(run, lambda a: statistics.median([a, 2.0, 0.1]) + fmean([a, 1.0]))


def p_08_statistics_of_an_array(run):
    scaled(run, lambda x, h: statistics.mean([x.max(), x.min()]))


def p_08_statistics_of_rows(run):
    scaled(run, lambda x, h: statistics.mean(x[0]) + statistics.pstdev(h.array[0]))


def p_08_stacked_deque(run):
    class Frames(Net):
        @run.static
        def forward(self, x):
            frames = collections.deque([x[0], x[1] * 2, x[2]], maxlen=3)
            return self.l2(F.relu(self.l1(np.stack(frames))))

    model = Frames()
    for _ in range(6):
        run.see("y", model(run.array(6, 4)))


def p_08_joined_deque(run):
    class Frames(Net):
        @run.static
        def forward(self, x):
            frames = collections.deque([x, x + 1], maxlen=2)
            return self.l2(F.relu(self.l1(np.concatenate(frames))))

    model = Frames()
    for _ in range(6):
        run.see("y", model(run.array(6, 4)))


def p_08_stacked_userlist(run):
    class Frames(Net):
        @run.static
        def forward(self, x):
            frames = collections.UserList(x)
            return self.l2(F.relu(self.l1(np.vstack(frames))))

    model = Frames()
    for _ in range(6):
        run.see("y", model(run.array(6, 4)))


# --- 9: type tests, and arrays that are kept -----------------------------------------------------
def p_09_is_a_floating(run):
    scaled(run, lambda x, h: 2.0 if isinstance(x.max(), np.floating) else 1.0)


def p_09_is_a_float(run):
    scaled(run, lambda x, h: 2.0 if isinstance(x.astype("d").sum(), float) else 1.0)


def p_09_is_no_array(run):
    scaled(run, lambda x, h: 2.0 if isinstance(h.array.mean(), np.ndarray) else 1.0)


def p_09_is_an_integer(run):
    scaled(run, lambda x, h: 2.0 if isinstance((x > 0).sum(), np.integer) else 1.0)


def p_09_isscalar(run):
    scaled(run, lambda x, h: 2.0 if np.isscalar(h.array.max()) else 1.0)


def p_09_isscalar_of_an_item(run):
    scaled(run, lambda x, h: 2.0 if np.isscalar(x[0, 0]) and not np.isscalar(x[0]) else 1.0)


def p_09_type_is_ndarray(run):
    scaled(run, lambda x, h: 2.0 if type(x) is np.ndarray else 1.0)


def p_09_type_of_a_layer(run):
    def scale(x, h):
        return {np.ndarray: 3.0, chainer.Variable: 2.0}.get(type(h.array), 1.0)

    scaled(run, scale)


def p_09_type_of_a_scalar(run):
    scaled(run, lambda x, h: 2.0 if type(x.max()) in (np.float32, np.float64) else 1.0)


def p_09_class_of_an_array(run):
    scaled(run, lambda x, h: 2.0 if x.__class__ is np.ndarray else 1.0)


def p_09_class_of_a_scalar(run):
    scaled(run, lambda x, h: 2.0 if x.sum().__class__ == np.float32 else 1.0)


def p_09_name_of_the_type(run):
    scaled(run, lambda x, h: 2.0 if type(x).__name__ == "ndarray" else 1.0)


def p_09_type_of_a_float(run):
    class Typed(Net):
        def __init__(self):
            super().__init__()
            self.alpha = 1.5

        @run.static
        def forward(self, x):
            h = self.l2(F.relu(self.l1(x)))
            return h * 2 if type(self.alpha) is float else h * self.alpha

    model = Typed()
    for _ in range(5):
        run.see("y", model(run.array(6, 4)))


def p_09_same_array_twice(run):
    scaled(run, lambda x, h: 2.0 if h.array is h.array else 1.0)


def p_09_same_data_and_array(run):
    scaled(run, lambda x, h: 2.0 if h.data is h.array else 1.0)


def p_09_same_attribute_twice(run):
    class Holds(Net):
        def __init__(self):
            super().__init__()
            self.table = np.ones(8, "f")

        @run.static
        def forward(self, x):
            h = F.relu(self.l1(x))
            return self.l2(h * (2.0 if self.table is self.table else 1.0))

    model = Holds()
    for _ in range(5):
        run.see("y", model(run.array(6, 4)))


def p_09_same_parameter_array(run):
    class Holds(Net):
        @run.static
        def forward(self, x):
            mine = self.l1.W.array
            return self.l2(F.relu(self.l1(x))) * (2.0 if mine is self.l1.W.array else 1.0)

    model = Holds()
    for _ in range(5):
        run.see("y", model(run.array(6, 4)))


def kept(run, keep, collected):
    class Keeps(Net):
        @run.static
        def forward(self, x):
            h = F.relu(self.l1(x))
            keep(x, h)
            return self.l2(h)

    model = Keeps()
    for _ in range(9):
        y = model(run.array(6, 4))
        run.see("types", [type(a).__name__ for a in collected()])
        run.see("kept", y, list(collected()))


def p_09_kept_in_a_deque(run):
    seen = collections.deque(maxlen=4)
    kept(run, lambda x, h: seen.append(h.array), lambda: seen)


def p_09_kept_in_a_list(run):
    seen = []
    kept(run, lambda x, h: seen.append(x), lambda: seen)


def p_09_kept_in_a_class(run):
    class Stats:
        last = None

    def keep(x, h):
        Stats.last = h.array

    kept(run, keep, lambda: [Stats.last])


def p_09_kept_in_an_object(run):
    class Log:
        def __init__(self):
            self.items = {}

    log = Log()

    def keep(x, h):
        log.items["h"] = h.array
        log.x = x

    kept(run, keep, lambda: [log.items["h"], log.x])


def p_09_kept_scalar(run):
    seen = collections.deque(maxlen=3)
    kept(run, lambda x, h: seen.append(h.array.max()), lambda: seen)


def p_09_kept_in_a_closure(run):
    last = None

    def keep(x, h):
        nonlocal last
        last = h.array

    kept(run, keep, lambda: [last])


def p_09_kept_inside_a_tuple(run):
    seen = []
    kept(run, lambda x, h: seen.append((1, x, h.array)), lambda: [a for t in seen for a in t[1:]])


# --- texts ---------------------------------------------------------------------------------------
def p_06_text_of_an_array(run):
    scaled(run, lambda x, h: float(str(x[0]).strip("[]").split()[0]))


def p_06_text_of_a_variable(run):
    scaled(run, lambda x, h: float(repr(h).partition("[[")[2].split(",")[0]))


def p_06_only_shown(run):
    class Shows(Net):
        @run.static
        def forward(self, x):
            h = F.relu(self.l1(x))
            str(h.array)
            return self.l2(h)

    model = Shows()
    for _ in range(5):
        run.see("y", model(run.array(6, 4)))
