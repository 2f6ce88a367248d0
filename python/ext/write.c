/* write.c: one type over the three writers of tarn/write.h: an archive, shards, a fold.
 * The classes that users know are made of it in Python; write and write_many are here,
 * because nothing may stand between them and the library. */
#include "writing.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Samples that are collected before the GIL is given back for all of them. */
#define MANY       512u
#define MANY_BYTES (8u << 20)
/* Seconds between two calls of the progress callback, and samples between two looks at
 * the clock. */
#define PROGRESS_SECONDS 0.1
#define PROGRESS_SAMPLES 64u

typedef enum writer_kind { KIND_TAR = 0, KIND_SHARDS = 1, KIND_FOLD = 2 } writer_kind;

typedef struct writer {
    PyObject_HEAD tarnpy_state *state; /* its type keeps the module alive */
    writer_kind kind;
    bool open;
    bool silent; /* write says nothing */
    union {
        tarn_tar_writer *tar;
        tarn_shard_writer *shards;
        tarn_fold_writer *fold;
    } is;
    tarnpy_lock lock;
    pid_t pid;
    tarnpy_rules rules;
    tarnpy_batch batch;
    tarnpy_file file;
    tarn_sink_calls calls;
    PyObject *encoder;  /* called with each sample first; NULL: none */
    PyObject *hook;     /* called with name, samples and bytes of each finished shard */
    PyObject *progress; /* called with samples and payload now and then */
    double told_at;
    unsigned untold; /* samples since the clock was looked at */
    tarn_written written;
    uint64_t in_shard, payload_in_shard; /* samples and bytes of fields since the last */
} writer;

/* --- Locks ----------------------------------------------------------------------------
 */

int tarnpy_lock_init(tarnpy_lock *lock)
{
    lock->owner = 0;
    lock->lock = PyThread_allocate_lock();
    if (lock->lock) return 0;
    PyErr_NoMemory();
    return -1;
}

