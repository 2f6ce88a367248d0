/* Members to files. */
#include <unistd.h>

#include "base/error.h"
#include "base/options.h"
#include "io/beneath.h"
#include "itar/fold.h"

typedef struct extraction {
    tarn_fold *fold;
    const tarn_extract_options *options;
    const char *folder;
    int root;
    uint64_t files, bytes, total;
    tarn_text name;
} extraction;

typedef struct origin {
    tarn__filecache *files;
    size_t shard;
} origin;

static tarn_status settle(void *context, tarn_error *err)
{
    const origin *o = context;
    return tarn__filecache_settle(o->files, o->shard, err);
}

static tarn_status extract_row(extraction *x, uint64_t row, tarn_error *err)
{
    tarn_view view;
    tarn_row at;
    TARN_TRY(tarn_index_row(x->fold->index, row, &at, err));
    TARN_TRY(tarn_fold_names(x->fold, row, NULL, &x->name, err));
    TARN_TRY(tarn_fold_view(x->fold, row, &view, err));
    origin from = {x->fold->files, at.shard};
    tarn__payload payload = {view.data, view.size, settle, &from};
    tarn_status status =
        tarn__write_beneath(x->root, x->folder, x->name.data, x->name.size,
                            x->options->overwrite, &payload, err);
    x->bytes += view.size;
    tarn_view_release(&view);
    TARN_TRY(status);
    x->files++;
    if (x->options->progress &&
        x->options->progress(x->options->progress_context, x->bytes, x->total))
        return tarn__fail(err, TARN_ERR_CANCELLED, "stopped");
    return TARN_OK;
}

static tarn_status add_sizes(extraction *x, tarn_error *err)
{
    tarn_sample s;
    tarn_row row;
    for (uint64_t i = 0; i < x->fold->n_samples; i++) {
        TARN_TRY(tarn_fold_sample(x->fold, i, &s, err));
        for (uint32_t k = 0; k < s.count; k++) {
            TARN_TRY(tarn_index_row(x->fold->index, tarn_sample_row(&s, k), &row, err));
            x->total += row.size;
        }
    }
    return TARN_OK;
}

static tarn_status extract_all(extraction *x, tarn_error *err)
{
    tarn_sample s;
    TARN_TRY(add_sizes(x, err));
    for (uint64_t i = 0; i < x->fold->n_samples; i++) {
        TARN_TRY(tarn_fold_sample(x->fold, i, &s, err));
        for (uint32_t k = 0; k < s.count; k++)
            TARN_TRY(extract_row(x, tarn_sample_row(&s, k), err));
    }
    return TARN_OK;
}

TARN__DEFINE_INIT(tarn_extract_options, TARN_EXTRACT_OPTIONS_INIT)

tarn_status tarn_fold_extract(tarn_fold *fold, const char *folder,
                              const tarn_extract_options *options, uint64_t *out_files,
                              tarn_error *err)
{
    TARN__NEED(err, "fold", fold);
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "out_files", out_files);
    *out_files = 0;
    TARN__OPTIONS(tarn_extract_options, taken, TARN_EXTRACT_OPTIONS_INIT, options, err);
    extraction x = {.fold = fold, .options = &taken, .folder = folder};
    TARN_TRY(tarn__fold_group(fold, err));
    TARN_TRY(tarn__open_folder(folder, &x.root, err));
    tarn_status status = extract_all(&x, err);
    close(x.root);
    tarn_text_reset(&x.name);
    *out_files = x.files;
    return status;
}
