import { edges, fleet, lastingFleet, listeners } from '../row.ts';

/** Rows of "Access keys". */
export const accessRows = {
  auth: edges.choice({
    names: '--auth STATOR_AUTH',
    values: ['auto', 'on', 'off'],
    default: 'auto',
    about:
      'Requires API keys from clients; auto = if a store of keys is configured. off with a store warns at the start.',
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
    about: 'File of API keys, written by stator keys, for processes without a table.',
  }),
  keyCacheSecs: edges.int({
    names: 'STATOR_KEY_CACHE_SECS',
    range: { min: 0, max: 300, unit: 's' },
    default: 60,
    about: 'Longest time until a revoked key is refused; a process reads a key in use again after this long.',
  }),
  metricsAuth: edges.bool({
    names: 'STATOR_METRICS_AUTH',
    about: 'Serves /metrics only to operators and to keys with the scope metrics.',
  }),
  docsAuth: edges.bool({
    names: 'STATOR_DOCS_AUTH',
    about: 'Serves /, /docs and /openapi.json only to operators and to clients with a key.',
  }),
  cacheIsolation: edges.choice({
    names: 'STATOR_CACHE_ISOLATION',
    values: ['figures', 'blocks', 'off'],
    default: 'figures',
    about:
      'Keeps clients with keys from learning what others cached: figures = answers do not say what was cached; blocks = owners share no blocks, so answers say it; off = owners share blocks, and answers say it.',
  }),
  idSecret: edges.secret({
    names: 'STATOR_ID_SECRET',
    minLength: 32,
    defaultText: 'unset = STATOR_PLANE_TOKEN; without either, each frontend cancels only its own',
    about: 'Secret shared by all frontends, so that each can cancel by id what another one streams.',
  }),
  idSecretPrevious: edges.secretOrNone({
    names: 'STATOR_ID_SECRET_PREVIOUS',
    minLength: 32,
    defaultText: 'unset = STATOR_PLANE_TOKEN_PREVIOUS if STATOR_ID_SECRET is unset',
    about: 'Previous STATOR_ID_SECRET during a rotation: ids that were made with it stay valid.',
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
