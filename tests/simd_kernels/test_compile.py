"""Object code: free-standing, and of no more than its tier's instructions.  LLVM compiles every tier on any host."""

import re
import struct
import subprocess
import sys

import pytest

from edgeinfer.simd_kernels import building, compile, cpu, kernels, pack
from tests.simd_kernels import harness

IN_ANY_C_LIBRARY = {"memset", "memcpy", "memmove"}
TELLING = [
    *("dot.Q4_K", "dot.Q8_0", "dot.F16", "tile.32.to.16", "tile.16.whole.to.32", "tile.32.to.128", "tile.float"),
    *("attend.q8_0", "rotate", "store.f16", "quantise", "norm", "gated.silu", "panel.Q4_K"),
]

# All but attention with some of its extras: the code is that of attention without and with all of them.
NAMES = [name for name in kernels.table() if not name.startswith("attend.") or name.count(".") in (1, 5)]
MULTIPLYING = [name for name in NAMES if name.startswith(("dot.", "tile.", "quantise", "run"))]
TILES = ["tile.16.to.16", "tile.16.folded.to.16", "tile.16.whole.to.32", "tile.16.whole.to.64"]
TILES += ["tile.32.to.16", "tile.32.to.64", "tile.32.to.128"]
MINIMUMS = ["tile.16.minimums.folded.to.16", "tile.32.minimums.to.16", "tile.32.minimums.to.32"]


def assembly(name, tier):
    arguments, body = kernels.table()[name]
    return compile.assembly(compile.module_text(name, arguments, body, tier), compile.target_machine(tier))


def loops(text):
    """Those without a loop inside: from a label to a jump back to it."""
    return re.findall(r"^(\.LBB\S+):((?:(?!^\.LBB).*\n)*?)\t(?:j\w+|b\.\w+|cbn?z\s+\w+,)\s+\1$", text, re.M)


