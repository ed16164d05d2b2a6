// SPDX-License-Identifier: GPL-2.0
/*
 * Performance management agent: ClassPortInfo, PortCounters and PortCountersExtended of a port, IBA 16.1. Both tables show
 * the same counters: a reset of one resets the other, as in many adapters.
 */
#include <rdma/ib_pma.h>

#include "simib.h"

#define SIMIB_SELECT_XMIT_CONSTRAINT	cpu_to_be16(0x0080)
#define SIMIB_SELECT_RCV_CONSTRAINT	cpu_to_be16(0x0100)

struct simib_selection {
	__be16 bit;			/* of CounterSelect */
	enum simib_counter counter;
};

static const struct simib_selection simib_classic[] = {
	{ IB_PMA_SEL_LINK_DOWNED, SIMIB_LINK_DOWNED },
	{ IB_PMA_SEL_PORT_RCV_ERRORS, SIMIB_RCV_ERRORS },
	{ IB_PMA_SEL_PORT_XMIT_DISCARDS, SIMIB_XMIT_DISCARDS },
	{ SIMIB_SELECT_XMIT_CONSTRAINT, SIMIB_XMIT_CONSTRAINT },
	{ SIMIB_SELECT_RCV_CONSTRAINT, SIMIB_RCV_CONSTRAINT },
	{ IB_PMA_SEL_PORT_XMIT_DATA, SIMIB_XMIT_DATA },
	{ IB_PMA_SEL_PORT_RCV_DATA, SIMIB_RCV_DATA },
	{ IB_PMA_SEL_PORT_XMIT_PACKETS, SIMIB_XMIT_PACKETS },
	{ IB_PMA_SEL_PORT_RCV_PACKETS, SIMIB_RCV_PACKETS },
};

static const struct simib_selection simib_extended[] = {
	{ IB_PMA_SELX_PORT_XMIT_DATA, SIMIB_XMIT_DATA },
	{ IB_PMA_SELX_PORT_RCV_DATA, SIMIB_RCV_DATA },
	{ IB_PMA_SELX_PORT_XMIT_PACKETS, SIMIB_XMIT_PACKETS },
	{ IB_PMA_SELX_PORT_RCV_PACKETS, SIMIB_RCV_PACKETS },
	{ IB_PMA_SELX_PORT_UNI_XMIT_PACKETS, SIMIB_UNICAST_XMIT },
	{ IB_PMA_SELX_PORT_UNI_RCV_PACKETS, SIMIB_UNICAST_RCV },
	{ IB_PMA_SELX_PORT_MULTI_XMIT_PACKETS, SIMIB_MULTICAST_XMIT },
	{ IB_PMA_SELX_PORT_MULTI_RCV_PACKETS, SIMIB_MULTICAST_RCV },
};

static void simib_reset(struct simib_port *port, const struct simib_selection *rows, size_t count, __be16 select)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (select & rows[i].bit)
			atomic64_set(&port->counters[rows[i].counter], 0);
}

static u64 simib_read(const struct simib_port *port, enum simib_counter counter)
{
	return atomic64_read(&port->counters[counter]);
}

/* PortCounters saturate at their largest value, IBA 16.1.3.5. */
static u32 simib_clamp(const struct simib_port *port, enum simib_counter counter, u32 most)
{
	return min_t(u64, simib_read(port, counter), most);
}

