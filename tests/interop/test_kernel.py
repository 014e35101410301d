#!/usr/bin/python3
"""uroce and the kernel's rxe as each other's peers: programs of others, and all pairs.

uroce runs here, the kernel's device in a virtual machine, on the two ends of a tap device that lies
in a network namespace of this program's own. That needs root; without, all is skipped.
"""

import copy
import os
import random
import re
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "uroce"))

import capture  # noqa: E402
import guest  # noqa: E402
import programs  # noqa: E402
import verbs_matrix  # noqa: E402
from programs import ProgramTest, Side, call, counters, wait_until  # noqa: E402
from pairs import PAIRS, SIDES, Run, other_side  # noqa: E402
from test_cm_programs import PS_TCP, PS_UDP, UDADDY_PORT, is_served  # noqa: E402

TAP = "tap0"

IS_POSSIBLE = programs.is_root() and os.path.exists("/dev/net/tun")

# What differs by family is the headers' size, so a small and the largest are enough.
IPV6_MTUS = (256, 4096)

# Below those that the system gives to clients.
PORTS = iter(random.sample(range(10000, 32768), 1000))

HW_COUNTERS = f"/sys/class/infiniband/{guest.DEVICE}/ports/1/hw_counters"
# All that is asked after a test, at once, since to start a program in the machine takes long.
RXE_STATE = f"grep -r . {HW_COUNTERS}; dmesg | grep -iE 'rxe.*(icrc|err|warn|fail)' || :"
# What rxe counts when nothing is wrong.
GOOD_COUNTERS = {"ack_deferred", "lifespan", "rcvd_pkts", "rdma_recvs", "rdma_sends", "sent_pkts"}
# What neither may count while nothing is lost on the way.
RXE_NEVER = ("out_of_seq_request", "rcvd_seq_err", "retry_exceeded_err", "retry_rnr_exceeded_err")
UROCE_NEVER = (
    "packets that the system refused to send",
    "packets dropped: malformed",
    "packets dropped: wrong ICRC",
    "packets dropped: wrong partition key",
    "packets dropped: not from the queue pair's peer",
    "datagrams dropped: wrong queue key",
    "requests received ahead of their turn",
    "NAKs sent",
    "NAKs received",
    "connection manager: messages dropped",
)

# tshark expects data in a datagram.
MALFORMED = "_ws.malformed && !(infiniband.bth.opcode >= 100 && udp.length <= 36)"

# For answers of a device that asks for none itself: 134 ms, since packets get lost.
SHORT_TIMEOUT = 15

# All of RC but the sends with invalidate (0x16, 0x17), and of UD (0x64, 0x65).
OPCODES = {*range(0x00, 0x15), 0x64, 0x65}

# By tshark's names, in their order.
OF_A_CONNECTION = (
    "ConnectRequest",
    "ConnectReply",
    "ReadyToUse",
    "DisconnectRequest",
    "DisconnectReply",
)

# ---- The two sides ----


class UroceSide(Side):
    name = "uroce"
    ipv6 = "2001:db8:77::254"
    ipv4_gid = "0"

    def __init__(self):
        super().__init__("10.77.0.254", "uroce_" + TAP, UROCE_CM="1", UROCE_COUNTERS="1")

    def with_settings(self, **settings):
        side = copy.copy(self)
        side.settings = {**self.settings, **settings}
        return side

    def before_pair(self):
        """What stands before a program of a pair, which needs no uroce-run."""
        return ("env", *(f"{name}={value}" for name, value in self.settings.items()))

    def wait_for_connections(self, test, space, port, server):
        wait_until(
            test,
            lambda: is_served(space, port) or server.process.poll() is not None,
            f"{server.name} listens",
        )


class RxeSide(Side):
    name = "rxe"
    ipv6 = guest.IPV6
    ipv4_gid = "1"
    machine = None

    def __init__(self):
        super().__init__(guest.IPV4, guest.DEVICE)

    def command(self):
        return self.machine.command()

    before_pair = command

    def wait_for_connections(self, test, space, port, server):
        test.wait_in_guest(f"rdma resource show cm_id | grep -q 'state LISTEN.*:{port} '", server)


UROCE, RXE = UroceSide(), RxeSide()
# (server, client)
DIRECTIONS = ((RXE, UROCE), (UROCE, RXE))


def setUpModule():
    if not IS_POSSIBLE:
        return
    call("ip", "tuntap", "add", TAP, "mode", "tap")
    unittest.addModuleCleanup(call, "ip", "link", "del", TAP)
    for command in (
        f"address add {UROCE.address}/24 dev {TAP}",
        f"address add {UROCE.ipv6}/64 dev {TAP} nodad",
        f"link set {TAP} mtu {guest.MTU} txqueuelen 10000 up",
    ):
        call("ip", *command.split())
    RxeSide.machine = guest.Machine(TAP)
    unittest.addModuleCleanup(RxeSide.machine.end)
    RxeSide.machine.wait_until_ready()


