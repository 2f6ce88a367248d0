/* arena.h: memory that the worker processes of a loader share with it (arena.c), and the
 * tasks in it (tasks.c). It must not know what a task means. */
#ifndef TARNPY_ARENA_H
#define TARNPY_ARENA_H

#include "tarnpy.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    ARENA_PAGE = 4096,
    ARENA_TASKS = 4096, /* tasks that are not done, at most */
    ARENA_WORKERS = 1024
};

enum { TASK_FREE, TASK_READY, TASK_CLAIMED }; /* TASK_CLAIMED + worker */

typedef struct arena_task {
    atomic_uint state;
    atomic_uint at;      /* the sample that the worker is at, counted in the task */
    atomic_ullong since; /* when it began with it: nanoseconds of CLOCK_MONOTONIC, or 0 */
    uint64_t offset, size; /* of the message; written before state becomes TASK_READY */
    unsigned char unused[32]; /* a line of the cache each */
} arena_task;

/* The first bytes of the memory. */
typedef struct arena_control {
    atomic_uint wake; /* workers sleep on it (futex) */
    atomic_uint stop;
    atomic_ullong head, tail; /* tasks from head to tail - 1 may be unfinished */
    unsigned char unused[40];
    arena_task tasks[ARENA_TASKS];
} arena_control;

typedef struct arena_extent {
    size_t offset, size;
} arena_extent;

typedef struct arena {
    atomic_uint users; /* its Python object, and each piece in use */
    int fd;
    pid_t pid; /* the only process that allocates; 0: none, the memory is of another */
    unsigned char *base;
    size_t size;

    pthread_mutex_t lock; /* guards all below; a leaf, held for a few instructions */
    size_t top;           /* everything above is unused */
    arena_extent *free;   /* below top, by offset; neighbours are merged */
    size_t n_free, capacity;
    size_t used; /* bytes in pieces */

    uint64_t head, tail; /* of tasks; only for the owner, guarded by the GIL */
} arena;

typedef struct arena_object {
    PyObject_HEAD tarnpy_state *state;
    arena *arena;
} arena_object;

static inline arena_control *arena_control_of(arena *a)
{
    return (arena_control *)(void *)a->base;
}

/* For tarn_loader_options; context is an arena. Any thread may call them. */
void *tarnpy_arena_alloc(void *context, size_t size);
void tarnpy_arena_free(void *context, void *memory, size_t size);

/* The methods of the type for tasks; owner and workers each call their own. */
PyObject *tarnpy_task_put(PyObject *memory, PyObject *args);
PyObject *tarnpy_task_again(PyObject *memory, PyObject *args);
PyObject *tarnpy_task_done(PyObject *memory, PyObject *number);
PyObject *tarnpy_task_cancel(PyObject *memory, PyObject *number);
PyObject *tarnpy_task_progress(PyObject *memory, PyObject *number);
PyObject *tarnpy_task_start(PyObject *memory, PyObject *unused);
PyObject *tarnpy_task_stop(PyObject *memory, PyObject *unused);
PyObject *tarnpy_task_take(PyObject *memory, PyObject *worker);
PyObject *tarnpy_task_step(PyObject *memory, PyObject *args);
/* Says which sample of its task a worker begins with; memory is of the type. */
void tarnpy_task_at(PyObject *memory, unsigned long long task, unsigned at);
int tarnpy_add_tasks(PyObject *module);

#endif
