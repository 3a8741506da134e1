"""Whether the plan of an update is still right, compiled: asked before every step.

Everything is compared by identity, in dictionaries that are held: of parameters, update rules
and hyperparameters. One that was not written to since it was found right is not looked into
again (before Python 3.13, which counts no changes). The dictionaries of instances live as long as
the instances, and attribute writes go through them. What is found in them belongs to whoever writes
there, perhaps another thread: it is held while anything runs in between that may be Python code (an
allocation may, by the collector).
"""

cimport numpy as cnp
from cpython.object cimport Py_TYPE, PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version
from sdbr.base._python cimport sdbr_dict_size, sdbr_list_item, sdbr_tuple_item
from sdbr.optimizers._arrays cimport (
    is_half, is_native, lookup, same_shape, sdbr_fetch, sdbr_list_size, sdbr_lookup_near, type_of,
)
from sdbr.devices._arrays cimport on_device
from sdbr.optimizers._groups cimport Group
from sdbr.optimizers._masters cimport Master

cnp.import_array()

# Interned by the compiler, as attribute names are: a lookup compares pointers.
cdef str _UPDATE_RULE = "update_rule"
cdef str _DATA = "_data"
cdef str _LOSS_SCALE = "_loss_scale"
cdef str _ENABLED = "enabled"
cdef str _T = "t"
cdef str _HYPERPARAM = "hyperparam"
cdef str _STATE = "_state"
cdef str _TARGET = "target"
cdef str _HOOKABLE = "_hookable"
cdef str _PARENT = "_parent"
cdef str _FP32 = "_use_fp32_update"
cdef str _MASTER = "_fp32_param"
cdef PyObject *K_UPDATE_RULE = <PyObject *> _UPDATE_RULE
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_LOSS_SCALE = <PyObject *> _LOSS_SCALE
cdef PyObject *K_ENABLED = <PyObject *> _ENABLED
cdef PyObject *K_T = <PyObject *> _T
cdef PyObject *K_HYPERPARAM = <PyObject *> _HYPERPARAM
cdef PyObject *K_STATE = <PyObject *> _STATE
cdef PyObject *K_PARENT = <PyObject *> _PARENT
cdef PyObject *K_FP32 = <PyObject *> _FP32
cdef PyObject *K_MASTER = <PyObject *> _MASTER
cdef PyObject *NONE = <PyObject *> None


def is_plain(array):
    """Whether native ops take an array: a writeable, C-contiguous ndarray of float32 or float64."""
    return is_native(<PyObject *> array)


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


