// SPDX-License-Identifier: GPL-2.0
/*
 * The receiving half of the data path: from a datagram on the cable to a completion. It runs in the sender's thread. The
 * checks are those of IBA 9.6 and 9.8.3, in that order. A packet that fails one is dropped and counted, and the receive stays
 * posted.
 */
#include "simib.h"

/* IBA 9.6.1.5: a unicast packet with a GRH is for one of the port's GIDs. */
static bool simib_is_own_gid(const struct simib_port *port, const union ib_gid *gid)
{
	int i;

	if (gid->global.subnet_prefix != READ_ONCE(port->gid_prefix) &&
	    gid->global.subnet_prefix != SIMIB_DEFAULT_PREFIX)
		return false;
	for (i = 0; i < SIMIB_GUIDS; i++)
		if (gid->global.interface_id && gid->global.interface_id == READ_ONCE(port->guids[i]))
			return true;
	return false;
}

static bool simib_is_addressed(const struct simib_port *port, const struct simib_packet *packet)
{
	const u8 lmc = READ_ONCE(port->lmc);

	if (packet->smp && packet->dlid == SIMIB_LID_PERMISSIVE)
		return true;
	if (packet->dlid >> lmc != READ_ONCE(port->lid) >> lmc)
		return false;
	return !packet->has_grh || simib_is_own_gid(port, &packet->grh.dgid);
}

/* The index of the P_Key that matches the packet's, or -1. QP1 accepts all partitions of the port, IBA 10.9.4. */
static int simib_match_pkey(const struct simib_port *port, const struct simib_qp *qp, u16 pkey)
{
	int i;

	switch (qp->ibqp.qp_type) {
	case IB_QPT_SMI:
		return 0;
	case IB_QPT_GSI:
		for (i = 0; i < SIMIB_PKEYS; i++)
			if (simib_pkeys_match(READ_ONCE(port->pkeys[i]), pkey))
				return i;
		return -1;
	default:
		i = READ_ONCE(qp->pkey_index);
		return simib_pkeys_match(READ_ONCE(port->pkeys[i]), pkey) ? i : -1;
	}
}

static void simib_fill_wc(struct ib_wc *wc, const struct simib_qp *qp, const struct simib_packet *packet, int pkey_index)
{
	const struct simib_port *port = &to_adapter(qp->ibqp.device)->port;

	wc->opcode = IB_WC_RECV;
	wc->byte_len = SIMIB_GRH_BYTES + packet->length;
	wc->src_qp = packet->src_qpn;
	wc->slid = packet->slid;
	wc->sl = packet->sl;
	wc->pkey_index = pkey_index;
	wc->port_num = 1;
	if (!simib_is_multicast_lid(packet->dlid))
		wc->dlid_path_bits = packet->dlid & (BIT(READ_ONCE(port->lmc)) - 1);
	if (packet->has_grh)
		wc->wc_flags |= IB_WC_GRH;
	if (packet->has_imm) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = packet->imm_data;
	}
}

static enum ib_wc_status simib_scatter_packet(struct simib_qp *qp, const struct simib_recv_wqe *wqe,
					      const struct simib_packet *packet)
{
	struct simib_cursor to = { .sge = wqe->sge, .left = wqe->num_sge };

	if (simib_scatter(qp->ibqp.pd, &to, packet->has_grh ? &packet->grh : NULL, SIMIB_GRH_BYTES) ||
	    simib_scatter(qp->ibqp.pd, &to, packet->payload, packet->length))
		return IB_WC_LOC_PROT_ERR;
	return IB_WC_SUCCESS;
}

/* Fills the first posted receive. Requires rq.lock. Returns the drop reason, or -1 and `wc`. */
static int simib_take_receive(struct simib_qp *qp, const struct simib_packet *packet, struct ib_wc *wc)
{
	const struct simib_recv_wqe *wqe;

	if (qp->state < IB_QPS_RTR || qp->state == IB_QPS_ERR)
		return SIMIB_DROP_no_qp;
	if (!qp->rq.count)
		return SIMIB_DROP_no_receive;
	wqe = simib_queue_slot(&qp->rq, 0);
	if (simib_sge_length(wqe->sge, wqe->num_sge) < SIMIB_GRH_BYTES + packet->length)
		return SIMIB_DROP_too_long;
	wc->wr_id = wqe->wr_id;
	wc->qp = &qp->ibqp;
	wc->status = simib_scatter_packet(qp, wqe, packet);
	simib_queue_pop(&qp->rq);
	return -1;
}

static void simib_complete_receive(struct simib_qp *qp, const struct simib_packet *packet, int pkey_index)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);
	struct ib_wc wc = {};
	bool notify = false;
	unsigned long flags;
	int drop;

	simib_fill_wc(&wc, qp, packet, pkey_index);
	spin_lock_irqsave(&qp->rq.lock, flags);
	drop = simib_take_receive(qp, packet, &wc);
	if (drop < 0)
		notify = simib_cq_push(qp->recv_cq, &wc, packet->solicited);
	spin_unlock_irqrestore(&qp->rq.lock, flags);
	if (drop >= 0) {
		simib_drop(adapter, drop);
		return;
	}
	if (notify)
		simib_cq_notify(qp->recv_cq);
	if (wc.status != IB_WC_SUCCESS)
		simib_qp_fatal(qp);
}

/* Checks a packet for a queue pair, IBA 9.6.1.1 (P_Key) and 9.6.1.4 (Q_Key), and delivers it. */
static void simib_deliver(struct simib_qp *qp, const struct simib_packet *packet)
{
	struct simib_adapter *adapter = to_adapter(qp->ibqp.device);
	const int pkey_index = simib_match_pkey(&adapter->port, qp, packet->pkey);

	if (pkey_index < 0) {
		atomic_inc(&adapter->port.pkey_violations);
		simib_drop(adapter, SIMIB_DROP_pkey);
		return;
	}
	if (!packet->smp && packet->qkey != READ_ONCE(qp->qkey)) {
		atomic_inc(&adapter->port.qkey_violations);
		simib_drop(adapter, SIMIB_DROP_qkey);
		return;
	}
	simib_complete_receive(qp, packet, pkey_index);
}

static void simib_receive_unicast(struct simib_adapter *adapter, const struct simib_packet *packet)
{
	struct simib_qp *qp;

	if (!simib_is_addressed(&adapter->port, packet)) {
		simib_drop(adapter, SIMIB_DROP_bad_address);
		return;
	}
	qp = xa_load(&adapter->qps, packet->dst_qpn);
	/* QP0 receives SMPs, and nothing else. */
	if (!qp || packet->smp != (qp->ibqp.qp_type == IB_QPT_SMI)) {
		simib_drop(adapter, SIMIB_DROP_no_qp);
		return;
	}
	simib_deliver(qp, packet);
}

/* Call in an RCU read-side section, which protects the pointers to queue pairs. */
void simib_receive(struct simib_adapter *adapter, const struct simib_packet *packet)
{
	if (!simib_is_multicast_lid(packet->dlid)) {
		simib_receive_unicast(adapter, packet);
		return;
	}
	/* A multicast without an attached queue pair here is no error: a sender need not be a member. */
	if (packet->has_grh && packet->dst_qpn == IB_MULTICAST_QPN)
		simib_mcast_each(adapter, packet, simib_deliver);
	else
		simib_drop(adapter, SIMIB_DROP_bad_address);
}
