# SPDX-License-Identifier: Apache-2.0
"""Proves the alerts and the dashboard: each alert fires when it should and not before, and
every query finds the metrics of a real agent.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import sanitizers
from lab.node_image import NodeImage
from lab.part import Part, says_ok
from lab.pod import OPT_IN, container
from lab.stubs import REPOSITORY
from lab.wait import free_port, wait_until

SLOWLY = sanitizers.SLOWNESS

MONITORING = REPOSITORY / "packaging" / "kubernetes" / "components" / "monitoring"
GUIDE = REPOSITORY / "docs" / "OPERATING.md"

_GROUPS = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]["groups"]
_ALERTS = {rule["alert"]: rule for group in _GROUPS for rule in group["rules"]}
_DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())

_KNOWN = (REPOSITORY / "agent" / "observe" / "metrics.c").read_text()

_API = "inplaced_api_server_requests_total"
_WRITES = "inplaced_nodeimage_status_writes_total"
_STOPS = 'inplaced_container_stops_total{node="n",cause="metadata",result="failed"}'


def _desired(name: str) -> str:
    return f'kube_daemonset_status_desired_number_scheduled{{namespace="a",daemonset="{name}"}}'


def _ready(name: str) -> str:
    return f'kube_daemonset_status_number_ready{{namespace="a",daemonset="{name}"}}'


def _available(name: str) -> str:
    return f'kube_deployment_status_replicas_available{{namespace="a",deployment="{name}"}}'


# For each alert what makes it fire, with the time until then, and what is like it and does not. Samples are
# those of a minute each, in Prometheus' notation.
_ROWS: dict[str, tuple[dict[str, str], str, dict[str, str]]] = {
    "InplacedControllerAway": (
        {_available("a-inplaced-controller"): "1 1 0x30", _available("other"): "1x30"},
        "10m",
        {_available("inplaced-controller"): "0 0 0 1x30", _available("other"): "0x30"},
    ),
    "InplacedDown": (
        {'up{job="inplaced",node="n"}': "0x30"},
        "11m",
        {'up{job="inplaced",node="n"}': "0 0 0 1 0x30", 'up{job="other"}': "0x30"},
    ),
    "InplacedAbsent": (  # no pod has an address, so there is no target and no metric
        {'up{job="other"}': "1x30", 'up{job="inplaced",node="n"}': "1 1 _x30"},
        "18m",
        {'up{job="inplaced",node="n"}': "1x30"},
    ),
    "InplacedPodsMissing": (  # the pod of one of three nodes is refused, or is not ready
        {_desired("a-inplaced"): "3x30", _ready("a-inplaced"): "3 3 2x30", _ready("other"): "3x30"},
        "20m",
        {
            _desired("inplaced"): "3x30",
            _ready("inplaced"): "3 2 1 2 2 3x30",
            _desired("other"): "3x30",
            _ready("other"): "0x30",
        },
    ),
    "InplacedRestartsOften": (
        {'process_start_time_seconds{job="inplaced",node="n"}': "1 2 3 4 5x30"},
        "11m",
        {'process_start_time_seconds{job="inplaced",node="n"}': "1 2 3x30"},
    ),
    "InplacedRuntimeDown": (
        {'inplaced_runtime_ready{node="n"}': "0x30"},
        "6m",
        {'inplaced_runtime_ready{node="n"}': "0 0 1 0 0 0 0 0 1x30"},
    ),
    "InplacedApiServerUnreachable": (
        {f'{_API}{{node="n",code="none"}}': "0+1x60", f'{_API}{{node="n",code="200"}}': "7x60"},
        "20m",
        {f'{_API}{{node="n",code="none"}}': "0+1x60", f'{_API}{{node="n",code="200"}}': "0+1x60"},
    ),
    "InplacedRightMissing": (  # the counter does not exist before the first refusal
        {f'{_API}{{node="n",verb="patch",code="403"}}': "_ _ 1x60"},
        "5m",
        {f'{_API}{{node="n",verb="patch",code="409"}}': "0+1x60"},
    ),
    "InplacedNotLimited": (
        {
            'inplaced_writes_limited{node="n",kind="pods"}': "1x60",
            'inplaced_writes_limited{node="n",kind="nodeimages"}': "1 1 0x60",
        },
        "18m",
        {
            'inplaced_writes_limited{node="n",kind="pods"}': "0 0 0 1x60",
            'inplaced_writes_limited{node="m",kind="pods"}': "1x60",
        },
    ),
    "InplacedImagesFailed": (
        {
            'inplaced_images_wanted{node="n",phase="backoff"}': "1 0 1x60",
            'inplaced_images_wanted{node="n",phase="failed"}': "1x60",
        },
        "16m",
        {
            'inplaced_images_wanted{node="n",phase="waiting"}': "2x60",
            'inplaced_images_wanted{node="n",phase="failed"}': "0x60",
        },
    ),
    "InplacedImagesMissing": (
        {'inplaced_images_wanted{node="n",phase="missing"}': "1x60"},
        "16m",
        {
            'inplaced_images_wanted{node="n",phase="succeeded"}': "2x60",
            'inplaced_images_wanted{node="n",phase="missing"}': "1 1 1 0x60",
        },
    ),
    "InplacedPullsWait": (
        {
            'inplaced_pulls_queued{node="n"}': "3x90",
        },
        "70m",
        {
            'inplaced_pulls_queued{node="n"}': "3x90",
            'inplaced_pulls_total{node="n",result="succeeded"}': "0+1x90",
        },
    ),
    "InplacedStatusNotWritten": (
        {
            f'{_WRITES}{{node="n",result="failed"}}': "0+1x60",
            f'{_WRITES}{{node="n",result="succeeded"}}': "5x60",
        },
        "40m",
        {
            f'{_WRITES}{{node="n",result="failed"}}': "0+1x60",
            f'{_WRITES}{{node="n",result="succeeded"}}': "0+1x60",
        },
    ),
    "InplacedContainersStale": (
        {'inplaced_containers{node="n",verdict="stale"}': "1x60"},
        "31m",
        {'inplaced_containers{node="n",verdict="current"}': "9x60"},
    ),
    "InplacedStopsFail": (
        {_STOPS: "_ _ 1x60"},
        "5m",
        {_STOPS.replace("failed", "stopped"): "0+1x60"},
    ),
    "InplacedStopsWait": (
        {'inplaced_container_stops_running{node="n"}': "1x90"},
        "61m",
        {'inplaced_container_stops_running{node="n"}': "1x40 0 1x40"},
    ),
    "InplacedRequestsOpen": (
        {'inplaced_recreate_requests_open{node="n"}': "1x90"},
        "61m",
        {'inplaced_recreate_requests_open{node="n"}': "1x40 0 1x40"},
    ),
    "InplacedMemoryHigh": (
        {'process_resident_memory_bytes{job="inplaced",node="n"}': "110000000x30"},
        "16m",
        {
            'process_resident_memory_bytes{job="inplaced",node="n"}': "30000000x30",
            'process_resident_memory_bytes{job="other",node="n"}': "900000000x30",
        },
    ),
}


def run_promtool(*arguments: str | Path) -> str:
    ran = subprocess.run(
        ["promtool", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_each_alert_is_proved_and_explained():
    """Each alert is in the table above, and in the operators' guide under a heading of its own."""
    assert set(_ROWS) == set(_ALERTS)
    headings = re.findall(r"^### (Inplaced\w+)$", GUIDE.read_text(), re.MULTILINE)
    assert headings == list(_ALERTS)


