#ifndef QUIRE_BENCHMARKS_SQLITE_H
#define QUIRE_BENCHMARKS_SQLITE_H

#include <sqlite3.h>

// SQLITE_STATIC is a cast of an integer to a function pointer, which Swift does not import. The benchmark
// keeps the bytes alive until the statement has run, so SQLite need not copy them.
static inline int bind_text_static(
    sqlite3_stmt *statement, int index, const char *text, int count) {
    return sqlite3_bind_text(statement, index, text, count, SQLITE_STATIC);
}

static inline int bind_blob_static(
    sqlite3_stmt *statement, int index, const void *bytes, int count) {
    return sqlite3_bind_blob(statement, index, bytes, count, SQLITE_STATIC);
}

#endif
