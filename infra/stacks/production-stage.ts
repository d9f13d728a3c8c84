import { Stage, type StageProps } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import type { Settings } from '../settings.ts';
import { DataStack } from './data-stack.ts';
import { EdgeStack } from './edge-stack.ts';
import { FleetStack } from './fleet-stack.ts';

export interface ProductionStageProps extends StageProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/** A deployment in stacks that live for different times: data, edge, and one for each fleet. */
export class ProductionStage extends Stage {
  constructor(scope: Construct, id: string, { httpFunctionCode, settings, ...props }: ProductionStageProps) {
    super(scope, id, props);
    const data = new DataStack(this, 'Data', { settings });
    const edge = new EdgeStack(this, 'Edge', { data, httpFunctionCode, settings });
    for (const [name, fleet] of Object.entries(settings.fleets)) {
      const suffix = fleet.generation === undefined ? '' : `-${fleet.generation}`;
      new FleetStack(this, `Fleet-${name}${suffix}`, { data, edge, settings, fleet });
    }
  }
}
