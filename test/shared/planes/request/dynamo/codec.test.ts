import fc from 'fast-check';
import { Unpackr } from 'msgpackr';
import { describe, expect, it } from 'vitest';
import { decodeLarge, decodePayload, encodePayload } from '../../../../../shared/planes/request/dynamo/codec.ts';
import { AckRules, requestMessage } from '../../../../../shared/planes/request/dynamo/message.ts';
import { RecordCutter } from '../../../../../shared/planes/request/dynamo/record-cutter.ts';
import { TwoPartRules, twoPartMessage } from '../../../../../shared/planes/request/dynamo/two-part.ts';
import { twoPart } from '../../../../support/stand-in-dynamo-worker.ts';

/** Cuts `bytes` at the given places, as a network might. */
function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let from = 0;
  return ends.map((end) => {
    const piece = Buffer.from(bytes.subarray(from, end)); // a copy: nothing may survive its chunk
    from = end;
    return piece;
  });
}

const part = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.constantFrom(1000, 70_000, 140_000).map((length) => new Uint8Array(length).fill(length & 0xff)),
);
const message = fc.record({ header: fc.string({ maxLength: 30 }), body: part });

/** Collects messages as texts, and pauses after some of them. */
function collector(bytesMax: number, pausesAfter: ReadonlySet<number> = new Set()) {
  const seen: string[] = [];
  const cutter = new RecordCutter(
    new TwoPartRules(bytesMax, (bytes, headerStart, bodyStart, end) => {
      seen.push(`${bytes.toString('utf8', headerStart, bodyStart)}|${bytes.toString('latin1', bodyStart, end)}`);
      if (pausesAfter.has(seen.length)) cutter.pause();
    }),
  );
  return { seen, cutter };
}

function asText({ header, body }: { header: string; body: Uint8Array }): string {
  return `${Buffer.from(header).toString()}|${Buffer.from(body).toString('latin1')}`;
}

describe('messages of two parts', () => {
  it('are found under any chunking, and whenever reading pauses', () => {
    fc.assert(
      fc.property(
        fc.array(message, { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 30 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 8 })),
        (messages, places, pauses) => {
          const stream = Buffer.concat(
            messages.flatMap(({ header, body }) => [...twoPartMessage(Buffer.from(header), [body])]),
          );
          const { seen, cutter } = collector(1 << 20, new Set(pauses));
          for (const piece of cut(stream, places)) {
            cutter.push(piece);
            piece.fill(0xee);
          }
          for (let turn = 0; turn < 10; turn++) cutter.resume();
          expect(seen).toEqual(messages.map(asText));
          expect(cutter.isInside).toBe(false);
        },
      ),
    );
  });

  it('are found byte by byte, with the checksum of a debug build', () => {
    const stream = Buffer.concat([twoPart('"stop"', undefined, 0x1234_5678_9abc_def0n), twoPart('', Buffer.from('x'))]);
    const { seen, cutter } = collector(1 << 20);
    for (const byte of stream) cutter.push(Buffer.of(byte));
    expect(seen).toEqual(['"stop"|', '|x']);
  });

  it('have the bytes that Dynamo writes', () => {
    expect(Buffer.concat(twoPartMessage(Buffer.from('"stop"'))).toString('hex')).toBe(
      '0000000000000006000000000000000000000000000000002273746f7022',
    );
  });

  it('are refused before their bytes come if they are too long, or their length is no length', () => {
    for (const length of [1000n, 2n ** 40n, 2n ** 63n, 2n ** 64n - 1n]) {
      for (const at of [0, 8]) {
        const prefix = Buffer.alloc(24);
        prefix.writeBigUInt64BE(length, at);
        expect(() => collector(1000).cutter.push(prefix)).toThrow('a message of');
      }
    }
  });

  it('take no memory for bytes that were only promised', () => {
    const prefix = Buffer.alloc(24);
    prefix.writeBigUInt64BE(30_000_000n, 8);
    const before = process.memoryUsage().arrayBuffers;
    const cutters = Array.from({ length: 100 }, () => collector(32 << 20).cutter);
    for (const cutter of cutters) cutter.push(prefix);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(10_000_000);
    expect(cutters.every((cutter) => cutter.isInside)).toBe(true);
  });
});

describe('a request message', () => {
  it('has the bytes that Dynamo reads', () => {
    const bytes = requestMessage(
      { path: '694d98147d54be25/generate', headers: {}, payload: [Buffer.from('hi')] },
      1 << 20,
    );
    expect(Buffer.concat(bytes).toString('hex')).toBe(
      '0019363934643938313437643534626532352f67656e657261746500027b7d000000026869',
    );
  });

  it('is refused as too large with its size and the limit', () => {
    const message = { path: 'p', headers: {}, payload: [Buffer.alloc(1000)] };
    expect(() => requestMessage(message, 1010)).toThrow(expect.objectContaining({ worker: 'PayloadTooLarge' }));
    expect(() => requestMessage(message, 1011)).not.toThrow();
    const long = { path: 'p', headers: { a: 'x'.repeat(70_000) }, payload: [] };
    expect(() => requestMessage(long, 1 << 20)).toThrow(expect.objectContaining({ worker: 'PayloadTooLarge' }));
  });
});

