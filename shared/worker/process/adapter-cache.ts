import { homedir } from 'node:os';
import { join } from 'node:path';
import { bucketPlace } from '../../artifacts/fetching/index.ts';
import type { TimeAndChance } from '../../clock/index.ts';
import type { Settings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { AdapterCache } from '../index.ts';

/** Where a worker keeps adapters out of buckets; undefined = it loads none. Throws for plain HTTP that nobody permitted. */
export function adapterCache(
  settings: Settings<'worker'>,
  { clock, random }: TimeAndChance,
  logger: Logger,
): AdapterCache | undefined {
  const { loraEnabled, loraPath } = settings;
  if (!loraEnabled) return undefined;
  const folder = loraPath ?? join(homedir(), '.cache', 'dynamo_loras');
  const buckets = bucketPlace(settings);
  return new AdapterCache({ folder, buckets, clock, random, logger });
}
