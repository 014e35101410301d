#!/usr/bin/python3
"""All pairs between two virtual machines: with descriptors, which the test carries from one to the
other, and by address, either side as the server.

Runs outside of the machines: each has a writable folder of its own, which this side sees too. There
each run of a pair has a folder, where its program runs; the runs come one after the other.
"""

import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import pairs
from pairs import PAIRS, SIDES, Pair, other_side

RUN = os.path.join(pairs.ROOT, "tests", "rxe_vm", "run.sh")
MACHINE_PATIENCE = 400
TEXT = "from the other hóst"

HOSTS = {"responder": "a", "requester": "b"}
ADDRESSES = {"responder": "10.77.0.1", "requester": "10.77.0.2"}

# What a host does with a program: runs it in a folder, once the file "go" is there, until it ends or the
# file "end" appears.
RUN_IN_FOLDER = """
run()
{
	cd "$1" || exit
	shift
	while ! [ -e go ]; do sleep 0.1; done
	"$@" >out 2>err &
	while kill -0 $! 2>/dev/null && ! [ -e end ]; do sleep 0.1; done
	kill -TERM $! 2>/dev/null
	wait $!
	echo $? >status
}
"""


@dataclasses.dataclass(frozen=True)
class Visit:
    """A run of a pair: by the address of the server, or (None) with descriptors."""

    pair: Pair
    server: str = None

    @property
    def name(self):
        return self.pair.name + (f"-{self.server}" if self.server else "")

    @property
    def connections(self):
        """A client has one."""
        return 1 if self.server else None

    def arguments(self, side):
        arguments = self.pair.arguments(side, text=TEXT, connections=self.connections)
        return [*arguments, "--timeout", "60", *self.ways(side)]

    def ways(self, side):
        """How it is connected."""
        if self.server == side:
            return ["-cm"]
        if self.server:
            return ["-cm", "-sa", ADDRESSES[self.server]]
        resource = ["-m", "resource"] if self.pair.resource else []
        return ["-ld", side, "-re", other_side(side), *resource]


VISITS = [Visit(pair, server) for server in (None, *SIDES) for pair in PAIRS]


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="two_hosts.")
        self.addCleanup(shutil.rmtree, self.folder)
        for side in SIDES:
            for visit in VISITS:
                os.makedirs(self.path(side, visit))

    def path(self, side, visit=None, name=""):
        """Of a file of the run in the folder of the side's host."""
        return os.path.join(self.folder, HOSTS[side], visit.name if visit else "", name)

    def content(self, side, visit, name):
        """What is in the file; nothing while it is not there."""
        try:
            with open(self.path(side, visit, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def command(self, side, visit):
        program = visit.pair.program(side)
        command = [os.path.join(pairs.BUILD, program, program), *visit.arguments(side)]
        return shlex.join(["run", self.path(side, visit), *command])

    def script(self, side):
        return RUN_IN_FOLDER + "\n".join(self.command(side, visit) for visit in VISITS)

    def start_machines(self):
        hosts = []
        for side, host in HOSTS.items():
            hosts += [f"--out-{host}", self.path(side), f"--{host}", self.script(side)]
        machines = subprocess.Popen(
            [RUN, "--two", "--timeout", str(MACHINE_PATIENCE), *hosts],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        self.addCleanup(self.end_machines, machines)
        return machines

    @staticmethod
    def end_machines(machines):
        machines.terminate()
        machines.communicate()

    def output(self, visit):
        return "".join(
            f"{side} {name}:\n{self.content(side, visit, name)}"
            for side in SIDES
            for name in ("out", "err")
        )

    def wait_for(self, text, side, visit, name):
        """Waits until the text is in a file; returns what is there."""
        while True:
            # After its end nothing new comes.
            has_ended = self.content(side, visit, "status") != ""
            if text in (content := self.content(side, visit, name)):
                return content
            if has_ended:
                self.fail(f'no "{text}" in {name} of the {side}:\n{self.output(visit)}')
            if self.machines.poll() is not None:
                self.fail(f"the machines ended:\n{self.machines.stdout.read()}")
            time.sleep(0.05)

    def carry(self, name, source, target, visit):
        """Copies a file from one host's folder to the other's, as soon as it is there."""
        self.wait_for("\n", source, visit, name)
        shutil.copy(self.path(source, visit, name), self.path(target, visit, name))

    def put(self, name, side, visit):
        with open(self.path(side, visit, name), "w", encoding="utf-8"):
            pass

    def status(self, side, visit):
        return int(self.wait_for("\n", side, visit, "status"))

    def assert_status(self, side, visit, status=0):
        self.assertEqual(self.status(side, visit), status, self.output(visit))

    def run_with_descriptors(self, visit):
        pair = visit.pair
        for side in SIDES:
            self.put("go", side, visit)
        # The responder connects first, so that nothing is asked for in vain.
        self.carry("requester", "requester", "responder", visit)
        self.wait_for("Starting -> Running", "responder", visit, "err")
        if pair.resource:
            self.carry("resource", "responder", "requester", visit)
        self.carry("responder", "responder", "requester", visit)
        self.assert_status("requester", visit)
        # Nobody can press Enter there, so the signal is the answer.
        if pair.needs_end:
            self.put("end", "responder", visit)
        self.assert_status("responder", visit, 128 + signal.SIGTERM if pair.needs_end else 0)

    def run_by_address(self, visit):
        self.put("go", visit.server, visit)
        self.wait_for("waiting for 1 connection", visit.server, visit, "err")
        self.put("go", other_side(visit.server), visit)
        for side in SIDES:
            self.assert_status(side, visit)

    def assert_printed(self, side, visit):
        lines = self.content(side, visit, "out").splitlines()
        results = [line for line in lines if not line.startswith("rdma1 ")]
        wanted = visit.pair.prints(side, text=TEXT, connections=visit.connections)
        self.assertEqual(sorted(results), sorted(wanted), self.output(visit))

    def test_all_pairs(self):
        self.machines = self.start_machines()
        for visit in VISITS:
            with self.subTest(visit=visit.name):
                try:
                    run = self.run_by_address if visit.server else self.run_with_descriptors
                    run(visit)
                    for side in SIDES:
                        self.assert_printed(side, visit)
                finally:
                    # So that the hosts go on, whatever has happened.
                    for side in SIDES:
                        self.put("go", side, visit)
                        self.put("end", side, visit)
        output, _ = self.machines.communicate(timeout=2 * MACHINE_PATIENCE)
        self.assertEqual(self.machines.returncode, 0, output)


if __name__ == "__main__":
    pairs.main()
