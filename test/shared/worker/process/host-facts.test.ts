import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { hostFactsOf } from '../../../../shared/worker/process/host-facts.ts';

function factsOf(text: string) {
  return hostFactsOf(resolveConfig('worker', [], { STATOR_HOST_FACTS: text }, { allowMissing: true }).settings);
}

describe('the facts of the machine of a worker', () => {
  it('are those of the variable', () => {
    const facts = {
      instance_id: 'i-0123456789abcdef0',
      instance_type: 'g6e.12xlarge',
      zone: 'us-east-1b',
      market: 'spot',
      group: 'chat-1-spot',
      generation: 'a1',
    };
    expect(factsOf(JSON.stringify(facts))).toEqual(facts);
    expect(factsOf('{"instance_id":"i-1"}')).toEqual({ instance_id: 'i-1' });
    expect(factsOf('{"instance_id":"i-1","zone":""}')).toEqual({ instance_id: 'i-1' });
  });

  it('are the pod of a worker in Kubernetes, unless the variable says more', () => {
    const factsIn = (env: Record<string, string>) =>
      hostFactsOf(resolveConfig('worker', [], env, { allowMissing: true }).settings);
    expect(factsIn({ POD_NAME: 'worker-7c4f' })).toEqual({ instance_id: 'worker-7c4f' });
    const facts = { POD_NAME: 'worker-7c4f', STATOR_HOST_FACTS: '{"instance_id":"i-1"}' };
    expect(factsIn(facts)).toEqual({ instance_id: 'i-1' });
  });

  it('are unknown without it', () => {
    expect(hostFactsOf(resolveConfig('worker', [], {}, { allowMissing: true }).settings)).toBeUndefined();
  });

  it.each([
    ['{"zone":"a"}', 'STATOR_HOST_FACTS: instance_id is required'],
    ['{"instance_id":7}', 'STATOR_HOST_FACTS: instance_id 7: allowed: a text of 1 to 128 characters'],
    ['{"instance_id":"i","group":""}', 'STATOR_HOST_FACTS: group "": allowed: a text of 1 to 128 characters'],
    ['{"instance_id":"i","rack":"7"}', 'STATOR_HOST_FACTS'],
    ['i-0123', 'STATOR_HOST_FACTS'],
  ])('of %s are refused', (text, problem) => {
    expect(() => factsOf(text)).toThrow(problem);
  });
});
