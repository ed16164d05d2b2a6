// GuestPair: two emulated Linux guests on two hosts, with TCP between them.
#ifndef EOIB_TESTS_BENCH_GUEST_PAIR_H_
#define EOIB_TESTS_BENCH_GUEST_PAIR_H_

#include <string>

#include "tests/lab/lab.h"
#include "tests/vm/linux_guest.h"

namespace eoib::bench {

class GuestPair {
 public:
  // Boots the guests, whose interfaces have that MTU.
  GuestPair(lab::Lab* lab, lab::Host* one, const lab::QemuGuestSpec& first, lab::Host* two,
            const lab::QemuGuestSpec& second, int mtu);

  // The gigabits per second of one stream from the first to the second.
  double TcpRate();

 private:
  lab::LinuxGuest first_, second_;
};

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_GUEST_PAIR_H_
