/* A disk that fails, as a library for LD_PRELOAD: it counts what a process writes below one folder, and at the step that
   was chosen it kills the process, lets the call fail, or writes down each call, for a power cut that is made up later.

   A step is a call that changes files: write, create, sync, rename or remove. What is written through a mapping of memory
   is not seen: of the programs under test only SQLite's -shm file is, which is made anew after a crash. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the calls that go past the C library are caught on x86-64 alone"
#endif

enum { COUNT = 0, KILL = 1, FAIL = 2, RECORD = 3 };
enum { WRITES = 1, CREATES = 2, SYNCS = 4, NAMES = 8 };

static char root[PATH_MAX];
static size_t root_length;
static int mode, kinds, failure, log_fd = -1, flock_failure, fcntl_failure;
static long chosen, steps;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* -- what the tests call */

void faults_watch(const char *folder, int what, int which, long at, int error, int log) {
    pthread_mutex_lock(&lock);
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    mode = what, kinds = which, chosen = at, failure = error, log_fd = log, steps = 0;
    pthread_mutex_unlock(&lock);
}

long faults_steps(void) { return steps; }

/* Locks fail with these errors; -1: they seem to succeed, without a lock. */
void faults_locks(int of_flock, int of_fcntl) { flock_failure = of_flock, fcntl_failure = of_fcntl; }

static void record(const char *line, const void *data, size_t length) {
    if (syscall(SYS_write, log_fd, line, strlen(line)) < 0) abort();
    while (length) {
        long written = syscall(SYS_write, log_fd, data, length);
        if (written < 0) abort();
        data = (const char *)data + written, length -= (size_t)written;
    }
    if (syscall(SYS_write, log_fd, "\n", 1L) < 0) abort();
}

void faults_note(const char *text) {
    char line[64];
    pthread_mutex_lock(&lock);
    snprintf(line, sizeof line, "note %zu\n", strlen(text));
    if (mode == RECORD) record(line, text, strlen(text));
    pthread_mutex_unlock(&lock);
}

/* -- what is below the folder */

