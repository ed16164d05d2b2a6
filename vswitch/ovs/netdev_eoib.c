/* Open vSwitch's port type "eoib": a bridge of the userspace datapath gets a port into a VES. "eoib-pmd" is the same, polled by PMD
 * threads.
 *
 * This is a thin layer over vswitch/eoib.h. A netdev is a vPort; netdevs with the same options hca and fabric share an HCA port.
 *
 * Threads. OVS' main thread calls everything but receive and send. It opens and closes vPorts in set_config, while no datapath has
 * the netdev, in reconfigure, when no thread receives from it nor sends to it, and in destruct. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "dp-packet.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/list.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "packets.h"
#include "smap.h"
#include "unixctl.h"
#include "userspace-tso.h"
#include "util.h"
#include "vswitch/eoib.h"

VLOG_DEFINE_THIS_MODULE(netdev_eoib);

void __real_bridge_init(const char *remote);
void __wrap_bridge_init(const char *remote);

enum {
    HEADROOM = 128,                                     /* in front of a frame, for tunnel headers */
    SMALLEST_MTU = 68,                                  /* of IPv4 */
    OVERHEAD = ETH_HEADER_LEN + VLAN_HEADER_LEN,        /* of a frame, to its MTU */
    LARGEST_FRAME = 65536,                              /* a super-frame */
};

/* An open HCA port, shared by the netdevs that name it. Main thread. */
struct hca_port {
    struct ovs_list node;
    char *hca, *fabric;                                 /* fabric may be NULL */
    struct eoib_port *port;
    int users;
};
static struct ovs_list hca_ports = OVS_LIST_INITIALIZER(&hca_ports);

struct config {
    char *hca, *fabric, *ves;
    uint16_t pkey;
    unsigned int queues;                                /* options:n_rxq, also the number of queues to send to */
};

struct netdev_eoib {
    struct netdev up;
    struct ovs_list node;                               /* in netdevs */

    /* Main thread. */
    struct config config;                               /* of vport; all NULL if there is none */
    struct config wanted;                               /* the options as they are now */
    struct hca_port *hca;
    uint64_t changes;                                   /* of the state, when `run` looked last */
    bool failed;                                        /* the failure of the HCA port is logged */
    enum netdev_flags flags;
    int mtu;                                            /* mtu_request; 0: the largest */

    struct eoib_vport *vport;                           /* or NULL */
    struct ovs_mutex mutex;
    struct eth_addr mac OVS_GUARDED;
    struct ovs_spin send_locks[EOIB_MOST_QUEUES];       /* for a queue that threads share */
    atomic_uint64_t tx_dropped;
    atomic_int segment_mtu;                             /* the interface's, which the segments of super-frames follow */
};

struct rxq_eoib {
    struct netdev_rxq up;
    struct dp_packet *spare[NETDEV_MAX_BURST];          /* for frames to come */
    size_t room;                                        /* of each of them: for a frame of the largest MTU */
    char *rest;                                         /* with TSO: for each of them, what a super-frame has beyond that */
};

static struct ovs_mutex netdevs_mutex = OVS_MUTEX_INITIALIZER;
static struct ovs_list netdevs OVS_GUARDED_BY(netdevs_mutex) = OVS_LIST_INITIALIZER(&netdevs);

static struct netdev_eoib *
netdev_eoib_cast(const struct netdev *netdev)
{
    return CONTAINER_OF(netdev, struct netdev_eoib, up);
}

static struct rxq_eoib *
rxq_eoib_cast(const struct netdev_rxq *rxq)
{
    return CONTAINER_OF(rxq, struct rxq_eoib, up);
}

static struct eoib_state state_of(const struct netdev_eoib *);

/* ---- HCA ports ------------------------------------------------------------------------------------------------------------ */

static void
log_line(void *aux OVS_UNUSED, int level, const char *text)
{
    if (level == EOIB_LOG_WARNING) {
        VLOG_WARN("%s", text);
    } else {
        VLOG_DBG("%s", text);
    }
}

