"""Why requests wait: each cause that the records of an engine show, with its share of a latency."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from redline.numerics import Numerics
from redline.serving.recording import UNKNOWN_NS, BatchRows, ServingRecording
from redline.serving.request_ledger import SLOWEST, Latency, LatencySplit, RequestAccount, RequestLedger, slowest
from redline.serving.step_ledger import StepAccount
from redline.timeline.table import I64, Column
from redline.values import dataclass

ENGINE_ACCOUNTS = (
    RequestAccount.SCHEDULE,
    RequestAccount.PREPARE,
    RequestAccount.HANDOVER,
    RequestAccount.OUTPUTS,
    RequestAccount.BETWEEN,
)
"""The engine's own Python, around the model."""
SERVER_ACCOUNTS = (
    RequestAccount.TOKENISE,
    RequestAccount.TO_ENGINE,
    RequestAccount.TO_SERVER,
    RequestAccount.DETOKENISE,
)
"""The process that answers clients, and the ways between it and the engine."""
QUEUE_ACCOUNTS = (
    RequestAccount.QUEUE,
    RequestAccount.CURRENT_STEP,
    RequestAccount.NOT_SCHEDULED,
    RequestAccount.PREEMPTED,
)
"""Waiting for others: shorter where the engine has less to do."""
LEAST_STEPS = 8  # to tell what one more costs
LEAST_FIXED = 0.25  # of a full step that does not grow: below, putting more into it gains little
_LITTLE, _MUCH = 0.5, 0.75  # of the limit
_ROOM = 1.25  # times as many requests as run: below, a higher limit would not be used
_MANY = 2  # times the limit: tokens of prompts in a step that tell what more of them cost
_MOST_SEQUENCE_LIMIT = 1e9  # requests that an empty cache has room for
_FULL = 0.95  # of the cache
_SMALL = 128  # tokens in a step: prompts are cut small already
_LEAST_STALLED_DECODES = (
    0.85  # of the time to the next token: a token that takes a few times as long now and then is usual
)
_OF_STEPS = [
    StepAccount.SCHEDULE,
    StepAccount.PREPARE,
    StepAccount.HANDOVER,
    StepAccount.OUTPUTS,
    StepAccount.BETWEEN,
]
_TRACED = (  # a trace function is called for every line: what of it Python's would be is not known
    *ENGINE_ACCOUNTS,
    RequestAccount.PREFILL,
    RequestAccount.OTHERS_PREFILL,
    RequestAccount.DECODE,
    RequestAccount.RECOMPUTE,
    RequestAccount.SAMPLE,
    RequestAccount.WORKER,
)
_LEAST_ENGINE_PYTHON = 0.1  # of the time per token: so much is spent by an engine with nothing to mend
_RARE = 0.05  # of the requests: fewer do not explain what sampling costs
_LATENCIES = (Latency.TPOT, Latency.END_TO_END)  # which of them the slowest wait longer for it
_TEXTS = "logprobs"  # which are also handed out, sent and made texts of
_OF_TEXTS = (RequestAccount.OUTPUTS, RequestAccount.TO_SERVER, RequestAccount.DETOKENISE)
_LEAST_TEXT_HANDLING = 0.1  # of the time to the first token: so much is spent by a server with nothing to mend
_ACCOUNTS_TOKEN_LIMIT = (
    RequestAccount.QUEUE,
    RequestAccount.NOT_SCHEDULED,
    RequestAccount.PREFILL,
    RequestAccount.OTHERS_PREFILL,
    RequestAccount.DECODE,
    RequestAccount.SAMPLE,
    RequestAccount.WORKER,
    *ENGINE_ACCOUNTS,
)
_LEAST_AGAIN = 0.2  # of the tokens of all prompts
_FEW = 4  # times as many sequences are allowed
_ALIKE = 0.9  # of the requests find the same number of others
_AT_ONCE = 0.05  # of a request's time, from the end of an answer to the next request
_LEAST_REQUESTS = 8
_ACCOUNTS_LOW_CONCURRENCY = (*ENGINE_ACCOUNTS, RequestAccount.DECODE, RequestAccount.SAMPLE, RequestAccount.WORKER)
_MOST_FEW_THREADS = 0.75  # of the cores: with more, what is left is for the server
_MODEL = (RequestAccount.PREFILL, RequestAccount.OTHERS_PREFILL, RequestAccount.DECODE, RequestAccount.RECOMPUTE)
_LOW = 0.5  # of the drafted tokens that are accepted
_NARROW = ("bfloat16", "float16")
_SAVED = 0.5  # of the bytes


