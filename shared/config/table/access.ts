import { edges, fleet, lastingFleet, listeners } from '../row.ts';

/** Rows of "Access keys". */
export const accessRows = {
  auth: edges.choice({
    names: '--auth STATOR_AUTH',
    values: ['auto', 'on', 'off'],
    default: 'auto',
    about: 'Asks for API keys; auto = where there is a store of keys. off with a store warns at the start.',
  }),
  keysTable: edges.text({
    names: 'STATOR_KEYS_TABLE',
    defaultText: 'unset = the file',
    about: 'DynamoDB table of API keys.',
  }),
  keysFile: listeners.file({
    names: '--keys-file STATOR_KEYS_FILE',
    allowed: 'a JSON file, need not exist',
    written: true,
    defaultText: 'unset = none',
    about: 'File of API keys, which stator keys writes, for processes without a table.',
  }),
  keyCacheSecs: edges.int({
    names: 'STATOR_KEY_CACHE_SECS',
    range: { min: 0, max: 300, unit: 's' },
    default: 60,
    about: 'Longest time until a revoked key is refused; a key in use is read once in it.',
  }),
  metricsAuth: edges.bool({
    names: 'STATOR_METRICS_AUTH',
    about: 'Keeps /metrics for operators and for keys with the scope metrics.',
  }),
  docsAuth: edges.bool({
    names: 'STATOR_DOCS_AUTH',
    about: 'Keeps /, /docs and /openapi.json for operators and for whoever has a key.',
  }),
  cacheIsolation: edges.choice({
    names: 'STATOR_CACHE_ISOLATION',
    values: ['figures', 'blocks', 'off'],
    default: 'figures',
    about:
      'What answers under keys tell of the cache: figures = not what was cached; blocks = all, since owners share nothing; off = all.',
  }),
  idSecret: edges.secret({
    names: 'STATOR_ID_SECRET',
    minLength: 32,
    defaultText: 'unset = STATOR_PLANE_TOKEN, else each cancels its own alone',
    about: 'Shared by all frontends, so that each can cancel what another streams, by its id.',
  }),
  idSecretPrevious: edges.secretOrNone({
    names: 'STATOR_ID_SECRET_PREVIOUS',
    minLength: 32,
    defaultText: 'unset = STATOR_PLANE_TOKEN_PREVIOUS where STATOR_ID_SECRET is unset',
    about: 'The secret before STATOR_ID_SECRET was rotated: names that were made with it count.',
  }),
};

/** Rows of "TLS". */
export const tlsRows = {
  tlsCertPath: listeners.pem({
    names: '--tls-cert-path DYN_TLS_CERT_PATH',
    source: 'Dynamo',
    about: 'Server certificate; needs --tls-key-path. Reloaded on change.',
  }),
  tlsKeyPath: listeners.pem({
    names: '--tls-key-path DYN_TLS_KEY_PATH',
    source: 'Dynamo',
    about: 'Server private key; needs --tls-cert-path.',
  }),
  tlsClientCaCertPath: listeners.pem({
    names: '--tls-client-ca-cert-path DYN_TLS_CLIENT_CA_CERT_PATH',
    about: 'CA for client certificates; set = mutual TLS.',
  }),
  tcpTlsCertPath: lastingFleet.pem({
    names: '--tcp-tls-cert-path DYN_TCP_TLS_CERT_PATH',
    about: 'Certificate of the TCP request plane server, and of services that take the plane token.',
  }),
  tcpTlsKeyPath: lastingFleet.pem({
    names: '--tcp-tls-key-path DYN_TCP_TLS_KEY_PATH',
    about: 'Key of that certificate.',
  }),
  tcpTlsCaCertPath: fleet.pem({
    names: '--tcp-tls-ca-cert-path DYN_TCP_TLS_CA_CERT_PATH',
    about: 'CA that verifies the request plane peer.',
  }),
  tcpTlsClientCertPath: fleet.pem({
    names: '--tcp-tls-client-cert-path DYN_TCP_TLS_CLIENT_CERT_PATH',
    about: 'Client certificate for mutual TLS on the request plane.',
  }),
  tcpTlsClientKeyPath: fleet.pem({
    names: '--tcp-tls-client-key-path DYN_TCP_TLS_CLIENT_KEY_PATH',
    about: 'Key of the request plane client certificate.',
  }),
  tcpTlsClientCaCertPath: lastingFleet.pem({
    names: '--tcp-tls-client-ca-cert-path DYN_TCP_TLS_CLIENT_CA_CERT_PATH',
    about: 'CA for request plane clients; set = mutual TLS enforced.',
  }),
  tcpTlsInsecure: fleet.bool({
    names: '--tcp-tls-insecure DYN_TCP_TLS_INSECURE',
    source: '1.6.1 (worker flag)',
    about: 'Skips certificate checks on the request plane; development only.',
  }),
  tcpTlsServerName: fleet.text({
    names: '--tcp-tls-server-name DYN_TCP_TLS_SERVER_NAME',
    allowed: 'host name',
    source: '1.6.1 (worker flag)',
    about: 'Overrides the TLS server name on the request plane.',
  }),
  tcpTlsHandshakeTimeoutSecs: fleet.int({
    names: '--tcp-tls-handshake-timeout DYN_TCP_TLS_HANDSHAKE_TIMEOUT_SECS',
    range: { min: 1, unit: 's' },
    default: 3,
    source: '1.6.1 (worker flag)',
    about: 'Deadline of a request plane TLS handshake.',
  }),
};
