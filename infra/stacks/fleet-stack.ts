import { Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { statorImage } from '../constructs/containers.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { MockFleet } from '../constructs/mock-fleet.ts';
import { followReferences } from '../constructs/stack-references.ts';
import type { Settings } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';
import type { EdgeStack } from './edge-stack.ts';

interface FleetStackProps extends StackProps {
  readonly data: DataStack;
  readonly edge: EdgeStack;
  readonly settings: Settings;
  readonly fleet: Settings['fleets'][string];
  /** Name of the fleet in the file. */
  readonly fleetName: string;
}

/** The workers of one fleet. */
export class FleetStack extends Stack {
  constructor(scope: Construct, id: string, { data, edge, settings, fleet, fleetName, ...props }: FleetStackProps) {
    super(scope, id, { description: `Stator: workers of ${fleet.model}`, ...props });
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
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }
}
