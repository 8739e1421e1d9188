"""Lever `sdpa` in real processes: attention runs as it says, and that is told from what it would have been."""

from pathlib import Path

import pytest

from tests.support.trial_jobs import PLAN, TrialRunner

SCRIPT = """
import torch
from torch.nn.functional import scaled_dot_product_attention
torch.manual_seed(0)
PREPARED

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mixed = torch.nn.Linear(16, 48)

    def forward(self, x):
        query, key, value = self.mixed(x).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return ATTENDED

model = Attention()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
x = torch.randn(2, 8, 16)
for step in range(40):
    out = model(x)
    print(type(out.grad_fn).__name__.startswith("ScaledDotProductFlash"))
    out.square().mean().backward()
    optimizer.step()
"""
CAUSAL = "scaled_dot_product_attention(query, key, value, is_causal=True)"
SCALED = "scaled_dot_product_attention(query, key, value, scale=0.5)"


@pytest.mark.parametrize("attended", [CAUSAL, SCALED])
def test_attention_is_switched(jobs: TrialRunner, tmp_path: Path, attended: str) -> None:
    script = SCRIPT.replace("PREPARED", "").replace("ATTENDED", attended)
    ended = jobs.run(tmp_path, script, "sdpa=math", plan=PLAN)
    assert (ended.exit_code, ended.notes, ended.errors) == (0, [], "")
    assert ended.levers == [(True, "1 calls: math instead of flash")]
    lines = ended.output.split()
    assert lines == [str(not PLAN.is_changed(step)) for step in range(1, len(lines) + 1)]


def test_a_script_that_forbids_it_gets_it_for_a_whole_process(jobs: TrialRunner, tmp_path: Path) -> None:
    prepared = "torch.backends.cuda.enable_flash_sdp(False)"
    script = SCRIPT.replace("PREPARED", prepared).replace("ATTENDED", CAUSAL)
    assert set(jobs.run(tmp_path, script, last_step=4).output.split()) == {"False"}
    ended = jobs.run(tmp_path, script, "sdpa=flash", last_step=4)
    assert ended.levers == [(True, "1 calls: flash instead of math")]
    assert set(ended.output.split()) == {"True"}


@pytest.mark.parametrize(
    ("lever", "prepared", "attended", "why"),
    [
        ("sdpa=flash", "", CAUSAL, "attention is flash without it"),
        ("sdpa=efficient", "", CAUSAL, "a CPU has flash and math only"),
        ("sdpa=cudnn", "", CAUSAL, "a CPU has flash and math only"),
        ("sdpa=math", "", "query.softmax(-1)", "scaled_dot_product_attention was not called"),
        (
            "sdpa=flash",
            "torch.backends.cuda.enable_flash_sdp(False)",
            CAUSAL.replace("query", "query[..., :5]").replace("key", "key[..., :5]"),
            "flash can compute none of 1 calls",
        ),
    ],
)
def test_what_changes_nothing_says_so(
    jobs: TrialRunner, tmp_path: Path, lever: str, prepared: str, attended: str, why: str
) -> None:
    script = SCRIPT.replace("PREPARED", prepared).replace("ATTENDED", attended)
    plain = jobs.run(tmp_path, script, last_step=4)
    ended = jobs.run(tmp_path, script, lever, last_step=4)
    assert ended.exit_code == 0, ended
    assert ended.levers == [(False, why)]
    assert ended.output == plain.output


def test_compiled_code_has_chosen(jobs: TrialRunner, tmp_path: Path) -> None:
    script = SCRIPT.replace("PREPARED", "").replace("ATTENDED", CAUSAL)
    script = script.replace("optimizer =", "model.compile(backend='eager')\noptimizer =")
    ended = jobs.run(tmp_path, script, "sdpa=math", last_step=4)
    assert ended.levers == [(False, "compiled code has chosen already")]
