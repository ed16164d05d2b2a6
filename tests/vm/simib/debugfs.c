// SPDX-License-Identifier: GPL-2.0
/*
 * Knobs, /sys/kernel/debug/simib/simibN/:
 *
 *   cable	1 plugged, 0 unplugged; write to change it
 *   drop	N drops one in N datagrams that this adapter sends, but no SMPs; 0 drops none
 *   drops	"reason count" lines: datagrams dropped at this adapter, or at the switch on the way to or from it
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "simib.h"

static struct dentry *simib_debugfs;

static int simib_cable_get(void *data, u64 *value)
{
	struct simib_adapter *adapter = data;

	*value = !READ_ONCE(adapter->cable_out);
	return 0;
}

static int simib_cable_set(void *data, u64 value)
{
	struct simib_adapter *adapter = data;

	if (value > 1)
		return -EINVAL;
	spin_lock_irq(&simib_fabric->lock);
	adapter->cable_out = !value;
	simib_cable_update(adapter);
	spin_unlock_irq(&simib_fabric->lock);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(simib_cable_fops, simib_cable_get, simib_cable_set, "%llu\n");

static const char *const simib_drop_names[] = {
#define X(name) #name,
	SIMIB_DROPS(X)
#undef X
};

static int simib_drops_show(struct seq_file *file, void *unused)
{
	struct simib_adapter *adapter = file->private;
	int i;

	for (i = 0; i < SIMIB_DROP_REASONS; i++)
		seq_printf(file, "%s %lld\n", simib_drop_names[i], atomic64_read(&adapter->drops[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(simib_drops);

void simib_debugfs_init(void)
{
	simib_debugfs = debugfs_create_dir("simib", NULL);
}

void simib_debugfs_add(struct simib_adapter *adapter)
{
	adapter->debugfs = debugfs_create_dir(dev_name(&adapter->ibdev.dev), simib_debugfs);
	debugfs_create_file_unsafe("cable", 0600, adapter->debugfs, adapter, &simib_cable_fops);
	debugfs_create_u32("drop", 0600, adapter->debugfs, &adapter->drop_one_in);
	debugfs_create_file("drops", 0400, adapter->debugfs, adapter, &simib_drops_fops);
}

/* Waits for reads and writes in progress. */
void simib_debugfs_exit(void)
{
	debugfs_remove(simib_debugfs);
}
