import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeMessage,
  encodeMessage,
  MessageKind,
  NatsChannel,
} from '../../../../../shared/planes/request/nats/channel.ts';

const WINDOW_BYTES = 1 << 20;
const MESSAGE_BYTES_MAX = 100_000;

/** One side of a channel, and what it was told. */
interface Side {
  readonly channel: NatsChannel;
  readonly received: Buffer[];
  readonly told: string[];
  /** Messages that this side has sent and that have not arrived. */
  readonly onTheWay: Buffer[];
}

function openSide(isPaced = false): Side {
  const onTheWay: Buffer[] = [];
  const channel = new NatsChannel({
    send: (message) => onTheWay.push(message) > 0,
    messageBytesMax: MESSAGE_BYTES_MAX,
    onOver: () => {},
    isPaced,
  });
  const received: Buffer[] = [];
  const told: string[] = [];
  channel.on('data', (bytes: Buffer) => received.push(Buffer.from(bytes)));
  channel.on('error', (error: Error) => told.push(error.message));
  for (const event of ['drain', 'close']) channel.on(event, () => told.push(event));
  return { channel, received, told, onTheWay };
}

/** Hands on everything that is on the way, until nothing is. */
function settle(one: Side, two: Side): void {
  while (one.onTheWay.length + two.onTheWay.length > 0) {
    for (const message of one.onTheWay.splice(0)) two.channel.receive(decodeMessage(message)!);
    for (const message of two.onTheWay.splice(0)) one.channel.receive(decodeMessage(message)!);
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a channel', () => {
  it('brings every byte over in order, whatever the sizes, within its window', () => {
    const writes = fc.array(fc.integer({ min: 1, max: 3 * WINDOW_BYTES }), { maxLength: 6 });
    fc.assert(
      fc.property(writes, (sizes) => {
        const [one, two] = [openSide(), openSide()];
        const sent = sizes.map((size, at) => Buffer.alloc(size, at + 1));
        for (const bytes of sent) {
          const copy = Buffer.from(bytes);
          const hasRoom = one.channel.write(copy);
          copy.fill(0); // its memory may be used again at once
          expect(hasRoom).toBe(one.channel.writableLength === 0);
        }
        const underWay = one.onTheWay.reduce((sum, message) => sum + message.length - 12, 0);
        expect(underWay).toBeLessThanOrEqual(WINDOW_BYTES);
        expect(one.onTheWay.every((message) => message.length <= MESSAGE_BYTES_MAX)).toBe(true);
        settle(one, two);
        expect(Buffer.concat(two.received).equals(Buffer.concat(sent))).toBe(true);
        expect(one.channel.writableLength).toBe(0);
      }),
      { numRuns: 30 },
    );
  });

  it('says when there is room again', () => {
    const [one, two] = [openSide(), openSide()];
    expect(one.channel.write(Buffer.alloc(2 * WINDOW_BYTES))).toBe(false);
    expect(one.told).toEqual([]);
    settle(one, two);
    expect(one.told).toEqual(['drain']);
  });

  it('closes behind what was written, on both sides', async () => {
    const [one, two] = [openSide(), openSide()];
    one.channel.write(Buffer.alloc(2 * WINDOW_BYTES, 7));
    one.channel.destroySoon();
    expect(one.channel.destroyed).toBe(false);
    settle(one, two);
    await turn();
    expect(Buffer.concat(two.received)).toHaveLength(2 * WINDOW_BYTES);
    expect([one.channel.destroyed, two.channel.destroyed]).toEqual([true, true]);
    expect([one.told.at(-1), two.told.at(-1)]).toEqual(['close', 'close']);
  });

  it.each(['lost', 'twice'])('ends when a message comes %s, and the other side learns it', async (fault) => {
    const [one, two] = [openSide(), openSide()];
    for (let at = 0; at < 3; at++) one.channel.write(Buffer.alloc(10, at));
    if (fault === 'lost') one.onTheWay.splice(1, 1);
    else one.onTheWay.splice(1, 0, one.onTheWay[0]!);
    settle(one, two);
    await turn();
    expect(two.told[0]).toMatch(/^messages were lost/);
    expect(two.received).toHaveLength(1);
    expect(one.channel.destroyed).toBe(true);
  });

  it('ends when the other side says that it took what was never sent', async () => {
    const one = openSide();
    one.channel.write(Buffer.alloc(5));
    one.channel.receive(decodeMessage(encodeMessage(MessageKind.consumed, 0, 6))!);
    one.channel.write(Buffer.alloc(2 * WINDOW_BYTES));
    await turn();
    expect(one.told).toEqual(['the other side acknowledges messages that were never sent', 'close']);
  });

  it('ends at once where no message may have a byte', async () => {
    const sent: Buffer[] = [];
    const send = (message: Buffer): boolean => sent.push(message) > 1000;
    const channel = new NatsChannel({ send, messageBytesMax: 0, onOver: () => {} });
    expect(channel.write(Buffer.alloc(5))).toBe(false);
    expect(sent).toEqual([]);
    channel.destroy();
  });

  it('ends when it cannot send, and ignores what comes after its end', async () => {
    const channel = new NatsChannel({ send: () => false, messageBytesMax: MESSAGE_BYTES_MAX, onOver: () => {} });
    const told: string[] = [];
    channel.on('error', (error: Error) => told.push(error.message));
    channel.on('close', () => told.push('close'));
    channel.write(Buffer.alloc(1));
    channel.destroy();
    channel.receive(decodeMessage(encodeMessage(MessageKind.data, 0, 0, Buffer.alloc(1)))!);
    await turn();
    expect(told).toEqual(['there is no connection to NATS', 'close']);
  });
});

