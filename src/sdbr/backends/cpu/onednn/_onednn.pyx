"""Sequences of oneDNN primitives that run as one op, without the GIL.

The library is found and its objects are made by the other modules of this folder; here are the
owners of its objects and what a run needs.
"""

import threading

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free


cdef extern from "runtime/onednn.h":
    ctypedef struct sdbr_foreign:
        int (*run)(sdbr_foreign *, char **) noexcept nogil

    ctypedef struct sdbr_onednn_argument:
        pass

    ctypedef struct sdbr_onednn_library:
        void *engine
        int (*stream_create)(void **, void *, unsigned) noexcept nogil
        int (*stream_destroy)(void *) noexcept nogil
        int (*stream_wait)(void *) noexcept nogil
        int (*memory_create)(void **, const void *, void *, void *) noexcept nogil
        int (*memory_destroy)(void *) noexcept nogil
        int (*memory_set_data_handle)(void *, void *) noexcept nogil
        int (*primitive_execute)(
            const void *, void *, int, const sdbr_onednn_argument *) noexcept nogil
        int (*get_max_threads)() noexcept nogil
        void (*set_num_threads)(int) noexcept nogil

    ctypedef struct sdbr_onednn_set:
        pass

    ctypedef struct sdbr_onednn_sequence:
        sdbr_foreign foreign
        const sdbr_onednn_library *library
        int n_steps
        int n_arguments
        const void **primitives
        int *counts
        int *keys
        const void **layouts
        int64_t *places
        int64_t scratch
        sdbr_onednn_set *sets
        int threads
        unsigned generation
        int (*renew)(sdbr_onednn_sequence *) noexcept nogil
        void *owner
        int y
        int bias
        int relu
        int64_t outer
        int64_t channels
        int64_t inner
        int64_t sum

    int SDBR_OK
    int SDBR_ONEDNN_NO_MEMORY
    unsigned sdbr_onednn_generation
    int sdbr_onednn_run(sdbr_foreign *, char **) noexcept nogil
    void sdbr_onednn_drop_sets(sdbr_onednn_sequence *) noexcept nogil
    int64_t sdbr_onednn_trim(int) noexcept nogil


ctypedef int (*destroyer)(void *) noexcept nogil

cdef sdbr_onednn_library _library
cdef int _alive = 0


def connect(engine, dict functions):
    """Take over the engine and the functions of the library, once per process.

    Parameters
    ----------
    engine : Handle
        Stays alive as long as the process.
    functions : dict
        Addresses by the names of ``sdbr_onednn_library``; 0 for OpenMP's where there are none.
    """
    _library.engine = <void *> <uintptr_t> engine.address
    _library.stream_create = <int (*)(void **, void *, unsigned) noexcept nogil> <uintptr_t> \
        functions["stream_create"]
    _library.stream_destroy = <destroyer> <uintptr_t> functions["stream_destroy"]
    _library.stream_wait = <destroyer> <uintptr_t> functions["stream_wait"]
    _library.memory_create = <int (*)(void **, const void *, void *, void *) noexcept nogil> \
        <uintptr_t> functions["memory_create"]
    _library.memory_destroy = <destroyer> <uintptr_t> functions["memory_destroy"]
    _library.memory_set_data_handle = <int (*)(void *, void *) noexcept nogil> <uintptr_t> \
        functions["memory_set_data_handle"]
    _library.primitive_execute = <int (*)(
        const void *, void *, int, const sdbr_onednn_argument *) noexcept nogil> \
        <uintptr_t> functions["primitive_execute"]
    _library.get_max_threads = <int (*)() noexcept nogil> <uintptr_t> functions["get_max_threads"]
    _library.set_num_threads = <void (*)(int) noexcept nogil> <uintptr_t> \
        functions["set_num_threads"]


def forked():
    """Tell that this process is the child of a fork."""
    global sdbr_onednn_generation
    sdbr_onednn_generation += 1


def alive():
    """How many sequences there are."""
    return _alive


def scratch_bytes():
    """Bytes of scratch memory that are held now."""
    return sdbr_onednn_trim(0)


def trim():
    """Give scratch memory back that nobody uses now."""
    sdbr_onednn_trim(1)


