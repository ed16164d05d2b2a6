/* Netdevs of type "eoib": frames that they receive and send. The threads of the datapath. */
#include <config.h>

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "dp-packet.h"
#include "openvswitch/poll-loop.h"
#include "packets.h"
#include "userspace-tso.h"
#include "vswitch/ovs/netdev_eoib.h"

enum {
    HEADROOM = 128,                                     /* in front of a frame, for tunnel headers */
    LARGEST_FRAME = 65536,                              /* a super-frame */
    FRAMES_BEFORE_YIELD = 128,                          /* the receive buffer of a socket holds some 250 small datagrams */
};

struct rxq_eoib {
    struct netdev_rxq up;
    struct dp_packet *spare[NETDEV_MAX_BURST];          /* for frames to come */
    size_t room;                                        /* of each of them: for a frame of the largest MTU */
    char *rest;                                         /* with TSO: for each of them, what a super-frame has beyond that */
    bool busy;                                          /* the last burst had frames */
    unsigned int frames;                                /* since this thread yielded to the programs that read them */
};

static struct rxq_eoib *
rxq_eoib_cast(const struct netdev_rxq *rxq)
{
    return CONTAINER_OF(rxq, struct rxq_eoib, up);
}

struct netdev_rxq *
netdev_eoib_rxq_alloc(void)
{
    struct rxq_eoib *rxq = xzalloc(sizeof *rxq);
    return &rxq->up;
}

int
netdev_eoib_rxq_construct(struct netdev_rxq *rxq_)
{
    struct rxq_eoib *rxq = rxq_eoib_cast(rxq_);
    struct netdev_eoib *dev = netdev_eoib_cast(rxq_->netdev);

    dev->room_mtu = dev->largest_mtu;
    rxq->room = dev->room_mtu + EOIB_OVERHEAD;
    if (userspace_tso_enabled()) {
        rxq->rest = xmalloc(NETDEV_MAX_BURST * (size_t) LARGEST_FRAME);
    }
    return 0;
}

void
netdev_eoib_rxq_destruct(struct netdev_rxq *rxq_)
{
    struct rxq_eoib *rxq = rxq_eoib_cast(rxq_);

    for (size_t i = 0; i < ARRAY_SIZE(rxq->spare); i++) {
        dp_packet_delete(rxq->spare[i]);
    }
    free(rxq->rest);
}

void
netdev_eoib_rxq_dealloc(struct netdev_rxq *rxq)
{
    free(rxq_eoib_cast(rxq));
}

/* Marks a received packet as what it is: its checksum is to finish, and it may be a TCP super-frame. */
static void
set_offloads(struct dp_packet *packet, const struct eoib_frame *frame)
{
    const struct eth_header *eth = dp_packet_data(packet);
    ovs_be16 type = eth->eth_type;

    if (!(frame->flags & EOIB_FRAME_CHECKSUM_NEEDED)) {
        return;
    }
    if (eth_type_vlan(type)) {
        type = ((const struct vlan_header *) (eth + 1))->vlan_next_type;
    }
    if (type == htons(ETH_TYPE_IP)) {
        dp_packet_hwol_set_tx_ipv4(packet);
    } else {
        dp_packet_hwol_set_tx_ipv6(packet);
    }
    if (frame->checksum_offset == offsetof(struct tcp_header, tcp_csum)) {
        dp_packet_hwol_set_csum_tcp(packet);
    } else {
        dp_packet_hwol_set_csum_udp(packet);
    }
    if (frame->segment_type == EOIB_SEGMENT_TCP) {
        dp_packet_hwol_set_tcp_seg(packet);
    }
}

/* The reverse, for a packet to send. Returns false if the packet lacks the headers. */
static bool
get_offloads(struct dp_packet *packet, int mtu, struct eoib_frame *frame)
{
    bool tso = dp_packet_hwol_is_tso(packet);

    if (!dp_packet_hwol_tx_l4_checksum(packet) && !tso) {
        return true;
    }
    if (!dp_packet_l4(packet)) {
        return false;
    }
    frame->flags = EOIB_FRAME_CHECKSUM_NEEDED;
    frame->checksum_start = packet->l4_ofs;
    frame->checksum_offset = tso || dp_packet_hwol_l4_is_tcp(packet) ? offsetof(struct tcp_header, tcp_csum)
                             : dp_packet_hwol_l4_is_sctp(packet)     ? offsetof(struct sctp_header, sctp_csum)
                                                                     : offsetof(struct udp_header, udp_csum);
    if (tso) {
        const struct tcp_header *tcp = dp_packet_l4(packet);
        int headers = packet->l4_ofs + (dp_packet_l4_size(packet) < TCP_HEADER_LEN ? 0 : TCP_OFFSET(tcp->tcp_ctl) * 4);
        int size = mtu + ETH_HEADER_LEN - headers;

        if (headers == packet->l4_ofs || size <= 0) {
            return false;
        }
        if ((int) dp_packet_size(packet) > headers + size) {
            frame->segment_type = EOIB_SEGMENT_TCP;
            frame->segment_size = size;
        }
    }
    return true;
}

