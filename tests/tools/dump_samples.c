/* Prints the output of the stream reader, for test programs in other languages: a line
 * for each sample, field, notice, and for the end. Texts and bytes are in hexadecimal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

static void put_hex(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    putchar(' ');
    for (size_t i = 0; i < size; i++)
        printf("%02x", bytes[i]);
}

static void put_notice(void *context, const tarn_error *what)
{
    (void)context;
    printf("notice %s %lld %s\n", tarn_status_name(what->code), (long long)what->offset,
           what->message);
}

static void put_sample(const tarn_samples_item *item)
{
    printf("sample %zu %d", item->shard, item->damaged);
    put_hex(item->key, item->key_len);
    putchar('\n');
    for (size_t i = 0; i < item->count; i++) {
        printf("field %llu", (unsigned long long)item->fields[i].offset);
        put_hex(item->fields[i].name, item->fields[i].name_len);
        put_hex(item->fields[i].data, (size_t)item->fields[i].size);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    tarn_error err;
    tarn_samples *samples;
    tarn_samples_item item;
    tarn_samples_options o = TARN_SAMPLES_OPTIONS_INIT;
    int first = 1;
    o.notice = put_notice;
    o.allow_pipe = true;
    for (; first < argc && argv[first][0] == '-' && argv[first][1] == '-'; first++) {
        o.lenient |= strcmp(argv[first], "--lenient") == 0;
        o.keep_first |= strcmp(argv[first], "--keep-first") == 0;
        if (strcmp(argv[first], "--path") == 0) o.grouping = TARN_GROUP_PATH;
    }
    tarn_status status = tarn_samples_open((const char *const *)(argv + first),
                                           (size_t)(argc - first), &o, &samples, &err);
    while (status == TARN_OK &&
           (status = tarn_samples_next(samples, &item, &err)) == TARN_OK)
        put_sample(&item);
    if (status == TARN_END)
        printf("end\n");
    else
        printf("error %s %lld %s\n", tarn_status_name(err.code), (long long)err.offset,
               err.message);
    tarn_samples_close(samples);
    return 0;
}
