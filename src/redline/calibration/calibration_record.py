"""What a calibration found: the values in the `calibration` part of a machine profile.

Times are nanoseconds, sizes bytes, rates per second. Every estimate carries the interval that a repetition is expected
to fall into.
"""

from dataclasses import dataclass

from redline.hardware.machine import WIDEST, too_wide

FAMILIES = ("compute", "memory", "overhead", "roofline", "collectives")  # what can be asked for by name


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number that was measured several times."""

    value: float
    low: float  # the value and both ends are of the same unit; the interval includes what the machine's noise adds
    high: float
    samples: int
    outliers: int = 0  # samples far from the others. They were not left out: the median does not mind them.

    @property
    def spread(self) -> float:
        """Half of the interval, as a share of the value."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0

    @property
    def reach(self) -> float:
        """From the value to the further end of the interval, as a share of the value."""
        return max(self.value - self.low, self.high - self.value) / self.value if self.value else 0.0


def rate(amount: float, time_ns: Estimate) -> Estimate:
    """So much work in that time, per second. The ends change places."""
    return Estimate(
        value=amount / time_ns.value * 1e9,
        low=amount / time_ns.high * 1e9,
        high=amount / time_ns.low * 1e9,
        samples=time_ns.samples,
        outliers=time_ns.outliers,
    )


# --- compute ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One matmul, convolution or attention of one shape."""

    family: str  # matmul, convolution or attention
    dtype: str  # as in `hardware.machine.DTYPES`; fp32-as-bf16 where fp32 may be computed in bf16
    shape: str  # as a person writes it: 1024x1024x4096 is m x n x k
    flops: int
    bytes: int  # read and written once each


@dataclass(frozen=True, kw_only=True)
class KernelPoint(Kernel):
    """One that was timed."""

    time_ns: Estimate

    @property
    def flops_per_s(self) -> Estimate:
        return rate(self.flops, self.time_ns)


@dataclass(frozen=True, kw_only=True)
class Law:
    """The three constants of matmuls in one type: max(flops / compute, bytes / memory) + fixed."""

    dtype: str
    compute_flops_per_s: Estimate
    memory_bytes_per_s: Estimate
    fixed_ns: Estimate
    error_median: float  # of shapes that the fit had not seen: predicted / measured - 1, without its sign
    error_p90: float
    points: int

    def time_ns(self, flops: float, size_bytes: float) -> float:
        math_s, memory_s = flops / self.compute_flops_per_s.value, size_bytes / self.memory_bytes_per_s.value
        return max(math_s, memory_s) * 1e9 + self.fixed_ns.value


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The best rate of matmuls in one type: in a short burst, and when the machine has been busy for long."""

    dtype: str
    shape: str  # the shape that was fastest
    burst_flops_per_s: Estimate
    sustained_flops_per_s: Estimate | None  # None where it was not measured
    sustained_s: float  # for how long the machine was kept busy
    curve: tuple[tuple[float, float], ...] = ()  # seconds since the start, and FLOP/s in the time around


# --- memory -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BandwidthPoint:
    """One way to move memory, at one size."""

    kind: str  # copy, triad, sum, allocate; to_device and to_host, each with _pinned or _pageable
    working_bytes: int  # of all arrays together: what has to fit into a cache to be fast
    moved_bytes: int
    """Read and written, as the program sees it: a cache line that is fetched before it is written is not counted."""
    time_ns: Estimate

    @property
    def bytes_per_s(self) -> Estimate:
        return rate(self.moved_bytes, self.time_ns)


# --- overhead ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OverheadPoint:
    """What one small thing costs, whatever the size of the data."""

    name: str  # see `probes.overhead` for the names
    time_ns: Estimate


@dataclass(frozen=True, kw_only=True)
class LoaderPoint:
    """What `torch.utils.data.DataLoader` delivers when the data set costs nothing: the most that it can."""

    workers: int
    pinned: bool
    batch_bytes: int
    batch_time_ns: Estimate

    @property
    def bytes_per_s(self) -> Estimate:
        return rate(self.batch_bytes, self.batch_time_ns)


@dataclass(frozen=True, kw_only=True)
class Doubling:
    """What twice the batch did to the time of a step: close to 1 it is overhead, close to 2 it is work."""

    batch: int
    time_ns: Estimate
    doubled_time_ns: Estimate

    @property
    def ratio(self) -> float:
        return self.doubled_time_ns.value / self.time_ns.value


# --- roofline ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class IntensityPoint:
    """One pass over an array that does so much arithmetic per byte."""

    flops_per_byte: float
    flops: int
    bytes: int
    time_ns: Estimate


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """The experiment: more and more arithmetic on the same bytes."""

    dtype: str
    method: str  # what ran: which compiler made the loop
    points: tuple[IntensityPoint, ...]
    bandwidth_bytes_per_s: Estimate  # of the flat part
    peak_flops_per_s: Estimate  # of the linear part
    ridge_flops_per_byte: Estimate  # where one becomes the other


# --- collectives ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CollectivePoint:
    """One operation among the ranks of one group, at one size."""

    operation: str
    group: str  # world, or the level of a subgroup: node, across, half, pair. All subgroups of a level work at once.
    ranks: int
    size_bytes: int  # as nccl-tests count it: the larger of what a rank gives and what it gets; 0 of a barrier
    time_ns: Estimate  # until the slowest rank was done
    fastest_ns: float  # the least of all samples: what is possible when nothing disturbs. Laws are fitted to it.
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float
    correct: bool


@dataclass(frozen=True, kw_only=True)
class CollectiveLaw:
    """The least time of one operation in one group: latency + size / rate."""

    operation: str
    group: str
    ranks: int
    latency_ns: float
    bytes_per_s: float  # of the algorithm; multiply with the bus factor for the bus bandwidth
    error_median: float  # of sizes that the fit had not seen
    error_p90: float
    points: int


@dataclass(frozen=True, kw_only=True)
class RankSpeed:
    """How fast one rank is at the same work, while all others do it too."""

    rank: int
    host: str
    device: str
    work_ns: Estimate  # one fixed piece of arithmetic
    ratio: float  # to the median of all ranks; of two, to the faster one
    slow: bool
    cpu_share: float = -1.0
    """Processor time that it got meanwhile, as a share: well below 1, others used its core. -1 on accelerators."""


@dataclass(frozen=True, kw_only=True)
class PairSpeed:
    """The link between two ranks."""

    first: int
    second: int
    level: str  # node or across
    latency_ns: float
    bytes_per_s: float
    latency_ratio: float  # to the median of its level, of three pairs or fewer to the best; above 1 is slower
    bandwidth_ratio: float  # to the same; below 1 is slower
    slow: bool


@dataclass(frozen=True, kw_only=True)
class Collectives:
    """All that was measured among the ranks of one process group."""

    backend: str
    world: int
    hosts: int
    points: tuple[CollectivePoint, ...]
    laws: tuple[CollectiveLaw, ...]
    ranks: tuple[RankSpeed, ...]
    pairs: tuple[PairSpeed, ...]
    declined: tuple["Declined", ...] = ()

    @property
    def is_healthy(self) -> bool:
        """No rank and no link is slow, and every result was right."""
        slow = any(rank.slow for rank in self.ranks) or any(pair.slow for pair in self.pairs)
        return not slow and all(point.correct for point in self.points)


# --- the whole --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Declined:
    """Something that was not measured, and why."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What else went on while it was measured."""

    steal_share: float  # of the processors' time, taken by the hypervisor for others; -1 where the system does not say
    other_share: float  # of the processors' time, used by other processes; -1 where the system does not say
    throttled_share: float
    """Of the time, in which our processes had used up what their control group allows; -1 where there is no limit."""
    load_before: float  # processes that wanted to run before we began, on average over a minute
    frequency_drop: float
    """Lowest against highest clock frequency that was seen, as a share; -1 where the system does not say."""
    beat_spread: float  # how far the same short piece of work varied during the calibration. It widens every interval.
    noisy: tuple[str, ...]
    """Which of these is too large, by name: steal, other, throttled, load, frequency, beat, waited."""
    waited_share: float = -1.0
    """Of the time in which threads of ours wanted to run, waiting for a processor; -1 where the system does not say."""
    other_before: float = -1.0
    """Of the processors' time, used by other processes just before it began; -1 where the system does not say."""
    quota: float = -1.0  # processors' worth of time that the control group allows; -1 where there is no limit

    @property
    def taken_share(self) -> float:
        """Of the processor time that we could have used: what others got. A figure may be better by 1 / (1 - this)."""
        waited = self.waited_share if self.waited_share >= 0 else self.other_share
        kept = 1.0
        for share in (waited, self.steal_share, self.throttled_share):
            kept *= 1 - min(max(share, 0.0), 1.0)
        return 1 - kept


