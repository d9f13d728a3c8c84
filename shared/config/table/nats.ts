import { fleet, rowsFor } from '../row.ts';

/** Processes that create and read the event log. */
const logUsers = rowsFor('frontend', 'worker', 'router');

/** Rows of "NATS". */
export const natsRows = {
  natsServer: fleet.urls({
    names: 'NATS_SERVER',
    schemes: ['nats', 'tls', 'ws', 'wss'],
    default: ['nats://localhost:4222'],
    about: 'NATS servers, reached by TCP (nats, tls) or by WebSocket (ws, wss).',
  }),
  natsAuthUsername: fleet.text({
    names: 'NATS_AUTH_USERNAME',
    note: 'both or none',
    about: 'NATS user.',
  }),
  natsAuthPassword: fleet.secret({
    names: 'NATS_AUTH_PASSWORD',
    note: 'both or none',
    about: 'NATS password.',
  }),
  natsAuthToken: fleet.secret({
    names: 'NATS_AUTH_TOKEN',
    about: 'NATS token.',
  }),
  natsAuthNkey: fleet.secret({
    names: 'NATS_AUTH_NKEY',
    about: 'NATS NKey seed.',
  }),
  natsAuthCredentialsFile: fleet.file({
    names: 'NATS_AUTH_CREDENTIALS_FILE',
    about: 'NATS credentials file.',
  }),
  natsTlsCaCertPath: fleet.pem({
    names: '--nats-tls-ca-cert-path NATS_TLS_CA_CERT_PATH',
    about: 'CA that verifies the NATS server.',
  }),
  natsTlsInsecure: fleet.bool({
    names: '--nats-tls-insecure NATS_TLS_INSECURE',
    about: 'Skips certificate checks; development only.',
  }),
  natsTlsClientCertPath: fleet.pem({
    names: '--nats-tls-client-cert-path NATS_TLS_CLIENT_CERT_PATH',
    about: 'Client certificate for mutual TLS.',
  }),
  natsTlsClientKeyPath: fleet.pem({
    names: '--nats-tls-client-key-path NATS_TLS_CLIENT_KEY_PATH',
    about: 'Key of the client certificate.',
  }),
  natsStreamReplicas: logUsers.int({
    names: 'STATOR_NATS_STREAM_REPLICAS',
    range: { min: 1, max: 5 },
    note: 'production 3',
    default: 1,
    about: 'Replicas of the JetStream event stream.',
  }),
  natsStreamMaxAgeSecs: logUsers.int({
    names: 'STATOR_NATS_STREAM_MAX_AGE_SECS',
    range: { min: 60, unit: 's' },
    default: 3600,
    about: 'Age bound of the event log.',
  }),
  natsStreamMaxMb: logUsers.int({
    names: 'STATOR_NATS_STREAM_MAX_MB',
    range: { min: 16, unit: 'MiB' },
    default: 4096,
    about: 'Size bound of the event log.',
  }),
};
