#include "vswitch/fabric/verbs_hca.h"

#include <net/if.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "vswitch/fabric/error_advice.h"
#include "vswitch/fabric/rebuilt_capture.h"
#include "vswitch/fabric/reopening_mad_transport.h"
#include "vswitch/fabric/roce_gid.h"

namespace eoib {
namespace {

// A port of a libibverbs device. Owns the context.
class VerbsHca final : public Hca {
 public:
  // `gid_index`: the operator's choice; nullopt: the HCA chooses.
  VerbsHca(const VerbsHcaParts& parts, ibv_context* context, std::string device, uint8_t port,
           absl::optional<int> gid_index)
      : parts_(parts),
        context_(context),
        device_(std::move(device)),
        port_(port),
        chosen_gid_index_(gid_index),
        gid_index_(gid_index.value_or(0)) {}
  ~VerbsHca() override {
    mads_.reset();  // its FindSm queries the context
    verbs().close_device(context_);
  }

  const VerbsTable& verbs() const override { return *parts_.verbs; }
  ibv_context* context() const override { return context_; }
  uint8_t port() const override { return port_; }
  int gid_index() const override { return gid_index_.load(std::memory_order_relaxed); }
  // InfiniBand always uses index 0.
  void OnGidChange() override {
    if (mads_ == nullptr) ChooseGid().IgnoreError();  // if no GID fits, keep the last one
  }
  std::string name() const override { return absl::StrCat(device_, "/", port_); }
  MadTransport* mads() override { return mads_.get(); }

  absl::Status StartCapture(const CaptureOptions& options) override;
  absl::StatusOr<CaptureReport> StopCapture() override { return capture_.Stop(*this); }
  absl::optional<CaptureReport> Capture() const override { return capture_.report(); }
  std::string CaptureNote() const override { return RebuiltCapture::kNote; }
  RebuiltCapture* rebuilt_capture() override { return &capture_; }
  void OnPortChange() override { capture_.OnPortChange(*this); }

  // Checks that the port exists and is InfiniBand or RoCE, and sets up MADs (InfiniBand) or chooses
  // a GID (RoCE).
  absl::Status Initialize();

 private:
  absl::Status CheckPortNumber() const;
  absl::StatusOr<SmAddress> FindSm() const;
  absl::Status ChooseGid();

  const VerbsHcaParts parts_;
  ibv_context* const context_;
  const std::string device_;
  const uint8_t port_;
  const absl::optional<int> chosen_gid_index_;
  std::atomic<int> gid_index_;
  std::unique_ptr<MadTransport> mads_;  // null on an Ethernet link layer
  RebuiltCapture capture_;
};

// A RoCE packet has no LRH for an ERF record to start with, and tcpdump captures it as Ethernet
// anyway.
absl::Status VerbsHca::StartCapture(const CaptureOptions& options) {
  if (mads_ != nullptr) return capture_.Start(*this, options);
  const absl::StatusOr<ibv_gid_entry> gid = QueryGidEntry();
  char netdev[IF_NAMESIZE] = "NETDEV";
  if (gid.ok()) if_indextoname(gid->ndev_ifindex, netdev);
  return absl::FailedPreconditionError(absl::StrCat(
      "capture on ", name(), " to ", options.path,
      ": this is RoCE, whose packets are Ethernet's: tcpdump -i ", absl::CHexEscape(netdev),
      " udp port 4791; if the HCA passes its network device by: tcpdump -i ", device_));
}

// For a port that does not exist the kernel returns a bare EINVAL, which would not help an
// operator.
absl::Status VerbsHca::CheckPortNumber() const {
  ibv_device_attr attr = {};
  const int error = verbs().query_device(context_, &attr);
  if (error != 0)
    return absl::ErrnoToStatus(error, absl::StrCat("query InfiniBand device ", device_));
  if (port_ <= attr.phys_port_cnt) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("open HCA ", name(), ": device ", device_, " has ", attr.phys_port_cnt,
                   attr.phys_port_cnt == 1 ? " port" : " ports, numbered from 1"));
}

absl::Status VerbsHca::Initialize() {
  if (absl::Status status = CheckPortNumber(); !status.ok()) return status;
  absl::StatusOr<ibv_port_attr> attr = QueryAttributes();
  if (!attr.ok()) return attr.status();
  const bool infiniband = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
  // iWARP and others have an Ethernet link layer, but neither datagrams nor groups.
  const bool transport = context_->device->transport_type == IBV_TRANSPORT_IB;
  if (!transport || (!infiniband && attr->link_layer != IBV_LINK_LAYER_ETHERNET)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "open HCA ", name(), ": this is neither an InfiniBand nor a RoCE port (transport type ",
        context_->device->transport_type, ", link layer ", attr->link_layer, "; see ibv_devinfo)"));
  }
  if (!infiniband) return ChooseGid();
  if (chosen_gid_index_.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("open HCA \"verbs:", name(), "?gid=", *chosen_gid_index_,
                     "\": the port is InfiniBand, where GID 0 is used; leave out ?gid="));
  }
  mads_ = std::make_unique<ReopeningMadTransport>(
      [this] { return parts_.open_mads(device_, port_, [this] { return FindSm(); }); });
  return absl::OkStatus();
}

