import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EtcdDiscovery } from '../../../shared/discovery/etcd/etcd-discovery.ts';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import {
  type EtcdMember,
  type EtcdOptions,
  FreezableClock,
  hasEtcd,
  startEtcd,
  startTcpProxy,
  type TcpProxy,
  waitUntil,
} from '../../support/index.ts';

const TTL_MS = 2000;
/** For tests in which members elect a leader, for up to a second. */
const LONG_TTL_MS = 6000;
const instances = { bucket: 'v1/instances', prefix: '' } as const;
const [LIVING, OTHER, LATER] = ['ns/backend/generate/a', 'ns/backend/generate/b', 'ns/backend/generate/c'] as const;

describe.runIf(hasEtcd())('discovery in an etcd that fails', { timeout: 60_000 }, () => {
  const cleanUps: (() => Promise<void>)[] = [];
  const clusterOf = async (options?: EtcdOptions) => {
    const { members, urls, stop } = await startEtcd(options);
    cleanUps.push(stop);
    return { members, urls, first: members[0] as EtcdMember }; // there is one
  };
  const leaseOf = async (member: EtcdMember): Promise<{ readonly ID: string }> => {
    const { leases } = (await member.call('lease/leases', {})) as { readonly leases: [{ readonly ID: string }] };
    return leases[0];
  };
  const proxyTo = async (url: string): Promise<TcpProxy & { readonly url: string }> => {
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: Number(new URL(url).port) });
    cleanUps.push(() => proxy.close());
    return { ...proxy, url: `http://127.0.0.1:${proxy.port}` };
  };
  const open = (endpoints: readonly string[], ttlMs = TTL_MS) => {
    const [clock, problems]: [FreezableClock, string[]] = [new FreezableClock(), []];
    const onProblem = ({ message }: Error): void => void problems.push(message);
    const discovery = new EtcdDiscovery({ endpoints, ttlMs, clock, onProblem, probeMs: 500 });
    cleanUps.push(() => discovery.close());
    return { discovery, clock, problems };
  };
  /** A worker and a frontend that watches it. */
  const fleetOn = async (workerAt: readonly string[], frontendAt: readonly string[] = workerAt, ttlMs = TTL_MS) => {
    const [worker, frontend] = [open(workerAt, ttlMs), open(frontendAt, ttlMs)];
    const witness = new Witness();
    await worker.discovery.put(endpointAt(LIVING));
    await frontend.discovery.watch(instances, witness);
    expect(witness.keys).toEqual([LIVING]);
    return { worker, frontend, witness };
  };
  const eventsOf = (witness: Witness, key: string) =>
    witness.events.filter((event) => event.key === key).map(({ kind }) => kind);
  const shows = (witness: Witness, keys: readonly string[]) => waitUntil(() => witness.keys.join() === keys.join());

  beforeEach(() => void cleanUps.splice(0));
  afterEach(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  it('goes on with another member when the one in use is killed, and loses no worker', async () => {
    const { members, urls } = await clusterOf({ members: 3 });
    const { worker, witness } = await fleetOn(urls, urls, LONG_TTL_MS);
    const lost: string[] = [];
    worker.discovery.onLeaseLost(() => lost.push('lost'));
    for (const member of members) {
      await member.kill();
      await worker.discovery.put(endpointAt(OTHER));
      await shows(witness, [LIVING, OTHER]);
      await worker.discovery.remove(endpointAt(OTHER));
      await shows(witness, [LIVING]);
      await member.restart();
    }
    expect(eventsOf(witness, LIVING)).toEqual(['added']);
    expect(witness.outages).toEqual([]);
    expect(lost).toEqual([]);
  });

  it('goes on when the member in use leaves the cluster', async () => {
    const { members, first, urls } = await clusterOf({ members: 3 });
    const { worker, witness } = await fleetOn(urls);
    const second = members[1] as EtcdMember;
    const { members: listed } = (await second.call('cluster/member/list', {})) as {
      readonly members: readonly { readonly name: string; readonly ID: string }[];
    };
    const { ID } = listed.find(({ name }) => name === 'm0') ?? {};
    await second.call('cluster/member/remove', { ID });
    await first.kill();
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
    expect(eventsOf(witness, LIVING)).toEqual(['added']);
  });

  it('keeps what it knows while etcd restarts, and shows what changed meanwhile', async () => {
    const { first, urls } = await clusterOf();
    const { worker, witness } = await fleetOn(urls);
    await first.kill();
    await waitUntil(() => witness.outages.length === 1);
    await first.restart();
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
    expect(witness.outages).toEqual([expect.stringMatching(/^failing: cannot read discovery in etcd at/), 'recovered']);
    expect(eventsOf(witness, LIVING)).toEqual(['added']);
  });

  it('notices a network that drops packets, and catches up when it is over', async () => {
    const { urls } = await clusterOf();
    const proxy = await proxyTo(urls[0] ?? '');
    const { worker, witness } = await fleetOn(urls, [proxy.url]);
    proxy.stall();
    await waitUntil(() => witness.outages.length === 1);
    await worker.discovery.put(endpointAt(OTHER));
    await worker.discovery.remove(endpointAt(LIVING));
    proxy.restore();
    await shows(witness, [OTHER]);
    expect(eventsOf(witness, OTHER)).toEqual(['added']);
  });

  it('leaves a member that is cut off from the others', async () => {
    const { first, urls } = await clusterOf({ members: 3 });
    const { worker, frontend, witness } = await fleetOn(urls, urls, LONG_TTL_MS);
    const lost: string[] = [];
    worker.discovery.onLeaseLost(() => lost.push('lost'));
    first.freeze();
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
    await frontend.discovery.put(endpointAt(LATER));
    const frozenAtMs = worker.clock.nowMs();
    await waitUntil(() => worker.clock.nowMs() > frozenAtMs + LONG_TTL_MS);
    await shows(witness, [LIVING, OTHER, LATER]);
    first.thaw();
    expect([lost, eventsOf(witness, LIVING)]).toEqual([[], ['added']]);
  });

  it('outlives an etcd that stands still for longer than a lease lives', async () => {
    const { first, urls } = await clusterOf();
    const { worker, witness } = await fleetOn(urls);
    first.freeze();
    const told: string[] = [];
    worker.discovery.onLeaseLost(() => told.push('lost'));
    worker.discovery.onLeaseRegained(() => told.push('regained'));
    await waitUntil(() => told.length === 1 && witness.outages.length === 1);
    first.thaw();
    await waitUntil(() => told.length === 2 && witness.outages.length === 2);
    expect(await worker.discovery.list(instances)).toEqual([endpointAt(LIVING)]);
    await shows(witness, [LIVING]);
  });

  it('writes everything again after its lease was revoked', async () => {
    const { first, urls } = await clusterOf();
    const { worker, witness } = await fleetOn(urls);
    await worker.discovery.put(modelAt(LIVING));
    const lease = await leaseOf(first);
    await first.call('lease/revoke', lease);
    await shows(witness, []);
    await shows(witness, [LIVING]);
    expect(await worker.discovery.list({ bucket: 'v1/mdc', prefix: '' })).toEqual([modelAt(LIVING)]);
  });

  it('takes a put for a new lease if the lease is gone', async () => {
    const { first, urls } = await clusterOf();
    const { worker, witness } = await fleetOn(urls);
    const lease = await leaseOf(first);
    worker.clock.freeze();
    await first.call('lease/revoke', lease);
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
  });

  it('shows what is there after the changes that it missed were compacted away', async () => {
    const { first, urls } = await clusterOf();
    const proxy = await proxyTo(urls[0] ?? '');
    const { worker, witness } = await fleetOn(urls, [proxy.url]);
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
    proxy.cut();
    await waitUntil(() => witness.outages.length === 1);
    await worker.discovery.remove(endpointAt(OTHER));
    await worker.discovery.put(endpointAt(LATER));
    const { header } = (await first.call('kv/range', { key: 'AA==' })) as { header: { revision: string } };
    await first.call('kv/compaction', { revision: header.revision, physical: true });
    proxy.restore();
    await shows(witness, [LIVING, LATER]);
    expect(eventsOf(witness, LIVING)).toEqual(['added']);
  });

  it('keeps a living worker, and drops a dead one, when etcd has lost its data', async () => {
    const { first, urls } = await clusterOf();
    const { worker, witness } = await fleetOn(urls);
    const dying = open(urls);
    await dying.discovery.put(endpointAt(OTHER));
    for (let at = 0; at < 20; at++) await worker.discovery.put(endpointAt(LIVING, `127.0.0.1:${4000 + at}`));
    await waitUntil(() => eventsOf(witness, LIVING).length === 20);
    await shows(witness, [LIVING, OTHER]);
    dying.clock.freeze();
    await first.restart(true);
    await shows(witness, [LIVING]);
    expect(eventsOf(witness, LIVING)).not.toContain('removed');
    expect(await worker.discovery.list(instances)).toEqual([endpointAt(LIVING, '127.0.0.1:4019')]);
    await worker.discovery.put(endpointAt(LATER));
    await shows(witness, [LIVING, LATER]);
  });

  it('does not take the word of a member of another cluster', async () => {
    const [own, foreign] = [await clusterOf(), await clusterOf()];
    const { worker, frontend, witness } = await fleetOn([...own.urls, ...foreign.urls]);
    await own.first.kill();
    await waitUntil(() => witness.outages.length === 1);
    await expect(frontend.discovery.list(instances)).rejects.toThrow(/cannot read discovery in etcd at/);
    await own.first.restart();
    await worker.discovery.put(endpointAt(OTHER));
    await shows(witness, [LIVING, OTHER]);
    expect(eventsOf(witness, LIVING)).toEqual(['added']);
    const stranger = open(foreign.urls);
    expect(await stranger.discovery.list(instances)).toEqual([]);
  });

  it('moves to a cluster that has taken the place of the old one', async () => {
    const [old, next] = [await clusterOf(), await clusterOf()];
    const proxies = [await proxyTo(old.urls[0] ?? ''), await proxyTo(next.urls[0] ?? '')] as const;
    const { witness } = await fleetOn([proxies[0].url]);
    await proxies[0].close();
    const moved = await startTcpProxy({ host: '127.0.0.1', port: next.first.port ?? 0 }, proxies[0].port);
    cleanUps.push(() => moved.close());
    await waitUntil(async () => (await listIn(next.urls)).length === 1);
    expect(eventsOf(witness, LIVING)).not.toContain('removed');
    await shows(witness, [LIVING]);
  });

  async function listIn(urls: readonly string[]): ReturnType<Discovery['list']> {
    const discovery = new EtcdDiscovery({ endpoints: urls });
    const records = await discovery.list(instances);
    await discovery.close();
    return records;
  }
});
