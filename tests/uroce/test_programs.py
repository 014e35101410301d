#!/usr/bin/python3
"""The examples of libibverbs on uroce's devices."""

import os
import shutil
import signal
import unittest

import programs
from programs import (
    FIRST_PORT,
    LOOPBACK,
    ProgramTest,
    Side,
    call,
    counters,
    holds,
    sockets,
    two_networks,
    wait_until,
)

PINGPONG = "ibv_rc_pingpong"
SRQ_PINGPONG = "ibv_srq_pingpong"
UC_PINGPONG = "ibv_uc_pingpong"
UD_PINGPONG = "ibv_ud_pingpong"
XSRQ_PINGPONG = "ibv_xsrq_pingpong"
# The domain that it opens in each of its processes.
XRC_DOMAIN = "/tmp/xrc_domain"

# GIDs of the loopback interface: IPv4 comes first.
IPV4, IPV6 = "0", "1"

PERFTEST = shutil.which("ib_write_bw") is not None
PERFTEST_PROGRAMS = (
    "ib_send_bw",
    "ib_send_lat",
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
)
# Datagrams that find no receive are lost, and waited for: there is one for each.
DATAGRAM_PROGRAMS = (("ib_send_lat", "1000"), ("ib_send_bw", "300"))

# The same of unreliable connections, whose bandwidth tests wait for each message.
UNRELIABLE_PROGRAMS = ("ib_send_lat", "ib_write_lat", "ib_send_bw", "ib_write_bw")

# Of a completion: IBV_WC_RETRY_EXC_ERR.
RETRY_EXCEEDED = 12

NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")


def report(test, client):
    """What a pingpong says of its speed."""
    figures = [line for line in client.lines["out"] if " iters in " in line]
    print(f"    {test}: {', '.join(figures)}", flush=True)


