"""The result of `diagnose` as JSON for machines; docs/reference/diagnose.md describes every field."""

from math import isnan
from typing import TYPE_CHECKING, Any

from redline.findings.evidence import Evidence
from redline.findings.finding import Finding
from redline.findings.pages import page_of
from redline.findings.replayed import ReplayedJob, ReplayedScenario
from redline.ledger.accounts import ACCOUNTS
from redline.ledger.job.collective_table import CollectiveRow
from redline.ledger.job.combine import Diagnosis
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Amounts
from redline.report.data import code, enveloped, json_text, picked, plain
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import second_cause, sentence, verdict_sentence
from redline.report.diagnose.screen import growth_of
from redline.report.language import sentences, speaking
from redline.report.serving.json import record_of

if TYPE_CHECKING:
    from redline.ledger.job.job_memory import JobMemory
    from redline.ledger.memory.device_memory import DeviceMemory

KIND = "diagnosis"
SCHEMA_VERSION = 1


def render(result: DiagnosedJob) -> str:
    return json_text(as_record(result))


def as_record(result: DiagnosedJob) -> dict[str, Any]:
    """In English, whatever language is spoken: programs read it."""
    with speaking("en"):
        return {
            **_record(result),
            "memory": None if result.diagnosis.memory is None else _memory(result.diagnosis.memory),
            "replay": None if result.replayed is None else _replay(result.replayed),
            "serving": None if result.serving is None else record_of(result.serving),
            "captured": plain(result.captured),
            "redacted": plain(result.removed),
        }


def _record(result: DiagnosedJob) -> dict[str, Any]:
    diagnosis, outline, findings = result.diagnosis, result.outline, result.findings
    synthetic = any(bool(rank.origin.synthetic) for rank in diagnosis.ranks)
    clocks = diagnosis.clocks
    record = {
        "world_size": diagnosis.world_size,
        "missing_ranks": list(diagnosis.missing),
        "double_ranks": list(diagnosis.doubles),
        "jobs": diagnosis.jobs,
        "clocks": {
            "aligned_on_collectives": clocks.operations,
            "worst_residual_ns": clocks.worst_ns,
            "trusted": clocks.trusted,
            "ranks_alone": [diagnosis.ranks[index].origin.rank for index in clocks.alone],
        },
        "verdict": _verdict(result),
        "findings": list(map(_finding, findings.findings)),
        "remarks": list(map(_finding, findings.remarks)),
        "praise": list(map(_evidence, findings.praise)),
        "steps": plain(outline.steps),
        "waterfall": [{**plain(bar), "account": code(bar.account)} for bar in outline.waterfall],
        "phases": [{**plain(row), "time_ns": row.time_ns} for row in diagnosis.phases],
        "largest": [code(bar.account) for bar in outline.largest],
        "utilisation": plain(outline.utilisation),
        "unseen": plain(outline.unseen),
        "exposed_communication_ns": diagnosis.exposed_ns,
        "unmatched_communication_ns": diagnosis.unmatched_ns,
        "ranks": [_rank(diagnosis, index) for index in range(len(diagnosis.ranks))],
        "lateness": plain(diagnosis.lateness),
        "kernels": list(map(_kernel, diagnosis.kernels)),
        "collectives": list(map(_collective, diagnosis.collectives)),
        "doing": [{**plain(row), "account": code(row.account)} for row in diagnosis.doing],
        "failures": [picked(failure, "path message") for failure in result.failures],
    }
    return enveloped(KIND, SCHEMA_VERSION, "redline diagnose", record, synthetic=synthetic)


def _memory(memory: "JobMemory") -> dict[str, Any]:
    fullest = memory.fullest
    return {
        "fullest": None if fullest is None else {"rank": fullest.rank, "device": fullest.device},
        "devices": list(map(_device, memory.devices)),
        "causes": [{**plain(cause), "title": page_of(cause.code).title} for cause in memory.causes],
        "left_out": plain(memory.left_out),
    }


def _device(device: "DeviceMemory") -> dict[str, Any]:
    peak = device.peak
    return {
        **picked(device, "rank device"),
        "peak_bytes": peak.live_bytes,
        "reserved_bytes": peak.reserved_bytes,
        "accounts": {code(account): size for account, size in peak.accounts.items()},
        "steps": [picked(step, "label peak_bytes end_bytes") for step in device.steps],
        "growth": [{**plain(growth), "account": code(growth.account)} for growth in device.growth],
        "holders": [{**plain(holder), "account": code(holder.account)} for holder in peak.holders],
        "before_history_bytes": peak.before_bytes,
        "missed_events": device.missed,
    }


