// SPDX-License-Identifier: GPL-2.0
/*
 * The sending half of the data path: from a work request to a datagram on the cable.
 *
 * An adapter has one sender at a time. A thread that posts while there is none becomes the sender (`sending`). It takes queue
 * pairs from send_list in turn, a burst from each, until the list is empty. Other threads that post only add their queue pair
 * to the list. A sender that has done its share leaves the rest to a worker; with async=1 the worker does all. Only the
 * sender takes work requests out of send queues, so it reads the first of a queue without the queue's lock.
 */
#include "simib.h"

#define SIMIB_BURST		32	/* work requests of one queue pair */
#define SIMIB_BURSTS_IN_POST	4

static int simib_enqueue_send(struct simib_qp *qp, const struct ib_send_wr *wr)
{
	const struct ib_ud_wr *ud = ud_wr(wr);
	struct simib_send_wqe *wqe;

	if (wr->opcode != IB_WR_SEND && wr->opcode != IB_WR_SEND_WITH_IMM)
		return -EINVAL;
	if (qp->state < IB_QPS_RTS || wr->num_sge < 0 || wr->num_sge > qp->sq.max_sge || !ud->ah ||
	    wr->send_flags & IB_SEND_INLINE || ud->pkey_index >= SIMIB_PKEYS)
		return -EINVAL;
	if (qp->sq.count == qp->sq.size)
		return -ENOMEM;
	wqe = simib_queue_slot(&qp->sq, qp->sq.count++);
	wqe->wr_id = wr->wr_id;
	wqe->send_flags = wr->send_flags;
	wqe->opcode = wr->opcode;
	wqe->imm_data = wr->ex.imm_data;
	wqe->remote_qpn = ud->remote_qpn & IB_QPN_MASK;
	wqe->remote_qkey = ud->remote_qkey;
	wqe->pkey_index = ud->pkey_index;
	wqe->av = container_of(ud->ah, struct simib_ah, ibah)->av;
	wqe->num_sge = wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(struct ib_sge));
	return 0;
}

/* Adds a queue pair to the list, unless it is there. */
static void simib_list_sender(struct simib_adapter *adapter, struct simib_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&adapter->send_lock, flags);
	if (!qp->quiesced && list_empty(&qp->send_node))
		list_add_tail(&qp->send_node, &adapter->send_list);
	spin_unlock_irqrestore(&adapter->send_lock, flags);
}

/* Leaves the sending to the worker, since the caller may be another adapter's sender. */
void simib_schedule_sends(struct simib_qp *qp)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);

	simib_list_sender(adapter, qp);
	queue_work(adapter->workqueue, &adapter->send_work);
}

/* When this returns, no sender uses the queue pair, neither to send from it nor to deliver to it. */
void simib_quiesce_sends(struct simib_qp *qp)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);

	spin_lock_irq(&adapter->send_lock);
	qp->quiesced = true;
	list_del_init(&qp->send_node);
	spin_unlock_irq(&adapter->send_lock);
	synchronize_rcu_expedited();
}

void simib_resume_sends(struct simib_qp *qp)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);

	spin_lock_irq(&adapter->send_lock);
	qp->quiesced = false;
	spin_unlock_irq(&adapter->send_lock);
}

/* The P_Key and the Q_Key, IBA 10.2.5 and 10.9.3: QP1 names the P_Key in each request, QP0 has none. */
static void simib_fill_keys(struct simib_packet *packet, const struct simib_qp *qp, const struct simib_send_wqe *wqe,
			    const struct simib_port *port)
{
	const u16 index = qp->ibqp.qp_type == IB_QPT_GSI ? wqe->pkey_index : READ_ONCE(qp->pkey_index);

	packet->pkey = packet->smp ? 0xffff : READ_ONCE(port->pkeys[index]);
	/* The high-order bit means: use the queue pair's own Q_Key. */
	packet->qkey = wqe->remote_qkey & BIT(31) ? READ_ONCE(qp->qkey) : wqe->remote_qkey;
}

static void simib_fill_grh(struct simib_packet *packet, const struct simib_av *av, const struct simib_port *port)
{
	struct ib_grh *grh = &packet->grh;

	/* IBA 8.3.2: from after the GRH to the ICRC: BTH, DETH, immediate data, padded payload, ICRC. */
	const u32 length = 12 + 8 + (packet->has_imm ? 4 : 0) + round_up(packet->length, 4) + 4;

	grh->version_tclass_flow = av->version_tclass_flow;
	grh->paylen = cpu_to_be16(length);
	grh->next_hdr = 0x1b;
	grh->hop_limit = av->hop_limit;
	grh->sgid.global.subnet_prefix = READ_ONCE(port->gid_prefix);
	grh->sgid.global.interface_id = READ_ONCE(port->guids[av->sgid_index]);
	grh->dgid = av->dgid;
}

static u16 simib_source_lid(const struct simib_port *port, const struct simib_av *av)
{
	const u16 lid = READ_ONCE(port->lid);

	/* IBA 13.5.3: a port without a LID sends management datagrams from the permissive LID. */
	return lid ? lid | (av->path_bits & (BIT(READ_ONCE(port->lmc)) - 1)) : SIMIB_LID_PERMISSIVE;
}

