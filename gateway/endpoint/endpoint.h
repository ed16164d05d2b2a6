// Endpoint: eoib-ipoib without its main: a host on an IPoIB link by means of a TUN, in an event loop.
//
// Ties IpHost, which knows protocols, to the kernel: the TUN and its addresses, routes and groups. The Interface and the loop
// stay the caller's and outlive it; the caller makes listener() the Interface's listener. One thread, the loop's, in the TUN's
// network namespace.
#ifndef EOIB_GATEWAY_ENDPOINT_ENDPOINT_H_
#define EOIB_GATEWAY_ENDPOINT_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "control/command_registry.h"
#include "control/event_loop.h"
#include "gateway/endpoint/dhcp_session.h"
#include "gateway/endpoint/host_addresses.h"
#include "gateway/endpoint/host_routes.h"
#include "gateway/endpoint/ip_host.h"
#include "gateway/endpoint/tun_device.h"
#include "gateway/ipoib/interface.h"

namespace eoib::endpoint {

class Endpoint {
 public:
  struct Options {
    std::string netdev;                       // of the TUN
    std::vector<InterfaceAddress> addresses;  // that it is to have, if they are free
    bool dhcp = false;                        // have an address leased
    std::string host_name;                    // for DHCP servers to know it by; may be empty
    IpHost::Options host;
    Dad::Random random;
    // Runs when this has sent something on the link, perhaps: a Channel collects datagrams to post them at once.
    std::function<void()> flush = [] {};
  };

  static absl::StatusOr<std::unique_ptr<Endpoint>> Create(const Options& options, ipoib::Interface* link, EventLoop* loop,
                                                          const Clock* clock);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ipoib::Listener* listener() { return &host_; }
  // An orderly end: gives a lease back, and calls `done`, from the loop, when the server has been told as far as one can.
  void Stop(std::function<void()> done);
  void RegisterCommands(CommandRegistry* registry);
  // Runs when somebody has deleted the TUN: there is nothing left to do then.
  void OnTunDeleted(std::function<void()> callback) { on_tun_deleted_ = std::move(callback); }

  IpHost& host() { return host_; }
  const IpHost& host() const { return host_; }
  const DhcpSession* dhcp() const { return dhcp_.get(); }  // null: no link yet, or none wanted
  const TunDevice& tun() const { return *tun_; }

 private:
  struct Parts {
    std::unique_ptr<TunDevice> tun;
    std::unique_ptr<HostAddresses> addresses;
    std::unique_ptr<HostRoutes> routes;
  };

  Endpoint(const Options& options, Parts parts, ipoib::Interface* link, EventLoop* loop, const Clock* clock);
  absl::Status Start(const Options& options);
  void ReadTun();
  void ReadGroups();
  // `work`, and then a flush.
  EventLoop::Callback Flushing(EventLoop::Callback work) const;
  void OnLinkChange();
  absl::Status SetRouter(absl::optional<Ipv4Addr> router, Ipv4Addr source);
  std::string ShowMore() const;

  const Clock* const clock_;
  EventLoop* const loop_;
  const bool wants_dhcp_;
  const std::string host_name_;
  const Dad::Random random_;
  const std::function<void()> flush_;
  const std::unique_ptr<TunDevice> tun_;
  const std::unique_ptr<HostAddresses> addresses_;
  const std::unique_ptr<HostRoutes> routes_;
  IpHost host_;
  std::unique_ptr<DhcpSession> dhcp_;
  absl::optional<Ipv4Addr> router_;
  std::vector<uint8_t> buffer_;
  std::vector<EventLoop::TimerId> timers_;
  absl::Time next_groups_ = absl::InfinitePast();
  std::function<void()> on_tun_deleted_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_ENDPOINT_H_
