/* Writes the parts of a job that has no payloads: indexes with their sums, and shards
 * that are holes of the right size. For measuring a commit at sizes that no disk holds.
 *
 *     synthetic_parts DIR PARTS MEMBERS
 *
 * Each part has one shard with this many members, and every member is a sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "itar/index.h"
#include "itar/key_order.h"

static int fail(const tarn_error *err)
{
    char text[2048];
    fprintf(stderr, "synthetic_parts: %s\n", tarn_error_text(err, text, sizeof text));
    return 1;
}

/* No two numbers have the same hash. */
static uint64_t hash_of(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static tarn_status fill(tarn_index *index, uint64_t first, uint64_t count,
                        tarn_error *err)
{
    uint32_t id;
    unsigned char *rows = malloc(count * TARN__ROW_SIZE + 1);
    index->chunks = calloc(1, sizeof *index->chunks);
    tarn__sums *sums = index->sums = tarn__sums_new();
    if (!rows || !index->chunks || !sums) exit(1);
    sums->stamps = calloc(1, sizeof *sums->stamps);
    sums->checksums = calloc(count + 1, sizeof *sums->checksums);
    for (uint64_t i = 0; i < count; i++) {
        tarn_row row = {.offset = i * 1024, .size = 500, .keyhash = hash_of(first + i)};
        tarn__row_put(rows + i * TARN__ROW_SIZE, &row);
    }
    index->chunks[0] = (tarn__chunk){0, rows};
    index->n_chunks = 1;
    index->n_rows = index->n_stems = sums->n_rows = count;
    index->contiguous = true;
    sums->n_shards = 1;
    sums->stamps[0] = (tarn__stamp){.size = count * 1024 + 1024, .rows = (uint32_t)count};
    TARN_TRY(tarn__names_add(&index->fields, "jpg", 3, &id, err));
    TARN_TRY(tarn__names_add(&sums->names, "train_0000.tar", 14, &id, err));
    return tarn__order_make(index, &sums->order, err);
}

static tarn_status write_part(const char *job, unsigned part, unsigned parts,
                              uint64_t count, tarn_error *err)
{
    char path[2048];
    tarn__saving saving;
    tarn_index *index = tarn__index_new();
    if (!index) exit(1);
    snprintf(path, sizeof path, "%s/%05u-of-%05u", job, part, parts);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%05u-of-%05u/train_0000.tar", job, part, parts);
    FILE *shard = fopen(path, "wb");
    if (!shard || ftruncate(fileno(shard), (off_t)(count * 1024 + 1024)) != 0) exit(1);
    fclose(shard);
    snprintf(path, sizeof path, "%s/%05u-of-%05u/train.taridx", job, part, parts);
    tarn_status status = fill(index, part * count, count, err);
    if (status == TARN_OK) status = tarn__index_prepare(index, path, true, &saving, err);
    if (status == TARN_OK) status = tarn__index_publish(&saving, err);
    tarn_index_free(index);
    return status;
}

int main(int argc, char **argv)
{
    char path[1024];
    tarn_error err;
    if (argc != 4 || strlen(argv[1]) > 900) return 2;
    unsigned parts = (unsigned)atoi(argv[2]);
    uint64_t count = strtoull(argv[3], NULL, 10);
    mkdir(argv[1], 0777);
    snprintf(path, sizeof path, "%s/.train.tasks", argv[1]);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/.train.tasks/0123456789abcdef", argv[1]);
    mkdir(path, 0777);
    for (unsigned i = 0; i < parts; i++)
        if (write_part(path, i, parts, count, &err) != TARN_OK) return fail(&err);
    return 0;
}
