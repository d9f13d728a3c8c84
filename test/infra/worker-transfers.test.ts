import { describe, expect, it } from 'vitest';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { productionTemplates } from './templates.ts';

const mock = { kind: 'mock', model: 'stator-mini' } as const;

/** Rules by which the workers' group lets its members reach each other, over all stacks. */
function rulesBetweenWorkers(config: StatorConfig): readonly string[] {
  return Object.values(productionTemplates(config))
    .flatMap((template) => [
      ...Object.values(template.findResources('AWS::EC2::SecurityGroupIngress')),
      ...Object.values(template.findResources('AWS::EC2::SecurityGroupEgress')),
    ])
    .filter(({ Properties: { GroupId, SourceSecurityGroupId, DestinationSecurityGroupId } }) => {
      const [of, peer] = [GroupId, SourceSecurityGroupId ?? DestinationSecurityGroupId].map((id) => JSON.stringify(id));
      return of === peer && of?.includes('WorkerSecurityGroup');
    })
    .map(({ Type, Properties }) => `${(Type as string).replace(/.*Group/, '')} ${Properties.IpProtocol}`);
}

describe('workers that fetch the KV cache from each other', () => {
  it.each<[string, StatorConfig, readonly string[]]>([
    ['of one fleet do not', {}, []],
    [
      'of fleets for prefill and decode may',
      { fleets: { p: { ...mock, pool: 'prefill' }, d: { ...mock, pool: 'decode' } } },
      ['Ingress -1', 'Egress -1'],
    ],
    [
      'on machines of yours may where it is asked for',
      { network: { workerTransfers: true } },
      ['Ingress -1', 'Egress -1'],
    ],
  ])('%s', (_name, config, rules) => {
    expect(rulesBetweenWorkers(config)).toEqual(rules);
  });

  it('do one half of a request each', () => {
    const all = productionTemplates({ fleets: { p: { ...mock, pool: 'prefill' }, d: { ...mock, pool: 'decode' } } });
    expect(JSON.stringify(all['Fleet-p']!.toJSON())).toContain('"--disaggregation-mode=prefill"');
    expect(JSON.stringify(all['Fleet-d']!.toJSON())).toContain('"--disaggregation-mode=decode"');
  });
});
