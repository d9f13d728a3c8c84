import { BlockIndex, RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import {
  type Decision,
  RendezvousShare,
  Scheduler,
  type SchedulingOutcome,
  type SchedulingRequest,
} from '../../../shared/scheduler/index.ts';
import { type KvRouterConfig, kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import type { SchedulingTicket } from '../../../shared/scheduler/types.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { promptTokens, worker } from './pool.ts';

export const BLOCK = { blockSizeTokens: 16 };
export const WORKERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];

/** A request and what became of it. */
export interface Sent {
  readonly ticket: SchedulingTicket;
  decision?: Decision;
  error?: string;
  /** Worker of the booking that the other routers know. */
  booked?: string | undefined;
}

interface FleetOptions {
  readonly workers?: readonly string[];
  readonly lagMs?: number;
  readonly isTold?: boolean;
  readonly config?: Partial<KvRouterConfig>;
}

/** Routers that tell each other about their bookings, `lagMs` late. All see the same caches. */
export class RouterFleet {
  readonly clock = new VirtualClock();
  readonly index: BlockIndex;
  readonly schedulers: readonly Scheduler[];
  readonly #ranks = new RankTable();
  readonly #lagMs: number;

  constructor(routers: number, { workers = WORKERS, lagMs = 5, isTold = true, config }: FleetOptions = {}) {
    this.#lagMs = lagMs;
    for (const id of workers) this.#ranks.intern(id, 0);
    this.index = new BlockIndex({ ranks: this.#ranks });
    const names = Array.from({ length: routers }, (_, at) => `router-${at}`);
    this.schedulers = names.map((name, at) => {
      const share = new RendezvousShare(this.#ranks, name);
      share.setOthers(names);
      const scheduler = new Scheduler({
        ...{ ...BLOCK, ranks: this.#ranks, index: this.index, clock: this.clock, random: seededRandom(at + 1) },
        config: kvRouterConfig({ costModel: 'stator', queueThreshold: 'auto', ...config }),
        share: isTold ? share : undefined,
        peerLagMs: () => lagMs,
      });
      scheduler.setWorkers(workers.map((id) => worker(id)));
      return scheduler;
    });
  }

  /** Sends a prompt through a router. */
  send(router: number, id: string, tokens: Uint32Array, more: Partial<SchedulingRequest> = {}): Sent {
    const request = { id, promptTokens: tokens.length, hashes: hashBlocks(tokens, BLOCK), ...more };
    const sent: Omit<Sent, 'ticket'> = {};
    const scheduler = this.schedulers[router] as Scheduler;
    const ticket = scheduler.submit(request, {
      booked: (decision) => {
        sent.booked = decision.workerId;
        this.#tell(router, request, decision, id);
        this.arm(scheduler);
      },
      waits: (place) => {
        const { sequence: sequenceHashes } = request.hashes;
        const facts = { ...request, sequenceHashes, ...place, id: `${router}/${id}` };
        this.#toOthers(router, (other) => other.heardWaiting(facts));
      },
      withdrawn: () => {
        sent.booked = undefined;
        this.#toOthers(router, (other) => other.free(`${router}/${id}`));
      },
      decided: (decision) => {
        sent.decision = decision;
        if (sent.booked === undefined) this.#tell(router, request, decision, undefined);
        sent.booked = decision.workerId;
      },
      rejected: ({ code }) => {
        sent.error = code;
      },
    } satisfies SchedulingOutcome);
    this.arm(scheduler);
    return Object.assign(sent, { ticket });
  }

  /** Lets each router send one prompt of its own in one instant, twice, so that each has seen what others do. */
  async warmUp(prompt: (seed: number) => Uint32Array = ownPrompt): Promise<void> {
    for (let round = 0; round < 12; round++) {
      const sent = this.schedulers.map((_, router) =>
        this.send(router, `w${round}-${router}`, prompt(round * 100 + router)),
      );
      await this.clock.advance(200);
      for (const router of sent.keys()) this.end(router, `w${round}-${router}`);
      await this.clock.advance(1000);
    }
  }

  /** The first token of a request has come. */
  prefillDone(router: number, id: string): void {
    this.schedulers[router]?.prefillDone(id);
    this.#toOthers(router, (other) => other.prefillDone(`${router}/${id}`));
  }

  /** A client leaves before its request has a worker. */
  leave(router: number, id: string, { ticket }: Sent): void {
    ticket.cancel();
    this.#toOthers(router, (other) => other.free(`${router}/${id}`));
  }

  /** A request ends. */
  end(router: number, id: string): void {
    this.schedulers[router]?.free(id);
    this.#toOthers(router, (other) => other.free(`${router}/${id}`));
  }

  #tell(
    router: number,
    { id, hashes }: SchedulingRequest,
    decision: Decision,
    provisionalId: string | undefined,
  ): void {
    const { workerId, dpRank, uncachedTokens } = decision;
    const promptTokens = 16 * (hashes.sequence.length >> 1);
    const requestId = `${router}/${id}`;
    const booking = { requestId, provisionalId, workerId, dpRank, promptTokens, hashes, uncachedTokens };
    this.#toOthers(router, (other) => void other.book(booking));
  }

  #toOthers(router: number, act: (other: Scheduler) => void): void {
    this.clock.after(this.#lagMs, () => {
      this.schedulers.forEach((other, at) => {
        if (at === router) return;
        act(other);
        this.arm(other);
      });
    });
  }

  /** Ticks a router when it asks for that. */
  arm(scheduler: Scheduler): void {
    const atMs = scheduler.nextTickMs;
    if (atMs !== undefined) this.clock.after(atMs - this.clock.nowMs(), () => scheduler.tick());
  }
}

export function ownPrompt(seed: number, tokens = 4000): Uint32Array {
  return promptTokens(tokens, seed + 1);
}
