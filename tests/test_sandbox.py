"""Templates in the sandbox: Hugging Face's settings, and hostile programs that must end at once."""

import datetime
import time

import pytest

from edgeinfer import sandbox
from edgeinfer.errors import FormatError, RequestError
from edgeinfer.sandbox import run

MESSAGES = [{"content": "a"}, {"content": "b"}, {"content": "c"}]


def test_generation_tags_and_loop_controls() -> None:
    template = (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% if loop.index>1 %}{% break %}{% endif %}{% endfor %}"
    )
    assert run(template, {"messages": MESSAGES}) == "ab"
    assert (
        run(
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content }}{% endfor %}",
            {"messages": MESSAGES},
        )
        == "bc"
    )
    assert run("{% do messages %}x", {"messages": MESSAGES}) == "x"


def test_variables_set_in_a_generation_tag_stay_in_it() -> None:
    assert run("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", {}) == "21"


def test_blocks_trim_as_hugging_face_has_it() -> None:
    assert run("  {% if true %}\nx\n  {% endif %}\ny\n", {}) == "x\ny"


def test_tojson_keeps_characters_and_signs() -> None:
    value = {"b": "é<&>'", "a": [1, None]}
    assert run("{{ x | tojson }}", {"x": value}) == '{"b": "é<&>\'", "a": [1, null]}'
    assert run("{{ x | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}", {"x": value}) == (
        '{"a":[1,null],"b":"\\u00e9<&>\'"}'
    )
    assert run("{{ [1] | tojson(indent=2) }}", {}) == "[\n  1\n]"


def test_strftime_now_tells_the_time_given_or_the_clock() -> None:
    assert run('{{ strftime_now("%d %b %Y %H") }}', {}, datetime.datetime(2025, 3, 14, 15)) == "14 Mar 2025 15"
    before = datetime.datetime.now().year
    assert before <= int(run('{{ strftime_now("%Y") }}', {})) <= datetime.datetime.now().year


def test_loops_keep_their_variables() -> None:
    loop = "{{ loop.index }}{{ loop.length }}{{ loop.last }}{{ loop.previtem or 0 }} "
    assert run("{% for x in [7, 8, 9] if x != 8 %}" + loop + "{% endfor %}", {}) == "12False0 22True7 "
    tree = [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": []}]}]
    template = "{% for x in tree recursive %}{{ x.n }}{{ loop(x.c) }}{% else %}.{% endfor %}"
    assert run(template, {"tree": tree}) == "12.3."
    assert run("{{ 'a' ~ 1 ~ none }}{{ 2 ** 3 }}{{ 1.5 * 10 ** 9 }}{{ 10 ** 6 * 10 ** 6 }}", {}) == (
        "a1None81500000000.01000000000000"
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('roles must\n alternate') }}", "roles must alternate"),
        ("{{ raise_exception('') }}", "TemplateError"),
        ("{{ x.y.z }}", "'x' is undefined"),
        ("{{ none + 1 }}", "unsupported operand"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{% if true %}{{ 'a' | from_json }}{% endif %}", "from_json"),
        ("{% include 'other' %}", "no loader"),
        ("{{ [].append(1) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ cycler.__init__.__globals__ }}", "unsafe"),
        ('{{ lipsum.__globals__["os"].popen("true").read() }}', "'lipsum' is undefined"),
        ('{{ "{0.__class__.__mro__}".format(1) }}', "unsafe"),
        ("{{ (1).__class__ is defined }}{{ ''|attr('__class__')|string }}{{ ''['__class__'].a }}", "unsafe"),
    ],
)
def test_a_template_that_fails_says_why_in_one_line(template: str, words: str) -> None:
    with pytest.raises(RequestError, match="^chat template: ") as caught:
        run(template, {})
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "template",
    [
        "{% if %}",
        "{{ x",
        "{% for a in b %}",
        "{% nonsense %}",
        "{{" + "(" * 20000,
        "{{ x | none_such }}",
    ],
)
def test_what_is_no_template_is_a_fault_of_the_file(template: str) -> None:
    with pytest.raises(FormatError, match="^chat template") as caught:
        run(template, {})
    assert "\n" not in str(caught.value)


