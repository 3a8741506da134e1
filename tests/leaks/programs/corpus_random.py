"""Random draws of every sort in forward."""

import random

import chainer
import chainer.distributions as D
import chainer.functions as F
import chainer.links as L
import numpy as np
import scipy.stats

from tests.leaks.programs._kit import Normed, forward, images, labelled, loss, sequences, table

GENERATOR = np.random.RandomState(3)
NEW = np.random.default_rng(4)
STEP = [0]


def _pair(self, x, h):
    return self.l2(h if random.random() < 0.5 else F.tanh(h))


table(
    globals(),
    forward,
    {
        "rand": lambda self, x: self.net(x + np.random.rand(*x.shape).astype("f")),
        "randn": lambda self, x: self.net(x + np.random.randn(*x.shape).astype("f")),
        "normal_loc_array": lambda self, x: self.net(np.random.normal(x, 0.1).astype("f")),
        "normal_scale_hidden": lambda self, x: self.net(
            x + np.random.normal(0, np.abs(x)).astype("f")
        ),
        "uniform_range": lambda self, x: self.net(
            x * np.random.uniform(0.9, 1.1, x.shape).astype("f")
        ),
        "uniform_scalar": lambda self, x: self.net(x) * np.random.uniform(0.9, 1.1),
        "random_sample": lambda self, x: self.net(x * np.random.random_sample(4).astype("f")),
        "rand_scalar_branch": lambda self, x: self.net(x if np.random.rand() < 0.5 else -x),
        "rand_scalar_times": lambda self, x: self.net(x) * np.random.rand(),
        "randint_index": lambda self, x: self.net(x[np.random.randint(len(x))][None]),
        "randint_rows": lambda self, x: self.net(x[np.random.randint(0, len(x), 4)]),
        "random_integers_labels": lambda self, x: F.softmax_cross_entropy(
            self.net(x), np.random.randint(0, 3, len(x)).astype("i")
        ),
        "permutation": lambda self, x: self.net(x[np.random.permutation(len(x))]),
        "permutation_of_array": lambda self, x: self.net(np.random.permutation(x)),
        "choice_rows": lambda self, x: self.net(x[np.random.choice(len(x), 2, replace=False)]),
        "choice_p": lambda self, x: (
            self.net(x) * np.random.choice([1.0, 2.0, 3.0], p=[0.2, 0.3, 0.5])
        ),
        "choice_p_of_hidden": lambda self, x: (
            self.net(x)
            * np.random.choice(
                3,
                p=F.softmax(self.net(x)).array[0].astype("d")
                / F.softmax(self.net(x)).array[0].astype("d").sum(),
            )
        ),
        "binomial": lambda self, x: self.net(x * np.random.binomial(1, 0.8, x.shape).astype("f")),
        "binomial_scalar": lambda self, x: self.net(x) * np.random.binomial(4, 0.5),
        "bernoulli_of_sigmoid": lambda self, x: self.l2(
            (np.random.rand(len(x), 8) < F.sigmoid(self.l1(x)).array).astype("f")
        ),
        "poisson": lambda self, x: self.net(x + np.random.poisson(2, x.shape).astype("f")),
        "poisson_of_x": lambda self, x: self.net(np.random.poisson(np.abs(x)).astype("f")),
        "beta_mixup": lambda self, x: (lambda a: self.net((a * x + (1 - a) * x[::-1]).astype("f")))(
            np.random.beta(0.4, 0.4)
        ),
        "beta_array": lambda self, x: self.net(x * np.random.beta(2, 2, (len(x), 1)).astype("f")),
        "dirichlet": lambda self, x: self.net(x) * np.random.dirichlet([1, 1, 1]).astype("f"),
        "gamma": lambda self, x: self.net(x * np.random.gamma(2, 1, 4).astype("f")),
        "exponential": lambda self, x: self.net(
            x + np.random.exponential(size=x.shape).astype("f")
        ),
        "gumbel": lambda self, x: F.argmax(
            self.net(x) + np.random.gumbel(size=(len(x), 3)).astype("f"), 1
        ),
        "laplace": lambda self, x: self.net(x + np.random.laplace(0, 0.1, x.shape).astype("f")),
        "logistic": lambda self, x: self.net(x + np.random.logistic(size=x.shape).astype("f")),
        "lognormal": lambda self, x: self.net(x * np.random.lognormal(0, 0.1)),
        "multinomial": lambda self, x: self.net(x) * np.random.multinomial(5, [0.2, 0.3, 0.5]),
        "multivariate_normal": lambda self, x: self.net(
            x + np.random.multivariate_normal(np.zeros(4), np.eye(4), len(x)).astype("f")
        ),
        "standard_cauchy": lambda self, x: self.net(x + np.random.standard_cauchy() * 0),
        "standard_normal_pair": lambda self, x: (
            self.net(x + np.random.standard_normal(4).astype("f")) * np.random.standard_normal()
        ),
        "triangular": lambda self, x: self.net(
            x + np.random.triangular(-1, 0, 1, x.shape).astype("f")
        ),
        "vonmises": lambda self, x: self.net(x + np.random.vonmises(0, 1, x.shape).astype("f")),
        "geometric": lambda self, x: self.net(x) * np.random.geometric(0.5),
        "bytes": lambda self, x: self.net(x) * len(np.random.bytes(3)) * np.random.bytes(1)[0],
        "shuffle_copy": lambda self, x: self.net(_shuffled(x)),
        "shuffle_indices": lambda self, x: self.net(x[_order(len(x))]),
        "py_random": lambda self, x: self.net(x) * random.random(),
        "py_uniform": lambda self, x: self.net(x) * random.uniform(0.5, 1.5),
        "py_randint_slice": lambda self, x: self.net(x[: random.randint(1, 3)]),
        "py_choice": lambda self, x: random.choice([F.tanh, F.sigmoid, F.relu])(self.net(x)),
        "py_choice_row": lambda self, x: self.net(random.choice(list(x))[None]),
        "py_sample": lambda self, x: self.net(x[random.sample(range(len(x)), 2)]),
        "py_shuffle": lambda self, x: self.net(x[_py_order(len(x))]),
        "py_gauss": lambda self, x: self.net(x) * random.gauss(1, 0.1),
        "py_branch": lambda self, x: _pair(self, x, self.l1(x)),
        "py_getrandbits": lambda self, x: self.net(x) * random.getrandbits(3),
        "own_randomstate": lambda self, x: self.net(x + GENERATOR.randn(4).astype("f")),
        "own_generator": lambda self, x: self.net(x + NEW.standard_normal(4).astype("f")),
        "own_generator_choice": lambda self, x: self.net(x[NEW.choice(len(x), 2)]),
        "fresh_seeded": lambda self, x: self.net(x + np.random.RandomState(1).randn(4).astype("f")),
        "fresh_seeded_by_length": lambda self, x: self.net(
            x + np.random.RandomState(len(x)).rand(4).astype("f")
        ),
        "default_rng_seeded": lambda self, x: self.net(
            x + np.random.default_rng(1).random(4).astype("f")
        ),
        "seed_inside": lambda self, x: (
            np.random.seed(5),
            self.net(x + np.random.rand(4).astype("f")),
        )[1],
        "seed_by_counter": lambda self, x: self.net(x + _seeded().astype("f")),
        "state_saved": lambda self, x: _state_saved(self, x),
        "py_random_object": lambda self, x: self.net(x) * random.Random(3).random(),
        "scipy_rvs": lambda self, x: self.net(x + scipy.stats.norm.rvs(size=4).astype("f")),
        "scipy_truncnorm": lambda self, x: self.net(
            x + scipy.stats.truncnorm.rvs(-1, 1, size=4).astype("f")
        ),
        "xp_random": lambda self, x: self.net(
            x + self.xp.random.normal(size=(len(x), 4)).astype("f")
        ),
        "alias_of_function": lambda self, x: self.net(x + RAND(4).astype("f")),
        "dropout": lambda self, x: self.l2(F.dropout(self.l1(x), 0.3)),
        "dropout_twice": lambda self, x: self.l2(F.dropout(F.dropout(self.l1(x), 0.3), 0.2)),
        "dropout_and_numpy": lambda self, x: self.l2(
            F.dropout(self.l1(x)) + np.random.rand(8).astype("f")
        ),
        "dropout_mask_given": lambda self, x: self.l2(
            F.dropout(self.l1(x), 0.5, mask=(np.random.rand(len(x), 8) > 0.5).astype("f") * 2)
        ),
        "dropout_return_mask": lambda self, x: F.dropout(self.l1(x), 0.5, return_mask=True)[0],
        "dropout_mask_shared": lambda self, x: _shared_mask(self, x),
        "dropout_rows_by_hand": lambda self, x: self.l2(
            self.l1(x) * (np.random.rand(len(x), 1) > 0.2).astype("f") / 0.8
        ),
        "dropout_train_only_by_hand": lambda self, x: self.l2(
            self.l1(x)
            * ((np.random.rand(8) > 0.2) if chainer.config.train else np.full(8, 0.8)).astype("f")
        ),
        "gaussian": lambda self, x: F.gaussian(self.l1(x), self.l1(x) * 0),
        "gaussian_eps": lambda self, x: F.gaussian(
            self.l1(x), self.l1(x) * 0, eps=np.random.randn(len(x), 8).astype("f")
        ),
        "gaussian_return_eps": lambda self, x: F.gaussian(
            self.l1(x), self.l1(x) * 0, return_eps=True
        ),
        "gumbel_softmax": lambda self, x: F.gumbel_softmax(self.net(x), 0.5),
        "rrelu": lambda self, x: self.l2(F.rrelu(self.l1(x))),
        "zoneout": lambda self, x: self.l2(F.zoneout(self.l1(x) * 0, self.l1(x))),
        "dropconnect": lambda self, x: F.simplified_dropconnect(x, self.l1.W, self.l1.b),
        "normal_sample": lambda self, x: self.l2(
            D.Normal(self.l1(x), scale=np.ones((len(x), 8), "f")).sample()
        ),
        "normal_sample_n": lambda self, x: F.mean(
            D.Normal(self.l1(x), log_scale=self.l1(x)).sample(3), axis=0
        ),
        "categorical_sample": lambda self, x: D.Categorical(logit=self.net(x)).sample(),
        "categorical_log_prob_of_sample": lambda self, x: (lambda d: d.log_prob(d.sample().array))(
            D.Categorical(logit=self.net(x))
        ),
        "bernoulli_sample": lambda self, x: D.Bernoulli(logit=self.net(x)).sample(),
        "uniform_sample": lambda self, x: D.Uniform(low=self.net(x), high=self.net(x) + 1).sample(),
        "beta_sample": lambda self, x: D.Beta(
            F.softplus(self.net(x)) + 1, F.softplus(self.net(x)) + 1
        ).sample(),
        "kl": lambda self, x: chainer.kl_divergence(
            D.Normal(self.l1(x), log_scale=self.l1(x) * 0.1),
            D.Normal(np.zeros((len(x), 8), "f"), np.ones((len(x), 8), "f")),
        ),
    },
)

