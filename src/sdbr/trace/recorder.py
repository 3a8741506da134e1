"""Runs a call as define-by-run and writes down what it did."""

from __future__ import annotations

import copy
import functools
import sys
import weakref

import chainer
import numpy as np
from chainer import _backprop_utils, reporter

from sdbr.compat.hooks import PatchSet
from sdbr.trace.creation import register as register_creation
from sdbr.trace.provenance import (
    PURE,
    TracedArray,
    current,
    holds_traced,
    set_current,
    strip,
    strip_nested,
    user_line,
    wrap,
)
from sdbr.trace.structure import Leaf, fill, flatten
from sdbr.trace.values import (
    ABSENT,
    ALIAS,
    ARGUMENT,
    ATTRIBUTE,
    CONSTANT,
    PARAMETER,
    RESULT,
    AttributeWrite,
    Hole,
    Read,
    Rebinding,
    Report,
    Trace,
    TracedNode,
    Value,
)

# Chainer's machinery reads arrays without computing with them; it gets them plain.
_MACHINERY = frozenset({
    'variable', 'function_node', 'function', '_backprop', '_backprop_utils', 'backend', '_backend', 'backends', 'reporter',
    'link', 'optimizer', 'device_resident', 'initializers', 'initializer', 'testing', 'utils.type_check', 'types',
})  # fmt: skip

_MISSING = object()
_COPIES = ('array', 'asanyarray', 'asarray', 'ascontiguousarray', 'astype', 'copy')
_MEMBERS = ('_params', '_children')
_INTERNAL = frozenset({'_params', '_persistent', '_children', '_within_init_scope', '_device', 'name', '_cpu',
                       'schedule_manager', 'static_schedule', '_sdbr_managers', 'printable_specs', '_local_link_hooks',
                       'update_enabled', '_overridden_to_methods', '_visitor_to_methods', '_DeviceResident__overridden'
                       '_to_methods'})  # fmt: skip
_SCALARS = (int, float, bool, str, type(None))


