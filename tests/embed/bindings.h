/* What bindgen reads. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define TARN_BINDINGS
#include <tarn/tarn.h>
