#!/usr/bin/env python3
"""Prints nanoarrow's source with fixes for what it does wrong when memory runs out.

  nanoarrow.py nanoarrow.c

Each fix must apply exactly once. Otherwise nanoarrow has changed, and this fails, so that nobody builds
without a fix and does not know.
"""
import sys

RESET_VIEW = "{ int code = %s; if (code != NANOARROW_OK) { ArrowArrayViewReset(&array_view); return code; } }"

INIT_VIEW = "ArrowArrayViewInitFromSchema(&array_view, schema, error)"
INIT_ARRAY = "ArrowArrayInitFromArrayView(array, &array_view, error)"

# What is fixed, the text to replace, and what takes its place.
FIXES = [
    ("the buffers of an array are not checked",
     "ArrowMalloc(sizeof(void*) * NANOARROW_MAX_FIXED_BUFFERS);\n",
     """ArrowMalloc(sizeof(void*) * NANOARROW_MAX_FIXED_BUFFERS);
  if (private_data->buffer_data == NULL) {
    ArrowFree(private_data);
    array->release = NULL;
    return ENOMEM;
  }
"""),
    ("a view of a schema leaks when only half of it was made",
     f"NANOARROW_RETURN_NOT_OK({INIT_VIEW});", RESET_VIEW % INIT_VIEW),
    ("a view leaks when the array of it fails",
     f"NANOARROW_RETURN_NOT_OK({INIT_ARRAY});", RESET_VIEW % INIT_ARRAY),
    ("a stream is released before it was made, and loses the schema it took",
     "\n      ArrowBasicArrayStreamRelease(array_stream);",
     "\n      ArrowSchemaMove(&private_data->schema, schema);"),
    ("children are counted only when all of them exist, so the others are never released",
     "\n  memset(array->children, 0, n_children * sizeof(struct ArrowArray*));\n",
     """
  memset(array->children, 0, n_children * sizeof(struct ArrowArray*));
  array->n_children = n_children;
"""),
    ("a buffer that cannot grow is lost by its owner (ArrowBufferReserve)",
     "\n  return (uint8_t*)ArrowRealloc(ptr, new_size);",
     """
  uint8_t* grown = (uint8_t*)ArrowRealloc(ptr, new_size);
  if (grown == NULL && new_size > 0) ArrowFree(ptr);
  return grown;"""),
]


def main(path):
    with open(path, encoding="utf-8") as file:
        source = file.read()
    for what, old, new in FIXES:
        found = source.count(old)
        if found != 1:
            sys.exit(f"{path}: the fix for \"{what}\" applies {found} times, expected once; nanoarrow is not the "
                     f"version in scripts/nanoarrow.txt, or {__file__} must be adapted to a new one")
        source = source.replace(old, new)
    sys.stdout.write(source)


main(sys.argv[1])
