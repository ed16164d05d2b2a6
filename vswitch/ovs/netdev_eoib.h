/* The parts of the port type "eoib" share these; netdev_eoib.c describes it. */
#ifndef EOIB_VSWITCH_OVS_NETDEV_EOIB_H_
#define EOIB_VSWITCH_OVS_NETDEV_EOIB_H_

#include "netdev-provider.h"
#include "openvswitch/list.h"
#include "ovs-atomic.h"
#include "ovs-thread.h"
#include "unixctl.h"
#include "util.h"
#include "vswitch/eoib.h"

enum {
    EOIB_SMALLEST_MTU = 68,                             /* of IPv4 */
    EOIB_OVERHEAD = ETH_HEADER_LEN + 2 * VLAN_HEADER_LEN, /* of a frame, to its MTU */
};

/* An HCA port, shared by the netdevs that name it. Main thread. */
struct hca_port {
    struct ovs_list node;
    char *hca, *fabric;                                 /* fabric may be NULL */
    struct eoib_port *port;                             /* NULL: it is not open, because of its trouble */
    char *trouble;
    bool is_awaited;                                    /* another try may help */
    long long int retry_at;                             /* while it is not open */
    long long int forget_at;                            /* while it has no users */
    int users;
};

struct eoib_config {
    char *hca, *fabric, *ves;
    uint16_t pkey;
    unsigned int queues;                                /* options:n_rxq, also the number of queues to send to */
};

/* What a vPort counts. OVS shows the sum of all vPorts that a netdev has had. */
struct eoib_history {
    struct eoib_stats stats;
    uint64_t carrier_resets;
};

struct netdev_eoib {
    struct netdev up;
    struct ovs_list node;                               /* in netdevs */

    /* Main thread. */
    struct eoib_config config;                          /* of hca and vport; all NULL if there is none */
    struct eoib_config wanted;                          /* changed options, until `reconfigure` */
    struct hca_port *hca;                               /* NULL before the first set_config that succeeds */
    uint64_t changes;                                   /* of the state, when `run` looked last */
    bool failed;                                        /* the failure of the HCA port is logged */
    bool reopens;                                       /* `reconfigure` is to open the vPort again */
    struct eoib_history past, present;                  /* of former vPorts together; of vport */
    uint32_t largest_mtu;                               /* of the vPort, also while its HCA is lost */
    uint32_t room_mtu;                                  /* the largest MTU when the receive queues were made */
    enum netdev_flags flags;
    int mtu;                                            /* mtu_request; 0: the largest */

    struct eoib_vport *vport;                           /* or NULL, while the HCA is missing */
    struct ovs_mutex mutex;
    struct eth_addr mac OVS_GUARDED;
    struct ovs_spin send_locks[EOIB_MOST_QUEUES];       /* for a queue that threads share */
    atomic_uint64_t tx_dropped;
    atomic_int segment_mtu;                             /* the interface's, which the segments of super-frames follow */
};

static inline struct netdev_eoib *
netdev_eoib_cast(const struct netdev *netdev)
{
    return CONTAINER_OF(netdev, struct netdev_eoib, up);
}

/* hca_ports.c. Main thread. */
/* Takes a reference to the HCA port that `config` names, and opens it if it is not open; it may be missing. */
struct hca_port *eoib_hca_ref(const struct eoib_config *config);
void eoib_hca_unref(struct hca_port *hca);
void eoib_hca_run(void);
void eoib_hca_wait(void);
void eoib_run_command(struct unixctl_conn *conn, int argc, const char *argv[], void *command);

/* netdev_eoib_config.c. Main thread. */
void eoib_free_config(struct eoib_config *config);
/* Whether the netdev has no vPort because its HCA is missing, or a vPort whose HCA is lost. Another failure of the HCA port is final. */
bool eoib_is_awaited(const struct netdev_eoib *dev);
/* Whether `reconfigure` may open the vPort again. */
bool eoib_may_reopen(const struct netdev_eoib *dev);
/* Closes the vPort, and leaves the HCA port. */
void eoib_close(struct netdev_eoib *dev);
int netdev_eoib_set_config(struct netdev *netdev, const struct smap *args, char **errp);
int netdev_eoib_reconfigure(struct netdev *netdev);
int netdev_eoib_get_config(const struct netdev *netdev, struct smap *args);

/* netdev_eoib_state.c. The state is all zero without a vPort, or if its HCA port has failed. */
struct eoib_state eoib_state_of(const struct netdev_eoib *dev);
/* Notes what the vPort has counted, and its MTU. */
void eoib_note_present(struct netdev_eoib *dev);
/* The vPort is going to be closed. */
void eoib_note_end(struct netdev_eoib *dev);
/* The MTU in bytes: the one that was requested, as far as the VES takes it. */
int eoib_mtu_of(const struct netdev_eoib *dev);
/* Why there is no carrier, if the HCA is missing or has failed; otherwise NULL. */
const char *eoib_trouble_of(const struct netdev_eoib *dev);
int netdev_eoib_get_carrier(const struct netdev *netdev, bool *carrier);
long long int netdev_eoib_get_carrier_resets(const struct netdev *netdev);
int netdev_eoib_get_mtu(const struct netdev *netdev, int *mtu);
int netdev_eoib_set_mtu(struct netdev *netdev, int mtu);
int netdev_eoib_get_etheraddr(const struct netdev *netdev, struct eth_addr *mac);
int netdev_eoib_set_etheraddr(struct netdev *netdev, const struct eth_addr mac);
int netdev_eoib_update_flags(struct netdev *netdev, enum netdev_flags off, enum netdev_flags on, enum netdev_flags *old);
int netdev_eoib_get_stats(const struct netdev *netdev, struct netdev_stats *stats);
int netdev_eoib_get_custom_stats(const struct netdev *netdev, struct netdev_custom_stats *custom);
int netdev_eoib_get_status(const struct netdev *netdev, struct smap *status);

/* netdev_eoib_frames.c */
struct netdev_rxq *netdev_eoib_rxq_alloc(void);
int netdev_eoib_rxq_construct(struct netdev_rxq *rxq_);
void netdev_eoib_rxq_destruct(struct netdev_rxq *rxq_);
void netdev_eoib_rxq_dealloc(struct netdev_rxq *rxq);
int netdev_eoib_rxq_recv(struct netdev_rxq *rxq_, struct dp_packet_batch *batch, int *qfill);
void netdev_eoib_rxq_wait(struct netdev_rxq *rxq);
int netdev_eoib_rxq_drain(struct netdev_rxq *rxq);
int netdev_eoib_send(struct netdev *netdev, int qid, struct dp_packet_batch *batch, bool concurrent_txq);

#endif  /* EOIB_VSWITCH_OVS_NETDEV_EOIB_H_ */
