/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/auth/auth.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/auth/auth-internal.h"
#include "agent/base/cleanup.h"
#include "agent/base/loop.h"

int auth_new(const AuthOptions *options, Auth **ret) {
        Auth *auth;

        auth = calloc(1, sizeof(*auth));
        if (!auth)
                return -ENOMEM;

        auth->options = *options;

        *ret = auth;
        return 0;
}

Auth *auth_free(Auth *auth) {
        free(auth);
        return NULL;
}

/* If there is nothing to pull with, nobody waits for the plugins. */
void auth_settle(PullKeysAsk *ask) {
        if (ask->i_next < ask->n_slots || ask->n_reads > 0)
                return;

        if (!ask->providers_ask || !auth_slots_have_usable(ask))
                (void) sd_event_source_set_enabled(ask->ready, SD_EVENT_ONESHOT);
}

static int on_provided(const Keyring *keyring, const Error *error, void *userdata) {
        PullKeysAsk *ask = userdata;
        int r;

        r = keyring_new(&ask->provided);
        if (r < 0)
                return r;
        r = keyring_add_all(ask->provided, keyring);
        if (r < 0)
                return r;

        ask->providers_ask = credential_providers_ask_unref(ask->providers_ask);
        auth_settle(ask);
        return 0;
}

static void complain(Auth *auth, const Error *error) {
        if (complaints_is_new(&auth->complaints, "", error_message(error)))
                log_warning(auth->options.log, NULL,
                            "Credentials of this node cannot be used, going on without them: %s",
                            error_message(error));
}

static int on_file_problem(const char *file, const Error *error, void *userdata) {
        complain(userdata, error);
        return 0;
}

static int collect_general(PullKeysAsk *ask, Keyring *keyring) {
        cleanup(error_done) Error error = ERROR_INIT;
        Auth *auth = ask->auth;
        int r;

        r = auth_dir_add_all(auth->options.dir, keyring, on_file_problem, auth);
        if (r < 0)
                return r;

        if (auth->options.docker) {
                r = docker_config_add(auth->options.docker, keyring, &error);
                if (error.kind != ERROR_NONE)
                        complain(auth, &error);
                else if (r < 0)
                        return r;
        }

        return ask->provided ? keyring_add_all(keyring, ask->provided) : 0;
}

static int collect(PullKeysAsk *ask, PullKeys *keys, Error *reterr) {
        int r;

        if (ask->n_slots > 0) {
                r = keyring_new(&keys->named);
                if (r < 0)
                        return r;
                r = auth_slots_collect(ask, keys->named, reterr);
                if (r < 0)
                        return r;
        }

        r = keyring_new(&keys->general);
        if (r < 0)
                return r;
        return collect_general(ask, keys->general);
}

/* Whoever asked may drop the ask meanwhile, so nothing that is handed out belongs to it. */
static int on_ready(sd_event_source *source, void *userdata) {
        cleanup(pull_keys_done) PullKeys keys = { .named = NULL };
        cleanup(error_done) Error error = ERROR_INIT;
        PullKeysAsk *ask = userdata;
        int r;

        ask->providers_ask = credential_providers_ask_unref(ask->providers_ask);
        r = collect(ask, &keys, &error);
        if (r < 0 && error.kind == ERROR_NONE)
                return r;

        return ask->on_ready(&keys, error.kind == ERROR_NONE ? NULL : &error, ask->userdata);
}

static PullKeysAsk *auth_drop(PullKeysAsk *ask) {
        if (!ask)
                return NULL;

        list_remove(&ask->auth->asks, ask);
        auth_slots_done(ask);
        credential_providers_ask_unref(ask->providers_ask);
        keyring_free(ask->provided);
        sd_event_source_disable_unref(ask->ready);
        free(ask);
        return NULL;
}

DEFINE_CLEANUP(PullKeysAsk *, auth_drop)

static int ask_new(Auth *auth, const PullKeysQuestion *question, PullKeysAsk **ret) {
        const ImageWish *wish = question->wish;
        cleanup(auth_drop_p) PullKeysAsk *ask = NULL;
        int r;

        ask = calloc(1, sizeof(*ask) + wish->n_secrets * sizeof(ask->slots[0]) +
                                auth_slots_texts_size(wish));
        if (!ask)
                return -ENOMEM;

        ask->auth = auth;
        ask->was_denied = question->was_denied;
        auth_slots_init(ask, wish);
        list_prepend(&auth->asks, ask);

        r = loop_add_defer(auth->options.event, &ask->ready, on_ready, ask);
        if (r < 0)
                return r;
        r = sd_event_source_set_enabled(ask->ready, SD_EVENT_OFF);
        if (r < 0)
                return r;
        *ret = take_ptr(ask);
        return 0;
}

static int ask_providers(PullKeysAsk *ask, const ImageRef *ref) {
        cleanup(free_p) char *name = NULL;
        int r;

        if (!ask->auth->options.providers)
                return 0;

        r = image_ref_canonical_name(ref, &name);
        if (r < 0)
                return r;

        return credential_providers_ask(ask->auth->options.providers, name, ask->was_denied,
                                        on_provided, ask, &ask->providers_ask);
}

static int auth_ask(void *source, const PullKeysQuestion *question, PullKeysReady on_keys,
                    void *userdata, PullKeysAsk **ret) {
        cleanup(auth_drop_p) PullKeysAsk *ask = NULL;
        int r;

        r = ask_new(source, question, &ask);
        if (r < 0)
                return r;

        ask->on_ready = on_keys;
        ask->userdata = userdata;
        r = ask_providers(ask, question->ref);
        if (r < 0)
                return r;
        r = auth_slots_read(ask);
        if (r < 0)
                return r;

        auth_settle(ask);
        *ret = take_ptr(ask);
        return 0;
}

void auth_set_secrets(Auth *auth, KubeSecrets *secrets) {
        if (auth->secrets == secrets)
                return;

        auth->secrets = secrets;
        for (PullKeysAsk *ask = auth->asks; ask; ask = ask->next)
                if (ask->n_reads > 0)
                        auth_slots_give_up(ask);
}

PullKeySource auth_source(Auth *auth) {
        return (PullKeySource){ .ask = auth_ask, .drop = auth_drop, .source = auth };
}
