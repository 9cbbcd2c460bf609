"""From a node of the configuration to what it builds: only here a `_target_` is followed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_type_hints

from hydra.utils import get_class
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from training.errors import UserError, no_such

BUILT_FROM = ("models.", "tracks.", "torch.optim.")

Factory = Callable[..., Any]


def factory(
    key: str, node: Any, allow: Sequence[str], given: frozenset[str] | None = None
) -> Factory:
    """The class that a node's `_target_` names, its other keys bound; nodes inside it likewise.

    Args:
        key: the node's place in the configuration, for messages.
        allow: packages that are built from besides the project's own.
        given: arguments that whoever calls it passes, which are therefore no keys of the node;
            by default what the class itself says is given.
    Raises:
        UserError: a `_target_`, key or value that is not allowed, or not what the class takes.
    """
    cls = _class(key, node, allow)
    given = getattr(cls, "given", frozenset()) if given is None else given
    takes = [name for name in inspect.signature(cls).parameters if name not in given]
    constructor = inspect.getattr_static(cls, "__init__")
    hints = {} if cls.__module__.startswith("torch.") else get_type_hints(constructor)
    bound = {}
    for name, value in node.items():
        if name == "_target_":
            continue
        if name not in takes:
            raise UserError(f"{key}.{name}: {cls.__name__} takes no {name}; {no_such(name, takes)}")
        bound[name] = _value(f"{key}.{name}", value, hints.get(name, Any), allow)
    return partial(cls, **bound)


def _value(key: str, value: Any, hint: Any, allow: Sequence[str]) -> Any:
    """What a key is bound to: what a node builds, a list of such, or a value of the type hinted."""
    if isinstance(value, dict):
        return factory(key, value, allow)
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return factories(key, value, allow)
    return _typed(key, value, hint)


def factories(key: str, nodes: Any, allow: Sequence[str]) -> list[Factory]:
    """Of a list of nodes, or of a single one, what each of them names."""
    if not isinstance(nodes, list):
        return [factory(key, nodes, allow)]
    if not nodes:
        raise UserError(f"{key} is an empty list, must name one class or more")
    return [factory(f"{key}[{i}]", node, allow) for i, node in enumerate(nodes)]


def _class(key: str, node: Any, allow: Sequence[str]) -> type:
    target = node.get("_target_") if isinstance(node, dict) else None
    if not isinstance(target, str):
        raise UserError(f"{key}._target_ is missing: it names the class to build")
    packages = (*BUILT_FROM, *(f"{package}." for package in allow))
    only = (
        f"only classes below {', '.join(packages)} are built; a package of your own must be named "
        f"by allow: [NAME]"
    )
    if not target.startswith(packages):
        raise UserError(f"{key}._target_ {target} is not allowed: {only}")
    try:
        cls = get_class(target)
    except (ImportError, ValueError) as error:
        raise UserError(f"{key}._target_: {' '.join(str(error).split())}") from error
    # A path such as models.network.nn.Linear leaves the package on its way: look where it ended.
    if not f"{cls.__module__}.".startswith(packages):
        raise UserError(f"{key}._target_ is {target}, which lives in {cls.__module__}: {only}")
    if inspect.isabstract(cls):
        lacks = ", ".join(sorted(vars(cls)["__abstractmethods__"]))
        raise UserError(f"{key}: {target} lacks methods that it must have: {lacks}")
    return cls


def _typed(key: str, value: Any, hint: Any) -> Any:
    """The value, which read as JSON must be what the annotation says: a list for a tuple, say."""
    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # an annotation that no YAML value can meet
        raise UserError(f"{key} cannot be set in a YAML") from None
    try:
        return adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        takes = " or ".join(e["msg"].removeprefix("Input should be ") for e in error.errors())
        raise UserError(f"{key} must be {takes}, found {value!r}") from None
