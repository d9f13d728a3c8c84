import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { hasEtcd, startEtcd } from '../etcd-server.ts';
import { hasNatsServer, startNatsServer } from '../nats-server.ts';

/** Store in which processes of Stator and of Dynamo find each other. */
export type MeetingStore = 'file' | 'etcd';
/** Transport of their requests. Events take NATS too if requests do, otherwise ZMQ. */
export type MeetingPlane = 'tcp' | 'nats';

type Env = Record<string, string>;

/** Time to live of leases: short, so that a killed worker is soon forgotten. Dynamo's file store has ten seconds. */
const LEASE_TTL_SECS = '3';

/** Variables that both products read. Everything listens on loopback. */
const COMMON: Readonly<Env> = {
  DYN_TCP_RPC_HOST: '127.0.0.1',
  DYN_TCP_RESPONSE_STREAM_HOST: '127.0.0.1',
  DYN_EVENT_PLANE_HOST: '127.0.0.1',
};

/** Whether the servers of such a meeting place are installed. */
export function canMeet(store: MeetingStore, plane: MeetingPlane): boolean {
  return (store !== 'etcd' || hasEtcd()) && (plane !== 'nats' || hasNatsServer());
}

/**
 * Starts a meeting place for the suite that calls it: an etcd or a folder, and a NATS server if requests take it.
 *
 * @returns variables for processes of both products, complete once the suite's `beforeAll` runs
 */
export function useMeeting(store: MeetingStore, plane: MeetingPlane): Readonly<Env> {
  const env: Env = { ...COMMON, DYN_DISCOVERY_BACKEND: store, DYN_REQUEST_PLANE: plane };
  env.DYN_EVENT_PLANE = plane === 'nats' ? 'nats' : 'zmq';
  const ends: (() => unknown)[] = [];
  beforeAll(async () => {
    if (store === 'file') {
      const folder = mkdtempSync(join(tmpdir(), 'meeting-'));
      ends.push(() => rmSync(folder, { recursive: true, force: true }));
      env.DYN_FILE_KV = folder;
    } else {
      const etcd = await startEtcd();
      ends.push(() => etcd.stop());
      Object.assign(env, { ETCD_ENDPOINTS: etcd.urls.join(), ETCD_LEASE_TTL: LEASE_TTL_SECS });
    }
    if (plane === 'nats') {
      const nats = await startNatsServer();
      ends.push(() => nats.stop());
      env.NATS_SERVER = nats.url;
    }
  });
  afterAll(async () => {
    for (const end of ends.reverse()) await end();
  });
  return env;
}
