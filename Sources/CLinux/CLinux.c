#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "CLinux.h"

// Builds that are not optimized were seen to leave keys up to 11,000 bytes down.
#define QUIRE_WIPED_STACK 16384

int quire_inotify_open(void) { return inotify_init1(IN_NONBLOCK | IN_CLOEXEC); }

int quire_inotify_add(int queue, const char *path, uint32_t kinds) {
    return inotify_add_watch(queue, path, kinds | IN_MASK_ADD);
}

int quire_local_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

static int quire_local_address(const char *path, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    address->sun_family = AF_UNIX;
    strcpy(address->sun_path, path);
    return 0;
}

int quire_local_bind(int descriptor, const char *path) {
    struct sockaddr_un address;
    if (quire_local_address(path, &address) != 0) return -1;
    return bind(descriptor, (const struct sockaddr *)&address, sizeof address);
}

int quire_local_connect(int descriptor, const char *path) {
    struct sockaddr_un address;
    if (quire_local_address(path, &address) != 0) return -1;
    return connect(descriptor, (const struct sockaddr *)&address, sizeof address);
}

int quire_accept(int descriptor) {
    return accept4(descriptor, NULL, NULL, SOCK_CLOEXEC);
}

ssize_t quire_send(int descriptor, const void *bytes, size_t count) {
    return send(descriptor, bytes, count, MSG_NOSIGNAL);
}

int quire_socket_timeout(int descriptor, long milliseconds) {
    struct timeval time = {milliseconds / 1000, milliseconds % 1000 * 1000};
    if (setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) != 0) return -1;
    return setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

int quire_peer_user(int descriptor, unsigned int *user) {
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return -1;
    *user = credentials.uid;
    return 0;
}

void quire_wipe_freed_blocks(size_t smallest, size_t greatest, int count) {
    struct block {
        struct block *next;
    } *taken = NULL;
    // glibc has a list for every 16 bytes.
    for (size_t size = smallest; size <= greatest; size += 16) {
        for (int index = 0; index < count; index++) {
            struct block *block = malloc(size);
            if (block == NULL) break;
            explicit_bzero(block, malloc_usable_size(block));
            block->next = taken;
            taken = block;
        }
    }
    while (taken != NULL) {
        struct block *next = taken->next;
        free(taken);
        taken = next;
    }
}

// The registers too: the dynamic linker puts them on the stack when a function is called for the first time.
__attribute__((noinline, zero_call_used_regs("all"))) void quire_wipe_stack(void) {
    char bytes[QUIRE_WIPED_STACK];
    explicit_bzero(bytes, sizeof bytes);
}