def test_absurd_nesting_is_a_fault_of_the_file() -> None:
    with pytest.raises(FormatError, match="too complex"):
        run("{% for a in b %}" * 30 + "{% endfor %}" * 30, {"b": []})


DOUBLED = "{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(60) %}{% set ns.x = GROWN %}{% endfor %}"
HOSTILE = {
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    "silent loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "filtered loops": "{% for i in range(99999) %}{% for j in range(99999) if 0 %}{% endfor %}{% endfor %}",
    "recursive loop": "{% for i in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
    "macro": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "macro tree": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "macro text": "{% macro f() %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endmacro %}{{ f() }}",
    "output": "{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}",
    "plus": DOUBLED.replace("GROWN", "ns.x + ns.x"),
    "tilde": DOUBLED.replace("GROWN", "ns.x ~ ns.x"),
    "times": "{{ 'x' * 10**10 }}",
    "list times": "{{ ([0] * 10**10) | length }}",
    "power": "{{ 10 ** (10 ** 10) }}",
    "squares": DOUBLED.replace("'0123456789abcdef'", "3").replace("GROWN", "ns.x * ns.x"),
    "set block": DOUBLED.replace(
        "{% set ns.x = GROWN %}", "{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = x %}"
    ),
    "join": DOUBLED.replace("GROWN", "[ns.x, ns.x] | join"),
    "join method": DOUBLED.replace("GROWN", "''.join([ns.x, ns.x])"),
    "lazy join": "{{ range(99999) | map('center', 99999) | join }}",
    "replace": DOUBLED.replace("GROWN", "ns.x | replace('0', ns.x)"),
    "replace method": DOUBLED.replace("GROWN", "ns.x.replace('0', ns.x)"),
    "width": "{{ 'x' | center(10**10) }}",
    "width method": "{{ 'x'.ljust(10**10) }}",
    "indent": "{{ [[1]] | tojson(indent=10**10) }}",
    "lists of lists": DOUBLED.replace("GROWN", "[ns.x, ns.x]") + "{{ ns.x }}",
    "lists to json": DOUBLED.replace("GROWN", "[ns.x, ns.x]") + "{{ ns.x | tojson | length }}",
    "lists to text": DOUBLED.replace("GROWN", "[ns.x, ns.x]") + "{{ (ns.x | string | length) ~ ns.x }}",
    "sums": "{% for i in range(99999) %}{{ range(99999) | sum }}{% endfor %}",
    "arguments": "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('0123456789abcdef') }}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_templates_end(name: str) -> None:
    start = time.process_time()
    with pytest.raises(RequestError, match="^chat template: ") as caught:
        run(HOSTILE[name], {})
    assert time.process_time() - start < 10
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_a_long_conversation_is_no_hostile_one() -> None:
    messages = [{"role": "user", "content": "word <b> " * 500} for _ in range(600)]
    template = (
        "{% set ns = namespace(out='') %}{% for m in messages %}"
        "{% set ns.out = ns.out + '<|' + m.role + '|>' + m.content | trim | replace('<', '&lt;') + '\\n' %}{% endfor %}"
        "{{ ns.out }}{{ messages | tojson }}"
    )
    assert len(run(template, {"messages": messages[:120]})) > 1_000_000
    assert (
        len(run("{% for m in messages %}{{ m.role + m.content | trim }}{% endfor %}", {"messages": messages}))
        > 2_000_000
    )


def test_an_overlong_output_is_refused_before_it_is_made() -> None:
    with pytest.raises(RequestError, match=f"more than {sandbox.LONGEST} characters"):
        run("{{ x }}{{ x }}", {"x": "x" * (sandbox.LONGEST // 2 + 1)})


def test_renders_do_not_share_their_allowance() -> None:
    for _ in range(13):
        assert len(run("{% for i in range(90000) %}x{% endfor %}", {})) == 90000


def test_templates_are_compiled_once() -> None:
    template = "{{ x }} compiled once"
    assert sandbox._compiled(template) is sandbox._compiled(template)