class Devices(ProgramTest):
    def output_of(self, program, *arguments):
        peer = self.launch(LOOPBACK, program, *arguments)
        peer.finish(0)
        self.assertEqual(peer.lines["err"], [])
        return peer.lines["out"]

    def test_ibv_devices_lists_the_interface(self):
        header, underline, *devices = self.output_of("ibv_devices")
        self.assertIn("node GUID", header)
        self.assertIn("------", underline)
        self.assertEqual(len(devices), 1)
        self.assertRegex(devices[0], r"^ +uroce_lo +\t[0-9a-f]{16}$")

    def test_ibv_devinfo_has_nothing_strange_to_say(self):
        number, some, none = r"\d+", r"[1-9]\d*", "0"
        wanted = {
            "hca_id": "uroce_lo",
            "transport": r"InfiniBand \(0\)",
            "fw_ver": r"\d+\.\d+\.\d+",
            "node_guid": "[0-9a-f]{4}(:[0-9a-f]{4}){3}",
            "sys_image_guid": "[0-9a-f]{4}(:[0-9a-f]{4}){3}",
            "vendor_id": "0xffffff",
            "vendor_part_id": number,
            "hw_ver": "0x0",
            "phys_port_cnt": "1",
            "max_mr_size": "0xf{16}",
            "page_size_cap": "0xfffff000",
            "max_qp": some,
            "max_qp_wr": "16384",
            "device_cap_flags": "0x[0-9a-f]{8}",
            "max_sge": "16",
            "max_sge_rd": "16",
            "max_cq": some,
            "max_cqe": some,
            "max_mr": some,
            "max_pd": some,
            "max_qp_rd_atom": "128",
            "max_ee_rd_atom": none,
            "max_res_rd_atom": some,
            "max_qp_init_rd_atom": "128",
            "max_ee_init_rd_atom": none,
            "atomic_cap": r"ATOMIC_(HCA \(1\)|GLOB \(2\))",
            "max_ee": none,
            "max_rdd": none,
            "max_mw": number,
            "max_raw_ipv6_qp": none,
            "max_raw_ethy_qp": none,
            "max_mcast_grp": number,
            "max_mcast_qp_attach": number,
            "max_total_mcast_qp_attach": number,
            "max_ah": some,
            "max_fmr": none,
            "max_srq": some,
            "max_srq_wr": "16384",
            "max_srq_sge": "16",
            "max_pkeys": "1",
            "local_ca_ack_delay": r"\d|1\d|2\d|3[01]",
            "general_odp_caps": "",
            "rc_odp_caps": "",
            "uc_odp_caps": "",
            "ud_odp_caps": "",
            "xrc_odp_caps": "",
            "completion timestamp_mask": "0xf{16}",
            "hca_core_clock": r"1000000kHZ",
            "device_cap_flags_ex": "0x[0-9A-Fa-f]+",
            "Unknown flags": "0x10000000000",  # atomic writes, which it has no name for
            "tso_caps": "",
            "max_tso": none,
            "rss_caps": "",
            "max_rwq_indirection_tables": none,
            "max_rwq_indirection_table_size": none,
            "rx_hash_function": "0x0",
            "rx_hash_fields_mask": "0x0",
            "max_wq_type_rq": none,
            "packet_pacing_caps": "",
            "qp_rate_limit_min": "0kbps",
            "qp_rate_limit_max": "0kbps",
            "num_comp_vectors": "1",
            "port": "1",
            "state": r"PORT_ACTIVE \(4\)",
            "max_mtu": r"4096 \(5\)",
            "active_mtu": r"4096 \(5\)",
            "sm_lid": none,
            "port_lid": none,
            "port_lmc": "0x00",
            "link_layer": "Ethernet",
            "max_msg_sz": "0x40000000",
            "port_cap_flags": "0x[0-9a-f]{8}",
            "port_cap_flags2": "0x0000",
            "max_vl_num": r"\d \(\d\)",
            "bad_pkey_cntr": "0x0",
            "qkey_viol_cntr": "0x0",
            "sm_sl": none,
            "pkey_tbl_len": "1",
            "gid_tbl_len": "32",
            "subnet_timeout": none,
            "init_type_reply": none,
            "active_width": r"\d+X \(\d+\)",
            "active_speed": r"\d+\.\d Gbps \(\d+\)",
            "phys_state": r"LINK_UP \(5\)",
            "GID[  0]": "::ffff:127.0.0.1, RoCE v2",
            "GID[  1]": "::1, RoCE v2",
        }
        for line in self.output_of("ibv_devinfo", "-v"):
            key, separator, value = line.strip().partition(":")
            if separator:
                self.assertIn(key, wanted, line)
                self.assertRegex(value.strip(), f"^({wanted.pop(key)})$", line)
            else:
                # A capability of those named before.
                self.assertRegex(key, "^([A-Z0-9_]+|NO SUPPORT|tag matching not supported|)$")
        self.assertEqual(wanted, {}, "what it does not say")


class TransferTest(ProgramTest):
    def pingpong(self, server_side, client_side, *arguments, program=PINGPONG):
        """A whole run of a pingpong; returns its two programs."""
        peers = self.run_pair(server_side, client_side, program, *arguments)
        self.assert_content(peers)
        report(f"{program} {client_side.device} {' '.join(arguments)}", peers[1])
        return peers

    def datagrams(self, server_side, client_side, mtu):
        for gid in (IPV4, IPV6):
            for size in ("1", "1000", mtu):
                for options in (("-c",), ("-c", "-e")):
                    arguments = ("-g", gid, "-s", size, *options)
                    with self.subTest(arguments=arguments):
                        self.pingpong(server_side, client_side, *arguments, program=UD_PINGPONG)

    def assert_content(self, peers):
        """They had nothing to complain about."""
        for peer in peers:
            errors = [line for line in peer.lines["err"] if not programs.is_counter(line)]
            self.assertEqual(errors, [], peer.output())
            self.assertFalse(peer.said("invalid data", "out"), peer.output())

    def perftest(self, server_side, client_side, program, *arguments):
        arguments = ("-F", "-x", IPV4, *arguments)
        _, client = self.run_pair(server_side, client_side, program, *arguments)
        print(f"    {program}: {client.lines['out'][-2].strip()}", flush=True)

    def perftest_of_datagrams(self, server_side, client_side):
        for program, count in DATAGRAM_PROGRAMS:
            for options in ((), ("-e",)):
                with self.subTest(program=program, options=options):
                    arguments = ("-c", "UD", "-n", count, *options)
                    self.perftest(server_side, client_side, program, *arguments)

    def open_and_close(self):
        """Takes away what is left in /dev/shm of programs that did not close their device."""
        self.launch(LOOPBACK, "ibv_devinfo").finish(0)


