"""``cupy.random.RandomState``: what it asks cuRAND for, and what it makes of that."""

from __future__ import annotations

import os
import sys
import threading

import numpy as np
from cupy_backends.cuda.libs import curand

from cupy import plain

from .. import convert, creation, ndarrays


def _float(dtype) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.char not in ("f", "d"):
        raise TypeError("cupy.random only supports float32 and float64")
    return dtype


def _shape(size, *parameters):
    if size is None:
        return np.broadcast_shapes(*(np.shape(convert.unwrap(x)) for x in parameters))
    return size


class RandomState:
    """Draws on the current device."""

    def __init__(self, seed=None, method=None):
        self._lock = threading.Lock()
        self._generator = curand.createGenerator(method or curand.CURAND_RNG_PSEUDO_DEFAULT)
        self.method = method
        self.seed(seed)

    def __del__(self):
        if hasattr(self, "_generator") and not sys.is_finalizing():
            curand.destroyGenerator(self._generator)

    def seed(self, seed=None):
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        elif isinstance(seed, np.ndarray):
            seed = int.from_bytes(np.random.SeedSequence(seed.tolist()).generate_state(2), "little")
        else:
            if plain.asarray(seed).dtype.kind not in "biu":
                raise TypeError("Seed must be an integer.")
            seed = int(seed)
            if not 0 <= seed < 2**64:
                raise ValueError("Seed must be an integer between 0 and 2**64 - 1")
        with self._lock:
            curand.setPseudoRandomGeneratorSeed(self._generator, seed)
            curand.setGeneratorOffset(self._generator, 0)
            self._rk_seed = seed

    # --- what cuRAND's generator draws ---

    def _random_sample_raw(self, size, dtype):
        out = creation.empty(size, _float(dtype))
        single = out.dtype.char == "f"
        with self._lock:
            draw = curand.generateUniform if single else curand.generateUniformDouble
            draw(self._generator, out.data.ptr, out.size)
        return out

    def random_sample(self, size=None, dtype=float):
        return self._random_sample_raw(() if size is None else size, dtype)

    def rand(self, *size, dtype=float):
        return self.random_sample(size, dtype)

    def normal(self, loc=0.0, scale=1.0, size=None, dtype=float):
        dtype = _float(dtype)
        size = creation.empty(_shape(size, loc, scale), np.int8).shape
        count = int(np.prod(size, dtype=np.int64))
        # cuRAND draws pairs: of an odd count, the last number is thrown away.
        out = creation.empty(size if count % 2 == 0 else count + 1, dtype)
        plain = not any(isinstance(x, ndarrays.ndarray) for x in (loc, scale))
        with self._lock:
            draw = curand.generateNormal if dtype.char == "f" else curand.generateNormalDouble
            draw(self._generator, out.data.ptr, out.size, *((loc, scale) if plain else (0.0, 1.0)))
        out = out if out.shape == size else out[:count].reshape(size)
        if not plain:
            out *= scale
            out += loc
        return out

    def randn(self, *size, dtype=float):
        return self.normal(size=size, dtype=dtype)

    def standard_normal(self, size=None, dtype=float):
        return self.normal(size=size, dtype=dtype)

    def uniform(self, low=0.0, high=1.0, size=None, dtype=float):
        drawn = self.random_sample(_shape(size, low, high), dtype)
        low, high = (np.dtype(dtype).type(x) if np.isscalar(x) else x for x in (low, high))
        return (low + drawn * (high - low)).astype(dtype, copy=False)

    def lognormal(self, mean=0.0, sigma=1.0, size=None, dtype=float):
        import cupy

        return cupy.exp(self.normal(mean, sigma, size, dtype))

    def standard_exponential(self, size=None, dtype=float):
        import cupy

        return -cupy.log1p(-self._random_sample_raw(() if size is None else size, dtype))

    def exponential(self, scale=1.0, size=None, dtype=float):
        drawn = self.standard_exponential(_shape(size, scale), dtype)
        drawn *= scale
        return drawn

    def standard_cauchy(self, size=None, dtype=float):
        import cupy

        return cupy.tan(cupy.pi * (self.uniform(size=size, dtype=dtype) - 0.5))

    def laplace(self, loc=0.0, scale=1.0, size=None, dtype=float):
        import cupy

        drawn = self._random_sample_raw(_shape(size, loc, scale), dtype) - 0.5
        return loc - scale * cupy.sign(drawn) * cupy.log1p(-2 * cupy.absolute(drawn))

    def pareto(self, a, size=None, dtype=float):
        import cupy

        return cupy.expm1(self.standard_exponential(_shape(size, a), dtype) / a)

    def weibull(self, a, size=None, dtype=float):
        return self.standard_exponential(_shape(size, a), dtype) ** (1.0 / a)

    def rayleigh(self, scale=1.0, size=None, dtype=float):
        import cupy

        return cupy.sqrt(2 * self.standard_exponential(_shape(size, scale), dtype)) * scale

    def gumbel(self, loc=0.0, scale=1.0, size=None, dtype=float):
        import cupy

        drawn = self.standard_exponential(_shape(size, loc, scale), dtype)
        return (loc - cupy.log(drawn) * scale).astype(dtype, copy=False)

    def logistic(self, loc=0.0, scale=1.0, size=None, dtype=float):
        import cupy

        drawn = self._random_sample_raw(_shape(size, loc, scale), dtype)
        return loc - scale * cupy.log((1 - drawn) / drawn)

    # --- what kernels of their own draw, from a seed that moves on by the size ---

    def _drawn_by_kernel(self, name, size, dtype, *parameters):
        shape = _shape(size, *parameters)
        out = creation.empty(shape, dtype)
        with self._lock:
            seed = self._rk_seed
            self._rk_seed = (seed + out.size) % (2**64 - 1)
        drawn = getattr(np.random.Generator(np.random.Philox(seed)), name)
        out._host[...] = drawn(*map(convert.unwrap, parameters), size=out.shape)
        return out

    def beta(self, a, b, size=None, dtype=float):
        return self._drawn_by_kernel("beta", size, dtype, a, b)

    def binomial(self, n, p, size=None, dtype=int):
        return self._drawn_by_kernel("binomial", size, dtype, n, p)

    def chisquare(self, df, size=None, dtype=float):
        return self._drawn_by_kernel("chisquare", size, dtype, df)

    def standard_gamma(self, shape, size=None, dtype=float):
        return self._drawn_by_kernel("standard_gamma", size, dtype, shape)

    def gamma(self, shape, scale=1.0, size=None, dtype=float):
        return self._drawn_by_kernel("gamma", size, dtype, shape, scale)

    def dirichlet(self, alpha, size=None, dtype=float):
        alpha = creation.asarray(alpha)
        size = () if size is None else plain.empty(size, np.int8).shape
        drawn = self.standard_gamma(alpha, (*size, *alpha.shape), dtype)
        drawn /= drawn.sum(axis=-1, keepdims=True)
        return drawn

    def geometric(self, p, size=None, dtype="l"):
        return self._drawn_by_kernel("geometric", size, dtype, p)

    def poisson(self, lam=1.0, size=None, dtype="l"):
        return self._drawn_by_kernel("poisson", size, dtype, lam)

    def standard_t(self, df, size=None, dtype=float):
        return self._drawn_by_kernel("standard_t", size, dtype, df)

    def negative_binomial(self, n, p, size=None, dtype=int):
        return self._drawn_by_kernel("negative_binomial", size, dtype, n, p)

    def multivariate_normal(self, mean, cov, size=None, *args, dtype=float, **kwargs):
        import cupy

        size = () if size is None else plain.empty(size, np.int8).shape
        drawn = self.standard_normal((*size, len(mean)), dtype)
        lower = cupy.linalg.cholesky(creation.asarray(cov, dtype))
        return drawn @ lower.T + creation.asarray(mean, dtype)

    # --- integers and choices ---

    def randint(self, low, high=None, size=None, dtype="l"):
        if high is None:
            low, high = 0, low
        if not low < high:
            raise ValueError("low >= high")
        words = creation.empty(() if size is None else size, np.uint64)
        with self._lock:
            curand.generate(self._generator, words.data.ptr, 2 * words.size)
        drawn = words % np.uint64(high - low)
        return (drawn.astype(np.int64) + low).astype(dtype, copy=False)

    def permutation(self, a):
        words = creation.empty(a if isinstance(a, (int, np.integer)) else len(a), np.uint32)
        with self._lock:
            curand.generate(self._generator, words.data.ptr, words.size)
        order = words.argsort()
        return order if isinstance(a, (int, np.integer)) else a[order]

    def shuffle(self, a):
        a[:] = self.permutation(a)

    def choice(self, a, size=None, replace=True, p=None):
        import cupy

        count = a if isinstance(a, (int, np.integer)) else len(a)
        shape = () if size is None else size
        if not replace:
            if p is not None:
                raise NotImplementedError
            chosen = self.permutation(int(count))[: int(np.prod(shape))].reshape(shape)
        elif p is not None:
            # The largest of the logarithms with Gumbel's noise, as CuPy takes it.
            p = creation.asarray(p)
            noise = self.gumbel(size=(int(np.prod(shape)), count), dtype=np.float64)
            chosen = cupy.argmax(cupy.log(p) + noise, axis=1).reshape(shape)
        else:
            chosen = self.randint(0, int(count), size)
        return chosen if isinstance(a, (int, np.integer)) else creation.asarray(a)[chosen]
