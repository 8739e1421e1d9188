"""What the numbers and texts of a digest can be. A digest that is read from a file is refused where one is beyond."""

from typing import Annotated

from msgspec import Meta

from redline.trace.rank_claim import LARGEST_JOB

LONGEST_NS = 10**15  # eleven days: no window of a trace is as long, and thousands of ranks add up within 64 bits
MOST = 10**15  # of anything that is counted
MOST_NS = 10**18  # of what is added up over kernels that may overlap
LATEST_NS = 2**62  # of times, since 1970 or since a rank began: the sum of two fits 64 bits

Rank = Annotated[int, Meta(ge=-1, lt=LARGEST_JOB)]
RankCount = Annotated[int, Meta(ge=0, le=LARGEST_JOB)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Described = Annotated[int, Meta(ge=-(10**15), le=10**15)]  # as a trace describes an exchange, which need not be right
ElementBytes = Annotated[int, Meta(ge=0, le=1024)]
Duration = Annotated[int, Meta(ge=0, le=MOST_NS)]
Time = Annotated[int, Meta(ge=-LATEST_NS, le=LATEST_NS)]  # ns
Amount = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # of work: FLOPs, bytes
Measure = Annotated[float, Meta(ge=0, le=1e30)]  # not nan either
Share = Annotated[float, Meta(ge=0, le=1e6)]
Device = Annotated[str, Meta(pattern="^(gpu|cpu)$")]
