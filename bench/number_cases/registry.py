"""All models and cases of the check of numbers.

Models are in two halves, chosen before any case was run: thresholds are fixed on one, and scored on the other. Each
half has one dense transformer, one classic network, one sparse model, one data-parallel job, and one other kind of job.
"""

from collections.abc import Mapping
from types import MappingProxyType

from bench.number_cases.case import NumbersCase, NumbersModel
from bench.number_cases.cases_fit import FIT
from bench.number_cases.cases_set_aside import SET_ASIDE

MODELS: Mapping[str, NumbersModel] = MappingProxyType(
    {
        model.name: model
        for model in (
            NumbersModel(name="gpt", half="fit"),
            NumbersModel(name="cnn", half="fit"),
            NumbersModel(name="moe", half="fit"),
            NumbersModel(name="fsdp2", half="fit", world_size=2),
            NumbersModel(name="generation", half="fit"),
            NumbersModel(name="diffusion", half="set aside"),
            NumbersModel(name="recurrent", half="set aside"),
            NumbersModel(name="recommender", half="set aside"),
            NumbersModel(name="ddp", half="set aside", world_size=2),
            NumbersModel(name="tp", half="set aside", world_size=2),
        )
    }
)

CASES: tuple[NumbersCase, ...] = (*FIT, *SET_ASIDE)
