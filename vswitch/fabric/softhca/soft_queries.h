// The queries of the verbs: device, port, GIDs and P_Keys of the software HCA.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_QUERIES_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_QUERIES_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace eoib::softhca {

int QueryDevice(ibv_context* context, ibv_device_attr* attr);
int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input,
                  ibv_device_attr_ex* attr, size_t size) noexcept;
int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr);
// As the inline ibv_query_port calls it: fills the first `size` bytes of *attr.
int QueryPortAttributes(ibv_context* context, uint8_t port, ibv_port_attr* attr,
                        size_t size) noexcept;
int QueryGid(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
int QueryGidEx(ibv_context* context, uint8_t port, int index, ibv_gid_entry* entry);
int QueryPkey(ibv_context* context, uint8_t port, int index, uint16_t* pkey);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SOFT_QUERIES_H_
