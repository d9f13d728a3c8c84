import { type PodFleet, startPodFleet } from '../../support/planner/pod-fleet.ts';
import { describeConnector, type Fleet } from './connector.contract.ts';

/** Longer than a start, an end, and the age from which a pod may end. */
const ROUND_MS = 240_000;

function fleetOf(pods: PodFleet): Fleet {
  const { api, workloads, clock, open } = pods;
  workloads.addDeployment('w0', 0);
  return {
    connect: () => open(),
    carryOut: () => clock.advance(ROUND_MS),
    async changeByHand(count) {
      workloads.setReplicas('w0', count);
      await clock.advance(ROUND_MS);
    },
    get wanted() {
      return workloads.replicasOf('w0');
    },
    get changes() {
      return api.counts()['update deployments/scale'] ?? 0;
    },
    get nowMs() {
      return clock.wallMs();
    },
    close: async () => pods[Symbol.asyncDispose](),
  };
}

describeConnector('kubernetes', async () => fleetOf(await startPodFleet()), { waits: false, runs: 20 });
