#include "vswitch/fabric/softhca/soft_device.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "vswitch/fabric/softhca/soft_queries.h"
#include "vswitch/fabric/softhca/verbs_objects.h"

namespace eoib::softhca {
namespace {

// A device with one port that can be opened. A device that only names the port of an Hca has no
// factory.
struct SoftDevice : ibv_device {
  std::string port_name;
  LinkFactory factory;
  SoftPort::Options options;
  absl::Mutex mutex;
  std::weak_ptr<SoftPort> port ABSL_GUARDED_BY(mutex);  // while a context is open
};

// The added devices. The list is never destroyed.
struct DeviceList {
  absl::Mutex mutex;
  std::vector<std::shared_ptr<SoftDevice>> devices ABSL_GUARDED_BY(mutex);
};
DeviceList& Devices() {
  static DeviceList* const list = new DeviceList();
  return *list;
}

std::shared_ptr<SoftDevice> MakeDevice(const std::string& name) {
  auto device = std::make_shared<SoftDevice>();
  static_cast<ibv_device&>(*device) = ibv_device{};
  device->node_type = IBV_NODE_CA;
  device->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device->name, sizeof(device->name), "%s", name.c_str());
  std::snprintf(device->dev_name, sizeof(device->dev_name), "soft-%.50s", name.c_str());
  // Nothing exists at these paths: a program that reads attributes there finds none.
  std::snprintf(device->dev_path, sizeof(device->dev_path),
                "/sys/class/infiniband_verbs/soft-%.50s", name.c_str());
  std::snprintf(device->ibdev_path, sizeof(device->ibdev_path), "/sys/class/infiniband/%.50s",
                name.c_str());
  return device;
}

absl::StatusOr<std::shared_ptr<SoftPort>> OpenPort(const SoftDevice& device, bool query_only) {
  SoftPort::Options options = device.options;
  options.query_only = query_only;
  return SoftPort::Open(device.factory(), device.port_name, options);
}

// ---- Inline verbs, reached through the context's ops.

int PollCq(ibv_cq* cq, int count, ibv_wc* completions) noexcept {
  return PortOf(cq->context)->Poll(AsSoft(cq), count, completions);
}

int RequestNotify(ibv_cq* cq, int solicited_only) noexcept {
  return PortOf(cq->context)->RequestNotify(AsSoft(cq), solicited_only != 0);
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) noexcept {
  return PortOf(qp->context)->PostSend(AsSoft(qp), request, bad);
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  return PortOf(qp->context)->PostReceive(AsSoft(qp), request, bad);
}

}  // namespace

SoftPort* PortOf(ibv_context* context) { return AsSoft(context)->port.get(); }

// ---- Devices.

ibv_device** GetDeviceList(int* count) {
  DeviceList& list = Devices();
  absl::MutexLock lock(&list.mutex);
  const size_t entries = list.devices.size() + 1;
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the list is an array of pointers.
  auto** devices = static_cast<ibv_device**>(std::calloc(entries, sizeof(ibv_device*)));
  if (devices == nullptr) return nullptr;
  for (size_t i = 0; i < list.devices.size(); ++i) devices[i] = list.devices[i].get();
  if (count != nullptr) *count = static_cast<int>(list.devices.size());
  return devices;
}

void FreeDeviceList(ibv_device** list) { std::free(list); }

const char* GetDeviceName(ibv_device* device) { return device->name; }

ibv_context* OpenDevice(ibv_device* handle) {
  auto* device = static_cast<SoftDevice*>(handle);
  absl::MutexLock lock(&device->mutex);
  std::shared_ptr<SoftPort> port = device->port.lock();
  if (port == nullptr) {
    absl::StatusOr<std::shared_ptr<SoftPort>> opened = OpenPort(*device, /*query_only=*/false);
    // Another process owns the port: it can still be queried.
    if (absl::IsAlreadyExists(opened.status())) opened = OpenPort(*device, /*query_only=*/true);
    if (!opened.ok()) {
      std::fprintf(stderr, "%s: %s\n", device->name,
                   std::string(opened.status().message()).c_str());
      errno = ENODEV;
      return nullptr;
    }
    port = *std::move(opened);
    device->port = port;
  }
  ibv_context* context = OpenContext(port, device->name);
  if (context != nullptr) context->device = device;
  return context;
}

void AddDevice(const std::string& device_name, const std::string& port_name, LinkFactory factory,
               const SoftPort::Options& options) {
  std::shared_ptr<SoftDevice> device = MakeDevice(device_name);
  device->port_name = port_name;
  device->factory = std::move(factory);
  device->options = options;
  DeviceList& list = Devices();
  absl::MutexLock lock(&list.mutex);
  list.devices.push_back(std::move(device));
}

// ---- Contexts.

ibv_context* OpenContext(std::shared_ptr<SoftPort> port, const std::string& device_name) {
  UniqueFd async(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!async.valid()) return nullptr;
  auto* soft = new SoftContext(std::move(port));
  soft->async = std::move(async);
  std::shared_ptr<SoftDevice> device = MakeDevice(device_name);
  soft->keeps_device = device;
  // The inline verbs read all of these (infiniband/verbs.h). They return EOPNOTSUPP for members
  // that stay null.
  soft->sz = sizeof(verbs_context);
  soft->query_port = QueryPortAttributes;
  soft->query_device_ex = QueryDeviceEx;
  ibv_context& context = soft->context;
  context.device = device.get();
  context.ops.poll_cq = PollCq;
  context.ops.req_notify_cq = RequestNotify;
  context.ops.post_send = PostSend;
  context.ops.post_recv = PostReceive;
  context.cmd_fd = -1;
  context.async_fd = soft->async.get();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  soft->port->AddContext(soft);
  return &context;
}

int CloseDevice(ibv_context* handle) {
  SoftContext* context = AsSoft(handle);
  context->port->RemoveContext(context);
  pthread_mutex_destroy(&context->context.mutex);
  delete context;
  return 0;
}

}  // namespace eoib::softhca
