# cython: language_level=3
"""Function nodes that are applied while a call is traced, compiled: each is looked at here."""

import functools
import sys

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, Array
from sdbr.trace.arrays.asking import count, settled
from sdbr.trace.arrays._scalars import neutral_label
from sdbr.trace.arrays.stripping import TRACED, holds_traced, is_traced, strip, strip_nested
from sdbr.trace.arrays.traced_float import plain_float
from sdbr.trace.code.catching import has_handlers, may_catch
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import line_of, user_line
from sdbr.trace.current import _local
from sdbr.trace.effects.raising import told_of_values
from sdbr.trace.effects.sides import side
from sdbr.trace.forgotten import Forgotten, trace_through
from sdbr.trace.node_state import changed_by, variables_around
from sdbr.trace._node_copies import (
    GRAPH, attributes_of, copy_node, inner_function, runs_users_code, spent_node,
)
from sdbr.trace.nodes import (
    config_changes,
    config_entries,
    entry_of_config,
    has_own_backward,
    may_write_gradients,
    watch_backward,
)
from sdbr.trace.not_static import may_update, why_not_static
from sdbr.trace.values import (
    ALIAS, ARGUMENT, ATTRIBUTE, RESULT, Hole, Rebinding, TracedNode, Value, VariableHole,
)
from sdbr.trace.watch.watching import beside

import chainer
import numpy as np
from chainer.functions.array.get_item import GetItem
from chainer.functions.util.forget import Forget

#: Errors that code which is not in the tables may raise.
_ANY = (
    IndexError, KeyError, ValueError, TypeError, ZeroDivisionError, ArithmeticError, RuntimeError,
    AttributeError,
)
_HOLDERS = (*ARRAYS, list, tuple, dict, chainer.Variable)


cdef object _Variable = chainer.Variable


class ConfigWatch:
    """What `using_config` has changed since this was made; asked for every node of a call."""

    def __init__(self):
        self.before = config_entries()
        self._seen = []
        self._changes = {}

    def changes(self) -> dict:
        """As `config_changes`; not to be written to."""
        cdef dict shared = chainer.global_config.__dict__, own = chainer.config._local.__dict__
        if not _are_in(self._seen, shared, own):
            self._seen = [*shared, *own, *shared.values(), *own.values()]
            self._changes = config_changes(self.before)
        return self._changes


cdef bint _are_in(list seen, dict shared, dict own) except -1:
    """Whether both dictionaries hold what they held: names, and things by identity."""
    cdef Py_ssize_t i = 0, n = len(shared) + len(own)
    if len(seen) != 2 * n:
        return False
    for entries in (shared, own):
        for name, thing in (<dict> entries).items():
            if i >= n or seen[i] is not name or seen[n + i] is not thing:
                return False
            i += 1
    return i == n


