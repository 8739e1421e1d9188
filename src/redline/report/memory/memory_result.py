"""What `memory` returns."""

from dataclasses import dataclass

from redline.analysis.memory.causes.cause import MemoryCause
from redline.analysis.memory.device_memory import DeviceMemory
from redline.analysis.memory.fullest_device import causes_of_fullest, fullest_device
from redline.analysis.memory.plan_comparison import PlanComparison, PlannedMemory, compare_plan
from redline.ranks.read_failures import Failure

FORMS = ("text", "html", "md", "json")


@dataclass(frozen=True, kw_only=True)
class MemoryResult:
    """The memory of every device in the snapshots that were read."""

    devices: tuple[DeviceMemory, ...]
    failures: tuple[Failure, ...]
    device_bytes: int  # of memory that a device has; 0 where nobody said
    plan: PlannedMemory | None = None  # to hold the peak against

    @property
    def first(self) -> DeviceMemory:
        """The device to look at: one that ran out, else the one that held most."""
        return fullest_device(self.devices)

    @property
    def causes(self) -> tuple[MemoryCause, ...]:
        """Why the first device is as full as it is."""
        return causes_of_fullest(self.devices, self.device_bytes)

    @property
    def comparison(self) -> PlanComparison | None:
        """The plan beside the largest peak; None without a plan."""
        return None if self.plan is None else compare_plan(self.plan, self.devices, self.outside_bytes)

    def outside_bytes(self, device: DeviceMemory) -> int | None:
        """Outside of torch when an allocation failed: the context, NCCL, other processes. None where unknown."""
        if not self.device_bytes or device.failure is None:
            return None
        return self.device_bytes - device.failure.driver_free_bytes - device.failure.ledger.reserved_bytes

    def rendered(self, form: str) -> str:
        """One of FORMS."""
        if form == "json":
            from redline.report.memory.json import render as render_json

            return render_json(self)
        if form == "html":
            from redline.report.html.memory.page import render as render_page

            return render_page(self)
        from redline.report.memory.text import render_md, render_text

        return render_md(self) if form == "md" else render_text(self)

    def text(self) -> str:
        return self.rendered("text")

    def __str__(self) -> str:
        return self.text()
