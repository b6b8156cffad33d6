/* SPDX-License-Identifier: Apache-2.0 */

#include "agent/image/pin-plan.h"

#include <string.h>

#include "agent/base/text.h"
#include "agent/image/disk-spec.h"
#include "agent/image/image-status.h"

bool pin_is_labeled(const Pin *pin) {
        return text_equal(pin->label, PIN_LABEL_VALUE);
}

static bool is_ours(const Pin *pin) {
        return pin->is_marked && pin_is_labeled(pin);
}

/* Counts towards the limit, now or after its action. */
static bool is_counted(const Pin *pin) {
        return pin->is_wanted && (is_ours(pin) || pin->action == PIN_DO_SET);
}

/* Returns the image's bytes, or 0 if they count already under another name. */
static uint64_t size_of(const Pin *pin, const Pin *pins, size_t n_pins) {
        for (size_t i = 0; i < n_pins; i++)
                if (&pins[i] != pin && is_counted(&pins[i]) && text_equal(pins[i].id, pin->id))
                        return 0;

        return pin->size;
}

static bool fits(const PinNode *node, uint64_t n_bytes, uint64_t n_more) {
        return n_bytes <= node->limit && n_more <= node->limit - n_bytes;
}

static PinState state_of(const Pin *pin, const PinNode *node) {
        if (!pin->is_wanted)
                return PIN_NOT_WANTED;
        if (!pin->id)
                return PIN_AWAITED;
        if (pin->is_reported)
                return PIN_IN_EFFECT;
        if (!node->has_labels)
                return PIN_UNSUPPORTED;

        return pin_is_labeled(pin) ? PIN_WITHOUT_EFFECT : PIN_AWAITED;
}

static void decide(const PinNode *node, Pin *pin, const Pin *pins, size_t n_pins,
                   uint64_t *n_bytes) {
        uint64_t n_more;

        if (!pin->is_wanted && pin->is_marked && node->is_complete)
                pin->action = PIN_DO_REMOVE;
        if (!pin->is_wanted || !pin->is_recorded || !pin->id || pin_is_labeled(pin))
                return;

        n_more = size_of(pin, pins, n_pins);
        if (fits(node, *n_bytes, n_more)) {
                pin->action = PIN_DO_SET;
                *n_bytes += n_more;
        } else if (!pin->is_reported) {
                pin->state = PIN_OVER_LIMIT;
        }
}

uint64_t pin_plan(const PinNode *node, Pin *pins, size_t n_pins) {
        uint64_t n_bytes = 0;

        for (size_t i = 0; i < n_pins; i++) {
                pins[i].action = PIN_DO_NOTHING;
                pins[i].state = state_of(&pins[i], node);
        }
        for (size_t i = 0; i < n_pins; i++)
                if (is_counted(&pins[i]))
                        n_bytes += size_of(&pins[i], pins, i);
        for (size_t i = 0; i < n_pins; i++)
                decide(node, &pins[i], pins, n_pins, &n_bytes);
        return n_bytes;
}

static int describe_limit(const Pin *pin, const PinNode *node, uint64_t n_bytes, char **ret) {
        char pinned[32], more[32], limit[32];

        return text_format(ret,
                           IMAGE_NOT_PINNED "%s of images are pinned, and %s more would exceed "
                                            "maxPinned (%s)",
                           disk_format_bytes(n_bytes, pinned), disk_format_bytes(pin->size, more),
                           disk_format_bytes(node->limit, limit));
}

int pin_describe(const Pin *pin, const PinNode *node, uint64_t n_bytes, const char *runtime,
                 const char *version, char **ret) {
        *ret = NULL;
        if (pin->is_wanted && pin->refusal)
                return text_format(ret, IMAGE_NOT_PINNED "%s", pin->refusal);

        switch (pin->state) {
        case PIN_NOT_WANTED:
        case PIN_AWAITED:
        case PIN_IN_EFFECT: return 0;
        case PIN_OVER_LIMIT: return describe_limit(pin, node, n_bytes, ret);
        case PIN_WITHOUT_EFFECT:
                return text_format(ret,
                                   IMAGE_NOT_PINNED "%s %s does not report the label " PIN_LABEL
                                                    " to the kubelet; update %s",
                                   runtime, version, runtime);
        case PIN_UNSUPPORTED:
                return text_format(ret, IMAGE_NOT_PINNED "%s cannot pin images on request%s",
                                   runtime,
                                   strcmp(runtime, "cri-o") == 0
                                           ? "; add this one to pinned_images in crio.conf"
                                           : "");
        }

        return 0;
}