@dataclass(frozen=True, kw_only=True)
class DeviceInfo:
    """What was measured."""

    name: str  # of the accelerator or the processor
    kind: str  # cpu or cuda
    memory_bytes: int
    multiprocessors: int  # as the driver counts them; 0 for a CPU
    cores: int  # processors that this process may use
    threads: int  # that torch uses for one operator
    host: str
    software: tuple[tuple[str, str], ...]  # names and versions, such as ("torch", "2.13.0")


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Everything that one calibration measured."""

    subject: DeviceInfo
    date: str  # 2026-11-15T14:30:00+00:00
    seconds: float
    quick: bool
    conditions: Conditions
    budget_s: float = 0.0  # wall time that it was given; 0 where that was not said
    partial: str = ""  # what ended it early, such as SIGINT; "" where it ended by itself
    kernels: tuple[KernelPoint, ...] = ()
    laws: tuple[Law, ...] = ()
    peaks: tuple[Peak, ...] = ()
    bandwidths: tuple[BandwidthPoint, ...] = ()
    overheads: tuple[OverheadPoint, ...] = ()
    loaders: tuple[LoaderPoint, ...] = ()
    doublings: tuple[Doubling, ...] = ()
    roofline: Roofline | None = None
    collectives: Collectives | None = None
    declined: tuple[Declined, ...] = ()


FEWEST_SAMPLES = 6
"""All samples of fewer hold the median with less than 95 %. One pass has fewer, so it also takes two of these."""
_MOST_TAKEN = 1 - 1 / (1 + WIDEST)  # then the figure may be better by more than the widest interval


def why_not(estimate: Estimate, calibration: Calibration, *, is_series: bool = False, on_host: bool = False) -> str:
    """Why nobody should use this figure; "" where it can be used.

    A fitted constant has shapes instead of samples, and a sustained rate parts of one run: their number says little.
    Figures of an accelerator are timed by its own clock: only in those `on_host` is what else the processors do.
    """
    taken = calibration.conditions.taken_share if on_host or calibration.subject.kind == "cpu" else 0.0
    if taken > _MOST_TAKEN:
        return f"{100 * taken:.0f} % of the processor time that it asked for went to others"
    if estimate.samples < FEWEST_SAMPLES and not is_series:
        return f"it was timed {estimate.samples} times, less than {FEWEST_SAMPLES}"
    return too_wide(estimate.reach)
