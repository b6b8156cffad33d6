# SPDX-License-Identifier: Apache-2.0
"""The agent's reports about itself: health, metrics, its service manager; and its reload."""

from __future__ import annotations

import re
import signal
import time
import urllib.error
import urllib.request

import pytest

from fake import behaviours
from lab import sanitizers
from lab.documents import write_whole
from lab.metrics import fetch_metrics
from lab.preload import Preload
from lab.trouble import wait_logged
from lab.wait import stretch, wait_until


def fetch(agent, path: str) -> tuple[int, str, str]:
    """Status, content type and body."""
    try:
        with urllib.request.urlopen(f"http://{agent.metrics_address}{path}", timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


@pytest.fixture
def quiet_agent(make_agent, fake_runtime):
    """An agent whose level, limits and log format come from its configuration file alone."""
    agent = make_agent(fake_runtime.endpoint, config={"logLevel": "info", "maxParallelPulls": 1})
    agent.argv.remove("--log-level=debug")
    agent.start()
    return agent


# HTTP


def test_health(make_agent, fake_runtime):
    """/healthz is good while the agent works, /readyz only while there is a runtime."""
    fake_runtime.front.vanish()
    agent = make_agent(fake_runtime.endpoint)
    agent.start()
    assert fetch(agent, "/healthz")[0] == 200
    assert fetch(agent, "/readyz")[0] == 503
    fake_runtime.front.listen()
    wait_until(lambda: fetch(agent, "/readyz")[0] == 200, 5, "ready")
    assert fetch(agent, "/nothing")[0] == 404


def test_metrics(start_agent, fake_runtime):
    """The metrics are well-formed, of the domain, in base units, and count what was done."""
    fake_runtime.on("PullImage", behaviours.fail("NOT_FOUND", "no such image"), image="demo/bad:1")
    fake_runtime.hold("demo/there:1")
    agent = start_agent(fake_runtime.endpoint)
    Preload(agent, "demo/good:1", "demo/bad:1", "demo/there:1", backoff_limit=0).wait_end()
    status, content_type, text = fetch(agent, "/metrics")
    assert status == 200 and content_type.startswith("text/plain; version=0.0.4")
    metrics = fetch_metrics(agent.metrics_address)
    assert metrics.total("inplaced_pulls_total", result="succeeded") == 1
    assert metrics.get_value("inplaced_pulls_total", result="failed", reason="NotFound") == 1
    assert metrics.total("inplaced_pulls_total", result="present") == 1
    assert metrics.get_value("inplaced_pull_duration_seconds_count", result="succeeded") == 1
    assert metrics.total("inplaced_cri_requests_total", method="PullImage") == 2
    assert metrics.total("inplaced_cri_request_duration_seconds_count", method="PullImage") == 2
    assert metrics.total("inplaced_images_wanted") == 3
    assert metrics.get_value("inplaced_images_wanted", phase="failed") == 1
    assert metrics.total("inplaced_local_api_requests_total", method="Preload") == 1
    assert metrics.get_value("inplaced_runtime_ready") == 1
    version = agent.ctl("--version").stdout.split()[1]
    assert metrics.get_value("inplaced_build_info", version=version) == 1
    written = metrics.get_value("inplaced_status_last_write_timestamp_seconds")
    assert abs(time.time() - written) < 60
    assert "demo/" not in text, "names of images are labels without bound"
    for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE):
        assert name.endswith("_total"), name
    assert not re.search(r"_(ms|msec|milliseconds|kb|mb|percent)\b", text)


def test_calls_of_a_pull_in_metrics(start_agent, runtime, gate):
    """Each call that a pull makes of the runtime is in the metrics, with those for its lease, and nothing is dropped."""
    agent = start_agent(runtime.endpoint)
    count = lambda method: agent.metrics().total("inplaced_cri_requests_total", method=method)  # noqa: E731
    preload = Preload(agent, gate.reference)
    gate.wait_fetched()
    wait_until(lambda: count("ListResources") > 0, 10, "question for what the lease holds")
    gate.open()
    assert preload.wait_end().phase == agent.messages.PHASE_SUCCEEDED
    # An agent ends the leases that one before it has left, too.
    wait_until(lambda: count("Delete") > 0, 10, "end of the lease")
    assert count("Create") == count("PullImage") == 1
    assert agent.metrics().get_value("inplaced_metrics_dropped_total") == 0


def test_queue_in_metrics(start_agent, fake_runtime):
    """How many pulls run and how many wait is a gauge each."""
    fake_runtime.on("PullImage", behaviours.hang())
    agent = start_agent(fake_runtime.endpoint, max_parallel_pulls=2)
    preload = Preload(agent, *(f"demo/web:{number}" for number in range(5)))

    def gauges() -> tuple[float, float]:
        metrics = agent.metrics()
        names = ("inplaced_pulls_running", "inplaced_pulls_queued")
        return metrics.get_value(names[0]), metrics.get_value(names[1])

    wait_until(lambda: gauges() == (2, 3), 5, lambda: f"2 and 3: {gauges()}")
    preload.cancel()
    wait_until(lambda: gauges() == (0, 0), 5, lambda: f"none: {gauges()}")


