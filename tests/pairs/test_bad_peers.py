#!/usr/bin/python3
"""Peers that misbehave: the program says in words what is wrong, and ends. Some are strange_peer.c."""

import dataclasses
import signal

import pairs
from pairs import PAIR, PairTest, Peer

SEND, SEND_IMMEDIATE, WRITE_IMMEDIATE = (
    PAIR[name] for name in ("send", "send_immediate", "write_immediate")
)
SYNC_EVENT = PAIR["sync_event"]

# Its default would be two, and the errors as many.
ONE_CONNECTION = {PAIR["multi_conn"]: ("-nc", "1")}


@dataclasses.dataclass
class Attack:
    """A program that gets data, and the strange peer that it gets it of."""

    pair: pairs.Pair
    side: str  # the program's
    behaviour: str
    program: Peer = None
    strange: Peer = None

    def start(self, test, data):
        options = ONE_CONNECTION.get(self.pair, ())
        self.program = test.start(self.pair.program(self.side), *options)
        other = "requester" if self.side == "responder" else "responder"
        self.strange = test.start_strange(
            self.pair, other, self.behaviour, data.hex(), options=options
        )

    def finish(self, strange_status=0):
        """The strange peer ends as it is to, the program somehow."""
        if self.side == "requester":
            self.program.finish()
            # It may have gone before its descriptor was seen.
            self.strange.signal(signal.SIGINT)
            self.strange.finish(128 + signal.SIGINT)
            return
        self.strange.finish(strange_status)
        if self.pair.needs_end:
            self.program.close_stdin()
        self.program.finish()


class BadData(PairTest):
    # Pairs, and what the strange peer does in each.
    SENDS = (("send", "send"), ("send_immediate", "send-immediate"), ("multi_conn", "send"))
    WRITE = (("write", "write"),)
    READ = (("read", "serve"),)
    # The device tells the program how long the data is.
    OF_KNOWN_LENGTH = SENDS + (("write_immediate", "write-immediate"),)
    ALL = OF_KNOWN_LENGTH + WRITE + READ

    def attack(self, data, behaviours, check, **options):
        """Gives the data to programs of these pairs, all at once; then check(attack)."""
        attacks = []
        for name, behaviour in behaviours:
            side = "requester" if behaviour == "serve" else "responder"
            attacks.append(Attack(PAIR[name], side, behaviour))
        for attack in attacks:
            attack.start(self, data)
        for attack in attacks:
            with self.subTest(data=data, pair=attack.pair.name):
                attack.finish(**options)
                self.assert_printable(attack.program)
                check(attack)
        self.assert_no_files()

    def refused(self, data, message, behaviours=ALL, **options):
        def check(attack):
            self.assert_one_error(attack.program, message, 1)
            self.assertEqual(attack.program.results(), [])

        self.attack(data, behaviours, check, **options)

    def test_text_without_an_end(self):
        self.refused(b"abc", "is not terminated within 3 bytes", self.OF_KNOWN_LENGTH + self.READ)
        self.refused(b"abc", "is not terminated within 256 bytes", self.WRITE)
        self.refused(256 * b"x", "is not terminated within 256 bytes")

    def test_text_that_is_not_utf8(self):
        self.refused(b"a\xff\0", 'not valid UTF-8: "a\\xff"')
        self.refused(b"\x1b]0;x\x07\xc3\x28\0", 'not valid UTF-8: "\\x1b]0;x\\x07\\xc3("')

    def test_control_characters_are_printed_as_escapes(self):
        def check(attack):
            attack.program.finish(0)
            printed = attack.pair.prints(
                attack.side, text="\\x1b[2J\\xe2\\x80\\xae\\xc2\\x9b", connections=1
            )
            self.assertEqual(attack.program.results(), printed)

        self.attack("\x1b[2J\u202e\x9b\0".encode(), self.ALL, check)

    def test_bytes_behind_the_end_are_not_text(self):
        def check(attack):
            attack.program.finish(0)
            printed = attack.pair.prints(attack.side, text="a", connections=1)
            self.assertEqual(attack.program.results(), printed)

        self.attack(b"a\0b\xff", self.ALL, check)

    def test_empty_messages(self):
        self.refused(b"", "is not terminated within 0 bytes", self.OF_KNOWN_LENGTH)
        self.refused(b"", "rdma_write_requester has written nothing", self.WRITE)

    def test_nothing_written(self):
        responder = self.start("rdma_write_responder")
        self.start_strange(PAIR["write"], "requester", "no-receive")
        responder.wait_for("close standard input")
        responder.close_stdin()
        self.assert_one_error(responder, "rdma_write_requester has written nothing", 1)
        self.assertEqual(responder.results(), [])

    def test_message_longer_than_its_receive(self):
        def check(attack):
            program, strange = attack.program, attack.strange
            # The specification's answer, or rxe's, which takes the receive for malformed.
            local = program.said("receive failed: local length error") and "remote invalid request"
            rxe = program.said("receive failed: local operation error") and "remote operation error"
            self.assertTrue(local or rxe, program.output())
            self.assert_one_error(program, "receive failed: local ", 1)
            self.assert_one_error(strange, f" failed: {local or rxe}", 1)
            self.assertEqual(program.results(), [])

        self.attack(300 * b"x", self.SENDS, check, strange_status=1)

    def test_memory_longer_than_the_room_for_it(self):
        self.refused(
            300 * b"x",
            "the memory of rdma_read_responder has 300 bytes, but only 256 fit here",
            self.READ,
        )


