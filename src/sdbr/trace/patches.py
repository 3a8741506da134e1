"""What is patched while any call is traced."""

from __future__ import annotations

import contextlib
import functools
import sys

from sdbr.base.reasons import Remedy
from sdbr.compat.patches import PatchSet
from sdbr.devices.arrays import PLAIN
from sdbr.trace._applies import wrap_apply, wrap_creator, wrap_link_call, wrap_node_init
from sdbr.trace.arrays.creation import register as register_creation
from sdbr.trace.arrays.stripping import holds_known, is_traced, strip, strip_nested
from sdbr.trace.arrays.telling import tell
from sdbr.trace.code.catching import may_catch
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import called_by_machinery
from sdbr.trace.current import current
from sdbr.trace.effects._reads import array_reader, getattribute_of_link
from sdbr.trace.effects.output import register as register_output
from sdbr.trace.effects.raising import register as register_raising
from sdbr.trace.gradients import register as register_gradients
from sdbr.trace.meeting import register as register_math
from sdbr.trace.whole import register as register_whole

import chainer


def _wrap_array(original):
    def write(self, array):
        recorder = current()
        itself = strip(array) is self._data[0]  # ``p.array += x`` has written there already
        if (
            recorder is not None
            and not recorder.depth
            and not (itself and recorder.lasting.is_held(self._data[0]))
            and (
                isinstance(self, chainer.Parameter)
                or id(self._node) in recorder.values.variables
                or recorder.captured.was_there(self)
            )
        ):
            recorder.mark_dynamic(
                "the array of a Variable was replaced during the call", Remedy.DO_OUTSIDE
            )
        original.fset(self, strip(array))

    return property(array_reader(original.fget), write, original.fdel, original.__doc__)


