import type { Code } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { Settings } from '../settings.ts';
import { DataStack } from './data-stack.ts';
import { EdgeStack } from './edge-stack.ts';
import { FleetStack } from './fleet-stack.ts';

export interface ProductionProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/**
 * A deployment in stacks that live for different times: data, edge, and one for each fleet. They belong to the app, not to a
 * `Stage`: `cdk deploy --all` passes over the stacks of a stage.
 */
export class ProductionStacks extends Construct {
  constructor(scope: Construct, id: string, { httpFunctionCode, settings }: ProductionProps) {
    super(scope, id);
    const data = new DataStack(this, 'Data', { settings, stackName: `${id}-Data` });
    const edge = new EdgeStack(this, 'Edge', { data, httpFunctionCode, settings, stackName: `${id}-Edge` });
    for (const [name, fleet] of Object.entries(settings.fleets)) {
      const own = `Fleet-${name}${fleet.generation === undefined ? '' : `-${fleet.generation}`}`;
      new FleetStack(this, own, { data, edge, settings, fleet, stackName: `${id}-${own}` });
    }
  }
}