@dataclass(frozen=True, kw_only=True)
class ServingCause:
    """One cause, and the share of `latency` that requests near the percentile spend on it."""

    code: str = ""  # of the rule that found it
    latency: Latency
    percentile: int
    share: float
    most: float  # that mending it takes off: its share, and all waiting for others where it makes steps longer
    end_to_end_share: float  # of the slowest requests from arrival to their last token: causes are ordered by it
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What the rules look at."""

    recording: ServingRecording
    ledger: RequestLedger
    splits: tuple[LatencySplit, ...]

    def setting(self, name: str) -> float:
        """A figure of the engine; 0 where it has none."""
        value = self.recording.settings.get(name, 0)
        return float(value) if isinstance(value, (int, float)) else 0.0

    def sequence_limit(self) -> tuple[str, float]:
        """How many requests may run at once, with the setting that says it; 0 where it is not known."""
        return self._least("max_num_seqs", "max_num_active_seqs")

    def token_limit(self) -> tuple[str, float]:
        """How many tokens a step may have, likewise."""
        return self._least("max_num_batched_tokens", "max_num_scheduled_tokens")

    def _least(self, *names: str) -> tuple[str, float]:
        known = [(name, self.setting(name)) for name in names if self.setting(name) > 0]
        return min(known, key=lambda one: one[1]) if known else (names[0], 0.0)

    def word(self, name: str) -> str:
        """A setting that is a word; empty where there is none."""
        value = self.recording.settings.get(name)
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, kw_only=True)
class ServingRule:
    """Looks for one cause; its code has a page among those of the findings."""

    code: str
    numerics: Numerics  # what the fix does to answers
    find: Callable[[Served], Iterator[ServingCause]]


def share_of(
    served: Served,
    latency: Latency,
    accounts: tuple[RequestAccount, ...],
    figures: Mapping[str, float],
    part: float = 1.0,
    *,
    most_part: float | None = None,
    is_in_steps: bool = True,
) -> Iterator[ServingCause]:
    """What the slowest requests spend in these accounts, or the part of it that the cause explains; and the part that
    mending it takes off at most, where that is another."""
    split, whole = slowest(served.splits, latency), slowest(served.splits, Latency.END_TO_END)
    if split is not None and whole is not None:
        share = part * split.share(*accounts)
        queue = [account for account in QUEUE_ACCOUNTS if is_in_steps and account not in accounts]
        yield ServingCause(
            latency=latency,
            percentile=SLOWEST,
            share=share,
            most=min(max(part, most_part or 0.0) * split.share(*accounts) + split.share(*queue), 1.0),
            end_to_end_share=part * whole.share(*accounts),
            figures=figures,
        )


def fixed_ns(length_ns: Column, amount: I64, limit: float) -> float | None:
    """None where steps are too much alike to tell."""
    little, much = amount <= _LITTLE * limit, amount >= _MUCH * limit
    if little.sum() < LEAST_STEPS or much.sum() < LEAST_STEPS:
        return None
    low, high = float(np.median(amount[little])), float(np.median(amount[much]))
    at_low, at_high = float(np.median(length_ns[little])), float(np.median(length_ns[much]))
    return max(at_low - low * (at_high - at_low) / (high - low), 0.0)


LEAST_SHARE = 0.05  # of a latency: less is not worth naming
Find = Callable[[Served], Iterator[ServingCause]]
RULES: list[ServingRule] = []


def rule(code: str, numerics: Numerics) -> Callable[[Find], Find]:
    def declared(find: Find) -> Find:
        RULES.append(ServingRule(code=code, numerics=numerics, find=find))
        return find

    return declared


@rule("RL-V01", Numerics.REASSOCIATION)
def sequence_limit(served: Served) -> Iterator[ServingCause]:
    """Requests wait though the cache has room, because so many sequences are the limit."""
    steps, (setting, limit) = served.recording.steps, served.sequence_limit()
    at_limit = (steps.waiting > 0) & (steps.running >= limit)
    if not limit or not at_limit.any():
        return
    used = float(steps.cache_share[at_limit].max())
    room = min(limit / used if used else np.inf, _MOST_SEQUENCE_LIMIT)
    if room < _ROOM * limit:
        return
    figures = {"limit": limit, "room": room, "cache_share": used, "steps_share": float(at_limit.mean())}
    figures["is_active_limit"] = float(setting == "max_num_active_seqs")
    gained = _gained(served, limit)
    if gained < LEAST_FIXED:
        return
    for cause in share_of(served, Latency.TTFT, (RequestAccount.QUEUE,), figures):
        yield replace(cause, end_to_end_share=gained * cause.end_to_end_share)


def _gained(served: Served, limit: float) -> float:
    """Of the queue, by sharing steps: what does not grow with the requests in them. All of it where that is unknown.

    Told by steps with fewer requests, and by what tokens of prompts cost: of many more at once, which is what a higher
    limit gives. The larger counts.
    """
    steps, running = served.ledger.steps, served.recording.steps.running
    length = (steps.end_ns - steps.begin_ns).astype(float)
    generating = (steps.prefill_tokens == 0) & (steps.tokens > 0)
    full = length[generating & (running >= limit)]
    if not len(full):
        return 1.0
    full_ns = float(np.median(full))
    any_ns = fixed_ns(length[generating], running[generating], limit)
    many = steps.prefill_tokens >= _MANY * limit
    if many.sum() >= LEAST_STEPS:
        token_ns = max(float(np.median((length[many] - full_ns) / steps.prefill_tokens[many])), 0.0)
        any_ns = max(any_ns or 0.0, full_ns - limit * token_ns)
    return 1.0 if any_ns is None else min(any_ns / full_ns, 1.0)


@rule("RL-V02", Numerics.REASSOCIATION)
def full_cache(served: Served) -> Iterator[ServingCause]:
    """The cache of keys and values is full: requests lose their place and are computed again, or wait for room."""
    steps = served.recording.steps
    lost = len(served.recording.preemptions.step)
    full = (steps.waiting > 0) & (steps.cache_share >= _FULL) & (steps.running < served.sequence_limit()[1])
    if not lost and not full.any():
        return
    figures = {"preempted": float(lost), "steps_share": float(full.mean())}
    accounts: tuple[RequestAccount, ...] = (RequestAccount.PREEMPTED, RequestAccount.RECOMPUTE)
    if full.any():
        accounts = (*accounts, RequestAccount.QUEUE)
    yield from share_of(served, Latency.END_TO_END if lost else Latency.TTFT, accounts, figures)


@rule("RL-V03", Numerics.REASSOCIATION)
def stalled_decodes(served: Served) -> Iterator[ServingCause]:
    """Tokens come late because prompts of others are computed in the same steps."""
    steps, stalled = served.ledger.steps, slowest(served.splits, Latency.ITL)
    mixed = (steps.prefill_tokens > 0) & (steps.tokens > steps.prefill_tokens)
    if stalled is None or stalled.share(RequestAccount.OTHERS_PREFILL) < _LEAST_STALLED_DECODES:
        return
    if 0 < served.token_limit()[1] <= _SMALL:
        return
    length = steps.end_ns - steps.start_ns
    decoding = (steps.prefill_tokens == 0) & (steps.tokens > 0)
    figures = {
        "mixed_ns": float(np.median(length[mixed])),
        "decode_ns": float(np.median(length[decoding])) if decoding.any() else 0.0,
        "budget": served.token_limit()[1],
        "sequences": served.setting("max_num_seqs"),
        "prefill_tokens": float(steps.prefill_tokens[mixed].max()),
    }
    share = stalled.share(RequestAccount.OTHERS_PREFILL)
    yield ServingCause(
        latency=Latency.ITL,
        percentile=SLOWEST,
        share=share,
        most=share,
        end_to_end_share=0.0,  # the same tokens of prompts have to be computed
        figures=figures,
    )


@rule("RL-V04", Numerics.BITWISE)
def engine_python(served: Served) -> Iterator[ServingCause]:
    """The engine's own Python between the calls of the model."""
    if served.setting("is_traced"):
        yield from share_of(served, Latency.END_TO_END, _TRACED, {"is_traced": 1.0})
        return
    steps = served.ledger.steps
    host_ns = steps.amounts_ns[:, _OF_STEPS].sum(axis=1)
    figures = {
        "host_ns": float(np.median(host_ns)),
        "step_ns": float(np.median(steps.end_ns - steps.start_ns)),
        "is_async": served.setting("async_scheduling"),
    }
    for cause in share_of(served, Latency.TPOT, ENGINE_ACCOUNTS, figures):
        if cause.share >= _LEAST_ENGINE_PYTHON:
            yield cause


