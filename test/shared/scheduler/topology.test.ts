import { describe, expect, it } from 'vitest';
import {
  kvTransferPolicy,
  type TopologyFields,
  topologyFault,
  withTransferPolicy,
} from '../../../shared/scheduler/index.ts';

const ZONE = { topology_domains: { zone: 'a', rack: 'r1' }, kv_transfer_domain: 'zone' } as const;
const TAINT = 'dynamo.topology/zone=a';

describe('the transfer policy of a card', () => {
  it.each<[TopologyFields, ReturnType<typeof kvTransferPolicy>]>([
    [{}, undefined],
    [{ topology_domains: { zone: 'a' } }, undefined],
    [ZONE, { taint: TAINT, preferredWeight: undefined }],
    [
      { ...ZONE, kv_transfer_enforcement: 'required' },
      { taint: TAINT, preferredWeight: undefined },
    ],
    [
      { ...ZONE, kv_transfer_enforcement: 'preferred', kv_transfer_preferred_weight: 0 },
      { taint: TAINT, preferredWeight: 0 },
    ],
    [{ ...ZONE, kv_transfer_domain: 'row' }, undefined],
  ])('%j', (fields, policy) => {
    expect(kvTransferPolicy(fields)).toEqual(policy);
  });

  it.each<[TopologyFields, string]>([
    [{ topology_domains: { '': 'a' } }, 'is not a name or value of a topology domain'],
    [{ topology_domains: { zone: '' } }, 'is not a name or value of a topology domain'],
    [{ topology_domains: { zone: ' a' } }, 'is not a name or value of a topology domain'],
    [{ topology_domains: { 'z=1': 'a' } }, 'is not a name or value of a topology domain'],
    [{ ...ZONE, kv_transfer_domain: 'row' }, 'row is not among'],
    [{ ...ZONE, kv_transfer_enforcement: 'preferred' }, 'a weight of 0 to 1'],
    [{ ...ZONE, kv_transfer_enforcement: 'preferred', kv_transfer_preferred_weight: 1.1 }, 'a weight of 0 to 1'],
    [{ ...ZONE, kv_transfer_preferred_weight: 0.5 }, 'only preferred takes a weight'],
  ])('has a fault in %j', (fields, says) => {
    expect(topologyFault(fields)).toContain(says);
    expect(kvTransferPolicy(fields)).toBeUndefined();
  });
});

describe('constraints with a transfer policy', () => {
  it('keep what the client asked for', () => {
    const asked = { required_taints: ['gpu'], preferred_taints: { [TAINT]: 0.5 } };
    expect(withTransferPolicy(asked, { taint: TAINT, preferredWeight: undefined })).toEqual({
      ...asked,
      required_taints: ['gpu', TAINT],
    });
    expect(withTransferPolicy(asked, { taint: TAINT, preferredWeight: 0.25 })).toEqual({
      ...asked,
      preferred_taints: { [TAINT]: 0.75 },
    });
    expect(withTransferPolicy(undefined, { taint: TAINT, preferredWeight: 1 })).toEqual({
      preferred_taints: { [TAINT]: 1 },
    });
  });
});