def test_metrics_address_is_taken(make_agent, fake_runtime):
    """If another program listens at the metrics' address, the agent says so and works on."""
    first, second = make_agent(fake_runtime.endpoint), make_agent(fake_runtime.endpoint)
    first.start()
    second.argv = [
        f"--metrics-address={first.metrics_address}" if "--metrics" in word else word
        for word in second.argv
    ]
    second.start()
    assert wait_logged(second, first.metrics_address)["level"] == "error"
    assert Preload(second, "demo/web:1").wait_end().phase == second.messages.PHASE_SUCCEEDED


# The service manager


def test_notices(start_agent, fake_runtime):
    """READY comes once it works, STATUS describes its work, STOPPING comes when it ends."""
    agent = start_agent(fake_runtime.endpoint)
    agent.request("demo/web:1")
    agent.wait_status("demo/web:1", "Succeeded")
    wait_until(
        lambda: any("1 images desired" in one.value for one in agent.notify.notices("STATUS")),
        5,
        lambda: f"status: {agent.notify.notices('STATUS')}",
    )
    assert agent.terminate().code == 0
    agent.notify.wait_for("STOPPING", 5)
    assert len(agent.notify.notices("READY")) == 1


def test_watchdog(make_agent, fake_runtime):
    """The watchdog is fed in time, more than once in its period."""
    # A ping comes after three quarters of it at the latest, and on a busy machine a moment later.
    period = 4 * min(stretch(1), 3)
    agent = make_agent(fake_runtime.endpoint, watchdog_seconds=period)
    agent.start()
    wait_until(lambda: len(agent.notify.notices("WATCHDOG")) >= 3, 3 * period, "pings")
    times = [notice.at for notice in agent.notify.notices("WATCHDOG")]
    gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    assert max(gaps) < period, gaps


@pytest.mark.handover
def test_end_while_pulling(start_agent, runtime, gate):
    """SIGTERM ends it promptly in the middle of a pull, which the runtime sees cancelled."""
    agent = start_agent(runtime.endpoint)
    agent.request(gate.reference)
    agent.wait_status(gate.reference, "Pulling")
    gate.wait_fetched()
    preload = Preload(agent, gate.reference)
    preload.wait_phase("PULLING")
    ended = agent.terminate()
    assert ended.code == 0 and ended.seconds < stretch(5 * sanitizers.SLOWNESS)
    gate.wait_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_that_end_it(start_agent, fake_runtime, number):
    """SIGTERM and SIGINT end an idle agent in order."""
    agent = start_agent(fake_runtime.endpoint)
    agent.process.send(number)
    wait_until(lambda: agent.process.code is not None, 5 * sanitizers.SLOWNESS, "end")
    assert agent.terminate().code == 0


# Configuration


def test_reload(quiet_agent, fake_runtime):
    """SIGHUP takes over another level and limit at once, and the service manager is notified."""
    agent = quiet_agent
    fake_runtime.on("PullImage", behaviours.hang())
    preload = Preload(agent, "demo/web:1", "demo/web:2")
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 1, 5, "first pull")
    ready = agent.notify.wait_for("READY", 1).at
    agent.reload({"logLevel": "error", "maxParallelPulls": 2})
    reloading = agent.notify.wait_for("RELOADING", 5)
    agent.notify.wait_for("MONOTONIC_USEC", 5)
    agent.notify.wait_for("READY", 5, since=reloading.at)
    assert reloading.at > ready
    wait_until(lambda: len(fake_runtime.calls("PullImage")) == 2, 5, "second pull")
    assert agent.metrics().get_value("inplaced_config_reloads_total", result="succeeded") == 1
    before = len(agent.logs())
    agent.reload({"logLevel": "error"})
    agent.notify.wait_for("RELOADING", 5, since=reloading.at + 1e-6)
    reloads = "inplaced_config_reloads_total"
    wait_until(lambda: agent.metrics().total(reloads, result="succeeded") == 2, 5, "second reload")
    assert len(agent.logs()) == before
    preload.cancel()


@pytest.mark.parametrize(
    "text", ["{", "logLevel: loud\n", "colour: red\n", "maxParallelPulls: 0\n", "- a\n"]
)
def test_bad_configuration_changes_nothing(quiet_agent, fake_runtime, text):
    """SIGHUP with a configuration that is wrong is reported in a line; all stays as it was."""
    agent = quiet_agent
    write_whole(agent.config_path, text)
    agent.reload()
    line = wait_logged(agent, "Cannot reload the configuration")
    assert line["level"] == "error" and str(agent.config_path) in line["message"]
    reloading = agent.notify.wait_for("RELOADING", 5)
    agent.notify.wait_for("READY", 5, since=reloading.at)
    assert agent.metrics().get_value("inplaced_config_reloads_total", result="failed") == 1
    fake_runtime.on("PullImage", behaviours.hang())
    preload = Preload(agent, "demo/web:1", "demo/web:2")
    wait_until(lambda: agent.metrics().get_value("inplaced_pulls_queued") == 1, 5, "limit of one")
    preload.cancel()


def test_change_that_needs_a_restart(quiet_agent):
    """A setting that cannot change while it runs is named in a warning."""
    quiet_agent.reload({"nodeName": "other", "hostRoot": "/elsewhere", "logLevel": "info"})
    line = wait_logged(quiet_agent, "at the next start only")
    assert line["level"] == "warning" and "host-root" in line["message"]
    # The option that a flag gives is the same as before.
    assert "node-name" not in line["message"]
