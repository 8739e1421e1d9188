"""Sentences about why requests wait: what to do, what shows it, and which option changes it."""

from collections.abc import Callable
from dataclasses import dataclass

from redline.findings.pages import page_of
from redline.report.language import _, marked, sentences, spoken
from redline.report.serving.account_names import latency_name
from redline.report.text_parts import percent
from redline.serving.causes import ServingCause
from redline.units import format_ns

_RIDES_ALONG = 0.01  # of a latency: less waiting for others than that is not worth words
_MUCH_ROOM = 1000  # requests: more than anybody would let run at once
_ASKS = {
    "logprobs": marked("{share} of the requests ask for log-probabilities."),
    "penalties": marked("{share} of the requests ask for penalties."),
    "filters": marked("{share} of the requests limit the choice of tokens (top_k, top_p, min_p)."),
    "structure": marked("{share} of the requests ask for structured output."),
    "biases": marked("{share} of the requests change or forbid single tokens."),
}


@dataclass(frozen=True, kw_only=True)
class CauseText:
    """A cause in words; its title is that of its page."""

    title: str
    evidence: str
    fix: str


def cause_text(cause: ServingCause) -> CauseText:
    evidence, fix = _TEXTS[cause.code](cause)
    return CauseText(title=page_of(cause.code, spoken()).title, evidence=evidence, fix=fix)


def share_text(cause: ServingCause) -> str:
    share = _("{share} of the p{percentile} of {latency}").format(
        share=percent(cause.share), percentile=cause.percentile, latency=latency_name(cause.latency)
    )
    if cause.most < cause.share + _RIDES_ALONG:
        return share
    return _("{share}, at most {most} with the waiting that it makes").format(share=share, most=percent(cause.most))


def _time(figure_ns: float) -> str:
    return format_ns(round(figure_ns))


