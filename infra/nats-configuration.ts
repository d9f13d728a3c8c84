/** Settings of one NATS server of a deployment. */
export interface NatsConfiguration {
  /** Its name among its peers, the same after every restart. */
  readonly name: string;
  /** Most that JetStream keeps on disk, GB. */
  readonly storageGb: number;
  /** Adds a listener for WebSockets. @default false */
  readonly hasWebSocket?: boolean;
  /** Host names of all servers, including this one. @default none: it is the only server */
  readonly cluster?: readonly string[];
}

interface Placement {
  /** Folder that it may write. */
  readonly folder: string;
  /** Certificate, key and authority lie there as `certificate.pem`, `key.pem` and `ca.pem`. */
  readonly hasTls?: boolean;
  /** @default those of a deployment */
  readonly ports?: Readonly<Record<keyof typeof NATS_PORTS, number>>;
}

/** Ports of a server; `monitor` listens only on loopback. */
export const NATS_PORTS = { clients: 4222, cluster: 6222, webSocket: 8080, monitor: 8222 } as const;

/** Subjects that a role may send and hear, beside its own inboxes. */
interface Permissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
}

/** Subjects of the stream API that the first process that needs the event log calls. */
const MAKE_STREAMS = ['$JS.API.INFO', '$JS.API.STREAM.INFO.>', '$JS.API.STREAM.CREATE.>', '$JS.API.STREAM.UPDATE.>'];

/**
 * A worker says what it caches and how busy it is, and answers requests for its dumps. A router reads the log, keeps
 * snapshots in the object store, purges what they hold, and tells its peers of its requests. Neither may do what the
 * other does.
 */
const PERMISSIONS: Readonly<Record<'worker' | 'router', Permissions>> = {
  worker: { publish: ['namespace.>', '_INBOX.>', ...MAKE_STREAMS], subscribe: ['namespace.>', '_INBOX.>'] },
  router: {
    publish: ['namespace.>', '_INBOX.>', '$JS.API.>', '$JS.ACK.>', '$JS.FC.>', '$O.>'],
    subscribe: ['namespace.>', '_INBOX.>', '$JS.FC.>'],
  },
};

/**
 * The configuration in the server's own syntax, without single quotes. It reads names and passwords from its
 * environment: of each role `NATS_WORKER_USERNAME`, `NATS_WORKER_PASSWORD` and those of the user before they were
 * rotated, `NATS_WORKER_PREVIOUS_USERNAME` and `NATS_WORKER_PREVIOUS_PASSWORD`; among peers `NATS_ROUTE_PASSWORD`.
 */
export function renderNatsConfiguration(given: NatsConfiguration & Placement): string {
  const { name, storageGb, folder, hasTls = false, cluster, ports = NATS_PORTS } = given;
  const tls = `tls { cert_file: "${folder}/certificate.pem", key_file: "${folder}/key.pem", ca_file: "${folder}/ca.pem" }`;
  return [
    `server_name: ${name}`,
    `port: ${ports.clients}`,
    `http: "127.0.0.1:${ports.monitor}"`,
    'max_payload: 15728640', // prompt embeddings
    `jetstream { store_dir: "${folder}/jetstream", max_memory_store: 0, max_file_store: ${storageGb}G }`,
    ...(hasTls ? [tls] : []),
    ...(given.hasWebSocket === true
      ? [`websocket { port: ${ports.webSocket}, compression: true, ${hasTls ? tls : 'no_tls: true'} }`]
      : []),
    'authorization { users: [',
    ...Object.entries(PERMISSIONS).flatMap(([role, permissions]) =>
      usersOf(role).map((user) => renderUser(user, permissions)),
    ),
    '] }',
    ...(cluster === undefined ? [] : [renderCluster(cluster, ports.cluster, hasTls ? tls : undefined)]),
  ].join('\n');
}

/** Prefixes of the variables of a role's users: the current one, and the one before the last rotation. */
function usersOf(role: string): readonly [current: string, previous: string] {
  return [`NATS_${role.toUpperCase()}`, `NATS_${role.toUpperCase()}_PREVIOUS`];
}

