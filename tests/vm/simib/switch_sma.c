// SPDX-License-Identifier: GPL-2.0
/*
 * The switch's subnet management agent, IBA 14.2.5. It runs in the thread of the requester.
 */
#include "simib.h"

/* IBA 14.2.5.4. */
struct simib_switch_info {
	__be16 linear_fdb_cap;
	__be16 random_fdb_cap;
	__be16 multicast_fdb_cap;
	__be16 linear_fdb_top;
	u8 default_port;
	u8 default_multicast_primary_port;
	u8 default_multicast_not_primary_port;
	u8 life_time_port_state_change;		/* 5 bits, 1 bit, 2 bits OptimizedSLtoVL */
	__be16 lids_per_port;
	__be16 partition_enforcement_cap;
	u8 enforcement_and_enhanced_port0;	/* inbound, outbound, filter raw inbound, outbound, enhanced port 0 */
	u8 reserved;
	__be16 multicast_fdb_top;
} __packed;

#define SIMIB_PORT_STATE_CHANGE		0x4
#define SIMIB_LIFE_TIME_SHIFT		3
#define SIMIB_ENFORCES_BOTH_WAYS	0xc0
#define SIMIB_LFT_BLOCK			64	/* LIDs */
#define SIMIB_MFT_BLOCK			32	/* MLIDs */

static u16 simib_get_switch_info(struct simib_switch *sw, struct ib_smp *smp)
{
	struct simib_switch_info *info = (struct simib_switch_info *)smp->data;

	memset(smp->data, 0, sizeof(smp->data));
	info->linear_fdb_cap = cpu_to_be16(SIMIB_LFT_SIZE);
	info->multicast_fdb_cap = cpu_to_be16(SIMIB_MFT_SIZE);
	info->linear_fdb_top = cpu_to_be16(sw->lft_top);
	info->default_port = sw->default_port;
	info->default_multicast_primary_port = sw->default_mcast_primary;
	info->default_multicast_not_primary_port = sw->default_mcast_not_primary;
	info->life_time_port_state_change = sw->life_time << SIMIB_LIFE_TIME_SHIFT |
					    (sw->port_state_change ? SIMIB_PORT_STATE_CHANGE : 0);
	info->partition_enforcement_cap = cpu_to_be16(SIMIB_PKEYS);
	info->enforcement_and_enhanced_port0 = SIMIB_ENFORCES_BOTH_WAYS;
	info->multicast_fdb_top = cpu_to_be16(sw->mft_top);
	return 0;
}

/* PortStateChange is reset by writing a one. */
static u16 simib_set_switch_info(struct simib_switch *sw, struct ib_smp *smp)
{
	const struct simib_switch_info *info = (struct simib_switch_info *)smp->data;

	if (be16_to_cpu(info->linear_fdb_top) >= SIMIB_LFT_SIZE)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	sw->lft_top = be16_to_cpu(info->linear_fdb_top);
	sw->mft_top = be16_to_cpu(info->multicast_fdb_top);
	sw->default_port = info->default_port;
	sw->default_mcast_primary = info->default_multicast_primary_port;
	sw->default_mcast_not_primary = info->default_multicast_not_primary_port;
	sw->life_time = info->life_time_port_state_change >> SIMIB_LIFE_TIME_SHIFT;
	if (info->life_time_port_state_change & SIMIB_PORT_STATE_CHANGE)
		sw->port_state_change = false;
	return simib_get_switch_info(sw, smp);
}

/* IBA 14.2.5.10: a block of 64 LIDs. NULL: there is no such block. */
static u8 *simib_lft_block(struct simib_switch *sw, const struct ib_smp *smp)
{
	const u32 block = be32_to_cpu(smp->attr_mod);

	return block < SIMIB_LFT_SIZE / SIMIB_LFT_BLOCK ? &sw->lft[block * SIMIB_LFT_BLOCK] : NULL;
}

static u16 simib_get_lft(struct simib_switch *sw, struct ib_smp *smp)
{
	const u8 *block = simib_lft_block(sw, smp);

	if (!block)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	memcpy(smp->data, block, SIMIB_LFT_BLOCK);
	return 0;
}

static u16 simib_set_lft(struct simib_switch *sw, struct ib_smp *smp)
{
	u8 *block = simib_lft_block(sw, smp);
	int i;

	if (!block)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 0; i < SIMIB_LFT_BLOCK; i++)
		WRITE_ONCE(block[i], smp->data[i]);
	return 0;
}

