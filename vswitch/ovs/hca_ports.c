/* The HCA ports that netdevs of type "eoib" have opened, and the operator's commands on them. */
#include <config.h>

#include <string.h>

#include "openvswitch/dynamic-string.h"
#include "openvswitch/vlog.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(eoib_hca_ports);

static struct ovs_list hca_ports = OVS_LIST_INITIALIZER(&hca_ports);

static void
log_line(void *aux OVS_UNUSED, int level, const char *text)
{
    if (level == EOIB_LOG_WARNING) {
        VLOG_WARN("%s", text);
    } else {
        VLOG_DBG("%s", text);
    }
}

/* Takes a reference to the HCA port. NULL on an error, with its text in `error`. */
struct hca_port *
eoib_hca_open(const struct eoib_config *config, char *error, size_t error_size)
{
    struct eoib_port_options options = {
        .size = sizeof options, .hca = config->hca, .fabric = config->fabric, .log = log_line,
    };
    struct eoib_port *port;
    struct hca_port *hca;

    LIST_FOR_EACH (hca, node, &hca_ports) {
        if (!strcmp(hca->hca, config->hca) && nullable_string_is_equal(hca->fabric, config->fabric)
            && !eoib_port_failure(hca->port)) {
            hca->users++;
            return hca;
        }
    }
    port = eoib_port_open(&options, error, error_size);
    if (!port) {
        return NULL;
    }
    hca = xzalloc(sizeof *hca);
    hca->hca = xstrdup(config->hca);
    hca->fabric = nullable_xstrdup(config->fabric);
    hca->port = port;
    hca->users = 1;
    ovs_list_push_back(&hca_ports, &hca->node);
    return hca;
}

void
eoib_hca_close(struct hca_port *hca)
{
    if (--hca->users) {
        return;
    }
    ovs_list_remove(&hca->node);
    eoib_port_close(hca->port);
    free(hca->hca);
    free(hca->fabric);
    free(hca);
}

/* Runs `command` (aux), with the arguments of the operator, on all HCA ports. */
void
eoib_run_command(struct unixctl_conn *conn, int argc, const char *argv[], void *command)
{
    struct ds answers = DS_EMPTY_INITIALIZER;
    const char *words[8] = { command };
    struct hca_port *hca;
    bool any = false;

    for (int i = 1; i < argc; i++) {
        words[i] = argv[i];
    }
    LIST_FOR_EACH (hca, node, &hca_ports) {
        char *answer;
        int error = eoib_command(hca->port, argc, words, &answer);

        any = any || !error;
        if (!error || !answers.length) {
            ds_put_cstr(&answers, answer ? answer : "");
        }
        eoib_free(answer);
    }
    if (any) {
        unixctl_command_reply(conn, ds_cstr(&answers));
    } else {
        unixctl_command_reply_error(conn, answers.length ? ds_cstr(&answers) : "there is no port of type eoib");
    }
    ds_destroy(&answers);
}
