/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Registry credentials, from an attacker
 *
 * What is accepted has something in each entry and can be found; what is refused leaves nothing
 * behind and does not repeat the text.
 */

#include <stdbool.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/image/credentials-spec.h"
#include "agent/image/credentials.h"
#include "tests/fuzz/fuzz.h"

DEFINE_CLEANUP(Keyring *, keyring_free)

static void check_entries(const uint8_t *data, size_t size) {
        cleanup(credentials_spec_done) CredentialsSpec spec = CREDENTIALS_SPEC_INIT;

        if (credentials_spec_parse((const char *) data, size, &spec, NULL) < 0) {
                check(spec.n_entries == 0);
                return;
        }

        for (size_t i = 0; i < spec.n_entries; i++) {
                const CredentialsEntry *entry = &spec.entries[i];

                check(entry->key);
                check(entry->username || entry->password || entry->identity_token ||
                      entry->registry_token);
        }
}

/* Each is one line, and of a text that can be read alone. */
static void check_unknown_keys(const uint8_t *data, size_t size) {
        cleanup(unknown_keys_done) UnknownKeys unknown = UNKNOWN_KEYS_INIT;

        check(credentials_spec_check_keys((const char *) data, size, &unknown) == 0);
        check(unknown.n_texts <= unknown.n_found && unknown.n_texts <= UNKNOWN_KEYS_MAX);
        for (size_t i = 0; i < unknown.n_texts; i++)
                check((strncmp(unknown.texts[i], "line ", 5) == 0 ||
                       strncmp(unknown.texts[i], "the entry ", 10) == 0) &&
                      !strpbrk(unknown.texts[i], "\r\n"));
}

static void check_lookup(const Keyring *keyring, const char *name, bool is_empty) {
        cleanup(credential_list_done) CredentialList list = CREDENTIAL_LIST_INIT;

        check(keyring_lookup(keyring, name, &list) == 0);
        check(!is_empty || list.n_items == 0);
        for (size_t i = 0; i < list.n_items; i++)
                check(strcmp(list.items[i]->source, "source") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const names[] = {
                "docker.io/library/nginx",
                "reg.example.com:5000/team/app",
                "localhost/x",
                "[::1]:5000/a",
                "a.b.c.example.com/x/y",
                "",
        };
        cleanup(keyring_free_p) Keyring *keyring = NULL;
        cleanup(error_done) Error error = ERROR_INIT;
        int r;

        check_entries(data, size);
        check_unknown_keys(data, size);

        check(keyring_new(&keyring) == 0);
        r = keyring_add_text(keyring, "source", (const char *) data, size, &error);
        check((r < 0) == (error.kind != ERROR_NONE));

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                check_lookup(keyring, names[i], r < 0);
        return 0;
}