absl::Status VerbsHca::ChooseGid() {
  const absl::StatusOr<std::vector<RoceGid>> table = ReadRoceGids(*this);
  if (!table.ok()) return table.status();
  if (chosen_gid_index_.has_value()) return CheckRoceGid(*table, *chosen_gid_index_, name());
  const absl::StatusOr<int> index = ChooseRoceGid(*table, name());
  if (!index.ok()) return index.status();
  gid_index_.store(*index, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<SmAddress> VerbsHca::FindSm() const {
  absl::StatusOr<ibv_port_attr> attr = QueryAttributes();
  if (!attr.ok()) return attr.status();
  return SmAddress{Lid(attr->sm_lid), Sl(attr->sm_sl)};
}

// Opens `device`. kNotFound lists the devices.
absl::StatusOr<ibv_context*> OpenContext(const VerbsTable& verbs, const std::string& device) {
  int count = 0;
  errno = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) {
    return ErrnoWithAdvice(errno, "list the InfiniBand devices",
                           DeviceNodeAdvice(errno, "/dev/infiniband/uverbsN", "ib_uverbs"));
  }
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owner(list, verbs.free_device_list);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(verbs.get_device_name(list[i]));
    if (names.back() != device) continue;
    ibv_context* context = verbs.open_device(list[i]);
    if (context != nullptr) return context;
    const std::string node = absl::StrCat("/dev/infiniband/", list[i]->dev_name);
    return ErrnoWithAdvice(errno, absl::StrCat("open InfiniBand device ", device),
                           DeviceNodeAdvice(errno, node, "ib_uverbs"));
  }
  return absl::NotFoundError(absl::StrCat(
      "open InfiniBand device ", device, ": there is ",
      names.empty()
          ? "no InfiniBand device; is the driver of the HCA loaded (lspci -k, ibv_devices)?"
          : absl::StrJoin(names, ", ")));
}

// "DEVICE/PORT" or "DEVICE/PORT?gid=INDEX".
struct PortName {
  std::string device;
  uint8_t port = 0;
  absl::optional<int> gid_index;
};

absl::optional<PortName> ParsePortName(absl::string_view text) {
  PortName name;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits("?gid=", 1));
  if (parts.first != text) {
    int index = 0;
    if (!absl::SimpleAtoi(parts.second, &index) || index < 0 || index >= kMaxRoceGids)
      return absl::nullopt;
    name.gid_index = index;
  }
  const size_t slash = parts.first.rfind('/');
  uint32_t port = 0;
  if (slash == 0 || slash == absl::string_view::npos ||
      !absl::SimpleAtoi(parts.first.substr(slash + 1), &port) || port < 1 || port > 255) {
    return absl::nullopt;
  }
  name.device = std::string(parts.first.substr(0, slash));
  name.port = static_cast<uint8_t>(port);
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port,
                                                  const VerbsHcaParts& parts) {
  const absl::optional<PortName> name = ParsePortName(device_and_port);
  if (!name.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("open HCA \"verbs:", device_and_port,
                     "\": not of the form verbs:DEVICE/PORT, as in verbs:mlx5_0/1, or "
                     "verbs:DEVICE/PORT?gid=INDEX"));
  }
  absl::StatusOr<ibv_context*> context = OpenContext(*parts.verbs, name->device);
  if (!context.ok()) return context.status();
  auto hca = std::make_unique<VerbsHca>(parts, *context, name->device, name->port, name->gid_index);
  if (absl::Status status = hca->Initialize(); !status.ok()) return status;
  return hca;
}

absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port) {
  return OpenVerbsHca(device_and_port, {&LibibverbsTable(), &UmadTransport::Open});
}

}  // namespace eoib
