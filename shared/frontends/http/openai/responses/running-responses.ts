import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';

/** A response that is being made in this process. */
export interface RunningResponse {
  readonly owner: string;
  /** The response as it stands; its last state once it is over. */
  snapshot(): JsonObject;
  /** The response once it is over; undefined when it ended without one. Never rejects. */
  readonly recorded: Promise<Pick<StoredResponse, 'response' | 'pieces'> | undefined>;
}

/** The responses under way in this process, by id. Bounded by the requests that are under way. */
export class RunningResponses {
  readonly #byId = new Map<string, RunningResponse>();

  add(id: string, running: RunningResponse): void {
    this.#byId.set(id, running);
  }

  /** @param running the one that ended: a later one of the same id stays */
  remove(id: string, running: RunningResponse): void {
    if (this.#byId.get(id) === running) this.#byId.delete(id);
  }

  /** Undefined for ids that nobody works on and for those of another owner. */
  find(id: string, owner: string): RunningResponse | undefined {
    const running = this.#byId.get(id);
    return running?.owner === owner ? running : undefined;
  }
}
