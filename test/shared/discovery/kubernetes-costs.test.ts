import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { WorkerLoad } from '../../../shared/discovery/index.ts';
import { KubernetesDiscovery } from '../../../shared/discovery/kubernetes/kubernetes-discovery.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { startTcpProxy, type TcpProxy, waitUntil } from '../../support/index.ts';
import { FakeCluster, sliceOf } from '../../support/kube/cluster.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const WORKERS = 1000;
const SLICE_PODS = 100;
const PAGE_OBJECTS = 500;
const instances = { bucket: 'v1/instances', prefix: '' } as const;

describe('the cost of discovery in Kubernetes', { timeout: 60_000 }, () => {
  let cluster: FakeCluster;
  let proxy: TcpProxy;
  let token = 'first';
  const opened: KubernetesDiscovery[] = [];
  beforeAll(async () => {
    cluster = await FakeCluster.start();
    proxy = await startTcpProxy({ host: '127.0.0.1', port: cluster.api.port });
    for (let from = 0; from < WORKERS; from += SLICE_PODS) {
      const pods = Array.from({ length: SLICE_PODS }, (_, at) => addWorker(`worker-${from + at}`, from + at));
      cluster.api.store('endpointslices').set(`slice-${from}`, sliceOf(pods));
    }
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((discovery) => discovery.close()));
  });
  afterAll(async () => {
    await proxy.close();
    await cluster.close();
  });

  /** Adds a pod and the object of its process, as that would write it. */
  const addWorker = (name: string, at: number) => {
    const { uid } = cluster.addPod(name);
    const path = `ns/backend/generate/${(0xa000 + at).toString(16)}`;
    const records = {
      [`v1/instances ${path}`]: JSON.stringify(endpointAt(path)),
      [`v1/mdc ${path}`]: JSON.stringify(modelAt(path)),
    };
    const metadata = { ownerReferences: [{ kind: 'Pod', uid }] };
    cluster.api
      .store('dynamoworkermetadatas')
      .set(name, { metadata, spec: { data: { stator: { process: 'p', records } } } });
    return { name, uid, isReady: true };
  };
  const open = (options: { readonly clock?: VirtualClock; readonly pod?: string } = {}) => {
    const { pod, ...more } = options;
    const access = { server: new URL(`http://127.0.0.1:${proxy.port}`), credentials: async () => ({ token }) };
    const identity = pod === undefined ? undefined : cluster.addPod(pod);
    const discovery = new KubernetesDiscovery({ access, namespace: 'default', identity, onProblem: () => {}, ...more });
    opened.push(discovery);
    return discovery;
  };
  /** Lets time pass until it holds; what comes over the network comes meanwhile. */
  const until = (clock: VirtualClock, holds: () => boolean, stepMs = 50) =>
    waitUntil(async () => {
      await clock.advance(stepMs);
      return holds();
    });
  /** Calls by verb and resource while `work` ran. */
  const countedIn = async (work: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> => {
    const before = cluster.api.counts();
    await work();
    const counts = Object.entries(cluster.api.counts()).map(([name, count]) => [name, count - (before[name] ?? 0)]);
    return Object.fromEntries(counts.filter(([, count]) => count !== 0));
  };

  it('of a frontend is one reading in pages, however many watches it has, and two open watches', async () => {
    const frontend = open();
    const [witness, ofModels] = [new Witness(), new Witness()];
    const first = await countedIn(async () => {
      await frontend.watch(instances, witness);
      await waitUntil(() => cluster.api.watches === 2);
    });
    expect(first).toEqual({
      'list dynamoworkermetadatas': WORKERS / PAGE_OBJECTS,
      'list endpointslices': 1,
      'watch dynamoworkermetadatas': 1,
      'watch endpointslices': 1,
    });
    // Once it has heard that its watches are open, nothing more is read.
    await waitUntil(async () => Object.keys(await countedIn(() => frontend.refresh(1000))).length === 0);
    const later = await countedIn(async () => {
      await frontend.watch({ bucket: 'v1/mdc', prefix: 'ns' }, ofModels);
      await frontend.refresh(1000);
    });
    expect([witness.present.size, ofModels.present.size, later]).toEqual([WORKERS, WORKERS, {}]);
    expect(await countedIn(() => frontend.refresh(0))).toEqual({
      'list dynamoworkermetadatas': WORKERS / PAGE_OBJECTS,
      'list endpointslices': 1,
    });
  });

  it('of a worker is one write for each record, and one watch of its own object: no renewal asks anything', async () => {
    const clock = new VirtualClock();
    const worker = open({ clock, pod: 'busy' });
    const counted = await countedIn(async () => {
      await worker.put(endpointAt('ns/backend/generate/1'));
      await worker.put(modelAt('ns/backend/generate/1'));
      await waitUntil(() => cluster.api.watches === 1);
    });
    expect(counted).toEqual({
      'patch dynamoworkermetadatas': 2,
      'list dynamoworkermetadatas by name': 1,
      'watch dynamoworkermetadatas by name': 1,
    });
    const { 'list pods': _, ...asked } = await countedIn(async () => {
      const pods = `http://127.0.0.1:${proxy.port}/api/v1/namespaces/default/pods?limit=1`;
      for (let passedMs = 0; passedMs < 140_000; passedMs += 3500) {
        await clock.advance(3500); // a renewal, whose questions would come before the answer to the next line
        await (await fetch(pods)).text();
      }
    });
    expect(asked).toEqual({});
  });

  it('of changing loads is one small write in ten seconds, and one at once when a worker begins to drain', async () => {
    const clock = new VirtualClock();
    const worker = open({ clock, pod: 'loaded' });
    const load = (requests: number, isDraining = false): WorkerLoad => ({
      ranks: [{ dpRank: 0, requests, decodeBlocks: 0, prefillTokens: 0 }],
      isDraining,
    });
    const written = (): number => cluster.api.counts()['patch leases'] ?? 0;
    await worker.put(endpointAt('ns/backend/generate/2'));
    const before = written();
    let requests = 0;
    for (let secs = 0; secs < 60; secs++) {
      worker.setLoad('2', load(++requests));
      const sent = written();
      await clock.advance(1000);
      await worker.list({ bucket: 'v1/instances', prefix: 'none' }); // a write that was sent is answered before
      if (written() > sent + 1) throw new Error('two writes in a second');
    }
    expect(written() - before).toBeGreaterThanOrEqual(4);
    expect(written() - before).toBeLessThanOrEqual(6);
    const sent = written();
    worker.setLoad('2', load(requests, true));
    await clock.advance(1000);
    await waitUntil(() => written() === sent + 1);
    const size = JSON.stringify(cluster.api.store('leases').get('stator-loads-loaded')).length;
    expect(size).toBeLessThan(700);
  });

  it('of an outage of a minute, with changes meanwhile and a token that ended, is a reading; nothing is lost', async () => {
    const clock = new VirtualClock();
    const frontend = open({ clock });
    const witness = new Witness();
    await frontend.watch(instances, witness);
    await waitUntil(() => cluster.api.watches === 2);

    expect(
      await countedIn(async () => {
        cluster.api.dropWatches(); // a lost watch costs no reading
        await waitUntil(() => cluster.api.watches === 0);
        await until(clock, () => cluster.api.watches === 2);
      }),
    ).toEqual({ 'watch dynamoworkermetadatas': 1, 'watch endpointslices': 1 });

    proxy.cut();
    await until(clock, () => witness.outages.length === 1);
    const beganMs = clock.nowMs();
    await until(clock, () => clock.nowMs() >= beganMs + 60_000, 500); // attempts fail meanwhile
    expect(witness.present.size).toBe(WORKERS);
    const late = addWorker('late', 5000);
    cluster.api.store('endpointslices').set('slice-late', sliceOf([late]));
    cluster.api.store('endpointslices').remove('slice-0');
    cluster.api.compact();
    token = 'second';
    cluster.api.judge = ({ token: shown }) => (shown === 'second' ? undefined : 401);
    const counted = await countedIn(async () => {
      proxy.restore();
      await until(clock, () => witness.outages.length === 2);
    });
    // An attempt that was under way may reach the server as well.
    const pages = Math.ceil((WORKERS + 1) / PAGE_OBJECTS);
    expect(counted['list dynamoworkermetadatas']).toBeGreaterThanOrEqual(pages);
    expect(counted['list dynamoworkermetadatas']).toBeLessThanOrEqual(2 * pages);
    expect(counted['list endpointslices']).toBeLessThanOrEqual(2);
    expect(witness.present.size).toBe(WORKERS - SLICE_PODS + 1);
    expect(witness.events).toHaveLength(WORKERS + SLICE_PODS + 1);
    expect(witness.outages[1]).toBe('recovered');
  });
});