/* IBA 14.2.5.12: a block of 32 MLIDs for 16 ports. All our ports are in position 0. */
static u16 *simib_mft_block(struct simib_switch *sw, const struct ib_smp *smp)
{
	const u32 block = be32_to_cpu(smp->attr_mod) & 0x1ff, position = be32_to_cpu(smp->attr_mod) >> 28;

	return !position && block < SIMIB_MFT_SIZE / SIMIB_MFT_BLOCK ? &sw->mft[block * SIMIB_MFT_BLOCK] : NULL;
}

static u16 simib_get_mft(struct simib_switch *sw, struct ib_smp *smp)
{
	const u16 *block = simib_mft_block(sw, smp);
	__be16 *masks = (__be16 *)smp->data;
	int i;

	if (!block)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 0; i < SIMIB_MFT_BLOCK; i++)
		masks[i] = cpu_to_be16(block[i]);
	return 0;
}

static u16 simib_set_mft(struct simib_switch *sw, struct ib_smp *smp)
{
	const __be16 *masks = (__be16 *)smp->data;
	u16 *block = simib_mft_block(sw, smp);
	int i;

	if (!block)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	for (i = 0; i < SIMIB_MFT_BLOCK; i++)
		WRITE_ONCE(block[i], be16_to_cpu(masks[i]));
	return 0;
}

static u16 simib_port_attribute(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp, u32 number,
				u16 (*handle)(struct simib_port *port, u8 arrived_on, struct ib_smp *smp))
{
	if (number > sw->port_count)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	return handle(&sw->ports[number], arrived_on, smp);
}

static u16 simib_pkey_attribute(struct simib_switch *sw, struct ib_smp *smp,
				u16 (*handle)(struct simib_port *port, u16 block, struct ib_smp *smp))
{
	const u32 modifier = be32_to_cpu(smp->attr_mod), number = modifier >> 16;

	if (number > sw->port_count)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	return handle(&sw->ports[number], modifier & 0xffff, smp);
}

static u16 simib_switch_get(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp)
{
	switch (smp->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memcpy(smp->data, sw->description, IB_SMP_DATA_SIZE);
		return 0;
	case IB_SMP_ATTR_NODE_INFO:
		simib_fill_node_info((struct ib_node_info *)smp->data, RDMA_NODE_IB_SWITCH, sw->port_count,
				     SIMIB_SWITCH_NODE, arrived_on);
		return 0;
	case IB_SMP_ATTR_SWITCH_INFO:
		return simib_get_switch_info(sw, smp);
	case IB_SMP_ATTR_PORT_INFO:
		return simib_port_attribute(sw, arrived_on, smp, be32_to_cpu(smp->attr_mod) & 0xff, simib_get_port_info);
	case IB_SMP_ATTR_PKEY_TABLE:
		return simib_pkey_attribute(sw, smp, simib_get_pkeys);
	case IB_SMP_ATTR_GUID_INFO:
		return simib_get_guids(&sw->ports[0], smp);
	case IB_SMP_ATTR_LINEAR_FORWARD_TABLE:
		return simib_get_lft(sw, smp);
	case IB_SMP_ATTR_MCAST_FORWARD_TABLE:
		return simib_get_mft(sw, smp);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

static u16 simib_switch_set(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp)
{
	switch (smp->attr_id) {
	case IB_SMP_ATTR_SWITCH_INFO:
		return simib_set_switch_info(sw, smp);
	case IB_SMP_ATTR_PORT_INFO:
		return simib_port_attribute(sw, arrived_on, smp, be32_to_cpu(smp->attr_mod) & 0xff, simib_set_port_info);
	case IB_SMP_ATTR_PKEY_TABLE:
		return simib_pkey_attribute(sw, smp, simib_set_pkeys);
	case IB_SMP_ATTR_LINEAR_FORWARD_TABLE:
		return simib_set_lft(sw, smp);
	case IB_SMP_ATTR_MCAST_FORWARD_TABLE:
		return simib_set_mft(sw, smp);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

static u16 simib_switch_serve(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp)
{
	if (smp->class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	if (smp->method == IB_MGMT_METHOD_GET)
		return simib_switch_get(sw, arrived_on, smp);
	return simib_switch_set(sw, arrived_on, smp);
}

/* Answers in place. False: no answer is sent. */
bool simib_switch_sma(struct simib_switch *sw, u8 arrived_on, struct ib_smp *smp)
{
	unsigned long flags;
	u16 status;

	if (smp->method == IB_MGMT_METHOD_TRAP_REPRESS) {
		simib_trap_repress(&sw->trap, smp);
		return false;
	}
	if (smp->method != IB_MGMT_METHOD_GET && smp->method != IB_MGMT_METHOD_SET)
		return false;
	spin_lock_irqsave(&simib_fabric->lock, flags);
	status = simib_switch_serve(sw, arrived_on, smp);
	spin_unlock_irqrestore(&simib_fabric->lock, flags);
	simib_answer(smp, status);
	return true;
}
