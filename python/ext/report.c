/* report.c: the results of verifications for Python, and other helpers for array files
 * and record packs. */
#include "filespy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void tarnpy_problems_add(void *context, const tarn_error *what)
{
    tarnpy_problems *p = context;
    char text[TARN_ERROR_PATH_MAX + TARN_ERROR_MESSAGE_MAX + 64];
    if (p->count == TARNPY_MAX_PROBLEMS) return;
    if (!p->texts) p->texts = calloc(TARNPY_MAX_PROBLEMS, sizeof *p->texts);
    if (!p->texts) return;
    p->texts[p->count] = strdup(tarn_error_text(what, text, sizeof text));
    if (p->texts[p->count]) p->count++;
}

PyObject *tarnpy_problems_list(tarnpy_problems *p)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < p->count; i++) {
        PyObject *text = list ? tarnpy_text(p->texts[i], strlen(p->texts[i])) : NULL;
        if (list && (!text || PyList_Append(list, text) != 0)) Py_CLEAR(list);
        Py_XDECREF(text);
        free(p->texts[i]);
    }
    free(p->texts);
    memset(p, 0, sizeof *p);
    return list;
}

PyObject *tarnpy_problems_end(PyObject *module, PyObject *path, tarnpy_problems *problems,
                              tarn_status status, const tarn_error *err)
{
    PyObject *list = tarnpy_problems_list(problems);
    if (status != TARN_OK && !PyErr_Occurred())
        tarnpy_raise_open(tarnpy_module_state(module), path, err);
    Py_DECREF(path);
    if (PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

PyObject *tarnpy_raise_open(tarnpy_state *state, PyObject *path, const tarn_error *err)
{
    struct stat about;
    if (err->code != TARN_ERR_UNSUPPORTED || stat(PyBytes_AsString(path), &about) != 0 ||
        !S_ISDIR(about.st_mode))
        return tarnpy_raise(state, err);
    errno = EISDIR;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AsString(path));
}

/* --- Interruptible work ------------------------------------------------------------ */

typedef struct job {
    void (*work)(void *);
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
} job;

static void *run_job(void *argument)
{
    job *j = argument;
    j->work(j->context);
    pthread_mutex_lock(&j->lock);
    j->done = true;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static bool wait_for_job(job *j, long milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&j->lock);
    if (!j->done) pthread_cond_timedwait(&j->changed, &j->lock, &until);
    bool done = j->done;
    pthread_mutex_unlock(&j->lock);
    return done;
}

void tarnpy_run(void (*work)(void *), void *context, atomic_bool *stop)
{
    tarnpy_run_watched(work, context, stop, NULL);
}

void tarnpy_run_watched(void (*work)(void *), void *context, atomic_bool *stop,
                        int (*watch)(void *))
{
    enum { LOOK_EVERY_MS = 50 };
    job j = {work, context, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    pthread_t thread;
    bool done;
    if (pthread_create(&thread, NULL, run_job, &j) != 0) {
        Py_BEGIN_ALLOW_THREADS;
        work(context);
        Py_END_ALLOW_THREADS;
        return;
    }
    do {
        Py_BEGIN_ALLOW_THREADS;
        done = wait_for_job(&j, LOOK_EVERY_MS);
        Py_END_ALLOW_THREADS;
        if (!done && !atomic_load(stop) &&
            (PyErr_CheckSignals() != 0 || (watch && watch(context) != 0)))
            atomic_store(stop, true);
    } while (!done);
    pthread_join(thread, NULL);
}

int tarnpy_stopped(void *stop, uint64_t done, uint64_t total)
{
    return atomic_load((atomic_bool *)stop);
}

PyObject *tarnpy_shape(const uint64_t *shape, unsigned ndim)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (unsigned i = 0; tuple && i < ndim; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(shape[i]);
        if (!number || PyTuple_SetItem(tuple, i, number) != 0) Py_CLEAR(tuple);
    }
    return tuple;
}
