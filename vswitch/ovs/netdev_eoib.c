/* Open vSwitch's port type "eoib": a bridge of the userspace datapath gets a port into a VES. "eoib-pmd" is the same, polled by PMD
 * threads.
 *
 * This is a thin layer over vswitch/eoib.h. A netdev is a vPort; netdevs with the same options hca and fabric share an HCA port. A netdev
 * whose HCA is lost closes its vPort, and stays in the datapath without carrier until the HCA is back.
 *
 * Threads. OVS' main thread calls everything but receive and send. It opens and closes vPorts in set_config, while no datapath has
 * the netdev, in reconfigure, when no thread receives from it nor sends to it, and in destruct. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "packets.h"
#include "userspace-tso.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(netdev_eoib);

void __real_bridge_init(const char *remote);
void __wrap_bridge_init(const char *remote);

static struct ovs_mutex netdevs_mutex = OVS_MUTEX_INITIALIZER;
static struct ovs_list netdevs OVS_GUARDED_BY(netdevs_mutex) = OVS_LIST_INITIALIZER(&netdevs);

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
                            | NETDEV_TX_OFFLOAD_SCTP_CKSUM | NETDEV_TX_OFFLOAD_IPV4_CKSUM;
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
    eoib_close(dev);
    eoib_free_config(&dev->config);
    eoib_free_config(&dev->wanted);
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

static void
report_failure(struct netdev_eoib *dev)
{
    const char *failure = eoib_port_failure(dev->hca->port);

    if (!failure || dev->failed) {
        return;
    }
    dev->failed = true;
    if (eoib_is_awaited(dev)) {
        VLOG_WARN("%s: %s", netdev_get_name(&dev->up), failure);
    } else {
        VLOG_ERR("%s: %s; delete the port and add it again", netdev_get_name(&dev->up), failure);
    }
    netdev_change_seq_changed(&dev->up);
}

static void
report_changes(struct netdev_eoib *dev)
{
    uint64_t changes = eoib_state_of(dev).changes;

    if (changes == dev->changes) {
        return;
    }
    dev->changes = changes;
    eoib_note_present(dev);
    atomic_store_relaxed(&dev->segment_mtu, eoib_mtu_of(dev));
    if (dev->largest_mtu > dev->room_mtu) {
        netdev_request_reconfigure(&dev->up);           /* the datapath makes the receive queues again */
    }
    netdev_change_seq_changed(&dev->up);
}

static void
netdev_eoib_run(const struct netdev_class *class)
{
    struct netdev_eoib *dev;

    eoib_hca_run();
    ovs_mutex_lock(&netdevs_mutex);
    LIST_FOR_EACH (dev, node, &netdevs) {
        if (netdev_get_class(&dev->up) != class || !dev->hca) {
            continue;
        }
        if (dev->vport) {
            report_failure(dev);
            report_changes(dev);
        }
        if (eoib_may_reopen(dev) && !dev->reopens) {
            dev->reopens = true;
            netdev_request_reconfigure(&dev->up);
        }
    }
    ovs_mutex_unlock(&netdevs_mutex);
}

static void
netdev_eoib_wait(const struct netdev_class *class)
{
    struct netdev_eoib *dev;

    eoib_hca_wait();
    ovs_mutex_lock(&netdevs_mutex);
    LIST_FOR_EACH (dev, node, &netdevs) {
        if (netdev_get_class(&dev->up) != class || !dev->vport) {
            continue;
        }
        /* Whatever asked for the state since `run` has cleared the event. */
        if (eoib_state_of(dev).changes != dev->changes) {
            poll_immediate_wake();
        } else {
            poll_fd_wait(eoib_vport_event_fd(dev->vport), POLLIN);
        }
    }
    ovs_mutex_unlock(&netdevs_mutex);
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
    unixctl_command_register("eoib/show", "", 0, 0, eoib_run_command, CONST_CAST(char *, "show"));
    unixctl_command_register("eoib/fdb-show", "[VES [VLAN MAC]]", 0, 3, eoib_run_command, CONST_CAST(char *, "fdb/show"));
    unixctl_command_register("eoib/fdb-flush", "VES", 1, 1, eoib_run_command, CONST_CAST(char *, "fdb/flush"));
    unixctl_command_register("eoib/peers", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "peers"));
    unixctl_command_register("eoib/trace", "PORT hex BYTES | PORT SOURCE DESTINATION [vlan VID] [type ETHERTYPE]", 3, 7, eoib_run_command,
                             CONST_CAST(char *, "trace"));
    unixctl_command_register("eoib/stats", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "stats"));
    unixctl_command_register("eoib/drops", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "drops"));
    __real_bridge_init(remote);
}