class Recorder:
    """Collects one :class:`~sdbr.trace.values.Trace`; one per traced call.

    Attributes
    ----------
    depth : int
        Above zero inside a function's forward or backward: nothing is recorded there.
    """

    def __init__(self):
        self.trace = Trace()
        self.depth = 0
        self._nodes: dict[int, tuple] = {}  # id(VariableNode) -> (VariableNode, Value)
        self._arrays: dict[int, tuple] = {}  # id(array) -> (weakref, Value)
        self._parameters: dict[int, Value] = {}
        self._aliases: dict[int, Value] = {}  # index of a value -> its array
        self._made: dict[int, tuple] = {}  # id -> (array made from nothing, its contents then)
        self._constants: dict[int, tuple] = {}  # id(pure array) -> (array, Value)
        self._attributes: dict[tuple[int, str], Value] = {}
        self._links: dict[int, tuple] = {}  # id(link) -> (link, attributes before the call)
        # What `Reference` asks for: copies of the outputs of every node, the Variables of values.
        self.kept: list | None = None
        self.variables: dict[int, chainer.Variable] = {}
        self._containers: dict[tuple[int, str], tuple] = {}
        self._seen_reads: set = set()
        # (id(link), name): what static_code wrote; what the call wrote before static_code runs.
        self.effect_writes: set = set()
        self.pending_writes: set = set()

    # --- values --------------------------------------------------------------------------------
    def value(self, kind, array, requires_grad, source, is_variable) -> Value:
        value = Value(
            len(self.trace.values), kind, array.shape, array.dtype, requires_grad, source, is_variable
        )
        self.trace.values.append(value)
        return value

    def know_array(self, array, value: Value) -> None:
        array = strip(array)
        self._arrays[id(array)] = (weakref.ref(array), value)

    def know_variable(self, variable, value: Value) -> None:
        node = variable._node
        self._nodes[id(node)] = (node, value)
        self.know_array(variable._data[0], value)

    def argument(self, leaf, index: int):
        """Register leaf `index` of the arguments; returns what the traced code gets."""
        if isinstance(leaf, chainer.Variable):
            value = self.value(ARGUMENT, leaf._data[0], leaf.requires_grad, index, True)
            self.know_variable(leaf, value)
            return leaf
        value = self.value(ARGUMENT, leaf, False, index, False)
        self.know_array(leaf, value)
        return wrap(leaf, value)

    def find_array(self, array) -> Value | None:
        known = self._arrays.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        return self._pure(array) if id(array) in self._made else None

    def made(self, array, has_contents: bool = True) -> TracedArray:
        """Note an array that was made from nothing; returns what user code gets.

        Compiled code calls NumPy's creating functions, too, and fills the array with whatever it
        likes: hence the contents.
        """
        self._made[id(array)] = (array, array.tobytes() if has_contents else None)
        return wrap(array, PURE)

    def was_filled(self, array) -> bool:
        """Whether an array made from nothing has got other contents unseen."""
        made = self._made.get(id(array))
        return made is None or made[1] != array.tobytes()

    def of_variable(self, x) -> Value:
        """The value that Variable `x` shows."""
        known = self._nodes.get(id(x._node))
        if known is not None:
            return known[1]
        if isinstance(x, chainer.Parameter):
            return self._parameter(x)
        # A Variable that the call made itself, from an array: no history.
        array = x._data[0]
        base = self._of_traced(array) if type(array) is TracedArray else self.find_array(array)
        x._data[0] = strip(array)
        if base is None:
            value = self._unknown(array, x.requires_grad, True)
        else:
            value = self._alias(base, x.requires_grad, True)
        self._nodes[id(x._node)] = (x._node, value)
        return value

    def of_array(self, array) -> Value:
        """The value that `array` shows, without history."""
        value = self._of_traced(array) if type(array) is TracedArray else self.find_array(array)
        if value is None:
            return self._unknown(array)
        return self._alias(value, False, False) if value.is_variable or value.requires_grad else value

    def _of_traced(self, array) -> Value:
        if array.origin is PURE:
            return self._pure(strip(array))
        if array.origin is not None:
            return array.origin
        self.mark_dynamic('an array was derived from others in a way that cannot be followed')
        return self._unknown(strip(array))

    def _pure(self, array) -> Value:
        """An array made from nothing, as a constant with its present contents."""
        contents = array.tobytes()
        known = self._constants.get(id(array))
        if known is not None and known[1].source.tobytes() == contents:
            return known[1]
        if self.was_filled(array):
            self.trace.unconfirmed = True
        value = self.value(CONSTANT, array, False, array.copy(), False)
        self._constants[id(array)] = (array, value)
        return value

    def _alias(self, base: Value, requires_grad: bool, is_variable: bool) -> Value:
        """The array of `base` as a value of its own, cut off from the history of `base`."""
        if base.kind == ALIAS:
            base = base.source
        value = None if is_variable else self._aliases.get(base.index)
        if value is None:
            value = Value(
                len(self.trace.values), ALIAS, base.shape, base.dtype, requires_grad, base, is_variable
            )
            self.trace.values.append(value)
            if not is_variable:
                self._aliases[base.index] = value
        return value

    def _parameter(self, parameter) -> Value:
        value = self._parameters.get(id(parameter))
        if value is None:
            value = self.value(PARAMETER, parameter._data[0], parameter.requires_grad, parameter, True)
            self._parameters[id(parameter)] = value
            self.know_array(parameter._data[0], value)
        return value

    def _unknown(self, array, requires_grad=False, is_variable=False) -> Value:
        value = self.value(CONSTANT, array, requires_grad, array, is_variable)
        self.know_array(array, value)
        self.trace.unconfirmed = True
        return value

    def mark_dynamic(self, reason: str, quiet: bool = False) -> None:
        """The call cannot be static; `quiet` when that is no fault of the code."""
        if self.trace.dynamic is None or (self.trace.quiet and not quiet):
            self.trace.dynamic = (reason, user_line())
            self.trace.quiet = quiet

    # --- function nodes ------------------------------------------------------------------------
    def apply(self, original, function, inputs):
        template = copy_node(function)
        values = [self.of_variable(x) if isinstance(x, chainer.Variable) else self.of_array(x) for x in inputs]
        inputs = [x if isinstance(x, chainer.Variable) else strip(x) for x in inputs]
        rebind = self._rebindings(template, function)
        backprop = chainer.config.enable_backprop
        self.depth += 1
        try:
            outputs = original(function, inputs)
        finally:
            self.depth -= 1
        node = TracedNode(template, None, None, values, [], backprop, rebind, template.label, user_line())
        node.function = spent_node(function, template)
        for i, y in enumerate(outputs):
            value = self.value(RESULT, y._data[0], y.requires_grad and backprop, (node, i), True)
            value.shown = y.requires_grad
            self.know_variable(y, value)
            node.outputs.append(value)
            if self.kept is not None:
                self.variables[value.index] = y
        self.trace.nodes.append(node)
        if self.kept is not None:
            self.kept.append([y._data[0].copy() for y in outputs])
        return outputs

    def _rebindings(self, template, function) -> list:
        """Arrays among the attributes of a node; traced ones are replaced by plain ones."""
        found = []
        inner = inner_function(template)
        for owner, spent in ((template, function), (inner, inner_function(function))):
            if owner is None:
                continue
            for name, thing in list(owner.__dict__.items()):
                if name in _GRAPH or not isinstance(thing, (np.ndarray, list, tuple, dict)):
                    continue
                values: list[Value] = []
                structure = self._holes(thing, values)
                if values:
                    found.append(Rebinding(name, structure, values, owner is inner))
                    if holds_traced(thing):
                        owner.__dict__[name] = spent.__dict__[name] = strip_nested(thing)
        return found

    def _holes(self, thing, values: list):
        """`thing` with a `Hole` in the place of each array, whose values go to `values`."""
        if isinstance(thing, np.ndarray):
            values.append(self.of_array(thing))
            return Hole(len(values) - 1)
        kind = type(thing)
        if kind in (tuple, list):
            return kind([self._holes(t, values) for t in thing])
        if kind is dict:
            return {k: self._holes(t, values) for k, t in thing.items()}
        return thing

    # --- NumPy calls of user code --------------------------------------------------------------
    def draw(self, call, args, kwargs):
        """Make a draw of NumPy's global generator and record it: every replay draws anew."""
        self.depth += 1  # the generator calls NumPy's creating functions itself
        try:
            result = call(*strip_nested(args), **strip_nested(kwargs))
        finally:
            self.depth -= 1
        if not isinstance(result, np.ndarray):
            self.mark_dynamic(f'numpy.random.{call.__name__} drew a Python number')
            return result
        return self.numpy_call(call, args, kwargs, result, draws=True)

    def numpy_call(self, call, args, kwargs, result, draws=False):
        """Record a NumPy call on known arrays; returns `result` as traced arrays."""
        inputs: list[Value] = []

        def hole(thing):
            kind = type(thing)
            if kind is TracedArray:
                inputs.append(self._of_traced(thing))
                return Hole(len(inputs) - 1)
            if kind in (tuple, list):
                return kind([hole(t) for t in thing])
            if kind is dict:
                return {k: hole(v) for k, v in thing.items()}
            if isinstance(thing, np.ndarray) and self.find_array(thing) is not None:
                inputs.append(self.find_array(thing))
                return Hole(len(inputs) - 1)
            return thing

        recorded = (call, hole(tuple(args)), hole(dict(kwargs)))
        if call.__name__ in _COPIES and len(inputs) == 1 and _is_copy(args[0], result):
            return wrap(result, inputs[0])  # writes to a traced array are noticed: no copy is needed
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        if not all(isinstance(p, (np.ndarray, np.generic)) for p in parts):
            self.mark_dynamic(f'{getattr(call, "__name__", call)} turned an array into a Python value')
            return result
        label = f'numpy {getattr(call, "__name__", call)}'
        node = TracedNode(
            None, None, recorded, inputs, [], False, [], label, user_line(), draws=draws
        )
        wrapped = []
        for i, part in enumerate(parts):
            array = np.asarray(part)
            value = self.value(RESULT, array, False, (node, i), False)
            self.know_array(array, value)
            node.outputs.append(value)
            wrapped.append(wrap(array, value))
        self.trace.nodes.append(node)
        if self.kept is not None:
            self.kept.append([np.array(part) for part in parts])
        return type(result)(wrapped) if isinstance(result, (tuple, list)) else wrapped[0]

    def read_array(self, variable, array):
        """What ``variable.array`` gives to user code."""
        if array is None or type(array) is not np.ndarray:
            return array
        known = self._nodes.get(id(variable._node))
        value = known[1] if known is not None else None
        if value is None and isinstance(variable, chainer.Parameter):
            value = self._parameter(variable)
        if value is None:
            value = self.find_array(array)
        return array if value is None else wrap(array, value)

    # --- attributes of links -------------------------------------------------------------------
    def watch(self, link) -> dict:
        known = self._links.get(id(link))
        if known is None:
            known = self._links[id(link)] = (link, dict(link.__dict__))
            for name, thing in link.__dict__.items():
                if isinstance(thing, (list, dict, set)) and name not in _INTERNAL:
                    self._containers[id(link), name] = (thing, _contents(thing))
        return known[1]

    def read_attribute(self, link, name: str, thing):
        """Note a read of ``link.name``; returns what user code gets."""
        if name in _MEMBERS:
            self._note_members(link, name, thing)
            return thing
        if name == '_n_local_link_hooks':
            self._note_read(link, name, thing)
            if thing:
                self.mark_dynamic('a link hook is active', quiet=True)
            return thing
        before = self.watch(link)
        if (id(link), name) in self.effect_writes:
            self.mark_dynamic(f'attribute {name!r}, which static_code wrote, was read outside it')
        first = before.get(name, _MISSING)
        if first is _MISSING and name not in link.__dict__:
            self.note_absent(link, name)  # an attribute of the class, which the link may hide later
        if first is not thing or name in _INTERNAL:
            return thing  # written by this call, or a class attribute
        if isinstance(thing, chainer.Parameter):
            self._note_read(link, name, thing)
            return thing
        if isinstance(thing, chainer.Variable):
            self._note_read(link, name, thing)
            if thing._data[0] is not None and id(thing._node) not in self._nodes:
                value = self._attribute(link, name, thing._data[0], thing.requires_grad, True)
                self.know_variable(thing, value)
            return thing
        if isinstance(thing, np.ndarray):
            self._note_read(link, name, thing)
            value = self._attribute(link, name, thing, False, False)
            self.know_array(thing, value)
            return wrap(thing, value) if not called_by_machinery(sys._getframe(2)) else thing
        self._note_read(link, name, thing)
        return thing

    def note_absent(self, link, name) -> None:
        """Note that the call looked for ``link.name`` and the link itself had none."""
        if name not in _INTERNAL and name not in self.watch(link):
            self._note_read(link, name, ABSENT)

    def _note_members(self, link, name, members) -> None:
        """Code goes over parameters or children: all of them are read, and the list itself."""
        if (id(link), name) in self._seen_reads:
            return
        self._note_read(link, name, members if type(members) is list else set(members))
        for member in [] if type(members) is list else sorted(members):
            thing = link.__dict__.get(member)
            if isinstance(thing, (chainer.Link, chainer.Parameter)):
                self.read_attribute(link, member, thing)

    def _attribute(self, link, name, array, requires_grad, is_variable) -> Value:
        value = self._attributes.get((id(link), name))
        if value is None:
            value = self.value(ATTRIBUTE, array, requires_grad, (link, name), is_variable)
            self._attributes[id(link), name] = value
        return value

    def _note_read(self, link, name, thing) -> None:
        if (id(link), name) not in self._seen_reads:
            self._seen_reads.add((id(link), name))
            self.trace.reads.append(Read(link, name, thing))

    def _collect_writes(self) -> None:
        for link, before in self._links.values():
            for name, thing in link.__dict__.items():
                first = before.get(name, _MISSING)
                if thing is first or name in _INTERNAL:
                    continue
                if isinstance(thing, (chainer.Parameter, chainer.Link)):
                    self.mark_dynamic(f'a {type(thing).__name__} was assigned to attribute {name!r} during the call')
                elif isinstance(thing, (chainer.Variable, np.ndarray)):
                    self.trace.writes.append(AttributeWrite(link, name, self._written(link, name, thing)))
                elif thing is None:
                    self.trace.writes.append(AttributeWrite(link, name, None))
                elif first is _MISSING or type(thing) is not type(first) or not _same(thing, first):
                    self.mark_dynamic(
                        f'attribute {name!r} of {type(link).__name__} was set to {thing!r:.60} during the call; '
                        'code that must run every time belongs into sdbr.static_code'
                    )
        for (_, name), (thing, contents) in self._containers.items():
            if not _same_contents(_contents(thing), contents):
                self.mark_dynamic(f'the contents of attribute {name!r} changed during the call')

    def _written(self, link, name, thing) -> Value:
        if isinstance(thing, chainer.Variable):
            return self.of_variable(thing)
        if type(thing) is TracedArray:
            link.__dict__[name] = strip(thing)
        return self.of_array(thing)

    # --- reports -------------------------------------------------------------------------------
    def report(self, values, observer) -> None:
        items = {}
        for name, thing in values.items():
            if isinstance(thing, chainer.Variable):
                items[name] = self.of_variable(thing)
            elif isinstance(thing, (np.ndarray, np.generic)) and not isinstance(thing, np.generic):
                items[name] = self.of_array(thing)
            else:
                items[name] = thing
                if not isinstance(thing, (int, str)):
                    self.trace.unconfirmed = True
        self.trace.reports.append(Report(items, observer))

    # --- the whole call ------------------------------------------------------------------------
    def run(self, function, structure, leaves, silent: bool = False):
        """Call ``function(*args, **kwargs)`` while recording.

        Parameters
        ----------
        function : callable
            With the owner already bound.
        structure : tuple
            ``(args, kwargs)`` with :class:`~sdbr.trace.structure.Leaf` at arrays.
        leaves : list
            The arrays and Variables.
        silent : bool
            Keep reported values from the user's reporter.

        Returns
        -------
        object
            What the call returned, with plain arrays.
        """
        traced_leaves = [self.argument(leaf, i) for i, leaf in enumerate(leaves)]
        args, kwargs = fill(structure, traced_leaves)
        reporters = reporter._get_reporters()
        recording = _RecordingReporter(self, reporters[-1] if reporters and not silent else None)
        with _PATCHES:
            set_current(self)
            reporters.append(recording)
            try:
                result = function(*args, **kwargs)
            finally:
                reporters.remove(recording)
                set_current(None)
        out_leaves: list = []
        out_structure = flatten(result, 'the result', out_leaves)
        values = [
            self.of_variable(x) if isinstance(x, chainer.Variable) else self.of_array(x) for x in out_leaves
        ]
        self.trace.result = fill(out_structure, values)
        self._collect_writes()
        self.trace.unconfirmed = self.trace.unconfirmed or _has_floats(out_structure)
        plain = [x if isinstance(x, chainer.Variable) else strip(x) for x in out_leaves]
        return fill(out_structure, plain)


