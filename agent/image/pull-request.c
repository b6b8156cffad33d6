/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pull-request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/quote.h"
#include "agent/base/text.h"

/* Some runtimes read the sandbox config without checking that there is one. */
#define MARK_KEY "apps.kruise.io/pulling-image-by"
#define MARK_VALUE "inplaced"

#define HANDLER_KEY "io.containerd.cri.runtime-handler"

void pull_credentials_done(PullCredentials *keys) {
        keys->named = keyring_free(keys->named);
        keys->general = keyring_free(keys->general);
        free(take_ptr(keys->lacking));
}

void pull_request_done(PullRequest *request) {
        credential_list_done(&request->credentials);
        pull_credentials_done(&request->keys);
        free(request->labels);
        free(request->label_list);
        free(request->annotations);
        free(request->annotation_list);
        *request = (PullRequest){ .i_credential = 0 };
}

static void use_credential(PullRequest *request) {
        const Credential *credential;
        bool has_token;

        if (request->i_credential >= request->credentials.n_items)
                return;

        credential = request->credentials.items[request->i_credential];
        runtime__v1__auth_config__init(&request->auth);
        /* "docker login" writes a user beside an identity token, and containerd would take that user's empty password. */
        has_token = credential->identity_token && credential->identity_token[0];
        request->auth.username = (char *) (has_token ? "" : credential->username ?: "");
        request->auth.password = (char *) (has_token ? "" : credential->password ?: "");
        request->auth.identity_token = (char *) (credential->identity_token ?: "");
        request->auth.registry_token = (char *) (credential->registry_token ?: "");
        request->message.auth = &request->auth;
}

static bool is_same_credential(const Credential *a, const Credential *b) {
        return text_equal(a->username, b->username) && text_equal(a->password, b->password) &&
               text_equal(a->identity_token, b->identity_token) &&
               text_equal(a->registry_token, b->registry_token);
}

/* A wrong password that is tried twice may lock its account. */
static void drop_repeated(CredentialList *list) {
        size_t n_kept = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                size_t k = 0;

                while (k < n_kept && !is_same_credential(list->items[k], list->items[i]))
                        k++;
                if (k == n_kept)
                        list->items[n_kept++] = list->items[i];
        }

        list->n_items = n_kept;
}

static int find_credentials(PullRequest *request, const ImageRef *ref) {
        cleanup(free_p) char *name = NULL;
        int r;

        if (image_ref_is_searched(ref))
                return 0;

        r = image_ref_canonical_name(ref, &name);
        if (r < 0)
                return r;

        if (request->keys.named) {
                r = keyring_lookup(request->keys.named, name, &request->credentials);
                if (r < 0)
                        return r;
        }

        if (request->keys.general) {
                r = keyring_lookup(request->keys.general, name, &request->credentials);
                if (r < 0)
                        return r;
        }

        drop_repeated(&request->credentials);
        return 0;
}

static int allocate_entries(PullRequest *request, size_t n_labels, size_t n_annotations) {
        request->labels = calloc(n_labels + 1, sizeof(request->labels[0]));
        request->label_list = calloc(n_labels + 1, sizeof(request->label_list[0]));
        request->annotations = calloc(n_annotations, sizeof(request->annotations[0]));
        request->annotation_list = calloc(n_annotations, sizeof(request->annotation_list[0]));

        return request->labels && request->label_list && request->annotations &&
                               request->annotation_list
                       ? 0
                       : -ENOMEM;
}

static void add_annotation(PullRequest *request, const char *key, const char *value) {
        SandboxAnnotation *entry = &request->annotations[request->sandbox.n_annotations];

        runtime__v1__pod_sandbox_config__annotations_entry__init(entry);
        entry->key = (char *) key;
        entry->value = (char *) value;
        request->annotation_list[request->sandbox.n_annotations++] = entry;
}

static void add_label(PullRequest *request, const char *key, const char *value) {
        SandboxLabel *entry = &request->labels[request->sandbox.n_labels];

        runtime__v1__pod_sandbox_config__labels_entry__init(entry);
        entry->key = (char *) key;
        entry->value = (char *) value;
        request->label_list[request->sandbox.n_labels++] = entry;
}

static int fill_sandbox(PullRequest *request, const DesiredImage *desired) {
        int r;

        r = allocate_entries(request, desired->n_labels, desired->n_annotations + 1);
        if (r < 0)
                return r;

        runtime__v1__pod_sandbox_config__init(&request->sandbox);
        for (size_t i = 0; i < desired->n_labels; i++)
                add_label(request, desired->labels[i].key, desired->labels[i].value);
        for (size_t i = 0; i < desired->n_annotations; i++)
                add_annotation(request, desired->annotations[i].key, desired->annotations[i].value);
        add_annotation(request, MARK_KEY, MARK_VALUE);

        request->sandbox.labels = request->label_list;
        request->sandbox.annotations = request->annotation_list;
        return 0;
}

/* A NodeImage has no other field for it. Newer releases of containerd no longer read the annotation. */
static void set_handler(PullRequest *request, const DesiredImage *desired) {
        for (size_t i = 0; i < desired->n_annotations; i++)
                if (strcmp(desired->annotations[i].key, HANDLER_KEY) == 0)
                        request->image.runtime_handler = desired->annotations[i].value;
}