/* IBA 14.2.2: an SMP of the directed route class is routed by its path only. */
static void simib_fill_directed_route(struct simib_packet *packet)
{
	const struct ib_smp *smp = (struct ib_smp *)packet->payload;

	if (packet->length != sizeof(*smp) || smp->mgmt_class != IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		return;
	packet->slid = SIMIB_LID_PERMISSIVE;
	packet->dlid = SIMIB_LID_PERMISSIVE;
}

static enum ib_wc_status simib_send_one(struct simib_adapter *adapter, struct simib_qp *qp, const struct simib_send_wqe *wqe)
{
	const struct simib_port *port = &adapter->port;
	struct simib_cursor from = { .sge = wqe->sge, .left = wqe->num_sge };
	struct simib_packet packet;

	packet.length = simib_sge_length(wqe->sge, wqe->num_sge);
	if (packet.length > ib_mtu_enum_to_int(READ_ONCE(port->neighbor_mtu)))
		return IB_WC_LOC_LEN_ERR;	/* IBA 9.8.3: a message is one packet */
	if (simib_gather(qp->ibqp.pd, &from, adapter->packet, packet.length))
		return IB_WC_LOC_PROT_ERR;
	packet.payload = adapter->packet;
	packet.sender = qp;
	packet.slid = simib_source_lid(port, &wqe->av);
	packet.dlid = wqe->av.dlid;
	packet.sl = wqe->av.sl;
	packet.smp = qp->ibqp.qp_type == IB_QPT_SMI;
	packet.has_grh = wqe->av.has_grh;
	packet.solicited = wqe->send_flags & IB_SEND_SOLICITED;
	packet.has_imm = wqe->opcode == IB_WR_SEND_WITH_IMM;
	packet.imm_data = wqe->imm_data;
	packet.src_qpn = qp->ibqp.qp_num;
	packet.dst_qpn = wqe->remote_qpn;
	simib_fill_keys(&packet, qp, wqe, port);
	if (packet.has_grh)
		simib_fill_grh(&packet, &wqe->av, port);
	if (packet.smp)
		simib_fill_directed_route(&packet);
	simib_transmit(adapter, &packet);
	return IB_WC_SUCCESS;
}

void simib_count_packet(struct simib_port *port, const struct simib_packet *packet, bool sent)
{
	const bool multicast = simib_is_multicast_lid(packet->dlid);

	/* IBA 16.1.3.5: all octets between the delimiters: LRH, GRH, BTH, DETH, immediate data, payload, ICRC, VCRC. */
	const u32 bytes = 8 + (packet->has_grh ? SIMIB_GRH_BYTES : 0) + 12 + 8 + (packet->has_imm ? 4 : 0) +
			  round_up(packet->length, 4) + 4 + 2;

	atomic64_add(bytes / 4, &port->counters[sent ? SIMIB_XMIT_DATA : SIMIB_RCV_DATA]);
	simib_count(port, sent ? SIMIB_XMIT_PACKETS : SIMIB_RCV_PACKETS);
	if (sent)
		simib_count(port, multicast ? SIMIB_MULTICAST_XMIT : SIMIB_UNICAST_XMIT);
	else
		simib_count(port, multicast ? SIMIB_MULTICAST_RCV : SIMIB_UNICAST_RCV);
}

/* IBA 7.2.7: data only in Active; SMPs whenever there is a link. */
static bool simib_may_transmit(struct simib_adapter *adapter, const struct simib_packet *packet)
{
	const u8 state = READ_ONCE(adapter->port.state);
	const u32 drop_one_in = READ_ONCE(adapter->drop_one_in);

	if (packet->smp)
		return state >= IB_PORT_INIT;
	if (state != IB_PORT_ACTIVE) {
		simib_drop(adapter, SIMIB_DROP_port_down);
		simib_count(&adapter->port, SIMIB_XMIT_DISCARDS);
		return false;
	}
	if (drop_one_in && ++adapter->drop_count >= drop_one_in) {
		adapter->drop_count = 0;
		simib_drop(adapter, SIMIB_DROP_knob);
		return false;
	}
	return true;
}

static bool simib_is_own_lid(const struct simib_port *port, u16 dlid)
{
	const u16 lid = READ_ONCE(port->lid);

	return lid && dlid >> READ_ONCE(port->lmc) == lid >> READ_ONCE(port->lmc);
}

/* A datagram to this adapter itself stays inside; a multicast also goes to this adapter's own queue pairs. */
void simib_transmit(struct simib_adapter *adapter, struct simib_packet *packet)
{
	if (!simib_may_transmit(adapter, packet))
		return;
	if (simib_is_own_lid(&adapter->port, packet->dlid)) {
		simib_receive(adapter, packet);
		return;
	}
	if (simib_is_multicast_lid(packet->dlid))
		simib_receive(adapter, packet);
	simib_count_packet(&adapter->port, packet, true);
	simib_switch_ingress(adapter->port.peer, packet);
}

/* IBA 10.3.1.5: an error stops the send queue; later requests are flushed until it is set to RTS again. */
static void simib_complete_send(struct simib_qp *qp, const struct simib_send_wqe *wqe, enum ib_wc_status status)
{
	struct ib_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = IB_WC_SEND,
		.qp = &qp->ibqp,
	};
	bool notify = false;
	unsigned long flags;

	spin_lock_irqsave(&qp->sq.lock, flags);
	if (status != IB_WC_SUCCESS && status != IB_WC_WR_FLUSH_ERR && qp->state == IB_QPS_RTS) {
		spin_lock(&qp->rq.lock);
		qp->state = IB_QPS_SQE;
		spin_unlock(&qp->rq.lock);
	}
	if (status != IB_WC_SUCCESS || qp->signal_all || wqe->send_flags & IB_SEND_SIGNALED)
		notify = simib_cq_push(qp->send_cq, &wc, false);
	simib_queue_pop(&qp->sq);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	if (notify)
		simib_cq_notify(qp->send_cq);
}

