"""Synthetic jobs that are replayed."""

from pathlib import Path

from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file
from tests.support.traces.faults import Faults
from tests.support.traces.jobspec import JobSpec, ParallelSizes
from tests.support.traces.synthetic import write_job

JOBS = {
    "one rank": JobSpec(ranks=1, steps=2),
    "data parallel": JobSpec(ranks=4, steps=2, clock_offsets_us=(0.0, 700.0, -20_000.0, 3.0)),
    "sharded": JobSpec(ranks=4, steps=2, collectives="all_gather_reduce_scatter"),
    "pipeline": JobSpec(ranks=4, steps=2, layers=4, layout=ParallelSizes(dp=2, pp=2), microbatches=3),
    "tensor parallel": JobSpec(ranks=4, steps=2, layout=ParallelSizes(dp=2, tp=2)),
    "replayed graph": JobSpec(ranks=1, steps=2, replay_graph=True),
    "engine": JobSpec(ranks=1, steps=4, engine=True),
    "reads": JobSpec(ranks=1, steps=2, faults=Faults(item_reads=3)),
}


def timelines_of(spec: JobSpec, folder: Path) -> list[Timeline]:
    write_job(spec, folder, compress=False)
    return [timeline for path in sorted(folder.glob("rank*.json")) for timeline in read_file(path).timelines]
