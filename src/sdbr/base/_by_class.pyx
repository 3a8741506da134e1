"""What is known of classes, as long as they live; without asking their metaclasses."""

import weakref


cdef class ByClass:
    """A function of one class that keeps its answers, as a decorator.

    Parameters
    ----------
    function : callable
        ``function(kind)``, whose answer stays the same.
    """

    cdef object function
    cdef dict known  # by the address of the class: a weak reference to it, and the answer

    def __init__(self, function):
        self.function = function
        self.known = {}

    def __call__(self, kind):
        cdef tuple entry = self.known.get(<Py_ssize_t><void*>kind)
        if entry is not None:
            return entry[1]
        address = <Py_ssize_t><void*>kind
        answer = self.function(kind)
        known = self.known
        self.known[address] = weakref.ref(kind, lambda _: known.pop(address, None)), answer
        return answer
