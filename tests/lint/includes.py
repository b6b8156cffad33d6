#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every #include of the product is one that includes.rules allows."""

import fnmatch
import pathlib
import re
import sys

import lint

RULES = pathlib.Path(__file__).with_name("includes.rules")

# Names of headers in the rules; the first pattern that matches counts. Any other header of ours is called by
# its folder, which also stands for the headers below it that have a word.
WORDS = {
    r"<systemd/(sd-\w+)\.h>": r"\1",
    r"<grpc/.*>": "grpc",
    r"<protobuf-c/.*>": "protobuf-c",
    r"<json-c/.*>": "json-c",
    r"<yaml\.h>": "yaml",
    r"<microhttpd\.h>": "microhttpd",
    r"<libsmartcols/.*>": "smartcols",
    r"<curl/.*>": "curl",
    r"<pthread\.h>": "pthread",
    r"<.*>": "libc",
    r'"(proto/\w+)/.*"': r"\1",
    r'"agent/base/(clock|log|loop|reconcile)\.h"': r"\1",
    r'"(agent/pod/(?:gate-spec|pod)|agent/rpc/client|agent/cluster/pod-waits|agent/image/image-ref|agent/image/pull-reason|agent/node/owner|cri/discover|agent/document/(?:documents|json-reader)|agent/observe/metrics)\.h"': r"\1",
    r'"(.*)/[^/]*"': r"\1",
}


def wants(root, name):
    return re.fullmatch(r"(agent|cri)/.*\.[ch]", name) is not None


def read_rules():
    for line in RULES.read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, *words = line.split()
            yield pattern, set(words)


def word_for(include):
    for pattern, word in WORDS.items():
        match = re.fullmatch(pattern, include)
        if match:
            return match.expand(word)
    return include


def is_allowed(include, allowed):
    word = word_for(include)
    return word in allowed or str(pathlib.PurePath(word).parent) in allowed


def check(root, names):
    rules = list(read_rules())
    complaints = []
    for name in names:
        allowed = next((words for pattern, words in rules if fnmatch.fnmatch(name, pattern)), None)
        if allowed is None:
            complaints.append(f"{name}: no rule says what it may include")
            continue
        own_header = f'"{pathlib.PurePath(name).with_suffix(".h")}"'
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(<[^>]*>|"[^"]*")', line)
            if match and match[1] != own_header and not is_allowed(match[1], allowed):
                complaints.append(f"{name}:{number}: may not include {match[1]}")
    return complaints


BAD = {
    "agent/image/pull-plan.c": "#include <systemd/sd-event.h>\n",
    "agent/image/pull-reason.c": '#include "agent/base/clock.h"\n',
    "agent/image/pull.c": "#include <grpc/grpc.h>\n",
    "agent/observe/metrics.c": "#include <microhttpd.h>\n",
    "cri/client.c": '#include "agent/image/desired-image.h"\n',
    "agent/kube/watch.c": "#include <curl/curl.h>\n",
    "agent/kube/event.c": '#include "agent/image/desired-image.h"\n',
    "agent/unknown/x.c": "",
}
GOOD = {
    "agent/image/pull.c": '#include "agent/image/pull.h"\n#include "agent/base/clock.h"\n',
    "agent/rpc/completion.c": "#include <pthread.h>\n#include <grpc/grpc.h>\n",
}

if __name__ == "__main__":
    sys.exit(lint.main(check, wants, BAD, GOOD))
