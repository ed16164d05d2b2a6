/* SPDX-License-Identifier: GPL-2.0 */
/*
 * simib: software channel adapters with one InfiniBand port each, on one software switch, in one kernel. For tests.
 *
 * The path of a datagram: post_send() puts a work request into the send queue. The adapter's sender, one thread at a time,
 * takes it out, gathers the payload into the adapter's one packet buffer, and passes it to the switch (send.c). The switch
 * looks up its forwarding tables (switch.c) and passes it to one or more adapters, which scatter it into a posted receive
 * (receive.c). All this runs in the sender's thread, so a packet is copied twice and nothing is allocated.
 *
 * Management datagrams take the same path. An adapter's agents answer in process_mad (mad.c), the switch's own in the sender's
 * thread (switch_sma.c).
 *
 * Locks, the outer first:
 *
 *   simib_qp.modify	one modify_qp at a time
 *   simib_fabric.lock	what subnet management sets: states, LIDs, tables of all ports, forwarding tables. The data path reads
 *			single words without the lock, as hardware does while a subnet manager writes.
 *   simib_qp.sq.lock	the queue's indices and, with rq.lock, the state of the queue pair
 *   simib_qp.rq.lock	the same for the receive queue; held while a packet is scattered, so that receives complete in order
 *   simib_cq.lock
 *   simib_adapter.send_lock	the list of queue pairs with something to send
 *
 * The data path runs in RCU read-side sections, including the calls of completion handlers. To destroy a queue pair, a memory
 * region or an attachment, unlink it, wait for a grace period, then free it.
 */
#ifndef SIMIB_H
#define SIMIB_H

#include <linux/hashtable.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#define SIMIB_MAX_ADAPTERS	8
#define SIMIB_MAX_MTU		4096
#define SIMIB_GRH_BYTES		40	/* in front of every UD receive, IBA 11.4.1.2 */

#define SIMIB_PKEYS_PER_BLOCK	32	/* IBA 14.2.5.7 */
#define SIMIB_PKEYS		64
#define SIMIB_GUIDS		8	/* one block, IBA 14.2.5.5 */

#define SIMIB_MAX_QPS		4096
#define SIMIB_MAX_QP_WR		16384
#define SIMIB_MAX_SGE		24	/* ib_ipoib: MAX_SKB_FRAGS + 1 */
#define SIMIB_MAX_CQE		65536
#define SIMIB_MAX_MRS		65536
#define SIMIB_MAX_MCAST		8192

#define SIMIB_LFT_SIZE		0xc000	/* every unicast LID */
#define SIMIB_MFT_SIZE		1024
#define SIMIB_NO_PORT		0xff

#define SIMIB_LID_PERMISSIVE	0xffff
#define SIMIB_MLID_BASE		0xc000
#define SIMIB_DEFAULT_PREFIX	cpu_to_be64(0xfe80000000000000ull)	/* IBA 4.1.1 */

/* Why a datagram was dropped: one list for the enum, the counter and its line in debugfs. */
#define SIMIB_DROPS(X)                                                        \
	X(port_down)		/* the sender's port is not active */         \
	X(knob)			/* the drop knob */                           \
	X(no_route)		/* no forwarding entry */                     \
	X(switch_port_down)	/* the way out is not active */               \
	X(switch_pkey)		/* partition enforcement by the switch */     \
	X(switch_mtu)		/* longer than the way out allows */          \
	X(bad_address)		/* DLID or DGID is not this port's */         \
	X(no_qp)		/* no such queue pair, or not in RTR yet */   \
	X(pkey)			/* another partition, or limited to limited */ \
	X(qkey)                                                               \
	X(no_receive)		/* none posted */                             \
	X(too_long)		/* for the receive, which stays posted */

enum simib_drop {
#define X(name) SIMIB_DROP_##name,
	SIMIB_DROPS(X)
#undef X
	SIMIB_DROP_REASONS
};

