"""Runs the suite's programs as a user would, and looks at what they print.

A test starts peers, waits for lines (never for a time), writes to their standard input, sends
signals, and compares exit statuses. Each test has a folder of its own as XDG_RUNTIME_DIR. BUILD
names the build folder.
"""

import dataclasses
import json
import os
import pty
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build")))

# Stands in for a program and misbehaves: see its source.
STRANGE_PEER = os.path.join(BUILD, "tests", "pairs", "strange_peer")

# How the list of devices begins: in the virtual machine with the kernel's, which is the best.
DEVICES = "rxe0" if "RXE_VM" in os.environ else "uroce_"

# Nothing here takes so long, not even on an emulated machine under a sanitizer: it ends a test that
# hangs.
PATIENCE = 90


SIDES = ("responder", "requester")


def other_side(side):
    return SIDES[1 - SIDES.index(side)]


@dataclasses.dataclass(frozen=True)
class Pair:
    """
    A pair of programs, and what is to be seen of it. The responder is the passive side, the one that
    is there first; rdma_receive, too.
    """

    name: str
    responder: str
    requester: str
    # The lines of their results. {text} is as printed; a line with {connection} is there for each.
    responder_prints: tuple = ()
    requester_prints: tuple = ()
    text_option: str = None  # None: its text is not to be chosen
    text_side: str = "requester"
    has_immediate: bool = False
    needs_end: bool = False  # the responder hears of nothing: somebody must say that it is done
    resource: str = None  # kind of the descriptor that the responder publishes beside its conn
    complaint: str = "no message came"  # of a responder that waits in vain

    @property
    def has_connections(self):
        return any("{connection}" in line for line in self.requester_prints)

    def program(self, side):
        return getattr(self, side)

    def other(self, side):
        """The program that is the peer of this side's."""
        return self.requester if side == "responder" else self.responder

    def kinds(self, side, connections=None):
        """Kinds of the descriptor lines that a side prints, in order."""
        conns = ["conn"] * ((connections or 2) if self.has_connections else 1)
        return conns + ([self.resource] if side == "responder" and self.resource else [])

    def arguments(self, side, text=None, immediate=None, connections=None):
        arguments = []
        if text is not None and self.text_option and side == self.text_side:
            arguments += [self.text_option, text]
        if immediate is not None and self.has_immediate and side == "requester":
            arguments += ["-i", str(immediate)]
        if connections is not None and self.has_connections:
            arguments += ["-nc", str(connections)]
        return arguments

    def prints(self, side, text="Hi RDMA!", immediate=0xD0CA, connections=None):
        """The lines of a side's result, for a person; text is escaped already."""
        lines = []
        number = int(str(immediate), 0)  # it may be as it is given on a command line
        for line in getattr(self, side + "_prints"):
            count = (connections or 2) if "{connection}" in line else 1
            for connection in range(count):
                lines.append(line.format(text=text, immediate=hex(number), connection=connection))
        return lines

    def result(self, side, text="Hi RDMA!", immediate=0xD0CA, connections=None):
        """What a side's JSON object has beyond what all have."""
        found = {"text": None}
        for line in getattr(self, side + "_prints"):
            if "{connection}" in line:
                found["messages"] = [
                    {"connection": i, "text": text} for i in range(connections or 2)
                ]
            elif "{text}" in line:
                found["text"] = text
            elif "{immediate}" in line:
                found["immediate"] = int(str(immediate), 0)
            else:
                found.setdefault("values", []).append(line.rpartition(" ")[2])
        return found


IMMEDIATE = "Immediate value: {immediate}"

PAIRS = (
    Pair(
        "read",
        "rdma_read_responder",
        "rdma_read_requester",
        requester_prints=("Read from the responder: {text}",),
        text_option="-r",
        text_side="responder",
        needs_end=True,
        resource="mmap",
        complaint="nobody said that it has finished",
    ),
    Pair(
        "write",
        "rdma_write_responder",
        "rdma_write_requester",
        responder_prints=("Written by the requester: {text}",),
        requester_prints=("Wrote to the responder: {text}",),
        text_option="-w",
        needs_end=True,
        resource="mmap",
        complaint="nobody said that it has finished",
    ),
    Pair(
        "write_immediate",
        "rdma_write_immediate_responder",
        "rdma_write_immediate_requester",
        responder_prints=("Written by the requester: {text}", IMMEDIATE),
        requester_prints=("Wrote to the responder: {text}", IMMEDIATE),
        text_option="-w",
        has_immediate=True,
        resource="mmap",
    ),
    Pair(
        "send",
        "rdma_receive",
        "rdma_send",
        responder_prints=("Received: {text}",),
        requester_prints=("Sending: {text}",),
        text_option="-s",
    ),
    Pair(
        "send_immediate",
        "rdma_receive_immediate",
        "rdma_send_immediate",
        responder_prints=("Received: {text}", IMMEDIATE),
        requester_prints=("Sending: {text}", IMMEDIATE),
        text_option="-s",
        has_immediate=True,
    ),
    Pair(
        "sync_event",
        "rdma_sync_event_responder",
        "rdma_sync_event_requester",
        responder_prints=(
            "Signalled by the requester: 1",
            "Answered the requester: 2",
            "Ended by the requester: 3",
        ),
        requester_prints=(
            "Set the responder's event to signal it: 1",
            "Got the responder's answer: 2",
            "Set the responder's event to end it: 3",
        ),
        resource="event",
        complaint="the event is 0, not greater than 0",
    ),
    Pair(
        "multi_conn",
        "rdma_multi_conn_receive",
        "rdma_multi_conn_send",
        responder_prints=("Received on connection {connection}: {text}",),
        requester_prints=("Sending on connection {connection}: {text}",),
        text_option="-s",
        complaint="not all of its messages came",
    ),
    Pair(
        "atomic",
        "rdma_atomic_responder",
        "rdma_atomic_requester",
        responder_prints=("Counter at the end: 1000",),
        requester_prints=(
            "Counter before fetch-and-add: 100",
            "Counter before compare-and-swap: 101",
        ),
        needs_end=True,
        resource="mmap",
        complaint="nobody said that it has finished",
    ),
)