@rule("RL-V05", Numerics.BITWISE)
def sampling(served: Served) -> Iterator[ServingCause]:
    """Choosing the next token takes long, because requests ask for more than a token."""
    requests = max(len(served.recording.requests), 1)
    asked = {name: count / requests for name, count in served.recording.asked.items()}
    figures = {name: share for name, share in asked.items() if share >= _RARE}
    if not figures:  # logits have to be computed
        return
    accounts = (RequestAccount.SAMPLE, *(_OF_TEXTS if _TEXTS in figures else ()))
    told = [cause for latency in _LATENCIES for cause in share_of(served, latency, accounts, figures)]
    if told:
        yield max(told, key=lambda cause: cause.share)


@rule("RL-V06", Numerics.BITWISE)
def text_handling(served: Served) -> Iterator[ServingCause]:
    """The server: tokenising, detokenising, and the ways between it and the engine."""
    for cause in share_of(served, Latency.TTFT, SERVER_ACCOUNTS, {}, is_in_steps=False):
        if cause.share >= _LEAST_TEXT_HANDLING:
            yield cause


@rule("RL-V07", Numerics.REASSOCIATION)
def token_limit(served: Served) -> Iterator[ServingCause]:
    """Prompts are cut into pieces so small that most of a step is not spent on their tokens."""
    (setting, limit), steps = served.token_limit(), served.ledger.steps
    cut = _has_cut_prompt(served)
    if not limit or cut.sum() < LEAST_STEPS:
        return
    piece = served.setting("long_prefill_token_threshold")
    if 0 < piece < limit:
        yield from _in_pieces(served, piece, cut)
        return
    length = (steps.end_ns - steps.begin_ns).astype(float)
    model = steps.amounts_ns[:, [StepAccount.PREFILL, StepAccount.DECODE]].sum(axis=1)
    full_ns = float(np.median(length[cut]))
    around_ns = float(np.median((length - model)[cut]))
    any_ns = min(max(fixed_ns(length, steps.tokens, limit) or 0.0, around_ns), full_ns)
    fixed = any_ns / full_ns if full_ns else 0.0
    if fixed < LEAST_FIXED:
        return
    figures = {"limit": limit, "steps_share": float(cut.mean()), "fixed_ns": any_ns, "full_ns": full_ns}
    figures["is_scheduled_limit"] = float(setting == "max_num_scheduled_tokens")
    pieces = _pieces(served, full_tokens=float(np.median(steps.prefill_tokens[cut])))
    yield from share_of(served, Latency.TTFT, _ACCOUNTS_TOKEN_LIMIT, figures, fixed, most_part=1 - 1 / pieces)


