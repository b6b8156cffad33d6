/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/kubectl/node-pulls.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/program.h"
#include "agent/base/text.h"
#include "agent/base/time-units.h"
#include "agent/document/json-reader.h"
#include "agent/kubectl/pulls-plan.h"

/* The policy of the component pull-viewers has these words as well. */
#define FOLLOW_WORDS "--watch", "--timeout=30s"
#define FOLLOW_USEC (30 * USEC_PER_SEC)
#define ASK_AGAIN_USEC (25 * USEC_PER_SEC) /* before the last question has ended */
#define GRACE_USEC (15 * USEC_PER_SEC)     /* for the way to the node and back */
#define TROUBLE_USEC (10 * USEC_PER_SEC)   /* between two attempts */

#define ANSWER_MAX ((size_t) 1 << 20)
#define N_WORDS_MAX 16

typedef struct Question {
        NodePulls *node;
        Program *program; /* NULL: not asked */
} Question;

struct NodePulls {
        NodePullsOptions options;
        char *name;
        char *namespace;       /* namespace of the agent that was asked last */
        Question questions[2]; /* a next one begins before the last one ends */
        uint64_t asked_usec;   /* 0: never */
        json_object *answer;   /* last one of the agent */
        char *trouble;
        bool is_told; /* the trouble */
};

int node_pulls_new(const NodePullsOptions *options, NodePulls **ret) {
        cleanup(node_pulls_free_p) NodePulls *node = calloc(1, sizeof(*node));

        if (!node || text_copy(options->node, &node->name) < 0)
                return -ENOMEM;

        node->options = *options;
        for (size_t i = 0; i < sizeof(node->questions) / sizeof(node->questions[0]); i++)
                node->questions[i].node = node;
        *ret = take_ptr(node);
        return 0;
}

NodePulls *node_pulls_free(NodePulls *node) {
        if (!node)
                return NULL;

        for (size_t i = 0; i < sizeof(node->questions) / sizeof(node->questions[0]); i++)
                program_free(node->questions[i].program);
        json_object_put(node->answer);
        free(node->name);
        free(node->namespace);
        free(node->trouble);
        free(node);
        return NULL;
}

const char *node_pulls_name(const NodePulls *node) {
        return node->name;
}

json_object *node_pulls_get(const NodePulls *node) {
        return json_get(node->answer, "pulls", json_type_array);
}

const char *node_pulls_trouble(const NodePulls *node) {
        return node->trouble;
}

const char *node_pulls_new_trouble(NodePulls *node) {
        if (!node->trouble || node->is_told)
                return NULL;

        node->is_told = true;
        return node->trouble;
}

bool node_pulls_is_asked(const NodePulls *node) {
        return node->questions[0].program || node->questions[1].program;
}

bool node_pulls_is_due(const NodePulls *node, uint64_t now_usec) {
        const uint64_t age_usec = now_usec - node->asked_usec;

        if (node->asked_usec == 0)
                return true;
        if (!node->options.flags->watch)
                return false;
        if (node_pulls_is_asked(node))
                return age_usec >= ASK_AGAIN_USEC &&
                       !(node->questions[0].program && node->questions[1].program);

        return !node->trouble || age_usec >= TROUBLE_USEC;
}

/* Takes the text over, also when it fails. */
static int set_trouble(NodePulls *node, char *text) {
        json_object_put(node->answer);
        node->answer = NULL;
        node->is_told = node->is_told && text_equal(text, node->trouble);
        free(node->trouble);
        node->trouble = text;
        return node->options.on_change(node->options.userdata);
}

static int note_answer(NodePulls *node, json_object *answer) {
        json_object_put(node->answer);
        node->answer = answer;
        free(take_ptr(node->trouble));
        return node->options.on_change(node->options.userdata);
}