class _RecordingReporter:
    """Stands on top of the stack of reporters while tracing; passes on what it notes."""

    def __init__(self, recorder, below):
        self.recorder = recorder
        self.below = below

    def report(self, values, observer=None):
        if not self.recorder.depth:  # inside a function or static_code it happens again in every run
            self.recorder.report(values, observer)
        if self.below is not None:
            self.recorder.depth += 1
            try:
                self.below.report({k: strip(v) for k, v in values.items()}, observer)
            finally:
                self.recorder.depth -= 1

    def __getattr__(self, name):
        return getattr(self.below, name)


def _is_copy(array, result) -> bool:
    return type(array) is TracedArray and (array.dtype, array.shape) == (result.dtype, result.shape)


def _has_floats(structure) -> bool:
    if isinstance(structure, float):
        return True
    if isinstance(structure, dict):
        return any(_has_floats(v) for v in structure.values())
    if isinstance(structure, (list, tuple)):
        return any(_has_floats(v) for v in structure)
    return False


def _contents(thing):
    if isinstance(thing, dict):
        return list(thing.keys()) + list(thing.values())
    return list(thing)


def _same_contents(a, b) -> bool:
    return len(a) == len(b) and all(x is y or isinstance(x, _SCALARS) and type(x) is type(y) and x == y
                                    for x, y in zip(a, b, strict=True))  # fmt: skip


