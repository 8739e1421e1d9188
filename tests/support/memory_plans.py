"""Plans of memory, and ledgers to compare them with."""

from dataclasses import replace
from pathlib import Path

import redline
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.memory.plan_comparison import PlannedMemory
from redline.plan.train.layout import Layout
from tests.support.made_snapshots import MAIN, MIB, Frame, MadeAllocator

FORWARD: Frame = ("forward", "/job/model.py", 12)


def planned(**accounts: int) -> PlannedMemory:
    """In MiB."""
    known = (account for account in MemoryAccount if account.name not in {"BACKWARD", "INPUTS", "UNKNOWN"})
    return PlannedMemory(
        file="plan.json", model="gpt2", machine="A100-SXM4-80GB", dtype="fp32", devices=1, layout=Layout(),
        micro_batches=1, accounts={account: accounts.get(account.name.lower(), 0) * MIB for account in known},
        outside_bytes=500 * MIB,
    )  # fmt: skip


def measured(folder: Path, activations: int, device: int = 0) -> DeviceMemory:
    """So many MiB of activations and one of what nothing proves."""
    made = MadeAllocator()
    made.alloc(activations * MIB, FORWARD, MAIN)
    made.alloc(MIB, MAIN)
    (found,) = redline.memory(made.write(folder / f"{activations}.pickle")).devices
    return replace(found, device=device)
