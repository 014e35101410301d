#!/usr/bin/python3
"""All pairs, connected by address. Without -sa a program is the server; either of a pair can be."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import pairs
from pairs import PAIR, PAIRS, SIDES, FullPipe, PairTest, Run, other_side, result_of
from test_pairs import LONGEST, RUNNING, TEXTS, WITH_IMMEDIATE, WITH_TEXT

MULTI = PAIR["multi_conn"]
READ, SEND, SEND_IMMEDIATE = (PAIR[name] for name in ("read", "send", "send_immediate"))

IN_GUEST = "RXE_VM" in os.environ

# What brings other people's programs to the device.
ON_DEVICE = () if IN_GUEST else (os.path.join(pairs.BUILD, "uroce", "uroce-run"),)

# Below those that the system gives to clients, above those that well-known programs have.
PORTS = iter(random.sample(range(20000, 32768), 2000))

# ---- Where servers are ----


@dataclasses.dataclass(frozen=True)
class Place:
    """A device and the addresses of its network interface."""

    device: str
    ipv4: str
    ipv6: tuple
    link_local: tuple

    def ways(self):
        """Addresses, each with its type as it is given; None: it is guessed."""
        gid = "::ffff:" + self.ipv4
        ways = [(self.ipv4, None), (self.ipv4, "IPv4"), (gid, None), (gid, "gid")]
        for address in self.ipv6:
            ways += [(address, None), (address, "ipv6"), (address, "GID")]
        return ways + [(address, None) for address in self.link_local]


def interfaces():
    listing = subprocess.run(["ip", "-json", "address"], check=True, stdout=subprocess.PIPE)
    return [interface for interface in json.loads(listing.stdout) if "UP" in interface["flags"]]


def place_of(interface):
    name = interface["ifname"]
    found = [
        (address["family"], address["scope"] == "link", address["local"])
        for address in interface["addr_info"]
        if "local" in address
    ]
    ipv4 = [text for family, _, text in found if family == "inet"]
    ipv6 = tuple(text for family, is_link, text in found if family == "inet6" and not is_link)
    link_local = tuple(
        f"{text}%{name}" for family, is_link, text in found if family == "inet6" and is_link
    )
    device = pairs.DEVICES if IN_GUEST else pairs.DEVICES + name
    return Place(device, ipv4[0], ipv6[:1], link_local[:1]) if ipv4 else None


# The first is the one that most tests use.
PLACES = []


def add_address(address):
    """In the virtual machine, whose interface has none but a link-local one."""
    subprocess.run(
        ["ip", "address", "replace", f"{address}/64", "dev", "eth0", "nodad"], check=True
    )
    gids = "/sys/class/infiniband/rxe0/ports/1/gids"
    while not any(line.startswith("2001:0db8:0077:") for line in read_all(gids)):
        time.sleep(0.05)


def read_all(folder):
    """The contents of a folder's files, but for those that cannot be read."""
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                yield file.read()
        except OSError:
            pass


def setUpModule():
    if IN_GUEST:
        add_address("2001:db8:77::1")
    for interface in interfaces():
        place = place_of(interface)
        # The kernel's device is on one of them only.
        if place and not (IN_GUEST and interface["ifname"] == "lo"):
            PLACES.append(place)


# ---- Runs ----


class CmTest(PairTest):
    def start_server(self, program, *arguments, port=None, place=None, **options):
        """A server that listens; it has its port as an attribute."""
        port = port or next(PORTS)
        device = (place or PLACES[0]).device
        given = ("-cm", "-lp", str(port), "-d", device, *arguments)
        server = self.start(program, *given, **options)
        server.port = port
        server.wait_for(" connection")
        return server

    def start_client(self, port, program, *arguments, address=None, **options):
        address = address or PLACES[0].ipv4
        given = ("-cm", "-lp", str(port), "-sa", address, *arguments)
        return self.start(program, *given, **options)

    def start_held(self, port, program, *arguments, **options):
        """A client that will stop where it prints; and its output."""
        pipe = FullPipe(self)
        held = self.start_client(port, program, *arguments, stdout=pipe.writer, **options)
        pipe.hand_over()
        return held, pipe

    def connect(self, server, connection, start, *arguments, **options):
        """Starts a client when the one before it has connected, so that its number is known."""
        started = start(server.port, *arguments, **options)
        server.wait_for(f"connection {connection}: with ")
        return started

    def assert_served(self, server):
        """The server, of one connection or the last of them, still serves its own peer."""
        pair, side = next(
            (pair, side) for pair in PAIRS for side in SIDES if pair.program(side) == server.name
        )
        client = self.start_client(server.port, pair.other(side))
        client.finish(0)
        server.finish(0)
        self.assertEqual(server.results(), pair.prints(side, connections=1))


