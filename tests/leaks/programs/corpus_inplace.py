"""NumPy in forward: writing into arrays in place."""

import chainer
import chainer.functions as F
import numpy as np

from tests.leaks.programs._kit import Embedding, forward, labelled, loss, variables, words

BUFFER = np.zeros((6, 4), "f")
RUNNING = np.zeros(4, "f")
TOTAL = {"sum": np.zeros(4, "f"), "n": 0}


@forward
def p_zero_some(self, x):
    x = x.copy()
    x[x < 0] = 0
    return self.net(x)


@forward
def p_scale_column(self, x):
    h = np.array(x)
    h[:, 0] *= 2
    return self.net(h)


@forward
def p_add_to_slice(self, x):
    h = x.copy()
    h[1:] += h[:-1]
    return self.net(h)


@forward
def p_swap_rows(self, x):
    h = x.copy()
    h[[0, 1]] = h[[1, 0]]
    return self.net(h)


@forward
def p_empty_like_fill(self, x):
    h = np.empty_like(x)
    h[:, :2] = x[:, 2:]
    h[:, 2:] = x[:, :2]
    return self.net(h)


@forward
def p_zeros_put_rows(self, x):
    h = np.zeros((8, 4), "f")
    h[: len(x)] = x
    return self.net(h)


@forward
def p_zeros_loop(self, x):
    h = np.zeros_like(x)
    for i in range(len(x)):
        h[i] = x[: i + 1].sum(0)
    return self.net(h)


@forward
def p_fill_method(self, x):
    h = np.empty(x.shape, "f")
    h.fill(x.mean())
    return self.net(h)


@forward
def p_out_argument(self, x):
    h = np.empty_like(x)
    np.multiply(x, 2, out=h)
    return self.net(h)


@forward
def p_out_same(self, x):
    h = x * 1
    np.exp(h, out=h)
    return self.net(h)


@forward
def p_clip_out(self, x):
    h = x.copy()
    np.clip(h, -1, 1, out=h)
    return self.net(h)


@forward
def p_copyto(self, x):
    h = np.zeros_like(x)
    np.copyto(h, x, where=x > 0)
    return self.net(h)


@forward
def p_putmask(self, x):
    h = x.copy()
    np.putmask(h, h > 1, 1)
    return self.net(h)


@forward
def p_place(self, x):
    h = x.copy()
    np.place(h, h < 0, [9, 8])
    return self.net(h)


@forward
def p_put(self, x):
    h = x.copy()
    np.put(h, [0, 5], x[0, :2])
    return self.net(h)


@forward
def p_add_at(self, x):
    h = np.zeros(4, "f")
    np.add.at(h, x.argmax(1), 1)
    return self.net(x * h)


@forward
def p_fill_diagonal(self, x):
    h = x[:3, :3].copy()
    np.fill_diagonal(h, 0)
    return self.net(x) + h.sum(1)


@forward
def p_put_along_axis(self, x):
    h = x.copy()
    np.put_along_axis(h, x.argmax(1)[:, None], 0, axis=1)
    return self.net(h)


@forward
def p_sort_in_place(self, x):
    h = x.copy()
    h.sort(axis=1)
    return self.net(h)


@forward
def p_partition_in_place(self, x):
    h = x.copy()
    h.partition(1, axis=0)
    return self.net(h[:2])


@forward
def p_resize_in_place(self, x):
    h = x.copy()
    h = np.resize(h, (2, 4))
    return self.net(h)


@forward
def p_shape_attribute(self, x):
    h = x.copy()
    h.shape = (-1, 2)
    return self.net(h.reshape(-1, 4))


@forward
def p_setitem_ellipsis(self, x):
    h = np.empty((len(x), 4), "f")
    h[...] = x
    return self.net(h)


@forward
def p_flat_assign(self, x):
    h = x.copy()
    h.flat[::3] = 0
    return self.net(h)


@forward
def p_slice_view_write(self, x):
    h = x.copy()
    top = h[:2]
    top -= top.mean()
    return self.net(h)


@forward
def p_transpose_view_write(self, x):
    h = x.copy()
    h.T[0] = 1
    return self.net(h)


@forward
def p_reshape_view_write(self, x):
    h = x.copy()
    h.reshape(-1)[0] = 5
    return self.net(h)


@forward
def p_real_view(self, x):
    z = x.astype("F")
    z.imag = x[::-1]
    return self.net(np.abs(z))


@forward
def p_argument_in_place(self, x):
    x *= 0.5
    return self.net(x)


@forward
def p_argument_row(self, x):
    x[0] = 0
    return self.net(x)


@forward
def p_argument_normalized(self, x):
    x -= x.mean(0)
    x /= x.std(0) + 1e-3
    return self.net(x)


@forward(inputs=variables)
def p_variable_array_in_place(self, x):
    x.array[:, 0] = 0
    return self.net(x)


@forward
def p_hidden_array_in_place(self, x):
    h = self.l1(x)
    h.array[h.array < 0] = 0
    return self.l2(h)


@forward
def p_hidden_after_use(self, x):
    h = self.l1(x)
    y = self.l2(F.tanh(h))
    h.array[...] = 0
    return y


@forward
def p_result_in_place(self, x):
    y = self.net(x)
    y.array[...] = np.clip(y.array, -0.5, 0.5)
    return y


@forward
def p_module_buffer(self, x):
    BUFFER[: len(x)] = x
    return self.net(BUFFER)