/* Takes a reference to the HCA port. NULL on an error, with its text in `error`. */
static struct hca_port *
open_hca(const struct config *config, char *error, size_t error_size)
{
    struct eoib_port_options options = {
        .size = sizeof options, .hca = config->hca, .fabric = config->fabric, .log = log_line,
    };
    struct eoib_port *port;
    struct hca_port *hca;

    LIST_FOR_EACH (hca, node, &hca_ports) {
        if (!strcmp(hca->hca, config->hca) && nullable_string_is_equal(hca->fabric, config->fabric)
            && !eoib_port_failure(hca->port)) {
            hca->users++;
            return hca;
        }
    }
    port = eoib_port_open(&options, error, error_size);
    if (!port) {
        return NULL;
    }
    hca = xzalloc(sizeof *hca);
    hca->hca = xstrdup(config->hca);
    hca->fabric = nullable_xstrdup(config->fabric);
    hca->port = port;
    hca->users = 1;
    ovs_list_push_back(&hca_ports, &hca->node);
    return hca;
}

static void
close_hca(struct hca_port *hca)
{
    if (--hca->users) {
        return;
    }
    ovs_list_remove(&hca->node);
    eoib_port_close(hca->port);
    free(hca->hca);
    free(hca->fabric);
    free(hca);
}

/* ---- Configuration -------------------------------------------------------------------------------------------------------- */

static void
free_config(struct config *config)
{
    free(config->hca);
    free(config->fabric);
    free(config->ves);
    memset(config, 0, sizeof *config);
}

static bool
configs_are_equal(const struct config *a, const struct config *b)
{
    return a->pkey == b->pkey && a->queues == b->queues && nullable_string_is_equal(a->hca, b->hca)
           && nullable_string_is_equal(a->fabric, b->fabric) && nullable_string_is_equal(a->ves, b->ves);
}

static char *
parse_config(const char *name, const struct smap *args, struct config *config)
{
    const char *hca = smap_get(args, "hca");
    const char *ves = smap_get(args, "ves");
    const char *pkey = smap_get(args, "pkey");
    const struct smap_node *node;
    unsigned int number;

    SMAP_FOR_EACH (node, args) {
        if (strcmp(node->key, "hca") && strcmp(node->key, "ves") && strcmp(node->key, "pkey")
            && strcmp(node->key, "fabric") && strcmp(node->key, "n_rxq")) {
            return xasprintf("%s: there is no option \"%s\"; there are hca, ves, pkey, fabric and n_rxq", name, node->key);
        }
    }
    if (!hca) {
        return xasprintf("%s: options:hca is missing: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME", name);
    }
    if (!ves || !*ves) {
        return xasprintf("%s: options:ves is missing: the name of a virtual Ethernet switch", name);
    }
    if (!pkey || !str_to_uint(pkey, 0, &number) || number > 0xffff || !(number & 0x7fff)) {
        return xasprintf("%s: options:pkey is \"%s\", and must be the P_Key of the VES, such as 0x8001", name, pkey ? pkey : "");
    }
    if (!str_to_uint(smap_get_def(args, "n_rxq", "1"), 10, &config->queues) || config->queues < 1
        || config->queues > EOIB_MOST_QUEUES) {
        return xasprintf("%s: options:n_rxq is \"%s\", and must be 1 to %d", name, smap_get(args, "n_rxq"), EOIB_MOST_QUEUES);
    }
    config->hca = xstrdup(hca);
    config->ves = xstrdup(ves);
    config->fabric = nullable_xstrdup(smap_get(args, "fabric"));
    config->pkey = number;
    return NULL;
}

static int
mtu_of(const struct netdev_eoib *dev)
{
    int largest = state_of(dev).mtu;

    return dev->mtu && dev->mtu < largest ? dev->mtu : largest;
}

static void
close_vport(struct netdev_eoib *dev)
{
    if (!dev->vport) {
        return;
    }
    eoib_vport_close(dev->vport);
    close_hca(dev->hca);
    dev->vport = NULL;
    dev->hca = NULL;
    free_config(&dev->config);
}

