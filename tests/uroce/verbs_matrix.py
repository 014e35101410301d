"""The matrix of verbs (tests/interop/matrix) between two sides: which cells it has, and their results."""

import itertools
import os

import pairs

PROGRAM = os.path.join(pairs.BUILD, "tests", "interop", "matrix", "matrix")

DIRECTIONS = ("1-2", "2-1")  # requester, responder: the first and the second process
MTUS = (256, 512, 1024, 2048, 4096)
FAMILIES = ("ipv4", "ipv6")

MANY_PACKETS = 100003
SENDS = ("send", "send_imm")
WITH_RECEIVE = (*SENDS, "write_imm")
ONE_WAY = (*WITH_RECEIVE, "write")
INLINE = ("64/inline", "29/inline_sge3")
PSN_WRAP = (f"{MANY_PACKETS}/psn_wraps_within", "5/psn_last", "6/psn_first")
ATOMICS = ("cas_equal", "cas_other", "fetch_add", "fetch_add_wrap")
ONE_SIDED = ("write", "write_imm", "read", "cas", "fetch_add")
FAILURES = (
    *(
        f"{fault}/{operation}"
        for fault in (
            "unknown_key",
            "no_remote_access",
            "other_pd",
            "before_region",
            "behind_region",
            "qp_without_access",
        )
        for operation in ONE_SIDED
    ),
    *(f"no_resources/{operation}" for operation in ("read", "cas", "fetch_add")),
    *(f"unaligned/{operation}" for operation in ("cas", "fetch_add")),
    "short_receive/send",
    "receive_with_bad_key/send",
    "no_receive/send",
    "no_receive/write_imm",
    "peer_gone/send",
    "peer_gone/write",
    "peer_gone/read",
    "local_key/send",
    "local_key/write",
    "receiver_late",
)
WINDOWS = (
    "type1/write",
    "type1/outside",
    "type1/unbound",
    "type2/write",
    "type2/outside",
    "type2/local_invalidate",
    "type2/send_inv/0",
    "type2/send_inv/1",
    "type2/send_inv/many",
)


def transfers(operation, mtu):
    sizes = (0, 1, mtu - 1, mtu, mtu + 1, MANY_PACKETS, "61/sge3", f"{3 * mtu + 5}/sge8")
    inline = () if operation == "read" else INLINE
    return [f"{operation}/{what}" for what in (*sizes, *inline, *PSN_WRAP)]


def reliable(mtu):
    found = [cell for operation in (*ONE_WAY, "read") for cell in transfers(operation, mtu)]
    for operation in WITH_RECEIVE:
        found += [f"{operation}/7/srq", f"{operation}/{3 * mtu + 5}/srq_sge3"]
    return [*found, *ATOMICS]


def unreliable(mtu):
    return [cell for operation in ONE_WAY for cell in transfers(operation, mtu)]


def datagrams(mtu):
    sizes = (0, 1, mtu - 1, mtu, "1000/sge7", *INLINE)
    return [f"{operation}/{size}" for operation in SENDS for size in sizes] + ["answer"]


# By group: (service, cells of a path MTU)
GROUPS = {
    "rc": ("rc", reliable),
    "uc": ("uc", unreliable),
    "load": ("rc", lambda mtu: ("outstanding", "both_ways")),
    "windows": ("mw", lambda mtu: WINDOWS),
    "failures": ("rc", lambda mtu: FAILURES),
    "datagrams": ("ud", datagrams),
    "dropped": ("ud", lambda mtu: ("wrong_qkey",)),
}


def cells(groups, mtus=MTUS, families=FAMILIES):
    """Their names. A datagram's MTU is the ports', 4096."""
    found = set()
    for group in groups:
        service, cells_of = GROUPS[group]
        for mtu in (4096,) if service == "ud" else mtus:
            path = service if service == "ud" else f"{service}/{mtu}"
            for direction, family in itertools.product(DIRECTIONS, families):
                found |= {f"{direction}/{path}/{family}/{cell}" for cell in cells_of(mtu)}
    return found


def arguments(groups, mtus=MTUS, families=FAMILIES, timeout=None):
    given = ["-g", ",".join(groups), "-m", ",".join(map(str, mtus))]
    if timeout:
        given += ["-t", str(timeout)]
    return given if families == FAMILIES else [*given, "-f", families[0][-1]]


def results(peer):
    """By its word: the names of cells that a process printed."""
    found = {"ok": set(), "skipped": set(), "FAILED": set()}
    for line in peer.lines["out"]:
        word, _, rest = line.partition(" ")
        if word in found:
            found[word].add(rest if word == "FAILED" else rest.split()[0])
    return found


def assert_results(test, peers, wanted):
    """All cells are right."""
    for peer in peers:
        peer.finish()
        found = results(peer)
        test.assertEqual(found["FAILED"], set(), peer.name)
        test.assertEqual(found["skipped"], set(), peer.name)
        test.assertEqual(found["ok"], wanted)
        peer.finish(0)
    print(f"    {len(wanted)} cells", flush=True)
