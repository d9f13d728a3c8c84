interface Delivery<Event> {
  /** A promise for an event that takes several turns to read. */
  read(): Event | Promise<Event>;
  deliver(event: Event): void;
}

/** Hands events on in the order in which they came, at once unless one before them takes several turns to read. */
export class InOrder {
  readonly #onProblem: (problem: unknown) => void;
  #last: Promise<void> | undefined;
  #waitingBytes = 0;

  /** @param onProblem told of what cannot be read, and of a `deliver` that throws */
  constructor(onProblem: (problem: unknown) => void) {
    this.#onProblem = onProblem;
  }

  /** Messages that wait for one before them. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Resolves when nothing waits any more; undefined = nothing does. Never rejects. */
  get idle(): Promise<void> | undefined {
    return this.#last;
  }

  /** @param bytes length of the message, which is kept until its turn comes */
  push<Event>(bytes: number, delivery: Delivery<Event>): void {
    let event: Promise<Event> | undefined;
    if (this.#last === undefined) {
      try {
        const read = delivery.read();
        if (!(read instanceof Promise)) {
          delivery.deliver(read);
          return;
        }
        event = read;
      } catch (problem) {
        this.#onProblem(problem);
        return;
      }
    }
    this.#waitingBytes += bytes;
    const last = this.#follow(this.#last, event, delivery).finally(() => {
      this.#waitingBytes -= bytes;
      if (this.#last === last) this.#last = undefined;
    });
    this.#last = last;
  }

  async #follow<Event>(
    before: Promise<void> | undefined,
    event: Promise<Event> | undefined,
    { read, deliver }: Delivery<Event>,
  ): Promise<void> {
    await before;
    try {
      deliver(await (event ?? read()));
    } catch (problem) {
      this.#onProblem(problem);
    }
  }
}
