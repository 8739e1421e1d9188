"""What a case of the check of numbers is: a model, a change of it, its claim, and where a bug first shows."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent

REFERENCE = "reference"
SINGLE = "single"
"""Among the changes of a job with several ranks: it runs on one process."""

TensorKind = Literal["loss", "activation", "gradient", "movement"]
Claim = Literal["bitwise", "reassociation", "lower precision"]
Half = Literal["fit", "set aside"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A kind of tensor, and a pattern of its module's or parameter's name: empty for the loss and the whole model."""

    kind: TensorKind
    name: str


@dataclass(frozen=True, kw_only=True)
class NumbersModel:
    """A script, and in which half of the models it is."""

    name: str
    half: Half
    world_size: int = 1

    @property
    def script(self) -> Path:
        return HERE / f"{self.name}.py"

    def ranks_of(self, variant: str) -> int:
        return 1 if SINGLE in variant.split("+") else self.world_size

    def command(self, variant: str = REFERENCE, seed: int = 0, steps: int = 4) -> list[str]:
        """Runs a variant, from any folder."""
        ranks = self.ranks_of(variant)
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        change = "+".join(word for word in variant.split("+") if word != SINGLE) or REFERENCE
        options = ["--variant", change, "--steps", str(steps), "--seed", str(seed)]
        return [sys.executable, *launcher, str(self.script), *options]


@dataclass(frozen=True, kw_only=True)
class NumbersCase:
    """A variant against its reference. `first` holds all acceptable answers to where a bug first shows."""

    model: str
    variant: str
    what: str
    kind: Literal["bug", "harmless"]
    claimed: Claim
    reference: str = REFERENCE
    first: tuple[Place, ...] = ()

    @property
    def name(self) -> str:
        against = "" if self.reference == REFERENCE else f" against {self.reference}"
        return f"{self.model}: {self.variant}{against}, {self.claimed}"


@dataclass(frozen=True, kw_only=True)
class CasesOf:
    """Makes the cases of one model."""

    model: str

    def bug(
        self, variant: str, what: str, *first: str, claimed: Claim = "reassociation", reference: str = REFERENCE
    ) -> NumbersCase:
        """Each of `first` is a kind of tensor and, after a space, a name."""
        places = tuple(_place(text) for text in first)
        return NumbersCase(
            model=self.model,
            variant=variant,
            what=what,
            kind="bug",
            claimed=claimed,
            reference=reference,
            first=places,
        )

    def harmless(
        self, variant: str, what: str, claimed: Claim = "reassociation", *, reference: str = REFERENCE
    ) -> NumbersCase:
        return NumbersCase(
            model=self.model, variant=variant, what=what, kind="harmless", claimed=claimed, reference=reference
        )


def _place(text: str) -> Place:
    kind, _, name = text.partition(" ")
    kinds: dict[str, TensorKind] = {k: k for k in ("loss", "activation", "gradient", "movement")}
    return Place(kind=kinds[kind], name=name)
