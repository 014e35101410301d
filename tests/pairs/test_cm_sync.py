#!/usr/bin/python3
"""The pair that uses librdmacm's synchronous calls, rdma_cm_client and rdma_cm_server."""

import os
import random
import shutil
import signal
import unittest

import pairs
from pairs import FullPipe, PairTest

CLIENT = "rdma_cm_client"
SERVER = "rdma_cm_server"

IN_GUEST = "RXE_VM" in os.environ
DEVICE, ADDRESS = ("rxe0", "10.77.0.1") if IN_GUEST else ("uroce_lo", "127.0.0.1")
# Below those that the system gives to clients.
PORT = str(random.randrange(10000, 32768))

LONGEST = "h" + 127 * "é"  # 255 bytes


class SyncTest(PairTest):
    def start_server(self, *arguments, **options):
        server = self.start(SERVER, "-lp", PORT, *arguments, **options)
        server.wait_for("waiting for rdma_cm_client")
        return server

    def start_client(self, *arguments, address=ADDRESS, **options):
        return self.start(CLIENT, "-sa", address, "-lp", PORT, *arguments, **options)

    def assert_exchanged(self, server, client, printed):
        client.finish(0)
        server.finish(0)
        self.assertEqual(server.results(), [f"Received: {printed}"])
        self.assertEqual(
            client.results(), [f"Sending: {printed}", f"Answered by the server: {printed}"]
        )
        for peer in (server, client):
            self.assertEqual(peer.errors(), [])
            self.assert_printable(peer)


class Texts(SyncTest):
    """What is sent comes back."""

    def test_texts(self):
        texts = {
            "": "",
            "x": "x",
            LONGEST: LONGEST,
            "a\x1b[2Jb\nc\t\u202e\x7f\\é": "a\\x1b[2Jb\\nc\\t\\xe2\\x80\\xae\\x7f\\é",
            "caf\udce9": "caf\\xe9",
        }
        for text, printed in texts.items():
            with self.subTest(text=text):
                server = self.start_server()
                self.assert_exchanged(server, self.start_client("-s", text), printed)

    def test_default_text(self):
        self.assert_exchanged(self.start_server(), self.start_client(), "Hi RDMA!")

    def test_types_of_address(self):
        for kind, address in (("IPv4", ADDRESS), ("GID", f"::ffff:{ADDRESS}")):
            with self.subTest(kind=kind):
                server = self.start_server()
                client = self.start_client("-sat", kind, address=address)
                self.assert_exchanged(server, client, "Hi RDMA!")

    @unittest.skipUnless(IN_GUEST, "the guest has a known IPv6 address")
    def test_ipv6(self):
        server = self.start_server()
        client = self.start_client("-sat", "IPv6", address="fe80::5054:ff:fe77:1%eth0")
        self.assert_exchanged(server, client, "Hi RDMA!")

    def test_one_server_after_the_other(self):
        for _ in range(5):
            self.assert_exchanged(self.start_server(), self.start_client(), "Hi RDMA!")


class Failures(SyncTest):
    def test_no_server(self):
        client = self.start_client()
        self.assert_one_error(client, "Connection refused: no program listens there", 1)

    @unittest.skipUnless(IN_GUEST, "the guest has no default route")
    def test_address_that_no_device_reaches(self):
        client = self.start_client(address="192.0.2.9")
        self.assert_one_error(client, "rdma_create_ep(192.0.2.9 port " + PORT + ") failed", 1)

    def test_port_in_use(self):
        self.start_server()
        second = self.start(SERVER, "-lp", PORT)
        self.assert_one_error(second, "another program listens there", 1)

    def test_results_that_cannot_be_printed(self):
        for side in (SERVER, CLIENT):
            with self.subTest(side=side), open("/dev/full", "w", encoding="utf-8") as full:
                server = self.start_server(**({"stdout": full} if side == SERVER else {}))
                client = self.start_client(**({"stdout": full} if side == CLIENT else {}))
                one, other = (server, client) if side == SERVER else (client, server)
                self.assert_one_error(one, "printing the text failed: No space left", 1)
                self.assert_one_error(other, "receive failed: the peer has ended", 1)

    def test_server_of_another_pair(self):
        server = self.start("rdma_receive", "-cm", "-d", DEVICE, "-lp", PORT)
        server.wait_for("waiting for 1 connection")
        client = self.start_client()
        self.assert_one_error(client, "Connection refused: not a program of this suite", 1)

    def test_client_of_another_pair(self):
        server = self.start_server()
        client = self.start("rdma_send", "-cm", "-sa", ADDRESS, "-lp", PORT)
        client.finish(1)
        self.assert_one_error(server, "receive failed: the peer has ended the connection", 1)