class Loopback(TransferTest):
    SIZES = (("1", "10000"), ("4096", "10000"), ("1048576", "300"))

    def test_sizes_and_ways_to_wait_and_to_post(self):
        for size, count in self.SIZES:
            for options in ((), ("-e",), ("-c",), ("-N",), ("-t",)):
                with self.subTest(size=size, options=options):
                    self.pingpong(LOOPBACK, LOOPBACK, "-g", IPV4, "-s", size, "-n", count, *options)

    def test_path_mtus(self):
        for mtu in ("256", "512", "1024", "2048", "4096"):
            with self.subTest(mtu=mtu):
                self.pingpong(
                    LOOPBACK, LOOPBACK, "-g", IPV4, "-m", mtu, "-s", "100001", "-n", "500", "-c"
                )

    def test_ipv6(self):
        for size, count in self.SIZES:
            with self.subTest(size=size):
                self.pingpong(LOOPBACK, LOOPBACK, "-g", IPV6, "-s", size, "-n", count, "-c")

    def test_shared_receive_queue(self):
        for options in ((), ("-e",), ("-c", "-s", "65536")):
            with self.subTest(options=options):
                arguments = ("-g", IPV4, "-q", "16", *options)
                _, client = self.run_pair(LOOPBACK, LOOPBACK, SRQ_PINGPONG, *arguments)
                report(f"{SRQ_PINGPONG} {' '.join(arguments)}", client)

    def test_extended_connections(self):
        if not os.path.exists(XRC_DOMAIN):
            self.addCleanup(os.remove, XRC_DOMAIN)
        for options in ((), ("-e",), ("-s", "100001", "-m", "4096"), ("-n", "500")):
            with self.subTest(options=options):
                arguments = ("-g", IPV4, *options)
                for peer in self.run_pair(LOOPBACK, LOOPBACK, XSRQ_PINGPONG, *arguments):
                    self.assertTrue(peer.said("success", "out"), peer.output())

    def test_datagrams(self):
        self.datagrams(LOOPBACK, LOOPBACK, "4096")

    def test_unreliable_connections(self):
        for gid, size, count, *options in (
            (IPV4, "1", "5000", "-c"),
            (IPV4, "1", "5000", "-c", "-e"),
            (IPV4, "4096", "5000", "-c"),
            (IPV4, "100001", "500", "-c", "-m", "256"),
            (IPV4, "100001", "500", "-c", "-m", "4096", "-e"),
            (IPV4, "1048576", "100", "-c", "-m", "4096"),
            (IPV6, "100001", "500", "-c", "-m", "1024"),
        ):
            with self.subTest(gid=gid, size=size, options=options):
                arguments = ("-g", gid, "-s", size, "-n", count, *options)
                self.pingpong(LOOPBACK, LOOPBACK, *arguments, program=UC_PINGPONG)

    @unittest.skipUnless(programs.is_root(), "the tests run without root as they are")
    def test_unprivileged_users(self):
        user = LOOPBACK.with_prefix(*NOBODY)
        for who, sides in (
            ("both", (user, user)),
            ("client", (LOOPBACK, user)),
            ("server", (user, LOOPBACK)),
        ):
            with self.subTest(unprivileged=who):
                self.pingpong(*sides, "-g", IPV4, "-n", "2000")
                self.pingpong(*sides, "-g", IPV4, "-n", "2000", "-e")


