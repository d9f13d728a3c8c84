import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { untilAborted, withEither } from '../../../shared/concurrency/index.ts';

const never = (signal: AbortSignal): Promise<never> => untilAborted(new Promise<never>(() => {}), signal);

describe('work under either of two signals', () => {
  it.each([0, 1])('ends with the reason of signal %i', async (which) => {
    const aborters = [new AbortController(), new AbortController()];
    const work = withEither(
      aborters.map(({ signal }) => signal),
      never,
    );
    const reason = new Error('enough');
    aborters[which]!.abort(reason);
    await expect(work).rejects.toBe(reason);
  });

  it('begins under an aborted signal if one of the two is', async () => {
    const reason = new Error('too late');
    const signals = [new AbortController().signal, AbortSignal.abort(reason)];
    await expect(withEither(signals, async (either) => either.reason)).resolves.toBe(reason);
  });

  it.each([
    ['done', async () => {}],
    ['failed', () => Promise.reject(new Error('failed'))],
    [
      'not begun',
      () => {
        throw new Error('not begun');
      },
    ],
  ] as const)('leaves nothing behind at a signal that lives on when the work is %s', async (_, work) => {
    const { signal } = new AbortController();
    await withEither([signal], work).catch(() => {});
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
