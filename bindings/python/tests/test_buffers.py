# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every kind of buffer that Python itself has."""

import array
import ctypes
import gc
import mmap
import os
import random
import threading
import weakref

import surefoot

from .tiers import Tiers


class Bytes(bytearray):
    """A bytearray that can be referred to weakly."""


class Buffers(Tiers):
    def test_each_kind_comes_back_in_place(self) -> None:
        noise = random.Random(1)
        plain = bytearray(noise.randbytes(100_001))
        numbers = array.array("d", [noise.random() for _ in range(3000)])
        part = memoryview(bytearray(noise.randbytes(5000)))[100:4000]
        mapped = mmap.mmap(-1, 10_000)
        mapped[:] = noise.randbytes(10_000)
        of_c = (ctypes.c_int * 77)(*range(77))
        empty = bytearray()
        buffers = {"plain": plain, "numbers": numbers, "part": part, "mapped": mapped, "of_c": of_c, "empty": empty}
        before = {name: bytes(memoryview(buffer)) for name, buffer in buffers.items()}
        with self.open() as job:
            for name, buffer in buffers.items():
                job.protect(name, buffer)
            saved = job.save()
            self.assertTrue(saved)
            self.assertGreaterEqual(saved.payload_bytes, sum(map(len, before.values())))
            for name, buffer in buffers.items():
                if before[name]:
                    ctypes.memset((ctypes.c_char * len(before[name])).from_buffer(buffer), 0x55, len(before[name]))
            self.assertNotEqual(bytes(plain), before["plain"])
            restored = job.restart()
            assert restored is not None
            self.assertEqual(restored.generation, saved.generation)
            self.assertIn("pages, intact", restored.report[0])
            self.assertEqual({name: bytes(memoryview(buffer)) for name, buffer in buffers.items()}, before)

    def test_what_cannot_be_saved_is_refused_with_its_name_and_a_remedy(self) -> None:
        hostile = [
            (b"constant", "read-only"),
            (memoryview(b"constant"), "read-only"),
            ((ctypes.py_object * 2)(), "holds addresses"),
            ((1, 2), "is a tuple, which has no buffer"),
            ("text", "is a str"),
            (None, "is a NoneType"),
            (3, "is a int"),
        ]
        job = self.open()
        for number, (thing, why) in enumerate(hostile):
            with self.assertRaisesRegex(surefoot.UnsupportedError, why) as caught:
                job.protect(f"thing-{number}", thing)
            self.assertIn(f"the array 'thing-{number}'", str(caught.exception))
        released = memoryview(bytearray(4))
        released.release()
        with self.assertRaisesRegex(surefoot.UnsupportedError, "does not give its buffer"):
            job.protect("released", released)
        read_only = mmap.mmap(os.open(__file__, os.O_RDONLY), 100, prot=mmap.PROT_READ)
        with self.assertRaisesRegex(surefoot.UnsupportedError, "read-only"):
            job.protect("map", read_only)
        self.assertTrue(job.save(), "the job is as it was")

    def test_a_buffer_that_raises_or_lies_harms_nobody(self) -> None:
        class Raises:
            def __getattr__(self, name: str) -> object:
                raise RuntimeError("no")

        class Lies(bytearray):
            def __len__(self) -> int:
                return 1 << 60

        job = self.open()
        with self.assertRaises(surefoot.UnsupportedError):
            job.protect("raises", Raises())
        lies = Lies(b"abc")
        job.protect("lies", lies)
        job.save()
        lies[0:1] = b"x"
        job.restart()
        self.assertEqual(bytes(memoryview(lies)), b"abc")

    def test_protected_buffers_stay_alive_and_as_long_as_they_are(self) -> None:
        job = self.open()
        buffer = Bytes(b"a" * 100_000)
        watched = weakref.ref(buffer)
        job.protect("buffer", buffer)
        with self.assertRaises(BufferError):
            buffer.append(1)
        del buffer
        gc.collect()
        self.assertIsNotNone(watched(), "the job holds it")
        garbage = [bytearray(100_000) for _ in range(50)]
        self.assertTrue(job.save())
        job.release("buffer")
        gc.collect()
        self.assertIsNone(watched(), "nobody holds it")
        del garbage
        with self.assertRaisesRegex(surefoot.OptionError, "none called buffer"):
            job.release("buffer")

    def test_a_moved_name_frees_the_former_buffer_and_closing_frees_all(self) -> None:
        job = self.open()
        first, second = Bytes(b"1" * 50), Bytes(b"2" * 60)
        job.protect("name", first)
        job.protect("name", second)
        first.append(1)
        job.save()
        second[:] = bytes(60)
        job.restart()
        self.assertEqual(second, b"2" * 60)
        job.close()
        second.append(1)
        self.assertTrue(job.closed)
        job.close()

    def test_a_forgotten_job_closes_itself(self) -> None:
        buffer = Bytes(b"1")
        job = surefoot.Checkpoint("forgotten", memory=self.memory)
        job.protect("buffer", buffer)
        del job
        gc.collect()
        buffer.append(2)
        self.open("forgotten")  # The lock of the former is gone.

    def test_lengths_that_changed_are_refused_and_nothing_is_touched(self) -> None:
        with self.open() as job:
            job.protect("a", bytearray(b"x" * 100))
            job.protect("b", bytearray(b"y" * 10))
            job.save()
        with self.open() as job:
            longer, same = bytearray(b"-" * 101), bytearray(b"-" * 10)
            job.protect("a", longer)
            job.protect("b", same)
            with self.assertRaisesRegex(surefoot.ShapeError, r"array a is bytearray \[100\] there and .* \[101\] here"):
                job.restart()
            self.assertEqual((longer, same), (b"-" * 101, b"-" * 10))
            # The checkpoint is still there for who has the right arrays.
            right = bytearray(100)
            job.protect("a", right)
            job.restart()
            self.assertEqual((right, same), (b"x" * 100, b"y" * 10))
            job.protect("c", bytearray(1))
            with self.assertRaisesRegex(surefoot.ShapeError, "array c is not there"):
                job.restart()

    def test_threads_take_turns(self) -> None:
        job = self.open()
        buffers = [bytearray(50_000) for _ in range(4)]
        for number, buffer in enumerate(buffers):
            job.protect(f"buffer-{number}", buffer)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for step in range(20):
                    job.protect(f"own-{number}", bytearray(number + step))
                    self.assertTrue(job.save())
                    job.need()
                    self.assertTrue(job.reasons)
                    if step % 7 == 0:
                        job.scrub()
                job.release(f"own-{number}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(job.save().generation, 81)

    def test_other_threads_run_during_a_save(self) -> None:
        job = self.open(durable=self.ssd, policy="durable", durable_limit_bytes_per_s=20_000_000)
        job.protect("buffer", bytearray(20_000_000))
        counted, ends = [0], threading.Event()

        def count() -> None:
            while not ends.is_set():
                counted[0] += 1
                ends.wait(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        before = counted[0]
        job.save()
        during = counted[0] - before
        ends.set()
        thread.join()
        self.assertGreater(during, 10)
