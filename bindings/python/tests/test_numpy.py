# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NumPy arrays. Needs NumPy."""

import gc
import json
import mmap
import subprocess
import sys
import unittest
import weakref

import surefoot
from surefoot import _index, _ndarrays, _pack

from .tiers import PATIENCE_S, Tiers, has

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

    def test_every_memory_layout_comes_back_in_place_and_new(self) -> None:
        cube = self.noise("i4", (4, 5, 6))
        state = {
            "slice": cube[1:3, ::2, 5:0:-2],
            "reversed": numpy.arange(7)[::-1],
            "transposed": self.noise("f4", (3, 4, 5)).transpose(1, 2, 0),
            "column": self.noise("c16", (9, 9))[:, 3],
            "field": self.noise([("a", "u1"), ("b", "<f8")], (8,))["b"],
            "fields": self.noise([("a", "u1"), ("b", "<f8"), ("c", "i2")], (8,))[::3],
            "long": self.noise("u1", (700_000, 2))[:, 1],
            "one": self.noise("i2", (1, 5, 1)).transpose(2, 1, 0),
        }
        job = self.open()
        for protect in (False, True):
            before = {name: value.tobytes() for name, value in state.items()}
            rest = cube[0].copy()
            if protect:
                job.state_dict(None)
                for name, value in state.items():
                    job.protect(name, value)
                job.save()
            else:
                job.save_state(state)
            for value in state.values():
                value[...] = numpy.zeros((), value.dtype)
            arrays = dict(state)
            job.restart()
            self.assertEqual({name: value.tobytes() for name, value in state.items()}, before)
            self.assertTrue(all(state[name] is array for name, array in arrays.items()))
            self.assertTrue((cube[0] == rest).all(), "the rest of an array is not its slice's")
            if not protect:
                loaded = job.load_state()
                self.assertEqual({name: value.tobytes() for name, value in loaded.items()}, before)
                self.assertEqual(loaded["transposed"].strides, state["transposed"].strides)
                into = {name: numpy.zeros(value.shape, value.dtype) for name, value in state.items()}
                job.load_state(into)
                self.assertEqual({name: value.tobytes() for name, value in into.items()}, before)

    def test_an_array_in_another_order_is_filled_one_by_one(self) -> None:
        job = self.open()
        numbers = numpy.arange(12.0).reshape(3, 4)
        job.protect("a", numbers)
        job.save_state({"b": numbers.copy()})
        fortran, state = numpy.zeros((3, 4), order="F"), {"b": numpy.zeros((3, 4), order="F")}
        job.protect("a", fortran)
        job.load_state(state)
        self.assertTrue((fortran == numbers).all() and (state["b"] == numbers).all())

    def test_views_of_one_memory_stay_what_they_are(self) -> None:
        numbers = numpy.arange(12.0)
        state = [numbers, numbers.reshape(3, 4), numbers[:5], numbers.reshape(3, 4), numbers[::2], numbers[::3][:4]]
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual([array.tolist() for array in loaded], [array.tolist() for array in state])
        self.assertIs(loaded[1], loaded[3], "the same view twice")

    def test_types_with_fields_that_overlap_or_have_titles_and_dtypes_come_back(self) -> None:
        described = {"names": ["a", "b"], "formats": ["<u4", ("<f4", (2,))], "offsets": [4, 6], "itemsize": 20}
        state = {
            "overlap": self.noise(numpy.dtype(described), (5,)),
            "titles": self.noise(numpy.dtype([(("title", "x"), "i1"), ("y", "M8[7D]")], align=True), (3, 2)),
            "record": numpy.zeros(2, [("a", [("b", "U3", (2, 2))])])[0],
            "dtypes": [numpy.dtype("<M8[25s]"), numpy.dtype("?"), numpy.dtype(described), numpy.dtype("S0")],
        }
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual(loaded["dtypes"], state["dtypes"])
        for name in ("overlap", "titles", "record"):
            self.assertEqual(loaded[name].dtype, state[name].dtype)
            self.assertEqual(loaded[name].tobytes(), state[name].tobytes())

    def test_hostile_types_are_refused_and_run_nothing(self) -> None:
        hostile = ["O", "|O8", "", "(2,)f4", "f4,f4", "__import__('os').abort(),f4", "<f3", "M8[x]", "{", "[", "[1]",
                   '["f4"]', '{"fields":3}', '{"of":"<f8","shape":["a"]}', '{"of":"O","shape":[1]}', '{"fields":[]}',
                   '[["a","O"]]', '[["a","f4,f4"]]', "ml_dtypes:__name__", "ml_dtypes:finfo", "ml_dtypes:../x", "V" * 999,
                   '{"fields":[["a","<f8",9]],"itemsize":4,"aligned":false}', "[" * 9000,
                   '{"of":' * 50 + '"<f8"' + ',"shape":[1]}' * 50, "U9223372036854775807"]  # fmt: skip
        for text in hostile:
            with self.assertRaises((ValueError, surefoot.LibraryError), msg=text[:50]):
                _ndarrays.dtype_of(text)
        rows = [["<f8", [1 << 62], "C"], ["<f8", [3], "C"], ["<f8", [0, 1 << 70], "C"], ["V0", [1 << 62], "C"]]
        for dtype, shape, order in rows:
            row = ["state", "numpy", dtype, shape, order, "", 8, 0]
            text = _pack.encoded({"format": 2, "protected": [], "arrays": [row], "state": {"array": 0}})
            with self.assertRaises(surefoot.DamagedError, msg=str(row)):
                _index.state_of(text, {"python:pack": 64}, lambda memories: None)

    def test_scalars_keep_their_type(self) -> None:
        state = [numpy.float32(0.1), numpy.float64("nan"), numpy.int8(-3), numpy.bool_(True), numpy.complex64(1j)]
        state += [numpy.str_("text"), numpy.bytes_(b"raw"), numpy.datetime64("2026-11-22"), numpy.longdouble(1) / 3]
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual([*map(type, loaded)], [*map(type, state)])
        self.assertEqual([value.tobytes() for value in loaded], [value.tobytes() for value in state])

    def test_texts_keep_the_zeros_at_their_end(self) -> None:
        texts = [numpy.str_("x\0"), numpy.bytes_(b"a\0\0"), numpy.str_("\0"), numpy.bytes_(b"\0"), numpy.str_("\U0001f600\0")]
        state = [texts, {numpy.str_("x"): 1, numpy.str_("x\0"): 2}, {numpy.bytes_(b"a"), numpy.bytes_(b"a\0")}]
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        self.assertEqual(loaded, state)
        self.assertEqual([*map(type, loaded[0])], [*map(type, texts)])

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
            (numpy.lib.stride_tricks.as_strided(numpy.zeros(9), (3, 3), (8, 0)), "shows an element more than once"),
            (numpy.array([None, {}]), "holds Python objects"),
            (numpy.zeros(2, [("a", "f8"), ("o", "O")]), "holds Python objects"),
            (numpy.ma.masked_array([1, 2], [0, 1]), "is a masked array"),
            (numpy.frombuffer(mmap.mmap(-1, 4096, prot=mmap.PROT_READ), "u1"), "is read-only"),
        ]
        job = self.open()
        for array, why in hostile:
            with self.assertRaisesRegex(surefoot.UnsupportedError, why):
                job.protect("array", array)
            if "read-only" in why or "more than once" in why:
                # In a state it is there anew.
                job.save_state({"array": array})
                self.assertEqual(job.load_state()["array"].tobytes(), array.tobytes())
            else:
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
        length, neighbours = 200_000, []
        while array.ctypes.data == address and length < 5_000_000:
            # It may grow where it is, as long as there is room behind it.
            neighbours.append(numpy.ones(300_000))
            length += 100_000
            array.resize(length, refcheck=False)
        self.assertNotEqual(array.ctypes.data, address)
        with self.assertRaisesRegex(surefoot.UnsupportedError, rf"was numpy of <f8 \[200000\] and is .* \[{length}\]"):
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