RAND = np.random.rand


def _shuffled(x):
    x = x.copy()
    np.random.shuffle(x)
    return x


def _order(n):
    order = np.arange(n)
    np.random.shuffle(order)
    return order


def _py_order(n):
    order = list(range(n))
    random.shuffle(order)
    return order


def _seeded():
    STEP[0] += 1
    return np.random.RandomState(STEP[0]).rand(4)


def _state_saved(self, x):
    state = np.random.get_state()
    x = x + np.random.rand(4).astype("f")
    np.random.set_state(state)
    return self.net(x)


def _shared_mask(self, x):
    y, mask = F.dropout(self.l1(x), 0.5, return_mask=True)
    if mask is None:
        return self.l2(y)
    return self.l2(F.dropout(y, 0.5, mask=mask))


@forward(order=lambda: np.random.RandomState(0).permutation(4))
def p_fixed_permutation_attribute(self, x):
    return self.net(x[:, self.order])


@forward(rng=lambda: np.random.RandomState(0))
def p_rng_attribute(self, x):
    return self.net(x + self.rng.randn(*x.shape).astype("f"))


@forward(rng=lambda: np.random.default_rng(0))
def p_generator_attribute(self, x):
    return self.net(x + self.rng.normal(size=x.shape).astype("f"))


@forward(rng=lambda: random.Random(0))
def p_python_rng_attribute(self, x):
    return self.net(x) * self.rng.random()


