/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/progress-find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "cri/content.h"

/* Labels that containerd puts on blobs (its docs/garbage-collection.md and remotes/docker). The
 * first one names a host without its port, its value is a comma list of repositories. */
#define LABEL_SOURCE "containerd.io/distribution.source."
#define LABEL_CONFIG "containerd.io/gc.ref.content.config" /* only manifests refer to a config */

/* How well a manifest fits. A tag that is pulled again may resolve to a manifest that is there. */
enum { RANK_NONE, RANK_OLD, RANK_NEW, RANK_ASKED_FOR };

static int host_without_port(const char *registry, char **ret) {
        const char *end = strrchr(registry, ':');

        if (registry[0] == '[') {
                registry++;
                end = strchr(registry, ']');
        }

        *ret = end ? strndup(registry, (size_t) (end - registry)) : strdup(registry);
        return *ret ? 0 : -ENOMEM;
}

int progress_find_init(ProgressFind *find, const ImageRef *ref) {
        cleanup(free_p) char *host = NULL;
        int r;

        (void) clock_gettime(CLOCK_REALTIME, &find->started);
        r = host_without_port(ref->registry, &host);
        if (r < 0)
                return r;

        if (asprintf(&find->label, LABEL_SOURCE "%s", host) < 0) {
                find->label = NULL;
                return -ENOMEM;
        }

        find->repository = strdup(ref->repository);
        find->digest = ref->digest[0] ? strdup(ref->digest) : NULL;
        return find->repository && (find->digest || !ref->digest[0]) ? 0 : -ENOMEM;
}

void progress_find_forget(ProgressFind *find) {
        find->call = rpc_call_unref(find->call);
        manifest_done(&find->manifest);
        free(take_ptr(find->manifest_digest));
        free(take_ptr(find->candidate));
        free(take_ptr(find->text));
        free(take_ptr(find->is_complete));
        free(take_ptr(find->most));
        find->text_size = 0;
        find->is_checked = false;
}

void progress_find_done(ProgressFind *find) {
        progress_find_forget(find);
        free(take_ptr(find->label));
        free(take_ptr(find->repository));
        free(take_ptr(find->digest));
}

bool progress_find_is_done(const ProgressFind *find) {
        return find->is_checked;
}

static size_t find_blob(const ProgressFind *find, const char *digest) {
        size_t i = 0;

        while (i < find->manifest.n_blobs && strcmp(find->manifest.blobs[i].digest, digest) != 0)
                i++;

        return i;
}

static int on_blobs(const void *message, void *userdata) {
        const ContentList *list = message;
        ProgressFind *find = userdata;

        for (size_t i = 0; i < list->n_info; i++) {
                size_t blob = find_blob(find, list->info[i]->digest);

                if (blob < find->manifest.n_blobs)
                        find->is_complete[blob] = true;
        }

        return 0;
}

static bool is_all_complete(const ProgressFind *find) {
        for (size_t i = 0; i < find->manifest.n_blobs; i++)
                if (!find->is_complete[i])
                        return false;

        return true;
}

static int on_checked(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;

        find->call = rpc_call_unref(find->call);
        if (error)
                return 0;

        /* An image that was whole before the pull began is not the one that is being pulled. */
        if (!find->is_checked && find->is_old && is_all_complete(find))
                progress_find_forget(find);
        else
                find->is_checked = true;
        return 0;
}

static void free_filters(char ***filters) {
        for (char **filter = *filters; filter && *filter; filter++)
                free(*filter);
        free(*filters);
}

static int progress_find_check(ProgressFind *find, RpcClient *client) {
        cleanup(free_filters) char **filters = NULL;
        size_t n = 0;

        filters = calloc(find->manifest.n_blobs + 1, sizeof(filters[0]));
        if (!filters)
                return -ENOMEM;

        for (size_t i = 0; i < find->manifest.n_blobs; i++) {
                if (find->is_complete[i])
                        continue;
                if (asprintf(&filters[n], "digest==%s", find->manifest.blobs[i].digest) < 0) {
                        filters[n] = NULL;
                        return -ENOMEM;
                }
                n++;
        }
        if (n == 0)
                return 0;

        return content_list(client, (const char *const *) filters, n, on_blobs, on_checked, find,
                            &find->call);
}

static int on_part(const void *message, void *userdata) {
        const ContentPart *part = message;
        ProgressFind *find = userdata;
        char *text;

        if (find->text_size + part->data.len > MANIFEST_SIZE_MAX)
                return 0; /* what is cut off will not parse */

        text = realloc(find->text, find->text_size + part->data.len + 1);
        if (!text)
                return -ENOMEM;

        if (part->data.len > 0)
                memcpy(text + find->text_size, part->data.data, part->data.len);
        find->text = text;
        find->text_size += part->data.len;
        return 0;
}

static int on_read(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;
        int r;

        find->call = rpc_call_unref(find->call);
        r = error ? -EIO
                  : manifest_spec_parse(find->text ?: "", find->text_size, &find->manifest, NULL);
        free(take_ptr(find->text));
        find->text_size = 0;
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                progress_find_forget(find);
                return 0;
        }

        find->is_complete = calloc(find->manifest.n_blobs + 1, sizeof(find->is_complete[0]));
        find->most = calloc(find->manifest.n_blobs + 1, sizeof(find->most[0]));
        if (!find->is_complete || !find->most)
                return -ENOMEM;

        return progress_find_step(find);
}