int pull_request_init(PullRequest *request, const DesiredImage *desired, const ImageRef *ref,
                      const char *reference, PullCredentials *keys) {
        int r;

        *request = (PullRequest){ .keys = *keys };
        *keys = (PullCredentials){ .named = NULL };

        r = find_credentials(request, ref);
        if (r < 0)
                return r;

        r = fill_sandbox(request, desired);
        if (r < 0)
                return r;

        runtime__v1__image_spec__init(&request->image);
        request->image.image = (char *) reference;
        set_handler(request, desired);
        runtime__v1__pull_image_request__init(&request->message);
        request->message.image = &request->image;
        request->message.sandbox_config = &request->sandbox;
        use_credential(request);
        return 0;
}

const CriPullRequest *pull_request_message(const PullRequest *request) {
        return &request->message;
}

bool pull_request_next_credential(PullRequest *request) {
        if (request->i_credential + 1 >= request->credentials.n_items)
                return false;

        request->i_credential++;
        use_credential(request);
        return true;
}

static bool has_digest(const CriImage *image, const char *digest) {
        for (size_t i = 0; i < image->n_repo_digests; i++) {
                const char *at = strrchr(image->repo_digests[i], '@');

                if (at && strcmp(at + 1, digest) == 0)
                        return true;
        }

        return false;
}

int pull_verify_image(const CriImage *image, const char *digest, Error *reterr) {
        char quoted[QUOTE_SIZE];

        if (!image_id_is_valid(image->id))
                return error_set(reterr, ERROR_INVALID,
                                 "the runtime reported %s, which is not an image ID",
                                 quote(image->id, quoted));
        if (digest && digest[0] && !has_digest(image, digest))
                return error_set(reterr, ERROR_INVALID,
                                 "the runtime holds another image under this reference, without "
                                 "the digest %s",
                                 digest);
        return 0;
}

static bool is_full_reference(const char *text, ImageRef *ret) {
        return text && image_ref_parse(text, SHORT_NAMES_SEARCHED, ret, NULL) >= 0 &&
               !image_ref_is_searched(ret);
}

/* Appends the names that the searched one may stand for. answered: only names of that repository; or NULL. */
static int add_candidates(const ImageRef *searched, const ImageRef *answered, char *const *names,
                          size_t n_names, char **text) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n_names; i++) {
                ImageRef ref;

                if (is_full_reference(names[i], &ref) && image_ref_may_resolve_to(searched, &ref) &&
                    (!answered || image_ref_is_same_repository(answered, &ref)))
                        r = text_list_add(text, names[i]);
        }

        return r;
}

/* Finds the digests of the image in the repository of this tag; *ret is NULL if there is none. */
static int find_digests(const CriImage *image, const ImageRef *tag, char **ret) {
        cleanup(free_p) char *text = NULL;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < image->n_repo_digests; i++) {
                ImageRef ref;

                if (is_full_reference(image->repo_digests[i], &ref) &&
                    image_ref_is_same_repository(tag, &ref))
                        r = text_list_add(&text, image->repo_digests[i]);
        }

        *ret = take_ptr(text);
        return r;
}

/* Finds the reference that a short name was resolved to; *ret is NULL if nothing shows it. */
static int find_resolved(const CriImage *image, const ImageRef *searched, const char *answer,
                         char **ret) {
        ImageRef ref, *answered = is_full_reference(answer, &ref) ? &ref : NULL;
        cleanup(free_p) char *text = NULL;
        int r;

        r = add_candidates(searched, answered, image->repo_tags, image->n_repo_tags, &text);
        if (r >= 0)
                r = add_candidates(searched, answered, image->repo_digests, image->n_repo_digests,
                                   &text);
        if (r >= 0 && !text && answered) /* an alias for another repository */
                r = text_copy(answer, &text);
        else if (r >= 0 && !text && image->n_repo_digests > 0)
                r = text_copy(image->repo_digests[0], &text);
        if (r < 0)
                return r;

        *ret = take_ptr(text);
        return 0;
}

int pull_verify_take(const CriImage *image, const ImageRef *ref, bool is_digest_wanted,
                     const char *answer, ImageStatus *status, Error *reterr) {
        cleanup(free_p) char *id = NULL;
        cleanup(free_p) char *resolved = NULL;
        int r;

        r = pull_verify_image(image, ref->digest, reterr);
        if (r < 0)
                return r;

        r = image_id_normalize(image->id, &id);
        if (r >= 0 && image_ref_is_searched(ref))
                r = find_resolved(image, ref, answer, &resolved);
        else if (r >= 0 && is_digest_wanted && !ref->digest[0])
                r = find_digests(image, ref, &resolved);
        if (r >= 0)
                r = image_status_set_resolved(status, resolved);
        if (r < 0)
                return r;

        free(status->image_id);
        status->image_id = take_ptr(id);
        return image_status_set_digests(status, (const char *const *) image->repo_digests,
                                        image->n_repo_digests);
}
