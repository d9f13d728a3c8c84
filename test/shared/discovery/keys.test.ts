import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LEASE_PARTITIONS, leaseItemKey, recordItemKey } from '../../../shared/discovery/dynamodb/schema.ts';
import { addressOf, encodePrefix, isUnder } from '../../../shared/discovery/keys.ts';
import { encodeSegment } from '../../../shared/planes/index.ts';
import { channelOf, endpointAt, modelAt } from '../../contract/discovery/records.ts';

const segment = fc.string({ minLength: 1, unit: 'grapheme' });

describe('segments', () => {
  it('keeps letters, digits, underscore and dash, and percent-encodes every other byte', () => {
    expect(encodeSegment('aZ09_-')).toBe('aZ09_-');
    expect(encodeSegment("./*>!~'() é")).toBe('%2E%2F%2A%3E%21%7E%27%28%29%20%C3%A9');
  });

  it('come back as they went in', () => {
    fc.assert(
      fc.property(segment, (text) => {
        expect(encodeSegment(text)).toMatch(/^[A-Za-z0-9_%-]+$/);
        expect(decodeURIComponent(encodeSegment(text))).toBe(text);
      }),
    );
  });
});

describe('keys', () => {
  it('have the documented shapes', () => {
    const component = { kind: 'component', namespace: 'dynamo', component: 'backend' } as const;
    expect(addressOf(endpointAt('dynamo/backend/generate/694d98147d54be25'))).toEqual({
      bucket: 'v1/instances',
      key: 'dynamo/backend/generate/694d98147d54be25',
    });
    expect(addressOf(modelAt('dynamo/backend/generate/ab', 'my.lora'))).toMatchObject({
      bucket: 'v1/mdc',
      key: 'dynamo/backend/generate/ab/my%2Elora',
    });
    expect(addressOf(channelOf({ ...component, kind: 'endpoint', endpoint: 'generate' }, 'kv-events', '1f'))).toEqual({
      bucket: 'v1/event_channels',
      key: 'namespace/dynamo/component/backend/endpoint/generate/topic/kv-events/1f',
    });
  });

  it('lie under every prefix of whole segments and under no other', () => {
    const path = fc.array(fc.constantFrom('a', 'ab', 'a.b', 'a/b', '*'), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(path, path, (key, prefix) => {
        const plain = prefix.filter((part) => !part.includes('/')); // a slash inside a name cannot be asked for
        const isPrefix = plain.every((part, at) => key[at] === part);
        expect(isUnder(key.map(encodeSegment).join('/'), encodePrefix(plain.join('/')))).toBe(isPrefix);
      }),
    );
  });
});

describe('table keys', () => {
  it('have the documented shapes', () => {
    expect(recordItemKey('1f00', addressOf(modelAt('dynamo/backend/generate/ab', 'lora')))).toEqual({
      pk: 'v1/records#1f00',
      sk: 'v1/mdc/dynamo/backend/generate/ab/lora',
    });
    expect(leaseItemKey('1f00')).toEqual({ pk: expect.stringMatching(/^v1\/leases#\d+$/), sk: '1f00' });
  });

  it('spread leases over all 16 partitions', () => {
    const partitions = new Set(Array.from({ length: 1000 }, (_, at) => leaseItemKey((at * 7919).toString(16)).pk));
    expect([...partitions].sort()).toEqual([...LEASE_PARTITIONS].sort());
    expect(partitions.size).toBe(16);
  });
});
