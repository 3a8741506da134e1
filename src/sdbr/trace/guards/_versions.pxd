"""What other compiled modules may use of the versions of dictionaries."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from *:
    """
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
    """
    int SDBR_DICT_VERSIONS
    uint64_t sdbr_dict_version(PyObject *)


ctypedef struct Counted:
    PyObject *d                   # borrowed from `dicts`
    uint64_t version


cdef class Dicts:
    cdef list dicts
    cdef list items
    cdef Counted *counted
    cdef Py_ssize_t n
    cpdef bint moved(self) except -1