static bool is_before(const struct timespec *a, const struct timespec *b) {
        return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Same machine, same clock. */
static int rank_of(const ProgressFind *find, const ContentInfo *info,
                   const struct timespec *created) {
        if (find->digest && strcmp(find->digest, info->digest) == 0)
                return RANK_ASKED_FOR;

        return is_before(created, &find->started) ? RANK_OLD : RANK_NEW;
}

/* The manifest is what a pull fetches first: of those that are new the first is the likeliest, of those
 * that are old the last. */
static bool is_better(const ProgressFind *find, int rank, const struct timespec *created) {
        if (rank != find->candidate_rank)
                return rank > find->candidate_rank;

        return rank == RANK_OLD ? is_before(&find->candidate_created, created)
                                : is_before(created, &find->candidate_created);
}

static int progress_find_consider(ProgressFind *find, const ContentInfo *info) {
        const struct timespec created = {
                .tv_sec = info->created_at ? info->created_at->seconds : 0,
                .tv_nsec = info->created_at ? info->created_at->nanos : 0,
        };
        int rank = rank_of(find, info, &created);

        if (!is_better(find, rank, &created) || find->is_claimed(info->digest, find->userdata))
                return 0;

        free(find->candidate);
        find->candidate = strdup(info->digest);
        find->candidate_rank = rank;
        find->candidate_created = created;
        return find->candidate ? 0 : -ENOMEM;
}

static int on_manifests(const void *message, void *userdata) {
        const ContentList *list = message;
        int r;

        for (size_t i = 0; i < list->n_info; i++) {
                r = progress_find_consider(userdata, list->info[i]);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int on_listed(const void *reply, const Error *error, void *userdata) {
        ProgressFind *find = userdata;

        find->call = rpc_call_unref(find->call);
        find->is_old = find->candidate_rank == RANK_OLD;
        find->manifest_digest = take_ptr(find->candidate);
        return find->manifest_digest ? progress_find_step(find) : 0;
}

/* The repository as a pattern that matches only itself. */
static int quote_repository(const char *repository, char **ret) {
        char *quoted = malloc(3 * strlen(repository) + 1);
        char *to = quoted;

        if (!quoted)
                return -ENOMEM;

        for (const char *c = repository; *c; c++)
                to += *c == '.' ? sprintf(to, "[.]") : sprintf(to, "%c", *c);
        *to = '\0';
        *ret = quoted;
        return 0;
}

static int progress_find_list(ProgressFind *find, RpcClient *client) {
        cleanup(free_p) char *repository = NULL;
        cleanup(free_p) char *filter = NULL;
        int r;

        r = quote_repository(find->repository, &repository);
        if (r < 0)
                return r;

        if (asprintf(&filter, "labels.\"%s\"~=\"(^|,)%s(,|$)\",labels.\"" LABEL_CONFIG "\"",
                     find->label, repository) < 0) {
                filter = NULL;
                return -ENOMEM;
        }

        find->candidate_rank = RANK_NONE;
        return content_list(client, &(const char *){ filter }, 1, on_manifests, on_listed, find,
                            &find->call);
}

int progress_find_step(ProgressFind *find) {
        RpcClient *client = runtimes_client(find->runtimes);

        if (find->call || !client)
                return 0;
        if (!find->manifest_digest)
                return progress_find_list(find, client);
        if (!find->is_complete)
                return content_read(client, find->manifest_digest, on_part, on_read, find,
                                    &find->call);

        return progress_find_check(find, client);
}

/* An ingest is called after what it brings: "layer-sha256:...". */
static bool is_ingest_of(const ContentIngest *ingest, const char *digest) {
        size_t size = strlen(ingest->ref), suffix = strlen(digest);

        return size >= suffix && strcmp(ingest->ref + size - suffix, digest) == 0;
}

static uint64_t bytes_under_way(const ManifestBlob *blob, const ContentIngests *ingests) {
        for (size_t i = 0; i < ingests->n_statuses; i++)
                if (is_ingest_of(ingests->statuses[i], blob->digest)) {
                        uint64_t offset = (uint64_t) ingests->statuses[i]->offset;

                        return offset < blob->size ? offset : blob->size;
                }

        return 0;
}

uint64_t progress_find_count(ProgressFind *find, const ContentIngests *ingests,
                             bool *ret_is_complete) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < find->manifest.n_blobs; i++) {
                const ManifestBlob *blob = &find->manifest.blobs[i];
                uint64_t now = find->is_complete[i] ? blob->size : bytes_under_way(blob, ingests);

                bytes += now;
                find->most[i] = now > find->most[i] ? now : find->most[i];
        }

        *ret_is_complete = is_all_complete(find);
        return bytes;
}

uint64_t progress_find_most(const ProgressFind *find) {
        uint64_t bytes = 0;

        for (size_t i = 0; i < find->manifest.n_blobs; i++)
                bytes += find->most[i];

        return bytes;
}
