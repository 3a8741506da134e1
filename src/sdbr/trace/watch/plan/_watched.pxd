"""Whether a dictionary was written to. From 3.13 on, Python does not count but tells who asks."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    /* What is known of a dictionary that Python tells of, as long as a test needs it. */
    typedef struct {
        PyObject *d;       /* NULL: it has gone */
        uint64_t version;  /* no number comes twice */
        Py_ssize_t users;
    } sdbr_seen;

    #if PY_VERSION_HEX < 0x030D0000
    static inline int sdbr_is_unmoved(PyObject *d, sdbr_seen *seen, uint64_t version) {
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        (void)seen;
        return ((PyDictObject *)d)->ma_version_tag == version;
    _Py_COMP_DIAG_POP
    }
    static inline uint64_t sdbr_version_of(PyObject *d, sdbr_seen **seen, int again) {
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        (void)seen;
        (void)again;
        return ((PyDictObject *)d)->ma_version_tag;
    _Py_COMP_DIAG_POP
    }
    static inline void sdbr_forget(sdbr_seen *seen) { (void)seen; }
    #else
    static struct {
        sdbr_seen **slots;
        size_t size, used;  /* a power of two; at most half of it */
        int asked, id;
        uint64_t last;
    } sdbr_told;

    static size_t sdbr_home(PyObject *d) {
        return (size_t)(((uint64_t)(uintptr_t)d >> 4) * 0x9E3779B97F4A7C15u >> 20) &
               (sdbr_told.size - 1);
    }
    static size_t sdbr_slot_of(PyObject *d) {  /* where it is, or would be */
        size_t i = sdbr_home(d);
        while (sdbr_told.slots[i] != NULL && sdbr_told.slots[i]->d != d)
            i = (i + 1) & (sdbr_told.size - 1);
        return i;
    }
    static void sdbr_take_out(PyObject *d) {
        size_t i = sdbr_slot_of(d), k = i, home;
        sdbr_told.slots[i]->d = NULL;
        sdbr_told.slots[i] = NULL;
        sdbr_told.used--;
        for (;;) {  /* what has been pushed on moves up */
            k = (k + 1) & (sdbr_told.size - 1);
            if (sdbr_told.slots[k] == NULL)
                return;
            home = sdbr_home(sdbr_told.slots[k]->d);
            if (((k - home) & (sdbr_told.size - 1)) >= ((k - i) & (sdbr_told.size - 1))) {
                sdbr_told.slots[i] = sdbr_told.slots[k];
                sdbr_told.slots[k] = NULL;
                i = k;
            }
        }
    }
    /* Python is about to write to a dictionary. */
    static int sdbr_writes(PyDict_WatchEvent event, PyObject *d, PyObject *key, PyObject *value) {
        sdbr_seen *seen = sdbr_told.size ? sdbr_told.slots[sdbr_slot_of(d)] : NULL;
        (void)key;
        (void)value;
        if (seen != NULL) {
            seen->version = ++sdbr_told.last;
            if (event == PyDict_EVENT_DEALLOCATED)
                sdbr_take_out(d);
        }
        return 0;
    }
    static int sdbr_grow(void) {
        size_t i, size = sdbr_told.size;
        sdbr_seen **before = sdbr_told.slots;
        sdbr_seen **slots = calloc(size ? 2 * size : 64, sizeof(sdbr_seen *));
        if (slots == NULL)
            return 0;
        sdbr_told.slots = slots;
        sdbr_told.size = size ? 2 * size : 64;
        for (i = 0; i < size; i++)
            if (before[i] != NULL)
                slots[sdbr_slot_of(before[i]->d)] = before[i];
        free(before);
        return 1;
    }
    static inline void sdbr_forget(sdbr_seen *seen) {
        if (seen == NULL || --seen->users > 0)
            return;
        if (seen->d != NULL) {
            if (PyDict_Unwatch(sdbr_told.id, seen->d) < 0)
                PyErr_Clear();
            sdbr_take_out(seen->d);
        }
        free(seen);
    }
    static sdbr_seen *sdbr_see(PyObject *d) {
        sdbr_seen *seen;
        if (!sdbr_told.asked) {
            sdbr_told.asked = 1;
            sdbr_told.id = PyDict_AddWatcher(sdbr_writes);
            if (sdbr_told.id < 0)  /* others have taken all that there are */
                PyErr_Clear();
        }
        /* Of values that lie in the object itself not all that write to them tell (3.13.0). */
        if (sdbr_told.id < 0 || ((PyDictObject *)d)->ma_values != NULL)
            return NULL;
        if (2 * (sdbr_told.used + 1) > sdbr_told.size && !sdbr_grow())
            return NULL;
        seen = sdbr_told.slots[sdbr_slot_of(d)];
        if (seen == NULL) {
            seen = calloc(1, sizeof(sdbr_seen));
            if (seen == NULL || PyDict_Watch(sdbr_told.id, d) < 0) {
                PyErr_Clear();
                free(seen);
                return NULL;
            }
            seen->d = d;
            seen->version = ++sdbr_told.last;
            sdbr_told.slots[sdbr_slot_of(d)] = seen;
            sdbr_told.used++;
        }
        seen->users++;
        return seen;
    }
    static inline int sdbr_is_unmoved(PyObject *d, sdbr_seen *seen, uint64_t version) {
        return seen != NULL && seen->d == d && seen->version == version;
    }
    /* `again`: it is the one that was there before, so it is worth the while to be told of it. */
    static inline uint64_t sdbr_version_of(PyObject *d, sdbr_seen **seen, int again) {
        if (*seen == NULL || (*seen)->d != d) {
            sdbr_forget(*seen);
            *seen = again ? sdbr_see(d) : NULL;
        }
        return *seen == NULL ? 0 : (*seen)->version;
    }
    #endif

    /* Where a key is among those that the objects of a class have in common. */
    typedef struct {
        void *keys;
        Py_ssize_t at;  /* less than 0: nowhere among the first -1 - at */
    } sdbr_place;

    /* What the dictionary `d` of the object `x` has under a key. */
    #if PY_VERSION_HEX < 0x030D0000 || PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
    static inline PyObject *sdbr_found(PyObject *x, PyObject *d, PyObject *key,
                                       sdbr_place *place) {
        (void)x;
        (void)place;
        return PyDict_GetItemWithError(d, key);
    }
    #else
    typedef struct {
        Py_ssize_t refcnt;
        uint8_t log2_size, log2_index_bytes, kind;
        uint32_t version;
        Py_ssize_t usable, n;
        char indices[];
    } sdbr_keys;
    typedef struct {
        uint8_t capacity, size, embedded, valid;
        PyObject *values[1];
    } sdbr_values;

    static void sdbr_find(sdbr_keys *keys, PyObject *key, sdbr_place *place) {
        PyObject **entries = (PyObject **)(keys->indices + ((size_t)1 << keys->log2_index_bytes));
        Py_ssize_t i = 0;
        while (i < keys->n && entries[2 * i] != key && PyUnicode_Compare(entries[2 * i], key))
            i++;
        place->keys = keys;
        place->at = i < keys->n ? i : -1 - i;
    }
    static inline PyObject *sdbr_found(PyObject *x, PyObject *d, PyObject *key,
                                       sdbr_place *place) {
        sdbr_values *values = (sdbr_values *)((PyDictObject *)d)->ma_values;
        sdbr_keys *keys = (sdbr_keys *)((PyDictObject *)d)->ma_keys;
        if (values == NULL || x == d || !PyUnicode_CheckExact(key) ||
            !PyType_HasFeature(Py_TYPE(x), Py_TPFLAGS_HEAPTYPE) ||
            (void *)((PyHeapTypeObject *)Py_TYPE(x))->ht_cached_keys != (void *)keys)
            return PyDict_GetItemWithError(d, key);
        if (place->keys != (void *)keys || (place->at < 0 && keys->n != -1 - place->at))
            sdbr_find(keys, key, place);
        if (place->at < 0)
            return NULL;
        return place->at < values->capacity ? values->values[place->at]
                                            : PyDict_GetItemWithError(d, key);
    }
    #endif
    """
    ctypedef struct sdbr_place:
        pass
    PyObject *sdbr_found(PyObject *x, PyObject *d, PyObject *key, sdbr_place *place) noexcept
    ctypedef struct sdbr_seen:
        pass
    bint sdbr_is_unmoved(PyObject *d, sdbr_seen *seen, uint64_t version) noexcept
    uint64_t sdbr_version_of(PyObject *d, sdbr_seen **seen, bint again) noexcept
    void sdbr_forget(sdbr_seen *seen) noexcept
