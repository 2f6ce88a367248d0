/* tasks.c: which worker does which task, in the first pages of an arena. One process, the
 * owner, adds tasks and takes back those of dead workers; worker processes claim the
 * oldest one that is ready. What a task is, its message says.
 *
 * A task is claimed by one compare-and-swap of its state, so a worker that is killed at
 * any instruction either has claimed it, with its number, or has not. Nothing is locked.
 * The owner alone writes head, tail, offset and size, and never reads them back from
 * shared memory.
 *
 * Memory orders: state becomes READY with release after offset and size were written, and
 * a claim acquires. tail is stored with release after that. wake is changed after both
 * and read before a search, so the futex does not sleep past a task: if one is added
 * between the search and the sleep, wake has changed. at and since are hints: relaxed. */
#include "arena.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static arena *owned(PyObject *object)
{
    arena *a = ((arena_object *)object)->arena;
    if (a->pid == getpid()) return a;
    PyErr_SetString(PyExc_RuntimeError, "the tasks are of another process");
    return NULL;
}

static arena_task *task_at(arena *a, uint64_t number)
{
    return &arena_control_of(a)->tasks[number % ARENA_TASKS];
}

static void wake_workers(arena *a, int count)
{
    arena_control *c = arena_control_of(a);
    atomic_fetch_add(&c->wake, 1);
    syscall(SYS_futex, &c->wake, FUTEX_WAKE, count, NULL, NULL, 0);
}

static unsigned long long clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec;
}

/* --- The owner --------------------------------------------------------------------- */

static void offer(arena *a, uint64_t number, uint64_t offset, uint64_t size)
{
    arena_task *t = task_at(a, number);
    t->offset = offset;
    t->size = size;
    atomic_store_explicit(&t->at, 0, memory_order_relaxed);
    atomic_store_explicit(&t->since, 0, memory_order_relaxed);
    atomic_store_explicit(&t->state, TASK_READY, memory_order_release);
}

PyObject *tarnpy_task_put(PyObject *object, PyObject *args)
{
    arena *a = owned(object);
    unsigned long long offset, size;
    if (!a || !PyArg_ParseTuple(args, "KK:put", &offset, &size)) return NULL;
    if (a->tail - a->head >= ARENA_TASKS) {
        PyErr_SetString(PyExc_RuntimeError, "too many tasks");
        return NULL;
    }
    uint64_t number = a->tail++;
    offer(a, number, offset, size);
    atomic_store_explicit(&arena_control_of(a)->tail, a->tail, memory_order_release);
    wake_workers(a, 1);
    return PyLong_FromUnsignedLongLong(number);
}

/* The number of a task that is not done. */
static int task_number(arena *a, unsigned long long number)
{
    if (number >= a->head && number < a->tail) return 0;
    PyErr_Format(PyExc_ValueError, "no task %llu", number);
    return -1;
}

/* Offers a task again whose worker died. */
PyObject *tarnpy_task_again(PyObject *object, PyObject *args)
{
    arena *a = owned(object);
    unsigned long long number, offset, size;
    if (!a || !PyArg_ParseTuple(args, "KKK:again", &number, &offset, &size) ||
        task_number(a, number) != 0)
        return NULL;
    offer(a, number, offset, size);
    wake_workers(a, INT32_MAX); /* a worker that was woken may have died */
    Py_RETURN_NONE;
}

PyObject *tarnpy_task_done(PyObject *object, PyObject *argument)
{
    arena *a = owned(object);
    unsigned long long number = a ? PyLong_AsUnsignedLongLong(argument) : 0;
    if (!a || PyErr_Occurred() || task_number(a, number) != 0) return NULL;
    atomic_store_explicit(&task_at(a, number)->state, TASK_FREE, memory_order_relaxed);
    while (a->head < a->tail && atomic_load_explicit(&task_at(a, a->head)->state,
                                                     memory_order_relaxed) == TASK_FREE)
        a->head++;
    atomic_store_explicit(&arena_control_of(a)->head, a->head, memory_order_relaxed);
    Py_RETURN_NONE;
}

/* Takes a task back, unless a worker has it. */
PyObject *tarnpy_task_cancel(PyObject *object, PyObject *argument)
{
    arena *a = owned(object);
    unsigned long long number = a ? PyLong_AsUnsignedLongLong(argument) : 0;
    if (!a || PyErr_Occurred() || task_number(a, number) != 0) return NULL;
    unsigned ready = TASK_READY;
    if (!atomic_compare_exchange_strong(&task_at(a, number)->state, &ready, TASK_FREE))
        Py_RETURN_FALSE;
    PyObject *done = tarnpy_task_done(object, argument);
    Py_XDECREF(done);
    return done ? PyBool_FromLong(1) : NULL;
}

