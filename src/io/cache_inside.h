/* What the files of the cache share: cache_name.c, cache_map.c, cache_dir.c,
 * cache_room.c, cache_open.c, cache_scan.c, cache_list.c and shardcache.c. The layout of
 * the folder is in docs/internals/remote.md.
 */
#ifndef TARN_IO_CACHE_INSIDE_H
#define TARN_IO_CACHE_INSIDE_H

#include <pthread.h>
#include <sys/types.h>

#include "base/forklock.h"
#include "io/shardcache.h"

#define TARN__CACHE_FOLDER  "tarn-cache-1" /* another format has another number */
#define TARN__CACHE_DATASET "dataset"      /* in the folder of each dataset */
#define TARN__CACHE_USAGE   "usage"
#define TARN__CACHE_MAP     ".blocks"

/* Bytes of the largest object. The tables of blocks in memory take 1/16384 of it. */
#define TARN__MAX_CACHED (UINT64_C(1) << 43)

/* --- Names (cache_name.c) --------------------------------------------------------- */

enum { TARN__CACHE_KEY = 65, TARN__CACHE_NAME = 64, TARN__CACHE_ID = 17 };

typedef struct tarn__cache_names {
    char key[TARN__CACHE_KEY];   /* SHA-256 of URL, ETag, date and size, in hex */
    char data[TARN__CACHE_NAME]; /* URL-VERSION.tar: 16 hex digits each */
    char map[TARN__CACHE_NAME];  /* URL-VERSION.blocks */
} tarn__cache_names;

TARN_CHECKED tarn_status tarn__cache_name(tarn__cache_names *names, const char *url,
                                          const tarn__object_id *id, tarn_error *err);
void tarn__cache_dataset_name(char name[TARN__CACHE_ID], const char *dataset);
bool tarn__cache_is_dataset(const char *name);
/* Whether it has the form URL-VERSION, with any ending. */
bool tarn__cache_is_object(const char *name);
/* Whether it has the form URL-VERSION.blocks. */
bool tarn__cache_is_map(const char *name);

/* --- Maps (cache_map.c) ----------------------------------------------------------- */

/* A map file is a head of one block, then one entry per block of the object. */
typedef struct tarn__cache_entry {
    uint32_t crc; /* CRC-32C of the block */
    uint32_t tag; /* 0: the block is not there */
} tarn__cache_entry;

#define TARN__CACHE_HEAD    4096u
#define TARN__CACHE_DURABLE 1u /* whole: all bytes are there and on the disk */

/* An entry is trusted if its tag is that of the running machine and of this file, with
 * this number and time of creation. Otherwise the machine was restarted, or the file
 * copied, after the block was written, and the block must have the checksum. Never 0 or
 * DURABLE. */
uint32_t tarn__cache_tag(uint32_t boot, int fd);
/* Different after each start of the machine. */
uint32_t tarn__cache_boot(void);

/* What the head of a map says; texts are for people. */
typedef struct tarn__cache_head {
    char url[1200], etag[300], modified[80];
    char data[TARN__CACHE_NAME], key[TARN__CACHE_KEY];
    uint64_t size;
    uint32_t whole; /* 0, DURABLE, or the tag with which all entries were written */
} tarn__cache_head;

uint64_t tarn__cache_blocks(uint64_t size);
/* The size of the whole map file. */
uint64_t tarn__cache_map_size(uint64_t size);

TARN_CHECKED tarn_status tarn__cache_head_write(int fd, const char *path,
                                                const tarn__cache_head *head,
                                                tarn_error *err);
/* TARN_ERR_FORMAT if the map is damaged, TARN_ERR_UNSUPPORTED if a newer tarn wrote it.
 */
TARN_CHECKED tarn_status tarn__cache_head_read(int fd, const char *path,
                                               tarn__cache_head *out, tarn_error *err);
TARN_CHECKED tarn_status tarn__cache_set_whole(int fd, const char *path, uint32_t whole,
                                               tarn_error *err);
/* Entries that the file lacks are zero. */
TARN_CHECKED tarn_status tarn__cache_entries_read(int fd, const char *path,
                                                  tarn__cache_entry *entries,
                                                  uint64_t first, size_t count,
                                                  tarn_error *err);
TARN_CHECKED tarn_status tarn__cache_entries_write(int fd, const char *path,
                                                   const tarn__cache_entry *entries,
                                                   uint64_t first, size_t count,
                                                   tarn_error *err);
/* The length of a block, which is shorter at the end of the object. */
size_t tarn__cache_block_size(uint64_t size, uint64_t block);
/* How many of count blocks from first, which start at data, have the checksums of their
 * entries, from the front. */
size_t tarn__cache_right(const tarn__cache_entry *entries, uint64_t first, size_t count,
                         uint64_t size, const unsigned char *data);

/* --- Locks of files (cache_dir.c) ------------------------------------------------- */

/* Open file description locks: the kernel ends them with the last descriptor, so with
 * the process. type is F_RDLCK, F_WRLCK or F_UNLCK. Never waits: errno is EAGAIN. */
bool tarn__cache_lock(int fd, short type, uint64_t from, uint64_t count);
/* Waits at most ten seconds for a lock that is only held for moments. */
bool tarn__cache_lock_soon(int fd, short type, uint64_t from, uint64_t count);
/* Whether another description holds a lock in the range that excludes a write lock; then
 * *from and *count are its range. */
bool tarn__cache_locked(int fd, uint64_t *from, uint64_t *count);

/* Bytes of the data file that stand for the file as a whole. Bytes of the map file from
 * CLAIMS on stand for the blocks. */
#define TARN__LOCK_USE   0u /* read: open; write: being removed */
#define TARN__LOCK_SETUP 1u /* write: data and map are being created or checked */
#define TARN__CLAIMS     (UINT64_C(1) << 40)

