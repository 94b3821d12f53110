# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Opening, settings, failures and their exceptions, the library itself."""

import copy
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import warnings
from unittest import mock

import surefoot
from surefoot import _errors, _settings, _told

from .tiers import ROOT, Tiers


class Jobs(Tiers):
    def test_every_setting_of_the_library_has_a_keyword(self) -> None:
        with self.assertRaises(surefoot.OptionError) as caught:
            self.open(colour="red")
        self.assertEqual(caught.exception.status, -2)
        self.assertIn('"colour"', str(caught.exception))
        # Rank 0 leaves every setting that its tiers and its policy have beside its job's checkpoints.
        job = self.open(durable=self.ssd, shared=self.ssd.parent, policy="surefoot")
        job.restart()
        job.close()
        published = next(self.memory.rglob("settings.json")).read_text()
        names = [told["name"] for told in json.loads(published)["settings"]]
        self.assertIn("durable.keep", names)
        values = {
            "memory": self.memory,
            "memory.slots": 4,
            "memory.protection": "checked",
            "memory.threads": 2,
            "memory.ahead_bytes": 0,
            "durable": self.ssd,
            "durable.keep": 3,
            "durable.queue_depth": 8,
            "durable.protection": "shard",
            "durable.limit_bytes_per_s": 250_000_000,
            "endurance.rated_bytes": 600e12,
            "endurance.written_bytes": 0,
            "endurance.remaining_years": 3.5,
            "policy": "surefoot",
            "memory_mtbf_s": 3600,
            "durable_mtbf_s": 86_400.0,
            "staleness_max_s": 600,
            "priority": "endurance",
            "health_file": self.home / "health.json",
        }
        keywords = {name: keyword for keyword, name in _settings.SETTINGS.items()}
        self.assertLessEqual(set(keywords), set(names), "a keyword for what the library does not have")
        self.assertFalse([name for name in names if "." in name and name not in keywords])
        settings = {keywords.get(name, name): value for name, value in values.items()}
        self.open(**settings).close()
        if "partner" in names:
            self.open(partner=False).close()
        with self.assertRaisesRegex(surefoot.OptionError, "0.*is not valid: complete checkpoints"):
            self.open(durable=self.ssd, durable_keep=0)
        with self.assertRaisesRegex(surefoot.OptionError, "no checkpoint directory configured"):
            self.open(memory=None)

    def test_a_policy_for_a_tier_that_is_not_configured_is_refused(self) -> None:
        for policy in ["durable", "every:2", "paper-every:10", "paper"]:
            with self.assertRaisesRegex(surefoot.OptionError, f"policy: {policy} .*set durable to a directory"):
                self.open(policy=policy)
        with self.assertRaisesRegex(surefoot.OptionError, "policy: memory .*set memory to a directory"):
            self.open(memory=None, durable=self.ssd, policy="memory")
        # "none" wins over a variable, and is no path.
        with mock.patch.dict(os.environ, SUREFOOT_CHECKPOINT_DURABLE=str(self.ssd)):
            job = self.open(durable="none", policy="memory")
            job.restart()
            job.close()
        told = json.loads(next(self.memory.rglob("settings.json")).read_text())["settings"]
        self.assertEqual([one["value"] for one in told if one["name"] == "durable"], ["none"])
        self.assertFalse((pathlib.Path.cwd() / "none").exists())
        with self.assertRaisesRegex(surefoot.ArgumentError, 'durable is an empty path; name a directory, or "none"'):
            self.open(durable="")
        self.open(memory=None, durable=self.ssd, policy="durable")

    def test_names_that_cannot_be_one_are_refused(self) -> None:
        for name in ["", "../up", "a b", "x" * 200, "no\ttab"]:
            with self.assertRaises(surefoot.OptionError):
                self.open(name)
        for name in ["nul\0", 3, "\udfff"]:
            with self.assertRaises(surefoot.ArgumentError):
                self.open(name)  # type: ignore[arg-type]
        job = self.open()
        for name in ["", "..", "a b", "python:index:0"]:
            with self.assertRaises(surefoot.OptionError):
                job.protect(name, bytearray(1))

    def test_ranks_alone_are_refused_with_what_to_give_instead(self) -> None:
        for settings in [{"rank": 0, "ranks": 2}, {"ranks": 2}, {"world_size": 2}]:
            with self.assertRaisesRegex(surefoot.ArgumentError, "cannot work alone.*mpi4py"):
                self.open(**settings)
        with self.assertRaisesRegex(surefoot.ArgumentError, "a int is not a group"):
            self.open(group=3)

    def test_the_same_job_twice_is_refused(self) -> None:
        self.open()
        with self.assertRaisesRegex(surefoot.StorageError, "same job is running"):
            self.open()

    def test_what_was_decided_and_what_happened_is_said(self) -> None:
        with self.open(durable=self.ssd, policy="surefoot") as job:
            job.protect("a", bytearray(1000))
            self.assertEqual(job.reasons, ())
            job.need()
            self.assertTrue(job.reasons)
            saved = job.save()
            self.assertEqual((saved.generation, saved.reasons), (1, job.reasons))
            self.assertEqual(saved.place, "both")
            self.assertGreater(saved.visible_s, 0)
            job.finish()
            self.assertRegex(job.notices()[0], "generation 1 is durable")
            self.assertEqual(job.notices(), [])
            self.assertEqual(len(job.scrub()), 2)
            self.assertEqual(job.report, job.scrub())
        never = self.open("never", policy="never")
        self.assertFalse(never.need())
        self.assertEqual((never.save().place, bool(never.save())), ("nowhere", False))
        self.assertIsNone(never.restart())
        self.assertIsNone(never.load_state())

    def test_the_end_of_the_context_makes_the_durable_copy_count(self) -> None:
        with self.open(durable=self.ssd, policy="surefoot") as job:
            job.protect("a", bytearray(b"z" * 300_000))
            self.assertEqual(job.save().place, "both")
        self.assertEqual(
            len([path for path in self.ssd.rglob("*") if path.suffix == ".commit" or path.name == "commit"]), 1
        )
        shutil.rmtree(self.memory)
        self.memory.mkdir()
        back = bytearray(300_000)
        with self.open(durable=self.ssd) as job:
            job.protect("a", back)
            restored = job.restart()
        assert restored is not None
        self.assertIn("from the SSD", restored.report[0])
        self.assertEqual(back, b"z" * 300_000)

    def test_a_failed_save_warns_and_the_program_goes_on(self) -> None:
        job = self.open()
        buffer = bytearray(b"1" * 100_000)
        job.protect("a", buffer)
        job.route_file("log").write_text("one")
        self.assertTrue(job.save())
        job.route_file("missing")  # Nobody writes it, so the next checkpoint would be no use.
        buffer[:] = b"2" * 100_000
        with self.assertWarnsRegex(surefoot.SaveFailed, "missing") as warned:
            saved = job.save()
        self.assertEqual(warned.filename, __file__)
        self.assertFalse(saved)
        self.assertIsInstance(saved.error, surefoot.StorageError)
        with self.assertRaisesRegex(surefoot.StorageError, "missing") as caught:
            job.save(strict=True)
        self.assertEqual(caught.exception.status, -3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(surefoot.SaveFailed):
                job.save_state({"a": 1})
        job.state_dict(None)
        restored = job.restart()
        assert restored is not None
        self.assertEqual((restored.generation, bytes(buffer)), (1, b"1" * 100_000))

    def test_a_with_block_whose_end_makes_nothing_durable_warns_and_the_program_goes_on(self) -> None:
        def saves_and_loses_its_drive(**settings: object) -> None:
            with self.open(durable=self.ssd, **settings) as job:
                job.save_state({"a": bytearray(b"1" * 100_000)})
                shutil.rmtree(self.ssd)

        words = "the newest checkpoint is not durable: .*ssd"
        with self.assertWarnsRegex(surefoot.SaveFailed, words) as warned:
            saves_and_loses_its_drive()
        self.assertEqual(warned.filename, __file__)
        self.ssd.mkdir()
        with self.assertRaisesRegex(surefoot.StorageError, "ssd"):
            saves_and_loses_its_drive(strict=True)
        self.ssd.mkdir()
        with self.open() as job:
            self.assertEqual(job.load_state(), {"a": bytearray(b"1" * 100_000)})
        # A block that an exception leaves says that one, and no other.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(ZeroDivisionError):
                with self.open(durable=self.ssd) as job:
                    job.save_state({"a": 1})
                    shutil.rmtree(self.ssd)
                    raise ZeroDivisionError

    def test_files_come_and_go_with_the_checkpoints(self) -> None:
        job = self.open()
        path = job.route_file("log.txt")
        path.write_text("one")
        job.save()
        path.write_text("two")
        self.assertIsNotNone(job.restart())
        self.assertEqual(path.read_text(), "one")
        with self.assertRaises(surefoot.OptionError):
            job.route_file("a/b")

    def test_damage_beyond_repair_is_an_error_or_an_older_one_and_never_wrong_data(self) -> None:
        buffer = bytearray(os.urandom(300_000))
        with self.open() as job:
            job.protect("a", buffer)
            job.save()
        images = list(self.memory.rglob("*.img")) or [
            path for path in self.memory.rglob("*") if path.is_file() and path.stat().st_size > 100_000
        ]
        self.assertTrue(images)
        kept = bytes(buffer)
        with open(images[0], "r+b") as image:  # A few bytes are repaired.
            image.seek(150_000)
            image.write(b"damage!!")
        with self.open() as job:
            job.protect("a", buffer)
            buffer[:] = bytes(300_000)
            restored = job.restart()
            assert restored is not None
            self.assertEqual(bytes(buffer), kept)
            self.assertRegex(restored.report[0], "1 repaired")
        for image_path in images:
            with open(image_path, "r+b") as image:
                image.write(b"\xff" * image_path.stat().st_size)
        with self.open() as job:
            job.protect("a", buffer)
            with self.assertRaises(surefoot.NothingIntactError) as caught:
                job.restart()
            self.assertEqual(caught.exception.status, -7)

    def test_a_job_ends_durable_completed_or_without_a_trace(self) -> None:
        buffer = bytearray(b"k" * 100_000)
        with self.open() as job:
            job.protect("a", buffer)
            job.save()
            self.assertRegex(job.finish()[0], "in memory only")
            with self.assertRaisesRegex(surefoot.ArgumentError, "memory, both, durable"):
                job.save(to="elsewhere")
            with self.assertRaisesRegex(surefoot.OptionError, "no durable tier"):
                job.save(to="durable")
        with self.open(durable=self.ssd, sigterm="checkpoint") as job:
            job.protect("a", buffer)
            self.assertEqual((job.save(to="durable").place, job.save().place), ("durable", "memory"))
            self.assertEqual(job.save("durable").place, "durable")
            self.assertEqual(job.save_state({"step": 1}, "durable").place, "durable")
            for wrong in [lambda: job.save(True), lambda: job.save(strict="durable"), lambda: job.save_state({}, True)]:  # type: ignore[arg-type]
                with self.assertRaises(surefoot.ArgumentError):
                    wrong()
            self.assertFalse(job.told_to_end)
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertTrue(job.need())
            self.assertTrue(job.told_to_end)
            self.assertEqual(job.save().place, "both")
            self.assertRegex(job.notices()[-1], "is durable")
            self.assertRegex(job.complete()[0], "is on the SSD")
        with self.open(durable=self.ssd) as job:
            job.protect("a", buffer)
            self.assertIsNone(job.restart())
        with self.open(durable=self.ssd, after_completion="continue") as job:
            job.protect("a", buffer)
            self.assertEqual(job.restart().generation, 6)
            job.close(discard=True)
            self.assertTrue(job.closed)
        self.assertEqual((list(self.ssd.iterdir()), list(self.memory.iterdir())), ([], []))

    def test_a_closed_job_says_so(self) -> None:
        job = self.open()
        job.close()
        calls = [job.need, job.save, job.restart, job.scrub, job.finish, job.notices, job.load_state, job.__enter__]
        for call in calls:
            with self.assertRaisesRegex(surefoot.ArgumentError, "closed"):
                call()
        with self.assertRaisesRegex(surefoot.ArgumentError, "closed"):
            job.protect("a", bytearray(1))
        for copied in (copy.copy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "cannot be copied"):
                copied(self.open("other" + copied.__name__))

    def test_a_forked_child_does_not_touch_its_parents_job(self) -> None:
        job = self.open()
        job.protect("a", bytearray(b"a" * 1000))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                job.save()
            except surefoot.ArgumentError as error:
                code = 0 if "forked" in str(error) else 2
            job.close()
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertTrue(job.save())
        self.assertIsNotNone(job.restart())

    def test_every_status_has_an_exception_and_a_new_one_keeps_its_number(self) -> None:
        for status in range(-10, 0):
            error = _errors.error_of(status, "words")
            self.assertEqual((error.status, str(error)), (status, "words"))
            self.assertIsNot(type(error), surefoot.SurefootError)
        self.assertEqual(_errors.error_of(-99, "new").status, -99)

    def test_the_statuses_and_places_are_those_of_the_header(self) -> None:
        header = (ROOT.parent / "c" / "surefoot_checkpoint.h").read_text()
        kinds = dict(re.findall(r"SUREFOOT_STATUS_(\w+) = (-?\d+)", header))
        self.assertGreater(len(kinds), 10)
        for name, number in kinds.items():
            if int(number) < 0:
                expected = name.replace("_", "").lower() + "error"
                self.assertEqual(type(_errors.error_of(int(number), "")).__name__.lower(), expected)
        places = re.findall(r"SUREFOOT_PLACE_(\w+) = (\d)", header)
        named = [name.lower().replace("skipped", "nowhere") for name, _ in places]
        self.assertEqual(tuple(named), _told.PLACES)

    def test_a_library_that_is_not_there_or_is_another_one_is_named(self) -> None:
        program = (
            "import os, surefoot\ntry: surefoot.Checkpoint('a')\nexcept surefoot.LibraryError as error: print(error)"
        )
        for path, why in [("/nowhere/libsurefoot.so", "cannot be loaded"), ("libc.so.6", "has no function surefoot_")]:
            said = self.run_program(f"import os; os.environ['SUREFOOT_LIBRARY'] = {path!r}\n" + program)
            self.assertIn(why, said)
            self.assertIn(path, said)
        other = "from surefoot import _library\n_library.VERSION = '9.1.0'\n"
        self.assertIn("and this package 9.1.0: install the two together", self.run_program(other + program))
        self.assertNotIn("numpy", self.run_program("import sys, surefoot; print(*sys.modules)").split())

    def test_what_the_program_does_not_say_a_variable_says(self) -> None:
        variable = f"import os\nos.environ['SUREFOOT_CHECKPOINT_MEMORY'] = {str(self.memory)!r}\n"
        program = variable + (
            "import sys, surefoot\nwith surefoot.Checkpoint('job', policy='memory', **eval(sys.argv[1])) as job:\n"
            "    job.protect('state', bytearray(100))\n    print(job.save().place)"
        )
        self.assertEqual(self.run_program(program, "{}").split(), ["memory"])
        self.assertTrue((self.memory / "job").is_dir())
        other = self.home / "other"
        other.mkdir()
        self.run_program(program, {"memory": str(other)})
        self.assertTrue((other / "job").is_dir())