# Both halves run in processes of their own. One class stands in the program.
CLASSES = """
import json, os, sys
import numpy, surefoot

class Own(numpy.ndarray):
    pass

def state(by):
    fields = numpy.array([(1, 2.5), (2, 0.5)], [("a", "<i4"), ("b", "<f8")])
    fields["a"] += by
    return {
        "matrix": numpy.arange(600).reshape(20, 30).view(numpy.matrix) + by,
        "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3) + by).view(numpy.matrix),
        "empty": numpy.empty((0, 4)).view(numpy.matrix),
        "recarray": fields.view(numpy.recarray),
        "records": fields.view(numpy.recarray).view(type=numpy.ndarray),
        "record": fields.view(numpy.recarray)[1],
        "letters": numpy.char.array(["a ", "bc"]),
        "plain": numpy.arange(7) + by,
        "fields": fields.copy(),
    }

def told(state):
    return {name: [str(type(value)), str(value.dtype.type), value.tolist()] for name, value in state.items()}

job = surefoot.Checkpoint("classes", memory=os.environ["MEMORY"], health_file="/nowhere")
if sys.argv[1] == "save":
    for name, odd in [("own", numpy.zeros(3).view(Own)), ("mapped", numpy.memmap(sys.argv[2], "u1", "w+", shape=3))]:
        try:
            job.save_state({name: odd})
            raise SystemExit(f"{name} was saved")
        except surefoot.UnsupportedError as error:
            words = f"state['{name}'] is a ", type(odd).__qualname__, "numpy.asarray(it)", "protect()"
            assert all(word in str(error) for word in words), error
    own = numpy.arange(5.0).view(Own)
    job.protect("own", own)
    assert job.save_state(state(3))
    print(json.dumps(told(state(3))))
else:
    own = numpy.zeros(5).view(Own)
    job.protect("own", own)
    held = state(0)
    job.state_dict(held)
    kept = dict(held)
    job.restart()
    assert own.tolist() == [0, 1, 2, 3, 4] and type(own) is Own
    filled = [name for name in held if held[name] is kept[name]]
    assert set(held) - set(filled) <= {"record", "empty"}, filled
    first = told(held)
    assert told(job.load_state()) == first
    print(json.dumps(first))
"""


