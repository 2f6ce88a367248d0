/* Counts the samples of each class of a dataset: a minimal program.
 *
 *     make && ./count data:train
 */
#include <stdio.h>
#include <stdlib.h>

#include <tarn/tarn.h>

#if TARN_VERSION_MAJOR == 0 && TARN_VERSION_MINOR < 1
#error "this needs tarn 0.1 or newer"
#endif

enum { CLASSES = 1000 };

static tarn_status count(tarn_dataset *data, unsigned *out_counts, tarn_error *err)
{
    for (uint64_t i = 0; i < tarn_dataset_count(data); i++) {
        tarn_view view;
        TARN_TRY(tarn_dataset_get(data, i, 0, &view, err));
        char text[24];
        snprintf(text, sizeof text, "%.*s", (int)view.size, (const char *)view.data);
        tarn_view_release(&view);
        unsigned long class = strtoul(text, NULL, 10);
        if (class < CLASSES) out_counts[class]++;
    }
    return TARN_OK;
}

int main(int argc, char **argv)
{
    static unsigned counts[CLASSES];
    const char *fields[] = {"cls", NULL};
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_dataset *data;
    tarn_error err;
    char text[2200];
    if (argc != 2) {
        fprintf(stderr, "usage: count DATASET\n");
        return 2;
    }
    o.fields = fields;
    tarn_status status = tarn_dataset_open(argv[1], &o, &data, &err);
    if (status == TARN_OK) {
        status = count(data, counts, &err);
        tarn_dataset_close(data);
    }
    if (status != TARN_OK) {
        fprintf(stderr, "%s\n", tarn_error_text(&err, text, sizeof text));
        return 1;
    }
    printf("tarn %s\n", tarn_version());
    for (int i = 0; i < CLASSES; i++)
        if (counts[i]) printf("class %d: %u\n", i, counts[i]);
    return 0;
}
