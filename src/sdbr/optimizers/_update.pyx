"""What a step of an optimizer writes, compiled: this step's scalars, bindings and counters."""

cimport numpy as cnp
from cpython.object cimport PyObject

from sdbr.base._dicts cimport sdbr_dict_version
from sdbr.base._python cimport PyDict_SetItem, sdbr_is_array, sdbr_is_plain, sdbr_list_item
from sdbr.optimizers._arrays cimport lookup, sdbr_carray, sdbr_same_shape, sdbr_type
from sdbr.optimizers._groups cimport Group, as_number
from sdbr.optimizers._basis cimport Entry, UpdateBasis
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

    cpdef commit(self):
        """Count the step: the optimizer's `t` and that of each rule that runs natively."""
        cdef Py_ssize_t i
        cdef Entry *e
        cdef bint known
        cdef list next_t = self.next_t
        self.optimizer.t += 1
        for i in range(self.n_entries):
            e = &self.entries[i]
            if e.group >= 0:
                known = sdbr_dict_version(e.rule_dict) == e.rule_version
                PyDict_SetItem(e.rule_dict, K_T, sdbr_list_item(<PyObject *> next_t, e.group))
                if known:
                    e.rule_version = sdbr_dict_version(e.rule_dict)
        for i in range(len(next_t)):
            self.known_t[i] = next_t[i]

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
            if lookup(e.param, K_GRAD_VALID) != TRUE:
                return i
            variable = lookup(e.param, K_GRAD_VAR)
            if variable == NULL or variable == NONE:
                grad = lookup(e.param, K_GRAD)
            else:
                held = <object> variable
                held = held.raw_array
                grad = <PyObject *> held
            if grad == NULL or grad == NONE:
                return i
            if e.grad_slot < 0:
                continue
            if not sdbr_is_array(grad) or sdbr_type(grad) != sdbr_type(e.array):
                return i
            if not sdbr_same_shape(grad, e.array):
                return i
            if not (sdbr_carray(grad) if written else sdbr_is_plain(grad)):
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
