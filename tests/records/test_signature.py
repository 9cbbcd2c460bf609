"""What a signature confirms."""

import pytest

from records.signature import Criterion, Signature


@pytest.mark.parametrize(
    ("op", "below", "at", "above"),
    [
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_a_criterion_holds_on_its_side_of_the_value(op, below, at, above):
    criterion = Criterion("x", op, 0.5)
    assert [criterion.holds({"x": x}) for x in (0.4, 0.5, 0.6)] == [below, at, above]
    assert not criterion.holds({"x": None})
    assert not criterion.holds({"y": 0.5})


def signature(observed, start=None, certain=(), criteria=(("x", ">", 1.0), ("y", "<", 0.0))):
    return Signature(
        "words",
        [Criterion(*each) for each in criteria],
        observed,
        dict.fromkeys(certain, "why"),
        start,
    )


@pytest.mark.parametrize(
    ("observed", "start", "certain", "refuted"),
    [
        ({"x": 2, "y": -1}, {"x": 1, "y": 0}, (), []),
        ({"x": 2, "y": -1}, None, (), []),  # an older record
        ({"x": 2, "y": -1}, {"x": None}, (), []),
        ({"x": 2, "y": 0.5}, {"x": 1, "y": 0}, (), ["y = 0.5, not < 0"]),
        ({"x": None}, {}, (), ["x = –, not > 1", "y = –, not < 0"]),
        ({"x": 2, "y": -1}, {"x": 1.5, "y": 0}, (), ["x > 1 held before training (1.5)"]),
        ({"x": 1, "y": -1}, {"x": 1.5}, (), ["x = 1, not > 1"]),  # no longer: it is refuted
        ({"x": 2, "y": -1}, {"x": 1.5}, ("x",), ["x holds by construction"]),
        ({"x": 0, "y": 1}, {}, ("y",), ["x = 0, not > 1", "y holds by construction"]),
    ],
)
def test_what_a_signature_confirms(observed, start, certain, refuted):
    found = signature(observed, start, certain)
    assert found.refuted == refuted
    assert found.holds == (not refuted)


def test_a_signature_without_criteria_confirms_nothing():
    assert not signature({"x": 2}, criteria=()).holds
