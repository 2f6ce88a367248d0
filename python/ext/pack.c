/* pack.c: tarn_pack for Python. The work runs in its own thread; the calling thread
 * passes its progress to Python. */
#include <stdlib.h>
#include <string.h>

#include "filespy.h"

typedef struct packing {
    tarnpy_strings sources, include, exclude;
    tarnpy_strings renames, types; /* pairs of texts */
    tarn_pack_rename *renamed;
    tarn_pack_type *typed;
    PyObject *target, *root; /* bytes, or NULL */
    const char *path;        /* the path in target */
    tarn_pack_options options;
    tarn_fold_writer_options writer;
    tarn_tar_writer_options members; /* options points to it */
    tarn_sink_options sink;
    tarn_samples_options stream;
    tarn_iac_write_options records;
    tarn_pack_split splits[TARN_PACK_MAX_FOLDS];
    PyObject *folds; /* splits point into its names */
    PyObject *progress;
    tarn_pack_report report;
    tarnpy_problems notices;
    atomic_bool stop;
    _Atomic uint64_t done, total, bytes; /* so far */
    uint64_t shown;                      /* samples at the last call of progress */
    tarn_status status;
    tarn_error err;
} packing;

/* --- Arguments ---------------------------------------------------------------------- */

typedef struct flags {
    int keys, class_from_dir, append, resume, overwrite, no_sync, pax, lenient,
        allow_pipe, dry_run, check, encoded;
    PyObject *sources, *shuffle, *include, *exclude, *renames, *types;
    const char *codec;
} flags;

static int parse(packing *p, flags *f, PyObject *args, PyObject *kwargs)
{
    static const char *const words[] = {
        "sources",    "target",         "fold",      "splits",   "seed",    "shuffle",
        "keys",       "class_from_dir", "max_count", "max_size", "append",  "resume",
        "overwrite",  "no_sync",        "pax",       "level",    "threads", "lenient",
        "allow_pipe", "codec",          "header",    "version",  "dry_run", "progress",
        "include",    "exclude",        "renames",   "types",    "root",    "class_level",
        "check",      "encoded",        "task",      "tasks",    "job",     NULL};
    tarn_pack_options *o = &p->options;
    return PyArg_ParseTupleAndKeywords(
        args, kwargs, "OO&$zO!O&OipO&O&pppppiIppzzIpOOOOOO&IipIIz:pack",
        TARNPY_KEYWORDS(words), &f->sources, tarnpy_path_or_none, &p->target, &o->fold,
        &PyDict_Type, &p->folds, tarnpy_number, &o->seed, &f->shuffle, &f->keys,
        &f->class_from_dir, tarnpy_number, &p->writer.max_count, tarnpy_number,
        &p->writer.max_size, &f->append, &f->resume, &f->overwrite, &f->no_sync, &f->pax,
        &p->sink.level, &o->threads, &f->lenient, &f->allow_pipe, &f->codec,
        &p->records.header, &p->records.version, &f->dry_run, &p->progress, &f->include,
        &f->exclude, &f->renames, &f->types, tarnpy_path_or_none, &p->root,
        &o->class_level, &f->check, &f->encoded, &o->task, &o->tasks, &o->job);
}

static int take_flags(packing *p, const flags *f)
{
    tarn_pack_options *o = &p->options;
    p->path = p->target ? PyBytes_AsString(p->target) : NULL;
    o->keys = (tarn_keys)f->keys;
    o->class_from_dir = f->class_from_dir;
    o->dry_run = f->dry_run;
    o->shuffle = f->shuffle != Py_None;
    p->writer.append = f->append;
    p->writer.resume = f->resume;
    p->writer.overwrite = p->records.overwrite = f->overwrite;
    p->writer.no_sync = p->records.no_sync = f->no_sync;
    p->sink.allow_pipe = p->stream.allow_pipe = f->allow_pipe;
    if (f->pax) p->members.names = TARN_NAMES_PAX;
    p->stream.lenient = p->stream.keep_first = f->lenient;
    /* The library chooses the same for streams without options. */
    bool flat = p->path && tarn_target_kind(p->path) == TARN_TARGET_FOLDER;
    p->stream.grouping =
        flat && o->keys == TARN_KEYS_BASE ? TARN_GROUP_BASE : TARN_GROUP_PATH;
    p->records.codec = f->codec;
    p->records.encoded = f->encoded;
    o->check = (tarn_pack_check)f->check;
    o->manifest_root = p->root ? PyBytes_AsString(p->root) : NULL;
    p->records.level = p->sink.level;
    p->members.sink = &p->sink;
    p->writer.writer = &p->members;
    if (o->shuffle && !tarnpy_number(f->shuffle, &o->shuffle_seed)) return -1;
    return tarnpy_strings_get(f->sources, &p->sources);
}

