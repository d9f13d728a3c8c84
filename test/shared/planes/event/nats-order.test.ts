import { describe, expect, it } from 'vitest';
import { encodeEnvelopeRecord } from '../../../../shared/planes/event/envelope.ts';
import { InOrder, NatsSubscription } from '../../../../shared/planes/event/nats/subscription.ts';
import { waitUntil } from '../../../support/index.ts';

function start() {
  const heard: unknown[] = [];
  const inOrder = new InOrder((problem) => heard.push((problem as Error).message));
  const push = (read: () => unknown, bytes = 10): void =>
    inOrder.push(bytes, { read, deliver: (event) => heard.push(event) });
  return { heard, inOrder, push };
}

describe('events in order', () => {
  it('are handed on at once while none before them is being read', () => {
    const { heard, inOrder, push } = start();
    push(() => 1);
    push(() => {
      throw new Error('no event');
    });
    push(() => 2);
    expect(heard).toEqual([1, 'no event', 2]);
    expect(inOrder).toMatchObject({ idle: undefined, waitingBytes: 0 });
  });

  it('wait, unread, for one that takes long, whatever becomes of it', async () => {
    const { heard, inOrder, push } = start();
    let reject: (problem: Error) => void = () => {};
    push(
      () =>
        new Promise((_, lose) => {
          reject = lose;
        }),
      100,
    );
    push(() => Promise.resolve(2));
    push(() => {
      heard.push('read 3');
      return 3;
    });
    expect(inOrder.waitingBytes).toBe(120);
    expect(heard).toEqual([]);
    reject(new Error('lost'));
    await inOrder.idle;
    expect(heard).toEqual(['lost', 2, 'read 3', 3]);
    expect(inOrder).toMatchObject({ idle: undefined, waitingBytes: 0 });
    push(() => 4);
    expect(heard.at(-1)).toBe(4);
  });

  it('go on behind a listener that throws', async () => {
    const { heard, inOrder, push } = start();
    const fail = (): never => {
      throw new Error('listener');
    };
    inOrder.push(1, { read: () => Promise.resolve(1), deliver: fail });
    inOrder.push(1, { read: () => 2, deliver: fail });
    push(() => 3);
    await inOrder.idle;
    expect(heard).toEqual(['listener', 'listener', 3]);
  });
});

describe('a subscription by NATS', () => {
  it('keeps a bound behind a long event, and tells of what it loses', async () => {
    const heard: number[] = [];
    const gaps: number[] = [];
    const problems: string[] = [];
    let receive: (message: { data: Uint8Array }) => void = () => {};
    const subscription = new NatsSubscription({
      subscribe: (take) => {
        receive = take;
        return { unsubscribe: () => {} };
      },
      topic: 't',
      listener: {
        event: ({ sequence }) => heard.push(sequence),
        gap: (_publisherId, expected) => gaps.push(expected),
      },
      onProblem: (problem) => problems.push((problem as Error).message),
    });
    subscription.connect('2a', { kind: 'Nats', config: { subject_prefix: 'x' } });
    // Sixteen of them are a little more than may wait.
    const payload = new Array<number>(1 << 20).fill(1);
    const publish = (sequence: number, content: unknown): void => {
      const event = { topic: 't', publisherId: '2a', sequence, publishedAtMs: 1, payload: content };
      receive({ data: encodeEnvelopeRecord('msgpack', event) });
    };
    for (let sequence = 0; sequence < 20; sequence++) publish(sequence, payload);
    expect(problems).toHaveLength(4);
    await waitUntil(() => heard.length === 16);
    publish(20, 'short');
    expect([heard.at(-1), gaps, subscription.missed]).toEqual([20, [16], 4]);
  });
});
