import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Observed } from '../../../../shared/planner/live/connector.ts';
import { clusterFleet, END_MS, podOption, START_MS, startPodFleet } from '../../../support/planner/pod-fleet.ts';
import { Rounds } from '../../../support/planner/rounds.ts';

const NEVER = new AbortController().signal;
/** More than the age from which a pod may end. */
const OLD_MS = 240_000;

async function bedOf(replicas: number, ...parts: Parameters<typeof startPodFleet>) {
  const bed = await startPodFleet(...parts);
  bed.workloads.addDeployment('w0', replicas);
  await bed.clock.advance(OLD_MS);
  return bed;
}

describe('a planner of Deployments', () => {
  it('goes from one worker to eight and back to the one that has streams', async () => {
    await using bed = await bedOf(1);
    const [first = ''] = bed.workloads.podsOf('w0');
    const rounds = new Rounds(bed);
    await rounds.round(8);
    expect(bed.workloads.replicasOf('w0')).toBe(8);
    const starting = await rounds.observe();
    expect(starting.pools?.decode).toMatchObject({ ready: 1, starting: 7, desired: 8 });
    await bed.clock.advance(START_MS + OLD_MS);
    for (const pod of bed.workloads.podsOf('w0')) bed.loads.set(pod, pod === first ? 5 : 0);
    const { plan } = await rounds.round(1);
    expect(plan.victims).toHaveLength(7);
    expect(bed.workloads.podsOf('w0')).toEqual([first]);
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(1)).plan).toMatchObject({ isDone: true, steps: [] });
  });

  it('measures a start and the wait for a node', async () => {
    await using bed = await bedOf(0);
    const rounds = new Rounds(bed);
    expect((await rounds.observe()).startSeconds).toBe(60);
    await rounds.round(1);
    await rounds.observe();
    await bed.clock.advance(START_MS * 2);
    const { startSeconds, capacitySeconds } = await rounds.observe();
    expect(startSeconds).toBe(START_MS / 1000);
    expect(capacitySeconds).toBe(0);
  });

  it.each([
    ['that it has seen before', true],
    ['that it sees for the first time', false],
  ])('measures no start when a pod %s is ready again', async (_, isKnown) => {
    await using bed = await bedOf(1, clusterFleet(undefined, { startSecs: 90 }));
    const [pod = ''] = bed.workloads.podsOf('w0');
    const rounds = new Rounds(bed);
    if (isKnown) await rounds.observe();
    bed.workloads.setReady(pod, false);
    await rounds.observe();
    await bed.clock.advance(OLD_MS);
    bed.workloads.setReady(pod, true);
    expect(await rounds.observe()).toMatchObject({ startSeconds: 90, capacitySeconds: undefined });
  });

  it('calls off pods that have not served before it ends one that has', async () => {
    await using bed = await bedOf(1);
    const [first] = bed.workloads.podsOf('w0');
    const rounds = new Rounds(bed);
    await rounds.round(4);
    const { plan } = await rounds.round(2);
    expect(plan.victims).toEqual([]);
    expect(bed.workloads.replicasOf('w0')).toBe(2);
    expect(bed.workloads.podsOf('w0')).toContain(first);
  });

  it('ends a launch that it calls off also if that is ready before the controller looks', async () => {
    await using bed = await bedOf(1);
    const [busy = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(busy, 3);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    bed.workloads.isActing = false;
    await rounds.round(1);
    await bed.clock.advance(2 * START_MS);
    bed.workloads.setReady(busy, false);
    await bed.clock.advance(START_MS);
    bed.workloads.setReady(busy, true); // without a mark, the pod that is ready for the shortest time goes first
    bed.workloads.isActing = true;
    bed.workloads.reconcile();
    expect(bed.workloads.podsOf('w0')).toEqual([busy]);
  });

  it('calls off a launch before a pod that is not ready and has streams would end', async () => {
    await using bed = await bedOf(1);
    const [busy = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(busy, 3);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    await bed.clock.advance(START_MS / 2);
    bed.workloads.setReady(busy, false);
    expect((await rounds.round(1)).applied).toBe('accepted');
    expect(bed.workloads.podsOf('w0')).toEqual([busy]);
  });

  it('takes the mark of an end that did not come to pass from a pod that stays', async () => {
    await using bed = await bedOf(1);
    const [idle = ''] = bed.workloads.podsOf('w0');
    const rounds = new Rounds(bed);
    await rounds.round(2);
    bed.api.judge = ({ verb }) => (verb === 'update' ? 409 : undefined);
    expect((await rounds.round(1)).applied).toBe('waiting'); // the launch is marked, and goes on
    bed.api.judge = undefined;
    await bed.clock.advance(OLD_MS * 2);
    const [, busy = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(idle, 0).set(busy, 3);
    expect((await rounds.round(1)).applied).toBe('accepted');
    expect(bed.workloads.podsOf('w0')).toEqual([busy]);
  });

  it('waits while a pod that is not ready, but has streams, would end in place of its victim', async () => {
    await using bed = await bedOf(2);
    const [busy = '', idle = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(busy, 7).set(idle, 0);
    bed.workloads.setReady(busy, false);
    const rounds = new Rounds(bed);
    expect((await rounds.round(1)).applied).toBe('waiting');
    expect(bed.workloads.podsOf('w0')).toEqual([busy, idle]);
    bed.workloads.setReady(busy, true);
    expect((await rounds.round(1)).applied).toBe('accepted');
    expect(bed.workloads.podsOf('w0')).toEqual([busy]);
  });

  it('remembers that a pod was ready if its containers do not show it', async () => {
    await using bed = await bedOf(2);
    const [busy = '', idle = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(busy, 7).set(idle, 0);
    const rounds = new Rounds(bed);
    await rounds.observe();
    bed.workloads.setReady(busy, false);
    bed.api.store('pods').merge(busy, { status: { containerStatuses: [] } });
    expect((await rounds.round(1)).applied).toBe('waiting');
    expect(bed.workloads.ended).toEqual([]);
  });

  it('ends a pod first that has not been ready for longer than a drain', async () => {
    await using bed = await bedOf(2);
    const [broken = '', idle = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(broken, 7).set(idle, 0);
    bed.workloads.setReady(broken, false);
    await bed.clock.advance(END_MS + 1000);
    const { plan, applied } = await new Rounds(bed).round(1);
    expect([plan.victims[0]?.instanceId, applied]).toEqual([broken, 'accepted']);
    expect(bed.workloads.ended).toEqual([broken]);
  });

  it('ends a victim that had to wait, and replaces it, if the target has risen meanwhile', async () => {
    await using bed = await bedOf(4);
    const [busy = '', idle = ''] = bed.workloads.podsOf('w0');
    for (const pod of bed.workloads.podsOf('w0')) bed.loads.set(pod, pod === idle ? 0 : 7);
    bed.workloads.setReady(busy, false);
    const rounds = new Rounds(bed);
    expect((await rounds.round(3)).applied).toBe('waiting');
    bed.workloads.setReady(busy, true);
    expect((await rounds.round(4)).applied).toBe('waiting');
    expect(bed.workloads.ended).toEqual([idle]);
    expect((await rounds.round(4)).applied).toBe('accepted');
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(4)).plan).toMatchObject({ steps: [], isDone: true });
    expect(bed.workloads.ended).toEqual([idle]);
    expect(bed.workloads.podsOf('w0')).toHaveLength(4);
  });

  it('grows while a victim cannot end, and ends it instead of a launch', async () => {
    await using bed = await bedOf(4);
    const [busy = '', idle = ''] = bed.workloads.podsOf('w0');
    for (const pod of bed.workloads.podsOf('w0')) bed.loads.set(pod, pod === idle ? 0 : 7);
    bed.workloads.setReady(busy, false);
    const rounds = new Rounds(bed);
    await rounds.round(3);
    await rounds.round(6);
    expect(bed.workloads.replicasOf('w0')).toBe(6);
    await rounds.round(6);
    expect(bed.workloads.ended).toEqual([]);
    bed.workloads.setReady(busy, true);
    await bed.clock.advance(START_MS);
    await rounds.round(6);
    await rounds.round(6);
    expect(bed.workloads.ended).toEqual([idle]);
    expect(bed.workloads.replicasOf('w0')).toBe(6);
  });

  it('ends no pod while a rollout replaces pods', async () => {
    await using bed = await bedOf(2);
    bed.workloads.isActing = false;
    bed.workloads.addSurge('w0');
    const rounds = new Rounds(bed);
    const { plan } = await rounds.round(1);
    expect(plan).toMatchObject({ steps: [], isDone: false });
    expect(plan.note).toMatch(/refresh is in progress/);
  });

  it('ends no victim of an earlier round while a rollout replaces pods', async () => {
    await using bed = await bedOf(3);
    const [busy = ''] = bed.workloads.podsOf('w0');
    for (const pod of bed.workloads.podsOf('w0')) bed.loads.set(pod, pod === busy ? 7 : 0);
    bed.workloads.setReady(busy, false);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    bed.workloads.setReady(busy, true);
    bed.workloads.isActing = false;
    bed.workloads.addSurge('w0');
    const { plan, applied } = await rounds.round(2);
    expect([plan.victims.length, applied]).toEqual([1, 'waiting']);
    expect(bed.workloads.replicasOf('w0')).toBe(3);
  });
});

describe('steps for several Deployments', () => {
  it('lower numbers before they raise others', async () => {
    await using bed = await bedOf(1, clusterFleet([podOption(0), podOption(1)]));
    bed.workloads.addDeployment('w1', 0);
    await bed.connector.observe(NEVER);
    const raise = { kind: 'desire', pool: 'decode', option: '1-on-demand', desired: 2 } as const;
    const [pod = ''] = bed.workloads.podsOf('w0');
    const end = { kind: 'terminate', pool: 'decode', option: '0-on-demand', instanceId: pod } as const;
    const atUpdates: (readonly number[])[] = [];
    bed.api.judge = ({ verb }) => {
      if (verb === 'update') atUpdates.push([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]);
      return undefined;
    };
    expect(await bed.connector.apply([raise, end], NEVER)).toBe('accepted');
    expect(atUpdates).toEqual([
      [1, 0],
      [0, 0],
    ]);
    expect(bed.workloads.replicasOf('w1')).toBe(2);
  });
});

describe('a planner of Deployments without GPUs for all', () => {
  it('takes the next option, and says why if there is none', async () => {
    const fleet = clusterFleet([podOption(0), podOption(1, { max: 1 })]);
    await using bed = await bedOf(0, fleet, { gpus: 2 });
    bed.workloads.addDeployment('w1', 0);
    const rounds = new Rounds(bed);
    await rounds.round(3);
    expect(bed.workloads.replicasOf('w0')).toBe(3);
    expect((await rounds.round(3)).plan.shortage).toBeUndefined(); // a node may be on its way
    await bed.clock.advance(START_MS);
    await rounds.round(3);
    expect([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]).toEqual([2, 1]);
    await bed.clock.advance(START_MS);
    const { plan } = await rounds.round(3);
    expect(plan.shortage).toMatchObject({ code: 'Unschedulable', option: '1-on-demand' });
    expect(plan.shortage?.problem).toContain('3 Insufficient nvidia.com/gpu');
    bed.workloads.gpus = 4;
    await bed.clock.advance(3 * OLD_MS);
    for (let round = 0; round < 3; round++) {
      await rounds.round(3);
      await bed.clock.advance(START_MS);
    }
    expect((await rounds.observe()).pools?.decode).toMatchObject({ ready: 3, starting: 0 });
  });
});

describe('the GPUs of pods', () => {
  const limits = (gpus: number) => [{ name: 'main', resources: { limits: { 'nvidia.com/gpu': String(gpus) } } }];
  const gpusOf = ({ pools }: Observed) => pools?.decode?.options.map(({ unit }) => unit?.gpus);

  it('count in budgets as the pods state them, and a planner says that the fleet states others', async () => {
    await using bed = await bedOf(2);
    for (const pod of bed.workloads.podsOf('w0')) bed.api.store('pods').merge(pod, { spec: { containers: limits(4) } });
    const rounds = new Rounds(bed);
    const observed = await rounds.observe();
    expect(gpusOf(observed)).toEqual([4]);
    const plan = rounds.plan(observed, 3);
    expect(plan.gpus?.decode).toEqual({ held: 8, planned: 12, settled: 12 });
    expect(plan.note).toBe('decode: an instance of 0-on-demand has 4 GPUs, but the fleet states 1');
  });

  it('count as they were allocated for resource claims, which it lists only if pods have some', async () => {
    await using bed = await bedOf(1);
    const [pod = ''] = bed.workloads.podsOf('w0');
    const rounds = new Rounds(bed);
    expect(gpusOf(await rounds.observe())).toEqual([1]);
    expect(bed.api.counts()).not.toHaveProperty('list resourceclaims');
    const claims = [{ name: 'gpus', resourceClaimTemplateName: 'w0' }];
    bed.api.store('pods').merge(pod, { spec: { resourceClaims: claims } });
    expect(gpusOf(await rounds.observe())).toEqual([1]); // the claim is not made yet
    const made = [{ name: 'gpus', resourceClaimName: 'w0-claim' }];
    bed.api.store('pods').merge(pod, { status: { resourceClaimStatuses: made } });
    const all = { deviceClassName: 'gpu.nvidia.com', allocationMode: 'All' };
    const spec = { devices: { requests: [{ name: 'gpus', exactly: all }] } };
    bed.api.store('resourceclaims').set('w0-claim', { spec });
    expect(gpusOf(await rounds.observe())).toEqual([1]); // it is not allocated yet
    const results = Array.from({ length: 8 }, (_, at) => ({ request: 'gpus', device: `gpu-${at}` }));
    bed.api.store('resourceclaims').merge('w0-claim', { status: { allocation: { devices: { results } } } });
    expect(gpusOf(await rounds.observe())).toEqual([8]);
  });

  it('count once if all pods of workloads use the same claim', async () => {
    await using bed = await bedOf(3, clusterFleet([podOption(0), podOption(1)]));
    bed.workloads.addDeployment('w1', 1);
    const requests = [{ name: 'gpus', exactly: { deviceClassName: 'gpu.nvidia.com', count: 8 } }];
    bed.api.store('resourceclaims').set('shared', { spec: { devices: { requests } } });
    const resourceClaims = [{ name: 'gpus', resourceClaimName: 'shared' }];
    for (const workload of ['w0', 'w1']) {
      for (const pod of bed.workloads.podsOf(workload)) bed.api.store('pods').merge(pod, { spec: { resourceClaims } });
    }
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 5);
    expect(plan.gpus?.decode).toEqual({ held: 8, planned: 8, settled: 8 });
    expect(plan.note).toBe(
      'decode: an instance of 0-on-demand has 0 GPUs and shares 8 with the others, but the fleet states 1',
    );
  });

  it('count as the fleet states them if pods share a claim of other devices only', async () => {
    await using bed = await bedOf(1);
    const [pod = ''] = bed.workloads.podsOf('w0');
    const requests = [{ name: 'nic', exactly: { deviceClassName: 'efa.networking.k8s.aws' } }];
    bed.api.store('resourceclaims').set('fabric', { spec: { devices: { requests } } });
    bed.api.store('pods').merge(pod, { spec: { resourceClaims: [{ name: 'nic', resourceClaimName: 'fabric' }] } });
    expect(gpusOf(await bed.connector.observe(NEVER))).toEqual([1]);
  });

  it('count as the fleet states them if the cluster has claims only in an earlier version', async () => {
    await using bed = await bedOf(1);
    const [pod = ''] = bed.workloads.podsOf('w0');
    const claims = [{ name: 'gpus', resourceClaimName: 'shared' }];
    bed.api.store('pods').merge(pod, { spec: { resourceClaims: claims } });
    bed.api.judge = ({ resource }) => (resource === 'resourceclaims' ? 404 : undefined);
    expect(gpusOf(await bed.connector.observe(NEVER))).toEqual([1]);
  });

  it('names the right that is missing to list resource claims', async () => {
    await using bed = await bedOf(1);
    const [pod = ''] = bed.workloads.podsOf('w0');
    const claims = [{ name: 'gpus', resourceClaimName: 'shared' }];
    bed.api.store('pods').merge(pod, { spec: { resourceClaims: claims } });
    bed.api.judge = ({ resource }) => (resource === 'resourceclaims' ? 403 : undefined);
    await expect(bed.connector.observe(NEVER)).rejects.toThrow(/^the resource claims in namespace .* cannot be read: /);
  });
});

describe('a planner of Deployments whose pods do not start', () => {
  it('takes the next option after twice the usual time, and says what Kubernetes says', async () => {
    await using bed = await bedOf(0, clusterFleet([podOption(0), podOption(1, { max: 1 })]));
    const message = 'Back-off pulling image "engine:1"';
    bed.workloads.waiting.set('w0', { reason: 'ImagePullBackOff', message });
    bed.workloads.addDeployment('w1', 0);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    await bed.clock.advance(2 * START_MS - 1000);
    expect((await rounds.round(2)).plan.steps).toEqual([]);
    await bed.clock.advance(1000);
    const { plan } = await rounds.round(2);
    expect(plan.shortage).toMatchObject({ code: 'ImagePullBackOff', option: '0-on-demand' });
    expect(plan.shortage?.problem).toContain(message);
    expect([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]).toEqual([0, 1]);
    const failure = (await rounds.observe()).pools?.decode?.options[0]?.lastFailure;
    expect(failure).toMatchObject({ code: 'ImagePullBackOff', reason: message });
  });
});

describe('a planner of Deployments on nodes of the same types', () => {
  it('takes the next one if one has no room, and names the types', async () => {
    const types = ['p5.48xlarge'];
    const fleet = clusterFleet([podOption(0, { types }), podOption(1, { types, max: 1 })]);
    await using bed = await bedOf(0, fleet, { gpus: 1 });
    bed.workloads.addDeployment('w1', 0);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    await bed.clock.advance(START_MS);
    await rounds.round(2);
    expect([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]).toEqual([1, 1]);
    await bed.clock.advance(START_MS);
    expect((await rounds.round(2)).plan.shortage?.problem).toContain('Unschedulable (p5.48xlarge): 0/3 nodes');
  });
});

describe('a planner of a cluster that changes or refuses', () => {
  it('changes nothing by a plan for an earlier version, and plans again', async () => {
    await using bed = await bedOf(1);
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 8);
    bed.workloads.setReplicas('w0', 3);
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('waiting');
    expect(bed.workloads.replicasOf('w0')).toBe(3);
    expect((await rounds.round(8)).applied).toBe('accepted');
    expect(bed.workloads.replicasOf('w0')).toBe(8);
  });

  it('changes nothing by a plan for an earlier version if another planner may have acted since', async () => {
    await using bed = await bedOf(1);
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 8);
    bed.workloads.setReplicas('w0', 3);
    bed.workloads.setReplicas('w0', 1); // the same number as before, by a newer decision
    await bed.clock.advance(31_000);
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('waiting');
    expect(bed.workloads.replicasOf('w0')).toBe(1);
  });

  it('sets the number in the same round if only the status has changed, as when pods start', async () => {
    await using bed = await bedOf(1);
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 8);
    bed.api.store('deployments').merge('w0', { status: { readyReplicas: 1 } });
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('accepted');
    expect(bed.workloads.replicasOf('w0')).toBe(8);
  });

  it('looks at the pods again before it ends one on a newer version', async () => {
    await using bed = await bedOf(2);
    const [busy = '', idle = ''] = bed.workloads.podsOf('w0');
    bed.loads.set(busy, 7).set(idle, 0);
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 1);
    bed.workloads.setReady(busy, false); // so that its controller would end it first
    bed.api.store('deployments').merge('w0', { status: { readyReplicas: 1 } });
    expect(await bed.connector.apply(plan.steps, NEVER)).toBe('waiting');
    expect(bed.workloads.podsOf('w0')).toEqual([busy, idle]);
  });

  it('keeps trying in later rounds if the version changes all the time', async () => {
    await using bed = await bedOf(1);
    bed.api.judge = ({ verb }) => (verb === 'update' ? 409 : undefined);
    expect((await new Rounds(bed).round(2)).applied).toBe('waiting');
    expect(bed.api.counts()['update deployments/scale']).toBe(2);
  });

  it.each([
    ['deployments/scale', 'update', 403, 'Forbidden'],
    ['pods', 'patch', 403, 'Forbidden'],
    ['deployments/scale', 'update', 401, 'Unauthorized'],
    ['deployments/scale', 'update', 422, 'Invalid'],
  ])('names the refusal of a change of %s (%s, %i)', async (resource, verb, status, code) => {
    await using bed = await bedOf(2);
    bed.api.judge = (call) => (call.resource === resource && call.verb === verb ? status : undefined);
    expect((await new Rounds(bed).round(1)).applied).toEqual({
      failed: code,
      reason: 'refused by the rule of the test',
    });
    expect(bed.workloads.replicasOf('w0')).toBe(2);
  });

  it.each([
    ['list pods', 'the pods of workers'],
    ['get deployments/scale', 'Deployment/w0'],
  ])('says what it cannot read without the right to %s, and where the rights are listed', async (right, what) => {
    await using bed = await bedOf(1);
    bed.api.judge = ({ verb, resource }) => (`${verb} ${resource}` === right ? 403 : undefined);
    const failure = await bed.connector.observe(NEVER).catch(String);
    expect(failure).toContain(`${what} in namespace default of http://127.0.0.1:${bed.api.port} cannot be read: `);
    expect(failure).toContain('rights that docs/planner.md lists');
  });

  it('needs no other right than to read and update scales, and to list and patch pods', async () => {
    await using bed = await bedOf(2);
    const allowed = ['get deployments/scale', 'update deployments/scale', 'list pods', 'patch pods'];
    bed.api.judge = ({ verb, resource }) => (allowed.includes(`${verb} ${resource}`) ? undefined : 403);
    const rounds = new Rounds(bed);
    expect((await rounds.round(1)).applied).toBe('accepted');
    expect((await rounds.round(3)).applied).toBe('accepted');
    expect(Object.keys(bed.api.counts()).toSorted()).toEqual(allowed.toSorted());
  });

  it('counts a workload that does not exist as an option without room, and refuses a pool without any', async () => {
    await using bed = await bedOf(1, clusterFleet([podOption(0, { max: 2 }), podOption(1)]));
    const { plan } = await new Rounds(bed).round(4);
    expect(bed.workloads.replicasOf('w0')).toBe(2);
    expect(plan.shortage?.code).toBe('MaximumReached');
    bed.api.store('deployments').remove('w0');
    await expect(bed.connector.observe(NEVER)).rejects.toThrow(/do not exist in .*: Deployment\/w0, Deployment\/w1$/);
  });

  it('asks for a new token once the server refuses the old one', async () => {
    await using bed = await bedOf(1);
    bed.api.judge = ({ token }) => (token === 'new' ? undefined : 401);
    const asked: boolean[] = [];
    const connector = bed.open({
      credentials: async (refused) => {
        asked.push(refused);
        return { token: refused ? 'new' : 'old' };
      },
    });
    expect((await connector.observe(NEVER)).pools?.decode?.ready).toBe(1);
    expect(asked).toEqual([false, true, false, true]);
  });

  it('rejects while the API server is away, and goes on once it is back', async () => {
    await using bed = await bedOf(1);
    const rounds = new Rounds(bed);
    const plan = rounds.plan(await rounds.observe(), 4);
    bed.api.judge = () => 503;
    await expect(bed.connector.observe(NEVER)).rejects.toThrow(/cannot be read/);
    await expect(bed.connector.apply(plan.steps, NEVER)).rejects.toThrow();
    bed.api.judge = undefined;
    await rounds.round(4);
    expect(bed.workloads.replicasOf('w0')).toBe(4);
  });

  it('lowers a number that a person has raised beyond the maximum, a few pods at a time', async () => {
    await using bed = await bedOf(2);
    bed.workloads.setReplicas('w0', 20);
    await bed.clock.advance(OLD_MS * 2);
    const rounds = new Rounds(bed);
    for (let round = 0; round < 4; round++) {
      await rounds.round(2);
      await bed.clock.advance(OLD_MS);
    }
    expect(bed.workloads.replicasOf('w0')).toBe(2);
    expect(bed.workloads.ended).toHaveLength(18);
  });

  it('ends pods beyond a maximum that was lowered, although the target needs them', async () => {
    await using bed = await bedOf(8, clusterFleet([podOption(0, { max: 4 })]));
    bed.workloads.podsOf('w0').forEach((pod, at) => void bed.loads.set(pod, at));
    const kept = bed.workloads.podsOf('w0').slice(4);
    const rounds = new Rounds(bed);
    const { plan, applied } = await rounds.round(8);
    expect([plan.shortage?.code, applied]).toEqual(['MaximumReached', 'accepted']);
    expect(bed.workloads.podsOf('w0')).toEqual(kept);
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(8)).plan.steps).toEqual([]);
  });

  it('keeps pods beyond a maximum that was lowered until their replacements elsewhere serve', async () => {
    await using bed = await bedOf(8, clusterFleet([podOption(0, { max: 4 }), podOption(1)]));
    bed.workloads.addDeployment('w1', 0);
    const rounds = new Rounds(bed);
    for (let round = 0; round < 3; round++) await rounds.round(8);
    expect([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]).toEqual([8, 4]);
    await bed.clock.advance(START_MS);
    await rounds.round(8);
    expect([bed.workloads.replicasOf('w0'), bed.workloads.replicasOf('w1')]).toEqual([4, 4]);
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(8)).plan).toMatchObject({ steps: [], isDone: true });
  });

  it('counts pods that a slow controller has not ended yet as ending', async () => {
    await using bed = await bedOf(3);
    bed.workloads.isActing = false;
    const rounds = new Rounds(bed);
    await rounds.round(1);
    expect(bed.workloads.replicasOf('w0')).toBe(1);
    expect((await rounds.observe()).pools?.decode).toMatchObject({ ready: 1, draining: 2, desired: 1 });
    expect((await rounds.round(1)).plan.steps).toEqual([]);
  });
});

