import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeEnvelope,
  decodeEnvelopeRecord,
  encodeEnvelope,
  SequenceWatch,
} from '../../../../shared/planes/event/envelope.ts';
import { type EventListener, subjectOf } from '../../../../shared/planes/event/index.ts';
import { decodeRecord, encodeRecord } from '../../../../shared/planes/record-codec.ts';
import { readSliced } from '../../../../shared/planes/sliced-record.ts';

describe('a subject', () => {
  const [namespace, component] = ['dynamo', 'backend'];
  it.each([
    [{ kind: 'namespace', namespace }, 'kv_metrics', 'namespace.dynamo.kv_metrics'],
    [{ kind: 'component', namespace, component }, 'kv-events', 'namespace.dynamo.component.backend.kv-events'],
    [
      { kind: 'endpoint', namespace, component, endpoint: 'generate' },
      'kv-events',
      'namespace.dynamo.component.backend.endpoint.generate.kv-events',
    ],
    [
      { kind: 'namespace', namespace: 'a.b/c*>' },
      "it's (ä)!~",
      'namespace.a%2Eb%2Fc%2A%3E.it%27s%20%28%C3%A4%29%21%7E',
    ],
  ] as const)('of %j', (scope, topic, subject) => {
    expect(subjectOf(scope, topic)).toBe(subject);
  });
});

describe('an envelope', () => {
  const event = {
    topic: 'kv-events',
    publisherId: '1fffffffffffff',
    sequence: 2 ** 40 + 1,
    publishedAtMs: 1_700_000_000_123,
    payload: [{ worker: 'a', hash: 0xfedc_ba98_7654_3210n }],
  };

  it('is framed as Dynamo frames it', () => {
    const { publisherId, sequence, body } = encodeEnvelope('msgpack', event);
    expect(publisherId.toString('hex')).toBe('001fffffffffffff');
    expect(sequence.toString('hex')).toBe('0000010000000001');
    expect(body[0]).toBe(1);
    expect(body.readUInt32BE(1)).toBe(body.length - 5);
    const record = decodeRecord('msgpack', body, 5, body.length) as Record<string, unknown>;
    expect(Object.keys(record)).toEqual(['topic', 'publisher_id', 'sequence', 'published_at', 'payload']);
    expect(record.publisher_id).toBe(2 ** 53 - 1);
    expect(record.published_at).toBe(event.publishedAtMs);
    expect(record.payload).toBeInstanceOf(Uint8Array);
    // Integers, not floating point, so that other readers accept them.
    expect(body.includes(Buffer.from('d3001fffffffffffff', 'hex'))).toBe(true);
    expect(body.includes(Buffer.from('d30000018bcfe5687b', 'hex'))).toBe(true);
  });

  it('is readable JSON with the payload as byte values when told so', () => {
    const { body } = encodeEnvelope('json', { ...event, payload: { a: 1 } });
    expect(JSON.parse(body.toString('utf8', 5))).toEqual({
      topic: 'kv-events',
      publisher_id: 2 ** 53 - 1,
      sequence: 2 ** 40 + 1,
      published_at: 1_700_000_000_123,
      payload: [...Buffer.from('{"a":1}')],
    });
  });

  it('reads as it was written, in either codec', () => {
    expect(decodeEnvelope('kv-events', encodeEnvelope('msgpack', event))).toEqual(event);
    const plain = { ...event, payload: { list: [1, 'ä', null] } };
    expect(decodeEnvelope('kv-events', encodeEnvelope('json', plain))).toEqual(plain);
  });

  it('is refused when any byte of its framing is wrong or missing', () => {
    const frames = encodeEnvelope('msgpack', event);
    for (let end = 0; end < frames.body.length; end++) {
      expect(() => decodeEnvelope('kv-events', { ...frames, body: frames.body.subarray(0, end) })).toThrow();
    }
    const otherVersion = Buffer.from(frames.body);
    otherVersion[0] = 2;
    expect(() => decodeEnvelope('kv-events', { ...frames, body: otherVersion })).toThrow();
    expect(() => decodeEnvelope('kv-events', { ...frames, sequence: Buffer.alloc(7) })).toThrow();
    expect(() => decodeEnvelope('kv-events', { ...frames, publisherId: Buffer.alloc(9) })).toThrow();
  });
});

