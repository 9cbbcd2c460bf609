"""What a sweep says of its comparisons must be of what is compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from omegaconf import DictConfig

from sweeping.compared import check_compared
from training.config import validated
from training.errors import UserError

ARMS = {"baseline", "alibi", "rope"}
SAYS = "verdict: better, source: A. Author 2020"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("contrasts=[[alibi,rop]]", "names rop, which is not swept: did you mean rope?"),
        ("contrasts=[[alibi,t5]]", "names t5, which is not swept: known: alibi, baseline, rope"),
        ("contrasts=[[alibi,baseline]]", "compared anyway: leave that pair out"),
        ("contrasts=[[baseline,alibi]]", "compared anyway: leave that pair out"),
        ("contrasts=[[rope,rope]]", "one arm, or a pair named twice"),
        ("contrasts=[[alibi,rope],[rope,alibi]]", "one arm, or a pair named twice"),
        (f"expects=[{{idea: alibbi, {SAYS}}}]", "names alibbi: did you mean alibi?"),
        (f"expects=[{{idea: alibi, baseline: x, {SAYS}}}]", "expects names x: known: "),
        (f"expects=[{{idea: alibi, length: 2, {SAYS}}}]", "add 2 to analysis.lengths"),
    ],
)
def test_what_is_not_compared_is_one_line(
    composed: Callable[..., DictConfig], said: str, told: str
) -> None:
    with pytest.raises(UserError) as error:
        check_compared(validated(composed(f"analysis.{said}")), ARMS)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "said",
    [
        "contrasts=[[alibi,rope]]",
        f"expects=[{{idea: alibi, {SAYS}}}]",
        f"expects=[{{idea: t5, baseline: rope, {SAYS}}}]",  # swept another time
    ],
)
def test_what_is_compared_is_taken(composed: Callable[..., DictConfig], said: str) -> None:
    check_compared(validated(composed(f"analysis.{said}")), ARMS)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("analysis.lengths=[2]", "analysis.lengths names 2, which track.test_lengths [] lacks"),
        ("analysis.contrasts=[[alibi]]", "analysis.contrasts.0 must be two variants"),
        ("analysis.contrasts=alibi", "analysis.contrasts must be a valid list"),
        ("analysis.expects=[{idea: a, verdict: worst, source: x}]", "'better', 'worse' or 'equal'"),
        ("analysis.expects=[{idea: a, verdict: worse}]", "analysis.expects.0.source is missing"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    composed: Callable[..., DictConfig], said: str, told: str
) -> None:
    with pytest.raises(UserError) as error:
        validated(composed(said))
    assert told in str(error.value)
