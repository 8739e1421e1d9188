"""What latencies and accounts of steps and requests are called."""

from redline.report.language import _, marked
from redline.serving.request_ledger import Latency, RequestAccount
from redline.serving.step_ledger import StepAccount

_LATENCY_NAMES = {
    Latency.TTFT: marked("TTFT"),
    Latency.TPOT: marked("TPOT"),
    Latency.ITL: marked("ITL"),
    Latency.END_TO_END: marked("end to end"),
}
STEP_ACCOUNT_NAMES = {
    StepAccount.IDLE: marked("nothing asked"),
    StepAccount.BETWEEN: marked("between steps"),
    StepAccount.SCHEDULE: marked("schedule"),
    StepAccount.PREPARE: marked("prepare"),
    StepAccount.PREFILL: marked("prefill"),
    StepAccount.DECODE: marked("decode"),
    StepAccount.SAMPLE: marked("sample"),
    StepAccount.WORKER: marked("workers, other"),
    StepAccount.OUTPUTS: marked("outputs"),
    StepAccount.RECORDING: marked("recording"),
    StepAccount.HANDOVER: marked("to workers and back"),
}
REQUEST_ACCOUNT_NAMES = {
    RequestAccount.TOKENISE: marked("tokenise"),
    RequestAccount.TO_ENGINE: marked("to the engine"),
    RequestAccount.CURRENT_STEP: marked("current step"),
    RequestAccount.QUEUE: marked("queue"),
    RequestAccount.PREFILL: marked("prefill"),
    RequestAccount.OTHERS_PREFILL: marked("others' prefill"),
    RequestAccount.DECODE: marked("decode"),
    RequestAccount.PREEMPTED: marked("preempted"),
    RequestAccount.RECOMPUTE: marked("recompute"),
    RequestAccount.NOT_SCHEDULED: marked("not scheduled"),
    RequestAccount.SCHEDULE: marked("schedule"),
    RequestAccount.PREPARE: marked("prepare"),
    RequestAccount.SAMPLE: marked("sample"),
    RequestAccount.OUTPUTS: marked("outputs"),
    RequestAccount.BETWEEN: marked("between steps"),
    RequestAccount.WORKER: marked("workers, other"),
    RequestAccount.RECORDING: marked("recording"),
    RequestAccount.HANDOVER: marked("to workers and back"),
    RequestAccount.TO_SERVER: marked("to the server"),
    RequestAccount.DETOKENISE: marked("detokenise"),
    RequestAccount.NETWORK: marked("network"),
}


def latency_name(latency: Latency) -> str:
    return _(_LATENCY_NAMES[latency])
