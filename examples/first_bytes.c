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

static tarn_status show(tarn_dataset *fold, uint64_t sample, tarn_text *key,
                        tarn_error *err)
{
    tarn_view view;
    TARN_TRY(tarn_dataset_get_all(fold, sample, &view, key, err));
    int shown = view.size < 16 ? (int)view.size : 16;
    printf("%s: %zu bytes: %.*s\n", key->data, view.size, shown, (const char *)view.data);
    return tarn_dataset_release(fold, sample, &view, 1, err);
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_dataset *fold;
    tarn_text key = {0};
    if (argc != 3) {
        fprintf(stderr, "usage: first_bytes PATH FIELD\n");
        return 2;
    }
    const char *fields[] = {argv[2], NULL};
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.fields = fields;
    if (tarn_dataset_open(argv[1], &o, &fold, &err) != TARN_OK) return fail(&err);
    tarn_status status = TARN_OK;
    for (uint64_t i = 0; status == TARN_OK && i < tarn_dataset_count(fold); i++)
        status = show(fold, i, &key, &err);
    tarn_text_reset(&key);
    tarn_dataset_close(fold);
    return status == TARN_OK ? 0 : fail(&err);
}
