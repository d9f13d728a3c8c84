import type { Random } from '../../clock/index.ts';

/** Makes the id of a call from the call's place in the message and its name. */
export type NewCallId = (random: Random, index: number, name: string) => string;

/**
 * Ids of the calls of one message. Each is unique there: a model may count wrongly, but results are matched to calls by
 * their ids.
 */
export class CallIds {
  readonly #random: Random;
  readonly #newId: NewCallId;
  readonly #given = new Set<string>();

  constructor(random: Random, newId: NewCallId) {
    this.#random = random;
    this.#newId = newId;
  }

  /** Returns the id of the next call: `wanted`, if the model gave one and no earlier call has it. */
  next(index: number, name: string, wanted: string | undefined): string {
    let id = wanted ?? this.#newId(this.#random, index, name);
    if (this.#given.has(id)) id = this.#newId(this.#random, index, name);
    while (this.#given.has(id)) id = prefixedUuid(this.#random, index, name);
    this.#given.add(id);
    return id;
  }
}

/** Makes `call-` and a UUID, the id of most formats. */
export const prefixedUuid: NewCallId = (random) => `call-${random.uuid()}`;

/** Makes `call-1`, `call-2`, ... */
export const countedId: NewCallId = (_random, index) => `call-${index + 1}`;

/** Makes a bare UUID. */
export const bareUuid: NewCallId = (random) => random.uuid();

/** Makes `call_` and 24 hex digits. */
export const hexId: NewCallId = (random) => `call_${random.uuid().replaceAll('-', '').slice(0, 24)}`;
