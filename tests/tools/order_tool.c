/* Driven by the interop tests: each line of standard input is an order, as NAME=VALUE
 * words, and each line of standard output is "length: samples..." or "!status message".
 *
 *   count kind seed epoch rank world ranks batch equal draws block window chunk pool
 * rounds outer mix: numbers, but kind by name and seed with a sign; buckets weights
 * classes lengths: lists with commas; from n: which samples to show (all) */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/tarn.h>

#include "../unit/asking.h"

typedef struct request {
    uint64_t count, from, n;
    bool has_n;
    tarn_order_options o;
} request;

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    if (errno || end == text) {
        fprintf(stderr, "order_tool: no number: %s\n", text);
        exit(3);
    }
    return n;
}

/* Items of eight bytes; kind 'd' for doubles, 'i' for integers. */
static void *list(const char *text, char kind, size_t *out_n)
{
    size_t n = 1, i = 0;
    for (const char *p = text; *p; p++)
        n += *p == ',';
    uint64_t *items = calloc(n, 8);
    if (!items) exit(3);
    for (const char *p = text; i < n && *p; p += strcspn(p, ","), p += *p == ',') {
        double d = strtod(p, NULL);
        int64_t v = strtoll(p, NULL, 10);
        if (kind == 'd')
            memcpy(&items[i++], &d, 8);
        else
            memcpy(&items[i++], &v, 8);
    }
    if (out_n) *out_n = i;
    return items;
}

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define IN_OPTIONS(name)                                                                 \
    {                                                                                    \
#name, offsetof(request, o.name)                                                 \
    }
    IN_OPTIONS(epoch),
    IN_OPTIONS(rank),
    IN_OPTIONS(world_size),
    IN_OPTIONS(batch),
    IN_OPTIONS(draws),
    IN_OPTIONS(block),
    IN_OPTIONS(window),
    IN_OPTIONS(chunk),
    IN_OPTIONS(pool),
    IN_OPTIONS(rounds),
    IN_OPTIONS(outer),
    IN_OPTIONS(mix),
    {"count", offsetof(request, count)},
    {"from", offsetof(request, from)},
    {"n", offsetof(request, n)},
};

static void set(request *r, const char *name, const char *value)
{
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (strcmp(name, numbers[k].name) == 0)
            *(uint64_t *)((char *)r + numbers[k].offset) = number(value);
    r->has_n = r->has_n || strcmp(name, "n") == 0;
    if (strcmp(name, "kind") == 0 &&
        tarn_order_kind_find(value, &r->o.kind, NULL) != TARN_OK)
        exit(3);
    if (strcmp(name, "seed") == 0) {
        r->o.negative = value[0] == '-';
        r->o.seed = number(value + r->o.negative);
    }
    if (strcmp(name, "ranks") == 0) r->o.uneven = (tarn_uneven)number(value);
    if (strcmp(name, "equal") == 0) r->o.equal_batches = number(value);
    if (strcmp(name, "buckets") == 0) r->o.buckets = list(value, 'i', &r->o.n_buckets);
    if (strcmp(name, "weights") == 0) r->o.weights = list(value, 'd', NULL);
    if (strcmp(name, "classes") == 0) r->o.classes = list(value, 'i', NULL);
    if (strcmp(name, "lengths") == 0) r->o.lengths = list(value, 'i', NULL);
}

static tarn_status show(const request *r, const tarn_order *order, tarn_error *err)
{
    uint64_t piece[512], length = length_of(order);
    uint64_t left = r->has_n ? r->n : length - r->from, k;
    printf("%llu:", (unsigned long long)length);
    for (uint64_t from = r->from; left > 0; left -= k, from += k) {
        k = left < 512 ? left : 512;
        TARN_TRY(tarn_order_fill(order, from, k, piece, err));
        for (uint64_t i = 0; i < k; i++)
            printf(" %llu", (unsigned long long)piece[i]);
    }
    return TARN_OK;
}

static void answer(char *line)
{
    tarn_error err;
    tarn_order *order;
    request r = {.o = TARN_ORDER_OPTIONS_INIT};
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        char *value = strchr(word, '=');
        if (!value) exit(3);
        *value++ = '\0';
        set(&r, word, value);
    }
    tarn_status status = tarn_order_open(r.count, &r.o, &order, &err);
    if (status == TARN_OK) {
        status = show(&r, order, &err);
        tarn_order_close(order);
    }
    if (status != TARN_OK) printf("!%s %s", tarn_status_name(status), err.message);
    putchar('\n');
    free((void *)(uintptr_t)r.o.buckets);
    free((void *)(uintptr_t)r.o.weights);
    free((void *)(uintptr_t)r.o.classes);
    free((void *)(uintptr_t)r.o.lengths);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0)
        answer(line);
    free(line);
    return 0;
}
