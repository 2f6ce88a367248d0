/* The XML that object stores send: elements with text. Attributes, comments and
 * processing instructions are skipped; declarations of document types are refused, and so
 * are all entities but the five of XML and numbers. */
#ifndef TARN_BASE_XML_H
#define TARN_BASE_XML_H

#include <tarn/base.h>

enum { TARN__XML_MAX_DEPTH = 16, TARN__XML_MAX_PATH = 512 };

/* Called at the end of each element, with the names of its parents and its own
 * ("ListBucketResult/Contents/Key", without prefixes of namespaces), and the text
 * directly in it, which ends with a NUL. */
typedef tarn_status tarn__xml_visit(void *context, const char *path, const char *text,
                                    size_t len, tarn_error *err);

/* Reads a document. begin is called at the start of each element, without text; it may be
 * NULL. An error's offset counts from the start. */
TARN_CHECKED tarn_status tarn__xml_read(const char *text, size_t len,
                                        tarn__xml_visit *end, tarn__xml_visit *begin,
                                        void *context, tarn_error *err);

#endif