static int below(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int path_of_fd(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int full_path(int at, const char *path, char *full) {
    char folder[PATH_MAX];
    if (!root_length || !path) return 0;
    if (path[0] == '/') {
        snprintf(full, PATH_MAX, "%s", path);
        return below(full);
    }
    if (at == AT_FDCWD) {
        if (!getcwd(folder, sizeof folder)) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t length = readlink(link, folder, sizeof folder - 1);
        if (length < 0) return 0;
        folder[length] = 0;
    }
    if (snprintf(full, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return 0;
    return below(full);
}

/* True if the call must fail; kills the process if this is its last step. */
static int step(int kind) {
    if (!(kinds & kind)) return 0;
    steps++;
    if (mode == KILL && steps == chosen) {
        kill(getpid(), SIGKILL);
        pause();
    }
    if (mode == FAIL && steps >= chosen) {
        errno = failure;
        return 1;
    }
    return 0;
}

static unsigned long inode(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : (unsigned long)found.st_ino;
}

static void record_names(const char *what, const char *first, const char *second) {
    char line[2 * PATH_MAX + 64], both[2 * PATH_MAX + 2];
    if (mode != RECORD) return;
    int length = snprintf(both, sizeof both, "%s%s%s", first, second ? "\n" : "", second ? second : "");
    snprintf(line, sizeof line, "%s %d\n", what, length);
    record(line, both, (size_t)length);
}

static void record_write(int fd, const void *data, size_t length, off_t offset) {
    char line[128];
    if (mode != RECORD) return;
    snprintf(line, sizeof line, "write %zu %lu %lld\n", length, inode(fd), (long long)offset);
    record(line, data, length);
}

/* -- files */

static int opened(int at, const char *path, int flags, mode_t rights) {
    char full[PATH_MAX];
    struct stat found;
    int (*open_at)(int, const char *, int, ...) = REAL(openat);
    if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !full_path(at, path, full))
        return open_at(at, path, flags, rights);
    pthread_mutex_lock(&lock);
    int missing = lstat(full, &found) != 0;
    int fd = -1;
    if (!((missing && (flags & O_CREAT)) && step(CREATES))) {
        fd = open_at(at, path, flags, rights);
        if (fd >= 0 && mode == RECORD && (missing || (flags & O_TRUNC))) {
            char line[PATH_MAX + 64];
            snprintf(line, sizeof line, "%s %zu %lu\n", missing ? "create" : "empty", strlen(full), inode(fd));
            record(line, full, strlen(full));
        }
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define RIGHTS_OF(flags)                                     \
    mode_t rights = 0;                                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                   \
        va_list more;                                        \
        va_start(more, flags);                               \
        rights = (mode_t)va_arg(more, int);                  \
        va_end(more);                                        \
    }

int open(const char *path, int flags, ...) { RIGHTS_OF(flags) return opened(AT_FDCWD, path, flags, rights); }
int open64(const char *path, int flags, ...) { RIGHTS_OF(flags) return opened(AT_FDCWD, path, flags, rights); }
int openat(int at, const char *path, int flags, ...) { RIGHTS_OF(flags) return opened(at, path, flags, rights); }
int openat64(int at, const char *path, int flags, ...) { RIGHTS_OF(flags) return opened(at, path, flags, rights); }
int creat(const char *path, mode_t rights) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, rights); }

/* The result of `call`, unless the file is below the folder and the step fails; `then` writes it down. */
#define ON_FILE(fd, kind, call, then)            \
    char full[PATH_MAX];                         \
    if (!root_length || !path_of_fd(fd, full)) return call; \
    pthread_mutex_lock(&lock);                   \
    long done = -1;                              \
    if (!step(kind)) {                           \
        done = (long)(call);                     \
        if (done >= 0) { then; }                 \
    }                                            \
    int error = errno;                           \
    pthread_mutex_unlock(&lock);                 \
    errno = error;                               \
    return done;

ssize_t write(int fd, const void *data, size_t length) {
    ON_FILE(fd, WRITES, REAL(write)(fd, data, length), record_write(fd, data, (size_t)done, lseek(fd, 0, SEEK_CUR) - done))
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    ON_FILE(fd, WRITES, REAL(pwrite)(fd, data, length, offset), record_write(fd, data, (size_t)done, offset))
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    ON_FILE(fd, WRITES, REAL(pwrite64)(fd, data, length, offset), record_write(fd, data, (size_t)done, offset))
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!root_length || !count || !path_of_fd(fd, path)) return REAL(writev)(fd, parts, count);
    for (int at = 0; at < count; at++) /* a short write is allowed: the caller goes on */
        if (parts[at].iov_len) return write(fd, parts[at].iov_base, parts[at].iov_len);
    return 0;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t count) { (void)out, (void)in, (void)offset, (void)count; errno = ENOTSOCK; return -1; }
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) { (void)out, (void)in, (void)offset, (void)count; errno = ENOTSOCK; return -1; }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t count, unsigned flags) {
    (void)in, (void)from, (void)out, (void)to, (void)count, (void)flags;
    errno = ENOSYS;
    return -1;
}

static void record_size(int fd, off_t size) {
    char line[128];
    if (mode != RECORD) return;
    snprintf(line, sizeof line, "size 0 %lu %lld\n", inode(fd), (long long)size);
    record(line, "", 0);
}
int ftruncate(int fd, off_t size) { ON_FILE(fd, WRITES, REAL(ftruncate)(fd, size), record_size(fd, size)) }
int ftruncate64(int fd, off64_t size) { ON_FILE(fd, WRITES, REAL(ftruncate64)(fd, size), record_size(fd, size)) }
int fallocate(int fd, int how, off_t from, off_t length) { ON_FILE(fd, WRITES, REAL(fallocate)(fd, how, from, length), ) }
int fallocate64(int fd, int how, off64_t from, off64_t length) { ON_FILE(fd, WRITES, REAL(fallocate64)(fd, how, from, length), ) }
int posix_fallocate(int fd, off_t from, off_t length) { ON_FILE(fd, WRITES, REAL(posix_fallocate)(fd, from, length), ) }
int posix_fallocate64(int fd, off64_t from, off64_t length) { ON_FILE(fd, WRITES, REAL(posix_fallocate64)(fd, from, length), ) }

