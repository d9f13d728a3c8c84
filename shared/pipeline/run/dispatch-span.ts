import type { Reservation } from '../../router/index.ts';
import type { Span } from '../../telemetry/index.ts';
import type { PrefillLeg } from '../disaggregation/prefill-leg.ts';
import type { Worker } from '../models/model-directory.ts';

/**
 * The span of one request at one worker, from sending it until leaving it.
 *
 * @param parent of the request; undefined where no spans are made
 * @param links the attempt before, the prefill that this decode goes on from
 */
export function dispatchSpan(
  parent: Span | undefined,
  phase: 'prefill' | 'decode',
  { worker, dpRank }: Reservation<Worker>,
  links: readonly Span['context'][] = [],
): Span | undefined {
  return parent?.child('dispatch', {
    kind: 'client',
    attributes: { phase, worker_id: worker.id, dp_rank: dpRank },
    links,
  });
}

/** The spans of one request at its decode workers, one an attempt; none where no spans are made. */
export class AttemptSpans {
  readonly #parent: Span | undefined;
  #now: Span | undefined;
  #before: Span | undefined;

  /** @param parent of the request */
  constructor(parent: Span | undefined) {
    this.#parent = parent;
  }

  /** @param prefill that the decode goes on from */
  begin(reservation: Reservation<Worker>, prefill: PrefillLeg | undefined): Span | undefined {
    const links = [this.#before, prefill?.span].flatMap((span) => span?.context ?? []);
    this.#now = dispatchSpan(this.#parent, 'decode', reservation, links);
    this.#parent?.set({
      prefill_worker_id: (prefill?.worker ?? reservation.worker).id,
      decode_worker_id: reservation.worker.id,
    });
    return this.#now;
  }

  /** @param error why the attempt failed. Idempotent: the first end counts. */
  end(error?: string): void {
    this.#now?.end(error);
    this.#before = this.#now ?? this.#before;
    this.#now = undefined;
  }
}