def read_rxe_state():
    """Its counters, and lines of what the kernel complains of."""
    lines = call(*RXE.command(), "sh", "-c", RXE_STATE).splitlines()
    counted = [line for line in lines if line.startswith(HW_COUNTERS)]
    pairs_of_text = (os.path.basename(line).split(":") for line in counted)
    return {name: int(value) for name, value in pairs_of_text}, lines[len(counted) :]


# ---- Tests ----


@unittest.skipUnless(IS_POSSIBLE, "a tap device needs root and /dev/net/tun")
class KernelTest(ProgramTest):
    """At its end neither side has counted what must not be."""

    rxe_never = RXE_NEVER

    def setUp(self):
        super().setUp()
        before, _ = read_rxe_state()
        self.addCleanup(self.check_rxe, before)

    def check_rxe(self, before):
        after, complaints = read_rxe_state()
        changes = {name: after[name] - before[name] for name in sorted(after)}
        wrong = {n: v for n, v in changes.items() if v > 0 and n not in GOOD_COUNTERS}
        print(
            f"    rxe: {after['sent_pkts'] - before['sent_pkts']} packets sent, {wrong}", flush=True
        )
        self.assertEqual({n: v for n, v in wrong.items() if n in self.rxe_never}, {})
        self.assertEqual(complaints, [])

    def start(self, *arguments, **options):
        peer = super().start(*arguments, **options)
        self.addCleanup(self.end, peer)
        return peer

    def end(self, peer):
        """Where it runs in the machine, too."""
        if peer.process.poll() is None:
            peer.process.terminate()
            peer.finish()

    def wait_in_guest(self, condition, server):
        """Waits until a shell's condition is true there."""
        waiting = self.launch(RXE, "sh", "-c", f"until {condition}; do sleep 0.1; done")
        wait_until(
            self,
            lambda: waiting.process.poll() is not None or server.process.poll() is not None,
            f"{condition}, of {server.name}",
        )
        self.end(waiting)

    def serve_tcp(self, server, program, *arguments):
        if server.name == UROCE.name:
            return self.serve(server, program, *arguments)
        self.tcp_port += 1
        peer = self.launch(server, program, "-p", str(self.tcp_port), *arguments)
        peer.tcp_port = self.tcp_port
        self.wait_in_guest(
            f"cat /proc/net/tcp /proc/net/tcp6 | grep -q ':{peer.tcp_port:04X} .* 0A '", peer
        )
        return peer

    def finish_all(self, peers, check=lambda: None):
        """All end well, and what they printed is checked."""
        try:
            for peer in peers:
                peer.finish(0)
            for peer in peers:
                counted = counters(peer)
                found = {name: counted[name] for name in UROCE_NEVER if name in counted}
                self.assertEqual(found, {}, peer.output())
            check()
        finally:
            # So that what fails does not disturb what comes next in the same test.
            for peer in peers:
                self.end(peer)


