import { describe, expect, it } from 'vitest';
import { askOnce, type PlaneHandler } from '../../../../shared/planes/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

async function asking(handler: PlaneHandler, signal?: AbortSignal) {
  const clock = new VirtualClock();
  const plane = createMemoryRequestPlane({ clock });
  const server = await plane.serve({ instanceId: '1', signal: new AbortController().signal });
  const transport = server.handle('1/ns/component/endpoint', handler);
  const question = { id: 'q', headers: {}, body: { asks: true } };
  return { clock, answer: askOnce(plane, transport, question, { clock, timeoutMs: 50, signal }) };
}

describe('a short question', () => {
  it('has the last output for an answer', async () => {
    const { answer } = await asking((call) => {
      call.output({ body: 'first' });
      call.output({ body: 'last' });
      call.end();
    });
    expect(await answer).toMatchObject({ kind: 'answered', output: { body: 'last' } });
  });

  it('may have an empty answer', async () => {
    const { answer } = await asking((call) => call.end());
    expect(await answer).toEqual({ kind: 'answered', output: undefined });
  });

  it('is given up when its time is over, and its call with it', async () => {
    let isKilled = false;
    const { clock, answer } = await asking((call) => {
      call.signal.addEventListener('abort', () => {
        isKilled = true;
      });
    });
    await clock.advance(50);
    expect(await answer).toMatchObject({ kind: 'failed', error: { code: 'deadline_exceeded' } });
    await waitUntil(() => isKilled);
  });

  it('has an answer that came while this process stood still, though its time is over', async () => {
    let answerNow = (): void => {};
    const { clock, answer } = await asking((call) => {
      answerNow = () => {
        call.output({ body: 'in the socket' });
        call.end();
      };
    });
    clock.after(50, () => answerNow()); // timers go off first, then sockets are read
    await clock.advance(50);
    expect(await answer).toMatchObject({ kind: 'answered', output: { body: 'in the socket' } });
  });

  it('is given up at once when no caller waits any more, before or after it was asked', async () => {
    const leaving = new AbortController();
    const { answer } = await asking(() => {}, leaving.signal);
    leaving.abort(new Error('left'));
    expect(await answer).toMatchObject({ kind: 'failed' });
    expect(await (await asking(() => {}, leaving.signal)).answer).toMatchObject({ kind: 'failed' });
  });
});
