#!/usr/bin/python3
"""The examples of librdmacm on uroce's devices."""

import programs
from programs import LOOPBACK, ProgramTest, Side, wait_until

IPV4 = LOOPBACK
IPV6 = Side("::1")
FAMILIES = {"IPv4": IPV4, "IPv6": IPV6}

# Port spaces.
PS_TCP, PS_UDP, PS_IB = 0x106, 0x111, 0x13F
# udaddy cannot be told another.
UDADDY_PORT = 7174

# How /proc/net/unix says that a claim takes requests: until then it is connected to itself.
TAKES_REQUESTS = "01"


def is_served(space, port, pid="self"):
    """Whether some process in that one's network listens."""
    name = f"@uroce/cm/{space << 16 | port:x}"
    with open(f"/proc/{pid}/net/unix", encoding="ascii", errors="replace") as file:
        sockets = [line.split() for line in file]
    return any(fields[-1] == name and fields[5] == TAKES_REQUESTS for fields in sockets)


class ExampleTest(ProgramTest):
    """A server and a client of an example."""

    def setUp(self):
        super().setUp()
        self.cm_port = 7600

    def serve_cm(self, side, program, *arguments, space=PS_TCP):
        """A server that a client can connect to, at self.cm_port."""
        if program == "udaddy":
            self.cm_port = UDADDY_PORT
        else:
            self.cm_port += 1
        server = self.launch(side, program, *self.port_option(program), *arguments)
        wait_until(
            self,
            lambda: is_served(space, self.cm_port) or server.process.poll() is not None,
            f"{program} listens",
        )
        return server

    def port_option(self, program):
        return () if program == "udaddy" else ("-p", str(self.cm_port))

    def connect_cm(self, side, program, *arguments):
        return self.launch(side, program, *self.port_option(program), *arguments)

    def stop(self, server):
        """Ends a server that serves for ever, and takes away what it leaves in /dev/shm."""
        self.assertIsNone(server.process.poll(), server.output())
        server.clean_up()
        self.launch(IPV4, "ibv_devinfo").finish(0)

    def run_example(self, program, server_arguments, client_arguments, side, space=PS_TCP):
        """A whole run; both end well."""
        server = self.serve_cm(side, program, *server_arguments, space=space)
        client = self.connect_cm(side, program, *client_arguments)
        client.finish(0)
        server.finish(0)
        return server, client


class Connections(ExampleTest):
    def test_rping_in_sizes(self):
        for family, side in FAMILIES.items():
            for size in ("64", "65000"):
                arguments = ("-a", side.address, "-C", "10", "-v", "-V", "-S", size)
                with self.subTest(family=family, size=size):
                    for peer in self.run_example(
                        "rping", ("-s", *arguments), ("-c", *arguments), side
                    ):
                        lines = [line for line in peer.lines["out"] if "rdma-ping-" in line]
                        self.assertEqual(len(lines), 10, peer.output())

    def test_rping_with_a_persistent_server(self):
        arguments = ("-a", IPV4.address, "-C", "3", "-v")
        server = self.serve_cm(IPV4, "rping", "-s", "-P", *arguments)
        for _ in range(3):
            self.connect_cm(IPV4, "rping", "-c", *arguments).finish(0)
        self.stop(server)

    def test_rping_where_nobody_listens(self):
        client = self.connect_cm(IPV4, "rping", "-c", "-a", IPV4.address, "-C", "1")
        self.assertNotEqual(client.finish(), 0)
        self.assertTrue(client.said("RDMA_CM_EVENT_REJECTED, error 8"), client.output())

    def test_ucmatose(self):
        for family, side in FAMILIES.items():
            for options in ((), ("-m",), ("-t", "32"), ("-a", "12"), ("-S", "100000")):
                arguments = ("-c", "10", "-C", "10", *options)
                with self.subTest(family=family, options=options):
                    self.run_example(
                        "ucmatose",
                        ("-b", side.address, *arguments),
                        ("-s", side.address, *arguments),
                        side,
                    )

    def test_ucmatose_in_the_port_space_of_infiniband(self):
        arguments = ("-P", "ib", "-c", "2", "-C", "2", "-f", "ip")
        self.run_example(
            "ucmatose",
            ("-b", IPV4.address, *arguments),
            ("-s", IPV4.address, *arguments),
            IPV4,
            space=PS_IB,
        )

    def test_rdma_client_and_server(self):
        server = self.serve_cm(IPV4, "rdma_server")
        self.connect_cm(IPV4, "rdma_client", "-s", IPV4.address).finish(0)
        server.finish(0)

    def test_extended_connections(self):
        for kind, space in (("x", PS_IB), ("r", PS_TCP)):
            with self.subTest(kind=kind):
                server = self.serve_cm(IPV4, "rdma_xserver", "-c", kind, space=space)
                client = self.connect_cm(IPV4, "rdma_xclient", "-s", IPV4.address, "-c", kind)
                client.finish(0)
                server.finish(0)

    def test_cmtime(self):
        for family, side in FAMILIES.items():
            with self.subTest(family=family):
                server = self.serve_cm(side, "cmtime", "-b", side.address)
                client = self.connect_cm(side, "cmtime", "-s", side.address, "-c", "100")
                client.finish(0)
                self.stop(server)
                steps = [line for line in client.lines["out"] if line.startswith("connect ")]
                print(f"    {family}: {steps[0]}", flush=True)


class Datagrams(ExampleTest):
    def test_udaddy(self):
        for family, side in FAMILIES.items():
            arguments = ("-c", "3", "-C", "10", "-S", "1000")
            with self.subTest(family=family):
                self.run_example(
                    "udaddy",
                    ("-b", side.address, *arguments),
                    ("-s", side.address, *arguments),
                    side,
                    space=PS_UDP,
                )


class Refused(ExampleTest):
    def test_sockets_over_rdma(self):
        peer = self.launch(IPV4, "rstream", "-s", IPV4.address)
        self.assertNotEqual(peer.finish(), 0)
        self.assertTrue(peer.said("Operation not supported"), peer.output())


if __name__ == "__main__":
    programs.main()
