"""Which AWS calls each function's code can make, read off its source.

From a handler on, whatever a function body names is followed: functions, methods of objects whose
type is known by annotation or construction, classes that are made. A port leads to the adapter
that `Pipeline` gives for it. What is followed is what *may* be called, by whichever path.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from tests.infra.given import assigned, spread

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src" / "tallyroll"
# In memory for tests, or for the command: no function imports them.
ASIDE = ("adapters.memory", "cli")
WIRING, PIPELINE = "pipeline", "pipeline.Pipeline"
USE_CASES = {
    "writer": "writer",
    "aggregator": "reader",
    "roller": "roller",
    "cleanup": "cleanup",
    "dropper": "dropper",
    "compactor": "compactor",
    "redrive": "redriver",
}
REDRIVING = ("cli.dlq.redriving", "cli.dlq.receiving", "cli.arguments", "pipeline.queue_urls")
CALLER = "adapters.aws.client.Caller"
BUCKET = "ports.bucket.Bucket"
REDRIVE = "redrive"  # the operator's, of the command line
LEAVES = ("call", "read")
# Of dicts, lists, texts and bases; on anything, as a rule.
PLAIN = ("__init__", "count", "extend", "get")
TRANSACTION_PARTS = ("ConditionCheck", "Delete", "Put", "Update")

Body = ast.FunctionDef | ast.AsyncFunctionDef


def dotted(path: Path) -> str:
    """A module of the core by its path: `model.windows`; a package by its name."""
    parts = path.relative_to(CORE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Call:
    """An operation at a call site: in which module it stands, and which adapter's method led there.

    The parts of a transaction are calls too, by their key: `Put`.
    """

    operation: str
    module: str
    adapter: str


@dataclass
class Class:
    module: str
    node: ast.ClassDef
    methods: dict[str, Body] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A function body, with the class that it belongs to and the adapter that led to it."""

    module: str
    owner: str
    name: str
    adapter: str


