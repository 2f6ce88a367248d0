/* Members to files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/members.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "dataset/order.h"
#include "io/beneath.h"
#include "itar/fold_read.h"

typedef struct extraction {
    tarn_dataset *set; /* without its order */
    const tarn_order *order;
    const tarn_extract_options *options;
    const char *folder;
    int root;
    uint64_t files, bytes, total;
    uint64_t number; /* of the sample at hand */
    tarn__members members;
    tarn_text name;
} extraction;

static tarn_status settle(void *context, tarn_error *err)
{
    const extraction *x = context;
    return tarn_dataset_settle(x->set, x->number, err);
}

/* "KEY.FIELD", for what has no name of its own. */
static tarn_status make_name(extraction *x, const tarn_stored *member, tarn_error *err)
{
    const char *field = x->set->names[member->field];
    tarn_text key = {0};
    tarn__buf name;
    tarn__buf_init(&name, SIZE_MAX / 2);
    tarn_status status = tarn_dataset_key(x->set, x->number, &key, err);
    if (status == TARN_OK) status = tarn__buf_add(&name, key.data, key.size, err);
    if (status == TARN_OK) status = tarn__buf_add(&name, ".", 1, err);
    if (status == TARN_OK) status = tarn__buf_add(&name, field, strlen(field), err);
    if (status == TARN_OK) status = tarn__text_set(&x->name, name.data, name.size, err);
    tarn__buf_reset(&name);
    tarn_text_reset(&key);
    return status;
}

static tarn_status write_member(extraction *x, const tarn_stored *member, tarn_error *err)
{
    tarn__fold *fold = tarn__source_fold(x->set->source);
    tarn_view view;
    TARN_TRY(fold && member->row != TARN_NO_ROW
                 ? tarn__fold_names(fold, member->row, NULL, &x->name, err)
                 : make_name(x, member, err));
    TARN_TRY(tarn__member_view(x->set, x->number, member, &view, err));
    tarn__payload payload = {view.data, view.size, settle, x};
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

static tarn_status add_size(extraction *x, const tarn_stored *member, tarn_error *err)
{
    (void)err;
    x->total += member->bytes;
    return TARN_OK;
}

static tarn_status each_member(extraction *x, uint64_t count,
                               tarn_status (*act)(extraction *x,
                                                  const tarn_stored *member,
                                                  tarn_error *err),
                               tarn_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        x->number = i;
        if (x->order) tarn__order_map(x->order, &x->number, 1);
        TARN_TRY(tarn__members_get(x->set, x->number, &x->members, err));
        for (size_t k = 0; k < x->members.count; k++)
            TARN_TRY(act(x, &x->members.items[k], err));
    }
    return TARN_OK;
}

TARN__DEFINE_INIT(tarn_extract_options, TARN_EXTRACT_OPTIONS_INIT)

tarn_status tarn_dataset_extract(tarn_dataset *d, const char *folder,
                                 const tarn_extract_options *options, uint64_t *out_files,
                                 tarn_error *err)
{
    TARN__NEED(err, "dataset", d);
    TARN__NEED(err, "folder", folder);
    TARN__NEED(err, "out_files", out_files);
    *out_files = 0;
    TARN__OPTIONS(tarn_extract_options, taken, TARN_EXTRACT_OPTIONS_INIT, options, err);
    extraction x = {.set = d->order ? d->base : d,
                    .order = d->order,
                    .options = &taken,
                    .folder = folder};
    TARN_TRY(tarn__open_folder(folder, &x.root, err));
    tarn_status status =
        taken.progress ? each_member(&x, d->count, add_size, err) : TARN_OK;
    if (status == TARN_OK) status = each_member(&x, d->count, write_member, err);
    close(x.root);
    tarn_text_reset(&x.name);
    free(x.members.items);
    *out_files = x.files;
    return status;
}
