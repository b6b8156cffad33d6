/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A failing call, for a program that is started with this before the C library (LD_PRELOAD)
 *
 * The test shares the file INPLACED_FAILING_CALL with the program: it says there which call is to fail, and how, and reads
 * how many there were, and from where. Calls count that the program makes itself, also through the C library, and those of
 * the libraries that the file names. Other libraries may be unable to go on without memory: gRPC ends the program.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

#define FRAMES_MAX 12
#define CALLS_MAX 65536

/* The layout is known to failing_call.py. */
typedef struct Plan {
        char program[32];    /* name of the program; the shared file means nothing to others */
        char libraries[224]; /* parts of names, each followed by a space */
        uint32_t kinds;      /* a bit for each Kind that counts */
        int32_t number;      /* errno */
        uint32_t nth;        /* number of the first call that fails, or 0 */
        uint32_t n_failing;  /* number of calls that fail from there on */
        uint32_t n_calls;
        uint32_t n_failed;
        uint64_t frames[FRAMES_MAX]; /* places in the program that led to the first failure */
        uint64_t ways[CALLS_MAX];    /* a hash of the way to each call, if none is to fail */
} Plan;

typedef enum Kind {
        KIND_MEMORY = 1 << 0,
        KIND_OPEN = 1 << 1,
        KIND_READ = 1 << 2,
        KIND_WRITE = 1 << 3,
        KIND_SYNC = 1 << 4,
        KIND_RENAME = 1 << 5,
        KIND_CONNECT = 1 << 6,
        KIND_FILE = 1 << 7,
        KIND_COPY = 1 << 8, /* memory, too; see is_parsed_key() */
} Kind;

typedef enum Owner {
        OWNER_PROGRAM,
        OWNER_LIBRARY, /* a library that counts */
        OWNER_JSON,    /* json-c, if it counts */
        OWNER_OTHER,
        OWNER_C, /* acts for its caller */
} Owner;

/* Frames of the stack, from the inside to the outside. */
typedef struct Walk {
        Owner owner; /* owner of the first frame outside the C library */
        bool is_recording;
        uint64_t *frames; /* places in the program; NULL: only the hash matters */
        size_t n_frames;
        uint64_t hash; /* hash of the addresses in the program and in its libraries */
} Walk;

static Plan *plan;
static _Thread_local unsigned depth; /* calls of the C library that count as one are under way */

static bool is_named(const char *library) {
        char names[sizeof(plan->libraries) + 1], *rest = names;

        memcpy(names, plan->libraries, sizeof(plan->libraries));
        names[sizeof(names) - 1] = '\0';
        for (char *name; (name = strsep(&rest, " "));)
                if (name[0] && strstr(library, name))
                        return true;
        return false;
}

static Owner find_owner(uintptr_t address, uint64_t *ret_place) {
        static const char *const c[] = { "/libc.so", "/ld-linux", "/libasan.", "/libubsan.",
                                         "/libfailing-call." };
        struct dl_find_object found;
        const char *name;

        if (_dl_find_object((void *) address, &found) != 0)
                return OWNER_OTHER;

        *ret_place = address - found.dlfo_link_map->l_addr;
        name = found.dlfo_link_map->l_name;
        if (!name[0])
                return OWNER_PROGRAM;
        for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
                if (strstr(name, c[i]))
                        return OWNER_C;
        if (!is_named(name))
                return OWNER_OTHER;
        return strstr(name, "/libjson-c.") ? OWNER_JSON : OWNER_LIBRARY;
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *userdata) {
        uintptr_t address = _Unwind_GetIP(context) - 1;
        Walk *walk = userdata;
        uint64_t place = 0;
        Owner owner;

        owner = find_owner(address, &place);
        if (walk->owner == OWNER_C)
                walk->owner = owner;
        if (!walk->is_recording)
                return walk->owner == OWNER_C ? _URC_NO_REASON : _URC_END_OF_STACK;

        if (owner == OWNER_OTHER || owner == OWNER_C)
                return _URC_NO_REASON;

        walk->hash = (walk->hash ^ address) * 0x100000001b3; /* FNV-1a, by words */
        if (owner == OWNER_PROGRAM && walk->frames && walk->n_frames < FRAMES_MAX)
                walk->frames[walk->n_frames++] = place;
        return _URC_NO_REASON;
}

/* json-c before 0.17 copies a key that it parses, and uses it without looking. */
static bool is_parsed_key(const void *caller) {
        Dl_info info;

        return dladdr(caller, &info) != 0 && info.dli_sname &&
               strcmp(info.dli_sname, "json_tokener_parse_ex") == 0;
}

static bool is_ours(Kind kind, const void *caller) {
        uint64_t place;
        Walk walk = { .owner = find_owner((uintptr_t) caller, &place) };

        if (walk.owner == OWNER_C)
                (void) _Unwind_Backtrace(on_frame, &walk);
        return walk.owner == OWNER_PROGRAM || walk.owner == OWNER_LIBRARY ||
               (walk.owner == OWNER_JSON && (kind != KIND_COPY || !is_parsed_key(caller)));
}

/* Returns a hash of the way here. frames gets the innermost places in the program; may be NULL. */
static uint64_t record(uint64_t *frames) {
        Walk walk = {
                .owner = OWNER_C, .is_recording = true, .frames = frames, .hash = 0xcbf29ce484222325
        };

        (void) _Unwind_Backtrace(on_frame, &walk);
        return walk.hash;
}