class Program:
    """The modules of the core and one handler, by their paths in the package. A class goes by its
    module and name, `ports.Store`, "" stands for one that is not known.
    """

    def __init__(self, function: str) -> None:
        known = {dotted(path): path for path in sorted(CORE.rglob("*.py"))}
        paths = {name: path for name, path in known.items() if not name.startswith(ASIDE)}
        self.handler = f"functions.{function}.handler"
        if function == REDRIVE:
            paths |= {name: known[name] for name in REDRIVING}
        else:
            paths[self.handler] = ROOT / "functions" / function / "handler.py"
        self.modules = frozenset(paths)
        self.classes: dict[str, Class] = {}
        self.functions: dict[tuple[str, str], Body] = {}
        self._imported: dict[str, dict[str, tuple[str, str]]] = {}
        self._aliases: dict[str, dict[str, str]] = {}
        self._attributes: dict[tuple[str, str], str] = {}
        for module, path in paths.items():
            self._index(module, ast.parse(path.read_text()))
        self.adapters: dict[str, str] = {}
        self.adapters = self._wired(function)

    def _index(self, module: str, tree: ast.Module) -> None:
        names = self._imported[module] = {}
        aliases = self._aliases[module] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                source = f"{node.module}.".removeprefix("tallyroll.")
                for alias in node.names:
                    name = alias.asname or alias.name
                    if source + alias.name in self.modules:
                        aliases[name] = source + alias.name
                    else:
                        names[name] = (source.removesuffix("."), alias.name)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = {one.name: one for one in node.body if isinstance(one, Body)}
                self.classes[f"{module}.{node.name}"] = Class(module, node, methods)
            elif isinstance(node, Body):
                self.functions[module, node.name] = node

    def _wired(self, function: str) -> dict[str, str]:
        """The adapter that stands behind each port, in the use case that `Pipeline` builds."""
        module, body = WIRING, self.classes[PIPELINE].methods[USE_CASES[function]]
        [built] = [
            node
            for node in ast.walk(body)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and self.named(module, node.func)
        ]
        named = {keyword.arg for keyword in built.keywords}
        assert named <= {"to", "unverified"}, "positions tell which port an adapter is given for"
        use_case = self.classes[self.named(module, built.func)]
        given_by = self.classes[PIPELINE].methods
        adapters = {}
        local = dict(
            pair
            for node in ast.walk(body)
            if isinstance(node, ast.Assign)
            for pair in assigned(node)
        )
        for port, argument in zip(_ports(use_case), spread(built.args, local), strict=True):
            given = local.get(argument.id) if isinstance(argument, ast.Name) else argument
            if isinstance(given, ast.IfExp):  # a port that only some settings need
                given = given.body
            giver, where = None, (WIRING, "")
            if isinstance(given, ast.Attribute):
                giver = given_by.get(given.attr)
            elif isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
                where = self.function(WIRING, given.func.id) or where
                giver = self.functions.get(where)
            if giver:
                adapters[self.named(use_case.module, port.annotation)] = self.named(
                    where[0], giver.returns
                )
        # The queue's adapter is given the bucket's.
        adapters.setdefault(BUCKET, self.named(WIRING, given_by["bucket"].returns))
        return adapters

    def function(self, module: str, name: str) -> tuple[str, str] | None:
        """Where a function stands that a module calls by this name."""
        if (module, name) in self.functions:
            return module, name
        there = self._imported.get(module, {}).get(name)
        return there if there in self.functions else None

    def of_module(self, module: str, node: ast.Attribute) -> tuple[str, str] | None:
        """Where a function stands that a module calls by the name of its module:
        `pipeline.connecting`.
        """
        alias = node.value.id if isinstance(node.value, ast.Name) else ""
        place = self._aliases[module].get(alias, ""), node.attr
        return place if place in self.functions else None

    def named(self, module: str, annotation: ast.AST | None) -> str:
        """The class that an annotation or a name stands for in a module: of a port, its adapter; of
        a callable, what it gives.
        """
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Callable":
            assert isinstance(annotation.slice, ast.Tuple)
            return self.named(module, annotation.slice.elts[1])
        if isinstance(annotation, ast.BinOp):
            return self.named(module, annotation.left)
        if isinstance(annotation, ast.Attribute):
            alias = annotation.value.id if isinstance(annotation.value, ast.Name) else ""
            there = self._aliases[module].get(alias, module)
            return self.named(there, ast.Name(annotation.attr))
        if not isinstance(annotation, ast.Name):
            return ""
        found = f"{module}.{annotation.id}"
        if found not in self.classes:  # imported, perhaps from where it is imported, too
            source = self._imported.get(module, {}).get(annotation.id)
            return self.named(source[0], ast.Name(source[1])) if source else ""
        found = self.adapters.get(found, found)
        return found if found in self.classes else ""

    def method(self, owner: str, name: str) -> tuple[str, Body] | None:
        """A method of a class or its bases: the class that has it, and its body."""
        known = self.classes.get(owner)
        if known is None:
            return None
        if name in known.methods:
            return owner, known.methods[name]
        found = (self.method(self.named(known.module, base), name) for base in known.node.bases)
        return next(filter(None, found), None)

    def bases_of(self, owner: str) -> list[str]:
        """The classes from which another one has a part of its methods."""
        known = self.classes[owner]
        return [name for base in known.node.bases if (name := self.named(known.module, base))]

    def attribute(self, owner: str, name: str) -> str:
        """The class of an object's attribute."""
        if (owner, name) not in self._attributes:
            self._attributes[owner, name] = ""  # where it is looked for in its own definition
            self._attributes[owner, name] = self._attribute(owner, name)
        return self._attributes[owner, name]

    def _attribute(self, owner: str, name: str) -> str:
        known = self.classes.get(owner)
        if known is None:
            return ""
        found = self.method(owner, name)
        if found:
            decorated = any("property" in ast.unparse(one) for one in found[1].decorator_list)
            return self.named(known.module, found[1].returns) if decorated else ""
        for node in ast.walk(known.node):
            if isinstance(node, ast.AnnAssign):
                field = node in known.node.body and ast.unparse(node.target) == name
                if field or ast.unparse(node.target) == f"self.{name}":
                    return self.named(known.module, node.annotation)
        for body in known.methods.values():
            for node in ast.walk(body):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"self.{name}":
                    return self.type_of(node.value, Locals(self, known.module, owner, body))
        bases = (self.named(known.module, base) for base in known.node.bases)
        return next(filter(None, (self.attribute(base, name) for base in bases)), "")

    def type_of(self, node: ast.expr, known: Locals) -> str:
        """The class of an expression's value."""
        if isinstance(node, ast.Name):
            return known.name(node.id)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.type_of(node.value, known), node.attr)
        if isinstance(node, ast.BoolOp):
            return next(filter(None, (self.type_of(one, known) for one in node.values)), "")
        if isinstance(node, ast.Call):
            return self._result(node.func, known)
        return ""

    def _result(self, called: ast.expr, known: Locals) -> str:
        """The class of what a call gives."""
        made = self.named(known.module, called) if isinstance(called, ast.Name) else ""
        if made:
            return made
        there = self.called(called, known)
        if there:
            return self.named(there[0], there[1].returns)
        return self.type_of(called, known) if isinstance(called, ast.Attribute) else ""

    def called(self, called: ast.expr, known: Locals) -> tuple[str, Body] | None:
        """The module and body of the function or method that an expression stands for."""
        place = None
        if isinstance(called, ast.Name):
            place = self.function(known.module, called.id)
        elif isinstance(called, ast.Attribute):
            found = self.method(self.type_of(called.value, known), called.attr)
            if found:
                return self.classes[found[0]].module, found[1]
            place = self.of_module(known.module, called)
        return (place[0], self.functions[place]) if place else None