@forward(noise=None)
def p_noise_drawn_once(self, x):
    if self.noise is None:
        self.noise = np.random.randn(4).astype("f")
    return self.net(x + self.noise)


@forward(inputs=sequences)
def p_dropout_mask_across_time(self, x):
    mask = None
    ys = []
    for i in range(5):
        h = self.l1(x[:, i])
        if mask is None:
            mask = (np.random.rand(*h.shape) > 0.25).astype("f") / 0.75
        ys.append(self.l2(h * mask))
    return F.stack(ys)


@forward(inputs=images)
def p_random_crop(self, x):
    i, j = np.random.randint(0, 3, 2)
    return F.sum(x[:, :, i : i + 6, j : j + 6], axis=(1, 2, 3)) * self.l1.W[0, 0]


@forward(inputs=images)
def p_random_flip(self, x):
    if np.random.randint(2):
        x = x[..., ::-1]
    return F.sum(x[..., :4], axis=(1, 2, 3)) * self.l1.W[0, 0]


@forward(inputs=images)
def p_random_flip_each(self, x):
    x = np.stack([im[..., ::-1] if random.random() < 0.5 else im for im in x])
    return F.sum(x[..., :4], axis=(1, 2, 3)) * self.l1.W[0, 0]


@forward(inputs=images)
def p_random_flip_vector(self, x):
    flip = np.random.rand(len(x)) < 0.5
    x = np.where(flip[:, None, None, None], x[..., ::-1], x)
    return F.sum(x[..., :4], axis=(1, 2, 3)) * self.l1.W[0, 0]


