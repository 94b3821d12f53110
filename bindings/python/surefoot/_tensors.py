# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tensors of PyTorch, and the local parts of its distributed ones."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

from ._buffers import Layout, Memory, dense_order, imported, refuse, stored_of
from ._errors import ArgumentError

# Names of types, and layouts of tensors that are contiguous: a state has thousands with few different ones.
_names: dict[Any, str] = {}
_layouts: dict[Any, tuple[Layout, int]] = {}
_LAYOUTS_MAX = 10_000


@dataclass(frozen=True)
class DTensorPart:
    """This rank's part of a distributed tensor (`torch.distributed.tensor.DTensor`), as it was saved."""

    local: Any
    """The part: a tensor."""
    shape: tuple[int, ...]
    """The shape of the whole."""
    stride: tuple[int, ...]
    """The strides of the whole."""
    mesh: tuple[int, ...]
    """The shape of the device mesh."""
    mesh_names: tuple[str, ...]
    """The names of its dimensions; none where they had none."""
    coordinate: tuple[int, ...]
    """Where in the mesh this rank was."""
    placements: tuple[str, ...]
    """For each dimension of the mesh, `Shard(dim=0)`, `Replicate()` or another, as PyTorch writes it."""

    def to_dtensor(self, mesh: Any, placements: Any) -> Any:
        """The distributed tensor on a device mesh of the same shape, with the same placements, which are checked."""
        said = tuple(map(repr, placements))
        if (tuple(mesh.mesh.shape), said, tuple(mesh.get_coordinate() or ())) != (
            self.mesh,
            self.placements,
            self.coordinate,
        ):
            here = f"{list(said)} on a mesh of {list(mesh.mesh.shape)} at {mesh.get_coordinate()}"
            raise ArgumentError(f"the part is {part_text(self)}, and not {here}")
        module = sys.modules[_dtensor_type().__module__] if _dtensor_type() else imported("torch.distributed.tensor")
        made = module.DTensor.from_local(
            self.local, mesh, placements, run_check=False, shape=imported("torch").Size(self.shape), stride=self.stride
        )
        return made


def part_text(part: DTensorPart) -> str:
    """Which part it is, for people; two parts with the same text are the same part."""
    names = f" ({', '.join(part.mesh_names)})" if part.mesh_names else ""
    return (
        f"the part [{', '.join(part.placements)}] at {list(part.coordinate)} on a mesh of {list(part.mesh)}{names} "
        f"of {list(part.shape)} with strides {list(part.stride)}"
    )


def _dtensor_type() -> Any:
    for module in ("torch.distributed.tensor", "torch.distributed._tensor"):
        found = getattr(sys.modules.get(module), "DTensor", None)
        if isinstance(found, type):
            return found
    return None


def plain_types() -> tuple[Any, ...]:
    """The types of plain tensors; none where the program has not imported PyTorch."""
    torch = sys.modules.get("torch")
    return () if torch is None or not hasattr(torch, "nn") else (torch.Tensor, torch.nn.Parameter)


def hold(thing: Any, where: str) -> Memory:
    """The memory of a tensor, or of the local part of a distributed one."""
    torch = sys.modules["torch"]
    kind = type(thing)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _hold_dense(thing, thing, where, torch, "")
    dtensor = _dtensor_type()
    if dtensor is not None and kind is dtensor:
        part = part_of(thing)
        return _hold_dense(thing, part.local, where, torch, part_text(part))
    raise refuse(where, f"is a {kind.__name__}", "give the plain tensor in it")


def hold_all(tensors: list[Any], paths: list[str], former: list[Memory]) -> list[Memory]:
    """The memory of plain tensors. `former` is as long, or empty: what is in the same memory as there is not described anew,
    because a state has thousands, and the program stands still meanwhile. `state_dict()` makes other tensors of the same
    memory each time: the new one is kept instead."""
    torch = sys.modules["torch"]
    strided, names, memories = torch.strided, _names, []
    for thing, path, known in zip(tensors, paths, former or [None] * len(tensors)):
        if (
            known is not None
            and not known.copied
            and thing.is_cpu
            and thing.layout is strided
            and thing.data_ptr() == known.address
            and thing.shape == known.layout.shape
            and names.get(thing.dtype) == known.layout.dtype
            and known.layout.order == "C"
            and thing.is_contiguous()
            and not thing.is_neg()
            and not (known.layout.dtype[0] == "c" and thing.is_conj())
        ):
            known.owner = known.array = thing
            memories.append(known)
        else:
            memories.append(_hold_dense(thing, thing, path, torch, ""))
    return memories


