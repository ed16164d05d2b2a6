// libeoib-umad.so: libibumad's functions on the software subnet, for unmodified programs:
//
//       LD_PRELOAD=libeoib-umad.so EOIB_FABRIC=/run/eoib/fabricd.sock EOIB_PORT=host1 saquery
//
// The symbols are unversioned, so they replace every version. The only device is eoib0 with one
// port, EOIB_PORT; without the two variables there is none. Return values and errno are those of
// rdma-core 44 (libibumad/umad.c). Functions that need no device (names of classes and statuses,
// dumps, addresses in a buffer, release of what malloc gave) stay libibumad's.
//
// A port is up while some process uses it: the program's first call registers the port, and its
// exit releases it.
#include <endian.h>
#include <infiniband/umad.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/link_rate.h"
#include "vswitch/fabric/softhca/preload/environment.h"
#include "vswitch/fabric/softhca/preload/exported.h"
#include "vswitch/fabric/softhca/preload/umad_port.h"

namespace {

using eoib::softhca::PortConfig;
using eoib::softhca::UmadAgents;
using eoib::softhca::UmadPacket;
using eoib::softhca::UmadPort;

constexpr char kLibrary[] = "libeoib-umad";
constexpr int kPortNumber = 1;

// Opens the port of this process at the first call. Null, after one message on standard error, if
// that fails.
UmadPort* Port() {
  static absl::Mutex mutex(absl::kConstInit);
  static UmadPort* port = nullptr;  // never freed: other threads may use it at exit
  static bool warned = false;
  absl::MutexLock lock(&mutex);
  if (port != nullptr) return port;
  const auto environment = eoib::softhca::ReadEnvironment(kLibrary);
  if (!environment.has_value()) return nullptr;
  auto opened = UmadPort::Open(environment->Connect(), environment->port);
  if (opened.ok()) {
    port = opened->release();
  } else if (!std::exchange(warned, true)) {
    std::fprintf(stderr, "%s: %s\n", kLibrary, std::string(opened.status().message()).c_str());
  }
  return port;
}

bool IsOurDevice(const char* name) {
  return name == nullptr || std::strcmp(name, eoib::softhca::kDeviceName) == 0;
}
// Port number 0 means any port.
bool IsOurPort(const char* device, int number) {
  return IsOurDevice(device) && (number == UMAD_ANY_PORT || number == kPortNumber);
}

void Copy(const char* text, char* field, size_t size) { std::snprintf(field, size, "%s", text); }

// Fills *port as sysfs shows it (drivers/infiniband/core/sysfs.c). -1 if there is no memory.
int FillPort(const PortConfig& config, umad_port_t* port) {
  // PortState, PortPhysicalState.
  constexpr unsigned kDown = 1, kActive = 4, kPolling = 2, kLinkUp = 5;
  constexpr uint32_t kIsClientReregistrationSupported = 1u << 25;
  constexpr uint32_t kMbpsInGbps = 1000;
  *port = umad_port_t{};
  Copy(eoib::softhca::kDeviceName, port->ca_name, sizeof(port->ca_name));
  port->portnum = kPortNumber;
  port->base_lid = config.lid.value();
  port->sm_lid = config.sm_lid.value();
  port->state = config.active ? kActive : kDown;
  port->phys_state = config.active ? kLinkUp : kPolling;
  port->rate = eoib::RateMbps(config.rate) / kMbpsInGbps;
  port->capmask = htobe32(kIsClientReregistrationSupported);
  port->gid_prefix = htobe64(config.gid.prefix());
  port->port_guid = htobe64(config.port_guid.value());
  Copy("InfiniBand", port->link_layer, sizeof(port->link_layer));
  port->pkeys = static_cast<uint16_t*>(
      std::calloc(std::max<size_t>(config.pkeys.size(), 1), sizeof(uint16_t)));
  if (port->pkeys == nullptr) return -1;
  port->pkeys_size = static_cast<unsigned>(config.pkeys.size());
  std::transform(config.pkeys.begin(), config.pkeys.end(), port->pkeys,
                 [](eoib::PKey pkey) { return pkey.value(); });
  return 0;
}

ib_user_mad* AsMad(void* umad) { return static_cast<ib_user_mad*>(umad); }

// Sets errno and returns `result`, which is libibumad's value for a failed system call.
int Fail(int error, int result) {
  errno = error;
  return result;
}

// Returns 0, or what umad_recv returns if nothing arrives.
int WaitFor(int file, int timeout_ms) {
  pollfd ready = {file, POLLIN, 0};
  const int count = poll(&ready, 1, timeout_ms);
  return count == 1 ? 0 : count == 0 ? -ETIMEDOUT : -EIO;
}

// In the kernel's ABI bit M of the array of longs stands for method M.
UmadAgents::Registration MakeRegistration(int mgmt_class, int version, bool rmpp,
                                          const void* mask) {
  UmadAgents::Registration registration;
  registration.mgmt_class = static_cast<uint8_t>(mgmt_class);
  registration.class_version = static_cast<uint8_t>(version);
  registration.rmpp = rmpp;
  uint64_t words[2] = {};
  if (mask != nullptr) std::memcpy(words, mask, sizeof(words));
  for (size_t method = 0; method < registration.methods.size(); ++method) {
    registration.methods[method] = (words[method / 64] >> method % 64 & 1) != 0;
  }
  return registration;
}

// Returns the agent's number, or umad_register's negative value.
int RegisterAgent(int file, const UmadAgents::Registration& registration) {
  UmadPort* port = Port();
  int agent = 0;
  const int error = port == nullptr ? EBADF : port->Register(file, registration, &agent);
  return error == 0 ? agent : Fail(error, -EPERM);
}

}  // namespace

