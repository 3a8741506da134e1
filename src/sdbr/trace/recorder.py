"""Runs a call as define-by-run and writes down what it did."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable

from sdbr.base.errors import TraceError
from sdbr.base.reasons import OF_THEMSELVES, Reason, Remedy
from sdbr.devices.arrays import Array, allocations_noted, is_writeable
from sdbr.trace._applies import FunctionNodes
from sdbr.trace.arrays.known import Values
from sdbr.trace.arrays.leaving import Leaving
from sdbr.trace.arrays.memories import Memories
from sdbr.trace.arrays.traced_float import Floats, plain_float
from sdbr.trace.arrays.traced_int import Ints
from sdbr.trace.arrays.views import Views, replace_everywhere
from sdbr.trace.captured import Borrowed, CapturedState
from sdbr.trace.code.frames import user_line
from sdbr.trace.code.generators import Generators
from sdbr.trace.code.moving import GENERATORS
from sdbr.trace.code.profile_calls import calls_seen
from sdbr.trace.code.reading import link_of
from sdbr.trace.containers import Handed, Plain
from sdbr.trace.current import current, set_current
from sdbr.trace.effects._own_forwards import OwnForwards
from sdbr.trace.effects.attributes import LinkAttributes
from sdbr.trace.effects.growing import Growth
from sdbr.trace.effects.keeping import Kept
from sdbr.trace.effects.output import finish_streams
from sdbr.trace.effects.reports import RecordingReporter, Reports
from sdbr.trace.effects.stores import Outside
from sdbr.trace.forgotten import why_not_through
from sdbr.trace.gradients import Gradients
from sdbr.trace.guards.link_contents import LinkContents
from sdbr.trace.lasting import LastingMemory
from sdbr.trace.meeting import Meeting
from sdbr.trace.numpy_calls import NumpyCalls
from sdbr.trace.on_device.functions import ON_DEVICE, instead_of
from sdbr.trace.passing_on import Passing
from sdbr.trace.patches import APPLIES, NODES, PATCHES
from sdbr.trace.questions import Questions
from sdbr.trace.structure import (
    containers_in,
    fill,
    flatten,
    is_number,
    mapped,
    number_names,
    numbers_in,
)
from sdbr.trace.values import Trace
from sdbr.trace.watch.sources import Source
from sdbr.trace.watch.watching import watching

import chainer
import numpy as np
from chainer import reporter

_MOST_REASONS = 16  # of one call, besides the first


class Recorder:
    """Collects one :class:`~sdbr.trace.values.Trace`; one per traced call.

    What it knows of one kind of thing is a part of it, an object of its own with its own names.
    Parts ask each other by way of the recorder (``self.recorder.views.note_view(...)``), all of
    them the values and the floats, which are made first.

    Parameters
    ----------
    transparent : callable
        Of a class of function nodes: whether it hides nothing when its gradient is differentiated.

    Attributes
    ----------
    depth : int
        Above zero inside a function's forward or backward: nothing is recorded there.
    link : chainer.Link or None
        Whose call is under way, the innermost one.
    """

    def __init__(self, transparent: Callable[[type], bool]):
        self.transparent = transparent
        self.allocated: set[int] = set()  # where memory of CuPy begins that the call got
        self.gpu: int | None = None  # where the arrays of the call lie; None: on the host
        self.trace = Trace()
        self._depth = 0
        self.link = None
        self.call_watch = None
        self.code_watch = None
        self.reads = None
        self.own_forwards = None
        self.borrowed = Borrowed()
        self.moving: set[str] = set()  # where numbers lie that were others in earlier calls
        self.generators = Generators()
        if self.generators.unwatched:
            self.trace.unwatched.append(self.generators.unwatched)
        self.frame = None  # of `_call`, while the call is traced
        self._later = contextlib.ExitStack()  # patches that only some calls need
        self._watches_nodes = False
        self.plain = Plain({})
        self.streams: dict[int, tuple] = {}  # texts in memory that the call wrote to
        self.values = Values(self)
        self.floats = Floats(self)
        self.nodes = FunctionNodes(self)
        self.calls = NumpyCalls(self)
        self.views = Views(self)
        self.memory = Memories(self)
        self.lasting = LastingMemory(self)
        self.attributes = LinkAttributes(self)
        self.reports = Reports(self)
        self.ints = Ints(self)
        self.gradients = Gradients(self)
        self.contents = LinkContents(self)
        self.captured = CapturedState(self)
        self.outside = Outside(self)
        self.growth = Growth(self)
        self.kept = Kept(self)
        self.questions = Questions(self)
        self.leaving = Leaving(self)
        self.meeting = Meeting(self)
        self.passing = Passing(self)

    def close(self) -> None:
        """Let go of all that was recorded: parts know the recorder, which no count frees."""
        vars(self).clear()

    @property
    def on_device(self) -> bool:
        """Whether the arrays of the call are CuPy's."""
        return self.gpu is not None

    @property
    def depth(self) -> int:
        return self._depth

    @depth.setter
    def depth(self, depth: int) -> None:
        """What draws inside a function draws in every replay; what draws outside does not."""
        before, self._depth = self._depth, depth
        if before == 0 and depth:
            self.generators_unmoved()
            self.pause()
        elif before and depth == 0:
            self.generators.look()
            self.go_on()

    def pause(self) -> None:
        """See nothing of what runs until `go_on`; may be nested."""
        if self.call_watch is not None:
            self.call_watch.pause()
        if self.code_watch is not None:
            self.code_watch.pause()

    def go_on(self) -> None:
        """After `pause`."""
        if self.call_watch is not None:
            self.call_watch.go_on()
        if self.code_watch is not None:
            self.code_watch.go_on()

    def generators_unmoved(self) -> None:
        """Nobody drew outside of functions since the generators were looked at; else dynamic."""
        moved = self.generators.moved()
        if moved is not None:
            self.mark_dynamic(
                f"{moved} was drawn from where it is not seen (before this line); draw with "
                "numpy.random and a size, or in static_code",
                Remedy.DRAW_ARRAYS,
            )

    def meets(self, thing, source: Source) -> None:
        """The call has reached a generator, a number, a Variable, a link, or all in a container."""
        if isinstance(thing, GENERATORS):
            self.generators.watch(thing, f"{str(source)!r}, a random generator of its own,")
        else:
            self.captured.know_met(thing, source)

    def _hooks(self) -> dict[str, Callable]:
        """What the watch of the code asks and tells: see `watching`."""
        return {
            "meets": self.meets, "writes": self.outside.stores.note,
            "shows": functools.partial(self.borrowed.shows, self), "holds_nodes": self.watch_nodes,
            "stands": self._instead_of, "knows": self.values.known_view,
            "moves": functools.partial(self.borrowed.moves, self), "moving": self.moving,
        }  # fmt: skip

    def _instead_of(self, thing):
        """What is called in the place of a function that code has by a name of its own."""
        found = PATCHES.instead_of(thing)
        return instead_of(thing) if found is None and self.on_device else found

    def mark_dynamic(
        self, text: str, remedy: Remedy, quiet: bool = False, line: str | None = None
    ) -> None:
        """The call cannot be static; `quiet` when that is no fault of the code."""
        if self.trace.dynamic is None or (self.trace.quiet and not quiet):
            self.trace.dynamic = Reason(text, remedy, user_line() if line is None else line)
            self.trace.quiet = quiet
        elif remedy in OF_THEMSELVES and not quiet and len(self.trace.others) < _MOST_REASONS:
            reason = Reason(text, remedy, user_line() if line is None else line)
            if reason not in (self.trace.dynamic, *self.trace.others):
                self.trace.others.append(reason)

    def watch_nodes(self) -> None:
        """User code may hold a function node from now on: what it reads there is noted."""
        if not self._watches_nodes:
            self._watches_nodes = True
            self._later.enter_context(NODES)

    # --- the whole call ------------------------------------------------------------------------
    def run(self, function, structure, leaves, silent: bool = False, given=None):
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
        given : tuple, optional
            ``(args, kwargs)`` of the caller, whose lists and dicts change when the call changes
            its own: such a call is dynamic.

        Returns
        -------
        object
            What the call returned, with plain arrays.
        """
        owner = link_of(function)
        if owner is not None:
            self.link = owner
            self.trace.roots.append(("", owner))
        traced_leaves = [self.values.argument(leaf, i) for i, leaf in enumerate(leaves)]
        floats = numbers_in(structure)
        self.trace.float_names = names = number_names(structure)
        slots = iter([self.floats.number_argument(i, x, names[i]) for i, x in enumerate(floats)])
        own = mapped(structure, lambda x: next(slots) if is_number(x) else x)
        filled = fill(own, traced_leaves)
        handed = None if given is None else Handed(given, filled)
        args, kwargs = filled if handed is None else handed.arguments
        _release()  # what an interrupted trace left
        self.outside.count_given(traced_leaves)
        try:
            result = self._call(function, args, kwargs, silent)
        except BaseException:
            if handed is not None:
                handed.give_back()
            raise
        # Nobody else may hold the result by now: references to it are counted, see `escapes`.
        finish_streams(self)
        out_leaves: list = []
        try:
            returned = flatten(result, "the result", out_leaves, empty=self._returned_empty)
        except TraceError as error:
            returned = self._returned_other(error)
        self.plain = Plain({}) if handed is None else handed.plain
        self._collect(returned, out_leaves, containers_in(result), handed)
        self.lasting.finish_lasting(leaves)
        self.floats.finish_floats(floats)
        self.nodes.not_forgotten = why_not_through(self)
        result = self.plain.of(result)
        self.captured.given[:] = (), {}
        del self.plain, returned, own, filled, args, kwargs, handed, floats  # which hold some
        self.leaving.settle_floats()
        return result

    def _returned_empty(self, path: str) -> None:
        self.mark_dynamic(f"{path} is a Variable without an array", Remedy.GIVE_ARRAY)

    def _returned_other(self, error: TraceError) -> None:
        """What is handed out is nothing that can be made again: the user gets it as it is."""
        self.mark_dynamic(str(error), Remedy.RETURN_OTHER)

    def leave_plain(self) -> None:
        """The call has raised: whatever it has kept by then is what define-by-run keeps."""
        self.captured.given[:] = (), {}
        held, self.floats.followed_floats = self.floats.followed_floats, []
        replace_everywhere({id(x): (x, plain_float(x)) for x in held})
        self.views.take_back_views()
        self.ints.take_back_counters()

    def _call(self, function, args, kwargs, silent: bool):
        """Call the function with everything in place that notes what it does."""
        reporters = reporter._get_reporters()
        recording = RecordingReporter(self, reporters[-1] if reporters and not silent else None)
        with APPLIES, PATCHES, self._later:
            try:
                self.frame = sys._getframe()
                set_current(self)
                if self.on_device:
                    self._later.enter_context(ON_DEVICE)
                    self._later.enter_context(allocations_noted(self.allocated))
                reporters.append(recording)
                with calls_seen(self):
                    if self.call_watch is not None:
                        self.own_forwards = OwnForwards(self)
                    self.generators.look()
                    self.captured.given[:] = args, kwargs
                    with watching(function, args, kwargs, self._hooks()) as self.code_watch:
                        result = function(*args, **kwargs)
                    self.reads, self.code_watch = self.code_watch.reads, None
                    self.generators_unmoved()
            finally:
                set_current(None)
                self.frame = self.own_forwards = None
                _drop_recording(reporters)
        return result

    def _collect(self, returned, leaves: list, containers: dict, handed: Handed | None) -> None:
        """After the call: what it returned, what it has written, and what that makes of it."""
        structure = mapped(returned, self.floats.shown_scalar)
        values = list(map(self.calls.handed_out, leaves))
        _note_writeable(leaves, values)
        self.trace.result = fill(structure, values)
        self.views.check_exports()
        self.views.check_shown()
        self.trace.asks_layout |= self.memory.either_way and self.reads.compares_arrays
        if any(array.flags.num != flags for array, flags in self.memory.flagged):
            self.mark_dynamic("flags of an array were set in place", Remedy.DO_OUTSIDE)
        if handed is not None and handed.changed():
            self.mark_dynamic(
                "a list or dict among the arguments was changed", Remedy.CHANGE_A_COPY
            )
        given = {} if handed is None else handed.origins
        settle = functools.partial(self._settle, leaves, values, containers, given)
        self.attributes.collect(leaves, containers, settle)
        self.passing.finish_passing()
        if handed is not None:
            handed.give_back()

    def _settle(self, leaves: list, values: list, containers: dict, given: dict) -> None:
        """All that the call leaves somewhere is known: what is handed out is plain from now on."""
        if containers:
            # The first is the result. No variable here may hold it: references to it are counted.
            known = {id(x): value for x, value in zip(leaves, values, strict=True)}
            self.trace.result = self.kept.template_of(
                next(iter(containers.values())),
                lambda x: known[id(x)] if id(x) in known else self.floats.shown_scalar(x),
            )
        self.kept.check_holders(containers, given)
        self.kept.settle(self.plain.of)


def traced_by_caller() -> bool:
    """Whether a trace of this thread is under way, so that this call is a part of it.

    A signal (Ctrl-C) at the wrong moment leaves a recorder behind whose call has ended: it is
    taken away here.
    """
    recorder = current()
    if recorder is None:
        return False
    frame = sys._getframe(1)
    while frame is not None:
        if frame is recorder.frame:
            return True
        frame = frame.f_back
    set_current(None)
    _release()
    APPLIES.release_thread()
    _drop_recording(reporter._get_reporters())
    return False


def _release() -> None:
    PATCHES.release_thread()
    ON_DEVICE.release_thread()
    NODES.release_thread()


def _note_writeable(things: list, values: list) -> None:
    """Note on the values of results whether user code may write to their arrays."""
    for thing, value in zip(things, values, strict=True):
        array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
        # A traced scalar says that it is an array.
        if issubclass(type(array), np.ndarray) or type(array) is Array:
            value.writeable = is_writeable(array)


def _drop_recording(reporters: list) -> None:
    reporters[:] = [r for r in reporters if type(r) is not RecordingReporter]
