"""Measurements on one trained network: is its mechanism wired, does it act, does it leak?

A probe is one function from a `Trained` to what the record keeps, under the function's name: any
JSON value, None where there is nothing to measure. Every module of this folder lists its own in
`PROBES`: a new probe is a new file.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from training.probes.trained import Probe, Trained


def probes() -> dict[str, Probe]:
    """All there are, by name."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {probe.__name__: probe for m in modules for probe in getattr(m, "PROBES", ())}


def probed(trained: Trained) -> dict[str, Any]:
    """What every probe found, by name."""
    return {name: probe(trained) for name, probe in sorted(probes().items())}
