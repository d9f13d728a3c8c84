import { seededRandom } from '../../../../shared/clock/index.ts';
import type { EngineLoad } from '../../../../shared/engines/index.ts';
import type { ServeError } from '../../../../shared/errors/index.ts';
import type { PlaneHandler, PlaneServer } from '../../../../shared/planes/index.ts';
import type { RoutableWorker } from '../../../../shared/router/index.ts';
import { createAskMetrics, QUOTE_ENDPOINT, WorkerAsker } from '../../../../shared/stateless-router/index.ts';
import type { AskedPlace, AskedPrompt } from '../../../../shared/stateless-router/quotes/ask-workers.ts';
import { MetricRegistry } from '../../../../shared/telemetry/index.ts';
import { QuoteService } from '../../../../shared/worker/calls/quote-service.ts';
import { createMemoryRequestPlane } from '../../../support/memory-request-plane.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';
import { BLOCK, NEVER, settle, worker } from '../../router-service/resident-rig.ts';

export const DEADLINE_MS = 50;

/** A worker that answers with the real service what the test says of its engine. */
export class AnsweringWorker {
  readonly id: string;
  readonly service: QuoteService;
  readonly routable: RoutableWorker;
  /** By rank. */
  prefillTokens = [0];
  cachedTokens = [0];
  activeBlocks = [0];
  refusal: ServeError | undefined;
  /** Questions that reached it. */
  asked = 0;
  /** In place of its service. */
  instead: PlaneHandler | undefined;

  constructor(id: string, clock: VirtualClock, dataParallelSize: number) {
    this.id = id;
    this.routable = worker(id, { dataParallelSize });
    this.service = new QuoteService({
      clock,
      blockSizeTokens: BLOCK,
      load: () => Array.from({ length: dataParallelSize }, (_, dpRank) => this.#loadOf(dpRank)),
      cachedTokens: () => this.cachedTokens,
      refusal: () => this.refusal,
    });
  }

  readonly serve: PlaneHandler = (call) => {
    this.asked++;
    if (this.instead === undefined) this.service.serve(call);
    else void this.instead(call);
  };

  #loadOf(dpRank: number): EngineLoad {
    const activePrefillTokens = this.prefillTokens[dpRank] ?? 0;
    const usedKvBlocks = this.activeBlocks[dpRank] ?? 0;
    return { dpRank, runningRequests: 0, waitingRequests: 0, totalKvBlocks: 1000, usedKvBlocks, activePrefillTokens };
  }
}

/** Workers on a memory plane, and processes that ask them. */
export class AskingRig {
  readonly clock = new VirtualClock();
  readonly workers: readonly AnsweringWorker[];
  readonly #plane = createMemoryRequestPlane({ clock: this.clock });
  readonly #servers: PlaneServer[] = [];

  private constructor(ids: readonly string[], dataParallelSize: number) {
    this.workers = ids.map((id) => new AnsweringWorker(id, this.clock, dataParallelSize));
  }

  static async open(ids: readonly string[], dataParallelSize = 1): Promise<AskingRig> {
    const rig = new AskingRig(ids, dataParallelSize);
    for (const { id, serve } of rig.workers) {
      const server = await rig.#plane.serve({ instanceId: id });
      server.handle(placeOf(id), serve);
      rig.#servers.push(server);
    }
    return rig;
  }

  worker(id: string): AnsweringWorker {
    return this.workers.find((each) => each.id === id) as AnsweringWorker;
  }

  /** Its process is gone. */
  async kill(id: string): Promise<void> {
    await this.#servers[this.workers.indexOf(this.worker(id))]?.close();
  }

  /** A function with what it counts. */
  process(seed = 1) {
    const registry = new MetricRegistry();
    const asker = new WorkerAsker<RoutableWorker>({
      plane: this.#plane,
      clock: this.clock,
      random: seededRandom(seed),
      timeoutMs: DEADLINE_MS,
      transportOf: ({ id }) => ({ memory: placeOf(id) }),
      metrics: createAskMetrics(registry),
    });
    const routable = this.workers.map((each) => each.routable);
    return {
      place: (prompt: AskedPrompt, signal = NEVER): Promise<AskedPlace<RoutableWorker> | undefined> =>
        asker.place(prompt, routable, signal),
      counted: async (outcome: string): Promise<number> => {
        const text = await registry.render();
        return Number(new RegExp(`stator_router_asked_total{outcome="${outcome}"} (\\d+)`).exec(text)?.[1]);
      },
    };
  }

  /** Lets happen what needs no time, then moves it. */
  async pass(ms = 0): Promise<void> {
    await settle();
    await this.clock.advance(ms);
    await settle();
  }
}

function placeOf(id: string): string {
  return `${id}/ns/backend/${QUOTE_ENDPOINT}`;
}

export function asked(id: string, tokens = 1000, more: Partial<AskedPrompt> = {}): AskedPrompt {
  return {
    id,
    homeId: 'a',
    tokens,
    blockSizeTokens: BLOCK,
    sequence: new Uint32Array(2 * Math.floor(tokens / BLOCK)),
    ...more,
  };
}
