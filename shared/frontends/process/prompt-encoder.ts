import { availableParallelism } from 'node:os';
import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { PromptEncoder } from '../../tokens/index.ts';

const THREADS_MAX = 4;

/** What tokenizes prompts: by default threads for long ones only, with `--dyn-preprocess-workers` threads for all. */
export function openPromptEncoder(settings: EdgeSettings, clock: Clock, log: Logger): PromptEncoder {
  const { tokenCacheMb, preprocessWorkers = 0 } = settings;
  const takesAll = preprocessWorkers > 0;
  return new PromptEncoder({
    clock,
    cacheBytesMax: tokenCacheMb * 1024 * 1024,
    threadsMax: takesAll ? preprocessWorkers : threadsOf(settings),
    ...(takesAll ? { inlineUnitsMax: 0 } : {}),
    onThreadLost: ({ message }) => log.error('an encoding thread was lost', { reason: message }),
  });
}

function threadsOf(settings: EdgeSettings): number {
  if (!('encodeThreads' in settings)) return 0;
  return settings.encodeThreads ?? Math.min(availableParallelism() - 1, THREADS_MAX);
}
