/* Growable texts, and file names. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

void tarn_text_reset(tarn_text *text)
{
    if (!text) return;
    free(text->data);
    *text = (tarn_text){0};
}

tarn_status tarn__text_set(tarn_text *text, const char *data, size_t size,
                           tarn_error *err)
{
    if (!text) return TARN_OK;
    if (text->capacity <= size) {
        char *grown = realloc(text->data, size + 64);
        if (!grown) return tarn__fail_memory(err);
        text->data = grown;
        text->capacity = size + 64;
    }
    memcpy(text->data, data, size);
    text->data[size] = '\0';
    text->size = size;
    return TARN_OK;
}

const char *tarn__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool tarn__ends_with(const char *name, const char *ending)
{
    size_t len = strlen(name), n = strlen(ending);
    return len > n && strcasecmp(name + len - n, ending) == 0;
}
