import type { CfnElement } from 'aws-cdk-lib';
import { CfnTable } from 'aws-cdk-lib/aws-dynamodb';
import { describe, expect, it } from 'vitest';
import { openApp, productionStacks, type Resource, templatesIn } from './templates.ts';

type Resources = Readonly<Record<string, Resource>>;

/** All resources outside the data stack, once `change` was done to the elements of that one. */
function deployed(change: (data: readonly CfnElement[]) => void = () => undefined): Resources {
  const stacks = productionStacks(openApp());
  change(stacks.node.findChild('Data').node.findAll() as CfnElement[]);
  const { Data: _, ...others } = templatesIn(stacks);
  return Object.assign({}, ...Object.values(others).map((template) => template.toJSON().Resources)) as Resources;
}

function idOf(resources: Resources, type: string, start = ''): string {
  return Object.keys(resources).find((id) => resources[id]?.Type === type && id.startsWith(start)) ?? '';
}

describe('a table of the data stack that is made anew', () => {
  const before = deployed();
  const after = deployed((data) => {
    const table = data.filter((each) => each instanceof CfnTable).find(({ node }) => node.path.includes('/Discovery/'));
    table?.addPropertyOverride('TableName', 'another'); // under the same logical id
  });
  const changed = Object.keys(before).filter((id) => JSON.stringify(before[id]) !== JSON.stringify(after[id]));

  it('makes a new release of the function, whose text of environment stays the same', () => {
    const [old, next] = [before, after].map((resources) => idOf(resources, 'AWS::Lambda::Version'));
    expect(next).not.toBe(old);
    const id = idOf(before, 'AWS::Lambda::Function', 'Front');
    expect(changed).toContain(id);
  });

  it('changes every task and right that names it', () => {
    const naming = Object.keys(before).filter((id) =>
      JSON.stringify(before[id]?.Properties).includes('StoreDiscoveryTable'),
    );
    expect(naming.map((id) => before[id]?.Type)).toEqual(
      expect.arrayContaining(['AWS::ECS::TaskDefinition', 'AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']),
    );
    expect(naming.filter((id) => !changed.includes(id))).toEqual([]);
  });

  it('changes nothing that has to do with other parts', () => {
    const untouched = Object.keys(before).filter((id) => before[id]?.Type === 'AWS::ECS::Service');
    expect(untouched.length).toBeGreaterThan(0);
    expect(changed.filter((id) => untouched.includes(id))).toEqual([]);
  });

  it('is the same for the same data', () => {
    expect(deployed()).toEqual(before);
  });
});
