"""From a kernel's Python function to object code for a tier.  Used where kernels are missing, and in tests."""

from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir

from edgeinfer.simd_kernels.cpu import Tier, triple
from edgeinfer.simd_kernels.emit import Emitter
from edgeinfer.simd_kernels.values import I64, VOID, Value

Body = Callable[..., None]  # body(emitter, *arguments as i64 values)


def module_text(name: str, arguments: int, body: Body, tier: Tier) -> str:
    """The LLVM text of a module with one function `name` of so many i64 arguments."""
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(VOID, [I64] * arguments), name)
    emitter = Emitter(ir.IRBuilder(function.append_basic_block("entry")), tier)
    body(emitter, *(Value(emitter, a) for a in function.args))
    emitter.b.ret_void()
    # How instructions are best ordered differs from chip to chip; llvmlite does not know the attribute.
    return str(module).replace(")\n{", f') "tune-cpu"="{tier.tune}"\n{{', 1)


def target_machine(tier: Tier) -> llvm.TargetMachine:
    """LLVM's code generator for `tier`, on any host: its baseline and features, never what the host has beyond them."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = ",".join(f"+{name}" for name in tier.features)
    target = llvm.Target.from_triple(triple(tier))
    return target.create_target_machine(cpu=tier.cpu, features=features, opt=3, reloc="pic", codemodel="small")


def optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """A module as the code generator gets it."""
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return module


def object_code(text: str, machine: llvm.TargetMachine) -> bytes:
    """Optimise and assemble a module."""
    return bytes(machine.emit_object(optimised(text, machine)))


def assembly(text: str, machine: llvm.TargetMachine) -> str:
    """The instructions of `object_code`, to be read."""
    return str(machine.emit_assembly(optimised(text, machine)))
