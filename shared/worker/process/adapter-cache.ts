import { homedir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemRandom } from '../../clock/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { AdapterCache } from '../index.ts';

/** Where a worker keeps adapters out of buckets; undefined = it loads none. Throws for plain HTTP that nobody permitted. */
export function adapterCache(settings: Settings<'worker'>, logger: Logger): AdapterCache | undefined {
  const { loraEnabled, loraPath, awsEndpoint: endpoint, awsAllowHttp, awsRegion: region } = settings;
  if (!loraEnabled) return undefined;
  if (endpoint?.startsWith('http:') && !awsAllowHttp) {
    throw new ConfigError(['AWS_ENDPOINT is plain HTTP: set AWS_ALLOW_HTTP=true to permit that']);
  }
  const folder = loraPath ?? join(homedir(), '.cache', 'dynamo_loras');
  return new AdapterCache({ folder, buckets: { endpoint, region }, clock: systemClock, random: systemRandom, logger });
}
