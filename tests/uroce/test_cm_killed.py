#!/usr/bin/python3
"""A peer that is killed, wherever it stands: on one host, and on another one, where nobody is left."""

import os
import signal
import time
import unittest

import programs
from programs import LOOPBACK, ProgramTest

STEPS = os.path.join(programs.pairs.BUILD, "tests", "uroce", "cm_steps")
PORT = "7700"

# Seconds in which the end of a peer that is gone is noticed.
LONG_ENOUGH = 2.5

DISCONNECTED, REJECTED = "RDMA_CM_EVENT_DISCONNECTED 0", "RDMA_CM_EVENT_REJECTED "
REQUEST, RESPONSE = "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE"
ESTABLISHED = "RDMA_CM_EVENT_ESTABLISHED"


class KilledTest(ProgramTest):
    def start_steps(self, side, role):
        return self.start(STEPS, role, self.sides[0].address, PORT, prefix=side.prefix)

    def start_pair(self):
        """A server, and a client that is about to connect."""
        server = self.start_steps(self.sides[0], "listen")
        server.wait_for("listening", "out")
        client = self.start_steps(self.sides[1], "connect")
        client.wait_for("RDMA_CM_EVENT_ROUTE_RESOLVED", "out")
        return server, client

    def ask(self):
        server, client = self.start_pair()
        client.write("connect\n")
        server.wait_for(REQUEST, "out")
        return server, client

    def accept(self):
        server, client = self.ask()
        server.write("accept\n")
        client.wait_for(RESPONSE, "out")
        return server, client

    def establish(self):
        server, client = self.accept()
        client.write("establish\n")
        server.wait_for(ESTABLISHED, "out")
        return server, client

    def kill(self, peer):
        peer.signal(signal.SIGKILL)
        peer.finish(-signal.SIGKILL)

    def assert_ends(self, peer):
        """It is as able as ever."""
        peer.close_stdin()
        peer.finish(0)


class Killed:
    """Once for each pair of sides."""

    def test_client_that_has_asked(self):
        server, client = self.ask()
        self.kill(client)
        server.write("accept\n")
        server.wait_for(REJECTED, "out")
        self.assert_ends(server)

    def test_client_that_has_a_reply(self):
        server, client = self.accept()
        self.kill(client)
        server.wait_for(REJECTED, "out")
        self.assert_ends(server)

    def test_client_that_is_connected(self):
        server, client = self.establish()
        self.kill(client)
        server.wait_for(DISCONNECTED, "out")
        self.assert_ends(server)

    def test_client_that_disconnects(self):
        server, client = self.establish()
        client.write("disconnect\n")
        server.wait_for(DISCONNECTED, "out")
        self.kill(client)
        server.write("disconnect\n")
        server.wait_for("done: disconnect", "out")
        self.assert_ends(server)

    def test_server_that_has_not_accepted(self):
        server, client = self.ask()
        self.kill(server)
        client.wait_for(REJECTED, "out")
        self.assert_ends(client)

    def test_server_that_has_accepted(self):
        server, client = self.accept()
        self.kill(server)
        client.wait_for(REJECTED, "out")
        self.assert_ends(client)

    def test_server_that_is_connected(self):
        server, client = self.establish()
        self.kill(server)
        client.wait_for(DISCONNECTED, "out")
        self.assert_ends(client)

    def test_server_before_it_is_asked(self):
        server, client = self.start_pair()
        self.kill(server)
        client.write("connect\n")
        client.wait_for(REJECTED + "8", "out")
        self.assert_ends(client)

    def test_server_while_clients_connect(self):
        """Some have asked, and nobody has read that; to one it has replied, one is connected."""
        server, client = self.establish()
        asking = [self.start_steps(self.sides[1], "connect") for _ in range(4)]
        server.signal(signal.SIGSTOP)
        for peer in asking:
            peer.write("connect\n")
            peer.wait_for("done: connect", "out")
        self.kill(server)
        client.wait_for(DISCONNECTED, "out")
        for peer in asking:
            peer.wait_for(REJECTED, "out")
        for peer in (client, *asking):
            self.assert_ends(peer)

    def test_who_lives_stays_connected(self):
        """While another process takes over the port; and while it does nothing at all."""
        owner = self.start_steps(self.sides[1], "connect")
        owner.wait_for("RDMA_CM_EVENT_ROUTE_RESOLVED", "out")
        server, client = self.establish()
        self.kill(owner)
        time.sleep(LONG_ENOUGH)
        client.signal(signal.SIGSTOP)
        time.sleep(LONG_ENOUGH)
        client.signal(signal.SIGCONT)
        self.assertFalse(server.said(DISCONNECTED, "out"), server.output())
        self.assertFalse(client.said(DISCONNECTED, "out"), client.output())
        client.write("disconnect\n")
        server.wait_for(DISCONNECTED, "out")
        server.write("disconnect\n")
        client.wait_for(DISCONNECTED, "out")
        for peer in (server, client):
            self.assert_ends(peer)


class OnOneHost(Killed, KilledTest):
    sides = (LOOPBACK, LOOPBACK)


@unittest.skipUnless(os.geteuid() == 0, "only root can make networks")
class OnTwoHosts(Killed, KilledTest):
    def setUp(self):
        super().setUp()
        self.sides = programs.two_networks(self)
        for side in self.sides:
            # What one process passes on to another of the same host goes that way.
            programs.call(*side.prefix, *"ip link set lo up".split())
            # One answer a second is too few for five clients that all ask (see icmp(7)).
            setting = "/proc/sys/net/ipv4/icmp_ratelimit"
            programs.call(*side.prefix, "sh", "-c", f"echo 0 >{setting}")
            self.addCleanup(self.tidy, side)

    def tidy(self, side):
        """Takes away what is left in /dev/shm where the last process was killed."""
        self.launch(side, "ibv_devinfo").finish(0)


if __name__ == "__main__":
    programs.main(processes=5)
