/* The fold writer with existing journals, links and shards in its folder, from others or
 * from itself. */
#include "foldwriting.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"

static void finished_shards_that_were_to_replace_the_fold_are_not_added(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 5);
    o.overwrite = true;
    suspend(o, "b", 5);
    o.overwrite = false;
    o.resume = true;
    FAILS(TARN_ERR_EXISTS, "overwrite to start over", try_open("train", &o));
    assert_int_equal(read_fold("train", "a"), 5);
    /* Numbered after the fold, but with its keys. */
    o.resume = false;
    o.overwrite = true;
    o.start = 50;
    suspend(o, "a", 5);
    o.overwrite = false;
    o.resume = true;
    FAILS(TARN_ERR_AMBIGUOUS, "twice", try_open("train", &o));
    assert_int_equal(read_fold("train", "a"), 5);
    o = quick();
    o.overwrite = true;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "c", 0, 2);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "c"), 2);
    assert_int_equal(count_files(dir, false), 3);
}

static void a_shard_that_came_meanwhile_is_not_written_over(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 2);
    o.append = true;
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 2, 2);
    write_file(in("train_0001.tar"), "mine", 4);
    FAILS(TARN_ERR_EXISTS, "train_0001.tar", tarn_fold_writer_finish(w, NULL, 0, &err));
    size_t size;
    unsigned char *mine = read_file(in("train_0001.tar"), &size);
    assert_int_equal(size, 4);
    free(mine);
    assert_int_equal(rename(in("train_0001.tar"), in("mine")), 0);
    assert_int_equal(read_fold("train", "a"), 2);
    o.append = false;
    o.resume = true;
    w = open_fold("train", &o);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "a"), 4);
    assert_int_equal(count_files(dir, true), 0);
}

/* Temporary files of dead writers of this fold are removed, all others stay. */
static void what_dead_writers_left_is_swept(void **state)
{
    (void)state;
    static const char *const dead[] = {"..train_0000.tar.part.tmp-1-0-00000000",
                                       "..train_00.tar.part.tmp-1-0-00000000",
                                       "..train_9.tar.part.tmp-1",
                                       "..train.tarn-commit.tmp-1-0-00000000",
                                       ".train.taridx.tmp-1-0-00000000",
                                       ".train.tarsum.tmp-1-0-00000000"};
    static const char *const others[] = {
        "..val_0000.tar.part.tmp-1",  "..val.tarn-commit.tmp-1",
        ".val.taridx.tmp-1",          ".train.tmp-1",
        "..train_0000.tar.tmp-1",     ".train.txt.tmp-1",
        "train.taridx.tmp-1",         "..trainee_0000.tar.part.tmp-1",
        ".train_0000.tar.part.tmp-1", ".train.taridx.tmp"};
    enum {
        DEAD = sizeof dead / sizeof dead[0],
        OTHERS = sizeof others / sizeof others[0]
    };
    tarn_fold_writer_options o = quick();
    for (int i = 0; i < DEAD; i++)
        write_file(in(dead[i]), "x", 1);
    for (int i = 0; i < OTHERS; i++)
        write_file(in(others[i]), "x", 1);
    tarn_fold_writer *w = open_fold("train", &o);
    for (int i = 0; i < DEAD; i++)
        assert_false(is_there(dead[i]));
    tarn_fold_writer_abandon(w, false, NULL);
    for (int i = 0; i < OTHERS; i++)
        assert_true(is_there(others[i]));
}

/* Writes a journal with a correct checksum, whatever its content. */
static void forge_journal(const char *text)
{
    char whole[4096];
    int len = snprintf(whole, sizeof whole, "tarn commit 1\n%s", text);
    snprintf(whole + len, sizeof whole - (size_t)len, "%08x\n",
             tarn__crc32c(0, whole, (size_t)len));
    write_file(in(".train.tarn-commit"), whole, strlen(whole));
}

static void a_journal_moves_nothing_but_shards_of_its_fold(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "-\n+../victim.tar\n",  "-\n-../victim.tar\n",   "-\n+train_0/../victim.tar\n",
        "-\n-victim.tar\n",     "-\n+val_0000.tar\n",    "-\n-val_0000.tar\n",
        "-\n-victim\n",         "-\n+.train_0000.tar\n", "-\n-train.taridx\n",
        "-\n*train_0000.tar\n", "-\n-/etc/passwd\n"};
    char outside[1024];
    snprintf(outside, sizeof outside, "%s/../victim.tar", dir);
    write_file(outside, "x", 1);
    make_fold("val", "v", 2);
    write_file(in("victim.tar"), "x", 1);
    write_file(in("victim"), "x", 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tarn_fold_writer_options o = quick();
        forge_journal(texts[i]);
        o.resume = true;
        FAILS(TARN_ERR_FORMAT, "damaged", try_open("train", &o));
        o.resume = false;
        FAILS(TARN_ERR_FORMAT, "damaged", try_open("train", &o));
        o.overwrite = true;
        tarn_fold_writer *w = open_fold("train", &o);
        add_some(w, "a", 0, 3);
        if (i % 2)
            tarn_fold_writer_abandon(w, false, NULL);
        else
            OK(tarn_fold_writer_finish(w, NULL, 0, &err));
        assert_int_equal(access(outside, F_OK), 0);
        assert_true(is_there("victim.tar") && is_there("victim"));
        assert_int_equal(read_fold("val", "v"), 2);
        assert_int_equal(count_files(dir, true), 0);
        if (i % 2) continue;
        assert_int_equal(read_fold("train", "a"), 3);
        remove_fold("train"); /* a journal without an index must count again */
    }
    assert_int_equal(remove(outside), 0);
}

