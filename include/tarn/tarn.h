/* tarn.h: the whole library. A fold is opened (fold.h), its index built and saved
 * (index.h), its bytes checked (verify.h); single archives are read with tar.h. Each
 * noun has the same four moves: options, open, get, close. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/array.h>
#include <tarn/arrow.h>
#include <tarn/base.h>
#include <tarn/fold.h>
#include <tarn/iac.h>
#include <tarn/index.h>
#include <tarn/tar.h>
#include <tarn/textpair.h>
#include <tarn/verify.h>

#endif
