import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Resolves with the result of `work` and with the number of turns of the event loop that it took. Other work of the
 * process had a turn each time.
 */
export async function countTurns<T>(work: Promise<T>): Promise<{ readonly turns: number; readonly result: T }> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns++) await nextTurn();
  return { turns, result: await done };
}
