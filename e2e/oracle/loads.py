# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loads that are recorded, each of programs that end with it."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from ring import NotHere


class Load:
    """Processes that run while the recording does."""

    def __init__(self, actor, truth, seconds):
        self.actor, self.truth, self.seconds, self.running = actor, truth, seconds, []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="oracle-load-")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        time.sleep(0.3)
        return self

    def __exit__(self, *_):
        for process in self.running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder)

    def run(self, program, words, *more, before=()):
        command = [*before, program, *words.split(), *more]
        # Ended by itself should this program be killed.
        command = ["timeout", "-s", "KILL", str(self.seconds + 30), *command]
        self.running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True))
        return self.running[-1]

    def start(self):
        raise NotImplementedError


class Quiet(Load):
    """Nothing but what the host does anyway."""

    def start(self):
        pass


class Mixed(Load):
    """Shootdowns, called functions, wake-ups and datagrams that nest in each other, writes, a real-time task, naps."""

    def start(self):
        pauses = 20
        self.run(self.truth, "20000 300 1 0")
        self.run(self.truth, "20000 700 0 1")
        self.run(self.actor, "talks udp 1 90000000")
        self.run(self.actor, f"naps nap 0 {(self.seconds + 9) * 1000}")
        self.run(self.actor, f"stalls stall 1 {pauses * (self.seconds + 9)} 1500 {1000 // pauses}")
        self.run(self.actor, f"writes disk {self.folder}/blocks 1000000")


class Throttled(Load):
    """Two spinning tasks whose cgroup may use a fifth of a core, beside one that is free."""

    group = None

    def start(self):
        self.group = next((folder for folder in map(Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup"))
                           if (folder / "cpu.cfs_quota_us").exists() or (folder / "cgroup.controllers").exists()), None)
        if self.group is None:
            raise NotHere("no cgroup whose processor time can be limited")
        self.group /= f"oracle-{os.getpid()}"
        self.group.mkdir()
        try:
            if (self.group / "cpu.max").exists():
                (self.group / "cpu.max").write_text("20000 100000")
            else:
                (self.group / "cpu.cfs_quota_us").write_text("20000")
        except OSError as error:
            raise NotHere(f"a quota of processor time: {error}") from error
        enter = ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs; exec "$0" "$@"']
        for name in ("throttled-a", "throttled-b"):
            self.run(self.actor, f"{name} spin 1 {(self.seconds + 9) * 1000}", before=enter)
        self.run(self.actor, f"free nap 1 {(self.seconds + 9) * 1000}")

    def __exit__(self, *_):
        super().__exit__()
        if self.group and self.group.exists():
            for _ in range(50):
                if not (self.group / "cgroup.procs").read_text():
                    break
                time.sleep(0.1)
            self.group.rmdir()


class RealTime(Load):
    """A SCHED_FIFO and a SCHED_DEADLINE task take their turns before ordinary ones."""

    def start(self):
        milliseconds = (self.seconds + 9) * 1000
        self.run(self.actor, f"ordinary spin 1 {milliseconds}")
        self.run(self.actor, f"fifo stall 1 {20 * (self.seconds + 9)} 3000 47")
        deadline = ["chrt", "-d", "--sched-runtime", "3000000", "--sched-deadline", "20000000", "--sched-period", "20000000", "0"]
        self.run("sh", "-c", "while :; do :; done", before=deadline)


class Crowd(Load):
    """A thousand threads that work a little and sleep."""

    def start(self):
        source = Path(__file__).with_name("crowd.c")
        program = f"{self.folder}/crowd"
        subprocess.run(["cc", "-O2", "-pthread", str(source), "-o", program], check=True)
        self.run(program, "1000")


class Stopped(Load):
    """A spinning task that is suspended and resumed, beside one that naps."""

    def start(self):
        self.run(self.actor, f"naps nap 1 {(self.seconds + 9) * 1000}")
        spinner = self.run(self.actor, f"spins spin 1 {(self.seconds + 9) * 1000}")
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.suspend, args=(spinner.pid,))
        self.thread.start()

    def suspend(self, group):
        while not self.ends.wait(0.07):
            os.killpg(group, signal.SIGSTOP)
            self.ends.wait(0.03)
            os.killpg(group, signal.SIGCONT)

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()
        super().__exit__()


class Offline(Mixed):
    """Core 1 goes offline for a second, under the mixed load."""

    thread = None

    SWITCH = Path("/sys/devices/system/cpu/cpu1/online")

    def start(self):
        if not self.SWITCH.exists():
            raise NotHere("core 1 cannot be switched off")
        super().start()
        self.thread = threading.Thread(target=self.switch)
        self.thread.start()

    def switch(self):
        time.sleep(self.seconds / 2)
        try:
            self.SWITCH.write_text("0")
            time.sleep(1)
        finally:
            while self.SWITCH.read_text().strip() != "1":
                try:
                    self.SWITCH.write_text("1")
                except OSError:
                    time.sleep(0.2)

    def __exit__(self, *_):
        if self.thread:
            self.thread.join()
        super().__exit__()


CASES = {"quiet": Quiet, "mixed": Mixed, "throttled": Throttled, "realtime": RealTime, "crowd": Crowd, "stopped": Stopped,
         "offline": Offline}
