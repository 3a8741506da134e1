"""What other compiled modules may use of the replay of a schedule."""

from sdbr.call._binding cimport Binder
from sdbr.call._effects cimport Effects
from sdbr.call._conditions cimport Numbers
from sdbr.call._spec cimport Leaves
from sdbr.optimizers._update cimport Update
from sdbr.schedule._statistics cimport Statistics, Usage


cdef class Sources:
    # Per leaf: (its place among the leaves of the call or a number of `Source`, object or dict,
    # name).
    cdef list described
    cdef list of(self, tuple args, list positions, Effects effects)


cdef class Replay:
    cdef readonly object manager
    cdef readonly object schedule
    cdef Statistics statistics
    cdef Usage usage
    cdef int python_ops
    cdef object result
    cdef int result_place         # of a result that is one Variable or array, else NOWHERE
    cdef dict places              # value index -> its place among what is handed out
    cdef Sources returned         # of the leaves that are handed out as they are, or None
    cdef Sources leaf_sources
    cdef Sources graph_sources    # of the inputs of the autograd node
    cdef list graph_places        # places of the outputs of the autograd node
    cdef list followed            # places of the Variables whose arrays backwards read, or None
    cdef list graph_ranks         # of these: by how much they are above the inputs
    cdef tuple in_layouts
    cdef tuple out_layouts
    cdef object call_class
    cdef str outputs_name
    cdef bint anchored            # one input that gets no gradient
    cdef bint double              # second derivatives may be asked for
    cdef readonly bint joins_graph  # whether a call leaves an autograd node behind
    cdef Py_ssize_t deepest       # the last of the instances that a call has needed lately
    cdef int until_trim           # calls until those behind it go
    cdef object taken_back        # what is put back of a run that meets another answer, or None
    cdef int run(self, Binder binder, tuple given) except -1
    cdef object idle_instance(self)
    cdef int trim(self, list instances) except -1
    cdef object serve(self, Leaves now, list positions, Numbers numbers, bint quick, reference)
    cdef object serve_alone(self, Binder binder, Leaves now, list positions, Numbers numbers)
    cdef object finish(self, Effects effects, Numbers numbers, tuple args, list positions)
    cdef object connect(
        self, instance, Effects effects, tuple args, list positions, list sources, snapshot
    )


cdef Binder binder_of(instance)
cdef int look_for_exits(Binder binder, schedule, plan, list params, Update update) except -1