class CmRun(Run):
    """A run whose one side is the server, at an address."""

    def __init__(self, test, pair, server, place=None, address=None, address_type=None, **values):
        super().__init__(test, pair, **{"connections": 1, **values})
        self.server = server
        self.place = place
        self.address = address
        self.type = ("-sat", address_type) if address_type else ()

    def start_server(self, *arguments):
        given = self.pair.arguments(self.server, **self.values)
        peer = self.test.start_server(
            self.pair.program(self.server), *given, *arguments, place=self.place
        )
        setattr(self, self.server, peer)

    def start_client(self, *arguments):
        side = other_side(self.server)
        given = (*self.pair.arguments(side, **self.values), *self.type, *arguments)
        port = getattr(self, self.server).port
        program = self.pair.program(side)
        setattr(self, side, self.test.start_client(port, program, *given, address=self.address))

    def finish(self):
        """Both end by themselves: each hears of the connection's end."""
        for side in SIDES:
            getattr(self, side).finish(0)


class RunTest(CmTest):
    def run_all(self, *arguments, chosen=PAIRS, servers=SIDES, check=Run.assert_printed, **values):
        """Runs of these pairs with each of the sides as server, all at once."""
        runs = [CmRun(self, pair, server, **values) for pair in chosen for server in servers]
        for run in runs:
            run.start_server(*arguments)
        for run in runs:
            run.start_client(*arguments)
        for run in runs:
            with self.subTest(pair=run.pair.name, server=run.server, **values):
                run.finish()
                check(run)
        self.assert_no_files()


class Addresses(RunTest):
    def test_all_ways_to_name_a_server(self):
        ways = [(place, *way) for place in PLACES for way in place.ways()]
        for number, (place, address, address_type) in enumerate(ways):
            self.run_all(
                # How it is named matters to all alike, so each does it once.
                chosen=[READ] if address_type else PAIRS,
                servers=[SIDES[number % 2]],
                place=place,
                address=address,
                address_type=address_type,
            )

    def test_name_of_a_host(self):
        name = "host-a" if IN_GUEST else "localhost"
        self.run_all(chosen=[READ], address=name, address_type="IPv4")

    def test_server_on_the_best_device(self):
        server = self.start(READ.responder, "-cm", "-lp", str(port := next(PORTS)))
        server.wait_for("waiting for 1 connection")
        # It says where it is.
        address = next(line for line in server.lines["err"] if " at " in line).split(" at ")[1]
        client = self.start_client(port, READ.requester, address=address.split(" port ")[0])
        for peer in (client, server):
            peer.finish(0)

    def test_bad_addresses(self):
        for address, address_type, kind in (
            ("nonsense.invalid", None, "address"),
            ("1.2.3.256", None, "address"),
            ("::g", None, "address"),
            ("::1", "IPv4", "IPv4 address"),
            ("127.0.0.1", "IPv6", "IPv6 address"),
            ("127.0.0.1", "GID", "GID"),
            ("localhost", "GID", "GID"),
            ("1.2.3", "GID", "GID"),
            ("fe80::0000:0000:0000:0000:0000:0000:0000:0001", "GID", "GID"),
        ):
            with self.subTest(address=address, type=address_type):
                arguments = ("-sat", address_type) if address_type else ()
                client = self.start_client(next(PORTS), SEND.requester, *arguments, address=address)
                self.assert_one_error(client, f'"{address}" is no {kind}: ', 1)
                self.assertFalse(client.said("Starting"))

    def test_address_without_its_flag(self):
        for pair in PAIRS:
            for side in SIDES:
                peer = self.start(pair.program(side), "-sa", PLACES[0].ipv4)
                self.assert_one_error(peer, "give --use-rdma-cm, too", 2)

    @unittest.skipUnless(IN_GUEST, "only there it is known that there is no route")
    def test_address_without_a_route(self):
        client = self.start_client(next(PORTS), SEND.requester, address="2001:db8::1")
        self.assert_one_error(client, "is there a route to it from an RDMA device?", 1)

    @unittest.skipIf(IN_GUEST, "there is one device")
    def test_device_that_does_not_fit(self):
        if len(PLACES) < 2:
            self.skipTest("there is one device")
        near, far = PLACES[:2]
        server = self.start_server(SEND.responder, place=near)
        wanted = f"this server works on device {near.device}, not on {far.device}"
        client = self.start_client(server.port, SEND.requester, address=far.ipv4)
        self.assert_one_error(client, wanted, 1)
        self.assertTrue(server.said(f"is rejected: {wanted}"), server.output())
        client = self.start_client(server.port, SEND.requester, "-d", far.device)
        wanted = (
            f"is reached through device {near.device}, but this program has opened {far.device}"
        )
        self.assert_one_error(client, wanted, 1)
        self.assert_served(server)