/* Returns the frame that was received into the spare packet, and its rest. Most frames leave the spare packet itself; a super-frame is
 * copied into a packet of its size, because packets are in one piece, and one of 64 KiB for each frame would cost too much. */
static struct dp_packet *
take_packet(struct rxq_eoib *rxq, int index, size_t length)
{
    struct dp_packet *packet = rxq->spare[index];

    if (length <= rxq->room) {
        rxq->spare[index] = NULL;
        dp_packet_set_size(packet, length);
        return packet;
    }
    packet = dp_packet_new_with_headroom(length, HEADROOM);
    dp_packet_put(packet, dp_packet_data(rxq->spare[index]), rxq->room);
    dp_packet_put(packet, rxq->rest + index * (size_t) LARGEST_FRAME, length - rxq->room);
    return packet;
}

int
netdev_eoib_rxq_recv(struct netdev_rxq *rxq_, struct dp_packet_batch *batch, int *qfill)
{
    struct rxq_eoib *rxq = rxq_eoib_cast(rxq_);
    struct netdev_eoib *dev = netdev_eoib_cast(rxq_->netdev);
    struct iovec iov[NETDEV_MAX_BURST][2];
    struct eoib_frame frames[NETDEV_MAX_BURST];
    int count;

    if (!dev->vport) {
        return EAGAIN;
    }
    if (rxq->frames >= FRAMES_BEFORE_YIELD) {
        rxq->frames = 0;
        sched_yield();
    }
    for (size_t i = 0; i < NETDEV_MAX_BURST; i++) {
        if (!rxq->spare[i]) {
            rxq->spare[i] = dp_packet_new_with_headroom(rxq->room, HEADROOM);
        }
        iov[i][0] = (struct iovec) { dp_packet_data(rxq->spare[i]), rxq->room };
        if (rxq->rest) {
            iov[i][1] = (struct iovec) { rxq->rest + i * LARGEST_FRAME, LARGEST_FRAME };
        }
        frames[i] = (struct eoib_frame) { .iov = iov[i], .iov_count = rxq->rest ? 2 : 1 };
    }
    count = eoib_receive(dev->vport, rxq_->queue_id, frames, NETDEV_MAX_BURST);
    rxq->busy = count > 0;
    if (count <= 0) {
        return EAGAIN;
    }
    rxq->frames += count;
    for (int i = 0; i < count; i++) {
        struct dp_packet *packet = take_packet(rxq, i, frames[i].length);

        set_offloads(packet, &frames[i]);
        dp_packet_batch_add(batch, packet);
    }
    if (qfill) {
        *qfill = -ENOTSUP;
    }
    return 0;
}

/* While frames come, the queue is polled: an armed one would cost its peers a doorbell, and this thread a wake-up, for each burst. */
void
netdev_eoib_rxq_wait(struct netdev_rxq *rxq)
{
    struct netdev_eoib *dev = netdev_eoib_cast(rxq->netdev);

    if (!dev->vport) {
        return;
    }
    if (rxq_eoib_cast(rxq)->busy || eoib_vport_arm(dev->vport, rxq->queue_id) > 0) {
        poll_immediate_wake();
    } else {
        poll_fd_wait(eoib_vport_wait_fd(dev->vport, rxq->queue_id), POLLIN);
    }
}

int
netdev_eoib_rxq_drain(struct netdev_rxq *rxq)
{
    struct dp_packet_batch batch;

    dp_packet_batch_init(&batch);
    while (!netdev_eoib_rxq_recv(rxq, &batch, NULL)) {
        dp_packet_delete_batch(&batch, true);
        dp_packet_batch_init(&batch);
    }
    return 0;
}

int
netdev_eoib_send(struct netdev *netdev, int qid, struct dp_packet_batch *batch, bool concurrent_txq)
    OVS_NO_THREAD_SAFETY_ANALYSIS                       /* the lock is for queues that threads share */
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct iovec iov[NETDEV_MAX_BURST];
    struct eoib_frame frames[NETDEV_MAX_BURST];
    int count = 0, sent = 0, mtu;
    struct dp_packet *packet;

    atomic_read_relaxed(&dev->segment_mtu, &mtu);

    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        iov[count] = (struct iovec) { dp_packet_data(packet), dp_packet_size(packet) };
        frames[count] = (struct eoib_frame) { .iov = &iov[count], .iov_count = 1, .length = dp_packet_size(packet) };
        count += get_offloads(packet, mtu, &frames[count]);
    }
    if (dev->vport) {
        if (concurrent_txq) {
            ovs_spin_lock(&dev->send_locks[qid]);
        }
        sent = eoib_send(dev->vport, qid, frames, count);
        if (concurrent_txq) {
            ovs_spin_unlock(&dev->send_locks[qid]);
        }
    }
    if (MAX(sent, 0) < dp_packet_batch_size(batch)) {
        uint64_t before;

        atomic_add_relaxed(&dev->tx_dropped, dp_packet_batch_size(batch) - MAX(sent, 0), &before);
        sched_yield();                                  /* the receiver may wait for this processor */
    }
    dp_packet_delete_batch(batch, true);
    return 0;
}