@unittest.skipUnless(PERFTEST, "perftest is not installed")
class Perftest(TransferTest):
    def test_each_operation(self):
        for program in PERFTEST_PROGRAMS:
            with self.subTest(program=program):
                self.perftest(LOOPBACK, LOOPBACK, program)
        self.open_and_close()

    def test_datagrams(self):
        self.perftest_of_datagrams(LOOPBACK, LOOPBACK)
        self.open_and_close()

    def test_unreliable_connections(self):
        for program in UNRELIABLE_PROGRAMS:
            for arguments in ((), ("-s", "65536", "-n", "500"), ("-e", "-n", "500")):
                if "write" in program and "-e" in arguments:
                    continue  # these have no events
                with self.subTest(program=program, arguments=arguments):
                    self.perftest(LOOPBACK, LOOPBACK, program, "-c", "UC", *arguments)
        self.open_and_close()

    def test_a_peer_that_dies_is_noticed(self):
        server, client = self.start_pair(
            LOOPBACK, LOOPBACK, "ib_write_bw", "-F", "-x", IPV4, "-D", "600"
        )
        client.wait_for("#bytes", "out")
        server.signal(signal.SIGKILL)
        client.finish(1)
        self.assertTrue(client.said(f"Failed status {RETRY_EXCEEDED}:"), client.output())
        self.open_and_close()


class TwoNetworks(TransferTest):
    """Two hosts, joined by a cable."""

    LINK_LOCAL = "2"

    def setUp(self):
        super().setUp()
        self.sides = two_networks(self)

    def test_sizes(self):
        for size, count in (("1", "5000"), ("4096", "5000"), ("1048576", "300")):
            for options in ((), ("-e",)):
                with self.subTest(size=size, options=options):
                    self.pingpong(*self.sides, "-g", IPV4, "-s", size, "-n", count, "-c", *options)

    def test_ipv6(self):
        for gid in (IPV6, self.LINK_LOCAL):
            with self.subTest(gid=gid):
                self.pingpong(*self.sides, "-g", gid, "-s", "65536", "-n", "500", "-c")

    def test_shared_receive_queue(self):
        _, client = self.run_pair(*self.sides, SRQ_PINGPONG, "-g", IPV4, "-q", "16")
        report(SRQ_PINGPONG, client)

    def test_datagrams(self):
        self.datagrams(*self.sides, "1024")
        self.pingpong(*self.sides, "-g", self.LINK_LOCAL, "-c", program=UD_PINGPONG)

    def test_unreliable_connections(self):
        for size in ("1", "100001"):
            arguments = ("-g", IPV4, "-s", size, "-n", "1000", "-c")
            with self.subTest(size=size):
                self.pingpong(*self.sides, *arguments, program=UC_PINGPONG)

    def test_datagrams_reach_a_further_process_of_a_host(self):
        host, other = self.sides
        arguments = ("-d", host.device, "-g", IPV4)
        # What is passed on within a host goes through it.
        call("ip", "-n", "a", "link", "set", "lo", "up")
        # The owner of the standard port, and one that it passes on to.
        servers = [self.serve(host, UD_PINGPONG, *arguments) for _ in range(2)]
        for server in reversed(servers):
            client = self.connect(other, server, host, UD_PINGPONG, *arguments)
            client.finish(0)
            server.finish(0)

    @unittest.skipUnless(PERFTEST, "perftest is not installed")
    def test_perftest_of_datagrams(self):
        self.perftest_of_datagrams(*self.sides)

    @unittest.skipUnless(programs.is_root(), "the tests run without root as they are")
    def test_unprivileged_users(self):
        users = [side.with_prefix(*NOBODY) for side in self.sides]
        self.pingpong(*users, "-g", IPV4, "-n", "2000")


