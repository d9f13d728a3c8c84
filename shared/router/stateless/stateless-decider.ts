import type { FleetLoads, WorkerLoad } from '../../discovery/index.ts';
import { keyOfText, type RendezvousKey, seedOf } from '../rendezvous.ts';
import type { HashedPrompt, RoutableWorker } from '../types.ts';
import {
  candidatesOf,
  chooseStateless,
  type DemandedKey,
  preferenceOf,
  type StatelessFleet,
} from './choose-stateless.ts';
import { PrefixDemand } from './prefix-demand.ts';
import { type PromptLevels, promptLevels } from './prompt-levels.ts';

/** One request, as far as the decision goes. */
export interface StatelessRequest {
  readonly id: string;
  readonly prompt: HashedPrompt;
  /** The same at all turns of a conversation, by the client's word or by how it began; undefined = not known. Others may have it, too. */
  readonly conversation: RendezvousKey | undefined;
}

/** What one request weighs beside its prompt, in prompt tokens: passes that it takes part in cost time, too. */
const REQUEST_TOKENS = 500;
/** A worker's load is no reason to pass it over while it is only that much above its share. */
const SLACK_TOKENS = 8 * REQUEST_TOKENS;
/** What is known of the workers is about that old. */
const VIEW_AGE_MS = 1000;
/** A worker computes about so much of what waits there until it is known that it waits. */
const DRAINED_TOKENS = 50_000;
/** Requests after which a process takes a beginning that it has not seen for a conversation's own. */
const REQUESTS_TO_TRUST = 4;
/** How fast that grows: after n requests a key is taken for 1 / (1 + 16 n) of the traffic more than was seen. */
const TRUST_A_REQUEST = 16;
/** What is left of another conversation when it was counted long ago is less. */
const ANOTHER = 0.5;

/** A request that this process has sent and whose worker may not have said so yet. */
interface Sent {
  readonly worker: number;
  readonly tokens: number;
  readonly atMs: number;
}

const NOTHING_SAID: FleetLoads = new Map();

/** Where one request may go, as things are when it is asked. */
export interface StatelessLook<Worker> {
  /** The worker that takes it. */
  chosen(): Worker;
  /** What places that cost about the same are told apart by. */
  readonly preference: RendezvousKey;
  /** Workers that are worth being asked, at most `count`. */
  candidates(count: number): readonly Worker[];
}

/** Decides for one pool of workers by hashing. What it needs it sees by itself: its own requests, and loads about a second old. */
export class StatelessDecider<Worker extends RoutableWorker> {
  readonly #demand = new PrefixDemand();
  readonly #blockSizeTokens: number;
  #workers: readonly Worker[] = [];
  #all = new Uint32Array(0);
  #fleet: StatelessFleet = { ids: [], seeds: new Uint32Array(0), loads: new Float64Array(0) };
  /** What the loads of the fleet were made from, beside what was sent since. */
  #said = NOTHING_SAID;
  /** In the order of their sending; those before `sentFrom` are in what the workers say. */
  #sent: Sent[] = [];
  #sentFrom = 0;

  constructor(blockSizeTokens: number) {
    this.#blockSizeTokens = blockSizeTokens;
  }

  get workers(): readonly Worker[] {
    return this.#workers;
  }

  setWorkers(workers: readonly Worker[]): void {
    if (workers === this.#workers) return;
    this.#workers = workers;
    this.#all = Uint32Array.from(workers, (_, at) => at);
    this.#fleet = {
      ids: workers.map(({ id }) => id),
      seeds: Uint32Array.from(workers, ({ id, stableId }) => seedOf(stableId ?? id)),
      loads: new Float64Array(workers.length),
    };
    this.#said = NOTHING_SAID;
    this.#sent = []; // numbers mean other workers now
    this.#sentFrom = 0;
  }

