import { forAtMost } from '../../concurrency/index.ts';
import type { EngineInfo } from '../../engines/index.ts';
import { DEFAULT_WORKER_SETTINGS, type WorkerOptions } from '../options.ts';

/** Loads the engine; what it says of itself then, with no more sequences than it is given requests. */
export async function startEngine({ engine, settings }: WorkerOptions, signal: AbortSignal): Promise<EngineInfo> {
  const info = await engine.start(signal);
  if (settings?.requestLimit === undefined) return info;
  const ofRank = Math.ceil(settings.requestLimit / info.dataParallelSize);
  return { ...info, maxNumSeqs: Math.min(info.maxNumSeqs ?? ofRank, ofRank) };
}

/** Waits no longer than it may: the end of the process takes an engine of its own along. */
export async function stopEngine({ engine, clock, logger, settings }: WorkerOptions): Promise<void> {
  const { engineStopMs } = { ...DEFAULT_WORKER_SETTINGS, ...settings };
  if (await forAtMost({ clock, timeoutMs: engineStopMs }, () => engine.stop())) return;
  logger.error('engine does not stop', { engine: engine.kind, timeout_ms: engineStopMs });
}
