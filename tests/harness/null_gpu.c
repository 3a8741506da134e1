/* A GPU that runs nothing, for CuPy itself: what null_gpu.py puts in the place of CUDA's functions. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, ALIGNMENT = 512, STREAM_BYTES = 64 };

static _Thread_local int current;
static PyObject *properties, *pointer_attributes;
static size_t launches;

void null_set(PyObject *of_device, PyObject *class_of_attributes) {
    Py_INCREF(of_device);
    Py_INCREF(class_of_attributes);
    properties = of_device;
    pointer_attributes = class_of_attributes;
}

size_t null_launches(void) { return launches; }

/* --- what nobody looks at --- */

PyObject *null_object(void) { Py_RETURN_NONE; }
intptr_t null_integer(void) { return 0; }
float null_float(void) { return 0; }

/* --- devices --- */

int null_getDeviceCount(int skip) {
    (void)skip;
    return DEVICES;
}

int null_getDevice(int skip) {
    (void)skip;
    return current;
}

PyObject *null_setDevice(int device, int skip) {
    (void)skip;
    if (device < 0 || device >= DEVICES) {
        PyErr_SetString(PyExc_RuntimeError, "cudaErrorInvalidDevice: invalid device ordinal");
        return NULL;
    }
    current = device;
    Py_RETURN_NONE;
}

int null_version(int skip) {
    (void)skip;
    return 13000;
}

int null_deviceGetAttribute(int attribute, int device, int skip) {
    (void)device, (void)skip;
    switch (attribute) {
    case 1: return 1024;       /* threads of a block */
    case 5: return 0x7fffffff; /* blocks of a grid */
    case 8: return 49152;      /* shared memory of a block */
    case 10: return 32;        /* threads of a warp */
    case 16: return 132;       /* multiprocessors */
    case 75: return 9;         /* compute capability */
    default: return 0;
    }
}

PyObject *null_getDeviceProperties(int device, int skip) {
    (void)device, (void)skip;
    return PyDict_Copy(properties);
}

PyObject *null_memGetInfo(int skip) {
    (void)skip;
    return Py_BuildValue("(nn)", (Py_ssize_t)8 << 30, (Py_ssize_t)8 << 30);
}

/* --- memory --- */

intptr_t null_malloc(size_t size, int skip) {
    size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *made = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    (void)skip;
    if (made == NULL) PyErr_NoMemory();
    else memset(made, 0, rounded);
    return (intptr_t)made;
}

intptr_t null_hostAlloc(size_t size, unsigned int flags, int skip) {
    (void)flags;
    return null_malloc(size, skip);
}

PyObject *null_free(intptr_t address, int skip) {
    (void)skip;
    free((void *)address);
    Py_RETURN_NONE;
}

PyObject *null_memcpy(intptr_t to, intptr_t from, size_t size, int kind, int skip) {
    (void)kind, (void)skip;
    memmove((void *)to, (void *)from, size);
    Py_RETURN_NONE;
}

PyObject *null_memcpyAsync(intptr_t to, intptr_t from, size_t size, int kind, intptr_t stream,
                           int skip) {
    (void)stream;
    return null_memcpy(to, from, size, kind, skip);
}

PyObject *null_memcpyPeer(intptr_t to, int there, intptr_t from, int here, size_t size, int skip) {
    (void)there, (void)here;
    return null_memcpy(to, from, size, 0, skip);
}

PyObject *null_memcpyPeerAsync(intptr_t to, int there, intptr_t from, int here, size_t size,
                               intptr_t stream, int skip) {
    (void)stream;
    return null_memcpyPeer(to, there, from, here, size, skip);
}

PyObject *null_memset(intptr_t to, int value, size_t size, int skip) {
    (void)skip;
    memset((void *)to, value, size);
    Py_RETURN_NONE;
}

PyObject *null_memsetAsync(intptr_t to, int value, size_t size, intptr_t stream, int skip) {
    (void)stream;
    return null_memset(to, value, size, skip);
}

/* Of an address that CUDA knows nothing of: memory of the host. */
PyObject *null_pointerGetAttributes(intptr_t address, int skip) {
    (void)skip;
    return PyObject_CallFunction(pointer_attributes, "innn", current, (Py_ssize_t)address,
                                 (Py_ssize_t)address, (Py_ssize_t)0);
}

/* --- streams, events, modules: addresses of their own, which are never given back --- */

static intptr_t one(void) { return (intptr_t)calloc(1, STREAM_BYTES); }

intptr_t null_create(int skip) {
    (void)skip;
    return one();
}

intptr_t null_createWithFlags(unsigned int flags, int skip) {
    (void)flags;
    return null_create(skip);
}

intptr_t null_createWithPriority(unsigned int flags, int priority, int skip) {
    (void)flags, (void)priority;
    return null_create(skip);
}

intptr_t null_moduleLoadData(PyObject *image, int skip) {
    (void)image;
    return null_create(skip);
}

intptr_t null_moduleGetFunction(intptr_t module, PyObject *name, int skip) {
    (void)module, (void)name;
    return null_create(skip);
}

PyObject *null_launchKernel(intptr_t f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                            unsigned g, unsigned shared, intptr_t stream, intptr_t parameters,
                            intptr_t extra, int skip) {
    (void)f, (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)shared, (void)stream;
    (void)parameters, (void)extra, (void)skip;
    launches++;
    Py_RETURN_NONE;
}

PyObject *null_occupancyMaxPotentialBlockSize(intptr_t f, size_t shared, int limit, int skip) {
    (void)f, (void)shared, (void)limit, (void)skip;
    return Py_BuildValue("(ii)", 132, 256);
}

int null_funcGetAttribute(int attribute, intptr_t f, int skip) {
    (void)attribute, (void)f, (void)skip;
    return 1024;
}
