import type { JetStreamManager } from '@nats-io/jetstream';
import type { MsgHdrs, NatsConnection } from '@nats-io/nats-core';
import { loadCode } from '../../errors/index.ts';

/*
 * The client library, loaded on first use, so that a process without NATS does not pay for it. Its packages are
 * CommonJS: once they are a chunk of a bundle, their names are only under `default`.
 */

type NatsCore = typeof import('@nats-io/nats-core');
type TransportNode = typeof import('@nats-io/transport-node');
type NodeTransports = typeof import('@nats-io/transport-node/lib/node_transport.js');
type JetStream = typeof import('@nats-io/jetstream');
type ObjectStores = typeof import('@nats-io/obj');
type Ws = typeof import('ws');

export async function loadNatsCore(): Promise<NatsCore> {
  return namesOf(await load(() => import('@nats-io/nats-core')));
}

/** Returns headers of a message. Rejects for a name or a value that cannot be one. */
export async function messageHeaders(fields: Readonly<Record<string, string>>): Promise<MsgHdrs> {
  const made = (await loadNatsCore()).headers();
  for (const [name, value] of Object.entries(fields)) made.set(name, value);
  return made;
}

export async function loadTransportNode(): Promise<TransportNode> {
  return namesOf(await load(() => import('@nats-io/transport-node')));
}

/** Options from which `connect` of the transport makes its connections. */
export async function loadNodeTransport(): Promise<NodeTransports> {
  return namesOf(await load(() => import('@nats-io/transport-node/lib/node_transport.js')));
}

async function loadJetStream(): Promise<JetStream> {
  return namesOf(await load(() => import('@nats-io/jetstream')));
}

export async function loadObjectStores(): Promise<ObjectStores> {
  return namesOf(await load(() => import('@nats-io/obj')));
}

export async function loadWs(): Promise<Ws> {
  return await load(() => import('ws')); // an ES module: its names are its own
}

function load<T>(from: () => Promise<T>): Promise<T> {
  return loadCode('NATS', from);
}

/** Loads now what a stream or an object store needs later; a failure shows there. */
export function beginLoading(): void {
  for (const part of [loadJetStream, loadObjectStores]) part().catch(() => {});
}

function namesOf<Module extends object>(module: Module): Module {
  return 'default' in module ? (module.default as Module) : module;
}

/** Longest wait for one answer of the JetStream API. */
const API_TIMEOUT_MS = 5000;

/** A connection with JetStream's interface on it. */
export interface JetStreamAccess {
  readonly connection: NatsConnection;
  readonly manager: JetStreamManager;
}

/** Adds JetStream to `connection`. The first call shows whether the server has JetStream. */
export async function openJetStream(connection: NatsConnection): Promise<JetStreamAccess> {
  const { jetstreamManager } = await loadJetStream();
  const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS });
  return { connection, manager };
}

/** Returns the code of a failure of the JetStream API; undefined for any other failure. */
export function apiCodeOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === 'number' ? code : undefined;
}

export const STREAM_NOT_FOUND = 10059;
/** A stream of that name exists with other settings. */
export const OTHER_STREAM_EXISTS = 10058;
/**
 * JetStream has too little storage left for what a stream reserves: the server, the account, the account's limit for
 * one stream, or every server of the cluster that could take a replica.
 */
export const NO_STORAGE: ReadonlySet<number | undefined> = new Set([10047, 10002, 10122, 10005]);
export const MESSAGE_NOT_FOUND = 10037;
export const WRONG_LAST_SEQUENCE = 10071;