def _same(a, b) -> bool:
    try:
        return bool(a == b) or repr(a) == repr(b)
    except Exception:
        return False


def copy_node(function):
    """The node before its first forward; containers are copied one level deep."""
    template = copy.copy(function)
    for name, thing in template.__dict__.items():
        if type(thing) in (list, dict, set):
            template.__dict__[name] = copy.copy(thing)
    old = inner_function(template)
    if old is not None:
        # An old-style Function keeps its state on itself and a weak reference to its node.
        inner = copy.copy(old)
        template._function = inner
        inner._node = weakref.ref(template)
        inner._owned_node = None
    return template


def inner_function(node):
    """The old-style Function behind a node, or None."""
    return node._function if isinstance(node, chainer.function.FunctionAdapter) else None


_GRAPH = ('inputs', 'outputs', '_retained_output_data', 'stack', '_chainerx_retained_inputs')


def spent_node(function, template):
    """The node after its forward, without graph and without arrays that the call made."""
    spent = copy.copy(function)
    for name in _GRAPH:
        spent.__dict__.pop(name, None)
    before = template.__dict__
    for name, thing in list(spent.__dict__.items()):
        if isinstance(thing, np.ndarray) and before.get(name) is not thing:
            if name in before:
                spent.__dict__[name] = before[name]
            else:
                del spent.__dict__[name]
    return spent