static bool fails(Kind kind, const void *caller) {
        uint32_t nth, n;

        if (!plan || depth > 0 || !(plan->kinds & (uint32_t) kind) || !is_ours(kind, caller))
                return false;

        n = __atomic_add_fetch(&plan->n_calls, 1, __ATOMIC_RELAXED);
        nth = plan->nth;
        if (nth == 0 && n <= CALLS_MAX)
                plan->ways[n - 1] = record(NULL);
        if (nth == 0 || n < nth || n - nth >= plan->n_failing)
                return false;

        if (__atomic_fetch_add(&plan->n_failed, 1, __ATOMIC_RELAXED) == 0)
                (void) record(plan->frames);
        errno = plan->number;
        return true;
}

__attribute__((constructor)) static void find_plan(void) {
        const char *path = getenv("INPLACED_FAILING_CALL");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        Plan *found;

        if (fd < 0)
                return;

        found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        (void) close(fd);
        if (found != MAP_FAILED && strcmp(found->program, program_invocation_short_name) == 0)
                plan = found;
}

/* The header of each of these functions has attributes that a definition cannot repeat, or more parameters. */
#define FAIL(kind, failure, type, name, parameters, arguments)      \
        type failing_##name parameters __asm__(#name);              \
        type failing_##name parameters {                            \
                static type(*next) parameters;                      \
                type result;                                        \
                                                                    \
                if (!next)                                          \
                        *(void **) &next = dlsym(RTLD_NEXT, #name); \
                if (fails(kind, __builtin_return_address(0)))       \
                        return failure;                             \
                                                                    \
                depth++;                                            \
                result = next arguments;                            \
                depth--;                                            \
                return result;                                      \
        }

FAIL(KIND_MEMORY, NULL, void *, malloc, (size_t size), (size))
FAIL(KIND_COPY, NULL, void *, calloc, (size_t n, size_t size), (n, size))
FAIL(KIND_MEMORY, NULL, void *, realloc, (void *old, size_t size), (old, size))
FAIL(KIND_MEMORY, NULL, void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size))
FAIL(KIND_COPY, NULL, char *, strdup, (const char *text), (text))
FAIL(KIND_COPY, NULL, char *, strndup, (const char *text, size_t size), (text, size))

FAIL(KIND_OPEN, -1, int, open, (const char *path, int flags, unsigned mode), (path, flags, mode))
FAIL(KIND_OPEN, -1, int, openat, (int fd, const char *path, int flags, unsigned mode),
     (fd, path, flags, mode))
FAIL(KIND_OPEN, NULL, void *, fopen, (const char *path, const char *mode), (path, mode))
FAIL(KIND_OPEN, NULL, void *, opendir, (const char *path), (path))
FAIL(KIND_OPEN, -1, int, scandir, (const char *path, void *ret, void *filter, void *compare),
     (path, ret, filter, compare))
FAIL(KIND_OPEN, -1, int, scandirat,
     (int fd, const char *path, void *ret, void *filter, void *compare),
     (fd, path, ret, filter, compare))
FAIL(KIND_OPEN, -1, int, pipe2, (int *ret, int flags), (ret, flags))
FAIL(KIND_OPEN, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
FAIL(KIND_OPEN, -1, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAIL(KIND_OPEN, -1, int, accept4, (int fd, void *address, void *size, int flags),
     (fd, address, size, flags))
FAIL(KIND_OPEN, -1, int, epoll_create1, (int flags), (flags))
FAIL(KIND_OPEN, -1, int, inotify_init1, (int flags), (flags))
FAIL(KIND_OPEN, -1, int, eventfd, (unsigned value, int flags), (value, flags))

FAIL(KIND_READ, -1, ssize_t, read, (int fd, void *buffer, size_t size), (fd, buffer, size))
FAIL(KIND_READ, -1, ssize_t, recv, (int fd, void *buffer, size_t size, int flags),
     (fd, buffer, size, flags))
FAIL(KIND_READ, NULL, void *, fgets, (char *buffer, int size, void *stream), (buffer, size, stream))
FAIL(KIND_READ, NULL, void *, readdir, (void *folder), (folder))

FAIL(KIND_WRITE, -1, ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAIL(KIND_WRITE, -1, ssize_t, pwrite, (int fd, const void *data, size_t size, long offset),
     (fd, data, size, offset))
FAIL(KIND_WRITE, -1, ssize_t, send, (int fd, const void *data, size_t size, int flags),
     (fd, data, size, flags))
/* A stream remembers that it failed; one that is memory alone makes no system call. */
FAIL(fileno(stream) < 0 ? 0 : KIND_WRITE, (stream->_flags |= _IO_ERR_SEEN, -1), int, fputs,
     (const char *text, FILE *stream), (text, stream))
FAIL(KIND_WRITE, -1, int, fflush, (FILE * stream), (stream))

FAIL(KIND_SYNC, -1, int, fsync, (int fd), (fd))
FAIL(KIND_SYNC, -1, int, fdatasync, (int fd), (fd))
FAIL(KIND_RENAME, -1, int, rename, (const char *from, const char *to), (from, to))
FAIL(KIND_CONNECT, -1, int, connect, (int fd, const void *address, unsigned size),
     (fd, address, size))

FAIL(KIND_FILE, -1, int, stat, (const char *path, void *ret), (path, ret))
FAIL(KIND_FILE, -1, int, lstat, (const char *path, void *ret), (path, ret))
FAIL(KIND_FILE, -1, int, fstat, (int fd, void *ret), (fd, ret))
FAIL(KIND_FILE, -1, int, statvfs, (const char *path, void *ret), (path, ret))
FAIL(KIND_FILE, -1, int, mkdir, (const char *path, unsigned mode), (path, mode))
FAIL(KIND_FILE, -1, int, unlink, (const char *path), (path))
FAIL(KIND_FILE, -1, int, fchmod, (int fd, unsigned mode), (fd, mode))
FAIL(KIND_FILE, -1, int, inotify_add_watch, (int fd, const char *path, uint32_t mask),
     (fd, path, mask))
