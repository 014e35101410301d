"""docs/compatibility.md: made of what was found on both sides, and read again for comparison."""

import os
import re

from run_peers import MANY, RDMA_CORE
from rows import FAILS, ROWS, WORKS

PATH = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "compatibility.md"
)
SIDES = ("uroce", "rxe")
GOOD = ("passed", WORKS)
NOT_TRIED = "not tried"
TESTS = (RDMA_CORE,)

HEAD = """\
# Other people's programs

{summary}

The programs were tried with Debian 12's packages, on uroce and on the kernel's `rxe` in one boot of a virtual machine
(`tests/rxe_vm/`), rdma-core's tests on uroce outside of it: `tests/peers/test_peers.py --update`, which writes this page. Without
the option it tries uroce outside and `rxe` in the machine, and fails when this page is not what it found. `{{device}}` stands for the
device, `{{gid6}}` for its GID over IPv6.
"""

ABOUT = {
    RDMA_CORE: """\
The tests that rdma-core has of itself, one line each; those that are for one maker's devices are counted. On uroce they run with
`tests/peers/sysfs.sh`, which shows them the devices' network interfaces in `/sys`.
""",
    "perftest": """\
With `-R` perftest's server closes its listener and opens it again between two connections, while the client asks for the second. A
uroce client that is told that nobody listens asks again for 100 ms; perftest's own next attempt is with ids that it has freed.
""",
    "ucx-utils": """\
UCX takes a device only if `/dev/infiniband/NAME` is a character device that it may write to. uroce has none;
`tests/peers/devices.sh` puts `/dev/null` there in a mount namespace. With datagrams UCX wants an IPv6 GID (`UCX_IB_GID_INDEX`), or
`UCX_UD_VERBS_ETH_DGID_CHECK=n`: it tells IPv4 from IPv6 by a service level that NVIDIA's devices put into a completion, and takes
what has none for IPv6.
""",
    "libfabric-bin": """\
The provider `verbs` has connections (`msg`) on each interface but `lo`, which it leaves out by its name: on one host they take
another interface with an address.
""",
}


def cell_of(side, name, package, outcome):
    """What the table says of an outcome."""
    if outcome != FAILS:
        return outcome
    row = next(row for row in ROWS[package] if row.name == name)
    return f"{FAILS}: {row.why(side)}"


def cells_of(side, found):
    """{(package, name): cell} of what was found on a side."""
    return {
        (package, name): cell_of(side, name, package, outcome)
        for package, runs in found.items()
        for name, outcome in runs.items()
    }


def is_good(cell):
    return cell in GOOD


def count(cells, packages):
    chosen = [
        cell
        for (package, name), cell in cells.items()
        if package in packages and not name.endswith(MANY)
    ]
    return f"{sum(map(is_good, chosen))} of {len(chosen)}"


def summary(cells):
    uroce, rxe = (cells[side] for side in SIDES)
    lines = [
        f"Of the runs of programs {count(uroce, ROWS)} work on uroce, {count(rxe, ROWS)} on rxe.",
        f"Of rdma-core's own tests {count(uroce, TESTS)} pass on uroce, {count(rxe, TESTS)} on rxe.",
        "What does not work says why in its line.",
    ]
    missing = len(uroce.keys() - rxe.keys())
    if missing:
        lines.append(f"{missing} have not been tried on rxe yet.")
    return "\n".join(lines)


def escaped(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(package, cells):
    names = [name for of, name in cells["uroce"] if of == package]
    lines = [
        f"| `{name}` | "
        + " | ".join(escaped(cells[side].get((package, name), NOT_TRIED)) for side in SIDES)
        + " |"
        for name in names
    ]
    return "\n".join(("| | uroce | rxe |", "|---|---|---|", *lines))


def make(cells, versions):
    """The page, of {side: {(package, name): cell}} and {package: version}."""
    parts = [HEAD.format(summary=summary(cells))]
    for package, version in versions.items():
        parts.append(f"## {package} {version}\n")
        if package in ABOUT:
            parts.append(ABOUT[package])
        parts.append(table(package, cells) + "\n")
    return "\n".join(parts)


def read(path=PATH):
    """The page's cells, as make() takes them."""
    cells = {side: {} for side in SIDES}
    package = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("## "):
                package = line.split()[1]
            elif match := re.fullmatch(r"\| `(.+)` \| (.+) \| (.+) \|\n", line):
                for side, cell in zip(SIDES, match.groups()[1:]):
                    if cell != NOT_TRIED:
                        cells[side][package, match.group(1)] = cell.replace("\\|", "|")
    return cells