static void journals_that_cannot_be_read_stop_writers_but_not_readers(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "garbage", "tarn commit 1\n-\n00000000\n",
                                        "tarn commit 2\n-\n"};
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 3);
    o.append = true;
    for (int i = 0; i < 8; i++) {
        const char *path = in(".train.tarn-commit");
        if (i < 4) write_file(path, texts[i], strlen(texts[i]));
        if (i == 4) assert_int_equal(mkdir(path, 0777), 0);
        if (i == 5) assert_int_equal(mkfifo(path, 0666), 0);
        if (i == 6) assert_int_equal(symlink("train_0000.tar", path), 0);
        if (i == 7) {
            write_file(path, "", 0);
            assert_int_equal(truncate(path, INT64_C(1) << 40), 0);
        }
        assert_int_equal(read_fold("train", "a"), 3);
        FAILS(TARN_ERR_FORMAT, "tarn-commit", try_open("train", &o));
        assert_int_equal(count_files(dir, true), 1);
        assert_int_equal(remove(in(".train.tarn-commit")), 0);
        assert_int_equal(read_fold("train", "a"), 3);
    }
}

/* The journal of a completed commit hides nothing, and is removed. */
static void a_journal_of_the_past_counts_no_more(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    make_fold("train", "a", 4);
    for (int i = 0; i < 3; i++) {
        forge_journal(i ? "-\n+train_0000.tar\n-train_0001.tar\n"
                        : "0123\n+train_0000.tar\n");
        assert_int_equal(read_fold("train", "a"), 4);
        o.append = i == 0;
        o.resume = i == 1;
        o.overwrite = i == 2;
        tarn_fold_writer *w = open_fold("train", &o);
        tarn_fold_writer_abandon(w, true, NULL);
        assert_int_equal(read_fold("train", "a"), 4);
        assert_int_equal(count_files(dir, true), 0);
    }
}

/* One shard, its index and its sums. */
static void check_empty_fold(void)
{
    tarn_dataset *fold;
    assert_int_equal(count_files(dir, false), 3);
    OK(tarn_dataset_open(in("train.taridx"), NULL, &fold, &err));
    assert_int_equal(tarn_dataset_count(fold), 0);
    tarn_dataset_close(fold);
}

static void a_fold_without_samples_has_an_empty_shard(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    tarn_written written;
    tarn_fold_writer *w = open_fold("train", &o);
    OK(tarn_fold_writer_finish(w, &written, sizeof written, &err));
    assert_int_equal(written.samples, 0);
    check_empty_fold();
    o.overwrite = true;
    w = open_fold("train", &o);
    add_some(w, "a", 0, 4);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    OK(tarn_fold_writer_finish(open_fold("train", &o), NULL, 0, &err));
    check_empty_fold();
}

/* Its shards were removed manually: nothing can be resumed. */
static void a_journal_without_its_shards_goes(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    forge_journal("-\n+train_0000.tar\n+train_0001.tar\n");
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    check_empty_fold();
}

static void the_error_while_names_change_says_whether_the_writer_lives(void **state)
{
    (void)state;
    tarn_folds *found;
    tarn_fold_writer_options o = quick();
    make_fold("train", "x", 4);
    assert_int_equal(remove(in("train.taridx")), 0);
    assert_int_equal(remove(in("train.tarsum")), 0);
    forge_journal("-\n+train_0000.tar\n-train_0001.tar\n");
    FAILS(TARN_ERR_NO_FOLD, "interrupted during the final renames; resume it",
          tarn_folds_list(dir, &found, &err));
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    FAILS(TARN_ERR_NO_FOLD, "fold train is being published or replaced; try again",
          tarn_folds_list(dir, &found, &err));
    tarn_fold_writer_abandon(w, true, NULL);
    FAILS(TARN_ERR_NO_FOLD, "resume it", tarn_folds_list(dir, &found, &err));
}

/* The journal says that a shard of the old fold was to be removed: half of that fold is
 * useless, so it is removed with the new one. */
/* The old fold is gone by then, so only the new one is left. A writer that overwrites
 * publishes it first; a writer that resumes it and abandons discards it. */
