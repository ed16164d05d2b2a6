// Golden IPoIB datagrams for tests: encapsulation header and packet, as in a UD payload.
//
// The bytes do not come from the code under test. "Linux" marks datagrams that ib_ipoib of
// Linux 6.1 sent between two adapters: QPN 2, GIDs fe80::253:494d:4942:1 and :101,
// addresses 10.0.0.1 and .2, fd00::1 and ::2. Their link-layer addresses have the flag of the
// connected mode. "RFC" marks datagrams written from the clauses. erf_test has tshark check all of
// them.
#ifndef EOIB_VSWITCH_WIRE_GOLDEN_IPOIB_FOR_TEST_H_
#define EOIB_VSWITCH_WIRE_GOLDEN_IPOIB_FOR_TEST_H_

#include <cstdint>
#include <vector>

#include "vswitch/base/hex_for_test.h"
#include "vswitch/wire/ip/ipoib_address.h"
#include "vswitch/wire/ipoib_header.h"

namespace eoib {

// The link-layer address of Linux's first adapter (0) or second (1).
inline IpoibAddress LinuxAdapter(int number) {
  return {Qpn(2), Gid::FromPrefixAndGuid(0xfe80'0000'0000'0000,
                                         Guid(0x0253'494d'4942'0001 + 0x100u * number))};
}

// A golden datagram without its encapsulation header.
inline std::vector<uint8_t> PacketOf(const char* golden) {
  std::vector<uint8_t> bytes = FromHex(golden);
  bytes.erase(bytes.begin(), bytes.begin() + kIpoibHeaderSize);
  return bytes;
}

inline constexpr char kLinuxArpRequest[] =
    "08060000 0020 0800 14 04 0001 80000002fe800000000000000253494d49420001 0a000001 "
    "0000000000000000000000000000000000000000 0a000002";
inline constexpr char kLinuxArpReply[] =
    "08060000 0020 0800 14 04 0002 80000002fe800000000000000253494d49420101 0a000002 "
    "80000002fe800000000000000253494d49420001 0a000001";
// `arping -U`: the target's link-layer address is the broadcast group's.
inline constexpr char kLinuxArpGratuitous[] =
    "08060000 0020 0800 14 04 0001 80000002fe800000000000000253494d49420001 0a000001 "
    "00ffffffff12401bffff000000000000ffffffff 0a000001";
inline constexpr char kLinuxPing[] =
    "08000000 45000054eefd4000400137a90a0000010a000002 "
    "0800c50000d200010c7a026b000000006174030000000000101112131415161718191a1b1c1d1e1f20212223242526"
    "2728292a2b2c2d2e2f3031323334353637";
inline constexpr char kLinuxPing6[] =
    "86dd0000 6004369100403a40fd000000000000000000000000000001fd000000000000000000000000000002 "
    "800023b200d300010c7a026b000000008b42080000000000101112131415161718191a1b1c1d1e1f20212223242526"
    "2728292a2b2c2d2e2f3031323334353637";
// Duplicate address detection, with the nonce of RFC 7527.
inline constexpr char kLinuxDadSolicitation[] =
    "86dd0000 6000000000203aff00000000000000000000000000000000ff0200000000000000000001ff000002 "
    "87007e6400000000fd000000000000000000000000000002 0e0160734eee41d4";
inline constexpr char kLinuxNeighborSolicitation[] =
    "86dd0000 6000000000303afffd000000000000000000000000000001ff0200000000000000000001ff000002 "
    "87006c1f00000000fd000000000000000000000000000002 "
    "0103000080000002fe800000000000000253494d49420001";
inline constexpr char kLinuxNeighborAdvertisement[] =
    "86dd0000 6000000000303afffd000000000000000000000000000002fd000000000000000000000000000001 "
    "88000a2360000000fd000000000000000000000000000002 "
    "0203000080000002fe800000000000000253494d49420101";
// The answer to a unicast solicitation: the solicitor already has the link-layer address.
inline constexpr char kLinuxNeighborAdvertisementWithoutOptions[] =
    "86dd0000 6000000000183afffd000000000000000000000000000001fe800000000000000253494d49420101 "
    "8800a94440000000fd000000000000000000000000000001";
inline constexpr char kLinuxRouterSolicitation[] =
    "86dd0000 6000000000203afffe800000000000000253494d49420001ff020000000000000000000000000002 "
    "8500d3d100000000 0103000080000002fe800000000000000253494d49420001";
// A report of groups: ICMPv6 of another type, behind a hop-by-hop header.
inline constexpr char kLinuxMulticastReport[] =
    "86dd0000 6000000000380001fe800000000000000253494d49420001ff020000000000000000000000000016 "
    "3a000502000001008f00d9c70000000204000000ff0200000000000000000001ff42000104000000ff020000000000"
    "0000000001ff000001";

// With source link-layer address, MTU 2044 and a prefix.
inline constexpr char kRfcRouterAdvertisement[] =
    "86dd0000 6000000000503afffe800000000000000202c903000e0b72ff020000000000000000000000000001 "
    "860043e5400007080000000000000000 0103000000000048fe800000000000000002c903000e0b72 "
    "05010000000007fc 030440c000278d0000093a800000000020010db8000000000000000000000000";
// Redirects to another router, with its link-layer address and the redirected packet.
inline constexpr char kRfcRedirect[] =
    "86dd0000 6000000000783afffe800000000000000202c903000e0b72fe800000000000000202c903000e0b73 "
    "8900521400000000fe800000000000000202c903000e0b7420010db8000100000000000000000001 "
    "0203000000000049fe800000000000000002c903000e0b73 0407000000000000 "
    "6000000000083b40fe800000000000000202c903"
    "000e0b7320010db80001000000000000000000010000000000000000";
// Source link-layer address, CGA, timestamp, nonce, RSA signature (RFC 3971 §5).
inline constexpr char kRfcSendSolicitation[] =
    "86dd0000 6000000000b03afffe800000000000000202c903000e0b73ff0200000000000000000001ff0e0b72 "
    "87001f1700000000fe800000000000000202c903000e0b72 "
    "0103000000000049fe800000000000000002c903000e0b73 "
    "0b090500000102030405060708090a0b0c0d0e0ffe80000000000000013024300d06092a864886f70d010101050003"
    "13003010020900c10203040506070902030100010000000000 0d0200000000000000006553f1000000 "
    "0e010102030405f6 0c040000000102030405060708090a0b0c0d0e0f101112131415161718191a1b";

inline constexpr const char* kGoldenIpoib[] = {
    kLinuxArpRequest,
    kLinuxArpReply,
    kLinuxArpGratuitous,
    kLinuxPing,
    kLinuxPing6,
    kLinuxDadSolicitation,
    kLinuxNeighborSolicitation,
    kLinuxNeighborAdvertisement,
    kLinuxNeighborAdvertisementWithoutOptions,
    kLinuxRouterSolicitation,
    kLinuxMulticastReport,
    kRfcRouterAdvertisement,
    kRfcRedirect,
    kRfcSendSolicitation,
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_WIRE_GOLDEN_IPOIB_FOR_TEST_H_
