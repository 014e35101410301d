#!/usr/bin/python3
"""
Multicast: librdmacm's example mckey on uroce's devices. It sleeps for 3 s once it has joined, so a
sender is started while its receivers sleep, which take what comes all the same.
"""

import glob
import platform
import signal
import unittest

import programs
from programs import LOOPBACK, ProgramTest, counters, two_networks, wait_until

MESSAGES = 20
# The number of the system call, on x86 and elsewhere.
READ = "0" if platform.machine() == "x86_64" else "63"
NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
GROUP = "224.0.1.77"
OTHER_GROUP = "239.1.2.3"
IPV6_GROUPS = ("ff0e::77", "ff02::77")  # of the world, of the link


class MulticastTest(ProgramTest):
    def mckey(self, side, group, *arguments, messages=MESSAGES):
        count = ("-C", str(messages))
        return self.launch(
            side.with_settings(UROCE_COUNTERS="1"),
            "mckey",
            *("-m", group, "-b", side.address, *count, *arguments),
        )

    def wait_until_joined(self, receiver, queue_pairs=1):
        def have_joined():
            lines = [line for line in receiver.lines["out"] if "joined dgid" in line]
            return len(lines) == queue_pairs

        wait_until(self, have_joined, f"{queue_pairs} have joined")

    def receive(self, sides, group, *arguments, queue_pairs=1):
        """Receivers that have joined."""
        arguments = ("-c", str(queue_pairs), *arguments)
        receivers = [self.mckey(side, group, *arguments) for side in sides]
        for receiver in receivers:
            self.wait_until_joined(receiver, queue_pairs)
        return receivers

    def assert_received(self, receivers):
        for receiver in receivers:
            receiver.finish(0)
            self.assertEqual(counters(receiver)["packets received"], MESSAGES, receiver.output())

    def send(self, side, group, *arguments):
        sender = self.mckey(side, group, "-s", *arguments)
        sender.finish(0)
        self.assertEqual(counters(sender)["packets sent"], MESSAGES, sender.output())

    def run_group(self, sender, receivers, group, *arguments):
        """Each receiver gets all that one sender sends."""
        peers = self.receive(receivers, group)
        self.send(sender, group, *arguments)
        self.assert_received(peers)


def waits_in_read(pid):
    calls = []
    for path in glob.glob(f"/proc/{pid}/task/*/syscall"):
        with open(path, encoding="ascii") as file:
            calls.append(file.read().split()[0])
    return READ in calls


class OneHost(MulticastTest):
    def test_several_processes(self):
        self.run_group(LOOPBACK, [LOOPBACK] * 3, GROUP)

    def test_messages_as_long_as_they_can_be(self):
        peers = self.receive([LOOPBACK] * 2, GROUP, "-S", "4096")
        self.send(LOOPBACK, GROUP, "-S", "4096")
        self.assert_received(peers)

    def test_who_only_sends(self):
        self.run_group(LOOPBACK, [LOOPBACK] * 2, GROUP, "-o")

    def test_without_copies_of_what_one_sends_itself(self):
        """mckey has one queue pair that sends and receives nothing, so here it is as without."""
        self.run_group(LOOPBACK, [LOOPBACK] * 2, GROUP, "-l")

    def test_several_queue_pairs_of_a_process(self):
        """Each of them waits for all messages; the packets come once."""
        peers = self.receive([LOOPBACK] * 2, GROUP, queue_pairs=4)
        self.send(LOOPBACK, GROUP)
        self.assert_received(peers)

    def test_other_groups_get_nothing(self):
        others = self.receive([LOOPBACK], OTHER_GROUP)
        self.run_group(LOOPBACK, [LOOPBACK], GROUP)
        self.send(LOOPBACK, OTHER_GROUP)
        self.assert_received(others)

    def test_the_owner_of_port_4791_is_killed(self):
        (owner,) = self.receive([LOOPBACK], GROUP)
        peers = self.receive([LOOPBACK] * 2, GROUP)
        owner.signal(signal.SIGKILL)
        owner.finish(-signal.SIGKILL)
        self.send(LOOPBACK, GROUP)
        self.assert_received(peers)

    def test_the_owner_of_port_4791_is_stopped(self):
        """It gets its copies when it goes on; nobody waits for it."""
        (owner,) = self.receive([LOOPBACK], GROUP)
        peers = self.receive([LOOPBACK], GROUP)
        # A thread of mckey's waits for events. If it comes too late for that, it finds the channel freed.
        wait_until(self, lambda: waits_in_read(owner.process.pid), "mckey's thread waits")
        owner.signal(signal.SIGSTOP)
        self.send(LOOPBACK, GROUP)
        self.assert_received(peers)
        owner.signal(signal.SIGCONT)
        self.assert_received([owner])

    @unittest.skipUnless(programs.is_root(), "the tests run without root as they are")
    def test_processes_of_different_users(self):
        user = LOOPBACK.with_prefix(*NOBODY)
        self.run_group(user, [user, LOOPBACK, user], GROUP)

    def test_ipv6_is_not_delivered_by_the_system(self):
        """Packets that it refuses are counted."""
        side = programs.Side("::1")
        sender = self.mckey(side, IPV6_GROUPS[0], "-s")
        sender.finish(0)
        self.assertEqual(
            counters(sender)["packets that the system refused to send"], MESSAGES, sender.output()
        )


@unittest.skipUnless(programs.is_root(), "network namespaces with names need root")
class TwoNetworks(MulticastTest):
    """Two hosts, joined by a cable."""

    def setUp(self):
        super().setUp()
        self.sides = two_networks(self)

    def run_both_ways(self, sides, group):
        for sender, other in (sides, reversed(sides)):
            with self.subTest(group=group, sender=sender.address):
                self.run_group(sender, [other, sender, other], group)

    def test_ipv4(self):
        self.run_both_ways(self.sides, GROUP)

    def test_ipv6(self):
        addresses = ("fd78::1", "fd78::2")
        sides = [
            programs.Side(address, side.device, side.prefix)
            for address, side in zip(addresses, self.sides)
        ]
        for group in IPV6_GROUPS:
            self.run_both_ways(sides, group)

    def test_who_only_sends(self):
        self.run_group(self.sides[0], [self.sides[1]] * 2, GROUP, "-o")

    def test_without_an_own_address_the_system_chooses_the_way(self):
        for name in ("a", "b"):
            programs.call("ip", "-n", name, *"route add 224.0.0.0/4 dev eth0".split())
        arguments = ("-m", GROUP, "-C", "5")
        receiver = self.launch(self.sides[0], "mckey", *arguments)
        self.wait_until_joined(receiver)
        self.launch(self.sides[1], "mckey", "-s", *arguments).finish(0)
        receiver.finish(0)


if __name__ == "__main__":
    programs.main(processes=5)
