"""How steep is the loss around the trained network?"""

from __future__ import annotations

import torch

from training.probes.trained import Trained


def gradient_norm(trained: Trained) -> float | None:
    """Norm of the loss gradient on a few validation examples; None after divergence."""
    if not trained.finished:
        return None
    split = trained.track.validation
    predictions = trained.track.predict(trained.network, split.inputs[:8])
    loss = trained.track.loss(predictions, split.targets[:8]).mean()
    parameters = [p for p in trained.network.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
    return torch.stack([gradient.norm() for gradient in gradients]).norm().item()


PROBES = (gradient_norm,)
