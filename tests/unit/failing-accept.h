/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An accept4() that fails while a test wants it to. It takes the place of libc's function. To be included once.
 */

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* errno of accept4(); 0: it succeeds */
static int accept_error;
static unsigned n_accepts;

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
        n_accepts++;
        if (accept_error == 0)
                return (int) syscall(SYS_accept4, fd, address, size, flags);

        errno = accept_error;
        return -1;
}
