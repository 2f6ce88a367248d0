/* Samples whose values follow from their numbers. */
#include "mixed.h"
#include "iac_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void sure(tarn_status status, const tarn_error *err)
{
    char text[4096];
    if (status == TARN_OK) return;
    fprintf(stderr, "mixed: %s\n", tarn_error_text(err, text, sizeof text));
    exit(3);
}

size_t mixed_bin(uint64_t sample, unsigned char *out)
{
    size_t size = (size_t)(sample * 7919 % MIXED_BIN);
    for (size_t i = 0; i < size; i++)
        out[i] = (unsigned char)(sample + i * 31);
    return size;
}

static void make_fold(const char *folder)
{
    tarn_error err;
    tarn_fold_writer *w;
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    char path[4096];
    static unsigned char bin[MIXED_BIN];
    o.max_count = 10;
    o.overwrite = true;
    o.no_sync = true;
    snprintf(path, sizeof path, "%s/fold", folder);
    sure(tarn_fold_writer_open(path, "train", &o, &w, &err), &err);
    for (unsigned i = 0; i < MIXED_FOLD; i++) {
        char key[32], cls[32];
        size_t size = mixed_bin(i, bin);
        snprintf(key, sizeof key, "f%05u", i);
        snprintf(cls, sizeof cls, i % MIXED_BAD ? "%u" : "bad%u", i);
        tarn_field fields[] = {{"bin", bin, size, NULL}, {"cls", cls, strlen(cls), NULL}};
        sure(tarn_fold_writer_add(w, key, fields, 2, &err), &err);
    }
    sure(tarn_fold_writer_finish(w, NULL, 0, &err), &err);
}

static void make_gnz(const char *folder)
{
    tarn_error err;
    tarn_gnz_writer *w;
    tarn_gnz_writer_options o = TARN_GNZ_WRITER_OPTIONS_INIT;
    tarn_array a;
    char path[4096];
    static int64_t cls[MIXED_GNZ];
    for (unsigned i = 0; i < MIXED_GNZ; i++)
        cls[i] = MIXED_STEP + i;
    o.overwrite = true;
    snprintf(path, sizeof path, "%s/a.gnz", folder);
    sure(tarn_array_init(&a, cls, (tarn_dtype){'<', 'i', 8}, 1,
                         (const uint64_t[]){MIXED_GNZ}, &err),
         &err);
    sure(tarn_gnz_writer_open(path, &o, &w, &err), &err);
    sure(tarn_gnz_writer_add(w, "cls", &a, NULL, &err), &err);
    sure(tarn_gnz_writer_begin(w, &err), &err);
    sure(tarn_gnz_writer_finish(w, &err), &err);
}

static void make_iac(const char *folder)
{
    tarn_error err;
    const char *columns[] = {"text:key", "text:field"};
    tarn_iac_rows *rows, *none;
    struct ArrowArrayStream slides, index;
    tarn_iac_write_options o = TARN_IAC_WRITE_OPTIONS_INIT;
    static char cls[MIXED_IAC][16];
    const void *payloads[MIXED_IAC];
    size_t sizes[MIXED_IAC];
    char path[4096], key[32];
    sure(tarn_iac_rows_new(columns, 2, &none, &err), &err);
    sure(tarn_iac_rows_new(columns, 2, &rows, &err), &err);
    for (unsigned i = 0; i < MIXED_IAC; i++) {
        snprintf(key, sizeof key, "p%05u", i);
        sizes[i] = (size_t)snprintf(cls[i], sizeof cls[i], "%u", 2 * MIXED_STEP + i);
        payloads[i] = cls[i];
        sure(rows_text(rows, 0, key, strlen(key), &err), &err);
        sure(rows_text(rows, 1, "cls", 3, &err), &err);
    }
    sure(tarn_iac_rows_finish(none, &slides, &err), &err);
    sure(tarn_iac_rows_finish(rows, &index, &err), &err);
    o.overwrite = true;
    o.codec = "zstd";
    snprintf(path, sizeof path, "%s/p.iac", folder);
    sure(iac_build(path, &slides, &index, payloads, sizes, MIXED_IAC, &o, &err), &err);
}

void mixed_make(const char *folder)
{
    make_fold(folder);
    make_gnz(folder);
    make_iac(folder);
}

static tarn_status open_part(const char *folder, const char *name,
                             const tarn_dataset_options *o, tarn_dataset **out,
                             tarn_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return tarn_dataset_open(path, o, out, err);
}

tarn_status mixed_open(mixed *m, const char *folder, tarn_io io, tarn_error *err)
{
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_mix_options mix = TARN_MIX_OPTIONS_INIT;
    tarn_order_options order = TARN_ORDER_OPTIONS_INIT;
    *m = (mixed){0};
    o.io = io;
    mix.fields = (const char *[]){"cls", NULL};
    tarn_status status = open_part(folder, "fold", &o, &m->fold, err);
    if (status == TARN_OK) status = open_part(folder, "a.gnz", &o, &m->gnz, err);
    if (status == TARN_OK) status = open_part(folder, "p.iac", &o, &m->iac, err);
    if (status == TARN_OK)
        status = tarn_dataset_mix((tarn_dataset *[]){m->fold, m->gnz, m->iac}, 3, &mix,
                                  &m->all, err);
    order.kind = TARN_ORDER_SHUFFLE;
    order.seed = 7;
    if (status == TARN_OK) status = tarn_dataset_order(m->all, &order, &m->shuffled, err);
    if (status != TARN_OK) mixed_close(m);
    return status;
}

void mixed_close(mixed *m)
{
    if (m->shuffled) tarn_dataset_close(m->shuffled);
    if (m->all) tarn_dataset_close(m->all);
    if (m->fold) tarn_dataset_close(m->fold);
    if (m->gnz) tarn_dataset_close(m->gnz);
    if (m->iac) tarn_dataset_close(m->iac);
    *m = (mixed){0};
}

static tarn_place place_of(const mixed *m, uint64_t sample)
{
    tarn_error err;
    tarn_place place;
    sure(mix_at(m->all, sample, &place, &err), &err);
    return place;
}

bool mixed_is_bad(const mixed *m, uint64_t sample)
{
    tarn_place place = place_of(m, sample);
    return place.source == 0 && place.sample % MIXED_BAD == 0;
}

int64_t mixed_cls(const mixed *m, uint64_t sample)
{
    tarn_place place = place_of(m, sample);
    return (int64_t)(place.source * MIXED_STEP + place.sample);
}

tarn_loader_options mixed_loader(unsigned threads, size_t batch)
{
    static const tarn_load_field cls = {"cls", TARN_LOAD_INTEGER, NULL};
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    o.batch = batch;
    o.threads = threads;
    o.fields = &cls;
    o.n_fields = 1;
    o.on_error = TARN_ON_ERROR_SKIP;
    return o;
}

uint64_t mixed_wrong(const mixed *m, const tarn_batch *batch)
{
    const int64_t *cls = (const int64_t *)(const void *)batch->columns[0].data;
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t sample = batch->samples[i];
        if (mixed_is_bad(m, sample) || cls[i] != mixed_cls(m, sample)) return sample;
    }
    return TARN_NO_SAMPLE;
}
