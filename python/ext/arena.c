/* arena.c: memory shared with worker processes: one memfd, which has no name, is mapped
 * as a whole and takes memory only where it was written. Pieces of it hold the arrays of
 * batches, so a worker finds them at their offset and nothing is copied. The loader's
 * threads allocate without the GIL.
 *
 * A piece keeps the mapping, so that arrays outlive the loader. Only the process that
 * made the arena allocates and frees: in a forked child, where the lock may be held by a
 * thread that does not exist, both do nothing. */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Unused memory that is kept for later pieces; more is returned to the system. */
#define KEPT ((size_t)256 << 20)

static void arena_drop(arena *a)
{
    if (!a || atomic_fetch_sub(&a->users, 1) != 1) return;
    if (a->base) munmap(a->base, a->size);
    if (a->fd >= 0) close(a->fd);
    free(a->free);
    free(a);
}

/* --- Pieces ------------------------------------------------------------------------ */

static size_t in_pages(size_t size)
{
    return (size + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
}

/* The first free extent with room, or the memory above top. The caller holds the lock. */
static size_t take_extent(arena *a, size_t size)
{
    for (size_t i = 0; i < a->n_free; i++) {
        arena_extent *e = &a->free[i];
        if (e->size < size) continue;
        size_t offset = e->offset;
        e->offset += size;
        e->size -= size;
        if (e->size == 0) memmove(e, e + 1, (--a->n_free - i) * sizeof *e);
        return offset;
    }
    if (a->size - a->top < size) return 0;
    a->top += size;
    return a->top - size;
}

void *tarnpy_arena_alloc(void *context, size_t size)
{
    arena *a = context;
    if (a->pid != getpid() || size > a->size) return NULL;
    size = in_pages(size ? size : 1);
    pthread_mutex_lock(&a->lock);
    size_t offset = take_extent(a, size);
    if (offset) a->used += size;
    pthread_mutex_unlock(&a->lock);
    if (!offset) return NULL;
    atomic_fetch_add(&a->users, 1);
    return a->base + offset;
}

/* The caller holds the lock. If there is no memory for the list, the piece is lost until
 * the arena is closed. */
static void put_extent(arena *a, size_t offset, size_t size)
{
    size_t i = a->n_free;
    while (i > 0 && a->free[i - 1].offset > offset)
        i--;
    bool joins = i > 0 && a->free[i - 1].offset + a->free[i - 1].size == offset;
    if (joins) {
        a->free[--i].size += size;
    } else {
        if (a->n_free == a->capacity) {
            size_t more = a->capacity ? 2 * a->capacity : 64;
            arena_extent *list = realloc(a->free, more * sizeof *list);
            if (!list) return;
            a->free = list;
            a->capacity = more;
        }
        memmove(&a->free[i + 1], &a->free[i], (a->n_free++ - i) * sizeof *a->free);
        a->free[i] = (arena_extent){offset, size};
    }
    arena_extent *e = &a->free[i];
    if (i + 1 < a->n_free && e->offset + e->size == e[1].offset) {
        e->size += e[1].size;
        memmove(e + 1, e + 2, (--a->n_free - i - 1) * sizeof *e);
    }
    if (i + 1 == a->n_free && e->offset + e->size == a->top) {
        a->top = e->offset;
        a->n_free--;
    }
}

void tarnpy_arena_free(void *context, void *memory, size_t size)
{
    arena *a = context;
    if (!memory) return;
    if (a->pid == getpid()) {
        size_t offset = (size_t)((unsigned char *)memory - a->base);
        size = in_pages(size ? size : 1);
        pthread_mutex_lock(&a->lock);
        a->used -= size;
        size_t spare = a->top - a->used;
        /* Before others can take it. It may be the only piece of its kind. */
        if (spare > KEPT && spare > a->used)
            (void)fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            (off_t)offset, (off_t)size);
        put_extent(a, offset, size);
        pthread_mutex_unlock(&a->lock);
    }
    arena_drop(a);
}

/* --- Blocks ------------------------------------------------------------------------ */

