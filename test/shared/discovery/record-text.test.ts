import { describe, expect, it } from 'vitest';
import { fromText } from '../../../shared/discovery/records.ts';

describe('the text of a record', () => {
  it('is none of ours where a name is an object with a length of its own', () => {
    const address = { component: 'b', endpoint: 'g', instance_id: '1' };
    const text = JSON.stringify({
      type: 'Endpoint',
      namespace: { length: { toString: 1 } },
      ...address,
      transport: { tcp: 'x' },
    });
    expect(fromText(text, 'v1/instances', 'x/b/g/1')).toBeUndefined();
  });
});