/* Without power cuts nothing has to wait for the disk: a process that dies leaves what it wrote. */
static int synced(int fd, int (*call)(int)) {
    char path[PATH_MAX], line[PATH_MAX + 64];
    if (!root_length || !path_of_fd(fd, path)) return call(fd);
    pthread_mutex_lock(&lock);
    int done = step(SYNCS) ? -1 : 0, error = errno;
    if (!done && mode == RECORD) {
        struct stat found;
        int folder = !fstat(fd, &found) && S_ISDIR(found.st_mode);
        snprintf(line, sizeof line, "%s %zu %lu\n", folder ? "folder" : "sync", strlen(path), (unsigned long)found.st_ino);
        record(line, path, strlen(path));
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

/* -- names */

#define ON_NAME(at, path, kind, call, what)                      \
    char full[PATH_MAX];                                         \
    if (!full_path(at, path, full)) return call;                 \
    pthread_mutex_lock(&lock);                                   \
    int done = -1;                                               \
    if (!step(kind)) {                                           \
        done = (call);                                           \
        if (done >= 0) record_names(what, full, NULL);           \
    }                                                            \
    int error = errno;                                           \
    pthread_mutex_unlock(&lock);                                 \
    errno = error;                                               \
    return done;

int mkdir(const char *path, mode_t rights) { ON_NAME(AT_FDCWD, path, CREATES, REAL(mkdir)(path, rights), "mkdir") }
int mkdirat(int at, const char *path, mode_t rights) { ON_NAME(at, path, CREATES, REAL(mkdirat)(at, path, rights), "mkdir") }
int rmdir(const char *path) { ON_NAME(AT_FDCWD, path, NAMES, REAL(rmdir)(path), "rmdir") }
int unlink(const char *path) { ON_NAME(AT_FDCWD, path, NAMES, REAL(unlink)(path), "unlink") }
int unlinkat(int at, const char *path, int flags) {
    ON_NAME(at, path, NAMES, REAL(unlinkat)(at, path, flags), (flags & AT_REMOVEDIR) ? "rmdir" : "unlink")
}

static int renamed(int from, const char *old, int to, const char *new, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    int ours = full_path(from, old, first), theirs = full_path(to, new, second), done = -1;
    if (!ours && !theirs) return (int)syscall(SYS_renameat2, from, old, to, new, flags);
    pthread_mutex_lock(&lock);
    if (!step(NAMES)) {
        done = (int)syscall(SYS_renameat2, from, old, to, new, flags);
        if (done >= 0) record_names("rename", first, second);
    }
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}
int rename(const char *old, const char *new) { return renamed(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new) { return renamed(from, old, to, new, 0); }
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) { return renamed(from, old, to, new, flags); }

/* tantivy renames by a system call of its own, past the C library: the kernel hands it to this handler. */
static void caught(int number, siginfo_t *about, void *context) {
    (void)number, (void)about;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int done = renamed((int)registers[REG_RDI], (const char *)registers[REG_RSI], (int)registers[REG_RDX],
                       (const char *)registers[REG_R10], 0);
    registers[REG_RAX] = done < 0 ? -errno : done;
}

int faults_catch_renames(void) {
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    struct sock_filter only[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof only / sizeof *only, only};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* -- locks */

int flock(int fd, int operation) {
    char path[PATH_MAX];
    if (!flock_failure || !path_of_fd(fd, path)) return REAL(flock)(fd, operation);
    if (flock_failure < 0) return 0;
    errno = flock_failure;
    return -1;
}

static int controlled(int fd, int command, void *argument, int (*call)(int, int, ...)) {
    char path[PATH_MAX];
    int locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    if (!locks || !fcntl_failure || !path_of_fd(fd, path)) return call(fd, command, argument);
    if (fcntl_failure < 0) return 0;
    errno = fcntl_failure;
    return -1;
}
#define ARGUMENT_OF(command)                  \
    va_list more;                             \
    va_start(more, command);                  \
    void *argument = va_arg(more, void *);    \
    va_end(more);
int fcntl(int fd, int command, ...) { ARGUMENT_OF(command) return controlled(fd, command, argument, REAL(fcntl)); }
int fcntl64(int fd, int command, ...) { ARGUMENT_OF(command) return controlled(fd, command, argument, REAL(fcntl64)); }
