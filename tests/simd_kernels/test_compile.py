"""Object code: free-standing, and of no more than its tier's instructions."""

import platform
import re
import struct
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from edgeinfer.simd_kernels import compile, cpu, kernels, pack
from tests.simd_kernels import harness

ON_X86 = platform.machine() in cpu.X86
CODED = [tier for tier in cpu.TIERS if ON_X86 or not tier.machine]  # for any host of this machine
IN_ANY_C_LIBRARY = {"memset", "memcpy", "memmove"}
TELLING = ["dot.Q4_K", "dot.Q8_0", "dot.F16", "tile.32", "tile.16", "tile.32.wide", "tile.float", "attend.q8_0", "store.f16",
           "quantise", "norm", "gated.silu", "transpose"]  # fmt: skip


def assembly(name, tier):
    arguments, body = kernels.table()[name]
    machine = compile.target_machine(tier)
    module = llvm.parse_assembly(compile.module_text(name, arguments, body, tier))
    module.triple, module.data_layout = llvm.get_default_triple(), str(machine.target_data)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def undefined_symbols(code):
    """Names that an ELF object file of 64 bits takes from elsewhere."""
    header, = struct.unpack_from("<Q", code, 40)
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


def object_code(name, tier, kernel_folder):
    """From the session's folder where the tier runs here."""
    if tier in harness.TIERS:
        return pack.Pack(tier, kernel_folder).objects([name])[name]
    return pack.build([name], tier)[name]


@pytest.mark.skipif(sys.platform != "linux", reason="object files are not ELF here")
@pytest.mark.parametrize("tier", CODED, ids=lambda tier: tier.name)
def test_code_stands_alone(tier, kernel_folder):
    for name in kernels.table():
        code = object_code(name, tier, kernel_folder)
        assert code[:5] == b"\x7fELF\x02" and name.encode() in code
        assert undefined_symbols(code) <= IN_ANY_C_LIBRARY, name


@pytest.mark.skipif(sys.platform != "linux", reason="object files are not ELF here")
def test_a_symbol_from_elsewhere_would_be_found():
    machine = compile.target_machine(cpu.TIERS[-1])
    text = "declare void @elsewhere()\ndefine void @f() {\n call void @elsewhere()\n ret void\n}\n"
    assert undefined_symbols(compile.object_code(text, machine)) == {"elsewhere"}


@pytest.mark.skipif(not ON_X86, reason="code of x86 tiers needs an x86 host")
@pytest.mark.parametrize("name", TELLING)
def test_avx2_has_no_512_bit_registers(name):
    text = assembly(name, cpu.tier("avx2"))
    assert ("%ymm" in text or name == "store.f16") and not re.search(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])|vpdpbusd", text)


@pytest.mark.skipif(not ON_X86, reason="code of x86 tiers needs an x86 host")
@pytest.mark.parametrize("name", TELLING)
def test_portable_has_only_the_registers_of_any_x86(name):
    text = assembly(name, cpu.tier("portable"))
    assert "%xmm" in text and not re.search(r"%[yz]mm|\sv[a-z]+\s", text)
    assert not re.search(r"\s(pmaddubsw|pshufb|popcnt|pmulld|roundps|pextrd|pinsrd|pmovzx\w+|pmovsx\w+|blendv\w+)\s", text)


@pytest.mark.skipif(not ON_X86, reason="code of x86 tiers needs an x86 host")
@pytest.mark.parametrize("name", ["tile.16", "tile.32", "tile.32.wide", "dot.Q4_K", "dot.Q8_0"])
def test_vnni_multiplies_in_512_bits(name):
    assert re.search(r"vpdpbusd.*%zmm", assembly(name, cpu.tier("avx512vnni")))


@pytest.mark.skipif(not ON_X86, reason="code of x86 tiers needs an x86 host")
@pytest.mark.parametrize("tier", ["avx512vnni", "avx2"])
def test_tiles_keep_their_sums_in_registers(tier):
    """In the loop over columns nothing is written to memory."""
    loops = re.findall(r"^(\.LBB\S+):(.*?)\sj\w+\s+\1", assembly("tile.32", cpu.tier(tier)), re.M | re.S)
    bodies = [body for _, body in loops if "vpmaddubsw" in body or "vpdpbusd" in body]
    assert bodies and not any(re.search(r"vmov\w+\s+%[xyz]mm\d+, .*\(%", body) for body in bodies)


def test_a_broken_module_is_refused():
    with pytest.raises(RuntimeError):
        compile.object_code("define void @f() { ret i32 }", compile.target_machine(cpu.TIERS[-1]))


def test_the_same_source_gives_the_same_code():
    script = (
        "import sys; from edgeinfer.simd_kernels import cpu, pack;"
        "sys.stdout.buffer.write(pack.build(['gated.silu'], cpu.TIERS[-1])['gated.silu'])"
    )
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout for _ in range(2)]
    assert runs[0] == runs[1] and len(runs[0]) > 100
