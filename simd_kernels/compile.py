"""From a kernel's Python function to object code for a tier.  Used in build processes and tests only."""

from collections.abc import Callable

import llvmlite.binding as llvm
from llvmlite import ir

from edgeinfer.simd_kernels.cpu import Tier
from edgeinfer.simd_kernels.emit import I64, VOID, Emitter, Value

Body = Callable[..., None]  # body(emitter, *arguments as i64 values)


def module_text(name: str, arguments: int, body: Body, tier: Tier) -> str:
    """The LLVM text of a module with one function `name` of so many i64 arguments."""
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(VOID, [I64] * arguments), name)
    emitter = Emitter(ir.IRBuilder(function.append_basic_block("entry")), tier)
    body(emitter, *(Value(emitter, a) for a in function.args))
    emitter.b.ret_void()
    return str(module)


def target_machine(tier: Tier) -> llvm.TargetMachine:
    """LLVM's code generator for `tier`: its baseline and features, never what the host has beyond them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = ",".join(f"+{name}" for name in tier.features)
    return target.create_target_machine(cpu=tier.cpu, features=features, opt=3, reloc="pic", codemodel="small")


def object_code(text: str, machine: llvm.TargetMachine) -> bytes:
    """Optimise and assemble a module."""
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_default_triple()
    module.data_layout = str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))
