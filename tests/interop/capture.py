"""Reads a capture that uroce has written, and checks its packets' invariant CRC."""

import struct
import zlib

LINKTYPE_RAW = 101
UDP_SIZE = 8
ICRC_SIZE = 4
RESV8A = 4  # of the BTH


def packets(path):
    """Each an IP packet."""
    with open(path, "rb") as file:
        header = struct.unpack("=IHHIIII", file.read(24))
        assert header[-1] == LINKTYPE_RAW, header
        while record := file.read(16):
            _, _, length, whole_length = struct.unpack("=IIII", record)
            assert length == whole_length
            yield file.read(length)


def has_icrc(packet):
    """
    Over the packet as it is on the wire, with ones for what may change on the way, and for the
    place of InfiniBand's local header.
    """
    masked = bytearray(packet[:-ICRC_SIZE])
    if packet[0] >> 4 == 4:
        ip_size = (packet[0] & 15) * 4
        changing = [1, 8, 10, 11]  # type of service, time to live, checksum
    else:
        ip_size = 40
        masked[0] |= 0x0F  # traffic class
        changing = [1, 2, 3, 7]  # traffic class, flow label; hop limit
    for place in (*changing, ip_size + 6, ip_size + 7, ip_size + UDP_SIZE + RESV8A):
        masked[place] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + masked)
    return packet[-ICRC_SIZE:] == crc.to_bytes(ICRC_SIZE, "little")
