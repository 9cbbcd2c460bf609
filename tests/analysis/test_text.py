"""Numbers, intervals and audits as a person reads them."""

import pytest

from analysis.text import how_many, intervals, level, rounded_up, weakened_by


@pytest.mark.parametrize(
    ("alpha", "text"),
    [
        (0.05, "95 %"),
        (0.05 / 3, "98.33 %"),
        (0.05 / 7, "99.286 %"),
        (0.1, "90 %"),
        (0.5, "50 %"),
        (1e-6, "99.9999 %"),
    ],
)
def test_a_level_is_never_rounded_to_certainty(alpha, text):
    assert level(alpha) == text


FIVE = "no sign-flip interval from 5 pairs"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "95 % sign-flip interval [-2, 1]"),
        (
            {"comparisons": 3, "family": (-3.0, 2.0)},
            "95 % sign-flip interval [-2, 1]; 98.33 %, for a family of 3: [-3, 2]",
        ),
        ({"comparisons": 3}, "95 % sign-flip interval [-2, 1]; 98.33 %, for a family of 3: –"),
        ({"alpha": 0.01}, "99 % sign-flip interval [-2, 1]"),
        ({"signflip": None, "pairs": 5}, f"95 % t interval [-4, 4] ({FIVE})"),
        ({"signflip": None, "pairs": 5, "comparisons": 3}, f"95 % t interval [-4, 4] ({FIVE})"),
        ({"signflip": None, "pairs": 5, "t": None}, FIVE),
    ],
)
def test_the_interval_of_the_deciding_test_is_shown_where_it_exists(given, text):
    usual = {
        "signflip": (-2.0, 1.0),
        "family": None,
        "t": (-4.0, 4.0),
        "alpha": 0.05,
        "comparisons": 1,
        "pairs": 8,
    }
    assert intervals(**usual | given) == text


def test_what_weakens_a_verdict_is_named():
    assert weakened_by([]) == "nothing: no warning, no note"
    raised = [("note", "a"), ("warning", "b"), ("warning", "c"), ("warning", "b")]
    assert weakened_by(raised) == "3 warnings: b × 2, c; 1 note: a"
    assert weakened_by([*raised, ("void", "d")]) == "1 void: d; 3 warnings: b × 2, c; 1 note: a"


def test_one_thing_is_no_several():
    told = [how_many(n, thing) for thing in ("seed", "loss") for n in (0, 1, 2)]
    assert told == ["0 seeds", "1 seed", "2 seeds", "0 losses", "1 loss", "2 losses"]


@pytest.mark.parametrize("value", [0.05, 1.0, 3 * 2.0**-19, 2.0**-19, 0.123456, 1 / 3, 0.1 + 0.2])
def test_what_is_rounded_up_is_no_less_and_little_more(value):
    assert value <= float(rounded_up(value)) < value * 1.01
    assert rounded_up(0.05) == "0.05"