int tarnpy_lock_take(tarnpy_lock *lock)
{
    unsigned long me = PyThread_get_thread_ident();
    if (!lock->lock) {
        PyErr_SetString(PyExc_ValueError, "it was never opened");
        return -1;
    }
    if (lock->owner == me) {
        PyErr_SetString(PyExc_RuntimeError, "called by a callback of its own");
        return -1;
    }
    if (!PyThread_acquire_lock(lock->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS;
        PyThread_acquire_lock(lock->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    lock->owner = me;
    return 0;
}

void tarnpy_lock_give(tarnpy_lock *lock)
{
    lock->owner = 0;
    PyThread_release_lock(lock->lock);
}

void tarnpy_lock_free(tarnpy_lock *lock)
{
    if (lock->lock) PyThread_free_lock(lock->lock);
    lock->lock = NULL;
}

/* Takes the lock of a writer that is open. */
static int enter(writer *w)
{
    if (tarnpy_lock_take(&w->lock)) return -1;
    if (w->open) return 0;
    tarnpy_lock_give(&w->lock);
    PyErr_SetString(PyExc_ValueError, "the writer is closed");
    return -1;
}

/* --- Opening --------------------------------------------------------------------------
 */

/* The library calls this between two samples, without the GIL. */
static int shard_done(void *context, const char *url, uint64_t samples, uint64_t bytes)
{
    writer *w = context;
    tarn_shard_writer_written(w->is.shards, &w->written);
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

/* All that Python may say about a writer, parsed. */
typedef struct settings {
    int kind;
    PyObject *target; /* bytes */
    const char *fold;
    PyObject *stream, *opener, *hook, *progress, *encoder, *encoders, *fallback;
    unsigned long long start, max_count, max_size;
    int roll, append, resume, overwrite, no_sync, allow_pipe, filter, level;
    unsigned digits, threads, uid, gid, mode;
    int names, rules, keep_order, flavour, keep_meta, silent;
    PyObject *mtime; /* None or an int */
    const char *mtime_text, *user, *group;
    int jpeg_quality, subsampling, webp_quality, webp_lossless, png_level, gzip_level,
        zstd_level, npz_stored;
} settings;

static int parse(settings *s, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {
        "kind",         "target",      "fold",         "stream",        "opener",
        "hook",         "progress",    "encoder",      "encoders",      "fallback",
        "start",        "max_count",   "max_size",     "roll",          "append",
        "resume",       "overwrite",   "no_sync",      "allow_pipe",    "filter",
        "level",        "digits",      "threads",      "uid",           "gid",
        "mode",         "names",       "rules",        "keep_order",    "flavour",
        "keep_meta",    "mtime",       "mtime_text",   "user",          "group",
        "jpeg_quality", "subsampling", "webp_quality", "webp_lossless", "png_level",
        "gzip_level",   "zstd_level",  "npz_stored",   "silent",        NULL};
    return PyArg_ParseTupleAndKeywords(
        args, kwargs,
        "iO&|z$OOOOOOOKKKippppp"
        "iiIIIIIiipipOzzziiipiiipp:_open",
        TARNPY_WORDS(words), &s->kind, tarnpy_path, &s->target, &s->fold, &s->stream,
        &s->opener, &s->hook, &s->progress, &s->encoder, &s->encoders, &s->fallback,
        &s->start, &s->max_count, &s->max_size, &s->roll, &s->append, &s->resume,
        &s->overwrite, &s->no_sync, &s->allow_pipe, &s->filter, &s->level, &s->digits,
        &s->threads, &s->uid, &s->gid, &s->mode, &s->names, &s->rules, &s->keep_order,
        &s->flavour, &s->keep_meta, &s->mtime, &s->mtime_text, &s->user, &s->group,
        &s->jpeg_quality, &s->subsampling, &s->webp_quality, &s->webp_lossless,
        &s->png_level, &s->gzip_level, &s->zstd_level, &s->npz_stored, &s->silent);
}

static settings defaults(void)
{
    tarn_encode_options e = TARN_ENCODE_OPTIONS_INIT;
    tarn_shard_writer_options o = TARN_SHARD_WRITER_OPTIONS_INIT;
    return (settings){.max_count = o.max_count,
                      .max_size = o.max_size,
                      .digits = 4,
                      .mode = o.tar.mode,
                      .names = -1,
                      .flavour = TARNPY_TARN,
                      .jpeg_quality = e.jpeg_quality,
                      .subsampling = (int)e.subsampling,
                      .webp_quality = e.webp_quality,
                      .webp_lossless = e.webp_lossless,
                      .png_level = e.png_level,
                      .gzip_level = e.gzip_level,
                      .zstd_level = e.zstd_level,
                      .npz_stored = e.npz_stored};
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
    PyErr_SetString(PyExc_TypeError, "encoders is a dict from names to callables");
    return -1;
}

static int take_tar(writer *w, const settings *s, tarn_tar_writer_options *o)
{
    if (s->names >= 0) o->names = (tarn_name_style)s->names;
    o->rules = (tarn_name_rules)s->rules;
    o->keep_order = s->keep_order;
    o->user = s->user;
    o->group = s->group;
    o->uid = s->uid;
    o->gid = s->gid;
    o->mode = s->mode;
    o->mtime_text = s->mtime_text;
    o->sink.filter = (tarn_filter)s->filter;
    o->sink.level = s->level;
    o->sink.allow_pipe = s->allow_pipe;
    o->sink.overwrite = s->overwrite;
    o->sink.no_sync = s->no_sync;
    if (w->file.object || w->file.opener) o->sink.calls = &w->calls;
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
    o.max_count = s->max_count;
    o.max_size = s->max_size;
    o.roll = (tarn_roll)s->roll;
    o.threads = s->threads;
    o.tar = *tar;
    return tarn_fold_writer_open(PyBytes_AsString(s->target), s->fold ? s->fold : "", &o,
                                 &w->is.fold, err);
}

static tarn_status open_shards(writer *w, const settings *s,
                               const tarn_tar_writer_options *tar, tarn_error *err)
{
    tarn_shard_writer_options o = TARN_SHARD_WRITER_OPTIONS_INIT;
    o.start = s->start;
    o.max_count = s->max_count;
    o.max_size = s->max_size;
    o.roll = (tarn_roll)s->roll;
    o.hook = shard_done;
    o.hook_context = w;
    o.tar = *tar;
    return tarn_shard_writer_open(PyBytes_AsString(s->target), &o, &w->is.shards, err);
}

static tarn_status open_kind(writer *w, const settings *s,
                             const tarn_tar_writer_options *tar, tarn_error *err)
{
    if (w->kind == KIND_FOLD) return open_fold(w, s, tar, err);
    if (w->kind == KIND_SHARDS) return open_shards(w, s, tar, err);
    return tarn_tar_writer_open(PyBytes_AsString(s->target), tar, &w->is.tar, err);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int open_writer(writer *w, const settings *s)
{
    tarn_error err;
    tarn_tar_writer_options tar = TARN_TAR_WRITER_OPTIONS_INIT;
    tarn_fold_writer_options fold = TARN_FOLD_WRITER_OPTIONS_INIT;
    w->kind = (writer_kind)s->kind;
    w->silent = s->silent;
    if (w->kind == KIND_FOLD) tar = fold.tar;
    if (take_rules(w, s) || take_tar(w, s, &tar) || tarnpy_lock_init(&w->lock)) return -1;
    tarn_status status;
    TARNPY_UNLOCKED(status, open_kind(w, s, &tar, &err));
    if (status != TARN_OK) {
        tarnpy_raise(w->state, &err);
        return -1;
    }
    w->open = true;
    w->pid = getpid();
    w->told_at = now();
    return 0;
}

PyDoc_STRVAR(open_doc, "Opens the writer; for the classes of tarn/write.py.");

static PyObject *writer_open(PyObject *self, PyObject *args, PyObject *kwargs)
{
    writer *w = (writer *)self;
    settings s = defaults();
    if (w->lock.lock) {
        PyErr_SetString(PyExc_RuntimeError, "the writer was opened before");
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

/* --- Writing --------------------------------------------------------------------------
 */

static tarn_status add(writer *w, const tarnpy_planned *p, uint64_t *out_payload,
                       tarn_error *err)
{
    const tarn_field *fields = p->count ? w->batch.fields + p->first : NULL;
    tarn_written after;
    if (w->kind == KIND_TAR) {
        TARN_TRY(
            tarn_tar_writer_add(w->is.tar, p->key, fields, p->count, out_payload, err));
        w->written.samples++;
        w->written.members += p->count;
        w->written.payload += *out_payload;
        return TARN_OK;
    }
    uint64_t before = w->written.payload;
    if (w->kind == KIND_SHARDS) {
        TARN_TRY(tarn_shard_writer_add(w->is.shards, p->key, fields, p->count, err));
        tarn_shard_writer_written(w->is.shards, &after);
    } else {
        TARN_TRY(tarn_fold_writer_add(w->is.fold, p->key, fields, p->count, err));
        tarn_fold_writer_written(w->is.fold, &after);
    }
    w->written = after;
    *out_payload = after.payload - before;
    w->in_shard++;
    w->payload_in_shard += *out_payload;
    return TARN_OK;
}

/* Writes all samples of the batch, without the GIL; *out_payload are their bytes. */
static int flush(writer *w, uint64_t *out_payload)
{
    tarn_error err;
    tarn_status status = TARN_OK;
    size_t count = w->batch.n_samples;
    *out_payload = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (size_t i = 0; i < count && status == TARN_OK; i++) {
        uint64_t payload = 0;
        status = add(w, &w->batch.samples[i], &payload, &err);
        *out_payload += payload;
    }
    Py_END_ALLOW_THREADS;
    tarnpy_batch_empty(&w->batch);
    w->untold += (unsigned)count;
    if (status == TARN_OK) return 0;
    tarnpy_raise(w->state, &err);
    return -1;
}

static int call_progress(writer *w)
{
    PyObject *done =
        PyObject_CallFunction(w->progress, "KK", (unsigned long long)w->written.samples,
                              (unsigned long long)w->written.payload);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int tell(writer *w)
{
    if (!w->progress || w->untold < PROGRESS_SAMPLES) return 0;
    w->untold = 0;
    double t = now();
    if (t - w->told_at < PROGRESS_SECONDS) return 0;
    w->told_at = t;
    return call_progress(w);
}

/* Adds a sample to the batch, after the caller's own encoder if there is one. */
static int collect(writer *w, PyObject *sample)
{
    if (!w->encoder) return tarnpy_batch_add(w->state, &w->batch, &w->rules, sample);
    PyObject *encoded = PyObject_CallFunctionObjArgs(w->encoder, sample, NULL);
    if (!encoded) return -1;
    int failed = tarnpy_batch_add(w->state, &w->batch, &w->rules, encoded);
    Py_DECREF(encoded);
    return failed;
}

PyDoc_STRVAR(write_doc,
             "write(sample)\n--\n\n"
             "Writes a sample, a dict with its key under \"__key__\" and a value under "
             "each\nfield's name, and returns how many bytes its fields have. After an "
             "exception\nthe archive is as it was before.");

static PyObject *writer_write(PyObject *self, PyObject *sample)
{
    writer *w = (writer *)self;
    uint64_t payload = 0;
    if (enter(w)) return NULL;
    int failed = collect(w, sample) || flush(w, &payload);
    tarnpy_lock_give(&w->lock);
    if (failed || tell(w)) return NULL;
    if (!w->silent) return PyLong_FromUnsignedLongLong(payload);
    Py_INCREF(Py_None);
    return Py_None;
}

/* The samples before the one that failed are written all the same. */
static int collect_or_flush(writer *w, PyObject *iterator, uint64_t *total)
{
    PyObject *type, *value, *trace, *sample = NULL;
    uint64_t payload;
    int failed = 0;
    while (!failed && w->batch.n_samples < MANY && w->batch.payload < MANY_BYTES &&
           (sample = PyIter_Next(iterator))) {
        failed = collect(w, sample);
        Py_DECREF(sample);
    }
    bool ended = !failed && !sample && !PyErr_Occurred() && w->batch.n_samples < MANY &&
                 w->batch.payload < MANY_BYTES;
    PyErr_Fetch(&type, &value, &trace);
    if (flush(w, &payload) == 0) {
        *total += payload;
        PyErr_Restore(type, value, trace);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return PyErr_Occurred() ? -1 : ended;
}

PyDoc_STRVAR(write_many_doc,
             "write_many(samples)\n--\n\n"
             "Writes all samples of an iterable, which is faster than one at a time, and "
             "returns\nhow many bytes their fields have. Those before one that fails are "
             "written.");

static PyObject *writer_write_many(PyObject *self, PyObject *samples)
{
    writer *w = (writer *)self;
    PyObject *iterator = PyObject_GetIter(samples);
    uint64_t total = 0;
    int ended = 0;
    while (iterator && ended == 0) {
        ended = enter(w);
        if (ended) break;
        ended = collect_or_flush(w, iterator, &total);
        tarnpy_lock_give(&w->lock);
        if (ended >= 0 && tell(w)) ended = -1;
    }
    Py_XDECREF(iterator);
    return iterator && ended > 0 ? PyLong_FromUnsignedLongLong(total) : NULL;
}

PyDoc_STRVAR(member_doc, "member(name, data)\n--\n\nAdds one member of any name.");

static PyObject *writer_member(PyObject *self, PyObject *args)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    PyObject *name;
    Py_buffer data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Uy*:member", &name, &data)) return NULL;
    if (enter(w)) {
        PyBuffer_Release(&data);
        return NULL;
    }
    const char *text = NULL;
    if (w->kind != KIND_TAR)
        PyErr_SetString(PyExc_TypeError, "only a single archive takes members");
    else
        text = tarnpy_batch_text(&w->batch, name, &size);
    if (text) {
        TARNPY_UNLOCKED(status, tarn_tar_writer_member(w->is.tar, text, data.buf,
                                                       (size_t)data.len, &err));
        if (status == TARN_OK) {
            w->written.members++;
            w->written.payload += (uint64_t)data.len;
        } else
            tarnpy_raise(w->state, &err);
    }
    tarnpy_batch_empty(&w->batch);
    tarnpy_lock_give(&w->lock);
    PyBuffer_Release(&data);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(next_doc,
             "next_shard()\n--\n\nEnds the shard at hand; the next sample opens "
             "another.");

static PyObject *writer_next(PyObject *self, PyObject *unused)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    if (enter(w)) return NULL;
    if (w->kind != KIND_SHARDS)
        PyErr_SetString(PyExc_TypeError, "only a writer of shards has a next one");
    else
        TARNPY_UNLOCKED(status, tarn_shard_writer_next(w->is.shards, &err));
    if (w->kind == KIND_SHARDS) tarn_shard_writer_written(w->is.shards, &w->written);
    tarnpy_lock_give(&w->lock);
    if (status != TARN_OK) return tarnpy_raise(w->state, &err);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(has_doc, "has(key)\n--\n\nWhether the fold, as it will be, has this key.");

static PyObject *writer_has(PyObject *self, PyObject *key)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status = TARN_OK;
    bool there = false;
    Py_ssize_t size;
    if (enter(w)) return NULL;
    const char *text = NULL;
    if (w->kind != KIND_FOLD || !PyUnicode_Check(key))
        PyErr_SetString(PyExc_TypeError, "has() is for datasets, and a key is a string");
    else
        text = tarnpy_batch_text(&w->batch, key, &size);
    if (text)
        TARNPY_UNLOCKED(status, tarn_fold_writer_has(w->is.fold, text, &there, &err));
    tarnpy_batch_empty(&w->batch);
    tarnpy_lock_give(&w->lock);
    if (status != TARN_OK) tarnpy_raise(w->state, &err);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(there);
}

/* --- The end --------------------------------------------------------------------------
 */

static tarn_status finish(writer *w, tarn_error *err)
{
    if (w->kind == KIND_FOLD)
        return tarn_fold_writer_finish(w->is.fold, &w->written, err);
    if (w->kind == KIND_SHARDS)
        return tarn_shard_writer_finish(w->is.shards, &w->written, err);
    w->written.bytes = tarn_tar_writer_size(w->is.tar);
    tarn_status status = tarn_tar_writer_finish(w->is.tar, err);
    w->written.shards = status == TARN_OK;
    return status;
}

/* keep: of a fold, finished shards are kept for resume. */
static void give_up(writer *w, bool keep)
{
    w->open = false;
    if (w->pid != getpid()) return; /* a child must not remove its parent's files */
    if (w->kind == KIND_FOLD && keep)
        tarn_fold_writer_suspend(w->is.fold, NULL);
    else if (w->kind == KIND_FOLD)
        tarn_fold_writer_abandon(w->is.fold);
    else if (w->kind == KIND_SHARDS)
        tarn_shard_writer_abandon(w->is.shards);
    else
        tarn_tar_writer_abandon(w->is.tar);
}

PyDoc_STRVAR(finish_doc, "finish()\n--\n\nCompletes and publishes; closes the writer "
                         "whatever comes.");

static PyObject *writer_finish(PyObject *self, PyObject *unused)
{
    writer *w = (writer *)self;
    tarn_error err;
    tarn_status status;
    if (enter(w)) return NULL;
    if (w->pid != getpid()) {
        tarnpy_lock_give(&w->lock);
        PyErr_SetString(PyExc_RuntimeError, "the writer belongs to the parent process");
        return NULL;
    }
    w->open = false;
    TARNPY_UNLOCKED(status, finish(w, &err));
    tarnpy_lock_give(&w->lock);
    tarnpy_file_clear(&w->file);
    if (status != TARN_OK) return tarnpy_raise(w->state, &err);
    if (w->progress && call_progress(w)) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

PyDoc_STRVAR(abandon_doc,
             "abandon()\n--\n\nGives up, and leaves nothing of what was not published. "
             "Harmless on a writer\nthat is closed.");
PyDoc_STRVAR(suspend_doc,
             "suspend()\n--\n\nStops, and keeps finished shards of a dataset "
             "for resume.");

static PyObject *end(PyObject *self, bool keep)
{
    writer *w = (writer *)self;
    if (w->lock.lock && tarnpy_lock_take(&w->lock)) return NULL;
    if (w->open) {
        Py_BEGIN_ALLOW_THREADS;
        give_up(w, keep);
        Py_END_ALLOW_THREADS;
    }
    if (w->lock.lock) tarnpy_lock_give(&w->lock);
    tarnpy_file_clear(&w->file);
    if (PyErr_Occurred()) return NULL;
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *writer_abandon(PyObject *self, PyObject *unused)
{
    return end(self, false);
}

static PyObject *writer_suspend(PyObject *self, PyObject *unused)
{
    return end(self, true);
}

static void warn_unclosed(writer *w)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_WarnFormat(
            PyExc_ResourceWarning, 1,
            "a writer that was not closed is given up: nothing of it is kept"))
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(type, value, trace);
}

static void writer_finalize(PyObject *self)
{
    writer *w = (writer *)self;
    if (!w->open) return;
    if (w->pid == getpid()) warn_unclosed(w);
    give_up(w, false);
}

/* --- The type -------------------------------------------------------------------------
 */

static int writer_traverse(PyObject *self, visitproc visit, void *arg)
{
    writer *w = (writer *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(w->file.object);
    Py_VISIT(w->file.opener);
    Py_VISIT(w->rules.encoders);
    Py_VISIT(w->rules.fallback);
    Py_VISIT(w->encoder);
    Py_VISIT(w->hook);
    Py_VISIT(w->progress);
    return 0;
}

static int writer_clear(PyObject *self)
{
    writer *w = (writer *)self;
    if (w->open) give_up(w, false); /* before what its callbacks need is gone */
    tarnpy_file_clear(&w->file);
    Py_CLEAR(w->rules.encoders);
    Py_CLEAR(w->rules.fallback);
    Py_CLEAR(w->encoder);
    Py_CLEAR(w->hook);
    Py_CLEAR(w->progress);
    return 0;
}

static void writer_dealloc(PyObject *self)
{
    writer *w = (writer *)self;
    PyObject_GC_UnTrack(self);
    writer_finalize(self);
    writer_clear(self);
    tarnpy_batch_free(&w->batch);
    tarnpy_lock_free(&w->lock);
    tarnpy_free(self);
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    return PyBool_FromLong(!((writer *)self)->open);
}

/* samples, members, payload, bytes, shards; samples and payload of the shard at hand */
static PyObject *get_written(PyObject *self, void *unused)
{
    const writer *w = (const writer *)self;
    const tarn_written *n = &w->written;
    uint64_t bytes = n->bytes;
    if (w->open && w->kind == KIND_TAR) bytes = tarn_tar_writer_size(w->is.tar);
    return Py_BuildValue("KKKKKKK", (unsigned long long)n->samples,
                         (unsigned long long)n->members, (unsigned long long)n->payload,
                         (unsigned long long)bytes, (unsigned long long)n->shards,
                         (unsigned long long)w->in_shard,
                         (unsigned long long)w->payload_in_shard);
}

static PyMethodDef methods[] = {
    {"_open", (PyCFunction)(void (*)(void))writer_open, METH_VARARGS | METH_KEYWORDS,
     open_doc},
    {"write", writer_write, METH_O, write_doc},
    {"write_many", writer_write_many, METH_O, write_many_doc},
    {"_member", writer_member, METH_VARARGS, member_doc},
    {"_next_shard", writer_next, METH_NOARGS, next_doc},
    {"_has", writer_has, METH_O, has_doc},
    {"_finish", writer_finish, METH_NOARGS, finish_doc},
    {"abandon", writer_abandon, METH_NOARGS, abandon_doc},
    {"_suspend", writer_suspend, METH_NOARGS, suspend_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", get_closed, NULL, "Whether the writer was closed or given up.", NULL},
    {"_written", get_written, NULL, "Counts, as a tuple.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(type_doc, "What the writers of tarn are made of.");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)type_doc},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_finalize, writer_finalize},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tarn._tarn.Writer",
    .basicsize = sizeof(writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int tarnpy_add_write(PyObject *module)
{
    return tarnpy_add_type(module, &spec, &tarnpy_module_state(module)->writer_type);
}