def _wrap_moving(original):
    """A Variable gets its array on another device."""

    @functools.wraps(original)
    def to_device(self, device, *args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(self, device, *args, **kwargs)
        before = self._data[0]
        made = not isinstance(self, chainer.Parameter) and not recorder.captured.was_there(self)
        shown, is_leaf = self._data, made and self.creator_node is None
        if is_leaf and before is not None:
            shown[0] = recorder.calls.read_array(self, before)
        try:
            original(self, device, *args, **kwargs)
        finally:
            shown[0] = before
        after = self._data[0]
        if after is before:
            return
        self._data[0] = strip(after)
        if is_leaf and is_traced(after):
            recorder.values.moved(self, after)
        else:
            text = "the array of a Variable was replaced during the call"
            recorder.mark_dynamic(text, Remedy.DO_OUTSIDE)

    return to_device


def _wrap_item(original):
    @functools.wraps(original)
    def item(self):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(self)
        return recorder.calls.read_array(self, self._data[0]).item()

    return item


def _wrap_copy(original):
    """A Variable that shows the array of another, of which each call has its own."""

    @functools.wraps(original)
    def __copy__(self):
        made = original(self)
        recorder = current()
        if recorder is not None and not recorder.depth and self._data[0] is not None:
            recorder.values.of_variable(self)
            recorder.values.of_variable(made)
        return made

    return __copy__


def _wrap_reduce(original):
    """What a copy or a pickle is made of: as if who makes it had read it."""

    @functools.wraps(original)
    def __reduce__(self):
        make, parts = original(self)
        recorder = current()
        if recorder is None or recorder.depth:
            return make, parts
        array, name, gradient, *others = parts
        if gradient is not None or recorder.captured.was_there(self):  # which may get one
            text = "a Variable from outside was copied with its gradient"
            recorder.mark_dynamic(text, Remedy.DO_OUTSIDE)
        return make, (recorder.calls.read_array(self, array), name, gradient, *others)

    return __reduce__


def _wrap_text(original):
    """A text that shows the array of a Variable."""

    @functools.wraps(original)
    def text(self):
        tell()
        return original(self)

    return text


def _wrap_node_data(original):
    """The array that a node of the graph has retained."""
    getter = original.fget

    def read(self):
        array = getter(self)
        recorder = current()
        if recorder is None or recorder.depth or called_by_machinery(sys._getframe(1)):
            return array
        return recorder.calls.read_node(self, array)

    return property(read, original.fset, original.fdel, original.__doc__)


def _wrap_making(original):
    """A Parameter made during the call of what the call has computed: a new one in every call."""

    @functools.wraps(original)
    def __init__(self, initializer=None, *args, **kwargs):
        recorder = current()
        of_array = holds_known(initializer) or type(initializer) in PLAIN
        if recorder is not None and not recorder.depth and of_array:
            text = "a Parameter was made of an array in the call"
            recorder.mark_dynamic(text, Remedy.USE_FUNCTIONS)
        original(self, strip_nested(initializer), *args, **kwargs)

    return __init__


def _wrap_effect(original):
    """A method that changes arrays or gradients, which no replay would repeat."""

    @functools.wraps(original)
    def effect(self, *args, **kwargs):
        recorder = current()
        if recorder is not None and not recorder.depth:
            recorder.mark_dynamic(
                f"{type(self).__name__}.{original.__name__} was called", Remedy.DO_OUTSIDE
            )
        return original(self, *args, **kwargs)

    return effect


def _wrap_handing_out_nodes(original):
    """The function that made a Variable, for whoever asks."""
    getter = original.fget

    def read(self):
        recorder = current()
        if (
            recorder is not None
            and not recorder.depth
            and not called_by_machinery(sys._getframe(1))
        ):
            recorder.watch_nodes()
        return getter(self)

    return property(read, original.fset, original.fdel, original.__doc__)


def _getattribute_of_function(original):
    def __getattribute__(self, name):
        recorder = current()
        if recorder is not None and not recorder.depth and recorder.values.has_left(self):
            frame = sys._getframe(1)
            if is_users(frame.f_globals.get("__name__", "")):
                recorder.values.read_left(self, name)
        return original(self, name)

    return __getattribute__


def _setattr(original):
    @functools.wraps(original)
    def __setattr__(self, name, value):
        recorder = current()
        if recorder is not None and not recorder.depth:
            recorder.attributes.watch(self)
            recorder.attributes.written.add((id(self), name))
        return original(self, name, value)

    return __setattr__


def _wrap_adding(original):
    """A method that adds an attribute and refuses to do so twice."""

    @functools.wraps(original)
    def add(self, name, *args, **kwargs):
        recorder = current()
        if recorder is not None and not recorder.depth:
            recorder.attributes.note_absent(self, name)
        return original(self, name, *args, **kwargs)

    return add


def _wrap_entering(original):
    """Of a context manager that keeps errors to itself: always, or by an ``except`` of its own."""

    @functools.wraps(original)
    def enter(self):
        result = original(self)
        recorder = current()
        if recorder is not None:
            frame = getattr(getattr(self, "gen", None), "gi_frame", None)
            if frame is None or may_catch(frame, (Exception, IndexError)):
                recorder.nodes.catchers.append(self)
        return result

    return enter


def _wrap_leaving(original):
    @functools.wraps(original)
    def leave(self, *error):
        recorder = current()
        if recorder is not None:
            recorder.nodes.catchers = [c for c in recorder.nodes.catchers if c is not self]
        return original(self, *error)

    return leave


#: What an audit needs as well; a set of its own, so that user code there sees no other patch.
APPLIES = PatchSet("function nodes")
APPLIES.register(chainer.FunctionNode, "apply", wrap_apply)

#: Once user code may hold a function node. Chainer has hundreds of classes of them, whose methods
#: have to be found anew whenever this one changes.
NODES = PatchSet("attributes of function nodes")
NODES.register(chainer.FunctionNode, "__getattribute__", _getattribute_of_function)
NODES.register(chainer.Function, "__getattribute__", _getattribute_of_function)

PATCHES = PatchSet("recorder")
PATCHES.register(chainer.Variable, "array", _wrap_array)
PATCHES.register(chainer.Variable, "data", _wrap_array)
PATCHES.register(chainer.Variable, "_to_device", _wrap_moving)
PATCHES.register(chainer.Variable, "item", _wrap_item)
for _owner in (chainer.Variable, chainer.Parameter):
    PATCHES.register(_owner, "__reduce__", _wrap_reduce)
    PATCHES.register(_owner, "__copy__", _wrap_copy)
for _name in ("__repr__", "__str__", "debug_print"):
    PATCHES.register(chainer.Variable, _name, _wrap_text)
PATCHES.register(chainer.variable.VariableNode, "data", _wrap_node_data)
PATCHES.register(chainer.Parameter, "__init__", _wrap_making)
PATCHES.register(chainer.Variable, "copydata", _wrap_effect)
PATCHES.register(chainer.Variable, "addgrad", _wrap_effect)
PATCHES.register(chainer.Parameter, "cleargrad", _wrap_effect)
PATCHES.register(chainer.Parameter, "zerograd", _wrap_effect)
PATCHES.register(chainer.variable.VariableNode, "creator_node", wrap_creator)
PATCHES.register(chainer.variable.VariableNode, "__init__", wrap_node_init)
PATCHES.register(chainer.Link, "__getattribute__", getattribute_of_link)
PATCHES.register(chainer.Link, "__setattr__", _setattr)
PATCHES.register(chainer.Link, "__call__", wrap_link_call)
for _owner in (chainer.Variable, chainer.variable.VariableNode):
    PATCHES.register(_owner, "creator", _wrap_handing_out_nodes)
    PATCHES.register(_owner, "creator_node", _wrap_handing_out_nodes)
PATCHES.register(chainer.Link, "add_persistent", _wrap_adding)

for manager in (contextlib.suppress, contextlib._GeneratorContextManager):
    PATCHES.register(manager, "__enter__", _wrap_entering)
    PATCHES.register(manager, "__exit__", _wrap_leaving)

register_creation(PATCHES)
register_math(PATCHES)
register_gradients(PATCHES)
register_output(PATCHES)
register_raising(PATCHES)
register_whole(PATCHES)
