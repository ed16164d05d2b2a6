#include "tests/bench/guest_pair.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace eoib::bench {
namespace {

constexpr int64_t kBytes = 20'000'000;

std::string Run(lab::LinuxGuest* guest, const std::string& command) {
  const lab::RunResult result = guest->Run(command);
  if (!result.ok())
    lab::Die(
        absl::StrCat("in a guest: ", command, "\n", result.ToString(), guest->machine().Console()));
  return result.out;
}

void SetUp(lab::LinuxGuest* guest, int number, int mtu) {
  if (!guest->IsReady()) lab::Die("a guest does not boot: " + guest->machine().Console());
  Run(guest, absl::StrCat("ip link set eth0 mtu ", mtu, " up && ip addr add 10.3.0.", number,
                          "/24 dev eth0"));
}

}  // namespace

GuestPair::GuestPair(lab::Lab* lab, lab::Host* one, const lab::QemuGuestSpec& first, lab::Host* two,
                     const lab::QemuGuestSpec& second, int mtu)
    : first_(lab, one, first), second_(lab, two, second) {
  SetUp(&first_, 1, mtu);
  SetUp(&second_, 2, mtu);
  Run(&first_, "ping -c 3 -i 0.1 10.3.0.2");
}

double GuestPair::TcpRate() {
  // The end of its input would end the connection.
  Run(&second_, "sleep 1000 | nc -l -p 5003 >/dev/null 2>&1 &");
  if (!lab::EventuallyTrue(lab::kPatience,
                           [this] { return second_.Run("netstat -ltn | grep :5003").ok(); })) {
    lab::Die("a guest does not listen");
  }
  const absl::Time start = absl::Now();
  Run(&first_, absl::StrCat("head -c ", kBytes, " /dev/zero | nc 10.3.0.2 5003"));
  return static_cast<double>(kBytes) * 8 / absl::ToDoubleNanoseconds(absl::Now() - start);
}

}  // namespace eoib::bench
