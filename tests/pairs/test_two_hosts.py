#!/usr/bin/python3
"""The pairs between two virtual machines; the test carries the descriptors from one to the other.

Runs outside of the machines: each has a writable folder of its own, which this side sees too.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

import pairs

RUN = os.path.join(pairs.ROOT, "tests", "rxe_vm", "run.sh")
MACHINE_PATIENCE = 120


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="two_hosts.")
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = {host: os.path.join(self.folder, host) for host in "ab"}
        for path in self.out.values():
            os.mkdir(path)

    def shell(self, host, program, *arguments, local, remote, resource):
        """A command that runs the program on the host until it ends or the file "end" appears."""
        folder = self.out[host]
        command = [
            os.path.join(pairs.BUILD, program, program),
            *arguments,
            "--timeout",
            "60",
            "-ld",
            f"{folder}/{local}",
            "-re",
            f"{folder}/{remote}",
            "-m",
            f"{folder}/{resource}",
        ]
        return (
            f"{shlex.join(command)} & pid=$!\n"
            f"while kill -0 $pid 2>/dev/null && ! [ -e {folder}/end ]; do sleep 0.1; done\n"
            f"kill -TERM $pid 2>/dev/null; wait $pid; echo $? >{folder}/status\n"
        )

    def carry(self, name, source, target, machines):
        """Copies a file from one host's folder to the other's, as soon as it is there."""
        path = os.path.join(self.out[source], name)
        while not os.path.exists(path):
            if machines.poll() is not None:
                self.fail(f"{name} was never written:\n{machines.stdout.read()}")
            time.sleep(0.05)
        shutil.copy(path, os.path.join(self.out[target], name))

    def status(self, host, machines):
        path = os.path.join(self.out[host], "status")
        while not (os.path.exists(path) and os.path.getsize(path)):
            if machines.poll() is not None:
                self.fail(f"no status of host {host}:\n{machines.stdout.read()}")
            time.sleep(0.05)
        with open(path, encoding="utf-8") as file:
            return int(file.read())

    def test_read_pair(self):
        text = "from hóst a"
        names = {"resource": "responder.mmap"}
        a = self.shell(
            "a",
            "rdma_read_responder",
            "-r",
            text,
            local="responder.conn",
            remote="requester.conn",
            **names,
        )
        b = self.shell(
            "b", "rdma_read_requester", local="requester.conn", remote="responder.conn", **names
        )
        with subprocess.Popen(
            [
                RUN,
                "--two",
                "--timeout",
                str(MACHINE_PATIENCE),
                "--out-a",
                self.out["a"],
                "--out-b",
                self.out["b"],
                "--a",
                a,
                "--b",
                b,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as machines:
            try:
                self.carry("requester.conn", "b", "a", machines)
                self.carry("responder.conn", "a", "b", machines)
                self.carry("responder.mmap", "a", "b", machines)
                self.assertEqual(self.status("b", machines), 0)
            finally:
                with open(os.path.join(self.out["a"], "end"), "w", encoding="utf-8"):
                    pass
                output, _ = machines.communicate(timeout=2 * MACHINE_PATIENCE)
        self.assertIn("b: Read from the responder: " + text, output)
        with open(os.path.join(self.out["a"], "status"), encoding="utf-8") as file:
            self.assertEqual(int(file.read()), 128 + 15, output)


if __name__ == "__main__":
    pairs.main()
