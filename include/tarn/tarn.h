/* tarn.h: includes all headers of the library. A dataset (dataset.h) is a set of samples
 * in any of the supported files. order.h defines the order of the samples, loader.h makes
 * batches of them, schedule.h says which batch has which samples, image.h decodes images,
 * and members.h gives access to samples as they are stored. folds.h lists the folds of a
 * folder, index.h builds and saves their indexes, and verify.h checks their bytes. pack.h
 * makes folds from files, and write.h from samples; commit.h publishes what several
 * processes wrote. tar.h and samples.h read archives as streams, source.h reads and
 * writes bytes by URL, cache.h lists and clears caches of remote files, simulate.h counts
 * the requests of a training run, codec.h converts fields to values, and collate.h makes
 * one array of the arrays of many samples. gnz.h is for named arrays; iac.h and
 * textpair.h are for records with Arrow tables. All types work in the same four steps:
 * options, open, get, close. */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <tarn/array.h>
#include <tarn/arrow.h>
#include <tarn/base.h>
#include <tarn/cache.h>
#include <tarn/codec.h>
#include <tarn/collate.h>
#include <tarn/commit.h>
#include <tarn/dataset.h>
#include <tarn/folds.h>
#include <tarn/gnz.h>
#include <tarn/iac.h>
#include <tarn/image.h>
#include <tarn/index.h>
#include <tarn/loader.h>
#include <tarn/members.h>
#include <tarn/order.h>
#include <tarn/pack.h>
#include <tarn/samples.h>
#include <tarn/schedule.h>
#include <tarn/simulate.h>
#include <tarn/source.h>
#include <tarn/tar.h>
#include <tarn/textpair.h>
#include <tarn/verify.h>
#include <tarn/write.h>

#endif
