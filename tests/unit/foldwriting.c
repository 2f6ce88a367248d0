/* Writes and reads folds for the tests of the fold writer. */
#include "foldwriting.h"

#include <sys/stat.h>

tarn_error err;

bool is_there(const char *name)
{
    struct stat st;
    return lstat(in(name), &st) == 0;
}

tarn_fold_writer_options quick(void)
{
    tarn_fold_writer_options o = TARN_FOLD_WRITER_OPTIONS_INIT;
    o.no_sync = true;
    o.max_count = 2;
    return o;
}

tarn_fold_writer *open_fold(const char *fold, const tarn_fold_writer_options *o)
{
    tarn_fold_writer *w = NULL;
    OK(tarn_fold_writer_open(dir, fold, o, &w, &err));
    return w;
}

tarn_status try_open(const char *fold, const tarn_fold_writer_options *o)
{
    tarn_fold_writer *w = NULL;
    tarn_status status = tarn_fold_writer_open(dir, fold, o, &w, &err);
    if (status == TARN_OK) tarn_fold_writer_abandon(w, false, NULL);
    return status;
}

tarn_status add(tarn_fold_writer *w, const char *key)
{
    tarn_field field = {"txt", key, strlen(key), NULL};
    return tarn_fold_writer_add(w, key, &field, 1, &err);
}

void add_some(tarn_fold_writer *w, const char *prefix, int from, int count)
{
    char key[64];
    for (int i = from; i < from + count; i++) {
        snprintf(key, sizeof key, "%s%02d", prefix, i);
        OK(add(w, key));
    }
}

void make_fold(const char *fold, const char *prefix, int count)
{
    tarn_fold_writer_options o = quick();
    tarn_fold_writer *w = open_fold(fold, &o);
    add_some(w, prefix, 0, count);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
}

void suspend(tarn_fold_writer_options o, const char *prefix, int count)
{
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, prefix, 0, count);
    tarn_fold_writer_abandon(w, true, NULL);
}

uint64_t read_fold(const char *fold, const char *prefix)
{
    char path[1024], key[64];
    tarn_dataset *f;
    snprintf(path, sizeof path, "%s:%s", dir, fold);
    OK(tarn_dataset_open(path, NULL, &f, &err));
    uint64_t count = tarn_dataset_count(f), sample;
    for (uint64_t i = 0; prefix && i < count; i++) {
        tarn_stored member;
        tarn_view view;
        size_t n;
        snprintf(key, sizeof key, "%s%02d", prefix, (int)i);
        OK(tarn_dataset_find(f, (const char *const[]){key}, 1, &sample, NULL, &err));
        OK(tarn_dataset_members(f, sample, &member, 1, &n, &err));
        OK(tarn_dataset_get(f, sample, member.field, &view, &err));
        assert_int_equal(view.size, strlen(key));
        assert_memory_equal(view.data, key, view.size);
        tarn_view_release(&view);
    }
    tarn_dataset_close(f);
    return count;
}

void remove_fold(const char *fold)
{
    char path[1024];
    tarn_folds *f;
    snprintf(path, sizeof path, "%s:%s", dir, fold);
    OK(tarn_folds_list(path, &f, &err));
    for (size_t i = 0; i < f->folds[0]->n_shards; i++)
        assert_int_equal(remove(f->folds[0]->shards[i]), 0);
    assert_int_equal(remove(f->folds[0]->index_path), 0);
    tarn_folds_free(f);
    snprintf(path, sizeof path, "%s/%s.tarsum", dir, fold);
    assert_int_equal(remove(path), 0);
}
