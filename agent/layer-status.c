/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/layer-status.h"

#include <dirent.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"

#define FILE_SIZE_MAX 1024 /* about 160 bytes */

DEFINE_CLEANUP(DIR *, closedir)
DEFINE_CLEANUP(FILE *, endmntent)

static const struct {
        const char *source; /* source of the mounts */
        const char *folder; /* hidden folder at their root */
} snapshotters[] = {
        { "stargz", ".stargz-snapshotter" },
        { "soci", ".soci-snapshotter" },
};

/* Returns the folder of a mount by root, since any user may name one "stargz". NULL: another
 * mount. */
static const char *folder_of(const struct mntent *mount) {
        const char *user = hasmntopt(mount, "user_id");

        if (strncmp(mount->mnt_type, "fuse", 4) != 0 || !user ||
            atoi(user + strlen("user_id=")) != 0)
                return NULL;

        for (size_t i = 0; i < sizeof(snapshotters) / sizeof(snapshotters[0]); i++)
                if (strcmp(mount->mnt_fsname, snapshotters[i].source) == 0)
                        return snapshotters[i].folder;

        return NULL;
}

static void print_file(int folder, const char *name, FILE *file) {
        cleanup(close_p) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char text[FILE_SIZE_MAX];
        ssize_t size;

        if (fd < 0)
                return;

        size = read(fd, text, sizeof(text));
        for (ssize_t i = 0; i < size; i++)
                (void) putc(text[i] == '\n' ? ' ' : text[i], file);
        if (size > 0)
                (void) putc('\n', file);
}

static void print_folder(const char *mount, const char *folder, FILE *file) {
        cleanup(free_p) char *path = NULL;
        cleanup(closedir_p) DIR *opened = NULL;
        struct dirent *entry;

        if (text_format(&path, "%s/%s", mount, folder) < 0)
                return;

        opened = opendir(path);
        while (opened && (entry = readdir(opened)))
                if (entry->d_name[0] != '.')
                        print_file(dirfd(opened), entry->d_name, file);
}

int layer_status_print(const char *mounts_path, FILE *file) {
        cleanup(endmntent_p) FILE *mounts = setmntent(mounts_path, "re");
        struct mntent *mount;

        if (!mounts)
                return EXIT_FAILURE;

        while ((mount = getmntent(mounts))) {
                const char *folder = folder_of(mount);

                if (folder)
                        print_folder(mount->mnt_dir, folder, file);
        }

        return fflush(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
