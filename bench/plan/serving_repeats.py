"""How far the time to the first token differs between runs that should have the same, beside predictions of them."""

from collections.abc import Iterator

import numpy as np

from bench.plan.serving import ServingRows, load_serving
from bench.plan.serving_left_out import serving_residuals
from redline.plan.serve.serving_plan import Repeats, ServingSituation


def first_token_repeats() -> Repeats:
    """One server, the same prompts, as many requests in flight; only how much is written differs."""
    rows, _ = load_serving()
    ttft_s = rows.measured["ttft_s"]
    groups = list(_repeated(rows))
    spreads = [float(ttft_s[group].max() / ttft_s[group].min() - 1) for group in groups]
    swaps = [
        abs(ttft_s[other] / ttft_s[one] - 1) for group in groups for one in group for other in group if one != other
    ]
    members = {rows.ids[at] for group in groups for at in group}
    told = serving_residuals(ServingSituation.MODEL, "ttft_s")
    off = np.abs(np.expm1(-told.logs[np.isin(told.ids, list(members))]))
    return Repeats(
        groups=len(groups),
        rows=len(off),
        spread=float(np.median(spreads)),
        median=float(np.median(swaps)),
        p90=float(np.quantile(swaps, 0.9)),
        predicted_median=float(np.median(off)),
        predicted_p90=float(np.quantile(off, 0.9)),
    )


def _repeated(rows: ServingRows) -> Iterator[list[int]]:
    """Rows of each group, by their place. Speculative decoding changes nothing before the first token."""
    same: dict[tuple[object, ...], list[int]] = {}
    prompt, flying = np.asarray(rows.traffic.prompt), np.asarray(rows.traffic.concurrency)
    for at in np.flatnonzero(np.isfinite(rows.measured["ttft_s"])).tolist():
        same.setdefault((rows.names[at], rows.gpu[at], prompt[at], flying[at]), []).append(at)
    yield from (group for group in same.values() if len(group) > 1)