/* Counters of a port, IBA 16.1.3.5 (PortCounters) and 16.1.4.11 (PortCountersExtended). */
enum simib_counter {
	SIMIB_XMIT_DATA,	/* in words of four bytes */
	SIMIB_RCV_DATA,
	SIMIB_XMIT_PACKETS,
	SIMIB_RCV_PACKETS,
	SIMIB_UNICAST_XMIT,
	SIMIB_UNICAST_RCV,
	SIMIB_MULTICAST_XMIT,
	SIMIB_MULTICAST_RCV,
	SIMIB_LINK_DOWNED,
	SIMIB_XMIT_DISCARDS,
	SIMIB_XMIT_CONSTRAINT,
	SIMIB_RCV_CONSTRAINT,
	SIMIB_RCV_ERRORS,
	SIMIB_COUNTERS
};

/* One end of a cable, or port 0 of the switch. simib_fabric.lock protects all but the counters. */
struct simib_port {
	struct simib_adapter *adapter;	/* NULL at the switch */
	struct simib_port *peer;	/* the cable's other end; NULL at the switch's port 0 */
	u8 number;
	u8 state;			/* enum ib_port_state */
	bool disabled;			/* PortPhysicalState, as set by the subnet manager */

	u16 lid;
	u16 sm_lid;
	u8 lmc;
	u8 sm_sl;
	u8 mtu_cap;			/* enum ib_mtu */
	u8 neighbor_mtu;
	u8 enforce;			/* partition enforcement, in and out: bits of PortInfo */
	u8 mkey_protection;
	u8 subnet_timeout;
	u8 init_type;
	u8 vl_stall_hoq_life;
	u8 vl_high_limit;
	u8 error_thresholds;
	u16 mkey_lease;
	u32 cap_mask;
	__be64 mkey;
	__be64 gid_prefix;
	__be64 guids[SIMIB_GUIDS];
	u16 pkeys[SIMIB_PKEYS];

	atomic_t pkey_violations;
	atomic_t qkey_violations;
	atomic64_t counters[SIMIB_COUNTERS];
};

/* A trap that is repeated until the subnet manager represses it, IBA 13.4.9. simib_fabric.lock protects all but the work. */
struct simib_trap {
	struct delayed_work work;
	struct simib_port *port;	/* its LID is the source */
	struct ib_smp smp;
	u64 tid;
	int tries_left;
};

#define SIMIB_SENDING	0

struct simib_adapter {
	struct ib_device ibdev;
	int index;
	struct simib_port port;
	bool cable_out;			/* simib_fabric.lock */

	struct workqueue_struct *workqueue;
	struct work_struct send_work;
	spinlock_t send_lock;		/* protects: */
	struct list_head send_list;	/* queue pairs with something to send */
	unsigned long sending;		/* bit SIMIB_SENDING: there is a sender */
	u8 *packet;			/* the sender's buffer: the payload of the datagram under way */

	struct xarray qps;		/* by number */
	struct xarray mrs;		/* by key */
	u32 next_qpn;
	u32 next_key;
	struct mutex mcast_lock;	/* protects changes to: */
	DECLARE_HASHTABLE(mcast, 7);
	int mcast_count;

	struct simib_trap trap;
	struct dentry *debugfs;
	u32 drop_one_in;		/* the drop knob; 0: none */
	u32 drop_count;
	atomic64_t drops[SIMIB_DROP_REASONS];
};

struct simib_switch {
	int port_count;			/* without port 0 */
	struct simib_port ports[SIMIB_MAX_ADAPTERS + 1];
	u8 lft[SIMIB_LFT_SIZE];
	u16 mft[SIMIB_MFT_SIZE];	/* one bit for each port */
	u16 lft_top;
	u16 mft_top;
	u8 default_port;
	u8 default_mcast_primary;
	u8 default_mcast_not_primary;
	u8 life_time;
	bool port_state_change;
	char description[IB_DEVICE_NODE_DESC_MAX];
	struct simib_trap trap;
};

struct simib_fabric {
	spinlock_t lock;
	enum ib_mtu mtu;
	bool async;			/* sends complete in the worker */
	struct device *bus;		/* parent of the adapters: without one, `ethtool -i` crashes ib_ipoib */
	int adapter_count;
	struct simib_adapter *adapters[SIMIB_MAX_ADAPTERS];
	struct simib_switch sw;
};

extern struct simib_fabric *simib_fabric;

struct simib_pd {
	struct ib_pd ibpd;
};

struct simib_ucontext {
	struct ib_ucontext ibucontext;
};