class Results(RunTest):
    def test_json(self):
        self.run_all("--json", check=Run.assert_results)

    def test_texts_arrive_byte_for_byte(self):
        def check(run):
            run.assert_results()
            for side in SIDES:
                self.assert_printable(getattr(run, side))

        for number, text in enumerate(TEXTS):
            self.run_all(
                "--json", chosen=WITH_TEXT, servers=[SIDES[number % 2]], check=check, text=text
            )

    def test_results_are_printed(self):
        self.run_all(text=LONGEST, immediate="4294967295")

    def test_immediate_values_arrive(self):
        for given in ("0", "0xffffffff"):
            self.run_all("--json", chosen=WITH_IMMEDIATE, check=Run.assert_results, immediate=given)

    def test_failures_in_json(self):
        for pair in PAIRS:
            for side in SIDES:
                with self.subTest(program=pair.program(side)):
                    client = self.start_client(next(PORTS), pair.program(side), "--json")
                    client.finish(1)
                    found = result_of(client)
                    self.assertEqual(found["status"], "RS_ERR_REJECTED")
                    self.assertEqual(found["exit_status"], 1)


class Refusals(CmTest):
    """Servers that are not there, or that do not want the client: it says why, and ends."""

    def test_nobody_listens(self):
        for pair in PAIRS:
            for side in SIDES:
                with self.subTest(program=pair.program(side)):
                    client = self.start_client(next(PORTS), pair.program(side))
                    self.assert_one_error(client, "the peer refused the connection", 1)
                    self.assertTrue(client.said("Starting -> Stopping"))
                    self.assertTrue(client.said("Stopping -> Idle"))

    def test_port_in_use(self):
        server = self.start_server(SEND.responder)
        other = self.start(
            SEND.requester, "-cm", "-lp", str(server.port), "-d", PLACES[0].device, "--json"
        )
        self.assert_one_error(other, "another program listens there", 1)
        self.assertEqual(result_of(other)["status"], "RS_ERR_IN_USE")
        self.assert_served(server)

    def assert_turned_away(self, server, client, reason):
        self.assert_one_error(client, "the peer refused the connection (", 1)
        self.assertIn(reason, client.errors()[0])
        self.assertTrue(server.said(f"is rejected: {reason}"), server.output())

    def test_programs_that_do_not_belong_together(self):
        """Each as a server to itself and to one of another pair; then it serves its own peer."""
        for number, pair in enumerate(PAIRS):
            # Not the next one: two pairs that stand together can be connected.
            another = PAIRS[(number + 2) % len(PAIRS)]
            for side in SIDES:
                server = self.start_server(pair.program(side), *pair.arguments(side, connections=1))
                for stranger in (pair.program(side), another.program(other_side(side))):
                    with self.subTest(server=server.name, client=stranger):
                        reason = f"{server.name} works with {pair.other(side)}, not with {stranger}"
                        client = self.start_client(server.port, stranger)
                        self.assert_turned_away(server, client, reason)
                self.assertEqual(server.errors(), [])
                with self.subTest(server=server.name):
                    self.assert_served(server)

    def test_strangers_that_can_be_connected(self):
        """A sender of the one pair and a receiver of the other; each is once the server."""
        opcodes = ("send", "send with immediate")
        for sender, receiver, (found, expected) in (
            (SEND.requester, SEND_IMMEDIATE.responder, opcodes),
            (SEND_IMMEDIATE.requester, SEND.responder, opcodes[::-1]),
        ):
            for programs in ((sender, receiver), (receiver, sender)):
                with self.subTest(server=programs[0], client=programs[1]):
                    server = self.start_server(programs[0])
                    client = self.start_client(server.port, programs[1])
                    for peer, other in ((server, client), (client, server)):
                        peer.finish()
                        warning = f"warning: the peer is {other.name}, which belongs to another"
                        self.assertTrue(peer.said(warning), peer.output())
                        if peer.name == sender:
                            # The receiver gives up, perhaps before it has acknowledged.
                            self.assertIn(peer.finish(), (0, 1))
                        else:
                            wanted = f"the peer's message is a {found}, but this program expects a"
                            self.assert_one_error(peer, f"{wanted} {expected}", 1)

    @unittest.skipUnless(shutil.which("rping"), "rping is not installed")
    @unittest.skipIf("asan" in pairs.BUILD, "it has no sanitizer, and so cannot have uroce's")
    def test_other_peoples_programs(self):
        rping = (*ON_DEVICE, shutil.which("rping"), "-C", "1", "-a", PLACES[0].ipv4, "-p")
        server = self.start_server(SEND.responder)
        self.start(*rping, str(server.port), "-c").finish()
        reason = f"not a program of this suite; {server.name} works with {SEND.requester}"
        self.assertTrue(server.said(f"is rejected: {reason}"), server.output())
        self.assert_served(server)


