"""Dictionaries asked at every call: whether they were written to, and those of this thread."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #ifndef SDBR_DICT_VERSIONS
    #if PY_VERSION_HEX < 0x030D0000
    #define SDBR_DICT_VERSIONS 1
    static inline uint64_t sdbr_dict_version(PyObject *d) {
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        return ((PyDictObject *)d)->ma_version_tag;
    _Py_COMP_DIAG_POP
    }
    #else
    #define SDBR_DICT_VERSIONS 0
    static inline uint64_t sdbr_dict_version(PyObject *d) { (void)d; return 0; }
    #endif

    typedef struct {
        uint64_t thread;
        PyObject *d;
    } sdbr_own;

    /* The dictionary of a `threading.local` in this thread: always the same one, and no id of a
       thread comes twice. Another kind of local is asked each time. Held until another thread
       asks. */
    static inline PyObject *sdbr_own_dict(PyObject *local, sdbr_own *known) {
        uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
        PyObject *d, *before;
        if (known->d != NULL && known->thread == thread) {
            Py_INCREF(known->d);
            return known->d;
        }
        d = PyObject_GetAttrString(local, "__dict__");
        if (d == NULL || strcmp(Py_TYPE(local)->tp_name, "_thread._local") != 0)
            return d;
        before = known->d;
        Py_INCREF(d);
        known->thread = thread;
        known->d = d;
        Py_XDECREF(before);
        return d;
    }
    #endif
    """
    int SDBR_DICT_VERSIONS
    # Another one after every change of any dictionary; always 0 without SDBR_DICT_VERSIONS.
    uint64_t sdbr_dict_version(PyObject *) noexcept
    ctypedef struct sdbr_own:
        pass
    object sdbr_own_dict(object local, sdbr_own *known)
