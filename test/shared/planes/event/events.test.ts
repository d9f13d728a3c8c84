import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeEnvelope,
  decodeEnvelopeRecord,
  encodeEnvelope,
  SequenceWatch,
} from '../../../../shared/planes/event/envelope.ts';
import { subjectOf } from '../../../../shared/planes/event/types.ts';
import type { EventListener } from '../../../../shared/planes/index.ts';
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
    const { publisherId, sequence, body } = encodeEnvelope(event);
    expect(publisherId.toString('hex')).toBe('001fffffffffffff');
    expect(sequence.toString('hex')).toBe('0000010000000001');
    expect(body[0]).toBe(1);
    expect(body.readUInt32BE(1)).toBe(body.length - 5);
    const record = decodeRecord(body, 5, body.length) as Record<string, unknown>;
    expect(Object.keys(record)).toEqual(['topic', 'publisher_id', 'sequence', 'published_at', 'payload']);
    expect(record.publisher_id).toBe(2 ** 53 - 1);
    expect(record.published_at).toBe(event.publishedAtMs);
    expect(record.payload).toBeInstanceOf(Uint8Array);
    // Integers, not floating point, so that other readers accept them.
    expect(body.includes(Buffer.from('d3001fffffffffffff', 'hex'))).toBe(true);
    expect(body.includes(Buffer.from('d30000018bcfe5687b', 'hex'))).toBe(true);
  });

  it('reads as it was written', () => {
    expect(decodeEnvelope('kv-events', encodeEnvelope(event))).toEqual(event);
  });

  it('is refused when any byte of its framing is wrong or missing', () => {
    const frames = encodeEnvelope(event);
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

  it('reads as it was written, in many turns', async () => {
    let turns = 0;
    let isRead = false;
    const count = (): void => {
      turns++;
      if (!isRead) setImmediate(count);
    };
    count();
    const read = decodeEnvelope('kv-events', encodeEnvelope(event));
    expect(read).toBeInstanceOf(Promise);
    expect(await read).toEqual(event);
    isRead = true;
    expect(turns).toBeGreaterThan(5);
  });

  it.each([
    ['a payload that says how long it is', { payload: { length: 2 ** 33 }, x: 'x'.repeat(70_000) }, 'is not bytes'],
    ['a payload of texts', { payload: [...'x'.repeat(50_000)] }, 'is not bytes'],
    ['a payload that is broken', { payload: Buffer.of(0x91), x: 'x'.repeat(70_000) }, 'MessagePack'],
    ['a payload that is long and broken', { payload: Buffer.alloc(70_000, 0x91) }, 'nested too deeply'],
    ['no publisher', { payload: Buffer.of(48), x: 'x'.repeat(70_000) }, 'without publisher or sequence'],
  ])('is refused with %s', async (_name, record, message) => {
    const bytes = Buffer.from(encodeRecord(record));
    await expect(decodeEnvelopeRecord('kv-events', bytes)).rejects.toThrow(message);
  });

  it('is refused where it is a list, or cut off', async () => {
    const list = Buffer.from(encodeRecord(new Array(70_000).fill(1)));
    await expect(decodeEnvelopeRecord('kv-events', list)).rejects.toThrow('an event that is not a record');
    const { body } = encodeEnvelope(event);
    await expect(decodeEnvelopeRecord('kv-events', body.subarray(5, -1))).rejects.toThrow('ends too early');
  });
});

describe('a long text', () => {
  it('is read as a record like any other', async () => {
    const text = `"${'ä'.repeat(100_000)}`;
    expect(await readSliced(Buffer.from(encodeRecord(text)))).toBe(text);
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
    const bytes = Buffer.from(encodeRecord({ ...head, payload }));
    expect(() => decodeEnvelopeRecord('kv-events', bytes)).toThrow('an event whose payload is not bytes');
  });
});

describe('the watch on sequences', () => {
  it('passes on what is new from those it follows, in order, and reports every hole once', () => {
    const arrivals = fc.array(fc.record({ publisher: fc.nat(2), sequence: fc.nat(15) }), { maxLength: 60 });
    fc.assert(
      fc.property(arrivals, (messages) => {
        const log: string[] = [];
        let told = 0;
        const listener: EventListener = {
          event: (event) => log.push(`${event.publisherId} ${event.sequence}`),
          gap: (publisherId, expected, received) => {
            log.push(`${publisherId} gap ${expected}-${received}`);
            if (expected > 0) told += received - expected;
          },
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
          if (publisher === 2) continue; // it was not connected to this plane
          const before = last.get(publisherId) ?? -1;
          if (sequence <= before) continue;
          if (sequence > before + 1) expectedLog.push(`${publisherId} gap ${before + 1}-${sequence}`);
          if (last.has(publisherId)) missed += sequence - before - 1;
          last.set(publisherId, sequence);
          expectedLog.push(`${publisherId} ${sequence}`);
        }
        expect(log).toEqual(expectedLog);
        expect(told).toBe(missed);
      }),
    );
  });
});