typedef struct block_object {
    PyObject_HEAD arena *arena;
    unsigned char *data;
    size_t size;
} block_object;

static void block_dealloc(PyObject *object)
{
    block_object *self = (block_object *)object;
    if (self->data) tarnpy_arena_free(self->arena, self->data, self->size);
    tarnpy_free(object);
}

static int block_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
    block_object *self = (block_object *)object;
    return PyBuffer_FillInfo(buffer, object, self->data, (Py_ssize_t)self->size, 0,
                             flags);
}

static PyObject *block_offset(PyObject *object, void *unused)
{
    block_object *self = (block_object *)object;
    return PyLong_FromSize_t((size_t)(self->data - self->arena->base));
}

static Py_ssize_t block_length(PyObject *object)
{
    return (Py_ssize_t)((block_object *)object)->size;
}

static PyGetSetDef block_parts[] = {
    {"offset", block_offset, NULL, "Where it is in the arena.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_getset, block_parts},
    {Py_mp_length, block_length},
    {Py_bf_getbuffer, block_buffer},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "tarn._tarn._Block",
    .basicsize = sizeof(block_object),
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = block_slots,
};

/* --- Arenas ------------------------------------------------------------------------ */

static void arena_dealloc(PyObject *object)
{
    arena_drop(((arena_object *)object)->arena);
    tarnpy_free(object);
}

/* A new memfd that cannot become shorter, so that no worker reads past its end. */
static int make_memory(size_t size)
{
    int fd = memfd_create("tarn", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, (off_t)size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int map_memory(arena *a)
{
    void *base =
        mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, a->fd, 0);
    if (base == MAP_FAILED) return -1;
    a->base = base;
    (void)madvise(base, a->size, MADV_DONTDUMP);
    return 0;
}

/* A limit on the address space or on the size of files also holds for memory. */
static size_t within_limits(size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        size = (size_t)limit.rlim_cur;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / 4 < size)
        size = (size_t)limit.rlim_cur / 4;
    return size / ARENA_PAGE * ARENA_PAGE;
}

static bool open_arena(arena *a, size_t size, int fd)
{
    a->fd = -1;
    a->size = fd < 0 ? within_limits(size) : size;
    if (a->size < 2 * in_pages(sizeof(arena_control))) {
        errno = ENOMEM;
        return false;
    }
    a->fd = fd < 0 ? make_memory(a->size) : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (a->fd < 0) return false;
    if (fd >= 0 && lseek(a->fd, 0, SEEK_END) < (off_t)a->size) {
        errno = EINVAL;
        return false;
    }
    return map_memory(a) == 0;
}

static PyObject *arena_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    Py_ssize_t size;
    int fd = -1;
    tarnpy_state *state = tarnpy_type_state(type);
    if (!state || !PyArg_ParseTuple(args, "n|i:Arena", &size, &fd)) return NULL;
    arena_object *self = TARNPY_NEW(arena_object, type);
    if (!self) return NULL;
    self->state = state;
    arena *a = self->arena = calloc(1, sizeof *a);
    if (!a) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    atomic_init(&a->users, 1);
    pthread_mutex_init(&a->lock, NULL);
    if (size < 0 || !open_arena(a, (size_t)size, fd)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    a->pid = fd < 0 ? getpid() : 0;
    a->top = in_pages(sizeof(arena_control));
    return (PyObject *)self;
}

static PyObject *arena_allocate(PyObject *object, PyObject *number)
{
    arena_object *self = (arena_object *)object;
    Py_ssize_t size = PyLong_AsSsize_t(number);
    if (size < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a negative size");
        return NULL;
    }
    block_object *block = TARNPY_NEW(block_object, self->state->block_type);
    if (!block) return NULL;
    block->arena = self->arena;
    block->size = (size_t)size;
    block->data = tarnpy_arena_alloc(self->arena, (size_t)size);
    if (block->data) return (PyObject *)block;
    Py_DECREF(block);
    return PyErr_Format(
        PyExc_MemoryError,
        "%zd bytes of memory shared with workers are not available (limit "
        "%zu, in use %zu)",
        size, self->arena->size, self->arena->used);
}

/* The offset of a buffer's first byte, or None if the buffer is not in the arena. */
static PyObject *arena_place(PyObject *object, PyObject *buffer)
{
    arena *a = ((arena_object *)object)->arena;
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) != 0) return NULL;
    unsigned char *data = view.buf;
    bool inside = view.len > 0 && data >= a->base && data < a->base + a->size;
    PyBuffer_Release(&view);
    if (inside) return PyLong_FromSize_t((size_t)(data - a->base));
    Py_RETURN_NONE;
}

