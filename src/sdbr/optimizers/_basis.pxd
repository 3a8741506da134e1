"""What an update plan was made from, held to be compared."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint64_t

from sdbr.optimizers._tree cimport Tree
from sdbr.trace.guards._definitions cimport Definitions


cdef struct Entry:
    # One parameter of the target. All pointers are borrowed from `UpdateBasis.kept`, the array
    # from `UpdateBasis.arrays`: other threads may take anything from where it was found.
    PyObject *param           # its __dict__
    PyObject *data            # the list that holds its array
    PyObject *array           # that array
    PyObject *rule            # update rule, or None
    PyObject *rule_dict
    PyTypeObject *rule_class
    Py_ssize_t rule_size
    PyObject *enabled         # True or False
    PyObject *hyperparam
    PyObject *hyperparam_dict
    PyObject *parent
    Py_ssize_t overrides      # entries of the hyperparameter's dict, the parent among them
    PyObject *pre             # the dicts of the rule's hooks
    PyObject *post
    PyObject *hooks           # what they held: a tuple, or NULL when it was nothing
    PyObject *state           # the state dict
    PyObject *states          # a tuple of each name in it, followed by its array
    int n_states
    int half                  # its array is float16, of the host
    PyObject *fp32            # of such: whether the rule updates a copy in float32,
    PyObject *master          # that copy: a parameter or None,
    PyObject *master_data     # the list that holds its array, NULL where it is no operand,
    PyObject *master_array    # and that array
    int scaled                # the plan divides its gradient by the loss scale
    int plain                 # its array is what kernels take
    int native                # an operand of the native update
    int group                 # -1: the rule does not run natively
    PyObject *loss_scale      # what `param` held, or NULL
    PyObject *grad            # its gradient; alive as long as `grad_version` is right
    # Of `param`, `rule_dict` and `state` when all that is asked of them was as it should be.
    uint64_t param_version
    uint64_t grad_version     # of `param` when its gradient was `grad`, and nothing stood around it
    uint64_t rule_version
    uint64_t state_version
    int param_slot            # -1: not an operand of the update program
    int grad_slot


cdef enum:
    # Parameters whose objects are on their way while one is compared: after the rest of a step they
    # are in no cache.
    AHEAD = 4


cdef enum:
    # What is looked for in each parameter, by where it was in the last one: `UpdateBasis.places`.
    AT_DATA
    AT_RULE
    AT_LOSS_SCALE
    AT_VALID
    AT_VARIABLE
    AT_GRAD
    PLACES


cdef class UpdateBasis:
    cdef readonly object optimizer
    cdef dict optimizer_dict
    cdef public bint always_rebuild
    cdef Tree tree
    cdef Entry *entries
    cdef Py_ssize_t[PLACES] places
    cdef readonly Py_ssize_t n_entries
    cdef Py_ssize_t n_idle        # those without arrays, whose rules count
    cdef list kept
    cdef list arrays              # by entry: the parameter's array
    cdef list groups
    cdef list values              # by group: hyperparameters, from check to prepare
    cdef list next_t              # by group, from prepare to commit
    cdef list group_t             # by group: t of its rules, from check to prepare
    cdef list group_extra         # by group: that attribute of its rules, from check to commit
    cdef list next_extra
    cdef list used_extra          # what the step under way has taken, or the last one
    cdef list known_extra         # where `rule_version` is right
    cdef bint filled              # the last check got as far as these
    cdef bint found_right         # nothing was wrong in the last check
    cdef list known_t             # by group: t of its rules where `rule_version` is right
    cdef list scalar_hooks        # (hook, attribute, times_loss_scale, control index)
    cdef list fixed               # (hook, attribute, what it is)
    cdef object hookable
    cdef object dynamic
    cdef object pre_hooks
    cdef object post_hooks
    cdef tuple hooks
    cdef Definitions code         # of classes
    cdef tuple own                # (dict, names, those of them that are there): code of instances
    cdef Py_ssize_t own_sizes[2]  # of these when that was looked at
    cdef readonly bint counted    # the step under way is counted already
    cdef public list ahead        # copies in float32 that Chainer has not made yet
    cdef public object loss_scale
    cdef int loss_scale_index     # in the control block, or -1

    cpdef bint check(self)
    cdef PyObject *_keep(self, value)
    cdef bint same_attribute(self, Entry *e)
    cdef bint check_optimizer(self)
    cdef bint check_code(self)
    cdef bint check_parameters(self)
    cdef void fetch(self, Py_ssize_t i) noexcept
    cdef bint check_param(self, Entry *e)
    cdef bint check_rule(self, Entry *e, bint same_t)
    cdef bint check_rule_dict(self, Entry *e)
    cdef int refresh(self) except -1
    cdef bint array_changed(self, Py_ssize_t i)
