"""The per-step cost of the update, compiled: is the plan still right, and this step's scalars.

Everything is compared by identity, in dictionaries that are held: of parameters, update rules
and hyperparameters. The dictionaries of instances live as long as the instances, and attribute
writes go through them. What is found in them belongs to whoever writes there, perhaps another
thread: it is held while anything runs in between that may be Python code (an allocation may, by
the collector).
"""

import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdlib cimport calloc, free

from sdbr.program._memory cimport Memory

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *)
    Py_ssize_t PySet_GET_SIZE(PyObject *)
    Py_ssize_t sdbr_dict_size "PyDict_GET_SIZE"(PyObject *)
    PyObject *sdbr_list_item "PyList_GET_ITEM"(PyObject *, Py_ssize_t)
    Py_ssize_t sdbr_list_size "PyList_GET_SIZE"(PyObject *)
    int sdbr_set "PyDict_SetItem"(PyObject *, PyObject *, PyObject *) except -1

cdef extern from *:
    """
    /* NumPy's macros want their own pointer type. */
    #define SDBR_ARRAY(x) ((PyArrayObject *)(x))
    static inline int sdbr_exact_array(PyObject *x) { return PyArray_CheckExact(x); }
    static inline int sdbr_carray(PyObject *x) { return PyArray_ISCARRAY(SDBR_ARRAY(x)); }
    static inline int sdbr_carray_ro(PyObject *x) { return PyArray_ISCARRAY_RO(SDBR_ARRAY(x)); }
    static inline int sdbr_type(PyObject *x) { return PyArray_TYPE(SDBR_ARRAY(x)); }
    static inline int sdbr_same_shape(PyObject *x, PyObject *y)
    {
        return PyArray_SAMESHAPE(SDBR_ARRAY(x), SDBR_ARRAY(y));
    }
    """
    int sdbr_exact_array(PyObject *)
    int sdbr_carray(PyObject *)
    int sdbr_carray_ro(PyObject *)
    int sdbr_same_shape(PyObject *, PyObject *)
    int sdbr_type(PyObject *)

cnp.import_array()

# Interned by the compiler, as attribute names are: a lookup compares pointers.
cdef str _UPDATE_RULE = "update_rule"
cdef str _DATA = "_data"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef str _LOSS_SCALE = "_loss_scale"
cdef str _ENABLED = "enabled"
cdef str _T = "t"
cdef str _HYPERPARAM = "hyperparam"
cdef str _STATE = "_state"
cdef str _TARGET = "target"
cdef str _HOOKABLE = "_hookable"
cdef str _PARENT = "_parent"
cdef PyObject *K_UPDATE_RULE = <PyObject *> _UPDATE_RULE
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *K_LOSS_SCALE = <PyObject *> _LOSS_SCALE
cdef PyObject *K_ENABLED = <PyObject *> _ENABLED
cdef PyObject *K_T = <PyObject *> _T
cdef PyObject *K_HYPERPARAM = <PyObject *> _HYPERPARAM
cdef PyObject *K_STATE = <PyObject *> _STATE
cdef PyObject *K_PARENT = <PyObject *> _PARENT
cdef object _TRUE = True
cdef PyObject *NONE = <PyObject *> None
cdef PyObject *TRUE = <PyObject *> _TRUE


cdef inline bint _is_plain(PyObject *array) noexcept:
    # What kernels take: a writeable, C-contiguous float array of NumPy's own.
    if not sdbr_exact_array(array) or not sdbr_carray(array):
        return False
    return sdbr_type(array) == cnp.NPY_FLOAT32 or sdbr_type(array) == cnp.NPY_FLOAT64


def is_plain(array):
    """Whether native ops take an array: a writeable, C-contiguous ndarray of float32 or float64."""
    return _is_plain(<PyObject *> array)


cdef inline PyObject *_get(PyObject *d, PyObject *key) noexcept:
    return PyDict_GetItemWithError(d, key)


