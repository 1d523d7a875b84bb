"""Chat templates run by jinja2: Hugging Face's settings, in a sandbox with an allowance of work.

A template comes with a downloaded file, so it is a stranger's program.  jinja2's sandbox keeps it from the machine, but
lets it loop for ever or double a text until memory is full.  So whatever repeats or grows (iterations, calls, filters,
`+ * ** ~`, output) is charged to an allowance before it happens: a second or two of work.  Not charged: comparisons,
and widths written into format strings.
"""

import datetime
import functools
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import TemplateError, TemplateRuntimeError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgeinfer.errors import FormatError, RequestError
from edgeinfer.formats.cursor import printable

ALLOWANCE = 1 << 28  # characters that one render may move in total
STEP = 1 << 9  # what an iteration costs, in characters
CALL = 1 << 10  # what a call or a filter costs
ITEM = 1 << 3  # what an item of a list costs that is handed to one
WRITTEN = 1 << 7  # what a value costs that is written out, besides the characters of texts
LONGEST = 1 << 24  # characters of any one text: more than the largest contexts hold
# Built-ins whose result can be as long as the product of two of their arguments, and those that write nested values.
MULTIPLIERS = frozenset("batch center expandtabs indent join ljust replace rjust slice tojson wordwrap zfill".split())
WRITERS = frozenset("join pprint string tojson".split())


def run(template: str, variables: Mapping[str, object], now: datetime.datetime | None = None) -> str:
    """The rendered text.  RequestError with the template's own message where it refuses, fails or does not end;
    FormatError where it is no template at all.  `now` is what strftime_now tells (default: the clock)."""
    code = _compiled(template)
    sandbox = Sandbox(now)
    program = sandbox.template_class.from_code(sandbox, code, sandbox.make_globals(None))
    pieces: list[str] = []
    length = 0
    try:
        for piece in program.generate(variables):
            pieces.append(piece)
            length += len(piece)
            if length > LONGEST:
                raise _too_long()
    except Exception as error:  # a template is a program: it can fail in any way
        raise RequestError(f"chat template: {_one_line(error)}") from None
    return "".join(pieces)


@functools.lru_cache(maxsize=32)
def _compiled(template: str) -> types.CodeType:
    if len(template) > LONGEST:
        raise FormatError(f"chat template: {len(template)} characters; at most {LONGEST} are read")
    try:
        return Sandbox().compile(template)
    except TemplateSyntaxError as error:
        raise FormatError(f"chat template, line {error.lineno}: {_one_line(error)}") from None
    except (SyntaxError, RecursionError, MemoryError) as error:  # what Python says to absurd nesting
        raise FormatError(f"chat template: too complex: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    text = error.message if isinstance(error, TemplateError) else str(error)
    return printable(" ".join((text or type(error).__name__).split())[:500])


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one render: it holds what is left of the allowance."""

    intercepted_binops = frozenset({"+", "*", "**"})

    def __init__(self, now: datetime.datetime | None = None) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants would be worked out while compiling, uncharged
            finalize=_charge_output,
            extensions=[_Generation, "jinja2.ext.loopcontrols", "jinja2.ext.do"],
        )
        self.left = ALLOWANCE
        self.filters["tojson"] = _tojson
        self.filters = {name: self._charged(name, function) for name, function in self.filters.items()}
        self.filters |= {"step!": self._step, "weigh!": self.weigh}  # names that no template can write
        del self.globals["lipsum"]  # unbounded work
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: (now or datetime.datetime.now()).strftime(form)

    def spend(self, characters: int) -> None:
        """Take from the allowance.  TemplateRuntimeError where it is used up."""
        if characters > LONGEST:
            raise _too_long()
        self.left -= characters
        if self.left < 0:
            raise TemplateRuntimeError("the template does not end (its allowance of work is used up)")

    def weigh(self, value: Any) -> Any:
        """The value itself, charged with the text it makes when written out."""
        self.spend(_weight(value))
        return value

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self.spend(_operation(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        receiver = getattr(function, "__self__", None)
        name = getattr(function, "__name__", "") if isinstance(receiver, str) else ""
        self._charge(name, (receiver, *args, *kwargs.values()))
        result = super().call(context, function, *args, **kwargs)
        self.spend(_length(result))
        return result

    def _charge(self, name: str, values: Iterable[Any]) -> None:
        """The price of calling the built-in `name` ("" for others) with these values."""
        if name in MULTIPLIERS:
            longest, second, *_ = *sorted((_count(value, name in WRITERS) for value in values), reverse=True), 1
            self.spend(CALL + longest * second)
        else:
            self.spend(CALL + sum(_weight(value) if name in WRITERS else _length(value) for value in values))

    def _charged(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def charged(*args: Any, **kwargs: Any) -> Any:
            if name == "join":  # a lazy sequence cannot be weighed
                args = tuple(list(value) if isinstance(value, Iterator) else value for value in args)
            self._charge(name, (*args, *kwargs.values()))
            return function(*args, **kwargs)

        return charged

    def _step(self, text: int) -> bool:
        self.spend(STEP + text)
        return True

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """The syntax tree with a charge in every iteration and on every operand of `~`."""
        tree = super()._parse(source, name, filename)
        for loop in list(tree.find_all(nodes.For)):
            text = sum(len(data.data) for data in loop.find_all(nodes.TemplateData))
            loop.body.insert(0, nodes.ExprStmt(_filter("step!", nodes.Const(text)), lineno=loop.lineno))
            if loop.test:
                loop.test = nodes.And(_filter("step!", nodes.Const(0)), loop.test)
        for concat in list(tree.find_all(nodes.Concat)):
            concat.nodes = [_filter("weigh!", operand) for operand in concat.nodes]
        return tree


class _Generation(Extension):
    """{% generation %} marks what the assistant wrote, for training; to render, it is its body."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _filter(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None)


@pass_context  # asking for the context also keeps jinja2 from working out constants while compiling
def _charge_output(context: Context, value: Any) -> Any:
    sandbox = context.environment
    assert isinstance(sandbox, Sandbox)
    return sandbox.weigh(value)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> None:
    raise TemplateError(str(message))


def _too_long() -> TemplateRuntimeError:
    return TemplateRuntimeError(f"the template makes a text of more than {LONGEST} characters")


def _length(value: Any) -> int:
    """What a text or a sequence weighs, its items uncounted; 1 for everything else."""
    if isinstance(value, str):
        return len(value)
    return ITEM * len(value) if isinstance(value, (list, tuple, dict, range)) else 1


def _count(value: Any, written: bool = False) -> int:
    """What the value can contribute to a product: a number itself, a text its length, at least 1."""
    if isinstance(value, int):
        return max(1, abs(value))
    return max(1, _weight(value) if written else _length(value))


def _operation(operator: str, left: Any, right: Any) -> int:
    """The price of `left + right`, `left * right` or `left ** right`."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if operator == "+" or isinstance(left, float) or isinstance(right, float):
            return 0
        # arithmetic with long integers costs about the square of the result's bits
        bits = left.bit_length() * abs(right) if operator == "**" else left.bit_length() + right.bit_length()
        return bits * bits
    return _length(left) + _length(right) if operator == "+" else _count(left) * _count(right)


def _weight(value: Any) -> int:
    """About the characters of the value written out; nested values are walked until they are too long."""
    if isinstance(value, str):
        return len(value)
    total = WRITTEN
    if isinstance(value, (list, tuple, dict)):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            total += _weight(item)
            if total > LONGEST:
                raise _too_long()
    return total
