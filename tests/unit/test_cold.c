/* Reading data that is not in memory: many ranges at once by every method, with and
 * without rings, across forks and threads; and datasets that read their batches in this
 * way. */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/loader.h>
#include <tarn/write.h>

#include "dataset/dataset.h"
#include "io/cold.h"
#include "io/file.h"
#include "io/ranges.h"
#include "io/uring.h"

static tarn_error err;

enum { FILES = 3, FILE_SIZE = (2 << 20) + 777, PIECES = 150, THREADS = 8 };

static unsigned char byte_at(unsigned file, uint64_t offset)
{
    return (unsigned char)((offset * 2654435761u + file * 40503u) >> 11);
}

typedef struct files {
    tarn__file files[FILES];
    tarn__ranges_file gathered[FILES];
} files;

/* Readahead that the library requests: bytes, and the most in one call. */
static atomic_size_t told_bytes, told_most;

/* Replaces the system's function. */
int posix_fadvise(int fd, off_t offset, off_t len, int advice)
{
    if (advice == POSIX_FADV_WILLNEED) {
        told_bytes += (size_t)len;
        if ((size_t)len > told_most) told_most = (size_t)len;
    }
    return syscall(SYS_fadvise64, fd, offset, len, advice) == 0 ? 0 : errno;
}

/* The same for maps: calls, bytes, and the most in one call. */
static atomic_size_t mapped_calls, mapped_bytes, mapped_most;

int posix_madvise(void *data, size_t len, int advice)
{
    if (advice == POSIX_MADV_WILLNEED) {
        mapped_calls++;
        mapped_bytes += len;
        if (len > mapped_most) mapped_most = len;
    }
    return madvise(data, len, advice) == 0 ? 0 : errno;
}

