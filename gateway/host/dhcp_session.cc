#include "gateway/host/dhcp_session.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "vswitch/base/daemon/log.h"

namespace eoib::endpoint {
namespace {

std::string Join(const std::vector<Ipv4Addr>& addresses) {
  return absl::StrJoin(addresses, " ",
                       [](std::string* out, Ipv4Addr address) { out->append(address.ToString()); });
}

Json ListOf(const std::vector<Ipv4Addr>& addresses) {
  Json list = Json::array();
  for (const Ipv4Addr address : addresses) list.push_back(address.ToString());
  return list;
}

}  // namespace

DhcpSession::DhcpSession(Guid port, PKey pkey, std::string host_name, const Clock* clock,
                         std::function<uint64_t()> random, IpHost* host, SetRouter set_router)
    : host_(host),
      set_router_(std::move(set_router)),
      client_(DhcpClientIdentifier(pkey.Full().value(), DuidOf(port)), std::move(host_name), clock,
              std::move(random), this) {
  host_->Intercept([this](const Ipv4Packet& packet) { return client_.OnPacket(packet); });
  host_->addresses().OnChange([this](const IpAddr& address) { OnAddressChange(address); });
}

void DhcpSession::OnLinkState() {
  if (host_->link_state().has_value()) return client_.OnLinkUp();
  client_.OnLinkDown();
}

void DhcpSession::SendDhcp(absl::Span<const uint8_t> packet) { host_->FromTun(packet); }

void DhcpSession::CheckAddress(const DhcpLease& lease) {
  host_->addresses().Want(lease.address, AddressOrigin::kDhcp);
  host_->addresses().KeepUntil(lease.address.address, lease.expiry);
  // An operator may have added the address before, so that Want changes no state.
  OnAddressChange(lease.address.address);
}

void DhcpSession::OnAddressChange(const IpAddr& address) {
  const Addresses::Item* const item = host_->addresses().Find(address);
  if (client_.lease().has_value() && client_.lease()->address.address == address) RestoreRouter();
  if (client_.state() != DhcpState::kChecking || item == nullptr) return;
  if (item->state == AddressState::kAssigned) client_.OnAddressFree(address.ipv4());
  if (item->state == AddressState::kDuplicate) client_.OnAddressTaken(address.ipv4());
}

void DhcpSession::OnLease(const DhcpLease& lease) {
  LogInfo(absl::StrCat("DHCP: ", lease.address.ToString(), " of ", lease.server.ToString(),
                       lease.routers.empty() ? "" : ", router ", Join(lease.routers)));
  host_->addresses().KeepUntil(lease.address.address, lease.expiry);
  UseRouter(lease.routers.empty() ? absl::nullopt : absl::optional<Ipv4Addr>(lease.routers[0]),
            lease);
}

void DhcpSession::OnLeaseEnd(const DhcpLease& lease) {
  LogInfo(absl::StrCat("DHCP: ", lease.address.ToString(), " is not leased any more"));
  UseRouter(absl::nullopt, lease);
  host_->addresses().Release(lease.address.address);
}

void DhcpSession::UseRouter(absl::optional<Ipv4Addr> router, const DhcpLease& lease) {
  if (!std::exchange(router_, router).has_value() && !router.has_value()) return;
  // Set an unchanged router, too: the kernel may have removed its route meanwhile.
  const absl::Status status = set_router_(router, lease.address.address.ipv4());
  if (!status.ok()) LogWarning(status.message());
}

// The route needs the lease's address as its source, so it waits until that is assigned.
void DhcpSession::RestoreRouter() {
  if (router_.has_value() && host_->addresses().IsAssigned(client_.lease()->address.address))
    UseRouter(router_, *client_.lease());
}

Json DhcpSession::ToJson(absl::Time now) const {
  Json json = {{"state", ToString(client_.state())}};
  if (!client_.lease().has_value()) return json;
  const DhcpLease& lease = *client_.lease();
  json["address"] = lease.address.ToString();
  json["server"] = lease.server.ToString();
  if (lease.renew != absl::InfiniteFuture())
    json["renew_s"] = absl::ToInt64Seconds(lease.renew - now);
  if (lease.expiry != absl::InfiniteFuture())
    json["end_s"] = absl::ToInt64Seconds(lease.expiry - now);
  json["routers"] = ListOf(lease.routers);
  json["name_servers"] = ListOf(lease.name_servers);
  json["domain"] = lease.domain;
  return json;
}

}  // namespace eoib::endpoint