class Killed(SyncTest):
    """The peer is killed; where it stands then, a full pipe says."""

    def kill(self, peer):
        peer.signal(signal.SIGKILL)
        peer.finish(-signal.SIGKILL)

    def test_client_before_it_sends(self):
        server = self.start_server()
        client = self.start_client(stdout=FullPipe(self).writer)
        server.wait_for("connected with")
        self.kill(client)
        self.assert_one_error(server, "receive failed: the peer has ended the connection", 1)
        self.assertEqual(server.results(), [])

    def test_server_before_it_answers(self):
        server = self.start_server(stdout=FullPipe(self).writer)
        client = self.start_client()
        client.wait_for("waiting for the answer")
        self.kill(server)
        self.assert_one_error(client, "receive failed: the peer has ended the connection", 1)

    def test_server_that_has_not_accepted(self):
        server = self.start_server()
        server.signal(signal.SIGSTOP)
        client = self.start_client()
        client.wait_for("connecting with")
        self.kill(server)
        self.assert_one_error(client, "rdma_connect(", 1)


class Signals(SyncTest):
    def test_a_server_that_waits_is_ended(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.start_server()
            server.signal(number)
            server.finish(-number)
            self.assertEqual(server.errors(), [])


class Options(SyncTest):
    def test_client_must_be_told_where_the_server_is(self):
        self.assert_one_error(
            self.start(CLIENT), "--server-addr is missing: where is rdma_cm_server?", 2
        )

    def test_options_of_the_object_model_are_refused(self):
        options = (
            ("--json",),
            ("--timeout", "3"),
            ("-d", "rxe0"),
            ("-g", "0"),
            ("-tt", "RC"),
            ("-cm",),
            ("-nc", "2"),
            ("-ld", "file"),
            ("-re", "file"),
        )
        for option in options:
            for program in (CLIENT, SERVER):
                with self.subTest(program=program, option=option[0]):
                    peer = self.start(program, *option)
                    self.assert_one_error(peer, f"{program} does not take this option", 2)

    def test_options_of_the_client_are_refused_by_the_server(self):
        for option in (("-sa", ADDRESS), ("-sat", "IPv4"), ("-s", "text")):
            with self.subTest(option=option[0]):
                peer = self.start(SERVER, *option)
                self.assert_one_error(peer, "rdma_cm_server does not take this option", 2)

    def test_bad_values_are_refused(self):
        values = {
            ("-lp", "0"): "must be a number from 1 to 65535",
            ("-sat", "IPX"): "must be IPv4, IPv6 or GID",
            ("-s", LONGEST + "x"): "the text has 256 bytes, but at most 255",
        }
        for option, message in values.items():
            with self.subTest(option=option):
                self.assert_one_error(self.start(CLIENT, "-sa", ADDRESS, *option), message, 2)

    def test_text_that_is_no_address(self):
        client = self.start_client("-sat", "IPv4", address="::1")
        self.assert_one_error(client, '"::1" is no IPv4 address', 1)

    def test_help_lists_what_each_takes(self):
        for program, there, missing in (
            (CLIENT, ("--server-addr ", "--listen-port", "--send-string"), ("--json", "--timeout")),
            (SERVER, ("--listen-port", "--log-level"), ("--server-addr", "--device", "--json")),
        ):
            peer = self.start(program, "--help")
            peer.finish(0)
            for option in there:
                self.assertTrue(peer.said(option, "out"), option)
            for option in missing:
                self.assertFalse(peer.said(option, "out"), option)


@unittest.skipUnless(IN_GUEST, "they use the kernel's connection manager")
@unittest.skipUnless(shutil.which("rdma_client"), "rdmacm-utils is not installed")
class OtherPrograms(SyncTest):
    """The examples of rdmacm-utils exchange 16 zeros in the same way."""

    ZEROS = 16 * "\\x00"

    def test_other_client(self):
        server = self.start_server()
        client = self.start(shutil.which("rdma_client"), "-s", ADDRESS, "-p", PORT)
        client.finish(0)
        server.finish(0)
        self.assertEqual(server.results(), [f"Received: {self.ZEROS}"])

    def test_other_server(self):
        server = self.start(shutil.which("rdma_server"), "-p", PORT)
        # It says nothing before its end, so the client asks until it listens.
        while (client := self.start_client("-s", "0123456789abcdef")).finish() != 0:
            self.assertTrue(client.said("no program listens there"), client.output())
        self.assertEqual(client.results()[-1], f"Answered by the server: {self.ZEROS}")
        server.finish(0)


if __name__ == "__main__":
    pairs.main()
