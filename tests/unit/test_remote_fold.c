/* URLs of remote folds, without a network. */
#include "support.h"

#include <tarn/folds.h>

#include "itar/remote_place.h"

static void the_text_of_a_url_says_what_it_may_be(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        tarn_remote form;
    } cases[] = {
        {"s3://bucket/birds", TARN_REMOTE_FOLD},
        {"s3://bucket/birds/", TARN_REMOTE_FOLD},
        {"s3://bucket", TARN_REMOTE_FOLD},
        {"s3://bucket/birds:train", TARN_REMOTE_FOLD},
        {"s3://bucket/birds-1.5", TARN_REMOTE_FOLD},
        {"gs://bucket/birds", TARN_REMOTE_FOLD},
        {"s3://bucket/train-*.tar", TARN_REMOTE_SHARDS},
        {"s3://bucket/train-0[0-3].tar", TARN_REMOTE_SHARDS},
        {"s3://bucket/train.taridx", TARN_REMOTE_FOLD},
        {"https://host/birds:train", TARN_REMOTE_FOLD},
        {"https://host:8080/birds:train", TARN_REMOTE_FOLD},
        {"https://host/birds:train?token=a:b/c", TARN_REMOTE_FOLD},
        {"https://host/train.taridx?x=1", TARN_REMOTE_FOLD},
        {"https://host/train.tar", TARN_REMOTE_SHARDS},
        {"https://host/train.tar?x=.gz", TARN_REMOTE_SHARDS},
        {"https://host/train-{000..099}.tar", TARN_REMOTE_SHARDS},
        {"s3://bucket/train-{a,b}.tar", TARN_REMOTE_SHARDS},
        {"s3://a/x-0.tar::s3://a/x-1.tar", TARN_REMOTE_SHARDS},
        {"s3://bucket/x.tar.gz", TARN_REMOTE_NONE},
        {"s3://bucket/x.iac", TARN_REMOTE_NONE},
        {"s3://bucket/train-{0.tar,1.tgz}", TARN_REMOTE_NONE},
        {"s3://bucket/train-{0..9.tar", TARN_REMOTE_NONE},
        {"s3://a/x-0.tar::y-1.tar", TARN_REMOTE_NONE},
        {"https://host/birds", TARN_REMOTE_NONE},
        {"https://host:8080", TARN_REMOTE_NONE},
        {"https://host/x.tar.zst", TARN_REMOTE_NONE},
        {"https://host/?x=y.tar", TARN_REMOTE_NONE},
        {"birds:train", TARN_REMOTE_NONE},
        {"./s3://bucket/x.tar", TARN_REMOTE_NONE},
        {"pipe:cat x.tar", TARN_REMOTE_NONE},
        {"ftp://host/x.tar", TARN_REMOTE_NONE},
        {"", TARN_REMOTE_NONE},
        {NULL, TARN_REMOTE_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (tarn_remote_form(cases[i].path) != cases[i].form)
            fail_msg("%s: %d", cases[i].path, (int)tarn_remote_form(cases[i].path));
}

static void names_of_shards_are_decoded_only_where_urls_encode_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"https://host/a%20b-0.tar?x=/y", "a b-0.tar"},
        {"http://host/100%25-0.tar", "100%-0.tar"},
        {"https://host/bad%zz.tar", "bad%zz.tar"},
        {"s3://bucket/a%20b?-0.tar", "a%20b?-0.tar"},
        {"data/birds?/train-0.tar", "train-0.tar"},
        {"train-0.tar", "train-0.tar"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = tarn__remote_name(cases[i][0]);
        assert_string_equal(name, cases[i][1]);
        free(name);
    }
}

static void a_list_of_urls_has_the_folds_and_the_order_of_a_folder(void **state)
{
    (void)state;
    tarn_folds *folds;
    tarn_error err;
    assert_int_equal(
        tarn_folds_list("https://host/b/train-{10,2,01}.tar?q::https://host/b/val.tar?q",
                        &folds, &err),
        TARN_OK);
    assert_int_equal(folds->count, 2);
    const tarn_listed_fold *train = folds->folds[0];
    assert_string_equal(train->name, "train");
    assert_string_equal(train->index_path, "https://host/b/train.taridx?q");
    assert_int_equal(train->n_shards, 3);
    assert_string_equal(train->shards[0], "https://host/b/train-01.tar?q");
    assert_string_equal(train->shards[1], "https://host/b/train-10.tar?q");
    assert_string_equal(train->shards[2], "https://host/b/train-2.tar?q");
    assert_string_equal(folds->folds[1]->index_path, "https://host/b/val.taridx?q");
    tarn_folds_free(folds);
}

static void what_cannot_be_a_fold_says_what_to_write(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"https://host/a/x-0.tar::https://host/b/x-1.tar", "must be in one folder"},
        {"https://host/a/x-0.tar?a::https://host/a/x-1.tar?b", "must be in one folder"},
        {"https://host/birds:train", "https://host/birds/train-{0000..0099}.tar"},
        {"s3://bucket/*/train-0.tar", "only supported in the last part"},
        {"https://host/x-{0..1}.tar.gz", "compressed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tarn_folds *folds;
        tarn_error err;
        assert_int_not_equal(tarn_folds_list(cases[i][0], &folds, &err), TARN_OK);
        assert_null(folds);
        if (!strstr(err.message, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_of_a_url_says_what_it_may_be),
        cmocka_unit_test(names_of_shards_are_decoded_only_where_urls_encode_them),
        cmocka_unit_test(a_list_of_urls_has_the_folds_and_the_order_of_a_folder),
        cmocka_unit_test(what_cannot_be_a_fold_says_what_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
