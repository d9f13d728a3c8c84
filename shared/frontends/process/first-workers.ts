import { tellWhile } from '../../concurrency/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { LiveModelDirectory } from '../../pipeline/index.ts';
import { InitialWorkers } from '../../router/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import type { Base } from './open-base.ts';
import { primaryModels } from './open-directory.ts';

/** Makes the service ready when its first workers are there, or at once if the settings require none. */
export function awaitFirstWorkers(
  settings: EdgeSettings,
  { deps, lifecycle }: Base,
  directory: LiveModelDirectory,
): void {
  const closing = new AbortController();
  deps.lifetime.defer(() => closing.abort());
  const workersMin = settings.routerMinInitialWorkers ?? 0;
  const initial = new InitialWorkers({ workersMin, clock: deps.clock, signal: closing.signal });
  const count = (): void => initial.seen(countWorkers(directory));
  count();
  directory.follow(count);
  void beReadyWith(initial, lifecycle, deps.logger.for('router')); // never rejects
}

/** Returns how many workers serve or compute prompts. */
function countWorkers(directory: LiveModelDirectory): number {
  const serving = primaryModels(directory).flatMap(({ workers, prefill }) => [...workers, ...(prefill?.workers ?? [])]);
  return new Set(serving.map(({ id }) => id)).size;
}

async function beReadyWith(initial: InitialWorkers, lifecycle: ServiceLifecycle, log: Logger): Promise<void> {
  const { pending, workersMin } = initial;
  if (pending !== undefined) {
    lifecycle.waiting(() => initial.pending);
    log.info('waiting for workers', { workers: workersMin });
    const tell = (waited_s: number): void => log.info('still waiting for workers', { for: initial.pending, waited_s });
    if ((await tellWhile(initial.awaited, tell)) === 'late')
      log.warn('serving with fewer workers than asked for', { workers: workersMin });
  }
  lifecycle.discovered();
}
