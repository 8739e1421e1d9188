"""The public face of Redline: its version and its verbs, each imported when it is first used."""

TYPE_CHECKING = False  # without importing typing, which would cost every command a few milliseconds
if TYPE_CHECKING:
    from redline.capture.worker.api import region, step, switch
    from redline.trials.trial_pairs import TrialOptions
    from redline.verbs.calibrate import calibrate
    from redline.verbs.compare import compare
    from redline.verbs.compare_programs import assert_not_slower, assert_same_numbers, compare_numbers, compare_programs
    from redline.verbs.diagnose import diagnose
    from redline.verbs.digest import digest
    from redline.verbs.hardware import find_hardware
    from redline.verbs.inspect import inspect
    from redline.verbs.memory import memory
    from redline.verbs.merge import merge
    from redline.verbs.plan import plan_serving, plan_training, validate_plans
    from redline.verbs.tune import tune

__version__ = "0.1.0.dev0"

__all__ = [
    "TrialOptions",
    "__version__",
    "assert_not_slower",
    "assert_same_numbers",
    "calibrate",
    "compare",
    "compare_numbers",
    "compare_programs",
    "diagnose",
    "digest",
    "find_hardware",
    "inspect",
    "memory",
    "merge",
    "plan_serving",
    "plan_training",
    "region",
    "step",
    "switch",
    "tune",
    "validate_plans",
]

_HOME_OF = {
    "TrialOptions": "redline.trials.trial_pairs",
    "assert_not_slower": "redline.verbs.compare_programs",
    "assert_same_numbers": "redline.verbs.compare_programs",
    "calibrate": "redline.verbs.calibrate",
    "compare": "redline.verbs.compare",
    "compare_numbers": "redline.verbs.compare_programs",
    "compare_programs": "redline.verbs.compare_programs",
    "diagnose": "redline.verbs.diagnose",
    "digest": "redline.verbs.digest",
    "find_hardware": "redline.verbs.hardware",  # not `hardware`: that is the package of the figures themselves
    "inspect": "redline.verbs.inspect",
    "memory": "redline.verbs.memory",
    "merge": "redline.verbs.merge",
    "plan_serving": "redline.verbs.plan",
    "plan_training": "redline.verbs.plan",
    "region": "redline.capture.worker.api",
    "step": "redline.capture.worker.api",
    "switch": "redline.capture.worker.api",
    "tune": "redline.verbs.tune",
    "validate_plans": "redline.verbs.plan",
}


if not TYPE_CHECKING:  # so that type checkers still find misspelt names

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
