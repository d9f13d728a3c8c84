import { fields, text, whole } from '../records/index.ts';
import { DiscoveryError } from './options.ts';
import type { DiscoveryRecord } from './records.ts';
import type { DrainOrder, ReportProblem } from './types.ts';

const REASON_CHARACTERS_MAX = 256;
const orderShape = fields({ reason: text(1, REASON_CHARACTERS_MAX), deadlineMs: whole(0) });

/**
 * Returns the stored form of an order.
 * @throws DiscoveryError for an order that no store accepts
 */
export function orderText({ reason, deadlineMs }: DrainOrder): string {
  const order = { reason, deadlineMs: Math.round(deadlineMs) };
  if (orderShape(order)) return JSON.stringify(order);
  const allowed = `a reason of 1 to ${REASON_CHARACTERS_MAX} characters, and a deadline in Unix milliseconds`;
  throw new DiscoveryError('misconfigured', `drain order ${JSON.stringify(order)}: allowed: ${allowed}`);
}

/** Whether an order to `ids`, which are of workers or of instances with workers, includes the worker of this record. */
export function isOrdered(record: DiscoveryRecord, ids: ReadonlySet<string>): boolean {
  if (record.type !== 'Endpoint') return false;
  return ids.has(record.instance_id) || (record.host !== undefined && ids.has(record.host.instance_id));
}

/** Passes a process the orders in its lease, each once. */
export class OwnOrders {
  readonly #report: ReportProblem;
  readonly #callbacks: ((order: DrainOrder) => void)[] = [];
  #text: string | undefined;
  #order: DrainOrder | undefined;

  constructor(report: ReportProblem) {
    this.#report = report;
  }

  /** Calls `callback` with the known order, and with each later one. */
  add(callback: (order: DrainOrder) => void): void {
    this.#callbacks.push(callback);
    if (this.#order !== undefined) callback(this.#order);
  }

  /**
   * Takes the order that a renewal found.
   * @param aheadMs milliseconds by which the clock of the store is ahead of this process's
   */
  note(text: string | undefined, aheadMs = 0): void {
    if (text === undefined || text === this.#text) return;
    this.#text = text;
    const order = readOrder(text);
    if (order === undefined) {
      this.#report(new Error(`a drain order cannot be read: ${JSON.stringify(text.slice(0, 100))}`));
      return;
    }
    this.#order = { ...order, deadlineMs: order.deadlineMs - aheadMs };
    for (const callback of this.#callbacks) callback(this.#order);
  }
}

function readOrder(text: string): DrainOrder | undefined {
  try {
    const order = JSON.parse(text) as DrainOrder;
    return orderShape(order) ? order : undefined;
  } catch {
    return undefined; // not JSON: another program wrote it
  }
}