@unittest.skipUnless(has("numpy"), "NumPy is not installed")
class Classes(Tiers):
    def test_classes_of_numpy_come_back_in_another_process_and_others_are_refused(self) -> None:
        said = [
            subprocess.run(
                [sys.executable, "-W", "ignore", "-c", CLASSES, mode, str(self.home / "mapped")],
                env=self.environment(),
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            for mode in ("save", "load")
        ]
        self.assertEqual([ran.returncode for ran in said], [0, 0], said)
        self.assertEqual(json.loads(said[0].stdout), json.loads(said[1].stdout))

    def test_a_matrix_goes_into_a_plain_array_and_back(self) -> None:
        job = self.open()
        job.save_state({"a": numpy.arange(6).reshape(2, 3).view(numpy.matrix), "b": numpy.ones((2, 2))})
        held = {"a": numpy.zeros((2, 3), int), "b": numpy.zeros((2, 2)).view(numpy.matrix)}
        plain = held["a"]
        job.state_dict(held)
        job.restart()
        # It is a matrix in the memory of the program's own array; what is filled in place stays of its class.
        self.assertIs(type(held["a"]), numpy.matrix)
        self.assertTrue(numpy.shares_memory(held["a"], plain) and plain[1, 2] == 5)
        self.assertIs(type(held["b"]), numpy.matrix)
        self.assertEqual(held["b"].tolist(), [[1, 1], [1, 1]])

    def test_buffers_of_a_class_of_the_program_are_refused(self) -> None:
        class Bytes(bytearray):
            pass

        with self.assertRaisesRegex(surefoot.UnsupportedError, "Bytes.*give a bytearray"):
            self.open().save_state({"a": Bytes(5)})


@unittest.skipUnless(has("numpy") and has("ml_dtypes"), "NumPy and ml_dtypes are not both installed")
class SmallFloats(Tiers):
    def test_the_types_of_ml_dtypes_come_back(self) -> None:
        import ml_dtypes

        names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
        state = {name: numpy.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name)) for name in names}
        state["scalar"] = ml_dtypes.bfloat16(1.5)
        state["fields"] = numpy.zeros(3, [("a", ml_dtypes.bfloat16), ("b", "<f4")])
        job = self.open()
        job.save_state(state)
        loaded = job.load_state()
        for name, value in state.items():
            self.assertEqual((loaded[name].dtype, loaded[name].tobytes()), (value.dtype, value.tobytes()), name)
        self.assertIs(type(loaded["scalar"]), ml_dtypes.bfloat16)
        state["int4"][:] = 0
        job.restart()
        self.assertEqual(state["int4"].astype(int).tolist(), [[0, 1, 2], [3, 4, 5]])
