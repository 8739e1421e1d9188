"""The verbs, by use, each with its line in the help; the module of a verb is imported when it is chosen."""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would be a tenth of the cost of --help
if TYPE_CHECKING:
    from redline.cli.options import Options, Verb, VerbKinds

VERBS_BY_USE = {
    "Record": {
        "run": "start a job unchanged, watch its steps, and capture a few of them",
        "calibrate": "measure what this machine can do, for diagnose and plan, and as a health check",
    },
    "Diagnose": {
        "inspect": "show what traces contain, and how far to trust them",
        "diagnose": "show where the time went, why, and what to change",
        "memory": "show what holds the memory at its peak, and why an allocation failed",
        "explain": "explain findings: cause, fix and possible gain",
        "merge": "merge the ranks of a job on one clock, into one trace for Perfetto",
        "mcp": "serve inspect, diagnose, explain, compare, plan and hardware to AI agents, read-only",
    },
    "Prove": {
        "compare": "say whether a change helped: two recordings, two programs in turns, or a lever",
        "tune": "find the levers that make a script faster and keep its numbers right, each proven",
    },
    "Plan": {
        "plan": "predict what a training or serving job should cost, and find the best layout",
        "hardware": "show peak figures of accelerators, with their sources",
    },
    "Fleet": {
        "digest": "reduce each rank's trace to a file of at most 32 KB, to diagnose from",
        "lake": "ask the digests of all jobs: what is lost where, which nodes are late, what changed",
        "watch": "follow a long job's digests: a line per window, and what drifts, is late or falls silent",
    },
}
VERBS = {name: summary for verbs in VERBS_BY_USE.values() for name, summary in verbs.items()}


def verb_of(name: str) -> Verb | VerbKinds:
    from importlib import import_module

    verb: Verb | VerbKinds = import_module(f"redline.cli.{name}").VERB
    return verb


def declared_options() -> dict[str, type[Options]]:
    """Of each verb, and of each kind of those that have several."""
    from redline.cli.options import Verb

    verbs = {name: verb_of(name) for name in VERBS}
    single = {name: verb.options for name, verb in verbs.items() if isinstance(verb, Verb)}
    kinds = {name: verb.kinds for name, verb in verbs.items() if not isinstance(verb, Verb)}
    return single | {f"{name} {kind}": verb.options for name in kinds for kind, (_, verb) in kinds[name].items()}