#define EOIB_UMAD(result, name, arguments) EOIB_EXPORTED(result, "umad_" #name, name, arguments)

// ---- Devices and ports.

EOIB_UMAD(int, init, ()) { return Port() == nullptr ? -1 : 0; }

EOIB_UMAD(int, get_cas_names, (char names[][UMAD_CA_NAME_LEN], int max)) {
  if (max < 1 || Port() == nullptr) return 0;
  Copy(eoib::softhca::kDeviceName, names[0], UMAD_CA_NAME_LEN);
  return 1;
}

EOIB_UMAD(umad_device_node*, get_ca_device_list, ()) {
  if (Port() == nullptr) return nullptr;
  auto* node = static_cast<umad_device_node*>(std::calloc(1, sizeof(umad_device_node)));
  if (node != nullptr) node->ca_name = strdup(eoib::softhca::kDeviceName);
  return node;
}

EOIB_UMAD(int, get_port, (const char* device, int number, umad_port_t* filled)) {
  UmadPort* port = IsOurPort(device, number) ? Port() : nullptr;
  if (port == nullptr) return -ENODEV;
  return FillPort(port->config(), filled) == 0 ? 0 : -ENOMEM;
}

EOIB_UMAD(int, get_ca, (const char* device, umad_ca_t* ca)) {
  constexpr unsigned kChannelAdapter = 1;
  UmadPort* port = IsOurDevice(device) ? Port() : nullptr;
  if (port == nullptr) return -ENODEV;
  const PortConfig config = port->config();
  *ca = umad_ca_t{};
  Copy(eoib::softhca::kDeviceName, ca->ca_name, sizeof(ca->ca_name));
  ca->node_type = kChannelAdapter;
  ca->numports = 1;
  Copy(eoib::softhca::kFirmwareVersion, ca->fw_ver, sizeof(ca->fw_ver));
  Copy(eoib::softhca::kBoardId, ca->ca_type, sizeof(ca->ca_type));
  Copy("0", ca->hw_ver, sizeof(ca->hw_ver));
  ca->node_guid = ca->system_guid = htobe64(config.node_guid.value());
  auto* filled = static_cast<umad_port_t*>(std::calloc(1, sizeof(umad_port_t)));
  if (filled == nullptr) return -ENOMEM;
  ca->ports[kPortNumber] = filled;
  if (FillPort(config, filled) == 0) return 0;
  std::free(filled);
  ca->ports[kPortNumber] = nullptr;
  return -ENOMEM;
}

// Indexed by port number; port 0 exists on switches only.
EOIB_UMAD(int, get_ca_portguids, (const char* device, __be64* guids, int max)) {
  UmadPort* port = IsOurDevice(device) ? Port() : nullptr;
  if (port == nullptr) return -ENODEV;
  if (guids == nullptr) return 0;
  if (max < kPortNumber + 1) return -ENOMEM;
  guids[0] = 0;
  guids[kPortNumber] = htobe64(port->config().port_guid.value());
  return kPortNumber + 1;
}

// There is no issm device: the subnet manager runs in fabricd.
EOIB_UMAD(int, get_issm_path, (const char* device, int number, char*, int)) {
  return IsOurPort(device, number) && Port() != nullptr ? -EINVAL : -ENODEV;
}

EOIB_UMAD(int, open_port, (const char* device, int number)) {
  UmadPort* port = IsOurPort(device, number) ? Port() : nullptr;
  if (port == nullptr) return -ENODEV;
  const int file = port->OpenFile();
  return file < 0 ? -EIO : file;
}

EOIB_UMAD(int, close_port, (int file)) {
  if (UmadPort* port = Port()) port->CloseFile(file);
  return 0;
}

