# SPDX-License-Identifier: Apache-2.0
"""tests/run itself, around tests that fail in every way."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from compatibility import HEAD
from conftest import REPOSITORY
from lab.wait import wait_until

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(sample LANGUAGES NONE)
enable_testing()
function(test name)
  add_test(NAME ${{name}} COMMAND ${{ARGN}})
  set_tests_properties(${{name}} PROPERTIES LABELS lint TIMEOUT 5 SKIP_RETURN_CODE 77)
endfunction()
{tests}
"""

PASS = "test(lint/a true)\n"
SKIP = 'test(lint/s sh -c "exit 77")\n'
CRASH = 'test(lint/c sh -c "kill -SEGV $$")\n'
MISSING = "test(lint/m ./no-such-program)\n"


@pytest.fixture
def run_stage(checkout, run):
    """run_stage(TESTS, …): tests/run with these tests as its stage lint."""

    def run_lint(tests, *wrapper, **environment):
        (checkout / "CMakeLists.txt").write_text(CMAKE.format(tests=tests))
        return run(*wrapper, "tests/run", "--only", "lint", cwd=checkout, **environment)

    return run_lint


@only_root
@pytest.mark.parametrize(
    ("tests", "status", "last_line"),
    [
        (PASS, 0, "1 passed, 0 failed"),
        (PASS + SKIP, 0, "1 passed, 0 failed, 1 skipped"),
        (PASS + CRASH, 1, "1 passed, 1 failed"),
        (PASS + MISSING, 1, "1 passed, 1 failed"),
        (SKIP, 1, "0 passed, 1 failed, 1 skipped"),
        ("", 1, "0 passed, 1 failed"),
        ("this is no CMake\n", 1, "0 passed, 1 failed"),
    ],
)
def test_last_line_and_status(run_stage, tests, status, last_line):
    done = run_stage(tests)
    assert done.stdout.splitlines()[-1] == last_line
    assert done.returncode == status, done.stdout


@only_root
def test_structure_is_counted(checkout, run_stage):
    (checkout / "agent").mkdir()
    (checkout / "agent/x.c").write_text("int a;\n")
    said = run_stage(PASS).stdout.splitlines()
    assert "files: 1" in said and "cycles between files: 0" in said


@only_root
def test_skips_are_named(run_stage):
    assert "skipped: lint/s: SKIP_RETURN_CODE=77 (lint, dev)" in run_stage(PASS + SKIP).stdout


@only_root
def test_skips_where_ci_runs(checkout, run_stage):
    done = run_stage(PASS + SKIP, CI="true")
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
    assert done.returncode == 1

    (checkout / "tests/expected-skips").write_text("lint/s\n    it needs what is not here\n")
    done = run_stage(PASS + SKIP, CI="true")
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"
    assert done.returncode == 0

    (checkout / "tests/expected-skips").write_text("lint/s\n")
    assert run_stage(PASS + SKIP, CI="true").returncode == 1


@only_root
def test_what_is_built_belongs_to_the_caller(checkout, run_stage):
    assert run_stage(PASS).returncode == 0
    assert (checkout / "build/dev").stat().st_uid == 0

    assert run_stage(PASS, SUDO_UID="65534", SUDO_GID="65534").returncode == 0
    made = [checkout / "build", *(checkout / "build").rglob("*")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(65534, 65534)}
    assert (checkout / "tests/run").stat().st_uid == 0

    # A failure, too, leaves nothing of root's.
    run_stage(CRASH, SUDO_UID="65534", SUDO_GID="65534")
    assert {path.lstat().st_uid for path in (checkout / "build").rglob("*")} == {65534}


@only_root
def test_the_owner_of_a_checkout_builds_after_root(checkout, folder, run_stage, run):
    """Root called without sudo, from the root shell of a machine for example."""
    for path in (checkout, *checkout.rglob("*")):
        os.chown(path, 65534, 65534)
    assert run_stage(PASS).returncode == 0
    made = [checkout / "build", *(checkout / "build").rglob("*")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(65534, 65534)}

    owner = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env", f"HOME={folder}")
    assert (done := run(*owner, "cmake", "--preset", "dev", cwd=checkout)).returncode == 0, done.stdout
    assert (done := run(*owner, "cmake", "--build", "--preset", "dev", cwd=checkout)).returncode == 0, done.stdout

    # And the other way round.
    assert run_stage(PASS).returncode == 0
    assert {path.lstat().st_uid for path in (checkout / "build").rglob("*")} == {65534}


