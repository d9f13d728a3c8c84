import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  askAbout,
  hasNatsServer,
  type NatsServer,
  type StatorProcess,
  startNatsServer,
  useFleet,
  waitUntil,
} from '../support/index.ts';

const SENTENCES = 120;
/** By events alone: the interval is far away. */
const KV = ['--router-mode=kv', '--router-snapshot-threshold=2'];

describe.runIf(hasNatsServer())('frontends of one machine that share a folder and NATS, without a table', () => {
  const env: Record<string, string> = { STATOR_LEASE_TTL_SECS: '2', STATOR_SNAPSHOT_INTERVAL_SECS: '3600' };
  const fleet = useFleet(env);
  let nats: NatsServer;
  let first: StatorProcess;

  beforeAll(async () => {
    nats = await startNatsServer();
    Object.assign(env, { DYN_EVENT_PLANE: 'nats', NATS_SERVER: nats.url, STATOR_NATS_STREAM_MAX_MB: '64' });
    [first] = await Promise.all([fleet.frontend(KV), fleet.worker(['--block-size=16', '--speedup-ratio=10'])]);
    await fleet.untilWorkers(first, 1);
  });
  afterAll(() => nats?.stop());

  const written = (): Promise<number> => first.metric('stator_router_index_snapshots_total');
  async function hydrated(args: readonly string[]): Promise<StatorProcess> {
    const frontend = await fleet.frontend([...KV, ...args]);
    await fleet.untilWorkers(frontend, 1);
    await waitUntil(async () => (await frontend.metric('stator_router_index_hydrations_total')) > 0, {
      what: 'an index',
      timeoutMs: 20_000,
    });
    return frontend;
  }

  it('write a snapshot after as many events as --router-snapshot-threshold says, and say so', async () => {
    let topic = 0;
    await waitUntil(
      async () => {
        await askAbout(first, `topic ${++topic}`, SENTENCES);
        return (await written()) > 0;
      },
      { what: 'a snapshot', timeoutMs: 20_000, pollMs: 100 },
    );
    await first.waitForOutput(/a snapshot of the block index was written/);
    expect(await first.metric('stator_router_state_lease_held', 'component="backend"')).toBe(1);
  });

  it('begin with it, or without it where --router-reset-states is given', async () => {
    const second = await hydrated([]);
    expect(await second.metric('stator_router_index_hydrations_total', 'from="snapshot"')).toBe(1);
    await second.kill();
    const reset = await hydrated(['--router-reset-states']);
    await reset.waitForOutput(/the stored snapshot of the block index is dropped/);
    expect(await reset.metric('stator_router_index_hydrations_total', 'from="snapshot"')).toBe(0);
  });
});
