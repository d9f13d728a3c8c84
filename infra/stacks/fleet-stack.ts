import { Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { MockFleet } from '../constructs/mock-fleet.ts';
import { statorImage } from '../constructs/stator-image.ts';
import type { Settings } from '../settings.ts';
import type { DataStack } from './data-stack.ts';
import type { EdgeStack } from './edge-stack.ts';

export interface FleetStackProps extends StackProps {
  readonly data: DataStack;
  readonly edge: EdgeStack;
  readonly settings: Settings;
  readonly fleet: Settings['fleets'][string];
}

/** The workers of one fleet. */
export class FleetStack extends Stack {
  constructor(scope: Construct, id: string, { data, edge, settings, fleet, ...props }: FleetStackProps) {
    super(scope, id, { description: `Stator: workers of ${fleet.model}`, ...props });
    const workers = new MockFleet(this, 'Workers', {
      ...fleet.size,
      network: data.network,
      cluster: edge.cluster,
      secrets: data.store.secrets,
      image: statorImage(this, settings.images.edge),
      environment: edge.workerEnvironment,
      model: fleet.model,
      workers: fleet.workers,
      generation: fleet.generation,
      logRetentionDays: settings.logRetentionDays,
    });
    data.store.grantWork(workers);
  }
}
