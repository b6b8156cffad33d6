/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Frames: whatever the pieces are, the same frames come out
 */

#include "agent/kube/frames.h"
#include "tests/unit/unit.h"

#define FRAME_MAX 10

#define BYTES(text) text, sizeof(text) - 1

static const struct Case {
        const char *name;
        FrameKind kind;
        const char *body;
        size_t size;
        const char *frames; /* each followed by ';' */
        bool is_refused;
} cases[] = {
        { "nothing", FRAME_LINE, BYTES(""), "", false },
        { "one line", FRAME_LINE, BYTES("{}\n"), "{};", false },
        { "three lines", FRAME_LINE, BYTES("a\nbb\nccc\n"), "a;bb;ccc;", false },
        { "half a line at the end", FRAME_LINE, BYTES("a\nbb"), "a;", false },
        { "only half a line", FRAME_LINE, BYTES("bb"), "", false },
        { "empty lines", FRAME_LINE, BYTES("\n\na\n\n\nb\n\n"), "a;b;", false },
        { "the longest line", FRAME_LINE, BYTES("0123456789\na\n"), "0123456789;a;", false },
        { "a line that is too long", FRAME_LINE, BYTES("a\n01234567890\na\n"), "a;", true },
        { "a long line without an end", FRAME_LINE, BYTES("a\n01234567890"), "a;", true },
        { "two messages", FRAME_LENGTH, BYTES("\0\0\0\1a\0\0\0\2bb"), "a;bb;", false },
        { "newlines in a message", FRAME_LENGTH, BYTES("\0\0\0\3a\nb"), "a\nb;", false },
        { "half a length", FRAME_LENGTH, BYTES("\0\0\0\1a\0\0\0"), "a;", false },
        { "only a length", FRAME_LENGTH, BYTES("\0\0\0\1"), "", false },
        { "half a message", FRAME_LENGTH, BYTES("\0\0\0\1a\0\0\0\3bb"), "a;", false },
        { "empty messages", FRAME_LENGTH, BYTES("\0\0\0\0\0\0\0\0\0\0\0\1a\0\0\0\0"), "a;", false },
        { "the longest message", FRAME_LENGTH,
          BYTES("\0\0\0\12"
                "0123456789"),
          "0123456789;", false },
        { "a message that is too long", FRAME_LENGTH, BYTES("\0\0\0\1a\0\0\0\13"), "a;", true },
        { "a message of 4 GiB", FRAME_LENGTH, BYTES("\377\377\377\377a"), "", true },
        { "JSON instead of a message", FRAME_LENGTH, BYTES("{\"kind\":\"Status\"}\n"), "", true },
};

/* Feeds one piece, which is freed right after: a frame must not be used any longer. */
static int feed(Frames *frames, const char *data, size_t size, char *seen, Error *reterr) {
        cleanup(free_p) char *copy = malloc(size + 1);
        Slice piece = { .data = copy, .size = size };
        Slice frame;
        int r;

        memcpy(copy, data, size);
        while ((r = frames_next(frames, &piece, &frame, reterr)) > 0) {
                strncat(seen, frame.data, frame.size);
                strcat(seen, ";");
        }

        if (r == 0)
                assert_int_equal(piece.size, 0);
        return r;
}

static void check(const struct Case *this, size_t piece_max) {
        cleanup(frames_done) Frames frames = FRAMES_INIT(this->kind, FRAME_MAX);
        cleanup(error_done) Error error = ERROR_INIT;
        char seen[100] = "";
        int r = 0;

        for (size_t i = 0; r == 0 && i < this->size;) {
                size_t n = 1 + (piece_max > 1 ? (size_t) random() % piece_max : 0);

                n = n < this->size - i ? n : this->size - i;
                r = feed(&frames, this->body + i, n, seen, &error);
                i += n;
        }

        assert_string_equal(seen, this->frames);
        assert_int_equal(error.kind, this->is_refused ? ERROR_INVALID : ERROR_NONE);
        assert_int_equal(r < 0, this->is_refused);
}

TEST_ROWS(test_case, cases, name, const struct Case *this) {
        check(this, 1);
        check(this, 1000);
        for (unsigned seed = 0; seed < 200; seed++) {
                srandom(seed);
                check(this, 1 + seed % 7);
        }
}

/* It is only as large as what has come, and not larger than needed when a large frame is over. */
TEST(test_memory) {
        static const FrameKind kinds[] = { FRAME_LINE, FRAME_LENGTH };
        const size_t large = (size_t) 1 << 20;

        for (size_t i = 0; i < 2; i++) {
                cleanup(frames_done) Frames frames = FRAMES_INIT(kinds[i], 2 * large);
                cleanup(free_p) char *body = malloc(large + 4);
                size_t end = kinds[i] == FRAME_LINE ? large - 1 : large + 3;
                Slice piece, frame;

                memset(body, 'x', large + 4);
                if (kinds[i] == FRAME_LENGTH)
                        memcpy(body, "\0\20\0\0", 4);

                piece = (Slice){ .data = body, .size = 1000 };
                assert_ok(frames_next(&frames, &piece, &frame, NULL));
                assert_true(frames.allocated < 5000);

                piece = (Slice){ .data = body + 1000, .size = end - 1000 };
                assert_ok(frames_next(&frames, &piece, &frame, NULL));
                piece = slice(kinds[i] == FRAME_LINE ? "\nab" : "xab");
                assert_int_equal(frames_next(&frames, &piece, &frame, NULL), 1);
                assert_int_equal(frame.size, kinds[i] == FRAME_LINE ? large - 1 : large);
                assert_ok(frames_next(&frames, &piece, &frame, NULL));
                assert_true(frames.allocated < 5000);
        }
}

TEST(test_another_body) {
        Frames frames = FRAMES_INIT(FRAME_LINE, FRAME_MAX);
        char seen[100] = "";

        assert_ok(feed(&frames, BYTES("a\nhalf"), seen, NULL));
        frames_done(&frames);
        assert_ok(feed(&frames, BYTES("b\n"), seen, NULL));
        assert_string_equal(seen, "a;b;");
        frames_done(&frames);
        frames_done(&frames);
}
