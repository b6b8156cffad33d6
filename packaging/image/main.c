/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Both programs in one static file, which so has gRPC and libc only once: the name by which it is called
 * decides, which in the image is a link's
 */

#include <errno.h>
#include <string.h>

int inplaced_main(int argc, char **argv);
int inplacectl_main(int argc, char **argv);

int main(int argc, char **argv) {
        if (strcmp(program_invocation_short_name, "inplacectl") == 0)
                return inplacectl_main(argc, argv);

        return inplaced_main(argc, argv);
}