function renderUser(user: string, { publish, subscribe }: Permissions): string {
  const list = (subjects: readonly string[]): string => subjects.map((subject) => `"${subject}"`).join(', ');
  const permissions = `{ publish: [${list(publish)}], subscribe: [${list(subscribe)}] }`;
  return `  { user: $${user}_USERNAME, password: $${user}_PASSWORD, permissions: ${permissions} }`;
}

/**
 * Routes name every server; a server knows itself and leaves its own out. Their addresses come as variables, for the
 * password.
 */
function renderCluster(hosts: readonly string[], port: number, tls: string | undefined): string {
  return [
    'cluster {',
    `  name: stator, port: ${port}`,
    '  authorization { user: route, password: $NATS_ROUTE_PASSWORD, timeout: 5 }',
    ...(tls === undefined ? [] : [`  ${tls}`]),
    `  routes: [${hosts.map((_, at) => `$NATS_ROUTE_${at}`).join(', ')}]`,
    '}',
  ].join('\n');
}

/**
 * Returns the shell command that starts a server: it writes the configuration, which has no single quotes, and starts
 * the server. It puts values of variables in double quotes first, because the server would take a password that begins
 * with a digit for a number.
 */
export function renderNatsStart(given: NatsConfiguration & Placement, files: readonly string[] = []): string {
  const { folder, cluster = [], ports = NATS_PORTS } = given;
  const routes = cluster.map((host, at) => {
    const address = host.includes(':') ? host : `${host}:${ports.cluster}`;
    return `export NATS_ROUTE_${at}="\\"nats://route:$NATS_ROUTE_PASSWORD@${address}\\""`;
  });
  const users = Object.keys(PERMISSIONS).flatMap(startUsers);
  const writing = files.map((file) => `printf '%s' "$NATS_${file.toUpperCase()}" > ${folder}/${file}.pem`);
  return [
    'umask 077',
    ...writing,
    `printf '%s' '${renderNatsConfiguration(given)}' > ${folder}/nats.conf`,
    ...routes,
    ...users,
    ...(cluster.length > 0 ? [quoted('NATS_ROUTE_PASSWORD')] : []),
    `exec nats-server -c ${folder}/nats.conf`,
  ].join(' && ');
}

/** In double quotes that the server takes for its own. */
function quoted(name: string): string {
  return `export ${name}="\\"$${name}\\""`;
}

/** Names and passwords of a role. Before the first rotation, the previous user has a password that no process knows. */
function startUsers(role: string): readonly string[] {
  const [current, previous] = usersOf(role);
  const given = (name: string, otherwise: string): string => `${name}="\${${name}:-${otherwise}}"`;
  const password = `${previous}_PASSWORD`;
  return [
    given(`${current}_USERNAME`, role),
    given(`${previous}_USERNAME`, `${role}-before`),
    given(password, 'none'),
    `{ test "$${password}" != none || ${password}=$(od -An -N32 -tx1 /dev/urandom | tr -d " \\n"); }`,
    `test -n "$${password}"`,
    ...[current, previous].flatMap((user) => [quoted(`${user}_USERNAME`), quoted(`${user}_PASSWORD`)]),
  ];
}

/**
 * Returns the shell command of the health check of a server's container: exit status 0 is healthy.
 *
 * Servers of a new cluster have no JetStream before all of them are connected, and `/healthz` answers 503 until then.
 * While a peer is missing it is enough that the server lives: a deployment starts each server only when the one before
 * it is healthy. Once all peers are connected it is healthy when it holds what they hold, so that a server with an
 * empty disk holds the restart of the next one back.
 */
export function renderNatsHealth({ cluster, ports = NATS_PORTS }: Partial<NatsConfiguration & Placement>): string {
  const ask = (path: string): string => `wget -q -O - http://127.0.0.1:${ports.monitor}/${path}`;
  const isCurrent = `${ask('healthz')} > /dev/null`;
  if (cluster === undefined) return `${isCurrent} || exit 1`;
  const peers = `printf %s "$routes" | grep -o '"remote_name": "[^"]*"' | sort -u | wc -l`;
  return `${isCurrent} || { routes=$(${ask('routez')}) && test "$(${peers})" -lt ${cluster.length - 1}; } || exit 1`;
}
