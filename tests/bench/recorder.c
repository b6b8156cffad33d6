/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Records which functions the program enters and leaves, for way.py
 *
 * It is loaded before the C library (LD_PRELOAD) into a program that was built with -finstrument-functions,
 * and writes into the file INPLACED_RECORDING, which is as large as the record may become: a Header, and an
 * address for each function, within the program and not in memory; LEFT is added where it is left.
 * Only the thread that started the program is recorded.
 */

#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIDDEN __attribute__((no_instrument_function))
#define LEFT ((uint64_t) 1 << 63)

typedef struct Header {
        _Atomic uint64_t
                n; /* calls since the begin; those that found no room are counted as well */
        uint64_t room;
        uint64_t calls[];
} Header;

static Header *header;
static uint64_t base;
static __thread int is_main; /* no more than a plain load, as this runs for each call */

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

/* The program itself is the first. */
HIDDEN static int find_base(struct dl_phdr_info *info, size_t size, void *userdata) {
        base = info->dlpi_addr;
        return 1;
}

__attribute__((constructor)) HIDDEN static void begin(void) {
        const char *path = getenv("INPLACED_RECORDING");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        struct stat st;
        void *mapped;

        if (fd < 0 || fstat(fd, &st) < 0)
                abort();

        mapped = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (mapped == MAP_FAILED)
                abort();

        dl_iterate_phdr(find_base, NULL);
        header = mapped;
        header->room = ((size_t) st.st_size - sizeof(*header)) / sizeof(header->calls[0]);
        is_main = 1;
}

HIDDEN static void record(uint64_t call) {
        uint64_t i;

        if (!is_main)
                return;

        i = atomic_load_explicit(&header->n, memory_order_relaxed);
        if (i < header->room)
                header->calls[i] = call;
        atomic_store_explicit(&header->n, i + 1, memory_order_release);
}

HIDDEN void __cyg_profile_func_enter(void *function, void *caller) {
        record((uint64_t) (uintptr_t) function - base);
}

HIDDEN void __cyg_profile_func_exit(void *function, void *caller) {
        record(((uint64_t) (uintptr_t) function - base) | LEFT);
}
