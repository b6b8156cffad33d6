# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the lint programs: they list the files, and report findings.

A lint is a function check(root, names) that returns a list of complaints about the named files of
the folder. Before it checks the project it has to prove itself: it must find fault with each bad
sample, and none with the good ones.
"""

import pathlib
import subprocess
import sys
import tempfile

TOOL_SECONDS = 250  # less than ctest gives to the lint
SKIPPED_FOLDERS = {".git", "build", "__pycache__"}


def list_files(root):
    """The project's files, also new ones that git does not track yet; relative to the root."""
    git = ["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"]
    options = ["--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        listed = subprocess.run([*git, *options], check=True, capture_output=True, text=True)
        names = listed.stdout.split("\0")
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*")]
        names = [n for n in names if not SKIPPED_FOLDERS & set(n.split("/"))]
    return sorted({n for n in names if n and (root / n).is_file() and not (root / n).is_symlink()})


def is_script(root, name, *interpreters):
    """Whether the file starts with #! and one of the interpreters."""
    with open(root / name, "rb") as file:
        words = file.readline(200).decode(errors="replace").replace("/", " ").split()
    return words[:1] == ["#!"] and not set(interpreters).isdisjoint(words)


def complaints_about_samples(check, samples):
    """Maps the name of each sample to what the check has to say about it alone.

    A sample is the text of the file with that name, or a dict of several files.
    """
    found = {}
    for name, sample in samples.items():
        files = sample if isinstance(sample, dict) else {name: sample}
        with tempfile.TemporaryDirectory(prefix="lint-") as folder:
            for file, text in files.items():
                path = pathlib.Path(folder) / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            found[name] = check(pathlib.Path(folder), sorted(files))
    return found


def prove(check, bad, good):
    for name, complaints in complaints_about_samples(check, bad).items():
        if not complaints:
            sys.exit(f"This lint is broken: it finds nothing wrong with its bad sample {name}.")
    for name, complaints in complaints_about_samples(check, good).items():
        if complaints:
            sys.exit(f"This lint is broken: about its good sample {name} it says {complaints}.")


class ToolFailed(Exception):
    """A tool could not do its work. That is no verdict about the files, and so a failure of the lint."""


def run_tool(root, command, complaining=(1,), timeout=TOOL_SECONDS):
    """Runs the tool; returns its output, line by line, or nothing if its exit status is 0.

    With a status in `complaining` it has found something, and says what; with any other one, as by a
    signal, it has failed.
    """
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=timeout)
    except OSError as error:
        raise ToolFailed(f"{command[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{command[0]} did not end within {timeout} seconds") from None
    lines = (done.stdout + done.stderr).splitlines()
    if done.returncode == 0:
        return []
    if done.returncode not in complaining or not lines:
        raise ToolFailed("\n".join([*lines, f"{command[0]} ended with status {done.returncode}"]))
    return lines


def main(check, wants, bad, good):
    """Runs the lint over the files for which wants(root, name) is true. Returns the exit status."""
    root = pathlib.Path(sys.argv[1]).resolve()
    try:
        prove(check, bad, good)
        names = [name for name in list_files(root) if wants(root, name)]
        complaints = check(root, names)
    except ToolFailed as failure:
        print(failure)
        return 1
    for complaint in complaints:
        print(complaint)
    print(f"{len(names)} files, {len(complaints)} complaints")
    if not names:
        print("There was nothing to check.")
    return 1 if complaints or not names else 0
