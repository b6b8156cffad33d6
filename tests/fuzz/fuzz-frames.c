/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The body of a watch, from an attacker: whatever the pieces are, the same frames come
 * out, none is larger than allowed, and what is remembered is no larger either. The events in them
 * are read, too.
 */

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/kube/frames.h"
#include "agent/kube/watch-message.h"
#include "tests/fuzz/fuzz.h"

#define FRAME_MAX ((size_t) 4096)

typedef struct Seen {
        size_t n;
        size_t n_bytes;
        uint32_t hash;
        bool is_refused;
} Seen;

static void check_text(const char *text) {
        check(text && strlen(text) < FRAME_MAX);
}

static void read_event(WatchReader *reader, Slice frame) {
        cleanup(watch_event_done) WatchEvent event = WATCH_EVENT_INIT;
        cleanup(error_done) Error error = ERROR_INIT;

        if (watch_event_read(reader, frame, &event, &error) < 0) {
                check(error.kind == ERROR_INVALID && !strpbrk(error_message(&error), "\r\n"));
                return;
        }

        check_text(event.object.namespace);
        check_text(event.object.name);
        check_text(event.object.uid);
        check_text(event.object.resource_version);
        check_text(event.status.message);
        check(event.type >= 0 && event.type < _WATCH_EVENT_TYPE_MAX);
        check(event.type == WATCH_EVENT_ERROR || event.object.resource_version[0]);
}

static void note(Seen *seen, Slice frame) {
        check(frame.size > 0 && frame.size <= FRAME_MAX);
        seen->n++;
        seen->n_bytes += frame.size;
        for (size_t i = 0; i < frame.size; i++)
                seen->hash = (seen->hash ^ (unsigned char) frame.data[i]) * 16777619;
        seen->hash++;
}

/* Mostly a few bytes, sometimes many. Each byte alone, and in more than one way, would say no more, and
 * takes ten times as long. */
static size_t next_piece(uint32_t *random, size_t left) {
        size_t size;

        *random = *random * 1664525 + 1013904223;
        size = 1 + (*random >> 24) % (*random >> 16 & 3 ? 16 : 256);
        return size < left ? size : left;
}

/* In one piece if random is NULL. */
static Seen cut(FrameKind kind, const char *data, size_t size, uint32_t *random,
                WatchReader *reader) {
        cleanup(frames_done) Frames frames = FRAMES_INIT(kind, FRAME_MAX);
        Seen seen = { .n = 0 };
        size_t n;

        for (size_t i = 0; i < size && !seen.is_refused; i += n) {
                Slice piece, frame;
                int r;

                n = random ? next_piece(random, size - i) : size;
                piece = (Slice){ .data = data + i, .size = n };

                while ((r = frames_next(&frames, &piece, &frame, NULL)) > 0) {
                        note(&seen, frame);
                        if (reader)
                                read_event(reader, frame);
                }
                seen.is_refused = r < 0;
                check(frames.allocated <= 2 * (FRAME_MAX + 4));
        }

        check(seen.n_bytes <= size);
        return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        for (FrameKind kind = 0; kind < _FRAME_KIND_MAX; kind++) {
                cleanup(watch_reader_done) WatchReader reader =
                        WATCH_READER_INIT(kind == FRAME_LENGTH);
                Seen whole = cut(kind, (const char *) data, size, NULL, &reader);
                uint32_t random = whole.hash ^ (uint32_t) size;
                Seen seen = cut(kind, (const char *) data, size, &random, NULL);

                check(seen.n == whole.n && seen.hash == whole.hash &&
                      seen.is_refused == whole.is_refused);
        }

        return 0;
}
