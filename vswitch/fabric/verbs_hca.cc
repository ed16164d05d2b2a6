#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/roce_gid.h"
#include "vswitch/fabric/umad_transport.h"
#include "vswitch/fabric/unique_fd.h"

namespace eoib {
namespace {

// The MADs of a port whose MAD device may not be there yet (ib_umad is loaded later, or udev is slow): it is opened by the
// first Send that finds it, and until then Send says why not.
class MadsWhenThere final : public MadTransport {
 public:
  using Opener = std::function<absl::StatusOr<std::unique_ptr<MadTransport>>()>;

  explicit MadsWhenThere(Opener open) : open_(std::move(open)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  absl::Status Send(const Mad& mad) override {
    if (mads_ == nullptr) {
      absl::StatusOr<std::unique_ptr<MadTransport>> mads = open_();
      if (!mads.ok()) return absl::UnavailableError(mads.status().message());
      mads_ = *std::move(mads);
      epoll_event readable = {};
      readable.events = EPOLLIN;
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, mads_->fd(), &readable);
    }
    return mads_->Send(mad);
  }
  absl::Status Reply(const Mad& mad) override {
    return mads_ != nullptr ? mads_->Reply(mad) : absl::UnavailableError("no MAD has come to reply to");
  }
  bool ReceivesReports() const override { return mads_ == nullptr || mads_->ReceivesReports(); }
  bool Receive(Mad* mad) override { return mads_ != nullptr && mads_->Receive(mad); }
  int fd() const override { return epoll_.get(); }

 private:
  const Opener open_;
  const UniqueFd epoll_;  // over the device's descriptor, which does not exist at first
  std::unique_ptr<MadTransport> mads_;
};

// A port of a device that libibverbs knows. Owns the context.
class VerbsHca final : public Hca {
 public:
  // `gid_index`: as the operator has chosen it; none: by itself.
  VerbsHca(ibv_context* context, std::string device, uint8_t port, absl::optional<int> gid_index)
      : context_(context),
        device_(std::move(device)),
        port_(port),
        chosen_gid_index_(gid_index),
        gid_index_(gid_index.value_or(0)) {}
  ~VerbsHca() override {
    mads_.reset();  // it asks the context where the SM is
    verbs().close_device(context_);
  }

  const VerbsTable& verbs() const override { return LibibverbsTable(); }
  ibv_context* context() const override { return context_; }
  uint8_t port() const override { return port_; }
  int gid_index() const override { return gid_index_.load(std::memory_order_relaxed); }
  // On InfiniBand it is always the first.
  void OnGidChange() override {
    if (mads_ == nullptr) ChooseGid().IgnoreError();  // while there is none that will do, the last is kept
  }
  std::string name() const override { return absl::StrCat(device_, "/", port_); }
  MadTransport* mads() override { return mads_.get(); }

  absl::Status StartCapture(const std::string& path) override {
    return absl::UnimplementedError(absl::StrCat("capture on ", name(), " to ", path, ": not possible on a real HCA yet"));
  }
  absl::Status StopCapture() override {
    return absl::FailedPreconditionError(absl::StrCat("stop the capture on ", name(), ": none runs"));
  }

  // Reads what kind of port it is: InfiniBand has MADs, Ethernet a choice of GIDs.
  absl::Status Initialize();

 private:
  absl::StatusOr<SmAddress> FindSm() const;
  absl::Status ChooseGid();
  absl::StatusOr<ibv_port_attr> Attributes() const;

  ibv_context* const context_;
  const std::string device_;
  const uint8_t port_;
  const absl::optional<int> chosen_gid_index_;
  std::atomic<int> gid_index_;
  std::unique_ptr<MadTransport> mads_;  // null on an Ethernet link layer
};

absl::StatusOr<ibv_port_attr> VerbsHca::Attributes() const {
  ibv_port_attr attr = {};
  const int error = verbs().query_port(context_, port_, &attr);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("query port ", name()));
  return attr;
}

absl::Status VerbsHca::Initialize() {
  absl::StatusOr<ibv_port_attr> attr = Attributes();
  if (!attr.ok()) return attr.status();
  if (attr->link_layer == IBV_LINK_LAYER_ETHERNET) return ChooseGid();
  if (chosen_gid_index_.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("open HCA \"verbs:", name(), "?gid=", *chosen_gid_index_,
                                                   "\": the port is InfiniBand, where GID 0 is used; leave out ?gid="));
  }
  mads_ = std::make_unique<MadsWhenThere>([this] { return UmadTransport::Open(device_, port_, [this] { return FindSm(); }); });
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
  absl::StatusOr<ibv_port_attr> attr = Attributes();
  if (!attr.ok()) return attr.status();
  return SmAddress{Lid(attr->sm_lid), Sl(attr->sm_sl)};
}

// The open context of `device`. kNotFound lists the devices there are.
absl::StatusOr<ibv_context*> OpenContext(const std::string& device) {
  const VerbsTable& verbs = LibibverbsTable();
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  if (list == nullptr) return absl::ErrnoToStatus(errno, "list the InfiniBand devices");
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> owner(list, verbs.free_device_list);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back(verbs.get_device_name(list[i]));
    if (names.back() != device) continue;
    ibv_context* context = verbs.open_device(list[i]);
    if (context == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("open InfiniBand device ", device));
    return context;
  }
  return absl::NotFoundError(absl::StrCat("open InfiniBand device ", device, ": there is ",
                                          names.empty() ? "no InfiniBand device" : absl::StrJoin(names, ", ")));
}

// "DEVICE/PORT" or "DEVICE/PORT?gid=INDEX".
struct PortName {
  std::string device;
  uint8_t port = 0;
  absl::optional<int> gid_index;
};

absl::optional<PortName> ParsePortName(absl::string_view text) {
  PortName name;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits("?gid=", 1));
  if (parts.first != text) {
    int index = 0;
    if (!absl::SimpleAtoi(parts.second, &index) || index < 0 || index >= kMaxRoceGids) return absl::nullopt;
    name.gid_index = index;
  }
  const size_t slash = parts.first.rfind('/');
  uint32_t port = 0;
  if (slash == 0 || slash == absl::string_view::npos || !absl::SimpleAtoi(parts.first.substr(slash + 1), &port) || port < 1 ||
      port > 255) {
    return absl::nullopt;
  }
  name.device = std::string(parts.first.substr(0, slash));
  name.port = static_cast<uint8_t>(port);
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Hca>> OpenVerbsHca(absl::string_view device_and_port) {
  const absl::optional<PortName> name = ParsePortName(device_and_port);
  if (!name.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("open HCA \"verbs:", device_and_port,
                                                   "\": not of the form verbs:DEVICE/PORT, as in verbs:mlx5_0/1, or "
                                                   "verbs:DEVICE/PORT?gid=INDEX"));
  }
  absl::StatusOr<ibv_context*> context = OpenContext(name->device);
  if (!context.ok()) return context.status();
  auto hca = std::make_unique<VerbsHca>(*context, name->device, name->port, name->gid_index);
  if (absl::Status status = hca->Initialize(); !status.ok()) return status;
  return hca;
}

}  // namespace eoib