# --- patches that are in place while any call is traced ---------------------------------------------


def _wrap_apply(original):
    @functools.wraps(original)
    def apply(self, inputs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(self, inputs)
        return recorder.apply(original, self, inputs)

    return apply


def _wrap_backprop_step(original):
    @functools.wraps(original)
    def backprop_step(*args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(*args, **kwargs)
        recorder.mark_dynamic('a backward ran inside the call')
        recorder.depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            recorder.depth -= 1

    return backprop_step


def called_by_machinery(frame) -> bool:
    """Whether `frame` belongs to the parts of Chainer that only pass arrays on."""
    package, _, rest = frame.f_globals.get('__name__', '').partition('.')
    if package != 'chainer':
        return False
    if frame.f_code.co_name == '_initialize_params':
        return True  # parameters get their first values in the first call
    return rest.partition('.')[0] in _MACHINERY or rest in _MACHINERY


def _wrap_array(original):
    getter = original.fget

    def read(self):
        array = getter(self)
        recorder = current()
        if recorder is None or recorder.depth or called_by_machinery(sys._getframe(1)):
            return array
        return recorder.read_array(self, array)

    def write(self, array):
        recorder = current()
        if recorder is not None and not recorder.depth and id(self._node) in recorder._nodes:
            recorder.mark_dynamic('the array of a Variable was replaced during the call')
        original.fset(self, strip(array))

    return property(read, write, original.fdel, original.__doc__)


def _wrap_unchain(original):
    @functools.wraps(original)
    def unchain(self):
        recorder = current()
        if recorder is not None and id(self) in recorder._nodes:
            recorder._nodes[id(self)][1].unchained = True
        return original(self)

    return unchain


def _getattribute(original):
    def __getattribute__(self, name):
        recorder = current()
        try:
            thing = object.__getattribute__(self, name)
        except AttributeError:
            if recorder.__class__ is Recorder and not recorder.depth and name[:2] != '__':
                recorder.note_absent(self, name)
            raise
        if recorder is None or name[:2] == '__':
            return thing
        if recorder.depth:
            if recorder.pending_writes and (id(self), name) in recorder.pending_writes:
                # A replay writes attributes after the program has run.
                recorder.mark_dynamic(f'attribute {name!r}, written during the call, was read in static_code')
            return thing
        if recorder.__class__ is not Recorder:
            return thing
        return recorder.read_attribute(self, name, thing)

    return __getattribute__


def _setattr(original):
    @functools.wraps(original)
    def __setattr__(self, name, value):
        recorder = current()
        if recorder is not None and not recorder.depth:
            recorder.watch(self)
        return original(self, name, value)

    return __setattr__


_PATCHES = PatchSet('recorder')
_PATCHES.register(chainer.FunctionNode, 'apply', _wrap_apply)
_PATCHES.register(_backprop_utils, 'backprop_step', _wrap_backprop_step)
_PATCHES.register(chainer.Variable, 'array', _wrap_array)
_PATCHES.register(chainer.Variable, 'data', _wrap_array)
_PATCHES.register(chainer.variable.VariableNode, 'unchain', _wrap_unchain)
_PATCHES.register(chainer.Link, '__getattribute__', _getattribute)
_PATCHES.register(chainer.Link, '__setattr__', _setattr)

register_creation(_PATCHES, called_by_machinery)

__all__ = ['Leaf', 'Recorder']