/* Opens a vPort with the wanted configuration. Returns an error message to free, or NULL. */
static char *
open_vport(struct netdev_eoib *dev)
{
    const char *name = netdev_get_name(&dev->up);
    struct eoib_vport_options options = {
        .size = sizeof options, .name = name, .ves = dev->wanted.ves, .pkey = dev->wanted.pkey,
        .queues = dev->wanted.queues,
        .flags = userspace_tso_enabled() ? EOIB_VPORT_UNFINISHED_CHECKSUMS | EOIB_VPORT_TCP_SEGMENTS : 0,
    };
    char error[512] = "";

    dev->hca = open_hca(&dev->wanted, error, sizeof error);
    if (!dev->hca) {
        return xasprintf("%s: %s", name, error);
    }
    dev->vport = eoib_vport_open(dev->hca->port, &options, error, sizeof error);
    if (!dev->vport) {
        close_hca(dev->hca);
        dev->hca = NULL;
        return xasprintf("%s: %s", name, error);
    }
    dev->config = dev->wanted;
    memset(&dev->wanted, 0, sizeof dev->wanted);
    dev->up.n_rxq = dev->config.queues;
    dev->up.n_txq = dev->config.queues;
    dev->failed = false;
    atomic_store_relaxed(&dev->segment_mtu, mtu_of(dev));
    return NULL;
}

static int
netdev_eoib_set_config(struct netdev *netdev, const struct smap *args, char **errp)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct config config = { NULL, NULL, NULL, 0, 0 };
    char *error = parse_config(netdev_get_name(netdev), args, &config);

    if (!error && dev->vport && configs_are_equal(&config, &dev->config)) {
        free_config(&config);
        free_config(&dev->wanted);
        return 0;
    }
    if (!error) {
        free_config(&dev->wanted);
        dev->wanted = config;
        if (dev->vport) {
            netdev_request_reconfigure(netdev);
        } else {
            error = open_vport(dev);
        }
    }
    if (!error) {
        return 0;
    }
    if (errp) {
        *errp = error;
    } else {
        VLOG_WARN("%s", error);
        free(error);
    }
    return EINVAL;
}

/* No thread receives from the netdev nor sends to it. */
static int
netdev_eoib_reconfigure(struct netdev *netdev)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    char *error;

    if (!dev->wanted.hca) {
        return 0;
    }
    close_vport(dev);
    error = open_vport(dev);
    if (!error) {
        netdev_change_seq_changed(netdev);
        return 0;
    }
    VLOG_ERR("%s", error);
    free(error);
    return EINVAL;
}

static int
netdev_eoib_get_config(const struct netdev *netdev, struct smap *args)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    if (dev->vport) {
        smap_add(args, "hca", dev->config.hca);
        smap_add(args, "ves", dev->config.ves);
        smap_add_format(args, "pkey", "0x%04x", dev->config.pkey);
        if (dev->config.fabric) {
            smap_add(args, "fabric", dev->config.fabric);
        }
        smap_add_format(args, "n_rxq", "%u", dev->config.queues);
    }
    return 0;
}

/* ---- Life ----------------------------------------------------------------------------------------------------------------- */

static struct netdev *
netdev_eoib_alloc(void)
{
    struct netdev_eoib *dev = xzalloc(sizeof *dev);
    return &dev->up;
}

static int
netdev_eoib_construct(struct netdev *netdev)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_init(&dev->mutex);
    for (size_t i = 0; i < ARRAY_SIZE(dev->send_locks); i++) {
        ovs_spin_init(&dev->send_locks[i]);
    }
    atomic_init(&dev->tx_dropped, 0);
    atomic_init(&dev->segment_mtu, 0);
    if (userspace_tso_enabled()) {
        netdev->ol_flags |= NETDEV_TX_OFFLOAD_TCP_TSO | NETDEV_TX_OFFLOAD_TCP_CKSUM | NETDEV_TX_OFFLOAD_UDP_CKSUM
                            | NETDEV_TX_OFFLOAD_IPV4_CKSUM;
    }
    ovs_mutex_lock(&dev->mutex);
    eth_addr_random(&dev->mac);
    ovs_mutex_unlock(&dev->mutex);
    dev->flags = NETDEV_UP;                             /* nothing else sets a port of this type up */
    netdev->n_rxq = 1;
    netdev->n_txq = 1;
    ovs_mutex_lock(&netdevs_mutex);
    ovs_list_push_back(&netdevs, &dev->node);
    ovs_mutex_unlock(&netdevs_mutex);
    return 0;
}

static void
netdev_eoib_destruct(struct netdev *netdev)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_lock(&netdevs_mutex);
    ovs_list_remove(&dev->node);
    ovs_mutex_unlock(&netdevs_mutex);
    close_vport(dev);
    free_config(&dev->wanted);
    ovs_mutex_destroy(&dev->mutex);
    for (size_t i = 0; i < ARRAY_SIZE(dev->send_locks); i++) {
        ovs_spin_destroy(&dev->send_locks[i]);
    }
}

