import type { LiveModelDirectory } from '../pipeline/index.ts';
import type { Routing } from '../routing/index.ts';
import type { RequestLog } from './request-log.ts';
import type { Viewers } from './viewers.ts';
import type { ConsoleWorkerDetail } from './wire/worker.ts';

/** Sources of the page of one worker. */
export interface WorkerDetailSources {
  readonly viewers: Pick<Viewers, 'worker'>;
  readonly log: Pick<RequestLog, 'answeredBy'>;
  readonly directory: Pick<LiveModelDirectory, 'list'>;
  readonly cacheOf: Routing['cacheOf'];
}

const NO_INDEX =
  'This frontend has no index of what workers have cached: only --router-mode kv keeps one, and a router may keep it elsewhere.';
const NOT_INDEXED = 'The index of this frontend does not have the worker.';

/**
 * Returns a worker with what it has cached. It walks the index, so call it only for a client that has opened the
 * worker. Returns undefined if no such worker is shown. Rejects with the signal's reason.
 */
export async function workerDetail(
  { viewers, log, directory, cacheOf }: WorkerDetailSources,
  id: string,
  signal: AbortSignal,
): Promise<ConsoleWorkerDetail | undefined> {
  const worker = viewers.worker(id);
  if (worker === undefined) return undefined;
  const cache = await cacheOf?.(id, signal);
  const model = directory.list().find(({ name }) => name === worker.model);
  return {
    worker,
    block_tokens: model?.pool.blockSizeTokens ?? 0,
    cache:
      cache === undefined
        ? null
        : {
            source: cache.source,
            ranks: cache.ranks.map(({ dpRank, device, host, disk, isWhole, prefixes }) => ({
              dp_rank: dpRank,
              device_blocks: device,
              host_blocks: host,
              disk_blocks: disk,
              is_whole: isWhole,
              prefixes: [...prefixes],
            })),
          },
    no_cache: cache !== undefined ? null : cacheOf === undefined ? NO_INDEX : NOT_INDEXED,
    requests: log.answeredBy(id),
  };
}
