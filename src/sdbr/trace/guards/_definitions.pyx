"""Whether the code that a call may run is what it was: under names, in functions, in classes."""

from sdbr.trace.code._library import stands_in

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version
from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_list_item

cdef extern from "Python.h":
    """
    #define sdbr_code(f) PyFunction_GET_CODE(f)
    #define sdbr_bases(cls) (((PyTypeObject *)(cls))->tp_mro)
    /* Changes when the class, or one above it, is written to; 0 where Python has not counted. */
    #define sdbr_tag(cls) ((unsigned long)((PyTypeObject *)(cls))->tp_version_tag)
    """
    unsigned long sdbr_tag(PyObject *)
    PyObject *sdbr_code(PyObject *)
    PyObject *sdbr_bases(PyObject *)

cdef PyObject *NONE = <PyObject *> None


cdef class Definitions:
    """Where the code of a call is looked up, as it is now.

    Parameters
    ----------
    items : list of (dict, str, object)
        What has to lie under each name; None: nothing, or None. A dictionary that nobody has
        written to since is not looked through, where Python counts the writes (before 3.13).
    functions : list of function
        Each has to keep its code.
    classes : list of type
        Each has to keep the order of the classes above it.
    """

    def __cinit__(self, list items, list functions, list classes):
        cdef dict found = {}
        cdef Py_ssize_t i
        for d, name, thing in items:
            found.setdefault(id(d), (d, []))[1].append((name, thing))
        self.dicts = [d for d, _ in found.values()]
        self.names, self.things = [], []
        self.functions = functions
        self.codes = [f.__code__ for f in functions]
        self.classes = classes
        self.tags = []
        self.bases = [cls.__mro__ for cls in classes]
        self.looked = <Looked *> PyMem_Malloc(max(1, len(self.dicts)) * sizeof(Looked))
        if self.looked == NULL:
            raise MemoryError
        for i, (d, places) in enumerate(found.values()):
            for name, thing in places:
                self.names.append(name)
                self.things.append(thing)
            self.looked[i].d = <PyObject *> d
            self.looked[i].version = 0  # looked through once
            self.looked[i].end = len(self.names)

    def __dealloc__(self):
        PyMem_Free(self.looked)

    cdef bint classes_hold(self):
        """`failed` where all places are in `classes` and above, whose writes Python counts."""
        cdef Py_ssize_t i
        cdef bint counted = len(self.tags) == len(self.classes)
        if counted:
            for i in range(len(self.tags)):
                if sdbr_tag(sdbr_list_item(<PyObject *> self.classes, i)) != <unsigned long> (
                    self.tags[i]
                ):
                    counted = False
                    break
        if counted:
            return self.failed_function() < 0
        if self.failed() is not None:
            return False
        for cls in self.classes:
            getattr(cls, "__module__", None)  # which lets Python count again
        tags = [sdbr_tag(<PyObject *> cls) for cls in self.classes]
        self.tags = tags if 0 not in tags else []
        return True

    cdef Py_ssize_t failed_function(self) except -2:
        """Which function has got other code; -1: none."""
        cdef Py_ssize_t i
        for i in range(len(self.codes)):
            if sdbr_code(sdbr_list_item(<PyObject *> self.functions, i)) != sdbr_list_item(
                <PyObject *> self.codes, i
            ):
                return i
        return -1

    cpdef str failed(self):
        """The name of what is not what it was; None if all is."""
        cdef Py_ssize_t i, k, start = 0
        cdef uint64_t version
        cdef bint settled
        cdef PyObject *found
        cdef PyObject *want
        for i in range(len(self.dicts)):
            version = sdbr_dict_version(self.looked[i].d)
            if not SDBR_DICT_VERSIONS or version != self.looked[i].version:
                settled = True
                for k in range(start, self.looked[i].end):
                    found = PyDict_GetItemWithError(
                        self.looked[i].d, sdbr_list_item(<PyObject *> self.names, k)
                    )
                    found = NONE if found == NULL else found
                    want = sdbr_list_item(<PyObject *> self.things, k)
                    if found != want:
                        if not stands_in(<object> found):
                            return <str> self.names[k]
                        settled = False
                if settled:
                    self.looked[i].version = version
            start = self.looked[i].end
        i = self.failed_function()
        if i >= 0:
            return f"code of {self.functions[i].__name__}"
        for i in range(len(self.classes)):
            if sdbr_bases(sdbr_list_item(<PyObject *> self.classes, i)) != sdbr_list_item(
                <PyObject *> self.bases, i
            ):
                return f"bases of {self.classes[i].__name__}"
        return None
