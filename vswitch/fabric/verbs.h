// VerbsTable: the verbs that are not inline, as a table of functions that libibverbs or the
// software HCA fills. The data path is written once, against libibverbs' API.
//
// The inline verbs (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) reach the HCA
// through its context's `ops` and are called directly. A member has the signature, error returns
// (errno, or the errno value) and threading rules of the function it is named after. Only
// verbs_libibverbs.cc may have undefined ibv_* symbols; a test checks that.
#ifndef EOIB_VSWITCH_FABRIC_VERBS_H_
#define EOIB_VSWITCH_FABRIC_VERBS_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace eoib {

struct VerbsTable {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);

  int (*query_device)(ibv_context* context, ibv_device_attr* attr);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attr);
  int (*query_gid)(ibv_context* context, uint8_t port, int index, ibv_gid* gid);
  // An errno value; ENODATA: unused.
  int (*query_gid_ex)(ibv_context* context, uint8_t port, int index, ibv_gid_entry* entry);
  // *pkey in network order.
  int (*query_pkey)(ibv_context* context, uint8_t port, int index, uint16_t* pkey);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access);
  int (*dereg_mr)(ibv_mr* mr);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cq_context,
                       ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* cq);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
  void (*ack_cq_events)(ibv_cq* cq, unsigned int events);

  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);
  int (*destroy_qp)(ibv_qp* qp);
  int (*attach_mcast)(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);
  int (*detach_mcast)(ibv_qp* qp, const ibv_gid* gid, uint16_t lid);

  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
  int (*destroy_ah)(ibv_ah* ah);
  int (*init_ah_from_wc)(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                         ibv_ah_attr* attr);

  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);
};

// libibverbs, for real devices, or for a library that is preloaded in its place.
const VerbsTable& LibibverbsTable();

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_VERBS_H_
