"""The two sides that programs of others are compared on, and how a server there is known to be ready.

uroce is in two networks of its own, joined by a cable, so that servers and clients are on two hosts.
rxe is as tests/rxe_vm makes it, with both on one.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "uroce"))

import programs  # noqa: E402
from programs import LISTENING, Side, call, sockets  # noqa: E402
from test_cm_programs import PS_IB, PS_TCP, PS_UDP, UDADDY_PORT, is_served  # noqa: E402, F401


class Uroce:
    name = "uroce"
    patience = 90

    def __init__(self, addCleanup):
        """addCleanup: is given what takes the networks away."""
        self.addCleanup = addCleanup
        self.server, self.client = (
            side.with_settings(UROCE_CM="1") for side in programs.two_networks(self)
        )
        for network in ("a", "b"):
            call("ip", "-n", network, "link", "set", "lo", "up")
        self.values = {
            "device": self.server.device,
            "address": self.server.address,
            "client_address": self.client.address,
            "gid": "0",
            "gid6": "1",
        }

    def before(self, side, *scripts):
        """What stands before a program; scripts show it what only kernel drivers have."""
        return side.with_prefix(*(os.path.join(HERE, script) for script in scripts)).command()

    serves = staticmethod(is_served)


class Rxe:
    name = "rxe"
    patience = 100  # the machine is emulated
    server = client = Side("10.77.0.1", "rxe0")
    values = {
        "device": "rxe0",
        "address": "10.77.0.1",
        "client_address": "10.77.0.1",
        "gid": "1",
        "gid6": "0",
    }

    def __init__(self, addCleanup):
        pass

    def before(self, side, *scripts):
        return ("stdbuf", "-oL")

    def serves(self, space, port, pid):
        found = subprocess.run(
            ["rdma", "resource", "show", "cm_id"], capture_output=True, encoding="utf-8"
        )
        return any(
            "state LISTEN" in line and f":{port} " in line for line in found.stdout.splitlines()
        )


SIDES = {side.name: side for side in (Uroce, Rxe)}


def listens(port, pid):
    """Whether the process's network has a TCP socket that listens there."""
    return any(p == port and state == LISTENING for p, state, _ in sockets("tcp", pid))