class Timeouts(CmTest):
    def test_nobody_connects(self):
        servers = [
            self.start_server(pair.program(side), "--timeout", "1")
            for pair in PAIRS
            for side in SIDES
        ]
        for server in servers:
            with self.subTest(program=server.name):
                self.assert_one_error(server, "it has not connected", 1)
        self.assert_no_files()

    def test_server_does_not_answer(self):
        server = self.start_server(SEND.responder)
        server.signal(signal.SIGSTOP)
        client = self.start_client(server.port, SEND.requester, "--timeout", "1")
        self.assert_one_error(client, f"in vain for {SEND.responder}: it has not connected", 1)
        server.signal(signal.SIGCONT)
        self.assert_served(server)

    @unittest.skipUnless(IN_GUEST, "in the virtual machine it is known that the host is missing")
    def test_no_such_host(self):
        for arguments, wanted in (((), "timed out"), (("-d", "rxe0"), "it has not connected")):
            with self.subTest(arguments=arguments):
                client = self.start_client(
                    next(PORTS),
                    SEND.requester,
                    "--timeout",
                    "1",
                    *arguments,
                    address="10.77.0.99",
                )
                self.assert_one_error(client, wanted, 1)

    def test_server_waits_for_others(self):
        """A client that is connected gets its message when all are; this one leaves before."""
        server = self.start_server(MULTI.requester, "-nc", "2")
        client = self.start_client(server.port, MULTI.responder, "--timeout", "1")
        self.assert_one_error(client, "no message came", 1)
        server.wait_for("connection 0: the peer has ended it")
        server.signal(signal.SIGINT)
        self.assert_ended_by(server, signal.SIGINT, "Starting")