def _replay(replayed: ReplayedJob) -> dict[str, Any]:
    def scenario(of_one: ReplayedScenario) -> dict[str, Any]:
        ranks = [{"rank": rank, "step_ns": before, "after_ns": after} for rank, before, after in of_one.ranks]
        return {**plain(of_one), "limit": code(of_one.limit), "gain_share": of_one.gain_share, "ranks": ranks}

    path = replayed.path
    return {
        "declined": replayed.declined,
        "ranks": replayed.ranks,
        "device_starts": replayed.starts,
        "coarse": replayed.coarse,
        "unexplained_starts": replayed.unexplained,
        "error_by_dependencies_alone": replayed.rule_error,
        "what_if": list(map(scenario, replayed.asked)),
        "first_fixes": list(replayed.first_fixes),
        "after_first_fixes": None if replayed.after_first is None else scenario(replayed.after_first),
        "critical_path": None if path is None else picked(path, "accounts phases operators ranks beside"),
    }


def _number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


def _verdict(result: DiagnosedJob) -> dict[str, Any]:
    findings, verdict = result.findings, result.findings.verdict
    return {
        **plain(verdict),
        "limit": code(verdict.limit),
        "text": sentences(
            [
                result.about,
                verdict_sentence(verdict, findings.findings, result.outline),
                second_cause(verdict, findings.findings),
                growth_of(result.diagnosis),
            ]
        ),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        **plain(finding),
        "title": page_of(finding.code).title,
        "numerics": code(finding.numerics),
        "share": finding.share,
        "alone_share": finding.alone_share,
        "speedup": finding.speedup,
        "accounts": {code(account): amount for account, amount in finding.accounts.items()},
        "evidence": list(map(_evidence, finding.evidence)),
        "fix": [_sentence(finding.fix)] if finding.fix is not None else [],
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {**_sentence(evidence), "bearing": str(evidence.bearing)}


def _sentence(evidence: Evidence) -> dict[str, Any]:
    return {"message": evidence.message, "values": dict(evidence.values), "text": sentence(evidence)}


def _amounts(amounts: Amounts) -> dict[str, int]:
    return {code(account): amount for account, amount in zip(ACCOUNTS, amounts.tolist(), strict=True)}


def _rank(diagnosis: Diagnosis, index: int) -> dict[str, Any]:
    rank = diagnosis.ranks[index]
    origin = plain(rank.origin)
    del origin["step_labels"], origin["phases"]  # each is with its step
    return {
        **origin,
        "kind": diagnosis.kinds[index],
        "start_unix_ns": rank.zero_ns + rank.window_ns[0],
        "window_ns": rank.ledger.window_ns,
        "clock_offset_ns": diagnosis.clocks.offset_ns[index],
        "clock_residual_ns": diagnosis.clocks.residual_ns[index],
        "facts": plain(rank.facts),
        "arithmetic": plain(rank.arithmetic),
        "steps": _steps(rank),
        "outside": _amounts(rank.ledger.outside),
        "left_out": dict(rank.left_out),
    }


def _steps(rank: Digest) -> list[dict[str, Any]]:
    ledger = rank.ledger
    first_ns = rank.window_ns[0]
    labels, phases = rank.origin.step_labels, rank.origin.phases
    return [
        {
            "label": labels[number] if number < len(labels) else "",
            "phase": phases[number] if number < len(phases) else "",
            "start_ns": start_ns - first_ns,
            "length_ns": end_ns - start_ns,
            "accounts": _amounts(ledger.steps[number]),
        }
        for number, (start_ns, end_ns) in enumerate(zip(ledger.start_ns.tolist(), ledger.end_ns.tolist(), strict=True))
    ]


def _kernel(row: KernelRow) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in KernelRow.__slots__},  # there are thousands, and asdict copies deeply
        "math_ns": _number(row.math_ns),
        "memory_ns": _number(row.memory_ns),
        "share_of_roof": _number(row.share),
        "regime": code(row.regime),
    }


def _collective(row: CollectiveRow) -> dict[str, Any]:
    return {
        **plain(row),
        "algorithm_bytes_per_s": _number(row.algorithm_bytes_per_s),
        "bus_bytes_per_s": _number(row.bus_bytes_per_s),
    }
