"""What a synthetic job looks like: its size, layout, costs, and the faults put into it.

Ranks are numbered with tensor parallelism innermost and pipeline stages outermost, as Megatron and DeviceMesh do:
rank = (stage * dp + dp_index) * tp + tp_index.
"""

from dataclasses import dataclass, field
from typing import Literal

from tests.support.traces.faults import NO_FAULTS, Faults

Axis = Literal["dp", "tp", "pp"]
Collectives = Literal["all_reduce", "all_gather_reduce_scatter", "none"]
TextLayout = Literal["torch-2.13", "classic"]
ExpertExchange = Literal["none", "hidden", "exposed"]

DEFAULT_LAYERS = 4
MIN_LAUNCH_US = 1.0


@dataclass(frozen=True, kw_only=True)
class ParallelSizes:
    """Sizes of the data-, tensor- and pipeline-parallel axes; their product is the number of ranks."""

    dp: int = 1
    tp: int = 1
    pp: int = 1

    def __post_init__(self) -> None:
        if min(self.dp, self.tp, self.pp) < 1:
            raise ValueError(f"layout sizes must be at least 1, got dp={self.dp} tp={self.tp} pp={self.pp}")


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """One rank that is slower, in one step, in every few of them, or in all.

    compute  the forward and backward kernels take extra_us more in total, each in proportion to its length
    host     Python pauses for extra_us between the data loader and the forward pass
    input    the data loader takes extra_us longer
    """

    rank: int
    extra_us: float
    where: Literal["compute", "host", "input"] = "compute"
    step: int | None = None
    every: int = 1  # the last step of so many

    def slows(self, step: int) -> bool:
        """Whether the rank is slower in this step."""
        return self.step in (None, step) and step % self.every == self.every - 1


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """A process group as torch names it."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A synthetic training job: everything the generator needs, and nothing it measured."""

    ranks: int = 8
    steps: int = 3
    layers: int | None = None  # of the whole model; DEFAULT_LAYERS when neither this nor events_per_rank is given
    events_per_rank: int | None = None  # choose the number of layers that gives about this many events per file
    layout: ParallelSizes | None = None  # data parallel over all ranks when not given
    microbatches: int = 1  # per step, run as 1F1B when the layout has pipeline stages
    gpus_per_node: int = 8
    device_name: str = "NVIDIA H100 80GB HBM3"

    step_compute_us: float = 10_000.0  # sum of one rank's compute kernels in a step, before jitter
    kernel_jitter: float = 0.03  # standard deviation of a kernel's duration over its mean
    host_jitter: float = 0.05  # the same for everything the host does
    launch_us: float = 5.0  # host time per operator: Python, dispatch and the launch call
    launch_latency_us: float = 4.0  # from the start of the launch call to the earliest start of the kernel
    input_us: float = 80.0  # host time in the data loader per step
    loader_workers: bool = False  # the loader waits for worker processes instead of loading by itself
    batch_bytes: int = 0  # copied to the device in each step; 8 bytes per token when 0
    convolutions: bool = False  # the products are convolutions of one by one pixels
    replay_graph: bool = False  # the device work of a step is one CUDA graph; for a job that does not communicate
    engine: bool = False  # decode steps of a serving engine: forward passes only, marked as vLLM marks them
    sync_each_step: bool = True  # loss.item() at the end of each step: the host waits for the device

    collectives: Collectives = "all_reduce"  # over the data-parallel axis
    buckets: int = 4  # gradient buckets per step, for all_reduce
    reshard_after_forward: bool = True  # for all_gather_reduce_scatter: the backward pass gathers again
    experts: ExpertExchange = "none"  # all-to-alls of the data-parallel axis around each MLP
    collective_bytes: int = 32 << 20  # of a gradient bucket, or of a layer's parameters
    activation_bytes: int = 4 << 20  # of what tensor and pipeline parallelism exchange
    link_gb_per_s: float = 300.0  # of a group inside one node
    network_gb_per_s: float = 40.0  # of a group that spans nodes
    collective_latency_us: float = 15.0
    end_jitter_us: float = 1.0  # participants leave a collective within this of each other
    collective_metadata: bool = True  # write "Collective name" and its companions
    sync_events: bool = False  # record waits and events, as `enable_cuda_sync_events` does

    stragglers: tuple[Straggler, ...] = ()
    faults: Faults = NO_FAULTS
    clock_offsets_us: tuple[float, ...] = ()  # per rank: its clock minus true time; all zero when not given
    with_stacks: bool = False
    text_layout: TextLayout = "torch-2.13"
    seed: int = 0

    shape: ParallelSizes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.steps < 1 or self.microbatches < 1 or self.gpus_per_node < 1 or self.buckets < 1:
            raise ValueError("ranks, steps, microbatches, gpus_per_node and buckets must be at least 1")
        if self.launch_us < MIN_LAUNCH_US:
            raise ValueError(f"launch_us={self.launch_us} is too short to hold an operator's events")
        object.__setattr__(self, "shape", self.layout or ParallelSizes(dp=self.ranks))
        if self.shape.dp * self.shape.tp * self.shape.pp != self.ranks:
            raise ValueError(f"layout {self.shape} does not make {self.ranks} ranks: change layout or ranks")
        if self.layers is not None and self.events_per_rank is not None:
            raise ValueError("give layers or events_per_rank, not both")
        if self.layers is not None and (self.layers < 1 or self.layers % self.shape.pp):
            raise ValueError(f"layers={self.layers} cannot be split over pp={self.shape.pp} stages")
        if self.clock_offsets_us and len(self.clock_offsets_us) != self.ranks:
            raise ValueError(f"clock_offsets_us has {len(self.clock_offsets_us)} entries for {self.ranks} ranks")
        if self.replay_graph and self.ranks > 1:
            raise ValueError("replay_graph is for one rank: collectives are not put into graphs")
        if self.faults.layout_conversions and not self.convolutions:
            raise ValueError("layout_conversions needs convolutions")
        for straggler in self.stragglers:
            if not 0 <= straggler.rank < self.ranks:
                raise ValueError(f"straggler rank {straggler.rank} is not one of {self.ranks} ranks")

    @property
    def layers_per_stage(self) -> int:
        """Layers on each pipeline stage, at least one."""
        return max(1, (self.layers or DEFAULT_LAYERS) // self.shape.pp)

    @property
    def ranks_per_stage(self) -> int:
        """Ranks that run the same program."""
        return self.shape.dp * self.shape.tp

    def stage_of(self, rank: int) -> int:
        """The pipeline stage a rank belongs to."""
        return rank // self.ranks_per_stage

    def clock_offset_ns(self, rank: int) -> int:
        """What this rank's clock reads minus true time."""
        return round(self.clock_offsets_us[rank] * 1000) if self.clock_offsets_us else 0

    def axis_size(self, axis: Axis) -> int:
        """Number of ranks along an axis of the layout."""
        return {"dp": self.shape.dp, "tp": self.shape.tp, "pp": self.shape.pp}[axis]

    def group_of(self, axis: Axis, rank: int) -> ProcessGroup:
        """The process group of a rank along an axis, named in the order DeviceMesh creates groups."""
        size, stride = self.axis_size(axis), self._axis_stride(axis)
        if size == self.ranks:
            return ProcessGroup(name="0", description="default_pg", ranks=tuple(range(self.ranks)))
        first = rank - (rank // stride % size) * stride
        ranks = tuple(range(first, first + size * stride, stride))
        # Groups along an axis are numbered by their first rank; the axes follow each other in the order pp, dp, tp.
        index = (first // (stride * size)) * stride + first % stride
        before = sum(self.ranks // self.axis_size(a) for a in self._axes_before(axis) if self.axis_size(a) > 1)
        return ProcessGroup(name=str(1 + before + index), description=f"mesh_{axis}", ranks=ranks)

    def _axis_stride(self, axis: Axis) -> int:
        return {"tp": 1, "dp": self.shape.tp, "pp": self.shape.tp * self.shape.dp}[axis]

    @staticmethod
    def _axes_before(axis: Axis) -> tuple[Axis, ...]:
        order: tuple[Axis, ...] = ("pp", "dp", "tp")
        return order[: order.index(axis)]

    def spans_nodes(self, axis: Axis) -> bool:
        """Whether a group along this axis crosses a node boundary (asked of rank 0's group)."""
        return self.group_of(axis, 0).ranks[-1] >= self.gpus_per_node