static void
netdev_eoib_dealloc(struct netdev *netdev)
{
    free(netdev_eoib_cast(netdev));
}

/* ---- State ---------------------------------------------------------------------------------------------------------------- */

static struct eoib_state
state_of(const struct netdev_eoib *dev)
{
    struct eoib_state state = { .size = sizeof state };

    if (!dev->vport || eoib_vport_state(dev->vport, &state) < 0) {
        state.carrier = 0;
    }
    return state;
}

static void
netdev_eoib_run(const struct netdev_class *class)
{
    struct netdev_eoib *dev;

    ovs_mutex_lock(&netdevs_mutex);
    LIST_FOR_EACH (dev, node, &netdevs) {
        const char *failure;
        uint64_t changes;

        if (netdev_get_class(&dev->up) != class || !dev->vport) {
            continue;
        }
        failure = eoib_port_failure(dev->hca->port);
        if (failure && !dev->failed) {
            dev->failed = true;
            VLOG_ERR("%s: %s; delete the port and add it again", netdev_get_name(&dev->up), failure);
            netdev_change_seq_changed(&dev->up);
        }
        changes = state_of(dev).changes;
        if (changes != dev->changes) {
            dev->changes = changes;
            atomic_store_relaxed(&dev->segment_mtu, mtu_of(dev));
            netdev_change_seq_changed(&dev->up);
        }
    }
    ovs_mutex_unlock(&netdevs_mutex);
}

static void
netdev_eoib_wait(const struct netdev_class *class)
{
    struct netdev_eoib *dev;

    ovs_mutex_lock(&netdevs_mutex);
    LIST_FOR_EACH (dev, node, &netdevs) {
        if (netdev_get_class(&dev->up) != class || !dev->vport) {
            continue;
        }
        /* Whatever asked for the state since `run` has cleared the event. */
        if (state_of(dev).changes != dev->changes) {
            poll_immediate_wake();
        } else {
            poll_fd_wait(eoib_vport_event_fd(dev->vport), POLLIN);
        }
    }
    ovs_mutex_unlock(&netdevs_mutex);
}

static int
netdev_eoib_get_carrier(const struct netdev *netdev, bool *carrier)
{
    *carrier = state_of(netdev_eoib_cast(netdev)).carrier;
    return 0;
}

static long long int
netdev_eoib_get_carrier_resets(const struct netdev *netdev)
{
    return state_of(netdev_eoib_cast(netdev)).carrier_resets;
}

static int
netdev_eoib_get_mtu(const struct netdev *netdev, int *mtu)
{
    *mtu = mtu_of(netdev_eoib_cast(netdev));
    return 0;
}

static int
netdev_eoib_set_mtu(struct netdev *netdev, int mtu)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    int largest = state_of(dev).mtu;

    if (mtu < SMALLEST_MTU || mtu > largest) {
        VLOG_WARN("%s: MTU %d: this VES has MTUs from %d to %d", netdev_get_name(netdev), mtu, SMALLEST_MTU, largest);
        return EINVAL;
    }
    if (dev->mtu != mtu) {
        dev->mtu = mtu;
        atomic_store_relaxed(&dev->segment_mtu, mtu);
        netdev_change_seq_changed(netdev);
    }
    return 0;
}

static int
netdev_eoib_get_etheraddr(const struct netdev *netdev, struct eth_addr *mac)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_lock(&dev->mutex);
    *mac = dev->mac;
    ovs_mutex_unlock(&dev->mutex);
    return 0;
}

static int
netdev_eoib_set_etheraddr(struct netdev *netdev, const struct eth_addr mac)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_lock(&dev->mutex);
    dev->mac = mac;
    ovs_mutex_unlock(&dev->mutex);
    netdev_change_seq_changed(netdev);
    return 0;
}

static int
netdev_eoib_update_flags(struct netdev *netdev, enum netdev_flags off, enum netdev_flags on, enum netdev_flags *old)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    if ((off | on) & ~(NETDEV_UP | NETDEV_PROMISC)) {
        return EINVAL;
    }
    *old = dev->flags;
    dev->flags = (dev->flags | on) & ~off;
    if (dev->flags != *old) {
        netdev_change_seq_changed(netdev);
    }
    return 0;
}