# Tests of the stages runtimes and packaging, and what is built meanwhile: the first tests wait until that has begun.
WAITS = """import os, time
def test_a_kubelet():
    end = time.monotonic() + 60
    while not os.path.exists("build/begun"):
        assert time.monotonic() < end
        time.sleep(0.01)
"""
INSTALLED = """import os
def test_it():
    assert os.path.exists(os.environ["INPLACED_ARTIFACTS"] + "/made")
"""
BUILD = 'mkdir -p build; nice >build/begun; read -r _ _ pgid _ < <(cut -d ")" -f 2 /proc/self/stat); echo "$pgid" >>build/begun; '


@pytest.fixture
def run_late_stages(checkout, write_script):
    """run_late_stages(PACKAGING): begins tests/run with these stages; packaging/build is that script."""

    def begin(script):
        (checkout / "CMakeLists.txt").write_text(CMAKE.format(tests=""))
        for folder in ("node", "cluster", "packaging"):
            (checkout / "tests" / folder).mkdir()
            (checkout / f"tests/{folder}/test_x.py").write_text(INSTALLED if folder == "packaging" else WAITS)
            (checkout / f"tests/{folder}/conftest.py").write_text(
                "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow: x')\n")
        for name in ("metadata_restart", "metadata_restart_bad", "recreate", "verify"):
            (checkout / f"tests/cluster/test_{name}.py").write_text(WAITS if name == "recreate" else "")
        for name in ("cluster/control-plane/build", "cluster/clients/build", "runtimes/build"):
            write_script(f"checkout/tests/{name}", "true")
        write_script("checkout/packaging/build", BUILD + script)
        kept = {n: v for n, v in os.environ.items() if n != "CI" and not n.startswith(("INPLACED_", "SUDO_"))}
        command = ["tests/run", "--only", "runtimes", "--only", "packaging"]
        return subprocess.Popen(command, cwd=checkout, env=kept, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    return begin


@only_root
@pytest.mark.parametrize(
    ("script", "last_line"),
    [("mkdir -p ${!#}; touch ${!#}/made", "5 passed, 0 failed"), ("echo BROKEN; exit 1", "4 passed, 1 failed")],
)
def test_artifacts_are_built_while_tests_wait(checkout, run_late_stages, script, last_line):
    """With the lowest priority."""
    said, _ = run_late_stages(script).communicate(timeout=120)
    assert said.splitlines()[-1] == last_line, said
    assert ("BROKEN" in said) == ("BROKEN" in script)
    assert (checkout / "build/begun").read_text().split()[0] == "19"


@only_root
def test_what_is_built_in_the_background_ends_with_it(checkout, run_late_stages):
    running = run_late_stages("while :; do read -t 1 </dev/zero; done")
    begun = checkout / "build/begun"
    wait_until(lambda: begun.exists() and len(begun.read_text().split()) == 2, 60, "process in the background")
    group = int(begun.read_text().split()[1])
    # bash 5.2 may fail to parse a trap while it reads a command substitution, and goes on then.
    for _ in range(10):
        running.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.communicate(timeout=20)
            break
    assert running.returncode == 143
    assert not list(Path("/proc").glob(f"{group}"))


BUILT = """import os, pytest
@pytest.mark.older
def test_it():
    assert sorted(os.listdir("build/runtimes")) == ["containerd", "crio", "stargz"]
def test_newest():
    assert os.environ["INPLACED_CONTROL_PLANE"] == "newest"
"""


@only_root
def test_what_the_stage_cluster_needs_is_built(checkout, write_script, run):
    """Alone it finds nothing that the stage node has built. Some of its tests run on an older Kubernetes, too."""
    (checkout / "CMakeLists.txt").write_text(CMAKE.format(tests=""))
    for name in ("cluster/clients/build", "cluster/kruise/build", "cluster/flux/build"):
        write_script(f"checkout/tests/{name}", "true")
    write_script("checkout/tests/cluster/control-plane/build", 'echo "${1:-newest}"')
    (checkout / "tests/unsanitized").touch()
    write_script("checkout/tests/runtimes/build", 'mkdir -p build/runtimes && touch "build/runtimes/$1"')
    (checkout / "tests/cluster/test_x.py").write_text(BUILT)
    (checkout / "tests/cluster/conftest.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow: x')\n")
    done = run("tests/run", "--only", "cluster", cwd=checkout)
    assert done.stdout.splitlines()[-1] == "6 passed, 0 failed", done.stdout
    for release in ("1.34", "1.35"):
        assert f"==> cluster on Kubernetes {release}, dev: 1 passed, 0 failed" in done.stdout


SOAK = """
report=${!#}
for _ in {1..600}; do [ -e build/dev/linted ] && break; sleep 0.1; done
[ -e build/dev/linted ] && kind=system-out || kind=failure
echo SOAKED
echo '<testsuite><testcase classname="soak" name="promise" time="0"><'$kind' message="alone"/></testcase></testsuite>' >"$report"
[ "$kind" != failure ]"""


@only_root
@pytest.mark.parametrize(
    ("stages", "last_line"), [(["lint", "soak"], "2 passed, 0 failed"), (["soak"], "0 passed, 1 failed")]
)
def test_the_soak_runs_beside_other_stages(checkout, write_script, run, stages, last_line):
    """Counts as a stage of its own."""
    (checkout / "CMakeLists.txt").write_text(CMAKE.format(tests="test(lint/a touch linted)\n"))
    for name in ("cluster/control-plane", "cluster/clients"):
        write_script(f"checkout/tests/{name}/build", "true")
    write_script("checkout/tests/soak/run", SOAK if len(stages) > 1 else SOAK.replace("{1..600}", "1"))
    done = run("tests/run", *(word for stage in stages for word in ("--only", stage)), cwd=checkout)
    assert done.stdout.splitlines()[-1] == last_line, done.stdout
    assert done.stdout.count("SOAKED") == 1 and "==> soak, dev: " in done.stdout


@pytest.fixture
def small(checkout, write_script):
    """A checkout with a test of each language, and no control plane."""
    (checkout / "CMakeLists.txt").write_text(
        CMAKE.format(tests=PASS + "test(unit/x true)\ntest(unit/y true)\nadd_custom_target(test-x)\n"
                     "foreach(name inplaced inplacectl kubectl-inplace clock-ahead failing-thread failing-call)\n"
                     "  add_custom_target(${name})\nendforeach()\n").replace("LABELS lint", 'LABELS "lint;unit"'))
    write_script("checkout/tests/cluster/control-plane/build", '[ -z "$INPLACED_IF_BUILT" ]')
    for name, text in (("unit/test-x.c", "TEST(test_deep) {}\n"), ("unit/test-y.c", ""),
                       ("node/test_x.py", "def test_pull(): pass\ndef test_other(): assert False\n")):
        (checkout / "tests" / name).parent.mkdir(exist_ok=True)
        (checkout / "tests" / name).write_text(text)
    return checkout


@only_root
@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("test_deep", "==> C programs: 1 passed, 0 failed, 0 skipped"),
        ("node/.*::test_pull", "==> node, dev: 1 passed, 0 failed, 0 skipped"),
        ("^lint/", "==> C programs: 1 passed, 0 failed, 0 skipped"),
    ],
)
def test_pattern(small, run, pattern, says):
    """The name of a test in a C program, of a test of pytest and of a program."""
    done = run("tests/run", pattern, cwd=small)
    assert done.stdout.splitlines()[-1] == "1 passed, 0 failed", done.stdout
    assert says in done.stdout and done.returncode == 0


