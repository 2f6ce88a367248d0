/* What identifies a job: all tasks of it compute the same number. */
#include "base/error.h"
#include "base/names.h"
#include "pack/output.h"
#include "tar/keys.h"

#include <string.h>

/* With its length, so that two texts are never taken for one. */
static tarn_status add_text(tarn__buf *b, const char *text, tarn_error *err)
{
    return tarn__buf_printf(b, err, "%zu:%s\n", text ? strlen(text) : 0,
                            text ? text : "");
}

static tarn_status add_texts(tarn__buf *b, const char *const *texts, size_t count,
                             tarn_error *err)
{
    TARN_TRY(tarn__buf_printf(b, err, "%zu\n", count));
    for (size_t i = 0; i < count; i++)
        TARN_TRY(add_text(b, texts[i], err));
    return TARN_OK;
}

static tarn_status add_numbers(tarn__buf *b, const tarn__pack_output *o, tarn_error *err)
{
    const tarn_pack_options *p = &o->options;
    const tarn_fold_writer_options *w = &o->writer;
    return tarn__buf_printf(
        b, err, "%llu %d %llu %d %d %u %d %llu %llu %d %u %llu %d %d\n",
        (unsigned long long)p->seed, p->shuffle, (unsigned long long)p->shuffle_seed,
        (int)p->keys, p->class_from_dir, p->class_level, (int)p->check,
        (unsigned long long)w->max_count, (unsigned long long)w->max_size, (int)w->roll,
        w->digits, (unsigned long long)w->start, (int)o->members.names, w->repeat_keys);
}

static tarn_status compose(const tarn__pack_output *o, const char *const *sources,
                           size_t count, tarn__buf *b, tarn_error *err)
{
    const tarn_pack_options *p = &o->options;
    TARN_TRY(add_text(b, p->job, err));
    TARN_TRY(add_texts(b, sources, count, err));
    TARN_TRY(add_numbers(b, o, err));
    TARN_TRY(add_texts(b, o->names, o->count, err));
    for (size_t i = 0; i + 1 < o->count; i++)
        TARN_TRY(tarn__buf_printf(b, err, "%.17g\n", o->fractions[i]));
    TARN_TRY(add_texts(b, p->include, p->n_include, err));
    TARN_TRY(add_texts(b, p->exclude, p->n_exclude, err));
    TARN_TRY(add_text(b, p->manifest_root, err));
    for (size_t i = 0; i < p->n_renames; i++) {
        TARN_TRY(add_text(b, p->renames[i].from, err));
        TARN_TRY(add_text(b, p->renames[i].to, err));
    }
    return TARN_OK;
}

tarn_status tarn__pack_job(const tarn__pack_output *o, const char *const *sources,
                           size_t count, uint64_t *out, tarn_error *err)
{
    tarn__buf text;
    tarn__buf_init(&text, SIZE_MAX / 2);
    tarn_status status = compose(o, sources, count, &text, err);
    if (status == TARN_OK) *out = tarn__key_hash(text.data, text.size);
    tarn__buf_reset(&text);
    return status;
}
