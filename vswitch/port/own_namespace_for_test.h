// OwnNamespace: namespaces of its own for a program of tests that makes netdevs.
#ifndef EOIB_VSWITCH_PORT_OWN_NAMESPACE_FOR_TEST_H_
#define EOIB_VSWITCH_PORT_OWN_NAMESPACE_FOR_TEST_H_

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace eoib {

// Once per process: all that the tests make is invisible outside, and goes with the process.
class OwnNamespace : public testing::Environment {
 public:
  void SetUp() override {
    ASSERT_EQ(unshare(CLONE_NEWNET | CLONE_NEWNS), 0)
        << "this test needs namespaces of its own: run it as root (CAP_SYS_ADMIN)";
    // Also for the directory where `ip netns add` keeps its names, so they go with the process,
    // even a killed one.
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(system("mkdir -p /run/netns"), 0);
    ASSERT_EQ(mount("none", "/run/netns", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(access("/dev/net/tun", R_OK | W_OK), 0)
        << "this test needs /dev/net/tun: modprobe tun";
  }
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_PORT_OWN_NAMESPACE_FOR_TEST_H_