static void evict(const char *path)
{
    int fd = open(path, O_RDONLY);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void open_files(files *f)
{
    unsigned char *data = malloc(FILE_SIZE);
    for (unsigned i = 0; i < FILES; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%u", i);
        for (size_t k = 0; k < FILE_SIZE; k++)
            data[k] = byte_at(i, k);
        const char *path = scratch_path(name);
        write_file(path, data, FILE_SIZE);
        evict(path);
        OK(tarn__file_open(&f->files[i], path, &err));
        f->gathered[i] =
            (tarn__ranges_file){f->files[i].path, NULL, f->files[i].fd, -1, 0};
        /* The last one simulates a file system without direct reads. */
        if (i + 1 < FILES)
            f->gathered[i].direct =
                tarn__open_direct(f->files[i].fd, &f->gathered[i].align);
    }
    free(data);
}

static void close_files(files *f)
{
    for (unsigned i = 0; i < FILES; i++) {
        if (f->gathered[i].direct >= 0) close(f->gathered[i].direct);
        tarn__file_close(&f->files[i]);
    }
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (*state >> 33) % below;
}

static int by_place(const void *a, const void *b)
{
    const tarn__ranges_piece *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Ranges of all sizes, some empty, some at the very end, some twice, some so close that
 * they are read together; sorted by offset or not. */
static size_t make_pieces(const files *f, uint64_t seed, bool sorted,
                          tarn__ranges_piece *pieces, unsigned char *memory, size_t room)
{
    static const size_t sizes[] = {0, 1, 511, 512, 4096, 10240, 100000, 300000, 700001};
    size_t n = 0, used = 0;
    for (; n < PIECES; n++) {
        tarn__ranges_piece *p = &pieces[n];
        if (n && draw(&seed, 8) == 0) {
            *p = p[-1];
        } else {
            size_t kind = draw(&seed, 40);
            p->size = sizes[kind < 9 ? kind : 5 + (kind & 1) * draw(&seed, 2)];
            p->head = draw(&seed, 2) ? 0 : 512 * draw(&seed, 4);
            p->file = &f->gathered[draw(&seed, FILES)];
            p->offset = draw(&seed, FILE_SIZE - p->head - p->size + 1);
            if (draw(&seed, 16) == 0) p->offset = FILE_SIZE - p->head - p->size;
        }
        if (used + p->head + p->size > room) break;
        p->head_to = memory + used;
        p->to = memory + used + p->head;
        used += p->head + p->size;
    }
    if (sorted) qsort(pieces, n, sizeof *pieces, by_place);
    memset(memory, 0xee, used);
    return n;
}

static bool are_right(const files *f, const tarn__ranges_piece *pieces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tarn__ranges_piece *p = &pieces[i];
        unsigned file = (unsigned)(p->file - f->gathered);
        for (size_t k = 0; k < p->head; k++)
            if (p->head_to[k] != byte_at(file, p->offset + k)) return false;
        for (size_t k = 0; k < p->size; k++)
            if (p->to[k] != byte_at(file, p->offset + p->head + k)) return false;
    }
    return true;
}

enum { ROOM = 4 << 20 };

/* Whether a method reads the right bytes. */
static bool reads_right(const files *f, tarn__ranges *g, tarn__ranges_way way,
                        uint64_t seed, bool sorted)
{
    tarn_error why;
    tarn__ranges_piece *pieces = calloc(PIECES, sizeof *pieces);
    unsigned char *memory = malloc(ROOM);
    size_t n = make_pieces(f, seed, sorted, pieces, memory, ROOM);
    bool good =
        tarn__ranges_read(g, way, pieces, n, &why) == TARN_OK && are_right(f, pieces, n);
    free(pieces);
    free(memory);
    return good;
}

static void every_way_gives_the_files_bytes(void **state)
{
    (void)state;
    files f;
    open_files(&f);
    for (int way = 0; way < TARN__RANGES_WAYS; way++) {
        tarn__ranges g = {0};
        for (uint64_t seed = 1; seed <= 6; seed++)
            assert_true(reads_right(&f, &g, (tarn__ranges_way)way, seed, seed % 2));
        assert_int_equal(g.stats.ring_errno, 0);
        uint64_t by_ring =
            g.stats.pieces[TARN__RANGES_RING] + g.stats.pieces[TARN__RANGES_DIRECT];
        assert_true((by_ring > 0) == (way >= TARN__RANGES_RING));
        if (way == TARN__RANGES_DIRECT && f.gathered[0].direct >= 0)
            assert_true(g.stats.pieces[TARN__RANGES_DIRECT] > 0);
        OK(tarn__ranges_read(&g, (tarn__ranges_way)way, NULL, 0, &err));
        tarn__ranges_reset(&g);
    }
    close_files(&f);
}

static void the_first_piece_that_ends_early_is_the_error(void **state)
{
    (void)state;
    files f;
    open_files(&f);
    unsigned char *memory = malloc(ROOM);
    assert_int_equal(truncate(f.files[1].path, 1 << 20), 0);
    for (int way = 0; way < TARN__RANGES_WAYS; way++) {
        tarn__ranges g = {0};
        tarn__ranges_piece pieces[200];
        for (size_t i = 0; i < 200; i++)
            pieces[i] = (tarn__ranges_piece){.file = &f.gathered[i < 100 ? 0 : 1],
                                             .offset = i % 100 * 20480,
                                             .size = 5000,
                                             .to = memory + i * 5000};
        /* The file has 1048576 bytes: range 51 begins inside and ends outside. */
        FAILS(TARN_ERR_TRUNCATED, "found 4096 of",
              tarn__ranges_read(&g, (tarn__ranges_way)way, pieces, 200, &err));
        assert_string_equal(err.path, f.files[1].path);
        assert_int_equal(err.offset, 51 * 20480);
        /* The same object can be used again. */
        OK(tarn__ranges_read(&g, (tarn__ranges_way)way, pieces, 100, &err));
        assert_true(are_right(&f, pieces, 100));
        tarn__ranges_reset(&g);
    }
    free(memory);
    close_files(&f);
}

static void what_cannot_be_read_names_the_file(void **state)
{
    (void)state;
    files f;
    unsigned char memory[600];
    open_files(&f);
    tarn__ranges_file closed = {f.files[0].path, NULL, open(f.files[0].path, O_WRONLY),
                                -1, 0};
    tarn__ranges_file refused = {f.files[0].path, NULL, f.files[0].fd, closed.fd, 512};
    for (int way = 0; way < TARN__RANGES_WAYS; way++) {
        tarn__ranges g = {0};
        tarn__ranges_piece piece = {&closed, 4096, 0, 600, NULL, memory};
        FAILS(TARN_ERR_IO, "cannot read",
              tarn__ranges_read(&g, (tarn__ranges_way)way, &piece, 1, &err));
        assert_string_equal(err.path, f.files[0].path);
        assert_int_equal(err.offset, 4096);
        /* Direct reads that are refused later are replaced by others. */
        piece.file = &refused;
        OK(tarn__ranges_read(&g, (tarn__ranges_way)way, &piece, 1, &err));
        assert_int_equal(memory[7], byte_at(0, 4096 + 7));
        piece.offset = UINT64_MAX - 100;
        FAILS(TARN_ERR_FORMAT, "larger than any file",
              tarn__ranges_read(&g, (tarn__ranges_way)way, &piece, 1, &err));
        tarn__ranges_reset(&g);
    }
    close(closed.fd);
    close_files(&f);
}

/* --- Without rings ----------------------------------------------------------------- */

/* Makes io_uring_setup fail for this process, as containers do. */
static bool forbid_rings(int with)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)with),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int child_status(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void where_rings_are_forbidden_reads_are_announced_and_reported(void **state)
{
    (void)state;
    static const int errors[] = {EPERM, ENOSYS, EACCES};
    files f;
    open_files(&f);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            tarn__ranges g = {0};
            if (!forbid_rings(errors[i])) _exit(77);
            bool good = reads_right(&f, &g, TARN__RANGES_DIRECT, 3, true) &&
                        reads_right(&f, &g, TARN__RANGES_RING, 4, true) &&
                        g.stats.ring_errno == errors[i] &&
                        g.stats.pieces[TARN__RANGES_ADVISED] > 0 &&
                        g.stats.pieces[TARN__RANGES_DIRECT] == 0 && g.ring == NULL;
            tarn__ranges_reset(&g);
            _exit(!good);
        }
        int status = child_status(pid);
        assert_true(status == 0 || status == 77);
        if (status == 77) print_message("# no seccomp filters here\n");
    }
    close_files(&f);
}

