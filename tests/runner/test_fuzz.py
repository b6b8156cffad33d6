# SPDX-License-Identifier: Apache-2.0
"""tests/fuzz/run keeps its findings, and says so; and a target without inputs has failed."""

import pytest

from conftest import REPOSITORY

# Outputs of libFuzzer, with its ways to end.
CLEAN = """
echo "INFO: Loaded 1 modules   (1811 inline 8-bit counters): 1811 [0x1, 0x2),"
echo "#7	NEW    cov: 12 ft: 3"; echo "#1234	DONE   cov: 195 ft: 300 corp: 5/10b lim: 4096"
echo "stat::number_of_executed_units: 1234"; echo "stat::average_exec_per_sec:     99\""""
FINDING = """
for word in "$@"; do [[ $word != -artifact_prefix=* ]] || prefix=${word#*=}; done
echo x >"${prefix}crash-1"
echo "stat::number_of_executed_units: 7"
echo "artifact_prefix='$prefix'; Test unit written to ${prefix}crash-1"
exit 77"""
CRASH = "kill -SEGV $$"
IDLE = "exit 0"


@pytest.fixture
def run_fuzz(checkout, write_script, run):
    """run_fuzz({TARGET: script in its place}, ARGUMENT…): the output of tests/fuzz/run."""

    def run_targets(targets, *arguments):
        (checkout / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(sample LANGUAGES NONE)\n"
            "add_custom_target(fuzz-targets)\n"
        )
        (checkout / "CMakePresets.json").write_text(
            '{"version": 6, "configurePresets": [{"name": "fuzz", "generator": "Ninja",'
            ' "binaryDir": "${sourceDir}/build/fuzz"}], "buildPresets":'
            ' [{"name": "fuzz", "configurePreset": "fuzz", "targets": "fuzz-targets"}]}'
        )
        for name, script in targets.items():
            write_script(f"checkout/build/fuzz/tests/fuzz-{name}", script)
            write_script(f"checkout/tests/fuzz/fuzz-{name}.c", "")
            write_script(f"checkout/tests/corpus/{name}/first", "")
        return run("tests/fuzz/run", *arguments, cwd=checkout)

    return run_targets


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        (CLEAN, 0, "1234 executions       99/s     195 of 1811 edges  nothing found"),
        (FINDING, 1, "FOUND tests/corpus/bad/found-crash-1"),
        (CRASH, 1, "FAILED with status 139"),
        (IDLE, 1, "FAILED with status 0"),
    ],
)
def test_findings(run_fuzz, checkout, script, status, words):
    done = run_fuzz({"good": CLEAN, "bad": script}, "0.1")
    assert done.returncode == status, done.stdout
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert "nothing found" in lines["good"]
    assert words in lines["bad"]
    kept = [path.name for path in (checkout / "tests/corpus/bad").glob("found-*")]
    assert kept == (["found-crash-1"] if script == FINDING else [])


def test_chosen_targets(run_fuzz):
    done = run_fuzz({"good": CLEAN, "bad": FINDING}, "0.1", "good")
    assert done.returncode == 0 and "bad" not in done.stdout


@pytest.mark.parametrize("arguments", [[], ["x"], ["0"], ["0.001"], ["1", "no-such-target"]])
def test_wrong_usage(run_fuzz, arguments):
    assert run_fuzz({"good": CLEAN}, *arguments).returncode == 2


def test_target_without_inputs(run_fuzz, checkout):
    assert run_fuzz({"good": CLEAN}, "0.1").returncode == 0
    (checkout / "tests/corpus/good/first").unlink()
    done = run_fuzz({}, "0.1")
    assert done.returncode == 2 and "good has no inputs" in done.stdout


@pytest.mark.parametrize(
    ("inputs", "status"),
    [(["good"], 0), ([], 1), (["no-such-file"], 1), (["good", "folder"], 1), (["too-long"], 1)],
)
def test_replayed_inputs(folder, run, inputs, status):
    (folder / "target.c").write_text(
        '#include "tests/fuzz/fuzz.h"\n'
        "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return 0; }\n"
    )
    (folder / "good").write_text("x")
    (folder / "folder").mkdir()
    (folder / "too-long").write_bytes(b"x" * (1 << 20))
    replay = REPOSITORY / "tests/fuzz/replay.c"
    built = run("gcc", "-std=c17", "-D_GNU_SOURCE", "-I", REPOSITORY, "-o", "fuzz", "target.c", replay)
    assert built.returncode == 0, built.stdout
    done = run("./fuzz", *inputs)
    assert done.returncode == status, done.stdout
