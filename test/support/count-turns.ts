import { setImmediate as nextTurn } from 'node:timers/promises';

/** What `work` resolves with, and how many turns of the event loop it took: the others of a process each had so many. */
export async function countTurns<T>(work: Promise<T>): Promise<{ readonly turns: number; readonly result: T }> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  let turns = 0;
  for (; !isDone; turns++) await nextTurn();
  return { turns, result: await done };
}
