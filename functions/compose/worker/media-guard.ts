import { systemClock } from '../../../shared/clock/index.ts';
import type { Settings } from '../../../shared/config/index.ts';
import type { Engine } from '../../../shared/engines/index.ts';
import { createMediaGuardedEngine, mediaPolicy } from '../../../shared/engines/media/index.ts';

type MediaSettings = Pick<
  Settings<'worker'>,
  | 'httpTimeoutSecs'
  | 'httpConnectTimeoutSecs'
  | 'httpMaxConnections'
  | 'httpKeepaliveTimeoutSecs'
  | 'mmAllowInternal'
  | 'mmLocalPath'
  | 'mmMaxFileSizeMb'
  | 'mmMaxDataUrlMb'
  | 'mediaAllowHosts'
>;

const MIB = 1024 * 1024;

/** `engine`, which never follows a URL of a client: media come to it inline, read within the settings' bounds. */
export function withMediaGuard(engine: Engine, settings: MediaSettings): Engine {
  const { mmMaxFileSizeMb: fileMb, mmMaxDataUrlMb: dataMb, httpTimeoutSecs: seconds } = settings;
  const policy = mediaPolicy({
    allowHosts: settings.mediaAllowHosts,
    allowsInternal: settings.mmAllowInternal,
    localFolder: settings.mmLocalPath,
    keepAliveMs: settings.httpKeepaliveTimeoutSecs * 1000,
    connectTimeoutMs: settings.httpConnectTimeoutSecs * 1000,
    ...(fileMb === undefined ? {} : { fileBytesMax: fileMb * MIB }),
    ...(dataMb === undefined ? {} : { dataUrlBytesMax: dataMb * MIB }),
    ...(seconds === undefined ? {} : { timeoutMs: seconds * 1000 }),
  });
  return createMediaGuardedEngine(engine, { policy, clock: systemClock, fetchesMax: settings.httpMaxConnections });
}
