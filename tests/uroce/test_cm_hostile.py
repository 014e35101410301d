#!/usr/bin/python3
"""The connection manager where the network is bad, or where somebody floods it."""

import collections
import os
import signal

import programs
from pairs import BUILD, PAIR
from programs import LOOPBACK, counters
from test_cm_programs import ExampleTest

MULTI, SEND = PAIR["multi_conn"], PAIR["send"]

RECEIVED = "packets received"
MALFORMED = "packets dropped: malformed"
BAD_ICRC = "packets dropped: wrong ICRC"
OTHER_PARTITION = "packets dropped: wrong partition key"
NO_QUEUE_PAIR = "packets dropped: no such queue pair"
UNEXPECTED = "packets dropped: not what was expected"
PASSED_ON = "packets passed on to the process they are for"
NOT_SENT = "packets that the system refused to send"
CM_SENT, CM_RECEIVED, CM_REFUSED, CM_DROPPED = (
    f"connection manager: messages {what}"
    for what in ("sent", "received", "for nobody, refused", "dropped")
)
LOST, DOUBLED, SWAPPED = (
    f"faults: packets {what}" for what in ("dropped", "sent twice", "sent out of order")
)

COUNTED = LOOPBACK.with_settings(UROCE_COUNTERS="1")


class HostileTest(ExampleTest):
    def start_sample(self, side, program, *arguments):
        """One of the project's programs, which need no uroce-run."""
        return self.start(program, *arguments, prefix=side.command()[:-1], stdin="null")

    def serve_receiver(self, side, clients):
        self.cm_port += 1
        where = ("-cm", "-lp", str(self.cm_port), "-d", side.device)
        server = self.start_sample(side, MULTI.responder, *where, "-nc", str(clients))
        server.wait_for("waiting for ")
        return server

    def send_text(self, side, text):
        where = ("-cm", "-lp", str(self.cm_port), "-sa", side.address)
        return self.start_sample(side, MULTI.requester, *where, "-s", text)

    def assert_came(self, server, texts):
        """Each once."""
        found = [line.partition(": ")[2] for line in server.results()]
        self.assertEqual(sorted(found), sorted(texts))


# ---- Bad networks ----

SEEDS = (1, 2, 3)
TEXTS = [f"text {number}" for number in range(4)]
CONNECTIONS = "20"


class BadNetwork(HostileTest):
    def run_on(self, faults, run):
        """run: is given a side whose network has these faults, one for each seed."""
        for seed in SEEDS:
            with self.subTest(seed=seed):
                run(COUNTED.with_settings(UROCE_FAULTS=f"{faults},seed={seed}"))

    def run_ucmatose(self, side, *faults):
        """With packets enough that each of the faults happens."""
        arguments = ("-c", CONNECTIONS, "-C", "2")
        peers = self.run_example(
            "ucmatose", ("-b", side.address, *arguments), ("-s", side.address, *arguments), side
        )
        for peer in peers:
            self.assertFalse(peer.said("failing connection request", "out"), peer.output())
            for fault in faults:
                self.assertIn(fault, counters(peer))

    def start_rping(self, side):
        arguments = ("-a", side.address, "-C", "3", "-v", "-V")
        server = self.serve_cm(side, "rping", "-s", *arguments)
        return server, self.connect_cm(side, "rping", "-c", *arguments)

    def run_senders(self, side):
        """The receiver ends well, and has had as many connections as there are senders."""
        server = self.serve_receiver(side, len(TEXTS))
        senders = [self.send_text(side, text) for text in TEXTS]
        server.finish(0)
        self.assert_came(server, TEXTS)
        self.assertFalse(server.said("is rejected"), server.output())
        for sender in senders:
            # It may not learn that its text has come: the receiver, which has all, is gone, or was
            # heard to go before it was heard to have it.
            self.assertIn(sender.finish(), (0, 1), sender.output())
            self.assertTrue(sender.said("connection 0: with "), sender.output())

    def test_ucmatose_where_much_is_lost(self):
        def run(side):
            self.run_ucmatose(side, LOST)

        # A connection does not come up if eight messages in a row, or their answers, are lost. Of
        # 20% that is one in 4000: too many for so many connections.
        self.run_on("drop=10%", run)

    def test_rping_where_much_is_lost(self):
        def run(side):
            server, client = self.start_rping(side)
            client.finish(0)
            server.wait_for("server ping data: rdma-ping-2", "out")
            # If it was lost that the client has ended, nobody is there to say it again, and the
            # server waits for ever.
            server.clean_up()

        self.run_on("drop=20%", run)
        self.launch(LOOPBACK, "ibv_devinfo").finish(0)  # takes away what is left in /dev/shm

    def test_many_senders_where_much_is_lost(self):
        self.run_on("drop=20%", self.run_senders)

    def test_duplicates_make_no_second_connection(self):
        def run(side):
            self.run_ucmatose(side, DOUBLED, SWAPPED)
            for peer in self.start_rping(side):
                peer.finish(0)
            self.run_senders(side)

        self.run_on("dup=30%,reorder=30%", run)


