"""Which ``SystemExit`` this process was left by, however it was raised.

No hook of Python's is told: the interpreter takes the status, drops the exception with no code
running, and only then begins to shut down. So its dropping is looked at.
"""

import sys
import threading

cdef extern from *:
    """
    static initproc sdbr_init_before = NULL;
    static destructor sdbr_drop_before = NULL;
    static PyObject *sdbr_where = NULL;      /* gives the line that is running */
    static PyObject *sdbr_line = NULL;       /* where the last one was made */
    static PyObject *sdbr_made = NULL;       /* which it was: an address, no more */
    static PyObject *sdbr_left_code = NULL;
    static PyObject *sdbr_left_line = NULL;
    static unsigned long sdbr_main_thread = 0;

    static int sdbr_exit_init(PyObject *self, PyObject *args, PyObject *kwargs) {
        const int status = sdbr_init_before(self, args, kwargs);
        if (status == 0) {
            PyObject *line = PyObject_CallObject(sdbr_where, NULL);
            if (line == NULL)
                PyErr_Clear();
            Py_XSETREF(sdbr_line, line);
            sdbr_made = self;
        }
        return status;
    }

    /* The first that goes in the main thread while no code runs there is the one that was not
     * caught: what it holds, and what its traceback holds, goes after it. */
    static void sdbr_exit_drop(PyObject *self) {
        PyObject *code = ((PySystemExitObject *)self)->code;
        if (sdbr_left_code == NULL && PyThread_get_thread_ident() == sdbr_main_thread
            && PyEval_GetFrame() == NULL) {
            Py_INCREF(sdbr_left_code = code != NULL ? code : Py_None);
            if (self == sdbr_made)
                Py_XINCREF(sdbr_left_line = sdbr_line);
        }
        sdbr_drop_before(self);
    }

    #if PY_VERSION_HEX < 0x030C0000
    /* sys.exit, which before 3.12 makes no exception where nobody looks at it on its way. */
    typedef PyObject *(*sdbr_fast)(PyObject *, PyObject *const *, Py_ssize_t);
    static sdbr_fast sdbr_exit_before = NULL;

    static PyObject *sdbr_exit(PyObject *module, PyObject *const *args, Py_ssize_t n) {
        PyObject *made;
        if (n > 1)
            return sdbr_exit_before(module, args, n);
        if (n == 0 || args[0] == Py_None)
            made = PyObject_CallObject(PyExc_SystemExit, NULL);
        else if (PyObject_TypeCheck(args[0], (PyTypeObject *)PyExc_SystemExit))
            Py_INCREF(made = args[0]);
        else if (PyTuple_Check(args[0]))
            made = PyObject_CallObject(PyExc_SystemExit, args[0]);
        else
            made = PyObject_CallFunctionObjArgs(PyExc_SystemExit, args[0], NULL);
        if (made != NULL) {
            PyErr_SetObject((PyObject *)Py_TYPE(made), made);
            Py_DECREF(made);
        }
        return NULL;
    }
    #endif

    static int sdbr_watch_exits(PyObject *where, PyObject *exit, unsigned long thread) {
        PyTypeObject *type = (PyTypeObject *)PyExc_SystemExit;
        if (sdbr_init_before != NULL)
            return 1;
        sdbr_main_thread = thread;
        Py_INCREF(sdbr_where = where);
        sdbr_init_before = type->tp_init;
        sdbr_drop_before = type->tp_dealloc;
        type->tp_init = sdbr_exit_init;
        type->tp_dealloc = sdbr_exit_drop;
    #if PY_VERSION_HEX < 0x030C0000
        if (!PyCFunction_Check(exit) || PyCFunction_GetFlags(exit) != METH_FASTCALL)
            return 0;
        sdbr_exit_before = (sdbr_fast)(void (*)(void))PyCFunction_GetFunction(exit);
        ((PyCFunctionObject *)exit)->m_ml->ml_meth = (PyCFunction)(void (*)(void))sdbr_exit;
    #endif
        return 1;
    }

    static PyObject *sdbr_left(void) {
        if (sdbr_left_code == NULL)
            Py_RETURN_NONE;
        return PyTuple_Pack(2, sdbr_left_code, sdbr_left_line ? sdbr_left_line : Py_None);
    }
    """
    bint sdbr_watch_exits(object, object, unsigned long)
    object sdbr_left()


def watch(where):
    """Begin to look, once.

    Parameters
    ----------
    where : callable
        ``where() -> str``: the line that is running.
    """
    if not sdbr_watch_exits(where, sys.exit, threading.main_thread().ident):
        raise RuntimeError("sys.exit is no function of the interpreter's")


def left():
    """Code and line of the ``SystemExit`` that nobody caught; None while there is none."""
    return sdbr_left()
