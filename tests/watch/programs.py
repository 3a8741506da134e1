"""Functions without arguments that use what the compiler has special instructions for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loops():
    total = 0
    for i in range(4):
        if i == 2:
            continue
        while total < 100:
            total += i + 1
            if total % 3 == 0 or not i:
                break
        else:
            total = -1
    return total


def comprehensions():
    rows = [[i * j for j in range(3) if j] for i in range(3)]
    pairs = {i: {-j for j in range(i)} for i in range(3)}
    scale = 2
    return rows, pairs, sum(scale * x for row in rows for x in row), [y for y in [1] if y > 1]


class Context:
    def __init__(self, silent):
        self.silent = silent

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return self.silent


def contexts():
    found = []
    with Context(False) as a, Context(True):
        found.append(a.silent)
    with Context(True):
        raise ValueError(found)
    try:
        with Context(False):
            raise KeyError(1)
    except KeyError as error:
        found.append(error.args)
    for _ in range(2):
        with Context(False):
            break
    return found


def handlers():
    found = []
    for kind in (ValueError, KeyError, None):
        try:
            try:
                if kind is not None:
                    raise kind(1)
                found.append(0)
            except ValueError as error:
                found.append(error)
                raise RuntimeError(2) from error
            else:
                found.append(3)
            finally:
                found.append(4)
        except (RuntimeError, KeyError):
            found.append(5)
            continue
        finally:
            found.append(6)
    try:
        return found
    finally:
        found = None


def _countdown(n):
    try:
        while n:
            got = yield n
            n -= got or 1
    finally:
        yield -1
    return n


def generators():
    found = list(_countdown(3))

    def outer():
        found.append((yield from _countdown(2)))

    found += outer()
    g = _countdown(9)
    found += [next(g), g.send(5), g.throw(KeyError(3))]
    try:
        next(g)
    except KeyError:
        found.append(None)
    h = _countdown(1)
    next(h)
    next(h)
    h.close()
    a, *rest = _countdown(4)
    return found, a, rest


def closures():
    n = 1

    def inner(x, *, y=2):
        nonlocal n
        n += x
        return lambda z: (n, x, y, z)

    return inner(3)(4), inner(5, y=6)(7), n


def _all(a, /, b=2, *args, c=3, **kwargs):
    return a, b, args, c, kwargs


def arguments():
    rest, more = (4, 5), {"d": 6}
    found = [_all(1), _all(1, *rest), _all(1, 2, 3, c=4, e=5), _all(*rest, **more, c=7)]
    return found, [*rest, *rest], {**more, "z": 1}, print.__name__.join(["a", "b"]), max(1, *rest)


def classes():
    class Base:
        size = 3

        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return type(self)(self.n + other.n)

        @property
        def twice(self):
            return self.n * 2

    class Derived(Base):
        def __init__(self, n):
            super().__init__(n + 1)
            self.items = [n]

        @property
        def twice(self):
            return super().twice + self.size

    a, b = Derived(1), Derived(2)
    a.n += 1
    a.items[0] += 5
    a.items[0:1] = [7, 8]
    del a.items[1]
    del b.n
    return (a + a).twice, a.items[:1], a is not b, 7 in a.items


def strings():
    x, width = 1.5, 8
    return f"{x!r:>{width}} {x:.2f} {width}", f"{x}{x!s}", f"{{}} {x=}"


def matches():
    found = []
    for it in ((1, 2), [3, 4, 5], {"a": 1, "b": 2}, "word", Context(7), 9):
        match it:
            case (a, b) if a < b:
                found.append(a + b)
            case [first, *rest]:
                found.append((first, rest))
            case {"a": value, **others}:
                found.append((value, others))
            case "word" | "words":
                found.append(it)
            case Context(silent=kept):
                found.append(kept)
            case _:
                found.append(None)
    return found


class _Rows:
    def __init__(self):
        self.n = 3

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.n -= 1
        if not self.n:
            raise StopAsyncIteration
        await asyncio.sleep(0)
        return self.n

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return True


async def _each():
    for i in range(2):
        await asyncio.sleep(0)
        yield i


def coroutines():
    async def main():
        found = [x async for x in _each()]
        async with _Rows() as rows:
            async for row in rows:
                found.append(row)
            raise ValueError
        return found, await asyncio.gather(*(one(i) for i in range(2)))

    async def one(i):
        await asyncio.sleep(0)
        return i

    return asyncio.run(main())


def unpacking():
    a, b, c = 1, 2, 3
    a, b = b, a
    a, b, c = c, a, b
    (x, y), *z = [(1, 2), 3, 4]
    del z[0]
    chain = a < b < c
    return a if chain else b, (x and y) or z, not x, -y, (a, b) == (b, a), lambda: None


def _many():
    """More than 256 constants, names and locals, and jumps as long as that takes."""
    n = 300
    names = {}
    lines = ["def many():", "    v = []", "    for i in range(2):", "        if i:"]
    lines += [f"            x{i} = {i + 1000}.5" for i in range(n)]
    lines += ["        else:", "            continue"]
    lines += [f"        v.append(x{i} + i)" for i in range(n)]
    lines += ["        try:", f"            v.missing_{n}", "        except AttributeError:"]
    lines += [f"            v.append((x{n - 1}, x{n - 2}, {n}.25))", "    return v"]
    exec(compile("\n".join(lines), __file__, "exec"), names)
    return names["many"]


PROGRAMS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        loops,
        comprehensions,
        contexts,
        handlers,
        generators,
        closures,
        arguments,
        classes,
        strings,
        matches,
        coroutines,
        unpacking,
        _many(),
    )
}
