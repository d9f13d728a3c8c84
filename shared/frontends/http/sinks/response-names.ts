import type { Inference } from '../serve-inference.ts';

/** Names that every chunk and object of one response carries. */
export interface WireNames {
  /** `chatcmpl-<id>` or `cmpl-<id>`. */
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** Primary name of the model, also if the client named an alias. */
  readonly model: string;
}

/**
 * Names of a streamed response. Its id names the worker for a cancellation, so it is made when it is first read: the
 * worker is known by then.
 */
class StreamNames implements WireNames {
  readonly created: number;
  readonly model: string;
  readonly #nameOf: () => string;
  #id: string | undefined;

  constructor(created: number, model: string, nameOf: () => string) {
    this.created = created;
    this.model = model;
    this.#nameOf = nameOf;
  }

  get id(): string {
    this.#id ??= this.#nameOf();
    return this.#id;
  }
}

/**
 * Returns the names of one response, streamed or whole. @param isShared whether several workers may have a part of it
 */
export function namesOf(
  inference: Inference,
  isStream: boolean,
  id: string,
  model: string,
  isShared = false,
): WireNames {
  const { createdSecs: created } = inference;
  if (!isStream) {
    inference.spans?.answersAs(id, false);
    return { id, created, model };
  }
  return new StreamNames(created, model, () => {
    const name = id + inference.nameOf(id, isShared);
    inference.spans?.answersAs(name, true);
    return name;
  });
}
