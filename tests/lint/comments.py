#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A comment is a sentence, or a noun phrase with its noun, so it does not begin with What, Of, One and the like.

"/* of all blobs */" makes a reader search for the noun; "/* size of all blobs */" does not.
"""

import re
import sys

import lint

PROGRAMS = ("agent/", "cri/")
REFUSED = {"what", "of", "one", "that", "its", "those", "who", "whose"}
# A literal is matched as a whole, since "image/*" begins no comment, and so is a comment, for its quotes.
TOKEN = re.compile(r'''"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/\*.*?\*/|//[^\n]*''', re.DOTALL)
FIRST_WORD = re.compile(r"/[/*\s]*(\w+)")


def wants(root, name):
    return name.startswith(PROGRAMS) and name.endswith((".c", ".h"))


def check(root, names):
    complaints = []
    for name in names:
        text = (root / name).read_text(errors="replace")
        for token in TOKEN.finditer(text):
            word = FIRST_WORD.match(token[0])
            if word and word[1].lower() in REFUSED:
                line = text.count("\n", 0, token.start() + word.start(1)) + 1
                complaints.append(f'{name}:{line}: begins with "{word[1]}": name who does what, or the noun')
    return complaints


BAD = {
    "function.c": "/* What the runtime holds. */\nint f(void);\n",
    "field.h": "struct s {\n        int size; /* of all blobs */\n};\n",
    "constant.h": "enum e {\n        A, /* one that waits */\n};\n",
    "header.h": "/* SPDX-License-Identifier: Apache-2.0 */\n\n/*\n * What became of an image\n */\n",
    "later.c": "/* Returns the name. */\nint f(void);\n\n/* Its end. */\nint g(void);\n",
    "literal.c": "char c = '\"'; /* those of the node */\n",
    "line.c": "int n; // whose number\n",
}
GOOD = {
    "noun.h": "struct s {\n        int size; /* size of all blobs */\n        int n;    /* 0: none of them */\n};\n",
    "sentence.c": "/* Keeps what a previous run finished: one file\n * of each image, that is. */\nint f(void);\n",
    "literal.c": 'const char *type = "image/* of any kind */";\nchar c = \'"\';\n',
    "quotes.c": "/* Don't stop at \"quotes\". */\n/* Once. */\n/* Office. */\n/**/\nint n;\n",
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
