# SPDX-License-Identifier: Apache-2.0
"""compare.py SOCKET STATUS REFERENCE...: is in the runtime what the NodeImage in STATUS says?

Asks the runtime behind SOCKET itself, for each reference, with nothing of the agent in between.
Prints a table; the exit status is 0 if every line of it ends in "yes".
"""

import json
import sys

from lab.cri import Cri


def read_claims(path):
    """What the status says: {"NAME:TAG" or "NAME@DIGEST": image ID, or the phase if it has none}."""
    with open(path, encoding="utf-8") as file:
        status = json.load(file).get("status", {})
    claims = {}
    for name, image in status.get("imageStatuses", {}).items():
        for tag in image["tags"]:
            separator = "@" if ":" in tag["tag"] else ":"
            identity = tag.get("imageID", tag["phase"])
            claims[name + separator + tag["tag"]] = identity.rpartition("@")[2]
    return claims


def find_claim(claims, reference):
    """The status may leave away what is the default: docker.io/library/ and :latest."""
    short = reference.removeprefix("docker.io/").removeprefix("library/")
    has_tag = ":" in short.rpartition("/")[2] or "@" in short
    for name in (reference, short, f"{short}:latest"):
        if name in claims and (has_tag or name.endswith(":latest")):
            return claims[name]
    return "nothing"


def main(socket, status, *references):
    claims = read_claims(status)
    runtime = Cri(socket)
    rows = [("REFERENCE", "INPLACED SAYS", "RUNTIME SAYS", "EQUAL")]
    n_equal = 0
    for reference in references:
        claim = find_claim(claims, reference)
        image = runtime.image_status(reference)
        fact = image.id if image else "nothing"
        is_equal = image is not None and claim == fact
        n_equal += is_equal
        if is_equal:
            rows.append((reference, shorten(claim), shorten(fact), "yes"))
        else:
            rows.append((reference, claim, fact, "NO"))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    return 0 if n_equal == len(references) else 1


def shorten(identity):
    """As much of a digest as a person compares; the verdict is about all of it."""
    return identity[:26] + "..." if identity.startswith("sha256:") else identity


sys.exit(main(*sys.argv[1:]))
