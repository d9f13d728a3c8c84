import { type BucketPlace, parsePrefix } from '../artifacts/index.ts';
import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import { syncWeights } from '../host/index.ts';
import { UsageError } from './config.ts';

interface Surroundings {
  readonly place: BucketPlace;
  readonly clock: Clock;
  /** Prints a line about the progress. */
  print(text: string): void;
}

/** Interval of lines about the progress, in milliseconds. */
const PROGRESS_MS = 30_000;

/**
 * Copies a folder of a bucket to a folder of this machine; resolves with a line that says what is there now.
 * @throws UsageError for a mistake in the arguments, Error with one line for a file that cannot be copied
 */
export async function fetchWeights(
  argv: readonly string[],
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<string> {
  const [uri, folder, ...others] = argv;
  if (uri === undefined || folder === undefined || others.length > 0)
    throw new UsageError('stator artifacts fetch takes s3://BUCKET/FOLDER/ and a folder');
  const { place, clock, print } = surroundings;
  parsePrefix(uri); // refuses another address
  let bytes = 0;
  const progress = clock.every(PROGRESS_MS, () => print(`${bytes} bytes of ${uri} have come\n`));
  const onBytes = (count: number): void => {
    bytes += count;
  };
  const onRetry = (problem: string): void => print(`${problem}; trying again\n`);
  try {
    const whole = await syncWeights({ uri, place, folder, clock, onBytes, onRetry }, signal);
    return `${folder} has ${whole.files} files with ${whole.bytes} bytes, of which ${bytes} were fetched\n`;
  } catch (thrown) {
    signal.throwIfAborted();
    throw new Error(`${uri} cannot be fetched: ${reasonOf(thrown)}`, { cause: thrown });
  } finally {
    progress.cancel();
  }
}
