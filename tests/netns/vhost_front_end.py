#!/usr/bin/env python3
"""A program that speaks vhost-user without a virtual machine: honest, or hostile.

    vhost_front_end.py SOCKET NEIGHBOUR CONTROL CASE...
    vhost_front_end.py --list    the cases, one on each line

Runs each case at SOCKET, where the agent listens, and after each an honest machine. While a case holds a state that could
stop others, an honest machine works at the socket NEIGHBOUR of the same agent, and the command CONTROL (eoibctl -t ...) answers.
An honest machine asks for the MAC of 10.0.0.2 by ARP and waits for the answer, so that frames pass both ways.

The protocol is that of QEMU's docs/interop/vhost-user.rst, the rings are those of virtio 1.1.
"""
import array
import fcntl
import mmap
import os
import random
import select
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time

(GET_FEATURES, SET_FEATURES, SET_OWNER, RESET_OWNER, SET_MEM_TABLE, SET_LOG_BASE, SET_LOG_FD, SET_VRING_NUM, SET_VRING_ADDR,
 SET_VRING_BASE, GET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR, GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES,
 GET_QUEUE_NUM, SET_VRING_ENABLE, SEND_RARP, NET_SET_MTU) = range(1, 21)
SET_STATUS, GET_STATUS = 39, 40
NEEDS_REPLY = 8
HAVE_ANSWERS = {GET_FEATURES, GET_VRING_BASE, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_LOG_BASE, GET_STATUS}

PROTOCOL_FEATURES, VERSION_1, EVENT_INDEX, INDIRECT, LOG_ALL = 1 << 30, 1 << 32, 1 << 29, 1 << 28, 1 << 26
REPLY_ACK, LOG_SHMFD, MQ = 1 << 3, 1 << 1, 1 << 0
FEATURES = PROTOCOL_FEATURES | VERSION_1

MEMORY, GUEST, USER = 1 << 20, 0x40000000, 0x7F0000000000  # size; guest-physical and virtual address of its start
QUEUE = 64  # entries
PATIENCE = 20  # seconds
GUEST_MAC = bytes.fromhex("5254000000aa")


class Refused(Exception):
    """The agent ended the connection."""