cdef class UpdateBasis:
    """Compares what an update plan was made from with what is there now.

    Filled by :class:`sdbr.optimizers.plan.UpdatePlan`.
    """

    def __dealloc__(self):
        free(self.entries)

    def _watch_optimizer(
        self, optimizer, tree, list scalar_hooks, list fixed, loss_scale, int loss_scale_index
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
        self.fixed = fixed
        self.loss_scale = loss_scale
        self.loss_scale_index = loss_scale_index

    def _watch_code(self, Definitions code, dict target, tuple flow, tuple clearing):
        """Compare `code`, and whether the optimizer or its target gets code of its own."""
        self.code = code
        self.own = tuple([
            (d, names, [name for name in names if name in d])
            for d, names in ((self.optimizer_dict, flow), (target, clearing))
        ])
        self.own_sizes[0] = self.own_sizes[1] = -1

    cdef bint check_code(self):
        cdef int i
        cdef dict d
        if not self.code.classes_hold():
            return False
        for i in range(2):
            d = <dict> (<tuple> self.own[i])[0]
            # A method that is set makes the dictionary longer.
            if sdbr_dict_size(<PyObject *> d) != self.own_sizes[i]:
                _, names, before = self.own[i]
                if [name for name in names if name in d] != before:
                    return False
                self.own_sizes[i] = sdbr_dict_size(<PyObject *> d)
        return True

    def _watch_parameters(self, list params, list rules, list details):
        """`details`: per parameter ``(group, native, state, its names, its arrays)``."""
        cdef Py_ssize_t i
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
            self.n_idle += e.array == NONE and group >= 0
            e.native = native
            e.plain = is_native(e.array)
            e.half = is_half(e.array)
            e.scaled = param._loss_scale is not None
            e.param_slot = e.grad_slot = -1
            e.rule = self._keep(rules[i])
            if e.rule == NONE:
                continue
            self._watch_rule(i, rules[i])
            if group < 0:
                continue
            if e.half:
                e.master_data = self._keep((<object> e.master)._data)
                e.master_array = self._keep((<object> e.master)._data[0])
            e.state = self._keep(state)
            e.n_states = len(names)
            e.states = self._keep(tuple([x for pair in zip(names, arrays) for x in pair]))

    cdef PyObject *_keep(self, value):
        self.kept.append(value)
        return <PyObject *> value

    def _watch_rule(self, Py_ssize_t i, rule):
        cdef Entry *e = &self.entries[i]
        e.rule_dict = self._keep(rule.__dict__)
        e.rule_class = Py_TYPE(rule)
        e.rule_size = len(rule.__dict__)
        e.enabled = self._keep(rule.enabled)
        e.fp32 = self._keep(rule.__dict__.get(_FP32))
        e.master = self._keep(rule.__dict__.get(_MASTER))
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
        self.known_t = [None] * len(groups)
        self.group_extra = [None] * len(groups)
        self.next_extra = [None] * len(groups)
        self.used_extra = [None] * len(groups)
        self.known_extra = [None] * len(groups)
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
        if self.always_rebuild or not self.check_optimizer():
            return False
        if not self.check_parameters():
            self.found_right = False
            return False
        if self.ahead:
            self.refresh()
        return True

    cdef int refresh(self) except -1:
        cdef Master master
        self.ahead = [master for master in self.ahead if master.refresh(self.counted)]
        return 0

    cdef bint check_parameters(self):
        cdef Py_ssize_t i
        cdef Group group
        cdef PyObject *t
        cdef PyObject *extra
        cdef bint same_t
        cdef bint known = self.found_right
        cdef object scale = None
        cdef Entry *e
        for i in range(len(self.groups)):
            group = <Group> self.groups[i]
            t = lookup(self.entries[group.first].rule_dict, K_T)
            if t == NULL:
                return False
            self.group_t[i] = <object> t
            if group.attribute is not None:
                extra = lookup(self.entries[group.first].rule_dict, <PyObject *> group.attribute)
                self.group_extra[i] = None if extra == NULL else <object> extra
            self.values[i] = group.values()
            if not group.options_hold(self.values[i]):
                return False
        self.filled = True
        self.found_right = False  # comparing may raise
        for i in range(self.n_entries):
            self.fetch(i + AHEAD)
            e = &self.entries[i]
            if not self.check_param(e) or sdbr_list_size(e.data) != 1:
                return False
            held = None if e.loss_scale == NULL else <object> e.loss_scale
            if sdbr_list_item(e.data, 0) != e.array:
                if not self.array_changed(i):
                    return False
            elif e.native and not e.half and not on_device(e.array) and not is_native(e.array):
                return False  # the same array, made read-only; those of CuPy cannot be
            if e.master_data != NULL and sdbr_list_item(e.master_data, 0) != e.master_array:
                return False
            same_t = known and e.group >= 0 and (
                sdbr_list_item(<PyObject *> self.group_t, e.group)
                == sdbr_list_item(<PyObject *> self.known_t, e.group)
                and sdbr_list_item(<PyObject *> self.group_extra, e.group)
                == sdbr_list_item(<PyObject *> self.known_extra, e.group)
            )
            if e.rule != NONE and not self.check_rule(e, same_t):
                return False
            if not e.native:
                continue
            if (held is None) == e.scaled:
                return False
            if held is None or held is scale:
                continue
            if scale is not None and held != scale:
                return False
            scale = held
        if scale is not None:
            self.loss_scale = scale
        for i in range(len(self.groups)):
            self.known_t[i] = self.group_t[i]
            self.known_extra[i] = self.group_extra[i]
        self.found_right = True
        return True

    cdef void fetch(self, Py_ssize_t i) noexcept:
        """Ask the memory for what is compared of an entry."""
        cdef Entry *e
        if i >= self.n_entries:
            return
        e = &self.entries[i]
        sdbr_fetch(e.param)
        sdbr_fetch(e.data)
        sdbr_fetch(e.array)
        sdbr_fetch(e.rule)
        sdbr_fetch(e.rule_dict)
        sdbr_fetch(e.pre)
        sdbr_fetch(e.post)
        sdbr_fetch(e.hyperparam_dict)
        sdbr_fetch(e.state)
        sdbr_fetch(e.grad)

    cdef bint check_param(self, Entry *e):
        cdef uint64_t now = sdbr_dict_version(e.param)
        if SDBR_DICT_VERSIONS and now == e.param_version:
            return True
        if sdbr_lookup_near(e.param, K_DATA, &self.places[AT_DATA]) != e.data:
            return False
        if sdbr_lookup_near(e.param, K_UPDATE_RULE, &self.places[AT_RULE]) != e.rule:
            return False
        e.loss_scale = sdbr_lookup_near(e.param, K_LOSS_SCALE, &self.places[AT_LOSS_SCALE])
        e.param_version = now
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
        for hook, attribute, expected in self.fixed:
            if getattr(hook, attribute, None) is not expected:
                return False
        return self.tree.check() and self.check_code()

    cdef bint check_rule(self, Entry *e, bint same_t):
        """Whether a rule is as before; `same_t`: its group's `t` is that of `rule_version`."""
        cdef uint64_t now
        cdef int k
        if Py_TYPE(<object> e.rule) != e.rule_class:
            return False
        if e.hooks == NULL:
            if sdbr_dict_size(e.pre) or sdbr_dict_size(e.post):
                return False
        else:
            if not _same(<object> e.pre, <object> e.post, <tuple> e.hooks):
                return False
        if sdbr_dict_size(e.hyperparam_dict) != e.overrides and e.group >= 0:
            return False
        # A lone entry is the parent, which Chainer sets once, when it makes the object.
        if e.group >= 0 and e.overrides != 1:
            if lookup(e.hyperparam_dict, K_PARENT) != e.parent:
                return False
        now = sdbr_dict_version(e.rule_dict)
        if not SDBR_DICT_VERSIONS or not same_t or now != e.rule_version:
            e.rule_version = 0
            if not self.check_rule_dict(e):
                return False
            e.rule_version = now
        if e.n_states == 0:
            return True
        now = sdbr_dict_version(e.state)
        if SDBR_DICT_VERSIONS and now == e.state_version:
            return True
        for k in range(e.n_states):
            name, array = sdbr_tuple_item(e.states, 2 * k), sdbr_tuple_item(e.states, 2 * k + 1)
            if lookup(e.state, name) != array:
                return False
        e.state_version = now
        return True

    cdef bint check_rule_dict(self, Entry *e):
        cdef PyObject *t
        if lookup(e.rule_dict, K_ENABLED) != e.enabled:
            return False
        if e.half and (
            lookup(e.rule_dict, K_FP32) != e.fp32 or lookup(e.rule_dict, K_MASTER) != e.master
        ):
            return False
        if e.group < 0:
            return True
        # A method replaced on the rule itself makes its dictionary longer.
        if sdbr_dict_size(e.rule_dict) != e.rule_size:
            return False
        if lookup(e.rule_dict, K_HYPERPARAM) != e.hyperparam:
            return False
        if e.n_states and lookup(e.rule_dict, K_STATE) != e.state:
            return False
        t = lookup(e.rule_dict, K_T)
        if t != sdbr_list_item(<PyObject *> self.group_t, e.group):
            if t == NULL or <object> t != self.group_t[e.group]:
                return False
        return self.same_attribute(e)

    cdef bint same_attribute(self, Entry *e):
        """Whether the attribute that the scalars take is that of the group."""
        cdef Group group = <Group> self.groups[e.group]
        cdef PyObject *found
        if group.attribute is None:
            return True
        found = lookup(e.rule_dict, <PyObject *> group.attribute)
        if found == sdbr_list_item(<PyObject *> self.group_extra, e.group):
            return True
        return (None if found == NULL else <object> found) == self.group_extra[e.group]

    cdef bint array_changed(self, Py_ssize_t i):
        """Take another array of the same kind for a parameter; False if it is of another kind."""
        cdef Entry *e = &self.entries[i]
        cdef PyObject *new
        new = sdbr_list_item(e.data, 0)
        if is_native(new) != e.plain or is_half(new) != e.half:
            return False
        if e.native and on_device(new) != on_device(e.array):
            return False
        if e.native and on_device(new):
            if (<object> new).data.device_id != (<object> e.array).data.device_id:
                return False
        if e.native and (type_of(new) != type_of(e.array) or not same_shape(new, e.array)):
            return False
        self.arrays[i] = <object> new
        e.array = new
        return True