def _in_pieces(served: Served, piece: float, cut: Column) -> Iterator[ServingCause]:
    """Each prompt waits for as many steps as it has pieces; at once it would be one step at least."""
    steps, pieces = served.ledger.steps, _pieces(served, piece)
    full_ns = float(np.median((steps.end_ns - steps.begin_ns)[cut]))
    figures = {"limit": piece, "steps_share": float(cut.mean()), "pieces": pieces, "full_ns": full_ns}
    yield from share_of(served, Latency.TTFT, _ACCOUNTS_TOKEN_LIMIT, figures, 1 - 1 / pieces)


def _pieces(served: Served, full_tokens: float) -> float:
    """Steps that the median prompt takes, with so many tokens in each. In one step it could be computed at best."""
    recording = served.recording
    prompts = recording.requests.prompt_tokens[np.unique(recording.batch.request)]
    return max(float(np.median(np.ceil(prompts / max(full_tokens, 1.0)))), 1.0)


def _has_cut_prompt(served: Served) -> Column:
    """Steps in which a prompt got some of its tokens computed, and not its last."""
    recording = served.recording
    batch, prompt = recording.batch, recording.requests.prompt_tokens
    is_cut = batch.computed + batch.tokens < prompt[batch.request]
    found = np.zeros(len(recording.steps), bool)
    found[batch.step[is_cut]] = True
    return found