const GROUPS = clusterFleet([podOption(0, { workload: 'LeaderWorkerSet/g0' })], { gpusPerReplica: 16 });

async function bedOfGroups(replicas: number) {
  const bed = await startPodFleet(GROUPS);
  bed.workloads.addGroups('g0', replicas, 2);
  await bed.clock.advance(OLD_MS);
  return bed;
}

describe('a planner of groups of pods', () => {
  it('keeps a new group that has the name of one that it has ended', async () => {
    await using bed = await bedOfGroups(3);
    const rounds = new Rounds(bed);
    await rounds.round(2);
    await bed.clock.advance(OLD_MS);
    await rounds.round(3);
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(3)).plan).toMatchObject({ steps: [], victims: [], isDone: true });
    expect(bed.workloads.replicasOf('g0', 'leaderworkersets')).toBe(3);
    expect((await rounds.observe()).pools?.decode).toMatchObject({ ready: 3, starting: 0, draining: 0 });
  });

  it('keeps a new group that is there within the same second, and has the name of one that it has ended', async () => {
    await using bed = await startPodFleet(GROUPS, { endMs: 1 });
    bed.workloads.addGroups('g0', 3, 2);
    await bed.clock.advance(OLD_MS + 500); // the API states times in whole seconds
    const rounds = new Rounds(bed);
    await rounds.round(2);
    await bed.clock.advance(2);
    await rounds.round(3);
    await bed.clock.advance(OLD_MS);
    expect((await rounds.round(3)).plan).toMatchObject({ steps: [], victims: [], isDone: true });
    expect(bed.workloads.ended).toEqual(['g0-2', 'g0-2-1']);
  });

  it('ends a group that an earlier version has chosen, which stored no uid', async () => {
    await using bed = await bedOfGroups(3);
    const rounds = new Rounds(bed);
    const observed = await rounds.observe();
    const nowMs = bed.clock.wallMs();
    const stored = { pool: 'decode', option: '0-on-demand', instanceId: 'g0-2' } as const;
    const planWith = (atMs: number) =>
      bed.connector.plan(
        { decisionId: 1, targets: { decode: 2 } },
        observed,
        {},
        {
          ...{ nowMs, tickSeconds: 5, minInstanceSeconds: 1e6 },
          victims: [{ ...stored, atMs }],
        },
      );
    expect(planWith(nowMs).victims).toEqual([{ ...stored, atMs: nowMs }]);
    expect(planWith(nowMs - 2 * OLD_MS).victims).toEqual([]); // chosen before there was that group
  });

  it('waits until the last group is old enough, because none below it can end', async () => {
    await using bed = await bedOfGroups(2);
    const rounds = new Rounds(bed);
    await rounds.round(3);
    await bed.clock.advance(START_MS * 2);
    const { plan } = await rounds.round(2);
    expect(plan).toMatchObject({ steps: [], victims: [], isDone: false });
    await bed.clock.advance(OLD_MS);
    await rounds.round(2);
    expect(bed.workloads.ended).toEqual(['g0-2', 'g0-2-1']);
  });

  it('scales whole groups, and ends the last one as their set does', async () => {
    await using bed = await bedOfGroups(1);
    const rounds = new Rounds(bed);
    await rounds.round(3);
    expect(bed.workloads.replicasOf('g0', 'leaderworkersets')).toBe(3);
    await bed.clock.advance(OLD_MS * 2);
    expect((await rounds.observe()).pools?.decode).toMatchObject({ ready: 3, starting: 0, desired: 3 });
    const { plan, applied } = await rounds.round(2);
    expect(applied).toBe('accepted');
    expect(plan.victims.map(({ instanceId }) => instanceId)).toEqual(['g0-2']);
    expect(bed.workloads.ended).toEqual(['g0-2', 'g0-2-1']);
    expect(plan.gpus?.decode).toMatchObject({ held: 48, settled: 32 });
  });
});

