"""Writer: collects the keys and tensors of the GGUF file that a folder becomes, as its family's file says them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edgeinfer.config import MAX_LAYERS
from edgeinfer.errors import FormatError, UnsupportedError
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.floats import STORED, widened
from edgeinfer.formats.ggml import GgmlType
from edgeinfer.formats.gguf_header import Value
from edgeinfer.formats.mxfp4 import MadeMxfp4
from edgeinfer.formats.safetensors import Stored
from edgeinfer.formats.ternary import MadeTernary
from edgeinfer.formats.virtual import Change, Made
from edgeinfer.huggingface.config import Config

_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "F64": "<f8"}
_KEPT = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)  # all else becomes float32
_PRECISE = re.compile(  # small matrices on which much depends: float32 in any file
    r".*norm\.weight|.*\.bias|.*\.scale|(?:ffn_gate_inp|ffn_gate_inp_shexp|position_embd|token_types|shortconv\.conv)\.weight"
    r"|ssm_(?:conv1d(?:_[qkv])?\.weight|a|d)|altup_(?:\w+_coef|router)\.weight"
)
_IDLE = re.compile(
    r".*(?:rotary_emb\.inv_freq|attn\.(?:masked_)?bias|attention\.(?:masked_)?bias|position_ids)|(?:model\.)?mtp(?:_layers)?\..*"
)
_LARGEST, _MOST = float(np.finfo(np.float32).max), 2**63 - 1  # of floating-point numbers and integers
_LISTED = 3  # tensors named in an error


class Writer:
    """Sources are named as in the folder, without a tower's prefix; inside `layers` without that of the layer, and what
    is written there goes to blk.N.  `config` is the text model's part of config.json, `source_class` one of the
    family's CLASSES, `answers` the ids of "yes" and "no" in a folder that ranks by their logits."""

    def __init__(
        self, arch: str, source_class: str, config: Config, sources: Mapping[str, Stored], kind: GgmlType | None
    ) -> None:
        self.arch, self.source_class = arch, source_class
        self.config = config
        self.pairs: dict[str, Value] = {}
        self.tensors: dict[str, Made | MadeMxfp4 | MadeTernary] = {}
        self.answers: tuple[int, int] | None = None
        self._sources = sources
        self._kind = kind
        self._used: set[str] = set()
        self._prefix, self._source_prefix = "", ""
        self._layer_prefix = "model.layers"
        self._layers = 0

    def key(self, name: str, value: Value) -> None:
        """A pair under the architecture's prefix.  FormatError for a number that GGUF's kinds cannot hold."""
        if isinstance(value, (int, float)) and not abs(value) <= (_LARGEST if isinstance(value, float) else _MOST):
            number = shown(str(value))
            raise FormatError(f"{self.config.where}: {self.arch}.{name} would be {number}, which no file holds")
        self.pairs[f"{self.arch}.{name}"] = value

    def has(self, source: str) -> bool:
        return self._source_prefix + source in self._sources

    def take(self, source: str) -> np.ndarray:
        """A tensor of the folder: a read-only view of its numbers, of one of the dtypes of `floats.STORED`; a single
        number is a vector of one.

        FormatError if there is none; UnsupportedError if its dtype is none of those."""
        stored = self._stored(source)
        if stored.dtype not in _DTYPES:
            known = " ".join(_DTYPES)
            raise UnsupportedError(f"tensor {shown(stored.name)} is {stored.dtype}; what can be read: {known}")
        return stored.data.view(_DTYPES[stored.dtype]).reshape(stored.shape or (1,))

    def _stored(self, source: str) -> Stored:
        name = self._source_prefix + source
        if name not in self._sources:
            raise FormatError(f"the weights have no tensor {shown(name)}")
        self._used.add(name)
        return self._sources[name]

    def numbers(self, source: str) -> np.ndarray:
        """float32 [n]: a small tensor of the folder."""
        return widened(self.take(source)).reshape(-1)

    def put(
        self,
        name: str,
        *pieces: np.ndarray,
        shape: tuple[int, ...] | None = None,
        change: Change | Sequence[Change] | None = None,
    ) -> None:
        """The tensor `name`: the pieces laid end to end along their first axis, in `shape` if another is to be stated.

        It keeps the type of its numbers, or has the one that was asked for; vectors and some small matrices become
        float32.  `change`: what becomes of the numbers, of all pieces or of each."""
        shape = (sum(len(piece) for piece in pieces), *pieces[0].shape[1:]) if shape is None else shape
        if not 1 <= len(shape) <= 4 or not all(shape):
            raise FormatError(f"tensor {self._prefix + name} has the shape {list(shape)}, which no model has")
        if not all(piece.size for piece in pieces):
            raise FormatError(f"a part of tensor {self._prefix + name} is empty")
        if sum(piece.size for piece in pieces) != np.prod(shape, dtype=object):
            raise FormatError(f"the parts of tensor {self._prefix + name} have different widths")
        kinds = {STORED[piece.dtype] for piece in pieces}
        kind = kinds.pop() if len(kinds) == 1 else GgmlType.F32
        kind = kind if kind in _KEPT else GgmlType.F32
        precise = len(shape) == 1 or _PRECISE.fullmatch(name)
        kind = GgmlType.F32 if precise else kind if self._kind is None else self._kind
        full = self._prefix + name
        changes = tuple(change) if isinstance(change, Sequence) else (change,) * len(pieces)
        self.tensors[full] = Made(full, kind, shape, tuple(zip(pieces, changes, strict=True)))

    def codes(self, source: str) -> np.ndarray:
        """uint8: a tensor of the folder that holds no numbers but parts of them.  FormatError if it does not."""
        stored = self._stored(source)
        if stored.dtype != "U8":
            raise FormatError(f"tensor {shown(stored.name)} is {stored.dtype}, U8 wanted")
        return stored.data.reshape(stored.shape)

    def put_mxfp4(self, name: str, scales: np.ndarray, codes: np.ndarray) -> None:
        """The tensor `name` of MXFP4, which stays so whatever was asked for: see `MadeMxfp4`."""
        if scales.ndim != 3 or codes.shape != (*scales.shape, GgmlType.MXFP4.block // 2) or not scales.size:
            raise FormatError(f"the scales of tensor {self._prefix + name} do not fit its codes")
        shape = (*scales.shape[:2], scales.shape[2] * GgmlType.MXFP4.block)
        self.tensors[self._prefix + name] = MadeMxfp4(self._prefix + name, shape, scales, codes)

    def put_ternary(self, name: str, codes: np.ndarray) -> None:
        """The tensor `name` of TQ2_0, which stays so whatever was asked for: see `MadeTernary`."""
        if codes.ndim != 2 or not codes.size or codes.shape[1] % GgmlType.TQ2_0.block:
            shape = "no matrix" if codes.ndim != 2 else f"{codes.shape[1]} wide, no multiple of {GgmlType.TQ2_0.block}"
            raise UnsupportedError(f"the packed weights of tensor {self._prefix + name} are {shape}")
        self.tensors[self._prefix + name] = MadeTernary(self._prefix + name, codes)

    def copy(self, table: Mapping[str, str], change: Change | None = None) -> None:
        """The tensors that a table names, {name: source}, weights and biases, as far as the folder has them and they
        are not written yet."""
        for name, source in table.items():
            for ending in ("weight", "bias"):
                if self.has(f"{source}.{ending}") and f"{self._prefix}{name}.{ending}" not in self.tensors:
                    self.put(f"{name}.{ending}", self.take(f"{source}.{ending}"), change=change)

    def ignore(self, *sources: str) -> None:
        """These may be there, but nothing depends on them."""
        self._used.update(self._source_prefix + source for source in sources)

    def layers(self, count: int, prefix: str = "model.layers", target: str = "blk", first: int = 0) -> Iterator[int]:
        """Layer numbers, in order; while one is worked on, names are those of its tensors, in GGUF behind `target` and
        a number from `first` on."""
        self._layers, self._layer_prefix = min(count, MAX_LAYERS), prefix
        for layer in range(self._layers):
            self._prefix, self._source_prefix = f"{target}.{first + layer}.", f"{prefix}.{layer}."
            yield layer
        self._prefix, self._source_prefix = "", ""

    def finish(self) -> None:
        """UnsupportedError if the folder has tensors that were neither written nor known to be idle.

        Layers past the last one predict further tokens and are left out."""
        further = re.compile(rf"{re.escape(self._layer_prefix)}\.(\d{{1,9}})\..*")
        left = [
            name
            for name in self._sources
            if name not in self._used
            and not _IDLE.fullmatch(name)
            and not ((match := further.fullmatch(name)) and int(match[1]) >= self._layers)
        ]
        if left:
            more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
            names = ", ".join(map(shown, left[:_LISTED]))
            raise UnsupportedError(f"edgeinfer's {self.arch} has no use for tensor {names}{more}")