class FunctionNodes:
    """The part of the recorder that runs function nodes and writes them down."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self._config_watch = ConfigWatch()
        self.config_before = self._config_watch.before
        self.catchers: list = []  # context managers that may keep errors to themselves
        # Whether the functions inside of ``F.forget`` are recorded; all of them, the one that runs
        # now, and why the call has to be traced without.
        self.through = False
        self.groups: list[Forgotten] = []
        self.forgotten: Forgotten | None = None
        self.not_forgotten: str | None = None
        self.asked_masks: set[int] = set()  # masks of which the call has asked how many they choose

    def apply(self, original, function, inputs):
        cdef list values = [], given = [], frames
        if not _are_operands(inputs):
            return original(function, [plain_float(x) for x in inputs])  # raises Chainer's error
        self.recorder.views.check_exports()
        if self.through and type(function) is Forget:
            return trace_through(self.recorder, original, function, inputs)
        template = copy_node(function)
        # Most nodes have no attributes of their own before their forward.
        scalars = self.floats.take_floats(template, function) if template.__dict__ else []
        for x in inputs:
            is_variable = isinstance(x, _Variable)
            values.append(self.values.of_variable(x) if is_variable else self.values.of_array(x))
            given.append(x if is_variable or type(x) not in TRACED else strip(x))
        inputs = given
        rebind = []
        if template.__dict__:
            rebind = self._rebindings(template, function, {name for name, _, _ in scalars})
        held = [x for r in rebind for x in r.values if x.index not in self.asked_masks]
        reason = why_not_static(function, values, held)
        if reason is not None:
            self.recorder.mark_dynamic(reason.text, reason.remedy)
        self._check_hooks(function)
        backprop = self._backprop()
        frames = _users_frames(self.recorder.frame)
        around = variables_around(function, frames)
        before = self.recorder.passing.contents_before(function, inputs)
        self.recorder.depth += 1
        try:
            outputs = self._applied(original, function, inputs)
        except Exception as error:
            # Whoever catches it goes another way than a replay without an error.
            if not _follows_from_shapes(function, error):
                text = f"an error of {template.label} was raised during the call"
                self.recorder.mark_dynamic(text, Remedy.CATCH_OUTSIDE)
            raise
        finally:
            self.recorder.depth -= 1
        self.recorder.memory.note_applied(function, inputs, values, outputs, backprop)
        self._check_variables(around, template)
        line = line_of(frames[0]) if frames else user_line()
        node = TracedNode(template, None, None, values, [], backprop, rebind, template.label, line)
        _after_forward(node, function, scalars)
        watch_backward(function, node)
        self.recorder.passing.note_passed(node, inputs, outputs, before)
        self.add_node(node, outputs, frames)
        self.recorder.passing.note_passing(node, inputs)
        if self.forgotten is not None:
            self.forgotten.applied(node, function, inputs, outputs)
        self.recorder.memory.note_results(function, inputs, outputs)
        self.values.know_state(node, function)
        self.recorder.gradients.know_function(function, node)
        return outputs

    def _applied(self, original, function, inputs):
        if not runs_users_code(function):
            return original(function, inputs)
        given = [x._data[0] if isinstance(x, _Variable) else x for x in inputs]
        code = inner_function(function) or function
        with self.recorder.memory.unfilled(given), beside(self.recorder.code_watch, code):
            return original(function, inputs)

    def _check_hooks(self, function) -> None:
        if function._local_function_hooks:
            text = f"{function.label} has a hook of its own"
            self.recorder.mark_dynamic(text, Remedy.USE_FUNCTIONS, quiet=True)
        if chainer.get_function_hooks():  # none was active when the call began
            text = "a function hook is entered inside of the call"
            self.recorder.mark_dynamic(text, Remedy.DO_OUTSIDE)

    def _check_variables(self, around, template) -> None:
        """Make the call dynamic where the node has left a result in a variable around it."""
        name = changed_by(around)
        if name is not None:
            self.recorder.mark_dynamic(
                f"a result of {template.label} was left in the variable {name!r}",
                Remedy.STAY_ARRAYS,
            )

    def _backprop(self) -> bool:
        """Whether function nodes are made that can go backward."""
        backprop = entry_of_config("enable_backprop")
        return backprop if self.forgotten is None else self.forgotten.backprop(backprop)

    def add_node(self, node: TracedNode, outputs, frames: list | None = None) -> None:
        """Append a function node whose outputs are these Variables; `frames` as in `caught`."""
        of = getattr(node, "of", None)  # what it is the gradient of
        node.caught = self.caught(frames)
        node.config = self._config_watch.changes()
        node.train = bool(entry_of_config("train"))
        node.link = self.recorder.link if of is None else of.link
        if self.recorder.on_device and node.backprop:
            self._check_places(node, outputs)
        for i, y in enumerate(outputs):
            requires_grad = y.requires_grad and node.backprop
            value = self.values.value(RESULT, y._data[0], requires_grad, (node, i), True)
            value.shown = y.requires_grad
            self.values.know_variable(y, value)
            node.outputs.append(value)
        self.trace.nodes.append(node)

    def _check_places(self, node: TracedNode, outputs) -> None:
        """Gradients do not go to the host: such a call is dynamic."""
        at_home = all([type(y._data[0]) is Array for y in outputs])
        if not at_home or any([x.host for x in node.inputs]):
            if any([x.requires_grad for x in node.inputs]):
                text = f"{node.label} goes to the host or comes from there, with a gradient"
                self.recorder.mark_dynamic(text, Remedy.MOVE_THERE)

    def caught(self, frames: list | None = None) -> tuple[bool, bool]:
        """Whether the user's code catches an `IndexError` of what runs now; any error of it.

        `frames` are those of the user's code in the call, where they are known already.
        """
        told = told_of_values()
        if told is not None:
            self.recorder.mark_dynamic(
                f"{told} lets values raise errors, which no replay does", Remedy.LOOK_AFTERWARDS
            )
        if self.catchers:
            return True, True
        index = anything = False
        for frame in _users_frames(self.recorder.frame) if frames is None else frames:
            if not has_handlers(frame.f_code):
                continue
            index = index or may_catch(frame, (IndexError,))
            anything = index or anything or may_catch(frame, _ANY, others=True)
        return index, anything

    def _rebindings(self, template, function, floats: set) -> list:
        """Arrays among the attributes of a node; traced ones are replaced by plain ones."""
        found = []
        for owner, spent, inner, name, thing in attributes_of(template, function):
            if name in GRAPH:
                continue
            if not isinstance(thing, _HOLDERS) and not is_traced(thing):
                number = self.values.number_of(thing)
                if number is not None:  # a gradient takes it from the node of its function
                    found.append(Rebinding(name, Hole(0), [number], inner))
                elif name not in floats and isinstance(thing, np.generic):
                    self.values.note_unknown()
                continue
            if name != "value":  # else it is a number like others, which the node computes with
                selects = isinstance(function, GetItem)
                asked = settled(thing, slices_alone=selects)
                for part in thing if selects and type(thing) is tuple else ():
                    if is_traced(part) and part.dtype == bool:
                        self.asked_masks.add(self.values.of_array(part).index)
                        count(part)
                if asked is not thing:
                    owner.__dict__[name] = spent.__dict__[name] = thing = asked
            values: list[Value] = []
            structure = self._holes(thing, values)
            if values:
                self.values.given_to_nodes = True
                found.append(Rebinding(name, structure, values, inner))
            if isinstance(thing, ARRAYS) and may_update(owner, name):
                self._hold(thing, values[0])
            if holds_traced(thing):
                owner.__dict__[name] = spent.__dict__[name] = thing = strip_nested(thing)
                if isinstance(thing, np.generic):
                    self.values.computed_numbers[id(thing)] = (thing, values[0])
            if _holds_variable(thing):  # the template must not keep the graph behind it
                owner.__dict__[name] = _without_history(thing)
        return found

    def _hold(self, array, value: Value) -> None:
        """Note an array that a function may update in place: no copy can stand for it."""
        behind = value.source if value.kind == ALIAS else value
        behind.held = True
        if behind.kind in (ARGUMENT, ATTRIBUTE) and not array.flags.c_contiguous:
            self.recorder.mark_dynamic(
                "an array that a function may update in place is not contiguous",
                Remedy.USE_FUNCTIONS,
            )

    def _holes(self, thing, values: list):
        """`thing` with a `Hole` in the place of each array, whose values go to `values`."""
        if isinstance(thing, ARRAYS) or is_traced(thing):
            value = self.values.of_array(thing)
            values.append(value)
            return Hole(len(values) - 1)
        kind = type(thing)
        if kind is chainer.Variable:  # a Parameter stays: it is the user's own
            values.append(self.values.of_variable(thing))
            return VariableHole(len(values) - 1)
        if kind in (tuple, list):
            return kind([self._holes(t, values) for t in thing])
        if kind is dict:
            return {k: self._holes(t, values) for k, t in thing.items()}
        return strip_nested(thing)


cdef bint _are_operands(inputs) except -1:
    for x in inputs:
        if not (isinstance(x, _Variable) or isinstance(x, ARRAYS)):
            return False
    return True


cdef list _users_frames(last):
    """As `user_frames`, all of them."""
    cdef list found = []
    frame = sys._getframe(0)
    while frame is not None and frame is not last:
        if is_users(frame.f_globals.get("__name__", "")):
            found.append(frame)
        frame = frame.f_back
    return found


def _after_forward(node: TracedNode, function, scalars: list) -> None:
    """Put down in `node` what `function` is now that it has run."""
    node.function = spent_node(function, node.template)
    if has_own_backward(function):
        node.own = True
        node.accumulates = may_write_gradients(function)
    node.applied = True
    if scalars:
        node.scalars = scalars
        node.label = neutral_label(node)


def _follows_from_shapes(function, error: Exception) -> bool:
    """Whether all calls of the key raise it: the end of a Variable that is iterated over."""
    return (
        type(function) is GetItem
        and isinstance(error, IndexError)
        and all(type(s) in (int, slice, type(None), type(...)) for s in function.slices)
    )


def _holds_variable(thing) -> bool:
    kind = type(thing)
    if kind in (list, tuple):
        return any(map(_holds_variable, thing))
    if kind is dict:
        return any(map(_holds_variable, thing.values()))
    return kind is chainer.Variable


def _without_history(thing):
    kind = type(thing)
    if kind in (list, tuple):
        return kind([_without_history(t) for t in thing])
    if kind is dict:
        return {k: _without_history(t) for k, t in thing.items()}
    return chainer.Variable(thing._data[0]) if kind is chainer.Variable else thing


# --- in the place of methods of Chainer ---------------------------------------------------------
#: Packages of Chainer whose functions make nodes.
cdef frozenset _MAKERS = frozenset({"functions", "distributions", "variable"})


def wrap_apply(original):
    """For ``FunctionNode.apply``; compiled code has no frame of its own."""

    @functools.wraps(original)
    def apply(self, inputs):
        recorder = getattr(_local, "recorder", None)
        if recorder is None:
            present = side()
            if present is not None and present.is_plain and not present.depth:
                return _apply_plainly(original, present, self, inputs)
            return original(self, inputs)
        if recorder._depth:
            return original(self, inputs)
        if not _is_made_by_chainer(self, sys._getframe(0)):
            recorder.watch_nodes()
        recorder.pause()
        try:
            return recorder.nodes.apply(original, self, inputs)
        finally:
            recorder.go_on()

    return apply


def _is_made_by_chainer(function, caller):
    """Whether a node that is applied in the frame `caller` is Chainer's affair alone.

    Its functions make nodes and apply them at once; whoever else applies one may look at it.
    """
    return _makes_nodes(caller.f_globals.get("__name__", ""), type(function).__module__)


@functools.lru_cache(maxsize=1024)
def _makes_nodes(module, of_class):
    package, _, rest = module.partition(".")
    if package != "chainer" or rest.partition(".")[0] not in _MAKERS:
        return False
    return of_class.partition(".")[0] == "chainer"


def _apply_plainly(original, present, function, inputs):
    """Apply a function in the plain run of an audit."""
    present.depth += 1
    try:
        outputs = present.apply(original, function, inputs)
    finally:
        present.depth -= 1
    present.applied(function, outputs)
    return outputs


def wrap_link_call(original):
    """For ``Link.__call__``: whose call is under way."""

    @functools.wraps(original)
    def __call__(self, *args, **kwargs):
        recorder = getattr(_local, "recorder", None)
        if recorder is None or recorder._depth:
            return original(self, *args, **kwargs)
        before, recorder.link = recorder.link, self
        try:
            return original(self, *args, **kwargs)
        finally:
            recorder.link = before

    return __call__


def wrap_node_init(original):
    """For ``VariableNode.__init__``: which nodes the call has made."""

    def __init__(self, variable, name, **kwargs):
        original(self, variable, name, **kwargs)
        recorder = getattr(_local, "recorder", None)
        if recorder is not None:
            recorder.captured.made_here.add(id(self))

    return __init__


def wrap_creator(original):
    """What ``unchain`` and ``unchain_backward`` do is to take the creator away."""
    setter = original.fset

    def write(self, creator):
        if creator is None:
            recorder = getattr(_local, "recorder", None)
            if recorder is not None:
                recorder.gradients.cut(self)
        setter(self, creator)

    return property(original.fget, write, original.fdel, original.__doc__)
