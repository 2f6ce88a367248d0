/* IAC files that were truncated, flipped or forged: the right bytes, or an error. */
#include "iac_help.h"
#include "packing.h"

#include <fcntl.h>
#include <unistd.h>

static void a_flipped_payload_bit_is_noticed(void **state)
{
    (void)state;
    const char *path = scratch_path("flip.iac");
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_verify_report report;
    tarn_iac *pack;
    tarn_view view;
    tarn_iac_batch batch = {0};
    uint64_t row = ROWS - 1;
    size_t size;
    make_pack(path, NULL);
    for (unsigned threads = 1; threads <= 4; threads += 3) {
        tarn_verify_options v = TARN_VERIFY_OPTIONS_INIT;
        v.threads = threads;
        OK(tarn_verify(path, &v, &report, sizeof report, &err));
        assert_int_equal(report.problems, 0);
        assert_int_equal(report.checksummed, ROWS);
    }
    tarn_verify_options repairing = TARN_VERIFY_OPTIONS_INIT;
    repairing.repair = true;
    FAILS(TARN_ERR_USAGE, "a record pack cannot be repaired",
          tarn_verify(path, &repairing, &report, sizeof report, &err));
    unsigned char *bytes = read_file(path, &size);
    bytes[size - 1] ^= 0x10;
    write_file(path, bytes, size);
    free(bytes);
    OK(tarn_verify(path, NULL, &report, sizeof report, &err));
    assert_int_equal(report.problems, 1);
    o.check = true;
    OK(tarn_iac_open(path, &o, &pack, &err));
    FAILS(TARN_ERR_CHECKSUM, "record 49", tarn_iac_view(pack, row, false, &view, &err));
    FAILS(TARN_ERR_CHECKSUM, "record 49", tarn_iac_read(pack, &row, 1, &batch, &err));
    tarn_iac_batch_reset(&batch);
    tarn_iac_close(pack);
}

/* Opens, reads every row with its CRC, and uses both tables. Returned payloads must be
 * right; anything else that is wrong must be an error. */
static void use_or_fail(const char *path)
{
    tarn_iac_options o = TARN_IAC_OPTIONS_INIT;
    tarn_iac *pack;
    o.check = true;
    if (tarn_iac_open(path, &o, &pack, &err) != TARN_OK) {
        assert_true(err.message[0] && err.path[0]);
        return;
    }
    for (unsigned i = 0; i < ROWS; i++) {
        unsigned char want[256];
        size_t size;
        tarn_view view;
        payload_of(i, want, &size);
        if (tarn_iac_view(pack, i, false, &view, &err) != TARN_OK) continue;
        assert_int_equal(view.size, size);
        assert_memory_equal(view.data, want, size);
        tarn_view_release(&view);
    }
    for (int t = 0; t < 2; t++)
        for (size_t c = 0; c < iac_columns(pack, t); c++) {
            tarn_view view;
            if (tarn_iac_value(pack, t, c, 0, &view, &err) == TARN_OK)
                tarn_view_release(&view);
        }
    tarn_iac_close(pack);
}

static void cut_anywhere_it_is_an_error(void **state)
{
    (void)state;
    const char *path = scratch_path("cut.iac");
    size_t size;
    tarn_iac *pack;
    make_pack(path, NULL);
    free(read_file(path, &size));
    for (size_t len = size; len > 0; len -= len < 65500 && len > 4200 ? 4093 : 1) {
        assert_int_equal(truncate(path, (off_t)len - 1), 0);
        assert_int_not_equal(tarn_iac_open(path, NULL, &pack, &err), TARN_OK);
        assert_true(err.message[0] && err.path[0]);
    }
}

/* Changes one byte of the file in place: writing it again each time would wait for the
 * disk. */
static void poke(int fd, size_t at, unsigned char value)
{
    assert_int_equal(pwrite(fd, &value, 1, (off_t)at), 1);
}

static void flips_give_right_bytes_or_an_error(void **state)
{
    (void)state;
    const char *path = scratch_path("flips.iac");
    size_t size;
    make_pack(path, NULL);
    unsigned char *bytes = read_file(path, &size);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < size; at++) {
        if (at > 700 && at < 65536) continue; /* padding */
        poke(fd, at, (unsigned char)(bytes[at] ^ (1u << at % 8)));
        use_or_fail(path);
        poke(fd, at, at % 3 == 0 ? 0xff : at % 3 == 1 ? 0x00 : 0x7f);
        use_or_fail(path);
        poke(fd, at, bytes[at]);
    }
    close(fd);
    free(bytes);
}

static void edit_header(const char *path, const unsigned char *bytes, size_t size,
                        const char *old, const char *new)
{
    unsigned char *copy = malloc(size);
    uint32_t length;
    memcpy(copy, bytes, size);
    memcpy(&length, copy + 8, 4);
    char *json = strndup((char *)copy + 16, length), *at = strstr(json, old);
    assert_non_null(at);
    int n = snprintf((char *)copy + 16, 65520, "%.*s%s%s", (int)(at - json), json, new,
                     at + strlen(old));
    length = (uint32_t)n;
    memcpy(copy + 8, &length, 4);
    write_file(path, copy, size);
    free(json);
    free(copy);
}

static void false_headers_are_refused(void **state)
{
    (void)state;
    static const char *const edits[][3] = {
        {"\"version\": 2", "\"version\": 1", "version does not match the magic bytes"},
        {"\"format\": \"IatroCache\"", "\"format\": \"x\"", "format is not"},
        {"\"header_bytes\": 65536", "\"header_bytes\": 4096", "header_bytes"},
        {"\"num_records\": 50", "\"num_records\": 51", "says 51 records"},
        {"\"num_slides\": 1", "\"num_slides\": 2", "says 2 slides"},
        {"\"num_records\": 50", "\"num_records\": 18446744073709551615", "not a number"},
        {"\"num_records\": 50", "\"num_records\": 99999999999",
         "larger than the number of bytes in the file"},
        {"\"num_records\": 50", "\"num_records\": \"50\"", "not a number"},
        {"\"num_records\": 50", "\"x\": 50", "num_records is missing"},
        {"\"slide_table_offset\": 65536", "\"slide_table_offset\": 65544", "not 65536"},
        {"\"data_length\": ", "\"data_length\": 9", "the file ends here"},
        {"\"data_offset\": ", "\"data_offset\": 1", "not where the index table ends"},
        {"\"index_table_offset\": ", "\"index_table_offset\": 1",
         "not where the slide table ends"},
        {"{", "[", ""}};
    const char *path = scratch_path("forged.iac");
    size_t size;
    tarn_iac *pack;
    make_pack(path, NULL);
    unsigned char *bytes = read_file(path, &size);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        edit_header(path, bytes, size, edits[i][0], edits[i][1]);
        tarn_status status = tarn_iac_open(path, NULL, &pack, &err);
        assert_int_not_equal(status, TARN_OK);
        if (!strstr(err.message, edits[i][2]))
            fail_msg("%s: %s", edits[i][1], err.message);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_payload_bit_is_noticed),
        cmocka_unit_test(cut_anywhere_it_is_an_error),
        cmocka_unit_test(flips_give_right_bytes_or_an_error),
        cmocka_unit_test(false_headers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
