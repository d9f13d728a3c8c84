import { describe, expect, it } from 'vitest';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { EVERYTHING } from './deployments.ts';
import { openApp, productionStacks, type Resource, templatesIn } from './templates.ts';

/** What deleting the stacks of a deployment comes to, as CloudFormation does it: those first that refer to others. */
interface Outcome {
  /** Stacks that are gone. */
  readonly gone: readonly string[];
  /** Why it ends early: `STACK` is protected, or `STACK/ID` cannot be deleted. */
  readonly refusal: string | undefined;
  /** Types of what outlives the stacks that are gone, each once. */
  readonly left: readonly string[];
}

/**
 * @param opened what was done by hand before: ids of resources, or names of stacks, whose protection is off
 */
function destroy(config: StatorConfig, opened: RegExp = /^$/): Outcome {
  const scope = productionStacks(openApp(), config);
  const templates = Object.entries(templatesIn(scope)).reverse();
  const isProtected = (name: string): boolean => {
    const stack = scope.node.findChild(name) as unknown as { readonly terminationProtection?: boolean };
    return stack.terminationProtection === true && !opened.test(name);
  };
  const gone: string[] = [];
  const left = new Set<string>();
  for (const [name, template] of templates) {
    if (isProtected(name)) return { gone, refusal: name, left: [...left].sort() };
    const { Resources } = template.toJSON() as { readonly Resources: Readonly<Record<string, Resource>> };
    for (const [id, resource] of Object.entries(Resources)) {
      if (isKept(resource)) left.add(resource.Type);
      else if (refusesDeletion(resource, Resources) && !opened.test(id)) {
        return { gone, refusal: `${name}/${resource.Type}`, left: [...left].sort() };
      }
    }
    gone.push(name);
  }
  return { gone, refusal: undefined, left: [...left].sort() };
}

/** Versions of a function go with it, whatever their policy. */
function isKept({ Type, DeletionPolicy }: Resource): boolean {
  return DeletionPolicy?.startsWith('Retain') === true && Type !== 'AWS::Lambda::Version';
}

/** Protected by itself, or a bucket that something is in, which nobody empties first. */
function refusesDeletion({ Type, Properties }: Resource, all: Readonly<Record<string, Resource>>): boolean {
  if (Type === 'AWS::S3::Bucket')
    return !Object.values(all).some((each) => each.Type === 'Custom::S3AutoDeleteObjects');
  const replicas = (Properties?.Replicas ?? []) as readonly { readonly DeletionProtectionEnabled?: boolean }[];
  if (Properties?.DeletionProtectionEnabled === true) return true;
  if (replicas.some(({ DeletionProtectionEnabled }) => DeletionProtectionEnabled === true)) return true;
  const attributes = (Properties?.LoadBalancerAttributes ?? []) as readonly {
    readonly Key: string;
    readonly Value: string;
  }[];
  return attributes.some(({ Key, Value }) => Key === 'deletion_protection.enabled' && Value === 'true');
}

/** Data that cannot be made again. */
const DATA = /^AWS::(DynamoDB::(Global)?Table|S3::Bucket|SecretsManager::Secret)$/;
const isData = (type: string): boolean => DATA.test(type);

describe('cdk destroy --all of production', { timeout: 60_000 }, () => {
  it('takes fleets and edge, and ends at the data, which keeps what cannot be made again', () => {
    const { gone, refusal, left } = destroy({});
    expect({ gone, refusal }).toEqual({ gone: ['Fleet-mock', 'Edge'], refusal: 'Data' });
    expect(left.filter((type) => type !== 'AWS::Logs::LogGroup')).toEqual([]);
  });

  it('ends at a load balancer until it is opened', () => {
    const balancer = 'Edge/AWS::ElasticLoadBalancingV2::LoadBalancer';
    expect(destroy(EVERYTHING)).toMatchObject({ gone: ['Fleet-mock'], refusal: balancer });
    expect(destroy(EVERYTHING, /Balancer/)).toMatchObject({ gone: ['Fleet-mock', 'Edge'], refusal: 'Data' });
  });

  it('keeps tables, bucket and secrets when the data is opened, and no network', () => {
    const { gone, refusal, left } = destroy({}, /^Data$/);
    expect({ gone, refusal }).toEqual({ gone: ['Fleet-mock', 'Edge', 'Data'], refusal: undefined });
    expect(new Set(left.filter(isData).map((type) => type.split('::')[1]))).toEqual(
      new Set(['DynamoDB', 'S3', 'SecretsManager']),
    );
    expect(left.filter((type) => !isData(type) && type !== 'AWS::Logs::LogGroup')).toEqual([]);
  });

  it.each([
    ['', {}],
    [' with everything', EVERYTHING],
  ] as const)('leaves nothing%s when nothing is retained', (_what, config) => {
    expect(destroy({ ...config, retain: false })).toMatchObject({ refusal: undefined, left: [] });
  });
});
