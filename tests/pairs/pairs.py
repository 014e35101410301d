"""Runs the suite's programs as a user would, and looks at what they print.

A test starts peers, waits for lines (never for a time), writes to their standard input, sends
signals, and compares exit statuses. Each test has a folder of its own as XDG_RUNTIME_DIR. BUILD
names the build folder.
"""

import json
import os
import pty
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build")))

# How the list of devices begins: in the virtual machine with the kernel's, which is the best.
DEVICES = "rxe0" if "RXE_VM" in os.environ else "uroce_"

# Nothing here takes so long, not even on an emulated machine under a sanitizer: it ends a test that
# hangs.
PATIENCE = 90


class Peer:
    """One running program, whose output is kept. Its input is a pipe, a terminal or nothing."""

    def __init__(self, test, program, *arguments, stdin="pipe", prefix=(), **popen):
        self.test = test
        self.name = program
        self.lines = {"out": [], "err": []}
        self.news = queue.Queue()
        self.terminal = None
        path = program if os.path.isabs(program) else os.path.join(BUILD, program, program)
        command = [*prefix, path, *arguments]
        child_stdin = {"pipe": subprocess.PIPE, "null": subprocess.DEVNULL}.get(stdin, stdin)
        if stdin == "terminal":
            self.terminal, child_stdin = pty.openpty()
            # The terminal becomes the program's own, so that the program is in its foreground.
            popen["preexec_fn"] = self._take_terminal
        self.process = subprocess.Popen(
            command,
            stdin=child_stdin,
            stderr=subprocess.PIPE,
            env=test.environment,
            **{"stdout": subprocess.PIPE, **popen},
        )
        if stdin == "terminal":
            os.close(child_stdin)
        self.readers = [
            threading.Thread(target=self._read, args=(stream, key), daemon=True)
            for stream, key in ((self.process.stdout, "out"), (self.process.stderr, "err"))
            if stream
        ]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _take_terminal():
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def _read(self, stream, key):
        for line in stream:
            self.lines[key].append(line.decode("utf-8", "surrogateescape").rstrip("\n"))
            self.news.put(None)
        self.news.put(None)

    def said(self, text, where="err"):
        return any(text in line for line in self.lines[where])

    def wait_for(self, text, where="err"):
        """Waits until a line with the text was printed."""
        while not self.said(text, where):
            if self.process.poll() is not None and not any(r.is_alive() for r in self.readers):
                break
            try:
                self.news.get(timeout=PATIENCE)
            except queue.Empty:
                break
        if not self.said(text, where):
            self.test.fail(f'{self.name} did not print "{text}" but:\n{self.output()}')

    def descriptors(self, count):
        """The first count descriptor lines that it prints."""
        while len(lines := [l for l in self.lines["out"] if l.startswith("rdma1 ")]) < count:
            if self.process.poll() is not None and not any(r.is_alive() for r in self.readers):
                self.test.fail(f"{self.name} printed no descriptors but:\n{self.output()}")
            try:
                self.news.get(timeout=PATIENCE)
            except queue.Empty:
                self.test.fail(f"{self.name} hangs:\n{self.output()}")
        return lines[:count]

    def write(self, text):
        data = text.encode("utf-8", "surrogateescape")
        if self.terminal is not None:
            os.write(self.terminal, data)
        else:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def close_stdin(self):
        self.process.stdin.close()

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, status=None):
        """Waits for the end; checks the exit status if one is given (negative: a signal's)."""
        try:
            found = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.test.fail(f"{self.name} does not end:\n{self.output()}")
        for reader in self.readers:
            reader.join(PATIENCE)
        if status is not None:
            self.test.assertEqual(
                found, status, f"exit status of {self.name}, which printed:\n{self.output()}"
            )
        return found

    def errors(self):
        return [line for line in self.lines["err"] if ": error: " in line]

    def output(self):
        return "".join(f"  {key}: {line}\n" for key in ("out", "err") for line in self.lines[key])

    def clean_up(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        if self.terminal is not None:
            os.close(self.terminal)


class PairTest(unittest.TestCase):
    """A test with a folder of its own, whose programs are gone at its end."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pairs.")
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.folder)

    def start(self, program, *arguments, **options):
        peer = Peer(self, program, *arguments, **options)
        self.addCleanup(peer.clean_up)
        return peer

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_file(self, name, text):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def assert_one_error(self, peer, text, status):
        """It ends with one error line that has the text, and with the status."""
        peer.finish(status)
        self.assertEqual(len(peer.errors()), 1, f"one error line wanted:\n{peer.output()}")
        self.assertIn(text, peer.errors()[0])

    def assert_no_files(self):
        self.assertEqual(os.listdir(self.folder), [])


def result_of(peer):
    """The object that a program started with --json printed."""
    return json.loads("\n".join(peer.lines["out"]))


class CountingResult(unittest.TextTestResult):
    """Counts what passed, too."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        CountingResult.passed += 1


def main():
    program = unittest.main(
        module="__main__",
        exit=False,
        verbosity=2,
        testRunner=unittest.TextTestRunner(
            resultclass=CountingResult, stream=sys.stderr, verbosity=2
        ),
    )
    failed = len(program.result.failures) + len(program.result.errors)
    skipped = len(program.result.skipped)
    print(f"{CountingResult.passed} passed, {failed} failed, {skipped} skipped", flush=True)
    sys.exit(1 if failed or program.result.testsRun == 0 else 0)
