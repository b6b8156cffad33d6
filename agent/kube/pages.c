/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kube/pages.h"

#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/text.h"
#include "agent/kube/path.h"

int kube_pages_query(const KubePages *pages, char **ret) {
        cleanup(free_p) char *next = NULL;
        int r;

        r = kube_path_escape(pages->next ?: "", &next);
        if (r < 0)
                return r;

        return text_format(ret, "limit=%u%s%s", pages->size, next[0] ? "&continue=" : "", next);
}

bool kube_pages_shrink(KubePages *pages, int code, const Error *error) {
        if (error->kind != ERROR_INVALID || code < 200 || code >= 300 || pages->size <= 1)
                return false;

        pages->size /= 2;
        return true;
}

int kube_pages_turn(KubePages *pages, const char *next, Error *reterr) {
        if (next[0] && text_equal(pages->next, next))
                return error_set(reterr, ERROR_INVALID, "the server repeats a page of the list");

        return text_set(&pages->next, next[0] ? next : NULL);
}

void kube_pages_rewind(KubePages *pages) {
        free(take_ptr(pages->next));
}
