"""What other compiled modules may use of the effects of a run."""

from sdbr.call._outputs cimport Outputs


cdef struct Step:
    int kind
    int place                     # of the output, or of a store's Variable; else NOWHERE
    int at                        # among `writes`; else NOWHERE


cdef class Effects:
    cdef readonly dict places     # value index -> its place among `things`
    cdef Step *steps              # what is done after a run, in order
    cdef int n_steps
    cdef list details             # per step: a tuple, by its kind
    cdef list writes              # of (dict, name, place, whether a report comes before it)
    cdef int n_late               # how many of these have a report before them
    cdef bint is_overheard        # whether code of others is told of the reports
    cdef list written             # per write: the Variable or array that was written last
    cdef list observers           # per report
    cdef list reporters           # Chainer's list of this thread, as long as a run is under way
    cdef list exact               # the numbers of the trace that `numbers` are
    cdef list numbers             # of Python, as they are in this run; see `Numbers`
    cdef list kinds               # per output: requires_grad of a Variable, None for an array
    cdef set handed_on            # places of attributes whose old contents the call hands on
    cdef list keep                # per output: whether its array stays in place
    cdef list things              # what is handed out in this run: outputs, then leaves
    cdef bint shares              # whether a list or dict is left in more than one place
    cdef dict made                # the lists and dicts of this run, by the id of their structures
    cdef int n_outputs
    cdef object node_class
    cdef Outputs outputs
    cdef list in_place(self)
    cdef bint stays(self, Py_ssize_t i, d, name, int place) except -1
    cdef object thing(self, int place)
    cdef object filled(self, structure, dict places)
    cdef object made_of(self, structure, dict things)
    cdef int take(self, list leaves) except -1
    cdef void keep_written(self)
    cdef void forget(self)
    cdef void forget_things(self)
    cdef bint can_report(self) except -1
    cdef int apply(self) except -1
    cdef int report(self, list items, observer) except -1
