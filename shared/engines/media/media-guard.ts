import { isIP } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import type { Engine } from '../types.ts';
import { createMediaGuardedEngine } from './guarded-engine.ts';
import { mediaPolicy } from './media-policy.ts';

const MIB = 1024 * 1024;
/** What may stand in the list: a name, or the end of one behind `*`. */
const ALLOWED_HOST = /^(\*|\*?[\w.-]+)$/;

/**
 * `engine`, which never follows a URL of a client: media come to it inline, read within the settings' bounds.
 * @throws ConfigError for an allowed host that none can be called
 */
export function withMediaGuard(engine: Engine, settings: Settings<'worker'>, clock: Clock): Engine {
  const { mmMaxFileSizeMb: fileMb, mmMaxDataUrlMb: dataMb, httpTimeoutSecs: seconds } = settings;
  const unfit = settings.mediaAllowHosts?.find((host) => !ALLOWED_HOST.test(host) && isIP(host) === 0);
  if (unfit !== undefined) {
    throw new ConfigError([
      `STATOR_MEDIA_ALLOW_HOSTS "${unfit}": allowed: host names, * as prefix; no scheme, no port`,
    ]);
  }
  const policy = mediaPolicy({
    allowHosts: settings.mediaAllowHosts,
    allowsInternal: settings.mmAllowInternal,
    localFolder: settings.mmLocalPath,
    requestBytesMax: settings.mmMaxRequestMb * MIB,
    keepAliveMs: settings.httpKeepaliveTimeoutSecs * 1000,
    connectTimeoutMs: settings.httpConnectTimeoutSecs * 1000,
    ...(fileMb === undefined ? {} : { fileBytesMax: fileMb * MIB }),
    ...(dataMb === undefined ? {} : { dataUrlBytesMax: dataMb * MIB }),
    ...(seconds === undefined ? {} : { timeoutMs: seconds * 1000 }),
  });
  return createMediaGuardedEngine(engine, { policy, clock, fetchesMax: settings.httpMaxConnections });
}
