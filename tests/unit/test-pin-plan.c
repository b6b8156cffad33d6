/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which labels of image records are set and removed
 */

#include "agent/image/pin-plan.h"
#include "tests/unit/unit.h"

#define MB ((uint64_t) 1000000)

static char pinned[] = PIN_LABEL_VALUE, other[] = "true", name[] = "a:1";

/* Flags: w wanted, r recorded, l labeled, o another label, m marked, i listed with an ID, p reported as pinned. */
static Pin make(const char *flags) {
        Pin pin = { .name = name };

        for (; *flags; flags++)
                switch (*flags) {
                case 'w': pin.is_wanted = true; break;
                case 'r': pin.is_recorded = true; break;
                case 'l': pin.label = pinned; break;
                case 'o': pin.label = other; break;
                case 'm': pin.is_marked = true; break;
                case 'i': pin.id = "sha256:1"; break;
                case 'p': pin.is_reported = true; break;
                default: fail();
                }
        return pin;
}

static const struct Row {
        const char *title;
        const char *flags;
        PinAction action;
        PinState state;
} rows[] = {
        { "to be pinned", "wri", PIN_DO_SET, PIN_AWAITED },
        { "pinned", "wrlmip", PIN_DO_NOTHING, PIN_IN_EFFECT },
        { "pinned by another", "wrlip", PIN_DO_NOTHING, PIN_IN_EFFECT },
        { "pinned by another name", "wrip", PIN_DO_SET, PIN_IN_EFFECT },
        { "label lost, mark kept", "wrmi", PIN_DO_SET, PIN_AWAITED },
        { "mistyped by another", "wroi", PIN_DO_SET, PIN_AWAITED },
        { "without effect", "wrlmi", PIN_DO_NOTHING, PIN_WITHOUT_EFFECT },
        { "not there", "w", PIN_DO_NOTHING, PIN_AWAITED },
        { "not listed yet", "wr", PIN_DO_NOTHING, PIN_AWAITED },
        { "no longer wanted", "rlmip", PIN_DO_REMOVE, PIN_NOT_WANTED },
        { "no longer wanted, label lost", "rmi", PIN_DO_REMOVE, PIN_NOT_WANTED },
        { "another's, not wanted", "rlip", PIN_DO_NOTHING, PIN_NOT_WANTED },
        { "mistyped, not wanted", "roi", PIN_DO_NOTHING, PIN_NOT_WANTED },
};

TEST_ROWS(test_actions, rows, title, const struct Row *row) {
        const PinNode node = { .has_labels = true, .is_complete = true, .limit = PIN_NO_LIMIT };
        Pin pin = make(row->flags);

        (void) pin_plan(&node, &pin, 1);
        if (pin.action != row->action || pin.state != row->state)
                fail_msg("%s: action %d, state %d", row->title, (int) pin.action, (int) pin.state);
}

/* The NodeImage may want it. */
TEST(test_owners_that_were_not_heard) {
        const PinNode node = { .has_labels = true, .limit = PIN_NO_LIMIT };
        Pin pins[] = { make("rlmip"), make("wri") };

        (void) pin_plan(&node, pins, 2);
        assert_int_equal(pins[0].action, PIN_DO_NOTHING);
        assert_int_equal(pins[1].action, PIN_DO_SET);
}

/* The limit is for what the agent pins. */
TEST(test_pins_of_others_do_not_count) {
        const PinNode node = { .has_labels = true, .is_complete = true, .limit = 3 * MB };
        Pin pins[] = { make("wrlip"), make("wri") };

        pins[0].size = pins[1].size = 3 * MB;
        pins[1].id = "sha256:2";
        assert_int_equal(pin_plan(&node, pins, 2), 3 * MB);
        assert_int_equal(pins[1].action, PIN_DO_SET);
}

