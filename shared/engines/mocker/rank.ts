import type { KvEvent } from '../types.ts';
import type { BlockListener } from './block-pool.ts';
import { KvJournal } from './kv-journal.ts';
import { EngineJournal, KvPublisher } from './kv-publisher/index.ts';
import type { KvStreamOptions, MockEngineDeps, MockSettings } from './options.ts';
import { PassLoop } from './pass-loop.ts';
import { Scheduler } from './scheduler.ts';

/** One data-parallel rank of a live mock engine. */
export interface Rank {
  readonly scheduler: Scheduler;
  readonly loop: PassLoop;
  /** Tells what happened to the cache in vLLM's format, where the engine is to. */
  readonly publisher: KvPublisher | undefined;
  /** Tells what happened to the cache since the last call. */
  reportEvents(): void;
}

export function createRank(
  dpRank: number,
  { kvStream, scheduler: options }: MockSettings,
  { clock, defer = setImmediate }: MockEngineDeps,
  onKvEvents: (events: readonly KvEvent[]) => void,
): Rank {
  const journal = new KvJournal(dpRank);
  const engineJournal = kvStream && new EngineJournal(options.blockSizeTokens);
  const publisher = kvStream && new KvPublisher({ ...ofRank(kvStream, dpRank), dpRank, clock });
  const scheduler = new Scheduler(options, engineJournal === undefined ? journal : both(journal, engineJournal));
  const reportEvents = (): void => {
    const events = journal.drain();
    if (events.length > 0) onKvEvents(events);
    if (engineJournal !== undefined) publisher?.publish(engineJournal.drain());
  };
  return { scheduler, publisher, reportEvents, loop: new PassLoop(scheduler, clock, defer, reportEvents) };
}

function ofRank({ host, port, replayPort }: KvStreamOptions, dpRank: number): KvStreamOptions {
  const shifted = (base: number): number => (base === 0 ? 0 : base + dpRank);
  return { host, port: shifted(port), replayPort: replayPort === undefined ? undefined : shifted(replayPort) };
}

function both(one: BlockListener, other: BlockListener): BlockListener {
  return {
    stored(names, index) {
      one.stored(names, index);
      other.stored(names, index);
    },
    removed(low, high) {
      one.removed(low, high);
      other.removed(low, high);
    },
    cleared() {
      one.cleared?.();
      other.cleared?.();
    },
  };
}