/* The content of an address handle. Copied into each work request, so the handle may be destroyed at once. */
struct simib_av {
	u16 dlid;
	u8 sl;
	u8 path_bits;
	bool has_grh;
	u8 sgid_index;
	u8 hop_limit;
	__be32 version_tclass_flow;
	union ib_gid dgid;
};

struct simib_srq {
	struct ib_srq ibsrq;
};

struct simib_ah {
	struct ib_ah ibah;
	struct simib_av av;
};

struct simib_mr {
	struct ib_mr ibmr;
	u64 iova;
	u64 length;
	int access;
	struct ib_umem *umem;		/* NULL: all of the kernel's memory */
	unsigned int first_offset;	/* of iova in the first page */
	void **pages;
};

struct simib_cq {
	struct ib_cq ibcq;
	spinlock_t lock;
	struct ib_wc *ring;
	u32 size, head, count;
	enum ib_cq_notify_flags armed;
	bool overrun;
};

struct simib_send_wqe {
	u64 wr_id;
	int send_flags;
	enum ib_wr_opcode opcode;
	__be32 imm_data;
	u32 remote_qpn;
	u32 remote_qkey;
	u16 pkey_index;
	struct simib_av av;
	u32 num_sge;
	struct ib_sge sge[];
};

struct simib_recv_wqe {
	u64 wr_id;
	u32 num_sge;
	struct ib_sge sge[];
};

/* A ring of work requests of `stride` bytes each. `lock` protects all fields. */
struct simib_queue {
	spinlock_t lock;
	void *ring;
	u32 size, stride, max_sge;
	u32 head, count;
};

struct simib_qp {
	struct ib_qp ibqp;
	struct simib_cq *send_cq, *recv_cq;
	bool signal_all;
	bool block_loopback;		/* IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK */

	struct mutex modify;
	enum ib_qp_state state;		/* written with both queues' locks held */
	u32 qkey;
	u16 pkey_index;
	u32 sq_psn;
	struct simib_queue sq, rq;

	struct list_head send_node;	/* simib_adapter.send_lock */
	bool quiesced;			/* simib_adapter.send_lock: no sender may take it */
};

/* A datagram under way: the fields of LRH, GRH, BTH and DETH. */
struct simib_packet {
	const struct simib_qp *sender;	/* NULL if it is not from a queue pair */
	u16 slid, dlid;
	u8 sl;
	bool smp;			/* on VL 15 */
	bool has_grh;
	bool solicited;
	bool has_imm;
	__be32 imm_data;
	u16 pkey;
	u32 qkey;
	u32 src_qpn, dst_qpn;
	u32 length;
	u8 *payload;
	struct ib_grh grh;
};

static inline struct simib_adapter *to_adapter(struct ib_device *ibdev)
{
	return container_of(ibdev, struct simib_adapter, ibdev);
}

static inline struct simib_qp *to_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct simib_qp, ibqp);
}

static inline struct simib_cq *to_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct simib_cq, ibcq);
}

static inline bool simib_is_multicast_lid(u16 lid)
{
	return lid >= SIMIB_MLID_BASE && lid != SIMIB_LID_PERMISSIVE;
}

/* IBA 10.9.3: the same partition, and at least one of them is a full member. */
static inline bool simib_pkeys_match(u16 a, u16 b)
{
	return (a & 0x7fff) && !((a ^ b) & 0x7fff) && ((a | b) & 0x8000);
}

static inline void simib_count(struct simib_port *port, enum simib_counter counter)
{
	atomic64_inc(&port->counters[counter]);
}

static inline void simib_drop(struct simib_adapter *adapter, enum simib_drop reason)
{
	atomic64_inc(&adapter->drops[reason]);
}

/* main.c */
__be64 simib_node_guid(int node);
__be64 simib_port_guid(int node);
#define SIMIB_SWITCH_NODE	0xff

/* device.c */
struct simib_adapter *simib_create_adapter(int index);
int simib_register_adapter(struct simib_adapter *adapter);
void simib_destroy_adapter(struct simib_adapter *adapter);
void simib_dispatch(struct simib_adapter *adapter, enum ib_event_type event);

/* memory.c */
int simib_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int simib_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int simib_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int simib_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int simib_destroy_ah(struct ib_ah *ibah, u32 flags);
struct ib_mr *simib_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *simib_reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access, struct ib_udata *udata);
int simib_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* A position in a list of scatter/gather elements. */
struct simib_cursor {
	const struct ib_sge *sge;
	u32 left;			/* elements, this one included */
	u32 offset;			/* in this one */
};

