import { describe, expect, it } from 'vitest';
import { encodeEnvelopeRecord } from '../../../../shared/planes/event/envelope.ts';
import { NatsSubscription } from '../../../../shared/planes/event/nats/subscription.ts';
import type { EventListener } from '../../../../shared/planes/event/types.ts';
import { waitUntil } from '../../../support/index.ts';

/** Takes several turns to read. */
const LONG = new Array<number>(100_000).fill(1);
/** A record of many bytes without the last ones, which shows only when the others have been read. */
const CUT = encode(0, LONG).subarray(0, -100);

function encode(sequence: number, payload: unknown): Uint8Array {
  return encodeEnvelopeRecord({ topic: 't', publisherId: '2a', sequence, publishedAtMs: 1, payload });
}

function start(more: Partial<EventListener> = {}) {
  const heard: number[] = [];
  const problems: string[] = [];
  let receive: (message: { data: Uint8Array }) => void = () => {};
  const subscription = new NatsSubscription({
    subscribe: (take) => {
      receive = take;
      return { unsubscribe: () => {} };
    },
    topic: 't',
    listener: { event: ({ sequence }) => heard.push(sequence), ...more },
    onProblem: (problem) => problems.push((problem as Error).message),
  });
  subscription.connect('2a', { kind: 'Nats', config: { subject_prefix: 'x' } });
  const send = (data: Uint8Array): void => receive({ data });
  return { subscription, heard, problems, send, publish: (at: number, content: unknown) => send(encode(at, content)) };
}

describe('a subscription by NATS', () => {
  it('hands events on at once while none before them is being read', () => {
    const { heard, problems, send, publish } = start();
    publish(0, 'a');
    send(new Uint8Array([1]));
    publish(1, 'b');
    expect(heard).toEqual([0, 1]);
    expect(problems).toHaveLength(1);
  });

  it('keeps the order behind one that takes long, whatever becomes of it', async () => {
    const { heard, problems, send, publish } = start();
    send(CUT);
    publish(0, LONG);
    publish(1, 'short');
    expect([heard, problems]).toEqual([[], []]);
    await waitUntil(() => heard.length === 2);
    expect(heard).toEqual([0, 1]);
    expect(problems).toHaveLength(1);
    await Promise.resolve();
    publish(2, 'at once');
    expect(heard).toEqual([0, 1, 2]);
  });

  it('keeps the order of what comes while others that waited are read', async () => {
    const heard: number[] = [];
    const { problems, publish } = start({
      event({ sequence }) {
        heard.push(sequence);
        if (sequence !== 1) return;
        publish(2, LONG);
        publish(3, 'short');
      },
    });
    publish(0, LONG);
    publish(1, 'short');
    await waitUntil(() => heard.length === 4);
    expect([heard, problems]).toEqual([[0, 1, 2, 3], []]);
  });

  it('goes on behind a listener that throws', async () => {
    const fail = ({ sequence }: { readonly sequence: number }): never => {
      throw new Error(`listener ${sequence}`);
    };
    const { problems, publish } = start({ event: fail });
    publish(0, LONG);
    publish(1, 'short');
    publish(2, 'short');
    await waitUntil(() => problems.length === 3);
    expect(problems).toEqual(['listener 0', 'listener 1', 'listener 2']);
  });

  it('tells nothing once it is closed, not even what is being read', async () => {
    const { subscription, heard, publish } = start();
    publish(0, LONG);
    publish(1, 'short');
    await subscription.close();
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(heard).toEqual([]);
  });

  it('keeps a bound behind a long event, and tells of what it loses', async () => {
    const gaps: (readonly number[])[] = [];
    const { heard, problems, publish } = start({ gap: (_publisherId, ...gap) => gaps.push(gap) });
    // Sixteen of them are a little more than may wait.
    const payload = new Array<number>(1 << 20).fill(1);
    for (let sequence = 0; sequence < 20; sequence++) publish(sequence, payload);
    expect(problems).toHaveLength(4);
    await waitUntil(() => heard.length === 16);
    publish(20, 'short');
    expect([heard.at(-1), gaps]).toEqual([20, [[16, 20]]]);
  });

  it('keeps a bound on how many events wait, though they be empty', async () => {
    const { subscription, problems, send, publish } = start();
    publish(0, LONG);
    for (let at = 0; at < 100_000; at++) send(new Uint8Array());
    expect(problems.length).toBeGreaterThan(30_000);
    expect(problems.length).toBeLessThan(40_000);
    await subscription.close();
  });
});