static int
netdev_eoib_get_stats(const struct netdev *netdev, struct netdev_stats *stats)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct eoib_stats ours = { .size = sizeof ours };
    uint64_t tx_dropped;
    int error = dev->vport ? eoib_vport_stats(dev->vport, &ours) : -ENODEV;

    if (error) {
        return -error;
    }
    /* Counters that stay UINT64_MAX are not reported. */
    memset(stats, 0xff, sizeof *stats);
    atomic_read_relaxed(&dev->tx_dropped, &tx_dropped);
    stats->rx_packets = ours.received;
    stats->rx_bytes = ours.received_bytes;
    stats->rx_dropped = ours.missed;
    stats->tx_packets = ours.sent;
    stats->tx_bytes = ours.sent_bytes;
    stats->tx_dropped = tx_dropped;
    return 0;
}

static void
add_counter(void *custom_, const char *name, uint64_t value)
{
    struct netdev_custom_stats *custom = custom_;
    struct netdev_custom_counter *counter;

    custom->counters = xrealloc(custom->counters, (custom->size + 1) * sizeof *custom->counters);
    counter = &custom->counters[custom->size++];
    ovs_strlcpy(counter->name, name, sizeof counter->name);
    counter->value = value;
}

/* Of the whole VES. */
static int
netdev_eoib_get_custom_stats(const struct netdev *netdev, struct netdev_custom_stats *custom)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    custom->size = 0;
    custom->counters = NULL;
    return dev->vport ? -eoib_vport_counters(dev->vport, add_counter, custom) : ENODEV;
}

static int
netdev_eoib_get_status(const struct netdev *netdev, struct smap *status)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    const char *failure = dev->vport ? eoib_port_failure(dev->hca->port) : NULL;

    smap_add(status, "driver_name", "eoib");
    if (dev->vport) {
        smap_add(status, "hca", dev->config.hca);
        smap_add(status, "ves", dev->config.ves);
        smap_add_format(status, "pkey", "0x%04x", dev->config.pkey);
        smap_add_format(status, "max_mtu", "%"PRIu32, state_of(dev).mtu);
    }
    if (failure) {
        smap_add(status, "failure", failure);
    }
    return 0;
}

/* ---- Frames --------------------------------------------------------------------------------------------------------------- */

static struct netdev_rxq *
netdev_eoib_rxq_alloc(void)
{
    struct rxq_eoib *rxq = xzalloc(sizeof *rxq);
    return &rxq->up;
}

static int
netdev_eoib_rxq_construct(struct netdev_rxq *rxq_)
{
    struct rxq_eoib *rxq = rxq_eoib_cast(rxq_);

    rxq->room = state_of(netdev_eoib_cast(rxq_->netdev)).mtu + OVERHEAD;
    if (userspace_tso_enabled()) {
        rxq->rest = xmalloc(NETDEV_MAX_BURST * (size_t) LARGEST_FRAME);
    }
    return 0;
}

static void
netdev_eoib_rxq_destruct(struct netdev_rxq *rxq_)
{
    struct rxq_eoib *rxq = rxq_eoib_cast(rxq_);

    for (size_t i = 0; i < ARRAY_SIZE(rxq->spare); i++) {
        dp_packet_delete(rxq->spare[i]);
    }
    free(rxq->rest);
}

static void
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

static int
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
    if (count <= 0) {
        return EAGAIN;
    }
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

static void
netdev_eoib_rxq_wait(struct netdev_rxq *rxq)
{
    struct netdev_eoib *dev = netdev_eoib_cast(rxq->netdev);

    if (!dev->vport) {
        return;
    }
    if (eoib_vport_arm(dev->vport, rxq->queue_id) > 0) {
        poll_immediate_wake();
    } else {
        poll_fd_wait(eoib_vport_wait_fd(dev->vport, rxq->queue_id), POLLIN);
    }
}

static int
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

static int
netdev_eoib_send(struct netdev *netdev, int qid, struct dp_packet_batch *batch, bool concurrent_txq)
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
    }
    dp_packet_delete_batch(batch, true);
    return 0;
}

/* ---- Commands ------------------------------------------------------------------------------------------------------------- */

