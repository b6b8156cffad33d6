/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The pages of a list
 *
 * One page at a time is in memory, and a page of large objects has fewer of them. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/error.h"

/* Limit of a page in memory; of JSON, a watch takes as much as one object may have. A larger page is requested again with
 * fewer objects. */
#define KUBE_PAGE_BYTES_MAX ((size_t) 8 << 20)

typedef struct KubePages {
        unsigned size; /* objects of a page; set by the owner */
        char *next;    /* token of the next page; NULL: the first page. Owned. */
} KubePages;

/* Makes the query of the page: "limit=500&continue=...". The caller owns *ret. */
int kube_pages_query(const KubePages *pages, char **ret);

/* Whether the page was too large, and is to be requested again with fewer objects. code: of HTTP. */
bool kube_pages_shrink(KubePages *pages, int code, const Error *error);

/* Goes to the page that follows; next: "" after the last one. Refuses the same page again, which would be requested
 * without end. */
int kube_pages_turn(KubePages *pages, const char *next, Error *reterr);

/* Goes back to the first page. */
void kube_pages_rewind(KubePages *pages);
