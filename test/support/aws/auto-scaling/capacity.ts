import type { Market } from './types.ts';

/** Launches that fail. */
export interface Shortage {
  /** Undefined: every type. */
  readonly type?: string;
  /** Undefined: every zone. */
  readonly zone?: string;
  readonly market?: Market;
  readonly code: ShortageCode;
  /** Milliseconds of the clock. @default from now on */
  readonly fromMs?: number;
  /** @default for ever */
  readonly untilMs?: number;
  /** Launches that succeed before it begins. @default 0 */
  readonly after?: number;
}

export type ShortageCode =
  | 'InsufficientInstanceCapacity'
  | 'VcpuLimitExceeded'
  | 'MaxSpotInstanceCountExceeded'
  | 'UnfulfillableCapacity'
  | 'ReservationCapacityExceeded'
  | 'InvalidParameterValue';

export interface Place {
  readonly type: string;
  readonly zone: string;
  readonly market: Market;
}

/** Schedule of what EC2 cannot launch. */
export class Capacity {
  readonly #nowMs: () => number;
  readonly #shortages: { readonly shortage: Shortage; launched: number }[] = [];

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Adds a shortage. Returns a function that ends it. */
  lack(shortage: Shortage): () => void {
    const entry = { shortage, launched: 0 };
    this.#shortages.push(entry);
    return () => {
      const index = this.#shortages.indexOf(entry);
      if (index >= 0) this.#shortages.splice(index, 1);
    };
  }

  /** Returns why a launch there fails; undefined if it succeeds, which it then counts. */
  launch(place: Place): ShortageCode | undefined {
    const now = this.#nowMs();
    const matching = this.#shortages.filter(({ shortage }) => matches(shortage, place, now));
    const failing = matching.find(({ shortage, launched }) => launched >= (shortage.after ?? 0));
    if (failing !== undefined) return failing.shortage.code;
    for (const entry of matching) entry.launched++;
    return undefined;
  }
}

function matches({ type, zone, market, fromMs = 0, untilMs }: Shortage, place: Place, nowMs: number): boolean {
  if (nowMs < fromMs || (untilMs !== undefined && nowMs >= untilMs)) return false;
  return (
    (type === undefined || type === place.type) &&
    (zone === undefined || zone === place.zone) &&
    (market === undefined || market === place.market)
  );
}

/** Returns EC2's words for a failed launch, from "Error codes for the Amazon EC2 API" and what accounts report. */
function shortageText(code: ShortageCode, { type, zone }: Place): string {
  switch (code) {
    case 'InsufficientInstanceCapacity':
      return `We currently do not have sufficient ${type} capacity in the Availability Zone you requested (${zone}). Our system will be working on provisioning additional capacity. You can currently get ${type} capacity by not specifying an Availability Zone in your request or choosing another zone.`;
    case 'VcpuLimitExceeded':
      return 'You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.';
    case 'MaxSpotInstanceCountExceeded':
      return 'Max spot instance count exceeded.';
    case 'UnfulfillableCapacity':
      return 'Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.';
    case 'ReservationCapacityExceeded':
      return 'The requested reservation does not have sufficient compatible and available capacity for this request.';
    case 'InvalidParameterValue':
      return 'Invalid value for instance type.';
  }
}

/**
 * Returns the status message of the activity. A group with a mixed instances policy launches through a fleet, whose
 * message names the market and the code; a group with a plain launch template only has EC2's words.
 */
export function failureMessage(code: ShortageCode, place: Place, isMixed: boolean): string {
  const text = shortageText(code, place);
  const market = place.market === 'spot' ? 'Spot' : 'On-Demand';
  const lead = isMixed ? `Could not launch ${market} Instances. ${code} - ` : '';
  return `${lead}${text} Launching EC2 instance failed.`;
}
