# SPDX-License-Identifier: Apache-2.0
"""The pages refer to existing things: commands, other pages and their headings, the version."""

import re
import shutil
from xml.etree import ElementTree

import pytest

from conftest import REPOSITORY

PAGES = sorted(
    path.relative_to(REPOSITORY)
    for path in REPOSITORY.rglob("*.md")
    if path.relative_to(REPOSITORY).parts[0] != "build"
)


def heading_anchors(page):
    """As the forges make them of headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("arguments", [(), ("made",)])
def test_the_image_is_built_with_and_without_arguments(checkout, write_script, run, arguments):
    """As README.md calls it, and as packaging/build does; as far as the libraries, which take minutes."""
    for name in ("packaging/artifact.sh", "packaging/image/build"):
        (checkout / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, checkout / name)
    for name in ("CMakeLists.txt", "VERSION"):
        (checkout / name).write_text("")
    write_script("checkout/packaging/image/libraries", "echo no libraries >&2; exit 1")
    done = run("packaging/image/build", *arguments, cwd=checkout, INPLACED_ARCHITECTURES="amd64")
    assert (done.returncode, done.stdout) == (1, "no libraries\n")
    assert [path.name for path in checkout.rglob("made")] == list(arguments)
    assert (checkout / "build/artifacts").is_dir() == (not arguments)


def test_links():
    broken = []
    for name in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", (REPOSITORY / name).read_text()):
            path, _, anchor = target.partition("#")
            page = (REPOSITORY / name).parent / path if path else REPOSITORY / name
            if not page.exists() or (anchor and anchor not in heading_anchors(page)):
                broken.append(f"{name}: {target}")
    assert PAGES and not broken


@pytest.mark.parametrize("picture", sorted((REPOSITORY / "docs/pictures").glob("*.svg")), ids=lambda path: path.name)
def test_pictures(picture):
    """A forge shows them inside a page: small, and nothing that it would take out or that would have to be fetched."""
    text = picture.read_text()
    parsed = ElementTree.fromstring(text)
    assert len(text) < 150_000
    assert parsed.find("{http://www.w3.org/2000/svg}title").text
    assert not re.search(r"<(script|foreignObject|image|a)\b|@import|url\((?!#)|https?://(?!www\.w3\.org/)", text)