/* Lists of texts, and of pairs of texts, which are flat. */
static int take_lists(packing *p, const flags *f)
{
    tarn_pack_options *o = &p->options;
    if (tarnpy_strings_get(f->include, &p->include) != 0 ||
        tarnpy_strings_get(f->exclude, &p->exclude) != 0 ||
        tarnpy_strings_get(f->renames, &p->renames) != 0 ||
        tarnpy_strings_get(f->types, &p->types) != 0)
        return -1;
    o->n_renames = p->renames.count / 2;
    o->n_types = p->types.count / 2;
    o->renames = p->renamed = calloc(o->n_renames + 1, sizeof *p->renamed);
    o->types = p->typed = calloc(o->n_types + 1, sizeof *p->typed);
    if (!p->renamed || !p->typed) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < o->n_renames; i++)
        p->renamed[i] =
            (tarn_pack_rename){p->renames.items[2 * i], p->renames.items[2 * i + 1]};
    for (size_t i = 0; i < o->n_types; i++)
        p->typed[i] = (tarn_pack_type){p->types.items[2 * i], p->types.items[2 * i + 1]};
    o->include = p->include.items;
    o->n_include = p->include.count;
    o->exclude = p->exclude.items;
    o->n_exclude = p->exclude.count;
    return 0;
}

static int take_splits(packing *p)
{
    PyObject *name, *fraction;
    Py_ssize_t at = 0;
    size_t n = 0;
    while (PyDict_Next(p->folds, &at, &name, &fraction)) {
        if (n == TARN_PACK_MAX_FOLDS) break; /* the library reports the error */
        p->splits[n].fold = PyUnicode_AsUTF8AndSize(name, NULL);
        p->splits[n].fraction = PyFloat_AsDouble(fraction);
        if (PyErr_Occurred()) return -1;
        n++;
    }
    p->options.splits = p->splits;
    p->options.n_splits = n;
    return 0;
}

/* --- Work --------------------------------------------------------------------------- */

static int on_progress(void *context, uint64_t done, uint64_t total, uint64_t bytes)
{
    packing *p = context;
    atomic_store(&p->done, done);
    atomic_store(&p->total, total);
    atomic_store(&p->bytes, bytes);
    return atomic_load(&p->stop);
}

static void work(void *context)
{
    packing *p = context;
    p->status = tarn_pack(p->sources.items, p->sources.count, p->path, &p->options,
                          &p->report, sizeof p->report, &p->err);
}

