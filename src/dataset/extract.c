/* Extracts members to files. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tarn/members.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "io/beneath.h"
#include "itar/fold_read.h"

typedef struct extraction {
    tarn_dataset *set;
    const tarn_extract_options *options;
    const char *folder;
    int root;
    uint64_t files, bytes, total;
    uint64_t sample; /* the current one */
    uint64_t ahead;  /* up to this one, remote files were fetched */
    tarn__supply supply;
    tarn__members members;
    tarn_text name;
} extraction;

static tarn_status settle_member(void *context, tarn_error *err)
{
    const extraction *x = context;
    return tarn_dataset_release(x->set, x->sample, NULL, 0, err);
}

/* The member's name in the archive; "KEY.FIELD" if it is not in one, or if the field was
 * given another name. */
static tarn_status find_name(extraction *x, const tarn_stored *member, tarn_error *err)
{
    char *text;
    if (member->row != TARN_NO_ROW && !x->set->fieldset->named[member->field])
        return tarn__fold_names(tarn__storage_fold(x->set->source), member->row, NULL,
                                &x->name, err);
    TARN_TRY(tarn_dataset_key(x->set, x->sample, &x->name, err));
    int size = asprintf(&text, "%s.%s", x->name.data, x->set->names[member->field]);
    if (size < 0) return tarn__fail_memory(err);
    tarn_status status = tarn__text_set(&x->name, text, (size_t)size, err);
    free(text);
    return status;
}

/* Fetches many samples of remote files at once. */
static tarn_status look_ahead(extraction *x, tarn_error *err)
{
    enum { AT_ONCE = 256 };
    uint64_t left = x->set->count - x->sample;
    if (!x->set->source->remote || x->sample < x->ahead) return TARN_OK;
    if (x->ahead) tarn__supply_end(&x->supply);
    x->ahead = 0;
    size_t count = left < AT_ONCE ? (size_t)left : AT_ONCE;
    TARN_TRY(tarn__supply_samples(&x->supply, x->set, x->sample, count, err));
    x->ahead = x->sample + count;
    return TARN_OK;
}

static tarn_status write_member(extraction *x, const tarn_stored *member, tarn_error *err)
{
    tarn_view view;
    TARN_TRY(look_ahead(x, err));
    TARN_TRY(find_name(x, member, err));
    TARN_TRY(tarn__member_view(x->set, x->sample, member, &view, err));
    tarn__payload payload = {view.data, view.size, settle_member, x};
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

static tarn_status each_member(extraction *x,
                               tarn_status (*act)(extraction *x,
                                                  const tarn_stored *member,
                                                  tarn_error *err),
                               tarn_error *err)
{
    for (x->sample = 0; x->sample < x->set->count; x->sample++) {
        TARN_TRY(tarn__members_get(x->set, x->sample, &x->members, err));
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
    extraction x = {.set = d, .options = &taken, .folder = folder};
    TARN_TRY(tarn__open_folder(folder, &x.root, err));
    tarn_status status = taken.progress ? each_member(&x, add_size, err) : TARN_OK;
    if (status == TARN_OK) status = each_member(&x, write_member, err);
    if (x.ahead) tarn__supply_end(&x.supply);
    close(x.root);
    tarn_text_reset(&x.name);
    free(x.members.items);
    *out_files = x.files;
    return status;
}
