// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs of the types UD, GSI (QP1) and SMI (QP0): IBA 10.3.1 (states), 11.2.4 (verbs).
 */
#include <linux/mm.h>

#include "simib.h"

void *simib_queue_slot(const struct simib_queue *queue, u32 index)
{
	return queue->ring + (size_t)((queue->head + index) % queue->size) * queue->stride;
}

void simib_queue_pop(struct simib_queue *queue)
{
	queue->head = (queue->head + 1) % queue->size;
	queue->count--;
}

static int simib_queue_init(struct simib_queue *queue, u32 size, u32 max_sge, size_t header)
{
	if (size > SIMIB_MAX_QP_WR || max_sge > SIMIB_MAX_SGE)
		return -EINVAL;
	spin_lock_init(&queue->lock);
	queue->size = max(size, 1u);
	queue->max_sge = max_sge;
	queue->stride = header + max_sge * sizeof(struct ib_sge);
	queue->ring = kvcalloc(queue->size, queue->stride, GFP_KERNEL_ACCOUNT);
	return queue->ring ? 0 : -ENOMEM;
}

/* Drops work requests that have not started, without a completion, IBA 10.3.1.1. */
static void simib_queue_clear(struct simib_queue *queue)
{
	queue->head = 0;
	queue->count = 0;
}

/* QP0 and QP1 have fixed numbers; other queue pairs get the number that was unused for longest. */
static int simib_publish_qp(struct simib_adapter *adapter, struct simib_qp *qp)
{
	u32 number = qp->ibqp.qp_type == IB_QPT_GSI ? 1 : 0;
	int ret;

	if (qp->ibqp.qp_type == IB_QPT_UD)
		ret = xa_alloc_cyclic(&adapter->qps, &number, qp, XA_LIMIT(2, IB_QPN_MASK - 1), &adapter->next_qpn,
				      GFP_KERNEL);
	else
		ret = xa_insert(&adapter->qps, number, qp, GFP_KERNEL);
	qp->ibqp.qp_num = number;
	return min(ret, 0);
}

static int simib_check_init_attr(const struct ib_qp_init_attr *init)
{
	if (init->qp_type != IB_QPT_UD && init->qp_type != IB_QPT_GSI && init->qp_type != IB_QPT_SMI)
		return -EOPNOTSUPP;
	if (init->create_flags & ~IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		return -EOPNOTSUPP;
	if (init->srq || init->cap.max_inline_data)
		return -EINVAL;
	return 0;
}

int simib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct simib_qp *qp = to_qp(ibqp);
	int ret;

	ret = simib_check_init_attr(init);
	if (ret)
		return ret;
	mutex_init(&qp->modify);
	INIT_LIST_HEAD(&qp->send_node);
	qp->send_cq = to_cq(init->send_cq);
	qp->recv_cq = to_cq(init->recv_cq);
	qp->signal_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->block_loopback = init->create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	qp->state = IB_QPS_RESET;
	ret = simib_queue_init(&qp->sq, init->cap.max_send_wr, init->cap.max_send_sge, sizeof(struct simib_send_wqe));
	if (!ret)
		ret = simib_queue_init(&qp->rq, init->cap.max_recv_wr, init->cap.max_recv_sge, sizeof(struct simib_recv_wqe));
	if (!ret)
		ret = simib_publish_qp(to_adapter(ibqp->device), qp);
	if (ret) {
		kvfree(qp->sq.ring);
		kvfree(qp->rq.ring);
		return ret;
	}
	init->cap.max_inline_data = 0;
	return 0;
}

static void simib_set_state(struct simib_qp *qp, enum ib_qp_state state)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->sq.lock, flags);
	spin_lock(&qp->rq.lock);
	qp->state = state;
	spin_unlock(&qp->rq.lock);
	spin_unlock_irqrestore(&qp->sq.lock, flags);
}

/* Completes all posted receives with a flush error, IBA 10.3.1.6. */
void simib_flush_receives(struct simib_qp *qp)
{
	struct ib_wc wc = {
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp = &qp->ibqp,
	};
	bool notify = false;
	unsigned long flags;

	spin_lock_irqsave(&qp->rq.lock, flags);
	for (; qp->rq.count; simib_queue_pop(&qp->rq)) {
		wc.wr_id = ((struct simib_recv_wqe *)simib_queue_slot(&qp->rq, 0))->wr_id;
		notify |= simib_cq_push(qp->recv_cq, &wc, false);
	}
	spin_unlock_irqrestore(&qp->rq.lock, flags);
	if (notify)
		simib_cq_notify(qp->recv_cq);
}

/* The sender flushes the send queue, so that the request that it is executing completes first. */
static void simib_to_error(struct simib_qp *qp)
{
	simib_set_state(qp, IB_QPS_ERR);
	simib_flush_receives(qp);
	simib_schedule_sends(qp);
}

