"""Configuration: attributes, namespaces, dataclasses, dicts, enums, globals, chainer.config."""

import argparse
import copy
import dataclasses
import enum
import os
import types

import chainer
import chainer.functions as F
import numpy as np

from tests.leaks.programs._kit import Net

ALPHA = 1.0
SETTINGS = {"scale": 1.0, "act": "tanh", "layers": [1, 2]}
ARRAY = np.ones(3, "f")
ACTS = {"tanh": F.tanh, "relu": F.relu, "sigmoid": F.sigmoid}


class Kind(enum.Enum):
    PLAIN = "plain"
    DOUBLE = "double"


class Flags(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    act: str = "tanh"
    depth: int = 1
    weights: list = dataclasses.field(default_factory=lambda: [1.0, 2.0, 3.0])


class Base:
    SCALE = 1.0
    table = (1.0, 2.0)


def drive(body, change, make=lambda: None, rounds=9):
    """Calls with a configuration that `change` alters between them."""

    def program(run):
        class Model(Net):
            forward = run.static(body)

        model = Model()
        model.config = make()
        for i in range(rounds):
            change(model, i)
            y = model(run.array(5, 4))
            model.cleargrads()
            F.sum(y * y).backward()
            run.see("y", y, model)

    return program


def _set(name, values):
    def change(model, i):
        setattr(model, name, values[i % len(values)])

    return change


def _conf(name, values, every=1):
    def change(model, i):
        setattr(model.config, name, values[i // every % len(values)])

    return change


def _item(name, values, every=1):
    def change(model, i):
        model.config[name] = values[i // every % len(values)]

    return change


def _late(f, at=4):
    return lambda model, i: f(model) if i == at else None


def _global_alpha(model, i):
    global ALPHA
    ALPHA = 0.5 * i


def _environment(model, i):
    os.environ["CORPUS_SCALE"] = str(i // 3)


def _use_conf(self, x):
    return self.net(x) * self.config.scale


def _use_item(self, x):
    return self.net(x) * self.config["scale"]


def _act(self, x):
    return ACTS[self.config.act](self.net(x))


def _branch(self, x):
    return self.net(x) if self.flag else -self.net(x)


def _layers(self, x):
    y = self.net(x)
    for k in self.config["layers"]:
        y = y * k
    return y


PROGRAMS = {
    "float_attribute": (lambda self, x: self.net(x) * self.scale, _set("scale", [1.0, 2.0, 2.0])),
    "int_attribute": (lambda self, x: self.net(x) * self.n, _set("n", [1, 2, 2, 1])),
    "bool_attribute": (_branch, _set("flag", [True, True, False])),
    "none_attribute": (
        lambda self, x: self.net(x) if self.extra is None else self.net(x) * self.extra,
        _set("extra", [None, 2.0, None]),
    ),
    "string_attribute": (
        lambda self, x: ACTS[self.act](self.net(x)),
        _set("act", ["tanh", "relu", "relu"]),
    ),
    "function_attribute": (
        lambda self, x: self.act(self.net(x)),
        _set("act", [F.tanh, F.tanh, F.relu]),
    ),
    "lambda_attribute": (
        lambda self, x: self.act(self.net(x)),
        _set("act", [lambda y: y * 2, lambda y: y * 3]),
    ),
    "tuple_attribute": (
        lambda self, x: self.net(x) * self.pair[1],
        _set("pair", [(1.0, 2.0), (1.0, 2.0), (1.0, 3.0)]),
    ),
    "list_attribute_replaced": (
        lambda self, x: self.net(x) * self.w[0],
        _set("w", [[1.0], [1.0], [2.0]]),
    ),
    "enum_attribute": (
        lambda self, x: self.net(x) * (2 if self.kind is Kind.DOUBLE else 1),
        _set("kind", [Kind.PLAIN, Kind.DOUBLE, Kind.DOUBLE]),
    ),
    "flag_attribute": (
        lambda self, x: self.net(x) * (2 if self.flags & Flags.B else 1),
        _set("flags", [Flags.A, Flags.A | Flags.B]),
    ),
    "np_float_attribute": (
        lambda self, x: self.net(x) * self.scale,
        _set("scale", [np.float32(1), np.float32(2), np.float32(2)]),
    ),
    "np_float64_attribute": (
        lambda self, x: self.net(x) * self.scale,
        _set("scale", [np.float64(1), np.float64(2.5)]),
    ),
    "np_int_attribute": (
        lambda self, x: self.net(x) * self.n,
        _set("n", [np.int64(1), np.int64(2)]),
    ),
    "np_bool_attribute": (_branch, _set("flag", [np.bool_(True), np.bool_(False)])),
    "zero_d_array_attribute": (
        lambda self, x: self.net(x) * self.scale,
        _set("scale", [np.array(1, "f"), np.array(2, "f")]),
    ),
    "array_attribute_replaced": (
        lambda self, x: self.net(x) + self.offset,
        _set("offset", [np.ones(3, "f"), np.zeros(3, "f")]),
    ),
    "array_attribute_other_shape": (
        lambda self, x: self.net(x) + self.offset,
        _set("offset", [np.ones(3, "f"), np.ones((1, 3), "f") * 2]),
    ),
    "array_attribute_other_dtype": (
        lambda self, x: self.net(x) + self.offset.astype("f"),
        _set("offset", [np.ones(3, "f"), np.full(3, 2, "d")]),
    ),
    "class_attribute": (
        lambda self, x: self.net(x) * type(self).factor,
        lambda model, i: setattr(type(model), "factor", 1.0 + i // 3),
    ),
    "class_attribute_inherited": (
        lambda self, x: self.net(x) * self.factor,
        lambda model, i: setattr(type(model), "factor", [1, 2, 2][i % 3]),
    ),
    "outside_class": (
        lambda self, x: self.net(x) * Base.SCALE,
        lambda model, i: setattr(Base, "SCALE", 1.0 + i // 2),
    ),
    "outside_class_tuple": (
        lambda self, x: self.net(x) * Base.table[0],
        lambda model, i: setattr(Base, "table", (float(i // 2), 1.0)),
    ),
    "module_float": (lambda self, x: self.net(x) * ALPHA, _global_alpha),
    "module_dict": (
        lambda self, x: self.net(x) * SETTINGS["scale"],
        lambda model, i: SETTINGS.update(scale=1.0 + i // 3),
    ),
    "module_dict_get_default": (
        lambda self, x: self.net(x) * SETTINGS.get("extra", 1.0),
        _late(lambda model: SETTINGS.update(extra=3.0)),
    ),
    "module_dict_in": (
        lambda self, x: self.net(x) * (2 if "extra" in SETTINGS else 1),
        _late(lambda model: SETTINGS.update(extra=3.0)),
    ),
    "module_dict_len": (
        lambda self, x: self.net(x) * len(SETTINGS),
        _late(lambda model: SETTINGS.update(extra=3.0)),
    ),
    "module_dict_string": (
        lambda self, x: ACTS[SETTINGS["act"]](self.net(x)),
        _late(lambda model: SETTINGS.update(act="relu")),
    ),
    "module_dict_nested_list": (
        lambda self, x: self.net(x) * sum(SETTINGS["layers"]),
        _late(lambda model: SETTINGS["layers"].append(5)),
    ),
    "module_dict_values": (
        lambda self, x: self.net(x) * sum(v for v in SETTINGS.values() if isinstance(v, float)),
        _late(lambda model: SETTINGS.update(scale=4.0)),
    ),
    "module_dict_of_functions": (
        lambda self, x: ACTS["tanh"](self.net(x)),
        _late(lambda model: ACTS.update(tanh=F.relu)),
    ),
    "module_array_in_place": (
        lambda self, x: self.net(x) + ARRAY,
        lambda model, i: ARRAY.__iadd__(1) if i % 3 == 2 else None,
    ),
    "module_array_mean": (
        lambda self, x: self.net(x) * ARRAY.mean(),
        lambda model, i: ARRAY.__setitem__(0, i),
    ),
    "module_array_float": (
        lambda self, x: self.net(x) * float(ARRAY[0]),
        lambda model, i: ARRAY.__setitem__(0, i),
    ),
    "environment": (lambda self, x: self.net(x) * float(os.environ["CORPUS_SCALE"]), _environment),
    "environment_get": (
        lambda self, x: self.net(x) * int(os.environ.get("CORPUS_SCALE", "1")),
        _environment,
    ),
    "namespace": (_use_conf, _conf("scale", [1.0, 2.0, 2.0]), argparse.Namespace),
    "namespace_int": (_use_conf, _conf("scale", [1, 2], 3), argparse.Namespace),
    "namespace_replaced": (
        _use_conf,
        lambda m, i: setattr(m, "config", argparse.Namespace(scale=1.0 + i // 2)),
    ),
    "simple_namespace": (_act, _conf("act", ["tanh", "relu"], 2), types.SimpleNamespace),
    "namespace_vars": (
        lambda self, x: self.net(x) * vars(self.config)["scale"],
        _conf("scale", [1.0, 2.0], 2),
        argparse.Namespace,
    ),
    "namespace_hasattr": (
        lambda self, x: self.net(x) * (2 if hasattr(self.config, "late") else 1),
        _late(lambda m: setattr(m.config, "late", 1)),
        argparse.Namespace,
    ),
    "namespace_getattr_default": (
        lambda self, x: self.net(x) * getattr(self.config, "late", 1.0),
        _late(lambda m: setattr(m.config, "late", 3.0)),
        argparse.Namespace,
    ),
    "dataclass": (_use_conf, _conf("scale", [1.0, 0.5], 2), Config),
    "dataclass_string": (_act, _conf("act", ["tanh", "relu", "sigmoid"], 2), Config),
    "dataclass_depth": (
        lambda self, x: F.tanh(self.net(x)) if self.config.depth > 1 else self.net(x),
        _conf("depth", [1, 2], 2),
        Config,
    ),
    "dataclass_list_item": (
        lambda self, x: self.net(x) * np.array(self.config.weights, "f"),
        _late(lambda m: m.config.weights.__setitem__(0, 9.0)),
        Config,
    ),
    "dataclass_replace": (
        _use_conf,
        lambda m, i: setattr(m, "config", dataclasses.replace(m.config, scale=float(i // 2))),
        Config,
    ),
    "dataclass_asdict": (
        lambda self, x: self.net(x) * dataclasses.asdict(self.config)["scale"],
        _conf("scale", [1.0, 3.0], 2),
        Config,
    ),
    "dict_config": (_use_item, _item("scale", [1.0, 2.0], 2), lambda: {"scale": 1.0}),
    "dict_config_int": (_use_item, _item("scale", [1, 2], 3), lambda: {"scale": 1}),
    "dict_config_list": (_layers, _item("layers", [[1, 2], [3]], 3), lambda: {"layers": []}),
    "dict_config_list_grows": (
        _layers,
        lambda m, i: m.config["layers"].append(1 + i % 2) if i % 3 == 2 else None,
        lambda: {"layers": [2]},
    ),
    "dict_config_update": (
        _use_item,
        _late(lambda m: m.config.update({"scale": 7.0})),
        lambda: {"scale": 1.0},
    ),
    "dict_config_unpacked": (
        lambda self, x: F.leaky_relu(self.net(x), **self.config),
        _item("slope", [0.1, 0.5], 2),
        lambda: {"slope": 0.1},
    ),
    "dict_config_array": (
        lambda self, x: self.net(x) + self.config["offset"],
        _item("offset", [np.ones(3, "f"), np.zeros(3, "f")], 2),
        lambda: {"offset": np.ones(3, "f")},
    ),
    "dict_config_array_in_place": (
        lambda self, x: self.net(x) + self.config["offset"],
        lambda m, i: m.config["offset"].__iadd__(i),
        lambda: {"offset": np.ones(3, "f")},
    ),
    "dict_config_numpy_float": (
        _use_item,
        _item("scale", [np.float32(1), np.float32(3)], 2),
        lambda: {"scale": np.float32(1)},
    ),
    "dict_config_copy": (
        lambda self, x: self.net(x) * copy.copy(self.config)["scale"],
        _item("scale", [1.0, 2.0], 2),
        lambda: {"scale": 1.0},
    ),
    "set_config": (
        lambda self, x: self.net(x) * (2 if "double" in self.config else 1),
        _late(lambda m: m.config.add("double")),
        set,
    ),
    "list_config_order": (
        lambda self, x: self.net(x) * self.config[0],
        lambda m, i: m.config.reverse() if i % 2 else None,
        lambda: [1.0, 2.0],
    ),
    "list_of_functions": (
        lambda self, x: self.config[0](self.net(x)),
        _late(lambda m: m.config.insert(0, F.relu)),
        lambda: [F.tanh],
    ),
    "nested_dict": (
        lambda self, x: self.net(x) * self.config["a"]["b"]["c"],
        lambda m, i: m.config["a"]["b"].update(c=1.0 + i // 2),
        lambda: {"a": {"b": {"c": 1.0}}},
    ),
    "object_in_list": (
        lambda self, x: self.net(x) * self.config[0].scale,
        lambda m, i: setattr(m.config[0], "scale", 1.0 + i // 2),
        lambda: [Config()],
    ),
    "child_link_attribute": (
        lambda self, x: self.net(x) * self.l1.factor,
        lambda m, i: setattr(m.l1, "factor", 1.0 + i // 2),
    ),
    "child_link_name": (
        lambda self, x: self.net(x) * len(self.l1.name),
        _late(lambda m: setattr(m.l1, "name", "longer")),
    ),
    "dropout_ratio_attribute": (
        lambda self, x: F.dropout(self.net(x), self.ratio),
        lambda m, i: setattr(m, "ratio", 0.1 * i),
    ),
    "clip_attribute": (
        lambda self, x: F.clip(self.net(x), -self.limit, self.limit),
        lambda m, i: setattr(m, "limit", 1 / (1 + i)),
    ),
    "power_attribute": (
        lambda self, x: (abs(self.net(x)) + 1) ** self.power,
        lambda m, i: setattr(m, "power", 0.5 * i),
    ),
    "shape_attribute": (
        lambda self, x: self.net(x).reshape(self.shape),
        _set("shape", [(-1,), (5, 3), (3, 5)]),
    ),
    "axis_attribute": (
        lambda self, x: F.sum(self.net(x), axis=self.axis),
        _set("axis", [0, 1, None]),
    ),
    "user_config_entry": (
        lambda self, x: self.net(x) * chainer.config.corpus_scale,
        lambda m, i: setattr(chainer.config, "corpus_scale", 1.0 + i // 2),
    ),
    "user_config_global": (
        lambda self, x: self.net(x) * chainer.config.corpus_global,
        lambda m, i: setattr(chainer.global_config, "corpus_global", 1.0 + i // 2),
    ),
    "config_train_flip": (
        lambda self, x: F.dropout(self.net(x)),
        lambda m, i: setattr(chainer.config, "train", i % 3 != 2),
    ),
    "config_train_branch": (
        lambda self, x: self.net(x) * (1 if chainer.config.train else 2),
        lambda m, i: setattr(chainer.config, "train", i % 3 != 2),
    ),
    "config_dtype": (
        lambda self, x: (
            self.net(x)
            + np.zeros(3, chainer.get_dtype()).astype("f")
            + len(str(chainer.config.dtype))
        ),
        lambda m, i: setattr(chainer.config, "dtype", np.dtype("fd"[i // 2 % 2])),
    ),
    "property_of_class": (
        lambda self, x: self.net(x) * self.double,
        lambda m, i: (
            setattr(type(m), "double", property(lambda self: 2 * self.base)),
            setattr(m, "base", 1.0 + i // 2),
        ),
    ),
    "slots_object": (
        lambda self, x: self.net(x) * self.config.scale,
        lambda m, i: setattr(m.config, "scale", 1.0 + i // 2),
        lambda: Slotted(),
    ),
    "named_tuple_replaced": (
        lambda self, x: self.net(x) * self.config.real,
        lambda m, i: setattr(m, "config", float(i)),
    ),
    "dict_subclass": (
        lambda self, x: self.net(x) * self.config.scale,
        lambda m, i: m.config.__setitem__("scale", 1.0 + i // 2),
        lambda: AttrDict(scale=1.0),
    ),
    "getattr_object": (
        lambda self, x: self.net(x) * self.config.scale,
        lambda m, i: m.config.values.update(scale=1.0 + i // 2),
        lambda: Lazy(),
    ),
    "mapping_proxy": (
        lambda self, x: self.net(x) * self.config["scale"],
        lambda m, i: SETTINGS.update(scale=1.0 + i // 2),
        lambda: types.MappingProxyType(SETTINGS),
    ),
    "method_of_config": (
        lambda self, x: self.net(x) * self.config.rate(),
        lambda m, i: setattr(m.config, "step", i // 2),
        lambda: Schedule(),
    ),
    "class_as_config": (
        lambda self, x: self.net(x) * self.config.SCALE,
        lambda m, i: setattr(Base, "SCALE", 1.0 + i // 2),
        lambda: Base,
    ),
    "module_as_config": (
        lambda self, x: self.net(x) * self.config.SCALE,
        lambda m, i: setattr(m.config, "SCALE", 1.0 + i // 2),
        lambda: types.ModuleType("settings"),
    ),
    "optimizer_as_config": (
        lambda self, x: self.net(x) * self.config.lr,
        lambda m, i: setattr(m.config, "lr", 1.0 + i // 2),
        lambda: chainer.optimizers.SGD(),
    ),
    "initializer_as_config": (
        lambda self, x: self.net(x) * self.config.scale,
        lambda m, i: setattr(m.config, "scale", 1.0 + i // 2),
        lambda: chainer.initializers.Normal(),
    ),
    "string_buffer_length": (
        lambda self, x: self.net(x) * len(self.config),
        lambda m, i: m.config.extend(b"x") if i % 3 == 2 else None,
        lambda: bytearray(b"ab"),
    ),
    "range_object": (
        lambda self, x: sum(self.net(x) * k for k in self.config),
        lambda m, i: setattr(m, "config", range(1, 2 + i // 3)),
    ),
}


class Slotted:
    __slots__ = ("scale",)


class AttrDict(dict):
    def __getattr__(self, name):
        return self[name]


class Lazy:
    def __init__(self):
        self.values = {"scale": 1.0}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.values[name]


class Schedule:
    step = 0

    def rate(self):
        return 0.9**self.step


for _name, _parts in PROGRAMS.items():
    globals()[f"p_{_name}"] = drive(*_parts)
