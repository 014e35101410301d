"""Which programs of others are run, how, and what is known to come of it.

In the arguments {device}, {gid}, {gid6}, {address} and {port} are filled in: the device and its GIDs
(over IPv4, IPv6), the server's address, a port that is free.
"""

import dataclasses

from sides import PS_IB, PS_TCP, PS_UDP, UDADDY_PORT

WORKS, FAILS = "works", "fails"

# What a server is waited for: that it listens at a TCP port, at one of librdmacm's port spaces (a
# number), that it prints a text, or nothing.
TCP = "listens"
AT_ONCE = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A run of a program, alone or as a server and a client."""

    program: str
    options: str  # what is special about it, for the reader
    server: str  # arguments
    client: str = None
    client_program: str = None  # where it has another name
    ready: object = TCP
    shows_device: bool = False  # it has not worked unless it prints the device's name
    stays: bool = False  # the server does not end by itself
    port: int = None  # where it cannot be chosen
    environment: tuple = ()
    uroce: str = WORKS
    rxe: str = WORKS
    reason: object = ""  # why one of them fails; {side: why} where they differ
    says: tuple = ()  # texts of which it prints one when it fails as it is known to

    @property
    def name(self):
        return f"{self.program} {self.options}".strip()

    def expected(self, on):
        return getattr(self, on)

    def why(self, on):
        return self.reason[on] if isinstance(self.reason, dict) else self.reason


def alone(program, options="", **others):
    return Row(program, options, options, shows_device=True, **others)


# ---- ibverbs-utils ----


def pingpong(program, options, **others):
    """{gid} unless the options name another."""
    gid = "" if "-g " in options else "-g {gid}"
    common = f"-d {{device}} -p {{port}} {gid} {options}"
    return Row(program, options, common, f"{common} {{address}}", **others)


NO_ODP = "no on-demand paging: ibv_query_device_ex reports none, IBV_ACCESS_ON_DEMAND is refused"
NO_XRC = "no XRC: ibv_open_xrcd is refused"
NO_DM = "no device memory: ibv_query_device_ex reports none, ibv_alloc_dm is refused"

PINGPONGS = (
    *(
        pingpong("ibv_rc_pingpong", options)
        for options in (
            "-n 100",
            "-n 100 -e",
            "-n 50 -s 65536 -m 1024 -c",
            "-n 100 -N",
            "-n 100 -l 3",
            "-n 100 -g {gid6}",
        )
    ),
    pingpong(
        "ibv_rc_pingpong",
        "-n 100 -t",
        rxe=FAILS,
        reason="rxe has no timestamps of completions",
        says=("completion timestamp",),
    ),
    pingpong(
        "ibv_rc_pingpong",
        "-n 20 -o",
        uroce=FAILS,
        rxe=FAILS,
        reason=NO_ODP,
        says=("device isn't ODP capable",),
    ),
    pingpong("ibv_rc_pingpong", "-n 20 -j", uroce=FAILS, rxe=FAILS, reason=NO_DM, says=("dm",)),
    *(
        pingpong("ibv_uc_pingpong", options)
        for options in ("-n 20", "-n 20 -e -s 65536 -c", "-n 20 -g {gid6}")
    ),
    *(
        pingpong("ibv_ud_pingpong", options)
        for options in ("-n 100 -e -s 1000 -c", "-n 100 -s 1000 -g {gid6}")
    ),
    *(
        pingpong("ibv_srq_pingpong", options)
        for options in ("-n 20 -e", "-n 20 -q 4 -s 20000 -m 512 -c", "-n 20 -g {gid6}")
    ),
    *(
        pingpong(
            "ibv_xsrq_pingpong",
            options,
            rxe=FAILS,
            reason=NO_XRC,
            says=("Couldn't Open the XRC Domain",),
        )
        for options in ("-n 5 -e", "-n 5 -g {gid6}")
    ),
)

IBVERBS_UTILS = (
    alone("ibv_devices"),
    alone("ibv_devinfo", "-d {device}"),
    alone("ibv_devinfo", "-d {device} -v"),
    Row("ibv_asyncwatch", "", "-d {device}", ready="async event FD", stays=True),
    *PINGPONGS,
)

# ---- rdmacm-utils ----


def example(program, options="", **others):
    """One whose server is told with -b where to listen."""
    return Row(
        program,
        options,
        f"-b {{address}} -p {{port}} {options}",
        f"-s {{address}} -p {{port}} {options}",
        **{"ready": PS_TCP, **others},
    )


def rping(options, address="{address}", **others):
    common = f"-a {address} -p {{port}} {options}"
    return Row("rping", options, f"-s {common}", f"-c {common}", ready=PS_TCP, **others)


def udaddy(options):
    return Row(
        "udaddy",
        options,
        f"-b {{address}} {options}",
        f"-s {{address}} {options}",
        ready=PS_UDP,
        port=UDADDY_PORT,
    )


NO_RSOCKET = (
    "rsockets are librdmacm's own code, which looks behind the library's own ids, where uroce's have "
    "nothing of the kind; so uroce refuses rsocket() (EOPNOTSUPP). It would take rsockets of uroce's own"
)
REFUSED = "Operation not supported"


def rsocket(program, options):
    return example(program, options, uroce=FAILS, reason=NO_RSOCKET, says=(REFUSED,))


def xserver(options, ready, **others):
    server, client = f"-p {{port}} {options}", f"-s {{address}} -p {{port}} {options}"
    return Row("rdma_xserver", options, server, client, "rdma_xclient", ready, **others)


RDMACM_UTILS = (
    example("cmtime", "-c 20", stays=True),
    Row(
        "mckey",
        "-m 239.78.0.1",
        "-b {address} -C 5 -m 239.78.0.1",
        "-b {client_address} -s -C 5 -m 239.78.0.1",
        ready="receiving data transfers",
    ),
    Row("rdma_server", "", "-p {port}", "-s {address} -p {port}", "rdma_client", PS_TCP),
    xserver("-c r", PS_TCP),
    xserver("-c x", PS_IB, rxe=FAILS, reason=NO_XRC, says=("rdma_create_ep",)),
    *(rping(options) for options in ("-C 10 -v -V", "-C 10 -S 65000 -q")),
    rping("-C 3 -P", stays=True),
    *(example("ucmatose", options) for options in ("-c 2 -C 10 -m -t 32 -a 12", "-C 3 -S 100000")),
    example("ucmatose", "-P ib -f ip -c 2 -C 2", ready=PS_IB),
    udaddy("-c 2 -C 10 -S 1000 -t 32"),
    *(rsocket(program, "-I 5 -C 5 -S 1000") for program in ("rstream", "riostream")),
    Row(
        "udpong",
        "-C 10 -S 100",
        "-b {address} -p {port} -C 10 -S 100",
        "-s {address} -p {port} -C 10 -S 100",
        ready=AT_ONCE,
        uroce=FAILS,
        rxe=FAILS,
        reason={"uroce": NO_RSOCKET, "rxe": "its client's rconnect() fails with ENOENT"},
        says=(REFUSED, "rconnect: No such file or directory"),
    ),
    Row(
        "rcopy",
        "",
        "-p {port}",
        "/etc/os-release {address}:{folder}/copied -p {port}",
        ready=PS_TCP,
        stays=True,
        uroce=FAILS,
        reason=NO_RSOCKET,
        says=(REFUSED,),
    ),
)

# ---- perftest ----


def perftest(program, options, **others):
    gid = "" if "-x " in options else "-x {gid}"
    size = "" if "-a" in options or "-s " in options or "atomic" in program else "-s 4096"
    many = "" if "-n " in options or "-D " in options else "-n 20"
    common = f"-F -d {{device}} -p {{port}} {gid} {size} {many} {options}"
    ready = PS_TCP if "-z" in options or "-R" in options else TCP
    return Row(program, options, common, f"{common} {{address}}", ready=ready, **others)


def of(programs, options, **others):
    return tuple(perftest(f"ib_{name}", options, **others) for name in programs.split())


ALL = "send_bw send_lat write_bw write_lat read_bw read_lat atomic_bw atomic_lat"
PERFTEST_XRC = {
    "uroce": "of a queue pair that only sends it sets what only one that receives has "
    "(IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER), which verbs refuse (EINVAL)",
    "rxe": NO_XRC,
}

PERFTEST = (
    *of(ALL, ""),
    *of("send_bw", "-b"),
    *of("write_bw", "-q 16"),
    *of("send_lat", "-z"),
    *of("read_lat", "-e"),
    *of("write_lat", "-I 64 -s 64"),
    *of("write_bw", "-D 1"),
    *of("send_bw", "-m 256"),
    *of("send_bw", "-x {gid6}"),
    *of("send_bw", "-l 4"),
    *of("send_bw", "--use-srq"),
    *of("send_lat", "-c UD -s 1000 -e"),
    *of("send_bw", "-c UD -a"),
    *of("send_bw send_lat write_bw write_lat", "-c UC"),
    *of("send_bw write_lat atomic_lat", "-R"),
    *of("read_bw", "-R -q 4"),
    *of("send_lat", "-R -c UD -s 1000"),
    *of(
        "write_bw",
        "--odp",
        uroce=FAILS,
        rxe=FAILS,
        reason=NO_ODP,
        says=("failed to create mr",),
    ),
    *of(
        "send_bw",
        "-c XRC",
        uroce=FAILS,
        rxe=FAILS,
        reason=PERFTEST_XRC,
        says=("Failed to modify QP", "XRC"),
    ),
)

# ---- UCX ----

# Since it takes the header in front of a datagram for an IPv6 one, unless the completion has a
# service level by which NVIDIA's devices say that it is of IPv4.
UCX_GID6 = ("UCX_IB_GID_INDEX={gid6}", "UCX_NET_DEVICES={device}:1")


def ucx(test, transports, options="", **others):
    common = f"-t {test} -n 100 -w 10 -p {{port}} {options}"
    return Row(
        "ucx_perftest",
        f"-t {test} {options}".strip() + f" (UCX_TLS={transports})",
        common,
        f"{{address}} {common}",
        environment=(f"UCX_TLS={transports}", *UCX_GID6),
        **others,
    )


UCX_UTILS = (
    alone("ucx_info", "-d"),
    *(ucx(test, "rc_verbs,ud_verbs") for test in ("tag_lat", "stream_lat", "ucp_get", "ucp_fadd")),
    ucx("ucp_put_bw", "ud_verbs"),
    ucx("put_bw", "rc_verbs", "-d {device}:1 -x rc_verbs -s 4096 -D zcopy"),
)

# ---- libfabric ----


def fabric(provider, endpoint, options, **others):
    domain = "{device}-dgram" if endpoint == "dgram" or "rxd" in provider else "{device}"
    common = f"-p {provider} -e {endpoint} -d {domain} -I 20 {options}"
    return Row(
        "fi_pingpong",
        f"-p '{provider}' -e {endpoint} {options}",
        f"{common} -B {{port}}",
        f"{common} -P {{port}} {{address}}",
        **others,
    )


LIBFABRIC = (
    alone("fi_info", "-p verbs"),
    fabric("verbs", "msg", "-S 1024"),
    fabric("verbs", "dgram", "-S 512"),
    fabric(
        "verbs;ofi_rxm",
        "rdm",
        "-S 4096",
        rxe=FAILS,
        reason="rxe refuses an endpoint's attributes (EINVAL)",
        says=("fi_enable()",),
    ),
    fabric("verbs;ofi_rxd", "rdm", "-S 4096"),
)

ROWS = {
    "ibverbs-utils": IBVERBS_UTILS,
    "rdmacm-utils": RDMACM_UTILS,
    "perftest": PERFTEST,
    "ucx-utils": UCX_UTILS,
    "libfabric-bin": LIBFABRIC,
}