@forward(inputs=images)
def p_random_erase(self, x):
    x = x.copy()
    i = random.randrange(6)
    x[:, :, i : i + 2] = np.random.rand()
    return F.sum(x, axis=(1, 2, 3)) * self.l1.W[0, 0]


@forward(inputs=labelled)
def p_negative_sampling_by_hand(self, x, t):
    negative = (t + np.random.randint(1, 3, len(t))) % 3
    y = self.net(x)
    return F.select_item(y, t) - F.select_item(y, negative.astype("i"))


@forward(inputs=labelled)
def p_flip_labels(self, x, t):
    t = np.where(np.random.rand(len(t)) < 0.1, np.random.randint(0, 3, len(t)), t).astype("i")
    return F.softmax_cross_entropy(self.net(x), t)


@forward(depth=0)
def p_stochastic_depth(self, x):
    h = self.l1(x)
    for p in (0.2, 0.4):
        if not chainer.config.train:
            h = h + (1 - p) * F.tanh(h)
        elif np.random.rand() > p:
            h = h + F.tanh(h)
            self.depth += 1
    return self.l2(h)


@forward
def p_stochastic_depth_mask(self, x):
    h = self.l1(x)
    for p in (0.2, 0.4):
        keep = (np.random.rand(len(x), 1) > p).astype("f")
        h = h + keep * F.tanh(h)
    return self.l2(h)


@forward
def p_shake(self, x):
    alpha = np.random.rand(len(x), 1).astype("f")
    a, b = self.l1(x), self.l1(-x)
    return self.l2(alpha * a + (1 - alpha) * b)


@forward
def p_spherical_noise(self, x):
    z = np.random.randn(len(x), 4).astype("f")
    z /= np.sqrt((z**2).sum(1, keepdims=True))
    return self.net(x + z)


@forward
def p_noise_helper_method(self, x):
    def noise(shape, sigma=0.1):
        return (sigma * np.random.standard_normal(shape)).astype("f")

    return self.net(x + noise(x.shape)) + noise(3)


@forward
def p_draw_unused(self, x):
    np.random.rand(3)
    return self.net(x)


@forward
def p_draw_until(self, x):
    while True:
        a = np.random.rand()
        if a > 0.3:
            break
    return self.net(x) * a


@forward
def p_draw_for_printing_only(self, x):
    self.picked = int(np.random.randint(len(x)))
    return self.net(x)


@forward
def p_draw_kept_attribute(self, x):
    self.eps = np.random.randn(len(x), 4).astype("f")
    return self.net(x + self.eps)


@forward(net=Normed)
def p_bn_dropout_order(self, x):
    return self.l2(F.dropout(self.bn(F.dropout(self.l1(x), 0.2)), 0.2))


@loss
def p_vae(self, x, t):
    mu, ln_var = F.split_axis(self.l1(x), 2, 1)
    z = F.gaussian(mu, ln_var)
    kl = F.gaussian_kl_divergence(mu, ln_var) / len(x)
    rec = F.mean_squared_error(F.matmul(z, self.l1.W[:4]), x)
    chainer.report({"kl": kl, "rec": rec}, self)
    return rec + 0.1 * kl


@loss
def p_denoising(self, x, t):
    keep = np.random.binomial(1, 0.7, x.shape).astype("f")
    return F.mean_squared_error(F.matmul(F.tanh(self.l1(x * keep)), self.l1.W), x)


@loss
def p_virtual_adversarial_draw(self, x, t):
    d = np.random.randn(*x.shape).astype("f")
    d = 0.1 * d / np.linalg.norm(d, axis=1, keepdims=True)
    p, q = F.softmax(self.net(x)), F.log_softmax(self.net(x + d))
    return F.softmax_cross_entropy(self.net(x), t) - F.sum(p.array * q) / len(x)


@loss
def p_reinforce_sample(self, x, t):
    logits = self.net(x)
    p = F.softmax(logits).array
    action = np.array([np.random.choice(3, p=q / q.sum()) for q in p.astype("d")], "i")
    reward = (action == t).astype("f")
    return F.sum(reward * -F.select_item(F.log_softmax(logits), action))


@loss
def p_sampled_softmax(self, x, t):
    noise = np.random.randint(0, 3, 2)
    columns = np.concatenate([t, noise])
    y = F.matmul(self.l1(x), self.l2.W[columns], transb=True)
    return F.softmax_cross_entropy(y, np.arange(len(t)).astype("i"))


@loss
def p_negative_sampling_link(self, x, t):
    if not hasattr(self, "ns"):
        with self.init_scope():
            self.ns = L.NegativeSampling(8, [5, 3, 2], 2)
    return self.ns(self.l1(x), t)