/* (worker, or -1; number of the sample that it is at; seconds since it began with it) */
PyObject *tarnpy_task_progress(PyObject *object, PyObject *argument)
{
    arena *a = owned(object);
    unsigned long long number = a ? PyLong_AsUnsignedLongLong(argument) : 0;
    if (!a || PyErr_Occurred() || task_number(a, number) != 0) return NULL;
    arena_task *t = task_at(a, number);
    unsigned state = atomic_load_explicit(&t->state, memory_order_acquire);
    unsigned at = atomic_load_explicit(&t->at, memory_order_relaxed);
    unsigned long long since = atomic_load_explicit(&t->since, memory_order_relaxed);
    unsigned long long now = clock_now();
    return Py_BuildValue("iId", state < TASK_CLAIMED ? -1 : (int)(state - TASK_CLAIMED),
                         at, since && now > since ? (double)(now - since) / 1e9 : 0.0);
}

PyObject *tarnpy_task_stop(PyObject *object, PyObject *unused)
{
    arena *a = owned(object);
    if (!a) return NULL;
    atomic_store(&arena_control_of(a)->stop, 1);
    wake_workers(a, INT32_MAX);
    Py_RETURN_NONE;
}

/* Lets workers take tasks again, after all that were stopped have ended. */
PyObject *tarnpy_task_start(PyObject *object, PyObject *unused)
{
    arena *a = owned(object);
    if (!a) return NULL;
    atomic_store(&arena_control_of(a)->stop, 0);
    Py_RETURN_NONE;
}

/* --- Workers ----------------------------------------------------------------------- */

/* The oldest task that is ready, claimed; NULL if there is none. */
static arena_task *claim(arena *a, unsigned worker, uint64_t *out_number)
{
    arena_control *c = arena_control_of(a);
    uint64_t tail = atomic_load_explicit(&c->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    for (uint64_t n = head; n < tail && n - head < ARENA_TASKS; n++) {
        arena_task *t = task_at(a, n);
        unsigned ready = TASK_READY;
        if (atomic_load_explicit(&t->state, memory_order_relaxed) != TASK_READY ||
            !atomic_compare_exchange_strong_explicit(
                &t->state, &ready, TASK_CLAIMED + worker, memory_order_acquire,
                memory_order_relaxed))
            continue;
        atomic_store_explicit(&t->since, clock_now(), memory_order_relaxed);
        *out_number = n;
        return t;
    }
    return NULL;
}

/* Waits for a task: (number, offset, size); None when the owner stops. */
PyObject *tarnpy_task_take(PyObject *object, PyObject *argument)
{
    arena *a = ((arena_object *)object)->arena;
    arena_control *c = arena_control_of(a);
    unsigned long worker = PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return NULL;
    if (worker >= ARENA_WORKERS) {
        PyErr_SetString(PyExc_ValueError, "no such worker");
        return NULL;
    }
    for (;;) {
        uint64_t number;
        unsigned seen = atomic_load(&c->wake);
        if (atomic_load(&c->stop)) Py_RETURN_NONE;
        arena_task *t = claim(a, (unsigned)worker, &number);
        if (t)
            return Py_BuildValue("KKK", (unsigned long long)number,
                                 (unsigned long long)t->offset,
                                 (unsigned long long)t->size);
        Py_BEGIN_ALLOW_THREADS;
        struct timespec second = {1, 0};
        syscall(SYS_futex, &c->wake, FUTEX_WAIT, seen, &second, NULL, 0);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() != 0) return NULL;
    }
}

void tarnpy_task_at(PyObject *memory, unsigned long long task, unsigned at)
{
    arena_task *t = task_at(((arena_object *)memory)->arena, task);
    atomic_store_explicit(&t->since, clock_now(), memory_order_relaxed);
    atomic_store_explicit(&t->at, at, memory_order_relaxed);
}

PyObject *tarnpy_task_step(PyObject *object, PyObject *args)
{
    unsigned long long number;
    unsigned at;
    if (!PyArg_ParseTuple(args, "KI:step", &number, &at)) return NULL;
    tarnpy_task_at(object, number, at);
    Py_RETURN_NONE;
}

/* --- The end of the owner ----------------------------------------------------------- */

/* A thread of a worker, which ends it with its owner, whatever its function is doing. */
static void *watch(void *argument)
{
    pid_t owner = (pid_t)(intptr_t)argument;
    int fd = (int)syscall(SYS_pidfd_open, owner, 0);
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    while (fd >= 0 && poll(&wanted, 1, -1) < 0 && errno == EINTR) {
    }
    while (fd < 0 && errno != ESRCH && kill(owner, 0) == 0) /* Linux before 5.3 */
        sleep(1);
    _exit(0);
}

PyDoc_STRVAR(end_doc, "end_with(pid)\n--\n\nEnds this process when that one has ended.");

static PyObject *end_with(PyObject *module, PyObject *argument)
{
    long owner = PyLong_AsLong(argument);
    pthread_t thread;
    sigset_t all, before;
    if (PyErr_Occurred()) return NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int why = pthread_create(&thread, NULL, watch, (void *)(intptr_t)owner);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why) {
        errno = why;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    pthread_detach(thread);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"end_with", end_with, METH_O, end_doc},
                                  {NULL, NULL, 0, NULL}};

int tarnpy_add_tasks(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
