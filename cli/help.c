/* tarn help. The help texts, the man pages and the shell completion are generated from
 * the tables of the commands. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

static const char what_path[] =
    "PATH is a folder of shards (DIR, or DIR:FOLD for one of its folds) or a single "
    "file: FILE.tar, FILE.gnz, FILE.iac or (for info, ls and verify) FILE.taridx. PATH "
    "can also be a stream, which is read once from start to end in constant memory: - "
    "(standard input), a URL, a compressed archive, or a list such as "
    "'train-{000..031}.tar' or a.tar::b.tar.gz. Supported URLs are http://, https://, "
    "s3://, gs://, az://, hf://, file: and, with --allow-pipe, pipe:COMMAND.";

static const char exit_status[] =
    "0: success. 1: bad data, or not found. 2: wrong usage. 130: interrupted.";

/* Prints text in lines of at most 80 columns, indented by indent. Empty lines are
 * kept. */
static void put_wrapped(FILE *out, const char *text, int indent)
{
    int column = 0;
    while (*text) {
        if (*text == '\n') {
            fputs(text[1] == '\n' ? "\n\n" : "\n", out);
            text += text[1] == '\n' ? 2 : 1;
            column = 0;
            continue;
        }
        int len = (int)strcspn(text, " \n");
        if (column && column + 1 + len > 80) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%*s%.*s", column ? 1 : indent, "", len, text);
        text += len;
        while (*text == ' ')
            text++;
    }
    fputc('\n', out);
}

static void put_option(const cli_option *o)
{
    char left[64];
    if (!o->name[0]) {
        printf("\n%s:\n", o->help);
        return;
    }
    int n = o->letter ? snprintf(left, sizeof left, "-%c, --%s", o->letter, o->name)
                      : snprintf(left, sizeof left, "    --%s", o->name);
    if (o->value)
        snprintf(left + n, sizeof left - (size_t)n, "%s%s", o->value[0] == '[' ? "" : " ",
                 o->value);
    printf("  %-24s %s\n", left, o->help);
}

int cli_show_help(const cli_command *c)
{
    printf("tarn %s: %s\n\nUsage: tarn %s%s %s\n\n", c->name, c->summary, c->name,
           c->options[0].name ? " [options]" : "", c->words);
    put_wrapped(stdout, c->text, 0);
    if (c->options[0].name && c->options[0].name[0]) printf("\nOptions:\n");
    for (const cli_option *o = c->options; o->name; o++)
        put_option(o);
    printf("\nExamples:\n");
    for (const cli_example *e = c->examples; e->command; e++)
        printf("  %s\n      %s\n", e->command, e->meaning);
    return cli_finish();
}

int cli_show_overview(FILE *out)
{
    fprintf(out,
            "tarn %s: training data in tar shards, array files and record "
            "packs\n\nUsage: tarn SUBCOMMAND [options] PATH ...\n\n",
            tarn_version());
    for (int i = 0; cli_commands[i]; i++)
        fprintf(out, "  %-9s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fputc('\n', out);
    put_wrapped(out, what_path, 0);
    fprintf(out, "\nRun tarn SUBCOMMAND --help for options and examples. Exit status:\n");
    put_wrapped(out, exit_status, 0);
    return out == stdout ? cli_finish() : CLI_OK;
}

/* --- man pages --------------------------------------------------------------------- */

/* Escapes text for troff: dashes, backslashes, and dots at the start of a line. */
static void put_roff(const char *text)
{
    bool line_begins = true;
    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        line_begins = *text == '\n';
        if (*text == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", stdout);
            text++;
        } else if (*text == '-') {
            fputs("\\-", stdout);
        } else if (*text == '\\') {
            fputs("\\e", stdout);
        } else {
            fputc(*text, stdout);
        }
    }
    fputc('\n', stdout);
}

static void put_title(const char *name)
{
    printf(".TH ");
    for (const char *p = name; *p; p++)
        putchar(toupper((unsigned char)*p));
    printf(" 1 \"\" \"tarn %s\" \"User Commands\"\n", tarn_version());
}

static void put_man_option(const cli_option *o)
{
    if (!o->name[0]) {
        printf(".SS ");
        put_roff(o->help);
        return;
    }
    printf(".TP\n");
    if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
    printf("\\fB\\-\\-%s\\fR", o->name);
    if (o->value) printf("%s\\fI%s\\fR", o->value[0] == '[' ? "" : " ", o->value);
    putchar('\n');
    put_roff(o->help);
}

