"""Files of snapshots: whole when they are there, loaded as a whole, nothing unpickled."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import sdbr
from sdbr.compat import snapshots
from sdbr.training import archive

import chainer
import numpy as np
import pytest
from chainer import links as L
from chainer import optimizers, serializers, training
from chainer.serializers import npz

from tests.harness.models import MLP
from tests.harness.threads import join, start

SIZES = (4, 6, 3)


def model(sizes=SIZES, **more):
    net = L.Classifier(MLP(*sizes))
    with net.init_scope():
        for name, link in more.items():
            setattr(net, name, link)
    return net


def trained(steps=3, make=optimizers.Adam, static=True, net=None, seed=0):
    np.random.seed(seed)
    net = net or model()
    optimizer = make()
    if static:
        net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
    optimizer.setup(net)
    rng = np.random.RandomState(seed)
    for _ in range(steps):
        optimizer.update(net, rng.randn(5, 4).astype("f"), rng.randint(0, 3, 5).astype("i"))
    return optimizer


def trainer_of(optimizer, folder, epochs=2):
    data = [
        (x, np.int32(i % 3)) for i, x in enumerate(np.random.RandomState(0).rand(20, 4).astype("f"))
    ]
    iterator = chainer.iterators.SerialIterator(data, 5)
    updater = training.StandardUpdater(iterator, optimizer)
    trainer = training.Trainer(updater, (epochs, "epoch"), out=str(folder))
    trainer.extend(training.extensions.LogReport(trigger=(1, "iteration")))
    return trainer


def contents(obj) -> dict:
    return {key: np.array(value) for key, value in npz.serialize(obj).items()}


def assert_same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(other[key], value, err_msg=key)


@pytest.mark.parametrize("save", [sdbr.save_snapshot, serializers.save_npz])
@pytest.mark.parametrize("load", [sdbr.load_snapshot, serializers.load_npz])
def test_files_go_both_ways(tmp_path, save, load):
    one, other = trained(), trained(0, seed=1)
    for part in ("model", "optimizer"):
        path = str(tmp_path / part)
        first, second = (o if part == "optimizer" else o.target for o in (one, other))
        save(path, first)
        load(path, second)
        assert_same(contents(first), contents(second))


def test_a_trainer(tmp_path):
    one = trainer_of(trained(0), tmp_path)
    one.run()
    sdbr.save_snapshot(tmp_path / "file", one)
    other = trainer_of(trained(0, seed=1), tmp_path, epochs=3)
    sdbr.load_snapshot(tmp_path / "file", other)
    assert other.updater.iteration == 8
    for part in (lambda t: t.updater, lambda t: t.get_extension("LogReport")):
        assert_same(contents(part(one)), contents(part(other)))
    other.run()
    assert other.updater.iteration == 12
    assert other.elapsed_time > one.elapsed_time


def test_parameters_that_are_not_there_yet(tmp_path):
    sdbr.save_snapshot(tmp_path / "file", trained().target)
    lazy = L.Classifier(chainer.Sequential(L.Linear(None, 6), L.Linear(None, 3)))
    full = L.Classifier(chainer.Sequential(L.Linear(4, 6), L.Linear(6, 3)))
    sdbr.save_snapshot(tmp_path / "file", full)
    sdbr.load_snapshot(tmp_path / "file", lazy)
    assert_same(contents(full), contents(lazy))


def archive_of(arrays: dict, **options) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["SDBR_EVIL"],)


def wrong_files() -> dict:
    """What is loaded, and what is said of it."""
    good = contents(trained().target)
    key = "predictor/l1/W"
    data = archive_of(good)
    renamed = {k.replace("l1", "layer1"): v for k, v in good.items()}
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    other = {k: v.copy() for k, v in good.items()}
    other[key] = np.zeros((6, 5), "f")
    kind = {**good, key: good[key].astype(complex)}
    text = {**good, key: np.array("words")}
    objects = {**good, key: np.array([None, 1], object)}
    pickled = {**good, key: np.array(Evil(), object)}
    return {
        "truncated": (data[: len(data) // 2], "no complete archive"),
        "empty": (b"", "no complete archive"),
        "a bit": (bytes(flipped), "no complete archive|is no array|Bad"),
        "a pickle": (pickle.dumps(good), "no complete archive"),
        "foreign": (archive_of({"x": np.zeros(3)}), "found nothing; the file has 'x'"),
        "renamed": (archive_of(renamed), r"expected float32\[6, 4\], found nothing; the file has"),
        "shape": (archive_of(other), r"expected float32\[6, 4\], found float32\[6, 5\]"),
        "dtype": (archive_of(kind), r"expected float32\[6, 4\], found complex128\[6, 4\]"),
        "text": (archive_of(text), r"expected float32\[6, 4\], found text"),
        "objects": (archive_of(objects), "an array of objects"),
        "pickled": (archive_of(pickled), "mkdir.*could run code"),
    }


WRONG = [
    "truncated", "empty", "a bit", "a pickle", "foreign", "renamed", "shape", "dtype", "text",
    "objects", "pickled",
]  # fmt: skip


@pytest.fixture(scope="module", params=WRONG)
def wrong(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    os.environ["SDBR_EVIL"] = str(folder / "made")
    data, said = wrong_files()[request.param]
    path = folder / "file"
    path.write_bytes(data)
    yield path, said
    assert not (folder / "made").exists()


def test_nothing_changes_where_a_file_is_wrong(wrong):
    path, said = wrong
    net = trained(seed=1).target
    before = contents(net)
    with pytest.raises(sdbr.SnapshotError, match=said):
        sdbr.load_snapshot(path, net)
    assert_same(before, contents(net))


def test_what_an_error_knows(tmp_path):
    serializers.save_npz(str(tmp_path / "file"), model((4, 7, 3)))
    with pytest.raises(sdbr.SnapshotError) as caught:
        sdbr.load_snapshot(tmp_path / "file", model())
    error = caught.value
    assert (error.key, error.expected, error.found) == (
        "predictor/l1/W", "float32[6, 4]", "float32[7, 4]",
    )  # fmt: skip


@pytest.mark.parametrize("steps", [0, 3])
def test_states_of_another_shape(tmp_path, steps):
    """Also where the optimizer has none yet, and would take them as they come."""
    sdbr.save_snapshot(tmp_path / "file", trained())
    arrays = archive.read(tmp_path / "file")
    arrays["predictor/l2/b/v"] = np.zeros(5, "f")
    (tmp_path / "file").write_bytes(archive_of(arrays))
    optimizer = trained(steps, seed=1)
    before = contents(optimizer)
    with pytest.raises(sdbr.SnapshotError, match=r"l2/b/v.*expected float32\[6\], found"):
        sdbr.load_snapshot(tmp_path / "file", optimizer)
    assert_same(before, contents(optimizer))
    assert all((p.update_rule.state is None) == (steps == 0) for p in optimizer.target.params())


def test_a_trainer_whose_extension_does_not_take_what_is_there(tmp_path):
    class Fussy(training.Extension):
        def serialize(self, serializer):
            if isinstance(serializer, chainer.serializer.Deserializer):
                raise RuntimeError("not mine")

    one = trainer_of(trained(0), tmp_path)
    one.run()
    sdbr.save_snapshot(tmp_path / "file", one)
    other = trainer_of(trained(2, seed=1), tmp_path)
    before = contents(other.updater)
    other.extend(Fussy(), name="fussy", priority=-1000)
    with pytest.raises(sdbr.SnapshotError, match="could not be loaded: not mine"):
        sdbr.load_snapshot(tmp_path / "file", other)
    assert_same(before, contents(other.updater))
    assert (other._start_at, other._snapshot_elapsed_time) == (None, 0.0)


class Words(chainer.Chain):
    """Its own code needs what is in the file."""

    def __init__(self, words, **links):
        super().__init__(**links)
        self.words = words

    def serialize(self, serializer):
        super().serialize(serializer)
        if isinstance(serializer, chainer.serializer.Serializer):
            serializer("words", json.dumps(self.words))
        else:
            self.words = json.loads(serializer("words", ""))
            if "stop" in self.words:
                raise KeyboardInterrupt
            if "wrong" in self.words:
                raise RuntimeError("wrong words")


def test_links_with_code_of_their_own(tmp_path):
    sdbr.save_snapshot(tmp_path / "file", Words(["a"], l=L.Linear(2, 3)))
    other = Words([], l=L.Linear(2, 3))
    sdbr.load_snapshot(tmp_path / "file", other)
    assert other.words == ["a"]
    before = contents(other)
    for word, link, error, said in (
        ("stop", L.Linear(2, 3), KeyboardInterrupt, None),
        ("b", L.Linear(2, 4), sdbr.SnapshotError, "l/W"),
        ("wrong", L.Linear(2, 4), sdbr.SnapshotError, "l/W"),
        ("wrong", L.Linear(2, 3), sdbr.SnapshotError, "could not be loaded: wrong words"),
    ):
        sdbr.save_snapshot(tmp_path / "file", Words([word], l=link))
        with pytest.raises(error, match=said):
            sdbr.load_snapshot(tmp_path / "file", other)
        assert_same(before, contents(other))
        assert other.words == ["a"]


class Sized(chainer.Chain):
    """It has as many rows as the file."""

    def __init__(self, n):
        super().__init__()
        self.resize(n)

    def resize(self, n):
        self.n = n
        if "e" in vars(self):
            del self.e
        with self.init_scope():
            self.e = L.EmbedID(n, 2)

    def serialize(self, serializer):
        n = int(serializer("n", self.n))
        if n != self.n:
            self.resize(n)
        super().serialize(serializer)


def test_links_that_take_the_size_of_the_file(tmp_path):
    one, other = Sized(5), Sized(3)
    sdbr.save_snapshot(tmp_path / "file", one)
    sdbr.load_snapshot(tmp_path / "file", other)
    assert_same(contents(one), contents(other))


@pytest.mark.parametrize("value", [[1, 2], (1.0, 2.0), ["a", "b"], 2.5, "text", True, None])
def test_persistent_values_of_any_kind(tmp_path, value):
    links = [chainer.Link(), chainer.Link()]
    for link in links:
        link.add_persistent("p", value)
    links[1].p = type(value)() if value is not None else None
    sdbr.save_snapshot(tmp_path / "file", links[0])
    sdbr.load_snapshot(tmp_path / "file", links[1])
    serializers.load_npz(str(tmp_path / "file"), links[0])
    assert type(links[1].p) is type(links[0].p)
    np.testing.assert_array_equal(links[1].p, links[0].p)


@pytest.mark.parametrize("steps", [0, 2])
def test_rules_that_are_off_have_no_state(tmp_path, steps):
    one = trained(0)
    one.target.predictor.l1.disable_update()
    one.update(one.target, np.ones((5, 4), "f"), np.zeros(5, "i"))
    sdbr.save_snapshot(tmp_path / "file", one)
    other = trained(0, seed=1)
    other.target.predictor.l1.disable_update()
    for _ in range(steps):
        other.update(other.target, np.ones((5, 4), "f"), np.zeros(5, "i"))
    sdbr.load_snapshot(tmp_path / "file", other)
    assert other.t == 1
    on = trained(0, seed=1)
    with pytest.raises(sdbr.SnapshotError, match=r"l1/.*found nothing"):
        sdbr.load_snapshot(tmp_path / "file", on)
    assert all(p.update_rule.state is None for p in on.target.params())


def test_damaged_files_are_snapshots_of_nothing(tmp_path):
    sdbr.save_snapshot(tmp_path / "file", model())
    data = (tmp_path / "file").read_bytes()
    rng = np.random.RandomState(0)
    for _ in range(300):
        at = rng.randint(len(data))
        cut = data[:at] + data[at + rng.randint(1, 40) :]
        flipped = data[:at] + bytes([data[at] ^ (1 << rng.randint(8))]) + data[at + 1 :]
        for wrong in (cut, flipped):
            net = model()
            before = contents(net)
            try:
                sdbr.load_snapshot(io.BytesIO(wrong), net)
            except sdbr.SnapshotError:
                assert_same(before, contents(net))
            assert snapshots.is_readable(io.BytesIO(wrong)) in (True, False)


def test_where_files_are_written(tmp_path):
    net = model()
    target, link = tmp_path / "folder" / "file", tmp_path / "link"
    target.parent.mkdir()
    sdbr.save_snapshot(target, net)
    target.chmod(0o600)
    link.symlink_to(target)
    sdbr.save_snapshot(link, net)
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o600
    sdbr.load_snapshot(link, net)
    sdbr.save_snapshot(tmp_path / ("a" * 255), net)
    os.mkfifo(tmp_path / "pipe")
    data = []
    reader = start(lambda: data.append((tmp_path / "pipe").read_bytes()))
    sdbr.save_snapshot(tmp_path / "pipe", net)
    join(reader)
    sdbr.load_snapshot(io.BytesIO(*data), net)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / f".sdbr-{'0' * 16}.99999999999.abcdef01.tmp").touch()
    sdbr.save_snapshot(target, net)
    assert [entry.name for entry in target.parent.iterdir()] == ["file"]


def test_not_strict(tmp_path):
    sdbr.save_snapshot(tmp_path / "file", model())
    more = model(more=L.Linear(2, 2))
    with pytest.raises(sdbr.SnapshotError, match="'more/W': expected"):
        sdbr.load_snapshot(tmp_path / "file", more)
    sdbr.load_snapshot(tmp_path / "file", more, strict=False)


def test_a_part_of_a_file(tmp_path):
    one = trainer_of(trained(0), tmp_path)
    one.run()
    sdbr.save_snapshot(tmp_path / "file", one)
    net = model()
    sdbr.load_snapshot(tmp_path / "file", net, path="updater/model:main/")
    assert_same(contents(one.updater.get_optimizer("main").target), contents(net))


def test_none_is_read_of_any_numpy(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in ("numpy.core.multiarray", "numpy._core.multiarray"):
            data = io.BytesIO()
            header = {"descr": "|O", "fortran_order": False, "shape": ()}
            np.lib.format.write_array_header_1_0(data, header)
            text = pickle.dumps(np.array(None, object), 2)
            for other in (b"numpy._core.multiarray", b"numpy.core.multiarray"):
                text = text.replace(other, name.encode())
            file.writestr(f"{name}.npy", data.getvalue() + text)
    stream.seek(0)
    assert [x[()] for x in archive.read(stream).values()] == [None, None]


KILLED = """
import os, signal, sys, time
import sdbr, chainer, numpy as np
net = chainer.Sequential(*[chainer.links.Linear(200, 200) for _ in range(8)])
rng = np.random.RandomState(0)
for _ in range(50):
    process = os.fork()
    while not process:
        sdbr.save_snapshot(sys.argv[1], net, compression=False)
    time.sleep(rng.rand() * 0.05)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    if os.path.exists(sys.argv[1]):
        sdbr.load_snapshot(sys.argv[1], net)
sdbr.save_snapshot(sys.argv[1], net)
"""


def test_killed_while_it_saves(tmp_path):
    """However often: the file is one of them, and no other one is left.

    Where none was killed while it wrote, this shows that files are there as soon as they are made.
    """
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "file")], check=True, timeout=300)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
