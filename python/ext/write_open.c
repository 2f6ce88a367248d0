/* write_open.c: the options, locks and opening of writers. */
#include "writing.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

typedef tarnpy_writer writer;

/* --- Locks -------------------------------------------------------------------------- */

int tarnpy_lock_init(tarnpy_lock *lock)
{
    lock->owner = 0;
    lock->lock = PyMem_Malloc(sizeof *lock->lock);
    if (lock->lock && pthread_mutex_init(lock->lock, NULL) == 0) return 0;
    PyMem_Free(lock->lock);
    lock->lock = NULL;
    PyErr_NoMemory();
    return -1;
}

int tarnpy_lock_take(tarnpy_lock *lock)
{
    unsigned long me = PyThread_get_thread_ident();
    if (!lock->lock) {
        PyErr_SetString(PyExc_ValueError, "never opened");
        return -1;
    }
    if (lock->owner == me) {
        PyErr_SetString(PyExc_RuntimeError, "called from one of its own callbacks");
        return -1;
    }
    if (pthread_mutex_trylock(lock->lock) != 0) {
        Py_BEGIN_ALLOW_THREADS;
        pthread_mutex_lock(lock->lock);
        Py_END_ALLOW_THREADS;
    }
    lock->owner = me;
    return 0;
}

void tarnpy_lock_give(tarnpy_lock *lock)
{
    lock->owner = 0;
    pthread_mutex_unlock(lock->lock);
}

void tarnpy_lock_free(tarnpy_lock *lock)
{
    if (lock->lock) pthread_mutex_destroy(lock->lock);
    PyMem_Free(lock->lock);
    lock->lock = NULL;
}

double tarnpy_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- Opening ------------------------------------------------------------------------ */

/* The library calls this between two samples, without the GIL. */
static int shard_done(void *context, const char *url, uint64_t samples, uint64_t bytes)
{
    writer *w = context;
    tarn_tar_writer_written(w->is.tar, &w->written, sizeof w->written);
    if (!w->hook) {
        w->in_shard = w->payload_in_shard = 0;
        return 0;
    }
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *name = tarnpy_text(url, strlen(url)), *done = NULL;
    if (name)
        done = PyObject_CallFunction(w->hook, "OKK", name, (unsigned long long)samples,
                                     (unsigned long long)bytes);
    int stop = done == NULL;
    w->in_shard = w->payload_in_shard = 0;
    Py_XDECREF(name);
    Py_XDECREF(done);
    PyGILState_Release(gil);
    return stop;
}

/* All arguments of a writer, parsed. */
typedef struct settings {
    int kind;
    PyObject *target; /* bytes */
    const char *fold;
    PyObject *stream, *opener, *hook, *progress, *encoder, *encoders, *fallback;
    uint64_t start, max_count, max_size;
    int roll, append, resume, overwrite, no_sync, allow_pipe, filter, level;
    unsigned digits, threads, uid, gid, mode;
    int names, rules, keep_order, flavour, keep_meta, silent, repeat_keys, exact_fields;
    PyObject *mtime; /* None or an int */
    unsigned task, tasks;
    const char *job;
    const char *mtime_text, *user, *group;
    int jpeg_quality, subsampling, webp_quality, webp_lossless, png_level, gzip_level,
        zstd_level, npz_stored, jxl_lossless, jxl_effort;
    double jxl_distance;
} settings;

