/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Answers of a content store in which a pull has begun, for tests with fake-runtime.h
 */

#include "tests/unit/fake-runtime.h"

#define CONTENT_MANIFEST "sha256:aa"

/* The lease has the manifest, and nothing else yet. */
static inline void content_answer_lease(void) {
        LeasedResource manifest = CONTAINERD__SERVICES__LEASES__V1__RESOURCE__INIT;
        Leased leased = CONTAINERD__SERVICES__LEASES__V1__LIST_RESOURCES_RESPONSE__INIT;

        manifest.id = (char *) CONTENT_MANIFEST;
        manifest.type = (char *) "content";
        leased.resources = &(LeasedResource *){ &manifest };
        leased.n_resources = 1;
        fake_runtime_answer("ListResources", &leased, NULL);
}

/* The store has this blob. */
static inline void content_answer_blob(const char *digest) {
        ContentInfo info = CONTAINERD__SERVICES__CONTENT__V1__INFO__INIT;
        ContentList list = CONTAINERD__SERVICES__CONTENT__V1__LIST_CONTENT_RESPONSE__INIT;

        info.digest = (char *) digest;
        list.info = &(ContentInfo *){ &info };
        list.n_info = 1;
        fake_runtime_send("List", &list);
        fake_runtime_answer("List", NULL, NULL);
}

/* A part of the blob that is being read. */
static inline void content_send_part(const char *text) {
        ContentPart part = CONTAINERD__SERVICES__CONTENT__V1__READ_CONTENT_RESPONSE__INIT;

        part.data.data = (uint8_t *) text;
        part.data.len = strlen(text);
        fake_runtime_send("Read", &part);
}
