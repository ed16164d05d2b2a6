/* Netdevs of type "eoib": carrier, MTU, MAC address, flags, statistics and status. Main thread, unless said otherwise. */
#include <config.h>

#include <errno.h>

#include "openvswitch/vlog.h"
#include "packets.h"
#include "smap.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(netdev_eoib_state);

static struct eoib_history
history_of(const struct netdev_eoib *dev)
{
    const struct eoib_history *past = &dev->past, *present = &dev->present;

    return (struct eoib_history) {
        .stats = {
            .size = sizeof past->stats,
            .sent = past->stats.sent + present->stats.sent,
            .sent_bytes = past->stats.sent_bytes + present->stats.sent_bytes,
            .received = past->stats.received + present->stats.received,
            .received_bytes = past->stats.received_bytes + present->stats.received_bytes,
            .missed = past->stats.missed + present->stats.missed,
        },
        .carrier_resets = past->carrier_resets + present->carrier_resets,
    };
}

struct eoib_state
eoib_state_of(const struct netdev_eoib *dev)
{
    struct eoib_state state = { .size = sizeof state };

    if (!dev->vport || eoib_vport_state(dev->vport, &state) < 0) {
        state.carrier = 0;
    }
    return state;
}

void
eoib_note_present(struct netdev_eoib *dev)
{
    struct eoib_state state = eoib_state_of(dev);
    struct eoib_stats stats = { .size = sizeof stats };

    if (!dev->vport || eoib_vport_stats(dev->vport, &stats)) {
        return;                                         /* the last ones stay */
    }
    dev->present.stats = stats;
    dev->present.carrier_resets = state.carrier_resets;
    dev->largest_mtu = state.mtu;
}

void
eoib_note_end(struct netdev_eoib *dev)
{
    eoib_note_present(dev);
    dev->past = history_of(dev);
    memset(&dev->present, 0, sizeof dev->present);
}

int
eoib_mtu_of(const struct netdev_eoib *dev)
{
    int largest = dev->largest_mtu;

    return dev->mtu && dev->mtu < largest ? dev->mtu : largest;
}

const char *
eoib_trouble_of(const struct netdev_eoib *dev)
{
    return !dev->hca ? NULL : dev->hca->port ? eoib_port_failure(dev->hca->port) : dev->hca->trouble;
}

int
netdev_eoib_get_carrier(const struct netdev *netdev, bool *carrier)
{
    *carrier = eoib_state_of(netdev_eoib_cast(netdev)).carrier;
    return 0;
}

long long int
netdev_eoib_get_carrier_resets(const struct netdev *netdev)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    eoib_note_present(dev);
    return history_of(dev).carrier_resets;
}

int
netdev_eoib_get_mtu(const struct netdev *netdev, int *mtu)
{
    *mtu = eoib_mtu_of(netdev_eoib_cast(netdev));
    return 0;
}

int
netdev_eoib_set_mtu(struct netdev *netdev, int mtu)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    int largest = dev->largest_mtu;

    if (mtu < EOIB_SMALLEST_MTU || mtu > largest) {
        VLOG_WARN("%s: MTU %d: this VES has MTUs from %d to %d", netdev_get_name(netdev), mtu, EOIB_SMALLEST_MTU, largest);
        return EINVAL;
    }
    if (dev->mtu != mtu) {
        dev->mtu = mtu;
        atomic_store_relaxed(&dev->segment_mtu, mtu);
        netdev_change_seq_changed(netdev);
    }
    return 0;
}

int
netdev_eoib_get_etheraddr(const struct netdev *netdev, struct eth_addr *mac)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_lock(&dev->mutex);
    *mac = dev->mac;
    ovs_mutex_unlock(&dev->mutex);
    return 0;
}

int
netdev_eoib_set_etheraddr(struct netdev *netdev, const struct eth_addr mac)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    ovs_mutex_lock(&dev->mutex);
    dev->mac = mac;
    ovs_mutex_unlock(&dev->mutex);
    netdev_change_seq_changed(netdev);
    return 0;
}

int
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

int
netdev_eoib_get_stats(const struct netdev *netdev, struct netdev_stats *stats)
{
    struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    struct eoib_stats ours;
    uint64_t tx_dropped;

    eoib_note_present(dev);
    ours = history_of(dev).stats;
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

/* The counters of the whole VES. */
int
netdev_eoib_get_custom_stats(const struct netdev *netdev, struct netdev_custom_stats *custom)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);

    custom->size = 0;
    custom->counters = NULL;
    return dev->vport ? -eoib_vport_counters(dev->vport, add_counter, custom) : ENODEV;
}

int
netdev_eoib_get_status(const struct netdev *netdev, struct smap *status)
{
    const struct netdev_eoib *dev = netdev_eoib_cast(netdev);
    const char *failure = eoib_trouble_of(dev);

    smap_add(status, "driver_name", "eoib");
    if (dev->hca) {
        smap_add(status, "hca", dev->config.hca);
        smap_add(status, "ves", dev->config.ves);
        smap_add_format(status, "pkey", "0x%04x", dev->config.pkey);
        smap_add_format(status, "max_mtu", "%"PRIu32, dev->largest_mtu);
    }
    if (failure) {
        smap_add(status, "failure", failure);
    }
    return 0;
}
