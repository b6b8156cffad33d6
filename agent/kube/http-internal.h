/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of http.h share
 */

#include "agent/base/list.h"
#include "agent/kube/http-library.h"
#include "agent/kube/http-target.h"
#include "agent/kube/http.h"

struct HttpPeer {
        unsigned n_refs; /* the owner, each transfer, and whoever runs callbacks */
        sd_event *event;
        HttpLibrary curl;
        CURLM *multi;
        sd_event_source *timer;
        bool is_initialised; /* curl is, on our behalf */
        bool is_inside;      /* curl runs, and must not be called again from its callbacks */
        bool is_due;         /* it wants to be called again at once */
        HttpTransfer *transfers;

        HttpTarget target;
        char *ca;
        char *certificate;
        char *key;
        char *username;
        char *password;
        char *proxy; /* NULL: none */
        bool is_unverified;
};

struct HttpTransfer {
        LIST_LINKS(HttpTransfer);
        HttpPeer *peer;
        CURL *easy;
        struct curl_slist *headers;
        struct curl_slist *connect_to;
        int (*on_head)(int code, void *userdata);
        int (*on_data)(const char *data, size_t size, void *userdata);
        int (*on_end)(const HttpEnd *end, void *userdata);
        void *userdata;
        char trouble[CURL_ERROR_SIZE];
        char date[40];   /* when the server made the answer, in its words; "": it does not say */
        bool is_running; /* curl has it */
        bool is_freed;   /* by the owner, from inside curl */
        bool is_cut;     /* by on_head or on_data */
        bool has_head;   /* on_head was called */
};

/* Sets an option of one transfer; true if curl takes it. curl's own macro, which checks the types, wants
 * curl linked; this one checks the mistake easily made: an int where curl reads a long. */
#define http_set(transfer, option, value)                                                        \
        ({                                                                                       \
                _Static_assert((option) >= CURLOPTTYPE_OBJECTPOINT ||                            \
                                       sizeof(value) == sizeof(long),                            \
                               "curl reads a long");                                             \
                (transfer)->peer->curl.easy_setopt((transfer)->easy, option, value) == CURLE_OK; \
        })

/* Tells curl everything about the request but where its answer goes. */
int http_set_up(HttpTransfer *transfer, const HttpRequest *request);

/* Curl runs when the loop says so. */
bool http_run_set_up(HttpPeer *peer);
int http_run_add_timer(HttpPeer *peer);

/* Curl has run: lets go of what was freed meanwhile, and tells of what has ended. */
int http_peer_settle(HttpPeer *peer);

/* Overwrites the text before it is freed: it may be secret. */
void http_wipe(char *text);
