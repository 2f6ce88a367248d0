/* The tarn command: finds the subcommand and runs it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const cli_command *const cli_commands[] = {
    &cli_pack,     &cli_convert, &cli_commit, &cli_split, &cli_merge,
    &cli_index,    &cli_info,    &cli_ls,     &cli_get,   &cli_extract,
    &cli_verify,   &cli_browse,  &cli_when,   &cli_at,    &cli_bench,
    &cli_simulate, &cli_cache,   &cli_help,   NULL};

const cli_command *cli_find_command(const char *name)
{
    for (int i = 0; cli_commands[i]; i++)
        if (strcmp(cli_commands[i]->name, name) == 0) return cli_commands[i];
    return NULL;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static int run(const cli_command *command, int argc, char **argv)
{
    cli_args args;
    if (wants_help(argc, argv)) return cli_show_help(command);
    int status = cli_parse(command, argc, argv, &args);
    if (status == CLI_OK) {
        cli_catch_interrupt();
        cli_remote_begin(&args);
        status = command->run(&args);
        cli_remote_end();
    }
    cli_args_free(&args);
    int finished = cli_finish();
    return status != CLI_OK ? status : finished;
}

/* If a standard stream is closed, the next file opened would get its descriptor, and
 * warnings would be written into a shard. The placeholders are opened so that using them
 * fails. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            exit(CLI_DATA);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    (void)tarn_guard_maps();
    if (argc < 2) {
        cli_show_overview(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("tarn %s\n", tarn_version());
        return cli_finish();
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_show_overview(stdout);
    const cli_command *command = cli_find_command(argv[1]);
    if (!command)
        return cli_usage(NULL, "unknown subcommand %s%s", argv[1],
                         cli_guess_command(argv[1]));
    return run(command, argc - 2, argv + 2);
}
