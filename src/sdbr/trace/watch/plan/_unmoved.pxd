"""Looks at objects that run nobody's code and let nothing go."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <structmember.h>
    /* Whether a weak reference still has its object, and that is `x`. What is about to be let go
       of may wait for it with no references left. */
    static inline int sdbr_is_alive(PyObject *ref, PyObject *x) {
        return ((PyWeakReference *)ref)->wr_object == x && Py_REFCNT(x) > 0;
    }

    static inline PyObject *sdbr_class_attribute(PyObject *cls, PyObject *name) {
        return _PyType_Lookup((PyTypeObject *)cls, name);
    }

    /* Changes when the class, or one above it, is written to, and never comes twice; 0 where
       Python has not counted. `witness`: a class that nobody writes to. */
    static inline uint64_t sdbr_class_tag(PyObject *cls, PyObject *witness) {
    #if PY_VERSION_HEX < 0x030B0000
        /* `sys._clear_type_cache` takes the numbers of all classes and begins anew. */
        static uint64_t begun = 0;
        if (!PyType_HasFeature((PyTypeObject *)witness, Py_TPFLAGS_VALID_VERSION_TAG)) {
            begun++;
            sdbr_class_attribute(witness, ((PyHeapTypeObject *)witness)->ht_name);
        }
        if (!PyType_HasFeature((PyTypeObject *)cls, Py_TPFLAGS_VALID_VERSION_TAG))
            return 0;
        return begun << 32 | ((PyTypeObject *)cls)->tp_version_tag;
    #else
        (void)witness;
        return ((PyTypeObject *)cls)->tp_version_tag;
    #endif
    }

    /* The dictionary of an object, which is made where it has none yet; NULL for none. Before 3.12
       making one may call the collector, which runs finalizers. */
    static inline PyObject **sdbr_fields_at(PyObject *x) {
        int collects = PyGC_Disable();
        PyObject **at = _PyObject_GetDictPtr(x);
        if (collects)
            PyGC_Enable();
        return at;
    }
    static inline PyObject *sdbr_fields_of(PyObject *x) {
        PyObject **at = sdbr_fields_at(x);
        return at == NULL ? NULL : *at;
    }
    /* Where it lies in objects of this class and size; 0 for nowhere. */
    static inline Py_ssize_t sdbr_fields_offset(PyObject *x) {
        PyObject **at = Py_TYPE(x)->tp_itemsize ? NULL : sdbr_fields_at(x);
        return at == NULL ? 0 : (char *)at - (char *)x;
    }
    static inline PyObject *sdbr_at(PyObject *x, Py_ssize_t offset) {
        return *(PyObject **)((char *)x + offset);
    }

    static inline Py_ssize_t sdbr_slot_offset(PyObject *slot, PyObject *x) {
        PyMemberDef *member;
        if (Py_TYPE(slot) != &PyMemberDescr_Type)
            return 0;
        member = ((PyMemberDescrObject *)slot)->d_member;
        if (member->type == 6 /* T_OBJECT, which is None where nothing is */)
            return sdbr_at(x, member->offset) == NULL ? 0 : member->offset;
        return member->type == 16 /* T_OBJECT_EX */ ? member->offset : 0;
    }

    /* Whether looking for a key in a dictionary runs no `__eq__` of anybody's. */
    static int sdbr_is_safe_key(PyObject *key) {
        PyTypeObject *kind = Py_TYPE(key);
        Py_ssize_t i = 0;
        if (kind == &PyTuple_Type) {
            while (i < PyTuple_GET_SIZE(key) && sdbr_is_safe_key(PyTuple_GET_ITEM(key, i)))
                i++;
            return i == PyTuple_GET_SIZE(key);
        }
        return kind == &PyUnicode_Type || kind == &PyLong_Type || kind == &PyBytes_Type ||
               kind == &PyBool_Type || kind == &PyFloat_Type || key == Py_None ||
               (kind->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
                kind->tp_hash == PyBaseObject_Type.tp_hash);
    }
    static inline int sdbr_has_safe_keys(PyObject *d) {
        Py_ssize_t at = 0;
        PyObject *key;
    #if PY_VERSION_HEX >= 0x030B0000
        /* After the number of references and two sizes: 0 for keys of all kinds, others for str. */
        if (((unsigned char *)((PyDictObject *)d)->ma_keys)[sizeof(Py_ssize_t) + 2])
            return 1;
    #endif
        while (PyDict_Next(d, &at, &key, NULL))
            if (!sdbr_is_safe_key(key))
                return 0;
        return 1;
    }

    /* Whether two numbers, texts or tuples of such are equal and of the same type; without
       anybody's code. 0 also for some that are. */
    static int sdbr_same_atom(PyObject *a, PyObject *b) {
        PyTypeObject *kind = Py_TYPE(a);
        Py_ssize_t i;
        if (a == b)
            return 1;
        if (kind != Py_TYPE(b))
            return 0;
        if (kind == &PyFloat_Type)
            return memcmp(&((PyFloatObject *)a)->ob_fval, &((PyFloatObject *)b)->ob_fval,
                          sizeof(double)) == 0;
        if (kind == &PyLong_Type || kind == &PyUnicode_Type || kind == &PyBytes_Type) {
            int equal = PyObject_RichCompareBool(a, b, Py_EQ);
            if (equal < 0)
                PyErr_Clear();
            return equal == 1;
        }
        if (kind != &PyTuple_Type || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
            return 0;
        for (i = 0; i < PyTuple_GET_SIZE(a); i++)
            if (!sdbr_same_atom(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
                return 0;
        return 1;
    }
    static inline void sdbr_exchange(PyObject **held, PyObject *x) {
        PyObject *before = *held;
        Py_INCREF(x);
        *held = x;
        Py_DECREF(before);
    }

    /* Whether the keys of a dictionary are those in a tuple, in their order. */
    static inline int sdbr_has_keys(PyObject *d, PyObject *keys) {
        Py_ssize_t at = 0, i = 0;
        PyObject *key;
        if ((d == NULL ? 0 : PyDict_Size(d)) != PyTuple_GET_SIZE(keys))
            return 0;
        while (i < PyTuple_GET_SIZE(keys) && PyDict_Next(d, &at, &key, NULL))
            if (!sdbr_same_atom(key, PyTuple_GET_ITEM(keys, i++)))
                return 0;
        return 1;
    }

    static inline PyObject *sdbr_self_of(PyObject *x) {
        return PyMethod_Check(x) ? PyMethod_GET_SELF(x) : PyCFunction_GET_SELF(x);
    }
    /* What a static method or class method has first. */
    static inline PyObject *sdbr_wrapped_of(PyObject *x) {
        return ((PyObject **)((char *)x + sizeof(PyObject)))[0];
    }
    static inline PyObject *sdbr_or_none(PyObject *x) { return x == NULL ? Py_None : x; }
    static inline int sdbr_is_defined(PyObject *f, PyObject *code, PyObject *defaults,
                                      PyObject *keywords) {
        return Py_TYPE(f) == &PyFunction_Type && sdbr_is_alive(code, PyFunction_GET_CODE(f)) &&
               sdbr_or_none(PyFunction_GET_DEFAULTS(f)) == defaults &&
               sdbr_or_none(PyFunction_GET_KW_DEFAULTS(f)) == keywords;
    }
    static inline PyObject *sdbr_own_fields(PyObject *local) {
        int collects = PyGC_Disable();
        PyObject *found = PyObject_GetAttrString(local, "__dict__");
        if (collects)
            PyGC_Enable();
        if (found == NULL)
            PyErr_Clear();
        return found;
    }
    static inline uint64_t sdbr_thread_now(void) {
        return PyThreadState_GetID(PyThreadState_Get());
    }
    /* Whether the value that a context has for a variable is `x`, which somebody holds. */
    static inline int sdbr_has_value(PyObject *variable, PyObject *x) {
        PyObject *found = NULL;
        if (PyContextVar_Get(variable, NULL, &found) < 0)
            PyErr_Clear();
        Py_XDECREF(found);
        return found == x;
    }
    """
    bint sdbr_is_alive(PyObject *, PyObject *) noexcept
    uint64_t sdbr_class_tag(PyObject *, PyObject *) noexcept
    PyObject *sdbr_class_attribute(PyObject *, PyObject *) noexcept
    PyObject *sdbr_fields_of(PyObject *) noexcept
    Py_ssize_t sdbr_fields_offset(PyObject *) noexcept
    PyObject *sdbr_at(PyObject *, Py_ssize_t) noexcept
    Py_ssize_t sdbr_slot_offset(PyObject *, PyObject *) noexcept
    bint sdbr_has_safe_keys(PyObject *) noexcept
    bint sdbr_same_atom(PyObject *, PyObject *) noexcept
    void sdbr_exchange(PyObject **, PyObject *) noexcept
    bint sdbr_has_keys(PyObject *, PyObject *) noexcept
    PyObject *sdbr_self_of(PyObject *) noexcept
    PyObject *sdbr_wrapped_of(PyObject *) noexcept
    bint sdbr_is_defined(PyObject *, PyObject *, PyObject *, PyObject *) noexcept
    PyObject *sdbr_own_fields(PyObject *) noexcept
    uint64_t sdbr_thread_now() noexcept
    bint sdbr_has_value(PyObject *, PyObject *) noexcept

cdef extern from "Python.h":
    PyObject *type_of "(PyObject *)Py_TYPE"(PyObject *) noexcept
    # No error comes where keys are safe.
    PyObject *dict_get "PyDict_GetItemWithError"(PyObject *, PyObject *) noexcept
    bint PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **) noexcept
    Py_ssize_t dict_size "PyDict_Size"(PyObject *) noexcept
    Py_ssize_t list_size "PyList_GET_SIZE"(PyObject *) noexcept
    PyObject *list_item "PyList_GET_ITEM"(PyObject *, Py_ssize_t) noexcept
    Py_ssize_t tuple_size "PyTuple_GET_SIZE"(PyObject *) noexcept
    PyObject *tuple_item "PyTuple_GET_ITEM"(PyObject *, Py_ssize_t) noexcept
    PyObject *cell_of "PyCell_GET"(PyObject *) noexcept
    PyObject *closure_of "PyFunction_GET_CLOSURE"(PyObject *) noexcept
    PyObject *thread_fields "PyThreadState_GetDict"() noexcept
    void Py_INCREF(PyObject *)
    void Py_XDECREF(PyObject *)