static void put_man_command(const cli_command *c)
{
    char title[64];
    snprintf(title, sizeof title, "tarn-%s", c->name);
    put_title(title);
    printf(".SH NAME\ntarn\\-%s \\- %s\n", c->name, c->summary);
    printf(".SH SYNOPSIS\n\\fBtarn %s\\fR [\\fIoptions\\fR] ", c->name);
    put_roff(c->words);
    printf(".SH DESCRIPTION\n");
    put_roff(c->text);
    if (c->options[0].name) printf(".SH OPTIONS\n");
    for (const cli_option *o = c->options; o->name; o++)
        put_man_option(o);
    printf(".SH EXAMPLES\n");
    for (const cli_example *e = c->examples; e->command; e++) {
        printf(".TP\n\\fB");
        for (const char *p = e->command; *p; p++)
            fputs(*p == '-' ? "\\-" : *p == '\\' ? "\\e" : (char[]){*p, 0}, stdout);
        printf("\\fR\n");
        put_roff(e->meaning);
    }
    printf(".SH EXIT STATUS\n");
    put_roff(exit_status);
    printf(".SH SEE ALSO\n.BR tarn (1)\n");
}

static void put_man_overview(void)
{
    put_title("tarn");
    printf(".SH NAME\ntarn \\- training data in tar shards, array files and record "
           "packs\n.SH SYNOPSIS\n\\fBtarn\\fR \\fIsubcommand\\fR [\\fIoptions\\fR] "
           "\\fIpath\\fR ...\n.SH SUBCOMMANDS\n");
    for (int i = 0; cli_commands[i]; i++) {
        printf(".TP\n.BR tarn\\-%s (1)\n", cli_commands[i]->name);
        put_roff(cli_commands[i]->summary);
    }
    printf(".SH PATHS\n");
    put_roff(what_path);
    printf(".SH EXIT STATUS\n");
    put_roff(exit_status);
}

/* --- completion -------------------------------------------------------------------- */

static void put_completion(void)
{
    printf("# bash completion for tarn, generated by: tarn help --bash\n_tarn()\n{\n    "
           "local word=${COMP_WORDS[COMP_CWORD]} options=\"\"\n    if ((COMP_CWORD == "
           "1)); then\n        COMPREPLY=($(compgen -W \"");
    for (int i = 0; cli_commands[i]; i++)
        printf("%s ", cli_commands[i]->name);
    printf("--help --version\" -- \"$word\"))\n        return\n    fi\n"
           "    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; cli_commands[i]; i++) {
        printf("    %s) options=\"--help", cli_commands[i]->name);
        for (const cli_option *o = cli_commands[i]->options; o->name; o++)
            if (o->name[0]) printf(" --%s", o->name);
        printf("\" ;;\n");
    }
    printf("    esac\n"
           "    if [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n}\n"
           "complete -o filenames -F _tarn tarn\n");
}

static int run(const cli_args *args)
{
    if (cli_has(args, "bash")) {
        put_completion();
        return CLI_OK;
    }
    const cli_command *about = args->n_words ? cli_find_command(args->words[0]) : NULL;
    if (args->n_words && !about)
        return cli_usage(args->command, "unknown subcommand %s%s", args->words[0],
                         cli_guess_command(args->words[0]));
    if (cli_has(args, "man")) {
        if (about)
            put_man_command(about);
        else
            put_man_overview();
        return CLI_OK;
    }
    return about ? cli_show_help(about) : cli_show_overview(stdout);
}

static const cli_option options[] = {
    {"man", 0, NULL, "print the manual page in troff format"},
    {"bash", 0, NULL, "print the bash completion script"},
    {NULL, 0, NULL, NULL}};

static const cli_example examples[] = {
    {"tarn help index", "options and examples of tarn index"},
    {"tarn help --bash > ~/.local/share/bash-completion/completions/tarn",
     "complete subcommands and options in bash"},
    {NULL, NULL}};

const cli_command cli_help = {
    .name = "help",
    .words = "[SUBCOMMAND]",
    .max_words = 1,
    .summary = "show help for a subcommand",
    .text = "Without SUBCOMMAND, lists all subcommands.",
    .options = options,
    .examples = examples,
    .run = run,
};
