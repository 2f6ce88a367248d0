/* Decodes all samples of a dataset to find those that cannot be decoded. Any free thread
 * decodes a group of samples; groups are reported in order (base/turns.h). */
#include <stdlib.h>
#include <string.h>

#include <tarn/verify.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"
#include "base/turns.h"
#include "dataset/dataset.h"

enum { GROUP = 16 }; /* samples decoded before the first is reported */

typedef struct problem {
    uint64_t sample;
    uint32_t field;
    tarn_error why;
} problem;

/* What was found in a group. */
typedef struct desk {
    problem *problems;
    size_t count, capacity;
    uint64_t decoded;
} desk;

typedef struct decoding {
    tarn_dataset *set;
    tarn_verify_decode_options options;
    tarn_decode_options decode;
    tarn_verify_decode_report report;
} decoding;

static void *new_desk(void)
{
    return calloc(1, sizeof(desk));
}

static void free_desk(void *state)
{
    desk *d = state;
    free(d->problems);
    free(d);
}

/* Whether a failure is caused by the data. */
static bool is_fault(tarn_status status)
{
    return status != TARN_ERR_MEMORY && status != TARN_ERR_USAGE &&
           status != TARN_ERR_CANCELLED;
}

static tarn_status add_problem(const decoding *x, desk *d, uint64_t sample,
                               uint32_t field, tarn_error *why, tarn_error *err)
{
    tarn_place place;
    TARN_TRY(tarn__grow(&d->problems, sizeof *d->problems, d->count, &d->capacity, err));
    if (!why->path[0] &&
        tarn_dataset_locate(x->set, sample, field, &place, sizeof place, NULL) == TARN_OK)
        tarn__error_place(why, place.path, place.offset);
    d->problems[d->count++] = (problem){sample, field, *why};
    return TARN_OK;
}

/* Decodes the bytes of a field, if its name or the file names a codec. */
static tarn_status decode_view(const decoding *x, desk *d, uint64_t sample,
                               uint32_t field, const tarn_view *view, tarn_error *err)
{
    tarn_field_form form;
    tarn_value value;
    TARN_TRY(tarn_dataset_form(x->set, sample, field, &form, sizeof form, err));
    if (form.form != TARN_FORM_NAMED && form.form != TARN_FORM_BYTES) return TARN_OK;
    TARN_TRY(tarn_decode(form.codec, view->data, view->size, &x->decode, &value, err));
    d->decoded += value.kind != TARN_VALUE_BYTES;
    tarn_value_release(&value);
    return TARN_OK;
}

static tarn_status decode_field(const decoding *x, desk *d, uint64_t sample,
                                uint32_t field, tarn_error *err)
{
    tarn_view view;
    tarn_error why;
    tarn_status status = tarn_dataset_get(x->set, sample, field, &view, &why);
    if (status == TARN_ERR_NO_FIELD) return TARN_OK;
    if (status == TARN_OK) {
        status = decode_view(x, d, sample, field, &view, &why);
        if (status == TARN_OK)
            status = tarn_dataset_release(x->set, sample, &view, 1, &why);
        else
            tarn_view_release(&view);
    }
    if (status == TARN_OK) return TARN_OK;
    if (is_fault(status)) return add_problem(x, d, sample, field, &why, err);
    if (err) *err = why;
    return status;
}

static uint64_t group_end(const decoding *x, size_t group)
{
    uint64_t end = ((uint64_t)group + 1) * GROUP;
    return end < x->set->count ? end : x->set->count;
}

static tarn_status decode_group(void *context, void *state, size_t group, tarn_error *err)
{
    const decoding *x = context;
    desk *d = state;
    d->count = 0;
    d->decoded = 0;
    for (uint64_t i = (uint64_t)group * GROUP; i < group_end(x, group); i++)
        for (uint32_t f = 0; f < x->set->n_fields; f++)
            if (x->set->first[f] == f && !tarn__is_pseudo(x->set->ids[f]))
                TARN_TRY(decode_field(x, d, i, f, err));
    return TARN_OK;
}

static void report_problem(const decoding *x, const problem *p)
{
    tarn_text key = {0};
    bool known = tarn_dataset_key(x->set, p->sample, &key, NULL) == TARN_OK;
    tarn_undecodable what = {p->sample, known ? key.data : "", x->set->names[p->field],
                             &p->why};
    if (x->options.undecodable) x->options.undecodable(x->options.context, &what);
    tarn_text_reset(&key);
}

static tarn_status report_group(void *context, void *state, size_t group, tarn_error *err)
{
    decoding *x = context;
    const desk *d = state;
    for (size_t i = 0; i < d->count; i++) {
        const problem *p = &d->problems[i];
        x->report.undecodable += i == 0 || p->sample != p[-1].sample;
        report_problem(x, p);
    }
    x->report.decoded += d->decoded;
    x->report.samples = group_end(x, group);
    if (x->options.progress && x->options.progress(x->options.progress_context,
                                                   x->report.samples, x->set->count))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return TARN_OK;
}

TARN__DEFINE_INIT(tarn_verify_decode_options, TARN_VERIFY_DECODE_OPTIONS_INIT)

tarn_status tarn_verify_decode(tarn_dataset *dataset,
                               const tarn_verify_decode_options *options,
                               tarn_verify_decode_report *report, size_t size,
                               tarn_error *err)
{
    static const tarn__turns_work work = {new_desk, free_desk, decode_group,
                                          report_group};
    TARN__NEED(err, "dataset", dataset);
    TARN__NEED(err, "report", report);
    TARN__OPTIONS(tarn_verify_decode_options, o, TARN_VERIFY_DECODE_OPTIONS_INIT, options,
                  err);
    decoding x = {.set = dataset, .options = o};
    x.decode = (tarn_decode_options)TARN_DECODE_OPTIONS_INIT;
    TARN_TRY(tarn__options_take(&x.decode, sizeof x.decode, o.decode, err));
    tarn_status status = tarn__turns_run(
        &work, &x, o.threads, (size_t)((dataset->count + GROUP - 1) / GROUP), err);
    TARN__FILL_OUT(report, size, x.report);
    return status;
}