# ---- Floods ----

FLOOD = os.path.join(BUILD, "tests", "uroce", "cm_flood")
COUNT = 100_000
KINDS = ("requests", "answers", "versions", "garbage")

# KiB that a process may have more in memory after two floods of each kind. A server keeps what it
# has refused for a while, up to 4096 connections, and has a queue of as many messages. If each
# message of one kind left the smallest piece that there is, it would be more.
ROOM_OF_SERVER = 8 << 10
ROOM_OF_OTHERS = 1 << 10


def memory(peer):
    """What it has in memory, in KiB."""
    with open(f"/proc/{peer.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Flood(HostileTest):
    def setUp(self):
        super().setUp()
        self.floods = []

    def start_flood(self, kind):
        self.floods.append(kind)
        arguments = (str(self.cm_port), str(COUNT), kind, str(len(self.floods)))
        return self.start(FLOOD, *arguments, stdin="null")

    def flood(self, rooms, *kinds):
        """rooms: how much memory each of these peers may take for it."""
        before = {peer: memory(peer) for peer in rooms}
        for kind in kinds:
            self.start_flood(kind).finish(0)
        for peer, room in rooms.items():
            more = memory(peer) - before[peer]
            print(f"    {peer.name}: {more} KiB more", flush=True)
            self.assertLess(more, room, peer.name)

    def assert_serves(self, server):
        """While it is flooded, and then; the flood has reached the program."""
        flood = self.start_flood("requests")
        self.send_text(COUNTED, "during").finish(0)
        flood.finish(0)
        self.send_text(COUNTED, "after").finish(0)
        server.finish(0)
        self.assert_came(server, ["during", "after"])
        self.assertTrue(server.said("is rejected: not a program of this suite"))

    def start_owner(self):
        """A program that has port 4791, and does not use the connection manager."""
        owner = self.start(SEND.responder, "-d", COUNTED.device, prefix=COUNTED.command()[:-1])
        owner.descriptors(1)
        return owner

    def end_owner(self, owner):
        owner.signal(signal.SIGINT)
        owner.finish(128 + signal.SIGINT)

    def assert_accounted_for(self, owner, texts=()):
        """texts: that came to its queue pairs. Returns what it counted."""
        found = collections.Counter(counters(owner))
        ends = (MALFORMED, OTHER_PARTITION, NO_QUEUE_PAIR, UNEXPECTED, CM_RECEIVED)
        to_queue_pairs = found[RECEIVED] - sum(found[end] for end in ends)
        # A sender repeats what it gets no answer to at once.
        most = 100 if texts else 0
        self.assertTrue(len(texts) <= to_queue_pairs <= most, found)
        # None was lost; of the answers to them some come there, too.
        self.assertGreaterEqual(found[RECEIVED], len(self.floods) * COUNT)
        self.assertGreaterEqual(found[UNEXPECTED], self.floods.count("versions") * COUNT)
        for mistake in (BAD_ICRC, NOT_SENT):
            self.assertEqual(found[mistake], 0, mistake)
        return found

    def test_a_server(self):
        server = self.serve_receiver(COUNTED, 2)
        self.flood({server: ROOM_OF_SERVER}, *KINDS, *KINDS)
        self.assert_serves(server)
        found = self.assert_accounted_for(server, server.results())
        # Nothing was answered more than once, nor answered and dropped.
        self.assertLessEqual(found[CM_SENT] + found[CM_DROPPED], found[CM_RECEIVED])
        self.assertGreater(found[CM_REFUSED], 0)

    def test_a_server_behind_another_process(self):
        owner = self.start_owner()
        server = self.serve_receiver(COUNTED, 2)
        self.flood({owner: ROOM_OF_OTHERS, server: ROOM_OF_SERVER}, *KINDS, *KINDS)
        self.assert_serves(server)
        self.end_owner(owner)
        found = self.assert_accounted_for(owner)
        dealt_with = found[PASSED_ON] + found[CM_REFUSED] + found[CM_DROPPED]
        self.assertEqual(found[CM_RECEIVED], dealt_with)

    def test_nobody_listens(self):
        owner = self.start_owner()
        self.flood({owner: ROOM_OF_OTHERS}, "requests")
        self.end_owner(owner)
        found = self.assert_accounted_for(owner)
        self.assertEqual(found[CM_REFUSED], COUNT)
        self.assertEqual(found[CM_SENT], COUNT)
        # The refusals come to port 4791, too, where nobody refuses them.
        self.assertEqual(found[PASSED_ON], COUNT)


if __name__ == "__main__":
    programs.main()