def _sequences(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    room = min(int(figures["room"]), _MUCH_ROOM)
    evidence = _(
        "{limit:.0f} sequences are the limit, and requests wait for it in {steps_share} of the steps, while the "
        "cache has room for {room:,} or more."
    ).format(limit=figures["limit"], steps_share=percent(figures["steps_share"]), room=room)
    option = "--max-num-active-seqs" if figures["is_active_limit"] else "--max-num-seqs"
    return evidence, f"{option} {min(room, 4 * int(figures['limit']))}"


def _cache(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    evidence = _(
        "The cache is full in {steps_share} of the steps while requests wait, and {preempted:,.0f} times a request "
        "lost its place in it and was computed again."
    ).format(steps_share=percent(figures["steps_share"]), preempted=figures["preempted"])
    return evidence, "--gpu-memory-utilization 0.95, --kv-cache-dtype fp8, VLLM_CPU_KVCACHE_SPACE"


def _stalled(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    evidence = _(
        "A step that also computes a prompt takes {mixed_ns}, one that only generates takes {decode_ns}: tokens of "
        "other requests wait. Up to {prefill_tokens:,.0f} tokens of prompts were in one step; {budget:,.0f} are "
        "allowed."
    ).format(
        mixed_ns=_time(figures["mixed_ns"]),
        decode_ns=_time(figures["decode_ns"]),
        prefill_tokens=figures["prefill_tokens"],
        budget=figures["budget"],
    )
    fewer = max(int(figures["prefill_tokens"]) // 2, int(figures["sequences"]), 1)  # the engine wants one per sequence
    return evidence, f"--max-num-batched-tokens {fewer}"


def _engine(cause: ServingCause) -> tuple[str, str]:
    if "is_traced" in cause.figures:
        evidence = _("A trace function of Python (sys.settrace) is called for every line that the engine runs.")
        return evidence, _("unset VLLM_TRACE_FUNCTION; no debugger and no coverage")
    evidence = _(
        "Scheduling, preparing inputs, messages to workers, handing out tokens and what is between steps take "
        "{host_ns} of a step of {step_ns}."
    ).format(host_ns=_time(cause.figures["host_ns"]), step_ns=_time(cause.figures["step_ns"]))
    return evidence, "--stream-interval 4" if cause.figures["is_async"] else "--async-scheduling"


def _sample(cause: ServingCause) -> tuple[str, str]:
    taken = _("Logits, the choice of the next token and what is sent of it take {share} of this time.")
    asked = [_(_ASKS[name]).format(share=percent(share)) for name, share in cause.figures.items() if name in _ASKS]
    fix = _("no log-probabilities and no penalties where nobody reads them")
    return sentences([taken.format(share=percent(cause.share)), *asked]), fix


def _texts(cause: ServingCause) -> tuple[str, str]:
    evidence = _(
        "Tokenising, detokenising and the ways between server and engine take {share} of the time to the first token."
    ).format(share=percent(cause.share))
    return evidence, "--api-server-count 2"


def _token_limit(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    if "pieces" in figures:
        evidence = _(
            "Prompts are computed in pieces of {limit:,.0f} tokens, the median one in {pieces:,.0f} steps of {full_ns}."
        ).format(limit=figures["limit"], pieces=figures["pieces"], full_ns=_time(figures["full_ns"]))
        return evidence, "--long-prefill-token-threshold 0"
    evidence = _(
        "{limit:,.0f} tokens are the limit of a step, and in {steps_share} of the steps it cuts a prompt. Such a step "
        "takes {full_ns}, of which {fixed_ns} would pass with any number of tokens."
    ).format(
        limit=figures["limit"],
        steps_share=percent(figures["steps_share"]),
        full_ns=_time(figures["full_ns"]),
        fixed_ns=_time(figures["fixed_ns"]),
    )
    option = "--max-num-scheduled-tokens" if figures["is_scheduled_limit"] else "--max-num-batched-tokens"
    return evidence, f"{option} {4 * int(figures['limit'])}"


def _prefixes(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    again = _(
        "{share} of the {tokens:,.0f} tokens of prompts are at the beginning of an earlier prompt as well; the engine "
        "found {found} in its cache of prefixes."
    ).format(share=percent(figures["shared"]), tokens=figures["prompt_tokens"], found=percent(figures["found"]))
    if not figures["is_on"]:
        return sentences([again, _("It is off.")]), "--enable-prefix-caching"
    if figures["block_tokens"] <= figures["compared_tokens"]:
        return again, _("a larger cache, or prompts that begin alike to the same engine")
    blocks = _("It holds whole blocks of {tokens:,.0f} tokens.").format(tokens=figures["block_tokens"])
    return sentences([again, blocks]), f"--block-size {figures['compared_tokens']:.0f}"


def _concurrency(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    evidence = _(
        "There are never more than {concurrency:.0f} requests at a time: the client sends the next one {pause_ns} "
        "after an answer; {limit:,.0f} could share each step."
    ).format(concurrency=figures["concurrency"], pause_ns=_time(figures["pause_ns"]), limit=figures["limit"])
    fix = _("send {count:.0f} requests at a time").format(count=min(figures["limit"], 4 * figures["concurrency"]))
    return evidence, fix


def _threads(cause: ServingCause) -> tuple[str, str]:
    evidence = _("The model computes with {threads:.0f} threads on {cores:.0f} cores.").format(**cause.figures)
    return evidence, "VLLM_CPU_OMP_THREADS_BIND=auto, OMP_NUM_THREADS"


def _drafts(cause: ServingCause) -> tuple[str, str]:
    figures = cause.figures
    evidence = _(
        "Of {drafted:,.0f} drafted tokens {share} were accepted; the others were computed for nothing."
    ).format(drafted=figures["drafted"], share=percent(figures["accepted"] / figures["drafted"]))
    return evidence, _("fewer speculative tokens, or no --speculative-config")


def _weights(_cause: ServingCause) -> tuple[str, str]:
    evidence = _("The weights are read as 32-bit numbers in every step, and the model was saved in 16 bits.")
    return evidence, "--dtype bfloat16"


def _network(cause: ServingCause) -> tuple[str, str]:
    evidence = _("{share} of what the client measured is neither in the server nor in the engine.").format(
        share=percent(cause.share)
    )
    return evidence, _("several client processes, connections that stay open, a way without proxies")


_TEXTS: dict[str, Callable[[ServingCause], tuple[str, str]]] = {
    "RL-V01": _sequences,
    "RL-V02": _cache,
    "RL-V03": _stalled,
    "RL-V04": _engine,
    "RL-V05": _sample,
    "RL-V06": _texts,
    "RL-V07": _token_limit,
    "RL-V08": _prefixes,
    "RL-V09": _concurrency,
    "RL-V10": _threads,
    "RL-V11": _drafts,
    "RL-V12": _weights,
    "RL-V13": _network,
}