TEST(test_without_labels) {
        const PinNode node = { .is_complete = true, .limit = PIN_NO_LIMIT };
        Pin pins[] = { make("wi"), make("wip"), make("w") };

        (void) pin_plan(&node, pins, 3);
        assert_int_equal(pins[0].state, PIN_UNSUPPORTED);
        assert_int_equal(pins[1].state, PIN_IN_EFFECT); /* by the configuration of CRI-O */
        assert_int_equal(pins[2].state, PIN_AWAITED);
}

static const struct Limit {
        const char *title;
        uint64_t limit;
        const char *ids[3];
        const char *actions; /* "+" set, "." kept, "-" over the limit */
        uint64_t n_bytes;
} limits[] = {
        { "all fit", 9 * MB, { "a", "b", "c" }, ".++", 9 * MB },
        { "the last one does not", 8 * MB, { "a", "b", "c" }, ".+-", 6 * MB },
        { "what is pinned stays", 2 * MB, { "a", "b", "c" }, ".--", 3 * MB },
        { "two names of an image", 3 * MB, { "a", "a", "c" }, ".+-", 3 * MB },
        { "two names, both new", 6 * MB, { "a", "b", "b" }, ".++", 6 * MB },
        { "nothing may", 0, { "a", "b", "c" }, ".--", 3 * MB },
        { "no limit", PIN_NO_LIMIT, { "a", "b", "c" }, ".++", 9 * MB },
};

TEST_ROWS(test_limits, limits, title, const struct Limit *row) {
        const PinNode node = { .has_labels = true, .is_complete = true, .limit = row->limit };
        Pin pins[] = { make("wrlmip"), make("wri"), make("wri") };
        uint64_t n_bytes;

        for (size_t i = 0; i < 3; i++) {
                pins[i].id = row->ids[i];
                pins[i].size = 3 * MB;
        }
        n_bytes = pin_plan(&node, pins, 3);
        assert_int_equal(n_bytes, row->n_bytes);
        for (size_t i = 0; i < 3; i++) {
                char action = pins[i].action == PIN_DO_SET      ? '+'
                              : pins[i].state == PIN_OVER_LIMIT ? '-'
                                                                : '.';

                assert_int_equal(action, row->actions[i]);
        }
}

static const struct Reason {
        const char *flags;
        PinState state;
        const char *runtime;
        const char *text; /* NULL: none */
} reasons[] = {
        { "w", PIN_AWAITED, "containerd", NULL },
        { "wp", PIN_IN_EFFECT, "containerd", NULL },
        { "", PIN_NOT_WANTED, "containerd", NULL },
        { "w", PIN_WITHOUT_EFFECT, "containerd",
          "not pinned: containerd 1.6.20 does not report the label io.cri-containerd.pinned to the "
          "kubelet; update containerd" },
        { "w", PIN_UNSUPPORTED, "cri-o",
          "not pinned: cri-o cannot pin images on request; add this one to pinned_images in "
          "crio.conf" },
        { "w", PIN_UNSUPPORTED, "docker", "not pinned: docker cannot pin images on request" },
        { "w", PIN_OVER_LIMIT, "containerd",
          "not pinned: 1.2 GB of images are pinned, and 300 MB more would exceed maxPinned (1.4 "
          "GB)" },
};

TEST_ROWS(test_reasons, reasons, runtime, const struct Reason *row) {
        const PinNode node = { .limit = 1400 * MB };
        cleanup(free_p) char *text = NULL;
        Pin pin = make(row->flags);

        pin.state = row->state;
        pin.size = 300 * MB;
        assert_ok(pin_describe(&pin, &node, 1200 * MB, row->runtime, "1.6.20", &text));
        if (row->text)
                assert_string_equal(text, row->text);
        else
                assert_null(text);
}

/* The refusal of an action comes before anything that the plan expects. */
TEST(test_refusal) {
        cleanup(free_p) char *text = NULL;
        Pin pin = make("w");

        pin.refusal = (char *) "denied";
        assert_ok(pin_describe(&pin, &(PinNode){ .limit = 0 }, 0, "containerd", "2", &text));
        assert_string_equal(text, "not pinned: denied");
}