class Packet:
    """One of a capture."""

    FIELDS = (
        "ip.src",
        "ipv6.src",
        "udp.srcport",
        "infiniband.bth.destqp",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
    )
    LAST_SEND = 5  # opcodes up to here
    DATAGRAM = 100

    def __init__(self, line):
        *self.direction, opcode, psn = line.split("\t")
        self.direction = tuple(self.direction)
        self.opcode = int(opcode)
        self.psn = int(psn)

    def is_request(self):
        """The pingpongs have no others."""
        return self.opcode <= self.LAST_SEND or self.opcode == self.DATAGRAM


class Faults(TransferTest):
    """A network that loses, repeats, reorders and damages packets, each time in the same way."""

    FAULTS = "drop=5%,dup=2%,reorder=5%,corrupt=1%"
    ARGUMENTS = ("-g", IPV4, "-m", "4096", "-s", "65536", "-n", "2000", "-c", "-e")

    def side(self, seed):
        return LOOPBACK.with_settings(UROCE_COUNTERS="1", UROCE_FAULTS=f"{self.FAULTS},seed={seed}")

    def test_all_messages_arrive(self):
        sides = {seed: self.side(seed) for seed in (1, 2, 3)}
        pairs = {
            seed: self.start_pair(side, side, PINGPONG, *self.ARGUMENTS)
            for seed, side in sides.items()
        }
        for seed, (server, client) in pairs.items():
            self.assert_ends(client, server)
            report(f"seed {seed}", client if client.process.returncode == 0 else server)
            for peer in (server, client):
                self.assert_faults(peer)
        self.open_and_close()

    def assert_ends(self, *peers):
        """
        Both end well, unless the acknowledgement of the last message of one was lost: its peer, which
        has all messages, is gone then.
        """
        ended = [peer for peer in peers if peer.finish() == 0]
        self.assertTrue(ended, "".join(peer.output() for peer in peers))
        self.assert_content(ended)
        for peer in peers:
            if peer not in ended:
                self.assertTrue(peer.said(f"exceeded ({RETRY_EXCEEDED})"), peer.output())

    def assert_faults(self, peer):
        counted = counters(peer)
        for text in (
            "faults: packets dropped",
            "faults: packets sent twice",
            "faults: packets sent out of order",
            "faults: packets corrupted",
            "packets dropped: wrong ICRC",
            "packets sent again",
            "requests received again",
            "requests received ahead of their turn",
        ):
            self.assertGreater(counted.get(text, 0), 0, f"{text}:\n{peer.output()}")
        sent, again = counted["packets sent"], counted["packets sent again"]
        print(f"    {sent} packets sent, {again} of them again", flush=True)

    @unittest.skipUnless(PERFTEST, "perftest is not installed")
    def test_each_operation(self):
        side = self.side(4)
        for program in PERFTEST_PROGRAMS:
            size = () if "atomic" in program else ("-s", "20000")
            with self.subTest(program=program):
                self.perftest(side, side, program, "-n", "300", *size)
        self.open_and_close()

    @unittest.skipUnless(PERFTEST, "perftest is not installed")
    def test_an_unreliable_connection_loses_messages_and_goes_on(self):
        """Those that write do not wait for what arrives."""
        side = self.side(5)
        arguments = ("-F", "-x", IPV4, "-c", "UC", "-n", "500", "-s", "20000")
        server, client = self.run_pair(side, side, "ib_write_bw", *arguments)
        received, sent = counters(server), counters(client)
        self.assertEqual(
            sent["packets sent"]
            - sent["faults: packets sent twice"]
            + sent["faults: packets dropped"],
            500 * 5,
        )
        for text in (
            "requests received ahead of their turn",
            "packets dropped: others of the message were",
        ):
            self.assertGreater(received.get(text, 0), 0, f"{text}:\n{server.output()}")
        self.assertEqual(client.output().count("Failed"), 0, client.output())
        self.open_and_close()