static void a_child_makes_a_ring_of_its_own(void **state)
{
    (void)state;
    files f;
    tarn__ranges g = {0};
    open_files(&f);
    assert_true(reads_right(&f, &g, TARN__RANGES_DIRECT, 1, true));
    struct tarn__uring *ring = g.ring;
    pid_t pid = fork();
    if (pid == 0) {
        bool good = true;
        for (uint64_t i = 0; good && i < 5; i++)
            good = reads_right(&f, &g, TARN__RANGES_DIRECT, i, true);
        good = good && g.ring && tarn__uring_is_ours(g.ring) && !g.stats.ring_errno;
        tarn__ranges_reset(&g);
        _exit(!good);
    }
    for (uint64_t i = 0; i < 5; i++)
        assert_true(reads_right(&f, &g, TARN__RANGES_DIRECT, 100 + i, true));
    assert_int_equal(child_status(pid), 0);
    assert_ptr_equal(g.ring, ring);
    /* A child that only frees what it inherited. */
    if ((pid = fork()) == 0) {
        tarn__ranges_reset(&g);
        _exit(0);
    }
    assert_int_equal(child_status(pid), 0);
    assert_true(reads_right(&f, &g, TARN__RANGES_DIRECT, 9, true));
    tarn__ranges_reset(&g);
    close_files(&f);
}

typedef struct reader {
    const files *f;
    uint64_t seed;
    bool good;
} reader;

static void *read_some(void *context)
{
    reader *r = context;
    tarn__ranges g = {0};
    r->good = true;
    for (uint64_t i = 0; i < 3 && r->good; i++)
        r->good = reads_right(r->f, &g, TARN__RANGES_DIRECT, r->seed * 10 + i, i % 2);
    tarn__ranges_reset(&g);
    return NULL;
}

