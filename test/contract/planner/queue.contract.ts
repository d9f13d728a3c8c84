import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ReceivedMessage } from '../../../shared/planes/index.ts';
import type { OutgoingMessage, PlannerQueue } from '../../../shared/planes/queue/types.ts';

const NEVER = new AbortController().signal;
const SHORT = { waitMs: 1000, hiddenMs: 1000 };
const LONG = { waitMs: 1000, hiddenMs: 60_000 };

let groups = 0;
const newGroup = (): string => `ns#model/${groups++}~${process.pid}`;

/** Tests what every queue of planners promises. @param open opens two handles on one queue that no other test uses */
export function describePlannerQueue(name: string, open: () => Promise<readonly [PlannerQueue, PlannerQueue]>): void {
  describe(`the ${name} queue`, () => {
    let one: PlannerQueue;
    let other: PlannerQueue;
    beforeAll(async () => {
      [one, other] = await open();
    }, 60_000);
    afterAll(async () => {
      await one?.close();
      await other?.close();
    });

    const message = (group: string, at: number, body = `body ${at}`): OutgoingMessage => ({
      group,
      deduplicationId: `${group}/${at}`.slice(-128),
      body,
    });

    /** Everything that is left, dealt with. */
    async function drain(queue = one): Promise<readonly ReceivedMessage[]> {
      const all: ReceivedMessage[] = [];
      for (;;) {
        const batch = await queue.receive({ ...LONG, waitMs: 0 }, NEVER);
        if (batch.length === 0) return all;
        all.push(...batch);
        await queue.delete(batch, NEVER);
      }
    }

    it('gives the messages of a group in the order in which they were sent, ten at most', async () => {
      const group = newGroup();
      const sent = Array.from({ length: 23 }, (_, at) => message(group, at));
      await one.send(sent, NEVER);
      const first = await other.receive(LONG, NEVER);
      expect(first.length).toBeGreaterThan(0);
      expect(first.length).toBeLessThanOrEqual(10);
      await other.delete(first, NEVER);
      const rest = await drain();
      expect([...first, ...rest].map(({ body }) => body)).toEqual(sent.map(({ body }) => body));
      expect(new Set([...first, ...rest].map((each) => each.group))).toEqual(new Set([group]));
    });

    it('says when it took a message, by its own clock', async () => {
      const beforeMs = Date.now();
      await one.send([message(newGroup(), 0)], NEVER);
      const [received] = await drain();
      expect(received?.sentAtMs).toBeGreaterThanOrEqual(Math.floor(beforeMs) - 1);
      expect(received?.sentAtMs).toBeLessThanOrEqual(Date.now() + 1);
    });

    it('keeps one of two messages of a group with the same id, also once it was dealt with', async () => {
      const [group, another] = [newGroup(), newGroup()];
      await one.send([message(group, 1, 'first'), message(another, 1, 'of another')], NEVER);
      await other.send([message(group, 1, 'again'), message(group, 2, 'second')], NEVER);
      const bodies = (await drain()).map(({ body }) => body);
      expect(bodies.toSorted()).toEqual(['first', 'of another', 'second']);
      await one.send([message(group, 1, 'long after it was dealt with')], NEVER);
      expect(await drain()).toEqual([]);
    });

    it('gives a group to one reader at a time, and other groups meanwhile', async () => {
      const [group, another] = [newGroup(), newGroup()];
      await one.send([message(group, 1)], NEVER);
      const taken = await one.receive(LONG, NEVER);
      await one.send([message(group, 2)], NEVER);
      expect(await other.receive({ ...LONG, waitMs: 0 }, NEVER)).toEqual([]);
      await one.send([message(another, 1)], NEVER);
      const elsewhere = await other.receive(LONG, NEVER);
      expect(elsewhere.map((each) => each.group)).toEqual([another]);
      await one.delete(taken, NEVER);
      await other.delete(elsewhere, NEVER);
      expect((await drain(other)).map(({ body }) => body)).toEqual(['body 2']);
    });

    it('gives again, in order, what was not dealt with in time', async () => {
      const group = newGroup();
      await one.send([message(group, 1), message(group, 2)], NEVER);
      const lost = await one.receive(SHORT, NEVER);
      expect(lost.length).toBeGreaterThan(0);
      const again: ReceivedMessage[] = [];
      while (again.length === 0) again.push(...(await other.receive({ ...LONG, waitMs: 5000 }, NEVER)));
      expect(again[0]?.body).toBe('body 1');
      await other.delete(again, NEVER);
      await drain();
    });

    it('waits for a message that comes later', async () => {
      const group = newGroup();
      const waiting = other.receive({ waitMs: 10_000, hiddenMs: 60_000 }, NEVER);
      await one.send([message(group, 1)], NEVER);
      const received = await waiting;
      expect(received.map(({ body }) => body)).toEqual(['body 1']);
      await other.delete(received, NEVER);
    });

    it('refuses a message that is too long or empty, and a hold that is too short', async () => {
      const tooLong = message(newGroup(), 1, 'x'.repeat(256 * 1024 + 1));
      await expect(one.send([tooLong], NEVER)).rejects.toMatchObject({
        code: 'refused',
        message: expect.stringMatching(/262145 bytes/),
      });
      await expect(one.send([message(newGroup(), 1, '')], NEVER)).rejects.toMatchObject({ code: 'refused' });
      await expect(one.receive({ waitMs: 0, hiddenMs: 10 }, NEVER)).rejects.toMatchObject({ code: 'refused' });
    });

    it.each([['a b'], [''], ['x'.repeat(129)], ['modèle']])('refuses the group %j by name', async (group) => {
      const failure = await one.send([message(group, 1)], NEVER).catch((error: unknown) => error);
      expect(failure).toMatchObject({
        code: 'refused',
        message: expect.stringMatching(/a message's group is .*1 to 128/),
      });
    });

    it('carries the longest messages, several at once', async () => {
      const group = newGroup();
      const sent = [1, 2, 3].map((at) => message(group, at, String(at).repeat(200 * 1024)));
      await one.send(sent, NEVER);
      expect((await drain()).map(({ body }) => body[0])).toEqual(['1', '2', '3']);
    });

    it('does nothing for who has given up', async () => {
      const signal = AbortSignal.abort(new Error('gone'));
      await expect(one.send([message(newGroup(), 1)], signal)).rejects.toThrow('gone');
      await expect(one.receive(LONG, signal)).rejects.toThrow('gone');
      const leaving = new AbortController();
      const waiting = one.receive({ waitMs: 20_000, hiddenMs: 1000 }, leaving.signal);
      leaving.abort(new Error('left'));
      await expect(waiting).rejects.toThrow('left');
      expect(await drain()).toEqual([]);
    });
  });
}