int simib_gather(struct ib_pd *pd, struct simib_cursor *from, void *to, u32 length);
int simib_scatter(struct ib_pd *pd, struct simib_cursor *to, const void *from, u32 length);
u32 simib_sge_length(const struct ib_sge *sge, u32 count);

/* cq.c */
int simib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata);
int simib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int simib_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata);
int simib_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc);
int simib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
bool simib_cq_push(struct simib_cq *cq, const struct ib_wc *wc, bool solicited);
void simib_cq_notify(struct simib_cq *cq);
void simib_cq_forget(struct simib_cq *cq, struct ib_qp *qp);

/* qp.c */
int simib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int simib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int simib_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);
int simib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int simib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
void *simib_queue_slot(const struct simib_queue *queue, u32 index);
void simib_queue_pop(struct simib_queue *queue);
void simib_flush_receives(struct simib_qp *qp);
void simib_qp_fatal(struct simib_qp *qp);

/* send.c */
int simib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
void simib_schedule_sends(struct simib_qp *qp);
void simib_quiesce_sends(struct simib_qp *qp);
void simib_resume_sends(struct simib_qp *qp);
void simib_send_work(struct work_struct *work);
void simib_transmit(struct simib_adapter *adapter, struct simib_packet *packet);
void simib_count_packet(struct simib_port *port, const struct simib_packet *packet, bool sent);

/* receive.c */
void simib_receive(struct simib_adapter *adapter, const struct simib_packet *packet);

/* mcast.c */
int simib_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int simib_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
void simib_detach_all(struct simib_qp *qp);
bool simib_mcast_each(struct simib_adapter *adapter, const struct simib_packet *packet,
		      void (*deliver)(struct simib_qp *qp, const struct simib_packet *packet));

/* switch.c; in the sender's RCU read-side section */
void simib_switch_init(struct simib_switch *sw, int port_count);
void simib_switch_ingress(struct simib_port *in, struct simib_packet *packet);
void simib_switch_egress(struct simib_port *out, struct simib_packet *packet);

/* cable.c; both require simib_fabric.lock */
void simib_cable_update(struct simib_adapter *adapter);
bool simib_link_is_up(const struct simib_port *port);

/* mad.c */
int simib_process_mad(struct ib_device *ibdev, int flags, u32 port_num, const struct ib_wc *in_wc,
		      const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out, size_t *out_size,
		      u16 *out_pkey_index);
void simib_answer(struct ib_smp *smp, u16 status);

/* sma.c; attributes of ports at either end of a cable. They require simib_fabric.lock and return a MAD status. */
u16 simib_get_port_info(struct simib_port *port, u8 arrived_on, struct ib_smp *smp);
u16 simib_set_port_info(struct simib_port *port, u8 arrived_on, struct ib_smp *smp);
u16 simib_get_pkeys(struct simib_port *port, u16 block, struct ib_smp *smp);
u16 simib_set_pkeys(struct simib_port *port, u16 block, struct ib_smp *smp);
u16 simib_get_guids(struct simib_port *port, struct ib_smp *smp);
void simib_fill_node_info(struct ib_node_info *info, u8 type, u8 ports, int node, u8 arrived_on);
u16 simib_adapter_sma(struct simib_adapter *adapter, struct ib_smp *smp);
void simib_port_init(struct simib_port *port, u8 number, int node);

/* switch_sma.c */
bool simib_switch_sma(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp);

/* pma.c */
u16 simib_pma(struct simib_port *port, struct ib_mad *mad);

/* trap.c */
void simib_trap_init(struct simib_trap *trap, struct simib_port *port);
void simib_trap_stop(struct simib_trap *trap);
void simib_trap_link_state(struct simib_switch *sw);
void simib_trap_local_change(struct simib_adapter *adapter, bool description);
void simib_trap_repress(struct simib_trap *trap, const struct ib_smp *repress);

/* debugfs.c */
void simib_debugfs_init(void);
void simib_debugfs_add(struct simib_adapter *adapter);
void simib_debugfs_exit(void);

#endif /* SIMIB_H */
