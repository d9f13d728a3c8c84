import type { Usage } from '../../../protocol/generation/index.ts';
import { addUsage } from './usage-json.ts';

/** Counts the ends of the requests of a batch, and adds up what they used. */
export class BatchUsage {
  #left: number;
  #sum: Usage | undefined;

  /** @param requests in the batch */
  constructor(requests: number) {
    this.#left = requests;
  }

  /** One request has ended; gives the usage of all when it was the last. */
  ended(usage: Usage): Usage | undefined {
    this.#sum = this.#sum === undefined ? usage : addUsage(this.#sum, usage);
    return --this.#left > 0 ? undefined : this.#sum;
  }
}