/* The first work request, if it may be executed or flushed now; else NULL. */
static struct simib_send_wqe *simib_next_send(struct simib_qp *qp, bool *flush)
{
	struct simib_send_wqe *wqe = NULL;
	unsigned long flags;

	spin_lock_irqsave(&qp->sq.lock, flags);
	*flush = qp->state == IB_QPS_SQE || qp->state == IB_QPS_ERR;
	if (qp->sq.count && (qp->state == IB_QPS_RTS || *flush))
		wqe = simib_queue_slot(&qp->sq, 0);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	return wqe;
}

/* Returns true if there may be more to send. */
static bool simib_send_burst(struct simib_adapter *adapter, struct simib_qp *qp)
{
	int n;

	for (n = 0; n < SIMIB_BURST; n++) {
		bool flush;
		struct simib_send_wqe *wqe = simib_next_send(qp, &flush);

		if (!wqe)
			return false;
		simib_complete_send(qp, wqe, flush ? IB_WC_WR_FLUSH_ERR : simib_send_one(adapter, qp, wqe));
	}
	return true;
}

static struct simib_qp *simib_first_sender(struct simib_adapter *adapter)
{
	struct simib_qp *qp;
	unsigned long flags;

	spin_lock_irqsave(&adapter->send_lock, flags);
	qp = list_first_entry_or_null(&adapter->send_list, struct simib_qp, send_node);
	if (qp)
		list_del_init(&qp->send_node);
	spin_unlock_irqrestore(&adapter->send_lock, flags);
	return qp;
}

static bool simib_has_senders(struct simib_adapter *adapter)
{
	return !list_empty_careful(&adapter->send_list);
}

/* Call in an RCU read-side section. Returns the number of bursts left of `bursts`. */
static int simib_send_bursts(struct simib_adapter *adapter, int bursts)
{
	struct simib_qp *qp;

	for (; bursts; bursts--) {
		qp = simib_first_sender(adapter);
		if (!qp)
			break;
		if (simib_send_burst(adapter, qp))
			simib_list_sender(adapter, qp);
	}
	return bursts;
}

/* Any context. Checks the list again after it gives up being the sender: others that posted before only added to the list. */
static void simib_run_sends(struct simib_adapter *adapter, int bursts)
{
	do {
		if (test_and_set_bit_lock(SIMIB_SENDING, &adapter->sending))
			return;
		rcu_read_lock();
		bursts = simib_send_bursts(adapter, bursts);
		rcu_read_unlock();
		clear_bit_unlock(SIMIB_SENDING, &adapter->sending);
		smp_mb__after_atomic();
	} while (bursts && simib_has_senders(adapter));
	if (simib_has_senders(adapter))
		queue_work(adapter->workqueue, &adapter->send_work);
}

/*
 * Holds back softirqs, so that a receiver's NAPI runs once for all datagrams sent here, afterwards, on this processor. Not if
 * the caller has interrupts off (the MAD layer).
 */
static void simib_run_sends_bh(struct simib_adapter *adapter, int bursts)
{
	const bool hold = !irqs_disabled();

	if (hold)
		local_bh_disable();
	simib_run_sends(adapter, bursts);
	if (hold)
		local_bh_enable();
}

void simib_send_work(struct work_struct *work)
{
	simib_run_sends_bh(container_of(work, struct simib_adapter, send_work), SIMIB_BURSTS_IN_POST);
}

static void simib_begin_sends(struct simib_qp *qp)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);

	if (simib_fabric->async) {
		simib_schedule_sends(qp);
		return;
	}
	simib_list_sender(adapter, qp);
	simib_run_sends_bh(adapter, SIMIB_BURSTS_IN_POST);
}

int simib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct simib_qp *qp = to_qp(ibqp);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->sq.lock, flags);
	for (; wr && !ret; wr = ret ? wr : wr->next)
		ret = simib_enqueue_send(qp, wr);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
	if (ret)
		*bad = wr;
	simib_begin_sends(qp);
	return ret;
}