static int parse(settings *s, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {"kind",
                                        "target",
                                        "fold",
                                        "stream",
                                        "opener",
                                        "hook",
                                        "progress",
                                        "encoder",
                                        "encoders",
                                        "fallback",
                                        "start",
                                        "max_count",
                                        "max_size",
                                        "roll",
                                        "append",
                                        "resume",
                                        "overwrite",
                                        "no_sync",
                                        "allow_pipe",
                                        "filter",
                                        "level",
                                        "digits",
                                        "threads",
                                        "uid",
                                        "gid",
                                        "mode",
                                        "names",
                                        "rules",
                                        "keep_order",
                                        "flavour",
                                        "keep_meta",
                                        "mtime",
                                        "mtime_text",
                                        "user",
                                        "group",
                                        "jpeg_quality",
                                        "subsampling",
                                        "webp_quality",
                                        "webp_lossless",
                                        "png_level",
                                        "gzip_level",
                                        "zstd_level",
                                        "npz_stored",
                                        "silent",
                                        "repeat_keys",
                                        "exact_fields",
                                        "jxl_lossless",
                                        "jxl_effort",
                                        "jxl_distance",
                                        "task",
                                        "tasks",
                                        "job",
                                        NULL};
    return PyArg_ParseTupleAndKeywords(
        args, kwargs,
        "iO&|z$OOOOOOOO&O&O&ippppp"
        "iiIIIIIiipipOzzziiipiiipppppidIIz:_open",
        TARNPY_WORDS(words), &s->kind, tarnpy_path, &s->target, &s->fold, &s->stream,
        &s->opener, &s->hook, &s->progress, &s->encoder, &s->encoders, &s->fallback,
        tarnpy_number, &s->start, tarnpy_number, &s->max_count, tarnpy_number,
        &s->max_size, &s->roll, &s->append, &s->resume, &s->overwrite, &s->no_sync,
        &s->allow_pipe, &s->filter, &s->level, &s->digits, &s->threads, &s->uid, &s->gid,
        &s->mode, &s->names, &s->rules, &s->keep_order, &s->flavour, &s->keep_meta,
        &s->mtime, &s->mtime_text, &s->user, &s->group, &s->jpeg_quality, &s->subsampling,
        &s->webp_quality, &s->webp_lossless, &s->png_level, &s->gzip_level,
        &s->zstd_level, &s->npz_stored, &s->silent, &s->repeat_keys, &s->exact_fields,
        &s->jxl_lossless, &s->jxl_effort, &s->jxl_distance, &s->task, &s->tasks, &s->job);
}

static settings defaults(void)
{
    tarn_encode_options e = TARN_ENCODE_OPTIONS_INIT;
    tarn_shard_options o = TARN_SHARD_OPTIONS_INIT;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    return (settings){.max_count = o.max_count,
                      .max_size = o.max_size,
                      .digits = 4,
                      .mode = tar.mode,
                      .flavour = TARNPY_TARN,
                      .jpeg_quality = e.jpeg_quality,
                      .subsampling = (int)e.subsampling,
                      .webp_quality = e.webp_quality,
                      .webp_lossless = e.webp_lossless,
                      .png_level = e.png_level,
                      .gzip_level = e.gzip_level,
                      .zstd_level = e.zstd_level,
                      .npz_stored = e.npz_stored,
                      .jxl_lossless = e.jxl_lossless,
                      .jxl_effort = e.jxl_effort,
                      .jxl_distance = e.jxl_distance};
}

static PyObject *given(PyObject *object)
{
    if (!object || object == Py_None) return NULL;
    Py_INCREF(object);
    return object;
}

static int take_rules(writer *w, const settings *s)
{
    tarn_encode_options e = TARN_ENCODE_OPTIONS_INIT;
    e.jpeg_quality = s->jpeg_quality;
    e.subsampling = (tarn_subsampling)s->subsampling;
    e.webp_quality = s->webp_quality;
    e.webp_lossless = s->webp_lossless;
    e.png_level = s->png_level;
    e.gzip_level = s->gzip_level;
    e.zstd_level = s->zstd_level;
    e.npz_stored = s->npz_stored;
    e.jxl_lossless = s->jxl_lossless;
    e.jxl_effort = s->jxl_effort;
    e.jxl_distance = s->jxl_distance;
    w->rules = (tarnpy_rules){.flavour = (tarnpy_flavour)s->flavour,
                              .keep_meta = s->keep_meta,
                              .encoders = given(s->encoders),
                              .fallback = given(s->fallback),
                              .options = e};
    w->encoder = given(s->encoder);
    w->hook = given(s->hook);
    w->progress = given(s->progress);
    w->file.object = given(s->stream);
    w->file.opener = given(s->opener);
    w->calls = tarnpy_file_sink(&w->file);
    if (!w->rules.encoders || PyDict_Check(w->rules.encoders)) return 0;
    PyErr_SetString(PyExc_TypeError, "encoders must be a dict from names to callables");
    return -1;
}

