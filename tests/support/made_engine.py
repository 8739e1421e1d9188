"""A serving engine that is made up: a scheduler with a limit of sequences, tokens and cache, whose clock we own.

It writes the log that a real engine leaves, and knows what each request waited for, counted while it happens.
"""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

FORWARD = "gpu_model_runner: forward"
_NOT_YET_NS = 1 << 60
PARTS = (("gpu_model_runner: preprocess", 3_000), (FORWARD, 0), ("gpu_model_runner: sample", 7_000))


@dataclass
class MadeRequest:
    name: str
    came_ns: int
    prompt: int
    wanted: int  # tokens
    computed: int = 0
    got: int = 0
    reached: int = 0  # the most that was ever computed
    queued_ns: int = 0
    waited: Counter[str] = field(default_factory=Counter)
    first_waited: Counter[str] | None = None
    first_ns: int = 0
    last_ns: int = 0
    has_run: bool = False
    was_lost: bool = False


@dataclass
class MadeEngine:
    """`tokens` may be computed in a step, by at most `sequences` requests, while `cache` tokens fit."""

    seed: int
    sequences: int = 4
    tokens: int = 64
    cache: int = 400
    pauses_ns: tuple[int, ...] = (0, 1_000, 500_000, 4_000_000)  # between requests
    token_ns: int = 1_000  # that the model takes for one
    concurrency: int = 0  # so many clients ask again when they have an answer, instead
    now_ns: int = 1_000_000
    engine: list[list[object]] = field(default_factory=list)
    server: list[list[object]] = field(default_factory=list)
    lost: int = 0
    periods: list[tuple[int, int]] = field(default_factory=list)  # of steps

    def run(self, number: int) -> list[MadeRequest]:
        """Serve so many requests; they come by chance."""
        self._chance = chance = Random(self.seed)
        self.engine.append(
            ["facts", {"engine": "vllm", "max_num_seqs": self.sequences, "max_num_batched_tokens": self.tokens}]
        )
        at, requests = self.now_ns, []
        for index in range(number):
            at += chance.choice(self.pauses_ns)
            requests.append(MadeRequest(f"r{index}", at, chance.randint(1, 120), chance.randint(1, 12)))
            if self.concurrency:
                requests[-1].came_ns = _NOT_YET_NS
        coming = list(requests)
        waiting: list[MadeRequest] = []
        running: list[MadeRequest] = []
        while coming or waiting or running:
            for request in coming[: max(self.concurrency - len(waiting) - len(running), 0)]:
                request.came_ns = min(request.came_ns, self.now_ns + 2_000)
            if not waiting and not running and coming[0].came_ns + 1_500 > self.now_ns:
                self.now_ns = coming[0].came_ns + 2_000
            self._arrivals(coming, waiting)
            if waiting or running:
                self._step(waiting, running)
        return requests

    def _pass(self, requests: list[MadeRequest], account: str, duration_ns: int) -> None:
        for request in requests:
            request.waited[account] += duration_ns

    def _arrivals(self, coming: list[MadeRequest], waiting: list[MadeRequest]) -> None:
        while coming and coming[0].came_ns + 1_500 <= self.now_ns:
            request = coming.pop(0)
            request.queued_ns = self.now_ns
            sent_ns = request.came_ns + 1_000
            rest_ns = max((end - sent_ns for begin, end in self.periods if begin <= sent_ns < end), default=0)
            way_ns = self.now_ns - sent_ns - rest_ns
            request.waited.update({"tokenise": 1_000, "to the engine": way_ns, "current step": rest_ns})
            self.server.append(["came", request.came_ns, request.came_ns + 1_000, request.name])
            self.engine.append(["request", self.now_ns, request.name, request.prompt, request.wanted])
            waiting.append(request)

    def _step(self, waiting: list[MadeRequest], running: list[MadeRequest]) -> None:
        gap = self._chance.randint(0, 900)
        self.now_ns += gap
        self._pass(running, "between steps", gap)
        for request in waiting:
            request.waited["preempted" if request.was_lost else "queue"] += gap
        schedule_ns = self.now_ns
        preempted, batch = self._chosen(waiting, running)
        there = [request for request, _ in batch]
        outside = [one for one in (*waiting, *running) if one not in there]
        total = sum(tokens for _, tokens in batch)
        prefill = sum(tokens for request, tokens in batch if _is_prefill(request))
        begun = {id(request): request.computed for request in there}
        times = [schedule_ns, self._spend(there, "schedule", 2_000)]
        for name, fixed_ns in PARTS:
            start_ns = self.now_ns
            duration = fixed_ns or self.token_ns * total + 137
            self.now_ns += duration
            self.engine.append(["phase", name, start_ns, self.now_ns])
            for request, tokens in batch:
                if name == FORWARD:
                    others = prefill - (tokens if _is_prefill(request) else 0)
                    blocked = duration * others // total
                    request.waited["others' prefill"] += blocked
                    request.waited[_own(request)] += duration - blocked
                else:
                    request.waited["prepare" if "preprocess" in name else "sample"] += duration
        rest_ns = self.now_ns
        update_ns = self._spend(there, "to workers and back", 450)
        new = self._new_tokens(batch)
        end_ns = self._spend(there, "outputs", 600)
        for request in outside:
            account = "queue" if not request.has_run else "preempted" if request.was_lost else "not scheduled"
            request.waited[account] += end_ns - schedule_ns
        rows = [[request.name, tokens, begun[id(request)]] for request, tokens in batch]
        state = [len(running), len(waiting), sum(one.computed for one in running) / self.cache]
        self.engine.append(
            ["step", len(self.engine), [*times, rest_ns, update_ns, end_ns], rows, new, preempted, state]
        )
        self.periods.append((schedule_ns, end_ns))
        self._hand_out(batch, new)
        running[:] = [one for one in running if one.got < one.wanted]

    def _spend(self, there: list[MadeRequest], account: str, duration_ns: int) -> int:
        self.now_ns += duration_ns
        self._pass(there, account, duration_ns)
        return self.now_ns

    def _chosen(
        self, waiting: list[MadeRequest], running: list[MadeRequest]
    ) -> tuple[list[str], list[tuple[MadeRequest, int]]]:
        """Those that run come first; where the cache is full, the last of them loses its place."""
        preempted: list[str] = []
        while len(running) > 1 and sum(one.computed + 1 for one in running) > self.cache:
            victim = running.pop()
            victim.computed, victim.was_lost = 0, True
            waiting.insert(0, victim)
            preempted.append(victim.name)
            self.lost += 1
        left, batch = self.tokens, []
        for request in running:
            tokens = min(left, max(_needed(request) - request.computed, 1))
            if tokens:
                batch.append((request, tokens))
                left -= tokens
        while waiting and left and len(running) < self.sequences and not preempted:
            if sum(one.computed for one in running) + _needed(waiting[0]) > self.cache and running:
                break
            request = waiting.pop(0)
            request.has_run, request.was_lost = True, False
            running.append(request)
            tokens = min(left, _needed(request))
            batch.append((request, tokens))
            left -= tokens
        return preempted, batch

    def _new_tokens(self, batch: list[tuple[MadeRequest, int]]) -> list[list[object]]:
        new: list[list[object]] = []
        for request, tokens in batch:
            is_whole = request.computed + tokens >= _needed(request)
            request.computed += tokens
            request.reached = max(request.reached, request.computed)
            if is_whole:
                request.got += 1
                new.append([request.name, 1, request.got == request.wanted])
        return new

    def _hand_out(self, batch: list[tuple[MadeRequest, int]], new: list[list[object]]) -> None:
        end_ns, named = self.now_ns, {name for name, *_ in new}
        self.server.append(["outputs", end_ns + 800])
        for request, _ in batch:
            if request.name in named:
                self.server.append(["ready", end_ns + 1_000, request.name])
                told = request.waited + Counter({"to the server": 800, "detokenise": 200})
                request.last_ns = end_ns + 1_000
                if request.got == 1:
                    request.first_waited, request.first_ns = told, request.last_ns
                if request.got == request.wanted:
                    request.waited = told

    def write(self, folder: Path) -> Path:
        for name, records in (("engine-7.jsonl", self.engine), ("server-8.jsonl", self.server)):
            (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return folder


def _needed(request: MadeRequest) -> int:
    """Tokens that must be computed before the next one is known."""
    return request.prompt + request.got


def _is_prefill(request: MadeRequest) -> bool:
    return request.computed < request.prompt or request.computed < request.reached


def _own(request: MadeRequest) -> str:
    if request.computed < request.reached:
        return "recompute"
    return "prefill" if request.computed < request.prompt else "decode"


def log_lines(path: Path, number: int) -> list[list[object]]:
    """So many of them, once they are there."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if path.exists() and path.read_text(encoding="utf-8").count("\n") >= number:
            break
        time.sleep(0.01)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
