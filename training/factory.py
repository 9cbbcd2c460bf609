"""From a node of the configuration to what it builds: only here a `_target_` is followed."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from training.errors import UserError, no_such
from training.place import told

BUILT_FROM = ("models.", "tracks.", "torch.optim.")

Factory = Callable[..., Any]


def factory(
    key: str,
    node: Any,
    allow: Sequence[str],
    given: frozenset[str] | None = None,
    bases: tuple[type, ...] = (object,),
) -> Factory:
    """The class that a node's `_target_` names, its other keys bound; nodes inside it likewise.

    Args:
        key: the node's place in the configuration, for messages.
        allow: packages that are built from besides the project's own.
        given: arguments that whoever calls it passes, which are therefore no keys of the node;
            by default what the class itself says is given.
        bases: the class must be one of these, or derived from one.
    Raises:
        UserError: a `_target_`, key or value that is not allowed, or not what the class takes.
    """
    cls = _class(key, node, allow)
    if not issubclass(cls, bases):
        wanted = " or ".join(base.__name__ for base in bases)
        raise UserError(f"{key} must be a {wanted}, found {cls.__name__}, which is none")
    given = getattr(cls, "given", frozenset()) if given is None else given
    takes = [name for name in inspect.signature(cls).parameters if name not in given]
    hints = {} if cls.__module__.startswith("torch.") else _hints(key, cls)
    bound = {}
    for name, value in node.items():
        if name == "_target_":
            continue
        if name not in takes:
            raise UserError(f"{key}.{name}: {cls.__name__} takes no {name}; {no_such(name, takes)}")
        bound[name] = _value(f"{key}.{name}", value, hints.get(name, Any), allow)
    return partial(cls, **bound)


def _hints(key: str, cls: type) -> dict[str, Any]:
    """What the constructor's annotations say."""
    constructor = inspect.getattr_static(cls, "__init__")
    try:
        return get_type_hints(constructor)
    except Exception as error:  # whatever an annotation in quotes may say
        said = f"{type(error).__name__}: {error}"
        raise UserError(
            f"{key}: {cls.__name__} has an annotation without a meaning: {said}"
        ) from error


def _value(key: str, value: Any, hint: Any, allow: Sequence[str]) -> Any:
    """What a key is bound to: what a node builds, a list of such, or a value of the type hinted."""
    one, several = _built(hint)
    if isinstance(value, dict) and one:
        return factory(key, value, allow, bases=one)
    if isinstance(value, list) and several and any(isinstance(each, dict) for each in value):
        return factories(key, value, allow, several)
    return _typed(key, value, hint)


def _built(hint: Any) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """Of what classes that which a node, and each of a list of nodes, builds may be.

    As an annotation says by `Callable[..., Base]`, or a sequence of such; none where it says
    that a plain value belongs there. Where it says nothing, any.
    """
    if hint in (Any, Callable):
        return (object,), (object,)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        ones, severals = zip(*map(_built, inside), strict=True)
        return sum(ones, ()), sum(severals, ())
    if origin is Callable:
        base = inside[-1] if inside else object
        return (base if isinstance(base, type) else object,), ()
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return (), _built(inside[0])[0]
    return (), ()


def factories(
    key: str, nodes: Any, allow: Sequence[str], bases: tuple[type, ...] = (object,)
) -> list[Factory]:
    """Of a list of nodes, or of a single one, what each of them names."""
    if not isinstance(nodes, list):
        return [factory(key, nodes, allow, bases=bases)]
    return [factory(f"{key}[{i}]", node, allow, bases=bases) for i, node in enumerate(nodes)]


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
    cls = _imported(key, target)
    # A path such as models.network.nn.Linear leaves the package on its way: look where it ended.
    if not f"{cls.__module__}.".startswith(packages):
        raise UserError(f"{key}._target_ is {target}, which lives in {cls.__module__}: {only}")
    if inspect.isabstract(cls):
        lacks = ", ".join(sorted(vars(cls)["__abstractmethods__"]))
        raise UserError(f"{key}: {target} lacks methods that it must have: {lacks}")
    return cls


def _imported(key: str, target: str) -> type:
    """The class of that path: of the longest part of it that is a module, what the rest names."""
    *modules, name = target.split(".")
    with told(f"{key}._target_ {target} cannot be imported"):
        found: Any = import_module(modules[0])
        for part in modules[1:]:
            found = getattr(found, part, None) or import_module(f"{found.__name__}.{part}")
        found = getattr(found, name)
    if not isinstance(found, type):
        raise UserError(f"{key}._target_ {target} must be a class, found {found!r}")
    return found


def _typed(key: str, value: Any, hint: Any) -> Any:
    """The value, which read as JSON must be what the annotation says: a list for a tuple, say."""
    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # an annotation that no YAML value can meet
        raise UserError(f"{key} cannot be set in a YAML") from None
    try:
        return adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        length = {e["type"] for e in error.errors()} & {"missing", "too_long", "too_short"}
        said = [e["msg"].removeprefix("Input should be ") for e in error.errors()]
        said = ["a class with its keys (_target_: …)" if s == "callable" else s for s in said]
        takes = str(hint) if length else " or ".join(said)
        raise UserError(f"{key} must be {takes}, found {value!r}") from None
