"""Many iterations of everything: ``python -m tests.soak.soak --iterations 10000``.

After a warm-up memory, descriptors and threads stay what they were; eight threads that call one
chain get eight right answers each time; chains that are dropped are gone, with all that belongs to
them. Prints a report; the exit code is 1 when something leaks or an answer is wrong.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, field
from pathlib import Path

import sdbr

import chainer
import numpy as np
from chainer import functions as F

from .networks import Net, Pure, answer, batch, define_by_run, is_near, static
from .together import together

SIZES = (2, 3, 8, 21, 34)


def rss() -> int:
    """Resident memory in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open file descriptors; 0 where the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@dataclass
class Use:
    """What the process holds."""

    objects: int
    blocks: int
    rss: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> Use:
        """After a full collection."""
        gc.collect()
        return cls(
            len(gc.get_objects()),
            sys.getallocatedblocks(),
            rss(),
            descriptors(),
            threading.active_count(),
        )


@dataclass
class Mixed:
    """One model, one optimizer: steps, calls and errors of many kinds.

    Attributes
    ----------
    wrong : list of str
        Answers that were not right.
    """

    model: chainer.Chain = field(default_factory=lambda: static(Net, max_schedules=18))
    wrong: list = field(default_factory=list)

    def __post_init__(self):
        optimizer = chainer.optimizers.Adam(1e-5)
        self.optimizer = sdbr.static_optimizer(optimizer).setup(self.model)
        self.rng = np.random.RandomState(0)

    def iterate(self, k: int) -> None:
        """Iteration `k`; one in 23 also brings a shape seen rarely."""
        n = SIZES[k % len(SIZES)]
        x, t = batch(self.rng, n)
        kind = ("step", "backward", "infer", "grad", "error")[k // len(SIZES) % 5]
        if kind == "step":
            self.optimizer.update(self.model, x, t)
        elif kind == "backward":
            self.model.cleargrads()
            self.model(chainer.Variable(x), t).backward()
            self.optimizer.update()
        elif kind == "infer":
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                loss = self.model(x, t)
                if k % 50 == 0 and not is_near(
                    [loss.array], [define_by_run(self.model, x, t).array]
                ):
                    self.wrong.append(f"iteration {k}")
        elif kind == "grad":
            loss = self.model(x, t)
            chainer.grad([loss], [self.model.l1.W, self.model.l2.b])
        else:
            try:
                self.model(x, t + 3)  # labels out of range
            except IndexError:
                pass
            else:
                self.wrong.append(f"no error in iteration {k}")
        if k % 23 == 0:
            self.model(*batch(self.rng, 50 + k // 23 % 30))


def create_and_drop(k: int) -> list[str]:
    """A chain with an optimizer, used and dropped; names what is still there."""
    model = static(lambda: classifier(k))
    optimizer = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.01)).setup(model)
    rng = np.random.RandomState(k)
    for n in (2, 3, 2, 3):
        optimizer.update(model, *batch(rng, n))
        model.cleargrads()
        model(*batch(rng, n)).backward()
    with chainer.no_backprop_mode():
        model(*batch(rng, 2))
        model(*batch(rng, 2))
    manager = model.schedule_manager
    schedule = manager.static_schedule
    watched = {
        "chain": weakref.ref(model),
        "manager": weakref.ref(manager),
        "schedule": weakref.ref(schedule),
        "instance": weakref.ref(schedule.instances[0]) if schedule.instances else lambda: None,
        "optimizer": weakref.ref(optimizer),
        "parameter": weakref.ref(next(iter(model.params()))),
    }
    del model, optimizer, manager, schedule
    gc.collect()
    return [name for name, reference in watched.items() if reference() is not None]


def classifier(seed):
    """A classifier that reports."""
    return chainer.links.Classifier(Pure(seed))


class Threads:
    """Eight threads, one chain."""

    def __init__(self, n: int = 8):
        self.n = n
        plain = Pure()
        rng = np.random.RandomState(0)
        self.cases = [(x := rng.randn(s, 8).astype("f"), answer(plain, x)) for s in (2, 5, 33)]
        self.model = static(Pure)
        for x, _ in self.cases:
            answer(self.model, x)

    def sets(self) -> int:
        """Sets of activations: as many as calls were under way at once."""
        lists = self.model.schedule_manager.schedules.values()
        return sum(len(schedule.instances) for schedules in lists for schedule in schedules)

    def round(self, calls: int) -> int:
        """How many of the threads got only right answers."""

        def work(i):
            order = np.random.RandomState(i).randint(0, len(self.cases), calls)
            right = True
            for k in order:
                x, want = self.cases[k]
                right &= is_near(answer(self.model, x), want)
                with chainer.using_config("train", False), chainer.no_backprop_mode():
                    right &= is_near([F.identity(self.model(x)).array], want[:1])
            return right

        return sum(together(self.n, work))


def growth(before: Use, after: Use, iterations: int, memory: bool = True) -> list[str]:
    """What grew more than noise: memory by 2 % and 4 MiB, objects by one in ten iterations."""
    found = []
    for name in ("objects", "blocks"):
        more = getattr(after, name) - getattr(before, name)
        if more > max(200, iterations / 10):
            found.append(f"{name}: {more} more after {iterations} iterations")
    if memory and after.rss - before.rss > max(4 << 20, before.rss // 50):
        found.append(f"memory: {(after.rss - before.rss) / 2**20:.1f} MiB more")
    for name in ("descriptors", "threads"):
        if getattr(after, name) > getattr(before, name):
            found.append(f"{name}: {getattr(before, name)} -> {getattr(after, name)}")
    return found


def line(label: str, use: Use) -> str:
    """One line of the report."""
    return (
        f"{label:<28} {use.rss / 2**20:8.1f} MiB {use.objects:9d} objects {use.blocks:9d} blocks "
        f"{use.descriptors:4d} descriptors {use.threads:3d} threads"
    )


def soak(iterations: int, say=print) -> list[str]:
    """Run everything; returns what was wrong."""
    problems = []
    mixed = Mixed()
    warm = max(iterations // 5, 1000)
    for k in range(warm):
        mixed.iterate(k)
    before = Use.now()
    say(line(f"mixed shapes, {warm} (warm)", before))
    for k in range(warm, warm + iterations):
        mixed.iterate(k)
        if (k - warm + 1) % max(iterations // 5, 1) == 0 and k - warm + 1 < iterations:
            say(line(f"mixed shapes, {k + 1}", Use.now()))
    after = Use.now()
    say(line(f"mixed shapes, {warm + iterations}", after))
    statistics = mixed.model.schedule_manager.statistics
    say(
        f"  calls {statistics.calls}: traced {statistics.traces}, replayed {statistics.replays}, "
        f"whole steps {statistics.steps}"
    )
    problems += [f"mixed shapes: {x}" for x in growth(before, after, iterations)] + mixed.wrong
    del mixed

    chains = max(iterations // 50, 20)
    for k in range(20):
        create_and_drop(k)
    before = Use.now()
    left = sorted({name for k in range(chains) for name in create_and_drop(k)})
    after = Use.now()
    say(line(f"chains made and dropped, {chains}", after))
    problems += [f"a dropped chain leaves its {name}" for name in left]
    problems += [f"dropped chains: {x}" for x in growth(before, after, chains)]

    threads = Threads()
    rounds, right = max(iterations // 500, 3), 0
    sets, since, calls = 0, Use.now(), 0
    for _ in range(3 + rounds):
        right += threads.round(20)
        calls += 20 * threads.n
        if threads.sets() != sets:
            # Never before were so many calls under way at once.
            sets, since, calls = threads.sets(), Use.now(), 0
    after = Use.now()
    say(line(f"eight threads, {rounds} rounds", after) + f", {sets} sets of activations")
    if right != threads.n * (3 + rounds):
        problems.append(f"threads: {right} of {threads.n * (3 + rounds)} right")
    if sets > threads.n * len(threads.cases) * 2:
        problems.append(f"threads: {sets} sets of activations")
    return problems + [f"threads: {x}" for x in growth(since, after, calls)]


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=10_000)
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)  # many keys, on purpose
        problems = soak(options.iterations, lambda text: print(text, flush=True))
    for problem in problems:
        print(f"LEAK: {problem}")
    print(f"{'failed' if problems else 'flat'}, {time.monotonic() - start:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
