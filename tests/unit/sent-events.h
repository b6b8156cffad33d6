/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events that the agent sends, with a faked API server that takes them all
 *
 * Behind fake-kube.h. To be included once.
 */

#include <json-c/json.h>

#include "agent/document/json-cleanup.h"
#include "agent/kube/event.h"
#include "tests/unit/fake-kube.h"
#include "tests/unit/unit.h"

#define SENT_EVENTS_MAX 64

static struct {
        char text[8192]; /* a line each: "Normal/Killing Pod/NAMESPACE/NAME/UID PATH: MESSAGE" */
        struct {
                char name[256]; /* name of the event */
                char line[1024];
        } known[SENT_EVENTS_MAX];
        size_t n_known;
} sent_events;

static inline KubeEvents *events_of_agent(void) {
        const KubeEventsOptions options = {
                .client = &fake_kube,
                .component = "inplaced",
                .node_name = "node-1",
        };
        KubeEvents *events;

        assert_ok(kube_events_new(&options, &events));
        return events;
}

static inline const char *sent_text(json_object *json, const char *pointer) {
        json_object *value;

        return json_pointer_get(json, pointer, &value) == 0 ? json_object_get_string(value) : "";
}

static inline void sent_events_add(const char *line) {
        size_t size = strlen(sent_events.text);

        assert_in_range(snprintf(sent_events.text + size, sizeof(sent_events.text) - size, "%s",
                                 line),
                        0, sizeof(sent_events.text) - size - 1);
}

static inline void sent_events_note(const KubeRequest *request) {
        cleanup(json_object_put_p) json_object *json = json_tokener_parse(request->body);
        const char *name = strrchr(request->path, '/') + 1;
        size_t i = 0;

        if (strcmp(request->method, "POST") == 0) {
                i = sent_events.n_known++;
                assert_true(i < SENT_EVENTS_MAX);
                snprintf(sent_events.known[i].name, sizeof(sent_events.known[i].name), "%s",
                         sent_text(json, "/metadata/name"));
                snprintf(sent_events.known[i].line, sizeof(sent_events.known[i].line),
                         "%s/%s %s/%s/%s/%s %s: %s\n", sent_text(json, "/type"),
                         sent_text(json, "/reason"), sent_text(json, "/involvedObject/kind"),
                         sent_text(json, "/involvedObject/namespace"),
                         sent_text(json, "/involvedObject/name"),
                         sent_text(json, "/involvedObject/uid"),
                         sent_text(json, "/involvedObject/fieldPath"), sent_text(json, "/message"));
        } else {
                while (strcmp(sent_events.known[i].name, name) != 0)
                        assert_true(++i < sent_events.n_known);
        }
        sent_events_add(sent_events.known[i].line);
}

/* Takes all events so far, also those under way. */
static inline const char *sent_events_take(void) {
        KubeCall *call;

        while ((call = fake_kube_find(NULL, "/events"))) {
                sent_events_note(&call->request);
                assert_ok(fake_kube_answer_call(call, 201, "{}"));
        }

        return sent_events.text;
}

/* Empties the list of sent events; the server still knows them. */
static inline void sent_events_forget(void) {
        (void) sent_events_take();
        sent_events.text[0] = '\0';
}

static inline void sent_events_reset(void) {
        memset(&sent_events, 0, sizeof(sent_events));
}