  /**
   * Where the request may go; undefined where there is no worker. Counts the request: once for each.
   * @param said loads of the workers, the same map until there are others
   * @param mayTake ids of those who may. @default all
   */
  look(
    request: StatelessRequest,
    said: FleetLoads,
    nowMs: number,
    mayTake?: ReadonlySet<string>,
  ): StatelessLook<Worker> | undefined {
    const { ids } = this.#fleet;
    const open = mayTake === undefined ? this.#all : this.#all.filter((at) => mayTake.has(ids[at] as string));
    if (open.length === 0) return undefined;
    this.#hear(said);
    this.#forgetSent(nowMs);
    const levels = this.#demanded(promptLevels(request.prompt, this.#blockSizeTokens, request.conversation));
    const ask = { levels, draw: keyOfText(request.id), slack: SLACK_TOKENS };
    const workers = this.#workers;
    const fleet = this.#fleet;
    return {
      chosen: () => workers[chooseStateless(ask, fleet, open)] as Worker,
      preference: preferenceOf(ask),
      candidates: (count) => Array.from(candidatesOf(ask, fleet, open, count), (at) => workers[at] as Worker),
    };
  }

  /** The request goes to that worker, whose load it is from now on. One that has left meanwhile is nobody's. */
  sent({ id }: Pick<Worker, 'id'>, { prompt }: StatelessRequest, nowMs: number): void {
    const worker = this.#fleet.ids.indexOf(id);
    if (worker >= 0) this.#send({ worker, tokens: prompt.tokens, atMs: nowMs });
  }

  /** How much of the traffic has each key: what was seen, and while little was seen, as much as may be. */
  #demanded(levels: PromptLevels): readonly DemandedKey[] {
    const demand = this.#demand;
    const feared = 1 / (1 + TRUST_A_REQUEST * demand.requests);
    const isTrusted = demand.requests >= REQUESTS_TO_TRUST;
    const isFirst = demand.requests === 0;
    demand.note(levels);
    const { conversation, keys } = levels;
    if (conversation !== undefined && !isFirst && demand.othersWith(conversation) < ANOTHER)
      return [{ key: conversation, share: 0, isOwn: true }];
    return keys.map((key) => {
      const others = demand.othersWith(key);
      const isOwn = isTrusted && others < ANOTHER;
      return { key, share: Math.min(1, others / demand.conversations + feared), isOwn };
    });
  }

  #hear(said: FleetLoads): void {
    if (said === this.#said) return;
    this.#said = said;
    this.#workers.forEach(({ id, dataParallelSize }, at) => {
      this.#fleet.loads[at] = loadOf(said.get(id), dataParallelSize);
    });
    for (const sent of this.#sent.slice(this.#sentFrom)) this.#weigh(sent, 1);
  }

  #send(sent: Sent): void {
    this.#sent.push(sent);
    this.#weigh(sent, 1);
  }

  #forgetSent(nowMs: number): void {
    for (; this.#sentFrom < this.#sent.length; this.#sentFrom++) {
      const oldest = this.#sent[this.#sentFrom] as Sent;
      if (oldest.atMs > nowMs - VIEW_AGE_MS) break;
      this.#weigh(oldest, -1);
    }
    if (this.#sentFrom < this.#sent.length / 2) return;
    this.#sent = this.#sent.slice(this.#sentFrom);
    this.#sentFrom = 0;
  }

  #weigh({ worker, tokens }: Sent, sign: 1 | -1): void {
    const ranks = this.#workers[worker]?.dataParallelSize ?? 1;
    this.#fleet.loads[worker]! += (sign * (REQUEST_TOKENS + tokens)) / ranks;
  }
}

/** Prompt tokens that a rank of the worker has before it, each request counted as some more. */
function loadOf(said: WorkerLoad | undefined, ranks: number): number {
  if (said === undefined) return 0;
  if (said.isDraining) return Number.POSITIVE_INFINITY;
  let load = 0;
  for (const { requests, prefillTokens } of said.ranks) {
    load += REQUEST_TOKENS * requests + Math.max(0, prefillTokens - DRAINED_TOKENS);
  }
  return load / ranks;
}