cdef class Tree:
    """Which parameters a target has: noticed when a link or parameter comes or goes.

    Parameters
    ----------
    target : chainer.Link
    version_cell : list of int
        Changes with every attribute write of any link; while it does not, nothing is looked at.
    lookups : list of (dict, key, value)
        Registered parameters and children with the dictionaries that hold them.
    sets : list of set
        Names of registered parameters and children.
    lists : list of list
        Children of chain lists.
    opaque : bool
        A link overrides ``params``: then the list it gives is compared.
    """

    def __cinit__(self, target, version_cell, list lookups, list sets, list lists, bint opaque):
        cdef Py_ssize_t i
        self.target = target
        self.version_cell = version_cell
        self.version = version_cell[0]
        self.opaque = opaque
        self.kept = [lookups, sets]
        self.params = list(target.params())
        self.lists = [(items, tuple(items)) for items in lists]
        self.n_lookups = len(lookups)
        self.n_sizes = len(sets)
        self.lookups = <Lookup *> calloc(max(self.n_lookups, 1), sizeof(Lookup))
        self.sizes = <Size *> calloc(max(self.n_sizes, 1), sizeof(Size))
        if self.lookups == NULL or self.sizes == NULL:
            raise MemoryError
        for i in range(self.n_lookups):
            where, key, value = lookups[i]
            self.lookups[i] = Lookup(<PyObject *> where, <PyObject *> key, <PyObject *> value)
        for i in range(self.n_sizes):
            self.sizes[i] = Size(<PyObject *> sets[i], len(sets[i]))

    def __dealloc__(self):
        free(self.lookups)
        free(self.sizes)

    cpdef bint check(self):
        """Whether the target has the very same parameters as before."""
        cdef object now = (<list> self.version_cell)[0]
        if now is self.version and not self.opaque:
            return True
        if not self.walk():
            return False
        self.version = now
        return True

    cdef bint walk(self):
        cdef Py_ssize_t i
        cdef list items
        cdef tuple before
        if self.opaque:
            items = list(self.target.params())
            if len(items) != len(self.params):
                return False
            for i in range(len(items)):
                if items[i] is not self.params[i]:
                    return False
            return True
        for i in range(self.n_sizes):
            if PySet_GET_SIZE(self.sizes[i].where) != self.sizes[i].size:
                return False
        for i in range(self.n_lookups):
            if _get(self.lookups[i].where, self.lookups[i].key) != self.lookups[i].value:
                return False
        for items, before in self.lists:
            if len(items) != len(before):
                return False
            for i in range(len(before)):
                if items[i] is not before[i]:
                    return False
        return True


cdef bint _same(pre, post, tuple before):
    """Whether two dictionaries of hooks hold the very same as `before`, None in between."""
    cdef Py_ssize_t i
    # Lists of dictionaries are made in one go: no other thread gets in between.
    cdef list hooks = list(pre.values())
    hooks.append(None)
    hooks += list(post.values())
    if len(hooks) != len(before):
        return False
    for i in range(len(before)):
        if hooks[i] is not before[i]:
            return False
    return True


class Missing:
    """Stands for a hyperparameter that does not exist; no number, so the step is declined."""


cdef class Group:
    """Rules that make the same step: one row, the same hyperparameters, the same `t`."""

    cdef readonly object row
    cdef readonly object dtype
    cdef readonly object extra
    cdef readonly object hyperparam
    cdef readonly tuple options
    cdef readonly int number
    cdef int first                    # an entry of the group
    cdef readonly int offset          # of its scalars in the control block
    cdef tuple chain                  # dictionaries to look in; None: ask the object
    cdef tuple names
    cdef tuple option_places
    cdef object scalars

    def __init__(self, row, dtype, extra, hyperparam, options, chain, int number, int offset):
        self.row = row
        self.dtype = dtype
        self.extra = extra
        self.hyperparam = hyperparam
        self.options = options
        self.chain = chain
        self.number = number
        self.first = -1
        self.offset = offset
        self.names = row.hyperparameters
        self.option_places = tuple([row.hyperparameters.index(o) for o in row.options])
        self.scalars = row.scalars

    cdef tuple values(self):
        """Hyperparameters in the order of the row; a missing one is the class `Missing`."""
        cdef list out = []
        cdef PyObject *value
        if self.chain is None:
            return tuple([getattr(self.hyperparam, name, Missing) for name in self.names])
        for name in self.names:
            value = NULL
            for d in self.chain:
                value = _get(<PyObject *> d, <PyObject *> name)
                if value != NULL:
                    break
            out.append(Missing if value == NULL else <object> value)
        return tuple(out)

    cdef bint options_hold(self, tuple values):
        cdef Py_ssize_t i
        for i in range(len(self.options)):
            if bool(values[self.option_places[i]]) is not self.options[i]:
                return False
        return True


