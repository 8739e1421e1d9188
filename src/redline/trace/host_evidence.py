"""The host evidence in a trace, read with distrust: a part that is not as it should be is counted and left out."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any, TypeAlias, TypeVar, get_type_hints

import msgspec
import numpy as np

from redline.artifacts.masking import masked
from redline.timeline.host_evidence import (
    CalledModel,
    Collections,
    GroupCount,
    HeldMemory,
    HeldTable,
    HostEvidence,
    JobFacts,
    MachineShare,
    ModelCalls,
    ModelCallTable,
    StackSamples,
    StepCounters,
    ThreadTime,
    check_table,
)
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import Table, encodable
from redline.trace import schema

Value = TypeVar("Value")
AnyTable = TypeVar("AnyTable", bound=Table)
_Sampled: TypeAlias = tuple[StackSamples, float, tuple[tuple[str, ...], ...]]
_LARGEST = 2**62  # numbers below can be added
_UNKNOWN = -1  # in columns that are not there
_REQUIRED = frozenset({"begin_ns", "end_ns", "dur_ns", "time_ns", "stack"})
_ON_THE_CLOCK = frozenset({"begin_ns", "end_ns", "time_ns"})
_UNSOUND = (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError, AssertionError)


def evidence_of(raw: Mapping[str, Any], zero_ns: int, log: ProblemLog) -> HostEvidence:
    """What the metadata of a trace holds of it, with times counted from `zero_ns`; empty where there is none."""
    record = raw.get(schema.EVIDENCE_KEY)
    if not isinstance(record, dict) or schema.EVIDENCE_VERSION_KEY not in record:
        return HostEvidence()  # files that Redline writes itself say here who wrote them
    return _Reading(record, zero_ns, log).evidence()


def as_record(evidence: HostEvidence) -> dict[str, Any]:
    """The same as it stands in a trace, with times as they are."""
    record: dict[str, Any] = {
        schema.EVIDENCE_VERSION_KEY: schema.EVIDENCE_VERSION,
        "steps": _lists(evidence.steps),
        "threads": evidence.threads,
        "machine": evidence.machine,
        "samples": {"rate_hz": evidence.sample_rate_hz, **_lists(evidence.samples), "stacks": evidence.stacks},
        "facts": evidence.facts,
        "calls": {
            **_lists(evidence.calls.table),
            "models": evidence.calls.models,
            "inputs": evidence.calls.inputs,
            "shapes": evidence.calls.shapes,
            "used": evidence.calls.used,
        },
        "held": {**_lists(evidence.held.table), "names": evidence.held.names},
        "groups": evidence.groups,
    }
    if evidence.collections is not None:
        record["collections"] = _lists(evidence.collections)
    return record


def _lists(table: Table) -> dict[str, list[int]]:
    return {name: values.tolist() for name, values in table.columns().items()}


class _Reading:
    """One record, part by part."""

    def __init__(self, record: dict[str, Any], zero_ns: int, log: ProblemLog) -> None:
        self._record = record
        self._zero_ns = zero_ns
        self._log = log

    def evidence(self) -> HostEvidence:
        nothing: _Sampled = (StackSamples.empty(), 0.0, ())
        sampled = self._part("samples", self._samples, nothing)
        return HostEvidence(
            steps=self._part("steps", self._table(StepCounters), StepCounters.empty()),
            threads=self._part("threads", lambda value: _typed(value, tuple[ThreadTime, ...]), ()),
            machine=self._part("machine", lambda value: _typed(value, MachineShare), MachineShare()),
            collections=self._part("collections", self._table(Collections), None),
            samples=sampled[0],
            sample_rate_hz=sampled[1],
            stacks=sampled[2],
            facts=self._part("facts", self._facts, JobFacts()),
            calls=self._part("calls", self._calls, ModelCalls()),
            held=self._part("held", self._held, HeldMemory()),
            groups=self._part("groups", lambda value: _typed(value, tuple[GroupCount, ...]), ()),
        )

    def _part(self, name: str, read: Callable[[Any], Value], otherwise: Value) -> Value:
        value = self._record.get(name)
        return otherwise if value is None else self._sound(name, lambda: read(value), otherwise)

    def _sound(self, name: str, read: Callable[[], Value], otherwise: Value) -> Value:
        try:
            return read()
        except _UNSOUND as error:
            self._log.add(Reason.BAD_HOST_EVIDENCE, example=f"{name}: {error}")
            return otherwise

    def _table(self, kind: type[AnyTable]) -> Callable[[Any], AnyTable]:
        def read(value: Any) -> AnyTable:
            members = msgspec.convert(value, dict[str, Any])
            known = {name: self._column(name, members[name]) for name in kind.layout() if name in members}
            if missing := _REQUIRED & set(kind.layout()) - set(known):
                raise ValueError(f"without {', '.join(sorted(missing))}")
            rows = len(next(iter(known.values())))
            absent = {name: np.full(rows, _UNKNOWN, np.int64) for name in kind.layout() if name not in known}
            columns = {**known, **absent}
            table = kind(**{name: columns[name].astype(dtype) for name, dtype in kind.layout().items()})
            check_table(table)
            return table

        return read

    def _column(self, name: str, value: Any) -> np.typing.NDArray[np.int64]:
        numbers = np.array(msgspec.convert(value, list[int]), np.int64)
        if len(numbers) and int(np.abs(numbers).max()) >= _LARGEST:
            raise ValueError(f"{name} holds a number beyond 62 bits")
        return numbers - self._zero_ns if name in _ON_THE_CLOCK else numbers

    def _samples(self, value: Any) -> _Sampled:
        samples = self._table(StackSamples)(value)
        stacks = _typed(value.get("stacks", ()), tuple[tuple[str, ...], ...])
        if not samples.within("stack", 0, len(stacks)):
            raise ValueError("a stack that is not there")
        return samples, _typed(value.get("rate_hz", 0.0), float), stacks

    def _calls(self, value: Any) -> ModelCalls:
        calls = ModelCalls(
            table=self._table(ModelCallTable)(value),
            models=_typed(value.get("models", ()), tuple[CalledModel, ...]),
            inputs=_typed(value.get("inputs", ()), tuple[tuple[int, ...], ...]),
            shapes=_typed(value.get("shapes", ()), tuple[str, ...]),
            used=_typed(value.get("used", ()), tuple[int, ...]),
        )
        calls.self_check()
        return calls

    def _held(self, value: Any) -> HeldMemory:
        held = HeldMemory(table=self._table(HeldTable)(value), names=_typed(value.get("names", ()), tuple[str, ...]))
        held.self_check()
        return held

    def _facts(self, value: Any) -> JobFacts:
        """Fact by fact: one that is not as it should be takes no other with it."""
        members = msgspec.convert(value, dict[str, Any])
        types = get_type_hints(JobFacts)
        known: dict[str, Any] = {}
        for field in fields(JobFacts):
            if members.get(field.name) is not None:
                fact = self._sound(
                    f"facts.{field.name}",
                    lambda name=field.name: _typed(members[name], types[name]),  # type: ignore[misc]
                    None,
                )
                known |= {field.name: fact} if fact is not None else {}
        return JobFacts(**known)


def _typed(value: Any, kind: type[Value]) -> Value:
    """The value as this type, with texts that can be shown and numbers that can be added."""
    return msgspec.convert(_clean(msgspec.to_builtins(msgspec.convert(value, kind))), kind)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return masked(encodable(value))
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, int | float) and not (isfinite(value) and abs(value) < _LARGEST):
        raise ValueError("a number beyond 62 bits")
    return value