class Connections(KernelTest):
    """The examples of librdmacm."""

    def serve_cm(self, side, port, program, *arguments, space=PS_TCP):
        server = self.launch(side, program, *arguments)
        side.wait_for_connections(self, space, port, server)
        return server

    def run_example(self, program, server, client, server_arguments, client_arguments):
        """A whole run; {server} is the server's address."""
        port = next(PORTS)
        given = ("-p", str(port))
        peers = [self.serve_cm(server, port, program, *given, *server_arguments)]
        peers.append(self.launch(client, program, *given, *client_arguments))
        self.finish_all(peers)
        return peers

    def test_rping(self):
        for server, client in DIRECTIONS:
            for address, size in (
                (server.address, "64"),
                (server.address, "65000"),
                (server.ipv6, "64"),
            ):
                given = ("-a", address, "-C", "10", "-v", "-V", "-S", size)
                with self.subTest(server=server.name, address=address, size=size):
                    for peer in self.run_example(
                        "rping", server, client, ("-s", *given), ("-c", *given)
                    ):
                        lines = [line for line in peer.lines["out"] if "rdma-ping-" in line]
                        self.assertEqual(len(lines), 10, peer.output())

    def run_ucmatose(self, server, client):
        given = ("-c", "10", "-C", "10")
        return self.run_example(
            "ucmatose",
            server,
            client,
            ("-b", server.address, *given),
            ("-s", server.address, *given),
        )

    def test_ucmatose(self):
        for server, client in DIRECTIONS:
            with self.subTest(server=server.name):
                self.run_ucmatose(server, client)

    def test_udaddy(self):
        for server, client in DIRECTIONS:
            given = ("-C", "2")
            with self.subTest(server=server.name):
                first = self.serve_cm(
                    server, UDADDY_PORT, "udaddy", "-b", server.address, *given, space=PS_UDP
                )
                second = self.launch(client, "udaddy", "-s", server.address, *given)
                self.finish_all([first, second])

    def test_multicast(self):
        for receiver, sender in DIRECTIONS:
            mckey = ("stdbuf", "-oL", "mckey", "-m", "224.0.1.77", "-C", "10")
            with self.subTest(receiver=receiver.name):
                first = self.launch(receiver, *mckey, "-b", receiver.address)
                first.wait_for("receiving data transfers", "out")
                second = self.launch(sender, *mckey, "-b", sender.address, "-s")
                self.finish_all([first, second])

    def test_nobody_listens(self):
        """At that port: there is a server at another, so that somebody can say no."""
        for server, client in DIRECTIONS:
            port = next(PORTS)
            given = ("-a", server.address, "-C", "1")
            with self.subTest(server=server.name):
                other = self.serve_cm(server, port, "rping", "-s", "-p", str(port), *given)
                refused = self.launch(client, "rping", "-c", "-p", str(next(PORTS)), *given)
                self.assertNotEqual(refused.finish(), 0)
                self.assertTrue(refused.said("RDMA_CM_EVENT_REJECTED, error 8"), refused.output())
                accepted = self.launch(client, "rping", "-c", "-p", str(port), *given)
                self.finish_all([accepted, other])

    @unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
    def test_capture(self):
        for server, client in DIRECTIONS:
            path = self.path(f"{server.name}.pcap")
            sides = [
                s.with_settings(UROCE_PCAP=path) if s is UROCE else s for s in (server, client)
            ]
            with self.subTest(server=server.name):
                self.run_ucmatose(*sides)
                self.assertEqual(self.read_capture(path, "-Y", "_ws.malformed"), [])
                shown = "\n".join(self.read_capture(path))
                found = set(re.findall("|".join(OF_A_CONNECTION), shown))
                self.assertEqual(found, set(OF_A_CONNECTION), shown)


class Verbs(KernelTest):
    """The examples of libibverbs, which exchange their queue pairs' numbers by TCP."""

    def pingpong(self, program, *arguments, gid="-g"):
        for server, client in DIRECTIONS:
            given = [("-d", s.device, gid, s.ipv4_gid, *arguments) for s in (server, client)]
            with self.subTest(server=server.name, arguments=arguments):
                first = self.serve_tcp(server, program, *given[0])
                second = self.connect(client, first, server, program, *given[1])
                self.finish_all([second, first])

    def test_reliable_connection(self):
        self.pingpong("ibv_rc_pingpong", "-n", "200")
        self.pingpong("ibv_rc_pingpong", "-n", "20", "-s", "65536")

    def test_datagrams(self):
        self.pingpong("ibv_ud_pingpong", "-n", "200")

    def test_unreliable_connection(self):
        self.pingpong("ibv_uc_pingpong", "-n", "200")
        self.pingpong("ibv_uc_pingpong", "-n", "20", "-s", "65536")

    @unittest.skipIf(shutil.which("ib_write_lat") is None, "perftest is not installed")
    def test_perftest_of_an_unreliable_connection(self):
        for program in ("ib_send_lat", "ib_write_lat"):
            self.pingpong(program, "-F", "-c", "UC", "-n", "100", "-s", "5000", gid="-x")


class Pairs(KernelTest):
    def start_side(self, run, side, place, *arguments):
        return run.start(
            side, "-d", place.device, *arguments, stdin="null", prefix=place.before_pair()
        )

    def finish_run(self, run):
        self.finish_all([run.requester, run.responder], run.assert_printed)

    def test_connected_by_address(self):
        """Of each pair either side listens, on one of the devices."""
        for turn, (server, client) in enumerate(DIRECTIONS):
            for number, pair in enumerate(PAIRS):
                side = SIDES[(turn + number) % 2]
                with self.subTest(pair=pair.name, listens=side, on=server.name):
                    self.run_by_address(pair, side, server, client)

    def run_by_address(self, pair, side, server, client):
        """side: which of the pair is the server."""
        run = Run(self, pair, connections=1, text="to the other side")
        by_address = ("-cm", "-lp", str(next(PORTS)))
        self.start_side(run, side, server, *by_address).wait_for(" connection")
        self.start_side(run, other_side(side), client, *by_address, "-sa", server.address)
        self.finish_run(run)

    def test_connected_by_descriptors(self):
        """Those whose responder hears of all that is done. The machine sees the files here."""
        for responder, requester in DIRECTIONS:
            for pair in PAIRS:
                if not pair.needs_end:
                    with self.subTest(pair=pair.name, responder=responder.name):
                        self.run_by_descriptors(pair, responder, requester)

    def run_by_descriptors(self, pair, responder, requester):
        run = Run(self, pair, text="to the other side")
        folder = tempfile.mkdtemp(dir=RXE.machine.folder)
        for side, place in zip(SIDES, (responder, requester)):
            paths = [os.path.join(folder, name) for name in (side, other_side(side), "resource")]
            files = ["-ld", paths[0], "-re", paths[1]]
            self.start_side(run, side, place, *files, *(["-m", paths[2]] if pair.resource else []))
        self.finish_run(run)


