"""What exports write, read by the programs that it is for; and that a failing one ends nothing."""

import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from redline.errors import UsageError
from redline.ledger.accounts import ACCOUNTS
from redline.watch.exports import ExportedWindow, RetriedExport, WindowMetrics, export_of, openmetrics_text
from redline.watch.job_monitor import Alarm, AlarmKind, WatchedWindow
from redline.watch.window_figures import FindingShare, LateShare, WindowFigures, WindowName

BEGUN_NS = 1_790_900_000_000_000_000
RUN = 'run "17"\\a'


def exported(count: int = 3) -> list[ExportedWindow]:
    metrics = WindowMetrics(RUN)
    return [metrics.of(_window(number)) for number in range(1, count + 1)]


def _window(number: int) -> WatchedWindow:
    figures = WindowFigures(
        name=WindowName(restart=0, number=number, text=f"window-{number}"),
        start_ns=BEGUN_NS + number * 600 * 10**9,
        steps=3,
        step_ns=1e8 * number,
        accounts=dict.fromkeys(ACCOUNTS, 1e7),
        world_size=4,
        ranks=np.arange(3),
        hosts=("",) * 3,
        own_ns=np.ones(3),
        silent=(3,),
        findings=(FindingShare(code="RL-H01", gain_share=0.25),),
        late=(LateShare(rank=2, share=1.0, wait_share=0.125, cause="compute"),),
    )
    alarm = Alarm(kind=AlarmKind.STEP_SLOWER, since="window-1", change_share=0.1)
    return WatchedWindow(figures=figures, alarms=(alarm,), usual_step_ns=1e8, smallest_share=0.05)


def write_all(to: str) -> None:
    export = export_of(to)
    for window in exported():
        export.write(window)
    export.close()


# --- Prometheus -------------------------------------------------------------------------------------------------------


def test_the_text_is_what_the_collector_of_the_node_exporter_reads(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    write_all(f"openmetrics={tmp_path / 'job.prom'}")
    samples = _samples(parser.text_string_to_metric_families((tmp_path / "job.prom").read_text()))
    assert samples["redline_step_seconds", ""] == pytest.approx(0.3)
    assert samples["redline_account_seconds", "input"] == pytest.approx(0.01)
    assert samples["redline_silent_ranks", ""] == 1
    assert samples["redline_alarms", "step_slower"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["job.prom"]  # no part is left that it would read


def test_the_text_is_openmetrics_as_well() -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = openmetrics_text(exported()[0])
    assert _samples(parser.text_string_to_metric_families(text))["redline_rank_wait_ratio", "2"] == 0.125


def _samples(families: Any) -> dict[tuple[str, str], float]:
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["run"] for sample in samples} == {RUN}
    return {
        (sample.name, next((value for label, value in sample.labels.items() if label != "run"), "")): sample.value
        for sample in samples
    }


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_prometheus_own_tool_finds_no_fault_in_it() -> None:
    text = openmetrics_text(exported()[0])
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


# --- OTLP -------------------------------------------------------------------------------------------------------------


@contextmanager
def receiver(statuses: Iterator[int]) -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(next(statuses, 200))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/metrics", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_otlp_arrives_with_the_times_of_the_windows() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    proto = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    with receiver(iter(())) as (url, bodies):
        write_all(f"otlp={url}")
    (first, *_) = (proto.ExportMetricsServiceRequest.FromString(body) for body in bodies)
    assert len(bodies) == 3
    (resource,) = first.resource_metrics
    assert {item.key: item.value.string_value for item in resource.resource.attributes}["redline.run"] == RUN
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (point,) = metrics["redline.step_seconds"].gauge.data_points
    assert (point.as_double, point.time_unix_nano) == (pytest.approx(0.1), BEGUN_NS + 600 * 10**9)
    assert metrics["redline.step_seconds"].unit == "s"
    accounts = {p.attributes[0].value.string_value for p in metrics["redline.account_seconds"].gauge.data_points}
    assert accounts == {account.replace(" ", "_") for account in ACCOUNTS}


def test_a_receiver_that_refuses_is_tried_again() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    said: list[str] = []
    with receiver(iter([400])) as (url, bodies):
        export = RetriedExport("otlp", export_of(f"otlp={url}"), said.append, pause_s=0.0)
        for window in exported():
            export.write(window)
        export.close()
    assert len(bodies) == 4  # the first one twice
    assert said == [
        "export otlp fails and will be tried again: the receiver did not take the metrics",
        "export otlp works again",
    ]


# --- the others -------------------------------------------------------------------------------------------------------


def test_tensorboard_reads_the_scalars(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):  # what is written a second time replaces the first
        write_all(f"tensorboard={tmp_path}")
    accumulator = accumulators.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    points = accumulator.Scalars("redline/step_seconds")
    assert [(point.step, round(point.value, 6)) for point in points] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert points[0].wall_time == pytest.approx(BEGUN_NS / 1e9 + 600)


def test_mlflow_has_each_window_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    tracking = pytest.importorskip("mlflow.tracking")
    uri = (tmp_path / "runs").as_uri()
    for _ in range(2):
        write_all(f"mlflow={uri}")
    client = tracking.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("redline").experiment_id])
    history = client.get_metric_history(run.info.run_id, "redline/step_seconds")
    assert [(point.step, round(point.value, 6)) for point in history] == [(1, 0.1), (2, 0.2), (3, 0.3)]
    assert history[0].timestamp == BEGUN_NS // 10**6 + 600_000