describe('acknowledgements', () => {
  it('are read in their order under any chunking', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 20 })), fc.array(fc.nat(), { maxLength: 20 }), (reasons, places) => {
        const stream = reasons.map((reason) => {
          const text = Buffer.from(reason);
          const length = Buffer.alloc(4);
          length.writeUInt32BE(text.length);
          return Buffer.concat([length, text]);
        });
        const seen: string[] = [];
        const cutter = new RecordCutter(new AckRules((reason) => seen.push(reason)));
        for (const piece of cut(Buffer.concat(stream), places)) cutter.push(piece);
        expect(seen).toEqual(reasons.map((reason) => Buffer.from(reason).toString()));
      }),
    );
  });

  it('are refused if they are too long', () => {
    const cutter = new RecordCutter(new AckRules(() => {}));
    expect(() => cutter.push(Buffer.of(0, 1, 0, 1))).toThrow('an acknowledgement of 65537 bytes');
  });
});

describe('payloads', () => {
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.string(),
      fc.boolean(),
      fc.constant(null),
      fc.integer(),
      fc
        .double({ noNaN: true, noDefaultInfinity: true })
        // In JSON, other whole numbers look like integers of 64 bits.
        .filter((number) => !Number.isInteger(number) || Number.isSafeInteger(number))
        .map((number) => (Object.is(number, -0) ? 0 : number)),
      fc.maxSafeInteger(),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('value'), { maxKeys: 4, noNullPrototype: true }),
    ),
  })).value;
  const record = fc.dictionary(fc.string(), value, { maxKeys: 20, noNullPrototype: true }).filter(hasNoProto);

  it.each(['json', 'msgpack'] as const)('come back from %s as they were', (codec) => {
    fc.assert(
      fc.property(record, (given) => {
        const bytes = Buffer.concat(encodePayload(codec, given));
        expect(decodePayload(codec, bytes, 0, bytes.length)).toEqual(given);
      }),
    );
  });

  it('carry a UUID as bytes in msgpack, and as text in JSON, where other bytes are a list', () => {
    const given = { id: Buffer.from('0123456789ab80008000000000004567', 'hex'), other: Buffer.from([1, 255]) };
    const [json] = encodePayload('json', given);
    expect(String(json)).toBe('{"id":"01234567-89ab-8000-8000-000000004567","other":[1,255]}');
    const bytes = Buffer.concat(encodePayload('msgpack', given));
    expect(decodePayload('msgpack', bytes, 0, bytes.length)).toEqual(given);
  });

  it.each(['json', 'msgpack'] as const)('carry token ids and ids of 64 bits as integers in %s', (codec) => {
    const given = {
      token_ids: [0, 1, 70_000, 0xffff_ffff],
      routing: { backend_instance_id: 2n ** 63n + 1n, allowed_worker_ids: [1, 2 ** 40, 2n ** 60n] },
      absent: undefined,
    };
    const bytes = Buffer.concat(encodePayload(codec, given));
    if (codec === 'json') {
      expect(bytes.toString()).toBe(
        '{"token_ids":[0,1,70000,4294967295],"routing":{"backend_instance_id":9223372036854775809,"allowed_worker_ids":[1,1099511627776,1152921504606846976]}}',
      );
      return;
    }
    const read = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'bigint' }).unpack(bytes);
    expect(read).toEqual({
      token_ids: [0, 1, 70_000, 0xffff_ffff],
      routing: { backend_instance_id: 2n ** 63n + 1n, allowed_worker_ids: [1, 2n ** 40n, 2n ** 60n] },
    });
  });
});

it('reads integers of 64 bits in JSON exactly', () => {
  const bytes = Buffer.from('{"hash":18446744073709551615,"small":3,"nanoseconds":1628626622007113}');
  expect(decodePayload('json', bytes, 0, bytes.length)).toEqual({
    hash: 2n ** 64n - 1n,
    small: 3,
    nanoseconds: 1_628_626_622_007_113,
  });
});

it('reads integers of 64 bits in JSON exactly in slices, too', async () => {
  const hashes = Array.from({ length: 20_000 }, (_, at) => 2n ** 64n - 1n - BigInt(at));
  const deep = `{"data":{"blocks":[${hashes.map((hash) => `{"hash":${hash},"id":1}`).join()}],"all":[${hashes.join()}]}}`;
  expect(await decodeLarge('json', Buffer.from(deep))).toEqual({
    data: { blocks: hashes.map((hash) => ({ hash, id: 1 })), all: hashes },
  });
});

it('refuses too many lists in JSON, as in msgpack', async () => {
  const lists = `[${'[],'.repeat(1 << 20)}[]]`;
  await expect(decodeLarge('json', Buffer.from(lists))).rejects.toThrow('at most 1048576 objects and arrays');
});

function hasNoProto(value: object): boolean {
  return !JSON.stringify(value).includes('__proto__');
}