class Refusals(PairTest):
    def test_no_receive(self):
        chosen = (SEND, SEND_IMMEDIATE, WRITE_IMMEDIATE, PAIR["multi_conn"])
        error = "failed: receiver-not-ready retries exceeded: the peer submitted no receive"
        requesters = [self.start(pair.requester) for pair in chosen]
        for requester in requesters:
            requester.wait_for("waiting for")
        # Long enough for the requester to hear of it first.
        options = ("--timeout", "5")
        strange = [
            self.start_strange(pair, "responder", "no-receive", options=options) for pair in chosen
        ]
        for pair, requester, peer in zip(chosen, requesters, strange):
            with self.subTest(pair=pair.name):
                requester.finish(1)
                for line in requester.errors():
                    self.assertIn(error, line)
                few = (1, 2) if pair.has_connections else (1,)
                self.assertIn(len(requester.errors()), few, requester.output())
                self.assert_one_error(peer, "nobody said that it has finished", 1)
        self.assert_no_files()

    def refused(self, behaviour, names):
        chosen = [PAIR[name] for name in names]
        strange = [self.start_strange(pair, "responder", behaviour) for pair in chosen]
        requesters = [self.start(pair.requester) for pair in chosen]
        for pair, requester, peer in zip(chosen, requesters, strange):
            with self.subTest(pair=pair.name):
                self.assert_one_error(requester, " failed: remote ", 1)
                self.assertTrue(requester.said("Running -> Stopping"))
                self.assertTrue(requester.said("Stopping -> Idle"))
                self.assertEqual(requester.results(), [])
                peer.close_stdin()
                peer.finish()
        self.assert_no_files()

    def test_map_that_does_not_permit_it(self):
        self.refused("closed-map", ("read", "write", "write_immediate", "atomic"))

    def test_instance_that_does_not_permit_it(self):
        self.refused(
            "closed-instance", ("read", "write", "write_immediate", "atomic", "sync_event")
        )


class WrongOpcodes(PairTest):
    def connect_strangers(self, sender, receiver):
        """Programs of two pairs, each given the other's file."""
        files = {name: self.path(name) for name in (sender, receiver)}
        started = [
            self.start(one, "-ld", files[one], "-re", files[other])
            for one, other in ((sender, receiver), (receiver, sender))
        ]
        for peer, other in zip(started, (receiver, sender)):
            peer.finish()
            self.assertTrue(
                peer.said(f"warning: the peer is {other}, which belongs to another pair"),
                peer.output(),
            )
        return started

    def assert_wrong_opcode(self, receiver, found, expected):
        self.assert_one_error(
            receiver,
            f"wrong opcode: the peer's message is a {found}, but this program expects a {expected}",
            1,
        )
        self.assertEqual(receiver.results(), [])

    def test_send_and_send_with_immediate(self):
        opcodes = ("send", "send with immediate")
        for sender, receiver, (found, expected) in (
            (SEND.requester, SEND_IMMEDIATE.responder, opcodes),
            (SEND_IMMEDIATE.requester, SEND.responder, opcodes[::-1]),
        ):
            with self.subTest(sender=sender):
                sender, receiver = self.connect_strangers(sender, receiver)
                sender.finish(0)
                self.assertEqual(sender.errors(), [])
                self.assert_wrong_opcode(receiver, found, expected)
                self.assert_no_files()

    def test_sends_in_place_of_the_pair_s_own_operation(self):
        for pair, behaviour, found, expected in (
            (WRITE_IMMEDIATE, "send", "send", "write with immediate"),
            (WRITE_IMMEDIATE, "send-immediate", "send with immediate", "write with immediate"),
            (PAIR["multi_conn"], "send-immediate", "send with immediate", "send"),
        ):
            with self.subTest(pair=pair.name, behaviour=behaviour):
                options = ONE_CONNECTION.get(pair, ())
                receiver = self.start(pair.responder, *options)
                sender = self.start_strange(pair, "requester", behaviour, "6100", options=options)
                sender.finish(0)
                self.assert_wrong_opcode(receiver, found, expected)
                self.assert_no_files()


class SyncEvent(PairTest):
    SIGNALLED = "Set the responder's event to signal it: 1"

    def start_with_answer(self, answer, *options):
        responder = self.start_strange(SYNC_EVENT, "responder", "event", str(answer))
        responder.wait_for("waiting for")
        return responder, self.start(SYNC_EVENT.requester, *options)

    def end(self, responder):
        responder.close_stdin()
        responder.finish(0)
        self.assert_no_files()

    def test_no_answer(self):
        for value in (0, 1):
            with self.subTest(value=value):
                responder, requester = self.start_with_answer(value, "--timeout", "2")
                self.assert_one_error(requester, "it did not answer", 1)
                self.assertEqual(requester.results(), [self.SIGNALLED])
                self.end(responder)

    def test_answers(self):
        for value in (2, 3, 2**64 - 1):
            with self.subTest(value=value):
                responder, requester = self.start_with_answer(value)
                requester.finish(0)
                self.assertEqual(
                    requester.results(),
                    [
                        self.SIGNALLED,
                        f"Got the responder's answer: {value}",
                        "Set the responder's event to end it: 3",
                    ],
                )
                self.end(responder)

    def test_requester_killed_before_the_end(self):
        responder = self.start(SYNC_EVENT.responder, "--timeout", "2")
        requester = self.start_strange(SYNC_EVENT, "requester", "signal")
        responder.wait_for("Answered the requester: 2", "out")
        requester.signal(signal.SIGKILL)
        self.assert_one_error(responder, "the event is 2, not greater than 2", 1)
        self.assertEqual(responder.results(), SYNC_EVENT.prints("responder")[:2])


if __name__ == "__main__":
    pairs.main()
