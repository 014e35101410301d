"""The virtual machine with the kernel's rxe, on a tap device, for one test program after the other.

The machine and this side share a folder. A command for the machine is a folder there, with a script
in it; its output and its status come into the same folder. This file run as a program does that with
its arguments, as if they were run here: their output and status become its own, SIGTERM ends them.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "tests", "rxe_vm", "run.sh")

IPV4, IPV6 = "10.77.0.1", "2001:db8:77::1"
DEVICE = "rxe0"
# Of the network: the largest path MTU and all headers fit.
MTU = 5000

# Everything in the machine, and all that the tests do there.
MACHINE_PATIENCE = 1200
POLL = 0.05

# What runs in the machine, in the shared folder, until the file "end" appears. Waiting starts no program:
# that takes an emulated processor longer than the wait.
LOOP = """
exec 9<> <(:)
nap() { read -rt 0.1 -u 9 || :; }

run()
{
	cd "$1" || return
	sh ./begun >out 2>err </dev/null &
	while kill -0 $! 2>/dev/null; do
		[ ! -e end ] || kill -TERM $! 2>/dev/null
		nap
	done
	wait $!
	echo $? >status.new
	mv status.new status
}

cd "$1" || exit
ip link set eth0 mtu "$3" || exit
ip address add "$2/64" dev eth0 nodad || exit
until grep -q ^2001:0db8: /sys/class/infiniband/rxe0/ports/1/gids/2 2>/dev/null; do nap; done
: >ready
until [ -e end ]; do
	for script in */command; do
		[ -e "$script" ] || continue
		mv "$script" "${script%command}begun"
		run "${script%/command}" &
	done
	nap
done
"""


def touch(path):
    with open(path, "w", encoding="ascii"):
        pass


class Machine:
    """Runs from its making until end()."""

    def __init__(self, tap):
        self.folder = tempfile.mkdtemp(prefix="interop.")
        self.log = open(self.path("log"), "w+", encoding="utf-8", errors="replace")
        options = ("--tap", tap, "--timeout", str(MACHINE_PATIENCE), "--out", self.folder)
        # It does not outlive this program, however that ends.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", RUN, *options]
            + ["bash", "-c", LOOP, "bash", self.folder, IPV6, str(MTU)],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def path(self, name):
        return os.path.join(self.folder, name)

    def wait_until_ready(self):
        while not os.path.exists(self.path("ready")):
            if self.process.poll() is not None:
                raise RuntimeError(f"the machine ended:\n{self.output()}")
            time.sleep(POLL)

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def command(self):
        """What stands before a program that is to run there."""
        here = ("setpriv", "--pdeathsig", "KILL", sys.executable)
        return (*here, os.path.abspath(__file__), self.folder)

    def end(self):
        try:
            touch(self.path("end"))
            self.process.wait(60)
            if self.process.returncode != 0:
                raise RuntimeError(f"the machine ended badly:\n{self.output()}")
        finally:
            self.process.terminate()
            self.process.wait()
            self.log.close()
            shutil.rmtree(self.folder)


# ---- A command ----


class Output:
    """A file of the machine that is copied to a file of this program while it grows."""

    def __init__(self, path, to):
        self.path = path
        self.to = to
        self.done = 0

    def copy(self):
        if not os.path.exists(self.path):
            return
        with open(self.path, "rb") as file:
            file.seek(self.done)
            data = file.read()
        self.done += len(data)
        self.to.write(data)
        self.to.flush()


def wait_for_status(job):
    """Copies what the command prints, until it has ended; returns its status."""
    outputs = [
        Output(os.path.join(job, "out"), sys.stdout.buffer),
        Output(os.path.join(job, "err"), sys.stderr.buffer),
    ]
    status = os.path.join(job, "status")
    has_ended = False
    while not has_ended:
        time.sleep(POLL)
        # What is there then is all.
        has_ended = os.path.exists(status)
        for output in outputs:
            output.copy()
    with open(status, encoding="ascii") as file:
        return int(file.read())


def run(folder, command):
    job = tempfile.mkdtemp(prefix="job.", dir=folder)
    signal.signal(signal.SIGTERM, lambda *_: touch(os.path.join(job, "end")))
    script = os.path.join(job, "new")
    with open(script, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"exec {shlex.join(command)}\n")
    os.rename(script, os.path.join(job, "command"))
    status = wait_for_status(job)
    shutil.rmtree(job)
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
