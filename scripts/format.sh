#!/bin/sh
# Runs clang-format over all C files; with --check, it only reports what would change.
set -eu
cd "$(dirname "$0")/.."
files=$(find include src cli tests fuzz examples bench python -name '*.[ch]' ! -name unicode_tables.h)
if [ "${1:-}" = --check ]; then
    # shellcheck disable=SC2086
    clang-format-14 --dry-run --Werror $files
else
    # shellcheck disable=SC2086
    clang-format-14 -i $files
fi
