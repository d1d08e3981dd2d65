#ifndef QUIRE_CLINUX_H
#define QUIRE_CLINUX_H

// What Linux and glibc have and Swift's Glibc module does not show: GNU extensions, newer system calls without a
// wrapper, and variadic functions. Every function returns what the call returns and leaves errno as it set it.

// Without the GNU extensions, which only the implementation asks for: types of the system have other members with them, and
// Swift refuses a module whose “fd_set” is not that of Dispatch. The headers are here for the files that import this module.
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

// Random bytes of the kernel's generator. Up to 256 come as a whole, unless a signal comes before the generator is ready.
ssize_t quire_getrandom(void *bytes, size_t count);

#define QUIRE_RENAME_NOREPLACE 1u
#define QUIRE_RENAME_EXCHANGE 2u

int quire_renameat2(
    int from_directory, const char *from, int to_directory, const char *to, unsigned int flags);

int quire_openat(int directory, const char *path, int flags, unsigned int mode);

// Opens a path that cannot lead out of the directory, neither by "..", nor by being absolute, nor by any symbolic
// link on the way.
int quire_openat_beneath(int directory, const char *path, int flags, unsigned int mode);

// Opens a folder only to find what is in it, which takes no permission to list it.
int quire_open_folder_path(int directory, const char *path);

// The same for a folder beneath another; see quire_openat_beneath.
int quire_open_folder_path_beneath(int directory, const char *path);

// When the file at a path was made, in nanoseconds since 1970; 0 where the file system does not say.
int quire_birth_time(const char *path, int64_t *nanoseconds);

ssize_t quire_copy_file_range(int from, int to, size_t count);

// Makes a file share the blocks of another, on file systems that can.
int quire_clone(int from, int to);

// An empty file in memory, closed in programs that are started.
int quire_memory_file(const char *name);

// The kernel's keyring of the user, which all of the user's processes share. A key of type “user” can be read; see
// keyrings(7). These return a key's number, or a count of bytes; -1 is an error.

// Makes a key in the keyring of this thread, where no other process finds it.
long quire_key_make(const char *description, const void *payload, size_t count);

long quire_key_remove_from_thread(long key);

// Puts a key into the keyring, in the place of one of the same description.
long quire_keyring_add(long key);

long quire_keyring_remove(long key);

long quire_keyring_search(const char *description);

// The count is that of the whole payload, which may be more than was read.
long quire_key_read(long key, void *payload, size_t count);

// The numbers of the keys in the keyring, 4 bytes each.
long quire_keyring_list(void *keys, size_t count);

// “type;user;group;permissions;description”, with a zero at the end.
long quire_key_describe(long key, char *text, size_t count);

long quire_key_set_permissions(long key, unsigned int permissions);

// The kernel removes the key after so many seconds; 0 is never.
long quire_key_set_timeout(long key, unsigned int seconds);

// Gives this process a session keyring of its own, as a login does, which has no link to the keyring of the user; for tests.
long quire_keyring_join_session(void);

// Another descriptor of an open file, with the same position.
int quire_duplicate(int descriptor, int lowest);

// A lock that belongs to the open file, not to the process: it also excludes other descriptors of this process, and
// closing another descriptor of the file does not drop it. Does not wait.
int quire_lock_open_file(int descriptor, int type);

// 1 if somebody else's lock stands in the way of one of this type, 0 if not.
int quire_would_block(int descriptor, int type);

// The magic number of the file system that an open file is on.
int quire_file_system_type(int descriptor, int64_t *type);

// A queue of file events that reads do not wait for and that other programs do not inherit.
int quire_inotify_open(void);

// Asks for events of what is at a path, in addition to those asked for before.
int quire_inotify_add(int queue, const char *path, uint32_t kinds);

// A stream socket between processes of this machine.
int quire_local_socket(void);

int quire_local_bind(int descriptor, const char *path);

int quire_local_connect(int descriptor, const char *path);

int quire_accept(int descriptor);

// Sends without a signal if the other side is gone.
ssize_t quire_send(int descriptor, const void *bytes, size_t count);

// Lets no single read or write of a socket take longer.
int quire_socket_timeout(int descriptor, long milliseconds);

// The user whose process is at the other side.
int quire_peer_user(int descriptor, unsigned int *user);

// Asks the processor to have the memory at an address at hand soon. Any address may be given.
static inline void quire_prefetch(const void *address) {
    __builtin_prefetch(address);
}

// Retains an object of Swift and returns it, or returns null if its deinit has begun. The runtime's function for weak references;
// the object's memory must still be there.
static inline void *quire_try_retain(void *object) {
    extern void *swift_tryRetain(void *object);
    return swift_tryRetain(object);
}

// Overwrites the blocks that this thread freed last and would get back first from malloc: so many of each size from the
// smallest to the greatest. glibc hands back the 7 blocks of a size that a thread freed last; with another malloc, and for
// more blocks than that, it is an attempt. Called before something as well, it makes sure that blocks of that size come
// from the thread's own, and go back there.
void quire_wipe_freed_blocks(size_t smallest, size_t greatest, int count);

// Overwrites what the last calls left on the stack below the caller's frame, and in registers.
void quire_wipe_stack(void);

#endif
