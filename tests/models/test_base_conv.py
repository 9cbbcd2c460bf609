"""BaseConv against loops over tokens and lags, written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from models.base_conv import BaseConv

D, TRAINED = 3, 5


def drawn(length: int | None = None) -> BaseConv:
    torch.manual_seed(0)
    mixer = BaseConv(D, TRAINED, (TRAINED,), time_axis=0, length=length).double()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter)
    return mixer


@pytest.mark.parametrize("tokens", [1, TRAINED - 1, TRAINED, TRAINED + 3])
@pytest.mark.parametrize("length", [None, 1, 2])
@torch.no_grad()
def test_is_the_definition(tokens: int, length: int | None) -> None:
    mixer = drawn(length)
    x = torch.randn(2, tokens, D).double()
    w, b1 = mixer.gate.weight.numpy().T, mixer.gate.bias.numpy()
    h, b2 = mixer.filter.numpy(), mixer.bias.numpy()
    assert h.shape == (D, length or TRAINED)
    expected = np.empty((2, tokens, D))
    for b in range(2):
        for i in range(tokens):
            for c in range(D):
                convolved = sum(
                    h[c, lag] * x[b, i - lag, c].item() for lag in range(min(i + 1, h.shape[1]))
                )
                gate = sum(x[b, i, k].item() * w[k, c] for k in range(D)) + b1[c]
                expected[b, i, c] = gate * (convolved + b2[c])
    np.testing.assert_allclose(mixer(x).numpy(), expected, rtol=1e-10, atol=1e-12)


def test_what_comes_later_changes_no_bit() -> None:
    torch.manual_seed(0)
    mixer = BaseConv(64, 64, (64,), time_axis=0)
    nn.init.normal_(mixer.filter)
    x = torch.randn(4, 64, 64)
    other = torch.cat([x[:, :20], 1e6 * torch.randn(4, 44, 64)], dim=1)
    assert mixer(other)[:, :20].equal(mixer(x)[:, :20])


@pytest.mark.parametrize(("axes", "time_axis"), [((5,), None), ((5, 4), 0), ((5, 4), 1)])
def test_grids_other_than_one_axis_of_time_are_refused(
    axes: tuple[int, ...], time_axis: int | None
) -> None:
    with pytest.raises(ValueError, match="one axis of time alone") as error:
        BaseConv(D, 20, axes, time_axis)
    assert "\n" not in str(error.value)


def test_a_filter_without_lags_is_refused() -> None:
    with pytest.raises(ValueError, match="length is 0, must be a whole number"):
        BaseConv(D, TRAINED, (TRAINED,), 0, length=0)