static void threads_have_rings_of_their_own(void **state)
{
    (void)state;
    files f;
    pthread_t ids[THREADS];
    reader readers[THREADS];
    open_files(&f);
    for (unsigned i = 0; i < THREADS; i++) {
        readers[i] = (reader){&f, i, false};
        assert_int_equal(pthread_create(&ids[i], NULL, read_some, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_true(readers[i].good);
    close_files(&f);
}

/* --- When each method is used ------------------------------------------------------- */

/* Items whose number is below *state are in memory. */
static bool below_is_resident(void *state, const tarn__item *item)
{
    return item->number < *(uint32_t *)state;
}

static tarn__cold_way choose(const tarn__cold *c, uint32_t resident, uint64_t apart)
{
    enum { COUNT = 64 };
    tarn__item items[COUNT];
    tarn__batch_io io = {0};
    tarn__target to = {.total = COUNT * 1000, .io = &io};
    for (uint32_t i = 0; i < COUNT; i++)
        items[i] = (tarn__item){.number = i, .spot = {.offset = i * apart, .size = 1000}};
    return tarn__cold_choose(c, below_is_resident, &resident, items, COUNT, &to);
}

static void data_is_read_as_memory_and_the_caller_say(void **state)
{
    (void)state;
    enum { FAR = 100000, CLOSE = 1500 };
    tarn__cold small = {.keep = true}, large = {.keep = false};
    assert_int_equal(choose(&small, 64, FAR), TARN__COLD_COPY);
    assert_int_equal(choose(&small, 0, FAR), TARN__COLD_ANNOUNCE);
    assert_int_equal(choose(&small, 0, CLOSE), TARN__COLD_COPY);
    assert_int_equal(choose(&small, 50, FAR), TARN__COLD_ANNOUNCE);
    assert_int_equal(choose(&large, 64, FAR), TARN__COLD_COPY);
    assert_int_equal(choose(&large, 0, FAR), TARN__COLD_GATHER);
    assert_int_equal(choose(&large, 0, CLOSE), TARN__COLD_GATHER);
    assert_int_equal(choose(&large, 50, FAR), TARN__COLD_ANNOUNCE);
    large.announced = true;
    assert_int_equal(choose(&large, 0, FAR), TARN__COLD_ANNOUNCE);
    tarn__cold told = {.always = true, .keep = true};
    assert_int_equal(choose(&told, 64, FAR), TARN__COLD_GATHER);
    told.announced = true;
    assert_int_equal(choose(&told, 0, FAR), TARN__COLD_ANNOUNCE);
    tarn__cold mapped = {.never = true};
    assert_int_equal(choose(&mapped, 0, FAR), TARN__COLD_COPY);
    mapped.always = true;
    assert_int_equal(choose(&mapped, 0, FAR), TARN__COLD_ANNOUNCE);
}

/* While data is in memory, one item per MB is checked. */
static void warm_data_is_seldom_asked_about(void **state)
{
    (void)state;
    tarn__cold c = {.keep = true};
    tarn__item items[64] = {0};
    tarn__batch_io io = {0};
    tarn__target to = {.total = 64 << 10, .io = &io};
    uint32_t resident = 1;
    for (int i = 0; i < 5; i++)
        assert_int_equal(
            tarn__cold_choose(&c, below_is_resident, &resident, items, 64, &to),
            TARN__COLD_COPY);
    resident = 0;
    int batches = 0;
    while (tarn__cold_choose(&c, below_is_resident, &resident, items, 64, &to) ==
           TARN__COLD_COPY) {
        items[63].spot.offset = UINT32_MAX;
        assert_true(++batches < 17);
    }
    assert_true(batches > 8);
}

/* --- Datasets ---------------------------------------------------------------------- */

enum { SAMPLES = 300 };

static size_t size_of(unsigned i)
{
    return i % 50 == 7 ? 0 : i % 60 == 9 ? 400000 : i * 37 % 5000;
}

/* A fold of two fields; with pax, a header before each member that the check reads. */
static void make_fold(const char *folder, unsigned shards, bool pax, bool sums)
{
    char path[600];
    char *paths[64];
    unsigned char *data = calloc(1, 400000);
    mkdir(scratch_path(folder), 0755);
    for (unsigned s = 0; s < shards; s++) {
        tarball t = {0};
        for (unsigned i = s * SAMPLES / shards; i < (s + 1) * SAMPLES / shards; i++) {
            char name[200];
            for (size_t k = 0; k < size_of(i); k++)
                data[k] = byte_at(i, k);
            snprintf(name, sizeof name, "%05u.bin", i);
            if (pax) {
                char full[200];
                snprintf(full, sizeof full, "%0120u/%05u.bin", 0u, i);
                tarball_pax(&t, 'x', "path", full);
            }
            tarball_header(&t, name, '0', size_of(i));
            tarball_payload(&t, data, size_of(i));
            snprintf(name, sizeof name, "%05u.cls", i);
            tarball_file(&t, name, "7");
        }
        tarball_end(&t);
        snprintf(path, sizeof path, "%s/t_%04u.tar", folder, s);
        save_tar(&t, scratch_path(path));
        tarball_reset(&t);
        evict(scratch_path(path));
        paths[s] = strdup(scratch_path(path));
    }
    tarn_index_options io = TARN_INDEX_OPTIONS_INIT;
    io.sums = sums;
    snprintf(path, sizeof path, "%s/t.taridx", folder);
    OK(tarn_index_build((const char *const *)paths, shards, &io, scratch_path(path), NULL,
                        NULL, 0, &err));
    for (unsigned s = 0; s < shards; s++) {
        evict(paths[s]);
        free(paths[s]);
    }
    free(data);
}

static tarn_dataset *open_fold(const char *folder, tarn_io how, bool cold, bool check)
{
    tarn_dataset *d;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    o.io = how;
    o.cold = cold;
    o.check = check;
    OK(tarn_dataset_open(scratch_path(folder), &o, &d, &err));
    assert_int_equal(tarn_dataset_count(d), SAMPLES);
    return d;
}

/* Without cmocka, so that threads may call it. */
static bool batch_is_right(tarn_dataset *d, tarn_dataset_batch *b, uint64_t seed,
                           tarn_error *why)
{
    uint64_t samples[97];
    uint32_t bin, cls;
    if (tarn_dataset_field_find(d, "bin", &bin, why) != TARN_OK ||
        tarn_dataset_field_find(d, "cls", &cls, why) != TARN_OK)
        return false;
    uint32_t fields[] = {bin, cls};
    for (size_t i = 0; i < 97; i++)
        samples[i] = draw(&seed, SAMPLES);
    if (tarn_dataset_read(d, samples, 97, fields, 2, b, why) != TARN_OK) return false;
    for (size_t i = 0; i < 97; i++) {
        uint64_t at = b->offsets[2 * i], size = b->offsets[2 * i + 1] - at;
        if (size != size_of((unsigned)samples[i]) || b->data[at + size] != '7')
            return false;
        for (uint64_t k = 0; k < size; k++)
            if (b->data[at + k] != byte_at((unsigned)samples[i], k)) return false;
    }
    return true;
}

static void cold_folds_give_the_same_batches(void **state)
{
    (void)state;
    make_fold("plain", 3, false, true);
    make_fold("pax", 3, true, true);
    make_fold("bare", 3, true, false);
    static const char *const names[] = {"plain", "pax", "bare"};
    for (size_t n = 0; n < 3; n++)
        for (int how = TARN_IO_AUTO; how <= TARN_IO_READ; how++)
            for (int kind = 0; kind < 4; kind++) {
                bool cold = kind & 1, check = kind & 2 && n < 2;
                tarn_dataset *d = open_fold(names[n], (tarn_io)how, cold, check);
                tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
                tarn__read_stats stats;
                for (uint64_t seed = 0; seed < 2; seed++)
                    assert_true(batch_is_right(d, &b, seed, &err));
                stats = tarn__batch_stats(&b);
                assert_int_equal(stats.ring_errno, 0);
                assert_int_equal(stats.copied + stats.announced + stats.direct +
                                     stats.ring,
                                 2 * 2 * 97);
                if (cold && how != TARN_IO_MAP)
                    assert_true(stats.direct + stats.ring > 0);
                if (cold && how == TARN_IO_MAP) assert_true(stats.announced > 0);
                tarn_dataset_batch_reset(&b);
                stats = tarn__batch_stats(&b);
                assert_int_equal(stats.copied, 0);
                tarn_dataset_close(d);
            }
}

static void a_fold_out_of_memory_is_noticed(void **state)
{
    (void)state;
    tarn__file file;
    tarn__read_stats stats;
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    make_fold("noticed", 1, false, true);
    OK(tarn__file_open(&file, scratch_path("noticed/t_0000.tar"), &err));
    bool evicted = !tarn__is_cached(&file); /* not on tmpfs */
    tarn__file_close(&file);
    tarn_dataset *d = open_fold("noticed", TARN_IO_AUTO, false, false);
    assert_true(batch_is_right(d, &b, 1, &err));
    stats = tarn__batch_stats(&b);
    if (evicted) assert_int_equal(stats.announced, 2 * 97);
    for (uint64_t seed = 2; seed < 60; seed++)
        assert_true(batch_is_right(d, &b, seed, &err));
    stats = tarn__batch_stats(&b);
    assert_true(stats.copied > 40 * 2 * 97);
    tarn_dataset_batch_reset(&b);
    tarn_dataset_close(d);
}

static void patch(const char *name, uint64_t offset, const char *text)
{
    int fd = open(scratch_path(name), O_WRONLY);
    assert_int_equal(pwrite(fd, text, strlen(text), (off_t)offset), strlen(text));
    close(fd);
}

static void cold_folds_report_what_is_wrong_and_where(void **state)
{
    (void)state;
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    uint64_t samples[] = {299, 3, 1, 2};
    make_fold("wrong", 2, false, true);
    /* Sample 0 is empty, so sample 1's header is after two members: 512, 512 + 512. */
    uint64_t header = 1536, payload = header + 512;
    tarn_dataset *d = open_fold("wrong", TARN_IO_AUTO, true, true);
    OK(tarn_dataset_read(d, samples, 4, NULL, 0, &b, &err));
    patch("wrong/t_0000.tar", payload, "????");
    FAILS(TARN_ERR_CHECKSUM, "its bytes have changed",
          tarn_dataset_read(d, samples, 4, NULL, 0, &b, &err));
    assert_int_equal(err.offset, header);
    tarn_dataset_close(d);

    d = open_fold("wrong", TARN_IO_AUTO, true, false);
    /* Opens both shards: a shard that is changed before it is opened is refused as a
     * whole. */
    OK(tarn_dataset_read(d, (const uint64_t[]){5, 298}, 2, NULL, 0, &b, &err));
    patch("wrong/t_0000.tar", header, "x");
    FAILS(TARN_ERR_STALE, "row 2 of the index",
          tarn_dataset_read(d, samples, 4, NULL, 0, &b, &err));
    assert_non_null(strstr(err.path, "t_0000.tar"));
    assert_int_equal(err.offset, header);
    patch("wrong/t_0000.tar", header, "0");
    OK(tarn_dataset_read(d, samples, 4, NULL, 0, &b, &err));

    assert_int_equal(truncate(scratch_path("wrong/t_0001.tar"), 70000), 0);
    FAILS(TARN_ERR_STALE, "found 70000 bytes",
          tarn_dataset_read(d, samples, 4, NULL, 0, &b, &err));
    assert_non_null(strstr(err.path, "t_0001.tar"));
    tarn_dataset_batch_reset(&b);
    tarn_dataset_close(d);
}

typedef struct set_reader {
    tarn_dataset *d;
    unsigned seed;
    bool good;
} set_reader;

static void *read_batches(void *context)
{
    set_reader *r = context;
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    tarn_error why;
    r->good = true;
    for (unsigned i = 0; i < 6 && r->good; i++)
        r->good = batch_is_right(r->d, &b, r->seed * 100 + i, &why);
    tarn_dataset_batch_reset(&b);
    return NULL;
}

/* Two descriptors for a shard, and fewer of them than shards. */
static void cold_threads_share_few_descriptors(void **state)
{
    (void)state;
    struct rlimit old, low;
    pthread_t ids[THREADS];
    set_reader readers[THREADS];
    make_fold("many", 60, false, true);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 96; /* of which the fold uses a quarter */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
        tarn_dataset *d = open_fold("many", TARN_IO_AUTO, true, false);
        for (int i = 0; i < threads; i++) {
            readers[i] = (set_reader){d, (unsigned)i + 1, false};
            assert_int_equal(pthread_create(&ids[i], NULL, read_batches, &readers[i]), 0);
        }
        for (int i = 0; i < threads; i++)
            pthread_join(ids[i], NULL);
        for (int i = 0; i < threads; i++)
            assert_true(readers[i].good);
        tarn_dataset_close(d);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a_dataset_is_read_on_in_a_child(void **state)
{
    (void)state;
    make_fold("forked", 3, false, true);
    tarn_dataset *d = open_fold("forked", TARN_IO_AUTO, true, false);
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    assert_true(batch_is_right(d, &b, 1, &err));
    pid_t pid = fork();
    if (pid == 0) {
        tarn__read_stats stats;
        bool good = batch_is_right(d, &b, 2, &err) && batch_is_right(d, &b, 3, &err);
        stats = tarn__batch_stats(&b);
        good = good && stats.ring_errno == 0;
        tarn_dataset_batch_reset(&b);
        tarn_dataset_close(d);
        _exit(!good);
    }
    for (uint64_t seed = 4; seed < 8; seed++)
        assert_true(batch_is_right(d, &b, seed, &err));
    assert_int_equal(child_status(pid), 0);
    tarn_dataset_batch_reset(&b);
    tarn_dataset_close(d);
}

enum { PARTS = 3 };

/* A mix of a fold, an array file and an IAC file. */
static void read_everything(bool cold, bool ahead, tarn_dataset_batch *out)
{
    static const char *const paths[] = {"01_basic:train", "gnz/basic.gnz",
                                        "iac/made_by_0.1.4.iac"};
    tarn_dataset *parts[PARTS], *mix;
    tarn_dataset_options o = TARN_DATASET_OPTIONS_INIT;
    tarn_mix_options mo = TARN_MIX_OPTIONS_INIT;
    size_t wants = 0;
    o.cold = cold;
    for (int i = 0; i < PARTS; i++)
        OK(tarn_dataset_open(data_path(paths[i]), &o, &parts[i], &err));
    OK(tarn_dataset_mix(parts, PARTS, &mo, &mix, &err));
    uint64_t count = tarn_dataset_count(mix);
    tarn_place place;
    tarn__want *list = calloc(count * 8, sizeof *list);
    for (uint64_t s = 0; s < count; s++) {
        if (ahead) OK(tarn_dataset_prefetch(mix, &s, 1, NULL, 0, &err));
        for (uint32_t f = 0; tarn_dataset_field(mix, f) && wants < count * 8; f++)
            if (tarn_dataset_locate(mix, s, f, &place, sizeof place, NULL) == TARN_OK)
                list[wants++] = (tarn__want){s, f};
    }
    assert_true(wants > count);
    OK(tarn__dataset_read(mix, list, wants, out, &err));
    free(list);
    tarn_dataset_close(mix);
    for (int i = 0; i < PARTS; i++)
        tarn_dataset_close(parts[i]);
}

static void cold_mixes_give_the_same_bytes(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        tarn_dataset_batch warm = TARN_DATASET_BATCH_INIT, cold = TARN_DATASET_BATCH_INIT;
        tarn__read_stats stats;
        read_everything(false, false, &warm);
        read_everything(true, ahead, &cold);
        assert_int_equal(warm.count, cold.count);
        assert_memory_equal(warm.offsets, cold.offsets,
                            (warm.count + 1) * sizeof *warm.offsets);
        assert_memory_equal(warm.data, cold.data, warm.offsets[warm.count]);
        stats = tarn__batch_stats(&cold);
        assert_true(ahead ? stats.announced > 0 : stats.direct + stats.ring > 0);
        tarn_dataset_batch_reset(&warm);
        tarn_dataset_batch_reset(&cold);
    }
}

static void prefetching_skips_missing_samples(void **state)
{
    (void)state;
    make_fold("ahead", 2, false, true);
    tarn_dataset *d = open_fold("ahead", TARN_IO_AUTO, false, false);
    tarn_dataset_batch b = TARN_DATASET_BATCH_INIT;
    uint64_t samples[] = {3, 299, SAMPLES, UINT64_MAX, 3, 0};
    uint32_t fields[] = {0, 99, 1};
    OK(tarn_dataset_prefetch(d, samples, 6, fields, 3, &err));
    OK(tarn_dataset_prefetch(d, samples, 6, NULL, 0, &err));
    OK(tarn_dataset_prefetch(d, samples, 0, NULL, 0, &err));
    FAILS(TARN_ERR_USAGE, "to prefetch",
          tarn_dataset_prefetch(d, samples, SIZE_MAX, NULL, 0, &err));
    assert_int_equal(truncate(scratch_path("ahead/t_0001.tar"), 5), 0);
    OK(tarn_dataset_prefetch(d, samples, 6, NULL, 0, &err));
    tarn_dataset_batch_reset(&b);
    tarn_dataset_close(d);
}

/* Otherwise reading a large dataset once would make all later random batches slower. */
static void announcing_in_file_order_does_not_change_how_batches_are_read(void **state)
{
    (void)state;
    tarn__file file;
    uint64_t samples[64];
    make_fold("pass", 1, false, true);
    OK(tarn__file_open(&file, scratch_path("pass/t_0000.tar"), &err));
    bool evicted = !tarn__is_cached(&file); /* not on tmpfs */
    tarn__file_close(&file);
    tarn_dataset *d = open_fold("pass", TARN_IO_AUTO, false, false);
    atomic_bool *announced = &d->source->files.cold.announced;
    for (uint64_t i = 0; i < 64; i++)
        samples[i] = i;
    told_bytes = 0;
    OK(tarn_dataset_prefetch(d, samples, 64, NULL, 0, &err));
    if (evicted) assert_true(told_bytes > 0);
    assert_false(atomic_load(announced));
    for (uint64_t i = 0; i < 64; i++)
        samples[i] = 100 + i * 37 % 200;
    OK(tarn_dataset_prefetch(d, samples, 64, NULL, 0, &err));
    if (evicted) assert_true(atomic_load(announced));
    tarn_dataset_close(d);
}

/* Large enough for an index of more than 256 KB, which is mapped. */
enum { MANY = 9000 };

static void make_many(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    tarn_fold_writer *w;
    o.no_sync = o.overwrite = true;
    OK(tarn_fold_writer_open(scratch_path("many"), "t", &o, &w, &err));
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "%06d", i * 7919 % MANY);
        tarn_field field = {"cls", "1", 1, NULL};
        OK(tarn_fold_writer_add(w, key, &field, 1, &err));
    }
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
}

static tarn_dataset *open_many(void)
{
    tarn_dataset *d;
    OK(tarn_dataset_open(scratch_path("many"), NULL, &d, &err));
    assert_int_equal(tarn_dataset_count(d), MANY);
    return d;
}

static void get_in_turn(tarn_dataset *d, bool forwards)
{
    mapped_calls = mapped_bytes = mapped_most = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        tarn_view v;
        OK(tarn_dataset_get(d, forwards ? i : MANY - 1 - i, 0, &v, &err));
        tarn_view_release(&v);
    }
}