class Connections(CmTest):
    """Servers with several clients."""

    def assert_all_came(self, receiver, texts):
        """Each text once, each on a connection of its own."""
        found = [line.partition(": ") for line in receiver.results()]
        self.assertEqual(sorted(text for _, _, text in found), sorted(texts))
        numbers = sorted(int(label.rpartition(" ")[2]) for label, _, _ in found)
        self.assertEqual(numbers, list(range(len(texts))))

    def start_receivers_server(self, count, *arguments):
        return self.start_server(MULTI.responder, "-nc", str(count), *arguments)

    def start_senders(self, server, texts):
        return [self.start_client(server.port, MULTI.requester, "-s", text) for text in texts]

    def start_receivers(self, server, count):
        return [self.start_client(server.port, MULTI.responder) for _ in range(count)]

    def finish_receivers(self, receivers):
        for receiver in receivers:
            receiver.finish(0)
            self.assertEqual(receiver.results(), MULTI.prints("responder", connections=1))

    def test_receiver_as_server_clients_one_by_one(self):
        for count in (1, 2, 8):
            with self.subTest(count=count):
                server = self.start_receivers_server(count)
                texts = [f"text {number}" for number in range(count)]
                for number, text in enumerate(texts):
                    client = self.connect(
                        server, number, self.start_client, MULTI.requester, "-s", text
                    )
                    # It does not wait for the others.
                    client.finish(0)
                server.finish(0)
                self.assert_all_came(server, texts)
        self.assert_no_files()

    def test_sender_as_server_clients_one_by_one(self):
        for count in (1, 2, 8):
            with self.subTest(count=count):
                server = self.start_server(MULTI.requester, "-nc", str(count))
                receivers = [
                    self.connect(server, number, self.start_client, MULTI.responder)
                    for number in range(count)
                ]
                self.finish_receivers(receivers)
                server.finish(0)
                self.assertEqual(server.results(), MULTI.prints("requester", connections=count))
        self.assert_no_files()

    def test_64_senders_at_once(self):
        server = self.start_receivers_server(64)
        texts = [f"text {number}" for number in range(64)]
        for client in self.start_senders(server, texts):
            client.finish(0)
        server.finish(0)
        self.assert_all_came(server, texts)

    def test_64_receivers_at_once(self):
        server = self.start_server(MULTI.requester, "-nc", "64")
        self.finish_receivers(self.start_receivers(server, 64))
        server.finish(0)
        self.assertEqual(server.results(), MULTI.prints("requester", connections=64))

    def test_all_results_in_json(self):
        server = self.start_receivers_server(3, "--json")
        for client in self.start_senders(server, "abc"):
            client.finish(0)
        server.finish(0)
        messages = result_of(server)["messages"]
        self.assertEqual(sorted(message["text"] for message in messages), list("abc"))
        self.assertEqual(sorted(message["connection"] for message in messages), [0, 1, 2])

    def test_one_client_too_many(self):
        server = self.start_receivers_server(2)
        self.connect(server, 0, self.start_client, MULTI.requester).finish(0)
        held, pipe = self.connect(server, 1, self.start_held, MULTI.requester)
        for _ in range(2):
            client = self.start_client(server.port, MULTI.requester)
            self.assert_one_error(client, "all 2 connections of this server are taken", 1)
        self.assertEqual(server.errors(), [])
        self.assertEqual(pipe.drain(), MULTI.prints("requester", connections=1))
        held.finish(0)
        server.finish(0)
        self.assert_all_came(server, 2 * ["Hi RDMA!"])

    def leave_early(self, number, status):
        """A receiving client leaves while the server still waits for others."""
        server = self.start_server(MULTI.requester, "-nc", "2")
        leaving = self.connect(server, 0, self.start_client, MULTI.responder)
        leaving.wait_for(RUNNING)
        leaving.signal(number)
        leaving.finish(status)
        server.wait_for("connection 0: the peer has ended it")
        self.finish_receivers(self.start_receivers(server, 2))
        server.finish(0)
        self.assertEqual(server.results(), MULTI.prints("requester", connections=2))
        self.assertEqual(server.errors(), [])

    def test_client_leaves_early(self):
        self.leave_early(signal.SIGINT, 130)

    def test_client_is_killed_early(self):
        self.leave_early(signal.SIGKILL, -signal.SIGKILL)

    def leave_late(self, leave):
        """A sending client leaves, without its message, when all have connected."""
        server = self.start_receivers_server(3)
        leaving = self.connect(server, 0, self.start_held, MULTI.requester, "-s", "leaves")
        staying, pipe = self.connect(server, 1, self.start_held, MULTI.requester, "-s", "stays")
        self.connect(server, 2, self.start_client, MULTI.requester, "-s", "is quick").finish(0)
        server.wait_for(RUNNING)
        leave(*leaving)
        server.wait_for("connection 0 has ended without its message")
        # Its place is not given to another.
        late = self.start_client(server.port, MULTI.requester)
        self.assert_one_error(late, "all connections are taken, the server has begun", 1)
        pipe.drain()
        staying.finish(0)
        self.assert_one_error(server, "connection 0 has ended without its message", 1)
        self.assertEqual(
            sorted(server.results()),
            ["Received on connection 1: stays", "Received on connection 2: is quick"],
        )

    def test_client_leaves_without_its_message(self):
        def leave(client, pipe):
            pipe.break_()
            self.assert_one_error(client, "printing the result", 1)

        self.leave_late(leave)

    def test_client_is_killed_without_its_message(self):
        def leave(client, pipe):
            client.signal(signal.SIGKILL)
            client.finish(-signal.SIGKILL)

        self.leave_late(leave)

    def test_client_leaves_before_the_server_sends(self):
        pipe = FullPipe(self)
        server = self.start_server(MULTI.requester, "-nc", "2", stdout=pipe.writer)
        pipe.hand_over()
        leaving = self.connect(server, 0, self.start_client, MULTI.responder)
        staying = self.connect(server, 1, self.start_client, MULTI.responder)
        server.wait_for(RUNNING)
        leaving.wait_for(RUNNING)
        leaving.signal(signal.SIGINT)
        leaving.finish(130)
        self.assertEqual(pipe.drain(), MULTI.prints("requester", connections=2))
        self.finish_receivers([staying])
        server.finish(1)
        self.assertTrue(server.said("connection 0"), server.output())
        self.assertEqual(len(server.errors()), 1, server.output())