static int note_bad_answer(NodePulls *node) {
        char *text;

        return text_format(&text,
                           "node %s: its agent's answer is no list of pulls; update the agent",
                           node->name) < 0
                       ? -ENOMEM
                       : set_trouble(node, text);
}

static int take_answer(NodePulls *node, const char *text, size_t size) {
        const JsonLimits limits = { .size = ANSWER_MAX, .depth = JSON_LIMITS.depth };
        cleanup(error_done) Error error = ERROR_INIT;
        json_object *answer = NULL;
        int r = json_parse_within(text, size, limits, &answer, &error);

        if (r < 0 && error.kind == ERROR_NONE)
                return r;
        if (json_get(answer, "pulls", json_type_array))
                return note_answer(node, answer);

        json_object_put(answer);
        return note_bad_answer(node);
}

static ssize_t on_output(const char *output, size_t size, void *userdata) {
        const Question *question = userdata;
        size_t taken = 0;

        for (;;) {
                ssize_t n = json_object_end(output + taken, size - taken);
                int r;

                if (n == 0)
                        return (ssize_t) taken;

                r = n < 0 ? note_bad_answer(question->node)
                          : take_answer(question->node, output + taken, (size_t) n);
                if (r < 0)
                        return r;
                if (n < 0)
                        return (ssize_t) size;
                taken += (size_t) n;
        }
}

/* The end of one question counts for nothing while the next one is asked. */
static int on_done(const char *output, size_t size, const Error *error, void *userdata) {
        Question *question = userdata;
        NodePulls *node = question->node;
        char *text;

        question->program = program_free(question->program);
        if (node_pulls_is_asked(node))
                return 0;
        if (!error)
                return node->answer || node->trouble
                               ? node->options.on_change(node->options.userdata)
                               : note_bad_answer(node);

        return pulls_explain(node->name, node->namespace, error_message(error), &text) < 0
                       ? -ENOMEM
                       : set_trouble(node, text);
}

static size_t add_words(const char **arguments, size_t n, const char *const *words) {
        for (; *words; words++)
                arguments[n++] = *words;
        return n;
}

static int run(NodePulls *node, Question *question, const char *pod) {
        const Flags *flags = node->options.flags;
        const char *const target[] = { "exec",     "--namespace", node->namespace, pod, "-c",
                                       "inplaced", NULL };
        static const char *const command[] = { "--", "inplacectl", "pulls", "-o", "json", NULL };
        static const char *const follow[] = { FOLLOW_WORDS, NULL };
        const char *arguments[N_WORDS_MAX + FLAGS_CONNECTION_MAX];
        size_t n = add_words(arguments, 0, target);

        n += flags_connection(flags, arguments + n);
        n = add_words(arguments, n, command);
        if (flags->watch)
                n = add_words(arguments, n, follow);
        arguments[n] = NULL;
        return program_run(node->options.event,
                           &(ProgramOptions){
                                   .path = "kubectl",
                                   .arguments = arguments,
                                   .output_max = ANSWER_MAX,
                                   .timeout_usec = (flags->watch ? FOLLOW_USEC : 0) + GRACE_USEC,
                                   .on_output = on_output,
                           },
                           on_done, question, &question->program);
}

int node_pulls_ask(NodePulls *node, const char *pod, const char *why, uint64_t now_usec) {
        const char *slash = pod ? strchr(pod, '/') : NULL;
        Question *question = &node->questions[node->questions[0].program ? 1 : 0];
        char *text;

        node->asked_usec = now_usec;
        if (!slash)
                return text_format(&text,
                                   "node %s: no pod of an agent is known there%s%s; on the node: "
                                   "inplacectl pulls",
                                   node->name, why ? ": " : "", why ?: "") < 0
                               ? -ENOMEM
                               : set_trouble(node, text);

        free(take_ptr(node->namespace));
        node->namespace = strndup(pod, (size_t) (slash - pod));
        return node->namespace ? run(node, question, slash + 1) : -ENOMEM;
}
