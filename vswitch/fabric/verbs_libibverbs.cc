#include "vswitch/fabric/verbs.h"

namespace eoib {

// Small wrappers, never raw addresses: some names are macros over several functions
// (ibv_query_port, ibv_reg_mr), and their addresses are those of compatibility functions.
const VerbsTable& LibibverbsTable() {
  static constexpr VerbsTable kTable = {
      .get_device_list = [](int* count) { return ibv_get_device_list(count); },
      .free_device_list = [](ibv_device** list) { ibv_free_device_list(list); },
      .get_device_name = [](ibv_device* device) { return ibv_get_device_name(device); },
      .open_device = [](ibv_device* device) { return ibv_open_device(device); },
      .close_device = [](ibv_context* context) { return ibv_close_device(context); },
      .query_device = [](ibv_context* context,
                         ibv_device_attr* attr) { return ibv_query_device(context, attr); },
      .query_port = [](ibv_context* context, uint8_t port,
                       ibv_port_attr* attr) { return ibv_query_port(context, port, attr); },
      .query_gid = [](ibv_context* context, uint8_t port, int index,
                      ibv_gid* gid) { return ibv_query_gid(context, port, index, gid); },
      .query_gid_ex =
          [](ibv_context* context, uint8_t port, int index, ibv_gid_entry* entry) {
            return ibv_query_gid_ex(context, port, static_cast<uint32_t>(index), entry, 0);
          },
      .query_pkey = [](ibv_context* context, uint8_t port, int index,
                       uint16_t* pkey) { return ibv_query_pkey(context, port, index, pkey); },
      .alloc_pd = [](ibv_context* context) { return ibv_alloc_pd(context); },
      .dealloc_pd = [](ibv_pd* pd) { return ibv_dealloc_pd(pd); },
      .reg_mr = [](ibv_pd* pd, void* address, size_t length,
                   int access) { return ibv_reg_mr(pd, address, length, access); },
      .dereg_mr = [](ibv_mr* mr) { return ibv_dereg_mr(mr); },
      .create_comp_channel = [](ibv_context* context) { return ibv_create_comp_channel(context); },
      .destroy_comp_channel =
          [](ibv_comp_channel* channel) { return ibv_destroy_comp_channel(channel); },
      .create_cq =
          [](ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
             int vector) { return ibv_create_cq(context, entries, cq_context, channel, vector); },
      .destroy_cq = [](ibv_cq* cq) { return ibv_destroy_cq(cq); },
      .get_cq_event = [](ibv_comp_channel* channel, ibv_cq** cq,
                         void** cq_context) { return ibv_get_cq_event(channel, cq, cq_context); },
      .ack_cq_events = [](ibv_cq* cq, unsigned int events) { ibv_ack_cq_events(cq, events); },
      .create_qp = [](ibv_pd* pd, ibv_qp_init_attr* attr) { return ibv_create_qp(pd, attr); },
      .modify_qp = [](ibv_qp* qp, ibv_qp_attr* attr,
                      int mask) { return ibv_modify_qp(qp, attr, mask); },
      .query_qp =
          [](ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr) {
            return ibv_query_qp(qp, attr, mask, init_attr);
          },
      .destroy_qp = [](ibv_qp* qp) { return ibv_destroy_qp(qp); },
      .attach_mcast = [](ibv_qp* qp, const ibv_gid* gid,
                         uint16_t lid) { return ibv_attach_mcast(qp, gid, lid); },
      .detach_mcast = [](ibv_qp* qp, const ibv_gid* gid,
                         uint16_t lid) { return ibv_detach_mcast(qp, gid, lid); },
      .create_ah = [](ibv_pd* pd, ibv_ah_attr* attr) { return ibv_create_ah(pd, attr); },
      .destroy_ah = [](ibv_ah* ah) { return ibv_destroy_ah(ah); },
      .init_ah_from_wc =
          [](ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr) {
            return ibv_init_ah_from_wc(context, port, wc, grh, attr);
          },
      .get_async_event = [](ibv_context* context,
                            ibv_async_event* event) { return ibv_get_async_event(context, event); },
      .ack_async_event = [](ibv_async_event* event) { ibv_ack_async_event(event); },
  };
  return kTable;
}

}  // namespace eoib