/* Bytes of the arena as a memoryview, for the time that the arena exists. */
static PyObject *arena_view(PyObject *object, PyObject *args)
{
    arena_object *self = (arena_object *)object;
    Py_ssize_t offset, size;
    if (!PyArg_ParseTuple(args, "nn:view", &offset, &size)) return NULL;
    if (offset < 0 || size < 0 || (size_t)offset > self->arena->size ||
        (size_t)size > self->arena->size - (size_t)offset)
        return PyErr_Format(PyExc_ValueError, "%zd bytes at %zd are not in the arena",
                            size, offset);
    uint64_t shape[1] = {(uint64_t)size};
    tarn_dtype byte = {'|', 'u', 1};
    tarn_array array;
    tarn_error err;
    if (tarn_array_init(&array, self->arena->base + offset, byte, 1, shape, &err) !=
        TARN_OK)
        return tarnpy_raise(self->state, &err);
    PyObject *held = tarnpy_array(self->state, &array, true, object);
    PyObject *memory = held ? PyMemoryView_FromObject(held) : NULL;
    Py_XDECREF(held);
    return memory;
}

static PyObject *arena_get_fd(PyObject *object, void *unused)
{
    return PyLong_FromLong(((arena_object *)object)->arena->fd);
}

static PyObject *arena_get_size(PyObject *object, void *unused)
{
    return PyLong_FromSize_t(((arena_object *)object)->arena->size);
}

static PyObject *arena_get_used(PyObject *object, void *unused)
{
    arena *a = ((arena_object *)object)->arena;
    pthread_mutex_lock(&a->lock);
    size_t used = a->used;
    pthread_mutex_unlock(&a->lock);
    return PyLong_FromSize_t(used);
}

static PyGetSetDef arena_parts[] = {
    {"fd", arena_get_fd, NULL, "The memfd.", NULL},
    {"size", arena_get_size, NULL, "Its size, of which little is in use.", NULL},
    {"used", arena_get_used, NULL, "The bytes in use.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef arena_methods[] = {
    {"allocate", arena_allocate, METH_O, NULL},
    {"place", arena_place, METH_O, NULL},
    {"view", arena_view, METH_VARARGS, NULL},
    {"put", tarnpy_task_put, METH_VARARGS, NULL},
    {"again", tarnpy_task_again, METH_VARARGS, NULL},
    {"done", tarnpy_task_done, METH_O, NULL},
    {"cancel", tarnpy_task_cancel, METH_O, NULL},
    {"progress", tarnpy_task_progress, METH_O, NULL},
    {"start", tarnpy_task_start, METH_NOARGS, NULL},
    {"stop", tarnpy_task_stop, METH_NOARGS, NULL},
    {"take", tarnpy_task_take, METH_O, NULL},
    {"step", tarnpy_task_step, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot arena_slots[] = {
    {Py_tp_new, arena_new},
    {Py_tp_dealloc, arena_dealloc},
    {Py_tp_methods, arena_methods},
    {Py_tp_getset, arena_parts},
    {0, NULL},
};

static PyType_Spec arena_spec = {
    .name = "tarn._tarn._Memory",
    .basicsize = sizeof(arena_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = arena_slots,
};

int tarnpy_add_arena(PyObject *module)
{
    tarnpy_state *state = tarnpy_module_state(module);
    if (tarnpy_add_type(module, &block_spec, &state->block_type) != 0) return -1;
    if (tarnpy_add_type(module, &arena_spec, &state->arena_type) != 0) return -1;
    return tarnpy_add_tasks(module);
}
