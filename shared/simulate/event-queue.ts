const ROOM_INITIAL = 64;
/** Orders events of one instant by kind, then as they were added. */
const ORDERS_PER_KIND = 2 ** 45;

/**
 * Queue of events in virtual time: a binary heap over three typed arrays, so that an event allocates nothing. An event
 * is an instant, a kind (a small whole number) and a payload (an i32).
 */
export class EventQueue {
  #times = new Float64Array(ROOM_INITIAL);
  #orders = new Float64Array(ROOM_INITIAL);
  #payloads = new Int32Array(ROOM_INITIAL);
  #size = 0;
  #count = 0;

  get size(): number {
    return this.#size;
  }

  /** Time of the first event; infinity when there is none. */
  get nextMs(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : this.#times[0]!;
  }

  get nextKind(): number {
    return Math.floor(this.#orders[0]! / ORDERS_PER_KIND);
  }

  push(timeMs: number, kind: number, payload: number): void {
    if (this.#size === this.#times.length) this.#grow();
    const order = kind * ORDERS_PER_KIND + this.#count++;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(timeMs, order, parent)) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#place(at, timeMs, order, payload);
  }

  /** Takes the first event and returns its payload. Call only when there is one. */
  pop(): number {
    const payload = this.#payloads[0]!;
    const last = --this.#size;
    const timeMs = this.#times[last]!;
    const order = this.#orders[last]!;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= last) break;
      if (child + 1 < last && this.#isBefore(this.#times[child + 1]!, this.#orders[child + 1]!, child)) child++;
      if (this.#isBefore(timeMs, order, child)) break;
      this.#move(child, at);
      at = child;
    }
    this.#place(at, timeMs, order, this.#payloads[last]!);
    return payload;
  }

  #isBefore(timeMs: number, order: number, at: number): boolean {
    const other = this.#times[at]!;
    return timeMs < other || (timeMs === other && order < this.#orders[at]!);
  }

  #move(from: number, to: number): void {
    this.#place(to, this.#times[from]!, this.#orders[from]!, this.#payloads[from]!);
  }

  #place(at: number, timeMs: number, order: number, payload: number): void {
    this.#times[at] = timeMs;
    this.#orders[at] = order;
    this.#payloads[at] = payload;
  }

  #grow(): void {
    const room = 2 * this.#times.length;
    const times = new Float64Array(room);
    const orders = new Float64Array(room);
    const payloads = new Int32Array(room);
    times.set(this.#times);
    orders.set(this.#orders);
    payloads.set(this.#payloads);
    this.#times = times;
    this.#orders = orders;
    this.#payloads = payloads;
  }
}
