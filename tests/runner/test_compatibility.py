# SPDX-License-Identifier: Apache-2.0
"""The page about compatibility is compared with what ran."""

import pytest

import compatibility

PAGE = "Before.\n\n" + compatibility.HEAD + """\
| containerd | 1.6.20 | cluster, node |
| containerd | 2.4.2 | node |

After.
"""
NODE = "node\tcontainerd\t1.6.20\t7\nnode\tcontainerd\t2.4.2\t7\n"
CLUSTER = "cluster\tcontainerd\t1.6.20\t3\n"


@pytest.fixture
def compare(folder, monkeypatch):
    """compare(RAN, FLAG…): its status; the page is `page`."""
    monkeypatch.setattr(compatibility, "PAGE", folder / "page")
    (folder / "page").write_text(PAGE)

    def run(ran, *flags):
        (folder / "ran").write_text(ran)
        return compatibility.main(flags, folder / "ran")

    return run


@pytest.mark.parametrize(
    ("ran", "flags", "says"),
    [
        (NODE, (), ""),
        (NODE.splitlines(True)[0], (), 'has, but it did not run: containerd 2.4.2 in the stage "node"'),
        (NODE.splitlines(True)[0], ("--some",), ""),
        (NODE.replace("2.4.2", "2.4.3"), ("--some",), 'lacks containerd 2.4.3 in the stage "node"'),
        (NODE + CLUSTER, ("--all",), ""),
        (NODE, ("--all",), 'has, but it did not run: containerd 1.6.20 in the stage "cluster"'),
        (NODE.replace("2.4.2", "2.4.3"), (), 'lacks containerd 2.4.3 in the stage "node"'),
        (NODE + "node\tetcd\t3.7.3\t7\n", (), 'lacks etcd 3.7.3 in the stage "node"'),
        (CLUSTER.replace("\t3\n", "\t0\n"), (), ""),
        (NODE + CLUSTER.replace("\t3\n", "\t0\n"), ("--all",), "has, but it did not run"),
    ],
)
def test_page_is_compared(compare, capsys, folder, ran, flags, says):
    assert compare(ran, *flags) == (1 if says else 0)
    said = capsys.readouterr().out
    assert says in said and bool(said) == bool(says)

    assert compare(ran, *flags, "--write") == 0
    page = (folder / "page").read_text()
    assert (page == PAGE) == (not says) and page.startswith("Before.\n\n") and page.endswith("\n\nAfter.\n")
    assert compatibility.main(flags, folder / "ran") == 0


def test_versions_are_in_their_order(compare, folder):
    assert compare("a\tX\t1.10\t1\nb\tX\t1.9\t1\n", "--all", "--write") == 0
    assert (folder / "page").read_text().split("\n")[4:6] == ["| X | 1.9 | b |", "| X | 1.10 | a |"]


def test_parts_state_their_versions(folder, monkeypatch):
    monkeypatch.setenv("INPLACED_PARTS", str(folder / "parts"))
    for version in ("v1.37.2", "1.6.20~ds1", "Client Version: v1.37.2\nKustomize Version: v5.8.1\n", "12"):
        compatibility.note("X", version)
    assert (folder / "parts").read_text() == "X\t1.37.2\nX\t1.6.20\nX\t1.37.2\nX\t12\n"
