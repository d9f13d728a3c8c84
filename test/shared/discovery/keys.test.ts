import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyOfItem, leaseItemKey, recordItemKey, scopeOf } from '../../../shared/discovery/dynamodb/schema.ts';
import { addressOf, decodeSegment, encodePrefix, isUnder } from '../../../shared/discovery/keys.ts';
import { encodeSegment } from '../../../shared/planes/names/index.ts';
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
        expect(decodeSegment(encodeSegment(text))).toBe(text);
      }),
    );
  });
});

describe('keys', () => {
  it('have the documented shapes', () => {
    const component = { kind: 'component', namespace: 'dynamo', component: 'backend' } as const;
    expect(addressOf(endpointAt('dynamo/backend/generate/694d98147d54be25'))).toEqual({
      bucket: 'v1/instances',
      namespace: 'dynamo',
      key: 'dynamo/backend/generate/694d98147d54be25',
    });
    expect(addressOf(modelAt('dynamo/backend/generate/ab', 'my.lora'))).toMatchObject({
      bucket: 'v1/mdc',
      key: 'dynamo/backend/generate/ab/my%2Elora',
    });
    expect(addressOf(channelOf({ ...component, kind: 'endpoint', endpoint: 'generate' }, 'kv-events', '1f'))).toEqual({
      bucket: 'v1/event_channels',
      namespace: 'dynamo',
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
    expect(recordItemKey(addressOf(modelAt('dynamo/backend/generate/ab', 'lora')))).toEqual({
      pk: 'v1/mdc#dynamo',
      sk: 'backend/generate/ab/lora',
    });
    const channel = channelOf({ kind: 'component', namespace: 'ns', component: 'c' }, 'kv-events', '1');
    expect(recordItemKey(addressOf(channel))).toEqual({
      pk: 'v1/event_channels#ns',
      sk: 'component/c/topic/kv-events/1',
    });
    expect(leaseItemKey('dynamo', '1f00')).toEqual({
      pk: expect.stringMatching(/^v1\/leases#dynamo#\d+$/),
      sk: '1f00',
    });
  });

  it('turn back into the record key', () => {
    const records = [endpointAt('a/b/c/1'), channelOf({ kind: 'namespace', namespace: 'n.s' }, 'kv-events', '2')];
    for (const record of records) {
      const address = addressOf(record);
      const { sk } = recordItemKey(address);
      expect(keyOfItem(address.bucket, encodeSegment(address.namespace), sk)).toBe(address.key);
    }
  });

  it('spread leases over all 16 partitions', () => {
    const partitions = new Set(
      Array.from({ length: 1000 }, (_, at) => leaseItemKey('ns', (at * 7919).toString(16)).pk),
    );
    expect(partitions.size).toBe(16);
    expect([...partitions].every((pk) => /#(\d|1[0-5])$/.test(pk))).toBe(true);
  });

  it('ask for whole segments, and for all namespaces when none is named', () => {
    const scope = (prefix: string) => scopeOf('v1/instances', encodePrefix(prefix));
    expect(scope('')).toEqual({ bucket: 'v1/instances', namespace: undefined, sortPrefix: undefined });
    expect(scope('ns')).toMatchObject({ namespace: 'ns', sortPrefix: undefined });
    expect(scope('ns/comp')).toMatchObject({ namespace: 'ns', sortPrefix: 'comp/' });
    expect(scope('ns/comp/ep/1')).toMatchObject({ sortPrefix: 'comp/ep/1' }); // may be a whole key
    expect(scopeOf('v1/event_channels', 'namespace/ns/topic')).toMatchObject({ namespace: 'ns', sortPrefix: 'topic/' });
    expect(scopeOf('v1/event_channels', 'ns')).toBeUndefined();
  });
});