/* --- Folders (cache_dir.c, cache_room.c) ------------------------------------------ */

/* A dataset's folder, open and in use until the cache is closed. */
typedef struct tarn__cacheset {
    char id[TARN__CACHE_ID];
    int fd, lock_fd; /* -1: not there, and it cannot be created */
    struct tarn__cacheset *next;
} tarn__cacheset;

struct tarn__cachedir {
    tarn__forklock lock;
    char *path; /* of FOLDER/tarn-cache-1 */
    int fd;     /* -1: not there, and it cannot be created */
    bool read_only;
    tarn__cache_limits limits;
    uint32_t boot;
    tarn__cacheset *sets;
    struct tarn__cached *objects;
    int usage_fd, slot; /* -1: none */
    int64_t written, flight;
    bool refused;          /* there was no room since the last attempt to make some */
    long long full_until;  /* the disk was full: nothing is claimed before */
    long long notice_from; /* failures are silent before */
    long long evict_from;  /* no eviction before */
    long long evict_pause; /* longer after each attempt that freed nothing */
    struct tarn__cachedir *next, **back;
};

TARN_CHECKED tarn_status tarn__cacheset_get(tarn__cachedir *dir, const char *dataset,
                                            tarn__cacheset **out, tarn_error *err);
/* Whether fd still has the name. */
bool tarn__cache_named(int folder, const char *name, int fd);

/* Registers with the handler of fork. */
void tarn__cachedir_link(tarn__cachedir *dir);
void tarn__cachedir_unlink(tarn__cachedir *dir);
/* In a child of fork: forgets the parent's claims of all objects of the folder. */
void tarn__cached_forget(tarn__cachedir *dir);

/* Room for at most blocks more blocks, which are then in flight. The caller holds the
 * lock. */
uint64_t tarn__cache_reserve(tarn__cachedir *dir, uint64_t blocks);
/* Blocks in flight were stored, or not. The caller holds the lock. */
void tarn__cache_settle(tarn__cachedir *dir, uint64_t blocks, bool stored);
/* Files other than stored blocks grew, or were removed. The caller holds the lock. */
void tarn__cache_account(tarn__cachedir *dir, int64_t bytes);
/* Evicts what may be evicted if there was no room. Without the lock. */
void tarn__cache_make_room(tarn__cachedir *dir);
/* Takes a slot of the usage file; the first process counts what is there. False: another
 * process does that at the moment. If all slots are taken, nothing can be stored. */
bool tarn__cache_usage_open(tarn__cachedir *dir);

/* --- Objects (cache_open.c, shardcache.c) ------------------------------------------ */

struct tarn__cached {
    tarn__cachedir *dir;
    tarn__cacheset *set;
    tarn__cache_names names;
    char *path, *map_path; /* for messages, and for users of the file */
    uint64_t size, blocks;
    int fd, map_fd; /* -1: not open; map_fd also after fork, and if all was there */
    dev_t map_device;
    ino_t map_inode;
    uint32_t tag;
    bool writable; /* false: what is missing is not stored */
    atomic_bool complete;
    atomic_bool lost; /* another program changed the size of the file: nothing is there */
    _Atomic uint64_t *there; /* one bit for each block */
    uint64_t *mine;          /* claimed by this process */
    uint64_t claimed;        /* how many */
    uint64_t scan;           /* all blocks before it are there */
    bool news;               /* blocks of other processes were found since then */
    pthread_cond_t moved;    /* a claim ended */
    struct tarn__cached *next, **back;
};

#define TARN__CACHE_WORD 64u /* bits of a word in there and mine */

/* Opens the map again where it is not open. */
bool tarn__cached_map(tarn__cached *c);

/* --- What is in the folder (cache_scan.c) ----------------------------------------- */

/* A file or a dataset's folder. */
typedef struct tarn__cache_item {
    char name[TARN__CACHE_NAME];
    uint64_t disk; /* bytes on the disk */
    int64_t used;  /* when it was modified, in ns */
} tarn__cache_item;

typedef struct tarn__cache_items {
    tarn__cache_item *items;
    size_t count, capacity;
} tarn__cache_items;

/* Sorted by name, so that the files of one object, and the versions of one URL, are
 * neighbours. */
TARN_CHECKED tarn_status tarn__cache_files(int set, tarn__cache_items *out,
                                           tarn_error *err);
/* The datasets; used is when they were opened or closed, and the longest unused is
 * first. */
TARN_CHECKED tarn_status tarn__cache_sets(int root, tarn__cache_items *out,
                                          tarn_error *err);
void tarn__cache_items_reset(tarn__cache_items *list);
/* Opens the folder of a dataset, or returns -1. */
int tarn__cache_set_open(int root, const char *id);
/* The end of the object, or (with versions) of the URL, that begins with file i. */
size_t tarn__cache_same(const tarn__cache_items *list, size_t i, bool versions);
/* Removes an object that nobody has open, and returns its bytes on the disk. */
uint64_t tarn__cache_remove(int set, const tarn__cache_items *list, size_t i, size_t end);
/* Removes versions that have a newer one, until as many bytes are free. */
uint64_t tarn__cache_remove_old(int set, uint64_t bytes);
/* Removes a dataset that nobody uses, or so much of it; returns the bytes. */
uint64_t tarn__cache_remove_set(int root, const char *id, uint64_t bytes);

/* Bytes on the disk. */
uint64_t tarn__cache_on_disk(int root);
/* Removes old versions of objects, then the datasets that were not used for the longest
 * time, until as many bytes are free. Nothing that is open is removed. Returns how many
 * bytes that were. */
uint64_t tarn__cache_evict(int root, uint64_t bytes);

#endif
