import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AnswerWriter } from '../../../../../shared/planes/request/frames/answer-writer.ts';
import { FrameError, FrameParser, FrameType, readTokens } from '../../../../../shared/planes/request/frames/frame.ts';
import { ByteWriter } from '../../../../../shared/planes/request/frames/outbox.ts';
import { FrameLog } from '../tcp/raw-peer.ts';

const MAX = 1 << 20;

function writerOn(payloadBytesMax = MAX): { target: ByteWriter; answers: AnswerWriter } {
  const target = new ByteWriter();
  return { target, answers: new AnswerWriter(target, payloadBytesMax) };
}

function framesIn(target: ByteWriter): FrameLog {
  const log = new FrameLog();
  new FrameParser(log, MAX).push(Buffer.concat(target.pieces()));
  return log;
}

interface Entry {
  readonly streamId: number;
  readonly choice: number;
  readonly ids: number[];
}

function tokensIn(payload: Buffer): Entry[] {
  const entries: Entry[] = [];
  readTokens(payload, 0, payload.length, {
    streamTokens: (streamId, choice, ids, count) =>
      entries.push({ streamId, choice, ids: [...ids.subarray(0, count)] }),
  });
  return entries;
}

describe('answer writer', () => {
  it('puts the tokens of all streams of a turn into one frame, byte for byte', () => {
    const { target, answers } = writerOn();
    answers.tokens(1, 0, [0x01020304], 0, 1);
    answers.tokens(3, 2, Uint32Array.of(9, 0xffffffff, 5, 9), 1, 2);
    answers.seal();
    expect(target.bytes.subarray(0, target.length).toString('hex')).toBe(
      ['00000018', '01', '0e', '0000', '00000000', '00000001', '00', '01', '01020304']
        .concat('00000003', '02', '02', 'ffffffff', '00000005')
        .join(''),
    );
  });

  it('sends prologues before the tokens of a turn, and items and ends behind them', () => {
    const { target, answers } = writerOn();
    answers.tokens(1, 0, [1], 0, 1);
    answers.item(1, answers.encode({ data: {} }));
    answers.end(1);
    answers.prologue(3);
    answers.tokens(3, 0, [2], 0, 1);
    answers.fail(5, { kind: 'Internal', message: 'why' }, false);
    answers.tokens(7, 0, [3], 0, 1);
    answers.seal();
    const { prologue, tokens, data, end } = FrameType;
    expect(framesIn(target).frames.map((frame) => [frame.type, frame.streamId])).toEqual([
      [prologue, 3],
      [tokens, 0],
      [data, 1],
      [end, 1],
      [prologue, 5],
    ]);
  });

  it('keeps the order of a stream that goes on with tokens after an item', () => {
    const { target, answers } = writerOn();
    answers.tokens(1, 0, [1], 0, 1);
    answers.item(1, answers.encode({ data: {} }));
    answers.tokens(3, 0, [2], 0, 1);
    answers.tokens(1, 0, [3], 0, 1);
    answers.end(1);
    answers.seal();
    const log = framesIn(target);
    expect(log.frames.map((frame) => frame.type)).toEqual([
      FrameType.tokens,
      FrameType.data,
      FrameType.tokens,
      FrameType.end,
    ]);
    expect(log.ofType(FrameType.tokens).map((frame) => tokensIn(frame.payload))).toEqual([
      [
        { streamId: 1, choice: 0, ids: [1] },
        { streamId: 3, choice: 0, ids: [2] },
      ],
      [{ streamId: 1, choice: 0, ids: [3] }],
    ]);
  });

  it('cuts runs longer than 255 tokens, and frames at the limit', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(9), fc.nat(255), fc.integer({ min: 1, max: 700 })), { maxLength: 30 }),
        (runs) => {
          const limit = 4096;
          const { target, answers } = writerOn(limit);
          const expected = new Map<string, number[]>();
          runs.forEach(([streamId, choice, count], at) => {
            const ids = Array.from({ length: count }, (_, id) => at * 1000 + id);
            answers.tokens(streamId, choice, ids, 0, count);
            expected.set(`${streamId}/${choice}`, [...(expected.get(`${streamId}/${choice}`) ?? []), ...ids]);
          });
          answers.seal();
          const found = new Map<string, number[]>();
          for (const { payload } of framesIn(target).frames) {
            expect(payload.length).toBeLessThanOrEqual(limit);
            for (const { streamId, choice, ids } of tokensIn(payload)) {
              found.set(`${streamId}/${choice}`, [...(found.get(`${streamId}/${choice}`) ?? []), ...ids]);
            }
          }
          expect(found).toEqual(expected);
        },
      ),
    );
  });

  it('refuses an item beyond the limit', () => {
    const { answers } = writerOn(1000);
    expect(() => answers.encode({ data: { text: 'x'.repeat(1001) } })).toThrow(
      expect.objectContaining({ worker: 'BackendProtocol' }),
    );
  });
});

describe('a TOKENS payload', () => {
  it('of random bytes is read or refused, never more', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        try {
          const read = tokensIn(Buffer.from(bytes));
          const length = read.reduce((sum, entry) => sum + 6 + 4 * entry.ids.length, 0);
          expect(length).toBe(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(FrameError);
        }
      }),
    );
  });
});
