// SPDX-License-Identifier: GPL-2.0
/*
 * Management datagrams at an adapter: its own agents answer some; the MAD layer passes the others to its users.
 */
#include "simib.h"

/* Turns a request into its answer, IBA 13.4.6 and 14.2.1.2. */
void simib_answer(struct ib_smp *smp, u16 status)
{
	smp->method = IB_MGMT_METHOD_GET_RESP;
	smp->status = cpu_to_be16(status);
	if (smp->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		smp->status |= IB_SMP_DIRECTION;
}

static bool simib_is_request(u8 method)
{
	return method == IB_MGMT_METHOD_GET || method == IB_MGMT_METHOD_SET;
}

/* Subnet management, except SMInfo, which is for the subnet manager on this port, if there is one. */
static int simib_process_smp(struct simib_adapter *adapter, const struct ib_smp *in, struct ib_smp *out)
{
	unsigned long flags;
	u16 status;

	if (in->method == IB_MGMT_METHOD_TRAP_REPRESS) {
		simib_trap_repress(&adapter->trap, in);
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_CONSUMED;
	}
	if (!simib_is_request(in->method))
		return IB_MAD_RESULT_SUCCESS;
	if (in->attr_id == IB_SMP_ATTR_SM_INFO && READ_ONCE(adapter->port.cap_mask) & IB_PORT_SM)
		return IB_MAD_RESULT_SUCCESS;

	*out = *in;
	spin_lock_irqsave(&simib_fabric->lock, flags);
	status = simib_adapter_sma(adapter, out);
	spin_unlock_irqrestore(&simib_fabric->lock, flags);
	simib_answer(out, status);
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

static int simib_process_perf(struct simib_adapter *adapter, const struct ib_mad *in, struct ib_mad *out)
{
	if (!simib_is_request(in->mad_hdr.method))
		return IB_MAD_RESULT_SUCCESS;
	*out = *in;
	simib_answer((struct ib_smp *)out, simib_pma(&adapter->port, out));
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

int simib_process_mad(struct ib_device *ibdev, int flags, u32 port_num, const struct ib_wc *in_wc,
		      const struct ib_grh *in_grh, const struct ib_mad *in, struct ib_mad *out, size_t *out_size,
		      u16 *out_pkey_index)
{
	struct simib_adapter *adapter = to_adapter(ibdev);

	switch (in->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
		return simib_process_smp(adapter, (const struct ib_smp *)in, (struct ib_smp *)out);
	case IB_MGMT_CLASS_PERF_MGMT:
		return simib_process_perf(adapter, in, out);
	default:
		return IB_MAD_RESULT_SUCCESS;
	}
}