@rule("RL-V08", Numerics.REASSOCIATION)
def shared_prefixes(served: Served) -> Iterator[ServingCause]:
    """Prompts begin alike, and what they have in common is computed again and again."""
    recording = served.recording
    of_prompts = max(int(recording.requests.prompt_tokens.clip(min=0).sum()), 1)
    shared = repeated_blocks(recording.prefixes) * served.setting("prefix_tokens") / of_prompts
    found = found_tokens(recording.batch) / of_prompts
    if shared - found < _LEAST_AGAIN:
        return
    figures = {
        "shared": shared,
        "found": found,
        "prompt_tokens": float(of_prompts),
        "is_on": served.setting("enable_prefix_caching"),
        "block_tokens": served.setting("block_size"),
        "compared_tokens": served.setting("prefix_tokens"),
    }
    accounts = (RequestAccount.PREFILL, RequestAccount.OTHERS_PREFILL)
    yield from share_of(served, Latency.TTFT, accounts, figures, min(shared - found, 1.0))


def repeated_blocks(numbers: I64) -> int:
    """Blocks that an earlier prompt began with, too: a block's number stands for all before it as well."""
    return len(numbers) - len(np.unique(numbers))


def found_tokens(batch: BatchRows) -> int:
    """Tokens that a request had in the cache of prefixes when it was computed first."""
    by_step = np.argsort(batch.step, kind="stable")
    _, first = np.unique(batch.request[by_step], return_index=True)
    return int(batch.computed[by_step][first].sum())


@rule("RL-V09", Numerics.REASSOCIATION)
def low_concurrency(served: Served) -> Iterator[ServingCause]:
    """The client asks again only when it has an answer, so that few requests share the engine's steps."""
    times, requests = served.ledger.to_last_token, served.recording.requests
    limit = served.sequence_limit()[1]
    if len(times) < _LEAST_REQUESTS or not limit or served.recording.steps.waiting.any():
        return
    came, queued = requests.came_ns[times.request], requests.queued_ns[times.request]
    start = np.where(came == UNKNOWN_NS, queued, came)
    order = np.argsort(start, kind="stable")
    start, length = start[order], times.length_ns[order]
    ends = np.sort(start + length)
    ended = np.searchsorted(ends, start, side="right")
    together = np.arange(1, len(start) + 1) - ended
    usual = int(np.median(together))
    later = np.flatnonzero(ended > 0)
    if _FEW * usual > limit or len(later) < len(start) - usual or (together == usual).mean() < _ALIKE:
        return
    pause = start[later] - ends[ended[later] - 1]
    if np.median(pause) > _AT_ONCE * np.median(length):
        return
    figures = {"concurrency": float(usual), "limit": limit, "pause_ns": float(np.median(pause))}
    yield from share_of(served, Latency.END_TO_END, _ACCOUNTS_LOW_CONCURRENCY, figures, is_in_steps=False)


