import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { ASK, EtcdClient } from '../../../shared/discovery/etcd/etcd-client.ts';
import { EtcdDiscovery } from '../../../shared/discovery/etcd/etcd-discovery.ts';
import { packLoads } from '../../../shared/discovery/loads.ts';
import { emptyEtcd } from '../../contract/discovery/empty-etcd.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import {
  type EtcdCluster,
  type EtcdMember,
  FreezableClock,
  hasEtcd,
  startEtcd,
  waitUntil,
} from '../../support/index.ts';

const NEVER = new AbortController().signal;
const PAGE_KEYS = 500;

/** The key and value of a worker's record. */
function recordAt(path: string) {
  return { key: Buffer.from(`stator/v1/instances/${path}`), value: Buffer.from(JSON.stringify(endpointAt(path))) };
}

describe.runIf(hasEtcd())('the cost of discovery in etcd', { timeout: 60_000 }, () => {
  let cluster: EtcdCluster;
  let member: EtcdMember;
  beforeAll(async () => {
    cluster = await startEtcd();
    member = cluster.members[0] as EtcdMember; // it starts one
  });
  afterAll(() => cluster.stop());

  /** Messages of each method that etcd received while `work` ran. */
  const countedIn = async (work: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> => {
    const before = await member.received();
    await work();
    const after = Object.entries(await member.received()).map(([name, count]) => [name, count - (before[name] ?? 0)]);
    return Object.fromEntries(after.filter(([, count]) => count !== 0));
  };

  /** Writes the records of many workers, as their processes would. */
  const populate = async (count: number): Promise<void> => {
    await emptyEtcd(member.url);
    const client = new EtcdClient({ endpoints: [member.url], clock: systemClock });
    for (let from = 0; from < count; from += 100) {
      const success = Array.from({ length: Math.min(100, count - from) }, (_, at) => {
        const path = `ns/backend/generate/${(0xa0_0000 + from + at).toString(16)}`;
        return { request: { case: 'requestPut' as const, value: recordAt(path) } };
      });
      await client.ask(ASK.transact, { success }, NEVER);
    }
    client.close();
  };

  it.each([10, 1000, 10_000])('is the same for each worker and each change, beside %d workers', async (count) => {
    await populate(count);
    const [frontend, worker] = [
      new EtcdDiscovery({ endpoints: [member.url], ttlMs: 3000 }),
      new EtcdDiscovery({ endpoints: [member.url], ttlMs: 3000 }),
    ];
    const witness = new Witness();
    const reading = await countedIn(() => frontend.watch({ bucket: 'v1/instances', prefix: '' }, witness));
    expect(witness.present.size).toBe(count);
    const { Range: pages = 0 } = reading;
    expect(pages).toBeGreaterThanOrEqual(Math.ceil(count / PAGE_KEYS));
    expect(pages).toBeLessThanOrEqual(Math.ceil(count / PAGE_KEYS) + 1);

    const joined = await countedIn(async () => {
      await worker.put(endpointAt('ns/backend/generate/1'));
      await worker.put(modelAt('ns/backend/generate/1'));
      await waitUntil(() => witness.present.size === count + 1);
    });
    expect(joined).toMatchObject({ LeaseGrant: 1, Put: 2 });
    expect(joined.Range ?? 0).toBeLessThanOrEqual(1); // the orders to the worker; the frontend reads nothing

    let renewals = 0;
    const before = await member.received();
    const renewed = await countedIn(() =>
      waitUntil(async () => {
        renewals = ((await member.received()).LeaseKeepAlive ?? 0) - (before.LeaseKeepAlive ?? 0);
        return renewals >= 2;
      }),
    );
    expect(renewed).toEqual({ LeaseKeepAlive: renewals });

    const load = { ranks: [{ dpRank: 0, requests: 1, decodeBlocks: 2, prefillTokens: 3 }], isDraining: false };
    let shown = -1;
    await countedIn(async () => {
      frontend.watchLoads((loads) => {
        shown = loads.size;
      });
      await frontend.refresh(0);
    });
    const loaded = await countedIn(async () => {
      worker.setLoad('1', load);
      await waitUntil(() => shown === 1);
    });
    expect([loaded.Put, loaded.Range]).toEqual([1, undefined]);

    expect(await countedIn(() => frontend.refresh(0))).toMatchObject({ Txn: 2 }); // one for each watch
    const ordered = await countedIn(() => frontend.orderDrain(['1'], { reason: 'scale-in', deadlineMs: 1e12 }));
    expect(ordered).toMatchObject({ Put: 1 });
    await Promise.all([frontend.close(), worker.close()]);
  });

  it('shows the loads of many processes together, and all that is known after a refresh', async () => {
    await emptyEtcd(member.url);
    const clock = new FreezableClock();
    const frontend = new EtcdDiscovery({ endpoints: [member.url], clock });
    const sizes: number[] = [];
    frontend.watchLoads((loads) => void sizes.push(loads.size));
    await frontend.refresh(0);
    const witness = new Witness();
    await frontend.watch({ bucket: 'v1/instances', prefix: '' }, witness);
    const client = new EtcdClient({ endpoints: [member.url], clock: systemClock });
    const writeLoads = async (ids: readonly string[]): Promise<void> => {
      for (const id of ids) {
        const value = packLoads(new Map([[id, { ranks: [], isDraining: false }]]));
        await client.ask(ASK.put, { key: Buffer.from(`stator/v1/loads/${id}`), value }, NEVER);
      }
    };
    clock.freeze();
    await writeLoads(Array.from({ length: 20 }, (_, at) => `a${at}`));
    await client.ask(ASK.put, recordAt('ns/backend/generate/f'), NEVER);
    await waitUntil(() => witness.present.size === 1); // the loads were heard before
    expect(sizes).toEqual([0]);
    clock.thaw();
    await waitUntil(() => sizes.length > 1);
    expect(sizes).toEqual([0, 20]);
    clock.freeze();
    await writeLoads(['b0']);
    await frontend.refresh(0);
    expect(sizes).toEqual([0, 20, 21]);
    client.close();
    await frontend.close();
  });
});