class FrontEnd:
    def __init__(self, path):
        self.connect(path)
        self.memfd = os.memfd_create("guest", 0)
        os.ftruncate(self.memfd, MEMORY)
        self.memory = mmap.mmap(self.memfd, MEMORY)
        self.kicks = [os.eventfd(0) for _ in range(2)]
        self.calls = [os.eventfd(0) for _ in range(2)]
        # The rings of queue i are at i * 64 KiB: descriptors, available ring, used ring. Buffers follow at 512 KiB.
        self.rings = [[i << 16, (i << 16) + 0x4000, (i << 16) + 0x8000] for i in range(2)]
        self.taken = 0

    def connect(self, path):
        """Retries while the agent has not noticed the end of a former connection."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(PATIENCE)
            self.socket.connect(path)
            try:
                return self.ask(GET_FEATURES)
            except Refused:
                self.socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self):
        self.socket.close()
        for fd in [self.memfd] + self.kicks + self.calls:
            os.close(fd)
        self.memory.close()

    # ---- messages

    def send(self, request, payload=b"", fds=(), flags=1, size=None):
        header = struct.pack("=III", request, flags, len(payload) if size is None else size)
        try:
            control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            self.socket.sendmsg([header + payload], control)
        except OSError as error:
            raise Refused(error) from error

    def receive(self):
        try:
            header = self.read(12)
            return self.read(struct.unpack("=III", header)[2])
        except OSError as error:
            raise Refused(error) from error

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise Refused("end of the connection")
            data += more
        return data

    def ask(self, request, payload=b"", fds=()):
        self.send(request, payload, fds)
        return self.receive()

    def acknowledged(self, request, payload=b"", fds=()):
        """Returns whether the agent accepted it. A refusal may end the connection."""
        self.send(request, payload, fds, flags=1 | NEEDS_REPLY)
        return struct.unpack("=Q", self.receive())[0] == 0

    # ---- the steps of a start

    def negotiate(self, features=FEATURES, protocol=REPLY_ACK | LOG_SHMFD | MQ):
        offered = struct.unpack("=Q", self.ask(GET_FEATURES))[0]
        self.send(SET_OWNER)
        offered_protocol = struct.unpack("=Q", self.ask(GET_PROTOCOL_FEATURES))[0]
        self.send(SET_PROTOCOL_FEATURES, struct.pack("=Q", protocol & offered_protocol))
        assert features & ~offered == 0, hex(offered)
        self.send(SET_FEATURES, struct.pack("=Q", features))

    def table(self, size=MEMORY, guest=GUEST, offset=0, fd=None):
        return struct.pack("=IIQQQQ", 1, 0, guest, size, USER, offset), [self.memfd if fd is None else fd]

    def share_memory(self, **changes):
        self.send(SET_MEM_TABLE, *self.table(**changes))

    def addresses(self, queue):
        desc, avail, used = (USER + at for at in self.rings[queue])
        return struct.pack("=IIQQQQ", queue, 0, desc, used, avail, 0)

    def set_up(self, queue, size=QUEUE, kick=None, call=None):
        self.send(SET_VRING_NUM, struct.pack("=II", queue, size))
        self.send(SET_VRING_BASE, struct.pack("=II", queue, 0))
        self.send(SET_VRING_ADDR, self.addresses(queue))
        self.send(SET_VRING_KICK, struct.pack("=Q", queue), [self.kicks[queue] if kick is None else kick])
        self.send(SET_VRING_CALL, struct.pack("=Q", queue), [self.calls[queue] if call is None else call])
        self.send(SET_VRING_ENABLE, struct.pack("=II", queue, 1))

    def start(self, features=FEATURES, **changes):
        self.negotiate(features)
        self.share_memory()
        for queue in (0, 1):
            self.set_up(queue, **changes)
        self.sync()

    def sync(self):
        """Waits until all messages so far were handled."""
        self.ask(GET_FEATURES)

    # ---- frames

    def put(self, queue, at, data=b"", length=2048, flags=0):
        """Makes a buffer at offset `at` of the memory available."""
        self.memory[at : at + len(data)] = data
        desc, avail, _ = self.rings[queue]
        index = struct.unpack_from("=H", self.memory, avail + 2)[0]
        slot = index % QUEUE
        struct.pack_into("=QIHH", self.memory, desc + 16 * slot, GUEST + at, length, flags, 0)
        struct.pack_into("=H", self.memory, avail + 4 + 2 * slot, slot)
        struct.pack_into("=H", self.memory, avail + 2, index + 1)
        os.eventfd_write(self.kicks[queue], 1)

    def offer_buffers(self, count=QUEUE):
        for i in range(count):
            self.put(0, (1 << 19) + 2048 * i, flags=2)

    def transmit(self, frame):
        data = bytes(12) + frame
        self.put(1, (1 << 19) + (1 << 18), data, len(data))

    def frames(self):
        """The frames that have come."""
        used = self.rings[0][2]
        while self.taken != struct.unpack_from("=H", self.memory, used + 2)[0]:
            slot, length = struct.unpack_from("=II", self.memory, used + 4 + 8 * (self.taken % QUEUE))
            at = struct.unpack_from("=Q", self.memory, self.rings[0][0] + 16 * slot)[0] - GUEST
            self.taken += 1
            yield self.memory[at + 12 : at + length]


def arp_request():
    return (b"\xff" * 6 + GUEST_MAC + bytes.fromhex("0806" "0001080006040001") + GUEST_MAC + bytes([10, 0, 0, 9]) +
            bytes(6) + bytes([10, 0, 0, 2]) + bytes(18))


neighbour, control_command = "", []


def control(*words):
    return subprocess.run([*control_command, *words], check=True, timeout=PATIENCE, stdout=subprocess.PIPE, text=True).stdout


def expect_that_others_work():
    be_honest(neighbour)
    control("show")


def be_honest(path):
    """Frames pass both ways."""
    front = FrontEnd(path)
    front.start()
    front.offer_buffers()
    deadline = time.monotonic() + PATIENCE
    sent = 0
    while time.monotonic() < deadline:
        if sent < 20:  # the agent may not have joined all groups
            front.transmit(arp_request())
            sent += 1
        select.select([front.calls[0]], [], [], 0.2)
        for frame in front.frames():
            if frame[12:14] == b"\x08\x06" and frame[21] == 2 and frame[28:32] == bytes([10, 0, 0, 2]):
                front.close()
                return
    sys.exit("no answer to an ARP request")


# ---- what hostile programs do -------------------------------------------------------------------------------------------

STAGES = {
    "connected": lambda front: None,
    "negotiated": lambda front: front.negotiate(),
    "with memory": lambda front: (front.negotiate(), front.share_memory()),
    "one queue": lambda front: (front.negotiate(), front.share_memory(), front.set_up(0)),
    "running": lambda front: (front.start(), front.offer_buffers(), front.transmit(arp_request())),
}


def at_each_stage(path, act):
    """Runs act(front) at each stage, on a connection of its own. The agent may end that."""
    for stage in STAGES.values():
        front = FrontEnd(path)
        try:
            stage(front)
            act(front)
            front.sync()
            if os.fstat(front.memfd).st_size == MEMORY:
                front.transmit(arp_request())
            front.sync()
        except Refused:
            pass
        front.close()


def payloads(front, request):
    """Payloads that the request might have, good and bad, with descriptors."""
    yield b"", []
    yield b"", [front.kicks[0]]
    yield struct.pack("=Q", 0), []
    yield struct.pack("=Q", 0), [front.kicks[0]]
    yield struct.pack("=Q", 0xFFFFFFFFFFFFFFFF), []
    yield struct.pack("=II", 1, 1 << 15), []
    yield struct.pack("=II", 31, 4096), []
    yield struct.pack("=II", 255, 3), []
    yield front.addresses(1), []
    yield struct.pack("=QQ", MEMORY, 0), [front.memfd]
    yield front.table()[0], [front.memfd]
    yield front.table()[0], [front.memfd] * 8
    yield bytes(264), []
    if request == SET_LOG_BASE:
        yield struct.pack("=QQ", 1 << 62, 1 << 62), [front.memfd]
        yield struct.pack("=QQ", 8, MEMORY - 8), [front.memfd]


def every_message(path):
    for request in list(range(0, 24)) + [26, 28, 29, 30, 31, 32, 35, 37, SET_STATUS, GET_STATUS, 41, 0xFFFFFFFF]:
        probe = FrontEnd(path)
        count = len(list(payloads(probe, request)))
        probe.close()
        for i in range(count):
            flags = 1 | (NEEDS_REPLY if i % 2 else 0)
            at_each_stage(path, lambda front: front.send(request, *list(payloads(front, request))[i], flags=flags))


def reset_owner(path):
    at_each_stage(path, lambda front: front.send(RESET_OWNER))
    at_each_stage(path, lambda front: (front.send(RESET_OWNER), front.send(SET_VRING_ENABLE, struct.pack("=II", 0, 1))))
    at_each_stage(path, lambda front: front.acknowledged(RESET_OWNER))


def log_after_reset(path):
    """A dirty log that a reset takes away, and then a migration."""
    front = FrontEnd(path)
    front.negotiate(FEATURES)
    log = os.memfd_create("log", 0)
    os.ftruncate(log, 1 << 28)
    front.ask(SET_LOG_BASE, struct.pack("=QQ", 1 << 28, 0), [log])
    front.send(RESET_OWNER)
    try:
        front.negotiate(FEATURES | LOG_ALL)
        front.share_memory()
        for queue in (0, 1):
            front.set_up(queue)
        front.offer_buffers()
        for _ in range(16):
            front.transmit(arp_request())
        front.sync()
    except Refused:
        pass
    expect_that_others_work()
    front.close()
    os.close(log)


def repeated_resets(path):
    """Each could cost memory that all machines share."""
    front = FrontEnd(path)
    front.negotiate()
    for _ in range(150):
        for queue in range(16):
            front.send(SET_VRING_NUM, struct.pack("=II", queue, 4096))
        front.send(RESET_OWNER)
    front.sync()
    expect_that_others_work()
    front.close()


def socket_with_our_name(path):
    """A socket that is named as that of another machine, and waits in the agent while that machine connects."""
    front = FrontEnd(path)
    ours, theirs = socket.socketpair()
    script = textwrap.dedent(f"""
        import socket
        impostor, peer = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        ours = socket.socket(fileno={theirs.fileno()})
        impostor.bind({neighbour!r})
        impostor.listen(1)
        peer.connect({neighbour!r})
        accepted = impostor.accept()[0]
        socket.send_fds(ours, [b"x"], [accepted.fileno(), peer.fileno()])
        """)
    hidden = f'mount -t tmpfs none {os.path.dirname(neighbour)} && exec {sys.executable} -c "$0"'
    subprocess.run(["unshare", "-m", "sh", "-c", hidden, script], check=True, timeout=PATIENCE, pass_fds=[theirs.fileno()])
    _, fds, _, _ = socket.recv_fds(ours, 1, 2)
    front.send(SET_MEM_TABLE, b"", fds[:1] * 8, size=72)  # the rest of the message does not come
    time.sleep(0.2)  # the relay takes it, and nothing tells of that
    other = FrontEnd(neighbour)
    other.send(31)
    deadline = time.monotonic() + PATIENCE
    while "request 31, which is not for network interfaces" not in control("show"):
        assert time.monotonic() < deadline, "the library serves that machine without a relay"
    other.close()
    front.close()
    for fd in fds:
        os.close(fd)


def lost_pages(path):
    """Frames in single bytes of pages that the file of the memory does not have."""
    front = FrontEnd(path)
    front.negotiate(FEATURES | INDIRECT)
    front.share_memory(size=1 << 34)
    for queue in (0, 1):
        front.set_up(queue)
    front.sync()
    desc, avail, _ = front.rings[1]
    page = 1 << 11
    for chain in range(QUEUE):
        table = (1 << 18) + 4096 * chain
        for i in range(256):
            struct.pack_into("=QIHH", front.memory, table + 16 * i, GUEST + 4096 * page, 1, 1 if i < 255 else 0, (i + 1) % 256)
            page += 2
        struct.pack_into("=QIHH", front.memory, desc + 16 * chain, GUEST + table, 4096, 4, 0)
        struct.pack_into("=H", front.memory, avail + 4 + 2 * chain, chain)
    struct.pack_into("=H", front.memory, avail + 2, QUEUE)
    os.eventfd_write(front.kicks[1], 1)
    front.sync()
    expect_that_others_work()
    agent = int(os.environ["EOIB_AGENT"])
    with open(f"/proc/{agent}/maps", encoding="ascii") as maps:
        assert sum(1 for _ in maps) < 5000
    front.close()


def wrong_sizes(path):
    for size in (1, 7, 9, 265, 4096, 1 << 31, 0xFFFFFFFF):
        at_each_stage(path, lambda front: front.send(SET_VRING_NUM, bytes(min(size, 8192)), size=size))


def ring_sizes(size, features):
    event = 2 if features & EVENT_INDEX else 0
    return [16 * size, 4 + 2 * size + event, 4 + 8 * size + event]


def expect_trouble(path):
    """`show` says why no frames pass at the vPort. The agent looks once a second."""
    name = os.path.basename(path).split(".")[0]
    troubles = ("rings that are not in the guest's memory", "has not started the interface")
    deadline = time.monotonic() + PATIENCE
    while True:
        line = next(line for line in control("show").splitlines() if f"vPort {name}:" in line)
        if any(trouble in line for trouble in troubles):
            return
        assert time.monotonic() < deadline, line
        time.sleep(0.05)


def rings_outside(path):
    """Rings that end behind the memory."""
    for features in (FEATURES, FEATURES | EVENT_INDEX):
        for ring in range(3):
            needed = ring_sizes(QUEUE, features)[ring]
            for left in (0, needed - (16, 2, 4)[ring], needed + 12):
                front = FrontEnd(path)
                front.rings = [list(one) for one in front.rings]
                at = (MEMORY - left) & ~(15, 1, 3)[ring]
                front.rings[0][ring] = front.rings[1][ring] = at
                front.start(features)
                os.eventfd_write(front.kicks[1], 1)
                front.sync()
                if MEMORY - at < needed:
                    expect_trouble(path)
                front.close()


def sizes_changed(path):
    """Queues that grow after the start, with a ring that then ends behind the memory."""
    for size in (0, 3, 128, 4096, 32768):
        for ring in range(3):
            front = FrontEnd(path)
            try:
                front.rings[1][ring] = MEMORY - 1024  # fits 64 entries
                front.start()
                front.offer_buffers()
                for _ in range(4):
                    front.transmit(arp_request())
                front.sync()
                front.send(SET_VRING_NUM, struct.pack("=II", 1, size))
                os.eventfd_write(front.kicks[1], 1)
                front.sync()
                if ring_sizes(size, FEATURES)[ring] > 1024:
                    expect_trouble(path)
                front.send(SET_VRING_KICK, struct.pack("=Q", 1), [front.kicks[1]])
                front.sync()
            except Refused:
                pass
            front.close()


def features_changed(path):
    """EVENT_IDX makes rings longer that end with their region."""
    front = FrontEnd(path)
    front.rings[0][2] = MEMORY - 4 - 8 * QUEUE
    front.start()
    for queue in (0, 1):
        front.ask(GET_VRING_BASE, struct.pack("=II", queue, 0))
    front.send(SET_FEATURES, struct.pack("=Q", FEATURES | EVENT_INDEX))
    for queue in (0, 1):
        front.set_up(queue)
    front.transmit(arp_request())
    front.sync()
    expect_trouble(path)
    front.close()


def refused_messages(path):
    """A refusal with acknowledgement keeps the connection of some libraries. Then every further message."""
    refusals = [
        lambda front: front.acknowledged(SET_MEM_TABLE, *front.table(size=1 << 62)),
        lambda front: front.acknowledged(SET_MEM_TABLE, *front.table(offset=1 << 63)),
        lambda front: front.acknowledged(SET_VRING_NUM, struct.pack("=II", 0, 3)),
        lambda front: front.acknowledged(SET_FEATURES, struct.pack("=Q", 0xFFFFFFFFFFFFFFFF)),
        lambda front: front.acknowledged(SET_VRING_ADDR, struct.pack("=IIQQQQ", 0, 1, 1, 2, 3, 4)),
        lambda front: front.acknowledged(SET_LOG_BASE, struct.pack("=QQ", 1 << 62, 0), [front.memfd]),
        lambda front: front.acknowledged(NET_SET_MTU, struct.pack("=Q", 1)),
    ]
    for refuse in refusals:
        at_each_stage(path, lambda front: (refuse(front), front.send(SET_VRING_ENABLE, struct.pack("=II", 1, 1))))


def memory_replaced(path):
    """Smaller and larger memory under running queues, and memory whose file shrinks."""
    def replace(front):
        for size in (MEMORY // 2, 4096, MEMORY, 1 << 40):
            front.share_memory(size=size)
            front.transmit(arp_request())
        front.sync()
    at_each_stage(path, replace)
    at_each_stage(path, lambda front: (os.ftruncate(front.memfd, 0), os.eventfd_write(front.kicks[1], 1)))
    at_each_stage(path, lambda front: (os.ftruncate(front.memfd, 4096), front.sync()))


def half_messages(path):
    for part in (1, 11, 12, 13, 19):
        front = FrontEnd(path)
        front.negotiate()
        front.socket.sendall(struct.pack("=IIIII", SET_VRING_NUM, 1, 8, 0, QUEUE)[:part])
        expect_that_others_work()
        front.close()


def deleted_with_a_half_message(path):
    """The operator deletes the vPort of a program that keeps the agent waiting."""
    front = FrontEnd(path)
    front.start()
    front.socket.sendall(struct.pack("=IIIII", SET_VRING_NUM, 1, 8, 0, QUEUE)[:13])
    name = os.path.basename(path).split(".")[0]
    control("vport", "del", name)
    control("vport", "add", name, "ves=red", "type=vhost-user", "socket=" + path)
    front.close()


def unread_answers(path):
    front = FrontEnd(path)
    front.socket.settimeout(1)
    try:
        for _ in range(3000):
            front.send(GET_FEATURES)
    except Refused:
        pass
    expect_that_others_work()
    front.close()


def blocking_interrupts(path):
    """A write to the eventfd of an interrupt would wait."""
    front = FrontEnd(path)
    front.start()
    for call in front.calls:
        fcntl.fcntl(call, fcntl.F_SETFL, os.O_NONBLOCK)
        try:
            os.eventfd_read(call)
        except BlockingIOError:
            pass
        os.eventfd_write(call, 0xFFFFFFFFFFFFFFFE)
        fcntl.fcntl(call, fcntl.F_SETFL, 0)
    front.offer_buffers()
    for _ in range(16):
        front.transmit(arp_request())
    front.sync()
    expect_that_others_work()
    front.close()


def foreign_descriptors(path):
    """Descriptors of other kinds in the place of eventfds and of memory."""
    reader, writer = os.pipe()
    kinds = [reader, writer, os.open("/dev/zero", os.O_RDWR), os.open("/", os.O_RDONLY), os.open("/dev/null", os.O_RDWR),
             os.open("/proc/self/mem", os.O_RDWR), socket.socket().detach()]
    for fd in kinds:
        at_each_stage(path, lambda front: front.send(SET_VRING_CALL, struct.pack("=Q", 0), [fd]))
        at_each_stage(path, lambda front: front.send(SET_VRING_KICK, struct.pack("=Q", 1), [fd]))
        at_each_stage(path, lambda front: front.send(SET_VRING_ERR, struct.pack("=Q", 1), [fd]))
        at_each_stage(path, lambda front: front.share_memory(fd=fd))
        at_each_stage(path, lambda front: front.send(SET_LOG_BASE, struct.pack("=QQ", 4096, 0), [fd]))
    for fd in kinds:
        os.close(fd)


def lingering_socket():
    """A TCP socket whose last close waits for a minute, or until its peer, which is returned as well, is closed."""
    listener = socket.create_server(("127.0.0.1", 0))
    lingering = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    listener.close()
    lingering.setblocking(False)
    for _ in range(2):
        try:
            while True:
                lingering.send(bytes(1 << 16))
        except BlockingIOError:
            time.sleep(0.05)  # the kernel may move some on
    lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return lingering, peer


def leave_lingering_socket(send):
    """Lets `send` pass it to the agent, whose close is then the last one. Returns its peer; None if the agent did not take it."""
    lingering, peer = lingering_socket()
    try:
        send([(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [lingering.fileno()]))])
    except OSError:
        lingering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        peer = None
    threading.Thread(target=lingering.close, daemon=True).start()  # perhaps the agent's close came first, and this one waits
    return peer


def closes_that_wait(path):
    """Descriptors that hold up who closes them: in a message, behind a refused one, and from a machine that is refused."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    call = struct.pack("=IIIQ", SET_VRING_CALL, 1, 8, 0)
    unknown = struct.pack("=III", 99, 1, 0)
    for data in (call, unknown + call):
        front = FrontEnd(path)
        peer = leave_lingering_socket(lambda control_data: front.socket.sendmsg([data], control_data))
        front.close()
        expect_that_others_work()
        peer.close()
    front = FrontEnd(path)
    peer = None
    for _ in range(50):  # the agent may refuse it first
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as refused:
            peer = leave_lingering_socket(lambda control_data: (refused.connect(path), refused.sendmsg([b"x"], control_data)))
        if peer is not None:
            break
    expect_that_others_work()
    if peer is not None:
        peer.close()
    front.close()