static void simib_to_reset(struct simib_qp *qp)
{
	simib_set_state(qp, IB_QPS_RESET);
	simib_quiesce_sends(qp);
	spin_lock_irq(&qp->sq.lock);
	simib_queue_clear(&qp->sq);
	spin_unlock_irq(&qp->sq.lock);
	spin_lock_irq(&qp->rq.lock);
	simib_queue_clear(&qp->rq);
	spin_unlock_irq(&qp->rq.lock);
	simib_cq_forget(qp->send_cq, &qp->ibqp);
	simib_cq_forget(qp->recv_cq, &qp->ibqp);
	simib_resume_sends(qp);
}

/* From the data path: a receive could not be written. IBA 10.3.1.6; raises the event of 11.6.3.2. */
void simib_qp_fatal(struct simib_qp *qp)
{
	struct ib_event event = {
		.device = qp->ibqp.device,
		.element.qp = &qp->ibqp,
		.event = IB_EVENT_QP_FATAL,
	};

	simib_to_error(qp);
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

static int simib_check_attr(const struct simib_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	enum ib_qp_state now = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : now;

	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != qp->state &&
	    !(attr->cur_qp_state == IB_QPS_RTS && qp->state == IB_QPS_SQE))
		return -EINVAL;
	if (!ib_modify_qp_is_ok(qp->state, next, qp->ibqp.qp_type, mask))
		return -EINVAL;
	if (mask & IB_QP_PORT && attr->port_num != 1)
		return -EINVAL;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index >= SIMIB_PKEYS)
		return -EINVAL;
	return 0;
}

static void simib_apply_attr(struct simib_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_QKEY)
		WRITE_ONCE(qp->qkey, attr->qkey);
	if (mask & IB_QP_PKEY_INDEX)
		WRITE_ONCE(qp->pkey_index, attr->pkey_index);
	if (mask & IB_QP_SQ_PSN)
		qp->sq_psn = attr->sq_psn;
}

static void simib_change_state(struct simib_qp *qp, enum ib_qp_state next)
{
	if (next == IB_QPS_RESET) {
		simib_to_reset(qp);
	} else if (next == IB_QPS_ERR) {
		simib_to_error(qp);
	} else {
		simib_set_state(qp, next);
		simib_schedule_sends(qp);	/* for requests that waited in SQD */
	}
}

int simib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct simib_qp *qp = to_qp(ibqp);
	int ret;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	mutex_lock(&qp->modify);
	ret = simib_check_attr(qp, attr, mask);
	if (!ret) {
		simib_apply_attr(qp, attr, mask);
		if (mask & IB_QP_STATE)
			simib_change_state(qp, attr->qp_state);
	}
	mutex_unlock(&qp->modify);
	return ret;
}

int simib_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct simib_qp *qp = to_qp(ibqp);

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = READ_ONCE(qp->state);
	attr->cur_qp_state = attr->qp_state;
	attr->qkey = qp->qkey;
	attr->pkey_index = qp->pkey_index;
	attr->port_num = 1;
	attr->sq_psn = qp->sq_psn;
	attr->path_mtu = READ_ONCE(to_adapter(ibqp->device)->port.neighbor_mtu);
	attr->cap.max_send_wr = qp->sq.size;
	attr->cap.max_recv_wr = qp->rq.size;
	attr->cap.max_send_sge = qp->sq.max_sge;
	attr->cap.max_recv_sge = qp->rq.max_sge;
	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->cap = attr->cap;
	init->sq_sig_type = qp->signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ibqp->qp_type;
	init->create_flags = qp->block_loopback ? IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK : 0;
	init->port_num = 1;
	return 0;
}

int simib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct simib_qp *qp = to_qp(ibqp);

	xa_erase(&to_adapter(ibqp->device)->qps, ibqp->qp_num);
	simib_detach_all(qp);
	simib_set_state(qp, IB_QPS_RESET);
	simib_quiesce_sends(qp);	/* also waits for senders that deliver to this queue pair */
	simib_cq_forget(qp->send_cq, ibqp);
	simib_cq_forget(qp->recv_cq, ibqp);
	kvfree(qp->sq.ring);
	kvfree(qp->rq.ring);
	return 0;
}

static int simib_enqueue_recv(struct simib_qp *qp, const struct ib_recv_wr *wr)
{
	struct simib_recv_wqe *wqe;

	if (qp->state == IB_QPS_RESET || wr->num_sge < 0 || wr->num_sge > qp->rq.max_sge)
		return -EINVAL;
	if (qp->rq.count == qp->rq.size)
		return -ENOMEM;
	wqe = simib_queue_slot(&qp->rq, qp->rq.count++);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	memcpy(wqe->sge, wr->sg_list, wr->num_sge * sizeof(struct ib_sge));
	return 0;
}

int simib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct simib_qp *qp = to_qp(ibqp);
	unsigned long flags;
	bool flush;
	int ret = 0;

	spin_lock_irqsave(&qp->rq.lock, flags);
	for (; wr && !ret; wr = ret ? wr : wr->next)
		ret = simib_enqueue_recv(qp, wr);
	flush = qp->state == IB_QPS_ERR;
	spin_unlock_irqrestore(&qp->rq.lock, flags);
	if (ret)
		*bad = wr;
	if (flush)
		simib_flush_receives(qp);
	return ret;
}
