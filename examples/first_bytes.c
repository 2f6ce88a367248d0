/* Prints the first bytes of one field of every sample of a fold.
 *
 *     cc first_bytes.c $(pkg-config --cflags --libs tarn) -o first_bytes
 *     ./first_bytes data/birds:train txt
 */
#include <stdio.h>

#include <tarn/tarn.h>

static int fail(const tarn_error *err)
{
    char text[2200];
    fprintf(stderr, "%s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

static tarn_status show(tarn_fold *fold, const tarn_sample *sample, const char *field,
                        tarn_text *key, tarn_error *err)
{
    uint64_t row;
    tarn_view view;
    TARN_TRY(tarn_fold_pick(fold, sample, field, &row, err));
    TARN_TRY(tarn_fold_names(fold, row, key, NULL, err));
    TARN_TRY(tarn_fold_view(fold, row, &view, err));
    int shown = view.size < 16 ? (int)view.size : 16;
    printf("%s: %zu bytes: %.*s\n", key->data, view.size, shown, (const char *)view.data);
    tarn_view_release(&view);
    return TARN_OK;
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_fold *fold;
    tarn_fold_info info;
    tarn_text key = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: first_bytes PATH FIELD\n");
        return 2;
    }
    const char *fields[] = {argv[2]};
    if (tarn_fold_open(argv[1], NULL, &fold, &err) != TARN_OK) return fail(&err);
    tarn_status status = tarn_fold_require(fold, fields, 1, &err);
    if (status == TARN_OK) status = tarn_fold_info_get(fold, &info, sizeof info, &err);
    for (uint64_t i = 0; status == TARN_OK && i < info.samples; i++) {
        tarn_sample sample;
        status = tarn_fold_sample(fold, i, &sample, &err);
        if (status == TARN_OK) status = show(fold, &sample, fields[0], &key, &err);
    }
    tarn_text_reset(&key);
    tarn_fold_close(fold);
    return status == TARN_OK ? 0 : fail(&err);
}
