import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { ServeError } from '../../../shared/errors/index.ts';
import {
  type Decision,
  type KvRouterConfig,
  Scheduler,
  type SchedulingRequest,
} from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import type { SchedulerOptions } from '../../../shared/scheduler/scheduler.ts';
import type { SchedulableWorker, SchedulingTicket } from '../../../shared/scheduler/types.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

export function worker(id: string, more: Partial<SchedulableWorker> = {}): SchedulableWorker {
  return {
    id,
    dataParallelStartRank: 0,
    dataParallelSize: 1,
    taints: [],
    totalKvBlocks: undefined,
    maxNumBatchedTokens: undefined,
    ...more,
  };
}

/** Tokens that no other prompt of another `seed` shares. */
export function promptTokens(count: number, seed = 0): Uint32Array {
  return Uint32Array.from({ length: count }, (_, at) => seed * 1_000_000 + at);
}

/** The outcome of a submitted request. */
export interface Submitted {
  readonly ticket: SchedulingTicket;
  decision: Decision | undefined;
  error: ServeError | undefined;
}

export interface PoolOptions extends Partial<Omit<SchedulerOptions, 'config' | 'ranks' | 'clock' | 'random'>> {
  readonly config?: Partial<KvRouterConfig>;
  readonly workers?: readonly SchedulableWorker[];
  readonly seed?: number;
}

/** A scheduler under a virtual clock with a real block index, and shorthands to drive it. */
export class Pool {
  readonly clock = new VirtualClock();
  readonly ranks = new RankTable();
  readonly index = new BlockIndex({ ranks: this.ranks });
  readonly scheduler: Scheduler;
  readonly blockSizeTokens: number;
  /** Ids of requests in the order of their decisions. */
  readonly decided: string[] = [];

  constructor({ config = {}, workers = [worker('a'), worker('b')], seed = 7, ...options }: PoolOptions = {}) {
    this.blockSizeTokens = options.blockSizeTokens ?? 16;
    this.scheduler = new Scheduler({
      index: this.index,
      ...options,
      blockSizeTokens: this.blockSizeTokens,
      config: kvRouterConfig({ queueThreshold: undefined, ...config }),
      ranks: this.ranks,
      clock: this.clock,
      random: seededRandom(seed),
    });
    this.scheduler.setWorkers(workers);
  }

  request(id: string, tokens: Uint32Array, more: Partial<SchedulingRequest> = {}): SchedulingRequest {
    const hashes = hashBlocks(tokens, { blockSizeTokens: this.blockSizeTokens });
    return { id, promptTokens: tokens.length, hashes, ...more };
  }

  submit(id: string, tokens: Uint32Array, more: Partial<SchedulingRequest> = {}): Submitted {
    const told: { decision: Decision | undefined; error: ServeError | undefined } = {
      decision: undefined,
      error: undefined,
    };
    const ticket = this.scheduler.submit(this.request(id, tokens, more), {
      decided: (decision) => {
        told.decision = decision;
        this.decided.push(id);
      },
      rejected: (error) => {
        told.error = error;
      },
    });
    return Object.assign(told, { ticket });
  }

  /** The worker's engine has cached the prompt's complete blocks. */
  store(workerId: string, tokens: Uint32Array, dpRank = 0): void {
    const { local, sequence } = hashBlocks(tokens, { blockSizeTokens: this.blockSizeTokens });
    this.index.stored(this.ranks.intern(workerId, dpRank), 'device', undefined, sequence, local);
  }

  loadOf(workerId: string) {
    const load = this.scheduler.loads().find((row) => row.workerId === workerId);
    if (load === undefined) throw new Error(`no worker ${workerId}`);
    return load;
  }
}
