umask 077 && printf '%s' 'server_name: stator-nats
port: 4222
http: "127.0.0.1:8222"
max_payload: 15728640
{{- if .Values.nats.tls.secret }}
tls { cert_file: "/etc/nats/tls.crt", key_file: "/etc/nats/tls.key" }
{{- end }}
jetstream { store_dir: "/data/jetstream", max_memory_store: 0, max_file_store: {{ .Values.nats.storageGb }}G }
authorization { users: [
  { user: $NATS_WORKER_USERNAME, password: $NATS_WORKER_PASSWORD, permissions: { publish: ["namespace.>", "_INBOX.>", "$JS.API.INFO", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>"], subscribe: ["namespace.>", "_INBOX.>"] } }
  { user: $NATS_WORKER_PREVIOUS_USERNAME, password: $NATS_WORKER_PREVIOUS_PASSWORD, permissions: { publish: ["namespace.>", "_INBOX.>", "$JS.API.INFO", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>"], subscribe: ["namespace.>", "_INBOX.>"] } }
  { user: $NATS_ROUTER_USERNAME, password: $NATS_ROUTER_PASSWORD, permissions: { publish: ["namespace.>", "_INBOX.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$O.>"], subscribe: ["namespace.>", "_INBOX.>", "$JS.FC.>"] } }
  { user: $NATS_ROUTER_PREVIOUS_USERNAME, password: $NATS_ROUTER_PREVIOUS_PASSWORD, permissions: { publish: ["namespace.>", "_INBOX.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$O.>"], subscribe: ["namespace.>", "_INBOX.>", "$JS.FC.>"] } }
] }' > /data/nats.conf && NATS_WORKER_USERNAME="${NATS_WORKER_USERNAME:-worker}" && NATS_WORKER_PREVIOUS_USERNAME="${NATS_WORKER_PREVIOUS_USERNAME:-worker-before}" && NATS_WORKER_PREVIOUS_PASSWORD="${NATS_WORKER_PREVIOUS_PASSWORD:-none}" && { test "$NATS_WORKER_PREVIOUS_PASSWORD" != none || NATS_WORKER_PREVIOUS_PASSWORD=$(od -An -N32 -tx1 /dev/urandom | tr -d " \n"); } && test -n "$NATS_WORKER_PREVIOUS_PASSWORD" && export NATS_WORKER_USERNAME="\"$NATS_WORKER_USERNAME\"" && export NATS_WORKER_PASSWORD="\"$NATS_WORKER_PASSWORD\"" && export NATS_WORKER_PREVIOUS_USERNAME="\"$NATS_WORKER_PREVIOUS_USERNAME\"" && export NATS_WORKER_PREVIOUS_PASSWORD="\"$NATS_WORKER_PREVIOUS_PASSWORD\"" && NATS_ROUTER_USERNAME="${NATS_ROUTER_USERNAME:-router}" && NATS_ROUTER_PREVIOUS_USERNAME="${NATS_ROUTER_PREVIOUS_USERNAME:-router-before}" && NATS_ROUTER_PREVIOUS_PASSWORD="${NATS_ROUTER_PREVIOUS_PASSWORD:-none}" && { test "$NATS_ROUTER_PREVIOUS_PASSWORD" != none || NATS_ROUTER_PREVIOUS_PASSWORD=$(od -An -N32 -tx1 /dev/urandom | tr -d " \n"); } && test -n "$NATS_ROUTER_PREVIOUS_PASSWORD" && export NATS_ROUTER_USERNAME="\"$NATS_ROUTER_USERNAME\"" && export NATS_ROUTER_PASSWORD="\"$NATS_ROUTER_PASSWORD\"" && export NATS_ROUTER_PREVIOUS_USERNAME="\"$NATS_ROUTER_PREVIOUS_USERNAME\"" && export NATS_ROUTER_PREVIOUS_PASSWORD="\"$NATS_ROUTER_PREVIOUS_PASSWORD\"" && exec nats-server -c /data/nats.conf