@rule("RL-V10", Numerics.REASSOCIATION)
def few_threads(served: Served) -> Iterator[ServingCause]:
    """On a CPU, the model computes with fewer threads than there are cores."""
    workers = max(served.setting("tensor_parallel_size"), 1) * max(served.setting("pipeline_parallel_size"), 1)
    threads, cores = workers * served.setting("threads"), served.setting("cores")
    if served.word("device_type") != "cpu" or not 0 < threads <= _MOST_FEW_THREADS * cores:
        return
    figures = {"threads": threads, "cores": cores}
    yield from share_of(served, Latency.END_TO_END, _MODEL, figures, 1 - threads / cores)


@rule("RL-V11", Numerics.REASSOCIATION)
def rejected_drafts(served: Served) -> Iterator[ServingCause]:
    """Most tokens that are drafted for speculation are computed by the model and thrown away."""
    steps, tokens = served.recording.steps, served.ledger.steps
    drafted, accepted = int(steps.drafted.sum()), int(steps.accepted.sum())
    if not drafted or accepted >= _LOW * drafted:
        return
    generating = max(int((tokens.tokens - tokens.prefill_tokens).sum()), 1)
    figures = {"drafted": float(drafted), "accepted": float(accepted)}
    part = min((drafted - accepted) / generating, 1.0)
    accounts = (RequestAccount.DECODE, RequestAccount.SAMPLE)
    yield from share_of(served, Latency.TPOT, accounts, figures, part, most_part=_most(served))


def _most(served: Served) -> float:
    """Of the model's time and of sampling: all of the former in steps with drafts, where a token beside others may cost
    more than its share, and all of the latter, as each step looks for drafts and checks them."""
    amounts_ns = served.ledger.steps.amounts_ns
    decode_ns, sample_ns = amounts_ns[:, StepAccount.DECODE], int(amounts_ns[:, StepAccount.SAMPLE].sum())
    with_drafts_ns = int(decode_ns[served.recording.steps.drafted > 0].sum())
    return (with_drafts_ns + sample_ns) / max(int(decode_ns.sum()) + sample_ns, 1)


@rule("RL-V12", Numerics.LOWER_PRECISION)
def wide_weights(served: Served) -> Iterator[ServingCause]:
    """Each step reads weights of 32 bits, though the model was saved in 16."""
    if not served.word("dtype").endswith("float32") or _saved_as(served) not in _NARROW:
        return
    if served.word("device_type") == "cpu" and served.recording.settings.get("has_bf16_units") is False:
        return  # numbers of 16 bits are converted there, which takes longer than to read twice as many bytes
    yield from share_of(served, Latency.TPOT, (RequestAccount.DECODE,), {}, _SAVED)


def _saved_as(served: Served) -> str:
    """The type in the model's own file."""
    model = served.recording.settings.get("model_config")
    named = model if isinstance(model, Mapping) else {}
    return str(named.get("dtype", named.get("torch_dtype", ""))).removeprefix("torch.")


@rule("RL-V13", Numerics.BITWISE)
def beyond_server(served: Served) -> Iterator[ServingCause]:
    """Requests and answers take long between the client and the server, or in the client itself.

    Known where the client's own file is given.
    """
    yield from share_of(served, Latency.END_TO_END, (RequestAccount.NETWORK,), {}, is_in_steps=False)


def causes_of(served: Served) -> tuple[ServingCause, ...]:
    """The one that costs the slowest requests most comes first."""
    found = [replace(cause, code=one.code) for one in RULES for cause in one.find(served) if cause.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda cause: (-cause.end_to_end_share, -cause.share)))