static int call_progress(packing *p, uint64_t done, uint64_t total, uint64_t bytes)
{
    p->shown = done;
    PyObject *result =
        PyObject_CallFunction(p->progress, "KKK", (unsigned long long)done,
                              (unsigned long long)total, (unsigned long long)bytes);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

static int watch(void *context)
{
    packing *p = context;
    uint64_t done = atomic_load(&p->done);
    if (p->progress == Py_None || done == p->shown) return 0;
    return call_progress(p, done, atomic_load(&p->total), atomic_load(&p->bytes));
}

/* --- Result ------------------------------------------------------------------------- */

static PyObject *list_folds(const tarn_pack_report *r)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < r->n_folds; i++) {
        const tarn_pack_fold *w = &r->folds[i];
        PyObject *one =
            Py_BuildValue("(z(KKKKK))", r->folds[i].fold, (unsigned long long)w->samples,
                          (unsigned long long)w->members, (unsigned long long)w->payload,
                          (unsigned long long)w->bytes, (unsigned long long)w->shards);
        if (!one || PyList_Append(list, one) != 0) Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static int show_end(packing *p)
{
    uint64_t samples = 0, payload = 0;
    if (p->progress == Py_None || p->options.dry_run) return 0;
    for (size_t i = 0; i < p->report.n_folds; i++) {
        samples += p->report.folds[i].samples;
        payload += p->report.folds[i].payload;
    }
    return call_progress(p, samples, samples, payload);
}

/* Bad fields are notes of the exception, because there is no result that could list
 * them. */
static void raise_failure(PyObject *module, const packing *p, PyObject *notices)
{
    enum { MAX_NOTES = 50 };
    Py_ssize_t count = notices && p->report.bad ? PyList_Size(notices) : 0;
    tarnpy_raise(tarnpy_module_state(module), &p->err);
    for (Py_ssize_t i = 0; i < count && i < MAX_NOTES; i++)
        tarnpy_note("%U", PyList_GetItem(notices, i));
    if (count > MAX_NOTES) tarnpy_note("and %zd more", count - MAX_NOTES);
}

static PyObject *finish(PyObject *module, packing *p)
{
    PyObject *notices = tarnpy_problems_list(&p->notices), *folds = NULL;
    const tarn_pack_report *r = &p->report;
    if (p->status != TARN_OK)
        raise_failure(module, p, notices);
    else if (notices && !PyErr_Occurred() && show_end(p) == 0)
        folds = list_folds(r);
    if (folds)
        return Py_BuildValue("(NKKKINKO)", folds, (unsigned long long)r->files,
                             (unsigned long long)r->values,
                             (unsigned long long)r->skipped, r->classes, notices,
                             (unsigned long long)r->bad, r->existed ? Py_True : Py_False);
    Py_XDECREF(notices);
    return NULL;
}

PyDoc_STRVAR(pack_doc, "pack(sources, target, **options)\n--\n\nSee tarn.pack.");

static PyObject *pack(PyObject *module, PyObject *args, PyObject *kwargs)
{
    packing p = {.options = TARN_PACK_OPTIONS_INIT,
                 .writer = TARN_FOLD_WRITER_OPTIONS_INIT,
                 .stream = TARN_SAMPLES_OPTIONS_INIT,
                 .members = TARN_TAR_WRITER_OPTIONS_INIT,
                 .sink = TARN_SINK_OPTIONS_INIT,
                 .records = TARN_IAC_WRITE_OPTIONS_INIT};
    PyObject *result = NULL;
    flags f = {0};
    if (parse(&p, &f, args, kwargs) && take_flags(&p, &f) == 0 &&
        take_lists(&p, &f) == 0 && take_splits(&p) == 0) {
        tarn_pack_options *o = &p.options;
        o->writer = &p.writer;
        o->records = &p.records;
        o->stream = &p.stream;
        o->notice = tarnpy_problems_add;
        o->notice_context = &p.notices;
        o->progress = on_progress;
        o->progress_context = &p;
        tarnpy_run_watched(work, &p, &p.stop, watch);
        result = finish(module, &p);
    }
    tarnpy_strings *const lists[] = {&p.sources, &p.include, &p.exclude, &p.renames,
                                     &p.types};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        tarnpy_strings_free(lists[i]);
    free(p.renamed);
    free(p.typed);
    Py_XDECREF(p.target);
    Py_XDECREF(p.root);
    return result;
}

/* --- Committing --------------------------------------------------------------------- */

PyDoc_STRVAR(commit_doc,
             "commit(path, append, overwrite, discard, no_sync, threads, tasks)\n--\n\n"
             "See tarn.commit.");

static PyObject *commit(PyObject *module, PyObject *args)
{
    tarn_commit_options o = TARN_COMMIT_OPTIONS_INIT;
    tarn_commit_report r;
    tarn_error err;
    tarn_status status;
    PyObject *path;
    int append, overwrite, discard, no_sync;
    if (!PyArg_ParseTuple(args, "O&ppppII:commit", tarnpy_path, &path, &append,
                          &overwrite, &discard, &no_sync, &o.threads, &o.tasks))
        return NULL;
    o.append = append;
    o.overwrite = overwrite;
    o.discard = discard;
    o.no_sync = no_sync;
    TARNPY_UNLOCKED(status, tarn_commit(PyBytes_AsString(path), &o, &r, sizeof r, &err));
    Py_DECREF(path);
    if (status != TARN_OK) {
        tarnpy_raise(tarnpy_module_state(module), &err);
        return NULL;
    }
    return Py_BuildValue("(IIKKKO)", r.tasks, r.folds, (unsigned long long)r.shards,
                         (unsigned long long)r.samples, (unsigned long long)r.members,
                         r.existed ? Py_True : Py_False);
}

static PyMethodDef functions[] = {
    {"commit", commit, METH_VARARGS, commit_doc},
    {"pack", (PyCFunction)(void (*)(void))pack, METH_VARARGS | METH_KEYWORDS, pack_doc},
    {NULL, NULL, 0, NULL},
};

int tarnpy_add_pack(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
