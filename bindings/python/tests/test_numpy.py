# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NumPy arrays. Needs NumPy."""

import gc
import mmap
import unittest
import weakref

import surefoot

from .tiers import Tiers, has

if has("numpy"):
    import numpy

TYPES = "? b B h H i I l L q Q e f d g F D G S7 U5 V16 M8[ns] m8[s] >f4 >i8".split()


@unittest.skipUnless(has("numpy"), "NumPy is not installed")
class Arrays(Tiers):
    def noise(self, dtype: object, shape: tuple[int, ...], order: str = "C") -> "numpy.ndarray":
        dtype = numpy.dtype(dtype)
        count = int(numpy.prod(shape)) * dtype.itemsize
        raw = numpy.random.default_rng(count).integers(0, 256, count, dtype=numpy.uint8)
        return raw.view(dtype).reshape(shape, order=order)

    def test_every_type_and_shape_comes_back_in_place_and_new(self) -> None:
        fields = numpy.dtype([("a", "<f4", (2, 3)), ("b", [("x", "i1"), ("y", ">u8")]), ("c", "S3")])
        state = {name: self.noise(name, (3, 5)) for name in TYPES}
        state["fields"] = self.noise(fields, (7,))
        for shape in [(), (0,), (1,), (2, 0, 3), (2, 3, 4, 5), (100_003,)]:
            state[f"shape {shape}"] = self.noise("f8", shape)
        state["fortran"] = self.noise("f4", (4, 6), "F")
        state["text"] = numpy.array(["a", "\u00e4\u00f6", ""])
        state["matrix"] = numpy.zeros((3, 3), "u1").view(numpy.matrix)
        before = {name: value.tobytes("A") for name, value in state.items()}
        with self.open() as job:
            job.save_state(state)
            for value in state.values():
                if value.nbytes and value.dtype.kind != "U":
                    value.view(numpy.ndarray).reshape(-1, order="A").view("u1")[:] ^= 0xFF
            job.restart()
            self.assertEqual({name: value.tobytes("A") for name, value in state.items()}, before)
        with self.open() as job:
            loaded = job.load_state()
        self.assertEqual({name: value.tobytes("A") for name, value in loaded.items()}, before)
        for name, value in loaded.items():
            self.assertEqual((value.dtype, value.shape), (state[name].dtype, state[name].shape), name)
            self.assertTrue(value.flags.writeable and value.flags.aligned, name)
        self.assertTrue(loaded["fortran"].flags.f_contiguous)

    def test_scalars_keep_their_type(self) -> None:
        state = [numpy.float32(0.1), numpy.float64("nan"), numpy.int8(-3), numpy.bool_(True), numpy.complex64(1j)]
        state += [numpy.str_("text"), numpy.bytes_(b"raw"), numpy.datetime64("2026-11-22"), numpy.longdouble(1) / 3]
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual([*map(type, loaded)], [*map(type, state)])
        self.assertEqual([value.tobytes() for value in loaded], [value.tobytes() for value in state])

    def test_the_random_generator_goes_on_where_it_was(self) -> None:
        job, random = self.open(), numpy.random.default_rng(5)
        random.random(17)
        job.save_state({"random": random.bit_generator.state})
        expected = random.random(100)
        other = numpy.random.default_rng()
        other.bit_generator.state = job.load_state()["random"]
        self.assertTrue((other.random(100) == expected).all())

    def test_what_cannot_be_filled_in_place_is_refused(self) -> None:
        constant = numpy.arange(3)
        constant.flags.writeable = False
        hostile = [
            (constant, "is read-only"),
            (numpy.broadcast_to(numpy.float64(3), (5,)), "is read-only"),
            (numpy.arange(10)[::2], "not contiguous.*ascontiguousarray"),
            (numpy.zeros((4, 4))[:, 1:], "not contiguous"),
            (numpy.array([None, {}]), "holds Python objects"),
            (numpy.zeros(2, [("a", "f8"), ("o", "O")]), "holds Python objects"),
            (numpy.ma.masked_array([1, 2], [0, 1]), "is a masked array"),
            (numpy.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), "u1"), "is read-only"),
        ]
        job = self.open()
        for array, why in hostile:
            with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                job.protect("array", array)
            with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                job.save_state({"array": array})
        padded = numpy.dtype({"names": ["a"], "formats": ["f4"], "offsets": [4], "itemsize": 16, "titles": ["t"]})
        job.protect("padded", numpy.zeros(4, padded))
        self.assertTrue(job.save())

    def test_other_shapes_and_types_of_the_same_length_are_refused(self) -> None:
        job = self.open()
        job.protect("a", numpy.arange(12.0).reshape(3, 4))
        job.save()
        others = [
            numpy.zeros((4, 3)),
            numpy.zeros((3, 4), "i8"),
            numpy.zeros((3, 4), ">f8"),
            numpy.zeros((3, 4), order="F"),
        ]
        for other in others:
            job.protect("a", other)
            with self.assertRaisesRegex(surefoot.ShapeError, r"array a is numpy of <f8 \[3, 4\] there and numpy of"):
                job.restart()
            self.assertFalse(other.any(), "it was not touched")

    def test_arrays_stay_alive_and_one_that_got_other_memory_is_followed(self) -> None:
        job = self.open()
        array = numpy.full(200_000, 7.0)
        job.protect("a", array)
        address = array.ctypes.data
        array.resize(300_000, refcheck=False)
        self.assertNotEqual(array.ctypes.data, address)
        with self.assertRaisesRegex(surefoot.UnsupportedError, r"was numpy of <f8 \[200000\] and is .* \[300000\]"):
            job.save()
        job.protect("a", array)
        self.assertTrue(job.save())
        watched = weakref.ref(array)
        del array
        gc.collect()
        kept = watched()
        assert kept is not None
        kept[:] = 0
        job.restart()
        self.assertEqual((kept[0], kept[199_999], kept[200_000]), (7.0, 7.0, 0.0))

    def test_a_map_of_a_file_is_filled_in_the_file(self) -> None:
        path = self.home / "mapped"
        mapped = numpy.memmap(path, "f8", "w+", shape=(1000,))
        mapped[:] = 3
        job = self.open()
        job.protect("mapped", mapped)
        job.save()
        mapped[:] = 4
        job.restart()
        mapped.flush()
        self.assertTrue((numpy.fromfile(path) == 3).all())

    def test_nothing_is_copied_but_into_the_checkpoint(self) -> None:
        import tracemalloc

        array = numpy.zeros(4_000_000)
        job = self.open()
        tracemalloc.start()
        try:
            job.state_dict({"a": array})
            job.save()
            job.restart()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        self.assertLess(peak, 2_000_000, "of 32 MB")
