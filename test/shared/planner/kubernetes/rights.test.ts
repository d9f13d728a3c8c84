import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { renderChart } from '../../../support/docs/render-kubernetes.ts';
import { waitUntil } from '../../../support/index.ts';
import { CLAIMING, hasKubeCluster, KubeCluster } from '../../../support/kube/kube-cluster.ts';
import { planCluster } from '../../../support/kube/planned-cluster.ts';
import { PLANNED } from '../../../support/kube/planned-values.ts';
import {
  documentedRules,
  documentedRulesWithClaims,
  type Rule,
  rightsOf,
  setRules,
} from '../../../support/kube/planner-role.ts';
import { podOption } from '../../../support/planner/pod-fleet.ts';

const helm = process.env.STATOR_TEST_HELM_BIN ?? '';
/** Groups of the API of which a planner needs rights only for its discovery, which has tests of its own. */
const DISCOVERY = new Set(['nvidia.com', 'discovery.k8s.io', 'coordination.k8s.io']);

/** Returns a failure to read as a refusal. */
const toTold = (thrown: unknown) => ({ applied: { failed: String(thrown), reason: undefined } });

interface Claimed {
  readonly claimGpus?: number;
  /** Spec of the pods. */
  readonly pod?: object;
}

const CLAIMED: Claimed = { claimGpus: 1, pod: CLAIMING };
/** Values of the chart by which pods claim their GPUs. */
const BY_CLASS = ['first', 'zeta', 'alpha'].flatMap((name) => ['--set', `workers.${name}.gpuClass=gpu.nvidia.com`]);

/** Returns the rules of the planner's role in the chart that scale workloads. */
function chartRules(...values: readonly string[]): readonly Rule[] {
  const objects = parseAllDocuments(renderChart(helm, ...PLANNED, ...values)).map(
    (document) => document.toJS() as { kind: string; metadata: { name: string }; rules: readonly Rule[] } | null,
  );
  const role = objects.find((each) => each?.kind === 'Role' && each.metadata.name.endsWith('-planner'));
  return (role?.rules ?? []).filter(({ apiGroups: [group = ''] }) => !DISCOVERY.has(group));
}

type Role = readonly [string, () => Promise<readonly Rule[]>, Claimed];
const CHART_ROLES: readonly Role[] = [
  ['of the chart', async () => chartRules(), {}],
  ['of the chart, for pods that claim their GPUs', async () => chartRules(...BY_CLASS), CLAIMED],
];
/** Roles of a planner, with the pods for which they are made. */
const ROLES: readonly Role[] = [
  ['of docs/planner.md', documentedRules, {}],
  ['of docs/planner.md, for pods that claim their GPUs', documentedRulesWithClaims, CLAIMED],
  ...(helm === '' ? [] : CHART_ROLES),
];

describe.runIf(hasKubeCluster())(
  'the rights of a planner, by the RBAC of a real API server',
  { timeout: 180_000 },
  () => {
    let cluster: KubeCluster;
    beforeAll(async () => {
      cluster = await KubeCluster.start();
      await cluster.addNode('gpu-0', 8);
      await cluster.addDevices('gpu-0', 8);
    }, 180_000);
    afterAll(() => cluster?.stop());

    it.each(ROLES)(
      '%s are all that it needs, and it names each that is missing',
      async (_, rulesOf, { claimGpus, pod }) => {
        const rules = await rulesOf();
        const name = rules.flatMap(({ resourceNames = ['w0'] }) => resourceNames)[0] ?? '';
        const options = [podOption(0, { workload: `Deployment/${name}` })];
        const pods = pod === undefined ? {} : { pods: { [name]: pod } };
        const claims = claimGpus === undefined ? {} : { claimGpus };
        await using bed = await planCluster(cluster, {
          rules,
          options,
          deployments: { [name]: 1 },
          ...pods,
          ...claims,
        });
        /** Grows and shrinks the fleet, which takes every right. Returns what the planner says if one is missing. */
        const scale = async (): Promise<string> => {
          const toldOf = async (target: number): Promise<string> => {
            // While the status of the Deployment changes, a round may change nothing.
            const end = async () => {
              const { applied } = await bed.rounds.round(target).catch(toTold);
              return applied !== 'waiting' && { applied };
            };
            const { applied } = await waitUntil(end, { what: `a round for ${target}`, timeoutMs: 30_000 });
            return typeof applied === 'object' ? (applied.reason ?? applied.failed) : '';
          };
          const told = await toldOf(2);
          if (told !== '') return told;
          for (const { name: pod } of await cluster.untilReady(bed.at(name), 2)) bed.loads.set(pod, 0);
          return await toldOf(1);
        };
        expect(await scale()).toBe('');
        const all = rightsOf(rules);
        expect(all.length).toBeGreaterThan(3);
        for (const missing of all) {
          await setRules(
            cluster.server,
            bed.namespace,
            all.filter((each) => each !== missing),
          );
          const { apiGroups, resources, verbs, right } = missing;
          const words = `cannot ${verbs[0]} resource "${resources[0]}" in API group "${apiGroups[0]}"`;
          // The authorizer hears of the change a moment later.
          await waitUntil(async () => (await scale()).includes(words), {
            what: `${words}, without ${right}`,
            timeoutMs: 30_000,
          });
        }
        await setRules(cluster.server, bed.namespace, rules);
        await waitUntil(async () => (await scale()) === '', { what: 'all rights again', timeoutMs: 30_000 });
      },
    );

    it('are, for groups of pods, those of their scale and the list of pods', async () => {
      await cluster.addGroupKind();
      const scales = { apiGroups: ['leaderworkerset.x-k8s.io'], resources: ['leaderworkersets/scale'] };
      const rules = [
        { ...scales, verbs: ['get', 'update'] },
        { apiGroups: [''], resources: ['pods'], verbs: ['list'] },
      ];
      const options = [podOption(0, { workload: 'LeaderWorkerSet/g0' })];
      await using bed = await planCluster(cluster, { rules, options, deployments: {} });
      await cluster.addGroups(bed.at('g0'), 1);
      for (const [target, desired] of [
        [3, 3],
        [1, 1], // groups that have no pods yet are called off
      ] as const) {
        expect((await bed.rounds.round(target)).applied).toBe('accepted');
        expect((await bed.rounds.observe()).pools?.decode?.desired).toBe(desired);
      }
      const all = rightsOf(rules);
      for (const missing of all) {
        await setRules(
          cluster.server,
          bed.namespace,
          all.filter((each) => each !== missing),
        );
        let target = 3;
        const told = async (): Promise<string> => {
          target = 4 - target;
          const round = await bed.rounds.round(target).catch(String);
          return typeof round === 'string' ? round : JSON.stringify(round.applied);
        };
        const words = `cannot ${missing.verbs[0]} resource`;
        await waitUntil(async () => (await told()).includes(words), { what: words, timeoutMs: 30_000 });
      }
    });
  },
);