class MatrixTest(KernelTest):
    """All that the two devices can do with each other, in both directions."""

    def run_matrix(self, second, groups, timeout=None, **dimensions):
        """The first is always rxe, for both directions are gone through."""
        given = verbs_matrix.arguments(groups, timeout=timeout, **dimensions)
        first = self.serve_tcp(RXE, verbs_matrix.PROGRAM, "-d", RXE.device, *given)
        peers = [
            first,
            self.connect(second, first, RXE, verbs_matrix.PROGRAM, "-d", second.device, *given),
        ]
        wanted = verbs_matrix.cells(groups, **dimensions)
        verbs_matrix.assert_results(self, peers, wanted)
        return peers


class Matrix(MatrixTest):
    """Nothing goes wrong, and so nothing is counted that must not be."""

    def run_clean(self, groups, **dimensions):
        self.finish_all(self.run_matrix(UROCE, groups, **dimensions))

    def test_connections(self):
        for mtu in verbs_matrix.MTUS:
            families = verbs_matrix.FAMILIES if mtu in IPV6_MTUS else ("ipv4",)
            with self.subTest(mtu=mtu):
                self.run_clean(("rc", "load", "uc"), mtus=(mtu,), families=families)

    def test_datagrams(self):
        self.run_clean(("datagrams",))

    @unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
    def test_capture(self):
        """Nothing is malformed, all opcodes are there, and all checksums are right."""
        path = self.path("matrix.pcap")
        side = UROCE.with_settings(UROCE_PCAP=path)
        groups = ("rc", "load", "datagrams")
        self.finish_all(self.run_matrix(side, groups, mtus=(1024,), families=("ipv4",)))
        self.finish_all(
            self.run_matrix(
                UROCE.with_settings(UROCE_PCAP=self.path("ipv6.pcap")),
                ("datagrams",),
                families=("ipv6",),
            )
        )
        for name, least in (("matrix.pcap", 1000), ("ipv6.pcap", 30)):
            self.assertEqual(self.read_capture(self.path(name), "-Y", MALFORMED), [])
            packets = list(capture.packets(self.path(name)))
            self.assertGreater(len(packets), least)
            self.assertEqual([n for n, p in enumerate(packets, 1) if not capture.has_icrc(p)], [])
        shown = self.read_capture(path, "-T", "fields", "-e", "infiniband.bth.opcode")
        self.assertEqual({int(opcode, 0) for opcode in shown if opcode}, OPCODES)


class MatrixOfFailures(MatrixTest):
    """What is refused, and bad networks; there is more to be counted, then."""

    rxe_never = ()

    def total(self, peers):
        return {name: value for peer in peers for name, value in counters(peer).items()}

    def test_failures(self):
        groups = ("failures", "dropped", "windows")
        counted = self.total(self.run_matrix(UROCE, groups, mtus=(1024,)))
        for name in ("NAKs", "receiver-not-ready NAKs"):
            for way in ("sent", "received"):
                self.assertGreater(counted.get(f"{name} {way}", 0), 0, counted)
        self.assertEqual(counted["datagrams dropped: wrong queue key"], 2)

    def test_rxe_with_itself(self):
        """The control: what the kernel's device does without uroce."""
        groups = tuple(verbs_matrix.GROUPS)
        self.run_matrix(RXE, groups, mtus=(1024,), families=("ipv4",))

    def test_bad_network(self):
        for seed, mtu in ((1, 256), (2, 1024), (3, 4096)):
            faults = f"drop=2%,dup=2%,reorder=2%,corrupt=1%,rx_drop=2%,delay=100us,seed={seed}"
            side = UROCE.with_settings(UROCE_FAULTS=faults)
            with self.subTest(faults=faults, mtu=mtu):
                peers = self.run_matrix(
                    side,
                    ("rc",),
                    timeout=SHORT_TIMEOUT,
                    mtus=(mtu,),
                    families=("ipv4",),
                )
                counted = self.total(peers)
                for fault in ("packets dropped", "received packets dropped", "packets corrupted"):
                    self.assertGreater(counted.get(f"faults: {fault}", 0), 0, counted)


if __name__ == "__main__":
    programs.main()
