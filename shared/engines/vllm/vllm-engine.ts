import { ServerEngine, type ServerEngineDeps, type ServerEngineOptions } from '../server/server-engine.ts';
import type { Engine } from '../types.ts';
import { type VllmLaunchSettings, vllmLaunch } from './launch.ts';
import { VllmDialect, type VllmDialectOptions } from './vllm-dialect.ts';

export interface VllmEngineOptions
  extends Omit<ServerEngineOptions, 'launch'>,
    Pick<VllmDialectOptions, 'modelName' | 'events'> {
  /** How to start `vllm serve`; without it `url` names a server that runs. */
  readonly launch?: VllmLaunchSettings | undefined;
  /** The engine computes prompts and hands their blocks to decode workers. Default false. */
  readonly isPrefill?: boolean | undefined;
  /** The engine renders and tokenizes chats itself. Default false. */
  readonly takesText?: boolean | undefined;
}

/**
 * vLLM as an engine: tokens in and out by the best way that its server has, KV events by ZeroMQ.
 *
 * @throws TypeError when `url` is no HTTP URL.
 * @example
 * const engine = createVllmEngine({ url: 'http://127.0.0.1:8000' }, { clock: systemClock, logger });
 * const { contextLength } = await engine.start(signal);
 */
export function createVllmEngine(options: VllmEngineOptions, deps: ServerEngineDeps): Engine {
  const { launch, isPrefill = false, takesText = false, modelName, events, ...server } = options;
  const dialect = new VllmDialect({
    modelName: modelName ?? launch?.servedModelName,
    isPrefill,
    takesText,
    maxNumSeqs: launch?.maxNumSeqs,
    maxNumBatchedTokens: launch?.maxNumBatchedTokens,
    events,
  });
  return new ServerEngine(dialect, { ...server, launch: launch && vllmLaunch(launch) }, deps);
}
