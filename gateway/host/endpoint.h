// Endpoint: eoib-ipoib without its main: a host on an IPoIB link through a TUN, in an event loop.
//
// It connects IpHost, which speaks the protocols, to the kernel: the TUN with its addresses, routes
// and groups. The Interface and the loop outlive it; the caller makes listener() the Interface's
// listener. One thread, the loop's, in the TUN's network namespace.
#ifndef EOIB_GATEWAY_HOST_ENDPOINT_H_
#define EOIB_GATEWAY_HOST_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gateway/host/dhcp_session.h"
#include "gateway/host/host_addresses.h"
#include "gateway/host/host_routes.h"
#include "gateway/host/ip_host.h"
#include "gateway/host/tun_device.h"
#include "gateway/link/interface.h"
#include "vswitch/base/daemon/command_registry.h"
#include "vswitch/base/daemon/event_loop.h"

namespace eoib::endpoint {

class Endpoint {
 public:
  struct Options {
    std::string netdev;                       // the name of the TUN
    std::vector<InterfaceAddress> addresses;  // to assign if they are free
    bool dhcp = false;                        // lease an address
    std::string host_name;                    // for DHCP messages; may be empty
    IpHost::Options host;
    Dad::Random random;
    // Runs after each piece of work that may have sent on the link: a Channel collects datagrams
    // and posts them in a batch.
    std::function<void()> flush = [] {};
  };

  static absl::StatusOr<std::unique_ptr<Endpoint>> Create(const Options& options,
                                                          ipoib::Interface* link, EventLoop* loop,
                                                          const Clock* clock);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ipoib::Listener* listener() { return &host_; }
  // Stops in an orderly way: releases a lease, gives that message 200 ms to leave, and calls `done`
  // from the loop.
  void Stop(std::function<void()> done);
  void RegisterCommands(CommandRegistry* registry);
  // `callback` runs when the TUN was deleted from outside; the endpoint is of no use then.
  void OnTunDeleted(std::function<void()> callback) { on_tun_deleted_ = std::move(callback); }

  IpHost& host() { return host_; }
  // Null without --dhcp, and before the link was first up.
  const DhcpSession* dhcp() const { return dhcp_.get(); }
  const TunDevice& tun() const { return *kernel_.tun; }

 private:
  struct KernelSide {
    std::unique_ptr<TunDevice> tun;
    std::unique_ptr<HostAddresses> addresses;
    std::unique_ptr<HostRoutes> routes;
  };

  Endpoint(const Options& options, KernelSide kernel, ipoib::Interface* link, EventLoop* loop,
           const Clock* clock);
  absl::Status Start();
  void ReadTun();
  void FromTun(Frame* frame);
  absl::Span<uint8_t> RoomFor(size_t size);
  void ReadGroups();
  // Runs `work`, then a flush.
  EventLoop::Callback Flushing(EventLoop::Callback work) const;
  void OnLinkChange();
  absl::Status SetRouter(absl::optional<Ipv4Addr> router, Ipv4Addr source);
  Json ShowMore() const;

  const Clock* const clock_;
  EventLoop* const loop_;
  const Options options_;
  ipoib::Interface* const link_;
  const KernelSide kernel_;
  IpHost host_;
  std::unique_ptr<DhcpSession> dhcp_;
  absl::optional<Ipv4Addr> router_;
  std::vector<uint8_t> buffer_;  // what was read from the TUN
  std::vector<uint8_t> cut_;     // a packet for which the link has no room
  std::vector<EventLoop::TimerId> timers_;
  absl::Time next_groups_ = absl::InfinitePast();
  std::function<void()> on_tun_deleted_;
};

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_ENDPOINT_H_