@only_root
def test_pattern_of_nothing(small, run):
    done = run("tests/run", "no_such_test", cwd=small)
    assert done.stdout.splitlines()[-2:] == ['no test has a name that matches "no_such_test"', "0 passed, 0 failed"]
    assert done.returncode == 1


@pytest.mark.parametrize("arguments", [["--all", "x"], ["x", "--all"], ["--only", "x"], ["--only"], ["--quick"], [""],
                                       ["--only", "lint", "--all"], ["--ci", "--all"], ["["]])
def test_bad_arguments(run, arguments):
    done = run("tests/run", *arguments, cwd=REPOSITORY)
    assert done.returncode == 2 and done.stdout.startswith("tests/run: ") and done.stdout.count("\n") == 1


@only_root
def test_ci_runs_the_tests_of_a_change(checkout, write_script, run):
    """Skips count, the caches are the usual ones, and the status is that of the tests."""
    (checkout / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci/run", checkout / ".ci/run")
    write_script("checkout/tests/run", 'echo "$CI $XDG_CACHE_HOME $GOCACHE $*"; exit 7')
    done = run(checkout / ".ci/run", XDG_CACHE_HOME="/warm", GOCACHE="/warm/go")
    assert (done.returncode, done.stdout) == (7, "true /warm /warm/go --ci\n")


def test_repetitions_leave_each_test(run):
    """A kind of workload is left for each test, and another one for others."""
    collect = ("/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "--quiet")
    files = ("tests/cluster/test_kubectl_rollout.py", "tests/cluster/test_declared.py")
    every, some = (
        {line.partition("::")[2] for line in run(*collect, *files, cwd=REPOSITORY, INPLACED_REPEATED=repeated)
         .stdout.splitlines() if "::" in line}
        for repeated in ("yes", "no")
    )
    assert some < every
    assert {name.partition("[")[0] for name in every - some} <= {name.partition("[")[0] for name in some}
    assert all(f"test_update_and_undo[{kind}]" in every for kind in ("deployment", "statefulset", "daemonset"))
    assert sum(name.startswith("test_update_and_undo[") for name in some) == 1
    assert len({name[:-1].rpartition("[")[2] for name in some} & {"deployment", "statefulset", "daemonset"}) == 3


LATE = """import os
def test_good(): pass
def test_late():
    tried = os.path.exists("build/tried")
    open("build/tried", "w").close()
    assert tried
"""


@only_root
@pytest.mark.parametrize(
    ("text", "last_line", "status"),
    [
        (LATE, "4 passed, 0 failed, 1 passed only when they ran once more", 0),
        (LATE.replace("assert tried", "assert False"), "2 passed, 2 failed", 1),
        (LATE.replace("assert tried", "assert tried, 'a sanitizer found: x'"), "3 passed, 1 failed", 1),
    ],
    ids=["late", "bad", "a finding"],
)
def test_second_try(small, write_script, run, text, last_line, status):
    """A test that passes alone is named all the same; a sanitizer's finding stays a failure."""
    (small / "tests/node/test_x.py").write_text(text)
    (small / "tests/unsanitized").touch()
    write_script("checkout/tests/runtimes/build", "true")
    done = run("tests/run", "--only", "node", cwd=small)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last_line), done.stdout
    assert ("unsteady: tests.node.test_x: test_late" in done.stdout) == (status == 0)


@only_root
def test_second_try_of_a_part(small, write_script, run):
    """Where a stage names files, too, the others of them do not run once more."""
    (small / "tests/node/test_x.py").write_text(LATE)
    (small / "tests/unsanitized").touch()
    for name in ("runtimes", "cluster/control-plane", "cluster/clients"):
        write_script(f"checkout/tests/{name}/build", "echo /nowhere")
    for name in ("metadata_restart", "metadata_restart_bad", "recreate", "verify"):
        text = "def test_counted():\n    with open('build/counted', 'a') as file:\n        file.write('.')\n"
        (small / f"tests/cluster/test_{name}.py").write_text(text)
    done = run("tests/run", "--only", "runtimes", cwd=small)
    assert done.returncode == 0, done.stdout
    assert (small / "build/counted").read_text() == "." * 4 * 2, "each file once on each of the two runtimes"


NOTES = "import compatibility\ndef test_x(): compatibility.note('containerd', '9.9.9')\n"


@only_root
def test_tested_versions(small, run, write_script):
    """They are those that the page names; one that differs is named, with the command that corrects it."""
    write_script("checkout/tests/runtimes/build", "true")
    (small / "tests/unsanitized").touch()
    (small / "tests/node/test_x.py").write_text(f"import sys\nsys.path.insert(0, 'tests')\n{NOTES}")
    shutil.copy(REPOSITORY / "tests/compatibility.py", small / "tests")
    (small / "docs").mkdir()
    (small / "docs/COMPATIBILITY.md").write_text(f"{HEAD}| containerd | 9.9.8 | node |\n| etcd | 1 | cluster |\n")
    done = run("tests/run", "--only", "node", cwd=small)
    *_, problem, last = done.stdout.splitlines()
    assert (done.returncode, last) == (0, "2 passed, 0 failed"), done.stdout
    assert 'lacks containerd 9.9.9 in the stage "node"' in done.stdout
    assert 'did not run: containerd 9.9.8 in the stage "node"' in done.stdout and "etcd" not in done.stdout

    assert run(*problem.split(": ")[-1].split(), cwd=small).returncode == 0
    assert "differs" not in run("tests/run", "--only", "node", cwd=small).stdout