/* Runs `command` (aux), with the arguments of the operator, on all HCA ports. */
static void
run_command(struct unixctl_conn *conn, int argc, const char *argv[], void *command)
{
    struct ds answers = DS_EMPTY_INITIALIZER;
    const char *words[8] = { command };
    struct hca_port *hca;
    bool any = false;

    for (int i = 1; i < argc; i++) {
        words[i] = argv[i];
    }
    LIST_FOR_EACH (hca, node, &hca_ports) {
        char *answer;
        int error = eoib_command(hca->port, argc, words, &answer);

        any = any || !error;
        if (!error || !answers.length) {
            ds_put_cstr(&answers, answer ? answer : "");
        }
        eoib_free(answer);
    }
    if (any) {
        unixctl_command_reply(conn, ds_cstr(&answers));
    } else {
        unixctl_command_reply_error(conn, answers.length ? ds_cstr(&answers) : "there is no port of type eoib");
    }
    ds_destroy(&answers);
}

/* ---- Registration --------------------------------------------------------------------------------------------------------- */

#define NETDEV_EOIB_CLASS(NAME, PMD)                        \
    {                                                       \
        .type = NAME,                                       \
        .is_pmd = PMD,                                      \
        .run = netdev_eoib_run,                             \
        .wait = netdev_eoib_wait,                           \
        .alloc = netdev_eoib_alloc,                         \
        .construct = netdev_eoib_construct,                 \
        .destruct = netdev_eoib_destruct,                   \
        .dealloc = netdev_eoib_dealloc,                     \
        .get_config = netdev_eoib_get_config,               \
        .set_config = netdev_eoib_set_config,               \
        .reconfigure = netdev_eoib_reconfigure,             \
        .send = netdev_eoib_send,                           \
        .set_etheraddr = netdev_eoib_set_etheraddr,         \
        .get_etheraddr = netdev_eoib_get_etheraddr,         \
        .get_mtu = netdev_eoib_get_mtu,                     \
        .set_mtu = netdev_eoib_set_mtu,                     \
        .get_carrier = netdev_eoib_get_carrier,             \
        .get_carrier_resets = netdev_eoib_get_carrier_resets, \
        .get_stats = netdev_eoib_get_stats,                 \
        .get_custom_stats = netdev_eoib_get_custom_stats,   \
        .get_status = netdev_eoib_get_status,               \
        .update_flags = netdev_eoib_update_flags,           \
        .rxq_alloc = netdev_eoib_rxq_alloc,                 \
        .rxq_construct = netdev_eoib_rxq_construct,         \
        .rxq_destruct = netdev_eoib_rxq_destruct,           \
        .rxq_dealloc = netdev_eoib_rxq_dealloc,             \
        .rxq_recv = netdev_eoib_rxq_recv,                   \
        .rxq_wait = netdev_eoib_rxq_wait,                   \
        .rxq_drain = netdev_eoib_rxq_drain,                 \
    }

/* ovs-vswitchd calls bridge_init once, before it opens any port. */
void
__wrap_bridge_init(const char *remote)
{
    static const struct netdev_class classes[] = {
        NETDEV_EOIB_CLASS("eoib", false),
        NETDEV_EOIB_CLASS("eoib-pmd", true),
    };

    for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
        netdev_register_provider(&classes[i]);
    }
    unixctl_command_register("eoib/show", "", 0, 0, run_command, CONST_CAST(char *, "show"));
    unixctl_command_register("eoib/fdb-show", "[VES]", 0, 1, run_command, CONST_CAST(char *, "fdb/show"));
    unixctl_command_register("eoib/fdb-flush", "VES", 1, 1, run_command, CONST_CAST(char *, "fdb/flush"));
    unixctl_command_register("eoib/peers", "[VES]", 0, 1, run_command, CONST_CAST(char *, "peers"));
    unixctl_command_register("eoib/trace", "PORT hex BYTES | PORT SOURCE DESTINATION [vlan VID] [type ETHERTYPE]", 3, 7, run_command,
                             CONST_CAST(char *, "trace"));
    unixctl_command_register("eoib/stats", "[VES]", 0, 1, run_command, CONST_CAST(char *, "stats"));
    unixctl_command_register("eoib/drops", "[VES]", 0, 1, run_command, CONST_CAST(char *, "drops"));
    __real_bridge_init(remote);
}