cdef class Handle:
    """Owns an object of the library.

    Parameters
    ----------
    address : int
    destroy : int
        Address of the function that frees it.
    """

    cdef readonly object address
    cdef destroyer destroy

    def __cinit__(self, address, destroy):
        self.address = address
        self.destroy = <destroyer> <uintptr_t> destroy

    def __dealloc__(self):
        if self.address is not None:
            self.destroy(<void *> <uintptr_t> self.address)


cdef class Sequence:
    """Primitives in order, and where the memory of their arguments lies.

    Parameters
    ----------
    make : callable
        ``make(threads)`` returns ``(steps, scratch)``: a list of ``(primitive, arguments)`` with
        arguments ``(key, layout, place)``, and the bytes of scratch memory. Primitives are a
        :class:`Handle`, layouts have an ``address``, a place is an offset in the scratch memory or,
        for operand i, ``-1 - i``. Called again in the child of a fork when there are threads.
    threads : int
    finish : tuple, optional
        ``(y, bias, relu, outer, channels, inner, sum)``: what is done to operand ``y`` at the end;
        ``bias`` is an operand or -1, ``sum`` the place of what is added or -1.

    Attributes
    ----------
    address : int
        What the kernel ``foreign`` takes.
    scratch : int
        Bytes of scratch memory.
    """

    cdef object __weakref__
    cdef sdbr_onednn_sequence s
    cdef object make
    cdef object held
    cdef object lock

    def __cinit__(self, make, int threads, finish=None):
        global _alive
        _alive += 1
        self.lock = threading.Lock()
        self.make = make
        self.s.foreign.run = sdbr_onednn_run
        self.s.library = &_library
        self.s.renew = _renew
        self.s.owner = <void *> self
        self.s.y = -1
        if finish is not None:
            (self.s.y, self.s.bias, self.s.relu, self.s.outer, self.s.channels, self.s.inner,
             self.s.sum) = finish
        self.build(threads)

    def __dealloc__(self):
        global _alive
        self.clear()
        _alive -= 1
        if _alive == 0:
            sdbr_onednn_trim(1)

    @property
    def address(self):
        return <uintptr_t> &self.s

    @property
    def scratch(self):
        return self.s.scratch

    @property
    def threads(self):
        return self.s.threads

    cdef int build(self, int threads) except -1:
        cdef int i
        cdef int k = 0
        steps, scratch = self.make(threads)
        self.s.n_steps = len(steps)
        self.s.n_arguments = sum([len(arguments) for _, arguments in steps])
        self.s.primitives = <const void **> _zeroed(self.s.n_steps, sizeof(void *))
        self.s.counts = <int *> _zeroed(self.s.n_steps, sizeof(int))
        self.s.keys = <int *> _zeroed(self.s.n_arguments, sizeof(int))
        self.s.layouts = <const void **> _zeroed(self.s.n_arguments, sizeof(void *))
        self.s.places = <int64_t *> _zeroed(self.s.n_arguments, sizeof(int64_t))
        self.s.scratch = scratch
        for i, (primitive, arguments) in enumerate(steps):
            self.s.primitives[i] = <const void *> <uintptr_t> primitive.address
            self.s.counts[i] = len(arguments)
            for key, layout, place in arguments:
                self.s.keys[k] = key
                self.s.layouts[k] = <const void *> <uintptr_t> layout.address
                self.s.places[k] = place
                k += 1
        self.held = steps
        self.s.threads = threads
        self.s.generation = sdbr_onednn_generation  # last: whoever sees it may run
        return 0

    cdef void clear(self) noexcept:
        sdbr_onednn_drop_sets(&self.s)
        free(self.s.primitives)
        free(self.s.counts)
        free(self.s.keys)
        free(self.s.layouts)
        free(self.s.places)
        self.s.primitives = NULL
        self.s.counts = NULL
        self.s.keys = NULL
        self.s.layouts = NULL
        self.s.places = NULL


cdef int _renew(sdbr_onednn_sequence *s) noexcept with gil:
    """In the child of a fork: primitives for one thread, OpenMP's others are gone."""
    cdef Sequence sequence = <Sequence> s.owner
    try:
        # Nobody is inside: whoever comes has to pass here first.
        with sequence.lock:
            if s.generation != sdbr_onednn_generation:
                sequence.clear()
                sequence.build(1)
    except BaseException:
        return SDBR_ONEDNN_NO_MEMORY
    return SDBR_OK


cdef void *_zeroed(size_t n, size_t size) except NULL:
    cdef void *block = calloc(n if n else 1, size)
    if block == NULL:
        raise MemoryError
    return block
