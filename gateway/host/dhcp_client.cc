#include "gateway/host/dhcp_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "vswitch/wire/ip/udp.h"

namespace eoib::endpoint {
namespace {

constexpr absl::Duration kFirstWait = absl::Seconds(1);
constexpr absl::Duration kLongestWait = absl::Seconds(64);
constexpr absl::Duration kShortestRenewal = absl::Seconds(60);  // RFC 2131 §4.4.5
// Even if a server gives a smaller T1 or T2.
constexpr absl::Duration kSoonestRenewal = absl::Seconds(5);
constexpr absl::Duration kAfterDecline = absl::Seconds(10);  // §3.1.5
// Without an answer; then discover again.
constexpr int kRequests = 4;
// §2: every server accepts this size.
constexpr size_t kMessageSize = 548;
constexpr uint16_t kLargestAnswer = 1500;
constexpr std::array<uint8_t, 6> kRequestedOptions = {
    static_cast<uint8_t>(DhcpOption::kSubnetMask),
    static_cast<uint8_t>(DhcpOption::kRouters),
    static_cast<uint8_t>(DhcpOption::kDomainNameServers),
    static_cast<uint8_t>(DhcpOption::kDomainName),
    static_cast<uint8_t>(DhcpOption::kRenewalTime),
    static_cast<uint8_t>(DhcpOption::kRebindingTime)};

}  // namespace

const char* ToString(DhcpState state) {
  constexpr const char* kNames[] = {"init",  "selecting", "requesting", "checking",
                                    "bound", "renewing",  "rebinding",  "stopped"};
  return kNames[static_cast<size_t>(state)];
}

DhcpClient::DhcpClient(std::vector<uint8_t> client_identifier, std::string host_name,
                       const Clock* clock, std::function<uint64_t()> random, Owner* owner)
    : identifier_(std::move(client_identifier)),
      host_name_(std::move(host_name)),
      clock_(clock),
      random_(std::move(random)),
      owner_(owner) {}

void DhcpClient::OnLinkUp() {
  if (state_ == DhcpState::kStopped || std::exchange(link_up_, true)) return;
  if (state_ == DhcpState::kInit) return StartOver(absl::ZeroDuration());
  if (state_ == DhcpState::kBound || state_ == DhcpState::kRenewing ||
      state_ == DhcpState::kRebinding) {
    Confirm(DhcpState::kRebinding);
  }
}

// Keeps a lease, which expires if the link stays down. An exchange without a lease starts over.
void DhcpClient::OnLinkDown() {
  link_up_ = false;
  if (state_ == DhcpState::kSelecting || state_ == DhcpState::kRequesting) Enter(DhcpState::kInit);
  if (state_ == DhcpState::kInit) timer_ = absl::InfiniteFuture();
}

void DhcpClient::Enter(DhcpState state) {
  state_ = state;
  tries_ = 0;
}

void DhcpClient::StartOver(absl::Duration wait) {
  Enter(DhcpState::kInit);
  timer_ = link_up_ ? clock_->Now() + wait : absl::InfiniteFuture();
  EndLease();
}

void DhcpClient::Tick() {
  if (timer_ > clock_->Now()) return;
  switch (state_) {
    case DhcpState::kInit:
      Enter(DhcpState::kSelecting);
      began_ = clock_->Now();
      transaction_ = static_cast<uint32_t>(random_());
      return Discover();
    case DhcpState::kSelecting:
      return Discover();
    case DhcpState::kRequesting:
      return tries_ < kRequests ? Request() : StartOver(absl::ZeroDuration());
    case DhcpState::kChecking:
      return StartOver(absl::ZeroDuration());
    case DhcpState::kBound:
    case DhcpState::kRenewing:
    case DhcpState::kRebinding:
      return TickLease();
    case DhcpState::kStopped:
      timer_ = absl::InfiniteFuture();
  }
}

void DhcpClient::TickLease() {
  const absl::Time now = clock_->Now();
  if (now >= lease_->expiry) return StartOver(absl::ZeroDuration());
  const DhcpState state = now < lease_->rebind ? DhcpState::kRenewing : DhcpState::kRebinding;
  if (state_ == state || state_ == DhcpState::kRebinding) return Renew();
  Confirm(state);
}

// RFC 2131 §4.1: doubles the wait each time, and randomizes it, here by 250 ms up or down.
absl::Duration DhcpClient::Backoff() {
  const absl::Duration wait = std::min(kFirstWait * (1 << std::min(tries_, 6)), kLongestWait);
  ++tries_;
  return wait + absl::Milliseconds(random_() % 500) - absl::Milliseconds(250);
}

void DhcpClient::Discover() {
  timer_ = clock_->Now() + Backoff();
  Send(DhcpMessageType::kDiscover, Ipv4Addr(), {}, [](DhcpWriter*) {});
}

// §4.3.2: requests the offered address, by broadcast, from the server that made the offer.
void DhcpClient::Request() {
  timer_ = clock_->Now() + Backoff();
  requested_at_ = clock_->Now();
  Send(DhcpMessageType::kRequest, Ipv4Addr(), {}, [this](DhcpWriter* writer) {
    writer->AddAddress(DhcpOption::kRequestedAddress, offered_);
    writer->AddAddress(DhcpOption::kServerIdentifier, server_);
  });
}

void DhcpClient::Confirm(DhcpState state) {
  Enter(state);
  transaction_ = static_cast<uint32_t>(random_());
  began_ = clock_->Now();
  Renew();
}

// §4.3.2: renewing asks the server of the lease, rebinding any server. Neither message has a server
// identifier or a requested address.
void DhcpClient::Renew() {
  const bool renewing = state_ == DhcpState::kRenewing;
  const absl::Time next_state = renewing ? lease_->rebind : lease_->expiry;
  timer_ = NotTooSoon(link_up_ ? RenewalRetry(next_state) : next_state);
  if (!link_up_) return;
  requested_at_ = clock_->Now();
  const Ipv4Addr own = lease_->address.address.ipv4();
  Send(DhcpMessageType::kRequest, own, {own, renewing ? lease_->server : Ipv4Addr::Broadcast()},
       [](DhcpWriter*) {});
}

// §4.4.5: retry after half of the remaining time, but not within a minute.
absl::Time DhcpClient::RenewalRetry(absl::Time next_state) const {
  if (next_state == absl::InfiniteFuture()) return clock_->Now() + kLongestWait;
  return std::min(next_state,
                  clock_->Now() + std::max(kShortestRenewal, (next_state - clock_->Now()) / 2));
}

// A server may give a T1 of few or no seconds; without a minimum the client would renew as fast as
// the server answers.
absl::Time DhcpClient::NotTooSoon(absl::Time renewal) const {
  return std::min(lease_->expiry, std::max(renewal, clock_->Now() + kSoonestRenewal));
}

// §4.4.1: by broadcast, with the address and the server in options.
void DhcpClient::Decline() {
  Send(DhcpMessageType::kDecline, Ipv4Addr(), {}, [this](DhcpWriter* writer) {
    writer->AddAddress(DhcpOption::kRequestedAddress, lease_->address.address.ipv4());
    writer->AddAddress(DhcpOption::kServerIdentifier, lease_->server);
  });
}

void DhcpClient::Stop() {
  const DhcpState before = std::exchange(state_, DhcpState::kStopped);
  timer_ = absl::InfiniteFuture();
  if (!lease_.has_value()) return;
  if (link_up_ && before != DhcpState::kChecking) {
    transaction_ = static_cast<uint32_t>(random_());
    const Ipv4Addr own = lease_->address.address.ipv4();
    Send(DhcpMessageType::kRelease, own, {own, lease_->server}, [this](DhcpWriter* writer) {
      writer->AddAddress(DhcpOption::kServerIdentifier, lease_->server);
    });
  }
  EndLease();
}

void DhcpClient::EndLease() {
  if (!lease_.has_value()) return;
  const DhcpLease ended = *std::exchange(lease_, absl::nullopt);
  owner_->OnLeaseEnd(ended);
}

bool DhcpClient::OnPacket(const Ipv4Packet& packet) {
  const auto datagram = ParseUdp(packet);
  if (!datagram.has_value() || datagram->destination_port != kDhcpClientPort) return false;
  const auto message = DhcpMessage::Parse(datagram->payload);
  if (!message.has_value() || !IsForUs(*message)) return true;
  if (message->type() == DhcpMessageType::kOffer) OnOffer(*message);
  if (message->type() == DhcpMessageType::kAck) OnAck(*message);
  if (message->type() == DhcpMessageType::kNak) OnNak();
  return true;
}

// Answers are broadcast and have no hardware address. So the client recognizes its own by the
// transaction id (RFC 4390 §2.2) and by the client identifier, if the server returns it (RFC 6842
// §3).
bool DhcpClient::IsForUs(const DhcpMessage& message) const {
  if (message.fields().operation != BootpOperation::kReply ||
      message.fields().transaction != transaction_)
    return false;
  const auto identifier = message.FindOption(DhcpOption::kClientIdentifier);
  return !identifier.has_value() || *identifier == identifier_;
}

void DhcpClient::OnOffer(const DhcpMessage& offer) {
  const auto server = offer.FindAddress(DhcpOption::kServerIdentifier);
  if (state_ != DhcpState::kSelecting || !server.has_value() ||
      !IpAddr(offer.fields().yours).CanBeHost())
    return;
  offered_ = offer.fields().yours;
  server_ = *server;
  Enter(DhcpState::kRequesting);
  Request();
}

void DhcpClient::OnAck(const DhcpMessage& ack) {
  const bool renewal = state_ == DhcpState::kRenewing || state_ == DhcpState::kRebinding;
  if (state_ != DhcpState::kRequesting && !renewal) return;
  absl::optional<DhcpLease> lease = DhcpLease::Read(ack, requested_at_);
  if (!lease.has_value()) return;
  const bool same = lease_.has_value() && lease_->address == lease->address;
  // The server gives another address than the one in use.
  if (renewal && !same) return StartOver(absl::ZeroDuration());
  lease_ = *std::move(lease);
  Enter(renewal ? DhcpState::kBound : DhcpState::kChecking);
  timer_ = renewal ? NotTooSoon(lease_->renew) : lease_->expiry;
  const DhcpLease told = *lease_;
  if (renewal) return owner_->OnLease(told);
  owner_->CheckAddress(told);
}

void DhcpClient::OnNak() {
  const bool renewal = state_ == DhcpState::kRenewing || state_ == DhcpState::kRebinding;
  if (state_ != DhcpState::kRequesting && !renewal) return;
  // Wait a second: two servers that disagree would otherwise keep the client in a loop.
  StartOver(kFirstWait);
}

void DhcpClient::OnAddressFree(Ipv4Addr address) {
  if (state_ != DhcpState::kChecking || lease_->address.address != IpAddr(address)) return;
  Enter(DhcpState::kBound);
  timer_ = NotTooSoon(lease_->renew);
  const DhcpLease told = *lease_;
  owner_->OnLease(told);
}

void DhcpClient::OnAddressTaken(Ipv4Addr address) {
  if (state_ != DhcpState::kChecking || lease_->address.address != IpAddr(address)) return;
  Decline();
  StartOver(kAfterDecline);
}

void DhcpClient::Send(DhcpMessageType type, Ipv4Addr client, const Where& where,
                      absl::FunctionRef<void(DhcpWriter*)> add) {
  std::array<uint8_t, kUdp4HeadersSize + kMessageSize> bytes{};
  DhcpFields fields = IpoibDhcpRequest(transaction_, client);
  fields.seconds = static_cast<uint16_t>(
      std::min<int64_t>(absl::ToInt64Seconds(clock_->Now() - began_), 0xffff));
  DhcpWriter writer(fields, absl::MakeSpan(bytes).subspan(kUdp4HeadersSize));
  writer.Add(type);
  writer.Add(DhcpOption::kClientIdentifier, identifier_);
  add(&writer);
  if (type == DhcpMessageType::kDiscover || type == DhcpMessageType::kRequest) {
    writer.AddNumber16(DhcpOption::kMaximumMessageSize, kLargestAnswer);
    writer.Add(DhcpOption::kParameterRequestList, kRequestedOptions);
    if (!host_name_.empty()) {
      writer.Add(DhcpOption::kHostName,
                 {reinterpret_cast<const uint8_t*>(host_name_.data()), host_name_.size()});
    }
  }
  const absl::Span<const uint8_t> packet = BuildUdp4({.source = where.source,
                                                      .destination = where.destination,
                                                      .source_port = kDhcpClientPort,
                                                      .destination_port = kDhcpServerPort,
                                                      .id = static_cast<uint16_t>(random_())},
                                                     writer.Finish(), absl::MakeSpan(bytes));
  if (!packet.empty()) owner_->SendDhcp(packet);
}

}  // namespace eoib::endpoint
