import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Plan } from '../../../../shared/planner/live/connector.ts';
import { waitUntil } from '../../../support/index.ts';
import { hasGroupController, startGroupController } from '../../../support/kube/group-controller.ts';
import { CLAIMING, hasKubeCluster, KubeCluster } from '../../../support/kube/kube-cluster.ts';
import { planCluster } from '../../../support/kube/planned-cluster.ts';
import { documentedRulesWithClaims } from '../../../support/kube/planner-role.ts';
import { podOption } from '../../../support/planner/pod-fleet.ts';

const NEVER = new AbortController().signal;
const GPUS = 8;
/** Rights of a planner of groups. */
const GROUP_RULES = [
  { apiGroups: ['leaderworkerset.x-k8s.io'], resources: ['leaderworkersets/scale'], verbs: ['get', 'update'] },
  { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
];
/** Pods that need no GPU. */
const PLAIN = { containers: [{ name: 'main', image: 'none' }] };

/**
 * Plays rounds until the cluster has taken all steps, and returns the last plan. A Deployment gets a new version also if
 * only its status changes. If that happens twice within a round, the round changes nothing.
 */
async function carryOut({ rounds }: Awaited<ReturnType<typeof planCluster>>, target: number): Promise<Plan> {
  const play = async (): Promise<Plan | false> => {
    const { plan, applied } = await rounds.round(target);
    return applied === 'accepted' && plan;
  };
  return await waitUntil(play, { what: `${target} workers to be accepted`, timeoutMs: 60_000 });
}

describe.runIf(hasKubeCluster())('a planner of a real cluster', { timeout: 180_000 }, () => {
  let cluster: KubeCluster;
  beforeAll(async () => {
    cluster = await KubeCluster.start();
    await cluster.addNode('gpu-0', GPUS);
    await cluster.addDevices('gpu-0', GPUS);
  }, 180_000);
  afterAll(() => cluster?.stop());

  it('goes from one worker to eight and back to the one that has streams', async () => {
    await using bed = await planCluster(cluster);
    const [first] = await cluster.podsOf(bed.at('w0'));
    await carryOut(bed, 8);
    const pods = await cluster.untilReady(bed.at('w0'), 8);
    for (const { name } of pods) bed.loads.set(name, name === first?.name ? 5 : 0);
    expect((await carryOut(bed, 1)).victims).toHaveLength(7);
    expect(await cluster.untilReady(bed.at('w0'), 1)).toMatchObject([{ uid: first?.uid }]);
    expect((await bed.rounds.round(1)).plan).toMatchObject({ isDone: true, steps: [] });
  });

  it('takes the next option if the scheduler finds no GPUs, and says why if there is none', async () => {
    const options = [podOption(0, { max: 20 }), podOption(1, { max: 2 })];
    await using bed = await planCluster(cluster, { options, deployments: { w0: 0, w1: 0 }, pods: { w1: PLAIN } });
    await carryOut(bed, GPUS + 2);
    await cluster.until(
      bed.at('w0'),
      'all GPUs in use',
      (pods) => pods.filter(({ isReady }) => isReady).length === GPUS,
    );
    const replicas = () => Promise.all(['w0', 'w1'].map((name) => cluster.replicasOf(bed.at(name))));
    const next = async (target: number) => {
      const { plan } = await bed.rounds.round(target);
      return plan;
    };
    await waitUntil(async () => (await next(GPUS + 2)) && (await replicas()).join() === `${GPUS},2`, {
      what: 'two workers of the next option',
      timeoutMs: 60_000,
    });
    await cluster.untilReady(bed.at('w1'), 2);
    const plan = await next(GPUS + 3);
    expect(plan.shortage).toMatchObject({ code: 'Unschedulable', option: '0-on-demand' });
    expect(plan.shortage?.problem).toMatch(/0\/1 nodes are available: 1 Insufficient nvidia\.com\/gpu/);
  });

  it('counts the GPUs that the scheduler allocates to the claims of pods', async () => {
    const given = { pods: { w0: CLAIMING }, claimGpus: 3, pool: { gpusPerReplica: 3 } };
    await using bed = await planCluster(cluster, { ...given, rules: await documentedRulesWithClaims() });
    const { pools } = await bed.rounds.observe();
    expect(pools?.decode?.options[0]?.unit?.gpus).toBe(3);
    await carryOut(bed, 3); // for two of them, there are devices
    await cluster.until(bed.at('w0'), 'all claims', (pods) => pods.filter(({ isReady }) => isReady).length === 2);
    const shortage = async () => (await bed.rounds.round(3)).plan.shortage?.problem;
    const told = await waitUntil(shortage, { what: 'a shortage', timeoutMs: 60_000 });
    expect(told).toMatch(/Unschedulable .*cannot allocate all claims/);
  });

  it('changes nothing by a plan for an earlier version, and plans again', async () => {
    await using bed = await planCluster(cluster);
    const plan = bed.rounds.plan(await bed.rounds.observe(), 6);
    await cluster.setReplicas(bed.at('w0'), 3);
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('waiting');
    expect(await cluster.replicasOf(bed.at('w0'))).toBe(3);
    await carryOut(bed, 6);
    expect(await cluster.replicasOf(bed.at('w0'))).toBe(6);
    await cluster.untilReady(bed.at('w0'), 6);
  });

  it('sets a number in the same round if something else of the workload has changed', async () => {
    await using bed = await planCluster(cluster);
    const plan = bed.rounds.plan(await bed.rounds.observe(), 4);
    const path = `/apis/apps/v1/namespaces/${bed.namespace}/deployments/w0`;
    const metadata = { annotations: { note: 'of a person' } };
    await cluster.server.call('PATCH', path, { metadata }, 'application/merge-patch+json');
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('accepted');
    expect(await cluster.replicasOf(bed.at('w0'))).toBe(4);
    await cluster.untilReady(bed.at('w0'), 4);
  });

  it('plans again if a person has removed the pod that it ends', async () => {
    await using bed = await planCluster(cluster, { deployments: { w0: 2 } });
    const [busy, idle] = await cluster.podsOf(bed.at('w0'));
    bed.loads.set(busy?.name ?? '', 5).set(idle?.name ?? '', 0);
    const plan = bed.rounds.plan(await bed.rounds.observe(), 1);
    const path = `/api/v1/namespaces/${bed.namespace}/pods/${idle?.name}`;
    await cluster.server.call('DELETE', path, { gracePeriodSeconds: 0 });
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('waiting');
    await waitUntil(async () => (await bed.rounds.round(1)).plan.isDone, { what: 'one worker', timeoutMs: 60_000 });
    expect(await cluster.untilReady(bed.at('w0'), 1)).toMatchObject([{ uid: busy?.uid }]);
  });

  it('corrects a number that a person has set', async () => {
    await using bed = await planCluster(cluster);
    expect((await bed.rounds.round(1)).plan.steps).toEqual([]);
    await cluster.setReplicas(bed.at('w0'), 0);
    await cluster.untilReady(bed.at('w0'), 0);
    await carryOut(bed, 1);
    await cluster.untilReady(bed.at('w0'), 1);
  });

  it('counts a workload that does not exist as an option without room, and refuses a pool without any', async () => {
    await using bed = await planCluster(cluster, { options: [podOption(0, { max: 2 }), podOption(1)] });
    expect((await bed.rounds.round(4)).plan.shortage?.code).toBe('MaximumReached');
    await cluster.untilReady(bed.at('w0'), 2);
    await using none = await planCluster(cluster, { deployments: {} });
    await expect(none.connector.observe(NEVER)).rejects.toThrow(/do not exist in namespace .*: Deployment\/w0$/);
  });

  it('asks for a new token once the server refuses the old one', async () => {
    let renewed: string | undefined;
    let asked = 0;
    let old = '';
    const credentials = async (isRefused: boolean) => {
      if (isRefused) asked++;
      return { token: isRefused ? (renewed ?? old) : old };
    };
    await using bed = await planCluster(cluster, { access: { credentials } });
    old = bed.token;
    expect((await bed.rounds.observe()).pools?.decode?.ready).toBe(1);
    expect(asked).toBe(0);
    renewed = await cluster.server.renewToken(bed.namespace, 'planner');
    const isRefused = async (): Promise<boolean> =>
      (await bed.rounds.observe()).pools?.decode?.ready === 1 && asked > 0;
    await waitUntil(isRefused, { what: 'the end of the old token', timeoutMs: 60_000 });
  });

  it('rejects while the API server is away, and goes on once it is back', async () => {
    await using bed = await planCluster(cluster);
    const plan = bed.rounds.plan(await bed.rounds.observe(), 4);
    await cluster.server.kill();
    await expect(bed.connector.observe(NEVER)).rejects.toThrow(/^Deployment\/w0 in namespace .* cannot be read: /);
    await expect(bed.connector.apply(plan.steps, NEVER)).rejects.toThrow();
    await cluster.server.restart();
    await carryOut(bed, 4);
    await cluster.untilReady(bed.at('w0'), 4);
  });

  it('lowers a number although a disruption budget refuses every eviction', async () => {
    await using bed = await planCluster(cluster, { deployments: { w0: 2 } });
    await cluster.server.call('POST', `/apis/policy/v1/namespaces/${bed.namespace}/poddisruptionbudgets`, {
      metadata: { name: 'all' },
      spec: { minAvailable: '100%', selector: { matchLabels: { app: 'w0' } } },
    });
    const [busy, idle] = await cluster.podsOf(bed.at('w0'));
    bed.loads.set(busy?.name ?? '', 5).set(idle?.name ?? '', 0);
    const pods = `/api/v1/namespaces/${bed.namespace}/pods`;
    const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: idle?.name } };
    const evict = cluster.server.call('POST', `${pods}/${idle?.name}/eviction`, eviction);
    await expect(evict).rejects.toThrow(/ 429 .*disruption budget/);
    await carryOut(bed, 1);
    expect(await cluster.untilReady(bed.at('w0'), 1)).toMatchObject([{ uid: busy?.uid }]);
  });

  it.runIf(hasGroupController())('goes from one group to three and back, with the controller of groups', async () => {
    const controller = await startGroupController(cluster.server);
    const options = [podOption(0, { workload: 'LeaderWorkerSet/g0' })];
    await using bed = await planCluster(cluster, { options, deployments: {}, rules: GROUP_RULES });
    const groups = bed.at('g0');
    const namesOf = async () => (await cluster.podsOf(groups)).map(({ name }) => name);
    await cluster.addGroups(groups, 1);
    await cluster.untilReady(groups, 2);
    await carryOut(bed, 3);
    await cluster.untilReady(groups, 6);
    expect(await namesOf()).toEqual(['g0-0', 'g0-0-1', 'g0-1', 'g0-1-1', 'g0-2', 'g0-2-1']);
    expect((await bed.rounds.observe()).pools?.decode).toMatchObject({ ready: 3, starting: 0, desired: 3 });
    expect((await carryOut(bed, 1)).victims.map(({ instanceId }) => instanceId).sort()).toEqual(['g0-1', 'g0-2']);
    await cluster.untilReady(groups, 2);
    expect(await namesOf()).toEqual(['g0-0', 'g0-0-1']);
    expect((await bed.rounds.round(1)).plan).toMatchObject({ isDone: true, steps: [] });
    await controller.kill();
  });

  it('ends no pod with streams while an idle one exists', { timeout: 900_000 }, async () => {
    await using bed = await planCluster(cluster);
    const pod = fc.record({ blocks: fc.option(fc.nat(2)), isReady: fc.boolean() });
    const cases = fc.record({ pods: fc.array(pod, { minLength: 2, maxLength: GPUS }), target: fc.nat(GPUS - 1) });
    let ends = 0;
    const play = fc.asyncProperty(cases, async ({ pods, target }) => {
      cluster.unready.clear();
      bed.loads.clear();
      await cluster.setReplicas(bed.at('w0'), pods.length);
      const before = await cluster.untilReady(bed.at('w0'), pods.length);
      const byName = new Map(before.map(({ name }, at) => [name, pods[at]]));
      await bed.rounds.observe();
      for (const [name, { blocks = null, isReady } = { isReady: true }] of byName) {
        if (blocks !== null) bed.loads.set(name, blocks);
        if (!isReady) cluster.unready.add(name);
      }
      await cluster.until(bed.at('w0'), 'pods that are not ready', (all) =>
        all.every(({ name, isReady }) => isReady === byName.get(name)?.isReady),
      );
      await bed.begin().round(target);
      const wanted = await cluster.replicasOf(bed.at('w0'));
      const isOver = (all: readonly unknown[]): boolean => all.length === wanted;
      const after = await cluster.until(bed.at('w0'), `${wanted} pods`, isOver);
      const mayStream = (name: string): boolean => byName.get(name)?.isReady === false || bed.loads.get(name) !== 0;
      const left = new Set(after.map(({ name }) => name));
      const idle = [...byName.keys()].filter((name) => left.has(name) && !mayStream(name));
      const busy = [...byName.keys()].filter((name) => !left.has(name) && mayStream(name));
      ends += busy.length;
      if (busy.length > 0) expect(idle).toEqual([]);
      expect(left.size).toBeGreaterThanOrEqual(Math.min(target, pods.length));
    });
    await fc.assert(play, { numRuns: 100, seed: 36 });
    expect(ends).toBeGreaterThan(0);
  });
});
