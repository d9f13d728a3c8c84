import { readFile } from 'node:fs/promises';
import type { Authenticator, ConnectionOptions, NatsConnection, TlsOptions, WsSocketFactory } from '@nats-io/nats-core';
import type { MessageEvent } from 'ws';
import { CHUNK_BYTES_MAX, guardedTransports, StreamBounds } from './guarded-transport.ts';
import { loadNatsCore, loadTransportNode, loadWs } from './library.ts';
import type { NatsIdentity, NatsOptions, NatsTls } from './types.ts';

const CONNECT_TIMEOUT_MS = 5000;
const PING_INTERVAL_MS = 5000;
const UNANSWERED_PINGS_MAX = 2;

/** Opens one connection to the first of `servers` that answers. The caller reconnects. */
export async function dialNats(options: NatsOptions, servers: readonly string[]): Promise<NatsConnection> {
  const core = await loadNatsCore();
  const identity = options.identity ?? identityIn(servers);
  const common: ConnectionOptions = {
    servers: [...servers],
    name: options.name ?? 'stator',
    timeout: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    pingInterval: options.pingIntervalMs ?? PING_INTERVAL_MS,
    maxPingOut: UNANSWERED_PINGS_MAX,
    reconnect: false,
    ignoreClusterUpdates: true, // the client learns them when it dials again
    ...(identity === undefined ? {} : { authenticator: await authenticatorFor(identity, core) }),
  };
  if (servers.some((server) => /^wss?:/.test(server))) {
    const wsFactory = await webSocketFactory(options.tls, common.timeout ?? CONNECT_TIMEOUT_MS);
    return core.wsconnect({ ...common, wsFactory });
  }
  const { NatsConnectionImpl, setTransportFactory } = await loadTransportNode();
  const tls = tlsFor(options.tls, servers);
  setTransportFactory(await guardedTransports()); // instead of the library's `connect`
  return NatsConnectionImpl.connect({ ...common, ...(tls === undefined ? {} : { tls }) });
}

/** Reads `nats://user:password@host` or `nats://token@host`, which the library ignores. */
function identityIn(servers: readonly string[]): NatsIdentity | undefined {
  for (const server of servers) {
    const { username, password } = new URL(server);
    const [name, secret] = [decodeURIComponent(username), decodeURIComponent(password)];
    if (secret !== '') return { kind: 'password', username: name, password: secret };
    if (name !== '') return { kind: 'token', token: name };
  }
  return undefined;
}

async function authenticatorFor(
  identity: NatsIdentity,
  core: Awaited<ReturnType<typeof loadNatsCore>>,
): Promise<Authenticator> {
  switch (identity.kind) {
    case 'password':
      return core.usernamePasswordAuthenticator(identity.username, identity.password);
    case 'token':
      return core.tokenAuthenticator(identity.token);
    case 'nkey':
      return core.nkeyAuthenticator(new TextEncoder().encode(identity.seed));
    case 'credentials':
      return core.credsAuthenticator(await readFile(identity.file)); // read at each attempt, so that it may be renewed
  }
}

/** TLS options. The library uses TLS if the server asks for it; these options are for certificates and for `tls://`. */
function tlsFor(tls: NatsTls | undefined, servers: readonly string[]): TlsOptions | undefined {
  if (tls === undefined) return servers.some((server) => server.startsWith('tls:')) ? {} : undefined;
  const { caFile, certFile, keyFile, isInsecure = false } = tls;
  return {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
    ...{ rejectUnauthorized: !isInsecure }, // passed on to node:tls; missing from the library's types
  };
}

/**
 * Makes the WebSockets of the library: with certificates, on every supported Node, and with the limits that a server's
 * bytes have over TCP. A broken limit ends the connection before the library has seen the bytes.
 *
 * @throws if a file of `tls` cannot be read
 */
async function webSocketFactory(tls: NatsTls | undefined, timeoutMs: number): Promise<WsSocketFactory> {
  const { WebSocket } = await loadWs();
  const certificates = await readCertificates(tls);
  return async (url) => {
    const socket = new WebSocket(url, {
      ...certificates,
      handshakeTimeout: timeoutMs,
      maxPayload: CHUNK_BYTES_MAX,
      perMessageDeflate: false,
    });
    const bounds = new StreamBounds();
    // The library sets this property once, before it hears anything.
    Object.defineProperty(socket, 'onmessage', {
      set: (listener: ((event: MessageEvent) => void) | null) => {
        socket.removeAllListeners('message');
        if (listener === null) return;
        socket.addEventListener('message', (event) => {
          if (socket.bufferedAmount === 0) bounds.pongsAreRead();
          const { data } = event; // bytes come as the library asks for them
          const broken = data instanceof ArrayBuffer ? bounds.check(new Uint8Array(data)) : 'text';
          if (broken === undefined) listener(event);
          else socket.close(1002, `the server sends ${broken}`.slice(0, 120));
        });
      },
    });
    // The common part of the two kinds of sockets that the library uses.
    return { socket: socket as unknown as globalThis.WebSocket, encrypted: url.startsWith('wss:') };
  };
}

async function readCertificates(tls: NatsTls | undefined) {
  if (tls === undefined) return {};
  const { caFile, certFile, keyFile, isInsecure = false } = tls;
  const read = async (name: 'ca' | 'cert' | 'key', file: string | undefined) =>
    file === undefined ? {} : { [name]: await readFile(file) };
  return {
    ...(await read('ca', caFile)),
    ...(await read('cert', certFile)),
    ...(await read('key', keyFile)),
    rejectUnauthorized: !isInsecure,
  };
}