class ServersThatEnd(CmTest):
    def connect_two(self):
        """A server that waits for a third client, and two that are connected."""
        server = self.start_server(MULTI.requester, "-nc", "3")
        clients = [
            self.connect(server, number, self.start_client, MULTI.responder) for number in range(2)
        ]
        for client in clients:
            client.wait_for(RUNNING)
        return server, clients

    def assert_restarts(self, port):
        """At once, on the same port."""
        self.assert_served(self.start_server(SEND.responder, port=port))

    def test_interrupted(self):
        server, clients = self.connect_two()
        server.signal(signal.SIGINT)
        self.assert_ended_by(server, signal.SIGINT, "Starting")
        for client in clients:
            self.assert_one_error(client, "the connection has ended", 1)
            self.assertTrue(client.said("the peer has ended it"))
        self.assert_restarts(server.port)

    def test_killed(self):
        server, clients = self.connect_two()
        server.signal(signal.SIGKILL)
        server.finish(-signal.SIGKILL)
        for client in clients:
            self.assert_one_error(client, "the connection has ended", 1)
        self.assert_restarts(server.port)

    def test_ended(self):
        server = self.start_server(READ.responder)
        self.assert_served(server)
        self.assert_restarts(server.port)


class Signals(CmTest):
    def end_all(self, peers, come_from):
        for peer in peers:
            peer.signal(signal.SIGINT)
        for peer in peers:
            with self.subTest(program=peer.name):
                self.assert_ended_by(peer, signal.SIGINT, come_from)
        self.assert_no_files()

    def test_listening(self):
        self.end_all(
            [self.start_server(pair.program(side)) for pair in PAIRS for side in SIDES], "Starting"
        )

    def test_connecting(self):
        """With a server that does not answer; later it finds that they are gone."""
        server = self.start_server(SEND.responder)
        server.signal(signal.SIGSTOP)
        clients = [
            self.start_client(server.port, pair.program(side)) for pair in PAIRS for side in SIDES
        ]
        for client in clients:
            client.wait_for("connecting with")
        self.end_all(clients, "Starting")
        server.signal(signal.SIGCONT)
        self.assert_served(server)

    def hold(self, pair, server, held):
        """A pair in Running, one side of which stops where it prints; returns the other."""
        program = pair.program(server)
        if held != server:
            peer = self.start_server(program, *pair.arguments(server, connections=1))
            self.start_held(peer.port, pair.other(server))
        else:
            pipe = FullPipe(self)
            listening = self.start_server(
                program, *pair.arguments(server, connections=1), stdout=pipe.writer
            )
            pipe.hand_over()
            peer = self.start_client(listening.port, pair.other(server))
        peer.wait_for(RUNNING)
        return peer

    def test_running(self):
        """Those that wait for a peer: one that prints before it has done all that it is to do."""
        for server in SIDES:
            peers = [
                self.hold(pair, server, "requester")
                for pair in PAIRS
                # Its requester prints when the responder has got all.
                if pair.name != "write_immediate"
            ]
            peers.append(self.hold(PAIR["sync_event"], server, "responder"))
            self.end_all(peers, "Running")


if __name__ == "__main__":
    pairs.main()
