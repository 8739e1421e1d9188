"""What a rank's analysis says of idle time: gaps that faster launching would end, and pauses that it would not."""

from pathlib import Path

from redline.ledger.rank.rank_analysis import PAUSE_NS, analysis_of
from tests.support.events import document, kernel, launch, op, read_one, region


def test_a_long_pause_of_the_host_is_no_launch_gap(tmp_path: Path) -> None:
    late_us = 280 + 2 * PAUSE_NS / 1000
    events = [
        region("ProfilerStep#1", 0, late_us + 200),
        op("aten::mm", 0, 15),
        launch(10, 1),
        kernel("gemm", 20, 100, correlation=1),
        launch(170, 2),  # 52 us after the device was done, and the kernel begins 8 us later
        kernel("gemm", 180, 100, correlation=2),
        launch(late_us, 3),
        kernel("gemm", late_us + 2, 198, correlation=3),
    ]
    analysis = analysis_of(read_one(document(events), tmp_path), None)
    assert analysis.pauses.length_ns == 2 * PAUSE_NS + 2_000
    # Until the first launch was made, and until the second kernel began.
    assert analysis.launch_gaps.length_ns == 12_000 + 60_000
    assert not len(analysis.launch_gaps & analysis.pauses)
