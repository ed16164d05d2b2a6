#include "gateway/host/addresses.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/base/daemon/log.h"

namespace eoib::endpoint {
namespace {

std::string Rival(const absl::optional<IpoibAddress>& rival) {
  return rival.has_value() ? rival->ToString() : "another interface of the link";
}

// The preference of an address as the source of solicitations; higher is better.
int Fitness(const InterfaceAddress& own, const IpAddr& target) {
  if (own.address.is_ipv4()) return own.OnLink(target) ? 2 : 1;
  // RFC 4861 §7.2.2 allows any address; the answer of a router reaches a link-local address for
  // certain.
  return own.address.IsLinkLocal() ? 2 : 1;
}

void Log(const absl::Status& status) {
  if (!status.ok()) LogWarning(status.message());
}

}  // namespace

const char* ToString(AddressOrigin origin) {
  constexpr const char* kNames[] = {"link-local", "flag", "dhcp", "kernel"};
  return kNames[static_cast<size_t>(origin)];
}

const char* ToString(AddressState state) {
  constexpr const char* kNames[] = {"tentative", "assigned", "duplicate", "removed", "refused"};
  return kNames[static_cast<size_t>(state)];
}

void Addresses::Want(const InterfaceAddress& address, AddressOrigin origin) {
  const auto [at, is_new] = items_.try_emplace(address.address);
  at->second.origin = origin;
  if (!is_new) return;
  at->second.address = address;
  Begin(&at->second);
}

void Addresses::KeepUntil(const IpAddr& address, absl::Time until) {
  Item* item = FindItem(address);
  if (item == nullptr || std::exchange(item->until, until) == until) return;
  if (item->state == AddressState::kAssigned) Log(kernel_->Add(item->address, until));
}

void Addresses::Release(const IpAddr& address) {
  const Item* item = Find(address);
  if (item == nullptr) return;
  if (item->in_kernel) Log(kernel_->Remove(item->address));
  Erase(address);
}

void Addresses::OnKernelAdded(const InterfaceAddress& address) {
  if (Item* item = FindItem(address.address); item != nullptr) {
    // An operator has added a duplicate again: start duplicate address detection again.
    const bool again = !item->in_kernel && item->state != AddressState::kAssigned;
    item->in_kernel = true;
    if (again) Begin(item);
    return;
  }
  Item& item = items_[address.address];
  item.address = address;
  item.in_kernel = true;
  Begin(&item);
}

void Addresses::OnKernelChanged(const InterfaceAddress& address) {
  Item* item = FindItem(address.address);
  if (item == nullptr) return;
  if (item->origin == AddressOrigin::kKernel) item->address = address;
  if (item->state == AddressState::kDuplicate) Log(kernel_->Remove(address));
}

void Addresses::OnKernelRemoved(const IpAddr& address) {
  Item* item = FindItem(address);
  if (item == nullptr || !std::exchange(item->in_kernel, false)) return;
  if (item->state == AddressState::kDuplicate) return;  // OnDuplicate removed it
  if (item->origin == AddressOrigin::kKernel) return Erase(address);
  item->state = AddressState::kRemoved;
  dad_->Stop(address);
  Tell(address);
}

void Addresses::OnTunUp() {
  BeginAll([](AddressState state) {
    return state == AddressState::kRemoved || state == AddressState::kRefused;
  });
}

void Addresses::OnLinkUp() {
  BeginAll([](AddressState state) { return state == AddressState::kRefused; });
}

void Addresses::BeginAll(absl::FunctionRef<bool(AddressState)> which) {
  std::vector<IpAddr> again;
  for (const auto& [address, item] : items_) {
    if (which(item.state)) again.push_back(address);
  }
  for (const IpAddr& address : again) {
    if (Item* item = FindItem(address); item != nullptr) Begin(item);
  }
}

void Addresses::Begin(Item* item) {
  item->state = AddressState::kTentative;
  item->rival = absl::nullopt;
  item->refusal.clear();
  const IpAddr address = item->address.address;
  dad_->Start(address);
  Tell(address);
}

void Addresses::Erase(const IpAddr& address) {
  const IpAddr gone = address;
  dad_->Stop(gone);
  items_.erase(gone);
  Tell(gone);
}

void Addresses::OnUnique(const IpAddr& address) {
  Item* item = FindItem(address);
  if (item == nullptr) return;
  // Add also sets the lifetime, for an address that a killed process has left on the TUN.
  const bool ends = item->until != absl::InfiniteFuture();
  const absl::Status status =
      !item->in_kernel || ends ? kernel_->Add(item->address, item->until) : absl::OkStatus();
  if (!status.ok() && !item->in_kernel) return Refuse(item, status);
  Log(status);
  item->in_kernel = true;
  item->state = AddressState::kAssigned;
  Tell(item->address.address);
}

// The address is free, but the kernel would drop packets to it. So it is not announced.
void Addresses::Refuse(Item* item, const absl::Status& status) {
  Log(status);
  item->state = AddressState::kRefused;
  item->refusal = std::string(status.message());
  const IpAddr address = item->address.address;
  dad_->Stop(address);
  Tell(address);
}

void Addresses::OnDuplicate(const IpAddr& address, const absl::optional<IpoibAddress>& rival) {
  Item* item = FindItem(address);
  if (item == nullptr) return;
  item->state = AddressState::kDuplicate;
  item->rival = rival;
  LogWarning(absl::StrCat("address ", item->address.ToString(), " is used by ", Rival(rival),
                          ": not used here"));
  if (item->in_kernel) Log(kernel_->Remove(item->address));
  Tell(item->address.address);
}

void Addresses::OnContested(const IpAddr& address, const absl::optional<IpoibAddress>& rival,
                            bool announced) {
  Item* item = FindItem(address);
  if (item == nullptr) return;
  ++item->contests;
  item->rival = rival;
  // Log only when Dad announces, which is rate-limited.
  if (!announced) return;
  LogWarning(absl::StrCat("address ", address.ToString(), " of this host is used by ", Rival(rival),
                          ", too: defending it"));
}

bool Addresses::IsAssigned(const IpAddr& address) const {
  const Item* item = Find(address);
  return item != nullptr && item->state == AddressState::kAssigned;
}

bool Addresses::IsTentative(const IpAddr& address) const {
  const Item* item = Find(address);
  return item != nullptr && item->state == AddressState::kTentative;
}

const Addresses::Item* Addresses::Find(const IpAddr& address) const {
  const auto found = items_.find(address);
  return found == items_.end() ? nullptr : &found->second;
}

Addresses::Item* Addresses::FindItem(const IpAddr& address) {
  const auto found = items_.find(address);
  return found == items_.end() ? nullptr : &found->second;
}

bool Addresses::IsSubnetBroadcast(Ipv4Addr destination) const {
  for (const auto& [address, item] : items_) {
    if (item.state == AddressState::kAssigned && item.address.SubnetBroadcast() == destination)
      return true;
  }
  return false;
}

absl::optional<IpAddr> Addresses::SourceFor(const IpAddr& target) const {
  absl::optional<IpAddr> best;
  int fitness = 0;
  for (const auto& [address, item] : items_) {
    if (item.state != AddressState::kAssigned || address.is_ipv4() != target.is_ipv4()) continue;
    if (const int other = Fitness(item.address, target); other > fitness) {
      best = address;
      fitness = other;
    }
  }
  return best;
}

// Copies the address, because a callback may erase the item that holds it.
void Addresses::Tell(const IpAddr& address) {
  const IpAddr copy = address;
  for (const Changed& changed : changed_) changed(copy);
}

}  // namespace eoib::endpoint
