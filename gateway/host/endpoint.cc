#include "gateway/host/endpoint.h"

#include <sys/epoll.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/host/endpoint_commands.h"
#include "gateway/host/kernel_groups.h"
#include "vswitch/port/merged_segments.h"
#include "vswitch/port/packet_cutter.h"
#include "vswitch/wire/checksum.h"

namespace eoib::endpoint {
namespace {

constexpr int kPacketsARound = 64;  // then the loop serves other descriptors
constexpr absl::Duration kGroupsInterval = absl::Seconds(1);
constexpr absl::Duration kReleaseWait = absl::Milliseconds(200);  // see Stop

}  // namespace

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Create(const Options& options,
                                                           ipoib::Interface* link, EventLoop* loop,
                                                           const Clock* clock) {
  auto tun = TunDevice::Open(options.netdev);
  if (!tun.ok()) return tun.status();
  auto addresses = HostAddresses::Open((*tun)->index(), clock);
  if (!addresses.ok()) return addresses.status();
  auto routes = HostRoutes::Open((*tun)->index(), clock);
  if (!routes.ok()) return routes.status();
  auto endpoint = std::unique_ptr<Endpoint>(new Endpoint(
      options, {*std::move(tun), *std::move(addresses), *std::move(routes)}, link, loop, clock));
  const absl::Status status = endpoint->Start();
  if (!status.ok()) return status;
  return endpoint;
}

Endpoint::Endpoint(const Options& options, KernelSide kernel, ipoib::Interface* link,
                   EventLoop* loop, const Clock* clock)
    : clock_(clock),
      loop_(loop),
      options_(options),
      link_(link),
      kernel_(std::move(kernel)),
      host_(options.host, {clock, link, kernel_.tun.get(), kernel_.routes.get(),
                           kernel_.addresses.get(), options.random}),
      buffer_(TunDevice::kLargestRead) {}

absl::Status Endpoint::Start() {
  absl::Status status = kernel_.addresses->Start(&host_.addresses());
  // A former process that was killed may have left the route of a lease that has ended.
  if (options_.dhcp) status.Update(kernel_.addresses->RemoveDefaultRoutes());
  kernel_.addresses->OnTunUp([this] {
    if (dhcp_ != nullptr) dhcp_->OnTunUp();
  });
  const auto read = [this](EventLoop::Callback work) {
    return [work = Flushing(std::move(work))](uint32_t) { work(); };
  };
  status.Update(
      loop_->Add(kernel_.addresses->fd(), EPOLLIN, read([this] { kernel_.addresses->Run(); })));
  status.Update(loop_->Add(kernel_.routes->fd(), EPOLLIN, read([this] { kernel_.routes->Run(); })));
  status.Update(loop_->Add(kernel_.tun->fd(), EPOLLIN, read([this] { ReadTun(); })));
  timers_.push_back(
      loop_->AddDeadline([this] { return host_.Next(); }, Flushing([this] { host_.Tick(); })));
  timers_.push_back(
      loop_->AddDeadline([this] { return next_groups_; }, Flushing([this] { ReadGroups(); })));
  timers_.push_back(
      loop_->AddDeadline([this] { return dhcp_ ? dhcp_->client().Next() : absl::InfiniteFuture(); },
                         Flushing([this] { dhcp_->client().Tick(); })));
  host_.OnLinkChange([this] { OnLinkChange(); });
  // A report may be incomplete, so read the kernel's own list after each one.
  host_.OnGroupReport([this] { next_groups_ = clock_->Now(); });
  for (const InterfaceAddress& address : options_.addresses)
    host_.addresses().Want(address, AddressOrigin::kOperator);
  host_.OnLinkState();
  return status;
}

Endpoint::~Endpoint() {
  for (const EventLoop::TimerId timer : timers_) loop_->Cancel(timer);
  for (const int fd : {kernel_.addresses->fd(), kernel_.routes->fd(), kernel_.tun->fd()})
    loop_->Remove(fd);
}

EventLoop::Callback Endpoint::Flushing(EventLoop::Callback work) const {
  return [this, work = std::move(work)] {
    work();
    options_.flush();
  };
}

// DHCPRELEASE is unicast. If the server was only heard by broadcast, its link-layer address must be
// resolved first: so the wait.
void Endpoint::Stop(std::function<void()> done) {
  const bool leased = dhcp_ != nullptr && dhcp_->client().lease().has_value();
  if (dhcp_ != nullptr) dhcp_->client().Stop();
  options_.flush();
  loop_->CallAt(clock_->Now() + (leased ? kReleaseWait : absl::ZeroDuration()), std::move(done));
}

// The client identifier needs the port's GUID, which is known when the link is up.
void Endpoint::OnLinkChange() {
  if (options_.dhcp && dhcp_ == nullptr && host_.link_state().has_value()) {
    dhcp_ = std::make_unique<DhcpSession>(
        host_.link_state()->own.gid().guid(), host_.link_state()->link.pkey, options_.host_name,
        clock_, options_.random, &host_, [this](absl::optional<Ipv4Addr> router, Ipv4Addr source) {
          return SetRouter(router, source);
        });
  }
  if (dhcp_ != nullptr) dhcp_->OnLinkState();
}

absl::Status Endpoint::SetRouter(absl::optional<Ipv4Addr> router, Ipv4Addr source) {
  const absl::optional<Ipv4Addr> before = std::exchange(router_, router);
  if (router.has_value()) return kernel_.addresses->SetDefaultRoute(*router, source);
  return before.has_value() ? kernel_.addresses->RemoveDefaultRoute(*before) : absl::OkStatus();
}

void Endpoint::RegisterCommands(CommandRegistry* registry) {
  RegisterHostCommands(
      &host_, [this] { return ShowMore(); }, registry);
}

Json Endpoint::ShowMore() const {
  Json json = {{"netdev", kernel_.tun->name()}};
  if (dhcp_ != nullptr) json["dhcp"] = dhcp_->ToJson(clock_->Now());
  return json;
}

void Endpoint::ReadTun() {
  for (int i = 0; i < kPacketsARound; ++i) {
    Frame frame;
    switch (kernel_.tun->Read(absl::MakeSpan(buffer_), &frame)) {
      case TunDevice::ReadResult::kPacket:
        FromTun(&frame);
        break;
      case TunDevice::ReadResult::kNothing:
        return;
      case TunDevice::ReadResult::kDeleted:
        loop_->Remove(kernel_.tun->fd());  // it would stay readable for ever
        if (on_tun_deleted_) on_tun_deleted_();
        return;
    }
  }
}

// A super-frame leaves as the packets that it stands for. One that cannot be cut is too large for
// the link, and ends so.
void Endpoint::FromTun(Frame* frame) {
  if (frame->gso.type != GsoType::kNone && !frame->checksum.needed)
    ReopenChecksum(PieceReader(frame->bytes()), frame);
  if (auto cutter = PacketCutter::Of(*frame)) {
    return host_.SuperFrameFromTun([this, &cutter]() -> absl::Span<const uint8_t> {
      const size_t size = cutter->NextSize();
      if (size == 0) return {};
      return cutter->Next(RoomFor(size));
    });
  }
  const size_t field = size_t{frame->checksum.start} + frame->checksum.offset;
  if (frame->checksum.needed && field + sizeof(be16) <= frame->length)
    CompleteChecksum(frame->bytes(), frame->checksum);
  host_.FromTun(frame->bytes().subspan(kEthernetHeaderSize));
}

// The link sends a packet from its draft without copying it.
absl::Span<uint8_t> Endpoint::RoomFor(size_t size) {
  const absl::Span<uint8_t> draft = link_->Draft();
  if (draft.size() >= size) return draft;
  cut_.resize(TunDevice::kLargestRead);
  return absl::MakeSpan(cut_);
}

void Endpoint::ReadGroups() {
  next_groups_ = clock_->Now() + kGroupsInterval;
  if (const auto groups = ReadKernelGroups(kernel_.tun->name()))
    host_.memberships().SetKernelGroups(*groups);
}

}  // namespace eoib::endpoint
