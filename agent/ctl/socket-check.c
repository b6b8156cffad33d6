/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/ctl/socket-check.h"

#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/base/cleanup.h"

#define ADVICE_START "is it running? try: systemctl status inplaced"

int socket_check(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        cleanup(close_p) int fd = -1;
        struct stat st;

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);

        if (stat(path, &st) < 0)
                return -errno;
        if (!S_ISSOCK(st.st_mode))
                return -ENOTSOCK;

        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;

        return 0;
}

const char *socket_check_to_string(int result) {
        switch (-result) {
        case 0: return "somebody listens";
        case ENOENT: return "no such file";
        case ECONNREFUSED: return "nobody listens there";
        case EACCES:
        case EPERM: return "permission denied";
        case ENOTSOCK: return "not a socket";
        case ENAMETOOLONG: return "the path is too long for a socket";
        case EAGAIN: return "it accepts no more connections";
        default: return strerror(-result);
        }
}

/* Whoever may enter the directory sees the socket and its group; for the others it is the
 * directory's group that counts. */
static char *advise_group(const char *path) {
        cleanup(free_p) char *copy = NULL;
        const struct group *group = NULL;
        char *advice;
        struct stat st;

        copy = strdup(path);
        if (!copy)
                return NULL;

        if (stat(path, &st) == 0 || stat(dirname(copy), &st) == 0)
                group = st.st_gid == 0 ? NULL : getgrgid(st.st_gid);

        if (!group)
                return strdup("permission denied; run it as root");
        if (asprintf(&advice, "permission denied; run it as root or join the group '%s'",
                     group->gr_name) < 0)
                return NULL;

        return advice;
}

char *socket_check_advise(const char *path, int result) {
        const char *advice = "try: journalctl -u inplaced";
        char *text;

        switch (-result) {
        case EACCES:
        case EPERM: return advise_group(path);
        case ENOENT:
        case ENOTDIR:
        case ECONNREFUSED: advice = ADVICE_START; break;
        case ENOTSOCK:
        case ENAMETOOLONG: advice = "check --socket"; break;
        }

        if (asprintf(&text, "%s; %s", socket_check_to_string(result), advice) < 0)
                return NULL;
        return text;
}
