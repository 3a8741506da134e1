"""What a replay hands out: Variables and arrays, attributes, reports."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from sdbr._binding import write_attribute
from sdbr.autograd import call_class
from sdbr.instance import source_of
from sdbr.plans import output_values, returned_as_is
from sdbr.trace.scalars import Scalar
from sdbr.trace.structure import fill_values
from sdbr.trace.values import Value

import chainer
from chainer import reporter

if TYPE_CHECKING:
    from sdbr.schedule import Schedule


def hand_out(
    schedule, instance, arrays: dict, leaves, sources, manager, reference, snapshot
) -> dict:
    """Variables and arrays by value index; builds the autograd node where one is needed.

    Parameters
    ----------
    schedule : Schedule
    instance : Instance
        Whose forward program has run.
    arrays : dict
        What `Instance.run_forward` returned.
    leaves, sources : list
        The arrays of the arguments, and what every leaf of the plan stood for.
    manager : ScheduleManager
    reference : GradientAudit or None
        What the backward is to be compared with.
    snapshot : Snapshot or None
        What a second derivative needs of the time before the call.
    """
    plan = schedule.forward
    things: dict[int, object] = {}
    for value, _, _, _ in plan.outputs:
        array = arrays[value.index]
        if value.is_variable:
            things[value.index] = chainer.Variable._init_unchecked(
                array, requires_grad=value.shown, is_chainerx_array=False
            )
        else:
            things[value.index] = array[()] if value.is_scalar else array
    if plan.graph_outputs:
        inputs = [
            things[value.index] if value.index in things else source_of(value, leaves)
            for value in plan.differentiable
        ]
        node = call_class(plan)(instance, sources, manager)
        if reference is not None:
            node.reference = reference
        if snapshot is not None:
            node.snapshot = snapshot
        node.call_line = instance.call_line = manager.statistics.calls
        node.connect(inputs, [things[value.index] for value in plan.graph_outputs])
        instance.node = weakref.ref(node)
    for value in _returned_leaves(schedule):
        things[value.index] = source_of(value, leaves)
    return things


def _returned_leaves(schedule: Schedule):
    """Arguments, parameters and captured state that the call returns as they are."""
    if schedule.returned_leaves is None:
        schedule.returned_leaves = [x for x in output_values(schedule.trace) if returned_as_is(x)]
    return schedule.returned_leaves


def apply_effects(trace, things: dict) -> None:
    """Write attributes and report values, in the order of the trace."""
    if trace.reports:
        reporters = reporter._get_reporters()
        if reporters:
            for report in trace.reports:
                items = {
                    k: fill_values(x, things) if isinstance(x, (Value, Scalar)) else x
                    for k, x in report.items.items()
                }
                reporters[-1].report(items, report.observer)
    for write in trace.writes:
        write_attribute(write.link.__dict__, write.name, fill_values(write.value, things))
    for store in trace.stores:
        target = None if store.target is None else things[store.target.index]
        store.place.put(fill_values(store.value, things), target)
