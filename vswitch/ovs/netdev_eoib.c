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

#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "packets.h"
#include "smap.h"
#include "userspace-tso.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(netdev_eoib);

void __real_bridge_init(const char *remote);
void __wrap_bridge_init(const char *remote);

static struct ovs_mutex netdevs_mutex = OVS_MUTEX_INITIALIZER;
static struct ovs_list netdevs OVS_GUARDED_BY(netdevs_mutex) = OVS_LIST_INITIALIZER(&netdevs);

/* ---- Configuration -------------------------------------------------------------------------------------------------------- */

static void
free_config(struct eoib_config *config)
{
    free(config->hca);
    free(config->fabric);
    free(config->ves);
    memset(config, 0, sizeof *config);
}

static bool
configs_are_equal(const struct eoib_config *a, const struct eoib_config *b)
{
    return a->pkey == b->pkey && a->queues == b->queues && nullable_string_is_equal(a->hca, b->hca)
           && nullable_string_is_equal(a->fabric, b->fabric) && nullable_string_is_equal(a->ves, b->ves);
}

static char *
parse_config(const char *name, const struct smap *args, struct eoib_config *config)
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

static void
close_vport(struct netdev_eoib *dev)
{
    if (!dev->vport) {
        return;
    }
    eoib_vport_close(dev->vport);
    eoib_hca_close(dev->hca);
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

    dev->hca = eoib_hca_open(&dev->wanted, error, sizeof error);
    if (!dev->hca) {
        return xasprintf("%s: %s", name, error);
    }
    dev->vport = eoib_vport_open(dev->hca->port, &options, error, sizeof error);
    if (!dev->vport) {
        eoib_hca_close(dev->hca);
        dev->hca = NULL;
        return xasprintf("%s: %s", name, error);
    }
    dev->config = dev->wanted;
    memset(&dev->wanted, 0, sizeof dev->wanted);
    dev->up.n_rxq = dev->config.queues;
    dev->up.n_txq = dev->config.queues;
    dev->failed = false;
    atomic_store_relaxed(&dev->segment_mtu, eoib_mtu_of(dev));
    return NULL;
}

static int
netdev_eoib_set_config(struct netdev *netdev, const struct smap *args, char **errp)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct eoib_config config = { NULL, NULL, NULL, 0, 0 };
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
        changes = eoib_state_of(dev).changes;
        if (changes != dev->changes) {
            dev->changes = changes;
            atomic_store_relaxed(&dev->segment_mtu, eoib_mtu_of(dev));
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
    unixctl_command_register("eoib/fdb-show", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "fdb/show"));
    unixctl_command_register("eoib/fdb-flush", "VES", 1, 1, eoib_run_command, CONST_CAST(char *, "fdb/flush"));
    unixctl_command_register("eoib/peers", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "peers"));
    unixctl_command_register("eoib/trace", "PORT hex BYTES | PORT SOURCE DESTINATION [vlan VID] [type ETHERTYPE]", 3, 7, eoib_run_command,
                             CONST_CAST(char *, "trace"));
    unixctl_command_register("eoib/stats", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "stats"));
    unixctl_command_register("eoib/drops", "[VES]", 0, 1, eoib_run_command, CONST_CAST(char *, "drops"));
    __real_bridge_init(remote);
}