static void an_index_is_announced_in_small_steps_as_it_is_used(void **state)
{
    (void)state;
    const size_t step = 64 << 10, rows = 32 * MANY;
    make_many();
    told_bytes = told_most = 0;
    tarn_dataset *d = open_many();
    assert_true(told_bytes > 0 && told_most <= 128 << 10);
    get_in_turn(d, true);
    assert_true(mapped_calls >= rows / step - 2 && mapped_bytes > rows / 2);
    assert_true(mapped_most <= step + (4 << 10));
    get_in_turn(d, true); /* all pages are checked */
    assert_int_equal(mapped_calls, 0);
    tarn_dataset_close(d);
    d = open_many();
    get_in_turn(d, false); /* nothing would be read soon */
    assert_int_equal(mapped_calls, 0);
    tarn_dataset_close(d);
}

/* The system drops requests beyond its readahead, 128 KB by default. */
static void views_of_a_loader_are_announced_in_small_pieces(void **state)
{
    (void)state;
    make_fold("views", 2, false, true);
    tarn_dataset *d = open_fold("views", TARN_IO_AUTO, true, false);
    tarn_loader *l;
    tarn_batch *b;
    const tarn_load_field field = {"bin", TARN_LOAD_VIEWS, NULL};
    tarn_loader_options o = TARN_LOADER_OPTIONS_INIT;
    size_t seen = 0;
    o.batch = 50;
    o.epochs = 1;
    o.fields = &field;
    o.n_fields = 1;
    told_bytes = told_most = 0;
    OK(tarn_loader_open(d, &o, &l, &err));
    while (tarn_loader_next(l, TARN_NO_TIMEOUT, &b, &err) == TARN_OK) {
        for (size_t i = 0; i < b->count; i++)
            seen += b->columns[0].views[i].size;
        tarn_batch_release(b);
    }
    assert_true(seen > 1 << 20 && told_bytes >= seen);
    assert_true(told_most > 0 && told_most <= 128 << 10);
    tarn_loader_close(l);
    tarn_dataset_close(d);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_files_bytes),
        cmocka_unit_test(the_first_piece_that_ends_early_is_the_error),
        cmocka_unit_test(what_cannot_be_read_names_the_file),
        cmocka_unit_test(where_rings_are_forbidden_reads_are_announced_and_reported),
        cmocka_unit_test(a_child_makes_a_ring_of_its_own),
        cmocka_unit_test(threads_have_rings_of_their_own),
        cmocka_unit_test(data_is_read_as_memory_and_the_caller_say),
        cmocka_unit_test(warm_data_is_seldom_asked_about),
        cmocka_unit_test(a_fold_out_of_memory_is_noticed),
        cmocka_unit_test(cold_folds_give_the_same_batches),
        cmocka_unit_test(cold_folds_report_what_is_wrong_and_where),
        cmocka_unit_test(cold_threads_share_few_descriptors),
        cmocka_unit_test(a_dataset_is_read_on_in_a_child),
        cmocka_unit_test(cold_mixes_give_the_same_bytes),
        cmocka_unit_test(prefetching_skips_missing_samples),
        cmocka_unit_test(announcing_in_file_order_does_not_change_how_batches_are_read),
        cmocka_unit_test(an_index_is_announced_in_small_steps_as_it_is_used),
        cmocka_unit_test(views_of_a_loader_are_announced_in_small_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
