// The devices and contexts of the software HCA.
//
// A device stands for one port of the software fabric. Opening it registers the port with the
// subnet; later contexts in the same process share that port. A program with an Hca (soft_hca.h)
// lists no devices; the preload library (verbs_preload.cc) lists the one that its environment
// names.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_DEVICE_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_DEVICE_H_

#include <infiniband/verbs.h>

#include <functional>
#include <memory>
#include <string>

#include "vswitch/fabric/softhca/soft_port.h"
#include "vswitch/fabric/softhca/subnet_link.h"
#include "vswitch/fabric/verbs.h"

namespace eoib::softhca {

// Makes a new, unregistered link to the subnet.
using LinkFactory = std::function<std::unique_ptr<SubnetLink>()>;

// Adds a device to get_device_list, for the life of the process. open_device registers `port_name`
// through a link of `factory`. While another living process owns that port, the context can only be
// queried (create_qp: EBUSY).
void AddDevice(const std::string& device_name, const std::string& port_name, LinkFactory factory,
               const SoftPort::Options& options = SoftPort::Options());

// Opens a context on a registered port; CloseDevice closes it. The port lives as long as its
// contexts. `device_name` is the name that ibv_devinfo prints.
ibv_context* OpenContext(std::shared_ptr<SoftPort> port, const std::string& device_name);
// The port behind a context of this HCA.
SoftPort* PortOf(ibv_context* context);

// The software HCA as a VerbsTable. Stateless; valid for the life of the process.
const VerbsTable& SoftVerbsTable();
// The verbs that handle devices.
ibv_device** GetDeviceList(int* count);
void FreeDeviceList(ibv_device** list);
const char* GetDeviceName(ibv_device* device);
ibv_context* OpenDevice(ibv_device* device);
int CloseDevice(ibv_context* context);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_DEVICE_H_