def test_wandb_offline_leaves_a_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    code = (
        "from tests.unit.watch.test_exports import write_all\n"
        "from pathlib import Path\n"
        "write_all('wandb=redline-test')\n"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "WANDB_MODE": "offline", "PYTHONPATH": f"{root / 'src'}:{root}"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=300)
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    assert content.count(b"redline/step_seconds") >= 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            "grafana=x",
            "watch: there is no export 'grafana'; there are: openmetrics=FILE, otlp=URL, wandb=PROJECT, mlflow=URI, "
            "tensorboard=FOLDER",
        ),
        ("otlp", "watch: export otlp needs a target: otlp=URL"),
        ("openmetrics=job.txt", "watch: export openmetrics=job.txt: the collector reads .prom files alone"),
    ],
)
def test_what_cannot_be_exported_to(asked: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        export_of(asked)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("asked", "package"), [("otlp", "opentelemetry"), ("wandb", "wandb"), ("mlflow", "mlflow"), ("tensorboard",) * 2]
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    asked: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError) as error:
        export_of(f"{asked}={tmp_path / 'x'}")
    assert str(error.value) == f"watch: export {asked} needs {package}: pip install 'redline-perf[{asked}]'"


class Failing:
    """An export that fails so many times, and takes time."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries, self.written = failures, 0, list[int]()

    def write(self, window: ExportedWindow) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise OSError("disk full")
        self.written.append(window.number)

    def close(self) -> None:
        if self.failures == 10**8:
            raise OSError("still full")


def test_a_failure_is_said_once_and_nothing_is_lost_or_out_of_order() -> None:
    export, said, now = Failing(3), list[str](), [0.0]
    retried = RetriedExport("test", export, said.append, pause_s=30, now_s=lambda: now[0])
    for window in exported(12):
        retried.write(window)
        now[0] += 10
    assert export.written == [*range(1, 13)]
    assert said == ["export test fails and will be tried again: disk full", "export test works again"]
    assert export.tries == 3 + 12  # not at every window


def test_an_export_that_never_works_ends_nothing() -> None:
    export, said = Failing(10**9), list[str]()
    retried = RetriedExport("test", export, said.append, pause_s=1e9)
    for window in exported(5):
        retried.write(window)
    retried.close()
    assert said == ["export test fails and will be tried again: disk full"]


def test_a_folder_that_cannot_be_written_is_a_failure_like_others(tmp_path: Path) -> None:
    said: list[str] = []
    retried = RetriedExport("openmetrics", export_of(f"openmetrics={tmp_path}/no/such/job.prom"), said.append)
    retried.write(exported(1)[0])
    assert len(said) == 1
    assert "fails and will be tried again" in said[0]