@forward
def p_module_running(self, x):
    RUNNING[...] = 0.9 * RUNNING + 0.1 * x.mean(0)
    return self.net(x - RUNNING)


@forward
def p_module_dict_sum(self, x):
    TOTAL["sum"] += x.sum(0)
    TOTAL["n"] += len(x)
    return self.net(x)


@forward(buffer=lambda: np.zeros((6, 4), "f"))
def p_attribute_buffer(self, x):
    self.buffer[: len(x)] = x
    return self.net(self.buffer)


@forward(mean=lambda: np.zeros(4, "f"))
def p_attribute_mean_inplace(self, x):
    self.mean *= 0.9
    self.mean += 0.1 * x.mean(0)
    return self.net(x - self.mean)


@forward(mean=lambda: np.zeros(4, "f"))
def p_attribute_mean_only_in_training(self, x):
    if chainer.config.train:
        self.mean[...] = 0.9 * self.mean + 0.1 * x.mean(0)
    return self.net(x - self.mean)


@forward(slots=lambda: [np.zeros(4, "f"), np.zeros(4, "f")])
def p_list_of_buffers(self, x):
    for slot in self.slots:
        slot += x.mean(0)
    return self.net(x * self.slots[0])


@forward(memory=dict)
def p_dict_of_arrays(self, x):
    self.memory["last"] = x.mean(0)
    return self.net(x)


@forward(memory=lambda: np.zeros((4, 8), "f"), head=0)
def p_ring_buffer(self, x):
    self.memory[self.head % 4] = self.l1(x).array.mean(0)
    self.head += 1
    return self.l2(self.l1(x) + self.memory.mean(0))


@forward(counts=lambda: np.zeros(3, "i"))
def p_count_predictions(self, x):
    y = self.net(x)
    np.add.at(self.counts, y.array.argmax(1), 1)
    return y


@forward(confusion=lambda: np.zeros((3, 3), "i"), inputs=labelled)
def p_confusion_loop(self, x, t):
    y = self.net(x)
    for a, b in zip(t, y.array.argmax(1), strict=True):
        self.confusion[a, b] += 1
    return y


@forward(inputs=words, net=Embedding)
def p_mask_first_word(self, x):
    x = x.copy()
    x[:, 0] = -1
    return self.out(F.sum(self.embed(x), axis=1))


@forward(inputs=words, net=Embedding)
def p_shifted_targets(self, x):
    target = np.full_like(x, -1)
    target[:, :-1] = x[:, 1:]
    h = self.embed(x)
    y = F.matmul(h, self.embed.W, transb=True)
    return F.softmax_cross_entropy(y.reshape(-1, 10), target.reshape(-1))


@forward(inputs=words, net=Embedding)
def p_unknown_words(self, x):
    x = np.where(x > 6, 0, x)
    x[:, -1] = 1
    return self.out(F.sum(self.embed(x), axis=1))


@loss
def p_label_smoothing(self, x, t):
    q = np.full((len(t), 3), 0.05, "f")
    q[np.arange(len(t)), t] = 0.9
    return -F.sum(q * F.log_softmax(self.net(x))) / len(t)


@loss
def p_negative_label_ignored(self, x, t):
    t = t.copy()
    t[x[:, 0] < 0] = -1
    return F.softmax_cross_entropy(self.net(x), t)


@loss
def p_label_argument_written(self, x, t):
    t[t == 2] = 0
    return F.softmax_cross_entropy(self.net(x), t)


@loss
def p_hard_example_weights(self, x, t):
    e = F.softmax_cross_entropy(self.net(x), t, reduce="no")
    w = np.zeros(len(t), "f")
    w[np.argsort(-e.array)[:2]] = 0.5
    return F.sum(e * w)


@loss
def p_weights_normalized_in_place(self, x, t):
    w = np.exp(x[:, 0])
    w /= w.sum()
    return F.sum(F.softmax_cross_entropy(self.net(x), t, reduce="no") * w)


@loss
def p_noise_in_place(self, x, t):
    h = x.copy()
    h += np.random.normal(0, 0.1, x.shape)
    return F.softmax_cross_entropy(self.net(h), t)


@loss
def p_mixup(self, x, t):
    order = np.random.permutation(len(x))
    x = 0.7 * x + 0.3 * x[order]
    y = self.net(x.astype("f"))
    return 0.7 * F.softmax_cross_entropy(y, t) + 0.3 * F.softmax_cross_entropy(y, t[order])


@loss
def p_cutout_columns(self, x, t):
    x = x.copy()
    i = np.random.randint(4)
    x[:, i] = 0
    return F.softmax_cross_entropy(self.net(x), t)


@loss
def p_cutout_rows(self, x, t):
    x = x.copy()
    for row in x:
        row[np.random.randint(4)] = 0
    return F.softmax_cross_entropy(self.net(x), t)


@loss(last=None)
def p_previous_batch(self, x, t):
    if self.last is not None and self.last.shape == x.shape:
        x = (x + self.last) / 2
    self.last = x.copy()
    return F.softmax_cross_entropy(self.net(x), t)


@loss(centers=lambda: np.zeros((3, 8), "f"))
def p_center_loss(self, x, t):
    h = self.l1(x)
    pull = F.sum((h - self.centers[t]) ** 2) * 0.01
    for c in range(3):
        if (t == c).any():
            self.centers[c] += 0.5 * (h.array[t == c].mean(0) - self.centers[c])
    return pull + F.softmax_cross_entropy(self.l2(F.tanh(h)), t)