describe('a planner of Deployments in any state', () => {
  it('ends no pod with streams while an idle one exists', async () => {
    const pod = fc.record({ blocks: fc.option(fc.nat(2)), isReady: fc.boolean(), isOld: fc.boolean() });
    const targets = fc.array(fc.nat(8), { minLength: 1, maxLength: 3 });
    const cases = fc.record({ pods: fc.array(pod, { minLength: 1, maxLength: 8 }), targets });
    let ends = 0;
    await fc.assert(
      fc.asyncProperty(cases, async ({ pods, targets: given }) => {
        await using bed = await bedOf(pods.filter(({ isOld }) => isOld).length);
        bed.workloads.setReplicas('w0', pods.length);
        await bed.clock.advance(2 * START_MS);
        bed.workloads.podsOf('w0').forEach((name, at) => {
          const { blocks = null, isReady = true } = pods[at] ?? {};
          if (blocks !== null) bed.loads.set(name, blocks);
          bed.workloads.setReady(name, isReady);
        });
        const before = bed.workloads.podsOf('w0');
        const isReady = new Map(before.map((name, at) => [name, pods[at]?.isReady ?? true]));
        const rounds = new Rounds(bed);
        for (const target of given) await rounds.round(target);
        // All pods were ready, except launches of the rounds. Discovery hides the workers of those that are not.
        const mayStream = (name: string): boolean =>
          isReady.has(name) && (isReady.get(name) === false || bed.loads.get(name) !== 0);
        const isOld = (name: string): boolean => before.indexOf(name) < pods.filter((each) => each.isOld).length;
        const left = before.filter((name) => !bed.workloads.ended.includes(name));
        const idle = left.filter((name) => !mayStream(name) && isOld(name));
        const busy = bed.workloads.ended.filter(mayStream);
        ends += busy.length;
        if (busy.length > 0) expect(idle).toEqual([]);
        expect(left.length).toBeGreaterThanOrEqual(Math.min(...given, before.length));
      }),
      { numRuns: 100, seed: 36 },
    );
    expect(ends).toBeGreaterThan(0);
  });
});
