// SPDX-License-Identifier: GPL-2.0
/*
 * The module: parameters, and creation and destruction of the fabric.
 */
#include <linux/device.h>
#include <linux/module.h>

#include "simib.h"

static int adapters = 4;
module_param(adapters, int, 0444);
MODULE_PARM_DESC(adapters, "number of channel adapters, 1 to 8 (4)");

static int mtu = 4096;
module_param(mtu, int, 0444);
MODULE_PARM_DESC(mtu, "MTU that the ports are capable of, 256 to 4096 (4096)");

static bool async;
module_param(async, bool, 0444);
MODULE_PARM_DESC(async, "sends complete later, in a worker, as hardware has it; otherwise mostly within post_send, which is faster (0)");

struct simib_fabric *simib_fabric;

/* 02:'S':'I':'M':'I':'B':node:port. Port 0 is the node itself. */
static __be64 simib_guid(int node, int port)
{
	return cpu_to_be64(0x0253494d49420000ull | node << 8 | port);
}

__be64 simib_node_guid(int node)
{
	return simib_guid(node, 0);
}

/* IBA 14.2.5.3: all ports of a switch have the GUID of its port 0. */
__be64 simib_port_guid(int node)
{
	return simib_guid(node, node == SIMIB_SWITCH_NODE ? 0 : 1);
}

static void simib_remove_all(void)
{
	struct simib_fabric *fabric = simib_fabric;
	int i;

	simib_debugfs_exit();
	simib_trap_stop(&fabric->sw.trap);
	/*
	 * A sender delivers to all adapters, so unregister all before freeing the first: without queue pairs there is no sender,
	 * and a packet under way finds no receiver. Unregister adapter 0 last: users of the others leave their groups now, and the
	 * subnet manager that answers them is usually there.
	 */
	for (i = fabric->adapter_count - 1; i >= 0; i--)
		ib_unregister_device(&fabric->adapters[i]->ibdev);
	for (i = 0; i < fabric->adapter_count; i++) {
		simib_trap_stop(&fabric->adapters[i]->trap);
		drain_workqueue(fabric->adapters[i]->workqueue);
	}
	/* A cable that was moved during the unregistration may have raised the trap again. */
	simib_trap_stop(&fabric->sw.trap);
}

static void simib_free_all(void)
{
	int i;

	for (i = 0; i < SIMIB_MAX_ADAPTERS; i++)
		if (simib_fabric->adapters[i])
			simib_destroy_adapter(simib_fabric->adapters[i]);
	root_device_unregister(simib_fabric->bus);
	kvfree(simib_fabric);
	simib_fabric = NULL;
}

/* Creates all adapters and plugs in their cables before it registers the first. */
static int simib_create_all(int count)
{
	struct simib_adapter *adapter;
	int i;

	simib_switch_init(&simib_fabric->sw, count);
	for (i = 0; i < count; i++) {
		adapter = simib_create_adapter(i);
		if (!adapter)
			return -ENOMEM;
		simib_fabric->adapters[i] = adapter;
		adapter->port.peer = &simib_fabric->sw.ports[i + 1];
		simib_fabric->sw.ports[i + 1].peer = &adapter->port;
		spin_lock_irq(&simib_fabric->lock);
		simib_cable_update(adapter);
		spin_unlock_irq(&simib_fabric->lock);
	}
	return 0;
}

static int simib_register_all(int count)
{
	int i, ret;

	for (i = 0; i < count; i++) {
		ret = simib_register_adapter(simib_fabric->adapters[i]);
		if (ret)
			return ret;
		simib_fabric->adapter_count++;
	}
	for (i = 0; i < count; i++)
		simib_debugfs_add(simib_fabric->adapters[i]);
	return 0;
}

static int __init simib_init(void)
{
	int ret;

	if (adapters < 1 || adapters > SIMIB_MAX_ADAPTERS) {
		pr_err("adapters=%d: 1 to %d are possible\n", adapters, SIMIB_MAX_ADAPTERS);
		return -EINVAL;
	}
	if (mtu < 256 || mtu > SIMIB_MAX_MTU || ib_mtu_enum_to_int(ib_mtu_int_to_enum(mtu)) != mtu) {
		pr_err("mtu=%d: InfiniBand has 256, 512, 1024, 2048 and 4096\n", mtu);
		return -EINVAL;
	}
	simib_fabric = kvzalloc(sizeof(*simib_fabric), GFP_KERNEL);
	if (!simib_fabric)
		return -ENOMEM;
	simib_fabric->bus = root_device_register("simib");
	if (IS_ERR(simib_fabric->bus)) {
		ret = PTR_ERR(simib_fabric->bus);
		kvfree(simib_fabric);
		return ret;
	}
	spin_lock_init(&simib_fabric->lock);
	simib_fabric->mtu = ib_mtu_int_to_enum(mtu);
	simib_fabric->async = async;
	simib_debugfs_init();

	ret = simib_create_all(adapters);
	if (!ret)
		ret = simib_register_all(adapters);
	if (ret) {
		simib_remove_all();
		simib_free_all();
	}
	return ret;
}

static void __exit simib_exit(void)
{
	simib_remove_all();
	simib_free_all();
}

module_init(simib_init);
module_exit(simib_exit);

MODULE_DESCRIPTION("InfiniBand channel adapters and a switch in software, for tests");
MODULE_LICENSE("GPL");
