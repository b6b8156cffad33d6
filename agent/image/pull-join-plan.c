/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-join-plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/image-ref.h"

#define LATE_SEC 1 /* the kubelet may begin a pull so long before the agent knows of the pod */

/* An image, and what was found out about it. */
typedef struct Candidate {
        const JoinImage *image;
        ImageRef ref;
        bool is_valid; /* the reference could be read */
        bool is_taken; /* a pull has it */
} Candidate;

static bool has_line(const char *lines, const char *line) {
        size_t size = strlen(line);

        for (const char *p = lines; *p; p += strcspn(p, "\n") + 1)
                if (strcspn(p, "\n") == size && strncmp(p, line, size) == 0)
                        return true;

        return false;
}

/* Length of the registry without its port, as containerd writes it into the label. */
static size_t host_size(const char *registry) {
        const char *port = registry[0] == '[' ? strchr(registry, ']') : registry;

        if (registry[0] == '[' && port)
                return (size_t) (port - registry) - 1;
        return strcspn(registry, ":");
}

/* Whether one of the lines "REGISTRY=REPOSITORY,..." has the repository. */
static bool has_source(const char *lines, const ImageRef *ref) {
        const char *host = ref->registry[0] == '[' ? ref->registry + 1 : ref->registry;
        size_t n_host = host_size(ref->registry), n = strlen(ref->repository);

        for (const char *p = lines; *p; p += strcspn(p, "\n") + 1) {
                const char *name;

                if (strncmp(p, host, n_host) != 0 || p[n_host] != '=')
                        continue;
                for (name = p + n_host; *name == '=' || *name == ',';
                     name += 1 + strcspn(name + 1, ",\n"))
                        if (strcspn(name + 1, ",\n") == n &&
                            strncmp(name + 1, ref->repository, n) == 0)
                                return true;
        }

        return false;
}

static bool is_after(struct timespec time, struct timespec other) {
        return time.tv_sec != other.tv_sec ? time.tv_sec > other.tv_sec
                                           : time.tv_nsec > other.tv_nsec;
}

static bool may_fetch(const JoinPull *pull, const Candidate *candidate) {
        const JoinImage *image = candidate->image;
        struct timespec latest = pull->began;

        if (!candidate->is_valid || !has_source(pull->sources, &candidate->ref))
                return false;
        if (image->manifest)
                return strcmp(image->manifest, pull->digest) == 0;
        if (candidate->ref.digest[0])
                return has_line(pull->digests, candidate->ref.digest);

        latest.tv_sec += LATE_SEC;
        return !is_after(image->since, latest);
}

/* Whether more than the time says that the pull fetches the image. */
static bool is_certain(const JoinPull *pull, const Candidate *candidate) {
        return (candidate->image->manifest || candidate->ref.digest[0]) &&
               may_fetch(pull, candidate);
}

static Join decide_for_certain(const JoinPull *pull, const Candidate *candidates, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!candidates[i].is_taken && is_certain(pull, &candidates[i]))
                        return (Join){ .result = JOIN_IMAGE, .image = i };

        return (Join){ .result = JOIN_NONE };
}

/* Decides by the images that are left. */
static Join decide(const JoinPull *pull, const Candidate *candidates, size_t n, bool is_missing) {
        Join join = { .result = JOIN_NONE };

        for (size_t i = 0; i < n; i++) {
                const Candidate *candidate = &candidates[i];

                if (candidate->is_taken || candidate->image->is_missing != is_missing ||
                    !may_fetch(pull, candidate))
                        continue;
                if (join.result == JOIN_NONE)
                        join = (Join){ .result = JOIN_IMAGE, .image = i };
                else if (image_ref_is_same_repository(&candidates[join.image].ref, &candidate->ref))
                        join.result = JOIN_REPOSITORY;
                else
                        return (Join){ .result = JOIN_NONE };
        }

        return join;
}

/* Returns whether a pull was joined with an image, which is no candidate of others then. */
static bool join_one(const JoinPull *pulls, size_t n_pulls, Candidate *candidates, size_t n_images,
                     Join *ret) {

        for (size_t i = 0; i < n_pulls; i++) {
                if (ret[i].result == JOIN_IMAGE)
                        continue;

                ret[i] = decide_for_certain(&pulls[i], candidates, n_images);
                if (ret[i].result == JOIN_NONE)
                        ret[i] = decide(&pulls[i], candidates, n_images, /* is_missing= */ true);
                if (ret[i].result == JOIN_NONE)
                        ret[i] = decide(&pulls[i], candidates, n_images, /* is_missing= */ false);
                if (ret[i].result != JOIN_IMAGE)
                        continue;

                candidates[ret[i].image].is_taken = true;
                return true;
        }

        return false;
}

int pull_join_plan(const JoinPull *pulls, size_t n_pulls, const JoinImage *images, size_t n_images,
                   Join *ret) {

        cleanup(free_p) Candidate *candidates = calloc(n_images + 1, sizeof(candidates[0]));

        if (!candidates)
                return -ENOMEM;

        for (size_t i = 0; i < n_images; i++) {
                candidates[i].image = &images[i];
                candidates[i].is_valid = image_ref_parse(images[i].key, SHORT_NAMES_HUB,
                                                         &candidates[i].ref, NULL) >= 0;
        }

        while (join_one(pulls, n_pulls, candidates, n_images, ret))
                ;
        return 0;
}
