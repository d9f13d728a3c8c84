import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeAccess } from '../../../shared/discovery/kubernetes/access.ts';
import { KubernetesDiscovery } from '../../../shared/discovery/kubernetes/kubernetes-discovery.ts';
import type { KubernetesDiscoveryOptions } from '../../../shared/discovery/kubernetes/options.ts';
import { endpointAt, modelAt, Witness } from '../../contract/discovery/records.ts';
import { startTcpProxy, type TcpProxy, waitUntil } from '../../support/index.ts';
import { type ClusterPod, FakeCluster, sliceOf } from '../../support/kube/cluster.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const instances = { bucket: 'v1/instances', prefix: '' } as const;
const WORKERS = 'dynamoworkermetadatas';

describe('discovery in Kubernetes', () => {
  let cluster: FakeCluster;
  let proxy: TcpProxy;
  const opened: KubernetesDiscovery[] = [];
  beforeEach(async () => {
    cluster = await FakeCluster.start();
    proxy = await startTcpProxy({ host: '127.0.0.1', port: cluster.api.port });
  });
  afterEach(async () => {
    proxy.restore();
    await Promise.all(opened.splice(0).map((discovery) => discovery.close()));
    await proxy.close();
    await cluster.close();
  });

  /** Opens a handle as the process of a pod, or of none. */
  const open = (options: Partial<KubernetesDiscoveryOptions> = {}) => {
    const problems: string[] = [];
    const access = { server: new URL(`http://127.0.0.1:${proxy.port}`), credentials: async () => ({}) };
    const onProblem = (problem: Error) => problems.push(problem.message);
    const discovery = new KubernetesDiscovery({ access, namespace: 'default', onProblem, ...options });
    opened.push(discovery);
    return { discovery, problems };
  };
  /** Opens a handle in a ready pod that has registered a worker. */
  const openWorker = async (id: string, options: Partial<KubernetesDiscoveryOptions> = {}) => {
    const identity = cluster.addPod();
    cluster.setReady(identity.name, true);
    const { discovery, problems } = open({ identity, ...options });
    await discovery.put(endpointAt(`ns/backend/generate/${id}`));
    return { discovery, identity, problems };
  };
  const watched = async (discovery = open().discovery) => {
    const witness = new Witness();
    await discovery.watch(instances, witness);
    await waitUntil(() => cluster.api.watches >= 2);
    return witness;
  };
  const reads = () => cluster.api.counts()[`list ${WORKERS}`] ?? 0;

  it('goes on after a lost watch from where it was, without reading again', async () => {
    const witness = await watched();
    const before = reads();
    await openWorker('a');
    await waitUntil(() => witness.present.size === 1);
    cluster.api.dropWatches();
    await openWorker('b');
    await waitUntil(() => witness.present.size === 2);
    expect(reads() - before).toBe(0);
    expect(witness.outages).toEqual([]);
  });

  it('reads again if the server has forgotten the changes that it missed, and tells only what changed', async () => {
    const witness = await watched();
    const worker = await openWorker('a');
    await openWorker('b');
    await waitUntil(() => witness.present.size === 2);
    proxy.cut();
    cluster.setReady(worker.identity.name, false);
    cluster.api.compact();
    proxy.restore();
    await waitUntil(() => witness.present.size === 1);
    expect(witness.events.map(({ kind, key }) => `${kind} ${key}`)).toEqual([
      'added ns/backend/generate/a',
      'added ns/backend/generate/b',
      'removed ns/backend/generate/a',
    ]);
  });

  it('keeps all processes while the server is away, and a living one keeps its lease', async () => {
    const clock = new VirtualClock();
    const reader = open();
    const witness = await watched(reader.discovery);
    const told: string[] = [];
    const worker = await openWorker('a', { clock });
    worker.discovery.onLeaseLost(() => told.push('lost'));
    await waitUntil(() => witness.present.size === 1);
    proxy.cut();
    await waitUntil(() => witness.outages.length === 1);
    await clock.advance(60_000);
    expect(witness.keys).toEqual(['ns/backend/generate/a']);
    proxy.restore();
    await waitUntil(() => witness.outages.length === 2);
    expect(witness.outages).toEqual([
      expect.stringContaining('cannot read discovery in the Kubernetes API'),
      'recovered',
    ]);
    expect(witness.events).toHaveLength(1);
    expect(told).toEqual([]);
  });

  it('closes a watch that opens only after a reading has failed', async () => {
    let openAll = () => {};
    cluster.api.watchesOpenAt = new Promise<void>((resolve) => {
      openAll = resolve;
    });
    const { discovery } = open();
    const witness = new Witness();
    await discovery.watch(instances, witness);
    const asked = () => ['endpointslices', WORKERS].map((resource) => cluster.api.counts()[`watch ${resource}`]);
    await waitUntil(() => asked().join() === '1,1');
    cluster.api.judge = ({ verb }) => (verb === 'list' ? 500 : undefined);
    await discovery.refresh(0);
    cluster.api.judge = undefined;
    await waitUntil(() => asked().join() === '2,2');
    openAll(); // all four open now
    await waitUntil(() => cluster.api.watches === 2);
    await openPod('a');
    await waitUntil(() => witness.present.size === 1);
  });

  it('hears a dead connection by its silence, and opens another', async () => {
    const clock = new VirtualClock();
    const witness = await watched(open({ clock }).discovery);
    proxy.stall();
    await openPod('a');
    proxy.restore();
    await clock.advance(151_000);
    await waitUntil(() => witness.present.size === 1);
  });

  /** Registers a worker directly in the cluster, beside the proxy. */
  async function openPod(id: string): Promise<ClusterPod> {
    const identity = cluster.addPod();
    cluster.setReady(identity.name, true);
    const access: KubeAccess = {
      server: new URL(`http://127.0.0.1:${cluster.api.port}`),
      credentials: async () => ({}),
    };
    await open({ identity, access }).discovery.put(endpointAt(`ns/backend/generate/${id}`));
    return identity;
  }

  it('reads again after a silence, in which the server waits for a version that it had before it lost its data', async () => {
    const clock = new VirtualClock();
    const witness = await watched(open({ clock }).discovery);
    const identity = await openPod('a');
    await waitUntil(() => witness.present.size === 1);
    await Promise.all(opened.splice(1).map((worker) => worker.close()));
    await openPod('b');
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b');
    cluster.api.store(WORKERS).remove(identity.name);
    cluster.api.lose();
    await waitUntil(() => cluster.api.watches >= 2); // open again, and silent
    await clock.advance(151_000);
    await waitUntil(() => witness.present.size === 0);
  });

  it('keeps a bookmark: after it, changes before it may be forgotten', async () => {
    const witness = await watched();
    cluster.addPod(); // another resource: the version moves on
    cluster.api.sendBookmarks();
    await openWorker('a');
    await waitUntil(() => witness.present.size === 1);
    const before = reads();
    cluster.addPod();
    cluster.api.sendBookmarks();
    cluster.api.compact();
    await open().discovery.list(instances); // the bookmarks were sent before this answer
    cluster.api.dropWatches();
    await openWorker('b');
    await waitUntil(() => witness.present.size === 2);
    expect(reads() - before).toBe(1); // the listing
  });

  it('writes its object again after it was removed', async () => {
    const witness = await watched();
    const { identity } = await openWorker('a');
    await waitUntil(() => witness.present.size === 1);
    await waitUntil(() => cluster.api.watches >= 3); // its own object
    cluster.api.store(WORKERS).remove(identity.name);
    await waitUntil(() => witness.events.length === 3);
    expect(witness.events.map(({ kind }) => kind)).toEqual(['added', 'removed', 'added']);
  });

  it('outlasts a store that was lost with all objects: the living write theirs again', async () => {
    const witness = await watched();
    const { identity } = await openWorker('a');
    await waitUntil(() => witness.present.size === 1);
    await waitUntil(() => cluster.api.watches >= 3);
    proxy.cut();
    await waitUntil(() => witness.outages.length === 1);
    cluster.api.lose();
    proxy.restore();
    await waitUntil(() => cluster.api.store(WORKERS).get(identity.name) !== undefined);
    cluster.api.store('endpointslices').set('all', sliceOf([{ ...identity, isReady: true }]));
    await openWorker('b');
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/a,ns/backend/generate/b');
  });

  it('leaves the name to a pod that replaces its own, and says so', async () => {
    const witness = await watched();
    const old = await openWorker('a');
    await waitUntil(() => cluster.api.watches >= 3);
    cluster.api.store('pods').remove(old.identity.name);
    const identity = cluster.addPod(old.identity.name);
    cluster.setReady(identity.name, true);
    await waitUntil(() => witness.present.size === 0); // the object has the uid of the old pod
    const next = open({ identity });
    await next.discovery.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.keys.join() === 'ns/backend/generate/b');
    await waitUntil(() => old.problems.length === 1);
    expect(old.problems).toEqual([`another process registers as ${identity.name}: no process finds this one any more`]);
    await old.discovery.close();
    expect(await open().discovery.list(instances)).toEqual([endpointAt('ns/backend/generate/b')]);
  });

  /** Replaces the pod of a worker by another one of its name, which registers and has the load of one request. */
  const replace = async (old: Awaited<ReturnType<typeof openWorker>>) => {
    await waitUntil(() => cluster.api.watches === 1); // its own object
    cluster.api.store('pods').remove(old.identity.name);
    const identity = cluster.addPod(old.identity.name);
    const { discovery } = open({ identity });
    await discovery.put(endpointAt('ns/backend/generate/b'));
    discovery.setLoad('b', load(1));
    const lease = () => cluster.api.store('leases').get(`stator-loads-${identity.name}`);
    await waitUntil(() => lease()?.metadata.ownerReferences?.[0]?.uid === identity.uid);
    await waitUntil(() => old.problems.length === 1);
    const written = () => [cluster.api.store(WORKERS).get(identity.name), lease()];
    return { discovery, written };
  };
  const load = (requests: number) => ({
    ranks: [{ dpRank: 0, requests, decodeBlocks: 0, prefillTokens: 0 }],
    isDraining: false,
  });

  it('changes nothing that its successor wrote while it drains, and refuses new records', async () => {
    const clock = new VirtualClock();
    const old = await openWorker('a', { clock });
    old.discovery.setLoad('a', load(1));
    await clock.advance(0);
    await waitUntil(() => cluster.api.store('leases').objects.length === 1);
    const { written } = await replace(old);
    const before = written();
    old.discovery.setLoad('a', { ...load(0), isDraining: true });
    for (let secs = 0; secs < 5; secs++) {
      await clock.advance(1000); // with a renewal
      await old.discovery.list(instances); // a write that was sent is answered before
    }
    expect(written()).toEqual(before);
    await expect(old.discovery.put(endpointAt('ns/backend/generate/c'))).rejects.toThrow(
      `another process has registered as ${old.identity.name}: start this process in a pod with a name of its own`,
    );
    await old.discovery.remove(endpointAt('ns/backend/generate/a'));
    expect(written()).toEqual(before);
    await old.discovery.close();
    expect(written()).toEqual(before);
  });

  it('takes new records again once its successor has removed the object', async () => {
    const old = await openWorker('a', { clock: new VirtualClock() });
    const { discovery } = await replace(old);
    await discovery.close();
    const put = () => old.discovery.put(endpointAt('ns/backend/generate/c'));
    await waitUntil(() =>
      put().then(
        () => true,
        () => false,
      ),
    );
    cluster.api.store('endpointslices').set('all', sliceOf([{ ...old.identity, isReady: true }]));
    const paths = ['ns/backend/generate/a', 'ns/backend/generate/c'];
    expect(await open().discovery.list(instances)).toEqual(paths.map((path) => endpointAt(path)));
  });

  it('gives an order to the process that it was for, and not to its successor in the same container', async () => {
    const worker = await openWorker('a');
    const reasons: string[] = [];
    worker.discovery.onDrainOrdered(({ reason }) => reasons.push(`first ${reason}`));
    await open().discovery.orderDrain(['a'], { reason: 'scale-in', deadlineMs: 1 });
    await waitUntil(() => reasons.length === 1);
    const successor = open({ identity: worker.identity });
    successor.discovery.onDrainOrdered(({ reason }) => reasons.push(`second ${reason}`));
    await successor.discovery.put(endpointAt('ns/backend/generate/b'));
    await open().discovery.orderDrain(['b'], { reason: 'again', deadlineMs: 1 });
    await waitUntil(() => reasons.length === 2);
    expect(reasons).toEqual(['first scale-in', 'second again']);
  });

  it('shows the address of an instance that moved to a standby, and the first one again when that leaves', async () => {
    const witness = await watched();
    await openWorker('7');
    await waitUntil(() => witness.present.size === 1);
    const identity = cluster.addPod();
    cluster.setReady(identity.name, true);
    const standby = open({ identity }).discovery;
    await standby.put(endpointAt('ns/backend/generate/7', 'standby:1'));
    const address = () =>
      (witness.present.get('ns/backend/generate/7') as { transport?: { tcp: string } })?.transport?.tcp;
    await waitUntil(() => address()?.startsWith('standby:1'));
    await standby.close();
    await waitUntil(() => address()?.startsWith('127.0.0.1:4000'));
    expect(witness.events.map(({ kind }) => kind)).toEqual(['added', 'added', 'added']);
  });

  it('counts containers by themselves in mode container', async () => {
    const { name, uid } = cluster.addPod();
    const identity = { name, uid, container: 'engine-1', mainContainer: 'main' };
    const witness = new Witness();
    await open({ mode: 'container' }).discovery.watch(instances, witness);
    await open({ mode: 'container', identity }).discovery.put(endpointAt('ns/backend/generate/a'));
    const ready = (container: string) =>
      cluster.api.store('pods').merge(name, { status: { containerStatuses: [{ name: container, ready: true }] } });
    ready('main');
    expect(witness.present.size).toBe(0);
    ready('engine-1');
    await waitUntil(() => witness.present.size === 1);
    expect(cluster.api.store(WORKERS).get(`${name}-engine-1`)).toBeDefined();
  });

  it('says what is missing: rights, the definition, the pod', async () => {
    const { discovery } = open();
    cluster.api.judge = ({ verb }) => (verb === 'list' ? 403 : undefined);
    await expect(discovery.list(instances)).rejects.toThrow(
      /refuses to read discovery.*rights that docs\/kubernetes.md/,
    );
    cluster.api.judge = ({ resource }) => (resource === WORKERS ? 404 : undefined);
    await expect(discovery.list(instances)).rejects.toThrow(/Install the definition of DynamoWorkerMetadata/);
    await expect(discovery.put(endpointAt('ns/c/e/1'))).rejects.toThrow(/set POD_NAME and POD_UID/);
  });

  it('reads now and then if the rights lack watch, and says so once', async () => {
    cluster.api.judge = ({ verb }) => (verb === 'watch' ? 403 : undefined);
    const { discovery, problems } = open();
    const witness = new Witness();
    await discovery.watch(instances, witness);
    await openPod('a');
    await waitUntil(() => witness.present.size === 1);
    expect(problems.filter((each) => /refuses to watch/.test(each)).length).toBeLessThanOrEqual(2); // pods, objects
    expect(problems[0]).toMatch(/refuses to watch discovery/);
    expect(witness.outages).toEqual([]);
  });

  it('says once that it may not read the loads of workers, or orders to its own', async () => {
    cluster.api.judge = ({ verb, resource }) => (verb === 'list' && resource === 'leases' ? 403 : undefined);
    const reader = open();
    reader.discovery.watchLoads(() => {});
    const lists = () => cluster.api.counts()['list leases'] ?? 0;
    await waitUntil(() => lists() >= 4);
    expect(reader.problems).toEqual([expect.stringMatching(/refuses to watch discovery.*rights/)]);
    cluster.api.judge = ({ verb, resource }) => (verb === 'list' && resource === WORKERS ? 403 : undefined);
    const worker = await openWorker('a');
    await waitUntil(() => (cluster.api.counts()[`list ${WORKERS} by name`] ?? 0) >= 4);
    expect(worker.problems).toEqual([expect.stringMatching(/refuses to watch discovery.*rights/)]);
  });

  it('shows the token again when the server refuses it, and a token that changed', async () => {
    let token = 'first';
    const forced: boolean[] = [];
    const access: KubeAccess = {
      server: new URL(`http://127.0.0.1:${proxy.port}`),
      credentials: async (isRefused) => {
        forced.push(isRefused);
        if (isRefused) token = 'second';
        return { token };
      },
    };
    cluster.api.judge = ({ token: shown }) => (shown === 'second' ? undefined : 401);
    const { discovery } = open({ access });
    expect(await discovery.list(instances)).toEqual([]);
    expect(forced).toContain(true);
    cluster.api.judge = () => 401;
    await expect(discovery.list(instances)).rejects.toThrow(/Check the token/);
  });

  it("shows a worker of Dynamo's beside ours only to those who ask, and never a half-written one", async () => {
    const identity = cluster.addPod('dynamo-worker');
    cluster.setReady(identity.name, true);
    const record = { namespace: 'dynamo', component: 'backend', endpoint: 'generate', instance_id: 4096 };
    const endpoints = { 'dynamo/backend/generate/1000': { type: 'Endpoint', ...record, transport: { tcp: 'h:1/x' } } };
    const metadata = { ownerReferences: [{ kind: 'Pod', uid: identity.uid }] };
    const write = (data: unknown) => cluster.api.store(WORKERS).set(identity.name, { metadata, spec: { data } });
    write({ endpoints, model_cards: {} });
    await openWorker('a');
    const [witness, ofAll] = [new Witness(), new Witness()];
    const { discovery } = open();
    await discovery.watch(instances, witness);
    await discovery.watch({ ...instances, includesDynamo: true }, ofAll);
    expect([witness.keys, ofAll.keys]).toEqual([
      ['ns/backend/generate/a'],
      ['dynamo/backend/generate/1000', 'ns/backend/generate/a'],
    ]);
    await waitUntil(() => cluster.api.watches >= 2);
    write(null);
    await openWorker('b');
    await waitUntil(() => ofAll.present.size === 3);
    write({ endpoints: {}, model_cards: {} });
    await waitUntil(() => ofAll.present.size === 2);
    expect(ofAll.keys).toEqual(['ns/backend/generate/a', 'ns/backend/generate/b']);
  });

  it('registers what a frontend of Dynamo can read, and finds nothing to call in', async () => {
    const { identity, discovery } = await openWorker('a');
    await discovery.put(modelAt('ns/backend/generate/a'));
    expect(cluster.api.store(WORKERS).get(identity.name)).toMatchObject({
      apiVersion: 'nvidia.com/v1alpha1',
      kind: 'DynamoWorkerMetadata',
      metadata: {
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', ...identity, controller: false, blockOwnerDeletion: false }],
      },
      spec: { data: { endpoints: {}, model_cards: {}, event_channels: {}, event_sources: {} } },
    });
  });
});
