#ifndef QUIRE_CLINUX_H
#define QUIRE_CLINUX_H

// What Linux and glibc have and Swift's Glibc module does not show.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static inline int quire_renameat2(
    int from_directory, const char *from, int to_directory, const char *to, unsigned int flags) {
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

#define QUIRE_RENAME_NOREPLACE 1u
#define QUIRE_RENAME_EXCHANGE 2u

#endif
