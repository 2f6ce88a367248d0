/* Runs one fuzz target over every file of a folder and reports the results as TAP. Each
 * file is given to a separate process, so that a crash is one failure. */
#include "common.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[] = "/tmp/tarn-replay-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* Files that a killed target leaves are removed with this folder. */
static void make_scratch(void)
{
    CHECK(mkdtemp(scratch));
    setenv("TMPDIR", scratch, 1);
}

static void drop_scratch(void)
{
    nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static uint8_t *read_file(const char *path, size_t *out_size)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    CHECK(f && fstat(fileno(f), &st) == 0);
    *out_size = (size_t)st.st_size;
    uint8_t *data = malloc(*out_size ? *out_size : 1);
    CHECK(data && fread(data, 1, *out_size, f) == *out_size);
    fclose(f);
    return data;
}

static void run_file(const char *path)
{
    size_t size;
    uint8_t *data = read_file(path, &size);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    exit(0);
}

static int run_apart(const char *folder, const char *name)
{
    char path[4096];
    int status = -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) run_file(path);
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    struct dirent **files;
    int failures = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int count = scandir(argv[1], &files, is_file, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: cannot list %s\n", argv[0], argv[1]);
        return 2;
    }
    make_scratch();
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        int good = run_apart(argv[1], files[i]->d_name);
        printf("%s %d - %s\n", good ? "ok" : "not ok", i + 1, files[i]->d_name);
        failures += !good;
        free(files[i]);
    }
    free(files);
    drop_scratch();
    return failures > 0;
}
