"""Everything that is served and served with: a model in a format, where it lies, the device and the engine."""

from dataclasses import dataclass

from redline.model.model import Model
from redline.planner.serve.deployment import Deployment
from redline.planner.serve.formats import Format
from redline.planner.serve.serving_rates import AcceleratorPeaks, Constants


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One setup, or many: fields of its parts may be columns, which are broadcast against each other."""

    model: Model
    form: Format
    where: Deployment
    device: AcceleratorPeaks
    engine: Constants