// ---- Agents.

EOIB_UMAD(int, register,
          (int file, int mgmt_class, int version, uint8_t rmpp, long mask[16 / sizeof(long)])) {
  return RegisterAgent(file, MakeRegistration(mgmt_class, version, rmpp != 0, mask));
}

// Agents of one vendor class are told apart by method, not by OUI: a preloaded process serves no
// two vendors.
EOIB_UMAD(int, register_oui,
          (int file, int mgmt_class, uint8_t rmpp, uint8_t*, long mask[16 / sizeof(long)])) {
  constexpr int kFirstOfRange2 = 0x30,
                kLastOfRange2 = 0x4f;  // IBA 1.4 §13.4.4: vendor classes with an OUI
  if (mgmt_class < kFirstOfRange2 || mgmt_class > kLastOfRange2) return -EINVAL;
  return RegisterAgent(file, MakeRegistration(mgmt_class, /*version=*/1, rmpp != 0, mask));
}

// With UMAD_USER_RMPP the program reassembles tables itself, whatever RMPP version it names.
EOIB_UMAD(int, register2, (int file, umad_reg_attr* attributes, uint32_t* agent)) {
  if (attributes == nullptr || agent == nullptr) return EINVAL;
  if ((attributes->flags & ~uint32_t{UMAD_USER_RMPP}) != 0) {
    attributes->flags = UMAD_USER_RMPP;  // report the supported flags
    return EINVAL;
  }
  const bool rmpp = attributes->rmpp_version != 0 && (attributes->flags & UMAD_USER_RMPP) == 0;
  const int registered =
      RegisterAgent(file, MakeRegistration(attributes->mgmt_class, attributes->mgmt_class_version,
                                           rmpp, attributes->method_mask));
  if (registered < 0) return errno;
  *agent = static_cast<uint32_t>(registered);
  return 0;
}

EOIB_UMAD(int, unregister, (int file, int agent)) {
  UmadPort* port = Port();
  const int error = port == nullptr ? EBADF : port->Unregister(file, agent);
  return error == 0 ? 0 : Fail(error, -1);
}

// ---- MADs.

EOIB_UMAD(int, send, (int file, int agent, void* umad, int length, int timeout_ms, int retries)) {
  ib_user_mad* mad = AsMad(umad);
  mad->agent_id = static_cast<uint32_t>(agent);
  mad->timeout_ms = static_cast<uint32_t>(timeout_ms);
  mad->retries = static_cast<uint32_t>(retries);
  UmadPacket packet;
  packet.agent = agent;
  packet.address = mad->addr;
  packet.mad.assign(mad->data, mad->data + std::max(length, 0));
  UmadPort* port = Port();
  const int error =
      port == nullptr ? EBADF : port->Send(file, packet, absl::Milliseconds(timeout_ms), retries);
  return error == 0 ? Fail(0, 0) : Fail(error, -EIO);
}

EOIB_UMAD(int, recv, (int file, void* umad, int* length, int timeout_ms)) {
  if (umad == nullptr || length == nullptr) return Fail(EINVAL, -EINVAL);
  errno = 0;
  UmadPort* port = Port();
  if (port == nullptr) return Fail(EBADF, -EBADF);
  if (timeout_ms != 0) {
    if (const int waited = WaitFor(file, timeout_ms); waited < 0)
      return Fail(errno != 0 ? errno : -waited, waited);
  }
  UmadPacket packet;
  const int error = port->Receive(file, static_cast<size_t>(std::max(*length, 0)), &packet);
  if (error != 0 && error != ENOSPC) return Fail(error, -error);
  ib_user_mad* mad = AsMad(umad);
  mad->agent_id = static_cast<uint32_t>(packet.agent);
  mad->status = static_cast<uint32_t>(packet.status);
  mad->length = static_cast<uint32_t>(sizeof(ib_user_mad) + packet.mad.size());
  mad->addr = packet.address;
  *length = static_cast<int>(packet.mad.size());
  if (error != 0) return Fail(error, -error);
  std::memcpy(mad->data, packet.mad.data(), packet.mad.size());
  return packet.agent;
}

// ---- The buffer, always with the P_Key index that newer kernels know.

EOIB_UMAD(size_t, size, ()) { return sizeof(ib_user_mad); }
EOIB_UMAD(void*, get_mad, (void* umad)) { return AsMad(umad)->data; }
EOIB_UMAD(int, get_pkey, (void* umad)) { return AsMad(umad)->addr.pkey_index; }
EOIB_UMAD(int, set_pkey, (void* umad, int index)) {
  AsMad(umad)->addr.pkey_index = static_cast<uint16_t>(index);
  return 0;
}
