/* A folder of its own for each test, in the scratch folder. */
#ifndef TARN_TESTS_OWN_FOLDER_H
#define TARN_TESTS_OWN_FOLDER_H

#include "support.h"

extern char dir[512];

int own_folder(void **state); /* a setup */
#define IN_OWN_FOLDER(test) cmocka_unit_test_setup(test, own_folder)

/* A path in it, until the eighth next call. */
const char *in(const char *name);

/* Files of a folder: those whose names begin with a dot, or all. None if it is not there.
 */
size_t count_files(const char *folder, bool hidden);

#endif