def _ports(use_case: Class) -> list[ast.arg | ast.AnnAssign]:
    """The annotated ports that a use case is made of, in their order."""
    if "__init__" in use_case.methods:
        return list(use_case.methods["__init__"].args.args[1:])
    fields = [node for node in use_case.node.body if isinstance(node, ast.AnnAssign)]
    positional = takewhile(lambda field: ast.unparse(field.annotation) != "KW_ONLY", fields)
    return [field for field in positional if "init=False" not in ast.unparse(field)]


class Locals:
    """The names in a function body whose class is known."""

    def __init__(self, program: Program, module: str, owner: str, body: Body) -> None:
        self._program = program
        self.module = module
        self._types: dict[str, str] = {"self": owner}
        arguments = [*body.args.posonlyargs, *body.args.args, *body.args.kwonlyargs]
        for one in arguments:
            self._types.setdefault(one.arg, program.named(module, one.annotation))
        for node in ast.walk(body):
            if isinstance(node, Body) and node is not body:
                for one in node.args.args:
                    self._types.setdefault(one.arg, program.named(module, one.annotation))
            if isinstance(node, ast.Assign):
                for name, value in assigned(node):
                    if found := program.type_of(value, self):
                        self._types[name] = found

    def name(self, name: str) -> str:
        """The class of a name's value; "" if it is not known."""
        return self._types.get(name, "")


class Trace:
    """Follows one function's code from its handler: `calls` is what it may call, `unclear` what has
    an adapter's method's name on an object of which nothing is known.
    """

    def __init__(self, function: str) -> None:
        self.program = Program(function)
        self._adapters = set(self.program.adapters.values())
        self._doors = {
            door: one for one in self._adapters for door in (one, *self.program.bases_of(one))
        }
        self.calls: set[Call] = set()
        self.reached: set[Place] = set()
        self.unclear: set[str] = set()
        for module, name in list(self.program.functions):
            if module == self.program.handler or (module, name) == (REDRIVING[0], function):
                self._follow(Place(module, "", name, ""))

    def _follow(self, place: Place) -> None:
        if place in self.reached:
            return
        self.reached.add(place)
        program = self.program
        if place.owner:
            body = program.classes[place.owner].methods[place.name]
        else:
            body = program.functions[place.module, place.name]
        known = Locals(program, place.module, place.owner, body)
        for node in ast.walk(body):
            self._note(node, place, known)
            for module, owner, name in self._named(node, place, known):
                adapter = self._doors.get(owner, place.adapter)
                self._follow(Place(module, owner, name, adapter))

    def _note(self, node: ast.AST, place: Place, known: Locals) -> None:
        """Take down an AWS call that stands here, or an action of a transaction."""
        operation = ""
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEAVES
            and self.program.type_of(node.func.value, known) == CALLER
            and place.owner != CALLER
        ):
            first = node.args[0] if node.args else None
            assert isinstance(first, ast.Constant), f"{place}: not a literal operation"
            operation = str(first.value)
            self.calls.add(Call(operation, place.module, place.adapter))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and not self.program.type_of(node.func.value, known)
            and self._an_adapters(node.func.attr)
        ):
            self.unclear.add(f"{place.module}.{place.name}: {ast.unparse(node.func)}")
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and key.value in TRANSACTION_PARTS:
                    self.calls.add(Call(str(key.value), place.module, place.adapter))

    def _named(self, node: ast.AST, place: Place, known: Locals) -> Iterator[tuple[str, str, str]]:
        """The bodies that a node names: module, class or "", name."""
        program = self.program
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            there = program.function(place.module, node.id)
            if there:
                yield there[0], "", there[1]
            yield from self._made(program.named(place.module, node))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = program.type_of(node.value, known)
            found = program.method(owner, node.attr)
            if found:
                yield program.classes[found[0]].module, found[0], node.attr
            if there := program.of_module(place.module, node):
                yield there[0], "", there[1]

    def _made(self, name: str) -> Iterator[tuple[str, str, str]]:
        """What a class does by itself once it is made; adapters are made by `Pipeline`."""
        if name and name not in self._adapters:
            for method in self.program.classes[name].methods:
                if method.startswith("__"):
                    yield self.program.classes[name].module, name, method

    def _an_adapters(self, method: str) -> bool:
        methods = (self.program.classes[one].methods for one in self._adapters)
        return method not in PLAIN and any(method in known for known in methods)
