import { Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { statorImage } from '../constructs/containers.ts';
import { Ec2Fleet } from '../constructs/ec2-fleet/ec2-fleet.ts';
import { FleetEvents } from '../constructs/ec2-fleet/fleet-events.ts';
import { EksFleet } from '../constructs/eks/eks-fleet.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { MockFleet } from '../constructs/mock-fleet.ts';
import { FleetObservability } from '../constructs/observability/fleet-watches.ts';
import { plannerQueueOf } from '../constructs/planner/planner-queue.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { type Ec2FleetSettings, type EksFleetSettings, type Settings, startImageOf } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';
import type { EdgeStack } from './edge-stack.ts';
import type { EksStack } from './eks-stack.ts';
import type { PlannerStack } from './planner-stack.ts';

interface FleetStackProps extends StackProps {
  readonly data: DataStack;
  readonly edge: EdgeStack;
  /** Cluster of fleets on EKS. @default none: there are no such fleets */
  readonly eks?: EksStack | undefined;
  /** Planner of the deployment. @default none: another one scales the fleets, or there are none to scale */
  readonly planner?: PlannerStack | undefined;
  readonly settings: Settings;
  readonly fleet: Settings['fleets'][string];
  /** Name of the fleet in the file. */
  readonly fleetName: string;
}

/** The workers of one fleet. */
export class FleetStack extends Stack {
  constructor(scope: Construct, id: string, props: FleetStackProps) {
    const { data, edge, eks, planner, settings, fleet, fleetName, ...stackProps } = props;
    super(scope, id, { description: `Stator: workers of ${fleet.model}`, ...stackProps });
    if (fleet.kind === 'ec2') this.#addMachines(props, fleet);
    else if (fleet.kind === 'eks') this.#addPods(props, fleet);
    else this.#addTasks(props, fleet);
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }

  #addTasks({ data, edge, settings, fleetName }: FleetStackProps, fleet: MockFleetSettings): void {
    const workers = new MockFleet(this, 'Workers', {
      ...fleet.size,
      network: data.network,
      cluster: edge.cluster,
      secrets: data.store.secrets,
      image: statorImage(this, settings.images.edge),
      environment: edge.workerEnvironment,
      given: { ...fleet, fleet: fleetName },
      model: fleet.model,
      workers: fleet.workers,
      pool: fleet.pool,
      generation: fleet.generation,
      logRetentionDays: settings.logRetentionDays,
    });
    data.store.grantWork(workers);
  }

  #addMachines({ data, edge, planner, settings, fleetName }: FleetStackProps, fleet: Ec2FleetSettings): void {
    const { network, store } = data;
    const queue = plannerQueueOf(this, settings, planner?.queue);
    const workers = new Ec2Fleet(this, 'Workers', {
      fleet,
      fleetName,
      network,
      deployment: settings.name,
      types: settings.instanceTypes,
      image: startImageOf(fleet, settings),
      environment: { ...edge.workerEnvironment, ...store.secrets.workerEnvironment(), ...queue?.environment },
      logRetentionDays: settings.logRetentionDays,
    });
    store.grantWork(workers);
    store.secrets.grantRead('worker', workers);
    queue?.grantTell(workers);
    const groups = workers.options.map(({ id, group }) => ({ id, name: group.autoScalingGroupName }));
    const hasSpot = fleet.options.some(({ market }) => market === 'spot');
    const events = new FleetEvents(this, 'Events', workers.groupNames, hasSpot);
    new FleetObservability(this, 'Observability', { fleetName, fleet, groups, events, settings });
  }

  #addPods({ data, edge, eks, settings, fleetName }: FleetStackProps, fleet: EksFleetSettings): void {
    if (eks === undefined) throw new Error('a fleet on EKS has a cluster');
    const { store } = data;
    const workers = new EksFleet(this, 'Workers', {
      fleet,
      fleetName,
      deployment: settings.name,
      types: settings.instanceTypes,
      cluster: eks.cluster,
      diskGib: settings.eks.diskGib,
      environment: { ...edge.workerEnvironment, ...store.secrets.workerEnvironment() },
    });
    store.grantWork(workers);
    store.secrets.grantRead('worker', workers);
  }
}

type MockFleetSettings = Extract<Settings['fleets'][string], { readonly kind: 'mock' }>;