@unittest.skipIf(shutil.which("tshark") is None, "tshark is not installed")
class Captures(TransferTest):
    def capture(self, program, *arguments):
        """What each side of a run saw, as (packets, counters)."""
        side = LOOPBACK.with_settings(UROCE_COUNTERS="1", UROCE_PCAP=self.path("%p.pcap"))
        peers = self.pingpong(side, side, *arguments, program=program)
        return [(self.packets_of(peer), counters(peer)) for peer in peers]

    def packets_of(self, peer):
        path = self.path(f"{peer.process.pid}.pcap")
        self.assertEqual(self.read_capture(path, "-Y", "_ws.malformed"), [])
        fields = [word for field in Packet.FIELDS for word in ("-e", field)]
        return [Packet(line) for line in self.read_capture(path, "-T", "fields", *fields)]

    def test_a_capture_has_all_packets_in_their_order(self):
        for arguments in (
            (PINGPONG, "-g", IPV4, "-s", "1", "-n", "1000"),
            (PINGPONG, "-g", IPV4, "-s", "20001", "-n", "200"),
            (PINGPONG, "-g", IPV6, "-s", "20001", "-n", "200", "-m", "4096"),
            (UD_PINGPONG, "-g", IPV4, "-s", "1"),
            (UD_PINGPONG, "-g", IPV6, "-s", "1001"),
        ):
            with self.subTest(arguments=arguments):
                seen = self.capture(*arguments)
                sent_again = sum(counted.get("packets sent again", 0) for _, counted in seen)
                for packets, counted in seen:
                    self.assertEqual(
                        len(packets), counted["packets sent"] + counted["packets received"]
                    )
                    self.assert_each_request_once(packets, sent_again)

    def assert_each_request_once(self, packets, sent_again):
        """In both directions, without a gap; but for those known to have been sent again."""
        requests = [packet for packet in packets if packet.is_request()]
        directions = {packet.direction for packet in requests}
        distinct = {direction: [] for direction in directions}
        for direction, psn in dict.fromkeys((p.direction, p.psn) for p in requests):
            distinct[direction].append(psn)
        self.assertEqual(len(directions), 2)
        for psns in distinct.values():
            self.assertEqual(psns, [(psns[0] + i) % 2**24 for i in range(len(psns))])
        self.assertLessEqual(len(requests) - sum(map(len, distinct.values())), sent_again)


class ManyProcesses(TransferTest):
    """Several processes on one address: the first has the standard port, and passes on."""

    PAIRS = 4
    # So many that the owner ends in the middle; the thread sanitizer is slow.
    ITERATIONS = "20000" if "UROCE_TEST_PRELOAD" in os.environ else "100000"
    ARGUMENTS = ("-g", IPV4, "-e", "-n", ITERATIONS)

    def test_the_death_of_the_ports_owner_is_the_end_of_its_own_connection_only(self):
        pairs = [
            self.start_pair(LOOPBACK, LOOPBACK, PINGPONG, *self.ARGUMENTS)
            for _ in range(self.PAIRS)
        ]
        servers, clients = map(list, zip(*pairs))
        peers = servers + clients
        for peer in peers:
            peer.wait_for("remote address", "out")
        others = servers[1:] + clients[1:]
        owner = self.owner(peers)
        self.assertIs(owner, servers[0])
        owner.signal(signal.SIGKILL)
        for peer in others:
            self.assertIsNone(peer.process.poll(), f"it came too late:\n{peer.output()}")
        wait_until(self, lambda: self.owner(others + clients[:1]), "a new owner")
        owner.finish(-signal.SIGKILL)
        # It may have been waiting for a message, which a connection does not find out.
        clients[0].clean_up()
        for peer in others:
            peer.finish(0)
        for client in clients[1:]:
            report("beside others", client)

    @staticmethod
    def owner(peers):
        """Which of them has the standard port; None: no one."""
        inodes = {inode for port, _, inode in sockets("udp") if port == FIRST_PORT}
        alive = (peer for peer in peers if peer.process.poll() is None)
        return next((peer for peer in alive if holds(peer.process.pid, inodes)), None)


if __name__ == "__main__":
    programs.main()
