/* A separate folder for each test, in the scratch folder. */
#ifndef TARN_TESTS_OWN_FOLDER_H
#define TARN_TESTS_OWN_FOLDER_H

#include "support.h"

extern char dir[512];

int own_folder(void **state); /* a setup */
#define IN_OWN_FOLDER(test) cmocka_unit_test_setup(test, own_folder)

/* A path in it, valid until the eighth next call. */
const char *in(const char *name);

/* The number of files in a folder: those whose names begin with a dot, or all. 0 if the
 * folder does not exist. */
size_t count_files(const char *folder, bool hidden);

#endif
