import { expect, it } from 'vitest';
import { countSteps } from '../../../support/count-steps.ts';
import { clusterFleet, podOption, START_MS, startPodFleet } from '../../../support/planner/pod-fleet.ts';

const NEVER = new AbortController().signal;
const WORKLOADS = 3;
/** What a pod of the chart has beside what a planner reads: volumes, probes, tolerations, managed fields. */
const POD_TEXT = Array.from({ length: 80 }, (_, at) => ({ name: `SETTING_${at}`, value: `value ${at}`.repeat(4) }));

/** Returns what it costs to read a fleet at rest with that many pods once. */
async function costOf(pods: number) {
  const options = Array.from({ length: WORKLOADS }, (_, at) => podOption(at, { max: 1000 }));
  await using bed = await startPodFleet(clusterFleet(options), { gpus: 10_000 });
  bed.workloads.isActing = false;
  for (let at = 0; at < WORKLOADS; at++) bed.workloads.addDeployment(`w${at}`, at === 0 ? pods : 0);
  bed.workloads.addDeployment('other', 10);
  bed.workloads.isActing = true;
  bed.workloads.reconcile();
  for (const { metadata } of bed.api.store('pods').objects) {
    bed.api.store('pods').merge(metadata.name, { spec: { env: POD_TEXT } });
  }
  await bed.clock.advance(2 * START_MS);
  await bed.connector.observe(NEVER);
  const [calls, bytes] = [bed.api.counts(), bed.api.sentBytes];
  let ready = 0;
  const steps = await countSteps(async () => {
    const { pools } = await bed.connector.observe(NEVER);
    ready = pools?.decode?.ready ?? 0;
  });
  expect(ready).toBe(pods);
  const made = Object.entries(bed.api.counts()).map(([call, count]) => [call, count - (calls[call] ?? 0)]);
  return { steps, bytes: bed.api.sentBytes - bytes, calls: Object.fromEntries(made) as Record<string, number> };
}

it('reads 10, 100 and 1000 pods of several workloads with one list of 500 pods a page', async () => {
  const [few, some, many] = [await costOf(10), await costOf(100), await costOf(1000)];
  const scales = { 'get deployments/scale': WORKLOADS };
  expect([few.calls, some.calls, many.calls]).toEqual([
    { ...scales, 'list pods': 1 },
    { ...scales, 'list pods': 1 },
    { ...scales, 'list pods': 2 },
  ]);
  // The code does work in proportion to the pods, and a constant part for the workloads.
  expect(some.steps / few.steps).toBeLessThan(10);
  expect(many.steps / some.steps).toBeGreaterThan(5);
  expect(many.steps / some.steps).toBeLessThan(15);
  // A pod here has five kilobytes, as pods of the chart have. Lists come packed.
  expect(few.bytes / 10).toBeGreaterThan(3000);
  expect(many.bytes / 1000).toBeLessThan(1000);
});
