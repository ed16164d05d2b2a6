// An XDP program that drops PER_MILLION of a million frames at random, as a bad cable would.
// net_bench loads it.
#include <linux/bpf.h>

static unsigned (*const random_number)(void) = (void*)BPF_FUNC_get_prandom_u32;

__attribute__((section("xdp"), used)) int drop_some(struct xdp_md* context) {
  return random_number() % 1000000 < PER_MILLION ? XDP_DROP : XDP_PASS;
}

char _license[] __attribute__((section("license"), used)) = "Apache-2.0";
