"""RL-V12: each step reads weights of 32 bits, though the model was saved in 16."""

from collections.abc import Iterator, Mapping

from redline.numerics import Numerics
from redline.serving.causes.cause import Served, ServingCause, ServingRule, share_of
from redline.serving.latencies import Latency
from redline.serving.request_ledger import RequestAccount

_NARROW = ("bfloat16", "float16")
_SAVED = 0.5  # of the bytes


def find(served: Served) -> Iterator[ServingCause]:
    if not served.word("dtype").endswith("float32") or _saved_as(served) not in _NARROW:
        return
    if served.word("device_type") == "cpu" and served.recording.settings.get("has_bf16_units") is False:
        return  # numbers of 16 bits are converted there, which takes longer than to read twice as many bytes
    yield from share_of(served, RULE.code, Latency.TPOT, (RequestAccount.DECODE,), {}, _SAVED)


def _saved_as(served: Served) -> str:
    """The type in the model's own file."""
    model = served.recording.settings.get("model_config")
    named = model if isinstance(model, Mapping) else {}
    return str(named.get("dtype", named.get("torch_dtype", ""))).removeprefix("torch.")


RULE = ServingRule(code="RL-V12", numerics=Numerics.LOWER_PRECISION, find=find)
