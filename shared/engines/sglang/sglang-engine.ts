import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine } from '../types.ts';
import { type SglangLaunchSettings, sglangLaunch } from './launch.ts';
import { SglangDialect, type SglangDialectOptions } from './sglang-dialect.ts';

export interface SglangEngineOptions extends Omit<ServerEngineOptions, 'launch'>, Pick<SglangDialectOptions, 'events'> {
  /** How to start the server; without it `url` names one that runs. */
  readonly launch?: SglangLaunchSettings | undefined;
  /** The engine renders and tokenizes chats itself. Default false. */
  readonly takesText?: boolean | undefined;
}

/**
 * SGLang as an engine: its native `/generate`, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is no HTTP URL.
 * @example
 * const engine = createSglangEngine({ url: 'http://127.0.0.1:30000' }, { clock: systemClock, logger });
 */
export function createSglangEngine(options: SglangEngineOptions, deps: ServerEngineDeps): Engine {
  const { launch, takesText = false, events, ...server } = options;
  const dialect = new SglangDialect({ takesText, events });
  return new ServerEngine(dialect, { ...server, launch: launch && sglangLaunch(launch) }, deps);
}
