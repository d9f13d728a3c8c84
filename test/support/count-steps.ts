import { Session } from 'node:inspector/promises';

// On from the import, before any of the product's functions is compiled: one compiled earlier is counted by calls, not by blocks.
const session = new Session();
session.connect();
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });

/**
 * How much of the product's own code ran: the sum over all its blocks of how often each was entered. A count, so it is the
 * same on a busy machine. What the engine does natively (`indexOf`, regular expressions) is not in it.
 */
export async function countSteps(run: () => unknown): Promise<number> {
  await takeSteps(); // counts from here
  await run();
  return takeSteps();
}

/** The steps since they were taken last. */
export async function takeSteps(): Promise<number> {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url }) => /\/(shared|functions)\/.*\.ts/.test(url) && !url.includes('/test/'))
    .flatMap(({ functions }) => functions)
    .flatMap(({ ranges }) => ranges)
    .reduce((steps, { count }) => steps + count, 0);
}

/**
 * Steps for inputs of 1, 2, 4 and 8 times a size, each as a multiple of the first. Linear work stays near 1, 2, 4, 8;
 * quadratic work reaches 1, 4, 16, 64.
 */
export async function stepGrowth(run: (times: number) => unknown): Promise<number[]> {
  await run(1); // what is done once a process does not count
  const steps: number[] = [];
  for (const times of [1, 2, 4, 8]) steps.push(await countSteps(() => run(times)));
  return steps.map((count) => count / (steps[0] as number));
}
