"""Sentences about why requests wait: what to do, what shows it, and which option changes it."""

from collections.abc import Callable
from dataclasses import dataclass

from redline.report.language import _
from redline.report.serving.account_names import latency_name
from redline.report.text_parts import percent
from redline.serving.causes import ServingCause
from redline.units import format_ns

_MUCH_ROOM = 1000  # requests: more than anybody would let run at once


@dataclass(frozen=True, kw_only=True)
class CauseText:
    """A cause in words."""

    title: str
    evidence: str
    fix: str


def cause_text(cause: ServingCause) -> CauseText:
    return _TEXTS[cause.code](cause)


def share_text(cause: ServingCause) -> str:
    return _("{share} of the p{percentile} of {latency}").format(
        share=percent(cause.share), percentile=cause.percentile, latency=latency_name(cause.latency)
    )


def _sequences(cause: ServingCause) -> CauseText:
    figures = cause.figures
    room = min(int(figures["room"]), _MUCH_ROOM)
    return CauseText(
        title=_("Let more sequences run at once"),
        evidence=_(
            "{limit:.0f} sequences are the limit, and requests wait for it in {steps_share} of the steps, while the "
            "cache has room for {room:,} or more."
        ).format(limit=figures["limit"], steps_share=percent(figures["steps_share"]), room=room),
        fix=f"--max-num-seqs {min(room, 4 * int(figures['limit']))}",
    )


def _cache(cause: ServingCause) -> CauseText:
    figures = cause.figures
    return CauseText(
        title=_("Give the cache of keys and values more room, or let fewer sequences share it"),
        evidence=_(
            "The cache is full in {steps_share} of the steps while requests wait, and {preempted:,.0f} times a request "
            "lost its place in it and was computed again."
        ).format(steps_share=percent(figures["steps_share"]), preempted=figures["preempted"]),
        fix="--gpu-memory-utilization 0.95, --kv-cache-dtype fp8, VLLM_CPU_KVCACHE_SPACE",
    )


def _stalled(cause: ServingCause) -> CauseText:
    figures = cause.figures
    return CauseText(
        title=_("Cut long prompts into smaller chunks"),
        evidence=_(
            "A step that also computes a prompt takes {mixed_ns}, one that only generates takes {decode_ns}: tokens of "
            "other requests wait. Up to {prefill_tokens:,.0f} tokens of prompts were in one step; {budget:,.0f} are "
            "allowed."
        ).format(
            mixed_ns=format_ns(round(figures["mixed_ns"])),
            decode_ns=format_ns(round(figures["decode_ns"])),
            prefill_tokens=figures["prefill_tokens"],
            budget=figures["budget"],
        ),
        fix=f"--max-num-batched-tokens {max(int(figures['prefill_tokens']) // 2, 1)}",
    )


def _host(cause: ServingCause) -> CauseText:
    return CauseText(
        title=_("Spend less of a step in the engine's own Python"),
        evidence=_(
            "Scheduling, preparing inputs, handing out tokens and what is between steps take {host_ns} of a step of "
            "{step_ns}."
        ).format(
            host_ns=format_ns(round(cause.figures["host_ns"])), step_ns=format_ns(round(cause.figures["step_ns"]))
        ),
        fix="--async-scheduling",
    )


def _sample(cause: ServingCause) -> CauseText:
    return CauseText(
        title=_("Make sampling cheaper"),
        evidence=_("Logits and the choice of the next token take {share} of the time per token.").format(
            share=percent(cause.share)
        ),
        fix=_("no log-probabilities and no penalties where nobody reads them"),
    )


def _texts(cause: ServingCause) -> CauseText:
    return CauseText(
        title=_("Give the server more processes"),
        evidence=_(
            "Tokenising, detokenising and the ways between server and engine take {share} of the time to the first "
            "token."
        ).format(share=percent(cause.share)),
        fix="--api-server-count 2",
    )


_TEXTS: dict[str, Callable[[ServingCause], CauseText]] = {
    "RL-V01": _sequences,
    "RL-V02": _cache,
    "RL-V03": _stalled,
    "RL-V04": _host,
    "RL-V05": _sample,
    "RL-V06": _texts,
}