def undefined_symbols(code):
    """Names that an ELF object file of 64 bits takes from elsewhere."""
    (header,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQII", code, header + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, _ in sections:
        if kind == 2:  # SHT_SYMTAB
            strings = sections[link][4]
            for at in range(offset + 24, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", code, at)
                if section == 0:
                    start = strings + name
                    names.add(code[start : code.index(b"\0", start)].decode())
    return names


def object_codes(names, tier, kernel_folder):
    """By name; from the session's folder where the tier runs here."""
    if tier in harness.TIERS:
        return pack.Pack(tier, kernel_folder).objects(names)
    return dict(building.build(names, tier))


@pytest.mark.skipif(sys.platform != "linux", reason="object files are not ELF here")
@pytest.mark.parametrize("tier", cpu.TIERS, ids=lambda tier: tier.name)
def test_code_stands_alone(tier, kernel_folder):
    """For tiers that are another's with another multiplication, only kernels that multiply."""
    names = MULTIPLYING if tier.name in ("avxvnni", "i8mm", "dotprod") else NAMES
    for name, code in object_codes(names, tier, kernel_folder).items():
        assert code[:5] == b"\x7fELF\x02" and name.encode() in code
        assert undefined_symbols(code) <= IN_ANY_C_LIBRARY, name


@pytest.mark.skipif(sys.platform != "linux", reason="object files are not ELF here")
def test_a_symbol_from_elsewhere_would_be_found():
    machine = compile.target_machine(cpu.TIERS[-1])
    text = "declare void @elsewhere()\ndefine void @f() {\n call void @elsewhere()\n ret void\n}\n"
    assert undefined_symbols(compile.object_code(text, machine)) == {"elsewhere"}


@pytest.mark.parametrize("tier", ["avx2", "avxvnni"])
@pytest.mark.parametrize("name", TELLING)
def test_avx2_has_no_512_bit_registers(name, tier):
    text = assembly(name, cpu.tier(tier))
    assert "%ymm" in text or name == "store.f16"
    assert not re.search(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])|(?<!{vex})\tvpdpbusd", text)


@pytest.mark.skipif(cpu.machine() != "x86_64", reason="the portable tier is compiled for the host")
@pytest.mark.parametrize("name", TELLING)
def test_portable_has_only_the_registers_of_any_x86(name):
    text = assembly(name, cpu.tier("portable"))
    assert "%xmm" in text and not re.search(r"%[yz]mm|\sv[a-z]+\s", text)
    later = r"\s(pmaddubsw|pshufb|popcnt|pmulld|roundps|pextrd|pinsrd|pmovzx\w+|pmovsx\w+|blendv\w+)\s"
    assert not re.search(later, text)


NOT_IN_NEON = r"\t([su]+dot|[su]+mmla|ld(add|set|clr|eor)\w*|swp\w*|cas\w*)\t"
NOT_EVERYWHERE = (
    r"\t(aes\w*|sha\w*|pmull\w*|crc\w+|bf(cvt|dot|m[lm])\w*|fmlal\w*|ldap\w+|f(add|mul|mla)\t.*\.[48]h)\b"
    r"|\bz\d+\.[bhsd]"
)


NOT_IN_DOTPROD = r"\t(usdot|sudot|[su]+mmla)\t"


@pytest.mark.parametrize("tier, more", [("neon", NOT_IN_NEON), ("dotprod", NOT_IN_DOTPROD), ("i8mm", "(?!)")])
@pytest.mark.parametrize("name", [*TELLING, "linear.quantised", "run"])
def test_arm_tiers_have_no_more_than_they_ask_for(name, tier, more):
    text = assembly(name, cpu.tier(tier))
    assert not re.search(NOT_EVERYWHERE, text) and not re.search(more, text)


BY_LANE = r"v\d+\.4s, v\d+\.16b, v\d+\.4b\[[0-3]\]"


@pytest.mark.parametrize("name", [*TILES, "dot.Q4_K", "dot.Q8_0", "quantise"])
@pytest.mark.parametrize(
    "tier, in_tiles, elsewhere",
    [
        ("avx512vnni", r"vpdpbusd.*%zmm", r"vpdpbusd.*%[yz]mm"),
        ("avxvnni", r"{vex}\tvpdpbusd.*%ymm", r"{vex}\tvpdpbusd.*%ymm"),
        ("avx2", r"vpmaddwd.*%ymm", r"vpmaddubsw.*%ymm"),
        ("i8mm", rf"\tsdot\t{BY_LANE}", r"\tusdot\t"),
        ("dotprod", rf"\tsdot\t{BY_LANE}", r"\tsdot\t"),
        ("neon", r"\tsmull2\t(.*\n)*?\tsadalp\t", r"\tsad[ad]lp\t"),
    ],
)
def test_bytes_are_multiplied_by_the_tiers_instruction(name, tier, in_tiles, elsewhere):
    assert re.search(in_tiles if name in TILES else elsewhere, assembly(name, cpu.tier(tier)))


def test_arm_converts_halves_and_waits_with_instructions():
    neon, dotprod = cpu.tier("neon"), cpu.tier("dotprod")
    assert "\tfcvtl\t" in assembly("dot.F16", neon) and "\tfcvt\th" in assembly("store.f16", neon)
    assert "\tisb\n" in assembly("run", neon) and "\tldaxr\t" in assembly("run", neon)
    assert "\tldaddal\t" in assembly("run", dotprod)


def inner_loop(name, tier):
    """The loop over columns of a tile."""
    text = assembly(name, cpu.tier(tier))
    return max((body for _, body in loops(text) if re.search("dot|vpdp|vpmadd|smull|fmla|vfmadd", body)), key=len)


@pytest.mark.parametrize(
    "tier, name",
    [
        *(("avx512vnni", name) for name in (*TILES, *MINIMUMS, "tile.float")),
        *((tier, name) for tier in ("i8mm", "dotprod", "neon") for name in (*TILES, "tile.float")),
        *(("avxvnni", name) for name in ("tile.16.to.16", "tile.16.whole.to.32", *MINIMUMS[:1], "tile.float")),
        ("avx2", "tile.float"),
    ],
)
def test_tiles_keep_their_sums_in_registers(tier, name):
    """In the loop over columns nothing is written to memory and nothing read from the stack."""
    assert not re.search(r"vmov\w+\s+%[xyz]mm\d+, .*\(%|\(%rsp\)|\tst\w+\t|\[sp", inner_loop(name, tier))


@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("tier", ["avxvnni", "avx2"])
def test_integers_of_tiles_stay_in_registers(tier, name):
    """Of what is on the stack, only the float sums change, twice where groups of 16 are scaled apart; and where
    products are summed in 16 bits, sums that are wide already, which wait there to be added to."""
    in_16_bits = tier == "avx2" and name.endswith((".16", ".32"))
    lines = [line for line in inner_loop(name, tier).splitlines() if re.search(r"\(%rsp\).*mm|mm.*\(%rsp\)", line)]
    plain = r"\tv(add|cvt|fm|mul|mova|movu|broad)\w*[ps]s\t" + r"|\tvpaddd\t" * in_16_bits
    assert all(re.match(plain, line) for line in lines)
    shape = cpu.tier(tier)
    stores = [line for line in lines if line.endswith("(%rsp)")]
    two = name == "tile.16.to.16"
    assert len(stores) <= shape.tile_rows // shape.lanes * shape.tile_tokens * (1 + two + in_16_bits)


def test_a_broken_module_is_refused():
    with pytest.raises(RuntimeError):
        compile.object_code("define void @f() { ret i32 }", compile.target_machine(cpu.TIERS[-1]))


def test_the_same_source_gives_the_same_code(tmp_path):
    script = (
        "import sys; from edgeinfer.simd_kernels import building, cpu;"
        "sys.stdout.buffer.write(dict(building.build(['gated.silu'], cpu.TIERS[-1]))['gated.silu'])"
    )
    command = [sys.executable, "-c", script]
    runs = [subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]) > 100