cdef class UpdateBasis:
    """Compares what an update plan was made from with what is there now.

    Filled by :class:`sdbr.optimizers.plan.UpdatePlan`.
    """

    def __dealloc__(self):
        free(self.entries)

    def _watch_optimizer(
        self, optimizer, tree, list scalar_hooks, loss_scale, int loss_scale_index
    ):
        self.dynamic = optimizer._loss_scaling_is_dynamic
        self.optimizer = optimizer
        self.optimizer_dict = optimizer.__dict__
        self.tree = tree
        self.hookable = optimizer._hookable
        self.pre_hooks = self.hookable._pre_update_hooks
        self.post_hooks = self.hookable._post_update_hooks
        self.hooks = (*self.pre_hooks.values(), None, *self.post_hooks.values())
        self.scalar_hooks = scalar_hooks
        self.loss_scale = loss_scale
        self.loss_scale_index = loss_scale_index

    def _watch_parameters(self, list params, list rules, list details):
        """`details`: per parameter ``(group, native, state, its names, its arrays)``."""
        cdef Py_ssize_t i
        cdef int k
        cdef Entry *e
        self.n_entries = len(params)
        self.kept = [params]
        self.arrays = []
        self.entries = <Entry *> calloc(max(self.n_entries, 1), sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError
        for i in range(self.n_entries):
            e = &self.entries[i]
            param = params[i]
            group, native, state, names, arrays = details[i]
            data = param._data
            self.arrays.append(data[0])
            e.param = self._keep(param.__dict__)
            e.data = self._keep(data)
            e.array = <PyObject *> self.arrays[i]
            e.group = group
            e.native = native
            e.plain = _is_plain(e.array)
            e.param_slot = e.grad_slot = -1
            e.rule = self._keep(rules[i])
            if e.rule == NONE:
                continue
            self._watch_rule(i, rules[i])
            if group < 0:
                continue
            e.state = self._keep(state)
            e.n_states = len(names)
            for k in range(e.n_states):
                e.state_names[k] = self._keep(names[k])
                e.state_arrays[k] = self._keep(arrays[k])

    cdef PyObject *_keep(self, value):
        self.kept.append(value)
        return <PyObject *> value

    def _watch_rule(self, Py_ssize_t i, rule):
        cdef Entry *e = &self.entries[i]
        e.rule_dict = self._keep(rule.__dict__)
        e.rule_size = len(rule.__dict__)
        e.enabled = self._keep(rule.enabled)
        e.hyperparam = self._keep(rule.hyperparam)
        e.hyperparam_dict = self._keep(rule.hyperparam.__dict__)
        e.parent = self._keep(rule.hyperparam.__dict__.get("_parent"))
        e.overrides = len(rule.hyperparam.__dict__)
        hookable = rule._hookable
        e.pre = self._keep(hookable._pre_update_hooks)
        e.post = self._keep(hookable._post_update_hooks)
        hooks = (*hookable._pre_update_hooks.values(), None, *hookable._post_update_hooks.values())
        e.hooks = self._keep(hooks) if len(hooks) > 1 else NULL

    def _set_groups(self, list groups):
        cdef Py_ssize_t i
        self.groups = groups
        self.next_t = [None] * len(groups)
        self.values = [None] * len(groups)
        self.group_t = [None] * len(groups)
        for i in range(self.n_entries - 1, -1, -1):
            if self.entries[i].group >= 0:
                (<Group> groups[self.entries[i].group]).first = i

    def _set_slots(self, Py_ssize_t i, int param_slot, int grad_slot):
        self.entries[i].param_slot = param_slot
        self.entries[i].grad_slot = grad_slot

    cpdef bint check(self):
        """Whether the plan still describes the optimizer; False asks for a new plan.

        Looks at parameters, rules, hooks, grouping, state and loss scales; at values only as far
        as the program depends on them.
        """
        self.filled = False
        return not self.always_rebuild and self.check_optimizer() and self.check_parameters()

    cdef bint check_parameters(self):
        cdef Py_ssize_t i
        cdef Group group
        cdef PyObject *found
        cdef PyObject *t
        cdef object scale = None
        cdef bint scaled = False
        cdef Entry *e
        for i in range(len(self.groups)):
            group = <Group> self.groups[i]
            t = _get(self.entries[group.first].rule_dict, K_T)
            if t == NULL:
                return False
            self.group_t[i] = <object> t
            self.values[i] = group.values()
            if not group.options_hold(self.values[i]):
                return False
        self.filled = True
        for i in range(self.n_entries):
            e = &self.entries[i]
            if _get(e.param, K_DATA) != e.data or sdbr_list_size(e.data) != 1:
                return False
            if sdbr_list_item(e.data, 0) != e.array:
                if not self.array_changed(i):
                    return False
            elif e.native and not _is_plain(e.array):
                return False  # the same array, made read-only
            if _get(e.param, K_UPDATE_RULE) != e.rule:
                return False
            if e.rule != NONE and not self.check_rule(e):
                return False
            if not e.native:
                continue
            if e.group >= 0:
                t = _get(e.rule_dict, K_T)
                if t != sdbr_list_item(<PyObject *> self.group_t, e.group):
                    if t == NULL or <object> t != self.group_t[e.group]:
                        return False
            found = _get(e.param, K_LOSS_SCALE)
            if found == NULL:
                continue
            if not scaled or found != <PyObject *> scale:
                if scaled and <object> found != scale:
                    return False
                scale = <object> found
                scaled = True
        if scaled:
            if (scale is None) != (self.loss_scale is None):
                return False
            self.loss_scale = scale
        return True

    cdef bint check_optimizer(self):
        cdef dict d = self.optimizer_dict
        if self.optimizer._loss_scaling_is_dynamic is not self.dynamic:
            return False
        if d.get(_TARGET) is not self.tree.target or d.get(_HOOKABLE) is not self.hookable:
            return False
        if len(self.pre_hooks) + len(self.post_hooks) + 1 != len(self.hooks):
            return False
        if len(self.hooks) > 1:
            if not _same(self.pre_hooks, self.post_hooks, self.hooks):
                return False
        return self.tree.check()

    cdef bint check_rule(self, Entry *e):
        cdef PyObject *found
        cdef int k
        if e.hooks == NULL:
            if sdbr_dict_size(e.pre) or sdbr_dict_size(e.post):
                return False
        else:
            if not _same(<object> e.pre, <object> e.post, <tuple> e.hooks):
                return False
        if _get(e.rule_dict, K_ENABLED) != e.enabled:
            return False
        if e.group < 0:
            return True
        # A method replaced on the rule itself makes its dictionary longer.
        if sdbr_dict_size(e.rule_dict) != e.rule_size:
            return False
        if _get(e.rule_dict, K_HYPERPARAM) != e.hyperparam:
            return False
        if sdbr_dict_size(e.hyperparam_dict) != e.overrides:
            return False
        # A lone entry is the parent, which Chainer sets once, when it makes the object.
        if e.overrides != 1 and _get(e.hyperparam_dict, K_PARENT) != e.parent:
            return False
        if e.n_states == 0:
            return True
        found = _get(e.rule_dict, K_STATE)
        if found != e.state:
            return False
        for k in range(e.n_states):
            if _get(found, e.state_names[k]) != e.state_arrays[k]:
                return False
        return True

    cdef bint array_changed(self, Py_ssize_t i):
        """Take another array of the same kind for a parameter; False if it is of another kind."""
        cdef Entry *e = &self.entries[i]
        cdef PyObject *new
        new = sdbr_list_item(e.data, 0)
        if _is_plain(new) != e.plain:
            return False
        if e.native and sdbr_type(new) != sdbr_type(e.array):
            return False
        if e.native and not sdbr_same_shape(new, e.array):
            return False
        self.arrays[i] = <object> new
        e.array = new
        return True

    cpdef bint prepare(self, Memory memory, int control_base):
        """Write the scalars of the coming step into the control block; changes nothing else.

        Call :meth:`check` before, and :meth:`commit` when the step is sure to be made.

        Returns
        -------
        bool
            False when the native update declines this step: a hyperparameter is no number, Chainer
            would raise, or the last check did not get as far as them, because another thread had
            changed something. The optimizer is as before; run Chainer's own update.
        """
        cdef Group group
        cdef Py_ssize_t i
        cdef int k
        if not self.filled:
            return False
        if control_base < 0 or control_base + self.n_control > memory.n_control:
            raise IndexError(
                f"the update needs control values {control_base} to "
                f"{control_base + self.n_control}; there are {memory.n_control}"
            )
        try:
            for i in range(len(self.groups)):
                group = <Group> self.groups[i]
                t = self.group_t[i] + 1
                self.next_t[i] = t
                k = control_base + group.offset
                for scalar in group.scalars(self.values[i], t, group.dtype, group.extra):
                    memory.control[k] = _number(scalar)
                    k += 1
            for hook, attribute, times_loss_scale, index in self.scalar_hooks:
                scalar = getattr(hook, attribute)
                if times_loss_scale and self.loss_scale is not None:
                    scalar = scalar * self.loss_scale
                memory.control[control_base + <int> index] = _number(scalar)
            if self.loss_scale_index >= 0:
                memory.control[control_base + self.loss_scale_index] = _number(self.loss_scale)
        except Exception:
            # Whatever it was: Chainer's own code meets it again and raises it, or can do it.
            return False
        return True

    cpdef commit(self):
        """Count the step: the optimizer's `t` and that of each rule that runs natively."""
        cdef Py_ssize_t i
        cdef Entry *e
        cdef list next_t = self.next_t
        self.optimizer.t += 1
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.group >= 0:
                sdbr_set(e.rule_dict, K_T, sdbr_list_item(<PyObject *> next_t, e.group))

    cpdef advance(self, Memory memory, int control_base):
        """:meth:`prepare`, then :meth:`commit`.

        Raises
        ------
        RuntimeError
            If the native update declines this step; nothing was changed.
        """
        if not self.prepare(memory, control_base):
            raise RuntimeError("the native update declined this step")
        self.commit()

    cpdef int bind_parameters(self, Memory memory):
        """Bind the parameters' arrays; :meth:`check` has seen to it that they fit."""
        cdef Py_ssize_t i
        cdef Entry *e
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.param_slot >= 0:
                memory.bind_fast(e.param_slot, e.array)
        return 0

    cpdef Py_ssize_t bind_gradients(self, Memory memory, bint written):
        """Bind the gradients' arrays.

        Parameters
        ----------
        written : bool
            Whether the program writes them.

        Returns
        -------
        int
            -1, or the first parameter whose gradient is missing, invalid or must be copied.
        """
        cdef Py_ssize_t i
        cdef Entry *e
        cdef PyObject *grad
        cdef PyObject *variable
        cdef object held
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.array == NONE:
                continue
            if _get(e.param, K_GRAD_VALID) != TRUE:
                return i
            variable = _get(e.param, K_GRAD_VAR)
            if variable == NULL or variable == NONE:
                grad = _get(e.param, K_GRAD)
            else:
                held = <object> variable
                held = held.raw_array
                grad = <PyObject *> held
            if grad == NULL or grad == NONE:
                return i
            if e.grad_slot < 0:
                continue
            if not sdbr_exact_array(grad) or sdbr_type(grad) != sdbr_type(e.array):
                return i
            if not sdbr_same_shape(grad, e.array):
                return i
            if not (sdbr_carray(grad) if written else sdbr_carray_ro(grad)):
                return i
            memory.bind_fast(e.grad_slot, grad)
        return -1

    cpdef int unbind_gradients(self, Memory memory):
        """Let go of the gradients, so that nobody but the user holds them."""
        cdef Py_ssize_t i
        cdef int slot
        cdef list owners = memory.owners
        for i in range(self.n_entries):
            slot = self.entries[i].grad_slot
            if slot >= 0:
                owners[slot] = None
                memory.pointers[slot] = NULL
                memory.sizes[slot] = -1
        return 0


cdef double _number(value) except? -1.0:
    if type(value) is float:
        return value
    if isinstance(value, (int, float, np.floating, np.integer)):
        return float(value)
    # An array is a number for each element; those are not for the control block.
    raise TypeError(f"expected a number, got {type(value).__name__}")
