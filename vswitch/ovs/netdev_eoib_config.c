/* Netdevs of type "eoib": their options, and the vPort that they name. Main thread. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "if-notifier.h"
#include "openvswitch/vlog.h"
#include "smap.h"
#include "userspace-tso.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(netdev_eoib_config);

void
eoib_free_config(struct eoib_config *config)
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

void
eoib_close(struct netdev_eoib *dev)
{
    if (dev->vport) {
        eoib_note_end(dev);
        eoib_vport_close(dev->vport);
        dev->vport = NULL;
    }
    if (dev->hca) {
        eoib_hca_unref(dev->hca);
        dev->hca = NULL;
    }
}

/* Opens the vPort of the configuration. Returns an error message to free, or NULL. Then dev->hca is there in any case. */
static char *
open_vport(struct netdev_eoib *dev)
{
    const char *name = netdev_get_name(&dev->up);
    struct eoib_vport_options options = {
        .size = sizeof options, .name = name, .ves = dev->config.ves, .pkey = dev->config.pkey,
        .queues = dev->config.queues,
        .flags = userspace_tso_enabled() ? EOIB_VPORT_UNFINISHED_CHECKSUMS | EOIB_VPORT_TCP_SEGMENTS : 0,
    };
    char error[512] = "";

    dev->hca = eoib_hca_ref(&dev->config);
    if (!dev->hca->port) {
        return xasprintf("%s: %s%s", name, dev->hca->is_awaited ? "waiting for the HCA: " : "", dev->hca->trouble);
    }
    dev->vport = eoib_vport_open(dev->hca->port, &options, error, sizeof error);
    if (!dev->vport) {
        return xasprintf("%s: %s", name, error);
    }
    dev->up.n_rxq = dev->config.queues;
    dev->up.n_txq = dev->config.queues;
    dev->failed = false;
    eoib_note_present(dev);
    atomic_store_relaxed(&dev->segment_mtu, eoib_mtu_of(dev));
    return NULL;
}

/* Whether the netdev has no vPort because its HCA is missing, or a vPort whose HCA is lost. Another failure of the HCA port is final. */
bool
eoib_is_awaited(const struct netdev_eoib *dev)
{
    return dev->hca->port ? eoib_port_is_lost(dev->hca->port) : dev->hca->is_awaited;
}

/* Whether another try may do more than to wait. */
bool
eoib_may_reopen(const struct netdev_eoib *dev)
{
    return dev->hca->port && (!dev->vport || eoib_port_is_lost(dev->hca->port));
}

/* Makes the wanted configuration that of the netdev. */
static void
take_wanted(struct netdev_eoib *dev)
{
    eoib_free_config(&dev->config);
    dev->config = dev->wanted;
    memset(&dev->wanted, 0, sizeof dev->wanted);
}

int
netdev_eoib_set_config(struct netdev *netdev, const struct smap *args, char **errp)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct eoib_config config = { NULL, NULL, NULL, 0, 0 };
    char *error = parse_config(netdev_get_name(netdev), args, &config);

    if (!error && dev->hca && configs_are_equal(&config, &dev->config)) {
        eoib_free_config(&config);
        eoib_free_config(&dev->wanted);
        return 0;
    }
    if (!error) {
        eoib_free_config(&dev->wanted);
        dev->wanted = config;
        if (dev->hca) {
            netdev_request_reconfigure(netdev);
        } else {
            take_wanted(dev);
            error = open_vport(dev);
            if (error) {
                eoib_close(dev);
            }
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
int
netdev_eoib_reconfigure(struct netdev *netdev)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct hca_port *former;
    bool stays;
    char *error;

    if (!dev->hca || (!dev->wanted.hca && !dev->reopens)) {
        return 0;
    }
    if (dev->vport) {
        eoib_close(dev);                                /* first: an HCA may not open twice */
    }
    former = dev->hca;
    if (dev->wanted.hca) {
        take_wanted(dev);
    }
    dev->reopens = false;
    error = open_vport(dev);
    if (former) {
        eoib_hca_unref(former);                         /* last: it may be the HCA port that was awaited */
    }
    netdev_change_seq_changed(netdev);
    if (!error) {
        return 0;
    }
    stays = eoib_is_awaited(dev);
    VLOG(stays ? VLL_WARN : VLL_ERR, "%s", error);
    free(error);
    if (stays) {
        return 0;
    }
    /* The datapath removes the port. The bridge adds it again, and then keeps the error in the database. */
    eoib_close(dev);
    if_notifier_manual_report();
    return EINVAL;
}

int
netdev_eoib_get_config(const struct netdev *netdev, struct smap *args)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    if (dev->hca) {
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
