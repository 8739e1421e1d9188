"""The questions of the lake in words: what each answers, its columns, and what is to be known about them."""

from collections.abc import Iterator, Mapping

from redline.lake.late_nodes import MOST_FALSE
from redline.lake.sandbox import MOST_ROWS
from redline.report.lake.lake_results import LakeAskResult
from redline.report.language import _, marked, ngettext
from redline.report.text_parts import percent

TITLES: Mapping[str, str] = {
    "accounts": marked("GPU hours by account"),
    "teams": marked("GPU hours lost, by team"),
    "models": marked("GPU hours lost, by model"),
    "clusters": marked("GPU hours lost, by cluster"),
    "devices": marked("GPU hours lost, by device"),
    "jobs": marked("jobs that lose most GPU hours"),
    "nodes": marked("nodes that are late across jobs"),
    "waits": marked("GPU hours spent waiting for late ranks, by cause"),
    "changes": marked("what changed since last week"),
    "like": marked("jobs like this one"),
    "findings": marked("findings by what fixing them can gain at most"),
    "operators": marked("operators by GPU hours above their roof"),
}
HEADINGS: Mapping[str, str] = {
    "account": marked("account"),
    "gpu_hours": marked("GPU hours"),
    "share": marked("share"),
    "lost": marked("lost"),
    "team": marked("team"),
    "model": marked("model"),
    "cluster": marked("cluster"),
    "device": marked("device"),
    "job": marked("job"),
    "jobs": marked("jobs"),
    "lost_hours": marked("lost hours"),
    "lost_share": marked("lost share"),
    "largest_loss": marked("largest loss"),
    "world_size": marked("ranks"),
    "ranks": marked("ranks"),
    "node": marked("node"),
    "latest_in": marked("latest in"),
    "expected": marked("by chance"),
    "caused_hours": marked("hours waited for it"),
    "cause": marked("cause"),
    "chance": marked("chance"),
    "jobs_before": marked("jobs before"),
    "lost_share_before": marked("lost share before"),
    "change": marked("change"),
    "grew_most": marked("grew most"),
    "step_change": marked("step time"),
    "similarity": marked("similarity"),
    "step_ns": marked("step"),
    "code": marked("code"),
    "title": marked("title"),
    "gain_hours": marked("hours gained alone"),
    "gain_beside_others": marked("beside the others"),
    "money": marked("money"),
    "operator": marked("operator"),
    "dtype": marked("type"),
    "kernel_hours": marked("kernel hours"),
    "above_roof_hours": marked("above the roof"),
    "roof_share": marked("roof share"),
}
CAUSES: Mapping[str, str] = {
    "before the window": marked("behind when the window began"),
    "compute": marked("computed longer"),
    "communication": marked("communicated or copied longer"),
    "input": marked("loaded data longer"),
    "host": marked("waited longer for the host"),
    "other": marked("idle longer"),
}
_LOST = marked("lost: all accounts but math, memory and unrated compute")
_NOTES: Mapping[str, tuple[str, ...]] = {
    "accounts": (_LOST,),
    **dict.fromkeys(("teams", "models", "clusters", "devices", "jobs"), (_LOST,)),
    "nodes": (
        marked(
            "latest in: jobs in which no other node made the others wait longer; by chance: how many would be expected"
        ),
        marked("the node of rank 0 is not judged in that job: logging and checkpoints make it late in any job"),
    ),
    "waits": (marked("hours waited: of all other ranks together"),),
    "changes": (
        marked("the last 7 days of the lake beside the 7 days before, for each team and model that ran in both"),
        _LOST,
    ),
    "like": (marked("similarity: of the time spent in each operator (cosine); the first row is the job itself"),),
    "findings": (
        marked("alone: as the only fix; beside the others: the part that no other finding claims, so these add up"),
    ),
    "operators": (
        marked("above the roof: kernel time beyond what FLOPs and bytes need; - where the work or the peak is unknown"),
    ),
}


def title(result: LakeAskResult) -> str:
    return _(TITLES[result.question]) if result.question else _("answer")


def heading(name: str, question: str) -> str:
    """Of SQL, as it named the column."""
    return _(HEADINGS[name]) if question else name


def size_line(result: LakeAskResult) -> str:
    """What was asked."""
    digests = ngettext("{count:,} digest", "{count:,} digests", result.digests).format(count=result.digests)
    jobs = ngettext("{count:,} job", "{count:,} jobs", result.jobs).format(count=result.jobs)
    text = _("{digests} of {jobs}, {first} to {last}")
    if result.synthetic:
        text = _("{digests} of {jobs}, {first} to {last}; some are synthetic, not measured")
    return text.format(digests=digests, jobs=jobs, first=result.first_day, last=result.last_day)


def notes(result: LakeAskResult) -> Iterator[str]:
    """Under the table."""
    if result.question == "nodes":
        yield from _tested(result)
    yield from map(_, _NOTES.get(result.question, ()))
    if result.question == "findings":
        yield (
            _("money: at {price:g} per GPU hour").format(price=result.price)
            if result.price
            else _("--price PRICE of a GPU hour adds what each is worth")
        )
    if result.answer.cut:
        yield _("only the first {count:,} rows").format(count=MOST_ROWS)


def _tested(result: LakeAskResult) -> Iterator[str]:
    text = _(
        "{judged:,} nodes were judged, {late:,} of them are late; the test names any node wrongly in at most {rate} of "
        "lakes; chance: of evidence as strong for any of these nodes"
    )
    facts = result.answer.facts
    yield text.format(
        judged=int(facts.get("judged_nodes") or 0), late=int(facts.get("late_nodes") or 0), rate=percent(MOST_FALSE)
    )


def empty(question: str) -> str:
    if question == "nodes":
        return _("No node is late more often than chance explains.")
    if question == "changes":
        return _("No team and model ran in both weeks.")
    return _("There are no rows.")