static void simib_fill_classic(const struct simib_port *port, struct ib_pma_portcounters *counters)
{
	const u8 select = counters->port_select;

	memset(counters, 0, sizeof(*counters));
	counters->port_select = select;
	counters->link_downed_counter = simib_clamp(port, SIMIB_LINK_DOWNED, U8_MAX);
	counters->port_rcv_errors = cpu_to_be16(simib_clamp(port, SIMIB_RCV_ERRORS, U16_MAX));
	counters->port_xmit_discards = cpu_to_be16(simib_clamp(port, SIMIB_XMIT_DISCARDS, U16_MAX));
	counters->port_xmit_constraint_errors = simib_clamp(port, SIMIB_XMIT_CONSTRAINT, U8_MAX);
	counters->port_rcv_constraint_errors = simib_clamp(port, SIMIB_RCV_CONSTRAINT, U8_MAX);
	counters->port_xmit_data = cpu_to_be32(simib_clamp(port, SIMIB_XMIT_DATA, U32_MAX));
	counters->port_rcv_data = cpu_to_be32(simib_clamp(port, SIMIB_RCV_DATA, U32_MAX));
	counters->port_xmit_packets = cpu_to_be32(simib_clamp(port, SIMIB_XMIT_PACKETS, U32_MAX));
	counters->port_rcv_packets = cpu_to_be32(simib_clamp(port, SIMIB_RCV_PACKETS, U32_MAX));
}

static void simib_fill_extended(const struct simib_port *port, struct ib_pma_portcounters_ext *counters)
{
	const u8 select = counters->port_select;

	memset(counters, 0, sizeof(*counters));
	counters->port_select = select;
	counters->port_xmit_data = cpu_to_be64(simib_read(port, SIMIB_XMIT_DATA));
	counters->port_rcv_data = cpu_to_be64(simib_read(port, SIMIB_RCV_DATA));
	counters->port_xmit_packets = cpu_to_be64(simib_read(port, SIMIB_XMIT_PACKETS));
	counters->port_rcv_packets = cpu_to_be64(simib_read(port, SIMIB_RCV_PACKETS));
	counters->port_unicast_xmit_packets = cpu_to_be64(simib_read(port, SIMIB_UNICAST_XMIT));
	counters->port_unicast_rcv_packets = cpu_to_be64(simib_read(port, SIMIB_UNICAST_RCV));
	counters->port_multicast_xmit_packets = cpu_to_be64(simib_read(port, SIMIB_MULTICAST_XMIT));
	counters->port_multicast_rcv_packets = cpu_to_be64(simib_read(port, SIMIB_MULTICAST_RCV));
}

static u16 simib_class_port_info(struct ib_pma_mad *mad)
{
	struct ib_class_port_info *info = (struct ib_class_port_info *)mad->data;

	if (mad->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	memset(mad->data, 0, sizeof(mad->data));
	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH;
	info->cap_mask2_resp_time = cpu_to_be32(18);	/* 4.096 us << 18 */
	return 0;
}

static u16 simib_port_counters(struct simib_port *port, struct ib_pma_mad *mad)
{
	struct ib_pma_portcounters *counters = (struct ib_pma_portcounters *)mad->data;

	if (mad->mad_hdr.method == IB_MGMT_METHOD_SET)
		simib_reset(port, simib_classic, ARRAY_SIZE(simib_classic), counters->counter_select);
	simib_fill_classic(port, counters);
	return 0;
}

static u16 simib_port_counters_ext(struct simib_port *port, struct ib_pma_mad *mad)
{
	struct ib_pma_portcounters_ext *counters = (struct ib_pma_portcounters_ext *)mad->data;

	if (mad->mad_hdr.method == IB_MGMT_METHOD_SET)
		simib_reset(port, simib_extended, ARRAY_SIZE(simib_extended), counters->counter_select);
	simib_fill_extended(port, counters);
	return 0;
}

/* Answers a Get or Set in place and returns the MAD status. Any context. */
u16 simib_pma(struct simib_port *port, struct ib_mad *request)
{
	struct ib_pma_mad *mad = (struct ib_pma_mad *)request;

	if (mad->mad_hdr.class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	switch (mad->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		return simib_class_port_info(mad);
	case IB_PMA_PORT_COUNTERS:
		return simib_port_counters(port, mad);
	case IB_PMA_PORT_COUNTERS_EXT:
		return simib_port_counters_ext(port, mad);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}
