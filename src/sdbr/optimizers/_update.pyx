"""What a step of an optimizer writes, compiled: this step's scalars, bindings and counters."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version
from sdbr.base._python cimport PyDict_SetItem, sdbr_list_item
from sdbr.devices._arrays cimport on_device
from sdbr.optimizers._arrays cimport (
    is_bindable, lookup, same_shape, sdbr_fetch, sdbr_fetch_values, sdbr_lookup_near, type_of,
)
from sdbr.compat.graph._variables cimport array_of
from sdbr.optimizers._groups cimport Group, as_number
from sdbr.optimizers._basis cimport (
    AHEAD, AT_GRAD, AT_VALID, AT_VARIABLE, Entry, UpdateBasis,
)
from sdbr.program._memory cimport Memory

cnp.import_array()

# Interned by the compiler, as attribute names are: a lookup compares pointers.
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef str _T = "t"
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *K_T = <PyObject *> _T
cdef object _TRUE = True
cdef PyObject *NONE = <PyObject *> None
cdef PyObject *TRUE = <PyObject *> _TRUE


cdef class Update(UpdateBasis):
    """A step by a plan: :meth:`check`, :meth:`bind_parameters`, :meth:`prepare`, :meth:`commit`."""

    cpdef bint prepare(self, Memory memory, int control_base):
        """Write the scalars of the coming step into the control block; changes nothing else.

        Call :meth:`check` before, and :meth:`commit` when the step is sure to be made. After
        :meth:`count` the scalars are those of the step that is under way.

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
        if not self.counted and not self.look_ahead():
            return False
        if control_base < 0 or control_base + self.n_control > memory.n_control:
            raise IndexError(
                f"the update needs control values {control_base} to "
                f"{control_base + self.n_control}; there are {memory.n_control}"
            )
        try:
            for i in range(len(self.groups)):
                group = <Group> self.groups[i]
                k = control_base + group.offset
                extra = self.used_extra[i]
                for scalar in group.scalars(self.values[i], self.next_t[i], group.dtype, extra):
                    memory.control[k] = as_number(scalar)
                    k += 1
            for hook, attribute, times_loss_scale, index in self.scalar_hooks:
                scalar = getattr(hook, attribute)
                if times_loss_scale and self.loss_scale is not None:
                    scalar = scalar * self.loss_scale
                memory.control[control_base + <int> index] = as_number(scalar)
            if self.loss_scale_index >= 0:
                memory.control[control_base + self.loss_scale_index] = as_number(self.loss_scale)
        except Exception:
            # Whatever it was: Chainer's own code meets it again and raises it, or can do it.
            return False
        return True

    cpdef bint look_ahead(self):
        """What the coming step counts to; False where it cannot be native. Nothing is changed."""
        cdef Group group
        cdef Py_ssize_t i
        if not self.filled or self.n_idle and not self.idle_are_valid():
            return False
        try:
            for i in range(len(self.groups)):
                group = <Group> self.groups[i]
                self.next_t[i] = self.group_t[i] + 1
                self.used_extra[i] = self.group_extra[i]
                if group.carry is not None:
                    self.next_extra[i] = group.carry(self.values[i], self.group_extra[i])
        except Exception:
            return False
        return True

    cdef bint idle_are_valid(self):
        """Whether gradients may be asked for of all parameters without arrays."""
        cdef Py_ssize_t i
        for i in range(self.n_entries):
            if self.entries[i].array == NONE and self.entries[i].group >= 0:
                if lookup(self.entries[i].param, K_GRAD_VALID) != TRUE:
                    return False
        return True

    cpdef commit(self):
        """Count the step: the optimizer's `t` and that of each rule that runs natively."""
        cdef Py_ssize_t i
        cdef Entry *e
        cdef bint known
        cdef Group group
        cdef list next_t = self.next_t
        self.optimizer.t += 1
        for i in range(self.n_entries):
            e = &self.entries[i]
            if i + AHEAD < self.n_entries and e[AHEAD].group >= 0:
                sdbr_fetch_values(e[AHEAD].rule_dict)
            if e.group >= 0:
                known = sdbr_dict_version(e.rule_dict) == e.rule_version
                PyDict_SetItem(e.rule_dict, K_T, sdbr_list_item(<PyObject *> next_t, e.group))
                group = <Group> self.groups[e.group]
                if group.carry is not None:
                    (<dict> e.rule_dict)[group.attribute] = self.next_extra[e.group]
                if known:
                    e.rule_version = sdbr_dict_version(e.rule_dict)
        for i in range(len(next_t)):
            self.known_t[i] = next_t[i]
            if (<Group> self.groups[i]).carry is not None:
                self.known_extra[i] = self.next_extra[i]

    cpdef count(self):
        """:meth:`commit` before the step is through: code of Python runs in it.

        :meth:`end` has to come after.
        """
        self.commit()
        self.counted = True

    cpdef end(self):
        """The step that was counted is through, or goes on elsewhere."""
        self.counted = False

    def uncount(self, list rules):
        """Take back what :meth:`count` has counted for these: Chainer's own code counts them."""
        cdef Py_ssize_t i
        cdef Entry *e
        cdef Group group
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.group < 0 or not any([<object> e.rule is rule for rule in rules]):
                continue
            rule = <object> e.rule
            rule.t -= 1
            group = <Group> self.groups[e.group]
            if group.carry is not None:
                setattr(rule, group.attribute, self.used_extra[e.group])

    cpdef bint gradients_are_there(self):
        """Whether no parameter lacks a gradient, so that Chainer would allocate none."""
        cdef Py_ssize_t i
        cdef Entry *e
        cdef PyObject *grad
        cdef PyObject *variable
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.array == NONE:
                continue
            if lookup(e.param, K_GRAD_VALID) != TRUE:
                return False
            variable = lookup(e.param, K_GRAD_VAR)
            grad = lookup(e.param, K_GRAD)
            if (variable == NULL or variable == NONE) and (grad == NULL or grad == NONE):
                return False
        return True

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
        """Bind the parameters' arrays; :meth:`check` has seen to it that they fit.

        Of those in float16, that of the copy which is updated.
        """
        cdef Py_ssize_t i
        cdef Entry *e
        cdef PyObject *held
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.param_slot >= 0:
                held = e.array if e.master_data == NULL else e.master_array
                memory.bind_fast(e.param_slot, held)
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
        cdef uint64_t now
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.array == NONE:
                continue
            if i + AHEAD < self.n_entries:
                sdbr_fetch_values(e[AHEAD].param)
                sdbr_fetch(e[AHEAD].array)
                sdbr_fetch(e[AHEAD].grad)
            now = sdbr_dict_version(e.param)
            if SDBR_DICT_VERSIONS and now == e.grad_version:
                grad = e.grad
            else:
                if sdbr_lookup_near(e.param, K_GRAD_VALID, &self.places[AT_VALID]) != TRUE:
                    return i
                variable = sdbr_lookup_near(e.param, K_GRAD_VAR, &self.places[AT_VARIABLE])
                e.grad_version = 0
                if variable == NULL or variable == NONE:
                    grad = sdbr_lookup_near(e.param, K_GRAD, &self.places[AT_GRAD])
                    if grad == NULL or grad == NONE:
                        return i
                    e.grad, e.grad_version = grad, now
                else:
                    held = array_of(<object> variable)
                    grad = <PyObject *> held
                    if grad == NULL or grad == NONE:
                        return i
            if e.grad_slot < 0:
                continue
            if on_device(grad) != on_device(e.array) or not is_bindable(grad, written):
                return i
            if type_of(grad) != type_of(e.array) or not same_shape(grad, e.array):
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
