"""A model folder as Hugging Face's libraries save it: config.json, the tokenizer's files, and safetensors.

Source: https://huggingface.co/docs/transformers/main_classes/model."""

import os
import re
from collections.abc import Mapping
from typing import Any

from edgeinfer.errors import EdgeInferError, FormatError, UnsupportedError
from edgeinfer.formats import safetensors
from edgeinfer.formats.cursor import shown
from edgeinfer.formats.json_text import parse_object
from edgeinfer.formats.mapped import is_regular
from edgeinfer.formats.safetensors import SafetensorsFile, Stored

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_MAX_TEXT = 1 << 28  # bytes of a file that is no weights
_PICKLED = re.compile(r".*\.(bin|pt|pth|ckpt)")
_NAMED = 3  # missing shards named in an error


class Folder:
    """An open folder.  `config` is config.json; `tensors` has those of all shards by name.

    FormatError naming the file at fault where something is missing or damaged."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise FormatError("is a file, not a model folder" if os.path.exists(path) else "there is no such folder")
        self.path = path
        self.config = self.json("config.json")
        if self.config is None:
            raise FormatError("is a directory without config.json, and so no model folder of Hugging Face's")
        self._files: list[SafetensorsFile] = []
        self.tensors: Mapping[str, Stored] = {}
        try:
            self.tensors = self._open_weights()
        except BaseException:
            self.close()
            raise
        self.size = sum(os.path.getsize(file.path) for file in self._files)

    def json(self, name: str) -> dict[str, Any] | None:
        """The object in a file of the folder, None if there is no such file."""
        raw = self.bytes(name)
        return None if raw is None else parse_object(raw, name)

    def bytes(self, name: str) -> bytes | None:
        """What a small file of the folder holds, None if there is no such file."""
        path = os.path.join(self.path, name)
        try:
            if not is_regular(path):
                raise FormatError(f"{name} is not a regular file")
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                raw = file.read(min(size, _MAX_TEXT) + 1)  # for as much as is asked for is reserved
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FormatError(f"{name} cannot be read: {error.strerror}") from None
        if len(raw) > _MAX_TEXT:
            raise FormatError(f"{name} is larger than {_MAX_TEXT} bytes")
        return raw

    def weights(self, place: str) -> Mapping[str, Stored]:
        """The tensors of the one safetensors file in a folder of this one."""
        name = os.path.join(place, WEIGHTS)
        if not os.path.lexists(os.path.join(self.path, name)):
            raise FormatError(f"has no {name}")
        return self._open(name).tensors

    def check(self) -> None:
        """FormatError naming a safetensors file that is no longer as it was."""
        for file in self._files:
            file.check()

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _open_weights(self) -> Mapping[str, Stored]:
        index = self.json(INDEX)
        if index is not None:
            return self._open_shards(index)
        if not os.path.lexists(os.path.join(self.path, WEIGHTS)):
            raise self._no_weights()
        return self._open(WEIGHTS).tensors

    def _open(self, name: str) -> SafetensorsFile:
        try:
            self._files.append(safetensors.open(os.path.join(self.path, name)))
        except EdgeInferError as error:
            raise type(error)(str(error).removeprefix(f"{self.path}{os.sep}")) from None
        return self._files[-1]

    def _open_shards(self, index: dict[str, Any]) -> Mapping[str, Stored]:
        """The tensors of all shards, each in the shard that the index says."""
        places = index.get("weight_map")
        if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
            raise FormatError(f"{INDEX} has no weight_map from tensors to files")
        shards = sorted(set(places.values()))
        for shard in shards:
            if shard != os.path.basename(shard) or "\\" in shard or "\0" in shard or not shard.endswith(".safetensors"):
                raise FormatError(f"{INDEX} names {shown(shard)}, which is no safetensors file of this folder")
        missing = [shard for shard in shards if not os.path.exists(os.path.join(self.path, shard))]
        if missing:
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            raise FormatError(
                f"{INDEX} names shards that are not there: {', '.join(map(shown, missing[:_NAMED]))}{more}"
            )
        files = {shard: self._open(shard).tensors for shard in shards}
        for name, shard in places.items():
            if name not in files[shard]:
                raise FormatError(f"{shard} has no tensor {shown(name)}, which {INDEX} says it has")
        return {name: files[shard][name] for name, shard in places.items()}

    def _no_weights(self) -> EdgeInferError:
        names = sorted(os.listdir(self.path))
        if pickled := [name for name in names if _PICKLED.fullmatch(name)]:
            return UnsupportedError(
                f"has its weights in {pickled[0]}, pickled, which can run programs and is not read: "
                "get the model as safetensors"
            )
        if gguf := [name for name in names if name.endswith(".gguf")]:
            return FormatError(f"is a folder without {WEIGHTS}; name the GGUF file in it, such as {gguf[0]}")
        return FormatError(f"a folder without {WEIGHTS} or {INDEX}")