PAIR = {pair.name: pair for pair in PAIRS}


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

    def results(self):
        """What it printed for a person, without the descriptors."""
        return [line for line in self.lines["out"] if not line.startswith("rdma1 ")]

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


class FullPipe:
    """A standard output that is full: whoever prints stops there, until it is drained or broken."""

    def __init__(self, test):
        self.reader, self.writer = os.pipe()
        test.addCleanup(self.close)
        os.set_blocking(self.writer, False)
        try:
            while True:
                os.write(self.writer, bytes(65536))
        except BlockingIOError:
            os.set_blocking(self.writer, True)

    def hand_over(self):
        """The program has its end: there is to be no other."""
        os.close(self.writer)
        self.writer = None

    def drain(self):
        """Lets the program go on, and waits for its end; returns the lines that it printed."""
        found = b""
        while chunk := os.read(self.reader, 65536):
            found += chunk
        return found.lstrip(b"\0").decode().splitlines()

    def break_(self):
        """What is printed there now fails."""
        os.close(self.reader)
        self.reader = None

    def close(self):
        for end in (self.reader, self.writer):
            if end is not None:
                os.close(end)


class Run:
    """A run of a pair, with values for Pair.arguments(), whose sides the test starts when it likes."""

    def __init__(self, test, pair, **values):
        self.test = test
        self.pair = pair
        self.values = values
        self.responder = self.requester = None

    def start(self, side, *arguments, **options):
        """Starts a side; returns its peer."""
        given = self.pair.arguments(side, **self.values)
        peer = self.test.start(self.pair.program(side), *given, *arguments, **options)
        setattr(self, side, peer)
        return peer

    def finish(self):
        """Both sides end well."""
        self.requester.finish(0)
        if self.pair.needs_end and self.responder.terminal is None:
            self.responder.close_stdin()
        elif self.pair.needs_end:
            self.responder.wait_for("press Enter")
            self.responder.write("\n")
        self.responder.finish(0)

    def assert_printed(self, **printed):
        """Both have printed the values; one is printed otherwise than given: printed has it."""
        values = {**self.values, **printed}
        for side in SIDES:
            found = getattr(self, side).results()
            self.test.assertEqual(sorted(found), sorted(self.pair.prints(side, **values)), side)

    def assert_results(self):
        """The same of two that were started with --json."""
        for side in SIDES:
            found = result_of(getattr(self, side))
            found.get("messages", []).sort(key=lambda message: message["connection"])
            wanted = {
                "program": self.pair.program(side),
                "status": "RS_OK",
                "message": "success",
                "exit_status": 0,
                **self.pair.result(side, **self.values),
            }
            self.test.assertTrue(found.pop("version") and found.pop("device"))
            self.test.assertEqual(found, wanted)


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

    def start_strange(self, pair, side, *behaviour, options=(), **others):
        """The program of the pair's side, as strange_peer plays it."""
        names = (pair.program(side), pair.other(side))
        return self.start(STRANGE_PEER, *names, *behaviour, "--", *options, **others)

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

    def assert_ended_by(self, peer, number, come_from):
        """A signal has ended it, in order."""
        peer.finish(128 + number)
        self.assertTrue(peer.said(f"{come_from} -> Stopping"), peer.output())
        self.assertTrue(peer.said("Stopping -> Idle"), peer.output())
        self.assertEqual(peer.errors(), [])

    def assert_printable(self, peer):
        """Nothing that it printed could do anything to a terminal."""
        for line in peer.lines["out"] + peer.lines["err"]:
            self.assertTrue(line.isprintable(), repr(line))

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