def all_queues(path):
    """As many and as large queues as the agent accepts. Its memory for them is that of all machines."""
    for size in (1 << 15, 4096):
        front = FrontEnd(path)
        try:
            front.negotiate()
            front.share_memory()
            for queue in range(256):
                front.send(SET_VRING_NUM, struct.pack("=II", queue, size))
                front.sync()
                if queue % 16 == 15:
                    expect_that_others_work()
            sys.exit("all queues were accepted")
        except Refused:
            pass
        front.close()


def short_announcement(path):
    at_each_stage(path, lambda front: front.send(SEND_RARP, bytes(4)))
    deadline = time.monotonic() + PATIENCE
    while "because it sent SEND_RARP of a wrong size" not in control("show"):
        assert time.monotonic() < deadline, control("show")


def many_connections(path):
    first = FrontEnd(path)
    others = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(50)]
    for other in others:
        other.connect(path)
        other.close()
    first.sync()
    first.close()


def message_storm(path):
    """Messages that change nothing, as fast as the agent takes them, until the test ends the case."""
    front = FrontEnd(path)
    front.start()
    front.offer_buffers()
    front.transmit(arp_request())
    while True:
        for _ in range(100):
            front.send(SET_VRING_CALL, struct.pack("=Q", 0), [front.calls[0]])
        front.sync()


