"""DLinear (Zeng et al. 2022, arXiv 2205.13504): linear maps of a trend and of what remains."""

from __future__ import annotations

import numpy as np

KERNEL = 25  # values of the moving average that is the trend, as published
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # penalty, in multiples of the features' mean square


def smoothing(context: int) -> np.ndarray:
    """The moving average as a matrix (context, context): x @ it is the trend.

    Both ends of the context are repeated outwards, so that it is as long as the context.
    """
    found = np.zeros((context, context))
    reach = (KERNEL - 1) // 2
    for i in range(context):
        for j in range(i - reach, i + reach + 1):
            found[min(max(j, 0), context - 1), i] += 1 / KERNEL
    return found


class DLinear:
    """Two linear maps, of the trend and of what remains, shared by all channels; and a bias.

    Fitted by least squares with a ridge penalty on both maps. The penalty is that of `RIDGES` which
    forecasts the validation split best, as learning rates are chosen.

    Args:
        train, validation: windows (n, context + horizon, channels).
    """

    def __init__(self, train: np.ndarray, validation: np.ndarray, context: int) -> None:
        trend = smoothing(context)
        self.context, self.horizon = context, train.shape[1] - context
        self.features = np.hstack([trend, np.eye(context) - trend])  # (context, 2 · context)
        x, y = self._pairs(train)
        means = x.mean(0), y.mean(0)  # the bias carries no penalty
        x, y = x - means[0], y - means[1]
        gram, cross = x.T @ x / len(x), x.T @ y / len(x)
        gram, cross = self.features.T @ gram @ self.features, self.features.T @ cross
        size = max(float(np.trace(gram)) / len(gram), 1e-300)
        fits = []
        for ridge in RIDGES:
            both = np.linalg.solve(gram + ridge * size * np.eye(len(gram)), cross)
            weights = self.features @ both  # (context, horizon): two maps of one context are one
            fits.append((weights, means[1] - means[0] @ weights))
        self.weights, self.bias = min(fits, key=lambda fit: self._error(validation, *fit))

    def mse(self, windows: np.ndarray) -> float:
        """Of its forecasts of windows (n, at least context + horizon, channels)."""
        return self._error(windows, self.weights, self.bias)

    def _error(self, windows: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> float:
        x, y = self._pairs(windows)
        return float(np.square(x @ weights + bias - y).mean())

    def _pairs(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contexts (n · channels, context), the last steps of longer ones, and horizons."""
        rows = np.moveaxis(windows, 2, 1).reshape(-1, windows.shape[1])
        seen, follows = rows[:, : -self.horizon], rows[:, -self.horizon :]
        return seen[:, -self.context :], follows
