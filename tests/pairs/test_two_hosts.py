#!/usr/bin/python3
"""All pairs between two virtual machines; the test carries the descriptors from one to the other.

Runs outside of the machines: each has a writable folder of its own, which this side sees too. There
each pair has a folder, where its program runs; the pairs run one after the other.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import pairs
from pairs import PAIRS, SIDES

RUN = os.path.join(pairs.ROOT, "tests", "rxe_vm", "run.sh")
MACHINE_PATIENCE = 240
TEXT = "from the other hóst"

HOSTS = {"responder": "a", "requester": "b"}

# What a host does with a program: runs it in a folder until it ends or the file "end" appears.
RUN_IN_FOLDER = """
run()
{
	cd "$1" || exit
	shift
	"$@" >out 2>err &
	while kill -0 $! 2>/dev/null && ! [ -e end ]; do sleep 0.1; done
	kill -TERM $! 2>/dev/null
	wait $!
	echo $? >status
}
"""


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="two_hosts.")
        self.addCleanup(shutil.rmtree, self.folder)
        for side in SIDES:
            for pair in PAIRS:
                os.makedirs(self.path(side, pair))

    def path(self, side, pair=None, name=""):
        """Of a file of the pair in the folder of the side's host."""
        return os.path.join(self.folder, HOSTS[side], pair.name if pair else "", name)

    def content(self, side, pair, name):
        """What is in the file; nothing while it is not there."""
        try:
            with open(self.path(side, pair, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def command(self, side, pair):
        program = pair.program(side)
        other = SIDES[1 - SIDES.index(side)]
        command = [os.path.join(pairs.BUILD, program, program), *pair.arguments(side, text=TEXT)]
        command += ["--timeout", "60", "-ld", side, "-re", other]
        command += ["-m", "resource"] if pair.resource else []
        return shlex.join(["run", self.path(side, pair), *command])

    def script(self, side):
        return RUN_IN_FOLDER + "\n".join(self.command(side, pair) for pair in PAIRS)

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

    def output(self, pair):
        return "".join(
            f"{side} {name}:\n{self.content(side, pair, name)}"
            for side in SIDES
            for name in ("out", "err")
        )

    def wait_for(self, text, side, pair, name):
        """Waits until the text is in a file; returns what is there."""
        while True:
            # After its end nothing new comes.
            has_ended = self.content(side, pair, "status") != ""
            if text in (content := self.content(side, pair, name)):
                return content
            if has_ended:
                self.fail(f'no "{text}" in {name} of the {side}:\n{self.output(pair)}')
            if self.machines.poll() is not None:
                self.fail(f"the machines ended:\n{self.machines.stdout.read()}")
            time.sleep(0.05)

    def carry(self, name, source, target, pair):
        """Copies a file from one host's folder to the other's, as soon as it is there."""
        self.wait_for("\n", source, pair, name)
        shutil.copy(self.path(source, pair, name), self.path(target, pair, name))

    def end(self, side, pair):
        with open(self.path(side, pair, "end"), "w", encoding="utf-8"):
            pass

    def status(self, side, pair):
        return int(self.wait_for("\n", side, pair, "status"))

    def run_pair(self, pair):
        # The responder connects first, so that nothing is asked for in vain.
        self.carry("requester", "requester", "responder", pair)
        self.wait_for("Starting -> Running", "responder", pair, "err")
        if pair.resource:
            self.carry("resource", "responder", "requester", pair)
        self.carry("responder", "responder", "requester", pair)
        self.assertEqual(self.status("requester", pair), 0, self.output(pair))
        # Nobody can press Enter there, so the signal is the answer.
        if pair.needs_end:
            self.end("responder", pair)
        status = 128 + signal.SIGTERM if pair.needs_end else 0
        self.assertEqual(self.status("responder", pair), status, self.output(pair))

    def assert_printed(self, side, pair):
        lines = self.content(side, pair, "out").splitlines()
        results = [line for line in lines if not line.startswith("rdma1 ")]
        self.assertEqual(sorted(results), sorted(pair.prints(side, text=TEXT)), self.output(pair))

    def test_all_pairs(self):
        self.machines = self.start_machines()
        for pair in PAIRS:
            with self.subTest(pair=pair.name):
                try:
                    self.run_pair(pair)
                    for side in SIDES:
                        self.assert_printed(side, pair)
                finally:
                    # So that the hosts go on, whatever has happened.
                    for side in SIDES:
                        self.end(side, pair)
        output, _ = self.machines.communicate(timeout=2 * MACHINE_PATIENCE)
        self.assertEqual(self.machines.returncode, 0, output)


if __name__ == "__main__":
    pairs.main()
