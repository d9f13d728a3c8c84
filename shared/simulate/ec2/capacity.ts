import type { Shortage } from './conditions.ts';

export interface Place {
  readonly zone: string;
  readonly type: string;
}

const DEFAULT_CODE = 'InsufficientInstanceCapacity';

/** Capacity that EC2 has for one option, over time. */
export class Capacity {
  readonly #shortages: readonly { readonly shortage: Shortage; launched: number }[];

  constructor(shortages: readonly Shortage[]) {
    this.#shortages = shortages.map((shortage) => ({ shortage, launched: 0 }));
  }

  /** Returns the code by which a launch fails; undefined if it succeeds, which then counts. */
  launch({ zone, type }: Place, nowS: number): string | undefined {
    const now = this.#shortages.filter(({ shortage }) => {
      const isNow = nowS >= shortage.from && nowS < (shortage.to ?? Number.POSITIVE_INFINITY);
      return isNow && (shortage.zone ?? zone) === zone && (shortage.type ?? type) === type;
    });
    const failing = now.find(({ shortage, launched }) => launched >= (shortage.instances ?? 0));
    if (failing !== undefined) return failing.shortage.code ?? DEFAULT_CODE;
    for (const entry of now) entry.launched++;
    return undefined;
  }
}

/** Returns the status message of a launch that EC2 refused. It names the code as that of a fleet's launch does. */
export function failureMessage(code: string, market: string, { zone, type }: Place): string {
  const kind = market === 'spot' ? 'Spot' : 'On-Demand';
  return `Could not launch ${kind} Instances. ${code} - no ${type} in ${zone}. Launching EC2 instance failed.`;
}
