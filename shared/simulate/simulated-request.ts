import { Sequence } from '../engines/mocker/index.ts';
import type { WorkloadNames } from './block-names.ts';
import type { SimulatedRank } from './simulated-rank.ts';

/**
 * A request on its way through a pool: what its engine computes on, and when its tokens came. One whose prompt is computed
 * apart goes through two pools, as two of these.
 */
export class SimulatedRequest extends Sequence {
  override readonly names: WorkloadNames;
  /** Its place in the workload. */
  readonly index: number;
  /** Its name in the router. */
  readonly id: string;
  readonly outputTokens: number;
  /** When it reached a router. */
  readonly arrivedMs: number;
  /** The router that decides for it. */
  readonly router: number;
  rank: SimulatedRank | undefined;
  dispatchedMs = Number.NaN;
  firstTokenMs = Number.NaN;
  lastTokenMs = Number.NaN;
  /** What computed its prompt; undefined = it does so itself. */
  readonly prefill: SimulatedRequest | undefined;
  /** Time that the blocks of its prompt took to get here. */
  transferMs = 0;

  constructor(
    index: number,
    inputTokens: number,
    outputTokens: number,
    names: WorkloadNames,
    at: { readonly nowMs: number; readonly router: number },
    prefill?: SimulatedRequest,
  ) {
    super(inputTokens, names, inputTokens + outputTokens);
    this.names = names;
    this.index = index;
    this.id = `r${index}`;
    this.outputTokens = outputTokens;
    this.arrivedMs = at.nowMs;
    this.router = at.router;
    this.prefill = prefill;
    this.isTransferred = prefill !== undefined;
  }

  /** The same request for another worker: its prompt is computed again, and the answer goes on where it was cut. */
  resumed(): SimulatedRequest {
    const { index, promptLength, outputTokens, names, arrivedMs: nowMs, router } = this;
    const next = new SimulatedRequest(index, promptLength, outputTokens - this.generated, names, { nowMs, router });
    next.firstTokenMs = this.firstTokenMs;
    next.lastTokenMs = this.lastTokenMs;
    return next;
  }

  emit(): boolean {
    const rank = this.rank!; // it was dispatched, or it would not run
    const nowMs = rank.passEndMs;
    if (this.length === this.promptLength) rank.firstTokens.push(this);
    if (Number.isNaN(this.firstTokenMs)) this.firstTokenMs = nowMs;
    else rank.gaps.add(nowMs - this.lastTokenMs);
    this.lastTokenMs = nowMs;
    if (rank.growthBlockTokens > 0 && this.length % rank.growthBlockTokens === 0) rank.grown.push(this);
    this.length++;
    if (this.generated < this.outputTokens) return false;
    rank.finished.push(this);
    return true;
  }
}
