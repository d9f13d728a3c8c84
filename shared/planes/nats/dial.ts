import { readFile } from 'node:fs/promises';
import type { Authenticator, ConnectionOptions, NatsConnection, TlsOptions } from '@nats-io/nats-core';
import { guardedTransports } from './guarded-transport.ts';
import { loadNatsCore, loadTransportNode } from './library.ts';
import type { NatsIdentity, NatsOptions, NatsTls } from './types.ts';
import { webSocketFactory } from './web-socket.ts';

const CONNECT_TIMEOUT_MS = 5000;
const PING_INTERVAL_MS = 5000;
const UNANSWERED_PINGS_MAX = 2;

/** Opens one connection to the first of `servers` that answers. Reconnecting is the caller's business. */
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
    ignoreClusterUpdates: true, // whoever dials again has learned them
    ...(identity === undefined ? {} : { authenticator: await authenticatorFor(identity, core) }),
  };
  if (servers.some((server) => /^wss?:/.test(server))) {
    const wsFactory = await webSocketFactory(options.tls, common.timeout ?? CONNECT_TIMEOUT_MS);
    return core.wsconnect({ ...common, wsFactory });
  }
  const { NatsConnectionImpl, setTransportFactory } = await loadTransportNode();
  const tls = tlsFor(options.tls, servers);
  setTransportFactory(await guardedTransports()); // in place of the library's `connect`
  return NatsConnectionImpl.connect({ ...common, ...(tls === undefined ? {} : { tls }) });
}

/** `nats://user:password@host` or `nats://token@host`, which the library passes over. */
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

/** The library uses TLS where the server asks for it; options are for certificates and for `tls://`. */
function tlsFor(tls: NatsTls | undefined, servers: readonly string[]): TlsOptions | undefined {
  if (tls === undefined) return servers.some((server) => server.startsWith('tls:')) ? {} : undefined;
  const { caFile, certFile, keyFile, isInsecure = false } = tls;
  return {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
    ...{ rejectUnauthorized: !isInsecure }, // handed on to node:tls; missing from the library's types
  };
}