describe('a long envelope', () => {
  const event = {
    topic: 'kv-events',
    publisherId: '2a',
    sequence: 7,
    publishedAtMs: 1_700_000_000_123,
    payload: Array.from({ length: 30_000 }, (_, at) => ({ at })),
  };

  it.each(['msgpack', 'json'] as const)('of %s reads as it was written, in many turns', async (codec) => {
    let turns = 0;
    let isRead = false;
    const count = (): void => {
      turns++;
      if (!isRead) setImmediate(count);
    };
    count();
    const read = decodeEnvelope('kv-events', encodeEnvelope(codec, event));
    expect(read).toBeInstanceOf(Promise);
    expect(await read).toEqual(event);
    isRead = true;
    expect(turns).toBeGreaterThan(5);
  });

  it.each([
    ['a payload that says how long it is', { payload: { length: 2 ** 33 }, x: 'x'.repeat(70_000) }, 'is no bytes'],
    ['a payload of texts', { payload: [...'x'.repeat(50_000)] }, 'is no bytes'],
    ['a payload that is broken', { payload: new Array(50_000).fill(0x7b) }, 'JSON'],
    ['a payload that is long and broken', { payload: new Array(70_000).fill(0x7b) }, 'levels of nesting'],
    ['no publisher', { payload: [48], x: 'x'.repeat(70_000) }, 'without publisher or sequence'],
  ])('is refused with %s', async (_name, record, message) => {
    const bytes = Buffer.from(JSON.stringify(record));
    await expect(decodeEnvelopeRecord('kv-events', bytes)).rejects.toThrow(message);
  });

  it('is refused where it is a list, or cut off', async () => {
    const list = Buffer.from(encodeRecord('msgpack', new Array(70_000).fill(1)));
    await expect(decodeEnvelopeRecord('kv-events', list)).rejects.toThrow('an event that is no record');
    const { body } = encodeEnvelope('msgpack', event);
    await expect(decodeEnvelopeRecord('kv-events', body.subarray(5, -1))).rejects.toThrow('ends too early');
  });
});

describe('a long text', () => {
  it.each(['msgpack', 'json'] as const)('is read as a record of %s like any other', async (codec) => {
    const text = `"${'ä'.repeat(100_000)}`;
    expect(await readSliced(codec, Buffer.from(encodeRecord(codec, text)))).toBe(text);
  });
});

describe('an envelope record', () => {
  const head = { topic: 'kv-events', publisher_id: 7, sequence: 1, published_at: 1 };

  it.each([
    ['an object that says how long it is', { length: 2 ** 33 }],
    ['a number', 2 ** 33],
    ['a text', 'x'],
    ['nothing', null],
  ])('is refused when its payload is %s: no memory is taken for bytes that are not there', (_name, payload) => {
    const bytes = Buffer.from(JSON.stringify({ ...head, payload }));
    expect(() => decodeEnvelopeRecord('kv-events', bytes)).toThrow('an event whose payload is no bytes');
  });
});

describe('the watch on sequences', () => {
  it('passes on what is new from those it follows, in order, and reports every hole once', () => {
    const arrivals = fc.array(fc.record({ publisher: fc.nat(2), sequence: fc.nat(15) }), { maxLength: 60 });
    fc.assert(
      fc.property(arrivals, (messages) => {
        const log: string[] = [];
        const listener: EventListener = {
          event: (event) => log.push(`${event.publisherId} ${event.sequence}`),
          gap: (publisherId, expected, received) => log.push(`${publisherId} gap ${expected}-${received}`),
        };
        const watch = new SequenceWatch('Memory', listener, () => {});
        for (const id of ['p0', 'p1']) watch.connect(id, { kind: 'Memory', config: {} });
        watch.connect('p2', { kind: 'Nats', config: { subject_prefix: 'p' } });
        const expectedLog: string[] = [];
        const last = new Map<string, number>();
        let missed = 0;
        for (const { publisher, sequence } of messages) {
          const publisherId = `p${publisher}`;
          watch.receive({ topic: 't', publisherId, sequence, publishedAtMs: 0, payload: null });
          if (publisher === 2) continue; // nobody connected it to this plane
          const before = last.get(publisherId) ?? -1;
          if (sequence <= before) continue;
          if (sequence > before + 1) expectedLog.push(`${publisherId} gap ${before + 1}-${sequence}`);
          if (last.has(publisherId)) missed += sequence - before - 1;
          last.set(publisherId, sequence);
          expectedLog.push(`${publisherId} ${sequence}`);
        }
        expect(log).toEqual(expectedLog);
        expect(watch.missed).toBe(missed);
      }),
    );
  });
});
