import { Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { GPUS } from './deployments.ts';
import { productionTemplates, statementsOf } from './templates.ts';

const WITH_CONSOLE = { edges: { container: { listener: 'internal' } } } as const satisfies StatorConfig;
const edgeOf = (config: StatorConfig) => productionTemplates(config).Edge!;
/** Actions that the tasks are allowed on the planner's table. */
const rightsOnPlans = (config: StatorConfig) =>
  statementsOf(edgeOf(config), /^EdgeTask/)
    .filter(({ Resource }) => JSON.stringify(Resource).includes('Stator-Planner'))
    .flatMap(({ Action }) => Action)
    .filter((action) => action.startsWith('dynamodb:'));

describe('the console of the container edge', () => {
  it('reads what the planner decided, and may do nothing else with its table', () => {
    const config = { ...GPUS, ...WITH_CONSOLE };
    edgeOf(config).hasResourceProperties('AWS::ECS::TaskDefinition', {
      ContainerDefinitions: Match.arrayWith([
        Match.objectLike({ Environment: Match.arrayWith([Match.objectLike({ Name: 'STATOR_PLANNER_TABLE' })]) }),
      ]),
    });
    expect(rightsOnPlans(config)).toEqual(['dynamodb:GetItem', 'dynamodb:Query']);
  });

  it('knows the prices of the settings, and no list price of another region', () => {
    const types = GPUS.instanceTypes ?? {};
    const config = { ...GPUS, ...WITH_CONSOLE, instanceTypes: { ...types, 'g6.xlarge': { hourUsd: 2.25 } } };
    edgeOf(config).hasResourceProperties('AWS::ECS::TaskDefinition', {
      ContainerDefinitions: Match.arrayWith([
        Match.objectLike({
          Environment: Match.arrayWith([{ Name: 'STATOR_INSTANCE_PRICES', Value: 'g6.xlarge=2.25' }]),
        }),
      ]),
    });
    expect(JSON.stringify(edgeOf({ ...GPUS, ...WITH_CONSOLE }).toJSON())).not.toContain('STATOR_INSTANCE_PRICES');
  });

  it.each([
    ['no client reaches it', GPUS],
    ['nothing plans', WITH_CONSOLE],
  ])('has no table of a planner if %s', (_why, config) => {
    const definitions = edgeOf(config).findResources('AWS::ECS::TaskDefinition');
    expect(JSON.stringify(definitions)).not.toContain('STATOR_PLANNER_TABLE');
    expect(rightsOnPlans(config)).toEqual([]);
  });
});
