import { Session } from 'node:inspector/promises';

// The profiler starts at import, before any function of the product is compiled. It counts a function compiled earlier
// by calls, not by blocks.
const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });

/**
 * Counts the steps of the product's own code: the sum, over all its blocks, of how often each was entered. A count is
 * the same on a busy machine. Native work of the engine (`indexOf`, regular expressions) is not in it.
 */
export async function countSteps(run: () => unknown): Promise<number> {
  await takeSteps(); // starts the count
  await run();
  return takeSteps();
}

/** Returns the number of steps since the last call. */
export async function takeSteps(): Promise<number> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => /\/(shared|functions)\/.*\.ts/.test(url) && !url.includes('/test/'))
    .flatMap(({ functions }) => functions)
    .flatMap(({ ranges }) => ranges)
    .reduce((steps, { count }) => steps + count, 0);
}

/**
 * Returns the steps for inputs of 1, 2, 4 and 8 times a size, each as a multiple of the first. Linear work stays near
 * 1, 2, 4, 8; quadratic work reaches 1, 4, 16, 64.
 */
export async function stepGrowth(run: (times: number) => unknown): Promise<number[]> {
  await run(1); // excludes work that a process does only once
  const steps: number[] = [];
  for (const times of [1, 2, 4, 8]) steps.push(await countSteps(() => run(times)));
  return steps.map((count) => count / (steps[0] as number));
}
