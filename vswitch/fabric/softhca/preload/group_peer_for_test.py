#!/usr/bin/python3
"""A stranger in Python on our HCA: pyverbs for queue pairs and groups, libibumad by ctypes to join.

group_peer_for_test.py MGID [--join] (--answer TEXT | --send TEXT --until TEXT)

Joins the group if it is to, attaches a UD queue pair to it, and says "ready". Then it prints each datagram that comes, with its
source's LID. It answers what is not its own to the group, for ever; or it sends to the group, again and again as users of
datagrams do, until it hears what it waits for.
"""
import argparse
import ctypes
import ipaddress
import struct
import time

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE, PORT = 'eoib0', 1
QKEY = 0x11111111
SA_CLASS, SA_VERSION, SET, MC_MEMBER_RECORD = 3, 2, 2, 0x38
MGID, PORT_GID, MASK_QKEY, TCLASS, PKEY, SL, FLOW, JOIN_STATE = (1 << bit for bit in (0, 1, 2, 6, 7, 12, 13, 16))
GRH, SIZE, DEPTH = 40, 256, 16


def gid_bytes(text):
    return ipaddress.IPv6Address(text).packed


def member_record(mgid, port_gid):
    """Set(MCMemberRecord): the MAD's 256 bytes."""
    mad = bytearray(256)
    struct.pack_into('>BBBBHHQHHI', mad, 0, 1, SA_CLASS, SA_VERSION, SET, 0, 0, 0x77, MC_MEMBER_RECORD, 0, 0)
    mask = MGID | PORT_GID | MASK_QKEY | TCLASS | PKEY | SL | FLOW | JOIN_STATE
    struct.pack_into('>Q', mad, 48, mask)
    struct.pack_into('>16s16sIHBBHBBIB', mad, 56, mgid, port_gid, QKEY, 0, 0, 0, 0xffff, 0, 0, 0, 1)
    return mad


def join(mgid, port_gid, sm_lid):
    """Joins the group and returns its MLID. Looks up libibumad in this process, where a preloaded library comes first."""
    ctypes.CDLL('libibumad.so.3', mode=ctypes.RTLD_GLOBAL)
    umad = ctypes.CDLL(None, use_errno=True)
    umad.umad_get_mad.restype = ctypes.c_void_p
    umad.umad_size.restype = ctypes.c_size_t
    assert umad.umad_init() == 0
    port = umad.umad_open_port(DEVICE.encode(), PORT)
    assert port >= 0, port
    agent = umad.umad_register(port, SA_CLASS, SA_VERSION, 0, None)
    assert agent >= 0, agent
    packet = ctypes.create_string_buffer(umad.umad_size() + 256)
    umad.umad_set_addr(packet, sm_lid, 1, 0, 0x80010000)
    mad = umad.umad_get_mad(ctypes.byref(packet))
    ctypes.memmove(mad, bytes(member_record(mgid, port_gid)), 256)
    assert umad.umad_send(port, agent, packet, 256, 1000, 3) == 0
    length = ctypes.c_int(256)
    assert umad.umad_recv(port, packet, ctypes.byref(length), 5000) == agent
    assert umad.umad_status(packet) == 0
    answer = ctypes.string_at(mad, 256)
    status, mlid = struct.unpack_from('>H', answer, 4)[0], struct.unpack_from('>H', answer, 56 + 36)[0]
    assert status == 0, hex(status)
    umad.umad_unregister(port, agent)
    umad.umad_close_port(port)
    return mlid


def ibv_qp_of(qp):
    """The ibv_qp behind a pyverbs QP, which keeps it to itself: the word of the object that points to its qp_num."""
    qp_num_offset, lowest_address = 52, 1 << 16  # of struct ibv_qp, infiniband/verbs.h
    words = struct.unpack('%dQ' % (type(qp).__basicsize__ // 8), ctypes.string_at(id(qp), type(qp).__basicsize__))
    for word in words[2:]:
        if word >= lowest_address and ctypes.c_uint32.from_address(word + qp_num_offset).value == qp.qp_num:
            return ctypes.c_void_p(word)
    raise LookupError('this pyverbs has another layout')


def change_group(function, qp, mgid, mlid):
    """ibv_attach_mcast or ibv_detach_mcast, which Debian 12's pyverbs does not have."""
    verb = getattr(ctypes.CDLL(None), function)
    assert verb(ibv_qp_of(qp), ctypes.create_string_buffer(gid_bytes(mgid), 16), ctypes.c_uint16(mlid)) == 0, function


class Peer:
    def __init__(self):
        self.context = Context(name=DEVICE)
        self.pd = PD(self.context)
        self.receive_cq = CQ(self.context, DEPTH)
        self.send_cq = CQ(self.context, DEPTH)
        init = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.send_cq, rcq=self.receive_cq,
                          cap=QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH))
        self.qp = QP(self.pd, init)
        attributes = QPAttr(port_num=PORT)
        attributes.qkey, attributes.pkey_index = QKEY, 0
        self.receives = [MR(self.pd, GRH + SIZE, e.IBV_ACCESS_LOCAL_WRITE) for _ in range(DEPTH)]
        self.message = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.qp.to_rts(attributes)
        for number in range(DEPTH):
            self.post_receive(number)

    def send(self, mgid_text, mlid, text):
        route = GlobalRoute(dgid=GID(ipaddress.IPv6Address(mgid_text).exploded), sgid_index=0)
        ah = AH(self.pd, attr=AHAttr(dlid=mlid, is_global=1, port_num=PORT, gr=route))
        self.message.write(text, len(text))
        request = SendWR(num_sge=1, sg=[SGE(self.message.buf, len(text), self.message.lkey)], opcode=e.IBV_WR_SEND,
                         send_flags=e.IBV_SEND_SIGNALED)
        request.set_wr_ud(ah, 0xffffff, QKEY)
        self.qp.post_send(request)
        count = 0
        while count == 0:
            count, completions = self.send_cq.poll(1)
        assert completions[0].status == e.IBV_WC_SUCCESS

    def post_receive(self, number):
        mr = self.receives[number]
        self.qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[SGE(mr.buf, GRH + SIZE, mr.lkey)]))

    def receive(self, patience):
        """The text of the next datagram, or None if none comes within so many seconds."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            count, completions = self.receive_cq.poll(1)
            if count == 0:
                continue
            done = completions[0]
            assert done.status == e.IBV_WC_SUCCESS
            text = self.receives[done.wr_id].read(done.byte_len - GRH, GRH).decode()
            self.post_receive(done.wr_id)
            print('from LID %d: %s' % (done.slid, text), flush=True)
            return text
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('mgid')
    parser.add_argument('--join', action='store_true')
    parser.add_argument('--answer')
    parser.add_argument('--send')
    parser.add_argument('--until')
    options = parser.parse_args()
    peer = Peer()
    port = peer.context.query_port(PORT)
    own = gid_bytes(str(peer.context.query_gid(PORT, 0)))
    mlid = join(gid_bytes(options.mgid), own, port.sm_lid) if options.join else 0xc001
    change_group('ibv_attach_mcast', peer.qp, options.mgid, mlid)
    print('ready', flush=True)
    while options.answer:
        if peer.receive(1) not in (None, options.answer):
            peer.send(options.mgid, mlid, options.answer)
    heard = None
    while heard != options.until:
        if heard is None:
            peer.send(options.mgid, mlid, options.send)
        heard = peer.receive(0.1)
    change_group('ibv_detach_mcast', peer.qp, options.mgid, mlid)


if __name__ == '__main__':
    main()
