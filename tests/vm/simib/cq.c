// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues. User space also polls by system call, so a queue is only a ring in kernel memory.
 */
#include <linux/mm.h>

#include "simib.h"

/* The queue has exactly the requested length, because the user may fill as many entries as the size says. */
int simib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct simib_cq *cq = to_cq(ibcq);

	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->cqe < 1 || attr->cqe > SIMIB_MAX_CQE)
		return -EINVAL;
	cq->ring = kvcalloc(attr->cqe, sizeof(*cq->ring), GFP_KERNEL_ACCOUNT);
	if (!cq->ring)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	cq->size = attr->cqe;
	ibcq->cqe = attr->cqe;
	return 0;
}

int simib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	kvfree(to_cq(ibcq)->ring);
	return 0;
}

static struct ib_wc *simib_cq_entry(const struct simib_cq *cq, u32 index)
{
	return &cq->ring[(cq->head + index) % cq->size];
}

int simib_resize_cq(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	struct simib_cq *cq = to_cq(ibcq);
	struct ib_wc *ring, *old = NULL;
	int ret = -EINVAL;
	u32 i;

	if (cqe < 1 || cqe > SIMIB_MAX_CQE)
		return -EINVAL;
	ring = kvcalloc(cqe, sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return -ENOMEM;
	spin_lock_irq(&cq->lock);
	if (cqe >= cq->count) {
		for (i = 0; i < cq->count; i++)
			ring[i] = *simib_cq_entry(cq, i);
		old = cq->ring;
		cq->ring = ring;
		cq->head = 0;
		cq->size = cqe;
		ibcq->cqe = cqe;
		ret = 0;
	}
	spin_unlock_irq(&cq->lock);
	kvfree(ret ? ring : old);
	return ret;
}

int simib_poll_cq(struct ib_cq *ibcq, int count, struct ib_wc *wc)
{
	struct simib_cq *cq = to_cq(ibcq);
	unsigned long flags;
	int polled;

	spin_lock_irqsave(&cq->lock, flags);
	for (polled = 0; polled < count && cq->count; polled++) {
		wc[polled] = *simib_cq_entry(cq, 0);
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return polled;
}

/* IBA 11.4.2.2: a pending request for any completion is not replaced by one for solicited completions. */
int simib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct simib_cq *cq = to_cq(ibcq);
	unsigned long irq;
	int missed;

	spin_lock_irqsave(&cq->lock, irq);
	if (cq->armed != IB_CQ_NEXT_COMP)
		cq->armed = flags & IB_CQ_SOLICITED_MASK;
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && cq->count;
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}

/* IBA 11.6.3.1: the queue is unusable after an overrun. Raises the event once. */
static void simib_cq_overrun(struct simib_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.element.cq = &cq->ibcq,
		.event = IB_EVENT_CQ_ERR,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/*
 * Returns true if the caller must call simib_cq_notify() when it holds no lock any more. An error counts as solicited, IBA
 * 11.4.2.2.
 */
bool simib_cq_push(struct simib_cq *cq, const struct ib_wc *wc, bool solicited)
{
	bool notify = false, overrun = false;
	unsigned long flags;

	solicited |= wc->status != IB_WC_SUCCESS;
	spin_lock_irqsave(&cq->lock, flags);
	if (cq->count == cq->size) {
		overrun = !cq->overrun;
		cq->overrun = true;
	} else {
		*simib_cq_entry(cq, cq->count) = *wc;
		cq->count++;
		notify = cq->armed == IB_CQ_NEXT_COMP || (cq->armed == IB_CQ_SOLICITED && solicited);
		if (notify)
			cq->armed = 0;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (overrun)
		simib_cq_overrun(cq);
	return notify;
}

void simib_cq_notify(struct simib_cq *cq)
{
	cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/* Removes the completions of a queue pair before it is destroyed, because they point to it. */
void simib_cq_forget(struct simib_cq *cq, struct ib_qp *qp)
{
	unsigned long flags;
	u32 i, kept = 0;

	spin_lock_irqsave(&cq->lock, flags);
	for (i = 0; i < cq->count; i++)
		if (simib_cq_entry(cq, i)->qp != qp)
			*simib_cq_entry(cq, kept++) = *simib_cq_entry(cq, i);
	cq->count = kept;
	spin_unlock_irqrestore(&cq->lock, flags);
}
