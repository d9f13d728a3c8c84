import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeEnvelope, decodeEnvelopeRecord, u64Bytes } from '../../../../shared/planes/event/envelope.ts';
import { JSON_BYTES_MAX } from '../../../../shared/planes/event/json-envelope.ts';
import { exactText } from '../../../../shared/records/index.ts';

const HASH = '17503296523711312341';
const PAYLOAD = `[{"worker_id":${HASH},"event":{"event_id":3,"data":"cleared"}}]`;

/** Returns a message as a publisher of Dynamo writes it in JSON: the payload is a list of the bytes of its JSON. */
function message(payload = PAYLOAD, publisherId = '9007199254740991'): string {
  const bytes = [...Buffer.from(payload)].join();
  return `{"topic":"kv-events","publisher_id":${publisherId},"sequence":7,"published_at":1700000000123,"payload":[${bytes}]}`;
}

describe('an event in JSON', () => {
  const expected = {
    topic: 'kv-events',
    publisherId: '1fffffffffffff',
    sequence: 7,
    publishedAtMs: 1_700_000_000_123,
    payload: [{ worker_id: BigInt(HASH), event: { event_id: 3, data: 'cleared' } }],
  };

  it('reads as it was written, with every digit of its ids', () => {
    expect(decodeEnvelopeRecord('kv-events', Buffer.from(message()))).toEqual(expected);
  });

  it('reads within the frames of ZeroMQ, too', () => {
    const record = Buffer.from(message());
    const header = Buffer.from([1, 0, 0, 0, 0]);
    header.writeUInt32BE(record.length, 1);
    const frames = {
      publisherId: u64Bytes(2n ** 53n - 1n),
      sequence: u64Bytes(7n),
      body: Buffer.concat([header, record]),
    };
    expect(decodeEnvelope('kv-events', frames)).toEqual(expected);
  });

  it('keeps any payload that JSON can say', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const payload = JSON.stringify(value);
        const { payload: read } = decodeEnvelopeRecord('t', Buffer.from(message(payload))) as { payload: unknown };
        expect(exactText(read)).toBe(payload);
      }),
    );
  });

  it.each([
    ['half of a message', message().slice(0, -20)],
    ['a payload that is text', message().replace(/"payload":\[.*\]/, '"payload":"[]"')],
    ['a payload of numbers that are no bytes', message().replace('"payload":[', '"payload":[256,')],
    ['a payload with a fraction', message().replace('"payload":[', '"payload":[0.5,')],
    ['a payload that is no JSON', message('{')],
    ['no publisher', message().replace('publisher_id', 'publisher')],
    ['more bytes than are read in one turn', message(JSON.stringify('x'.repeat(JSON_BYTES_MAX / 4)))],
  ])('is refused if it has %s', (_, text) => {
    expect(() => decodeEnvelopeRecord('t', Buffer.from(text))).toThrow();
  });
});