@pytest.mark.parametrize("alert", _ALERTS)
def test_alert(folder, alert):
    """The alert fires for the failing node with its labels, and not for a healthy one."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": _GROUPS}))
    fires, at, quiet = _ROWS[alert]
    count = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'

    def case(series: dict[str, str], value: int | None) -> dict[str, Any]:
        samples = [] if value is None else [{"labels": "{}", "value": value}]
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": text} for name, text in series.items()],
            "promql_expr_test": [{"expr": count, "eval_time": at, "exp_samples": samples}],
        }

    tests = {"rule_files": ["rules.yaml"], "tests": [case(fires, 1), case(quiet, None)]}
    path = folder / "tests.yaml"
    path.write_text(yaml.safe_dump(tests))
    print(run_promtool("test", "rules", path))
    assert set(_ALERTS[alert]["annotations"]) == {"summary", "description"}
    assert _ALERTS[alert]["labels"]["severity"] in ("warning", "critical")


class Prometheus:
    """A real one that reads the metrics of an agent, with the labels that the PodMonitor gives."""

    def __init__(self, folder: Path, metrics_address: str) -> None:
        folder.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        labels = {"node": "n"}
        scrape = {
            "job_name": "inplaced",
            "scrape_interval": "200ms",
            "scrape_timeout": "200ms",
            "static_configs": [{"targets": [metrics_address], "labels": labels}],
        }
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": _GROUPS}))
        config = folder / "prometheus.yaml"
        config.write_text(
            yaml.safe_dump({"scrape_configs": [scrape], "rule_files": ["rules.yaml"]})
        )
        argv = [
            *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data"),
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        self.part = Part(folder, argv, lambda: says_ok(f"{self.url}/-/ready"))
        self.part.start()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The current result of the expression; a syntax error is an HTTPError."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]


@pytest.fixture
def prometheus(node_agent, folder):
    made = Prometheus(folder / "prometheus", node_agent.metrics_address)
    yield made
    made.part.kill9()


@pytest.mark.containers
@pytest.mark.timeout(180 * SLOWLY)
def test_queries_find_what_the_agent_says(
    prometheus, node_agent, node, registry, make_pod, tools
):
    """Each query of the dashboard, and each selector of the alerts, as far as all is well.

    The agent has pulled an image, failed to pull another one, and restarted a container. Labels of what has
    not happened are among those that the agent knows.
    """
    good = registry.push_image("t/monitoring", "1", [1000]).reference
    # A status to write, whatever the test before has left.
    NodeImage(node.control_plane.admin, node.name).request(good)
    assert node_agent.ctl("pull", good).returncode == 0
    assert node_agent.ctl("pull", "--attempts=1", good.replace(":1", ":none")).returncode == 1
    pod = make_pod(container("main", tools), annotations={OPT_IN: "true"}, owner=False)
    assert node_agent.ctl("restart", "--wait", f"{pod.name}/main").returncode == 0

    for panel in _DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m").replace("$node", ".*")
            found = wait_until(
                lambda expression=expression: prometheus.query(expression),
                20 * SLOWLY,
                f"answer for {panel['title']}: {expression}",
                0.1,
            )
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert labels <= set(found[0]["metric"]), f"{panel['title']}: {target['legendFormat']}"
    for alert, rule in _ALERTS.items():
        if "kube_" in rule["expr"]:
            continue  # a metric of kube-state-metrics
        selectors = re.findall(r"\b((?:inplaced_|process_|up\b)\w*)(?:{([^}]*)})?", rule["expr"])
        assert selectors, alert
        for name, matchers in selectors:
            # The agent checks its limits a minute after it was started.
            wait_until(
                lambda name=name: prometheus.query(name), 70 * SLOWLY, f"{alert}: {name}", 0.5
            )
            for label, values in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
                assert prometheus.query(f'{name}{{{label}!=""}}'), f"{alert}: {name} {label}"
                for value in values.split("|"):
                    assert label == "job" or f'"{value}"' in _KNOWN, f"{alert}: {label}={value}"


def test_dashboard():
    """The panels have different titles and do not overlap; the dashboard has variables for Prometheus and nodes."""
    panels = _DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels})
    places = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & places and max(x for x, _ in cells) < 24, panel["title"]
        places |= cells
    assert [one["name"] for one in _DASHBOARD["templating"]["list"]] == ["datasource", "node"]
