import type { Stack } from 'aws-cdk-lib';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { addSpending, warnOfSpending } from '../constructs/spending.ts';
import { tagCosts } from '../constructs/tags.ts';
import { forProduction, type Settings, stackOf } from '../settings/index.ts';
import { DataStack } from './data-stack.ts';
import { EdgeStack, type Releasing } from './edge-stack.ts';
import { FleetStack } from './fleet-stack.ts';

interface ProductionProps extends Releasing {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  readonly settings: Settings;
}

/**
 * A deployment in stacks that live for different times: data, edge, and one for each fleet. They belong to the app, not
 * to a `Stage`: `cdk deploy --all` passes over the stacks of a stage.
 */
export class ProductionStacks extends Construct {
  constructor(scope: Construct, id: string, { httpFunctionCode, settings: given, rollout }: ProductionProps) {
    super(scope, id);
    const settings = forProduction(given);
    const data = new DataStack(this, 'Data', { settings, stackName: `${id}-Data` });
    const edge = new EdgeStack(this, 'Edge', { data, httpFunctionCode, settings, rollout, stackName: `${id}-Edge` });
    for (const [name, fleet] of Object.entries(settings.fleets)) {
      const own = stackOf(name, fleet);
      new FleetStack(this, own, { data, edge, settings, fleet, fleetName: name, stackName: `${id}-${own}` });
    }
    addSpending(edge, settings);
    warnOfSpending(edge, settings);
    for (const stack of this.node.children as Stack[]) tagCosts(stack, settings.name, 'production');
  }
}
