import { startListenerFleet } from './listener-fleet.ts';

const BATCH = 20;
const RSS_BYTES_MAX = 768 * 1024 * 1024;

interface Rounds {
  /** Seed of the first case. The others follow it. */
  readonly first: number;
  readonly casesMax: number;
  /** Time of `performance.now()` after which no batch begins. */
  readonly untilMs: number;
  /** Called for each case that failed, and for a fault of the fleet at the end, with the first seed. */
  readonly onFailed: (seed: number, error: unknown) => void;
}

/**
 * Plays cases against every listener of a fleet, and at the end clients that say nothing. Returns a line for the
 * report.
 */
export async function playListeners({ first, casesMax, untilMs, onFailed }: Rounds): Promise<string> {
  const fleet = await startListenerFleet();
  let cases = 0;
  let rssBytes = 0;
  try {
    while (cases < casesMax && (cases === 0 || performance.now() < untilMs)) {
      const seeds = Array.from({ length: Math.min(BATCH, casesMax - cases) }, (_, at) => first + cases + at);
      await Promise.all(seeds.map((seed) => fleet.play(seed).catch((error: unknown) => onFailed(seed, error))));
      cases += seeds.length;
      ({ rssBytes } = await fleet.look());
    }
    await fleet.lookAtSilent();
    if (rssBytes > RSS_BYTES_MAX) throw new Error(`${(rssBytes / 2 ** 20).toFixed(0)} MiB of memory`);
  } catch (error) {
    onFailed(first, error);
  } finally {
    await fleet.close();
  }
  return `listeners: ${cases} cases against ${fleet.names.length}; most memory of a process ${(rssBytes / 2 ** 20).toFixed(0)} MiB`;
}
