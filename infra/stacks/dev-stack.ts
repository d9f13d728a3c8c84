import { Annotations, CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { statorImage } from '../constructs/containers.ts';
import { DevTask } from '../constructs/dev-task.ts';
import { FleetStore, keyOf } from '../constructs/fleet-store.ts';
import { Network } from '../constructs/network.ts';
import { Observability } from '../constructs/observability/observability.ts';
import { plannerQueueOf } from '../constructs/planner/planner-queue.ts';
import { EVERY_PROCESS } from '../constructs/process-environment.ts';
import { describeFront, PublicFront } from '../constructs/public-front.ts';
import { describeRotation } from '../constructs/rotation.ts';
import { addSpending } from '../constructs/spending.ts';
import { tagCosts } from '../constructs/tags.ts';
import type { Settings } from '../settings/index.ts';

export interface DevStackProps extends StackProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/** A whole deployment for looking at, without GPUs: everything goes with the stack. */
export class DevStack extends Stack {
  constructor(scope: Construct, id: string, { httpFunctionCode: code, settings, ...props }: DevStackProps) {
    super(scope, id, { description: 'Stator: serverless front for large language models (dev)', ...props });
    const network = new Network(this, 'Network', { availabilityZones: settings.network.availabilityZones });
    const store = new FleetStore(this, 'Store', { encryptionKey: keyOf(this, settings) });
    const mocks = mockFleetsOf(settings);
    const [[name, fleet] = []] = mocks;
    const queue = plannerQueueOf(this, settings);
    const task = new DevTask(this, 'Task', {
      ...settings.sizes.dev,
      network,
      secrets: store.secrets,
      image: statorImage(this, settings.images.edge),
      environment: { ...EVERY_PROCESS, ...store.environment },
      edgeEnvironment: { ...store.edgeEnvironment(), ...queue?.environment },
      edgeGiven: settings.edges.container.environment,
      given: name === undefined || fleet === undefined ? undefined : { ...fleet, fleet: name },
      model: fleet?.model ?? 'stator-mini',
      workers: fleet?.workers ?? 0,
      logRetentionDays: settings.logRetentionDays,
    });
    store.grantRoute(task); // its edge is only a router
    queue?.grantTell(task);
    // No planner starts machines here, so no request waits for one.
    const served = { ...settings, fleets: Object.fromEntries(mocks) };
    const front = new PublicFront(this, 'Front', { code, network, store, settings: served });
    new Observability(this, 'Observability', { front, settings, service: task.emfService });
    for (const path of passedOver(settings)) {
      Annotations.of(this).addWarningV2(`stator:dev:${path}`, `${path}: dev does without it; -c env=production has it`);
    }
    addSpending(this, settings);
    tagCosts(this, settings.name, 'dev');
    describeFront(this, store, front);
    describeRotation(this, store.secrets, task.cluster);
    new CfnOutput(this, 'Model', { value: fleet?.model ?? 'stator-mini', description: 'Model to ask for' });
  }
}

/** Settings that say something which one task in a network of its own cannot be. */
function passedOver(settings: Settings): readonly string[] {
  const { fleets, edges, network } = settings;
  const mocks = mockFleetsOf(settings).slice(0, 1);
  return [
    ...Object.keys(fleets)
      .filter((name) => name !== mocks[0]?.[0])
      .map((name) => `fleets.${name}`),
    ...mocks.flatMap(([name, { pool }]) => (pool === 'agg' ? [] : [`fleets.${name}.pool`])),
    ...(edges.container.listener === 'none' ? [] : ['edges.container.listener']),
    ...(network.vpc === undefined ? [] : ['network.vpc']),
    ...(network.flowLogs ? ['network.flowLogs'] : []),
    ...(network.workerTransfers ? ['network.workerTransfers'] : []),
  ];
}

/** Returns the fleets without GPUs, of which dev runs the first one. */
function mockFleetsOf({ fleets }: Settings) {
  return Object.entries(fleets).flatMap(([name, fleet]) => (fleet.kind === 'mock' ? [[name, fleet] as const] : []));
}