describe('messages of a channel', () => {
  it('read back as written; other bytes are ignored', () => {
    const message = encodeMessage(MessageKind.data, 0xffff_ffff, 0x8000_0001, Uint8Array.of(1, 2));
    expect(decodeMessage(message)).toEqual({
      kind: MessageKind.data,
      sequence: 0xffff_ffff,
      consumed: 0x8000_0001,
      bytes: Buffer.of(1, 2),
    });
    for (const bytes of [[], [1, 0, 0], new Array(12).fill(0), [9, ...new Array(20).fill(0)]]) {
      expect(decodeMessage(Uint8Array.from(bytes))).toBeUndefined();
    }
  });
});

describe('a channel whose reads are paced', () => {
  const MESSAGES = 8;
  const MESSAGE = 100_000;
  const sendsAll = (side: Side): void => {
    for (let at = 0; at < MESSAGES; at++) {
      side.channel.receive(decodeMessage(encodeMessage(MessageKind.data, at, 0, Buffer.alloc(MESSAGE, at + 1)))!);
    }
  };
  const bytesOf = (side: Side): number => side.received.reduce((sum, bytes) => sum + bytes.length, 0);

  it('has a bounded part of each turn, takes no more than it hands on, and loses nothing', async () => {
    const side = openSide(true);
    sendsAll(side);
    let before = 0;
    let largest = bytesOf(side);
    while (bytesOf(side) < MESSAGES * MESSAGE) {
      for (const message of side.onTheWay) {
        expect(decodeMessage(message)!.consumed).toBeLessThanOrEqual(bytesOf(side));
      }
      before = bytesOf(side);
      await turn();
      largest = Math.max(largest, bytesOf(side) - before);
    }
    expect(largest).toBeLessThan(256 * 1024);
    const sent = Array.from({ length: MESSAGES }, (_, at) => Buffer.alloc(MESSAGE, at + 1));
    expect(Buffer.concat(side.received).equals(Buffer.concat(sent))).toBe(true);
  });

  it('hands on what had arrived before the other side closes', async () => {
    const side = openSide(true);
    sendsAll(side);
    expect(bytesOf(side)).toBeLessThan(MESSAGES * MESSAGE);
    side.channel.receive(decodeMessage(encodeMessage(MessageKind.close, MESSAGES, 0))!);
    expect(bytesOf(side)).toBe(MESSAGES * MESSAGE);
    await turn();
    expect(side.told).toEqual(['close']);
  });

  it('ends when the other side sends more than its window', async () => {
    const side = openSide(true);
    for (let at = 0; at < 20; at++) {
      side.channel.receive(decodeMessage(encodeMessage(MessageKind.data, at, 0, Buffer.alloc(MESSAGE)))!);
    }
    await turn();
    expect(side.told).toEqual(['the other side sends more than its window allows', 'close']);
  });
});