def random_messages(path):
    seed = int(os.environ.get("EOIB_TEST_SEED") or random.randrange(1 << 32))
    print(f"EOIB_TEST_SEED={seed}", file=sys.stderr)
    draw = random.Random(seed)
    for _ in range(150):
        front = FrontEnd(path)
        try:
            list(STAGES.values())[draw.randrange(len(STAGES))](front)
            for _ in range(draw.randrange(1, 8)):
                request = draw.choice([*range(1, 21), SET_STATUS, GET_STATUS])
                payload, fds = draw.choice(list(payloads(front, request)))
                if payload and draw.random() < 0.3:
                    payload = bytes(draw.randrange(256) if draw.random() < 0.1 else byte for byte in payload)
                front.send(request, payload, fds, flags=draw.choice([1, 1, 1, 9, 5, 0]))
                if request in HAVE_ANSWERS:
                    front.receive()
            front.sync()
        except Refused:
            pass
        front.close()


CASES = {case.__name__: case for case in (
    reset_owner, log_after_reset, repeated_resets, socket_with_our_name, lost_pages, every_message, wrong_sizes, rings_outside, sizes_changed, features_changed, refused_messages, memory_replaced,
    half_messages, deleted_with_a_half_message, unread_answers, blocking_interrupts, foreign_descriptors, closes_that_wait, all_queues, short_announcement, many_connections,
    message_storm, random_messages)}


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(CASES))
        return
    global neighbour, control_command
    path, neighbour, command, *cases = arguments
    control_command = command.split()
    for case in cases:
        if case != "honest":
            CASES[case](path)
        be_honest(path)


if __name__ == "__main__":
    main(sys.argv[1:])
