"""The mutants of a source file: copies of it with one fault each.

The operators are mutmut's (BSD): a number, a comparison, an argument, … replaced by another. Its
runner does not fit here: it leaves out every function that has a decorator (`@property`,
`@torch.no_grad()`) and all that stands outside functions (the table of audits, the classes of a
record), and takes no sample. cosmic-ray drops and adds no arguments, and needs yattag (LGPL). To
mutmut's operators come a few for the faults that this project fears most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal

SWAPS = [
    ("min", "max"),
    ("any", "all"),
    ("validation", "test"),
    ("baseline", "idea"),
    ("train", "eval"),
]
UNTOUCHED = ("strict", "help", "metavar")  # keyword arguments
SWAPPED = dict(SWAPS) | {b: a for a, b in SWAPS}


@dataclass(frozen=True)
class Mutant:
    """One fault. Two on the same line with the same effect differ in `nth`."""

    file: str
    function: str  # with its class; empty at the module's level
    before: str  # the lines that change, stripped and joined
    after: str
    nth: int
    line: int
    source: str  # of the whole file, with the fault

    @property
    def name(self) -> str:
        """Stays as it is when other lines of the file change."""
        return "\n".join((self.file, self.function, self.before, self.after, str(self.nth)))


def _left_out(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """A step: `scheduler.step()`."""
    if isinstance(node.value, cst.Call) and not _skipped(node.value):
        yield cst.Pass()


def _negated(test: cst.BaseExpression) -> cst.UnaryOperation:
    inner = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(operator=cst.Not(), expression=inner)


def _one_operand(node: cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    """A residual, a scale: `x + f(x)`."""
    if not isinstance(node.operator, cst.BitOr):  # of types, most often
        yield node.left
        yield node.right


def _other_name(node: cst.Name) -> Iterator[cst.CSTNode]:
    if node.value in SWAPPED:
        yield node.with_changes(value=SWAPPED[node.value])


def _other_arguments(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Each None, or left out; `len()` and what only words a help text are left alone."""
    if isinstance(node.func, cst.Name) and node.func.value in ("len", "isinstance"):
        return
    alone = [arg for arg in node.args if arg.keyword and arg.keyword.value in UNTOUCHED]
    others = [arg for arg in node.args if arg not in alone]
    for made in operator_arg_removal(node.with_changes(args=others)):
        if isinstance(made, cst.Call):
            yield made.with_changes(args=[*made.args, *alone])


def _skipped(node: cst.CSTNode) -> bool:
    """Wording, types, decorators, checks by the interpreter: nothing a test should look at."""
    match node:
        case cst.Annotation() | cst.Decorator() | cst.Raise() | cst.Import() | cst.ImportFrom():
            return True
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()):
            return True
        case cst.SimpleString():
            return " " in node.value
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name("__all__"))]):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Name("log"))):
            return True
        case cst.Arg(keyword=cst.Name(name)) if name in UNTOUCHED:
            return True
        case cst.If(test=cst.Name("TYPE_CHECKING")):
            return True
    return False


class _Maker(cst.CSTVisitor):
    """Collects, for each node, the nodes that may stand in its place."""

    METADATA_DEPENDENCIES = (ByteSpanPositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[str, cst.CSTNode, cst.CSTNode]] = []  # function, old, new
        self._scope: list[str] = []

    def _add(self, old: cst.CSTNode, *new: cst.CSTNode) -> None:
        self.found.extend((".".join(self._scope), old, node) for node in new)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if _skipped(node):
            return False
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            self._scope.append(node.name.value)
        for kind, operator in mutation_operators:
            if isinstance(node, kind) and operator is not operator_arg_removal:
                made = list(operator(node))
                self._add(node, *(made[:1] if isinstance(node, cst.SimpleString) else made))
        match node:
            case cst.Expr():
                self._add(node, *_left_out(node))
            case cst.If() | cst.CompIf():
                self._add(node.test, _negated(node.test))
            case cst.BinaryOperation():
                self._add(node, *_one_operand(node))
            case cst.Attribute():
                self._add(node.attr, *_other_name(node.attr))
            case cst.Call():
                self._add(node, *_other_arguments(node))
                if isinstance(node.func, cst.Name):
                    self._add(node.func, *_other_name(node.func))
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef | cst.ClassDef):
            self._scope.pop()


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a file that can be compiled, in the order of its lines."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    maker = _Maker()
    wrapper.visit(maker)
    spans = wrapper.resolve(ByteSpanPositionProvider)
    text = source.encode()
    seen: set[str] = set()
    count: Counter[tuple[str, str, str]] = Counter()
    result = []
    for function, old, new in sorted(maker.found, key=lambda one: spans[one[1]].start):
        start, end = spans[old].start, spans[old].start + spans[old].length
        code = wrapper.module.code_for_node(new).encode()
        first = text.rfind(b"\n", 0, start) + 1
        last = text.find(b"\n", end)
        mutated = (text[:start] + code + text[end:]).decode()
        if mutated in seen or not _compiles(mutated):
            continue
        seen.add(mutated)
        before = " ".join(text[first:last].decode().split())
        after = " ".join((text[first:start] + code + text[end:last]).decode().split())
        nth = count[function, before, after]
        count[function, before, after] += 1
        line = text.count(b"\n", 0, start) + 1
        result.append(Mutant(file, function, before, after, nth, line, mutated))
    return result


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True
