/* The shards that fuzzed indexes are opened with, and their true content. There are two
 * folds: "train" is contiguous, "mix" is not. make_corpus.py makes the same bytes, and
 * both sides compare their CRC-32C with the numbers here. */
#ifndef TARN_FUZZ_SHARD_H
#define TARN_FUZZ_SHARD_H

#include "common.h"

enum { MAX_SHARD = 16 << 10, SHARDS = 3, TRAIN_SHARDS = 2 };

/* Two keys with one XXH64. */
#define REST     "________________________"
#define TWIN_ONE "twin_one" REST "twin_one" REST
#define TWIN_TWO "ezbdywnd" REST "rQ#FS-y!" REST

#define TEN(c)     c c c c c c c c c c
#define HUNDRED(c) TEN(TEN(c))

typedef enum naming { PLAIN, PAX_PATH, GNU_NAME, PAX_SIZE } naming;

typedef struct truth {
    unsigned shard; /* 0 and 1 are in train, 2 is in mix */
    const char *key, *field, *name;
    naming how;
    unsigned char letter; /* the payload is this letter, size times */
    size_t size;
    uint64_t offset; /* set when the shards are made */
} truth;

static truth members[] = {
    {0, "a", "txt", "a.txt", PLAIN, 'A', 6, 0},
    {0, "a", "cls", "a.cls", PLAIN, 'B', 1, 0},
    {0, "b", "jpg", "dir/b.JPG", PLAIN, 'C', 600, 0},
    {0, "c", "seg.png", HUNDRED("d") "/c.seg.png", PAX_PATH, 'D', 10, 0},
    {0, "d", "txt", HUNDRED("g") "/d.txt", GNU_NAME, 'E', 512, 0},
    {0, TWIN_ONE, "txt", TWIN_ONE ".txt", PLAIN, 'F', 3, 0},
    {0, TWIN_TWO, "txt", TWIN_TWO ".txt", PLAIN, 'G', 3, 0},
    {0, "p", "bin", "p.bin", PAX_SIZE, 'H', 512, 0},
    {1, "e", "txt", "e.txt", PLAIN, 'I', 0, 0},
    {1, "f", "txt", "f.txt", PLAIN, 'J', 6, 0},
    {1, "f", "cls", "f.cls", PLAIN, 'K', 1, 0},
    {2, "m", "txt", "m.txt", PLAIN, 'L', 4, 0},
    {2, "n", "txt", "n.txt", PLAIN, 'M', 4, 0},
    {2, "m", "cls", "m.cls", PLAIN, 'N', 1, 0},
    {2, TWIN_TWO, "txt", TWIN_TWO ".txt", PLAIN, 'O', 3, 0},
    {2, TWIN_ONE, "txt", TWIN_ONE ".txt", PLAIN, 'P', 3, 0},
    {2, "n", "cls", "n.cls", PLAIN, 'Q', 1, 0},
    {2, TWIN_TWO, "cls", TWIN_TWO ".cls", PLAIN, 'R', 1, 0},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

static const char *const shard_names[SHARDS] = {"train_0.tar", "train_1.tar",
                                                "mix_0.tar"};
static const uint32_t shard_crcs[SHARDS] = {0xc0de8066, 0x03c6ea26, 0x506dfdcc};

typedef struct shard_bytes {
    unsigned char data[MAX_SHARD];
    size_t size;
} shard_bytes;

static unsigned char *add_header(shard_bytes *s, const char *name, char type, size_t size)
{
    unsigned char *h = s->data + s->size;
    size_t len = strlen(name);
    CHECK(s->size + 512 <= sizeof s->data);
    memcpy(h, name, len < 100 ? len : 100);
    memcpy(h + 100, "0000644", 8);
    memcpy(h + 108, "0000000", 8);
    memcpy(h + 116, "0000000", 8);
    snprintf((char *)h + 124, 12, "%011zo", size);
    memcpy(h + 136, "00000000000", 12);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    fix_tar_checksum(h);
    s->size += 512;
    return h;
}

static void add_payload(shard_bytes *s, const void *data, size_t size)
{
    size_t padded = (size + 511) & ~(size_t)511;
    CHECK(s->size + padded <= sizeof s->data);
    memcpy(s->data + s->size, data, size);
    s->size += padded;
}

static void add_pax(shard_bytes *s, const char *key, const char *value)
{
    char record[256];
    size_t body = strlen(key) + strlen(value) + 3, len = body + 2;
    len += len >= 100;
    int n = snprintf(record, sizeof record, "%zu %s=%s\n", len, key, value);
    CHECK(n == (int)len);
    add_header(s, "pax", 'x', len);
    add_payload(s, record, len);
}

static void add_member(shard_bytes *s, truth *m)
{
    unsigned char payload[1024];
    if (m->how == PAX_PATH) add_pax(s, "path", m->name);
    if (m->how == PAX_SIZE) add_pax(s, "size", "512");
    if (m->how == GNU_NAME) {
        add_header(s, "././@LongLink", 'L', strlen(m->name) + 1);
        add_payload(s, m->name, strlen(m->name) + 1);
    }
    m->offset = s->size;
    add_header(s, m->name, '0', m->how == PAX_SIZE ? 0 : m->size);
    memset(payload, m->letter, m->size);
    add_payload(s, payload, m->size);
}

static void make_shard(unsigned number, shard_bytes *s)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < MEMBERS; i++)
        if (members[i].shard == number) add_member(s, &members[i]);
    s->size += 1024;
}

#endif