static void take_sink(writer *w, const settings *s, tarn_sink_options *o)
{
    o->filter = (tarn_filter)s->filter;
    o->level = s->level;
    o->allow_pipe = s->allow_pipe;
    o->overwrite = s->overwrite;
    o->no_sync = s->no_sync;
    if (w->file.object || w->file.opener) o->calls = &w->calls;
}

static int take_tar(const settings *s, tarn_tar_writer_options *o)
{
    o->names = (tarn_name_style)s->names;
    o->rules = (tarn_name_rules)s->rules;
    o->keep_order = s->keep_order;
    o->user = s->user;
    o->group = s->group;
    o->uid = s->uid;
    o->gid = s->gid;
    o->mode = s->mode;
    o->mtime_text = s->mtime_text;
    if (s->mtime && s->mtime != Py_None) {
        o->mtime = PyLong_AsLongLong(s->mtime);
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static tarn_status open_fold(writer *w, const settings *s,
                             const tarn_tar_writer_options *tar, tarn_error *err)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.append = s->append;
    o.resume = s->resume;
    o.overwrite = s->overwrite;
    o.start = s->start;
    o.digits = s->digits;
    o.repeat_keys = s->repeat_keys;
    o.exact_fields = s->exact_fields;
    o.max_count = s->max_count;
    o.max_size = s->max_size;
    o.roll = (tarn_roll)s->roll;
    o.threads = s->threads;
    o.no_sync = s->no_sync;
    o.task = s->task;
    o.tasks = s->tasks;
    o.job = s->job;
    o.writer = tar;
    return tarn_fold_writer_open(PyBytes_AsString(s->target), s->fold ? s->fold : "", &o,
                                 &w->is.fold, err);
}

static tarn_status open_kind(writer *w, const settings *s, tarn_tar_writer_options *tar,
                             tarn_error *err)
{
    if (w->kind == TARNPY_FOLD) return open_fold(w, s, tar, err);
    tarn_shard_options o = TARN_SHARD_OPTIONS_INIT;
    o.start = s->start;
    o.max_count = s->max_count;
    o.max_size = s->max_size;
    o.roll = (tarn_roll)s->roll;
    o.hook = shard_done;
    o.hook_context = w;
    tar->shards = w->kind == TARNPY_SHARDS ? &o : NULL;
    return tarn_tar_writer_open(PyBytes_AsString(s->target), tar, &w->is.tar, err);
}

static int open_writer(writer *w, const settings *s)
{
    tarn_error err;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_sink_options sink = TARN_SINK_OPTIONS_INIT;
    w->kind = (tarnpy_writer_kind)s->kind;
    w->silent = s->silent;
    if (take_rules(w, s) || take_tar(s, &tar) || tarnpy_lock_init(&w->lock)) return -1;
    take_sink(w, s, &sink);
    if (w->kind != TARNPY_FOLD) tar.sink = &sink;
    tarn_status status;
    TARNPY_UNLOCKED(status, open_kind(w, s, &tar, &err));
    if (status != TARN_OK) {
        tarnpy_raise(w->state, &err);
        return -1;
    }
    w->open = true;
    w->pid = getpid();
    w->reported_at = tarnpy_now();
    return 0;
}

PyObject *tarnpy_writer_open(PyObject *self, PyObject *args, PyObject *kwargs)
{
    writer *w = (writer *)self;
    settings s = defaults();
    if (w->lock.lock) {
        PyErr_SetString(PyExc_RuntimeError, "the writer is already open");
        return NULL;
    }
    w->state = tarnpy_type_state(Py_TYPE(self));
    if (!w->state || !parse(&s, args, kwargs)) return NULL;
    int failed = open_writer(w, &s);
    Py_DECREF(s.target);
    if (failed) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}