static void an_overwrite_that_is_given_up_halfway_leaves_no_half_fold(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        tarn_fold_writer_options o = quick();
        make_fold("train", "a", 4);
        o.overwrite = true;
        suspend(o, "b", 3);
        assert_int_equal(remove(in("train.taridx")), 0);
        assert_int_equal(remove(in("train.tarsum")), 0);
        forge_journal("-\n+train_0000.tar\n-train_0000.tar\n-train_0001.tar\n");
        o.resume = i == 0;
        o.overwrite = i == 1;
        tarn_fold_writer_abandon(open_fold("train", &o), false, NULL);
        assert_int_equal(count_files(dir, false), i == 0 ? 0 : 3);
    }
    tarn_dataset *fold;
    tarn_fold_info info;
    OK(tarn_dataset_open(in("train.taridx"), NULL, &fold, &err));
    OK(tarn_dataset_fold(fold, &info, sizeof info, &err));
    assert_int_equal(info.n_shards, 1);
    tarn_dataset_close(fold);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    char victim[1024], path[1024];
    snprintf(victim, sizeof victim, "%s/victim", dir);
    write_file(victim, "x", 1);
    assert_int_equal(symlink("victim", in(".train.tarn-lock")), 0);
    FAILS(TARN_ERR_IO, "tarn-lock", try_open("train", &o));
    assert_int_equal(remove(in(".train.tarn-lock")), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/.train_0000.tar.part", dir);
        if (i == 0) assert_int_equal(symlink("victim", path), 0);
        if (i == 1) assert_int_equal(symlink("nowhere", path), 0);
        if (i == 2) assert_int_equal(mkfifo(path, 0666), 0);
        FAILS(TARN_ERR_EXISTS, "1 finished shard", try_open("train", &o));
        o.resume = true;
        FAILS(TARN_ERR_UNSUPPORTED, "remove it", try_open("train", &o));
        assert_true(is_there(".train_0000.tar.part"));
        o.resume = false;
        o.overwrite = true;
        tarn_fold_writer *w = open_fold("train", &o);
        add_some(w, "a", 0, 2);
        OK(tarn_fold_writer_finish(w, NULL, 0, &err));
        assert_int_equal(read_fold("train", "a"), 2);
        struct stat st;
        assert_int_equal(lstat(in("train_0000.tar"), &st), 0);
        assert_true(S_ISREG(st.st_mode));
        w = open_fold("train", &o);
        tarn_fold_writer_abandon(w, true, NULL);
        remove_fold("train");
        o.overwrite = false;
    }
    size_t size;
    unsigned char *data = read_file(victim, &size);
    assert_int_equal(size, 1);
    free(data);
}

static void a_finished_shard_that_was_cut_is_not_published(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    suspend(o, "a", 5);
    assert_int_equal(truncate(in(".train_0001.tar.part"), 700), 0);
    o.resume = true;
    FAILS(TARN_ERR_TRUNCATED, ".train_0001.tar.part", try_open("train", &o));
    assert_int_equal(count_files(dir, true), 2);
    assert_int_equal(remove(in(".train_0001.tar.part")), 0);
    tarn_fold_writer *w = open_fold("train", &o);
    add_some(w, "a", 2, 3);
    OK(tarn_fold_writer_finish(w, NULL, 0, &err));
    assert_int_equal(read_fold("train", "a"), 5);
}

static void abandoning_takes_with_it_what_was_resumed(void **state)
{
    (void)state;
    tarn_fold_writer_options o = quick();
    uint64_t shards;
    make_fold("train", "a", 2);
    o.append = true;
    suspend(o, "b", 5);
    o.append = false;
    o.resume = true;
    tarn_fold_writer *w = open_fold("train", &o);
    tarn_fold_writer_abandon(w, true, &shards);
    assert_int_equal(shards, 2);
    tarn_fold_writer_abandon(NULL, true, NULL);
    tarn_fold_writer_abandon(NULL, false, NULL);
    w = open_fold("train", &o);
    add_some(w, "c", 0, 3);
    tarn_fold_writer_abandon(w, false, NULL);
    assert_int_equal(count_files(dir, true), 0);
    assert_int_equal(count_files(dir, false), 3);
    assert_int_equal(read_fold("train", "a"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_OWN_FOLDER(finished_shards_that_were_to_replace_the_fold_are_not_added),
        IN_OWN_FOLDER(a_shard_that_came_meanwhile_is_not_written_over),
        IN_OWN_FOLDER(what_dead_writers_left_is_swept),
        IN_OWN_FOLDER(a_journal_moves_nothing_but_shards_of_its_fold),
        IN_OWN_FOLDER(journals_that_cannot_be_read_stop_writers_but_not_readers),
        IN_OWN_FOLDER(a_journal_of_the_past_counts_no_more),
        IN_OWN_FOLDER(a_fold_without_samples_has_an_empty_shard),
        IN_OWN_FOLDER(a_journal_without_its_shards_goes),
        IN_OWN_FOLDER(the_error_while_names_change_says_whether_the_writer_lives),
        IN_OWN_FOLDER(an_overwrite_that_is_given_up_halfway_leaves_no_half_fold),
        IN_OWN_FOLDER(links_are_not_followed),
        IN_OWN_FOLDER(a_finished_shard_that_was_cut_is_not_published),
        IN_OWN_FOLDER(abandoning_takes_with_it_what_was_resumed),
    };
    return cmocka_run_group_tests_name("foldwrite_folder", tests, NULL, scratch_remove);
}
