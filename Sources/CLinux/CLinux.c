#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "CLinux.h"

// Builds that are not optimized were seen to leave keys up to 11,000 bytes down.
#define QUIRE_WIPED_STACK 16384

ssize_t quire_getrandom(void *bytes, size_t count) {
    return (ssize_t)syscall(SYS_getrandom, bytes, count, 0);
}

int quire_renameat2(
    int from_directory, const char *from, int to_directory, const char *to, unsigned int flags) {
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, flags);
}

int quire_openat(int directory, const char *path, int flags, unsigned int mode) {
    return openat(directory, path, flags | O_CLOEXEC, (mode_t)mode);
}

int quire_openat_beneath(int directory, const char *path, int flags, unsigned int mode) {
    struct open_how how;
    memset(&how, 0, sizeof how);
    how.flags = (uint64_t)(flags | O_CLOEXEC);
    how.mode = (flags & O_CREAT) ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

int quire_open_folder_path(int directory, const char *path) {
    return openat(directory, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int quire_open_folder_path_beneath(int directory, const char *path) {
    return quire_openat_beneath(directory, path, O_PATH | O_DIRECTORY, 0);
}

int quire_birth_time(const char *path, int64_t *nanoseconds) {
    struct statx status;
    if (statx(AT_FDCWD, path, 0, STATX_BTIME, &status) != 0) return -1;
    *nanoseconds = 0;
    if (status.stx_mask & STATX_BTIME)
        *nanoseconds = (int64_t)((uint64_t)status.stx_btime.tv_sec * 1000000000u + status.stx_btime.tv_nsec);
    return 0;
}

ssize_t quire_copy_file_range(int from, int to, size_t count) {
    return copy_file_range(from, NULL, to, NULL, count, 0);
}

int quire_clone(int from, int to) { return ioctl(to, FICLONE, from); }

int quire_memory_file(const char *name) {
    return (int)syscall(SYS_memfd_create, name, 1u /* MFD_CLOEXEC */);
}

long quire_key_make(const char *description, const void *payload, size_t count) {
    return syscall(SYS_add_key, "user", description, payload, count, KEY_SPEC_THREAD_KEYRING);
}

long quire_key_remove_from_thread(long key) {
    return syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_THREAD_KEYRING);
}

long quire_keyring_add(long key) {
    return syscall(SYS_keyctl, KEYCTL_LINK, key, KEY_SPEC_USER_KEYRING);
}

long quire_keyring_remove(long key) {
    return syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
}

long quire_keyring_search(const char *description) {
    return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description, 0);
}

long quire_key_read(long key, void *payload, size_t count) {
    return syscall(SYS_keyctl, KEYCTL_READ, key, payload, count);
}

long quire_keyring_list(void *keys, size_t count) {
    return quire_key_read(KEY_SPEC_USER_KEYRING, keys, count);
}

long quire_key_describe(long key, char *text, size_t count) {
    return syscall(SYS_keyctl, KEYCTL_DESCRIBE, key, text, count);
}

long quire_key_set_permissions(long key, unsigned int permissions) {
    return syscall(SYS_keyctl, KEYCTL_SETPERM, key, permissions);
}

long quire_key_set_timeout(long key, unsigned int seconds) {
    return syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, seconds);
}

long quire_keyring_join_session(void) {
    return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

int quire_duplicate(int descriptor, int lowest) {
    return fcntl(descriptor, F_DUPFD_CLOEXEC, lowest);
}

int quire_lock_open_file(int descriptor, int type) {
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = (short)type;
    lock.l_whence = SEEK_SET;
    return fcntl(descriptor, F_OFD_SETLK, &lock);
}

int quire_would_block(int descriptor, int type) {
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = (short)type;
    lock.l_whence = SEEK_SET;
    if (fcntl(descriptor, F_OFD_GETLK, &lock) != 0) return -1;
    return lock.l_type == F_UNLCK ? 0 : 1;
}

int quire_file_system_type(int descriptor, int64_t *type) {
    struct statfs information;
    if (fstatfs(descriptor, &information) != 0) return -1;
    *type = (int64_t)(uint32_t)information.f_type;
    return 0;
}

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
