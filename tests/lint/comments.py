#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A comment is a sentence, or a noun phrase with its noun, so it does not begin with What, Of, One and the like.

"/* of all blobs */" makes a reader search for the noun; "/* size of all blobs */" does not.
"""

import ast
import io
import re
import sys
import tokenize

import lint

FOLDERS = ("agent/", "cri/", "tests/")
REFUSED = {"what", "of", "one", "that", "its", "those", "who", "whose"}
# A literal is matched as a whole, since "image/*" begins no comment, and so is a comment, for its quotes.
C_TOKEN = re.compile(r'''"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|/\*.*?\*/|//[^\n]*''', re.DOTALL)
FIRST_WORD = re.compile(r"[/*#\s]*(\w+)")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def wants(root, name):
    return name.startswith(FOLDERS) and name.endswith((".c", ".h", ".py"))


def comments_of_c(text):
    for token in C_TOKEN.finditer(text):
        if token[0].startswith("/"):
            yield text.count("\n", 0, token.start()) + 1, token[0]


def comments_of_python(text):
    """Docstrings, and comments; the lines of a comment below its first one are no comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            yield node.body[0].lineno, node.body[0].value.value
    before = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            is_alone = not token.line[:column].strip()
            if not is_alone or before != (line - 1, column):
                yield line, token.string
            before = (line, column) if is_alone else None


def check(root, names):
    complaints = []
    for name in names:
        text = (root / name).read_text(errors="replace")
        for line, comment in comments_of_python(text) if name.endswith(".py") else comments_of_c(text):
            word = FIRST_WORD.match(comment)
            if word and word[1].lower() in REFUSED:
                line += comment.count("\n", 0, word.start(1))
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
    "module.py": '# SPDX-License-Identifier: Apache-2.0\n"""What a node has."""\n',
    "class.py": 'class Node:\n    """\n    One with a runtime.\n    """\n',
    "method.py": 'class Node:\n    async def name(self):\n        "Of the node."\n',
    "comment.py": "# The node\n\n# Its name\nNAME = ''\n",
    "indented.py": "# Names\nif True:\n    # those of nodes\n    pass\n",
    "trailing.py": "n = 1  # the size\nm = 2  # of all nodes\n",
}
GOOD = {
    "noun.h": "struct s {\n        int size; /* size of all blobs */\n        int n;    /* 0: none of them */\n};\n",
    "sentence.c": "/* Keeps what a previous run finished: one file\n * of each image, that is. */\nint f(void);\n",
    "literal.c": 'const char *type = "image/* of any kind */";\nchar c = \'"\';\n',
    "quotes.c": "/* Don't stop at \"quotes\". */\n/* Once. */\n/* Office. */\n/**/\nint n;\n",
    "module.py": '"""Nodes.\n\nWhat follows is a paragraph of it."""\n\nNAME = """Of a node"""\n',
    "comment.py": "# The names of nodes, and\n# of pods.\nn = '# one'\nm = 1  # size of all\n",
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
