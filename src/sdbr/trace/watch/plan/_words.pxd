"""Words in memory that stay as they are as long as tests would hold again.

They stand in the order of the tests, and each is looked at only after those before it were found
to be as they were: what it lies in is held by what they lie in, so it is still there. All are read
as eight bytes, also numbers of four: what stands beside those in the same object is padding, and
should that change, the tests are run.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from sdbr.trace.watch.plan._watched cimport sdbr_seen

cdef extern from *:
    """
    #include <string.h>

    typedef struct {
        const void *at;
        uint64_t was;
    } sdbr_word;

    /* What is weakly referenced and nobody needs to hold. */
    typedef struct {
        PyObject *ref, *x;
    } sdbr_root;

    /* Up to where words are compared, and the test that is run then; less than 0: none. */
    typedef struct {
        Py_ssize_t last;
        Py_ssize_t test;
    } sdbr_stop;

    /* Of a test: which words were its own last, and how often they have become others. */
    typedef struct {
        Py_ssize_t first, last;
        uint64_t round;
        int moves, level, kept;
    } sdbr_past;

    typedef struct {
        int ready, begun, full;
        Py_ssize_t n, n_before, room, room_before, n_roots, n_stops;
        sdbr_word *words, *before;
        sdbr_root *roots;
        sdbr_stop *stops;
        sdbr_past *past;     /* of each test */
        char *used, *roving; /* of each node */
        uint64_t round;      /* checks so far */
        Py_ssize_t held;     /* for which the words have been enough */
        int useless, waits;
    } sdbr_words;

    static inline int sdbr_roots_hold(const sdbr_words *w) {
        const sdbr_root *root = w->roots, *end = root + w->n_roots;
        for (; root < end; root++)
            if (((PyWeakReference *)root->ref)->wr_object != root->x || Py_REFCNT(root->x) <= 0)
                return 0;
        return 1;
    }
    static inline int sdbr_words_hold(const sdbr_word *word, const sdbr_word *end) {
        uint64_t now;
        for (; word < end; word++) {
            memcpy(&now, word->at, sizeof now);
            if (now != word->was)
                return 0;
        }
        return 1;
    }

    static inline void sdbr_put(sdbr_words *w, const void *at) {
        if (w->n == w->room) {
            Py_ssize_t room = 2 * w->room + 32;
            sdbr_word *words = PyMem_Realloc(w->words, room * sizeof(sdbr_word));
            if (words == NULL) {
                w->full = 1;
                return;
            }
            w->words = words;
            w->room = room;
        }
        w->words[w->n].at = at;
        memcpy(&w->words[w->n++].was, at, sizeof(uint64_t));
    }
    /* Begin anew; what was noted before is kept for comparison. */
    static inline int sdbr_begin(sdbr_words *w, Py_ssize_t n_tests, Py_ssize_t n_nodes) {
        sdbr_word *words = w->words;
        Py_ssize_t room = w->room;
        if (!w->begun) {
            w->begun = 1;
            w->roots = PyMem_Calloc(n_tests + 1, sizeof(sdbr_root));
            w->stops = PyMem_Calloc(n_tests + 1, sizeof(sdbr_stop));
            w->used = PyMem_Calloc(n_nodes + 1, 1);
            w->roving = PyMem_Calloc(n_nodes + 1, 1);
            w->past = PyMem_Calloc(n_tests + 1, sizeof(sdbr_past));
        }
        if (sizeof(void *) != sizeof(uint64_t) || w->roots == NULL || w->stops == NULL ||
            w->used == NULL || w->roving == NULL || w->past == NULL)
            return 0;
        w->words = w->before;
        w->room = w->room_before;
        w->n_before = w->n;
        w->before = words;
        w->room_before = room;
        w->n = w->n_roots = w->n_stops = 0;
        w->full = 0;
        memset(w->used, 0, n_nodes);
        memset(w->roving, 0, n_nodes);
        return 1;
    }
    static inline void sdbr_end(sdbr_words *w) {
        PyMem_Free(w->words);
        PyMem_Free(w->before);
        PyMem_Free(w->roots);
        PyMem_Free(w->stops);
        PyMem_Free(w->used);
        PyMem_Free(w->roving);
        PyMem_Free(w->past);
    }
    /* Whether words that a test has now are those that it had. */
    static inline int sdbr_are_same(const sdbr_words *w, const sdbr_past *past, Py_ssize_t first) {
        return past->last - past->first == w->n - first &&
               (w->n == first || memcmp(w->before + past->first, w->words + first,
                                        (w->n - first) * sizeof(sdbr_word)) == 0);
    }

    static inline void sdbr_put_type(sdbr_words *w, PyObject *x) { sdbr_put(w, &x->ob_type); }
    static inline void sdbr_put_ref(sdbr_words *w, PyObject *ref) {
        sdbr_put(w, &((PyWeakReference *)ref)->wr_object);
    }
    /* Of a dictionary for which `sdbr_is_unmoved` holds. */
    static inline void sdbr_put_version(sdbr_words *w, PyObject *d, sdbr_seen *seen) {
    #if PY_VERSION_HEX < 0x030D0000
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        (void)seen;
        sdbr_put(w, &((PyDictObject *)d)->ma_version_tag);
    _Py_COMP_DIAG_POP
    #else
        (void)d;  /* that it goes counts as well */
        sdbr_put(w, &seen->version);
    #endif
    }
    /* Of a class that has a tag; 0 where its tag alone does not tell. */
    static inline int sdbr_put_tag(sdbr_words *w, PyObject *cls) {
        sdbr_put(w, &((PyTypeObject *)cls)->tp_version_tag);
        return PY_VERSION_HEX >= 0x030B0000;
    }
    static inline void sdbr_put_definition(sdbr_words *w, PyObject *f, PyObject *code) {
        PyFunctionObject *function = (PyFunctionObject *)f;
        sdbr_put(w, &function->func_code);
        sdbr_put_ref(w, code);
        sdbr_put(w, &function->func_defaults);
        sdbr_put(w, &function->func_kwdefaults);
    }
    static inline void sdbr_put_list(sdbr_words *w, PyObject *x) {
        sdbr_put(w, &((PyVarObject *)x)->ob_size);
        sdbr_put(w, &((PyListObject *)x)->ob_item);
    }
    static inline void sdbr_put_list_item(sdbr_words *w, PyObject *x, Py_ssize_t i) {
        sdbr_put(w, &((PyListObject *)x)->ob_item[i]);
    }
    static inline void sdbr_put_tuple(sdbr_words *w, PyObject *x) {
        sdbr_put(w, &((PyVarObject *)x)->ob_size);
    }
    static inline void sdbr_put_tuple_item(sdbr_words *w, PyObject *x, Py_ssize_t i) {
        sdbr_put(w, &((PyTupleObject *)x)->ob_item[i]);
    }
    static inline void sdbr_put_cell(sdbr_words *w, PyObject *x) {
        sdbr_put(w, &((PyCellObject *)x)->ob_ref);
    }
    static inline void sdbr_put_closure(sdbr_words *w, PyObject *f) {
        sdbr_put(w, &((PyFunctionObject *)f)->func_closure);
    }
    static inline void sdbr_put_self(sdbr_words *w, PyObject *x) {
        if (PyMethod_Check(x))
            sdbr_put(w, &((PyMethodObject *)x)->im_self);
        else
            sdbr_put(w, &((PyCFunctionObject *)x)->m_self);
    }
    """
    ctypedef struct sdbr_word:
        pass
    ctypedef struct sdbr_root:
        PyObject *ref
        PyObject *x
    ctypedef struct sdbr_stop:
        Py_ssize_t last
        Py_ssize_t test
    ctypedef struct sdbr_past:
        Py_ssize_t first
        Py_ssize_t last
        uint64_t round
        int moves
        int level
        int kept
    ctypedef struct sdbr_words:
        int ready
        int full
        Py_ssize_t n
        Py_ssize_t n_before
        Py_ssize_t n_roots
        Py_ssize_t n_stops
        sdbr_word *words
        sdbr_root *roots
        sdbr_stop *stops
        sdbr_past *past
        char *used
        char *roving
        uint64_t round
        Py_ssize_t held
        int useless
        int waits
    bint sdbr_roots_hold(const sdbr_words *) noexcept
    bint sdbr_words_hold(const sdbr_word *, const sdbr_word *) noexcept
    bint sdbr_begin(sdbr_words *, Py_ssize_t, Py_ssize_t) noexcept
    void sdbr_end(sdbr_words *) noexcept
    bint sdbr_are_same(const sdbr_words *, const sdbr_past *, Py_ssize_t) noexcept
    void sdbr_put(sdbr_words *, const void *) noexcept
    void sdbr_put_type(sdbr_words *, PyObject *) noexcept
    void sdbr_put_ref(sdbr_words *, PyObject *) noexcept
    void sdbr_put_version(sdbr_words *, PyObject *, sdbr_seen *) noexcept
    bint sdbr_put_tag(sdbr_words *, PyObject *) noexcept
    void sdbr_put_definition(sdbr_words *, PyObject *, PyObject *) noexcept
    void sdbr_put_list(sdbr_words *, PyObject *) noexcept
    void sdbr_put_list_item(sdbr_words *, PyObject *, Py_ssize_t) noexcept
    void sdbr_put_tuple(sdbr_words *, PyObject *) noexcept
    void sdbr_put_tuple_item(sdbr_words *, PyObject *, Py_ssize_t) noexcept
    void sdbr_put_cell(sdbr_words *, PyObject *) noexcept
    void sdbr_put_closure(sdbr_words *, PyObject *) noexcept
    void sdbr_put_self(sdbr_words *, PyObject *) noexcept
