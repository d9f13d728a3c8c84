import { describe, expect, it } from 'vitest';
import { podFleetsOf } from '../../infra/constructs/eks/pod-fleets.ts';
import { readSettings } from '../../infra/settings/index.ts';
import { readClusterFleets } from '../../shared/planner/kubernetes/cluster-fleet.ts';
import type { ObjectStore } from '../support/kube/object-store.ts';
import type { FakeWorkloads } from '../support/kube/workloads.ts';
import { START_MS, startPodFleet } from '../support/planner/pod-fleet.ts';
import { Rounds } from '../support/planner/rounds.ts';
import { deployEks, EKS_MODELS, type EksFleetConfig, OURS } from './eks-deployments.ts';

interface Rule {
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const NAMESPACE = 'stator';
/** More than the age from which a pod may end. */
const OLD_MS = 240_000;
const { fleets } = readClusterFleets(JSON.stringify(podFleetsOf(readSettings(OURS, 'file'))), 'fleets');

/** Returns the rights of the planner in the manifest of a stack. */
function rulesOf(stack: string, config = OURS): readonly Rule[] {
  const role = deployEks(config)
    .objects(stack)
    .find(({ kind }) => kind === 'Role');
  return (role?.rules ?? []) as readonly Rule[];
}

/** Scales the fleet of a model from one worker to three and back, with the rights of its manifest only. */
async function scale(
  model: string,
  rules: readonly Rule[],
  addWorkloads: (workloads: FakeWorkloads, pods: ObjectStore) => void,
) {
  const fleet = fleets.find((each) => each.model === model);
  await using bed = await startPodFleet(fleet, { namespace: NAMESPACE });
  const used = new Set<string>();
  bed.api.judge = ({ verb, resource, name }) => {
    used.add(`${verb} ${resource}`);
    const isAllowed = rules.some(
      ({ resources, resourceNames, verbs }) =>
        resources.includes(resource) &&
        verbs.includes(verb) &&
        (resourceNames === undefined || (name !== undefined && resourceNames.includes(name))),
    );
    return isAllowed ? undefined : 403;
  };
  addWorkloads(bed.workloads, bed.api.store('pods', NAMESPACE));
  await bed.clock.advance(OLD_MS);
  const rounds = new Rounds(bed);
  const up = await rounds.round(3);
  await bed.clock.advance(START_MS + OLD_MS);
  for (const { metadata } of bed.api.store('pods', NAMESPACE).objects) bed.loads.set(metadata.name, 0);
  const down = await rounds.round(1);
  return { applied: [up.applied, down.applied], used: [...used].sort() };
}

const granted = (rules: readonly Rule[]) =>
  rules.flatMap(({ resources, verbs }) => verbs.map((verb) => `${verb} ${resources[0]}`)).sort();

describe('the rights of a planner in the manifest of a fleet', { timeout: 120_000 }, () => {
  it('are enough to scale Deployments, and all of them are used', async () => {
    const rules = rulesOf('Fleet-chat-a1');
    const { applied, used } = await scale('Qwen/Qwen3-32B', rules, (workloads) => {
      workloads.addDeployment('chat-a1-0-on-demand', 1);
      workloads.addDeployment('chat-a1-1-spot', 0);
    });
    expect(applied).toEqual(['accepted', 'accepted']);
    expect(used).toEqual(granted(rules));
  });

  it('are enough to count the GPUs that pods claim, and all of them are used', async () => {
    const chat = { ...(OURS.fleets?.chat as EksFleetConfig), gpuClaims: true };
    const rules = rulesOf('Fleet-chat-a1', { ...OURS, models: EKS_MODELS, fleets: { chat } });
    const resourceClaims = [{ name: 'gpus', resourceClaimTemplateName: 'chat-a1-0-on-demand' }];
    const status = { resourceClaimStatuses: [{ name: 'gpus', resourceClaimName: 'claim' }] };
    const { applied, used } = await scale('Qwen/Qwen3-32B', rules, (workloads, pods) => {
      workloads.addDeployment('chat-a1-0-on-demand', 1);
      workloads.addDeployment('chat-a1-1-spot', 0);
      for (const { metadata } of pods.objects) pods.merge(metadata.name, { spec: { resourceClaims }, status });
    });
    expect(applied).toEqual(['accepted', 'accepted']);
    expect(used).toContain('list resourceclaims');
    expect(used).toEqual(granted(rules));
  });

  it('are enough to scale groups of pods, and all of them are used', async () => {
    const rules = rulesOf('Fleet-large');
    const { applied, used } = await scale('deepseek-ai/DeepSeek-V3.1', rules, (workloads) =>
      workloads.addGroups('large-0-on-demand', 1, 2),
    );
    expect(applied).toEqual(['accepted', 'accepted']);
    expect(used).toEqual(granted(rules));
  });
});