def part_of(thing: Any) -> DTensorPart:
    """What a distributed tensor holds here, and where it belongs."""
    mesh = thing.device_mesh
    return DTensorPart(
        thing.detach().to_local(),
        tuple(thing.shape),
        tuple(thing.stride()),
        tuple(mesh.mesh.shape),
        tuple(getattr(mesh, "mesh_dim_names", None) or ()),
        tuple(mesh.get_coordinate() or ()),
        tuple(map(repr, thing.placements)),
    )


def is_dtensor(thing: Any) -> bool:
    """Whether it is a distributed tensor."""
    dtensor = _dtensor_type()
    return dtensor is not None and isinstance(thing, dtensor)


def _hold_dense(owner: Any, thing: Any, where: str, torch: Any, part: str) -> Memory:
    if not thing.is_cpu:
        raise refuse(where, f"is on device {thing.device}", "give it as .cpu(), and copy it back after a restart")
    dtype, shape = thing.dtype, thing.shape
    # Whether it is quantized is a matter of its type, so that a layout that is known says it is not.
    known = None if part else _layouts.get((dtype, shape))
    if thing.layout is not torch.strided or (known is None and thing.is_quantized):
        raise refuse(where, f"is not a dense tensor ({thing.layout}, {thing.dtype})", "give its parts")
    array = None if owner is thing else thing
    viewed = thing.is_neg() or (dtype.is_complex and thing.is_conj())
    if not viewed and thing.is_contiguous():
        if known is None:
            nbytes = thing.numel() * thing.element_size()
            known = Layout("torch", _name(dtype), tuple(shape), "C", part), nbytes
            if not part and len(_layouts) < _LAYOUTS_MAX:
                _layouts[(dtype, shape)] = known
        layout, nbytes = known
        address = thing.data_ptr() if nbytes else 0
        return Memory(owner, address, nbytes, layout, address or id(owner), array=array)
    nbytes = thing.numel() * thing.element_size()
    strides = thing.stride()
    order = None if viewed else dense_order(shape, strides)
    layout = Layout("torch", _name(dtype), tuple(shape), order or "C", part)
    address = thing.data_ptr() if nbytes else 0
    if order is not None:
        return Memory(owner, address, nbytes, layout, address or id(owner), array=array)
    same = (address, strides, thing.is_conj(), thing.is_neg())
    # PyTorch refuses to fill a tensor that shows an element more than once.
    fillable = not any(stride == 0 and count > 1 for stride, count in zip(strides, shape))
    return Memory(owner, 0, nbytes, layout, same, copied=True, fillable=fillable, array=array)


def _name(dtype: Any) -> str:
    name = _names.get(dtype)
    if name is None:
        name = _names[dtype] = str(dtype).replace("torch.", "", 1)
    return name


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor, which outlives it where somebody keeps it."""
    # PyTorch before 2.0 has it with a type, and warns of that.
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensor.storage()


class _Sized:
    """A type of elements, with its size: PyTorch has `itemsize` since 2.1."""

    def __init__(self, dtype: Any, itemsize: int) -> None:
        self.dtype, self.itemsize = dtype, itemsize


_sized: dict[str, _Sized] = {}


def dtype_of(text: str) -> _Sized:
    """The type of a name. Raises ValueError where there is none, or where it is no plain memory."""
    known = _sized.get(text)
    if known is None:
        torch = imported("torch")
        dtype = vars(torch).get(text)
        # Those of quantized tensors mean nothing without a scale.
        if not isinstance(dtype, torch.dtype) or text.startswith("q"):
            raise ValueError(f"{text[:100]!r} is not a PyTorch type")
        known = _sized[text] = _Sized(dtype, torch.empty((), dtype=dtype).element_size())
    return known


def lent(room: bytearray, offset: int, layout: Layout) -> Any:
    """A tensor in a part of a room, whose memory it uses."""
    torch, sized = imported("torch"), dtype_of(layout.dtype)
    shape, count, places = stored_of(layout)
    try:
        if count == 0:
            return torch.empty(layout.shape, dtype=sized.dtype)
        # As bytes, because not every type can be read from a buffer.
        flat = torch.frombuffer(room, dtype=torch.uint8, count=count * sized.itemsize, offset=offset)
        return flat.view(sized.dtype).reshape(shape).permute(places)
    except (RuntimeError, TypeError, OverflowError) as error:
        raise ValueError(f"{layout} cannot be made: {error}") from None
